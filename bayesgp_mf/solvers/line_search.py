"""The line search of Newton's methods: how much of a step to take (Armijo's rule)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

Point = TypeVar("Point")

_SUFFICIENT = 1e-4  # part of the rise promised by the slope that a step must keep
_ROUNDING = 1e-13  # rises below this part of the terms of the objective cannot be seen


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
