"""Points that fill the unit cube evenly."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.types import Array

BITS = 30


def scrambled_points(dimensions: int, log2_points: int, rng: np.random.Generator) -> Array:
    """Return ``(dimensions, 2**log2_points)`` coordinates strictly between 0 and 1, those of one point in a column.

    They are Sobol's points, scrambled: each is uniform in the cube, so that the mean over them is unbiased, and the
    spread over independent scrambles is its error.
    """
    from scipy.stats import qmc  # takes a third of a second, and no other method needs it

    points = qmc.Sobol(dimensions, scramble=True, bits=BITS, seed=rng).random_base2(log2_points)
    # multiples of 2^-BITS, zero among them, which would be a point at infinity: to the middle of their cells
    return np.ascontiguousarray(points.T) + 0.5 * 2.0**-BITS
