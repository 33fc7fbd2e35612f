"""Normal variables that are known to lie in an interval, or at a point: levels, censored targets.

With f ~ N(mean, variance) and noise beside it, a case says where f + noise lies.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesgp_mf.likelihoods import base
from bayesgp_mf.likelihoods.moments import from_moments
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.types import Array, Derivs

_NODES, _WEIGHTS = leggauss(64)
"""On an interval of 17 standard deviations they leave nothing above rounding (checked against mpmath)."""
_REACH = 80.0
"""Twice the nats by which a density falls from its mode to where it is left out: a part of 4e-18."""
_AT_ONCE = 4096
"""Pieces that are integrated at once."""
LOG_ROOT_OF_TWO_PI = 0.5 * math.log(2.0 * math.pi)


class OfPieces(base.Likelihood):
    """A likelihood whose cases say where a latent value in Gaussian noise lies."""

    __slots__ = ()
    targets: ClassVar[Literal["real"]] = "real"
    forbids: ClassVar[bool] = False
    log_concave: ClassVar[bool] = True

    @abstractmethod
    def _piece(self, t: Array, mean: Array, variance: Array) -> Piece:
        """Return the piece of a normal distribution in which each target says that it is."""

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) in nats, and its derivatives in f; ``t`` and ``f`` broadcast."""
        return self.log_partition(t, f, np.zeros_like(f, dtype=np.float64))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the average of p(t|f) over N(f | mean, variance), and its derivatives in mean."""
        piece = self._piece(t, mean, variance)
        return Derivs(piece.log_mass, piece.first / piece.scale, piece.second / piece.scale**2)

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array]:
        """Return the third and fourth derivative of `log_partition`."""
        piece = self._piece(t, mean, variance)
        third, fourth = piece.cumulants(4)[2:]
        return third / piece.scale**3, fourth / piece.scale**4

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array:
        """Return cumulants ``(order - 2, n)`` of likelihood times Gaussian, in units of its standard deviations."""
        piece = self._piece(t, mean, variance)
        known = piece.cumulants(order)
        part, rest = (v / piece.scale**2 for v in (variance, piece.noise))  # of f + noise, f's and the noise's
        sd = np.sqrt(part * rest + part**2 * known[1])  # f given where f and noise lie, and that itself
        return np.array([known[k - 1] * (part / sd) ** k for k in range(3, order + 1)])


@dataclass(frozen=True, slots=True, eq=False)
class Between(OfPieces):
    """A latent value in Gaussian noise, seen at the target or known to lie between limits.

    Parameters
    ----------
    lower, upper : (..., n) array
        The limits, which are the same where it was seen, and may be infinite; targets are not asked.
    noise : float or (..., n) array
        Variance of the noise.
    log_slope : float or (..., n) array
        Added to log p where it was seen: of what the target is a function.
    """

    lower: Array
    upper: Array
    noise: float | Array
    log_slope: float | Array = 0.0

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw the sum of latent value and noise."""
        return np.asarray(f + np.sqrt(self.noise) * rng.standard_normal(f.shape))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the average of p(t|f) over N(f | mean, variance), and its derivatives in mean."""
        value, d1, d2 = OfPieces.log_partition(self, t, mean, variance)
        return Derivs(value + np.where(self.lower == self.upper, self.log_slope, 0.0), d1, d2)

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the derivative of `log_partition` in the noise variance, which adds to that of the Gaussian."""
        derivs = self.log_partition(t, mean, variance)
        return base.of_added_variance(derivs, *self.higher_derivatives(t, mean, variance, derivs))

    def _piece(self, t: Array, mean: Array, variance: Array) -> Piece:
        return Piece(self.lower, self.upper, mean, variance, self.noise)


