r"""The correction R of several classes, without a matrix of C n rows.

The posterior covariance of class c at x and class d at x' is

.. math:: \delta_{cd}\, k_c(x, x') - k_c(x)^T R_{cd}\, k_d(x'), \qquad R = (K + W^{-1})^{-1},

with K block-diagonal, a block for each class, and W one matrix of C rows for each case. A likelihood that does not
change when a constant is added to all latent values of a case makes sites of the form

.. math:: W_i = \mathrm{diag}(w_i) - w_i w_i^T / s_i, \qquad s_i = \textstyle\sum_c w_{ic}.

For Laplace's approximation of a softmax, w is pi and s is one ([1]_, eq. 3.38). They are the limit of measurements of
all classes with the precisions w whose common offset is unknown, so that ([1]_, eq. 3.47)

.. math::
    R = E - E\,\mathbf{1}\, M^{-1} \mathbf{1}^T E, \quad
    E_c = D_c^{1/2} (I + D_c^{1/2} K_c D_c^{1/2})^{-1} D_c^{1/2}, \quad M = \sum_c E_c,

where :math:`D_c = \mathrm{diag}(w_{\cdot c})` and **1** stacks C identity matrices. R has no component along common
offsets, :math:`R\,\mathbf{1} = 0`. And from :math:`\det(I + K D - K D \mathbf{1} S^{-1} \mathbf{1}^T D)`,

.. math:: \log\det(I + K W) = \sum_c \log\det(I + K_c D_c) + \log\det M - \sum_i \log s_i .

References
----------
.. [1] Rasmussen, C. E., & Williams, C. K. I. (2006). Gaussian Processes for Machine Learning. MIT Press. Section 3.5,
   algorithms 3.3 and 3.4. http://gaussianprocess.org/gpml/
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.likelihoods.star import star_precision, star_root
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.corrections import Correction
from bayesgp_mf.matrices.factors import blas_routine, cholesky, triangular_inverse
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.types import Array


def of_class(gram: Array, c: int) -> Array:
    """Return the matrix of class ``c`` from one ``(n, m)`` that all share, or from a stack ``(C, n, m)``."""
    return gram if gram.ndim == 2 else gram[c]


def times_gram(values: Array, gram: Array) -> Array:
    """Return ``(..., m, C)``, for each class its values ``(..., n, C)`` times its matrix ``(n, m)``."""
    if gram.ndim == 2:
        return np.asarray(np.swapaxes(np.swapaxes(values, -1, -2) @ gram, -1, -2))
    return np.stack([values[..., c] @ gram[c] for c in range(values.shape[-1])], axis=-1)


def prior_variance(gram: Array, n_classes: int) -> Array:
    """Return the prior variances ``(n, C)``."""
    diagonal = np.diagonal(gram, axis1=-2, axis2=-1)
    return np.array(np.broadcast_to(diagonal, (n_classes, gram.shape[-1])).T)


_OWN = 512  # cases whose blocks are worked out together


class ClassCorrection(Correction):
    """What a posterior of several classes asks of its correction R.

    The members it shares with `matrices.corrections.Correction` have the class as an axis before that of the cases:
    what is ``(m, m)`` there is ``(C, m, C, m)``.
    """

    @property
    @abstractmethod
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""

    @abstractmethod
    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors (..., n, C)``."""

    @abstractmethod
    def weights(self, shift: Array) -> Array:
        """Return ``b - R K b`` for ``b (..., n, C)``."""

    @abstractmethod
    def blocks(self, features: Array) -> Array:
        """Return k_c' R_cd k_d ``(m, C, C)`` of each new case, from covariances ``(n, m)`` or ``(C, n, m)``."""

    @abstractmethod
    def site_precision(self) -> Array:
        """Return W ``(n, C, C)``."""

    @abstractmethod
    def precision_root(self) -> Array:
        """Return F ``(n, C, k)`` with W = F diag(J) F', signs J, and columns that sum to zero."""

    @abstractmethod
    def precision_signs(self) -> Array:
        """Return J ``(n, k)``, each 1 or -1."""

    def quadratic_diagonal(self, features: Array) -> Array:
        """Return k_c' R_cc k_c ``(C, m)`` of each new case."""
        return np.array(np.diagonal(self.blocks(features), axis1=1, axis2=2).T)


