"""What a likelihood says of new targets whose latent values are Gaussian, or known by points and their weights."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.below import quantiles
from bayesgp_mf.processes.corrected import Points
from bayesgp_mf.types import Array


class Latent(NamedTuple):
    """Latent values of new cases, each a mixture of q Gaussians.

    Attributes
    ----------
    likelihood : Likelihood
        Of the m cases.
    mean, variance, weights : (m, q) array
        Of the Gaussians; of each case the weights sum to one. Points have variance zero.
    """

    likelihood: Likelihood
    mean: Array
    variance: Array
    weights: Array

    @classmethod
    def gaussian(cls, likelihood: Likelihood, mean: Array, variance: Array) -> Self:
        """Return Gaussian ones with means and variances ``(m,)``."""
        return cls(likelihood, mean[:, None], variance[:, None], np.ones((mean.size, 1)))

    @classmethod
    def at_points(cls, likelihood: Likelihood, points: Points, prior_mean: Array) -> Self:
        """Return those known by corrected densities, less the prior mean ``(m,)``."""
        values = points.values + prior_mean[:, None]
        return cls(likelihood, values, np.zeros_like(values), points.weights)

    def moments(self, mean: Array, variance: Array) -> tuple[Array, Array]:
        """Return mean and variance ``(m,)`` of what has given ones ``(m, q)`` in each Gaussian."""
        if mean.shape[1] == 1:
            return mean[:, 0], variance[:, 0]
        average = self._sum(mean)
        with np.errstate(invalid="ignore"):  # of a mean that is infinite there is no variance
            return average, self._sum(variance + (mean - average[:, None]) ** 2)

    def latent_moments(self) -> tuple[Array, Array]:
        """Return mean and variance ``(m,)`` of the latent values."""
        return self.moments(self.mean, self.variance)

    def target_moments(self) -> tuple[Array, Array] | None:
        """Return mean and variance ``(m,)`` of the targets, or None if the likelihood does not say."""
        known = self._each(lambda likelihood, *latent: likelihood.predictive_moments(*latent))
        return None if known is None else self.moments(*(part.reshape(self.mean.shape) for part in known))

    def level_probabilities(self) -> Array | None:
        """Return the probabilities ``(m, K)`` of ordered levels, or None where there are none."""
        known = self._each(lambda likelihood, *latent: likelihood.level_probabilities(*latent))
        return None if known is None else self._sum(np.moveaxis(known.reshape(*self.mean.shape, -1), -1, 0)).T

    def below(self, t: Array) -> Array | None:
        """Return how likely targets are to be at most t ``(..., m)``, or None if the likelihood does not say."""
        at = np.repeat(t, self.mean.shape[1], axis=-1)
        known = self._each(lambda likelihood, *latent: likelihood.predictive_below(at, *latent))
        return None if known is None else self._sum(known.reshape(*t.shape, -1))

    def quantiles(self, levels: Array) -> Array:
        """Return quantiles ``(q, m)`` of the targets, of a likelihood that says how likely they are to be below."""
        mean, variance = self.latent_moments()

        def below(t: Array) -> Array:
            return np.asarray(self.below(t))

        return quantiles(below, levels, mean, np.sqrt(variance) + 1.0, whole=self.likelihood.is_discrete)

    def _each(self, ask: Callable[[Likelihood, Array, Array], Any]) -> Any:
        """Return what the likelihood says of all Gaussians, those of the first case first."""
        likelihood, (m, q) = self.likelihood, self.mean.shape
        if q > 1:
            likelihood = likelihood.of_cases(np.repeat(np.arange(m), q))
        return ask(likelihood, self.mean.ravel(), self.variance.ravel())

    def _sum(self, values: Array) -> Array:
        """Return averages over the Gaussians ``(..., m)`` of ``(..., m, q)``; those without a weight have no say."""
        return np.asarray(np.sum(np.where(self.weights > 0, values, 0.0) * self.weights, axis=-1))
