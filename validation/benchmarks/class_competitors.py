"""Who competes on tables of several classes: each trains on one part of a table, and predicts the other.

``python -m validation.benchmarks.class_competitors NAME TABLE SECONDS`` runs one on all parts of a table, and prints a
line of JSON for each. All Gaussian processes have one Gaussian kernel with one length scale, and tune both of its
parameters from `Split.start`. Those "on components" first choose how many principal components of the inputs to take.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array
from validation.benchmarks.contest import failure_of
from validation.benchmarks.machine import ONE_THREAD
from validation.benchmarks.peak import ROOT, resident
from validation.benchmarks.peers import SKLEARN, Peer
from validation.benchmarks.problems import SEED
from validation.multinomial.tables import DRAWN, TABLES, Split, drawn

VARIANCE = 100.0
"""Of the kernel at which numbers of components are compared, between those that are found in the tables."""

Train = Callable[[Split], Callable[[Array], Array]]
"""From cases to a function from inputs ``(m, d)`` to probabilities ``(m, C)``."""


@dataclass(frozen=True, slots=True)
class ClassCompetitor:
    """Someone who can be trained on several classes.

    Attributes
    ----------
    train : callable
        From a part of a table to a function that predicts.
    module : str
        What it imports, which is not counted as training.
    most_classes : int or None
        How many classes it takes in a time that is worth waiting for.
    peer : Peer, optional
        The package that has to be installed.
    """

    train: Train
    module: str
    most_classes: int | None = None
    peer: Peer | None = None


class Scored(NamedTuple):
    """A competitor on one part of a table.

    Attributes
    ----------
    seconds, predict : float
        Of the processor, for training, without imports, and for the predictions.
    bytes : int
        Largest resident memory of the process so far, the interpreter and all libraries in it.
    log_density : list of float
        Log probability of each held-out label, in nats.
    errors : int
        Held-out labels that are not the most probable class.
    """

    seconds: float
    predict: float
    bytes: int
    log_density: list[float]
    errors: int


class Reached(NamedTuple):
    """A competitor on a table: all parts that it came to the end of, and why it ended early if it did."""

    name: str
    parts: tuple[Scored, ...]
    failure: str = ""

    @property
    def seconds(self) -> float:
        """Of the processor, for training on all parts."""
        return sum(part.seconds for part in self.parts)

    @property
    def bytes(self) -> int:
        """Largest resident memory."""
        return max(part.bytes for part in self.parts)

    @property
    def score(self) -> float:
        """Mean log probability of the held-out labels of all parts, in nats."""
        return float(np.mean([value for part in self.parts for value in part.log_density]))

    @property
    def errors(self) -> float:
        """Share of the held-out labels of all parts that are not the most probable class."""
        cases = sum(len(part.log_density) for part in self.parts)
        return sum(part.errors for part in self.parts) / cases


def fitted(
    split: Split,
    kernel: bgp.kernels.Kernel | None,
    likelihood: Likelihood,
    method: str,
    hyper: bgp.hyper.Evidence | None = None,
    **options: Any,
) -> Any:
    """Fit by the user's door, with a single draw, and return the posterior."""
    with warnings.catch_warnings():  # a table whose classes separate
        warnings.simplefilter("ignore", bgp.BoundWarning)
        idata = bgp.fit(
            split.X,
            split.codes,
            kernel,
            likelihood,
            method=method,
            hyper=hyper,
            **options,
            draws=1,
            chains=1,
            random_seed=SEED,
            progress=False,
        )
    return bgp.posterior(idata)


def ours(split: Split, likelihood: Likelihood, method: str) -> Callable[[Array], Array]:
    """Tune the kernel by the evidence, from one start."""
    posterior = fitted(split, split.start, likelihood, method, bgp.hyper.Evidence(starts=1))
    return lambda X: np.asarray(posterior.predict_proba(X))


def by_default(split: Split) -> Callable[[Array], Array]:
    """Fit the default model, which chooses a kernel and where to begin, on the inputs as they are."""
    posterior = fitted(split, None, bgp.MultinomialProbit(), "tap")
    return lambda X: np.asarray(posterior.predict_proba(X))


