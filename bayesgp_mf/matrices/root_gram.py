"""Gram matrices L L' + diag(d): what those of low rank and those on inducing cases have in common."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.factors import symmetric
from bayesgp_mf.matrices.matrix import Matrix
from bayesgp_mf.matrices.root import features_of
from bayesgp_mf.matrices.root_gradient import RootGradient
from bayesgp_mf.matrices.root_sites import RootCorrection
from bayesgp_mf.matrices.sampling import Own, RootSampler
from bayesgp_mf.types import Array


class RootGram(Matrix):
    """A Gram matrix ``(n, n)`` known by a root L ``(n, r)`` and the part d of each variance that is a case's own.

    A form of its own has a `root`, a `diagonal` and a `basis`, and ``factor (r, r)``, the Cholesky factor of the
    covariances of the inputs of that.
    """

    is_root = True

    @cached_property
    def own(self) -> Array:
        """The part d ``(n,)`` of each prior variance that is noise of the case's own: nothing."""
        return np.zeros(self.shape[0])

    @property
    def rank(self) -> int:
        """Columns of the root, r."""
        return int(self.root.shape[1])

    @property
    def width(self) -> int:
        """Features of a case, r."""
        return self.rank

    @property
    def stated(self) -> dict[str, Any]:
        """What the `Info` of a solution on it states of it."""
        return {"rank": self.rank}

    def _shared_times(self, vector: Array) -> Array:
        return np.asarray(self.root @ (self.root.T @ vector))

    def __matmul__(self, vector: Array) -> Array:
        return np.asarray(self._shared_times(vector) + (self.own.T * vector.T).T)

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of K with the given numbers ``(k,)``."""
        result, some = np.empty((which.size, self.shape[0])), self.root[which]
        for block in blocks(self.shape[0]):
            result[:, block] = some @ self.root[block].T
        result[np.arange(which.size), which] += self.own[which]
        return result

    def dense(self) -> Array:
        """Return K ``(n, n)``, exactly symmetric."""
        result = symmetric(np.asarray(blas.dsyrk(1.0, self.root[:].T, trans=1, lower=1)))
        result.ravel(order="K")[:: self.shape[0] + 1] += self.own
        return result

    @abstractmethod
    def basis(self, X: Array) -> tuple[Array, Array]:
        """Return the inputs that span it, and the Cholesky factor ``(r, r)`` of their covariances."""

    def features(self, kernel: Any, X: Array, X_new: Array) -> Array:
        """Return phi ``(r, m)`` of new cases, so that their covariances with the old ones are ``root @ phi``."""
        points, factor = self.basis(X)
        return features_of(kernel, points, factor, X_new)

    def in_features(self, alpha: Array) -> Array:
        """Return L' alpha ``(..., r)``: the posterior mean is its product with the features."""
        return np.asarray((self.root.T @ alpha.T).T)

    def sites(self, precision: Array, inverse_factor: Array | None = None) -> RootCorrection:
        """Return the correction of sites ``(n,)``, with a factor ``(r, r)`` of it where that is known."""
        return RootCorrection(self, precision, inverse_factor)

    def posterior_factor(self, correction: Any) -> Array:
        """Return the triangular C with the posterior covariance C C' of the weights u of the features."""
        return np.asarray(correction.inverse_factor.T)

    def sampler(self, alpha: Array, correction: Any) -> RootSampler:
        """Return what draws the latent values of the training cases."""
        mean, own = self.in_features(alpha), None
        if self.independent_rest:
            slope = self.own * correction.site_precision / correction.share
            # alpha = b' - W' E[g]
            at_zero = self.own * alpha + slope * np.asarray(self.root @ mean)
            own = Own(self.own, at_zero, slope, correction.share)
        return RootSampler(self.root, np.ascontiguousarray(self.posterior_factor(correction)), mean, own)

    def field_of_others(self, alpha: Array, variance: Array, sites: Any) -> Array:
        """Return f_i - lambda_i alpha_i ``(n,)`` at cavity variances lambda."""
        return np.asarray(self._shared_times(alpha) - (variance - self.own) * alpha)

    def solve_scaled(self, root: Array, own: Array, right: Array) -> Array:
        """Return y ``(n,)`` with (diag(own) + S K S) y = right, for S = diag(root)."""
        own = own + root**2 * self.own
        # that matrix is S (L L' + Omega) S for the sites W = S^2/own
        if not np.all(own > 0):
            raise NotPositiveDefiniteError("the sites are too strong to be added up")
        on_shared = RootCorrection(self, root**2 / own, own=np.zeros_like(own))
        return np.asarray((right - root * self._shared_times(on_shared.weights(root * right / own))) / own)

    def gradient(self, alpha: Array, weights: Array) -> RootGradient:
        """Return the derivative G = alpha alpha' / 2 + diag(weights)."""
        return RootGradient(self, 0.5 * alpha, alpha, None, weights)

    def rounding(self, gradient: RootGradient) -> float:
        """Return 0: what rounding of the entries could decide is not in a root; a sum may lose digits all the same."""
        return 0.0
