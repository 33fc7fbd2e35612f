"""What `sharded.fit_stream` takes, as a table, and what must hold of each cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from scipy.sparse import csr_array

import bayesgp_mf as bgp
from bayesgp_mf import hyper, kernels, sharded
from tests.covering.arrays import Refusal, Table
from tests.covering.laws import quiet, refused_unsolved
from tests.covering.options import CLASSES, NEW

N = 40

LIKELIHOODS: dict[str, Callable[[], Any]] = {
    "probit": bgp.Probit,
    "logit": bgp.Logit,
    "probit with flips": lambda: bgp.Probit(0.5, 0.05),
    "gaussian": lambda: bgp.likelihoods.Gaussian(0.3),
    "student": lambda: bgp.StudentT(0.3, 4.0),
    "poisson": bgp.Poisson,
    "negative binomial": lambda: bgp.NegativeBinomial(2.0),
    "gamma": lambda: bgp.likelihoods.Gamma(3.0),
    "beta": lambda: bgp.likelihoods.Beta(6.0),
    "zero-inflated": lambda: bgp.likelihoods.ZeroInflated(bgp.Poisson(), 0.2),
    "hurdle": lambda: bgp.likelihoods.Hurdle(bgp.NegativeBinomial(2.0), 0.2),
    "truncated": lambda: bgp.likelihoods.Truncated(bgp.Poisson()),
    "binomial": lambda: bgp.Binomial(5),
    "ordinal": lambda: bgp.Ordinal([-0.7, 0.6], 0.5),
    "softmax": bgp.Softmax,
    "weibull": lambda: bgp.likelihoods.Weibull(2.0),
    "exponential": lambda: bgp.likelihoods.Exponential(),
    "log-normal": lambda: bgp.likelihoods.LogNormal(0.3),
    "log-logistic": lambda: bgp.likelihoods.LogLogistic(4.0),
    "censored": lambda: bgp.likelihoods.Censored(bgp.likelihoods.Weibull(2.0)),
    "noise of each": lambda: bgp.likelihoods.Gaussian(np.linspace(0.2, 0.4, N)),
}
BINARY = {"probit", "logit", "probit with flips"}

KERNELS: dict[str, Callable[[], Any]] = {
    "rough": lambda: kernels.Matern32(1.0) + kernels.Bias(),
    "with white": lambda: kernels.Gaussian([1.0, 2.0]) + kernels.White(0.1),
    "linear": lambda: kernels.Linear() + kernels.Matern52(2.0),
    "groups": lambda: kernels.Matern32(1.0, columns=[0, 1]) * kernels.Categorical(columns=[2]),
    "areas": lambda: (
        kernels.Areal(csr_array([[0, 0, 1], [0, 0, 0], [1, 0, 0]]), columns=2) + kernels.Matern12(1.0, columns=[0])
    ),
}
HYPER: dict[str, Any] = {
    "none": None,
    "evidence": hyper.Evidence(starts=1),
    "loo": hyper.LeaveOneOut(starts=1),
}
CUTS = {"one": (0, N), "three": (0, 7, 30, N), "with an empty one": (0, 20, 20, N)}
OPTIONS: dict[str, tuple[str, ...]] = {
    "likelihood": tuple(LIKELIHOODS),
    "labels": ("strings", "integers"),
    "kernel": tuple(KERNELS),
    "hyper": tuple(HYPER),
    "inducing": ("number", "inputs"),
    "parts": tuple(CUTS),
    "refine": ("none", "one"),
    "table": ("arrays", "parquet"),
}
REFUSALS = (
    Refusal(("likelihood",), lambda cell: cell["likelihood"] == "softmax", "has two classes or real targets"),
    Refusal(("likelihood",), lambda cell: cell["likelihood"] == "noise of each", "a number for each of certain cases"),
    Refusal(("likelihood",), lambda cell: cell["likelihood"] == "censored", "limits of certain cases"),
)
SLOW = (
    Refusal(
        ("likelihood", "hyper"),
        lambda cell: cell["hyper"] == "loo" and cell["likelihood"] not in {"probit", "gaussian", "poisson"},
        "takes seconds",
    ),
)
"""What the fast tests leave out."""


def drawn(cell: Mapping[str, str], rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Draw inputs, the last of which is the code of a group where the kernel has groups, and targets."""
    X = rng.normal(size=(N, 2))
    if cell["kernel"] in {"groups", "areas"}:
        X = np.column_stack([X, rng.permutation(np.resize([0.0, 1.0, 2.0], N))])
    f = 1.5 * X[:, 0] - 0.5 * X[:, 1]
    name = cell["likelihood"]
    if name == "softmax":
        return X, np.array(CLASSES)[np.digitize(f, [-0.6, 0.6])]
    y = LIKELIHOODS[name]().sample(f, rng)
    if name not in BINARY:
        return X, y
    labels = np.where(y > 0, 1, 0)
    return X, np.array(["no", "yes"])[labels] if cell["labels"] == "strings" else labels


