"""The default model beside settings that an expert would try, and beside other packages, by held-out log scores."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Evidence, LogNormal, Prior, default_model
from bayesgp_mf.kernels import Bias, Gaussian, Kernel, Linear, Matern52, Warped
from bayesgp_mf.types import Array
from validation.benchmarks.goals import Goals
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.peers import CATBOOST, GPBOOST, LIGHTGBM, SKLEARN, Peer, absences, gpboost_tuned
from validation.benchmarks.problems import Data
from validation.benchmarks.two_classes import Table, tables
from validation.reporting.checks import Check, at_least, at_most

SPLITS = 2
"""Random divisions of each table; the held-out cases of all are scored together."""
MOST, MOST_TEST = 300, 1000
"""Cases of a fit, and held-out ones, at most."""
PART = 0.75
SURE = float(np.finfo(np.float64).eps)
"""Probabilities nearer to 0 or 1 count as so near, as in scikit-learn's log_loss: some are 0 by rounding, or below."""
DEFAULT = "default"
NEAR, FAR, SHARE = 0.01, 0.03, 80.0
"""In nats, and in per cent of the tables."""
GPC, GP_BOOSTED = "sklearn GPC", "GPBoost"
REDRAWN = 1000
"""How often held-out cases are drawn anew."""
GROUPS = {False: "tables on which it was chosen", True: "tables kept apart"}
ABOUT_OURS = (
    "Mean log probability of the held-out labels, in nats. The default has bgp.fit(X, y), on columns as they are. The "
    "other columns say by how much a setting is above it. '3 sqrt(d)': a Gaussian kernel with length scales 3 sqrt(d), "
    "priors LogNormal(., 0.5), variance LogNormal(log 10, 1.5); 'one': one length scale, and a constant; 'linear': the "
    "default and a linear term; 'Matern': the default with Matern 5/2; these four on standardised columns, words as "
    "indicators. 'power': the default after Yeo and Johnson's transformation of all numbers; '-' where there are none. "
    "'Best' is by how much the best setting of ours is above the default, chosen by the same held-out cases, with the "
    "standard error of the difference. 'Luck' is how much of that is there because it was chosen so: the mean, over "
    "held-out cases drawn anew with replacement, of the lead of the best setting in these above its lead in all cases."
)
ABOUT_PEERS = (
    "By how much the default's log score is above theirs, with the standard error over held-out cases. sklearn GPC: "
    "GaussianProcessClassifier(1.0 * RBF(1.0)); logistic: LogisticRegressionCV; all on standardised columns, words as "
    "indicators. Probabilities of 0 and 1 count as 2e-16 from there."
)
ABOUT_ALL = (
    "Above: tables on which the default's log score is higher. Difference: of the default less this, its mean over "
    "tables, and standard error. Worst: its lowest. Seconds are of the processor, for a fit, predictions not counted; "
    "mean and largest."
)


class Parts(NamedTuple):
    """A table, divided: cases to fit and cases to be scored on.

    Attributes
    ----------
    X, X_test : DataFrame
        Columns as they are.
    Z, Z_test : (n, d) and (m, d) array
        Standardised, words as indicators.
    y, y_test : (n,) and (m,) array
        Labels 0/1.
    """

    X: pd.DataFrame
    X_test: pd.DataFrame
    Z: Array
    Z_test: Array
    y: Any
    y_test: Any

    @property
    def numbers(self) -> list[str]:
        """The columns that are no text."""
        return [name for name in self.X if pd.api.types.is_numeric_dtype(self.X[name])]


Predict = Callable[[], Array]
"""Returns probabilities of class 1 of the held-out cases."""
Rule = Callable[[Parts], Predict | None]
"""Fits, and returns how to predict; None where a rule has nothing to do with a table."""


class Scored(NamedTuple):
    """What came of one rule on one table.

    Attributes
    ----------
    logs : (m,) array
        Log probabilities of the held-out labels of all divisions.
    seconds : float
        Of a fit, mean over the divisions.
    """

    logs: Array
    seconds: float

    @property
    def score(self) -> float:
        """The mean log score."""
        return float(np.mean(self.logs))


