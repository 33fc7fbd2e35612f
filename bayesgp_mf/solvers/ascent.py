"""The only loop uphill, by Newton's steps with a line search, that says how it ended.

The line search of Newton's methods: how much of a step to take (Armijo's rule).
"""

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
_SUFFICIENT = 1e-4  # part of the rise promised by the slope that a step must keep
_ROUNDING = 1e-13  # rises below this part of the terms of the objective cannot be seen


class HasWeights(Protocol):
    """A state of the climb."""

    @property
    def alpha(self) -> Array:
        """The weights, which are what converges."""


S = TypeVar("S", bound=HasWeights)


def climb(
    newton: Callable[[S], S | None],
    state: S,
    scale: Array,
    control: Control,
    is_summit: Callable[[S, S], bool] = lambda before, after: True,
    gap_of: Callable[[S], float] = lambda state: float("inf"),
) -> tuple[S, Info]:
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
    is_summit : callable
        Whether the state after a step in which the weights stood still is the summit, given also that before it; a
        step may be short for other reasons.
    gap_of : callable
        Another measure of how far a state is from the summit, which may fall where the changes do not.
    """
    residual = smallest = least = float("inf")
    last_best = 0
    with progress_bar("finding the mode", enabled=control.progress) as advance:
        for iteration in range(1, control.max_iterations + 1):
            moved = newton(state)
            if moved is None:
                return state, Info(Status.STALLED, iteration, residual)
            residual = largest_change(scale, state.alpha, moved.alpha)
            before, state = state, moved
            if residual <= control.tolerance and is_summit(before, state):
                return state, Info(Status.CONVERGED, iteration, residual)
            if residual < smallest:
                smallest, last_best = residual, iteration
            elif (gap := gap_of(state)) < least:
                least, last_best = gap, iteration
            elif iteration - last_best >= _PATIENCE:
                return state, Info(Status.STALLED, iteration, residual)
            advance(f"step {iteration}, change {residual:.1e} (tolerance {control.tolerance:.0e})")
    return state, Info(Status.MAX_ITERATIONS, control.max_iterations, residual)


def largest_change(scale: Array, before: Array, after: Array) -> float:
    """Return the largest change of weights by a step, in proportion where they are large."""
    return float(np.abs(np.arcsinh(scale * after) - np.arcsinh(scale * before)).max())


Point = TypeVar("Point")


def first_that_rises(
    at: Callable[[float], tuple[Point, float]], slope: float, terms: float, smallest: float
) -> Point | None:
    """Return the point after a step, halved until the objective rises enough, or None if it never does.

    Parameters
    ----------
    at : callable
        From the fraction of the step that is taken to the point there, and the rise of the objective up to it; one that
        is not a number is no rise.
    slope : float
        Derivative of the objective along the step, at its start.
    terms : float
        Size of the terms whose sum the objective is: it says what rounding can do.
    smallest : float
        Fraction below which no step is tried.
    """
    fraction = 1.0
    while fraction >= smallest:
        point, rise = at(fraction)
        if rise >= _SUFFICIENT * fraction * slope - _ROUNDING * terms:
            return point
        fraction *= 0.5
    return None
