r"""Counts with more zeros than a likelihood of counts has, with zeros of another cause, and with none.

With :math:`\pi` the probability of a zero of its own and q the likelihood of counts,

.. math:: p(t|f) = \pi\, [t = 0] + (1 - \pi)\, q(t|f),

and so are the averages of both over Gaussians: where t > 0 log p is that of q and a constant, and at zero it is that of
a mixture, whose part r is q's. In a hurdle model q has no zeros, :math:`q(t|f)/(1 - q(0|f))`, so that a zero says
nothing of f.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray
from scipy.special import bernoulli, factorial

from bayesgp_mf.likelihoods.base import Likelihood, Tunable, check_number
from bayesgp_mf.likelihoods.below import average_of_falling
from bayesgp_mf.likelihoods.by_case import trait
from bayesgp_mf.likelihoods.centred import Bracket, Centred, Curve
from bayesgp_mf.likelihoods.counts import check_finite
from bayesgp_mf.likelihoods.cumulants import higher_derivatives, tilted_cumulants
from bayesgp_mf.likelihoods.moments import from_moments, to_moments
from bayesgp_mf.likelihoods.quadrature import Quadrature
from bayesgp_mf.types import Array, Derivs

_EVEN = np.arange(2, 17, 2)
_SERIES = Polynomial(np.concatenate([[0.0, -0.5], np.zeros(15)]))
_SERIES.coef[_EVEN] = bernoulli(16)[_EVEN] / (_EVEN * factorial(_EVEN))  # of log((1 - exp(-u))/u), right below 0.5


class _OfCounts(Likelihood):
    """A likelihood that is made of one of counts, its field ``counts``, whose parameters it has."""

    __slots__ = ()
    counts: Likelihood
    targets: ClassVar[Literal["real"]] = "real"
    forbids: ClassVar[bool] = False
    whole_targets: ClassVar[bool] = True
    largest_offset = trait("largest_offset", "counts")
    allows_noise = trait("allows_noise", "counts")
    new_case_facts = trait("new_case_facts", "counts")
    parameters = trait("parameters", "counts")
    tunable = trait("tunables", "counts")

    @property
    def made_of(self) -> tuple[Likelihood, ...]:
        """The likelihood of counts."""
        return (self.counts,)

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the numbers, and the same of the likelihood of counts."""
        return Likelihood.to_dict(self) | {"counts": self.counts.to_dict()}

    def of_cases(self, which: NDArray[np.intp]) -> Self:
        """Return the likelihood of some cases."""
        return self._with(self.counts.of_cases(which))

    def of_new_cases(self, **facts: Any) -> Self:
        """Return the likelihood of cases that are not those of the fit."""
        return self._with(self.counts.of_new_cases(**facts))

    def with_parameters(self, **values: Any) -> Self:
        """Return the likelihood with some of its parameters replaced."""
        own = {name: values.pop(name) for name in ("probability",) if name in values and hasattr(self, name)}
        return self._with(self.counts.with_parameters(**values), **own)

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if the targets are not counts."""
        self.counts.check_targets(name, t)

    def _with(self, counts: Likelihood, **own: Any) -> Self:
        each: Any = self
        found: Self = self if counts is self.counts and not own else replace(each, counts=counts, **own)
        return found


@dataclass(frozen=True, slots=True)
class Truncated(_OfCounts, Centred):
    r"""Counts of which zeros are never seen: from 1 on.

    .. math:: p(t|f) = \frac{q(t|f)}{1 - q(0|f)}, \qquad t \ge 1

    Group sizes, stays in days, species of which one specimen was found.

    Parameters
    ----------
    counts : Poisson or NegativeBinomial
        The likelihood q of counts that zeros are missing from.

    Raises
    ------
    ValueError
        If ``counts`` is another likelihood; later, if a target is no whole number >= 1.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Poisson, Truncated
    >>> Truncated(Poisson()).log_partition(np.array([3.0]), np.array([0.0]), np.array([1.0])).value.round(6)
    array([-2.280886])
    """

    counts: Any

    def __post_init__(self) -> None:
        if isinstance(self.counts, type) or not hasattr(self.counts, "from_one"):
            raise ValueError(f"counts must be Poisson() or NegativeBinomial(dispersion), got {self.counts!r:.80}.")

    @property
    def log_concave(self) -> bool:
        """Whether log p is concave in f: not if counts vary more than geometric ones, of which it has one mode."""
        return bool(self.counts.dispersion >= 1.0)

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if the targets are not counts, or there is a zero."""
        self.counts.check_targets(name, t)
        if np.any(t == 0):
            raise ValueError(
                f"{name} must hold counts of at least 1 for Truncated, got 0 at index {int(np.argmax(t == 0))} "
                f"({int(np.sum(t == 0))} such cases). If zeros can be seen use {self.counts!r} itself, or Hurdle and "
                "ZeroInflated where there are too many."
            )

    def log_prob(self, t: Array, f: Array) -> Derivs:
        r"""Return log p(t|f) in nats, and its derivatives in f; ``t`` and ``f`` broadcast.

        With :math:`u = -\log q(0|f)` it is :math:`(\log q - \log u) - \log((1 - e^{-u})/u)`, two terms that are both
        small at low rates.
        """
        t, f = np.broadcast_arrays(np.asarray(t, dtype=np.float64), np.asarray(f, dtype=np.float64))
        value, d1, d2 = self.counts.from_one(np.maximum(t, 1.0), f)
        with np.errstate(over="ignore", invalid="ignore"):
            u, u1, u2 = (-part for part in self.counts.log_prob(np.zeros_like(f), f))
            c, c1, c2 = _share_of_rate(np.minimum(u, _LARGEST))
            return Derivs(np.where(t < 1.0, -np.inf, value - c), d1 - c1 * u1, d2 - c2 * u1 * u1 - c1 * u2)

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t|f) N(f | mean, variance), and its derivatives in mean; -inf of a zero."""
        value, d1, d2 = Centred.log_partition(self, np.maximum(t, 1.0), mean, variance)
        return Derivs(np.where(np.less(t, 1.0), -np.inf, value), d1, d2)

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of a count when f ~ N(mean, variance)."""
        more = np.log1p(1.0 / self.counts.dispersion)

        def first(_: Array, f: Array) -> Array:
            seen = self.counts.exceeding(np.zeros_like(f), f)
            return np.where(seen > 0, f - np.log(np.where(seen > 0, seen, 1.0)), 0.0)

        found = [
            Quadrature(log_mean, targets="real").log_partition(np.zeros_like(mean), mean, variance).value
            for log_mean in (first, lambda t, f: first(t, f) + np.logaddexp(0.0, f + more))
        ]
        with np.errstate(over="ignore", invalid="ignore"):  # what is too large is refused below
            once, twice = np.exp(found[0]), np.exp(found[1])
            spread = twice - once**2
        check_finite(mean, variance, once, spread)
        return once, spread

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return the probability that a count is at most t when f ~ N(mean, variance)."""
        t, mean, variance = np.broadcast_arrays(np.floor(t), mean, variance)

        def below(t: Array, f: Array) -> Array:
            seen = self.counts.exceeding(np.zeros_like(f), f)
            more = np.divide(self.counts.exceeding(t, f), seen, out=np.zeros_like(f), where=seen > 0)
            return np.asarray(1.0 - more)

        return np.where(t >= 1, average_of_falling(below, np.maximum(t, 1.0), mean, variance), 0.0)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a count from 1 on for each latent value: again where it is zero, unless nearly all are.

        There it is the first that is exceeded less often than a uniform number.
        """
        shape, f = np.shape(f), np.ravel(f)
        seen = self.counts.exceeding(np.zeros_like(f), f)
        drawn = np.where(seen < _RARE, 1.0, self.counts.sample(f, rng))
        while (again := drawn == 0).any():
            drawn[again] = self.counts.sample(f[again], rng)
        (rows,) = np.nonzero(seen < _RARE)
        often = seen[rows] * (1.0 - rng.random(rows.size))
        while rows.size:
            more = (self.counts.exceeding(drawn[rows], f[rows]) >= often) & (often > 0)
            rows, often = rows[more], often[more]
            drawn[rows] += 1.0
        return drawn.reshape(shape)

    def log_prob_graph(self, functions: Any, t: Any, f: Any, **values: Any) -> Any:
        """Return log p(t|f), written with the functions of ``functions``."""
        at, zero = (self.counts.log_prob_graph(functions, each, f, **values) for each in (t, 0.0 * t))
        return at - functions.log1mexp(zero)

    def _of_targets(self, t: Array) -> tuple[Curve, Bracket]:
        flat, r = t.ravel(), self.counts.dispersion

        def bracket(rows: Any, mean: Array, variance: Array) -> tuple[Array, Array]:
            t = flat[rows]
            _, high = self.counts.mode_bracket(t, mean, variance)
            if self.log_concave:  # the slope is between those of the counts t - 1 and t
                return self.counts.mode_bracket(t - 1.0, mean, variance)[0], high
            return mean - variance * (1.0 + r), np.minimum(high, mean + variance * t)  # it is between -(1 + r) and t

        return lambda rows, f: self.log_prob(flat[rows], f), bracket

    def _slope_of_targets(self, name: str, t: Array) -> Curve:
        """Return the derivative of log p(t|f) in a parameter of the likelihood of counts."""
        flat = t.ravel()

        def once(t: Array, f: Array) -> Derivs:
            found: Derivs = self.counts.parameter_derivative(name, np.broadcast_to(t, f.shape), f, np.zeros_like(f))
            return found

        def slope(rows: Any, f: Array) -> Derivs:
            value, d1, d2 = once(flat[rows], f)
            zero, zero1, zero2 = once(np.zeros(1), f)
            l0, l1, l2 = self.counts.log_prob(np.zeros_like(f), f)
            with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
                odds = 1.0 / np.expm1(-l0)  # of a zero
                a = (1.0 + odds) * l1
                b = a * odds * l1 + (1.0 + odds) * l2
                own = odds * zero
                parts = own, own * a + odds * zero1, own * (a**2 + b) + 2.0 * odds * zero1 * a + odds * zero2
                # nothing where the rate is no number any more
                of_zeros = (np.where(-l0 > _SMALLEST, part, 0.0) for part in parts)
                return Derivs(*(part + more for part, more in zip((value, d1, d2), of_zeros, strict=True)))

        return slope


