r"""Simulation-based calibration: whether the posteriors of each method are right on average [1]_.

Latent values are drawn from the prior and labels from them. Among draws of the exact posterior the rank of the true
value is uniform, for every function of the latent values. An approximation that is too sure puts the truth too
often at either end, one that is too wide too often in the middle, and a biased one to one side.

References
----------
.. [1] Talts, S., Betancourt, M., Simpson, D., Vehtari, A., & Gelman, A. (2018). Validating Bayesian inference
   algorithms with simulation-based calibration. https://arxiv.org/abs/1804.06788
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import make_container
from bayesgp_mf.diagnostics.uniformity import UniformRanks
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.methods import get_method
from bayesgp_mf.processes.process import Marginals
from bayesgp_mf.reports.page import Block, Figures, Table
from bayesgp_mf.types import Array
from validation.reporting.checks import at_least, at_most
from validation.reporting.drawing import BAND, FIRST, QUIET, SECOND, axes_or_new, legend_above
from validation.studies.study import Findings, Study, Task

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container

CASES = 50
DRAWS = 99
REPLICATIONS = 1000
BLOCK = 50
KERNEL = bgp.kernels.Matern32(lengthscale=1.0, variance=4.0)
LIKELIHOODS = {"probit": bgp.Probit(noise_variance=1.0), "step": bgp.Step()}
"""The first is what is asked of TAP; the second, without noise, is the hardest there is, and shows where TAP ends."""
LEVEL = 0.99
"""Of the bands: a share of 0.01 of exact methods would leave them."""
SMALLEST, LARGEST = 0.01, 0.001
"""A method passes if uniform ranks are as far off with at least the first probability; the control must be below the
second."""


class Way(NamedTuple):
    """A way to make draws."""

    method: str
    marginals: Marginals = "gaussian"
    scale: float = 1.0  # of the draws about their mean


WAYS = {
    "TAP": Way("tap"),
    "TAP, tilted": Way("tap", "tilted"),
    "naive": Way("naive"),
    "variational": Way("variational"),
    "Laplace": Way("laplace"),
    "online": Way("online"),
    "control": Way("tap", scale=0.7),
}
QUANTITIES = {"f": "f at a random case", "mean_f": "mean of f"}


def ranks(likelihood: str, seed: int, replications: int) -> dict[str, dict[str, list[int]]]:
    """Return the ranks of the truth among draws, by method and quantity, for data sets drawn from the prior."""
    ways = ways_for(likelihood)
    rng = np.random.default_rng([2022, seed])
    X = np.random.default_rng(1).standard_normal((CASES, 2))  # the same in all blocks
    gram = KERNEL.gram(X)
    root = np.linalg.cholesky(gram)
    found: dict[str, dict[str, list[int]]] = {name: {q: [] for q in QUANTITIES} for name in ways}
    methods = dict.fromkeys(way.method for way in ways.values())  # three ways are TAP's
    for _ in range(replications):
        truth, case = root @ rng.standard_normal(CASES), int(rng.integers(CASES))
        problem = bgp.Problem(gram, LIKELIHOODS[likelihood].sample(truth, rng), LIKELIHOODS[likelihood])
        with one_thread_if_small(CASES):
            solved = {method: get_method(method).solve(problem) for method in methods}
        for name, way in ways.items():
            posterior = bgp.Posterior(KERNEL, X, problem, solved[way.method])
            f, mean = posterior.draw(DRAWS, rng, way.marginals).f, posterior.mean_at_training
            f = mean + way.scale * (f - mean)
            found[name]["f"].append(int(np.count_nonzero(f[:, case] < truth[case])))
            found[name]["mean_f"].append(int(np.count_nonzero(f.mean(axis=1) < truth.mean())))
    return found


def ways_for(likelihood: str) -> dict[str, Way]:
    """Return what to try: Laplace's method has no answer to a step, whose posterior has no summit inside."""
    return {name: way for name, way in WAYS.items() if not (name == "Laplace" and likelihood == "step")}


