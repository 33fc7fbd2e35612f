r"""How much nearer to the truth the correction of TAP's evidence comes, and whether what it leaves is what it states.

Random problems of all kinds, and some small ones of one input, against the exact log evidence (minimax tilting): TAP,
TAP corrected to second order, and Laplace. Problems whose exact evidence is less certain than 1e-3 nats are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import log_orthant_probability
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.reports.page import Figures, Table
from bayesgp_mf.solvers.second_order import second_order
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.reporting.drawing import FIRST, QUIET, SECOND, axes_or_new, legend_above
from validation.studies.study import Findings, Study, Task

SEED = 18
RANDOM = 40
SMALL = ((1, 1.0, 1.0), (3, 9.0, 0.5), (6, 1.0, 1.0), (8, 25.0, 0.1), (10, 4.0, 0.0))
"""Cases, prior variance and noise of the problems of one input, in which the truth is the surest."""
CERTAIN = 1e-3
"""Largest standard error of an exact log evidence, in nats."""
WORTH, GROWN = 0.01, 0.005
"""In nats: errors above the first must fall, and none may grow beyond the second."""
LEAST_FALL, MEDIAN_FALL = 3.0, 10.0
TIMES, SHARE = 1.5, 0.95
"""The error that is left is below so many times what is stated, in such a share of the problems."""


def random_problem(number: int) -> tuple[Array, Array, float]:
    """Return the Gram matrix ``(n, n)``, labels ``(n,)`` -1/+1 and the noise variance of a random problem.

    The problems are drawn one after the other from one seed.
    """
    rng = np.random.default_rng(SEED)
    for _ in range(number + 1):
        n, d = int(rng.integers(5, 61)), int(rng.integers(1, 4))
        X = rng.standard_normal((n, d))
        lengthscale = float(np.exp(rng.uniform(np.log(0.3), np.log(3.0))))
        variance = float(np.exp(rng.uniform(np.log(0.5), np.log(100.0))))
        noise = float(rng.choice([0.0, 0.1, 1.0]))
        gram = bgp.kernels.Gaussian(lengthscale, variance).gram(X)
        if noise == 0.0:
            gram = gram + 1e-6 * variance * np.eye(n)
        f = np.linalg.cholesky(gram + 1e-9 * variance * np.eye(n)) @ rng.standard_normal(n)
        t = np.where(f + np.sqrt(noise) * rng.standard_normal(n) > 0, 1.0, -1.0)
        if rng.random() < 0.3:
            t = np.where(rng.random(n) < 0.5, 1.0, -1.0)
    return gram, t, noise


def small_problem(number: int) -> tuple[Array, Array, float]:
    """Return the same of a problem of one input, whose labels change sign along it."""
    n, variance, noise = SMALL[number]
    X = np.linspace(-2.0, 2.0, n)[:, None]
    gram = bgp.kernels.Gaussian(1.0, variance).gram(X)
    if noise == 0.0:
        gram = gram + 1e-6 * variance * np.eye(n)
    return gram, np.where(np.sin(2.0 * X[:, 0] + 0.3) > 0, 1.0, -1.0), noise


def evidences(kind: str, number: int) -> dict[str, float | int | None]:
    """Return log evidences of a problem, in nats.

    Returns
    -------
    dict
        ``n``; ``noise``; ``exact`` and its standard error ``error``; ``tap``; ``correction`` and ``remaining``;
        ``laplace``, None for a step, which has no mode.
    """
    gram, t, noise = (random_problem if kind == "random" else small_problem)(number)
    truth = log_orthant_probability(gram + noise * np.eye(t.size), t)
    return {
        "n": t.size,
        "noise": noise,
        "exact": truth.value,
        "error": truth.standard_error,
        **approximations(gram, t, bgp.Probit(noise), has_mode=noise > 0),
    }


def approximations(gram: Array, t: Array, likelihood: Likelihood, *, has_mode: bool) -> dict[str, float | None]:
    """Return ``tap``, ``correction``, ``remaining`` and ``laplace`` of `evidences`."""
    solution = bgp.solve(gram, t, likelihood)
    known = second_order(Problem(gram, t, likelihood), solution)
    assert known is not None
    return {
        "tap": solution.evidence.value,
        "correction": known.correction,
        "remaining": known.remaining,
        "laplace": bgp.solve(gram, t, likelihood, method="laplace").evidence.value if has_mode else None,
    }


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold the errors before and after the correction against each other and against what is stated."""
    rows = [results[task.name] for task in STUDY.tasks]
    sure = [row for row in rows if row["error"] < CERTAIN]
    before, after, stated = errors_of(sure)
    return Findings(
        checks_of(before, after, stated, len(rows)),
        (
            f"{len(SMALL)} problems of one input and {RANDOM} random ones: 5 to 60 cases in one to three dimensions, "
            "Gaussian kernels with length scales from 0.3 to 3 and variances from 0.5 to 100, probit noise of variance "
            "1 or 0.1 or none (a step), labels drawn from the model, or in three of ten at random. The truth is "
            f"the probability of an orthant; {len(rows) - len(sure)} problems whose truth is less certain than "
            f"{CERTAIN:g} nats are left out.",
            Table(
                "Errors of log evidences in nats: the exact one less the approximate.",
                ("Cases", "Noise", "Exact", "Its se", "Laplace", "TAP", "TAP, corrected", "Stated to be left"),
                [(f"{row['n']}", f"{row['noise']:g}", *row_of(row)) for row in sure],
            ),
            Figures([figure_of(before, after, stated)]),
        ),
    )


