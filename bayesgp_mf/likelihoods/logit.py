r"""The logistic likelihood, integrated over a Gaussian on a grid that follows both of their scales."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import expit, log_expit

from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.likelihoods.counts import higher_of_odds
from bayesgp_mf.likelihoods.logistic_normal import FINE, Rule, by_rule, discretise, rules
from bayesgp_mf.likelihoods.moments import average, standardised_cumulants
from bayesgp_mf.matrices.blocks import blocks
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


def _unlikely(mean: Array, variance: Array, rule: Rule) -> tuple[Array, Array, Array]:
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
