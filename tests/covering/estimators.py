"""What the estimators of scikit-learn take, as a table, and what must hold of each cell."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

import bayesgp_mf as bgp
from bayesgp_mf import hyper, kernels
from bayesgp_mf.sklearn import GPClassifier, GPRegressor
from tests.covering.arrays import Refusal, Table
from tests.covering.laws import quiet, refused_unsolved
from tests.covering.options import CLASSES, NEIGHBOURS, NEW, framed, inputs

N = 24

LIKELIHOODS: dict[str, Callable[[], Any]] = {
    "two classes": lambda: None,
    "logit": bgp.Logit,
    "probit with flips": lambda: bgp.Probit(0.5, 0.05),
    "three classes": lambda: None,
    "softmax": bgp.Softmax,
    "measurements": lambda: None,
    "student": lambda: bgp.StudentT(0.3, 4.0),
    "poisson": bgp.Poisson,
    "negative binomial": lambda: bgp.NegativeBinomial(2.0),
    "gamma": lambda: bgp.likelihoods.Gamma(3.0),
    "beta": lambda: bgp.likelihoods.Beta(6.0),
    "zero-inflated": lambda: bgp.likelihoods.ZeroInflated(bgp.Poisson(), 0.2),
    "hurdle": lambda: bgp.likelihoods.Hurdle(bgp.NegativeBinomial(2.0), 0.2),
    "truncated": lambda: bgp.likelihoods.Truncated(bgp.Poisson()),
    "weibull": lambda: bgp.likelihoods.Weibull(2.0),
    "censored": lambda: bgp.likelihoods.Censored(bgp.likelihoods.Weibull(2.0)),
}
SEVERAL = {"three classes", "softmax"}
COUNTS = {"poisson", "negative binomial", "zero-inflated", "hurdle", "truncated"}
OF_THEIR_OWN = {"gamma", "beta", "truncated", "weibull"}
"""Likelihoods whose targets are no numbers, or no counts, of any kind."""
CLASSIFIER = {"two classes", "logit", "probit with flips", *SEVERAL}

KERNELS: dict[str, Callable[[], Any]] = {
    "default": lambda: None,
    "rough": lambda: kernels.Matern32(1.0) + kernels.Bias(),
    "groups": lambda: kernels.Matern32(1.0, columns=["a", "b"]) * kernels.Categorical(columns=["site"]),
    "areas": lambda: kernels.Areal(NEIGHBOURS, columns=["site"]) + kernels.Matern12(1.0, columns=["a"]),
}
HYPER: dict[str, Any] = {
    "none": None,
    "evidence": hyper.Evidence(starts=1),
    "loo": hyper.LeaveOneOut(starts=1),
    "integrate": hyper.Integrate(starts=1, points=3),
}
OPTIONS: dict[str, tuple[str, ...]] = {
    "likelihood": tuple(LIKELIHOODS),
    "labels": ("strings", "integers", "booleans"),
    "kernel": tuple(KERNELS),
    "method": ("default", "tap", "laplace", "naive"),
    "hyper": tuple(HYPER),
    "inducing": ("none", "some"),
    "weights": ("none", "counts", "fractions"),
    "frame": ("numpy", "pandas", "polars"),
}

REFUSALS = (
    Refusal(
        ("likelihood", "method"),
        lambda cell: cell["likelihood"] in SEVERAL and cell["method"] == "naive",
        "has one latent value for each case",
    ),
    Refusal(
        ("likelihood", "method", "weights"),
        lambda cell: cell["likelihood"] in SEVERAL and cell["method"] == "tap" and cell["weights"] != "none",
        "weights of several classes go with Softmax",
    ),
)
TUNED = {"loo": {"two classes", "measurements", "poisson"}, "integrate": {"two classes", "measurements", *COUNTS}}
"""Likelihoods with which these take no seconds; Student's t, from one start, may find no solution at all."""
SLOW = (
    Refusal(
        ("likelihood", "hyper"),
        lambda cell: (
            cell["likelihood"] not in TUNED.get(cell["hyper"], LIKELIHOODS)
            or (cell["likelihood"] == "student" and cell["hyper"] != "none")
        ),
        "takes seconds",
    ),
)
"""What the fast tests leave out."""


