"""What `fit` takes, as a table: options, their values by name, and what each name stands for at 30 cases."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf import hyper, kernels, likelihoods
from bayesgp_mf.pymc import Nuts
from tests.covering import functions

N = 30
FEW = 6
"""Cases where labels are solved exactly, by integrals over orthants."""
NEW = 4
CLASSES = ("ash", "beech", "cedar")
GROUPS = ("north", "south", "west")
NEIGHBOURS = {"north": ["west"], "south": [], "west": ["north"]}
OTHER = (np.nan, np.inf, np.nan, -np.inf, 0.9)
"""Other limits of targets, of which two in five were seen."""

LIKELIHOODS: dict[str, Callable[[int], Any]] = {
    "probit": lambda n: bgp.Probit(),
    "probit with flips": lambda n: bgp.Probit(0.5, 0.05),
    "logit": lambda n: bgp.Logit(),
    "step": lambda n: bgp.Step(),
    "step with flips": lambda n: bgp.Step(0.05),
    "gaussian": lambda n: likelihoods.Gaussian(0.3),
    "gaussian, noise of each": lambda n: likelihoods.Gaussian(np.linspace(0.2, 0.4, n)),
    "poisson": lambda n: bgp.Poisson(),
    "negative binomial": lambda n: bgp.NegativeBinomial(2.0),
    "binomial": lambda n: bgp.Binomial(5),
    "binomial, trials of each": lambda n: bgp.Binomial(np.arange(n) % 4 + 1),
    "student": lambda n: bgp.StudentT(0.3, 4.0),
    "gamma": lambda n: likelihoods.Gamma(3.0),
    "beta": lambda n: likelihoods.Beta(6.0),
    "zero-inflated": lambda n: likelihoods.ZeroInflated(bgp.Poisson(), 0.2),
    "hurdle": lambda n: likelihoods.Hurdle(bgp.NegativeBinomial(2.0), 0.2),
    "truncated": lambda n: likelihoods.Truncated(bgp.Poisson()),
    "ordinal": lambda n: bgp.Ordinal([-0.7, 0.6], 0.5),
    "log-normal": lambda n: likelihoods.LogNormal(0.3),
    "weibull": lambda n: likelihoods.Weibull(2.0),
    "exponential": lambda n: likelihoods.Exponential(),
    "log-logistic": lambda n: likelihoods.LogLogistic(4.0),
    "gaussian, censored": lambda n: likelihoods.Censored(likelihoods.Gaussian(0.3), np.resize(OTHER, n)),
    "weibull, censored": lambda n: likelihoods.Censored(likelihoods.Weibull(2.0), np.resize(OTHER, n)),
    "softmax": lambda n: bgp.Softmax(),
    "multinomial probit": lambda n: bgp.MultinomialProbit(),
    "multinomial probit with flips": lambda n: bgp.MultinomialProbit(noise_variance=0.5, flip=0.05),
    "quadrature of labels": lambda n: likelihoods.Quadrature(functions.log_logistic),
    "quadrature of counts": lambda n: likelihoods.Quadrature(functions.log_poisson, "real", functions.draw_poisson),
}
SEVERAL_CLASSES = {"softmax", "multinomial probit", "multinomial probit with flips"}
BINARY = {"probit", "probit with flips", "logit", "step", "step with flips", "quadrature of labels"}
FLAT = {"step", "step with flips"}
COUNTS = {"poisson", "negative binomial", "binomial", "binomial, trials of each", "quadrature of counts"}

KERNELS: dict[str, Callable[[], Any]] = {
    "rough": lambda: kernels.Matern32(1.0) + kernels.Bias(),
    "a length scale of each": lambda: kernels.Matern52([1.0, 2.0], columns=["a", "b"]) + kernels.White(0.1),
    "smooth": lambda: kernels.Gaussian(16.0, 4.0) + kernels.Bias(),
    "linear": lambda: kernels.Linear() + kernels.Bias(),
    "groups": lambda: kernels.Matern32(1.0, columns=["a", "b"]) * kernels.Categorical(columns=["site"]),
    "groups beside": lambda: kernels.Matern12(1.0, columns=["a"]) + kernels.Categorical(columns=["site"]),
    "areas": lambda: kernels.Areal(NEIGHBOURS, columns="site") + kernels.Matern12(1.0, columns=["a"]),
    "areas alone": lambda: kernels.Areal(NEIGHBOURS, columns="site") + kernels.Bias(),
    "places": lambda: kernels.OnSphere(kernels.Matern32(150.0), ["a", "b"]) + kernels.Bias(),
    "periodic": lambda: 2.0 * kernels.Periodic(1.0, period=3.0),
    "network": lambda: kernels.NeuralNetwork(1.0, 0.5) + kernels.RationalQuadratic(2.0),
    "of each class": lambda: kernels.PerClass(*(kernels.Matern32(scale) for scale in (1.0, 1.5, 2.0))),
}
WITH_GROUPS = {"groups", "groups beside", "areas", "areas alone"}

MATRICES: dict[str, Callable[[Any], dict[str, Any]]] = {
    "auto": lambda X: {},
    "dense": lambda X: {"control": bgp.Control(gram="dense")},
    "low rank": lambda X: {"control": bgp.Control(gram="low_rank")},
    "inducing": lambda X: {"inducing": 5},
    "inducing inputs": lambda X: {"inducing": X[:5]},
    "inducing that move": lambda X: {"inducing": bgp.Inducing(5, search=4, rows=20, rounds=2, move=True)},
}
ON_INDUCING = {"inducing", "inducing inputs", "inducing that move"}

METHODS = ("tap", "laplace", "naive", "variational", "online", "exact", "svm")

HYPER: dict[str, Any] = {
    "none": None,
    "evidence": hyper.Evidence(starts=1),
    "corrected evidence": hyper.Evidence(starts=1, corrected=True),
    "loo": hyper.LeaveOneOut(starts=1),
    "scan": hyper.Scan(),
    "integrate": hyper.Integrate(starts=1, points=3),
    "surrogate": hyper.Surrogate(nodes=30, training=6),
    "hmc": hyper.HybridMonteCarlo(iterations=2, leapfrog_steps=1),
    "nuts": Nuts(draws=2, tune=2, chains=1),
}
AVERAGES = {"integrate", "surrogate", "hmc", "nuts"}

FIT: dict[str, tuple[str, ...]] = {
    "likelihood": tuple(LIKELIHOODS),
    "kernel": tuple(name for name in KERNELS if name != "areas alone"),  # whose labels contradict each other
    "matrix": tuple(MATRICES),
    "method": METHODS,
    "hyper": tuple(HYPER),
    "offset": ("none", "numbers"),
    "weights": ("none", "counts", "fractions"),
    "frame": ("numpy", "pandas", "polars", "xarray"),
    "draws": ("1 of 1", "5 of 2"),
    "marginals": ("gaussian", "tilted"),
    "corrected": ("no", "yes"),
    "saved": ("no", "yes"),
}
"""The options of `fit`, `predict` and `loo`. Of the first six, every triple of values stands in some cell."""
FIRST_SIX = tuple(FIT)[:6]


@dataclass(frozen=True)
class Data:
    """Cases of a cell as pandas objects, in no frame yet."""

    X: pd.DataFrame
    y: np.ndarray
    offset: np.ndarray | None
    weights: np.ndarray | None

    def of(self, rows: np.ndarray) -> Data:
        """Return some of the cases, in any order and as often as they stand there."""
        some = (None if each is None else each[rows] for each in (self.y, self.offset, self.weights))
        return Data(self.X.iloc[rows].reset_index(drop=True), *some)  # type: ignore[arg-type]


def inputs(kernel: str, rng: np.random.Generator, n: int) -> pd.DataFrame:
    """Return inputs: two numbers, and what tells groups where the kernel does."""
    X = pd.DataFrame(rng.normal(size=(n, 2)), columns=["a", "b"])
    X.loc[:1, "a"] = 1.2, -1.2  # a label of each kind
    return X.assign(site=rng.permutation(np.resize(GROUPS, n))) if kernel in WITH_GROUPS else X


def draw(cell: Mapping[str, str], rng: np.random.Generator, n: int = N) -> Data:
    """Draw the cases of a cell: a plane, seen through its likelihood."""
    n = FEW if cell["method"] == "exact" and cell["likelihood"] in BINARY else n
    X = inputs(cell["kernel"], rng, n)
    offset = rng.normal(0.0, 0.3, n) if cell["offset"] == "numbers" else None
    f = 1.5 * X["a"].to_numpy() - 0.5 * X["b"].to_numpy() + (0.0 if offset is None else offset)
    name = cell["likelihood"]
    if name in SEVERAL_CLASSES:
        y = np.array(CLASSES)[np.clip(np.round(f + rng.normal(0.0, 0.4, n)), -1, 1).astype(int) + 1]
        y[:3] = CLASSES
    elif name in FLAT:
        y = np.where(f > 0, 1, 0)
    else:
        y = LIKELIHOODS[name](n).sample(f, rng)
    if name in BINARY:
        y = np.where(y > 0, 1, 0)
        y[:2] = 1, 0
    drawn = {"none": None, "counts": rng.permutation(np.resize([1.0, 2.0, 0.0, 1.0], n))}
    drawn["fractions"] = rng.permutation(np.linspace(0.3, 1.4, n))
    return Data(X, y, offset, drawn[cell["weights"]])


def framed(kind: str, X: pd.DataFrame, codes: bool = False) -> Any:
    """Return inputs as a frame of another kind; as an array, columns of text stand as objects."""
    if kind == "numpy":
        return X.to_numpy(dtype=object if "site" in X and not codes else None)
    if kind == "polars":
        return pl.from_pandas(X)
    if kind == "xarray":
        return xr.Dataset({name: ("row", X[name].to_numpy()) for name in X}, {"row": np.arange(len(X))})
    return X


def column(kind: str, values: np.ndarray | None) -> Any:
    """Return numbers of each case as a column of a frame."""
    if values is None or kind == "numpy":
        return values
    if kind == "polars":
        return pl.Series(values)
    if kind == "xarray":
        return xr.DataArray(values, {"row": np.arange(len(values))}, ("row",))
    return pd.Series(values)


def kernel_of(cell: Mapping[str, str]) -> Any:
    """Return the kernel of a cell, whose columns are positions where inputs have no names."""
    kernel = KERNELS[cell["kernel"]]()
    if cell["frame"] != "numpy":
        return kernel
    return kernel.with_column_names(["a", "b", "site"])


def likelihood_of(cell: Mapping[str, str], n: int = N) -> Any:
    """Return the likelihood of a cell."""
    return LIKELIHOODS[cell["likelihood"]](n)


def arguments(cell: Mapping[str, str], data: Data, kernel: Any = None, likelihood: Any = None) -> dict[str, Any]:
    """Return what `fit` is called with for a cell."""
    kernel = kernel_of(cell) if kernel is None else kernel
    n, kind = len(data.y), cell["frame"]
    strategy = HYPER[cell["hyper"]]
    draws, _, chains = cell["draws"].partition(" of ")
    X = framed(kind, data.X)
    options = {
        "X": X,
        "y": column(kind, data.y),
        "kernel": kernel,
        "likelihood": likelihood_of(cell, n) if likelihood is None else likelihood,
        "method": cell["method"],
        "hyper": strategy,
        "offset": column(kind, data.offset),
        "weights": column(kind, data.weights),
        "draws": int(draws),
        "chains": int(chains),
        "marginals": cell["marginals"],
        "random_seed": 1,
        "progress": False,
        **MATRICES[cell["matrix"]](framed("pandas" if kind != "numpy" else kind, data.X)),
    }
    if strategy is not None:
        names = list(kernel.params)
        smooth = cell["kernel"] == "smooth" and cell["hyper"] != "scan"  # a shorter length scale has no low rank
        tuned = [name for name in names if ("variance" if smooth else "lengthscale") in name][:1] or names[:1]
        options["fixed"] = [name for name in names if name not in tuned]
        if cell["hyper"] in AVERAGES:
            options["fixed"] += [name for name in options["likelihood"].parameters if name not in names]
        options["priors"] = {tuned[0]: hyper.LogNormal(0.0, 1.0)}
    return options
