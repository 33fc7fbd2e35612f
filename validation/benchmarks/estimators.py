"""`sklearn.GPClassifier` beside scikit-learn's own classifier in the same pipeline, on five tables; on request."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import bayesgp_mf as bgp
from bayesgp_mf.types import Array
from validation.benchmarks.goals import Goals
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.peers import SKLEARN
from validation.reporting.checks import Check, at_least, at_most

SPLITS = 3
"""Random divisions of each table; times are added, and the held-out cases of all are scored together."""
MOST = 500
PART = 0.75
HEADER = ("Table", "n", "inputs", "ours, s", "theirs, s", "Ratio", "ours, log score", "theirs", "Difference", "SE")
REMARK = (
    "Pipelines that scale numbers and encode words. Ours is GPClassifier() as it is: the default model of all columns "
    "with priors, probit, TAP, one start. scikit-learn's is GaussianProcessClassifier(1.0 * RBF(1.0)), whose kernel "
    "has one length scale, logit, Laplace, one start. Seconds are of the processor, for fits. The log score is the "
    "mean log probability of the held-out labels."
)


class Compared(NamedTuple):
    """One table.

    Attributes
    ----------
    name : str
        Of the table.
    n, d : int
        Cases of a fit, inputs after they were encoded.
    seconds : (float, float)
        Ours and theirs, over all divisions.
    scores : (float, float)
        Mean log scores.
    difference, error : float
        Of ours less theirs, with its standard error over the held-out cases.
    """

    name: str
    n: int
    d: int
    seconds: tuple[float, float]
    scores: tuple[float, float]
    difference: float
    error: float

    @property
    def ratio(self) -> float:
        """How many times as long as theirs ours take."""
        return self.seconds[0] / self.seconds[1]


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Time and score all tables, then hold them against what was asked."""
    title = "Estimators: ours beside scikit-learn's"
    if not SKLEARN.installed:
        yield Listing(title, HEADER, (), (), SKLEARN.absence)
        return
    found = []
    for name, load in TABLES.items():
        found.append(compare(name, *load()))
        advance(name)
    rows = tuple(
        (
            each.name,
            f"{each.n}",
            f"{each.d}",
            *(f"{seconds:.2f}" for seconds in each.seconds),
            f"{each.ratio:.2f}",
            *(f"{score:.4f}" for score in each.scores),
            f"{each.difference:+.4f}",
            f"{each.error:.4f}",
        )
        for each in found
    )
    yield Listing(title, HEADER, rows, [each._asdict() for each in found], (REMARK,))
    yield Goals("What was asked of estimators", goals(found))


def goals(found: list[Compared]) -> list[Check]:
    """Return what was asked of each table."""
    asked = []
    for each in found:
        above = each.difference / each.error
        asked += [
            at_most(f"{each.name}: time over scikit-learn's", each.ratio, 1.5, "times"),
            at_least(f"{each.name}: log score above scikit-learn's", above, -2.0, "standard errors"),
        ]
    return asked


def compare(name: str, X: pd.DataFrame, y: Any, *, most: int = MOST, splits: int = SPLITS) -> Compared:
    """Fit both in turn to parts of a table, and score the rest of it."""
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF

    models = (bgp.sklearn.GPClassifier(random_state=1), GaussianProcessClassifier(1.0 * RBF(1.0)))
    labels, seconds = np.unique(np.asarray(y), return_inverse=True)[1], [0.0, 0.0]
    n, d = min(most, int(PART * labels.size)), 0
    logs: tuple[list[Array], list[Array]] = ([], [])
    for split in range(-1, splits):  # the first is not counted: modules are loaded then
        order = np.random.default_rng(max(split, 0)).permutation(labels.size)
        train, test = order[:n], order[n : n + MOST]
        for k, model in enumerate(models):
            pipeline = _pipeline(X, model)
            with warnings.catch_warnings():  # parameters at their bounds, on either side
                warnings.simplefilter("ignore")
                started = time.process_time()
                pipeline.fit(X.iloc[train], labels[train])
                elapsed = time.process_time() - started
            if split >= 0:
                proba = pipeline.predict_proba(X.iloc[test])
                d = pipeline[-1].n_features_in_
                logs[k].append(np.log(proba[np.arange(test.size), labels[test]]))
                seconds[k] += elapsed
    ours, theirs = (np.concatenate(each) for each in logs)
    error = float(np.std(ours - theirs, ddof=1) / np.sqrt(ours.size))
    means = float(np.mean(ours)), float(np.mean(theirs))
    return Compared(name, n, d, (seconds[0], seconds[1]), means, means[0] - means[1], error)


def _pipeline(X: pd.DataFrame, model: Any) -> Any:
    """Return a pipeline that scales the numbers of a table and encodes its words."""
    from sklearn.compose import ColumnTransformer
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import OneHotEncoder, StandardScaler

    numbers = [column for column in X if pd.api.types.is_numeric_dtype(X[column])]
    words = [column for column in X if column not in numbers]
    encoder = OneHotEncoder(sparse_output=False, handle_unknown="ignore")
    columns = ColumnTransformer([("numbers", StandardScaler(), numbers), ("words", encoder, words)])
    return make_pipeline(columns, model)


def mixed(n: int = 1000) -> tuple[pd.DataFrame, Any]:
    """Return a simulated table of numbers and words."""
    rng = np.random.default_rng(1)
    X = pd.DataFrame(
        {
            "age": rng.normal(50.0, 12.0, n),
            "dose": rng.lognormal(size=n),
            "weight": rng.normal(75.0, 10.0, n),
            "noise": rng.standard_normal(n),
            "site": rng.choice(["north", "south", "west"], n),
            "smoker": rng.choice(["no", "yes"], n, p=[0.7, 0.3]),
        }
    )
    latent = 1.5 * np.sin((X["age"] - 50.0) / 8.0) + (X["site"] == "south") * np.log(X["dose"]) * 2.0
    latent += np.where(X["smoker"] == "yes", 1.0, -0.5)
    return X, np.where(latent + rng.standard_normal(n) > 0, "ill", "well")


def _named(data: Any) -> tuple[pd.DataFrame, Any]:
    """Return both parts of one of our data sets as a frame and labels."""
    return pd.DataFrame(np.vstack([data.X, data.X_test])), np.concatenate([data.y, data.y_test])


def _cancer() -> tuple[pd.DataFrame, Any]:
    from sklearn.datasets import load_breast_cancer

    return load_breast_cancer(return_X_y=True, as_frame=True)  # type: ignore[no-any-return]


def _made() -> tuple[pd.DataFrame, Any]:
    from sklearn.datasets import make_classification

    X, y = make_classification(1000, 12, n_informative=4, n_redundant=2, flip_y=0.1, class_sep=0.7, random_state=3)
    return pd.DataFrame(X), y


TABLES: dict[str, Callable[[], tuple[pd.DataFrame, Any]]] = {
    "mixed columns": mixed,
    "breast cancer": _cancer,
    "Pima": lambda: _named(bgp.datasets.load_pima()),
    "sonar": lambda: _named(bgp.datasets.load_sonar()),
    "make_classification": _made,
}
