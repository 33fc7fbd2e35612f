r"""The correction R of several classes on a Gram matrix L L' + diag(d), for sites that are any matrices.

It is that of `multiclass.low_rank` with the sites of the shared parts, :math:`W' = W (I + d W)^{-1}`, as matrices, and
a product with the root for each pair of contrasts:

.. math:: A_{ab} = \delta_{ab} I + L^T \mathrm{diag}\big((H^T W'_i H)_{ab}\big) L .

A has a Cholesky factor exactly where the sites leave a posterior.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.factors import cholesky
from bayesgp_mf.multiclass.low_rank import Factorised, LowRankSites, rows_of
from bayesgp_mf.multiclass.matrix_correction import DirectedCorrection
from bayesgp_mf.types import Array


class LowRankMatrixCorrection(DirectedCorrection, LowRankSites):
    """R for sites W_i that are symmetric matrices, on a Gram matrix that all classes share; see the module.

    Parameters
    ----------
    gram : LowRankGram or InducingGram
        K = L L' + diag(d), of each class.
    precision : (n, C, C) array
        W, in latent units to the power -2; rows sum to zero.

    Raises
    ------
    NotPositiveDefiniteError
        When it is first needed, if the sites leave no positive-definite posterior covariance.
    """

    def __init__(self, gram: Any, precision: Array) -> None:
        super().__init__(gram, precision.shape[1])
        self._site = precision

    @cached_property
    def _share(self) -> Array:
        """1 + d omega ``(n, C - 1)``."""
        share = 1.0 + self.gram.own[:, None] * self._directions[0]
        if not np.all(share > 0):
            raise NotPositiveDefiniteError("a negative site says more than the prior of what is a case's own")
        return np.asarray(share)

    def _in_directions(self, values: Array) -> Array:
        """Return F diag(values) F' ``(n, C, C)``."""
        direction = self._directions[1]
        return np.asarray((direction * values[:, None, :]) @ np.swapaxes(direction, 1, 2))

    @cached_property
    def effective_precision(self) -> Array:
        """W' ``(n, C, C)``."""
        return self._in_directions(self._directions[0] / self._share)

    @cached_property
    def carried(self) -> Array:
        """(I + d W)^-1 ``(n, C, C)``, by which what is known of the shared part is carried to the latent value."""
        return np.asarray(self._in_directions(1.0 / self._share) + 1.0 / self._site.shape[1])

    @cached_property
    def carried_root(self) -> Array:
        """Symmetric square roots ``(n, C, C)`` of these."""
        return np.asarray(self._in_directions(1.0 / np.sqrt(self._share)) + 1.0 / self._site.shape[1])

    @cached_property
    def _effective_contrasts(self) -> Array:
        """H' W' H ``(n, C - 1, C - 1)``."""
        return np.asarray(self._basis.T @ self.effective_precision @ self._basis)

    @cached_property
    def _precision(self) -> Factorised:
        """A in the contrasts, factorised."""
        rank, size = self.gram.rank, self._basis.shape[1]
        matrix = np.zeros((size * rank, size * rank), order="F")
        for block in blocks(self._site.shape[0]):
            root, effective = self._root(block), self._effective_contrasts[block]
            for a in range(size):
                for b in range(a + 1):
                    matrix[rows_of(a, rank), rows_of(b, rank)] += (root * effective[:, a, b, None]).T @ root
        if not np.all(np.isfinite(matrix)):
            raise NotPositiveDefiniteError("the sites are too strong to be added up")
        matrix.ravel(order="K")[:: size * rank + 1] += 1.0
        diagonal = matrix.diagonal().copy()
        return Factorised(cholesky(matrix, overwrite=True), diagonal)

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        return 2.0 * float(np.sum(np.log(np.diag(self._precision.factor)))) + float(np.sum(np.log(self._share)))

    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha and the means K alpha, ``(..., n, C)`` each, under sites with shifts b alike."""
        measured = np.einsum("icd,...id->...ic", self.carried, shift)
        offset, contrasts = self._shared_means(measured)
        alpha = measured - self.effective_times(slice(None), contrasts)
        return alpha, contrasts + offset + self.gram.own[:, None] * alpha

    def effective_times(self, block: slice, values: Array) -> Array:
        """Return W' v ``(..., k, C)`` of some cases."""
        return np.asarray(np.einsum("icd,...id->...ic", self.effective_precision[block], values))

    def own_noise(self, block: slice, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return draws ``(draws, k, C)`` of what is a case's own, and the sums ``(draws,)`` of their squares."""
        own, root = self.gram.own[block], self.carried_root[block]
        scores = rng.standard_normal((draws, *root.shape[:2]))
        noise = np.sqrt(own)[:, None] * np.einsum("icd,kid->kic", root, scores)
        return noise, np.sum(scores[:, own > 0] ** 2, axis=(1, 2))

    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors (..., n, C)``."""
        return self.weights(np.einsum("icd,...id->...ic", self._site, vectors))

    def covariances(self) -> Array:
        """Return the posterior covariances ``(n, C, C)`` of the classes of each training case, without a difference."""
        result = self.gram.own[:, None, None] * self.carried
        for block in blocks(result.shape[0]):
            root, contrasts = self._root(block), self.carried[block] @ self._basis
            result[block] += contrasts @ self.contrast_covariances(root.T) @ np.swapaxes(contrasts, 1, 2)
            result[block] += (np.einsum("ij,ij->i", root, root) / result.shape[1])[:, None, None]
        return np.asarray(result)

    def diagonal(self) -> Array:
        """Return the sums over the classes of R_cc,ii ``(n,)``."""  # of W' - W' Sigma' W'
        result = np.array(np.trace(self.effective_precision, axis1=1, axis2=2))
        for block in blocks(result.size):
            seen = self.effective_precision[block] @ self._basis
            shared = self.contrast_covariances(self._root(block).T)
            result[block] -= np.einsum("ica,iab,icb->i", seen, shared, seen, optimize=True)
        return result

    def _weighted(self, block: slice) -> Array:
        """Return H' W' H of some cases."""
        return np.asarray(self._effective_contrasts[block])
