"""Draws of latent values from a Gaussian posterior, with the densities that importance sampling needs."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from bayesgp_mf.types import Array


class Drawn(NamedTuple):
    """Some draws of the latent values of the training cases.

    Attributes
    ----------
    f : (draws, n) array
        In latent units.
    log_prior, log_density : (draws,) array
        Logs of the prior density and of that which they were drawn by, of the whitened values: those with which
        f is a linear map of independent standard normal ones under the prior.
    """

    f: Array
    log_prior: Array
    log_density: Array


class Sampler(Protocol):
    """Draws from one posterior."""

    def draw(self, draws: int, rng: np.random.Generator) -> Drawn:
        """Return some draws."""

    def log_prior(self, f: Array) -> Array:
        """Return the log prior density of values ``(draws, n)``, as `draw` has it; K must be invertible."""


class RootSampler:
    """Draws of f = A u with a posterior of u.

    Parameters
    ----------
    root : (n, r) array
        A, with K = A A'.
    factor : (r, r) array
        Lower triangular C with the posterior covariance C C' of u.
    alpha : (n,) array
        Weights of the posterior mean.
    """

    def __init__(self, root: Array, factor: Array, alpha: Array) -> None:
        self._root, self._factor = root, factor
        self._mean = root.T @ alpha  # of u, since the mean of f is K alpha = A (A' alpha)
        self._constant = 0.5 * root.shape[1] * np.log(2.0 * np.pi)

    @property
    def rank(self) -> int:
        """Entries of u."""
        return int(self._root.shape[1])

    def draw(self, draws: int, rng: np.random.Generator) -> Drawn:
        """Return some draws."""
        noise = rng.standard_normal((draws, self.rank))
        u = self._mean + noise @ self._factor.T
        log_density = -0.5 * np.sum(noise**2, axis=1) - np.sum(np.log(np.diag(self._factor))) - self._constant
        return Drawn(u @ self._root.T, self._log_prior(u), log_density)

    def log_prior(self, f: Array) -> Array:
        """Return the log prior density of values ``(draws, n)``, where A is invertible."""
        return self._log_prior(np.asarray(np.linalg.solve(self._root, f.T).T, dtype=np.float64))

    def _log_prior(self, u: Array) -> Array:
        return np.asarray(-0.5 * np.sum(u**2, axis=1) - self._constant)
