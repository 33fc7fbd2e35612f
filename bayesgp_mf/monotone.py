"""Functions that rise or fall in some inputs: at which places their slopes are held to that, and the fit with them.

A function is held to it where its posterior breaks it most, a few places at a time, until it hardly does anywhere.
"""

from __future__ import annotations

import json
import numbers
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesgp_mf.errors import ConvergenceWarning, warn
from bayesgp_mf.hyper import Strategy
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.kernels import Kernel, Slope
from bayesgp_mf.kernels.functionals import WITH_SLOPES
from bayesgp_mf.kernels.given_slopes import WithSlopes, as_values
from bayesgp_mf.kernels.values import positions
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.with_slopes import RISES, DataAndSlopes
from bayesgp_mf.processes.given_slopes import PosteriorGivenSlopes
from bayesgp_mf.processes.process import Process, Tuned
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.solvers.given_slopes import GivenSigns
from bayesgp_mf.types import Array

MONOTONE = "monotone"
"""Attribute of the group ``fit`` of what `describe_monotone` says."""
WRONG = 0.25
"""A place breaks it where the posterior probability of the wrong sign of the slope is above this. (That of a Gaussian
posterior is up to 0.16 where the slope is held to be positive and the data would rather have it negative.)"""
SHARE = 0.01
"""Places are added until at most this share of those looked at breaks it."""
FIRST = 8
"""Places of each column to begin with, spread over the data's range ..."""
ALIKE = 0.9
"""... but none whose slope is more correlated with that of another one, before there are data."""
AT_ONCE = 4
"""Places of each column that are added together."""
MOST = 100
"""Places in all: beyond, a warning says that the function still breaks it."""
LOOKED_AT = 400
"""Of the data, and of places on lines through them, of each column."""
LINES = 20
GOLDEN = 0.6180339887
"""Of the steps between them, by which they move from one round to the next."""
ROUNDS = 10
"""Of choosing hyperparameters with the places that are there, and of looking at others than those before."""

Data: TypeAlias = tuple[Kernel, Array, Array, Likelihood]
"""Kernel, inputs ``(n, d)``, targets and likelihood."""


def as_monotone(monotone: Any, names: Sequence[str] | None, kernel: Kernel, X: Array) -> dict[int, float]:
    """Return the sign of the slope by position of the column, or raise a ValueError that says what is wrong."""
    given = monotone if isinstance(monotone, Mapping) else {}
    if not given or any(
        isinstance(sign, bool) or not isinstance(sign, numbers.Real) or sign not in (1, -1) for sign in given.values()
    ):
        raise ValueError(f"monotone must say +1 or -1 of columns, such as {{'dose': +1}}, got {monotone!r:.80}.")
    if not kernel.has_slopes:
        raise ValueError(
            f"monotone needs a kernel whose functions have slopes that are known here, and {kernel!r} is none. Use "
            f"{WITH_SLOPES}; noise goes into the likelihood."
        )
    try:
        found = dict(zip(positions(tuple(given), names), map(float, given.values()), strict=True))
        for column in found:
            Slope(kernel, column).terms(X[:1])
    except ValueError as error:
        raise ValueError(f"monotone must be of columns of numbers that the kernel reads: {error}") from error
    for name, column in zip(given, found, strict=True):
        if np.ptp(X[:, column]) == 0:
            raise ValueError(f"monotone is of column {name!r}, which has one value in all cases. Leave it out.")
    return found


