"""Proportions between 0 and 1: a beta distribution whose mean is the logistic function of the latent value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.special import betainc, digamma, expit, log_expit, logit, polygamma

from bayesgp_mf.likelihoods.base import Tunable, check_number
from bayesgp_mf.likelihoods.below import average_of_falling
from bayesgp_mf.likelihoods.centred import Bracket, Centred, Curve
from bayesgp_mf.likelihoods.counts import log_root_factorial
from bayesgp_mf.likelihoods.logit import Binomial, Logit
from bayesgp_mf.types import Array, Derivs

_HALVINGS = 16  # of the interval that holds a mode: to 1e-5 of it


@dataclass(frozen=True, slots=True)
class Beta(Centred):
    r"""Beta likelihood of proportions between 0 and 1, with a logit link.

    .. math::
        p(t|f) = \frac{\Gamma(\phi)}{\Gamma(\phi \mu)\, \Gamma(\phi (1 - \mu))}\,
        t^{\phi \mu - 1} (1 - t)^{\phi (1 - \mu) - 1}, \qquad \mu = \sigma(f)

    The mean is mu and the variance :math:`\mu (1 - \mu)/(1 + \phi)`. It is ``pm.Beta(mu=mu, nu=phi)`` of PyMC. It is
    not log-concave: of a latent value that is far off the likelihood falls as an exponential alone.

    Parameters
    ----------
    precision : float
        phi > 0. The larger, the less the proportions vary.

    Raises
    ------
    ValueError
        If ``precision`` is not a finite number > 0; later, if a target is not between 0 and 1, or one of them.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Beta
    >>> Beta(5.0).log_partition(np.array([0.8]), np.array([0.0]), np.array([1.0])).value.round(6)
    array([-0.028703])
    """

    precision: float
    targets: ClassVar[Literal["real"]] = "real"
    log_concave: ClassVar[bool] = False
    allows_noise: ClassVar[str] = "a smaller precision of the likelihood"
    unbounded_if_weighted: ClassVar[tuple[str, ...]] = ("precision",)
    some_target: ClassVar[float] = 0.5
    tunable: ClassVar[dict[str, Tunable]] = {
        "precision": Tunable(
            at_lower="the kernel explains little of the targets",
            at_upper="the kernel explains the targets without noise",
        )
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "precision", check_number("precision", self.precision))

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if a target is not between 0 and 1, or is one of them."""
        bad = ~((t > 0) & (t < 1))
        if np.any(bad):
            first = int(np.argmax(bad))
            raise ValueError(
                f"{name} must hold proportions > 0 and < 1 for Beta, got {float(t.ravel()[first]):g} at index {first} "
                f"({int(np.sum(bad))} such cases). Of so many out of so many use Binomial(trials), which has 0 and 1; "
                "of n measurements that include them take (y * (n - 1) + 0.5) / n; else divide by the largest value "
                "there can be."
            )

    def link(self, mean: Array) -> Array:
        """Return the latent value at which this is the mean of a target."""
        return np.asarray(logit(mean))

    def curved_at(self, t: Array) -> Array:
        """Return the latent values near which log p(t|f) bends most: of which the target is the mean."""
        return self.link(t)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) in nats, and its derivatives in f; ``t`` and ``f`` broadcast."""
        t = np.asarray(t, dtype=np.float64)
        return self._at(np.log(t), np.log1p(-t), np.asarray(f, dtype=np.float64))

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of a target when f ~ N(mean, variance)."""
        first = Logit().predict_proba(mean, variance)
        square = np.exp(Binomial(2).log_partition(np.full_like(first, 2.0), mean, variance).value)
        return first, square - first**2 + (first - square) / (1.0 + self.precision)

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return the probability that a target is at most t when f ~ N(mean, variance)."""
        t, mean, variance = np.broadcast_arrays(t, mean, variance)
        inside = (t > 0) & (t < 1)

        def below(t: Array, f: Array) -> Array:
            return np.asarray(betainc(*self._shapes(f), t))

        found = average_of_falling(below, np.where(inside, t, 0.5), mean, variance)
        return np.where(inside, found, t >= 1)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a proportion for each latent value: the number next to 0, or 1, where it would round to that."""
        return np.clip(rng.beta(*self._shapes(np.asarray(f))), np.finfo(np.float64).tiny, np.nextafter(1.0, 0.0))

    def log_prob_graph(self, functions: Any, t: Any, f: Any, precision: Any = None) -> Any:
        """Return log p(t|f), written with the functions of ``functions``."""
        phi = self.precision if precision is None else precision
        a, b = phi * functions.exp(-functions.softplus(-f)), phi * functions.exp(-functions.softplus(f))
        both = functions.gammaln(phi) - functions.gammaln(a) - functions.gammaln(b)
        return both + (a - 1.0) * functions.log(t) + (b - 1.0) * functions.log1p(-t)

    def _shapes(self, f: Array) -> tuple[Array, Array]:
        """Return the parameters of the distribution; one that is no number any more has all mass at the other's end."""
        tiny = np.finfo(np.float64).tiny
        return np.maximum(self.precision * expit(f), tiny), np.maximum(self.precision * expit(-f), tiny)

    def _of_targets(self, t: Array) -> tuple[Curve, Bracket]:
        flat = t.ravel()
        log_t, log_rest = np.log(flat), np.log1p(-flat)
        odds = log_t - log_rest
        low, high = np.minimum(odds, 0.0), np.maximum(odds, 0.0)  # log p(t|f) is concave in mu, and largest in between
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            rises = odds > digamma(self.precision * expit(middle)) - digamma(self.precision * expit(-middle))
            low, high = np.where(rises, middle, low), np.where(rises, high, middle)

        steepest = 1.0 + 0.25 * self.precision * (1.0 + np.abs(odds))

        def bracket(rows: Any, mean: Array, variance: Array) -> tuple[Array, Array]:
            reach = variance * steepest[rows]
            return np.clip(low[rows], mean - reach, mean), np.clip(high[rows], mean, mean + reach)

        return lambda rows, f: self._at(log_t[rows], log_rest[rows], f), bracket

    def _at(self, log_t: Array, log_rest: Array, f: Array) -> Derivs:
        r"""Return log p(t|f) of log t and log(1 - t), and its derivatives in f.

        Gammas of small numbers are those of numbers beyond 1, so that the tails are :math:`\pm f` to all digits; the
        large terms of gammas of large numbers cancel on paper, and leave the divergence of t from mu.
        """
        phi, right, wrong = self.precision, expit(f), expit(-f)
        both, log_right, log_wrong = right * wrong, log_expit(f), log_expit(-f)
        gammas = log_root_factorial(np.asarray(phi)) - log_root_factorial(phi * right) - log_root_factorial(phi * wrong)
        divergence = right * (log_right - log_t) + wrong * (log_wrong - log_rest)
        value = gammas - phi * divergence + np.log(phi) + log_right + log_wrong - log_t - log_rest
        slope = log_t - log_rest - digamma(1.0 + phi * right) + digamma(1.0 + phi * wrong)
        bend = _trigamma(1.0 + phi * right) + _trigamma(1.0 + phi * wrong)
        d2 = both * (phi * (wrong - right) * slope - 2.0 - phi**2 * both * bend)
        return Derivs(value, wrong - right + phi * both * slope, d2)

    def _slope_of_targets(self, name: str, t: Array) -> Curve:
        """Return the derivative of log p(t|f) in the precision."""
        flat, phi = t.ravel(), self.precision
        log_t, log_rest = np.log(flat), np.log1p(-flat)

        def slope(rows: Any, f: Array) -> Derivs:
            right, wrong = expit(f), expit(-f)
            both, (a, b) = right * wrong, (1.0 + phi * right, 1.0 + phi * wrong)
            value = right * (log_t[rows] - digamma(a)) + wrong * (log_rest[rows] - digamma(b))
            odds = log_t[rows] - log_rest[rows] - digamma(a) + digamma(b)
            bends = _trigamma(a), _trigamma(b)
            bend = wrong * bends[1] - right * bends[0]
            third = right * polygamma(2, a) + wrong * polygamma(2, b)
            d2 = (wrong - right) * (odds + phi * bend)
            d2 = d2 - phi * both * (2.0 * (bends[0] + bends[1]) + phi * third)
            return Derivs(value + digamma(1.0 + phi) + 1.0 / phi, both * (odds + phi * bend), both * d2)

        return slope


def _trigamma(x: Array) -> Array:
    """Return the derivative of psi from 1 on, to rounding, in a fifth of the time of `polygamma`.

    It is a sum of eight inverse squares, and the asymptotic series of what is beyond them.
    """
    y = 1.0 / (x + 8.0)
    z = y * y
    series = y * z * (1 / 6 - z * (1 / 30 - z * (1 / 42 - z * (1 / 30 - z * (5 / 66 - z * 691 / 2730)))))
    return np.asarray(y + 0.5 * z + series + sum((x + k) ** -2.0 for k in range(8)))