def to_container(found: Mapping[str, Array]) -> Container:
    """Return ranks by quantity in the layout that simuk writes and arviz-plots reads: the group ``prior_sbc``."""
    variables = {name: (("chain", "draw"), np.asarray(values)[None, :]) for name, values in found.items()}
    coords = {"chain": [0], "draw": np.arange(len(next(iter(found.values()))))}
    return make_container({"prior_sbc": xr.Dataset(variables, coords)})


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold the ranks of all blocks against uniform ones."""
    found = {likelihood: _joined(results, likelihood) for likelihood in LIKELIHOODS}
    uniform = UniformRanks(found["probit"]["TAP"]["f"].size, DRAWS)
    checks = [
        bound(f"{name}, {noun}: chance of uniform ranks as far off", uniform.p_value(found["probit"][name][q]), chance)
        for name, bound, chance in (("TAP", at_least, SMALLEST), ("control", at_most, LARGEST))
        for q, noun in QUANTITIES.items()
    ]
    spread = {likelihood: uniform.spread(found[likelihood]["TAP"]["mean_f"]) for likelihood in LIKELIHOODS}
    error = np.sqrt(0.8 / uniform.count)  # the relative variance of a squared uniform deviation is 4/5
    blocks: list[Block] = [
        f"{uniform.count} times, latent values of {CASES} cases are drawn from the prior (Matérn 3/2, length scale 1, "
        f"variance 4, inputs in the plane) and labels from the likelihood; each method, at these hyperparameters, "
        f"makes {DRAWS} draws, among which the truth has a rank. The control is TAP with all deviations from the mean "
        "taken times 0.7. It must fail, and TAP must pass under the probit likelihood with noise variance 1. Under the "
        "step likelihood, without noise, no method is asked to.",
        "Single values and the mean of all values ask different things: the first is about marginals, the second about "
        "how latent values hang together. Where approximations are too sure, it is first of the mean of f. For TAP the "
        f"spread of its ranks is {spread['probit']:.2f} ± {error:.2f} under the probit likelihood (1 would be right; "
        f"the bands, which are for departures of any shape, see less) and {spread['step']:.2f} ± {error:.2f} under the "
        "step. Tilted marginals leave the dependence as it is, and so this spread too.",
    ]
    for likelihood, noun in (("probit", "probit likelihood"), ("step", "step likelihood")):
        chance = {(name, q): uniform.p_value(v) for name, qs in found[likelihood].items() for q, v in qs.items()}
        failing = [f"{name} ({QUANTITIES[q]})" for (name, q), p in chance.items() if name != "control" and p < SMALLEST]
        blocks += [
            f"Under the {noun}, not calibrated at a level of {SMALLEST:g}: {', '.join(failing) or 'none'}.",
            Table(
                f"How far the ranks are from uniform ones, {noun}. Chance: that uniform ranks are as far off "
                "somewhere. Mean: of the ranks, from 0 to 1; above 0.5 the truth lies above the draws. Spread: "
                f"variance of the ranks relative to that of uniform ones, ± {error:.2f}; above 1, too sure.",
                ("Method", *(f"{q}: {column}" for q in QUANTITIES.values() for column in ("chance", "mean", "spread"))),
                [
                    (name, *(cell for q in QUANTITIES for cell in _cells(chance[name, q], uniform, qs[q])))
                    for name, qs in found[likelihood].items()
                ],
            ),
            Figures([_panel(f"{name}, {noun}", qs, uniform) for name, qs in found[likelihood].items()]),
        ]
    return Findings(tuple(checks), tuple(blocks))


def _joined(results: Mapping[str, Any], likelihood: str) -> dict[str, dict[str, Array]]:
    """Return the ranks of all blocks by method and quantity."""
    blocks = [results[_name(likelihood, k)] for k in range(REPLICATIONS // BLOCK)]
    return {
        name: {q: np.concatenate([block[name][q] for block in blocks]) for q in QUANTITIES}
        for name in ways_for(likelihood)
    }


def _name(likelihood: str, block: int) -> str:
    return f"{likelihood}, replications {BLOCK * block + 1} to {BLOCK * (block + 1)}"


def _cells(chance: float, uniform: UniformRanks, found: Array) -> tuple[str, str, str]:
    mean = float(np.mean(found + 0.5)) / (uniform.draws + 1.0)
    return f"{chance:.4f}", f"{mean:.3f}", f"{uniform.spread(found):.3f}"


def _panel(name: str, found: Mapping[str, Array], uniform: UniformRanks) -> tuple[Any, str]:
    ax = axes_or_new(None)
    low, high = uniform.band(LEVEL)
    ax.fill_between(uniform.levels, low, high, step="mid", color=BAND, linewidth=0)
    ax.axhline(0.0, color=QUIET, linewidth=0.8)
    for (quantity, noun), color in zip(QUANTITIES.items(), (FIRST, SECOND), strict=True):
        ax.step(uniform.levels, uniform.excess(found[quantity]), where="mid", color=color, label=noun, linewidth=1.2)
    reach = max(0.06, 1.1 * max(float(np.abs(uniform.excess(values)).max()) for values in found.values()))
    ax.set(xlabel="rank of the truth, from 0 to 1", ylabel="distribution function less uniform", ylim=(-reach, reach))
    legend_above(ax)
    return ax, f"{name}: ranks against uniform ones, with the band that holds {100 * LEVEL:g} % of exact methods."


STUDY = Study(
    "calibration",
    "Simulation-based calibration",
    [
        Task(
            _name(likelihood, k),
            ranks,
            {"likelihood": likelihood, "seed": k, "replications": BLOCK},
            cost=1e9,  # a few seconds, as of the larger perceptrons
        )
        for likelihood in LIKELIHOODS
        for k in range(REPLICATIONS // BLOCK)
    ],
    conclude,
)
