"""Counts without an upper end, whose mean is the exponential of the latent value.

What likelihoods of counts have in common: forms that keep their digits, brackets of modes, checks of targets.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import betainc, digamma, expit, gammainc, gammaln, log_expit, xlogy

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods.base import Tunable, check_number
from bayesgp_mf.likelihoods.below import LARGEST, count_below
from bayesgp_mf.likelihoods.centred import Bracket, Centred, Curve
from bayesgp_mf.types import Array, Derivs

_STIRLING = 30.0  # from here on the series below is right to rounding
_SMALL, _TERMS = 0.02, 11  # below this a logarithm is written as a series, right to rounding
LARGEST_UNDER_POISSON = 1e12
"""Counts that say so much that the sd of a log rate, 1e-6, is still well above the rounding of a log rate."""
LARGEST_LOG_RATE = 700.0
"""In absolute value, of an offset: the exponential of more is no number."""
_POISSON_LARGEST = 1e15  # numpy draws rates up to 9e18; from here on a Gaussian is a Poisson law to 3e-8


class Counts(Centred):
    """A likelihood of counts, whose averages are those of `likelihoods.centred`."""

    __slots__ = ()
    targets: ClassVar[Literal["real"]] = "real"
    log_concave: ClassVar[bool] = True
    whole_targets: ClassVar[bool] = True


def check_counts(name: str, t: Array, likelihood: str, largest: float = 1e15) -> None:
    """Raise a ValueError if targets are not whole numbers >= 0, or too large to be known as such."""
    bad = ~((t >= 0) & (t == np.floor(t)))
    if np.any(bad):
        first = int(np.argmax(bad))
        raise ValueError(
            f"{name} must hold counts, whole numbers >= 0, for {likelihood}, got {float(t.ravel()[first]):g} at index "
            f"{first} ({int(np.sum(bad))} such cases). Correct or drop those; for measurements use "
            "likelihoods.Gaussian(noise_variance) or StudentT(scale, df)."
        )
    if t.size and t.max() > largest:
        raise ValueError(
            f"{name} must hold counts of at most {largest:g} for {likelihood}, got {t.max():g} at index "
            f"{int(np.argmax(t))}: rounding would decide. Count in another unit, or take their logarithms for "
            "measurements, likelihoods.Gaussian(1 / counts)."
        )


def log_rising(start: Array, count: Array) -> Array:
    r"""Return :math:`\log \Gamma(s + k) - \log \Gamma(s) - k \log s`: 0 for large s, without taking a difference there.

    By Stirling's series, in which the large terms cancel on paper.
    """
    start, count = np.broadcast_arrays(start, count)
    plain = gammaln(start + count) - gammaln(start) - count * np.log(start)
    large = np.maximum(start, _STIRLING)
    ratio = count / large
    series = (large + count - 0.5) * np.log1p(ratio) - count + _remainder(large + count) - _remainder(large)
    return np.where(start < _STIRLING, plain, series)


def log_root_factorial(count: Array) -> Array:
    """Return log k! - k log k + k for k >= 0: half the log of 2 pi k for large k, without taking a difference there."""
    large = np.maximum(count, _STIRLING)
    series = 0.5 * np.log(2.0 * np.pi * large) + _remainder(large)
    return np.where(count < _STIRLING, gammaln(count + 1.0) - xlogy(count, count) + count, series)


def log_rising_slope(start: Array, count: Array) -> Array:
    """Return the derivative of `log_rising` in the start, with its digits for a large one."""
    start, count = np.broadcast_arrays(start, count)
    plain = digamma(start + count) - digamma(start) - count / start
    large = np.maximum(start, _STIRLING)
    ratio = count / large
    series = _log1p_beyond(ratio) + 0.5 * ratio / (large + count)
    series = series + _remainder_slope(large + count) - _remainder_slope(large)
    return np.where(start < _STIRLING, plain, series)


def log_minus_digamma(a: float) -> float:
    """Return log a - psi(a), with its digits for large a."""
    if a < _STIRLING:
        return float(np.log(a) - digamma(a))
    return 1.0 / (2.0 * a) - float(_remainder_slope(np.asarray(a)))


def odds_beyond_log(x: Array) -> Array:
    """Return q/(1 + q) - log(1 + q) for the odds q = exp(x), with its digits where they are small."""
    small = x < np.log(_SMALL)
    odds = np.exp(np.where(small, x, 0.0))
    return np.where(small, -_log1p_beyond(odds) - odds**2 / (1.0 + odds), expit(x) + log_expit(-x))


def _log1p_beyond(x: Array) -> Array:
    """Return log(1 + x) - x for x >= 0."""
    near = np.minimum(x, _SMALL)
    total = np.zeros_like(near)
    for k in range(_TERMS, 1, -1):
        total = near * total + (-1.0) ** (k + 1) / k
    return np.where(x < _SMALL, near**2 * total, np.log1p(x) - x)


def log_choose(total: Array, count: Array) -> Array:
    """Return the log of the binomial coefficient."""
    few = np.minimum(count, total - count)
    rest = total - few + 1.0
    return np.asarray(log_rising(rest, few) + few * np.log(rest) - gammaln(few + 1.0))


def _remainder(x: Array) -> Array:
    """Return what Stirling's formula lacks of log Gamma(x), to 1e-17 from 30 on."""
    return np.asarray((1.0 / 12.0 - (1.0 / 360.0 - (1.0 / 1260.0 - 1.0 / 1680.0 / x**2) / x**2) / x**2) / x)


