"""Ordered classes with a probit link: the level of a latent value seen in Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import numpy as np
from numpy.polynomial.legendre import leggauss
from numpy.typing import ArrayLike, NDArray
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
_LOG_ROOT_OF_TWO_PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, slots=True)
class Ordinal(base.Likelihood):
    r"""Ordinal likelihood: the level is the interval between two cuts in which the latent value plus noise falls.

    .. math:: p(t = k|f) = \Phi\!\left(\frac{c_{k+1} - f}{\sqrt v}\right) - \Phi\!\left(\frac{c_k - f}{\sqrt v}\right)

    with :math:`c_0 = -\infty` and :math:`c_K = \infty` (Chu and Ghahramani, JMLR 6, 2005, eqs. 3 and 5). Its average
    over a Gaussian has the same form with v + variance in place of v. With one cut at 0 it is `Probit`.

    Parameters
    ----------
    cuts : (K - 1,) array_like
        The cuts between the K levels, in latent units and increasing. The prior mean of the latent value is zero, on
        the same scale.
    noise_variance : float
        v > 0, in squared latent units.

    Raises
    ------
    ValueError
        If ``cuts`` are not finite and rising, or ``noise_variance`` is not a finite number > 0; later, if a target is
        none of the levels.

    Notes
    -----
    The gaps between cuts, ``gap1`` between the first two and so on, can be tuned. The first cut is not tuned: it is
    equivalent to the level of the latent function, which a `Bias` in the kernel adjusts.

    Targets are an ordered pandas Categorical of K categories, or the numbers 0 to K - 1. `predict` has ``p``, the
    probability of each level, and ``y_mean`` and ``y_sd`` of its number.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Ordinal
    >>> Ordinal([-1.0, 1.0]).level_probabilities(np.array([0.0, 2.0]), np.array([0.0, 1.0])).round(3)
    array([[0.159, 0.683, 0.159],
           [0.017, 0.223, 0.76 ]])
    """

    cuts: tuple[float, ...] | ArrayLike
    noise_variance: float = 1.0
    allows_noise: ClassVar[str] = "a larger noise_variance of the likelihood"
    targets: ClassVar[Literal["real"]] = "real"
    forbids: ClassVar[bool] = False
    log_concave: ClassVar[bool] = True

    def __post_init__(self) -> None:
        expected = "cuts must be rising finite numbers, one fewer than there are levels"
        try:
            cuts = np.asarray(self.cuts, dtype=np.float64)
        except (TypeError, ValueError, OverflowError) as error:
            raise ValueError(f"{expected}, such as [-1.0, 0.0, 1.0]; got {self.cuts!r:.80}.") from error
        if cuts.ndim != 1 or not cuts.size or not np.all(np.isfinite(cuts)) or np.any(np.diff(cuts) <= 0):
            raise ValueError(f"{expected}, such as [-1.0, 0.0, 1.0]; got {cuts.tolist()!r:.80}. Sort them, once each.")
        object.__setattr__(self, "cuts", tuple(cuts.tolist()))
        object.__setattr__(self, "noise_variance", base.check_noise_variance(self.noise_variance, zero_allowed=False))

    @property
    def n_levels(self) -> int:
        """Number of levels K."""
        return len(self._bounds) - 1

    @property
    def parameters(self) -> dict[str, float]:
        """The noise variance, and the gaps between each cut and the next: ``gap1`` between the first two."""
        gaps = np.diff(self._bounds[1:-1])
        return {"noise_variance": self.noise_variance} | {f"gap{k}": float(gap) for k, gap in enumerate(gaps, 1)}

    def with_parameters(self, **values: float) -> Ordinal:
        """Return the likelihood with another noise variance, or other gaps above the first cut."""
        noise_variance = values.pop("noise_variance", self.noise_variance)
        if all(self.parameters[name] == gap for name, gap in values.items()):  # no cut moves by a rounding
            return replace(self, noise_variance=noise_variance)
        gaps = [gap for name, gap in {**self.parameters, **values}.items() if name != "noise_variance"]
        first = self._bounds[1]
        return Ordinal(tuple((first + np.concatenate([[0.0], np.cumsum(gaps)])).tolist()), noise_variance)

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the derivative of `log_partition` in a parameter, and its two derivatives in mean.

        The noise variance adds to that of the Gaussian. A gap moves all cuts above it: levels between those as if the
        mean went down, and of the level that it is the width of the upper cut alone.
        """
        derivs = self.log_partition(t, mean, variance)
        third, fourth = self.higher_derivatives(t, mean, variance, derivs)
        if name == "noise_variance":
            return base.of_added_variance(derivs, third, fourth)
        gap, level = int(name.removeprefix("gap")), np.asarray(t)
        scale = np.sqrt(self.noise_variance + variance)
        z = (self._bounds[gap + 1] - mean) / scale
        with np.errstate(over="ignore"):  # of other levels
            upper = np.where(level == gap, np.exp(-0.5 * z**2 - _LOG_ROOT_OF_TWO_PI - derivs.value) / scale, 0.0)
        slope = z / scale - derivs.d1
        of_width = upper, upper * slope, upper * (slope**2 - 1.0 / scale**2 - derivs.d2)
        of_all = -derivs.d1, -derivs.d2, -third
        return Derivs(*(np.where(level > gap, moved, wider) for moved, wider in zip(of_all, of_width, strict=True)))

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if the targets are not numbers of levels."""
        (wrong,) = np.nonzero(~np.isin(t, np.arange(self.n_levels)))
        if wrong.size:
            raise ValueError(
                f"{name} must hold levels 0 to {self.n_levels - 1} for Ordinal with {self.n_levels - 1} cuts, got "
                f"{t[wrong[0]]:g} at index {wrong[0]} ({wrong.size} such cases). Number the levels from 0, or give an "
                "ordered pandas Categorical and as many cuts as it has categories, less one."
            )

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
        part, rest = (v / piece.scale**2 for v in (variance, self.noise_variance))  # of f + noise, f's and the noise's
        sd = np.sqrt(part * rest + part**2 * known[1])  # f given where f and noise lie, and that itself
        return np.array([known[k - 1] * (part / sd) ** k for k in range(3, order + 1)])

    def level_probabilities(self, mean: Array, variance: Array) -> Array:
        """Return the probability of each level ``(m, K)`` when f ~ N(mean, variance)."""
        levels = np.arange(float(self.n_levels))
        return np.asarray(np.exp(self.log_partition(levels, mean[..., None], variance[..., None]).value))

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of the level's number when f ~ N(mean, variance)."""
        levels, p = np.arange(float(self.n_levels)), self.level_probabilities(mean, variance)
        average = p @ levels
        return average, np.sum(p * (levels - average[..., None]) ** 2, axis=-1)

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return the probability that the level's number is at most t when f ~ N(mean, variance)."""
        cut = self._bounds[np.clip(np.floor(t) + 1.0, 0.0, self.n_levels).astype(np.intp)]
        return np.asarray(ndtr((cut - mean) / np.sqrt(self.noise_variance + variance)))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a level for each latent value."""
        seen = f + math.sqrt(self.noise_variance) * rng.standard_normal(f.shape)
        return np.searchsorted(self._bounds[1:-1], seen).astype(np.float64)

    @property
    def _bounds(self) -> Array:
        return np.concatenate([[-np.inf], np.asarray(self.cuts, dtype=np.float64), [np.inf]])

    def _piece(self, t: Array, mean: Array, variance: Array) -> _Piece:
        """Return the piece of a normal distribution that lies between the cuts of each target."""
        base.check_gaussian_variance(variance)
        t, mean, variance = np.broadcast_arrays(t, np.asarray(mean, dtype=np.float64), variance)
        level, scale = t.astype(np.intp), np.sqrt(self.noise_variance + variance)
        below, above = self._bounds[level], self._bounds[level + 1]
        return _Piece((below - mean) / scale, (above - mean) / scale, (above - below) / scale, scale)


class _Piece:
    """A standard normal variable x that is known to lie between a and b: its mass, and the cumulants that it has.

    It is mirrored so that a + b >= 0. Where 0 lies between the bounds, and most of the mass too, what is left out is
    taken from one, and derivatives follow from the density at the bounds, whose terms have one sign. Elsewhere all is
    integrated from the bound next to 0, where the density is largest: what is near 1 is never taken from what is near
    1, however narrow the piece and however far out.
    """

    def __init__(self, a: Array, b: Array, width: Array, scale: Array) -> None:
        self.scale, self._width = scale, width
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
        at_low, at_high = (np.exp(-0.5 * x**2 - _LOG_ROOT_OF_TWO_PI - self.log_mass[here]) for x in (low, high))
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
        log_mass = np.log(half * total) - 0.5 * (start + middle) ** 2 - _LOG_ROOT_OF_TWO_PI
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
