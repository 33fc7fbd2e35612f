"""Who competes on large tables: each trains on its cases, and yields a function that predicts whenever it is worth it.

All Gaussian processes have a Matern 3/2 kernel with one length scale for each input and a probit, and tune both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.types import Array
from validation.benchmarks.peers import GPBOOST, GPFLOW, SKLEARN, Peer, gpboost_tuned
from validation.benchmarks.problems import SEED, Data
from validation.benchmarks.svgp import svgp

Predict = Callable[[Array], Array]
"""From inputs ``(m, d)`` to probabilities of class 1, ``(m,)``."""


@dataclass(frozen=True, slots=True)
class Competitor:
    """Someone who can be trained.

    Attributes
    ----------
    train : callable
        From the data to functions that predict, one for each checkpoint.
    modules : tuple of str
        What it imports, which is not counted as training.
    peer : Peer, optional
        The package that has to be installed.
    gaussian_process : bool
        Whether it is one.
    """

    train: Callable[[Data], Iterator[Predict]]
    modules: tuple[str, ...]
    peer: Peer | None = None
    gaussian_process: bool = True


def logistic(data: Data) -> Iterator[Predict]:
    """Fit scikit-learn's logistic regression."""
    from sklearn.linear_model import LogisticRegression

    yield _of_sklearn(LogisticRegression(max_iter=1000).fit(data.X, data.y))


def boosting(data: Data) -> Iterator[Predict]:
    """Fit scikit-learn's histogram gradient boosting, whose early stopping chooses the number of trees."""
    from sklearn.ensemble import HistGradientBoostingClassifier

    model = HistGradientBoostingClassifier(max_iter=2000, early_stopping=True, random_state=SEED)
    yield _of_sklearn(model.fit(data.X, data.y))


def _of_sklearn(model: Any) -> Predict:
    return lambda X: np.asarray(model.predict_proba(X)[:, 1])


def gpboost(data: Data, **approximation: Any) -> Iterator[Predict]:
    """Fit GPBoost by one of its approximations."""
    yield gpboost_tuned(data, "matern_ard", cov_fct_shape=1.5, **approximation).predict


def ours(
    data: Data, lengthscale: Sequence[float] | None = None, variance: float = 1.0, **options: Any
) -> Iterator[Predict]:
    """Fit by the user's door, with a single draw; from length scales of 1 if none are given."""
    kernel = bgp.kernels.Matern32(np.ones(data.X.shape[1]) if lengthscale is None else lengthscale, variance)
    more = {"draws": 1, "chains": 1, "random_seed": SEED, "progress": False}
    idata = bgp.fit(data.X, data.y, kernel, bgp.Probit(), **options, **more)
    yield bgp.posterior(idata).predict_proba


FITC = {"gp_approx": "fitc", "num_ind_points": 200}
VECCHIA = {"gp_approx": "vecchia", "num_neighbors": 20}
SVGPS = ((200, 1000), (200, 6000), (200, 12_000), (500, 2500), (500, 5000))
"""Points and steps: what it reaches in a given time depends on how many steps its learning rate is told of."""
LENGTHSCALE = (1.1, 23.7, 25.9, 779.0, 28.1, 425.0, 191.0, 84.1, 66.8, 219.0, 81.1, 24.7, 213.0)
VARIANCE = 58.6
"""Of flights, for fits at fixed hyperparameters: where a search on 100,000 of them ended."""
SOONER = {
    "tap, 300 inducing cases, tuned on 5,000 cases": bgp.Inducing(300, search=200, rows=5000, rounds=1),
    "tap, 800 inducing cases, tuned on 7,000 cases": bgp.Inducing(800, search=250, rows=7000, rounds=2),
    "tap, 900 inducing cases, tuned on 7,000 cases": bgp.Inducing(900, search=300, rows=7000, rounds=2),
    "tap, 1000 inducing cases, tuned on 7,000 cases": bgp.Inducing(1000, search=300, rows=7000, rounds=2),
    "tap, 800 inducing cases, tuned on 12,000 cases": bgp.Inducing(800, search=350, rows=12_000, rounds=2),
    "tap, 1000 inducing cases, tuned on 12,000 cases": bgp.Inducing(1000, search=350, rows=12_000, rounds=2),
}
OURS, FIXED = "tap, 1000 inducing cases", "tap, 500 inducing cases, fixed"
_FITTING, _GPBOOST, _GPFLOW = ("bayesgp_mf.fitting",), ("gpboost",), ("tensorflow", "gpflow")
COMPETITORS = {
    OURS: Competitor(partial(ours, inducing=1000, hyper="evidence"), _FITTING),
    **{name: Competitor(partial(ours, inducing=given, hyper="evidence"), _FITTING) for name, given in SOONER.items()},
    "logistic regression": Competitor(logistic, ("sklearn.linear_model",), SKLEARN, gaussian_process=False),
    "gradient boosting": Competitor(boosting, ("sklearn.ensemble",), SKLEARN, gaussian_process=False),
    "GPBoost, FITC, 200 points": Competitor(partial(gpboost, **FITC), _GPBOOST, GPBOOST),
    "GPBoost, Vecchia, 20 neighbours": Competitor(partial(gpboost, **VECCHIA), _GPBOOST, GPBOOST),
    **{
        f"SVGP, {points} points, {steps} steps": Competitor(partial(svgp, points=points, steps=steps), _GPFLOW, GPFLOW)
        for points, steps in SVGPS
    },
    FIXED: Competitor(partial(ours, lengthscale=LENGTHSCALE, variance=VARIANCE, inducing=500), _FITTING),
}
"""By the name that stands in tables."""