def table(cell: Mapping[str, str], X: np.ndarray, y: np.ndarray, folder: Path, cuts: tuple[int, ...]) -> Any:
    """Return a table in parts, in memory or in files."""
    parts = [slice(a, b) for a, b in pairwise(cuts)]
    if cell["table"] == "arrays":
        return sharded.from_arrays([(X[part], y[part]) for part in parts])
    names = ["a", "b", "site"][: X.shape[1]]
    for number, part in enumerate(parts):
        pd.DataFrame(X[part], columns=names).assign(y=y[part]).to_parquet(folder / f"{len(parts)}-{number}.parquet")
    return sharded.from_parquet(str(folder / f"{len(parts)}-*.parquet"), target="y")


def check(cell: Mapping[str, str], seed: int, folder: Path) -> str:
    """Fit the table of a cell in parts, and hold it against the table in one; return what became of it."""
    rng = np.random.default_rng(seed)
    X, y = drawn(cell, rng)
    kernel, likelihood = KERNELS[cell["kernel"]](), LIKELIHOODS[cell["likelihood"]]()
    options = {
        "hyper": HYPER[cell["hyper"]],
        "inducing": 6 if cell["inducing"] == "number" else X[:6],
        "refine": 0 if cell["refine"] == "none" else 1,
        "random_seed": 1,
        "progress": False,
    }
    expected = [each for each in REFUSALS if each.refuses(cell)]
    whole = table(cell, X, y, folder, CUTS[cell["parts"]])
    with quiet():
        if expected:
            refused_unsolved(lambda: sharded.fit_stream(whole, None, kernel, likelihood, **options), expected)
            return "refused"
        fitted = sharded.fit_stream(whole, None, kernel, likelihood, **options)
        assert fitted.n == N
        X_new = np.column_stack([rng.normal(size=(NEW, 2)), *([np.resize([0.0, 2.0], NEW)] * (X.shape[1] == 3))])
        mean, variance = fitted.stream.latent(X_new)
        assert np.all(np.isfinite(mean))
        assert np.all(variance > 0)
        if cell["inducing"] == "number" or cell["hyper"] != "none":
            return "works"  # inducing inputs and the cases that tune are drawn from the parts
        single = sharded.fit_stream(table(cell, X, y, folder, (0, N)), None, kernel, likelihood, **options)
        np.testing.assert_allclose(single.log_evidence, fitted.log_evidence, rtol=1e-6, atol=1e-6)
        for a, b in zip(single.stream.latent(X_new), (mean, variance), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-4)
        if cell["refine"] == "none":
            idata = bgp.fit(X, y, kernel, likelihood, inducing=X[:6], draws=2, random_seed=1, progress=False)
            evidence = bgp.posterior(idata).solution.evidence.value
            np.testing.assert_allclose(evidence, fitted.log_evidence, rtol=1e-5, atol=1e-4)
    return "works"


TABLE = Table(OPTIONS, REFUSALS, check, SLOW)