_LARGEST, _SMALLEST = 1e300, 1e-300
_RARE = 0.05


def _share_of_rate(u: Array) -> tuple[Array, Array, Array]:
    """Return log((1 - exp(-u))/u) and its two derivatives in u > 0."""
    near, far = np.minimum(u, 0.5), np.maximum(u, 0.5)
    odds = 1.0 / np.expm1(far)
    plain = np.log(-np.expm1(-far) / far), odds - 1.0 / far, 1.0 / far**2 - odds * (1.0 + odds)
    series = _SERIES, _SERIES.deriv(), _SERIES.deriv(2)
    value, d1, d2 = (np.where(u < 0.5, few(near), many) for few, many in zip(series, plain, strict=True))
    return value, d1, d2


class _WithZeros(_OfCounts):
    """Counts, and zeros of their own."""

    __slots__ = ()
    probability: float
    _has_zeros: ClassVar[bool]

    def __post_init__(self) -> None:
        counts: Any = self.counts
        if not (isinstance(counts, Likelihood) and counts.whole_targets):
            raise ValueError(f"counts must be a likelihood of counts, such as Poisson(), got {counts!r:.80}.")
        probability = check_number("probability", self.probability, what=" and < 1")
        if probability >= 1.0:
            raise ValueError(f"probability must be a finite number > 0 and < 1, got {probability!r}.")
        object.__setattr__(self, "probability", probability)

    @property
    def parameters(self) -> dict[str, float]:
        """The probability, and the parameters of the likelihood of counts."""
        return {"probability": self.probability, **self.counts.parameters}

    @property
    def tunable(self) -> dict[str, Tunable]:
        """How they may be tuned."""
        return {"probability": _PROBABILITY, **self.counts.tunables}

    @property
    def rest(self) -> Likelihood:
        """The likelihood q of the counts that are no zeros of their own."""
        return self.counts if self._has_zeros else Truncated(self.counts)

    def _seen(self, t: Array) -> Array:
        """Return counts that the rest can have."""
        return np.asarray(t) if self._has_zeros else np.maximum(t, 1.0)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) in nats, and its derivatives in f; ``t`` and ``f`` broadcast."""
        return self._mixed(t, self.rest.log_prob(self._seen(t), f))[0]

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t|f) N(f | mean, variance), and its derivatives in mean."""
        return self._mixed(t, self.rest.log_partition(self._seen(t), mean, variance))[0]

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array]:
        """Return the third and fourth derivative of `log_partition`, from those of the rest."""
        at = self.rest.log_partition(self._seen(t), mean, variance)
        d3, d4 = higher_derivatives(self.rest, self._seen(t), mean, variance, at)
        (_, part, own), (_, d1, d2) = self._mixed(t, at), at
        both, lean = part * own, own - part  # derivatives of a mixture's log in that of the rest
        third = part * d3 + both * (3.0 * d1 * d2 + lean * d1**3)
        bent = 4.0 * d1 * d3 + 3.0 * d2**2 + 6.0 * lean * d1**2 * d2 + (1.0 - 6.0 * both) * d1**4
        return third, part * d4 + both * bent

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array:
        """Return what `cumulants.tilted_cumulants` does: of a mixture of the Gaussian and what the rest makes of it."""
        at = self.rest.log_partition(self._seen(t), mean, variance)
        _, part, own = self._mixed(t, at)
        share = self.rest.tilted_share(self._seen(t), mean, variance)
        sd = np.sqrt(1.0 + variance * at.d2 if share is None else share)  # all in units of the Gaussian
        of_rest = tilted_cumulants(self.rest, self._seen(t), mean, variance, order)
        shift = np.sqrt(variance) * at.d1
        higher = [cumulant * sd**k for k, cumulant in enumerate(of_rest, start=3)]
        rest, gauss = np.array([own * shift, sd**2, *higher]), np.zeros((order, t.size))
        gauss[0], gauss[1] = -part * shift, 1.0
        found = from_moments(part * to_moments(rest) + own * to_moments(gauss))
        return np.array([found[k - 1] / found[1] ** (0.5 * k) for k in range(3, order + 1)])

    def tilted_share(self, t: Array, mean: Array, variance: Array) -> Array | None:
        """Return what `Likelihood.tilted_share` does: of a mixture of the Gaussian and what the rest makes of it."""
        share = self.rest.tilted_share(self._seen(t), mean, variance)
        if share is None:
            return None
        at = self.rest.log_partition(self._seen(t), mean, variance)
        _, part, own = self._mixed(t, at)
        return np.asarray(own + part * share + part * own * variance * at.d1**2)

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the derivative of `log_partition` in a parameter, and its two derivatives in mean."""
        at = self.rest.log_partition(self._seen(t), mean, variance)
        (value, d1, d2), part, own = self._mixed(t, at)
        if name == "probability":
            zero, share = np.asarray(t) == 0, 1.0 - self.probability
            inverse = np.where(zero, np.exp(-np.where(zero, value, 0.0)), 0.0) / share
            return Derivs(inverse - 1.0 / share, -d1 * inverse, d1 * (d1 * inverse) - d2 * inverse)
        g, g1, g2 = self.rest.parameter_derivative(name, self._seen(t), mean, variance)
        bent = g2 + own * (2.0 * at.d1 * g1 + at.d2 * g)
        return Derivs(part * g, part * (g1 + own * at.d1 * g), part * bent + d1 * own * (own - part) * at.d1 * g)

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array] | None:
        """Return mean and variance of a count when f ~ N(mean, variance), where those of the counts are known."""
        known = self.rest.predictive_moments(mean, variance)
        if known is None:
            return None
        share = 1.0 - self.probability
        return share * known[0], share * (known[1] + self.probability * known[0] ** 2)

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array | None:
        """Return the probability that a count is at most t when f ~ N(mean, variance), where the counts know it."""
        known = self.rest.predictive_below(t, mean, variance)
        return None if known is None else np.where(t < 0, 0.0, self.probability + (1.0 - self.probability) * known)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a count for each latent value."""
        return np.where(rng.random(np.shape(f)) < self.probability, 0.0, self.rest.sample(f, rng))

    def log_prob_graph(self, functions: Any, t: Any, f: Any, probability: Any = None, **values: Any) -> Any:
        """Return log p(t|f), written with the functions of ``functions``."""
        p = self.probability if probability is None else probability
        more, log_own = t > 0.5, functions.log(p)
        rest = self.rest.log_prob_graph(functions, t if self._has_zeros else functions.where(more, t, 1.0), f, **values)
        if rest is None:
            return None
        rest = rest + functions.log1p(-p)
        return functions.where(more, rest, functions.logaddexp(log_own, rest) if self._has_zeros else log_own)

    def _mixed(self, t: Array, rest: Derivs) -> tuple[Derivs, Array, Array]:
        """Return log Z and its derivatives from those of the rest, and the parts of both in the mixture."""
        zero, log_rest = np.asarray(t) == 0, np.log1p(-self.probability) + rest.value
        log_own = float(np.log(self.probability))
        log_zero = np.logaddexp(log_own, log_rest) if self._has_zeros else log_own
        part = np.where(zero, np.exp(np.where(zero, log_rest, 0.0) - log_zero) if self._has_zeros else 0.0, 1.0)
        own = np.where(zero, np.exp(log_own - log_zero), 0.0)
        slope, bend = (np.where(part > 0, each, 0.0) for each in rest[1:])  # no part of what overflows is nothing
        d1 = part * slope
        return Derivs(np.where(zero, log_zero, log_rest), d1, part * bend + d1 * (own * slope)), part, own