def rest(split: Split) -> Callable[[Array], Array]:
    """Tune the kernel of a classifier of each class against the rest by its evidence, from one start."""
    model = classifiers(split, split.start, bgp.hyper.Evidence(starts=1))
    return lambda X: np.asarray(model.predict_proba(X))


def classifiers(split: Split, kernel: bgp.kernels.Kernel, hyper: bgp.hyper.Evidence | None = None) -> Any:
    """Fit scikit-learn's one-against-the-rest of our classifiers."""
    from sklearn.multiclass import OneVsRestClassifier

    one = bgp.sklearn.GPClassifier(kernel, bgp.Logit(), hyper=hyper, draws=1, random_state=SEED)
    with warnings.catch_warnings():  # a table whose classes separate
        warnings.simplefilter("ignore", bgp.BoundWarning)
        return OneVsRestClassifier(one).fit(split.X, split.codes)


def evidence_of_probit(split: Split, kernel: bgp.kernels.Kernel) -> float:
    """Return the log evidence of the multinomial probit at a kernel."""
    return float(fitted(split, kernel, bgp.MultinomialProbit(), "tap").log_evidence)


def evidence_of_rest(split: Split, kernel: bgp.kernels.Kernel) -> float:
    """Return the sum of the log evidences of the classifiers of each class against the rest, at a kernel."""
    return float(sum(one.log_evidence_ for one in classifiers(split, kernel).estimators_))


def on_components(
    split: Split, train: Train, log_evidence: Callable[[Split, bgp.kernels.Kernel], float]
) -> Callable[[Array], Array]:
    """Take that of `numbers_of_components` with the highest evidence before the search, and tune the kernel there."""
    from sklearn.decomposition import PCA

    pca = PCA().fit(split.X)

    def first(number: int, X: Array) -> Array:
        return np.asarray(pca.transform(X)[:, :number])

    parts = [split._replace(X=first(number, split.X)) for number in numbers_of_components(split)]
    best = max(parts, key=lambda part: log_evidence(part, replace(part.start, variance=VARIANCE)))
    predict = train(best)
    return lambda X: predict(first(best.X.shape[1], X))


def numbers_of_components(split: Split) -> list[int]:
    """Return the number of inputs, half of it, a quarter and an eighth, as long as two are left."""
    return [number for halved in range(4) if (number := split.X.shape[1] >> halved) >= 2]


def logistic(split: Split) -> Callable[[Array], Array]:
    """Fit scikit-learn's logistic regression as it is, on standardised columns, which suit its penalty."""
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=5000)).fit(split.X, split.codes)
    return lambda X: np.asarray(model.predict_proba(X))


def logistic_on_components(split: Split) -> Callable[[Array], Array]:
    """Fit scikit-learn's logistic regression on `numbers_of_components`, chosen by its cross-validated log score."""
    from sklearn.decomposition import PCA
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    pipeline = make_pipeline(StandardScaler(), PCA(), LogisticRegression(max_iter=5000))
    numbers = {"pca__n_components": numbers_of_components(split)}
    model = GridSearchCV(pipeline, numbers, scoring="neg_log_loss").fit(split.X, split.codes)
    return lambda X: np.asarray(model.predict_proba(X))


def platt(split: Split) -> Callable[[Array], Array]:
    """Fit scikit-learn's support vectors with Platt's probabilities, on the inputs as they are."""
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    model = CalibratedClassifierCV(SVC(C=10.0), ensemble=False, cv=3).fit(split.X, split.codes)
    return lambda X: np.asarray(model.predict_proba(X))