class Piece:
    """A normal variable that is known to lie between two limits: its mass, and the cumulants that it has.

    The cumulants are those of the standard normal variable x, which then lies between a and b. Where the limits are one
    number x is known, and has a density in place of a mass.

    It is mirrored so that a + b >= 0. Where 0 lies between the bounds, and most of the mass too, what is left out is
    taken from one, and derivatives follow from the density at the bounds, whose terms have one sign. Elsewhere all is
    integrated from the bound next to 0, where the density is largest: what is near 1 is never taken from what is near
    1, however narrow the piece and however far out.
    """

    def __init__(self, lower: Array, upper: Array, mean: Array, variance: Array, noise: float | Array) -> None:
        base.check_gaussian_variance(variance)
        lower, upper, mean, variance = np.broadcast_arrays(lower, upper, mean, variance)
        self.noise, self.scale = noise, np.sqrt(noise + variance)
        a, b = (lower - mean) / self.scale, (upper - mean) / self.scale
        with np.errstate(invalid="ignore"):
            self._width = np.where(lower == upper, 0.0, upper - lower) / self.scale
        mirrored = a + b < 0
        self._sign = np.where(mirrored, -1.0, 1.0)
        self._low, self._high = np.where(mirrored, -b, a), np.where(mirrored, -a, b)
        self._inside = self._low < 0
        tails = ndtr(self._low) + ndtr(-self._high)
        most = self._inside & (tails < 0.5)
        self.log_mass = np.log1p(-np.where(most, tails, 0.0))
        self.first, self.second = (np.zeros(a.shape) for _ in range(2))
        rest = np.nonzero(~most)
        for some in blocks(rest[0].size, _AT_ONCE):
            here = tuple(axis[some] for axis in rest)
            self.log_mass[here], moments = self._integrated(here, 2)
            self.first[here] = self._sign[here] * moments[0]
            self.second[here] = moments[1] - 1.0
        here = np.nonzero(most)
        low, high = self._low[here], self._high[here]
        at_low, at_high = (np.exp(-0.5 * x**2 - LOG_ROOT_OF_TWO_PI - self.log_mass[here]) for x in (low, high))
        moment = at_low - at_high
        self.first[here] = self._sign[here] * moment
        self.second[here] = _times(low, at_low) - _times(high, at_high) - moment**2

    def cumulants(self, order: int) -> Array:
        """Return the first ``order`` cumulants of x, the first in place 0."""
        found = np.empty((order, self.first.size))
        for some in blocks(self.first.size, _AT_ONCE):
            here = np.unravel_index(np.arange(self.first.size)[some], self.first.shape)
            found[:, some] = self._sign[here] ** np.arange(1, order + 1)[:, None] * self._integrated(here, order)[1]
        return found.reshape(order, *self.first.shape)

    def _integrated(self, here: tuple[NDArray[np.intp], ...], order: int) -> tuple[Array, Array]:
        """Return the log of the mass of some pieces, and the cumulants ``(order, m)`` of x in their mirror."""
        low, high, width, inside = self._low[here], self._high[here], self._width[here], self._inside[here]
        start = np.maximum(low, 0.0)  # the mode
        # x = start + u, and the density falls by so many nats at this u; nothing cancels far out
        reach = _REACH / (start + np.sqrt(start**2 + _REACH))
        left = np.where(inside, np.maximum(low, -reach), 0.0)
        right = np.minimum(np.where(inside, high, width), reach)
        half = 0.5 * (right - left)
        u = half[:, None] * _NODES
        middle = 0.5 * (left + right)
        weight = _WEIGHTS * np.exp(-(start + middle)[:, None] * u - 0.5 * u**2)
        total = weight.sum(axis=1)
        share = weight / total[:, None]
        mass = np.where(width == 0.0, 1.0 / self.scale[here], half * total)
        log_mass = np.log(mass) - 0.5 * (start + middle) ** 2 - LOG_ROOT_OF_TWO_PI
        mean = np.sum(share * u, axis=1)
        centred = u - mean[:, None]
        moments = np.array([np.sum(share * centred**k, axis=1) for k in range(1, order + 1)])
        moments[0] = 0.0
        found = from_moments(moments)
        found[0] = start + (middle + mean)
        return log_mass, found


def _times(bound: Array, density: Array) -> Array:
    """Return the product, which is 0 at infinity."""
    return np.where(density > 0, np.where(density > 0, bound, 0.0) * density, 0.0)