def check_monotone(
    likelihood: Likelihood, inducing: object, strategy: Strategy | None, solvers: tuple[Solver, Solver]
) -> None:
    """Raise a ValueError if slopes cannot be held to their signs with these arguments of `fit`."""
    if likelihood.has_classes or likelihood.forbids:
        raise ValueError(
            "monotone is of one latent value for each case, with noise or flips, and this likelihood is "
            f"{likelihood!r}. Use one of two classes, such as Probit(), of levels, counts or numbers."
        )
    for solver in solvers:
        if solver.solve(Problem(np.eye(1), np.ones(1), RISES)).evidence.kind != "ep":
            raise ValueError(
                f"monotone needs method='tap', and this is {solver.name!r}: what is said of slopes has next to no "
                "noise, which other methods are far from."
            )
    if inducing is not None:
        raise ValueError("monotone needs the Gram matrix of all cases. Leave out inducing, or monotone.")
    if strategy is not None and strategy.corrected:
        raise ValueError("monotone goes by TAP's evidence as it is. Leave out corrected=True of the strategy in hyper.")
    if strategy is not None and not strategy.averages and not strategy.for_evidence:
        raise ValueError(
            f"monotone with hyper={strategy.name!r} would count how well slopes are predicted, which no one has "
            "seen. Use hyper='evidence', an average such as 'integrate', or None."
        )


def describe_monotone(signs: Mapping[int, float]) -> str:
    """Return the attribute that says which slopes have which sign, and what share of places may break it."""
    stated = {str(column): int(sign) for column, sign in signs.items()}
    return json.dumps({"signs": stated, "share": SHARE, "wrong": WRONG})


def fit_monotone(
    choose: Callable[[Data, Solver, Solver], Tuned],
    data: Data,
    signs: Mapping[int, float],
    solvers: tuple[Solver, Solver],
    control: Control,
    names: Sequence[str] | None,
    *,
    searches: bool,
) -> Tuned:
    """Return what came of a choice of hyperparameters with slopes held to their signs, as a posterior of the data.

    Parameters
    ----------
    choose : callable
        Chooses hyperparameters, given data and methods, and solves.
    data : tuple
        Its kernel is where to start.
    signs : mapping of int to float
        +1 or -1 by position of the column.
    solvers : pair of Solver
        That of the posterior, and the one that judges hyperparameters.
    control : Control
        Of the first.
    names : sequence of str, optional
        Of the inputs.
    searches : bool
        Whether hyperparameters are searched for.
    """
    _, X, t, _ = data
    (solver, judge), n = solvers, len(X)
    if searches:  # from where the data alone lead: from elsewhere it may end at a lower maximum
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # nothing of this is an answer
            (alone,) = choose(data, solver, judge).posterior.parts
        data = alone.kernel, X, t, alone.problem.likelihood
    given = GivenSigns(solver)
    both = given, given if judge is solver else GivenSigns(judge)
    places = _spread(WithSlopes(data[0]), _candidates(X, signs, 0, data[0]))
    for number in range(ROUNDS):
        candidates = _candidates(X, signs, number, data[0])
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")  # the last one is the answer
            found = choose(_with_places(data, places), *both)
        posterior, before = found.posterior, len(places)
        best: Any = posterior.parts[int(np.argmax(posterior.weights))]
        data = best.kernel.before_slopes, X, t, best.problem.likelihood.likelihood
        while len(places) < MOST and (more := _most_broken(posterior, candidates)).size:
            places = np.vstack([places, more])
            posterior = _solved(data, places, solver, control)
        if len(places) == before:
            break
    for one in heard:
        warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
    share = float(np.mean(_wrong(found.posterior, candidates) > WRONG))
    if share > SHARE:
        warn(
            f"monotone: of {len(candidates)} places in the data's range {share:.0%} break it still, with slopes "
            f"held to their signs at {len(places)}. The data may speak against it: compare a fit without monotone.",
            ConvergenceWarning,
        )
    parts: Any = found.posterior.parts
    each = [PosteriorGivenSlopes.of(part, n, solver, control, names) for part in parts]
    return replace(found, posterior=found.posterior.with_parts(each))


def _with_places(data: Data, places: Array) -> Data:
    """Return the same of data and, after them, of slopes at places."""
    kernel, X, t, likelihood = data
    n, m = len(X), len(places)
    together = np.vstack([as_values(X), places])
    return WithSlopes(kernel), together, np.append(t, np.ones(m)), DataAndSlopes(likelihood, np.arange(n + m) >= n)