def sklearn_gpc(split: Split) -> Callable[[Array], Array]:
    """Fit scikit-learn's Gaussian process classifier, one against the rest by Laplace's approximation."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    lengthscale, variance = (float(split.start.params[name]) for name in ("lengthscale", "variance"))
    kernel = ConstantKernel(variance) * RBF(lengthscale)
    with warnings.catch_warnings():  # parameters at their bounds
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = GaussianProcessClassifier(kernel, random_state=SEED).fit(split.X, split.codes)
    return lambda X: np.asarray(model.predict_proba(X))


def fixed(split: Split, **options: Any) -> Callable[[Array], Array]:
    """Fit at the kernel from which the cases were drawn."""
    posterior = fitted(split, DRAWN, bgp.MultinomialProbit(), "tap", **options)
    return lambda X: np.asarray(posterior.predict_proba(X))


PROBIT, DEFAULT, LAPLACE, REST, LOGISTIC = (
    "multinomial probit, tap",
    "multinomial probit, default model",
    "softmax, laplace",
    "one vs rest, tap",
    "logistic regression",
)
PLATT = "support vectors with Platt, C = 10"
ON = "{}, on components"
LARGE, INDUCING = "n = 2000, C = 6", "n = 20000, C = 10, 300 inducing cases"
_FITTING = "bayesgp_mf.fitting"
_PROBIT = partial(ours, likelihood=bgp.MultinomialProbit(), method="tap")
COMPETITORS = {
    PROBIT: ClassCompetitor(_PROBIT, _FITTING),
    DEFAULT: ClassCompetitor(by_default, _FITTING),
    "softmax, tap": ClassCompetitor(partial(ours, likelihood=bgp.Softmax(), method="tap"), _FITTING, 4),
    LAPLACE: ClassCompetitor(partial(ours, likelihood=bgp.Softmax(), method="laplace"), _FITTING),
    REST: ClassCompetitor(rest, "bayesgp_mf.sklearn", peer=SKLEARN),
    ON.format(PROBIT): ClassCompetitor(
        partial(on_components, train=_PROBIT, log_evidence=evidence_of_probit), _FITTING, peer=SKLEARN
    ),
    ON.format(REST): ClassCompetitor(
        partial(on_components, train=rest, log_evidence=evidence_of_rest), "bayesgp_mf.sklearn", peer=SKLEARN
    ),
    LOGISTIC: ClassCompetitor(logistic, "sklearn.linear_model", peer=SKLEARN),
    ON.format(LOGISTIC): ClassCompetitor(logistic_on_components, "sklearn.linear_model", peer=SKLEARN),
    PLATT: ClassCompetitor(platt, "sklearn.svm", peer=SKLEARN),
    "scikit-learn's GP": ClassCompetitor(sklearn_gpc, "sklearn.gaussian_process", peer=SKLEARN),
}
"""By the name that stands in tables."""
FIXED = {
    LARGE: (fixed, partial(drawn, 2000, 6)),
    INDUCING: (partial(fixed, inducing=300), partial(drawn, 20_000, 10)),
}
"""At fixed hyperparameters: who is trained, and on what."""


def compete(name: str, table: str, limit: int) -> Reached:
    """Run a competitor on all parts of a table in a new process, for at most ``limit`` seconds of the processor."""
    command = [sys.executable, "-m", "validation.benchmarks.class_competitors", name, table, str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, env=os.environ | ONE_THREAD)
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"seconds"')]
    return Reached(name, tuple(Scored(**json.loads(line)) for line in lines), failure_of(done, limit))


def scored(train: Train, split: Split) -> Scored:
    """Train on a part of a table, and score the predictions of what is held out.

    Raises
    ------
    ValueError
        If what is predicted are no probabilities.
    """
    began = time.process_time()
    predict = train(split)
    trained = time.process_time()
    probabilities = predict(split.X_test)
    predicted = time.process_time()
    if np.any(probabilities < 0) or np.any(np.abs(probabilities.sum(axis=1) - 1.0) > 1e-6):
        raise ValueError("probabilities must be at least 0 and sum to one.")
    own = np.log(probabilities[np.arange(split.codes_test.size), split.codes_test])
    errors = int(np.sum(probabilities.argmax(axis=1) != split.codes_test))
    _, largest = resident()
    return Scored(trained - began, predicted - trained, largest, own.tolist(), errors)


def main(name: str, table: str, limit: str) -> None:
    """Train a competitor on all parts of a table, and print a line of JSON for each."""
    resource.setrlimit(resource.RLIMIT_CPU, (int(limit), int(limit) + 60))
    if name in FIXED:
        train, make = FIXED[name]
        parts, module = [make()], _FITTING
    else:
        train, parts, module = COMPETITORS[name].train, list(TABLES[table]()), COMPETITORS[name].module
    import_module(module)
    for split in parts:
        print(json.dumps(scored(train, split)._asdict()), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