class Compared(NamedTuple):
    """One table: all rules that could be applied, by name."""

    name: str
    apart: bool
    n: int
    d: int
    scored: dict[str, Scored]

    def above(self, rule: str) -> tuple[float, float]:
        """Return by how much the default's log score is above that of a rule, and the standard error."""
        if rule == DEFAULT:
            return 0.0, 0.0
        difference = self.scored[DEFAULT].logs - self.scored[rule].logs
        return float(np.mean(difference)), float(np.std(difference, ddof=1) / math.sqrt(difference.size))

    @property
    def best(self) -> str:
        """The rule of ours with the highest log score."""
        return max((rule for rule in SETTINGS if rule in self.scored), key=lambda rule: self.scored[rule].score)

    @property
    def luck(self) -> float:
        """By how much the lead of the best rule of ours is too large, since the same held-out cases chose it."""
        logs = np.array([self.scored[rule].logs for rule in SETTINGS if rule in self.scored])
        m = logs.shape[1]
        leads = (logs - self.scored[DEFAULT].logs).T
        redrawn = np.random.default_rng(0).multinomial(m, np.full(m, 1.0 / m), REDRAWN) @ leads / m
        return float(np.mean(np.max(redrawn, axis=1) - np.mean(leads, axis=0)[np.argmax(redrawn, axis=1)]))

    def numbers(self) -> dict[str, Any]:
        """Return what is written as JSON."""
        rules = {
            rule: {"score": each.score, "seconds": each.seconds, "default_above": self.above(rule)}
            for rule, each in self.scored.items()
        }
        described = {"name": self.name, "apart": self.apart, "n": self.n, "d": self.d}
        return {**described, "best": self.best, "luck": self.luck, "rules": rules}


def benchmarks(advance: Callable[[str], None], *, most: int = MOST) -> Iterator[Result]:
    """Compare all tables, list both groups, and hold them against what was asked."""
    title = f"Default model, at most {most} cases"
    if not SKLEARN.installed:
        yield Listing(title, ("Table",), (), (), SKLEARN.absence)
        return
    here, remarks = tables()
    peers, absent = _peers()
    first = here[0]  # fitted once more, since modules are loaded then
    compare(first, {**SETTINGS, **peers}, most=50, splits=1)
    found = []
    for table in here:
        found.append(compare(table, {**SETTINGS, **peers}, most=most))
        advance(table.name)
    for apart, group in GROUPS.items():
        of_group = [each for each in found if each.apart is apart]
        yield _ours(f"{title}: {group}, beside other settings", of_group, remarks)
        yield _theirs(f"{title}: {group}, beside other packages", of_group, tuple(peers), (*absent, *remarks))
        yield _summary(f"{title}: {group}, all together", of_group, [*SETTINGS, *peers])
    yield Goals("What was asked of the default model", goals(found))


def compare(table: Table, rules: dict[str, Rule], *, most: int = MOST, splits: int = SPLITS) -> Compared:
    """Fit all rules in turn to parts of a table, and score the rest of it."""
    logs: dict[str, list[Array]] = {}
    seconds: dict[str, list[float]] = {}
    n = min(most, int(PART * table.y.size))
    for split in range(splits):
        order = np.random.default_rng(split).permutation(table.y.size)
        parts = divided(table, order[:n], order[n : n + MOST_TEST])
        for name, rule in rules.items():
            with warnings.catch_warnings():  # parameters at their bounds, on either side
                warnings.simplefilter("ignore")
                started = time.process_time()
                predict = rule(parts)
                elapsed = time.process_time() - started
                if predict is not None:
                    p = np.clip(predict(), SURE, 1.0 - SURE)
                    logs.setdefault(name, []).append(np.log(np.where(parts.y_test == 1, p, 1.0 - p)))
                    seconds.setdefault(name, []).append(elapsed)
    scored = {name: Scored(np.concatenate(logs[name]), float(np.mean(seconds[name]))) for name in logs}
    return Compared(table.name, table.apart, n, table.X.shape[1], scored)


def divided(table: Table, train: Array, test: Array) -> Parts:
    """Return a table in two, with columns that do not vary among the cases to fit left out of the standardised ones."""
    X, X_test = (table.X.iloc[which].reset_index(drop=True) for which in (train, test))
    encoded = pd.get_dummies(table.X).to_numpy(np.float64)
    center, scale = encoded[train].mean(axis=0), encoded[train].std(axis=0)
    varies = scale > 0
    Z, Z_test = ((encoded[which] - center)[:, varies] / scale[varies] for which in (train, test))
    return Parts(X, X_test, Z, Z_test, table.y[train], table.y[test])


