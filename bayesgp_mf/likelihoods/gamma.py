"""Amounts above zero: a gamma distribution whose mean is the exponential of the latent value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from bayesgp_mf.likelihoods.base import Tunable, check_number
from bayesgp_mf.likelihoods.below import below_exponential, count_below
from bayesgp_mf.likelihoods.centred import Bracket, Centred, Curve
from bayesgp_mf.likelihoods.counts import (
    LARGEST_LOG_RATE,
    check_finite,
    log_minus_digamma,
    log_root_factorial,
    of_log_normal,
)
from bayesgp_mf.types import Array, Derivs


@dataclass(frozen=True, slots=True)
class Gamma(Centred):
    r"""Gamma likelihood of amounts above zero, with a log link.

    .. math::
        p(t|f) = \frac{1}{t\, \Gamma(a)} \left(\frac{a t}{\mu}\right)^a e^{-a t/\mu}, \qquad \mu = e^f

    The mean is mu and the standard deviation mu/sqrt(a), the same part of each mean: rain, claims, concentrations. It
    is ``pm.Gamma(alpha=a, beta=a / mu)`` of PyMC.

    Parameters
    ----------
    shape : float
        a > 0. The larger, the less the amounts vary.

    Raises
    ------
    ValueError
        If ``shape`` is not a finite number > 0; later, if a target is not above zero.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Gamma
    >>> Gamma(2.0).log_partition(np.array([3.0]), np.array([0.0]), np.array([1.0])).value.round(6)
    array([-2.788416])
    """

    shape: float
    targets: ClassVar[Literal["real"]] = "real"
    log_concave: ClassVar[bool] = True
    largest_offset: ClassVar[float] = LARGEST_LOG_RATE
    allows_noise: ClassVar[str] = "a smaller shape of the likelihood"
    unbounded_if_weighted: ClassVar[tuple[str, ...]] = ("shape",)
    tunable: ClassVar[dict[str, Tunable]] = {
        "shape": Tunable(
            at_lower="the kernel explains little of the targets",
            at_upper="the kernel explains the targets without noise",
        )
    }

    def __post_init__(self) -> None:
        object.__setattr__(self, "shape", check_number("shape", self.shape))

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if a target is not above zero."""
        bad = ~(t > 0)
        if np.any(bad):
            first = int(np.argmax(bad))
            raise ValueError(
                f"{name} must hold amounts > 0 for Gamma, got {float(t.ravel()[first]):g} at index {first} "
                f"({int(np.sum(bad))} such cases). Zeros are a question of their own: fit whether there is any with "
                "Logit(), and how much with Gamma on the others; or put half the smallest amount that can be measured. "
                "For measurements below zero use likelihoods.Gaussian(noise_variance) or StudentT(scale, df)."
            )

    def link(self, mean: Array) -> Array:
        """Return the latent value at which this is the mean of a target."""
        return np.asarray(np.log(mean))

    def curved_at(self, t: Array) -> Array:
        """Return the latent values near which log p(t|f) bends most: of which the target is the mean."""
        return self.link(t)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) in nats, and its derivatives in f; ``t`` and ``f`` broadcast."""
        log_t = np.log(np.asarray(t, dtype=np.float64))
        return self._at(log_t, np.asarray(f, dtype=np.float64))

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition` at variance zero; else None."""
        return None if np.any(variance) else (-derivs.d2, derivs.d2)

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance of a target when f ~ N(mean, variance)."""
        first, spread, square = of_log_normal(mean, variance)
        with np.errstate(over="ignore"):
            spread = spread + square / self.shape
        check_finite(mean, variance, first, spread)
        return first, spread

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array:
        """Return the probability that a target is at most t when f ~ N(mean, variance).

        log t is f and the log of a gamma variable of mean 1.
        """
        t, mean, variance = np.broadcast_arrays(t, mean, variance)
        some = t > 0
        with np.errstate(divide="ignore"):
            shift = -np.log(self.shape) - np.log(np.where(some, t, 1.0))
        above = count_below(np.asarray(self.shape), np.asarray(np.inf), shift, -mean, variance)
        return np.where(some, 1.0 - above, 0.0)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw an amount for each latent value: the smallest number where it would round to zero."""
        with np.errstate(over="ignore"):
            drawn = np.exp(f) * rng.gamma(self.shape, size=np.shape(f)) / self.shape
        check_finite(f, np.zeros_like(f), drawn)
        return np.maximum(drawn, np.finfo(np.float64).tiny)

    def log_prob_graph(self, functions: Any, t: Any, f: Any, shape: Any = None) -> Any:
        """Return log p(t|f), written with the functions of ``functions``."""
        a = self.shape if shape is None else shape
        log_t = functions.log(t)
        return a * (functions.log(a) + log_t - f - functions.exp(log_t - f)) - functions.gammaln(a) - log_t

    def _of_targets(self, t: Array) -> tuple[Curve, Bracket]:
        log_t = np.log(t.ravel())  # where log p(t|f) is largest

        def bracket(rows: Any, mean: Array, variance: Array) -> tuple[Array, Array]:
            return np.minimum(mean, log_t[rows]), np.maximum(mean, log_t[rows])

        return lambda rows, f: self._at(log_t[rows], f), bracket

    def _at(self, log_t: Array, f: Array) -> Derivs:
        x, a = log_t - f, self.shape
        with np.errstate(over="ignore"):
            value = a * below_exponential(x) + np.log(a) - log_root_factorial(np.asarray(a)) - log_t
            return Derivs(value, a * np.expm1(x), -a * np.exp(x))

    def _slope_of_targets(self, name: str, t: Array) -> Curve:
        r"""Return the derivative of log p(t|f) in the shape: with x = log t - f, log a - psi(a) + x + 1 - exp(x)."""
        log_t, constant = np.log(t.ravel()), log_minus_digamma(self.shape)

        def slope(rows: Any, f: Array) -> Derivs:
            x = log_t[rows] - f
            with np.errstate(over="ignore"):
                return Derivs(constant + below_exponential(x), np.expm1(x), -np.exp(x))

        return slope
