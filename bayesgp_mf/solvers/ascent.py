"""Uphill to the mode of a posterior by Newton's steps: the loop that says how it ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np

from bayesgp_mf.errors import Status
from bayesgp_mf.inference.solution import Control, Info
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.types import Array

SMALLEST_FRACTION = 2.0**-40
"""Of a step: if the objective does not rise along so little of it, it is at the summit but for rounding."""
_PATIENCE = 25  # steps without a smaller change before the rest is called rounding


class HasWeights(Protocol):
    """A state of the climb."""

    @property
    def alpha(self) -> Array:
        """The weights, which are what converges."""


S = TypeVar("S", bound=HasWeights)


def climb(newton: Callable[[S], S | None], state: S, scale: Array, control: Control) -> tuple[S, Info]:
    """Return the summit and how the climb went; the residual is the change by the last step.

    Parameters
    ----------
    newton : callable
        Returns the state after a step, or None if no step from here leads up.
    state : state
        Where to start.
    scale : array
        Standard deviations of the prior, in which the change of the weights is measured.
    control : Control
        Tolerance and largest number of steps.
    """
    residual = smallest = float("inf")
    last_best, here = 0, np.arcsinh(scale * state.alpha)  # asinh: a change counts in proportion where alpha is large
    with progress_bar("finding the mode", enabled=control.progress) as advance:
        for iteration in range(1, control.max_iterations + 1):
            moved = newton(state)
            if moved is None:
                return state, Info(Status.STALLED, iteration, residual)
            there = np.arcsinh(scale * moved.alpha)
            residual = float(np.abs(there - here).max())
            state, here = moved, there
            if residual <= control.tolerance:
                return state, Info(Status.CONVERGED, iteration, residual)
            if residual < smallest:
                smallest, last_best = residual, iteration
            elif iteration - last_best >= _PATIENCE:
                return state, Info(Status.STALLED, iteration, residual)
            advance(f"step {iteration}, change {residual:.1e} (tolerance {control.tolerance:.0e})")
    return state, Info(Status.MAX_ITERATIONS, control.max_iterations, residual)
