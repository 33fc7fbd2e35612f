r"""Measurements with outliers: Student's t distribution about the latent value."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayesgp_mf.likelihoods import base
from bayesgp_mf.likelihoods.below import below_exponential, student_t_below
from bayesgp_mf.likelihoods.counts import (
    log_minus_digamma,
    log_rising,
    log_rising_slope,
    log_root_factorial,
    odds_beyond_log,
)
from bayesgp_mf.likelihoods.moments import AGREE, average, by_more_points, from_moments, halves_agree, midpoints
from bayesgp_mf.types import Array, Derivs

_DROP = 42.0  # nats below the largest value: exp(-42) is 1/1000 of rounding
_SCAN, _SCANS = 64, 6
_SHARED = 96  # of four degrees of freedom, halves agree for targets up to 12 scales off
_POINTS = (128, 256, 768, 3072)  # of four degrees of freedom, halves of 64 points agree
_BEND = 0.3
_OUTSIDE = 34.0  # nats below an integral: rounding
_ENTRIES = 2**15
SMALLEST_SCALE = 1e-150
"""Its square, and that of one over it, are numbers."""
_LARGEST_NOISE = 600.0  # log of the largest noise that is asked for: far more than all squares of targets


@dataclass(frozen=True, slots=True)
class StudentT(base.Likelihood):
    r"""Student's t likelihood of real targets, for measurements with outliers.

    .. math::
        p(t|f) = \frac{\Gamma((\nu + 1)/2)}{\Gamma(\nu/2) \sqrt{\pi \nu}\, s}
        \left(1 + \frac{(t - f)^2}{\nu s^2}\right)^{-(\nu + 1)/2}

    Parameters
    ----------
    scale : float
        s > 0, in units of the target. The standard deviation of the noise is s sqrt(df/(df - 2)).
    df : float
        Degrees of freedom > 0. The fewer, the heavier the tails; below 2 the variance is infinite.

    Raises
    ------
    ValueError
        If one of them is not a finite number > 0, or the scale is below 1e-150 or above 1e150.

    Notes
    -----
    The distribution is a Gaussian whose precision is drawn from a gamma distribution [1]_, so that

    .. math::
        Z = \int N(t | m, v + s^2/\lambda)\, \mathrm{Gamma}(\lambda | \nu/2, \nu/2)\, d\lambda,

    with derivatives in m that are averages of Hermite polynomials. This holds even if the tilted density has two modes.
    The integral is a trapezoidal rule in the log of the precision, consisting of two halves that must agree. The first
    one has the same precisions for all cases; those of which its halves do not agree have their own.

    The likelihood is not log-concave: a target far from the prediction of the others has little effect, sites may have
    negative precision, and there may be more than one solution.

    References
    ----------
    .. [1] Vanhatalo, J., Jylänki, P., & Vehtari, A. (2009). Gaussian process regression with Student-t likelihood.
       NIPS 22.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import StudentT
    >>> StudentT(0.5, df=4).log_partition(np.array([3.0]), np.array([0.0]), np.array([1.0])).d1.round(6)
    array([1.850471])
    """

    scale: float = 1.0
    df: float = 4.0
    unbounded_if_weighted: ClassVar[tuple[str, ...]] = ("scale",)
    allows_noise: ClassVar[str] = "a larger scale of the likelihood"
    targets: ClassVar[Literal["real"]] = "real"
    forbids: ClassVar[bool] = False
    log_concave: ClassVar[bool] = False
    # how heavy the tails are, few cases say: the degrees of freedom are tuned where something is said of them
    tunable: ClassVar[dict[str, base.Tunable]] = {
        "scale": base.NOISE,
        "df": base.Tunable(
            by_default=False,
            at_lower="the tails are as heavy as they may be",
            at_upper="no target is an outlier, and likelihoods.Gaussian does as well",
        ),
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", base.check_number("scale", self.scale))
        if not SMALLEST_SCALE <= self.scale <= 1.0 / SMALLEST_SCALE:
            raise ValueError(
                f"scale must be between {SMALLEST_SCALE:g} and {1.0 / SMALLEST_SCALE:g}, so that its square is a "
                f"number, got {self.scale!r}. Measure in another unit."
            )
        object.__setattr__(self, "df", base.check_number("df", self.df))

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        r"""Return the derivative of `log_partition` in a parameter, and its two derivatives in mean.

        The noise :math:`s^2/\lambda` adds to the variance V, in which N has half its second derivative in m; the
        degrees of freedom are in the density of the precision alone. So with averages over precisions and
        :math:`r_k = N^{(k)}/N`,

        .. math::
            \partial_s Z^{(k)} / Z = \langle s \lambda^{-1} r_{k+2} \rangle, \quad
            \partial_\nu Z^{(k)} / Z = \tfrac12 \langle (\log \tfrac\nu2 + 1 - \psi(\tfrac\nu2)
            + \log \lambda - \lambda)\, r_k \rangle .
        """
        t, mean, variance = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (t, mean, variance)))
        found, residual, spread = np.empty((3, mean.size)), (t - mean).ravel(), variance.ravel()
        (certain,), (rest,) = np.nonzero(spread == 0), np.nonzero(spread > 0)
        found[:, certain] = self._certain_derivative(name, residual[certain])
        half = 0.5 * self.df
        for some, mixed in self._mixtures(residual[rest], spread[rest]):
            ratios = mixed.ratios(4)
            if name == "scale":
                by = [mixed.average(mixed.noise / self.scale * ratio) for ratio in ratios[2:]]
            else:
                by_density = 0.5 * (log_minus_digamma(half) + below_exponential(-np.log(mixed.noise / self.scale**2)))
                by = [mixed.average(by_density * ratio) for ratio in ratios[:3]]
            r1, r2 = mixed.average(ratios[1]), mixed.average(ratios[2])
            slope = by[1] - r1 * by[0]
            found[:, rest[some]] = by[0], slope, by[2] - r2 * by[0] - 2.0 * r1 * slope
        value, d1, d2 = found.reshape(3, *mean.shape)
        return Derivs(value, d1, d2)

    def powers(self, weights: Array) -> base.Powers | None:
        """Return powers as a Student t with other degrees of freedom and another scale, where all are the same.

        None where they fall off too slowly to be one.
        """
        weight = float(weights[0])
        df = weight * (self.df + 1.0) - 1.0
        if np.any(weights != weight) or df <= 0:
            return None
        other = StudentT(self.scale * float(np.sqrt(self.df / df)), df)
        constant = weight * self._constant() - other._constant()
        return base.Powers(other, float(constant), partial(_slopes, self, other, weight))

    def curved_at(self, t: Array) -> Array:
        """Return the latent values near which log p(t|f) bends most: the targets."""
        return t

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) in nats, and its derivatives in f; ``t`` and ``f`` broadcast."""
        z = (np.asarray(t, dtype=np.float64) - f) / self.scale
        weight = (self.df + 1.0) / (self.df + z**2)
        value = self._constant() - 0.5 * (self.df + 1.0) * np.log1p(z**2 / self.df)
        # the difference of squares in factors: z may be so large that its square loses the other
        d2 = weight * (z**2 - self.df) / (self.df + z**2) / self.scale**2
        return Derivs(value, weight * z / self.scale, d2)

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t|f) N(f | mean, variance), and its derivatives in mean.

        At variance 0 it is `log_prob`.
        """
        value, d = self._derivatives(t, mean, variance, 2)
        return Derivs(value, d[0], d[1])

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array]:
        """Return the third and fourth derivative of `log_partition`."""
        _, d = self._derivatives(t, mean, variance, 4)
        return d[2], d[3]

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array:
        """Return what `cumulants.tilted_cumulants` does: each precision has a Gaussian, whose moments are known."""
        moments = np.empty((order, mean.size))
        for some, mixed in self._mixtures(t - mean, variance):
            spread = variance[some, None]
            centre, inner = spread * mixed.slope, spread * mixed.noise / mixed.total
            centre = centre - mixed.average(centre)[:, None]
            unit = np.sqrt(mixed.average(centre**2 + inner))[:, None]
            centre, inner = centre / unit, inner / unit**2
            before, now = np.zeros_like(centre), np.ones_like(centre)
            for k in range(order):
                before, now = now, centre * now + k * inner * before
                moments[k, some] = mixed.average(now)
        return from_moments(moments)[2:]

    def tilted_share(self, t: Array, mean: Array, variance: Array) -> Array:
        r"""Return what `Likelihood.tilted_share` does, of averages of positive numbers alone.

        Given a precision the part :math:`q = (s^2/\lambda)/(v + s^2/\lambda)` of the variance is left, and the mean
        is :math:`r q` short of the target, where r = t - m:

        .. math:: \langle q \rangle + \frac{r^2}{v} \left(\langle q^2 \rangle - \langle q \rangle^2\right).

        Where the noise is small they come from precisions that have next to no mass, so that each has its own rule.
        """
        residual, log = t - mean, np.empty((3, mean.size))
        for power in range(3):
            for some, mixed in self._mixtures(residual, variance, power):
                log[power, some] = mixed.log_integral
        once, twice = np.exp(log[1:] - log[0])
        return np.asarray(once + residual**2 / variance * np.maximum(twice - once**2, 0.0))

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of a target when f ~ N(mean, variance): NaN and infinite where there is none."""
        noise = self.scale**2 * self.df / (self.df - 2.0) if self.df > 2.0 else np.inf
        return (mean if self.df > 1.0 else np.full_like(mean, np.nan)), variance + noise

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return the probability that a target is at most t when f ~ N(mean, variance)."""
        return student_t_below(t - mean, variance, self.scale, self.df)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each latent value."""
        return np.asarray(f + self.scale * rng.standard_t(self.df, size=np.shape(f)))

    def log_prob_graph(self, functions: Any, t: Any, f: Any, **given: Any) -> Any:
        """Return log p(t|f), written with the functions of ``functions``."""
        values = {**self.parameters, **given}
        scale, df = values["scale"], values["df"]
        half = 0.5 * (df + 1.0)
        constant = functions.gammaln(half) - functions.gammaln(0.5 * df) - 0.5 * functions.log(np.pi * df)
        return constant - functions.log(scale) - half * functions.log1p(((t - f) / scale) ** 2 / df)

    def _constant(self) -> float:
        half = np.asarray(0.5 * self.df)
        rising = float(log_rising(half, np.asarray(0.5)))
        return rising - 0.5 * float(np.log(2.0 * np.pi)) - float(np.log(self.scale))

    def _derivatives(self, t: Array, mean: Array, variance: Array, order: int) -> tuple[Array, Array]:
        """Return log Z and its derivatives ``(order, ...)`` in the mean."""
        base.check_gaussian_variance(variance)
        t, mean, variance = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (t, mean, variance)))
        value, found = np.empty(mean.size), np.empty((order, mean.size))
        (certain,) = np.nonzero(variance.ravel() == 0)
        (rest,) = np.nonzero(variance.ravel() > 0)
        residual = (t - mean).ravel()
        value[certain] = self.log_prob(residual[certain], np.zeros(certain.size)).value
        found[:, certain] = self._certain(residual[certain], order)
        for some, mixed in self._mixtures(residual[rest], variance.ravel()[rest]):
            value[rest[some]] = mixed.log_integral
            found[:, rest[some]] = from_moments(np.array([mixed.average(each) for each in mixed.ratios(order)[1:]]))
        return value.reshape(mean.shape), found.reshape(order, *mean.shape)

    def _certain(self, residual: Array, order: int) -> Array:
        r"""Return the derivatives of `log_prob` in f, ``(order, k)``.

        They are those of :math:`-(\nu + 1) \mathrm{Re} \log(\sqrt{\nu} s + i (t - f))`.
        """
        w = 1.0 / (np.sqrt(self.df) * self.scale + 1j * residual)
        found, power, factorial = np.empty((order, residual.size)), np.ones_like(w), 1.0
        for k in range(order):  # d/df of log(a + i r) is -i/(a + i r), and each further one brings i k w
            power = power * 1j * w
            factorial *= max(k, 1)
            found[k] = (self.df + 1.0) * factorial * power.real
        return found

    def _certain_derivative(self, name: str, residual: Array) -> tuple[Array, Array, Array]:
        """Return the derivative of `log_prob` in a parameter, and its two derivatives in f, ``(3, k)``."""
        s, nu, z = self.scale, self.df, residual / self.scale
        total = nu + z**2
        weight = (nu + 1.0) / total
        bend = weight * (z**2 - nu) / total / s**2
        with np.errstate(divide="ignore"):
            log_odds = 2.0 * np.log(np.abs(z)) - np.log(nu)
        if name == "scale":  # log p is -log s and a function of z alone
            third = 2.0 * weight * (z / total) * ((z**2 - 3.0 * nu) / total) / s**3
            value = ((nu + 1.0) * expit(log_odds) - 1.0) / s
            return value, -(weight * z / s - z * s * bend) / s, -(2.0 * bend - z * s * third) / s
        rising = log_rising_slope(np.asarray(0.5 * nu), np.asarray(0.5))
        value = 0.5 * (rising + odds_beyond_log(log_odds) + expit(log_odds) / nu)
        slope = ((z**2 - 1.0) / total) * (z / total) / s
        bent = (1.0 - 3.0 * z**2) / total + 4.0 * (z**2 / total) * ((z**2 - 1.0) / total)
        return value, slope, bent / total / s**2

    def _mixtures(self, residual: Array, variance: Array, power: int = 0) -> Any:
        """Return some cases at a time, of variance above zero, with their Gaussians over precisions.

        These are weighed by a power of the part of the variance that each leaves.
        """

        def rule(some: NDArray[np.intp], points: int) -> tuple[_Mixture, NDArray[np.bool_]]:
            if points == _SHARED:
                return self._shared(residual[some], variance[some])
            low, high = self._range(residual[some], variance[some], power)
            step = (high - low) / points
            along = step[:, None] * midpoints(points)
            u = low[:, None] + along
            log_density = self._log_density(u, residual[some], variance[some], power)
            peak = log_density.max(axis=1)
            weight = np.exp(log_density - peak[:, None])
            back = points * step[:, None] - along
            settled = halves_agree(weight, (np.ones_like(along), along**2, back**2)) | (points == _POINTS[-1])
            mass = np.sum(weight, axis=1)
            noise = self.scale**2 * np.exp(-u)
            total = variance[some, None] + noise
            log_integral = peak + np.log(mass * step)
            every = log_integral, weight / mass[:, None], noise, total, residual[some, None] / total
            return _Mixture(*(part[settled] for part in every)), settled

        return by_more_points(residual.size, _POINTS if power else (_SHARED, *_POINTS), _ENTRIES, rule)

    def _shared(self, residual: Array, variance: Array) -> tuple[_Mixture, NDArray[np.bool_]]:
        """Return the Gaussians of those cases for which the precisions that all share do, and which these are."""
        u, log_weight, factors, below = _shared_rule(self.df)
        with np.errstate(over="ignore", invalid="ignore"):  # where it is not finite it does not settle
            noise = self.scale**2 * np.exp(-u)
            total = variance[:, None] + noise
            slope = residual[:, None] / total
            log_density = log_weight - 0.5 * residual[:, None] * slope
            peak = log_density.max(axis=1)
            weight = np.exp(log_density - peak[:, None]) / np.sqrt(total)
            half = _SHARED // 2
            one, other = weight[:, :half] @ factors[:half], weight[:, half:] @ factors[half:]
            mass = np.sum(weight, axis=1)  # of each case by itself, to the last bit
            # a Gaussian is nowhere larger than where its variance is the square of the residual
            widest = np.maximum(residual**2, total[:, 0])
            outside = below - 0.5 * (np.log(widest) + residual**2 / widest)
            settled = np.all(np.abs(one - other) <= AGREE * (one + other), axis=1)
            settled &= outside < peak + np.log(mass) - _OUTSIDE
        mass, every = mass[settled], (weight, np.broadcast_to(noise, total.shape), total, slope)
        weight, noise, total, slope = (part[settled] for part in every)
        return _Mixture(peak[settled] + np.log(mass), weight / mass[:, None], noise, total, slope), settled

    def _log_density(self, u: Array, residual: Array, variance: Array, power: int) -> Array:
        """Return log Gamma(lambda) N(residual | 0, V) ((s^2/lambda)/V)^power, V = v + s^2/lambda, in u = log lambda.

        It is ``(k, p)``.
        """
        half = 0.5 * self.df
        total = variance[:, None] + self.scale**2 * np.exp(-u)
        gamma = np.log(half) - log_root_factorial(np.asarray(half)) + half * below_exponential(u)
        density = gamma - 0.5 * (np.log(2.0 * np.pi * total) + residual[:, None] ** 2 / total)
        if not power:
            return np.asarray(density)
        left = np.log1p(variance[:, None] / self.scale**2 * np.exp(u))
        return np.asarray(density - power * left)

    def _range(self, residual: Array, variance: Array, power: int) -> tuple[Array, Array]:
        """Return the ends in the log of the precision between which the density is, ``(k,)`` each."""
        shape = 0.5 * self.df
        reach = np.sqrt(3.0 * _DROP / shape) if shape > 3.0 * _DROP else 1.0 + 1.5 * _DROP / shape
        farthest = 2.0 * np.log(self.scale) - _LARGEST_NOISE
        low = np.maximum(-np.log1p((residual / self.scale) ** 2 / self.df) - reach, farthest)
        if power:  # weighed so, precisions count at which the noise is as large as the variance
            low = np.minimum(low, np.maximum(-np.log1p(variance / self.scale**2) - reach, farthest))
        high = np.full(residual.size, min(np.sqrt(3.0 * _DROP / shape), np.log(2.0 + 1.5 * _DROP / shape)))
        for _ in range(_SCANS):
            u = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _SCAN)
            log_density = self._log_density(u, residual, variance, power)
            there = log_density > log_density.max(axis=1, keepdims=True) - _DROP
            first = np.maximum(np.argmax(there, axis=1) - 1, 0)
            last = np.minimum(_SCAN - np.argmax(there[:, ::-1], axis=1), _SCAN - 1)
            case = np.arange(low.size)
            low, high = u[case, first], u[case, last]
            if np.all(last - first > _SCAN // 4):
                break
        return low, high


def _slopes(once: StudentT, form: StudentT, weight: float, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
    """Return the derivative of a power in a parameter of what it is a power of, by those of the form that it has."""
    by_scale = form.parameter_derivative("scale", t, mean, variance)
    if name == "scale":
        return _combined([(form.scale / once.scale, by_scale)], (1.0 - weight) / once.scale)
    moved = 0.5 * form.scale * (1.0 / once.df - weight / form.df)
    by_df = form.parameter_derivative("df", t, mean, variance)
    constant = weight * (_constant_slope(once.df) - _constant_slope(form.df)) + moved / form.scale
    return _combined([(moved, by_scale), (weight, by_df)], constant)


def _combined(terms: list[tuple[float, Derivs]], constant: float) -> Derivs:
    value, d1, d2 = (np.sum([share * part[k] for share, part in terms], axis=0) for k in range(3))
    return Derivs(value + constant, d1, d2)


def _constant_slope(df: float) -> float:
    """Return the derivative of the constant of log p in the degrees of freedom."""
    return 0.5 * float(log_rising_slope(np.asarray(0.5 * df), np.asarray(0.5)))


class _Mixture(NamedTuple):
    """Gaussians of the residual over precisions: log integrals ``(k,)``; weights, noise, total variance, r/V."""

    log_integral: Array
    weight: Array
    noise: Array
    total: Array
    slope: Array

    def ratios(self, order: int) -> list[Array]:
        """Return the derivatives of N(r | 0, V) in the mean, none to ``order``, over itself, ``(k, points)`` each."""
        found, before = [np.ones_like(self.total)], np.zeros_like(self.total)
        for k in range(order):  # by the recurrence of the Hermite polynomials
            now = self.slope * found[k] - k * before / self.total
            before = found[k]
            found.append(now)
        return found

    def average(self, values: Array) -> Array:
        """Return the averages ``(k,)`` of values ``(k, points)``."""
        return average(self.weight, values)


@lru_cache(maxsize=64)
def _shared_rule(df: float) -> tuple[Array, Array, Array, float]:
    r"""Return a rule for all cases: logs u of precisions, logs of weights ``(p,)``, and what its halves must agree on.

    The last number is the log of what is below the first precision, in units of the largest Gaussian there.
    In w, where :math:`u = w - c e^{-w}`, the density falls off doubly exponentially on both sides, so that few points
    reach from end to end.
    """
    half = 0.5 * df

    def log_weight(w: Array) -> tuple[Array, Array]:
        u = w - _BEND * np.exp(-w)
        density = np.log(half) - log_root_factorial(np.asarray(half)) + half * below_exponential(u)
        return u, density + np.log1p(_BEND * np.exp(-w)) - 0.5 * np.log(2.0 * np.pi)

    w = np.linspace(-8.0, 8.0 - min(np.log(df), 0.0), 1024)
    u, found = log_weight(w)
    found += 0.5 * np.minimum(u, 0.0)  # what a Gaussian has at least, where the variance is small
    (there,) = np.nonzero(found > found.max() - _DROP)
    low, high = w[max(there[0] - 1, 0)], w[min(there[-1] + 1, w.size - 1)]
    step = (high - low) / _SHARED
    along = step * midpoints(_SHARED)
    u, found = log_weight(low + along)
    factors = np.stack([np.ones_like(along), along**2, (high - low - along) ** 2], axis=1)
    # the density below the first precision is at most its own there, and falls off in u with a rate of `half`
    below = float(found[0] - np.log1p(_BEND * np.exp(-low - along[0])) - np.log(half))
    return u, found + np.log(step), factors, below
