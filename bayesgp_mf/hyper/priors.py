"""Prior densities of hyperparameters, as functions of their logarithm, with their quantiles."""

from __future__ import annotations

import importlib
import math
import numbers
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from scipy.integrate import cumulative_trapezoid
from scipy.interpolate import CubicSpline
from scipy.special import ndtr, ndtri

from bayesgp_mf.types import Array

DEFAULT_SD = 1.5
"""Of the logarithm of a parameter that has neither prior nor bounds, around where it starts."""
WIDEST, COARSE, FINE, ROUNDS = 30.0, 241, 401, 4
"""How far from the start the logarithm of a parameter is first looked for, at how many points its density is asked for,
and how often at the fewer ones."""
DROP = 15.0
"""Logarithm by which the density falls, beyond which nothing of it matters to quantiles."""

Numbers: TypeAlias = float | tuple[float, ...]
"""One number, or one for each entry of a parameter."""


@runtime_checkable
class Prior(Protocol):
    """A prior of one positive parameter; of a vector parameter, of each entry independently."""

    def log_density(self, log_value: Array) -> tuple[Array, Array]:
        """Return the log density with respect to log theta and its derivative in log theta; elementwise."""


@dataclass(frozen=True, slots=True, repr=False)
class LogNormal:
    r"""A log-normal prior: the logarithm of the parameter, or of a power of it, is normal.

    .. math:: q \log \theta \sim N(\mathrm{mean}, \mathrm{sd}^2)

    Parameters
    ----------
    mean, sd : float or tuple of float
        Mean and standard deviation of the logarithm; a tuple has those of each entry of a vector parameter. The
        defaults are those of Barber & Williams [1]_ (section 2.3): broad, and in favour of inputs that matter little.
    power : float
        q, not zero. The prior of [1]_ is on :math:`w_l = \ell_l^{-2}`, so that of a length scale has ``power=-2``;
        :math:`\log \ell` is then normal with mean 1.5 and standard deviation 1.5.
    common : float
        Standard deviation of a normal part that the logarithms of all entries share, beside one of their own with
        ``sd``: a hierarchical prior, under which entries are alike, and the data say around which value. 0 for none.

    Raises
    ------
    ValueError
        If a number is not finite, ``sd`` not positive, ``common`` negative or ``power`` zero.

    References
    ----------
    .. [1] Barber, D., & Williams, C. K. I. (1996). Gaussian processes for Bayesian classification via hybrid
       Monte Carlo. NIPS 9.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.hyper import LogNormal
    >>> LogNormal(power=-2.0).log_density(np.array([1.5]))[0].round(4)
    array([-1.3244])
    """

    mean: Numbers = -3.0
    sd: Numbers = 3.0
    power: float = 1.0
    common: float = 0.0

    def __post_init__(self) -> None:
        _check_numbers(mean=self.mean, sd=self.sd, power=self.power, common=self.common)
        if np.any(np.asarray(self.sd) <= 0):
            raise ValueError(f"sd must be > 0 (a standard deviation of the logarithm), got {self.sd!r}.")
        if self.common < 0:
            raise ValueError(f"common must be >= 0 (a standard deviation of the logarithm), got {self.common!r}.")

    def log_density(self, log_value: Array) -> tuple[Array, Array]:
        """Return the log density with respect to log theta and its derivative in log theta; elementwise.

        Where entries share a part, the densities are those whose sum is the joint one, D + c^2 1 1^T for a covariance.
        """
        sd = np.broadcast_to(np.asarray(self.sd), np.shape(log_value))
        z = (self.power * log_value - np.asarray(self.mean)) / sd
        constant = np.log(abs(self.power) / sd) - 0.5 * math.log(2.0 * math.pi)
        if not self.common:
            return np.asarray(constant - 0.5 * z**2), np.asarray(-z * self.power / sd)
        # the inverse of that covariance, and its determinant, by the matrix inversion lemma
        more = 1.0 + self.common**2 * np.sum(sd**-2.0)
        slope = (z - self.common**2 / (more * sd) * np.sum(z / sd)) / sd
        constant = constant - 0.5 * math.log(more) / sd.size
        return np.asarray(constant - 0.5 * z * sd * slope), np.asarray(-slope * self.power)

    def __repr__(self) -> str:
        shared = f", common={self.common!r}" if self.common else ""
        return f"LogNormal(mean={self.mean!r}, sd={self.sd!r}, power={self.power!r}{shared})"

    def levels(self, own: Array, shared: Array) -> Array:
        """Return probabilities ``(l, k)`` at which quantiles of each entry are joint draws, from uniform numbers.

        ``own (l, k)`` are of each entry, ``shared (l,)`` of what all of them share.
        """
        part = self.common / np.hypot(np.asarray(self.sd), self.common)
        return np.asarray(ndtr(np.sqrt(1.0 - part**2) * ndtri(own) + part * ndtri(shared)[:, None]))

    def quantiles(self, levels: Array, lower: Array, upper: Array) -> Array:
        """Return quantiles ``(l, k)`` of the logarithm of each entry by itself, between bounds."""
        from scipy.stats import truncnorm

        mean, sd = np.asarray(self.mean) / self.power, np.hypot(self.sd, self.common) / abs(self.power)
        return np.asarray(mean + sd * truncnorm.ppf(levels, (lower - mean) / sd, (upper - mean) / sd))


