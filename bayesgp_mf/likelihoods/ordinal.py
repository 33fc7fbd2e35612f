"""Ordered classes with a probit link: the level of a latent value seen in Gaussian noise."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from bayesgp_mf.likelihoods import base
from bayesgp_mf.likelihoods.pieces import LOG_ROOT_OF_TWO_PI, OfPieces, Piece
from bayesgp_mf.types import Array, Derivs


@dataclass(frozen=True, slots=True)
class Ordinal(OfPieces):
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
        self.check_names(values)
        noise_variance = values.pop("noise_variance", self.noise_variance)
        values = {name: base.check_number(name, gap) for name, gap in values.items()}
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
            upper = np.where(level == gap, np.exp(-0.5 * z**2 - LOG_ROOT_OF_TWO_PI - derivs.value) / scale, 0.0)
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

    def _piece(self, t: Array, mean: Array, variance: Array) -> Piece:
        """Return the piece of a normal distribution that lies between the cuts of each target."""
        level = np.asarray(t).astype(np.intp)
        return Piece(self._bounds[level], self._bounds[level + 1], mean, variance, self.noise_variance)
