r"""The density :math:`\varphi(x)\, \sigma(c + s x)` of one variable: its integral, and its own Gauss rule.

It is what the last of two classes leaves of a standard normal variable, and a factor of what C classes leave of C - 1
(`softmax_tilted`).
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayesgp_mf.errors import ConvergenceError, Status
from bayesgp_mf.types import Array


class GridRule(NamedTuple):
    """A trapezoidal rule for the density."""

    points: int
    reach: float  # on either side of the mode, in x
    steepest: float  # s above which a grid uniform in x would step over the bend of the sigmoid


Rules = tuple[tuple[float, GridRule], ...]
"""Rules of more and more points, each with the largest s that it is for."""


def rules(reach: float, steepest: float, points: dict[float, int]) -> Rules:
    """Return rules with these numbers of points up to these s."""
    return tuple((largest, GridRule(count, reach, steepest)) for largest, count in points.items())


COARSE = rules(7.5, 3.0, {300: 56, 1e4: 112, 1e5: 168, 1e7: 240, 1e10: 320, 1e20: 504})
"""Errors of the logarithm below 1e-9 up to s of ten, and below 1e-5 beyond; exp(-7.5**2 / 2) is below 1e-12."""
FINE = rules(9.5, 4.0, {1e5: 220, 1e16: 660, 1e52: 1980, np.inf: 5940})
"""Errors of the logarithm below 1e-12; exp(-9.5**2 / 2) is below 1e-19."""
_STEPS = 100  # of Newton's method to the mode, at most; fewer than ten do
_STILL = 1e-8  # a last step; the next would be half its square at most


def by_rule(s: Array, rules: Rules) -> Iterator[tuple[GridRule, NDArray[np.intp]]]:
    """Yield the rules that slopes ``s (n,)`` need, each with the indices of those that need it.

    Raises
    ------
    ConvergenceError
        If none of them has so many points.
    """
    place = np.searchsorted([largest for largest, _ in rules], s)
    if np.any(place == len(rules)):
        raise ConvergenceError(
            f"a softmax cannot be integrated against a standard deviation of {np.max(s):.0e}, above "
            f"{rules[-1][0]:.0e}. Use a kernel of less variance.",
            Status.NO_VALID_STEP,
        )
    for k in np.flatnonzero(np.bincount(place)):
        yield rules[k][1], np.flatnonzero(place == k)


class Discrete(NamedTuple):
    """The density on a fine grid."""

    mode: Array  # (...), x where the density is largest
    offset: Array  # (..., points), x less its mode: with all digits, however far out that is
    weight: Array  # (..., points), which sum to one
    log_integral: Array  # (...), log of the integral of the density, in nats
    f: Array  # (..., points), c + s x
    small: Array  # (..., points), exp(-abs(f)), from which sigma(f) and sigma(-f) follow with all digits

    @property
    def x(self) -> Array:
        """The nodes ``(..., points)``."""
        return np.asarray(self.mode[..., None] + self.offset)


def discretise(c: Array, variance: Array, rule: GridRule) -> Discrete:
    """Return the density with offset c and slope s = sqrt(variance), two arrays (...), on a grid around its mode.

    With f0 the value of c + s x at the mode s sigma(-f0), and d = x less that, the logarithm of the density is the one
    at the mode and log sigma(f) - log sigma(f0) - (f - f0) sigma(-f0) - d**2 / 2. Written for each sign of f and f0,
    nothing in that is a small difference of large numbers, as there would be in -x**2 / 2 where the mode is far out.
    """
    s, f0 = np.sqrt(variance), mode(c, variance)
    f, offset, step = _grid(f0, s, rule)
    side = np.where(f0 < 0, -1.0, 1.0)
    slope = side * s * expit(-np.abs(f0))
    small = np.exp(-np.abs(f))
    # log sigma(f) is min(f, 0) - log(1 + small); relative to the mode, and so at most 1
    bent = 0.5 * offset
    bent += slope[..., None]
    bent *= offset
    weight = side[..., None] * f
    np.minimum(weight, 0.0, out=weight)
    weight -= bent
    np.exp(weight, out=weight)
    step /= 1.0 + small
    weight *= step
    total = np.sum(weight, axis=-1)
    weight /= total[..., None]
    x0 = s * expit(-f0)
    log_integral = np.minimum(f0, 0.0) - 0.5 * x0**2 + np.log(total) - 0.5 * np.log(2.0 * np.pi)
    return Discrete(x0, offset, weight, log_integral, f, small)


def _grid(f0: Array, s: Array, rule: GridRule) -> tuple[Array, Array, Array]:
    """Return c + s x and x less the mode ``(..., points)`` at the nodes of the rule, and steps in x.

    They are uniform in x or, where the sigmoid bends steeply within reach, in u with c + s x = pi sinh(u), which is
    dense there. The integrand is analytic, so that the error falls exponentially with the number of points.
    """
    unit, reach = _unit_grid(rule.points), rule.reach
    offset = np.empty((*s.shape, rule.points))
    offset[...] = reach * unit
    f = f0[..., None] + s[..., None] * offset
    step = np.full(f.shape, 2.0 * reach / (rule.points - 1))
    wide = (s > rule.steepest) & (np.abs(f0) < reach * s)
    if wide.any():
        # the poles of the sigmoid at +-i pi lie at u = +-i pi/2
        f0, s, ends = f0[wide][:, None], s[wide][:, None], f[wide]
        low, high = np.arcsinh(ends[:, :1] / np.pi), np.arcsinh(ends[:, -1:] / np.pi)
        # sinh u and cosh u from one exponential, for a quarter of the time
        up = np.exp(0.5 * (low + high) + 0.5 * (high - low) * unit) * (0.5 * np.pi)
        down = (0.5 * np.pi) ** 2 / up
        bent = up - down
        f[wide], offset[wide] = bent, (bent - f0) / s
        step[wide] = (up + down) * ((high - low) / ((rule.points - 1) * s))
    return f, offset, step


@cache
def _unit_grid(points: int) -> Array:
    unit = np.linspace(-1.0, 1.0, points)
    unit.setflags(write=False)
    return unit


def mode(c: Array, variance: Array) -> Array:
    """Return f = c + s x where the density is largest, f = c + s^2 sigma(-f), to rounding; s^2 is the variance.

    If f is positive, z = -f solves z + c + s^2 sigma(z) = 0, and else z = f solves the same with -c - s^2 in place of
    c. The left side rises and is convex below z = 0, so that Newton's method comes to the solution from above.

    Raises
    ------
    OverflowError
        If a variance is infinite.
    """
    if np.isinf(variance).any():
        raise OverflowError("a Gaussian to integrate against has an infinite variance")
    positive = c + 0.5 * variance > 0
    b = np.where(positive, c, -(c + variance))
    # near the solution where s is large, and seldom below it
    z = np.minimum(np.minimum(0.0, -b), -np.log1p(variance / (1.0 + np.log1p(variance) + np.maximum(0.0, -b))))
    for _ in range(_STEPS):
        small = np.exp(z)
        likely = 1.0 / (1.0 + small)
        rare = variance * (small * likely)
        step = (z + b + rare) / (1.0 + rare * likely)
        z = np.minimum(z - step, 0.0)
        if not (np.abs(step) > _STILL).any():  # so it is for NaN, which c may be
            break
    return np.asarray(np.where(positive, -z, z))


def gauss_rule(density: Discrete, points: int) -> tuple[Array, Array]:
    """Return nodes and weights ``(..., points)`` that integrate polynomials up to degree 2 points - 1 exactly.

    By Stieltjes' recursion over the grid, and the eigenvalues of the matrix of its coefficients (G. H. Golub & J. H.
    Welsch, 1969, Math. Comp. 23, 221-230). It is for few points, up to some 16 from `COARSE`: with more the polynomials
    lose their orthogonality to rounding, and nodes no longer are smooth functions of c and s.
    """
    x, weight = density.offset, density.weight
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
    return density.mode[..., None] + nodes, vectors[..., 0, :] ** 2
