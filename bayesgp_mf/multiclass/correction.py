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
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.factors import blas_routine, blocks, cholesky, triangular_inverse
from bayesgp_mf.matrices.matrix import Correction
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.multiclass.site_form import SiteForm, StarForm
from bayesgp_mf.types import Array

BLOCK = 512
"""Cases handled at once: C matrices of n rows and so many columns."""
_ROUNDING = 1e-8


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


class ClassCorrection(Correction):
    """What a posterior of several classes asks of its correction R.

    The members it shares with `matrices.matrix.Correction` have the class as an axis before that of the cases:
    what is ``(m, m)`` there is ``(C, m, C, m)``. A ``gradient`` is summed over the classes where they share a kernel,
    of ``left`` and ``right (n, C)``.

    Attributes
    ----------
    site : SiteForm
        W.
    """

    site: SiteForm

    @property
    @abstractmethod
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""

    @property
    @abstractmethod
    def rounding(self) -> float:
        """By how much rounding moves `log_det`, in nats."""

    @abstractmethod
    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors (..., n, C)``."""

    @abstractmethod
    def weights(self, shift: Array) -> Array:
        """Return the weights alpha = b - W K alpha under sites with shifts ``b (..., n, C)``: ``b - R K b``."""

    @abstractmethod
    def blocks(self, features: Array) -> Array:
        """Return k_c' R_cd k_d ``(m, C, C)`` of each new case, from covariances ``(n, m)`` or ``(C, n, m)``."""

    @abstractmethod
    def covariances(self) -> Array:
        """Return the posterior covariances ``(n, C, C)`` of the classes of each training case."""

    def dense(self) -> Array:
        """Return ``R (C, n, C, n)``: the methods make no matrix of so many rows."""
        n, n_classes = self.site.numbers.shape[:2]
        every = np.einsum("cd,ij->cijd", np.eye(n_classes), np.eye(n))
        return np.moveaxis(self.multiply(every), -1, 2)

    def stored(self) -> dict[str, Array]:
        """Return the sites."""
        return {self.site.stored_as: self.site.numbers}


def case_covariances(correction: ClassCorrection, prior: Array, features: Array) -> Array:
    """Return the posterior covariances ``(m, C, C)`` of the classes at new cases.

    ``prior (m, C)`` are their prior variances, ``features`` what the correction knows them by: covariances with the
    training cases, ``(n, m)`` or ``(C, n, m)``, or the features ``(M, m)`` of a root.
    """
    found = np.empty((*prior.shape, prior.shape[1]))
    for rows in blocks(prior.shape[0], BLOCK):
        found[rows] = correction.blocks(features[..., rows])
    return _left_of(prior, found)


def _left_of(prior: Array, found: Array) -> Array:
    """Return what the sites leave, ``(m, C, C)``, of prior variances, from what they tell."""
    result = -found
    every = np.arange(prior.shape[1])
    result[:, every, every] += prior
    lowest = np.min(result[:, every, every] / np.maximum(prior, np.finfo(float).tiny), initial=0.0)
    if lowest < -_ROUNDING:
        raise NotPositiveDefiniteError(
            f"rounding decides: a posterior variance came out as {lowest:.1g} of the prior one, below zero. The "
            "variance of the kernel is too large here; use a kernel of less variance, or standardise the inputs."
        )
    result[:, every, every] = np.maximum(result[:, every, every], 0.0)  # rounding
    return result


class _Seen(NamedTuple):
    """Covariances k_c of some cases with the training cases, in one class, and what R makes of them."""

    k: Array  # (n, m)
    own: Array | None  # E_c k_c (n, m), None where E is zero
    half: Array  # H_c k_c (r, m)


