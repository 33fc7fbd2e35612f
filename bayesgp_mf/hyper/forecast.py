"""How long a choice of hyperparameters will take, said while there is still time to choose another."""

from __future__ import annotations

import time

import numpy as np

from bayesgp_mf.errors import warn
from bayesgp_mf.inference.assembly import check_inducing, check_shared_kernel, expected_rank
from bayesgp_mf.inference.inducing import ROWS
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.memory import PEAK, ROOTS, SEARCH_SECONDS, SECONDS_A_CASE
from bayesgp_mf.types import Array

LONG_SECONDS = 60.0
"""What takes longer is said."""
FEWEST_SEEN, ENOUGH_SECONDS = 4, 10.0
"""Points of a search that are seen before anything is said of the others, unless two or three took so long. The first
may take twenty times as long as the others, which are solved from it."""
FROM = ROWS
"""Cases from which on a first solution may take minutes, so that what it will be is said before it."""
INDUCING = 500
"""Inducing cases that are proposed instead, or taken where nothing was said."""
MOST_DENSE = 3000
"""Cases, at most, of which the default model makes dense matrices: a search with more takes minutes."""
FEWER_INDUCING = (
    "Fewer inducing cases take less, as the square of their number. So does hyper='evidence' in place of an average: "
    "it searches on a part of the cases."
)
"""Advice where there are inducing cases already."""
SECONDS_A_NUMBER = SECONDS_A_CASE / INDUCING**2
"""Of a solution, for each case and each pair of columns of the root."""
DENSE = 0.4
"""... and of a dense matrix, for as many columns as cases, a part of that."""
SAID: dict[tuple[str, int], float] = {}
"""Seconds of the searches of which it was said, by strategy and size: the folds of a cross-validation are alike."""


class Forecast:
    """What a choice of hyperparameters will take, by what its first points took: in processor time of this thread.

    So other work on the same machine does not count.

    Parameters
    ----------
    n : int
        Cases.
    name : str
        What the strategy is called.
    points : int or None
        How many points it will ask for, about; None if not known, and then nothing is said.
    advice : str
        What would take less, in words.
    """

    def __init__(self, n: int, name: str, points: int | None, advice: str) -> None:
        self._n, self._name, self._points, self._advice = n, name, points, advice
        self._began = time.thread_time()
        self._after: list[float] = []

    def after_point(self) -> None:
        """Count a point of the search, and warn once it is known that all will take more than a minute."""
        self._after.append(time.thread_time())
        seen, spent = len(self._after), self._after[-1] - self._began
        if self._points is None or seen == 1 or (seen < FEWEST_SEEN and spent < ENOUGH_SECONDS):
            return
        # the median: a sampler may compile something between two of them
        each = float(np.median(np.diff(self._after)))
        left = each * max(self._points - seen, 0)
        if left < 0.5 * LONG_SECONDS or spent + left < LONG_SECONDS:
            return
        _say_once(
            self._name,
            self._n,
            spent + left,
            f"n = {self._n}: hyper={self._name!r} will take about {_in_words(spent + left)}, some {self._points} "
            f"solutions of {_in_words(each)} each. {self._advice}",
        )
        self._points = None


def warn_before(
    kernel: Kernel,
    X: Array,
    t: Array,
    likelihood: Likelihood,
    solver: Solver,
    control: Control,
    *,
    name: str = "none",
    points: int = 1,
    averages: bool = False,
) -> None:
    """Warn, before any work, if a solution will take long, by the rank that is expected of the Gram matrix.

    So many ``points`` are solved by the strategy of a name, which may be one that averages.
    """
    n = t.size
    if n < FROM:
        return
    with np.errstate(over="ignore", invalid="ignore"):  # of a kernel that overflows, which will be refused
        rank = expected_rank(kernel, X, t, likelihood, solver=solver, control=control)
    is_dense = rank == n
    seconds = SECONDS_A_NUMBER * n * rank**2 * (DENSE if is_dense else 1.0)
    if seconds < ENOUGH_SECONDS or seconds * points < LONG_SECONDS:
        return
    matrices = "dense matrices" if is_dense else f"a root of about {rank} columns"
    gib = 8 * (PEAK if is_dense else ROOTS) * n * rank / 2**30
    _say_once(
        name,
        n,
        seconds * points,
        f"n = {n} without inducing cases takes {matrices}, {gib:.0f} GiB with what is made of it, and "
        f"{points} solution{'s' * (points > 1)} will take about {_in_words(seconds * points)}. "
        f"{advice_for(n, kernel, likelihood, solver, averages=averages)}",
    )


def inducing_by_default(
    kernel: Kernel, X: Array, t: Array, likelihood: Likelihood, solvers: tuple[Solver, ...], control: Control
) -> int | None:
    """Return how many inducing cases stand for many where nothing was said, or None if all do.

    So it is where they are not many, where the Gram matrix is asked for in a form or is of so low a rank, and where
    a method or several classes do not work on inducing cases, or take as long.
    """
    if t.size <= MOST_DENSE or control.gram != "auto" or likelihood.has_classes:
        return None
    try:
        for solver in solvers:
            check_inducing(likelihood, solver)
    except ValueError:
        return None
    rank = expected_rank(kernel, X, t, likelihood, solver=solvers[0], control=control)
    return INDUCING if rank > INDUCING else None


def advice_for(n: int, kernel: Kernel, likelihood: Likelihood, solver: Solver, *, averages: bool) -> str:
    """Return what takes less, in words: a search on inducing cases, where there are such for it, or fewer cases."""
    words = (
        "A random subset of the cases takes less, as the cube of their number where the Gram matrix is dense. So does "
        "a kernel whose Gram matrix is of low rank (smooth, with few inputs or long length scales), fewer starts, or "
        "hyper='evidence' in place of an average."
    )
    if n <= INDUCING:
        return words
    try:
        check_shared_kernel(kernel)
        check_inducing(likelihood, solver)
    except ValueError:
        return words
    search = "" if averages else f", and takes about {_in_words(SEARCH_SECONDS + SECONDS_A_CASE * n)}"
    return f"inducing={INDUCING} works on so many inducing cases{search}. {words}"


def _say_once(name: str, n: int, seconds: float, text: str) -> None:
    """Warn, unless it was said of a search alike that takes at least half as long."""
    alike = name, n.bit_length()
    if seconds > 2.0 * SAID.get(alike, 0.0):
        SAID[alike] = seconds
        warn(text, UserWarning)


def _in_words(seconds: float) -> str:
    """Return a length of time to one or two digits."""
    for length, name in ((86400.0, "days"), (3600.0, "hours"), (60.0, "minutes")):
        if seconds >= 2.0 * length:
            return f"{seconds / length:.0f} {name}"
    return f"{seconds:.0f} seconds" if seconds >= 2.0 else f"{seconds:.1g} seconds"
