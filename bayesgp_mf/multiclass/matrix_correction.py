r"""The correction R of several classes whose sites are any matrices, by one of C - 1 rows for each case.

A site that does not see a common offset has C - 1 directions of its own, :math:`W_i = F_i \Omega_i F_i^T` with
orthonormal columns and a diagonal matrix. Seen along these the latent values are :math:`(C - 1) n` Gaussian ones,
measured one by one with the precisions omega, and R is that of `matrices.sites`:

.. math:: R = F\, (F^T K F + \Omega^{-1})^{-1} F^T .

Any omega may be zero, or negative. It costs :math:`(C - 1)^3 n^3`, where sites of star form
(`multiclass.correction`) cost :math:`C n^3`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.multiclass.correction import ClassCorrection, DenseClassCorrection, of_class, times_gram
from bayesgp_mf.types import Array

_AT_ONCE = 512  # cases whose blocks are worked out together


class DirectedCorrection(ClassCorrection):
    """R for sites W_i that are symmetric matrices ``_site (n, C, C)``, each of which measures some directions."""

    _site: Array

    @cached_property
    def _directions(self) -> tuple[Array, Array]:
        """Omega ``(n, C - 1)`` and F ``(n, C, C - 1)``."""
        basis = contrast_basis(self._site.shape[1])
        omega, turned = np.linalg.eigh(basis.T @ self._site @ basis)
        return omega, basis @ turned

    def stored(self) -> dict[str, Array]:
        """Return the sites."""
        return {"site_matrix": self._site}

    def site_precision(self) -> Array:
        """Return W ``(n, C, C)``."""
        return self._site

    def precision_root(self) -> Array:
        """Return F ``(n, C, C - 1)`` with W = F diag(signs) F' and columns that sum to zero."""
        omega, direction = self._directions
        return np.asarray(direction * np.sqrt(np.abs(omega))[:, None, :])

    def precision_signs(self) -> Array:
        """Return the signs ``(n, C - 1)`` of what the columns of `precision_root` measure."""
        return np.where(self._directions[0] < 0, -1.0, 1.0)


