r"""The logistic likelihood of one trial or of a known number, averaged on a grid that follows both of their scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, log_expit

from bayesgp_mf.likelihoods.base import Likelihood, as_each, each_in_words, of_each
from bayesgp_mf.likelihoods.below import count_below
from bayesgp_mf.likelihoods.centred import Bracket, Curve
from bayesgp_mf.likelihoods.counts import Counts, check_counts, higher_of_odds, log_choose, of_odds
from bayesgp_mf.likelihoods.logistic_normal import FINE, GridRule, by_rule, discretise, rules
from bayesgp_mf.likelihoods.moments import average, standardised_cumulants
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.types import Array, Derivs

_RULES = rules(9.5, 4.0, {0.8: 36, 1.6: 68, 3.2: 130}) + FINE
_ENTRIES = 8_192  # nodes held at once, so that they stay in the cache


@dataclass(frozen=True, slots=True)
class Logit(Likelihood):
    r"""Logistic likelihood.

    .. math:: p(t|f) = \sigma(t f) = 1 / (1 + e^{-t f})

    the class probability of Barber & Williams [1]_ (their y is f, their pi is sigma). Its average over a Gaussian
    has no closed form and is integrated numerically.

    Notes
    -----
    `log_partition` takes the label that is the less likely one, with mean -abs(mean), so that nothing is computed as
    a small difference from one; the other label follows from Z(+) + Z(-) = 1. The density sigma(f) N(f) is
    log-concave and falls off about its mode at least as fast as the Gaussian does. The trapezoidal rule
    covers 9.5 standard deviations around it, uniformly in f, or, where the Gaussian is wide, uniformly in u
    with f = pi sinh(u), which is dense where the sigmoid bends. The integrand is analytic up to the poles of the
    sigmoid at +-i pi, so that steps of h standard deviations s err by some exp(-2 pi^2/(h s)) and exp(-2 pi^2/h^2):
    below 1e-16 with 36 points for s up to 0.8, with 220 up to 1e5, and with up to 27 times as many beyond. Against
    150-digit integration, for variances from 1e-10 to 1e60 and means of either sign, the relative errors of
    value, d1 and d2 stay below 1e-12. Only where d2 is below 1e-15 of the inverse variance has it no digits, since
    then the label says nothing that the Gaussian does not.

    References
    ----------
    .. [1] Barber, D., & Williams, C. K. I. (1996). Gaussian processes for Bayesian classification via hybrid
       Monte Carlo. NIPS 9. The likelihood: section 2; eqs. 2 to 7.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Logit
    >>> Logit().log_partition(np.array([1.0]), np.array([-3.0]), np.array([4.0])).value.round(6)
    array([-2.043347])
    >>> Logit().predict_proba(np.array([0.0]), np.array([100.0]))
    array([0.5])
    """

    allows_noise: ClassVar[str] = "Probit(noise_variance=...), Probit(flip=...)"
    targets: ClassVar[Literal["binary"]] = "binary"
    forbids: ClassVar[bool] = False
    log_concave: ClassVar[bool] = True

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log sigma(t f) in nats, and its derivatives in f; ``t`` and ``f`` broadcast."""
        z = np.asarray(t * f, dtype=np.float64)
        wrong = expit(-z)  # 1 - sigma(z) without the difference
        return Derivs(np.asarray(log_expit(z)), np.asarray(t * wrong), np.asarray(-expit(z) * wrong))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        r"""Return the log of the integral of sigma(t f) N(f | mean, variance), and its derivatives in mean.

        With Z the integral for the label that is less likely, averages under its tilted density and r = Z/(1 - Z),

        .. math::
            s_1 = \langle 1 - \sigma \rangle, \quad
            s_2 = \mathrm{Var}(\sigma) - \langle \sigma (1 - \sigma) \rangle

        are the derivatives of log Z, and those of log(1 - Z) are -r s_1 and -r (s_2 + (1 + r) s_1^2).
        At variance 0 it is `log_prob`.
        """
        t, mean, variance = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (t, mean, variance)))
        shape = mean.shape
        z, spread, sign = (t * mean).ravel(), variance.ravel(), t.ravel()
        value, d1, d2 = (np.array(a) for a in self.log_prob(np.ones_like(z), z))
        (uncertain,) = np.nonzero(spread > 0)
        value[uncertain], d1[uncertain], d2[uncertain] = _partition(z[uncertain], spread[uncertain])
        return Derivs(value.reshape(shape), (sign * d1).reshape(shape), d2.reshape(shape))

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        r"""Return the third and fourth derivative in mean of `log_partition`, given its answer ``derivs``.

        At variance zero, where it is `log_prob`; else None. With :math:`d_2 = -\sigma(f)\, \sigma(-f)` and
        :math:`\sigma(f) - \sigma(-f) = \tanh(f/2)`, whatever the label,

        .. math:: d_3 = -d_2 \tanh(f/2), \quad d_4 = d_2\, [\tanh^2(f/2) + 2 d_2].
        """
        if np.any(variance):
            return None
        return higher_of_odds(derivs.d2, mean)

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array:
        """Return what `cumulants.tilted_cumulants` does, for variances ``(n,)`` above zero, by the rules of log Z."""
        z = t * mean
        found = np.empty((order - 2, z.size))
        for rule, rows in by_rule(np.sqrt(variance), _RULES):
            for some in (rows[part] for part in blocks(rows.size, max(1, _ENTRIES // rule.points))):
                density = discretise(z[some], variance[some], rule)
                found[:, some] = standardised_cumulants(density.weight, density.offset, order)
        return np.asarray(found * (t ** np.arange(3, order + 1)[:, None]))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a label -1/+1 for each latent value."""
        return np.where(rng.random(f.shape) < expit(f), 1.0, -1.0)

    def log_prob_graph(self, functions: Any, t: Any, f: Any) -> Any:
        """Return log sigma(t f), written with the functions of ``functions``."""
        return -functions.softplus(-t * f)


def _partition(z: Array, variance: Array) -> tuple[Array, Array, Array]:
    """Return log E sigma(f) for f ~ N(z, variance > 0) and its derivatives in z, each ``(k,)``."""
    answer = np.empty((3, z.size))
    for rule, rows in by_rule(np.sqrt(variance), _RULES):
        for some in (rows[part] for part in blocks(rows.size, max(1, _ENTRIES // rule.points))):
            answer[:, some] = _unlikely(-np.abs(z[some]), variance[some], rule)
    value, s1, s2 = answer
    right = z > 0
    probability = np.exp(value[right])
    odds = probability / (1.0 - probability)  # the probability is at most one half
    slope = s1[right]
    value[right] = np.log1p(-probability)
    s1[right] = odds * slope  # in z, which runs against the mean used above
    s2[right] = -odds * (s2[right] + (1.0 + odds) * slope**2)
    return value, s1, s2


def _unlikely(mean: Array, variance: Array, rule: GridRule) -> tuple[Array, Array, Array]:
    """Return log E sigma(f) for f ~ N(mean <= 0, variance > 0) and its derivatives in mean, each ``(k,)``."""
    density = discretise(mean, variance, rule)
    weight, offset = density.weight, density.offset
    likely = 1.0 / (1.0 + density.small)
    unlikely, positive = density.small * likely, density.f > 0
    right, wrong = np.where(positive, likely, unlikely), np.where(positive, unlikely, likely)
    bent = average(weight, right * wrong)
    d2 = average(weight, (right - average(weight, right)[:, None]) ** 2) - bent
    # where the label says much, d2 is all but -1/variance, and what it is more than that must keep its digits
    much = bent * variance > 1.0
    if much.any():
        weight, offset = weight[much], offset[much]
        tilted = average(weight, (offset - average(weight, offset)[:, None]) ** 2)  # variance of f, after over before
        d2[much] = (tilted - 1.0) / variance[much]
    return density.log_integral, average(density.weight, wrong), d2


LARGEST_TRIALS = 1e8
"""More trials say more than the digits of log p(t|f), a sum of terms as large as they are many."""


@dataclass(frozen=True, slots=True)
class Binomial(Counts):
    r"""Binomial likelihood of successes out of n trials, with a logit link.

    .. math:: p(t|f) = \binom{n}{t}\, \sigma(f)^t\, \sigma(-f)^{n - t}

    Parameters
    ----------
    trials : int or (n,) array_like of int
        Number of trials, >= 1: one for all cases, or one for each. With one trial it is `Logit` with labels 0 and 1.

    Raises
    ------
    ValueError
        If ``trials`` has anything but whole numbers from 1 to 1e8; later, if there are more successes than trials, or
        not as many numbers of trials as cases.

    Notes
    -----
    With trials for each case, pass those of new cases as ``predict(idata, X_new, trials=...)``. Without them, new cases
    have one trial each: ``y`` is 0 or 1, and ``y_mean`` the probability of success. With one number, new cases have
    that number of trials.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Binomial
    >>> Binomial(5).log_partition(np.array([5.0]), np.array([0.0]), np.array([1.0])).value.round(6)
    array([-2.348229])
    >>> Binomial([5, 8]).sample(np.array([9.0, -9.0]), np.random.default_rng(0))
    array([5., 0.])
    """

    trials: float | tuple[float, ...] | ArrayLike
    new_case_facts: ClassVar[tuple[str, ...]] = ("trials",)

    def __repr__(self) -> str:
        return f"Binomial(trials={each_in_words(self.trials)})"

    def __post_init__(self) -> None:
        trials = as_each(
            "trials",
            self.trials,
            least=1,
            whole=True,
            expected="a whole number >= 1",
            advice="Drop cases without a trial, which say nothing.",
        )
        if np.max(trials) > LARGEST_TRIALS:
            raise ValueError(
                f"trials must be at most {LARGEST_TRIALS:g}, got {np.max(trials):g}: rounding would decide. Take the "
                "observed log odds for measurements, likelihoods.Gaussian(1 / successes + 1 / failures)."
            )
        object.__setattr__(self, "trials", trials)

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if the targets are not counts, or more than the trials."""
        check_counts(name, t, "Binomial")
        trials = self._trials(t)
        (more,) = np.nonzero(t > trials)
        if more.size:
            first = int(more[0])
            raise ValueError(
                f"{name} must hold no more successes than there are trials, got {t[first]:g} of {trials[first]:g} at "
                f"index {first} ({more.size} such cases). Correct them, or Binomial(trials=...)."
            )

    def of_cases(self, which: NDArray[np.intp]) -> Binomial:
        """Return the likelihood of some cases."""
        return self if isinstance(self.trials, float) else Binomial(np.asarray(self.trials)[which])

    def of_new_cases(self, trials: Array | None = None) -> Binomial:
        """Return the likelihood of cases that are not those of the fit: of one trial if theirs are not known."""
        if trials is not None:
            return Binomial(trials)
        return self if isinstance(self.trials, float) else Binomial(1)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) in nats, and its derivatives in f; ``t`` and ``f`` broadcast."""
        t, f = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(f, dtype=np.float64))
        return _binomial(t, self._trials(f), f)

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition` at variance zero; else None."""
        return None if np.any(variance) else higher_of_odds(derivs.d2, mean)

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of the successes when f ~ N(mean, variance)."""
        trials, p = self._trials(mean), Logit().predict_proba(mean, variance)
        both = np.exp(Binomial(2).log_partition(np.full_like(p, 2.0), mean, variance).value)  # average of sigma^2
        return trials * p, trials * p * (1.0 - p) + trials * (trials - 1.0) * (both - p**2)

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return the probability that there are at most t successes when f ~ N(mean, variance)."""
        whole, trials = np.floor(t), self._trials(t)
        certain = whole >= trials
        some = np.where(certain, 0.0, np.maximum(whole, 0.0))
        found = count_below(some + 1.0, trials - some, np.asarray(0.0), mean, variance)
        return np.where(certain, 1.0, np.where(whole < 0, 0.0, found))

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a number of successes for each latent value."""
        return np.asarray(rng.binomial(self._trials(f).astype(np.int64), expit(f)), dtype=np.float64)

    def log_prob_graph(self, functions: Any, t: Any, f: Any) -> Any:
        """Return log p(t|f), written with the functions of ``functions``; f has all cases, in order."""
        n = np.asarray(self.trials, dtype=np.float64)
        choose = functions.gammaln(n + 1.0) - functions.gammaln(t + 1.0) - functions.gammaln(n - t + 1.0)
        return choose + t * f - n * functions.softplus(f)

    def _of_targets(self, t: Array) -> tuple[Curve, Bracket]:
        flat, trials = t.ravel(), self._trials(t).ravel()
        return (
            lambda rows, f: _binomial(flat[rows], trials[rows], f),
            lambda rows, mean, variance: _bracket(flat[rows], trials[rows], mean, variance),
        )

    def _trials(self, f: Array) -> Array:
        """Return the trials of cases along the last axis of an array, in its shape."""
        return of_each("Binomial", "trials", self.trials, f)


def _binomial(t: Array, trials: Array, f: Array) -> Derivs:
    value, d1, d2 = of_odds(t, trials - t, f)
    return Derivs(value + log_choose(trials, t), d1, d2)


def _bracket(t: Array, trials: Array, mean: Array, variance: Array) -> tuple[Array, Array]:
    """Return bounds of the mode: log p(t|f) rises up to log(t/(n - t)), its slope at an end is below n exp(-|f|)."""
    with np.errstate(divide="ignore"):
        peak = np.log(t) - np.log(trials - t)
    flat = np.log(variance * trials)
    lower, upper = np.minimum(mean - 1.0, -flat), np.maximum(mean + 1.0, flat)
    return (np.where(t == 0, lower, np.minimum(mean, peak)), np.where(t == trials, upper, np.maximum(mean, peak)))