@dataclass(frozen=True, slots=True)
class Exponential:
    r"""A prior under which a power of the parameter is exponential: a penalised-complexity prior.

    .. math:: \theta^q \sim \mathrm{Exponential}(\mathrm{rate})

    With q = 1/2 it is that of a variance whose standard deviation is exponential [1]_; with q = -d/2 that of a length
    scale in d dimensions [2]_, under which short length scales are rare and the constant function is the simplest one.

    Parameters
    ----------
    rate : float or tuple of float
        Above zero, in units of 1 / theta^q; a tuple has that of each entry of a vector parameter. That with
        P(theta^q > u) = a is -log(a) / u.
    power : float
        q, not zero.

    Raises
    ------
    ValueError
        If a number is not finite, ``rate`` not positive or ``power`` zero.

    References
    ----------
    .. [1] Simpson, D., Rue, H., Riebler, A., Martins, T. G., & Sørbye, S. H. (2017). Penalising model component
       complexity. Statistical Science 32, 1-28.
    .. [2] Fuglstad, G.-A., Simpson, D., Lindgren, F., & Rue, H. (2019). Constructing priors that penalize the
       complexity of Gaussian random fields. JASA 114, 445-452.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.hyper import Exponential
    >>> Exponential(2.0).log_density(np.log([0.5]))[0].round(4)  # 2 exp(-1) times 0.5
    array([-1.])
    """

    rate: Numbers = 1.0
    power: float = 1.0

    def __post_init__(self) -> None:
        _check_numbers(rate=self.rate, power=self.power)
        if np.any(np.asarray(self.rate) <= 0):
            raise ValueError(f"rate must be > 0, got {self.rate!r}.")

    def log_density(self, log_value: Array) -> tuple[Array, Array]:
        """Return the log density with respect to log theta and its derivative in log theta; elementwise."""
        log_z = np.log(self.rate) + self.power * log_value
        with np.errstate(over="ignore"):  # far out the density is zero
            z = np.exp(log_z)
        return np.asarray(math.log(abs(self.power)) + log_z - z), np.asarray(self.power * (1.0 - z))

    def quantiles(self, levels: Array, lower: Array, upper: Array) -> Array:
        """Return quantiles ``(l, k)`` of the logarithm of each entry, between bounds."""
        with np.errstate(over="ignore"):  # far out
            ends = np.sort(np.asarray(self.rate) * np.exp(self.power * np.array([lower, upper])), axis=0)
        z = ends[0] - np.log1p((levels if self.power > 0 else 1.0 - levels) * np.expm1(ends[0] - ends[1]))
        return np.asarray(np.log(z / np.asarray(self.rate)) / self.power)


@dataclass(frozen=True, slots=True)
class Distance:
    r"""A penalised-complexity prior by distance: how far the parameter takes a model from a simpler one.

    .. math:: d(\theta) \sim \mathrm{Exponential}(\mathrm{rate})

    The distance [1]_ rises with the parameter from zero to infinity, and is known at some values: between them log d is
    a cubic spline of :math:`\log \theta`, beyond them linear.

    Parameters
    ----------
    log_values : tuple of float
        Logarithms of the parameter, in order.
    distances : tuple of float
        d there, above zero and rising.
    rate : float
        Above zero. That with P(d < u) = a is -log(1 - a) / u.

    Raises
    ------
    ValueError
        If numbers are not finite or positive, or do not rise.

    References
    ----------
    .. [1] Simpson, D., Rue, H., Riebler, A., Martins, T. G., & Sørbye, S. H. (2017). Penalising model component
       complexity. Statistical Science 32, 1-28.

    Examples
    --------
    With d the parameter itself it is exponential:

    >>> import numpy as np
    >>> from bayesgp_mf.hyper import Distance, Exponential
    >>> at, prior = np.log([0.3, 2.0]), Distance((-5.0, 0.0, 5.0), tuple(np.exp([-5.0, 0.0, 5.0])), rate=2.0)
    >>> bool(np.allclose(prior.log_density(at), Exponential(2.0).log_density(at)))
    True
    """

    log_values: tuple[float, ...]
    distances: tuple[float, ...]
    rate: float = 1.0

    def __post_init__(self) -> None:
        _check_numbers(log_values=self.log_values, distances=self.distances, rate=self.rate, power=1.0)
        rises = [
            np.ndim(each) == 1 and len(each) > 1 and np.all(np.diff(each) > 0)
            for each in (self.log_values, self.distances)
        ]
        if not all(rises) or len(self.log_values) != len(self.distances) or self.distances[0] <= 0 or self.rate <= 0:
            raise ValueError(
                "log_values and distances must be as many numbers that rise, distances and rate above zero, got "
                f"{self.log_values!r:.40}, {self.distances!r:.40} and {self.rate!r}."
            )

    def _log_distance(self, log_value: Array) -> tuple[Array, Array, Array]:
        """Return log d with two derivatives in log theta."""
        spline = CubicSpline(self.log_values, np.log(self.distances), bc_type="natural")
        inside = np.clip(log_value, self.log_values[0], self.log_values[-1])
        slope, beyond = spline(inside, 1), log_value - inside
        return np.asarray(spline(inside) + slope * beyond), np.asarray(slope), np.where(beyond, 0.0, spline(inside, 2))

    def log_density(self, log_value: Array) -> tuple[Array, Array]:
        """Return the log density with respect to log theta and its derivative in log theta; elementwise."""
        log_d, slope, bend = self._log_distance(log_value)
        with np.errstate(over="ignore"):  # far out the density is zero
            z = self.rate * np.exp(log_d)
        return np.asarray(math.log(self.rate) + log_d + np.log(slope) - z), np.asarray(slope * (1.0 - z) + bend / slope)

    def quantiles(self, levels: Array, lower: Array, upper: Array) -> Array:
        """Return quantiles ``(l, k)`` of the logarithm of each entry, between bounds."""
        ends = [self._log_distance(np.clip(end, -WIDEST, WIDEST))[0] for end in (lower, upper)]
        at = np.linspace(-WIDEST, WIDEST, 2 * FINE)
        return np.interp(Exponential(self.rate).quantiles(levels, *ends), self._log_distance(at)[0], at)