class MatrixSiteCorrection(DenseClassCorrection, DirectedCorrection):
    """R for sites W_i that are symmetric matrices; see the module.

    Parameters
    ----------
    gram : (n, n) or (C, n, n) array
        That of all classes, or of each.
    precision : (n, C, C) array
        W, in latent units to the power -2; rows sum to zero.

    Raises
    ------
    NotPositiveDefiniteError
        When the factor is first needed, if the sites leave no positive-definite posterior covariance.
    """

    def __init__(self, gram: Array, precision: Array) -> None:
        super().__init__(gram)
        self._site = precision

    @cached_property
    def _sites(self) -> SiteCorrection:
        """R of what is measured, with the direction as the slower axis."""
        omega, direction = self._directions
        n, n_classes, size = direction.shape
        gram = np.zeros((size * n, size * n))
        for a in range(size):
            for b in range(size):
                part = gram[a * n : (a + 1) * n, b * n : (b + 1) * n]
                for c in range(n_classes):
                    part += direction[:, c, a, None] * of_class(self._gram, c) * direction[:, c, b]
        return SiteCorrection(gram, omega.T.ravel())

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        return self._sites.log_det

    @property
    def rounding(self) -> float:
        """By how much rounding moves `log_det`, in nats."""
        # each entry of K + Omega is known to eps of its diagonal, and d log det is the trace of R with it
        omega, direction = self._directions
        prior = np.einsum("ica,ci->ia", direction**2, np.diagonal(np.atleast_3d(self._gram.T).T, axis1=1, axis2=2))
        inverse = np.abs(self._sites.diagonal().reshape(omega.T.shape).T)
        own = np.divide(1.0, np.abs(omega), out=np.zeros_like(omega), where=omega != 0)
        return float(np.finfo(np.float64).eps * np.sum((own + prior) * inverse))

    def _seen(self, values: Array) -> Array:
        """Return F' v ``((C - 1) n,)`` for ``v (n, C)``."""
        return np.asarray(np.einsum("ica,ic->ai", self._directions[1], values).ravel())

    def _in_classes(self, seen: Array) -> Array:
        """Return F x ``(n, C)``."""
        direction = self._directions[1]
        return np.asarray(np.einsum("ica,ai->ic", direction, seen.reshape(direction.shape[2], -1)))

    def weights(self, shift: Array) -> Array:
        """Return the weights alpha = b - W K alpha ``(n, C)`` under sites with shifts ``b (n, C)``."""
        common = np.broadcast_to(np.mean(shift, axis=1, keepdims=True), shift.shape)  # which no site sees
        weighted = np.einsum("icd,id->ic", self._site, times_gram(common, self._gram))
        return np.asarray(common + self._in_classes(self._sites.weights(self._seen(shift - weighted))))

    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors (..., n, C)``."""
        flat = vectors.reshape(-1, *vectors.shape[-2:])
        every = [self._in_classes(self._sites.multiply(self._seen(each))) for each in flat]
        return np.array(every).reshape(vectors.shape)

    def _halves(self, c: int, cross: Array) -> tuple[Array, Array]:
        """Return P and N with P_c' P_d - N_c' N_d = k_c' R_cd k_d, for covariances ``k_c (n, m)`` of a class."""
        direction = self._directions[1]
        seen = direction[:, c, :].T[:, :, None] * cross
        return self._sites.halves(seen.reshape(-1, cross.shape[1]))

    def blocks(self, features: Array) -> Array:
        """Return k_c' R_cd k_d ``(m, C, C)`` of each new case, from covariances ``(n, m)`` or ``(C, n, m)``."""
        n_classes = self._site.shape[1]
        result = np.empty((features.shape[-1], n_classes, n_classes))
        for some in blocks(features.shape[-1], _AT_ONCE):
            each = [self._halves(c, of_class(features, c)[:, some]) for c in range(n_classes)]
            for c, (more, less) in enumerate(each):
                for d, (more_d, less_d) in enumerate(each[: c + 1]):
                    entry = np.einsum("ij,ij->j", more, more_d) - np.einsum("ij,ij->j", less, less_d)
                    result[some, c, d] = result[some, d, c] = entry
        return result

    @cached_property
    def _own_halves(self) -> tuple[Array, Array]:
        """P and N ``(C, n, r)`` of the training cases."""
        each = [self._halves(c, of_class(self._gram, c)) for c in range(self._site.shape[1])]
        more, less = zip(*each, strict=True)
        return np.stack([part.T for part in more]), np.stack([part.T for part in less])

    def blocks_between(self, which: NDArray[np.intp], cross: Array) -> Array:
        """Return k_c' R_cd k_d ``(m, k, C, C)`` of training cases ``which (m, k)`` with each new one."""
        n_classes = self._site.shape[1]
        each = [self._halves(c, of_class(cross, c)) for c in range(n_classes)]
        more, less = (np.stack([part.T for part in parts], axis=-1) for parts in zip(*each, strict=True))
        own_more, own_less = self._own_halves
        return np.stack([own_more[c][which] @ more - own_less[c][which] @ less for c in range(n_classes)], axis=2)

    def blocks_among(self, which: NDArray[np.intp]) -> Array:
        """Return k_c' R_cd k_d ``(m, k, k, C, C)`` of training cases ``which (m, k)`` with one another."""
        n_classes = self._site.shape[1]
        more, less = (own[:, which] for own in self._own_halves)
        result = np.empty((*which.shape, which.shape[1], n_classes, n_classes))
        for c in range(n_classes):
            for d in range(n_classes):
                result[..., c, d] = more[c] @ np.swapaxes(more[d], 1, 2) - less[c] @ np.swapaxes(less[d], 1, 2)
        return result

    def class_block(self, c: int) -> Array:
        """Return the block R_cc ``(n, n)``."""
        more, less = self._halves(c, np.eye(self._site.shape[0]))
        return np.asarray(more.T @ more - less.T @ less)

    def quadratic(self, features: Array) -> Array:
        """Return k_c' R_cd k_d ``(C, m, C, m)`` from covariances ``(n, m)`` or ``(C, n, m)``: for few cases."""
        each = [self._halves(c, of_class(features, c)) for c in range(self._site.shape[1])]
        more, less = (np.stack(parts) for parts in zip(*each, strict=True))
        return np.asarray(np.einsum("cki,dkj->cidj", more, more) - np.einsum("cki,dkj->cidj", less, less))
