r"""The correction R of several classes that share a Gram matrix L L' + diag(d), at O(C^2 n M^2 / 2).

Sites :math:`W_i = \mathrm{diag}(w_i) - w_i w_i^T / s_i` are the limit of measurements with the precisions w whose
common offset is unknown. The variance d of a case's own is noise in these measurements, so that of :math:`g = L u`, the
shared part, sites of the same form tell,

.. math:: w' = w / (1 + w d), \qquad
          (I + d W)^{-1} = \mathrm{diag}(w' / w) + d\, w' w'^T / s', \qquad
          \det(I + d W) = \frac{s'}{s} \prod_c (1 + w_c d) .

Each W' is the Laplacian of a graph, a sum over pairs of classes, and so is the precision A of the weights u ``(C M,)``
of the features, but for their prior,

.. math:: A = I + \sum_{c<d} (e_c - e_d)(e_c - e_d)^T \otimes P_{cd}, \qquad
          P_{cd} = L^T \mathrm{diag}(w'_c w'_d / s')\, L .

No difference is taken there, and A has no eigenvalue below one. The common offset of the classes stays as it is in the
prior. What the data tell is in C - 1 contrasts, by an orthonormal basis H of these, and only the part of A in them,
with :math:`(C - 1) M` rows, is ever factorised. Then

.. math:: \Sigma_i = \tfrac1C |l_i|^2\, \mathbf{1} \mathbf{1}^T + H\, [l_i^T (A^{-1})_{ab}\, l_i]\, H^T

are the covariances of the shared parts of the classes of a case. All that is large is a product of matrices, for a
pair of classes or contrasts each, of some cases at a time.
"""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import blas

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.factors import cholesky, gram_of_lower, symmetric, triangular_inverse
from bayesgp_mf.multiclass.correction import ClassCorrection, StarCorrection
from bayesgp_mf.types import Array