def _remainder_slope(x: Array) -> Array:
    """Return the derivative of `_remainder`."""
    return np.asarray(-(1.0 / 12.0 - (1.0 / 120.0 - (1.0 / 252.0 - 1.0 / 240.0 / x**2) / x**2) / x**2) / x**2)


def of_odds(up: Array, down: Array, x: Array) -> Derivs:
    r"""Return :math:`a \log \sigma(x) + b \log \sigma(-x)` for a, b >= 0, and its derivatives in x."""
    right, wrong = expit(x), expit(-x)
    value = up * log_expit(x) + down * log_expit(-x)
    return Derivs(value, up * wrong - down * right, -(up + down) * right * wrong)


def of_odds_from_one(up: Array, down: Array, x: Array) -> Derivs:
    r"""Return `of_odds` less :math:`\log \log(1 + e^x)`, for a >= 1: to all digits far below zero."""
    value, d1, d2 = of_odds(up - 1.0, down, x)
    right, wrong = expit(x), expit(-x)
    odds = np.exp(np.clip(x, -LARGEST_LOG_RATE, 0.0))  # below, what is added is nothing
    log, beyond = np.log1p(odds), _log1p_beyond(odds)
    slope = wrong * beyond / log
    bend = -right * (slope + wrong * ((1.0 + odds) * beyond + odds**2) / log / log)
    far = np.logaddexp(0.0, np.maximum(x, 0.0))
    value = value + np.where(x < 0, -log - np.log1p(beyond / odds), log_expit(x) - np.log(far))
    d1 = d1 + np.where(x < 0, slope, wrong - right / far)
    return Derivs(value, d1, d2 + np.where(x < 0, bend, right * (right / far - wrong * (1.0 + far)) / far))


def higher_of_odds(d2: Array, x: Array) -> tuple[Array, Array]:
    """Return the third and fourth derivative of `of_odds`, given the second."""
    slope = np.tanh(0.5 * x)
    return -d2 * slope, d2 * (slope**2 - 2.0 * expit(x) * expit(-x))


