"""How long a choice of hyperparameters will take with dense matrices, said before it begins."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np

from bayesgp_mf.errors import LowRankError, warn
from bayesgp_mf.hyper.objective import NO_SOLUTION
from bayesgp_mf.hyper.strategy import Strategy
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.assembly import SMALLEST, check_inducing, check_shared_kernel
from bayesgp_mf.inference.inducing import ROWS, SEARCH

LONG_SECONDS = 60.0
"""What takes longer is said before."""
INDUCING = 500
"""Inducing cases that are proposed instead."""
STEPS = 10
"""Of a solution, about, whatever the form of the matrix; one takes twice the products n^3, or n M^2."""
TIMED = 500
"""Cases of which one solution is timed; the time of all of them goes with the cube of their number."""


def warn_if_long(target: Target, strategy: Strategy) -> None:
    """Warn, before any work, if the solutions that a strategy takes will be more than a minute of dense matrices."""
    n, count = target.t.size, strategy.solutions(target)
    if n < SMALLEST or count is None:
        return
    try:
        if not target.problem_at(target.model).matrix.is_whole:
            return
        some = _seconds_of_some(target)
        seconds = (n / TIMED) ** 3 * some
    except (*NO_SOLUTION, LowRankError):
        return  # the strategy will say why
    if count * seconds < LONG_SECONDS:
        return
    warn(
        f"n = {n}: hyper={strategy.name!r} with the dense matrix will take about {_in_words(count * seconds)}, some "
        f"{count} solutions of {_in_words(seconds)} each{_instead(target, strategy, count, some)}. A random subset of "
        "the cases takes less, as the cube of their number. So does a kernel whose Gram matrix is of low rank (smooth, "
        "with few inputs or long length scales), fewer starts, or hyper='evidence' in place of an average.",
        UserWarning,
    )


def _instead(target: Target, strategy: Strategy, count: int, some: float) -> str:
    """Return how long it would take on inducing cases, in words; nothing where they are none for it."""
    try:
        check_shared_kernel(target.kernel)
        check_inducing(target.likelihood, target.solver)
    except ValueError:
        return ""
    rows, whole = min(target.t.size, ROWS), STEPS * target.t.size * INDUCING**2
    search = count * whole if strategy.averages else count * STEPS * rows * SEARCH**2 + whole
    return f"; inducing={INDUCING} takes about {_in_words(some * search / (STEPS * TIMED**3))}"


def _seconds_of_some(target: Target) -> float:
    """Return the seconds that one solution of some of the cases takes."""
    some = np.random.default_rng(0).choice(target.t.size, TIMED, replace=False)
    control = replace(target.control, throw=False, gram="dense")
    fewer = replace(target.of_cases(some), control=control)
    began = time.perf_counter()
    fewer.solver.solve(fewer.problem_at(fewer.model), control)  # whose likelihood is of these cases
    return time.perf_counter() - began


def _in_words(seconds: float) -> str:
    """Return a length of time to one or two digits."""
    for length, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} seconds" if seconds >= 2.0 else f"{seconds:.1g} seconds"