def goals(found: Sequence[Compared]) -> list[Check]:
    """Return what was asked of each group."""
    asked = []
    for apart, group in GROUPS.items():
        behind = np.array([each.above(each.best)[0] for each in found if each.apart is apart])
        near = 100.0 * float(np.mean(behind >= -NEAR))
        asked += [
            at_least(f"{group}: within {NEAR:g} of the best setting", near, SHARE, "% of tables"),
            at_most(f"{group}: farthest behind the best setting", float(np.max(0.0 - behind)), FAR, "nats"),
        ]
        for peer in (GPC, GP_BOOSTED):
            ahead = [each.above(peer)[0] > 0 for each in found if each.apart is apart and peer in each.scored]
            share = 100.0 * float(np.mean(ahead)) if ahead else None
            asked.append(at_least(f"{group}: ahead of {peer}", share, SHARE, "% of tables"))
    return asked


def _ours(title: str, found: Sequence[Compared], remarks: tuple[str, ...]) -> Listing:
    others = [rule for rule in SETTINGS if rule != DEFAULT]
    rows = []
    for each in found:
        behind, error = each.above(each.best)
        differences = [f"{-each.above(rule)[0]:+.3f}" if rule in each.scored else "-" for rule in others]
        best = ("0.000", "") if each.best == DEFAULT else (f"{-behind:.3f}", f"{error:.3f}")
        described = each.name, f"{each.n}", f"{each.d}", f"{each.scored[DEFAULT].score:.3f}"
        rows.append((*described, *differences, *best, f"{each.luck:.3f}"))
    header = ("Table", "n", "columns", DEFAULT, *others, "Best", "SE", "Luck")
    return Listing(title, header, tuple(rows), [each.numbers() for each in found], (ABOUT_OURS, *remarks))


def _theirs(title: str, found: Sequence[Compared], peers: tuple[str, ...], remarks: tuple[str, ...]) -> Listing:
    rows = []
    for each in found:
        compared = [each.above(peer) for peer in peers]
        shown = [cell for above, error in compared for cell in (f"{above:+.3f}", f"{error:.3f}")]
        rows.append((each.name, f"{each.scored[DEFAULT].score:.3f}", *shown))
    header = ("Table", DEFAULT, *(name for peer in peers for name in (peer, "SE")))
    return Listing(title, header, tuple(rows), (), (ABOUT_PEERS, *remarks))


def _summary(title: str, found: Sequence[Compared], rules: Sequence[str]) -> Listing:
    rows = []
    for rule in rules:
        there = [each for each in found if rule in each.scored]
        differences = np.array([each.above(rule)[0] for each in there])
        seconds = [each.scored[rule].seconds for each in there]
        error = float(np.std(differences, ddof=1) / math.sqrt(len(there))) if len(there) > 1 else math.nan
        compared = (f"{np.mean(differences):+.4f}", f"{error:.4f}", f"{np.min(differences):+.3f}")
        above = f"{np.sum(differences > 0)} of {len(there)}"
        score = f"{np.mean([each.scored[rule].score for each in there]):.4f}"
        of_default = ("-",) * 4 if rule == DEFAULT else (above, *compared)
        rows.append((rule, score, *of_default, f"{np.mean(seconds):.2f}", f"{np.max(seconds):.2f}"))
    header = ("Rule", "Log score", "Above", "Difference", "SE", "Worst", "s", "Most s")
    return Listing(title, header, tuple(rows), (), (ABOUT_ALL,))


def _fitted(
    X: Any, X_test: Any, y: Any, kernel: Kernel | None = None, priors: dict[str, Prior] | None = None
) -> Predict:
    """Return how to predict after a fit by the evidence from one start."""
    options: dict[str, Any] = {"draws": 1, "chains": 1, "random_seed": 1, "progress": False}
    if kernel is not None:
        options |= {"hyper": Evidence(starts=1), "priors": priors}
    idata = bgp.fit(X, y, kernel, **options)
    return lambda: np.asarray(bgp.predict(idata, X_test, draws=False)["predictions"]["p"])


def _default(parts: Parts) -> Predict:
    return _fitted(parts.X, parts.X_test, parts.y)


def _about(value: float, sd: float = 1.5) -> LogNormal:
    return LogNormal(math.log(value), sd)


