r"""Whether an average over hyperparameters is as sure as it looks: ArviZ's errors of means against their scatter.

A fit that averages is repeated with other seeds. Where ArviZ says that a mean over its draws has the Monte-Carlo
standard error s, means of different seeds must scatter by s. An average over the nodes of a rule has no such error, and
its nodes must be the same for every seed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.container.layout import SAMPLE_DIMS
from bayesgp_mf.diagnostics.importance import mean_and_error
from bayesgp_mf.hyper import HybridMonteCarlo, Integrate, LogNormal, Strategy, Surrogate
from bayesgp_mf.reports.page import Table
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.studies.study import Findings, Study, Task

SEEDS, RULE_SEEDS = 40, 4
KERNEL = bgp.kernels.Gaussian(lengthscale=3.0)
PARAMETERS = ("lengthscale", "variance")
PRIORS = {"lengthscale": LogNormal(float(np.log(3.0)), 1.5), "variance": LogNormal(0.0, 1.5)}


class Setting(NamedTuple):
    """How an average is made, and of how many of the training cases; a long chain is of few, by the fastest method."""

    strategy: Strategy
    method: str = "tap"
    cases: int | None = None
    cost: float = 1.0


SETTINGS = {
    "surrogate": Setting(Surrogate(), cost=2.0),
    "hmc": Setting(HybridMonteCarlo(iterations=200, leapfrog_steps=6, step_size=0.3, chains=2), "laplace", 60, 3.0),
    "integrate": Setting(Integrate()),
}
SAMPLED = ("surrogate", "hmc")
"""Those whose kernels are random."""
SMALLEST, LARGEST = 0.8, 1.25
"""Scatter over stated error: of 40 seeds it is uncertain by 11 %."""
RULE = 1e-3
"""Tolerance of the scatter of a rule's means, in posterior standard deviations: its search ends at the same mode."""
NAMES = {"f": "latent values", "shuffled": "control: length scale, draws in another order"}


def average(hyper: str, seed: int) -> dict[str, Any]:
    """Fit Pima once by a setting, and return means over the draws with the errors that ArviZ gives them.

    Returns
    -------
    dict
        ``mean`` and ``error``, each with a list by name: of each parameter one number, of ``f`` one for each case, of
        ``shuffled`` that of the length scale if the draws stood in another order. Of a rule the weighted mean of each
        parameter over its nodes, and its standard deviation in place of the error.
    """
    pima, (strategy, method, cases, _) = bgp.datasets.load_pima(), SETTINGS[hyper]
    options = {"hyper": strategy, "method": method, "priors": PRIORS, "random_seed": seed, "progress": False}
    idata = bgp.fit(pima.X[:cases], pima.y[:cases], KERNEL, **options)
    posterior, fit = get_group(idata, "posterior"), get_group(idata, "fit")
    if "hyperparameters_omitted" in fit.attrs:
        weights, values = fit["node_weight"].values, {name: fit[name].values for name in PARAMETERS}
        means = {name: float(weights @ values[name]) for name in PARAMETERS}
        spread = {name: np.sqrt(weights @ (values[name] - means[name]) ** 2) for name in PARAMETERS}
        return {
            "mean": {name: [mean] for name, mean in means.items()},
            "error": {name: [float(sd)] for name, sd in spread.items()},
        }
    draws = {name: posterior[name] for name in (*PARAMETERS, "f")}
    scales = posterior[PARAMETERS[0]]
    shuffled = np.random.default_rng(seed).permutation(scales.values.ravel()).reshape(scales.shape)
    draws["shuffled"] = xr.DataArray(shuffled, dims=SAMPLE_DIMS)
    found = {name: mean_and_error(values) for name, values in draws.items()}
    return {
        "mean": {name: np.atleast_1d(mean).tolist() for name, (mean, _, _) in found.items()},
        "error": {name: np.atleast_1d(error).tolist() for name, (_, error, _) in found.items()},
    }


def scatter_and_error(results: Mapping[str, Any], hyper: str, seeds: int, name: str) -> tuple[Array, Array]:
    """Return the standard deviation of the means over seeds, and the root of the mean squared error stated."""
    found = [results[_name(hyper, seed)] for seed in range(seeds)]
    means, errors = (np.array([one[what][name] for one in found]) for what in ("mean", "error"))
    return np.std(means, axis=0, ddof=1), np.sqrt(np.mean(errors**2, axis=0))


def ratio(scatter: Array, error: Array) -> float:
    """Return scatter over error; of many values the root of the ratio of their squares' sums."""
    return float(np.sqrt(np.sum(scatter**2) / np.sum(error**2)))


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold scatter against stated errors, and say by how much each strategy's means scatter."""
    checks: list[Check] = []
    rows = []
    for hyper in SAMPLED:
        for name in (*PARAMETERS, "f", "shuffled"):
            scatter, error = scatter_and_error(results, hyper, SEEDS, name)
            found, noun = ratio(scatter, error), f"{hyper}, {NAMES.get(name, name)}"
            rows.append((hyper, NAMES.get(name, name), f"{_rms(scatter):.4f}", f"{_rms(error):.4f}", f"{found:.2f}"))
            if name != "shuffled":
                checks += [at_least(f"{noun}: scatter / error", found, SMALLEST)]
                checks += [at_most(f"{noun}: scatter / error", found, LARGEST)]
            elif hyper == "surrogate":
                checks += [at_least(f"{noun}: scatter / error", found, LARGEST)]
    for name in PARAMETERS:
        scatter, spread = scatter_and_error(results, "integrate", RULE_SEEDS, name)
        found = ratio(scatter, spread)
        checks += [at_most(f"integrate, {name}: scatter of the rule's means", found, RULE, "sd")]
        rows.append(("integrate", name, f"{_rms(scatter):.6f}", "none", "-"))
    return Findings(
        tuple(checks),
        (
            f"Pima, {KERNEL!r} with log-normal priors (standard deviation 1.5), Probit, by TAP; 'hmc', which takes "
            f"thousands of solutions, by Laplace with {SETTINGS['hmc'].cases} cases. Each fit is made with {SEEDS} "
            f"seeds, those of 'integrate' with {RULE_SEEDS}. Scatter is the standard deviation of the means "
            "over seeds, the error ArviZ's mcse of a mean, its root mean square over seeds. Draws that share a kernel "
            "stand side by side in a chain; the control takes those of the length scale in random order, as if they "
            "were independent, and must look too sure.",
            Table(
                "Scatter of means over seeds, and the Monte-Carlo standard error that ArviZ states.",
                ("Strategy", "Of", "Scatter", "Error", "Ratio"),
                rows,
            ),
        ),
    )


def _rms(values: Array) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _name(hyper: str, seed: int) -> str:
    return f"{hyper}, seed {seed}"


STUDY = Study(
    "averages",
    "Monte-Carlo errors of averages over hyperparameters",
    [
        Task(_name(hyper, seed), average, {"hyper": hyper, "seed": seed}, cost=1e9 * setting.cost)
        for hyper, setting in SETTINGS.items()
        for seed in range(SEEDS if hyper in SAMPLED else RULE_SEEDS)
    ],
    conclude,
)
