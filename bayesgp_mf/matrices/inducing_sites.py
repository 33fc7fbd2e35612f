"""Sites on a Gram matrix on inducing cases, and draws from the posterior that they leave: see `matrices.inducing`."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.corrections import Sites
from bayesgp_mf.matrices.factors import symmetric
from bayesgp_mf.matrices.inducing_gradient import InducingGradient, RootAndOwn
from bayesgp_mf.matrices.low_rank import LowRankCorrection
from bayesgp_mf.matrices.posterior_covariance import FactorCovariance
from bayesgp_mf.matrices.sampling import Drawn
from bayesgp_mf.types import Array


class InducingCorrection(Sites):
    """``R = (K + Omega)^{-1}`` of sites on a Gram matrix on inducing cases; see the module.

    Parameters
    ----------
    gram : RootAndOwn
        K.
    site_precision : (n,) array
        W = 1/omega, in latent units to the power -2; finite, of any sign.
    inverse_factor : (M, M) array, optional
        T of `inverse_factor`, where it is known already: predictions then need no root, and these cases may be some
        of all.

    Raises
    ------
    NotPositiveDefiniteError
        When the factor is first needed, if the sites leave no positive-definite posterior covariance.
    """

    def __init__(self, gram: RootAndOwn, site_precision: Array, inverse_factor: Array | None = None) -> None:
        super().__init__(site_precision)
        self.gram = gram
        self._known_factor = inverse_factor

    @property
    def form(self) -> str:
        """That of the Gram matrix."""
        return "inducing"

    @cached_property
    def _share(self) -> Array:
        """1 + W d ``(n,)``."""
        share = 1.0 + self.site_precision * self.gram.own
        if not np.all(share > 0):
            raise NotPositiveDefiniteError("a negative site says more than the prior of what is a case's own")
        return np.asarray(share)

    @cached_property
    def effective_precision(self) -> Array:
        """W' ``(n,)``, the precision of what is measured of the shared part."""
        return np.asarray(self.site_precision / self._share)

    @cached_property
    def _shared(self) -> LowRankCorrection:
        """The correction of those sites on the shared part."""
        return LowRankCorrection(self.gram.shared, self.effective_precision, self._known_factor)

    @property
    def inverse_factor(self) -> Array:
        """Lower triangular T ``(M, M)`` with T'T = A^-1, the posterior covariance of the weights."""
        return self._shared.inverse_factor if self._known_factor is None else self._known_factor

    @cached_property
    def _weight_covariance(self) -> Array:
        """A^-1 ``(M, M)``."""
        return np.asarray(self.inverse_factor.T @ self.inverse_factor)

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        return float(np.sum(np.log(self._share))) + self._shared.log_det

    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha and the means K alpha, ``(n,)`` each, under sites with shifts ``b (n,)``."""
        alpha, latent = self._shared.posterior(shift / self._share)
        return alpha, latent + self.gram.own * alpha

    def weights(self, shift: Array) -> Array:
        """Return the weights ``alpha (n,)`` under sites with shifts ``b (n,)``: those of alpha + W K alpha = b."""
        return self._shared.weights(shift / self._share)

    def quadratic(self, features: Array) -> Array:
        """Return ``cross' R cross (m, m)`` for cross = L phi, from `InducingGram.features` phi ``(M, m)``."""
        projected = self.inverse_factor @ features
        return np.asarray(features.T @ features - projected.T @ projected)

    def quadratic_diagonal(self, features: Array) -> Array:
        """Return the diagonal ``(m,)`` of `quadratic`, in O(M^2) for each new case."""
        projected = blas.dtrmm(1.0, self.inverse_factor, features, lower=1)
        return np.asarray(np.einsum("ij,ij->j", features, features) - np.einsum("ij,ij->j", projected, projected))

    def diagonal(self) -> Array:
        """Return ``R_ii (n,)``."""
        return self._shared.diagonal()

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of R with the given numbers ``(k,)``."""
        return self._shared.rows(which)

    def dense(self) -> Array:
        """Return ``R (n, n)``, exactly symmetric."""
        return symmetric(np.tril(self._shared.dense()))

    def cavity_variance(self) -> Array:
        """Return the variance ``(n,)`` of each latent value with its own site taken out (2000, eq. 28)."""
        if not self.site_precision.any():
            return self.gram.prior.copy()
        return np.asarray(self._shared.cavity_variance() + self.gram.own)

    def covariance_diagonal(self) -> Array:
        """Return the posterior variances ``(n,)`` under all sites: of what is a case's own, and of the shared part."""
        return np.asarray(self.gram.own / self._share + self._shared.covariance_diagonal() / self._share**2)

    def covariance_with(self, which: NDArray[np.intp]) -> Iterator[tuple[slice, Array]]:
        """Yield posterior covariances ``(k, m)`` of all cases, some at a time, with those of given numbers ``(m,)``."""
        own = self.gram.own[which] / self._share[which]
        place = np.argsort(which)
        for block, found in self._shared.covariance_with(which):
            found /= self._share[block][:, None]
            found /= self._share[which]
            first, last = np.searchsorted(which[place], (block.start, block.stop))
            here = place[first:last]  # those of the given cases that are in the block
            found[which[here] - block.start, here] += own[here]
            yield block, found

    def posterior_covariance(self) -> FactorCovariance:
        """Return Sigma, of which a few entries can be asked for."""
        factor = np.asarray(self.gram.root @ self.inverse_factor.T, dtype=np.float64) / self._share[:, None]
        return FactorCovariance(factor, self.gram.own / self._share, self.inverse_factor)

    def gradient(self, left: Array, right: Array) -> InducingGradient:
        """Return the derivative ``(left right' + right left' - R) / 2``."""
        return InducingGradient(self.gram, left, right, self, np.zeros_like(left))

    def times_root(self, block: slice, some: Array) -> Array:
        """Return rows of R L, which is W' L A^-1, given those of L."""
        return np.asarray(self.effective_precision[block, None] * (some @ self._weight_covariance))

    def of_weights(self) -> Array:
        """Return L' R L ``(M, M)``, which is I - A^-1."""
        return np.asarray(np.eye(self.gram.rank) - self._weight_covariance)

    def stored_on_inducing(self, alpha: Array) -> dict[str, Array]:
        """Return the weights of the features and the factor of their covariance: predictions need no more."""
        return {"inducing_weight": self.gram.in_features(alpha), "inducing_factor": np.tril(self.inverse_factor)}


