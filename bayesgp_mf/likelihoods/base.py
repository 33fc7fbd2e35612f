"""What every likelihood must answer, in words and integrals.

A solver asks one question: the log of a likelihood averaged over a Gaussian, with two derivatives.
Labels are -1/+1 in here (``t``); the names of the classes stay at the user's door.
"""

from __future__ import annotations

import math
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.types import Array, Derivs


@runtime_checkable
class Likelihood(Protocol):
    """The protocol of a likelihood p(t | f) of one target given one latent value.

    An object with these members works wherever one of this package does; `likelihoods.optional` has what it may say
    beyond them.

    Attributes
    ----------
    targets : {"binary", "real", "classes"}
        Whether ``t`` holds labels -1/+1, real numbers, or codes 0 to C - 1 of several classes. With several classes
        each case has a latent value for each of them, along a last axis: where a case has one number below, it has a
        vector ``(C,)`` of means and of first derivatives, and a matrix ``(C, C)`` of covariances and of second ones.
    """

    @property
    def targets(self) -> Literal["binary", "real", "classes"]:
        """Whether ``t`` holds labels -1/+1, real numbers, or codes of classes."""

    @property
    def forbids(self) -> bool:
        """Whether some latent values have likelihood zero, so that data can contradict the model."""

    @property
    def log_concave(self) -> bool:
        """Whether log p(t|f) is concave in f, which makes every site precision non-negative."""

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) and its derivatives in f; ``t`` and ``f`` broadcast."""

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t|f) N(f | mean, variance) df, and its derivatives in mean."""

    def predict_proba(self, mean: Array, variance: Array) -> Array:
        """Return the integral of p(t=+1|f) N(f | mean, variance) df, elementwise."""

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each latent value; same shape as ``f``."""


@runtime_checkable
class ClassLikelihood(Likelihood, Protocol):
    """The protocol of the softmax of several latent values, whose form the methods for several classes make use of."""

    @property
    def n_classes(self) -> int | None:
        """Number of classes C, or None where the labels decide."""

    def with_classes(self, classes: tuple[str, ...]) -> Likelihood:
        """Return the likelihood with its classes named."""

    def log_density(self, t: Array, f: Array) -> Array:
        """Return the value of `log_prob` without its derivatives."""

    def predictions(self, t: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Return the value of `log_partition` ``(m,)``, without derivatives, and `predict_proba` ``(m, C)``."""


def in_added_variance(derivs: Derivs) -> Array:
    """Return the derivative of a log partition function in a variance that adds to the Gaussian's, from those in mean.

    Z solves the heat equation: it is :math:`(d_2 + d_1^2)/2`.
    """
    return np.asarray(0.5 * (derivs.d2 + derivs.d1**2))


def of_added_variance(derivs: Derivs, d3: Array, d4: Array) -> Derivs:
    """Return `in_added_variance`, and its two derivatives in mean, from four derivatives in mean."""
    _, d1, d2 = derivs
    return Derivs(in_added_variance(derivs), 0.5 * d3 + d1 * d2, 0.5 * d4 + d2**2 + d1 * d3)


def check_flip(flip: float) -> float:
    """Return the probability of a flipped label as a float, or raise a ValueError if it is not one in [0, 1/2)."""
    number = float(flip) if isinstance(flip, int | float | np.number) and abs(flip) < 1 else np.nan
    if not 0.0 <= number < 0.5:
        raise ValueError(
            f"flip must be a probability in [0, 0.5), got {flip!r}. From one half on most labels would be "
            "wrong: correct them instead, such as by exchanging those of two classes."
        )
    return number


def check_variance(name: str, value: float, *, zero_allowed: bool) -> float:
    """Return ``value`` as a float if it is a usable variance, else raise ValueError."""
    try:
        number = math.nan if isinstance(value, str | bool | np.bool_) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero_allowed):
        expected = "a finite number >= 0" if zero_allowed else "a finite number > 0"
        raise ValueError(f"{name} must be {expected} (a variance, not a standard deviation), got {value!r}.")
    return number


def check_gaussian_variance(variance: Array) -> None:
    """Raise a ValueError if the variance of a Gaussian to integrate against is negative or NaN."""
    if not (np.asarray(variance) >= 0).all():
        raise ValueError(f"variance must be >= 0, got {float(np.min(variance)):.3g}.")


def refuse_probabilities(what: str) -> UndefinedQuantityError:
    """Return the error of a likelihood that has no labels, ``what``, and is asked for probabilities of classes."""
    return UndefinedQuantityError(
        f"{what} and so no class probabilities. Use posterior.latent(X_new) for the predictive mean and variance."
    )