class DenseClassCorrection(ClassCorrection):
    r"""R on all entries of Gram matrices: it tells of pairs of cases, :math:`R_{cd} = \delta_{cd} E_c + H_c^T J H_d`.

    Either form of sites has one part of these: E may be zero. J is a diagonal matrix of signs.

    Parameters
    ----------
    gram : (n, n) or (C, n, n) array
        That of all classes, or of each.
    """

    def __init__(self, gram: Array, site: SiteForm) -> None:
        self._gram, self.site = gram, site
        self._n_classes = site.n_classes

    @property
    @abstractmethod
    def _signs(self) -> Array:
        """The diagonal ``(r,)`` of J."""

    @abstractmethod
    def _own(self, c: int, k: Array) -> Array | None:
        """Return E_c k_c ``(n, m)``, None where E is zero."""

    @abstractmethod
    def _half(self, c: int, k: Array, own: Array | None) -> Array:
        """Return H_c k_c ``(r, m)``, given E_c k_c."""

    @abstractmethod
    def class_block(self, c: int) -> Array:
        """Return the block R_cc ``(n, n)``."""

    def _own_of_training(self, c: int, which: NDArray[np.intp]) -> Array | None:
        """Return E_c k_c ``(n, k)`` of training cases."""
        return self._own(c, of_class(self._gram, c)[:, which])

    def _seen(self, features: Array) -> list[_Seen]:
        """Return what R makes of cases in each class, by their covariances ``(n, m)`` or ``(C, n, m)``."""
        result = []
        for c in range(self._n_classes):
            k = of_class(features, c)
            own = self._own(c, k)
            result.append(_Seen(k, own, self._half(c, k, own)))
        return result

    def blocks(self, features: Array) -> Array:
        """Return k_c' R_cd k_d ``(m, C, C)`` of each new case."""
        seen = self._seen(features)
        result = np.empty((seen[0].half.shape[1], len(seen), len(seen)))
        for c, (k, own, half) in enumerate(seen):
            signed = self._signs[:, None] * half
            for d in range(c + 1):
                result[:, c, d] = result[:, d, c] = np.einsum("ij,ij->j", signed, seen[d].half)
            if own is not None:
                result[:, c, c] += np.einsum("ij,ij->j", k, own)
        return result

    def covariances(self) -> Array:
        """Return the posterior covariances ``(n, C, C)`` of the classes of each training case."""
        return case_covariances(self, prior_variance(self._gram, self._n_classes), self._gram)

    @cached_property
    def _halves(self) -> list[Array]:
        """(H_c K_c)' ``(n, r)`` of the training cases, in each class: as much memory as the factors."""
        result, every = [], np.arange(self._gram.shape[-1])
        for c in range(self._n_classes):
            half = self._half(c, of_class(self._gram, c), self._own_of_training(c, every))
            result.append(np.ascontiguousarray(half.T))
        return result

    def blocks_between(self, which: NDArray[np.intp], cross: Array) -> Array:
        """Return k_c' R_cd k_d ``(m, k, C, C)`` of training cases ``which (m, k)`` with each new one.

        ``cross (n, m)`` or ``(C, n, m)`` are prior covariances of the new cases.
        """
        seen = self._seen(cross)
        halves = np.stack([self._signs * half.T for *_, half in seen], axis=-1)  # (m, r, C)
        result = np.empty((*which.shape, len(seen), len(seen)))
        for c, (_, own, _) in enumerate(seen):
            result[:, :, c, :] = self._halves[c][which] @ halves
            if own is not None:
                result[:, :, c, c] += (of_class(self._gram, c)[which] @ own.T[:, :, None])[..., 0]
        return result

    def blocks_among(self, which: NDArray[np.intp]) -> Array:
        """Return k_c' R_cd k_d ``(m, k, k, C, C)`` of training cases ``which (m, k)`` with one another."""
        halves = [of_one[which] for of_one in self._halves]
        result = np.empty((*which.shape, which.shape[1], len(halves), len(halves)))
        for c, half in enumerate(halves):
            for d, other in enumerate(halves):
                result[..., c, d] = (half * self._signs) @ np.swapaxes(other, 1, 2)
            own = self._own_of_training(c, which.ravel())
            if own is not None:
                of_each = own.T.reshape(*which.shape, -1)
                result[..., c, c] += of_class(self._gram, c)[which] @ np.swapaxes(of_each, 1, 2)
        return result

    def gradient(self, left: Array, right: Array) -> Array:
        """Return (l_c r_c' + r_c l_c' - R_cc)/2, summed over classes that share K: ``(n, n)``, or ``(C, n, n)``."""
        product = left @ right.T if self._gram.ndim == 2 else left.T[:, :, None] * right.T[:, None, :]
        result = product + np.swapaxes(product, -1, -2)
        for c in range(self._n_classes):
            part = of_class(result, c)
            part -= self.class_block(c)
        result *= 0.5
        return result


class _Blocks(NamedTuple):
    each: list[Array]  # E_c (n, n)
    inverse_factor: Array  # L^-1 (n, n), where L L' = M
    log_det: float  # of I + K W
    rounding: float  # of that