class InducingSampler:
    r"""Draws of the latent values f = g + e of the training cases.

    Given g, :math:`e_i` has mean :math:`d_i (b_i - W_i g_i) / (1 + W_i d_i)` and variance :math:`d_i / (1 + W_i d_i)`.
    Densities are those of the whitened values: u with g = L u, and :math:`e_i / \sqrt{d_i}`.
    """

    def __init__(self, gram: RootAndOwn, alpha: Array, correction: Any) -> None:
        self._gram = gram
        self._factor = np.ascontiguousarray(correction.inverse_factor.T)
        self._mean = gram.in_features(alpha)
        precision = correction.site_precision
        share = 1.0 + precision * gram.own
        self._slope, self._sd = gram.own * precision / share, np.sqrt(gram.own / share)
        # alpha = b' - W' E[g]
        shared_mean = np.asarray(gram.root @ self._mean)
        self._own_mean = gram.own * (alpha + precision / share * shared_mean)
        self._certain = gram.own == 0
        self._log_factor = float(np.sum(np.log(np.diag(self._factor)))) - 0.5 * float(np.sum(np.log(share)))

    def draw(self, draws: int, rng: np.random.Generator) -> Drawn:
        """Return some draws."""
        gram, rank = self._gram, self._gram.rank
        noise = rng.standard_normal((draws, rank))
        u = self._mean + noise @ self._factor.T
        f = np.empty((draws, gram.prior.size))
        square, square_noise = np.sum(u**2, axis=1), np.sum(noise**2, axis=1)
        for block in blocks(gram.prior.size):
            own, certain = gram.own[block], self._certain[block]
            shared, own_noise = u @ gram.root[block].T, rng.standard_normal((draws, own.size))
            rest = self._own_mean[block] - self._slope[block] * shared + self._sd[block] * own_noise
            square += np.sum(np.divide(rest**2, own, out=np.zeros_like(rest), where=~certain), axis=1)
            square_noise += np.sum(own_noise[:, ~certain] ** 2, axis=1)
            f[:, block] = shared + rest
        constant = 0.5 * (rank + np.count_nonzero(~self._certain)) * np.log(2.0 * np.pi)
        return Drawn(f, -0.5 * square - constant, -0.5 * square_noise - self._log_factor - constant)

    def log_prior(self, f: Array) -> Array:
        """Raise a NotPositiveDefiniteError: values do not say which part of them is a case's own."""
        raise NotPositiveDefiniteError("tilted marginals need the dense Gram matrix; use marginals='gaussian'.")