def quantiles(prior: Prior, levels: Array, start: Array, lower: Array, upper: Array) -> Array:
    """Return quantiles of the logarithms of the entries of a parameter.

    A prior of which no more than the density is known is summed by the trapezoidal rule.

    Parameters
    ----------
    prior : Prior
        Of the parameter.
    levels : (l, k) array
        Probabilities, for each entry its own; of each by itself where the prior has a part in common.
    start, lower, upper : (k,) array
        Logarithms around which to look, and between which the parameter stays.

    Returns
    -------
    (l, k) array
        Logarithms.
    """
    if type(prior) in STORED.values():
        of_its_own: Any = prior
        return np.asarray(of_its_own.quantiles(levels, lower, upper))
    low, high = np.maximum(lower, start - WIDEST), np.minimum(upper, start + WIDEST)
    for points in (*[COARSE] * ROUNDS, FINE):
        x = low + np.linspace(0.0, 1.0, points)[:, None] * (high - low)
        with np.errstate(over="ignore", invalid="ignore"):
            log_density = np.array([prior.log_density(row)[0] for row in x])
        log_density = np.where(np.isnan(log_density), -np.inf, log_density)
        matters = log_density > log_density.max(axis=0) - DROP
        first, last = np.argmax(matters, axis=0), points - 1 - np.argmax(matters[::-1], axis=0)
        entries = np.arange(start.size)
        if points == COARSE:  # nearer to where the density is, or beyond an end at which it still is
            wide = high - low
            low = np.where(first == 0, np.maximum(lower, low - wide), x[first - 1, entries])
            high = np.where(last == points - 1, np.minimum(upper, high + wide), x[(last + 1) % points, entries])
    density = np.exp(log_density - log_density.max(axis=0))
    below = cumulative_trapezoid(density, x, axis=0, initial=0.0)
    return np.array([np.interp(levels[:, k], below[:, k] / below[-1, k], x[:, k]) for k in entries]).T


STORED: dict[str, Any] = {kind.__name__: kind for kind in (LogNormal, Exponential, Distance)}
"""The priors that a container can hold all of."""


def describe(prior: Prior) -> dict[str, Any]:
    """Return what is said of a prior as JSON: all of it, or what it prints as."""
    if type(prior) in STORED.values():
        either: Any = prior
        return {"prior": type(prior).__name__, **asdict(either)}
    return {"program": repr(prior)}


def from_description(stated: Mapping[str, Any]) -> Prior | None:
    """Return the prior of which `describe` said so; None of one that it cannot say all of."""
    if "program" in stated:
        return None
    given = {name: tuple(value) if isinstance(value, list) else value for name, value in stated.items()}
    prior: Prior = STORED[str(given.pop("prior"))](**given)
    return prior


def _check_numbers(**given: Any) -> None:
    for name, value in given.items():
        each = value if isinstance(value, tuple) and name not in ("power", "common") else (value,)
        if not each or not all(map(_is_finite, each)):
            raise ValueError(f"{name} must be a finite number, got {value!r}.")
    if given["power"] == 0:
        raise ValueError("power must not be 0: the logarithm of theta^0 is no parameter. Use power=1.0.")


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, numbers.Real) and math.isfinite(value)
    except OverflowError:  # a huge integer
        return False


def as_prior(prior: object) -> object:
    """Return a distribution of PyMC, such as ``pm.Gamma.dist(2, 1)``, as a prior, and anything else as it is."""
    if type(prior).__module__.partition(".")[0] != "pytensor":
        return prior
    # `bayesgp_mf.pymc` lies above this layer; who has such a distribution has imported PyMC already
    return importlib.import_module("bayesgp_mf.pymc.kernel").from_pymc(prior)