_PROBABILITY = Tunable(
    below=1.0, at_lower="there are no more zeros than the counts have", at_upper="nearly all counts are zero"
)


@dataclass(frozen=True, slots=True)
class ZeroInflated(_WithZeros):
    r"""Counts, some of which are zero for a cause of their own.

    .. math:: p(t|f) = \pi\, [t = 0] + (1 - \pi)\, q(t|f)

    A species that is there may be missed, a machine may not have run. It is ``pm.ZeroInflatedPoisson(psi=1 - pi)`` of
    PyMC, and its like. A zero has two causes, so that it is not log-concave.

    Parameters
    ----------
    counts : Likelihood
        The likelihood q of the other counts: `Poisson`, `NegativeBinomial`, `Binomial`, or one of your own.
    probability : float
        pi, above 0 and below 1.

    Raises
    ------
    ValueError
        If ``counts`` is no likelihood of counts, or ``probability`` no probability.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Poisson, ZeroInflated
    >>> often = ZeroInflated(Poisson(), 0.3)
    >>> often.log_partition(np.array([0.0]), np.array([2.0]), np.array([1.0])).d1.round(6)
    array([-0.140152])
    >>> Poisson().log_partition(np.array([0.0]), np.array([2.0]), np.array([1.0])).d1.round(6)
    array([-1.671985])
    """

    counts: Any
    probability: float
    log_concave: ClassVar[bool] = False
    _has_zeros: ClassVar[bool] = True


