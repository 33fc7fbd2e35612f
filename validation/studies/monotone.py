"""Whether functions that are known to rise do so, are predicted better, and are told from others by the evidence."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.special import ndtr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import Container
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.monotone import SHARE, WRONG
from bayesgp_mf.reports.page import Table
from bayesgp_mf.types import Array
from validation.reporting.checks import at_least, at_most
from validation.studies.study import Findings, Study, Task

RANGE = 10.0
LIKELIHOODS: dict[str, Likelihood] = {
    "labels": bgp.Probit(),
    "counts": bgp.Poisson(),
    "measurements": bgp.likelihoods.Gaussian(0.25),
}
DRAWS = {"labels": 20, "counts": 10, "measurements": 10}
CASES = (30, 100)
HELD_OUT = 1000
SHARE_TOLD = 0.9
NO_WORSE = {30: 0.0, 100: -0.001}
"""Least gain in log score, in nats a case: few cases are predicted better, many no worse."""


def truth(rng: np.random.Generator, rises: bool) -> Any:
    """Return a function of inputs ``(n,)``: a line and two bends, both upward, or one of them down."""
    centre = np.sort(rng.uniform(0.1, 0.9, 2)) * RANGE
    while centre[1] - centre[0] < 0.3 * RANGE:
        centre = np.sort(rng.uniform(0.1, 0.9, 2)) * RANGE
    height, width, line = rng.uniform(1.5, 3.0, 2), rng.uniform(0.3, 1.5, 2), rng.uniform(0.5, 1.5)
    height[rng.integers(2)] *= 1.0 if rises else -1.0

    def raw(x: Array) -> Array:
        return line * x / RANGE + np.tanh((x[:, None] - centre) / width) @ height / 2.0

    middle = raw(np.linspace(0.0, RANGE, 101)).mean() + rng.uniform(-0.5, 0.5)
    return lambda x: raw(x) - middle


def score(idata: Container, x: Array, y: Array, likelihood: Likelihood) -> float:
    """Return the mean log density of targets at inputs that no fit saw."""
    mean, variance = bgp.posterior(idata).latent(x[:, None])
    of_new = bgp.posterior(idata).new_likelihood
    return float(np.mean(of_new.log_partition(y, mean, variance).value))


def share_wrong(idata: Container, x: Array) -> float:
    """Return the share of inputs at which the slope has the wrong sign with more than the stated probability."""
    joint: Any = bgp.posterior(idata)
    mean, variance = joint.joint.latent_at(np.column_stack([x, np.ones_like(x)]))
    return float(np.mean(ndtr(-mean / np.sqrt(variance)) > WRONG))


def compare(of: str, n: int, seed: int, rises: bool) -> dict[str, Any]:
    """Fit the default model to targets, with slopes held to their signs and without, and say how both did."""
    likelihood = LIKELIHOODS[of]
    rng = np.random.default_rng([seed, n, rises])
    f = truth(rng, rises)
    x, x_new = rng.uniform(0.0, RANGE, n), rng.uniform(0.0, RANGE, HELD_OUT)
    t, t_new = likelihood.sample(f(x), rng), likelihood.sample(f(x_new), rng)
    y = t > 0 if likelihood.is_binary else t
    options: dict[str, Any] = {"likelihood": likelihood, "draws": 10, "random_seed": 1, "progress": False}
    began = time.process_time()
    free = bgp.fit(x[:, None], y, **options)
    between = time.process_time()
    held = bgp.fit(x[:, None], y, monotone={0: +1}, **options)
    ended = time.process_time()
    inside = x_new[(x_new > x.min()) & (x_new < x.max())]
    grid = np.linspace(x.min(), x.max(), 200)[:, None]
    falls = [float(np.mean(np.diff(bgp.posterior(idata).latent_mean(grid)) < 0)) for idata in (free, held)]
    return {
        "wrong": share_wrong(held, inside),
        "falls": falls,
        "scores": [score(idata, x_new, t_new, likelihood) for idata in (free, held)],
        "evidence": [float(idata["fit"]["log_evidence"]) for idata in (free, held)],
        "places": int(held["fit"].sizes["place"]),
        "verdict": str(held["fit"].attrs["quality"]).partition(":")[0],
        "seconds": [between - began, ended - between],
    }


def conclude(results: Mapping[str, Any]) -> Findings:
    """Judge shares of wrong slopes, log scores on rising truths, and how often the evidence tells these from others."""
    checks, rows, told = [], [], dict[tuple[str, int], list[bool]]()
    for of, draws in DRAWS.items():
        for n in CASES:
            each = {rises: [results[_name(of, n, seed, rises)] for seed in range(draws)] for rises in (True, False)}
            gain = np.array([np.diff(one["scores"])[0] for one in each[True]])
            factor = {rises: np.array([np.diff(one["evidence"])[0] for one in some]) for rises, some in each.items()}
            told[of, n] = [*(factor[True] > 0), *(factor[False] < 0)]
            wrong = float(np.mean([one["wrong"] for one in each[True]]))
            checks += [
                at_most(f"{of}, {n} cases: share of inputs with a wrong slope", wrong, SHARE),
                at_least(f"{of}, {n} cases: gain in log score", float(gain.mean()), NO_WORSE[n], "nats a case"),
            ]
            falls = np.mean([one["falls"] for one in each[True]], axis=0)
            seconds = np.median([one["seconds"] for some in each.values() for one in some], axis=0)
            places = [one["places"] for some in each.values() for one in some]
            rows.append(
                (
                    f"{of}, {n}",
                    f"{falls[0]:.3f}, {falls[1]:.4f}",
                    f"{wrong:.4f}",
                    f"{gain.mean():.4f} ± {gain.std() / np.sqrt(draws):.4f}",
                    f"{np.mean(told[of, n]):.2f}",
                    f"{np.median(factor[True]):.2f}, {np.median(factor[False]):.2f}",
                    f"{min(places)} to {max(places)}",
                    f"{seconds[0]:.2f}, {seconds[1]:.2f}",
                )
            )
    of_all = [one for (_, n), some in told.items() if n == max(CASES) for one in some]
    for what, some in (("labels", told["labels", max(CASES)]), ("all targets", of_all)):
        name = f"{what}, {max(CASES)} cases: share of truths that the evidence tells"
        checks.append(at_least(name, float(np.mean(some)), SHARE_TOLD))
    header = (
        "Targets",
        "Mean falls without, with",
        "Wrong slopes",
        "Gain in log score",
        "Told",
        "Log evidence gained, rising and other truths",
        "Places",
        "Seconds without, with",
    )
    return Findings(
        tuple(checks),
        (
            "The default model is fitted to draws from random functions, a line and two bends, with "
            "monotone={0: +1} and without. Of half of the functions one bend is downward. Scores are those of "
            f"{HELD_OUT} new cases. A truth is told where the log evidence is larger with monotone if it rises, and "
            "smaller if it does not. Functions with long flat stretches beside steep ones are told worst: a Gaussian "
            "process that rises everywhere is hardly ever flat.",
            Table("Functions that rise, and what the evidence makes of those that do not.", header, rows),
        ),
    )


def _name(of: str, n: int, seed: int, rises: bool) -> str:
    return f"{of} {n} {seed} {'rising' if rises else 'other'}"


STUDY = Study(
    "monotone",
    "Functions that are known to rise",
    [
        Task(_name(of, n, seed, rises), compare, {"of": of, "n": n, "seed": seed, "rises": rises})
        for of, draws in DRAWS.items()
        for n in CASES
        for seed in range(draws)
        for rises in (True, False)
    ],
    conclude,
)