def bracket_of_rates(t: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return bounds of the mode where log p(t|f) rises up to f = log t, and falls no faster than exp(f) before."""
    with np.errstate(divide="ignore"):
        peak, never = np.log(t), np.minimum(mean - 1.0, -np.log(variance))
    return np.where(t > 0, np.minimum(mean, peak), never), np.where(t > 0, np.maximum(mean, peak), mean)


def draw_poisson(rate: Array, rng: np.random.Generator) -> Array:
    """Draw counts of any rate."""
    few = rng.poisson(np.minimum(rate, _POISSON_LARGEST)).astype(np.float64)
    if np.all(rate <= _POISSON_LARGEST):
        return few
    return np.where(rate > _POISSON_LARGEST, np.rint(rate + np.sqrt(rate) * rng.standard_normal(rate.shape)), few)


def of_log_normal(mean: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Return mean, variance and mean square of a rate whose logarithm is Gaussian; infinite where they overflow."""
    with np.errstate(over="ignore", divide="ignore"):
        square = 2.0 * (mean + variance)
        return np.exp(mean + 0.5 * variance), np.exp(square + np.log(-np.expm1(-variance))), np.exp(square)


def check_finite(mean: Array, variance: Array, *found: Array) -> None:
    """Raise an UndefinedQuantityError if a rate or time, or a moment of it, overflows."""
    beyond = ~np.all(np.isfinite(found), axis=0)
    if np.any(beyond):
        where = np.unravel_index(np.argmax(beyond), beyond.shape)
        latent, sd = np.broadcast_to(mean, beyond.shape)[where], np.sqrt(np.broadcast_to(variance, beyond.shape)[where])
        raise UndefinedQuantityError(
            f"targets, or their variances, are beyond the largest double in {np.sum(beyond)} of {beyond.size} cases: "
            f"in the first the latent value, a logarithm of a target, is {latent:.4g} ± {sd:.3g}. Leave out "
            "cases so far from the data, give the kernel a smaller variance, or take latent values alone, as of "
            "bgp.posterior(idata).latent(X_new)."
        )


_LARGE = 1e4  # counts up to which a rounding of log p(t|f) is felt by no average


class _OfRates(Counts):
    """A likelihood of counts whose mean is exp(f): its log is that of `_at`, and a constant."""

    __slots__ = ()
    largest_offset: ClassVar[float] = LARGEST_LOG_RATE

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) in nats, and its derivatives in f; ``t`` and ``f`` broadcast."""
        t = np.asarray(t, dtype=np.float64)
        return self._at(t, self._constant(t), np.asarray(f, dtype=np.float64))

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return the probability that a count is at most t when f ~ N(mean, variance)."""
        whole = np.floor(t)
        finite = np.clip(whole, 0.0, LARGEST)  # a quantile of rates that overflow is infinite
        shape, shift = np.asarray(self.dispersion), np.log(self.dispersion) if np.isfinite(self.dispersion) else 0.0
        found = count_below(finite + 1.0, shape, np.asarray(shift), mean, variance)
        return np.where(whole < 0, 0.0, np.where(whole > LARGEST, 1.0, found))

    def _of_targets(self, t: Array) -> tuple[Curve, Bracket]:
        flat = t.ravel()
        constant = self._constant(flat)
        return (
            lambda rows, f: self._at(flat[rows], constant[rows], f),
            lambda rows, mean, variance: bracket_of_rates(flat[rows], mean, variance),
        )

    @abstractmethod
    def from_one(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) - log(-log p(0|f)) and its derivatives in f, for t >= 1, with their digits at low rates."""

    @abstractmethod
    def exceeding(self, t: Array, f: Array) -> Array:
        """Return the probability that a count is more than t at latent value f."""

    @property
    @abstractmethod
    def dispersion(self) -> float:
        """How little counts vary beyond Poisson's: infinite where they vary as these."""

    @abstractmethod
    def _constant(self, t: Array) -> Array:
        """Return what of log p(t|f) does not depend on f."""

    @abstractmethod
    def _at(self, t: Array, constant: Array, f: Array) -> Derivs:
        """Return log p(t|f) and its derivatives, given the constant."""


