r"""The density :math:`\varphi(x)\, \sigma(c + s x)` of one variable: its integral, and its own Gauss rule.

It is what the last of two classes leaves of a standard normal variable, and a factor of what C classes leave of C - 1
(`softmax_tilted`).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from bayesgp_mf.types import Array

COARSE, FINE = 56, 220
"""Points of the trapezoidal rule: errors below 1e-9, and below 1e-11, of the logarithm up to slopes of ten."""
# reach on either side of the mode, and s above which a uniform grid would step over the bend of the sigmoid
_OF_COARSE = 7.5, 3.0  # exp(-7.5**2 / 2) is below 1e-12 ...
_OF_FINER = 9.5, 4.0  # ... and exp(-9.5**2 / 2) below 1e-19
_STEPS = 1000  # of Newton's method to the mode, at most; some ten do, but where s is beyond all measure
_STILL = 1e-8  # a last step that changes x by no more than this part leaves the mode off by rounding


class Discrete(NamedTuple):
    """The density on a fine grid."""

    x: Array  # (..., points)
    weight: Array  # (..., points), which sum to one
    log_integral: Array  # (...), log of the integral of the density, in nats


def discretise(c: Array, s: Array, points: int = COARSE) -> Discrete:
    """Return the density with offset c and slope s > 0 on a grid, `COARSE` or `FINE`, that follows both its scales."""
    # the sum would be no smooth function of c and s, if the mode that the grid is around were not found to rounding
    c, s = np.broadcast_arrays(c, s)
    f, x, log_step = grid(c, s, points)
    log_terms = np.minimum(f, 0.0) - np.log1p(np.exp(-np.abs(f))) - 0.5 * x**2 + log_step
    top = np.max(log_terms, axis=-1)
    weight = np.exp(log_terms - top[..., None])
    total = np.sum(weight, axis=-1)
    weight /= total[..., None]
    return Discrete(x, weight, top + np.log(total) - 0.5 * np.log(2.0 * np.pi))


def grid(c: Array, s: Array, points: int, near: float = 0.0) -> tuple[Array, Array, Array]:
    """Return c + s x and x ``(..., points)`` at the nodes of the trapezoidal rule around the mode, and log steps in x.

    They are uniform in x or, where the sigmoid is steep, in u with c + s x = pi sinh(u), which is dense at its bend.
    The integrand is analytic, so that the error falls exponentially with the number of points; with `COARSE` the grid
    has less reach. Its middle may be off the mode by ``near`` in x.
    """
    unit, (reach, widest) = _unit_grid(points), _OF_COARSE if points == COARSE else _OF_FINER
    # x first: from f it would be lost to rounding where the slope is small
    x = mode(c, s, near)[..., None] + reach * unit
    f = c[..., None] + s[..., None] * x
    log_step = np.full(x.shape, np.log(2.0 * reach / (points - 1)))
    wide = s > widest
    if wide.any():
        # the poles of the sigmoid at +-i pi lie at u = +-i pi/2
        low, high = (np.arcsinh(f[wide][:, end] / np.pi)[:, None] for end in (0, -1))
        u = 0.5 * (low + high) + 0.5 * (high - low) * unit
        f[wide] = np.pi * np.sinh(u)
        x[wide] = (f[wide] - c[wide][:, None]) / s[wide][:, None]
        log_step[wide] = np.log(np.pi * np.cosh(u) / s[wide][:, None] * (high - low) / (points - 1))
    return f, x, log_step


@cache
def _unit_grid(points: int) -> Array:
    unit = np.linspace(-1.0, 1.0, points)
    unit.setflags(write=False)
    return unit


def mode(c: Array, s: Array, near: float = 0.0) -> Array:
    """Return x where the density is largest, x = s sigma(-(c + s x)), to rounding or until a step is below ``near``.

    With x = s sigma(y) the equation is y + c + s^2 sigma(y) = 0, whose left side rises, and is convex below y = 0 and
    concave above. So Newton's method comes to the solution from one side, from y = 0 or a bound beyond it.
    """
    square = s**2
    if np.isinf(square).any():
        raise OverflowError("a Gaussian to integrate against has an infinite variance")
    y = np.where(c + 0.5 * square > 0, np.minimum(0.0, -c), np.maximum(0.0, -c - square))
    for _ in range(_STEPS):
        p = expit(y)
        step = (y + c + square * p) / (1.0 + square * p * (1.0 - p))
        y = y - step
        part = (1.0 - p) * np.abs(step)  # by which x changes, in proportion
        if not ((part > _STILL) & (s * p * part > near)).any():  # so it is for NaN, which c may be
            break
    return np.asarray(s * expit(y))


def gauss_rule(density: Discrete, points: int) -> tuple[Array, Array]:
    """Return nodes and weights ``(..., points)`` that integrate polynomials up to degree 2 points - 1 exactly.

    By Stieltjes' recursion over the grid, and the eigenvalues of the matrix of its coefficients (G. H. Golub & J. H.
    Welsch, 1969, Math. Comp. 23, 221-230). It is for few points, up to some 16 from `COARSE`: with more the polynomials
    lose their orthogonality to rounding, and nodes no longer are smooth functions of c and s.
    """
    x, weight, _ = density
    jacobi = np.zeros((*x.shape[:-1], points, points))
    before, polynomial = np.zeros_like(x), np.ones_like(x)
    norm = np.ones(x.shape[:-1])
    for k in range(points):
        weighted = weight * polynomial
        centre = np.sum(weighted * polynomial * x, axis=-1)
        jacobi[..., k, k] = centre
        following = (x - centre[..., None]) * polynomial
        if k > 0:
            following -= norm[..., None] * before
        if k + 1 < points:
            norm = np.sqrt(np.sum(weight * following**2, axis=-1))
            jacobi[..., k, k + 1] = jacobi[..., k + 1, k] = norm
            before, polynomial = polynomial, following / norm[..., None]
    nodes, vectors = np.linalg.eigh(jacobi)
    return nodes, vectors[..., 0, :] ** 2