def _three(parts: Parts) -> Predict:
    """The former default."""
    d = parts.Z.shape[1]
    reach = 3.0 * math.sqrt(d)
    priors: dict[str, Prior] = {"lengthscale": _about(reach, 0.5), "variance": _about(10.0)}
    return _fitted(parts.Z, parts.Z_test, parts.y, Gaussian(np.full(d, reach), 10.0), priors)


def _one(parts: Parts) -> Predict:
    reach = 1.5 * math.sqrt(parts.Z.shape[1])
    priors: dict[str, Prior] = {
        "gaussian_lengthscale": _about(reach, 1.2),
        "gaussian_variance": _about(10.0),
        "bias_variance": _about(1.0),
    }
    return _fitted(parts.Z, parts.Z_test, parts.y, Gaussian(reach, 10.0) + Bias(1.0), priors)


def _linear(parts: Parts) -> Predict:
    kernel, priors = default_model(parts.Z, parts.y)
    weight = 1.0 / parts.Z.shape[1]
    named = {**priors, "linear_weight": _about(weight)}
    return _fitted(parts.Z, parts.Z_test, parts.y, kernel + Linear(weight), named)


def _matern(parts: Parts) -> Predict:
    kernel, priors = default_model(parts.Z, parts.y)
    lengthscale, variance, level = kernel.params.values()
    swapped: Kernel = Matern52(lengthscale, variance) + Bias(level)
    if isinstance(kernel, Warped):
        swapped = Warped(swapped, kernel.columns, kernel.power, kernel.centre, kernel.scale)
    named = dict(zip(swapped.params, priors.values(), strict=True))
    return _fitted(parts.Z, parts.Z_test, parts.y, swapped, named)


def _power(parts: Parts) -> Predict | None:
    from sklearn.preprocessing import PowerTransformer

    if not parts.numbers:
        return None
    straight = PowerTransformer().fit(parts.X[parts.numbers])
    X, X_test = (
        each.assign(**dict(zip(parts.numbers, straight.transform(each[parts.numbers]).T, strict=True)))
        for each in (parts.X, parts.X_test)
    )
    return _fitted(X, X_test, parts.y)


SETTINGS: dict[str, Rule] = {
    DEFAULT: _default,
    "3 sqrt(d)": _three,
    "one": _one,
    "linear": _linear,
    "Matern": _matern,
    "power": _power,
}


def _of_sklearn(make: Callable[[], Any]) -> Rule:
    """Return the rule of a classifier in the form of scikit-learn's."""

    def rule(parts: Parts) -> Predict:
        model = make().fit(parts.Z, parts.y)
        return lambda: np.asarray(model.predict_proba(parts.Z_test)[:, 1], dtype=np.float64)

    return rule


def _gpc() -> Any:
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF

    return GaussianProcessClassifier(1.0 * RBF(1.0))


def _logistic() -> Any:
    from sklearn.linear_model import LogisticRegressionCV

    return LogisticRegressionCV(scoring="neg_log_loss", max_iter=1000)


def _lightgbm() -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(n_jobs=1, random_state=1, verbose=-1)


def _catboost() -> Any:
    from catboost import CatBoostClassifier

    return CatBoostClassifier(thread_count=1, random_seed=1, verbose=0, allow_writing_files=False)


def _gpboost(parts: Parts) -> Predict:
    fitted = gpboost_tuned(Data(parts.Z, parts.y.astype(np.float64), parts.Z_test, parts.y_test))
    return lambda: fitted.predict(parts.Z_test)


OTHERS: tuple[tuple[str, Peer, Rule], ...] = (
    (GPC, SKLEARN, _of_sklearn(_gpc)),
    ("logistic", SKLEARN, _of_sklearn(_logistic)),
    ("LightGBM", LIGHTGBM, _of_sklearn(_lightgbm)),
    ("CatBoost", CATBOOST, _of_sklearn(_catboost)),
    (GP_BOOSTED, GPBOOST, _gpboost),
)


def _peers() -> tuple[dict[str, Rule], tuple[str, ...]]:
    """Return the rules of the packages that are installed, and a remark for each other one."""
    rules = {name: rule for name, peer, rule in OTHERS if peer.installed}
    return rules, absences(LIGHTGBM, CATBOOST, GPBOOST)
