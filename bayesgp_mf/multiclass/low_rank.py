r"""The correction R of several classes that share a Gram matrix L L' + diag(d), at O(C^2 n M^2 / 2).

The variance d of a case's own is noise in what its site W measures of :math:`g = L u`, the shared part, of which
:math:`W' = W (I + d W)^{-1}` is told (`site_form.OnShared`).

Rows of W' sum to zero: it is the Laplacian of a graph, a sum over pairs of classes, and so is the precision A of the
weights u ``(C M,)`` of the features, but for their prior,

.. math:: A = I + \sum_{c<d} (e_c - e_d)(e_c - e_d)^T \otimes P_{cd}, \qquad
          P_{cd} = -L^T \mathrm{diag}(W'_{i,cd})\, L .

No difference is taken there of sites of star form, with which A has no eigenvalue below one; in general it has a
Cholesky factor exactly where the sites leave a posterior. The common offset of the classes stays as it is in the
prior. What the data tell is in C - 1 contrasts, by an orthonormal basis H of these, and only the part of A in them,
with :math:`(C - 1) M` rows, is ever factorised. Then

.. math:: \Sigma_i = \tfrac1C |l_i|^2\, \mathbf{1} \mathbf{1}^T + H\, [l_i^T (A^{-1})_{ab}\, l_i]\, H^T

are the covariances of the shared parts of the classes of a case. All that is large is a product of matrices, for a
pair of classes or contrasts each, of some cases at a time.
"""

from __future__ import annotations

from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy.linalg import blas

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.matrices.factors import blocks, cholesky, gram_of_lower, symmetric, triangular_inverse
from bayesgp_mf.matrices.root import RootGradient, add_weighted_square
from bayesgp_mf.multiclass.correction import ClassCorrection
from bayesgp_mf.multiclass.site_form import OnShared, SiteForm
from bayesgp_mf.types import Array