def targets(cell: Mapping[str, str], f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw targets of a function; labels in one of three ways to write them."""
    name = cell["likelihood"]
    if name not in CLASSIFIER:
        if name == "censored":
            times, last = bgp.likelihoods.Weibull(2.0).sample(0.5 * f, rng), rng.exponential(2.0, f.size)
            pairs = zip(times <= last, np.minimum(times, last), strict=True)
            return np.array(list(pairs), dtype=[("event", bool), ("time", float)])
        if name in OF_THEIR_OWN:
            return LIKELIHOODS[name]().sample(0.5 * f, rng)
        return rng.poisson(np.exp(0.5 * f)) if name in COUNTS else f + 0.3 * rng.normal(size=f.size)
    codes = np.digitize(f + 0.3 * rng.normal(size=f.size), [-0.6, 0.6] if name in SEVERAL else [0.0])
    codes[:3] = 0, 1, 2 if name in SEVERAL else 0
    if cell["labels"] == "strings":
        return np.array(CLASSES)[codes]
    return codes if cell["labels"] == "integers" or name in SEVERAL else codes > 0


def estimator(cell: Mapping[str, str]) -> Any:
    """Return the estimator of a cell."""
    kernel = KERNELS[cell["kernel"]]()
    if kernel is not None and cell["frame"] == "numpy":
        kernel = kernel.with_column_names(["a", "b", "site"])
    return (GPClassifier if cell["likelihood"] in CLASSIFIER else GPRegressor)(
        kernel,
        LIKELIHOODS[cell["likelihood"]](),
        method=None if cell["method"] == "default" else cell["method"],
        hyper=HYPER[cell["hyper"]],
        inducing=None if cell["inducing"] == "none" else 6,
        draws=2,
        random_state=1,
    )


def answers(fitted: Any, X: Any) -> np.ndarray:
    """Return probabilities of classes, or means."""
    return np.asarray(fitted.predict_proba(X) if hasattr(fitted, "predict_proba") else fitted.predict(X))


def check(cell: Mapping[str, str], seed: int, folder: Path) -> str:
    """Fit the estimator of a cell, and hold it against what must hold; return what became of it."""
    rng = np.random.default_rng(seed)
    X = inputs(cell["kernel"], rng, N)
    y = targets(cell, 1.5 * X["a"].to_numpy() - 0.5 * X["b"].to_numpy(), rng)
    weights = {
        "none": None,
        "counts": np.concatenate([np.ones(3), np.resize([2.0, 0.0, 1.0], N - 3)]),
        "fractions": rng.permutation(np.linspace(0.3, 1.4, N)),
    }[cell["weights"]]
    given = estimator(cell)
    expected = [each for each in REFUSALS if each.refuses(cell)]
    with quiet():
        if expected:
            refused_unsolved(lambda: given.fit(framed(cell["frame"], X), y, sample_weight=weights), expected)
            return "refused"
        before = {name: str(value) for name, value in given.get_params(deep=False).items()}
        fitted = given.fit(framed(cell["frame"], X), y, sample_weight=weights)
        assert {name: str(value) for name, value in fitted.get_params(deep=False).items()} == before
        new = framed(cell["frame"], inputs(cell["kernel"], rng, NEW))
        first = answers(fitted, new)
        are_proper(cell, fitted, new, first, y)
        np.testing.assert_array_equal(answers(pickle.loads(pickle.dumps(fitted)), new), first)
        if cell["hyper"] == "none":  # a search from the same seed is that of the tests of `fit`
            again = clone(fitted).fit(framed(cell["frame"], X), y, sample_weight=weights)
            np.testing.assert_allclose(answers(again, new), first, rtol=1e-9, atol=1e-12)
        if cell["hyper"] == "none" and cell["inducing"] == "none":
            some = rng.permutation(N if weights is None else np.flatnonzero(weights))
            part = None if weights is None else weights[some]
            other = clone(fitted).fit(framed(cell["frame"], X.iloc[some].reset_index(drop=True)), y[some], part)
            # without the cases of weight zero targets that are normalised have another mean
            if cell["likelihood"] != "measurements" or len(some) == N:
                np.testing.assert_allclose(answers(other, new), first, rtol=1e-3, atol=2e-4)
    return "works"


def are_proper(cell: Mapping[str, str], fitted: Any, new: Any, first: np.ndarray, y: np.ndarray) -> None:
    """Answers are finite, of the right form, and those of the container."""
    assert np.all(np.isfinite(first))
    assert np.all(np.isfinite(np.asarray(fitted.score(new, fitted.predict(new)))))
    if cell["likelihood"] not in CLASSIFIER:
        return
    np.testing.assert_array_equal(fitted.classes_, np.unique(y))
    assert first.shape == (NEW, len(fitted.classes_))
    np.testing.assert_allclose(first.sum(axis=1), 1.0, atol=1e-9)
    assert fitted.predict(new).dtype == np.asarray(y).dtype
    known = fitted.idata_.copy()
    bgp.predict(known, new, draws=False)
    p = known["predictions"]["p"].values
    np.testing.assert_allclose(first if p.ndim == 2 else first[:, 1], p, rtol=1e-9, atol=1e-12)


TABLE = Table(OPTIONS, REFUSALS, check, SLOW)