class DenseClassCorrection(ClassCorrection):
    """R on all entries of Gram matrices, which tells of pairs of cases, too.

    Parameters
    ----------
    gram : (n, n) or (C, n, n) array
        That of all classes, or of each.
    """

    def __init__(self, gram: Array) -> None:
        self._gram = gram

    @abstractmethod
    def class_block(self, c: int) -> Array:
        """Return the block R_cc ``(n, n)``."""

    @abstractmethod
    def quadratic(self, features: Array) -> Array:
        """Return k_c' R_cd k_d ``(C, m, C, m)``, from covariances ``(n, m)`` or ``(C, n, m)``: for few cases."""

    @abstractmethod
    def blocks_between(self, which: NDArray[np.intp], cross: Array) -> Array:
        """Return k_c' R_cd k_d ``(m, k, C, C)`` of training cases ``which (m, k)`` with each new one.

        ``cross (n, m)`` or ``(C, n, m)`` are prior covariances of the new cases.
        """

    @abstractmethod
    def blocks_among(self, which: NDArray[np.intp]) -> Array:
        """Return k_c' R_cd k_d ``(m, k, k, C, C)`` of training cases ``which (m, k)`` with one another."""

    def own_blocks(self) -> Array:
        """Return what `blocks` does of the training cases, ``(n, C, C)``."""
        return self.blocks(self._gram)

    def dense(self) -> Array:
        """Return ``R (C, n, C, n)``, for tests: nothing else makes a matrix of so many rows."""
        return self.quadratic(np.eye(self._gram.shape[-1]))


class StarCorrection(ClassCorrection):
    """R for sites diag(w_i) - w_i w_i' / sum(w_i): measurements with noise, nowhere negative.

    Parameters
    ----------
    site_weight : (n, C) array
        w >= 0, in latent units to the power -2; each case has a positive one.
    """

    site_weight: Array

    @property
    @abstractmethod
    def rounding(self) -> float:
        """By how much rounding moves `log_det`, in nats."""

    @abstractmethod
    def noise(self, scores: Array) -> Array:
        """Return R e ``(..., n, C)`` for standard normal ``scores``, where e has the covariance of the sites.

        That is 1/w for each class: common offsets, which R removes, may have any variance.
        """

    def site_precision(self) -> Array:
        """Return W ``(n, C, C)``."""
        return star_precision(self.site_weight)

    def precision_root(self) -> Array:
        """Return F ``(n, C, C)`` with W = F F'."""
        return star_root(self.site_weight)

    def precision_signs(self) -> Array:
        """Return ones ``(n, C)``: no site is negative."""
        return np.ones_like(self.site_weight)

    def stored(self) -> dict[str, Array]:
        """Return the weights of the sites."""
        return {"site_weight": self.site_weight}


class _Blocks(NamedTuple):
    each: list[Array]  # E_c (n, n)
    inverse_factor: Array  # L^-1 (n, n), where L L' = M
    log_det: float  # of I + K W
    rounding: float  # of that