class RootClassCorrection(ClassCorrection):
    """R for sites of either form on a Gram matrix that all classes share; see the module.

    Parameters
    ----------
    gram : RootGram
        K = L L' + diag(d), of each class.
    site : SiteForm
        W.

    Raises
    ------
    NotPositiveDefiniteError
        When the factor is first needed, if the sites are too strong to be added up, or leave no posterior.
    """

    def __init__(self, gram: Any, site: SiteForm) -> None:
        self.gram, self.site = gram, site
        self._basis = contrast_basis(site.n_classes)

    @property
    def form(self) -> str:
        """That of the Gram matrix: of which form the features are."""
        return str(self.gram.form)

    @property
    def site_precision(self) -> Array:
        """The diagonal ``(n, C)`` of the sites: of each class as if it were alone."""
        return np.asarray(np.diagonal(self.site.precision, axis1=1, axis2=2))

    @cached_property
    def _on_shared(self) -> OnShared:
        return self.site.on_shared(self.gram.own)

    def _root(self, block: slice) -> Array:
        return np.asarray(self.gram.root[block], dtype=np.float64)

    @cached_property
    def _precision(self) -> tuple[Array, Array]:
        """The Cholesky factor of A in the contrasts, and the diagonal of A there."""
        squares, differences = self._squares()
        if not np.all(np.isfinite(squares)):
            raise NotPositiveDefiniteError("the sites are too strong to be added up")
        rank, size = self.gram.rank, differences.shape[1]
        matrix = np.zeros((size * rank, size * rank), order="F")
        for a in range(size):
            for b in range(a + 1):
                both = differences[:, a] * differences[:, b]
                matrix[_rows_of(a, rank), _rows_of(b, rank)] = np.tensordot(both, squares, axes=1)
        matrix.ravel(order="K")[:: size * rank + 1] += 1.0
        diagonal = matrix.diagonal().copy()
        return cholesky(matrix, overwrite=True), diagonal

    def _squares(self) -> tuple[Array, Array]:
        """Return P_cd ``(pairs, M, M)`` of all pairs of classes, and e_c - e_d in contrasts ``(pairs, C - 1)``."""
        rank, pairs = self.gram.rank, list(combinations(range(self.site.n_classes), 2))
        squares = np.zeros((len(pairs), rank, rank))
        for block in blocks(self.gram.shape[0]):
            root, effective = self._root(block), self._on_shared.precision[block]
            for square, (c, d) in zip(squares, pairs, strict=True):
                add_weighted_square(square.T, root, -effective[:, c, d])
        for square in squares:
            square += np.triu(square, 1).T
        return squares, np.array([self._basis[c] - self._basis[d] for c, d in pairs])

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        return 2.0 * float(np.sum(np.log(np.diag(self._precision[0])))) + self._on_shared.log_det

    @cached_property
    def inverse_factor(self) -> Array:
        """Lower triangular T ``((C - 1) M, (C - 1) M)`` with T'T the posterior covariance of the weights in contrasts.

        Row a M + j is that of weight j in contrast a.
        """
        return triangular_inverse(self._precision[0])

    @cached_property
    def _covariance(self) -> Array:
        """Lower triangle of T'T."""
        return gram_of_lower(self.inverse_factor.copy(order="F"))

    @property
    def _rank(self) -> int:
        return int(self.inverse_factor.shape[0]) // int(self._basis.shape[1])

    def weight_covariance(self, a: int, b: int) -> Array:
        """Return the posterior covariances ``(M, M)`` of the weights of contrast ``a >= b`` with those of ``b``."""
        block = self._covariance[_rows_of(a, self._rank), _rows_of(b, self._rank)]
        return symmetric(np.tril(block)) if a == b else block

    @property
    def rounding(self) -> float:
        """By how much rounding moves `log_det`, in nats."""
        # each entry of A is known to eps of its diagonal, and d log det A is the trace of A^-1 dA
        return float(np.finfo(np.float64).eps * (self._precision[1] @ self._covariance.diagonal()))

    def _shared_means(self, measured: Array) -> tuple[Array, Array]:
        """Return Sigma' b', the means of the shared parts: their common offset ``(..., n, 1)``, and the contrasts."""
        first = np.moveaxis(measured, -2, 0)  # (n, ..., C)
        seen = np.asarray(self.gram.root.T @ first.reshape(first.shape[0], -1)).reshape(-1, *first.shape[1:])
        contrasts = np.moveaxis(seen @ self._basis, -1, 0)  # (C - 1, M, ...)
        stacked = contrasts.reshape(self.inverse_factor.shape[0], -1)
        solved = (self.inverse_factor.T @ (self.inverse_factor @ stacked)).reshape(contrasts.shape)
        both = (np.mean(seen, axis=-1, keepdims=True), np.moveaxis(solved, 0, -1) @ self._basis.T)
        offset, rest = (self._root_times(weights) for weights in both)
        return offset, rest

    def _root_times(self, weights: Array) -> Array:
        """Return L u ``(..., n, k)`` for weights ``(M, ..., k)``."""
        result = np.asarray(self.gram.root @ weights.reshape(weights.shape[0], -1))
        return np.moveaxis(result.reshape(-1, *weights.shape[1:]), 0, -2)

    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha and the means K alpha, ``(..., n, C)`` each, under sites with shifts b alike."""
        measured = np.einsum("icd,...id->...ic", self._on_shared.carried, shift)
        # W' sees nothing of a common offset, which may be large
        offset, contrasts = self._shared_means(measured)
        alpha = measured - self.shared_times(slice(None), contrasts)
        return alpha, contrasts + offset + self.gram.own[:, None] * alpha

    def shared_times(self, block: slice, values: Array) -> Array:
        """Return W' v ``(..., k, C)`` of some cases."""
        return np.asarray(np.einsum("icd,...id->...ic", self._on_shared.precision[block], values))

    def weights(self, shift: Array) -> Array:
        """Return ``b - R K b`` for ``b (..., n, C)``: the weights alpha = b - W K alpha under sites with shifts b."""
        return self.posterior(shift)[0]

    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors (..., n, C)``."""
        return self.weights(self.site.times(vectors))

    def covariances(self) -> Array:
        """Return the posterior covariances ``(n, C, C)`` of the classes of each training case, without a difference."""
        carried = self._on_shared.carried
        result = self.gram.own[:, None, None] * carried
        for block in blocks(result.shape[0]):
            root, contrasts = self._root(block), carried[block] @ self._basis
            result[block] += contrasts @ self.contrast_covariances(root.T) @ np.swapaxes(contrasts, 1, 2)
            result[block] += (np.einsum("ij,ij->i", root, root) / result.shape[1])[:, None, None]
        return np.asarray(result)

    def contrast_covariances(self, features: Array) -> Array:
        """Return phi' (A^-1)_ab phi ``(m, C - 1, C - 1)`` for features ``phi (M, m)``."""
        size, phi = self._basis.shape[1], np.asfortranarray(features)
        result = np.empty((phi.shape[1], size, size))
        for (a, b), half in self._halves.items():
            product = blas.dtrmm(1.0, half, phi, lower=1)
            result[:, a, b] = result[:, b, a] = np.einsum("ij,ij->j", phi, product)
        return result

    @cached_property
    def _halves(self) -> dict[tuple[int, int], Array]:
        """Lower triangles ``(M, M)`` with the quadratic forms of the blocks of A^-1: half the work of a product."""
        result = {}
        for a in range(self._basis.shape[1]):
            for b in range(a + 1):
                block = self.weight_covariance(a, b)
                half = np.asfortranarray(np.tril(block + block.T))
                half.ravel(order="K")[:: self._rank + 1] *= 0.5
                result[a, b] = half
        return result

    def blocks(self, features: Array) -> Array:
        """Return k_c' R_cd k_d ``(m, C, C)`` of each new case, for features ``(M, m)``."""
        n_classes = self._basis.shape[0]
        within = np.eye(n_classes) - 1.0 / n_classes
        prior = np.einsum("ij,ij->j", features, features)[:, None, None] * within
        return np.asarray(prior - self._basis @ self.contrast_covariances(features) @ self._basis.T)

    def gradient(self, left: Array, right: Array) -> RootGradient:
        """Return the derivative, known by its product with the root."""
        return RootGradient(self.gram, left, right, self, np.zeros(left.shape[0]))

    def diagonal(self) -> Array:
        """Return the sums over the classes of R_cc,ii ``(n,)``."""  # of W' - W' Sigma' W'
        effective = self._on_shared.precision
        result = np.array(np.trace(effective, axis1=1, axis2=2))
        for block in blocks(result.size):
            seen = effective[block] @ self._basis
            shared = self.contrast_covariances(self._root(block).T)
            result[block] -= np.einsum("ica,iab,icb->i", seen, shared, seen, optimize=True)
        return result

    def times_root(self, block: slice, some: Array) -> Array:
        """Return rows of the sum of R_cc L, given those of L."""
        weighted = self._basis.T @ self._on_shared.precision[block] @ self._basis
        result = np.zeros_like(some)
        for a in range(self._basis.shape[1]):  # R L = W' L A^-1
            for b in range(a + 1):
                covariance = self.weight_covariance(a, b)
                both = covariance if a == b else covariance + covariance.T
                result += weighted[:, a, b, None] * (some @ both)
        return np.asarray(result)

    def of_weights(self) -> Array:
        """Return the sum of L' R_cc L ``(M, M)``, which is that of I - A^-1."""
        size = self._basis.shape[1]
        return np.asarray(size * np.eye(self._rank) - sum(self.weight_covariance(a, a) for a in range(size)))

    def stored_on_inducing(self, alpha: Array) -> dict[str, Array]:
        """Return nothing: a factor with C - 1 times the rows of the inducing cases is made again."""
        return {}


def _rows_of(block: int, rank: int) -> slice:
    """Return the rows of a contrast in matrices of the weights."""
    return slice(block * rank, (block + 1) * rank)
