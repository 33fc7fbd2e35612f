"""Quantiles of a distribution from the probability that a target is at most a number."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bayesgp_mf.types import Array

LARGEST = 1e300
"""A quantile beyond this is infinite: so a count whose rate overflows."""
ROUNDING = 4 * float(np.finfo(np.float64).eps)


def quantiles(below: Callable[[Array], Array], levels: Array, centre: Array, spread: Array, *, whole: bool) -> Array:
    """Return the smallest t with P(T <= t) >= q, ``(q, m)``, of m targets.

    Parameters
    ----------
    below : callable
        P(T <= t) ``(q, m)`` for t ``(q, m)``.
    levels : (q,) array
        Probabilities between 0 and 1.
    centre, spread : (m,) array
        Where to begin, and in what steps; of no account for targets that are whole numbers.
    whole : bool
        Whether targets are whole numbers >= 0.
    """
    wanted = np.broadcast_to(levels[:, None], (levels.size, centre.size))
    step = np.ones(wanted.shape) if whole else np.broadcast_to(spread, wanted.shape).copy()
    low = np.full(wanted.shape, -1.0) if whole else centre - step
    high = low + step
    while not whole and (down := (below(low) >= wanted) & (low > -LARGEST)).any():
        high = np.where(down, low, high)
        step = np.where(down, 2.0 * step, step)
        low = np.where(down, low - step, low)
    while (up := (below(high) < wanted) & (high < LARGEST)).any():
        low = np.where(up, high, low)
        step = np.where(up, 2.0 * step, step)
        high = np.where(up, high + step, high)
    unit = np.broadcast_to(spread, wanted.shape)
    while True:
        middle = np.floor(0.5 * low + 0.5 * high) if whole else 0.5 * low + 0.5 * high
        between = (low < middle) & (middle < high)
        if not whole:
            between &= high - low > ROUNDING * np.maximum(np.maximum(np.abs(low), np.abs(high)), unit)
        if not between.any():
            return np.where(high < LARGEST, high, np.inf)
        enough = below(middle) >= wanted
        low, high = np.where(between & ~enough, middle, low), np.where(between & enough, middle, high)
