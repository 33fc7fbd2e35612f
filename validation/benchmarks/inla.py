"""Hyperparameters by NUTS with the latent values integrated out: ours in PyMC, beside the INLA of pymc-extras.

Both take the same model, p(labels | hyperparameters) by Laplace's approximation with its gradient, in PyMC's sampler.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array
from validation.benchmarks.goals import Goals
from validation.benchmarks.listing import Result
from validation.benchmarks.timing import Benchmark, Case, Row, in_turn
from validation.reporting.checks import Check, at_least

SIZES = (40, 80)
NOISE_SD = 0.1
"""Of latent noise: INLA needs the inverse of the covariance."""
POINT = np.array([0.1, 0.5])
"""Logarithms of length scale and scale where the density is asked for."""
MOVE = 0.01
CALLS = 15
DRAWS, RUNS = 15, 5
"""Draws in each run of the sampler; runs."""
OURS: dict[str, tuple[str, Likelihood]] = {
    "ours, laplace, logit": ("laplace", bgp.Logit()),
    "ours, tap, probit": ("tap", bgp.Probit()),
    "ours, tap, logit": ("tap", bgp.Logit()),
}
"""The first one is the approximation that INLA makes of the same model."""
PEER = "pymc-extras' INLA, logit"
MISSING = (
    "No pymc-extras with INLA is installed: its row is left out (pip install 'pymc-extras>=0.15', which may want "
    "another PyMC)."
)
MODEL = (
    "k = eta^2 exp(-d^2 / 2 l^2) + 0.01 [x = x'], one input, l ~ InverseGamma(5, 5), eta ~ Gamma(2, 1), labels drawn "
    "from the model. The first row and INLA, with its default minimiser, are Laplace's approximation to one model. "
    "Beside them the log density at one point, and how far the gradient is from central differences of it, relative to "
    "their size."
)


class Data(NamedTuple):
    """Inputs ``(n, 1)`` and labels 0/1 ``(n,)``."""

    X: Array
    y: Array


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Time single evaluations, and steps of the sampler, at each size."""
    for n in SIZES:
        kernel = bgp.kernels.Gaussian(1.0, 4.0) + bgp.kernels.White(NOISE_SD**2)
        toy = bgp.datasets.make_toy(kernel, bgp.Logit(), n=n, n_test=0, d=1, random_seed=1)
        with warnings.catch_warnings():  # INLA is experimental, and says so
            warnings.simplefilter("ignore")
            yield from tables(n, models(Data(toy.X, toy.y.astype(np.int64))), advance)


def tables(n: int, made: Mapping[str, Any], advance: Callable[[str], None]) -> Iterator[Result]:
    """Time the models of ``n`` cases by name."""
    left_out = () if PEER in made else (MISSING,)
    yield Benchmark(
        f"PyMC, n = {n}: log density and its gradient in 2 hyperparameters, one call of the compiled function",
        in_turn({name: evaluation(model) for name, model in made.items()}, CALLS, advance),
        (MODEL, *left_out),
    )
    rows = steps(made, advance)
    yield Benchmark(
        f"PyMC, n = {n}: one leapfrog step of NUTS, sampler included",
        rows,
        (f"Time of {DRAWS} draws, while the sampler adapts, over the leapfrog steps that they took.", *left_out),
    )
    if n == max(SIZES):
        yield Goals("What a leapfrog step was to cost", [goal(rows)])


def goal(rows: Sequence[Row]) -> Check:
    """Return how many times longer INLA's step takes than ours of the same approximation; no number without INLA."""
    seconds = {row.name: row.median for row in rows}
    ratio = seconds[PEER] / seconds[next(iter(OURS))] if PEER in seconds else None
    return at_least(f"a leapfrog step at n = {max(SIZES)}, {PEER} over {next(iter(OURS))}", ratio, 20.0, "times")


def models(data: Data) -> dict[str, Any]:
    """Return PyMC models of the labels by name, with the latent values integrated out; INLA's where it is installed."""
    import pymc as pm

    from bayesgp_mf.pymc import Marginal

    made: dict[str, Any] = {}
    for name, (method, likelihood) in OURS.items():
        with pm.Model() as made[name]:
            Marginal(_covariance(), likelihood, method).marginal_likelihood("y", *data)
    if has_inla():
        made[PEER] = _inla(data)
    return made


def has_inla() -> bool:
    """Whether a pymc-extras that has INLA is installed."""
    return find_spec("pymc_extras") is not None and find_spec("pymc_extras.inference.INLA") is not None


def _covariance() -> Any:
    import pymc as pm

    lengthscale, eta = pm.InverseGamma("lengthscale", 5.0, 5.0), pm.Gamma("eta", 2.0, 1.0)
    return eta**2 * pm.gp.cov.ExpQuad(1, ls=lengthscale) + pm.gp.cov.WhiteNoise(NOISE_SD)


def _inla(data: Data) -> Any:
    """Return what ``pmx.fit_INLA`` samples, with its minimiser."""
    import pymc as pm
    import pymc_extras as pmx
    import pytensor.tensor as pt

    with pm.Model() as model:
        precision = pt.linalg.inv(_covariance()(data.X))
        f = pm.MvNormal("f", mu=np.zeros(data.y.size), tau=precision)
        pm.Bernoulli("y", logit_p=f, observed=data.y)
    minimiser = {"method": "L-BFGS-B", "optimizer_kwargs": {"tol": 1e-8}}
    return pmx.marginalize(model, laplace_approx={f: precision}, minimizer_kwargs=minimiser)


def evaluation(model: Any) -> Case:
    """Return a call of the compiled log density and its gradient, each time at another point nearby."""
    function = model.logp_dlogp_function(ravel_inputs=True)
    function.set_extra_values({})
    here = iter(range(10**9))

    def run() -> tuple[Array, Array]:
        answer: tuple[Array, Array] = function(POINT + MOVE * next(here))
        return answer

    def describe(_: tuple[Array, Array]) -> str:
        value, gradient = function(POINT)
        difference = [(function(POINT + step)[0] - function(POINT - step)[0]) / 2e-4 for step in 1e-4 * np.eye(2)]
        off = float(np.linalg.norm(gradient - difference) / np.linalg.norm(difference))
        return f"log density {float(value):.2f}, gradient off by {off:.0e}"

    return Case(run, describe=describe)


def steps(models: Mapping[str, Any], advance: Callable[[str], None]) -> tuple[Row, ...]:
    """Return the time of a leapfrog step in runs of PyMC's sampler, which the models take in turn."""
    import pymc as pm

    samplers, points = {}, {}
    for name, model in models.items():
        with model:
            samplers[name], points[name] = pm.NUTS(rng=np.random.default_rng(1)), model.initial_point()
    seconds: dict[str, list[float]] = {name: [] for name in models}
    counts = dict.fromkeys(models, 0)
    for run in range(RUNS + 1):  # the first, in which steps are far from adapted, is not counted
        for name, sampler in samplers.items():
            began, count = time.perf_counter(), 0
            for _ in range(DRAWS):
                points[name], (stats,) = sampler.step(points[name])
                count += int(stats["tree_size"])  # which ArviZ calls n_steps
            if run:
                seconds[name].append((time.perf_counter() - began) / count)
                counts[name] += count
            advance(name)
    return tuple(Row(name, tuple(seconds[name]), f"{counts[name]} steps") for name in models)
