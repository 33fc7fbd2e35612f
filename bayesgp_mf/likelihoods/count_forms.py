"""What likelihoods of counts have in common: forms that keep their digits, brackets of modes, checks of targets."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from scipy.special import digamma, expit, gammaln, log_expit

from bayesgp_mf.likelihoods.centred import Centred
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
    """Return log k! - k log k + k for k >= 1: half the log of 2 pi k for large k, without taking a difference there."""
    large = np.maximum(count, _STIRLING)
    series = 0.5 * np.log(2.0 * np.pi * large) + _remainder(large)
    return np.where(count < _STIRLING, gammaln(count + 1.0) - count * np.log(count) + count, series)


def log_rising_slope(start: Array, count: Array) -> Array:
    """Return the derivative of `log_rising` in the start, with its digits for a large one."""
    start, count = np.broadcast_arrays(start, count)
    plain = digamma(start + count) - digamma(start) - count / start
    large = np.maximum(start, _STIRLING)
    ratio = count / large
    series = _log1p_beyond(ratio) + 0.5 * ratio / (large + count)
    series = series + _remainder_slope(large + count) - _remainder_slope(large)
    return np.where(start < _STIRLING, plain, series)


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
