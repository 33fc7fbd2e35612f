"""Successes out of a known number of trials, with a logit link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit

from bayesgp_mf.likelihoods.base import each_in_words
from bayesgp_mf.likelihoods.below import count_below
from bayesgp_mf.likelihoods.centred import Bracket, Curve
from bayesgp_mf.likelihoods.counts import Counts, check_counts, higher_of_odds, log_choose, of_odds
from bayesgp_mf.likelihoods.each_case import as_each, of_each
from bayesgp_mf.likelihoods.logit import Logit
from bayesgp_mf.types import Array, Derivs

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
    return (
        np.where(t == 0, lower, np.minimum(mean, peak)),
        np.where(t == trials, upper, np.maximum(mean, peak)),
    )