# Of the same sites `matrix_correction` takes twice the time with three classes, nine times with six: at n = 300
# a log determinant, weights and covariances took 10 ms against 23, and 21 to 36 ms against 230 to 270.
class SoftmaxCorrection(DenseClassCorrection):
    r"""R for sites diag(w_i) - w_i w_i' / sum(w_i): H_c is L^-1 E_c, with L L' = M, and J is -I.

    The factors are computed when something first needs them: O(C n^3) operations, and C + 1 matrices of n rows. The
    Gram matrix is that of all classes, or of each; of the weights w >= 0 ``(n, C)`` each case has a positive one.
    """

    def __init__(self, gram: Array, site: StarForm) -> None:
        super().__init__(gram, site)
        self._weight = site.numbers

    @cached_property
    def _blocks(self) -> _Blocks:
        each, log_det = [], 0.0
        total = np.zeros(self._gram.shape[-2:])
        for c in range(self._n_classes):
            of_one = SiteCorrection(of_class(self._gram, c), self._weight[:, c])
            log_det += of_one.log_det
            each.append(of_one.dense())
            total += each[-1]
        own = total.diagonal().copy()
        factor = cholesky(total, overwrite=True)
        log_det += 2.0 * float(np.sum(np.log(np.diag(factor))))
        log_det -= float(np.sum(np.log(np.sum(self._weight, axis=1))))
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
        weight = self._weight
        strong = weight * prior_variance(self._gram, weight.shape[1]) > 1.0
        x = np.divide(shift, weight, out=np.zeros_like(shift), where=np.broadcast_to(strong, shift.shape))
        common = np.sum(weight * x, axis=-1, keepdims=True) / np.sum(weight, axis=-1, keepdims=True)
        c = np.where(strong, 0.0, shift) + weight * common
        return np.asarray(c + self.multiply(x - times_gram(c, self._gram)))

    @property
    def _signs(self) -> Array:
        return np.full(self._gram.shape[-1], -1.0)

    def _own(self, c: int, k: Array) -> Array:
        """Return E_c k_c ``(n, m)``."""
        return self._blocks.each[c] @ k

    def _own_of_training(self, c: int, which: NDArray[np.intp]) -> Array:
        """Return E_c k_c ``(n, k)`` of training cases, which is I - E_c/D_c where their sites say anything of c."""
        block, weight = self._blocks.each[c], self._weight[which, c]
        rows = block[which]  # it is symmetric
        rows *= -1.0 / np.where(weight > 0, weight, 1.0)[:, None]
        rows[np.arange(which.size), which] += 1.0
        if not np.all(weight > 0):
            rows[weight == 0] = of_class(self._gram, c)[which[weight == 0]] @ block
        return rows.T

    def covariances(self) -> Array:
        """Return the posterior covariances ``(n, C, C)`` of the classes of each training case.

        By E k of these, for two fifths of the work of other cases, and by halves that lie in one piece for each class.
        """
        prior = prior_variance(self._gram, self._n_classes)
        (n, n_classes), found = prior.shape, np.empty((*prior.shape, prior.shape[1]))
        for some in blocks(n, BLOCK):
            which = np.arange(n)[some]
            halves, own = np.empty((n_classes, which.size, n)), np.empty((which.size, n_classes))
            for c in range(n_classes):
                halves[c] = self._own_of_training(c, which).T
                own[:, c] = np.einsum("ij,ij->i", of_class(self._gram, c)[some], halves[c])
                halves[c] = self._half(c, halves[c].T, halves[c].T).T
            each = np.swapaxes(halves, 0, 1)
            found[some] = own[:, :, None] * np.eye(n_classes) - each @ np.swapaxes(each, 1, 2)
        return _left_of(prior, found)

    def _half(self, c: int, k: Array, own: Array | None) -> Array:
        """Return L^-1 E_c k_c ``(n, m)``."""
        inverse_factor = self._blocks.inverse_factor
        multiply = blas_routine("trmm", inverse_factor)  # half the work of a product
        return np.asarray(multiply(1.0, inverse_factor, np.asfortranarray(own), lower=1))

    def class_block(self, c: int) -> Array:
        """Return the block R_cc ``(n, n)``."""
        block = self._blocks.each[c]
        common = self._half(c, block, block.T)  # it is symmetric
        return np.asarray(block - common.T @ common)

    def noise(self, scores: Array) -> Array:
        """Return R e ``(..., n, C)`` for standard normal ``scores``, where e has the covariance of the sites.

        That is 1/w for each class: common offsets, which R removes, may have any variance.
        """
        root = np.sqrt(self._weight)
        # E / sqrt(w) = sqrt(w) (I + ...)^-1, which is zero where w is
        scaled = np.divide(scores, root, out=np.zeros_like(scores), where=np.broadcast_to(root > 0, scores.shape))
        return self.multiply(scaled)
