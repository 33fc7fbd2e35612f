"""Draws of latent values from a Gaussian posterior, with the densities that importance sampling needs."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.root import Root
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


class Own(NamedTuple):
    r"""What is a case's own, given the shared part g of its latent value.

    Under a site W it has the mean :math:`d (b - W g) / (1 + W d)` and the variance :math:`d / (1 + W d)`.

    Attributes
    ----------
    prior : (n,) array
        Its prior variances d.
    mean, slope : (n,) array
        Its mean is ``mean - slope * g``.
    share : (n,) array
        1 + W d.
    """

    prior: Array
    mean: Array
    slope: Array
    share: Array

    def draw(self, block: slice, shared: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Return draws ``(draws, k)`` for some cases, and the sums of their squares as prior and posterior see them."""
        prior, noise = self.prior[block], rng.standard_normal(shared.shape)
        uncertain = prior > 0
        values = self.mean[block] - self.slope[block] * shared + np.sqrt(prior / self.share[block]) * noise
        white = np.divide(values**2, prior, out=np.zeros_like(values), where=uncertain)
        return values, np.sum(white, axis=1), np.sum(noise[:, uncertain] ** 2, axis=1)


class RootSampler:
    r"""Draws of f = A u, or of A u + e with what is a case's own, with a posterior of u.

    Densities are those of the whitened values: u, and :math:`e_i / \sqrt{d_i}`.

    Parameters
    ----------
    root : (n, r) array
        A, with K = A A' but for what is a case's own.
    factor : (r, r) array
        Lower triangular C with the posterior covariance C C' of u.
    mean : (r,) array
        That of u: A' alpha, since the mean of A u is A A' alpha.
    own : Own, optional
        What is a case's own.
    """

    def __init__(self, root: Root, factor: Array, mean: Array, own: Own | None = None) -> None:
        self._root, self._factor, self._mean, self._own = root, factor, mean, own
        size = mean.size + (0 if own is None else np.count_nonzero(own.prior))
        self._constant = 0.5 * size * np.log(2.0 * np.pi)
        self._log_factor = float(np.sum(np.log(np.diag(factor))))
        if own is not None:
            self._log_factor -= 0.5 * float(np.sum(np.log(own.share)))

    def draw(self, draws: int, rng: np.random.Generator) -> Drawn:
        """Return some draws."""
        noise = rng.standard_normal((draws, self._mean.size))
        u = self._mean + noise @ self._factor.T
        f = np.empty((draws, self._root.shape[0]))
        square, square_noise = np.sum(u**2, axis=1), np.sum(noise**2, axis=1)
        for block in blocks(f.shape[1]):
            f[:, block] = u @ self._root[block].T
            if self._own is not None:
                values, of_prior, of_noise = self._own.draw(block, f[:, block], rng)
                f[:, block] += values
                square += of_prior
                square_noise += of_noise
        return Drawn(f, -0.5 * square - self._constant, -0.5 * square_noise - self._log_factor - self._constant)

    def log_prior(self, f: Array) -> Array:
        """Return the log prior density of values ``(draws, n)``, where A is invertible and nothing is a case's own."""
        if self._own is not None:  # values do not say which part of them is
            raise NotPositiveDefiniteError("tilted marginals need the dense Gram matrix; use marginals='gaussian'.")
        u = np.linalg.solve(self._root[:], f.T).T
        return np.asarray(-0.5 * np.sum(u**2, axis=1) - self._constant)
