"""The only loop to a fixed point, by Newton's or Anderson-accelerated steps, that says how it ended.

A solver supplies ``update(x)``, one full step of its own equations. The driver looks for x = update(x), by Newton's
steps where the solver knows them and they help, else by mixing the last few steps (D. G. Anderson, 1965, J. ACM 12,
547-560, https://doi.org/10.1145/321296.321305; type II, H. F. Walker & P. Ni, 2011, SIAM J. Numer. Anal. 49,
1715-1735, https://doi.org/10.1137/10078356X). Where a mixed step leads somewhere invalid it is taken back. Where
nothing improves for long, the iteration returns to the best state so far and goes on in another way: by plain steps,
since mixing can spoil a step that is Newton's, then by shorter and shorter ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from typing import TypeAlias

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

    Returns
    -------
    x : (m,) array
        The best state seen.
    info : Info
        Status, updates used and the largest change that another update would make.
    """
    with progress_bar("solving", enabled=control.progress) as advance:
        return _iterate(update, start, control, newton, enough or _never, done, stages, patience, advance)


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


def _iterate(
    update: Callable[[Array], Array],
    start: Array,
    control: Control,
    newton: Callable[[Array, Array], Array | None] | None,
    enough: Callable[[Array], bool],
    done: int,
    ways: Stages,
    patience: int,
    advance: Callable[[str], None],
) -> tuple[Array, Info]:
    x = best = start
    change = _change(update, start)
    if change is None:
        return start, Info(Status.NO_VALID_STEP, done + 1, float("inf"))
    size = _largest(change)
    best_change, smallest, history = change, size, deque[tuple[Array, Array]](maxlen=MEMORY)
    stages = iter(ways)
    mixing, damping = next(stages)
    mark = size
    marked = iteration = done + 1
    near = NEAR if newton is not None else 0.0
    will_do = enough(change)

    while smallest > control.tolerance and not will_do:
        advance(f"step {iteration}, largest change {smallest:.1e} (tolerance {control.tolerance:.0e})")
        if iteration >= control.max_iterations:
            status = Status.MAX_ITERATIONS
            break
        if iteration - marked >= patience or damping < SMALLEST_DAMPING:
            status = Status.STALLED if damping >= SMALLEST_DAMPING else Status.NO_VALID_STEP
            stage = next(stages, None)
            if stage is None:
                break
            mixing, damping = stage
            history.clear()  # mixing across the jump back would be mixing unrelated states
            x, change, size = best, best_change, smallest
            mark, marked = smallest, iteration
        with np.errstate(all="ignore"):
            move = newton(x, change) if newton is not None and size <= near else None
        proposal = _mix(x, change, history, damping) if move is None else x + move
        new_change = _change(update, proposal)
        iteration += 1
        if move is not None and (new_change is None or _largest(new_change) > CONTRACTION * size):
            near = CLOSER * size
            continue
        if new_change is None:
            if not history:  # even the plain step is too long
                damping /= 2.0
            history.clear()
            continue
        if mixing:
            history.append((proposal - x, new_change - change))
        x, change, size = proposal, new_change, _largest(new_change)
        if size < smallest:
            best, best_change, smallest = x, change, size
            will_do = enough(change)
        if size < PROGRESS * mark:
            mark, marked = size, iteration
    else:
        status = Status.CONVERGED
    return best, Info(status, iteration, smallest)


def _change(update: Callable[[Array], Array], x: Array) -> Array | None:
    """Return ``update(x) - x``, or None where x is not a valid state."""
    try:
        with np.errstate(all="ignore"):  # a state far out may overflow: it is turned down below
            change = update(x) - x
    except NotPositiveDefiniteError:
        return None
    return change if np.isfinite(change).all() else None


def _never(change: Array) -> bool:
    return False


def _largest(change: Array) -> float:
    return float(np.abs(change).max())


def _mix(x: Array, change: Array, history: deque[tuple[Array, Array]], damping: float) -> Array:
    """Return the next state: the damped step, less what the last differences explain of it."""
    step = damping * change
    if history:
        moves = np.array([move for move, _ in history])
        changes = np.array([difference for _, difference in history])
        weights = np.linalg.lstsq(changes.T, change, rcond=1e-10)[0]
        step = step - weights @ (moves + damping * changes)
    return np.asarray(x + step)