def _solved(data: Data, places: Array, solver: Solver, control: Control) -> Posterior:
    """Return the posterior of data and slopes at one setting of the hyperparameters."""
    kernel, X, t, likelihood = _with_places(data, places)
    problem = Problem(kernel.gram(X), t, likelihood, covariance=True)
    return Posterior(kernel, X, problem, solver.solve(problem, control), solver)


def _candidates(X: Array, signs: Mapping[int, float], number: int, kernel: Kernel) -> Array:
    """Return places at which slopes are looked at, others for each number, but none where a slope is zero for sure."""
    found = np.vstack([_of_column(X, column, sign, number) for column, sign in signs.items()])
    with np.errstate(divide="ignore", invalid="ignore"):  # a slope without prior variance, over its noise
        return found[np.isfinite(WithSlopes(kernel).diag(found))]


def _of_column(X: Array, column: int, sign: float, number: int) -> Array:
    """Return the data, and places on lines through some of them over the range of the column."""
    some = X[_even(len(X), LOOKED_AT)]
    others = np.delete(X, column, axis=1)
    _, first = np.unique(others, axis=0, return_index=True)
    lines = X[first[_even(first.size, LINES)]]
    count = LOOKED_AT // len(lines)
    shares = (np.arange(count) + number * GOLDEN % 1.0) / (count - 1)  # each number has its own between those before
    levels = X[:, column].min() + np.ptp(X[:, column]) * np.minimum(shares, 1.0)
    on_lines = np.repeat(lines, len(levels), axis=0)
    on_lines[:, column] = np.tile(levels, len(lines))
    found = np.unique(np.vstack([some, on_lines]), axis=0)
    return np.column_stack([found, np.full(len(found), sign * (column + 1))])


def _even(n: int, most: int) -> NDArray[np.intp]:
    """Return numbers of at most so many of n, at equal steps."""
    return np.unique(np.linspace(0, n - 1, min(n, most)).astype(np.intp))


def _correlations(kernel: Kernel, places: Array, others: Array) -> Array:
    """Return prior correlations of slopes ``(places, others)``, without signs."""
    return np.abs(kernel.cross(places, others) / np.sqrt(np.outer(kernel.diag(places), kernel.diag(others))))


def _spread(kernel: Kernel, candidates: Array) -> Array:
    """Return places of each column that are far from each other, as the prior has it, in the order of candidates."""
    chosen: list[int] = []
    for kind in np.unique(candidates[:, -1]):
        rows = np.flatnonzero(candidates[:, -1] == kind)
        near = np.zeros(rows.size)
        for _ in range(FIRST):
            if near.min() > ALIKE:
                break
            chosen.append(int(rows[np.argmin(near)]))
            near = np.maximum(near, _correlations(kernel, candidates[rows], candidates[chosen[-1:]])[:, 0])
    return candidates[chosen]


def _wrong(process: Process, candidates: Array) -> Array:
    """Return the posterior probability that slopes have the wrong sign."""
    found = np.zeros(len(candidates))
    for weight, part in zip(process.weights, process.parts, strict=True):
        mean, variance = part.latent_at(candidates)
        found += weight * ndtr(-mean / np.sqrt(variance))
    return found


def _most_broken(process: Process, candidates: Array) -> Array:
    """Return a few places that break it most, not too near each other; none if the share of those is small."""
    wrong = _wrong(process, candidates)
    if np.mean(wrong > WRONG) <= SHARE:
        return candidates[:0]
    kernel, chosen = process.parts[0].kernel, list[int]()
    for kind in np.unique(candidates[:, -1]):
        rows = np.flatnonzero((candidates[:, -1] == kind) & (wrong > WRONG))
        for _ in range(AT_ONCE):
            if not rows.size:
                break
            worst = rows[np.argmax(wrong[rows])]
            chosen.append(int(worst))
            rows = rows[_correlations(kernel, candidates[rows], candidates[[worst]])[:, 0] < ALIKE]
    return candidates[chosen]