def errors_of(rows: Sequence[Mapping[str, Any]]) -> tuple[Array, Array, Array]:
    """Return the sizes of the errors before and after the correction, and what is stated to be left, ``(k,)`` each."""
    off = np.array([row["exact"] - row["tap"] for row in rows])
    correction = np.array([row["correction"] for row in rows])
    return np.abs(off), np.abs(off - correction), np.array([row["remaining"] for row in rows])


def checks_of(before: Array, after: Array, stated: Array, known: int, certain: float = CERTAIN) -> tuple[Check, ...]:
    """Return the checks, of so many problems at least three in four; the last is of a correction of the other sign."""
    worth: NDArray[np.bool_] = before > WORTH
    fall = before[worth] / np.maximum(after[worth], 1e-12)
    within = np.mean(after <= TIMES * stated + certain)
    opposite = np.abs(2.0 * before[worth] - after[worth])  # before - (-correction), whose error is at least so large
    return (
        at_least("Problems whose truth is known", before.size, 0.75 * known),
        at_least(f"Least fall of an error above {WORTH:g} nats, times", fall.min(), LEAST_FALL),
        at_least("Median fall of those, times", np.median(fall), MEDIAN_FALL),
        at_most("Largest growth of an error", np.max(after - before), GROWN, "nats"),
        at_least(f"Share of errors left below {TIMES:g} times what is stated", within, SHARE),
        at_least("Control: the other sign, error after over before, least", np.min(opposite / before[worth]), 1.5),
    )


def row_of(row: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what the table says of a problem: errors with their signs."""
    off = row["exact"] - row["tap"]
    laplace = "none" if row["laplace"] is None else f"{row['exact'] - row['laplace']:+.3f}"
    return (
        f"{row['exact']:.3f}",
        f"{row['error']:.0e}",
        laplace,
        f"{off:+.4f}",
        f"{off - row['correction']:+.4f}",
        f"{row['remaining']:.4f}",
    )


def figure_of(before: Array, after: Array, stated: Array) -> tuple[Any, str]:
    """Draw errors before and after the correction against what is stated to be left, and return it with a caption."""
    ax = axes_or_new(None)
    some = stated > 0
    ends = np.array([max(stated[some].min(), 1e-6) / 2.0, stated.max() * 2.0])
    ax.plot(ends, ends, color=QUIET, zorder=1, label="as stated")
    ax.plot(ends, TIMES * ends, "--", color=QUIET, zorder=1, label=f"{TIMES:g} times that")
    ax.plot(stated[some], np.maximum(before[some], 1e-6), "o", color=SECOND, markersize=4, label="TAP")
    ax.plot(stated[some], np.maximum(after[some], 1e-6), "o", color=FIRST, markersize=4, label="TAP, corrected")
    ax.set(xscale="log", yscale="log", xlabel="stated to be left (nats)", ylabel="error of the log evidence (nats)")
    legend_above(ax)
    return ax, "Errors before and after the correction, against what is stated to be left; both axes are logarithmic."


STUDY = Study(
    "corrected",
    "The evidence corrected to second order",
    [
        *(Task(f"small, {k}", evidences, {"kind": "small", "number": k}) for k in range(len(SMALL))),
        *(Task(f"random, {k}", evidences, {"kind": "random", "number": k}, cost=3.0) for k in range(RANDOM)),
    ],
    conclude,
)