class SoftmaxCorrection(DenseClassCorrection, StarCorrection):
    r"""R for sites diag(w_i) - w_i w_i' / sum(w_i).

    The factors are computed when something first needs them: O(C n^3) operations, and C + 1 matrices of n rows. The
    Gram matrix is that of all classes, or of each; of the weights w >= 0 ``(n, C)`` each case has a positive one.
    """

    def __init__(self, gram: Array, site_weight: Array) -> None:
        super().__init__(gram)
        self.site_weight = site_weight

    @cached_property
    def _blocks(self) -> _Blocks:
        each, log_det = [], 0.0
        total = np.zeros(self._gram.shape[-2:])
        for c in range(self.site_weight.shape[1]):
            of_one = SiteCorrection(of_class(self._gram, c), self.site_weight[:, c])
            log_det += of_one.log_det
            each.append(of_one.dense())
            total += each[-1]
        own = total.diagonal().copy()
        factor = cholesky(total, overwrite=True)
        log_det += 2.0 * float(np.sum(np.log(np.diag(factor))))
        log_det -= float(np.sum(np.log(np.sum(self.site_weight, axis=1))))
        inverse = triangular_inverse(factor, overwrite=True)
        # each entry of M is known to eps of its diagonal, and d log det M is the trace of M^-1 dM
        rounding = float(np.finfo(np.float64).eps * (own @ np.einsum("ij,ij->j", inverse, inverse)))
        return _Blocks(each, inverse, log_det, rounding)

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        return self._blocks.log_det

    @property
    def rounding(self) -> float:
        """By how much rounding moves `log_det`, in nats."""
        return self._blocks.rounding

    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors (..., n, C)``, which is ``E v - E 1 M^-1 1' E v``."""
        each, inverse_factor, *_ = self._blocks
        product = np.array([vectors[..., c] @ block for c, block in enumerate(each)])
        common = (np.sum(product, axis=0) @ inverse_factor.T) @ inverse_factor
        return np.stack([own - common @ block for own, block in zip(product, each, strict=True)], axis=-1)

    def weights(self, shift: Array) -> Array:
        """Return ``b - R K b`` for ``b (..., n, C)``: the weights alpha = b - W K alpha under sites with shifts b.

        Where a site says much that difference would cancel. With any x it is c + R (x - K c), c = b - W x; where it
        says more than the prior x is b/w, which leaves of c what is common to the classes.
        """
        weight = self.site_weight
        strong = weight * prior_variance(self._gram, weight.shape[1]) > 1.0
        x = np.divide(shift, weight, out=np.zeros_like(shift), where=np.broadcast_to(strong, shift.shape))
        common = np.sum(weight * x, axis=-1, keepdims=True) / np.sum(weight, axis=-1, keepdims=True)
        c = np.where(strong, 0.0, shift) + weight * common
        return np.asarray(c + self.multiply(x - times_gram(c, self._gram)))

    def blocks(self, features: Array) -> Array:
        """Return k_c' R_cd k_d ``(m, C, C)`` of each new case, from covariances ``(n, m)`` or ``(C, n, m)``."""
        each = (of_class(features, c) for c in range(self.site_weight.shape[1]))
        return self._between([(k, block @ k) for k, block in zip(each, self._blocks.each, strict=True)])

    def _common(self, product: Array) -> Array:
        """Return L^-1 E_c k_c from E_c k_c ``(n, m)``."""
        inverse_factor = self._blocks.inverse_factor
        multiply = blas_routine("trmm", inverse_factor)  # half the work of a product
        return np.asarray(multiply(1.0, inverse_factor, np.asfortranarray(product), lower=1))

    def _own_product(self, c: int, which: NDArray[np.intp]) -> Array:
        """Return E_c k_c ``(n, k)`` of training cases, which is I - E_c/D_c where their sites say anything of c."""
        block, weight = self._blocks.each[c], self.site_weight[which, c]
        product = block[:, which] / -np.where(weight > 0, weight, 1.0)
        product[which, np.arange(which.size)] += 1.0
        if not np.all(weight > 0):
            product[:, weight == 0] = block @ of_class(self._gram, c)[:, which[weight == 0]]
        return np.asarray(product)

    @cached_property
    def _own_commons(self) -> Array:
        """L^-1 E_c K_c ``(C, n, n)``: as much memory as the factors. Cases are along its second axis."""
        n, n_classes = self.site_weight.shape
        result = np.empty((n_classes, n, n))
        for c in range(n_classes):
            result[c] = self._common(self._own_product(c, np.arange(n))).T
        return result

    def blocks_between(self, which: NDArray[np.intp], cross: Array) -> Array:
        """Return k_c' R_cd k_d ``(m, k, C, C)`` of training cases ``which (m, k)`` with each new one."""
        n_classes = self.site_weight.shape[1]
        products = [block @ of_class(cross, c) for c, block in enumerate(self._blocks.each)]
        commons = np.stack([self._common(product).T for product in products], axis=-1)  # (m, n, C)
        result = np.empty((*which.shape, n_classes, n_classes))
        for c, product in enumerate(products):
            result[:, :, c, :] = -(self._own_commons[c][which] @ commons)
            result[:, :, c, c] += (of_class(self._gram, c)[which] @ product.T[:, :, None])[..., 0]
        return result

    def blocks_among(self, which: NDArray[np.intp]) -> Array:
        """Return k_c' R_cd k_d ``(m, k, k, C, C)`` of training cases ``which (m, k)`` with one another."""
        (m, k), n_classes = which.shape, self.site_weight.shape[1]
        result, commons = np.empty((m, k, k, n_classes, n_classes)), self._own_commons[:, which]
        for c in range(n_classes):
            for d in range(n_classes):
                result[..., c, d] = -commons[c] @ np.swapaxes(commons[d], 1, 2)
            product = self._own_product(c, which.ravel()).T.reshape(m, k, -1)
            result[..., c, c] += of_class(self._gram, c)[which] @ np.swapaxes(product, 1, 2)
        return result

    def own_blocks(self) -> Array:
        """Return what `blocks` does of the training cases, ``(n, C, C)``, at two fifths of the work."""
        n, n_classes = self.site_weight.shape
        result = np.empty((n, n_classes, n_classes))
        for some in blocks(n, _OWN):
            which = np.arange(some.start, min(some.stop, n))
            each = [(of_class(self._gram, c)[:, some], self._own_product(c, which)) for c in range(n_classes)]
            result[some] = self._between(each)
        return result

    def _between(self, each: Sequence[tuple[Array, Array]]) -> Array:
        """Return k_c' R_cd k_d ``(m, C, C)`` of some cases from k_c and E_c k_c ``(n, m)`` of each class."""
        common = [self._common(product) for _, product in each]
        result = np.empty((common[0].shape[1], len(each), len(each)))
        for c, (k, product) in enumerate(each):
            for d in range(c + 1):
                result[:, c, d] = result[:, d, c] = -np.einsum("ij,ij->j", common[c], common[d])
            result[:, c, c] += np.einsum("ij,ij->j", k, product)
        return result

    def quadratic(self, features: Array) -> Array:
        """Return k_c' R_cd k_d ``(C, m, C, m)`` from covariances ``(n, m)`` or ``(C, n, m)``: for few cases."""
        common, n_classes = [], self.site_weight.shape[1]
        result = np.zeros((n_classes, features.shape[-1], n_classes, features.shape[-1]))
        for c, block in enumerate(self._blocks.each):
            product = block @ of_class(features, c)
            result[c, :, c] = of_class(features, c).T @ product
            common.append(self._blocks.inverse_factor @ product)
        for c in range(n_classes):
            for d in range(n_classes):
                result[c, :, d] -= common[c].T @ common[d]
        return result

    def class_block(self, c: int) -> Array:
        """Return the block R_cc ``(n, n)``."""
        block = self._blocks.each[c]
        common = self._blocks.inverse_factor @ block
        return np.asarray(block - common.T @ common)

    def noise(self, scores: Array) -> Array:
        """Return R e ``(..., n, C)`` for standard normal ``scores``."""
        root = np.sqrt(self.site_weight)
        # E / sqrt(w) = sqrt(w) (I + ...)^-1, which is zero where w is
        scaled = np.divide(scores, root, out=np.zeros_like(scores), where=np.broadcast_to(root > 0, scores.shape))
        return self.multiply(scaled)
