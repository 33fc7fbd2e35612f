r"""Gram matrices L L' + diag(d): what those of low rank and those on inducing cases have in common.

The correction R of sites costs O(n r^2). With the part d of each variance that is a case's own, f = g + e, e_i ~ N(0,
d_i), the posterior of the shared part g = L u is that of sites

.. math:: W' = W / (1 + W d), \qquad b' = b / (1 + W d)

on :math:`L L^T` alone: what is a case's own is noise in the measurement of g. The r weights u are independent and
standard normal beforehand, and their posterior precision is A,

.. math:: A = I + L^T W' L, \qquad \Sigma' = L A^{-1} L^T, \qquad R = W' - W' \Sigma' W', \qquad
          \log\det(I + K W) = \sum_i \log(1 + W_i d_i) + \log\det A, \qquad \lambda_i = \lambda'_i + d_i,

with :math:`\Sigma'` the posterior covariance of g and :math:`\lambda'` its cavity variances. On a root of low rank d is
zero, and what is primed is what is not.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.factors import blocks, cholesky, lapack_routine, symmetric, triangular_inverse
from bayesgp_mf.matrices.matrix import Covariance, Matrix, PosteriorCovariance, Sites, covariance_of_factor
from bayesgp_mf.matrices.root import Own, RootGradient, RootSampler, features_of, variances, weighted_square
from bayesgp_mf.types import Array

SMALL_REST = 1e-4
"""One less the precision of a site times its posterior variance: below this it is no longer that difference ..."""
LEAST_REST = 1e-26
"""... and below this, which is the square of rounding times some ten thousand, not known to four digits either."""
AT_ONCE = 2**22
"""Entries ``(n, k)`` that are worked out at once for k cases."""


class RootCorrection(Sites):
    """``R = (K + Omega)^{-1}`` of sites on a Gram matrix K = L L' + diag(d); see the module.

    Sites may be negative; A has a Cholesky factor exactly when they leave a posterior.

    Parameters
    ----------
    gram : RootGram
        K.
    site_precision : (n,) array
        W = 1/omega, in latent units to the power -2; finite, of any sign.
    inverse_factor : (r, r) array, optional
        T of `inverse_factor`, where it is known already: predictions then need no root, and these cases may be some of
        all.
    own : (n,) array, optional
        d, where it is not that of the Gram matrix.

    Raises
    ------
    NotPositiveDefiniteError
        When the factor is first needed, if the sites leave no positive-definite posterior covariance.
    """

    def __init__(
        self, gram: Any, site_precision: Array, inverse_factor: Array | None = None, own: Array | None = None
    ) -> None:
        super().__init__(site_precision)
        self.gram = gram
        self._known_factor, self._known_own = inverse_factor, own

    @property
    def form(self) -> str:
        """That of the Gram matrix."""
        return str(self.gram.form)

    @property
    def _own(self) -> Array:
        return np.asarray(self.gram.own if self._known_own is None else self._known_own)

    @cached_property
    def share(self) -> Array:
        """1 + W d ``(n,)``."""
        share = 1.0 + self.site_precision * self._own
        if not np.all(share > 0):
            raise NotPositiveDefiniteError("a negative site says more than the prior of what is a case's own")
        return np.asarray(share)

    @cached_property
    def effective_precision(self) -> Array:
        """W' ``(n,)``, the precision of what is measured of the shared part."""
        return np.asarray(self.site_precision / self.share)

    @cached_property
    def _factor(self) -> Array:
        """Cholesky factor of A."""
        precision = weighted_square(self.gram.root, self.effective_precision)
        precision.ravel(order="K")[:: precision.shape[0] + 1] += 1.0
        if not np.all(np.isfinite(precision)):
            raise NotPositiveDefiniteError("the sites are too strong to be added up")
        return cholesky(precision, overwrite=True, is_lower=True)

    @cached_property
    def inverse_factor(self) -> Array:
        """Lower triangular T ``(r, r)`` with T'T = A^-1, the posterior covariance of the weights."""
        return triangular_inverse(self._factor) if self._known_factor is None else self._known_factor

    @cached_property
    def _weight_covariance(self) -> Array:
        """A^-1 ``(r, r)``."""
        return np.asarray(self.inverse_factor.T @ self.inverse_factor)

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        return float(np.sum(np.log(self.share))) + 2.0 * float(np.sum(np.log(np.diag(self._factor))))

    @cached_property
    def _shared_variance(self) -> Array:
        """Sigma'_ii ``(n,)``."""
        return variances(self.gram.root, self.inverse_factor)

    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha and the means K alpha, ``(n,)`` each, or ``(n, m)``, under sites with shifts b."""
        # K alpha would magnify the rounding of alpha by the prior variances over those of the posterior
        root, solve = self.gram.root, lapack_routine("potrs", self._factor)
        measured = (shift.T / self.share).T
        inner = root.T @ measured.astype(root.dtype, copy=False)
        shared = np.asarray(root @ solve(self._factor, inner, lower=1)[0], dtype=np.float64)
        alpha = measured - (self.effective_precision * shared.T).T
        return alpha, shared + (self._own * alpha.T).T

    def quadratic(self, features: Array) -> Array:
        """Return ``cross' R cross (m, m)`` for cross = L phi, from `Matrix.features` phi ``(r, m)``."""
        projected = self.inverse_factor @ features
        return np.asarray(features.T @ features - projected.T @ projected)

    def quadratic_diagonal(self, features: Array) -> Array:
        """Return the diagonal ``(m,)`` of `quadratic`, in O(r^2) for each new case."""
        projected = blas.dtrmm(1.0, self.inverse_factor, features, lower=1)
        return np.asarray(np.einsum("ij,ij->j", features, features) - np.einsum("ij,ij->j", projected, projected))

    def diagonal(self) -> Array:
        """Return ``R_ii (n,)``."""
        return np.asarray(self.effective_precision * (1.0 - self.effective_precision * self._shared_variance))

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of R with the given numbers ``(k,)``."""
        solved = lapack.dpotrs(self._factor, self.gram.root[which].T, lower=1)[0]
        precision = self.effective_precision
        result = -(precision[which, None] * np.asarray(self.gram.root @ solved).T * precision)
        result[np.arange(which.size), which] += precision[which]
        return np.asarray(result)

    def dense(self) -> Array:
        """Return ``R (n, n)``, exactly symmetric."""
        half = self.effective_precision[:, None] * (self.gram.root[:] @ self.inverse_factor.T)
        result = -half @ half.T
        result.ravel()[:: half.shape[0] + 1] += self.effective_precision
        return np.asarray(result)

    def cavity_variance(self) -> Array:
        r"""Return the variance ``(n,)`` of each latent value with its own site taken out (2000, eq. 28).

        .. math:: \lambda'_i = \Sigma'_{ii} / (1 - W'_i \Sigma'_{ii})

        A result that is not positive means that the sites are not those of a valid approximation.

        Raises
        ------
        NotPositiveDefiniteError
            If some site says so much more than the others that these are lost in rounding.
        """
        if not self.site_precision.any():
            return np.array(self.gram.diagonal())
        rest = self._rest
        if np.any(np.abs(rest) < LEAST_REST):
            raise NotPositiveDefiniteError(
                "a site says so much more than the other cases that, on a root of low rank, what they say is lost in "
                "rounding; Control(gram='dense') keeps it"
            )
        return np.asarray(self._shared_variance / rest + self._own)

    @property
    def _rest(self) -> Array:
        r"""Return :math:`1 - W'_i \Sigma'_{ii} = R_{ii} / W'_i` ``(n,)``, where it is small without that difference.

        It is the least value, for negative sites a stationary one, of

        .. math:: (1 - W'_i\, l_i^T u)^2 + W'_i \sum_{j \ne i} W'_j\, (l_j^T u)^2 + W'_i\, u^T u,

        at :math:`u = A^{-1} l_i`: an error of u counts by its square.
        """
        precision, root = self.effective_precision, self.gram.root
        rest = np.asarray(1.0 - precision * self._shared_variance)
        (small,) = np.nonzero(np.abs(rest) < SMALL_REST)  # no more than r where all sites are positive
        for some in (small[block] for block in blocks(small.size, max(1, AT_ONCE // precision.size))):
            u = np.asarray(lapack.dpotrs(self._factor, root[some].T, lower=1)[0])
            latent, own = root @ u, (some, np.arange(some.size))
            share = 1.0 - precision[some] * latent[own]
            latent[own] = 0.0
            rest[some] = share**2 + precision[some] * (precision @ latent**2 + np.einsum("ij,ij->j", u, u))
        return rest

    def covariance_diagonal(self) -> Array:
        """Return the posterior variances ``(n,)`` under all sites: of what is a case's own, and of the shared part."""
        return np.asarray(self._own / self.share + self._shared_variance / self.share**2)

    def covariance(self, cavity_variance: Array, left_out: Callable[[], float]) -> Covariance | None:
        """Return the products with Sigma by the first columns of the root, if the others leave out at most a trace.

        A product with the squared entries takes O(n k^2) for k columns, which would be as much as a plain step for all
        of them. The direction of a step need not be exact; the equations that it leads to are. None on inducing cases:
        by a part of them Newton's step saves 2 of 12 others, and takes as long as 3.
        """
        if self.gram.independent_rest:
            return None
        rank = self.gram.columns_of_a_step(left_out)
        inverse = np.asfortranarray(self.inverse_factor[:rank, :rank])  # of the leading block of A
        root = np.empty((self.site_precision.size, rank))  # F, with F F' the covariance
        for block in blocks(root.shape[0]):
            root[block] = blas.dtrmm(1.0, inverse, self.gram.root[block, :rank].T, lower=1).T
        own = np.einsum("ij,ij->i", root, root) ** 2

        def squared_times(vector: Array) -> Array:
            inner = root.T @ (vector[:, None] * root)
            return np.asarray(np.einsum("ij,ij->i", root @ inner, root) - own * vector)

        return Covariance(lambda vector: np.asarray(root @ (root.T @ vector)), squared_times, rank == self.gram.rank)

    def covariance_with(self, which: NDArray[np.intp]) -> Iterator[tuple[slice, Array]]:
        """Yield posterior covariances ``(k, m)`` of all cases, some at a time, with those of given numbers ``(m,)``."""
        root, inverse, share = self.gram.root, self.inverse_factor, self.share
        after = inverse.T @ (inverse @ (np.asarray(root[which], dtype=np.float64) / share[which, None]).T)
        own, place = self._own[which] / share[which], np.argsort(which)
        for block in blocks(share.size, max(1, AT_ONCE // which.size)):
            found = np.asarray((root[block] / share[block, None]) @ after, dtype=np.float64)
            first, last = np.searchsorted(which[place], (block.start, block.stop))
            here = place[first:last]  # those of the given cases that are in the block
            found[which[here] - block.start, here] += own[here]
            yield block, found

    def posterior_covariance(self) -> PosteriorCovariance:
        """Return Sigma, of which a few entries can be asked for."""
        factor = np.asarray(self.gram.root @ self.inverse_factor.T, dtype=np.float64) / self.share[:, None]
        return covariance_of_factor(factor, self._own / self.share, self.inverse_factor)

    def gradient(self, left: Array, right: Array) -> RootGradient:
        """Return the derivative ``(left right' + right left' - R) / 2``."""
        return RootGradient(self.gram, left, right, self, np.zeros_like(left))

    def times_root(self, block: slice, some: Array) -> Array:
        """Return rows of R L, which is W' L A^-1, given those of L."""
        return np.asarray(self.effective_precision[block, None] * (some @ self._weight_covariance))

    def of_weights(self) -> Array:
        """Return L' R L ``(r, r)``, which is I - A^-1."""
        return np.asarray(np.eye(self.inverse_factor.shape[0]) - self._weight_covariance)

    def stored_on_inducing(self, alpha: Array) -> dict[str, Array]:
        """Return the weights of the features and the factor of their covariance: predictions need no more."""
        return {"inducing_weight": self.gram.in_features(alpha), "inducing_factor": np.tril(self.inverse_factor)}


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
