"""Generalised minimal residuals, for the linear equations of Newton's steps."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from bayesgp_mf.types import Array


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
        if not np.isfinite(image).all():
            return np.full_like(right, np.nan)
        column = known @ image
        image = image - column @ known
        below = math.sqrt(image @ image)
        for i, (cosine, sine) in enumerate(rotations):
            column[i : i + 2] = cosine * column[i] + sine * column[i + 1], cosine * column[i + 1] - sine * column[i]
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