@dataclass(frozen=True, slots=True)
class Poisson(_OfRates):
    r"""Poisson likelihood of counts, with a log link.

    .. math:: p(t|f) = e^{t f - e^f} / t!

    Its average over a Gaussian has no closed form. `log_partition` uses a trapezoidal rule that checks itself
    (`likelihoods.centred`), accurate to some 1e-13 of the value, and otherwise an adaptive rule.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Poisson
    >>> Poisson().log_partition(np.array([3.0]), np.array([0.0]), np.array([1.0])).value.round(6)
    array([-2.516535])
    """

    allows_noise: ClassVar[str] = "NegativeBinomial(dispersion)"
    dispersion: ClassVar[float] = np.inf

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if the targets are not counts."""
        check_counts(name, t, "Poisson", LARGEST_UNDER_POISSON)

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition` at variance zero; else None."""
        return None if np.any(variance) else (derivs.d2, derivs.d2)

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of a count when f ~ N(mean, variance): of a log-normal rate, and of counts at it."""
        rate, spread, _ = of_log_normal(mean, variance)
        check_finite(mean, variance, rate, spread)
        return rate, rate + spread

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a count for each latent value."""
        with np.errstate(over="ignore"):
            rate = np.exp(f)
        check_finite(f, np.zeros_like(f), rate)
        return draw_poisson(rate, rng)

    def log_prob_graph(self, functions: Any, t: Any, f: Any) -> Any:
        """Return log p(t|f), written with the functions of ``functions``."""
        return t * f - functions.exp(f) - functions.gammaln(t + 1.0)

    def from_one(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) - log(-log p(0|f)), -log p(0|f) being the rate, and its derivatives in f."""
        value, d1, d2 = self.log_prob(t - 1.0, f)
        return Derivs(value - np.log(t), d1, d2)

    def exceeding(self, t: Array, f: Array) -> Array:
        """Return the probability that a count is more than t at latent value f."""
        with np.errstate(over="ignore"):
            return np.asarray(gammainc(t + 1.0, np.exp(f)))

    def _constant(self, t: Array) -> Array:
        return np.asarray(-gammaln(t + 1.0))

    def _at(self, t: Array, constant: Array, f: Array) -> Derivs:
        with np.errstate(over="ignore"):
            rate = np.exp(f)
        value, d1 = t * f - rate + constant, t - rate
        if np.any(t > _LARGE):  # their large terms cancel: they are written by the distance from the largest value
            large = np.maximum(t, _LARGE)
            distance = f - np.log(large)
            with np.errstate(over="ignore"):
                excess = large * np.expm1(distance)
            value = np.where(t > _LARGE, large * distance - excess - log_root_factorial(large), value)
            d1 = np.where(t > _LARGE, -excess, d1)
        return Derivs(value, d1, -rate + np.zeros_like(t))


@dataclass(frozen=True, slots=True)
class NegativeBinomial(_OfRates):
    r"""Negative-binomial likelihood of counts that vary more than Poisson's, with a log link.

    .. math::
        p(t|f) = \frac{\Gamma(t + r)}{t!\, \Gamma(r)} \frac{r^r \mu^t}{(r + \mu)^{t + r}}, \qquad \mu = e^f

    The mean is mu and the variance mu + mu^2/r. It is a Poisson distribution whose rate has a gamma distribution of
    shape r, and for large r a Poisson distribution. r is ``alpha`` of PyMC's NegativeBinomial.

    Parameters
    ----------
    dispersion : float
        r > 0. The smaller, the more the counts vary.

    Raises
    ------
    ValueError
        If ``dispersion`` is not a finite number > 0.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import NegativeBinomial
    >>> NegativeBinomial(2.0).log_partition(np.array([3.0]), np.array([0.0]), np.array([1.0])).value.round(6)
    array([-2.70189])
    """

    dispersion: float = field()  # and not the property of the base class, as its default
    allows_noise: ClassVar[str] = "a smaller dispersion of the likelihood"
    tunable: ClassVar[dict[str, Tunable]] = {
        "dispersion": Tunable(
            at_lower="the kernel explains little of the counts",
            at_upper="the counts vary no more than under Poisson(), which does as well",
        )
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "dispersion", check_number("dispersion", self.dispersion))

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if the targets are not counts."""
        check_counts(name, t, "NegativeBinomial")

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition` at variance zero; else None."""
        return None if np.any(variance) else higher_of_odds(derivs.d2, mean - np.log(self.dispersion))

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of a count when f ~ N(mean, variance)."""
        rate, spread, square = of_log_normal(mean, variance)
        with np.errstate(over="ignore"):
            spread = rate + spread + square / self.dispersion
        check_finite(mean, variance, rate, spread)
        return rate, spread

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a count for each latent value."""
        with np.errstate(over="ignore"):
            rate = np.exp(f) * rng.gamma(self.dispersion, size=np.shape(f)) / self.dispersion
        check_finite(f, np.zeros_like(f), rate)
        return draw_poisson(rate, rng)

    def log_prob_graph(self, functions: Any, t: Any, f: Any, dispersion: Any = None) -> Any:
        """Return log p(t|f), written with the functions of ``functions``."""
        r = self.dispersion if dispersion is None else dispersion
        x = f - functions.log(r)
        choose = functions.gammaln(t + r) - functions.gammaln(r) - functions.gammaln(t + 1.0)
        return choose + t * x - (t + r) * functions.softplus(x)

    def from_one(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) - log(-log p(0|f)) and its derivatives in f."""
        value, d1, d2 = of_odds_from_one(t, np.asarray(self.dispersion), f - np.log(self.dispersion))
        return Derivs(value + self._constant(t) - np.log(self.dispersion), d1, d2)

    def exceeding(self, t: Array, f: Array) -> Array:
        """Return the probability that a count is more than t at latent value f."""
        return np.asarray(betainc(t + 1.0, self.dispersion, expit(f - np.log(self.dispersion))))

    def _constant(self, t: Array) -> Array:
        return np.asarray(log_rising(np.asarray(self.dispersion), t) + t * np.log(self.dispersion) - gammaln(t + 1.0))

    def _at(self, t: Array, constant: Array, f: Array) -> Derivs:
        value, d1, d2 = of_odds(t, np.asarray(self.dispersion), f - np.log(self.dispersion))
        return Derivs(value + constant, d1, d2)

    def _slope_of_targets(self, name: str, t: Array) -> Curve:
        r"""Return the derivative of log p(t|f) in the dispersion.

        It is, with :math:`x = f - \log r` and the derivative psi of log Gamma,

        .. math::
            \psi(r + t) - \psi(r) - t/r + \left(1 + t/r\right) \sigma(x) - \log(1 + e^x),

        of which all terms are small where r is large.
        """
        flat = t.ravel()
        constant = log_rising_slope(np.asarray(self.dispersion), flat)

        def slope(rows: Any, f: Array) -> Derivs:
            x, odds = f - np.log(self.dispersion), flat[rows] / self.dispersion
            right, wrong = expit(x), expit(-x)
            value = constant[rows] + odds_beyond_log(x) + odds * right
            both = right * wrong
            return Derivs(value, odds * both - right**2, both * (odds * (wrong - right) - 2.0 * right))

        return slope