@dataclass(frozen=True, slots=True)
class Hurdle(_WithZeros):
    r"""Counts from 1 on, where there are any: whether there are is a question of its own.

    .. math:: p(0|f) = \pi, \qquad p(t|f) = (1 - \pi)\, \frac{q(t|f)}{1 - q(0|f)}, \quad t \ge 1

    All zeros have the cause of their own, and say nothing of f. It is ``pm.HurdlePoisson(psi=1 - pi)`` of PyMC, and its
    like. Where the inputs decide whether there are any, fit that with `Logit` and the others with `Truncated`.

    Parameters
    ----------
    counts : Poisson or NegativeBinomial
        The likelihood q.
    probability : float
        pi, above 0 and below 1.

    Raises
    ------
    ValueError
        If ``counts`` is another likelihood, or ``probability`` no probability.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Hurdle, Poisson
    >>> Hurdle(Poisson(), 0.3).log_partition(np.array([0.0, 2.0]), np.zeros(2), np.ones(2)).value.round(6)
    array([-1.203973, -1.869537])
    """

    counts: Any
    probability: float
    _has_zeros: ClassVar[bool] = False

    @property
    def log_concave(self) -> bool:
        """Whether log p is concave in f, as that of `Truncated` is."""
        return self.rest.log_concave
