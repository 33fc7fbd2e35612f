r"""The correction R of several classes whose sites are any matrices, by one of C - 1 rows for each case.

Seen along the C - 1 directions that each site measures, :math:`W_i = F_i \Omega_i F_i^T` (`site_form.MatrixForm`), the
latent values are :math:`(C - 1) n` Gaussian ones, measured one by one with the precisions omega, and R is that of
`matrices.sites`:

.. math:: R = F\, (F^T K F + \Omega^{-1})^{-1} F^T .

It costs :math:`(C - 1)^3 n^3`, where sites of star form (`multiclass.correction`) cost :math:`C n^3`.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.multiclass.correction import DenseClassCorrection, of_class, times_gram
from bayesgp_mf.multiclass.site_form import MatrixForm
from bayesgp_mf.types import Array


class MatrixSiteCorrection(DenseClassCorrection):
    """R for sites W_i that are symmetric matrices; see the module. There is no E, and J has the signs of omega.

    Parameters
    ----------
    gram : (n, n) or (C, n, n) array
        That of all classes, or of each.
    site : MatrixForm
        W.

    Raises
    ------
    NotPositiveDefiniteError
        When the factor is first needed, if the sites leave no positive-definite posterior covariance.
    """

    def __init__(self, gram: Array, site: MatrixForm) -> None:
        super().__init__(gram, site)
        self._directions = site.directions

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

    def _measured(self, values: Array) -> Array:
        """Return F' v ``((C - 1) n,)`` for ``v (n, C)``."""
        return np.asarray(np.einsum("ica,ic->ai", self._directions[1], values).ravel())

    def _in_classes(self, seen: Array) -> Array:
        """Return F x ``(n, C)``."""
        direction = self._directions[1]
        return np.asarray(np.einsum("ica,ai->ic", direction, seen.reshape(direction.shape[2], -1)))

    def weights(self, shift: Array) -> Array:
        """Return the weights alpha = b - W K alpha ``(n, C)`` under sites with shifts ``b (n, C)``."""
        common = np.broadcast_to(np.mean(shift, axis=1, keepdims=True), shift.shape)  # which no site sees
        weighted = self.site.times(times_gram(common, self._gram))
        return np.asarray(common + self._in_classes(self._sites.weights(self._measured(shift - weighted))))

    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors (..., n, C)``."""
        flat = vectors.reshape(-1, *vectors.shape[-2:])
        every = [self._in_classes(self._sites.multiply(self._measured(each))) for each in flat]
        return np.array(every).reshape(vectors.shape)

    @property
    def _signs(self) -> Array:
        negative = np.count_nonzero(self._directions[0] < 0)
        return np.concatenate([np.ones(self._directions[0].size), -np.ones(negative)])

    def _own(self, c: int, k: Array) -> None:
        """Return None."""

    def _half(self, c: int, k: Array, own: Array | None) -> Array:
        """Return H_c k_c ``(r, m)``."""
        direction = self._directions[1]
        seen = direction[:, c, :].T[:, :, None] * k
        return np.concatenate(self._sites.halves(seen.reshape(-1, k.shape[1])))

    def class_block(self, c: int) -> Array:
        """Return the block R_cc ``(n, n)``."""
        more, less = np.split(self._half(c, np.eye(self._gram.shape[-1]), None), [self._directions[0].size])
        return np.asarray(more.T @ more - less.T @ less)  # squares, at half the time of products