class LowRankSites(ClassCorrection):
    """What R has on a Gram matrix that all classes share, whatever its sites: all that follows from the weights u.

    Parameters
    ----------
    gram : LowRankGram or InducingGram
        K = L L' + diag(d), of each class.
    n_classes : int
        C.
    inverse_factor : ((C - 1) M, (C - 1) M) array, optional
        T of `inverse_factor`, where it is known already: predictions then need no root.
    """

    def __init__(self, gram: Any, n_classes: int, inverse_factor: Array | None = None) -> None:
        self.gram = gram
        self._known_factor = inverse_factor
        self._basis = contrast_basis(n_classes)

    @cached_property
    @abstractmethod
    def _precision(self) -> Factorised:
        """A in the contrasts, factorised."""

    @abstractmethod
    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha and the means K alpha, ``(..., n, C)`` each, under sites with shifts b alike."""

    @abstractmethod
    def diagonal(self) -> Array:
        """Return the sums over the classes of R_cc,ii ``(n,)``."""

    @abstractmethod
    def covariances(self) -> Array:
        """Return the posterior covariances ``(n, C, C)`` of the classes of each training case."""

    @abstractmethod
    def effective_times(self, block: slice, values: Array) -> Array:
        """Return W' v ``(..., k, C)`` of some cases, for ``v (..., k, C)``."""

    @abstractmethod
    def own_noise(self, block: slice, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return draws of what is a case's own, given the weights, about its mean.

        ``(draws, k, C)`` of some cases, with the covariance (I/d + W)^-1 each, and the sums ``(draws,)`` of their
        squares in units of it.
        """

    @abstractmethod
    def _weighted(self, block: slice) -> Array:
        """Return H' W' H ``(k, C - 1, C - 1)`` of some cases."""

    @property
    def form(self) -> str:
        """That of the Gram matrix: of which form the features are."""
        return str(self.gram.form)

    def _root(self, block: slice) -> Array:
        return np.asarray(self.gram.root[block], dtype=np.float64)

    @cached_property
    def inverse_factor(self) -> Array:
        """Lower triangular T ``((C - 1) M, (C - 1) M)`` with T'T the posterior covariance of the weights in contrasts.

        Row a M + j is that of weight j in contrast a.
        """
        return triangular_inverse(self._precision.factor) if self._known_factor is None else self._known_factor

    @cached_property
    def _covariance(self) -> Array:
        """Lower triangle of T'T."""
        return gram_of_lower(self.inverse_factor.copy(order="F"))

    @property
    def _rank(self) -> int:
        return int(self.inverse_factor.shape[0]) // int(self._basis.shape[1])

    def weight_covariance(self, a: int, b: int) -> Array:
        """Return the posterior covariances ``(M, M)`` of the weights of contrast ``a >= b`` with those of ``b``."""
        block = self._covariance[rows_of(a, self._rank), rows_of(b, self._rank)]
        return symmetric(np.tril(block)) if a == b else block

    @property
    def rounding(self) -> float:
        """By how much rounding moves `log_det`, in nats."""
        # each entry of A is known to eps of its diagonal, and d log det A is the trace of A^-1 dA
        return float(np.finfo(np.float64).eps * (self._precision.diagonal @ self._covariance.diagonal()))

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

    def weights(self, shift: Array) -> Array:
        """Return ``b - R K b`` for ``b (..., n, C)``: the weights alpha = b - W K alpha under sites with shifts b."""
        return self.posterior(shift)[0]

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

    def quadratic(self, features: Array) -> Array:
        """Return k_c' R_cd k_d ``(C, m, C, m)`` for features ``(M, m)``: for few cases, as in tests."""
        (rank, m), size = features.shape, self._basis.shape[1]
        projected = (self.inverse_factor.reshape(-1, size, rank) @ features).reshape(-1, size * m)
        kept = np.kron(np.eye(size), features.T @ features) - projected.T @ projected
        return np.asarray(
            np.einsum("ca,aibj,db->cidj", self._basis, kept.reshape(size, m, size, m), self._basis, optimize=True)
        )

    def dense(self) -> Array:
        """Return ``R (C, n, C, n)``, for tests: nothing else makes a matrix of so many rows."""
        every = np.einsum("cd,ij->cijd", np.eye(self._basis.shape[0]), np.eye(self.gram.shape[0]))
        return np.moveaxis(self.multiply(every), -1, 2)

    def times_root(self, block: slice, some: Array) -> Array:
        """Return rows of the sum of R_cc L, given those of L."""
        weighted, result = self._weighted(block), np.zeros_like(some)
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


class LowRankClassCorrection(LowRankSites, StarCorrection):
    """R for sites diag(w_i) - w_i w_i' / sum(w_i), on a Gram matrix that all classes share; see the module.

    Parameters
    ----------
    gram : LowRankGram or InducingGram
        K = L L' + diag(d), of each class.
    site_weight : (n, C) array
        w >= 0, in latent units to the power -2; each case has a positive one.
    inverse_factor : ((C - 1) M, (C - 1) M) array, optional
        T of `inverse_factor`, where it is known already: predictions then need no root.

    Raises
    ------
    NotPositiveDefiniteError
        When the factor is first needed, if the sites are too strong to be added up.
    """

    def __init__(self, gram: Any, site_weight: Array, inverse_factor: Array | None = None) -> None:
        super().__init__(gram, site_weight.shape[1], inverse_factor)
        self.site_weight = site_weight

    @cached_property
    def _share(self) -> Array:
        """1 + w d ``(n, C)``."""
        return np.asarray(1.0 + self.site_weight * self.gram.own[:, None])

    @cached_property
    def effective_weight(self) -> Array:
        """W' ``(n, C)``, the weights of what is measured of the shared parts."""
        return np.asarray(self.site_weight / self._share)

    @cached_property
    def part(self) -> Array:
        """Each class's part w'/s' ``(n, C)`` of what is told of its case."""
        return np.asarray(self.effective_weight / np.sum(self.effective_weight, axis=1, keepdims=True))

    @cached_property
    def _own_effective_weight(self) -> Array:
        """D w' ``(n, C)``."""
        return np.asarray(self.gram.own[:, None] * self.effective_weight)

    @cached_property
    def _precision(self) -> Factorised:
        """A in the contrasts, factorised."""
        squares, differences = self._squares()
        if not np.all(np.isfinite(squares)):
            raise NotPositiveDefiniteError("the sites are too strong to be added up")
        rank, size = self.gram.rank, differences.shape[1]
        matrix = np.zeros((size * rank, size * rank), order="F")
        for a in range(size):
            for b in range(a + 1):
                both = differences[:, a] * differences[:, b]
                matrix[rows_of(a, rank), rows_of(b, rank)] = np.tensordot(both, squares, axes=1)
        matrix.ravel(order="K")[:: size * rank + 1] += 1.0
        diagonal = matrix.diagonal().copy()
        return Factorised(cholesky(matrix, overwrite=True), diagonal)

    def _squares(self) -> tuple[Array, Array]:
        """Return P_cd ``(pairs, M, M)`` of all pairs of classes, and e_c - e_d in contrasts ``(pairs, C - 1)``."""
        rank, n_classes = self.gram.rank, self.site_weight.shape[1]
        pairs = list(combinations(range(n_classes), 2))
        squares = np.zeros((len(pairs), rank, rank))
        for block in blocks(self.site_weight.shape[0]):
            root, effective_weight, part = self._root(block), self.effective_weight[block], self.part[block]
            for square, (c, d) in zip(squares, pairs, strict=True):
                scaled = np.sqrt(effective_weight[:, c] * part[:, d])[:, None] * root
                blas.dsyrk(1.0, scaled.T, beta=1.0, c=square.T, lower=1, overwrite_c=1)  # in place
        for square in squares:
            square += np.triu(square, 1).T
        return squares, np.array([self._basis[c] - self._basis[d] for c, d in pairs])

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        value = 2.0 * float(np.sum(np.log(np.diag(self._precision.factor)))) + float(np.sum(np.log(self._share)))
        return value + float(np.sum(np.log(np.sum(self.effective_weight, axis=1) / np.sum(self.site_weight, axis=1))))

    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha and the means K alpha, ``(..., n, C)`` each, under sites with shifts b alike."""
        common = np.sum(self.part * shift, axis=-1, keepdims=True)
        measured = shift / self._share + self._own_effective_weight * common  # b' = (I + d W)^-1 b
        # W' sees nothing of a common offset, which may be large
        offset, contrasts = self._shared_means(measured)
        alpha = measured - self.effective_times(slice(None), contrasts)
        return alpha, contrasts + offset + self.gram.own[:, None] * alpha

    def effective_times(self, block: slice, values: Array) -> Array:
        """Return W' v ``(..., k, C)`` of some cases."""
        common = np.sum(self.part[block] * values, axis=-1, keepdims=True)
        return np.asarray(self.effective_weight[block] * (values - common))

    def own_noise(self, block: slice, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return draws ``(draws, k, C)`` of what is a case's own, and the sums ``(draws,)`` of their squares."""
        own, effective_weight, part = self.gram.own[block], self.effective_weight[block], self.part[block]
        weight, shape = self.site_weight[block], (draws, *part.shape)
        noise = np.sqrt(own[:, None] / (1.0 + own[:, None] * weight)) * rng.standard_normal(shape)
        common = own[:, None] * np.sqrt(effective_weight * part)  # d w' / sqrt(s')
        noise += common * rng.standard_normal((*shape[:2], 1))
        uncertain = own > 0
        offset = np.sum(weight * noise, axis=-1, keepdims=True) / np.sum(weight, axis=-1, keepdims=True)
        square = np.sum(weight * (noise - offset) ** 2, axis=(1, 2))
        square += np.sum(noise[:, uncertain] ** 2 / own[uncertain, None], axis=(1, 2))
        return noise, square

    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors (..., n, C)``."""
        weight = self.site_weight
        mean = np.sum(weight * vectors, axis=-1, keepdims=True) / np.sum(weight, axis=-1, keepdims=True)
        return self.weights(weight * (vectors - mean))

    def noise(self, scores: Array) -> Array:
        """Return R e ``(..., n, C)`` for standard normal ``scores``."""
        weight, root = self.site_weight, np.sqrt(self.site_weight)
        total = np.sum(root * scores, axis=-1, keepdims=True) / np.sum(weight, axis=-1, keepdims=True)
        return self.weights(root * scores - weight * total)  # of W e

    def covariances(self) -> Array:
        """Return the posterior covariances ``(n, C, C)`` of the classes of each training case, without a difference."""
        (n, n_classes), own = self.site_weight.shape, self._own_effective_weight
        result = np.empty((n, n_classes, n_classes))
        every = np.arange(n_classes)
        for block in blocks(n):
            root = self._root(block)
            # (I + d W')^-1 = (I + W d)^-1 carries over to f what is known of the shared part
            carried = own[block, :, None] * self.part[block, None, :]
            carried[:, every, every] += 1.0 / self._share[block]
            contrasts = carried @ self._basis
            shared = contrasts @ self.contrast_covariances(root.T) @ np.swapaxes(contrasts, 1, 2)
            common = np.einsum("ij,ij->i", root, root) / n_classes
            own_part = own[block, :, None] * (self.gram.own[block, None] * self.part[block])[:, None, :]
            result[block] = shared + common[:, None, None] + own_part
            result[block][:, every, every] += self.gram.own[block, None] / self._share[block]
        return result

    def diagonal(self) -> Array:
        """Return the sums over the classes of R_cc,ii ``(n,)``."""  # of W' - W' Sigma' W'
        effective_weight, part = self.effective_weight, self.part
        result = np.asarray(np.sum(effective_weight * (1.0 - part), axis=1))
        for block in blocks(result.size):
            seen = effective_weight[block, :, None] * (self._basis - (part[block] @ self._basis)[:, None, :])  # W' H
            shared = self.contrast_covariances(self._root(block).T)
            result[block] -= np.einsum("ica,iab,icb->i", seen, shared, seen, optimize=True)
        return result

    def _weighted(self, block: slice) -> Array:
        """Return H' W' H ``(k, C - 1, C - 1)`` of some cases."""
        basis, effective_weight = self._basis, self.effective_weight[block]
        weighted = np.einsum("ca,ic,cb->iab", basis, effective_weight, basis, optimize=True)
        mean = effective_weight @ basis
        return np.asarray(weighted - mean[:, :, None] * (self.part[block] @ basis)[:, None, :])


class Factorised(NamedTuple):
    """A Cholesky factor of a matrix."""

    factor: Array
    diagonal: Array  # of the matrix


def rows_of(block: int, rank: int) -> slice:
    """Return the rows of a contrast in matrices of the weights."""
    return slice(block * rank, (block + 1) * rank)
