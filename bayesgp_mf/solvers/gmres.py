"""Generalised minimal residuals, for the linear equations of Newton's steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from bayesgp_mf.types import Array


@np.errstate(over="ignore", invalid="ignore")  # of what overflows NaN is returned
def gmres(multiply: Callable[[Array], Array], right: Array, accuracy: float, most: int) -> Array:
    """Return x ``(n,)`` with A x near ``right (n,)``, by generalised minimal residuals.

    For matrices close to the identity, where a few products with A do and SciPy's own would spend most of the time
    around them. (Y. Saad & M. H. Schultz, 1986, SIAM J. Sci. Stat. Comput. 7, 856-869.)

    Parameters
    ----------
    multiply : callable
        Returns A x.
    right : (n,) array
        Right-hand side.
    accuracy : float
        Length of the residual that is wanted, relative to that of ``right``.
    most : int
        Products after which x is returned as it is.

    Returns
    -------
    (n,) array
        x; NaN if a product overflows.
    """
    length = math.sqrt(right @ right)
    if length == 0.0:
        return np.zeros_like(right)
    basis = np.empty((most + 1, right.size))
    basis[0] = right / length
    # the Hessenberg matrix of the products in the basis, turned upper triangular by rotations as it grows
    triangle, target = np.zeros((most, most)), [length]
    rotations: list[tuple[float, float]] = []
    for k in range(most):
        known, image = basis[: k + 1], multiply(basis[k])
        projection = known @ image
        image = image - projection @ known
        below = math.sqrt(image @ image)
        if not math.isfinite(below):
            return np.full_like(right, np.nan)
        column = projection.tolist()  # numbers of Python's own are faster one by one
        for i, (cosine, sine) in enumerate(rotations):
            upper, lower = column[i], column[i + 1]
            column[i], column[i + 1] = cosine * upper + sine * lower, cosine * lower - sine * upper
        corner = math.hypot(column[k], below)
        if corner == 0.0:  # A is singular on what was found: nothing more to gain
            break
        rotations.append((column[k] / corner, below / corner))
        target[k:] = [target[k] * column[k] / corner, -target[k] * below / corner]
        column[k] = corner
        triangle[: k + 1, k] = column
        if abs(target[-1]) <= accuracy * length or below == 0.0:
            break
        basis[k + 1] = image / below
    size = len(rotations)
    if size == 0:
        return np.zeros_like(right)
    weights, _ = lapack.dtrtrs(triangle[:size, :size], target[:size])
    return np.asarray(weights @ basis[:size])
