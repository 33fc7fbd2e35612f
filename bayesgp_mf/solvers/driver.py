"""The only loop to a fixed point, by Newton's or Anderson-accelerated steps, that says how it ended.

A solver supplies ``update(x)``, one full step of its own equations. The driver looks for x = update(x), by Newton's
steps where the solver knows them and they help, else by mixing the last few steps (D. G. Anderson, 1965, J. ACM 12,
547-560, https://doi.org/10.1145/321296.321305; type II, H. F. Walker & P. Ni, 2011, SIAM J. Numer. Anal. 49,
1715-1735, https://doi.org/10.1137/10078356X). Where a mixed step leads somewhere invalid it is taken back. Where
nothing improves for long, the iteration returns to the best state so far and goes on in another way: by plain steps,
since mixing can spoil a step that is Newton's, then by shorter and shorter ones.

The loop (`iterate`) knows no array: it asks `Iterates`, which may lie in parts on several machines that sum up inner
products and largest changes (`sharded.solve`). Of arrays that are here, `fixed_point` makes them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol, TypeAlias

import numpy as np

from bayesgp_mf.errors import ConvergenceError, InconsistentDataError, NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem, explain_infeasible, status_in_words
from bayesgp_mf.inference.solution import Control, Info
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.types import Array

MEMORY = 5  # differences kept for mixing; more only adds rounding here
Stages: TypeAlias = Sequence[tuple[bool, float]]
STAGES: Stages = ((True, 1.0), (False, 1.0), *((True, 2.0**-k) for k in range(1, 6)))  # mixing or not, damping
PATIENCE = 25  # steps without progress before the next stage ...
PROGRESS = 0.9  # ... which is a largest change below this part of the former; less is rounding that falls well
SMALLEST_DAMPING = 2.0**-10  # where even plain steps lead nowhere

NEAR = 1.5  # changes below which Newton's step is tried
CONTRACTION = 0.9  # it must make them smaller by this factor; else it is not taken ...
CLOSER = 0.1  # ... and not tried again before they are this part of what they were


def fixed_point(
    update: Callable[[Array], Array],
    start: Array,
    control: Control,
    newton: Callable[[Array, Array], Array | None] | None = None,
    enough: Callable[[Array], bool] | None = None,
    done: int = 0,
    stages: Stages = STAGES,
    patience: int = PATIENCE,
    worse: float = np.inf,
) -> tuple[Array, Info]:
    """Iterate ``x = update(x)`` until no entry would change by more than ``control.tolerance``.

    Parameters
    ----------
    update : callable
        Maps ``x (m,)`` to the next ``x (m,)``. May raise NotPositiveDefiniteError, or return something
        not finite, where ``x`` is not a valid state.
    start : (m,) array
        First state.
    control : Control
        Tolerance and largest number of updates.
    newton : callable, optional
        Maps the last ``x (m,)`` that was updated, and the change by that update, to Newton's step from there,
        or to None where it has none.
    enough : callable, optional
        Told of each update that brought the iteration nearer, by its change; returns True where the state before it
        will do although changes are above the tolerance.
    done : int
        Updates before the first one here, which count; one is made however many there were.
    stages : sequence of (bool, float)
        Ways to go on, each where nothing improves in the one before: whether steps are mixed, and how long they are.
    patience : int
        Steps without progress before the next of them.
    worse : float
        A mixed step that makes changes larger by this factor is taken back.

    Returns
    -------
    x : (m,) array
        The best state seen.
    info : Info
        Status, updates used and the largest change that another update would make.
    """
    vectors = _Vectors(update, start, newton, enough)
    near = NEAR if newton is not None else 0.0
    with progress_bar("solving", enabled=control.progress) as advance:

        def shown(iteration: int, smallest: float) -> None:
            advance(f"step {iteration}, largest change {smallest:.1e} (tolerance {control.tolerance:.0e})")

        info = iterate(vectors, control, shown, done, near, stages, patience, worse)
    return vectors.best, info


class Iterates(Protocol):
    """The states of an iteration: where it is, the best so far, what is tried, and the last differences."""

    def first(self) -> float | None:
        """Try the state that it is in; return the largest change by an update, or None where it is not valid."""

    def attempt(self, damping: float, by_newton: bool) -> tuple[float | None, bool]:
        """Try the next state, by Newton's step if that is wanted and known, else by a damped and mixed one.

        Return the largest change by an update there, or None where it is not valid, and whether the step was Newton's.
        """

    def take(self) -> None:
        """Go to the state that was tried, and remember the differences."""

    def forget(self) -> bool:
        """Forget all differences; return whether there were some."""

    def keep(self) -> bool:
        """Call this state the best; return whether it will do although changes are above the tolerance."""

    def back(self) -> None:
        """Return to the best state, without any differences."""


def iterate(
    states: Iterates,
    control: Control,
    shown: Callable[[int, float], None],
    done: int = 0,
    near: float = 0.0,
    stages: Stages = STAGES,
    patience: int = PATIENCE,
    worse: float = np.inf,
) -> Info:
    """Iterate some states until none would change by more than ``control.tolerance``; see `fixed_point`.

    ``shown`` takes the number of each update and the smallest change so far, and Newton's step is tried where changes
    are below ``near``.
    """
    size = states.first()
    iteration = done + 1
    if size is None:
        return Info(Status.NO_VALID_STEP, iteration, float("inf"))
    states.take()
    will_do = states.keep()
    smallest = mark = size
    marked, ways = iteration, iter(stages)
    mixing, damping = next(ways)
    while smallest > control.tolerance and not will_do:
        shown(iteration, smallest)
        if iteration >= control.max_iterations:
            return Info(Status.MAX_ITERATIONS, iteration, smallest)
        if iteration - marked >= patience or damping < SMALLEST_DAMPING:
            status = Status.STALLED if damping >= SMALLEST_DAMPING else Status.NO_VALID_STEP
            stage = next(ways, None)
            if stage is None:
                return Info(status, iteration, smallest)
            mixing, damping = stage
            states.back()  # mixing across the jump back would be mixing unrelated states
            size = mark = smallest
            marked = iteration
        found, by_newton = states.attempt(damping, size <= near)
        iteration += 1
        if by_newton and (found is None or found > CONTRACTION * size):
            near = CLOSER * size
            continue
        if found is None:
            if not states.forget():  # even the plain step is too long
                damping /= 2.0
            continue
        if found > worse * size and states.forget():
            continue
        states.take()
        if not mixing:
            states.forget()
        size = found
        if size < smallest:
            will_do = states.keep()
            smallest = size
        if size < PROGRESS * mark:
            mark, marked = size, iteration
    return Info(Status.CONVERGED, iteration, smallest)


class Memory:
    """What is remembered of a vector while it is iterated, or of the part of one that lies here."""

    def __init__(self, start: Array) -> None:
        self.x = self.tried = self.best = start
        self.change: Array | None = None
        self.tried_change: Array | None = None
        self._best_change: Array | None = None
        self.history = deque[tuple[Array, Array]](maxlen=MEMORY)

    @property
    def differences(self) -> list[Array]:
        """Those of the changes, the last one with what is tried: there is none where the iteration stays."""
        found = [difference for _, difference in self.history]
        if self.change is not None and self.tried_change is not None and self.tried is not self.x:
            found.append(self.tried_change - self.change)
        return found

    def take(self) -> None:
        """Go to the state that was tried, and remember the differences."""
        if len(found := self.differences) > len(self.history):
            self.history.append((self.tried - self.x, found[-1]))
        self.x, self.change = self.tried, self.tried_change

    def forget(self) -> bool:
        """Forget all differences; return whether there were some."""
        had_some = bool(self.history)
        self.history.clear()
        return had_some

    def keep(self) -> bool:
        """Call this state the best."""
        self.best, self._best_change = self.x, self.change
        return False

    def back(self) -> None:
        """Return to the best state, without any differences."""
        self.x, self.change = self.best, self._best_change
        self.forget()

    def mix(self, damping: float, weights: Array | None) -> None:
        """Try the damped step, less what the last differences explain of it, by their weights."""
        assert self.change is not None
        step = damping * self.change
        if self.history and weights is not None:
            moves, changes = (np.array(each) for each in zip(*self.history, strict=True))
            step = step - weights @ (moves + damping * changes)
        self.tried = self.x + step


class _Vectors(Memory):
    """The states of an iteration whose vectors are here."""

    def __init__(
        self,
        update: Callable[[Array], Array],
        start: Array,
        newton: Callable[[Array, Array], Array | None] | None,
        enough: Callable[[Array], bool] | None,
    ) -> None:
        super().__init__(start)
        self._update, self._newton, self._enough = update, newton, enough

    def first(self) -> float | None:
        try:
            with np.errstate(all="ignore"):  # a state far out may overflow: it is turned down
                change = self._update(self.tried) - self.tried
        except NotPositiveDefiniteError:
            change = np.full_like(self.tried, np.nan)
        self.tried_change = change if np.isfinite(change).all() else None
        return None if self.tried_change is None else float(np.abs(change).max())

    def attempt(self, damping: float, by_newton: bool) -> tuple[float | None, bool]:
        assert self.change is not None
        move = None
        if by_newton and self._newton is not None:
            with np.errstate(all="ignore"):
                move = self._newton(self.x, self.change)
        if move is None:
            changes = np.array([difference for _, difference in self.history])
            self.mix(damping, np.linalg.lstsq(changes.T, self.change, rcond=1e-10)[0] if self.history else None)
        else:
            self.tried = self.x + move
        return self.first(), move is not None

    def keep(self) -> bool:
        return super().keep() or (self._enough is not None and self._enough(np.asarray(self.change)))


def require_solved(name: str, problem: Problem, info: Info, control: Control) -> None:
    """Raise if an iteration did not reach its fixed point, with the reason where one can be found.

    Raises
    ------
    InconsistentDataError
        If there is none because the labels have probability zero, whatever ``control.throw``.
    ConvergenceError
        Otherwise, if ``control.throw``.
    """
    if info.status is Status.CONVERGED:
        return
    reason = explain_infeasible(problem)
    if reason is not None:
        raise InconsistentDataError(reason)
    if control.throw:
        what = status_in_words(info.status, problem.likelihood, name)
        raise ConvergenceError(
            f"{name}: {what} (residual {info.residual:.2g} after {info.n_iterations} steps, "
            f"tolerance {control.tolerance:.2g}{problem.matrix.description})",
            info.status,
        )
