"""The only iteration loop: an Anderson-accelerated fixed point that says how it ended.

A solver supplies ``update(x)``, one full step of its own equations. The driver looks for x = update(x),
mixing the last few steps (D. G. Anderson, 1965, J. ACM 12, 547-560, https://doi.org/10.1145/321296.321305;
type II, H. F. Walker & P. Ni, 2011, SIAM J. Numer. Anal. 49, 1715-1735, https://doi.org/10.1137/10078356X).
Where a mixed step leads somewhere invalid it is taken back; where nothing improves for long, the iteration
returns to the best state so far and takes shorter steps.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import numpy as np

from bayesgp_mf.errors import ConvergenceError, InconsistentDataError, NotPositiveDefiniteError, Status
from bayesgp_mf.problem import Problem, explain_infeasible
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.solution import Control, Info
from bayesgp_mf.types import Array

MEMORY = 5  # differences kept for mixing; more only adds rounding here
PATIENCE = 25  # steps without a new best residual before the steps are halved
SMALLEST_DAMPING = 2.0**-10


def fixed_point(update: Callable[[Array], Array], start: Array, control: Control) -> tuple[Array, Info]:
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

    Returns
    -------
    x : (m,) array
        The best state seen.
    info : Info
        Status, updates used and the largest change that another update would make.
    """
    with progress_bar("solving", enabled=control.progress) as advance:
        return _iterate(update, start, control, advance)


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
        raise ConvergenceError(
            f"{name}: {info.status.value} (residual {info.residual:.2g} after {info.n_iterations} steps, "
            f"tolerance {control.tolerance:.2g})",
            info.status,
        )


def _iterate(
    update: Callable[[Array], Array], start: Array, control: Control, advance: Callable[[str], None]
) -> tuple[Array, Info]:
    x = best = start
    change = _change(update, start)
    if change is None:
        return start, Info(Status.NO_VALID_STEP, 1, float("inf"))
    best_change = change
    history: deque[tuple[Array, Array]] = deque(maxlen=MEMORY)
    damping, last_best, iteration = 1.0, 1, 1

    while _largest(best_change) > control.tolerance:
        advance(f"step {iteration}, largest change {_largest(best_change):.1e} (tolerance {control.tolerance:.0e})")
        if iteration >= control.max_iterations:
            status = Status.MAX_ITERATIONS
            break
        if iteration - last_best >= PATIENCE:
            if damping <= SMALLEST_DAMPING:
                status = Status.STALLED
                break
            history.clear()  # mixing across the jump back would be mixing unrelated states
            x, change = best, best_change
            damping, last_best = damping / 2.0, iteration
        proposal = _mix(x, change, history, damping)
        new_change = _change(update, proposal)
        iteration += 1
        if new_change is None:
            if not history:  # even the plain step is too long
                if damping <= SMALLEST_DAMPING:
                    status = Status.NO_VALID_STEP
                    break
                damping /= 2.0
            history.clear()
            continue
        history.append((proposal - x, new_change - change))
        x, change = proposal, new_change
        if _largest(change) < _largest(best_change):
            best, best_change, last_best = x, change, iteration
    else:
        status = Status.CONVERGED
    return best, Info(status, iteration, _largest(best_change))


def _change(update: Callable[[Array], Array], x: Array) -> Array | None:
    """Return ``update(x) - x``, or None where x is not a valid state."""
    try:
        with np.errstate(all="ignore"):  # a state far out may overflow: it is turned down below
            change = update(x) - x
    except NotPositiveDefiniteError:
        return None
    return change if np.all(np.isfinite(change)) else None


def _largest(change: Array) -> float:
    return float(np.max(np.abs(change)))


def _mix(x: Array, change: Array, history: deque[tuple[Array, Array]], damping: float) -> Array:
    """Return the next state: the damped step, less what the last differences explain of it."""
    step = damping * change
    if history:
        moves = np.array([move for move, _ in history])
        changes = np.array([difference for _, difference in history])
        weights = np.linalg.lstsq(changes.T, change, rcond=1e-10)[0]
        step = step - weights @ (moves + damping * changes)
    return np.asarray(x + step)
