r"""The correction R of several classes for sites of any form: one matrix of (C - 1) n rows.

A likelihood that does not change when a constant is added to all latent values of a case has sites
:math:`W_i = A_i A_i^T` with :math:`A_i = H S_i`, where the columns of H ``(C, C - 1)`` are orthonormal contrasts and S
is symmetric, ``(C - 1, C - 1)``. With A the block-diagonal matrix of all A_i,

.. math:: R = (K + W^{-1})^{-1} = A B^{-1} A^T, \qquad B = I + A^T K A,

and B has eigenvalues of at least one, whatever K and S are: every state of the iteration is a proper posterior.
`correction.SoftmaxCorrection` needs no such matrix, but has sites with C numbers for each case where these have
C (C - 1)/2.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.matrices.factors import cholesky, triangular_inverse
from bayesgp_mf.multiclass.correction import ClassCorrection, DenseClassCorrection, of_class, times_gram
from bayesgp_mf.multiclass.site_form import MatrixForm
from bayesgp_mf.types import Array


def quadratic(correction: ClassCorrection, cross: Array) -> Array:
    """Return k_c' R_cd k_d ``(C, m, C, m)`` of new cases by all entries of R, from ``(n, m)`` or ``(C, n, m)``."""
    r = correction.dense()
    every = np.broadcast_to(cross, (r.shape[0], *cross.shape[-2:]))
    return np.asarray(np.einsum("cim,cidj,djk->cmdk", every, r, every, optimize=True))


class BlockCorrection(DenseClassCorrection):
    """R for sites with any root S; a `correction.DenseClassCorrection`.

    O((C - 1)^3 n^3) operations and one matrix of (C - 1) n rows, when something first needs it.

    Parameters
    ----------
    gram : (n, n) or (C, n, n) array
        Gram matrix of all classes, or of each.
    site_root : (n, C - 1, C - 1) array
        S, symmetric, in latent units to the power -1.
    """

    def __init__(self, gram: Array, site_root: Array) -> None:
        self.site_root = site_root
        n, size, _ = site_root.shape
        self._basis = contrast_basis(size + 1)
        self._root = np.asarray(self._basis @ site_root)  # A_i (n, C, C - 1)
        super().__init__(gram, MatrixForm(np.asarray(self._root @ np.swapaxes(self._root, 1, 2))))
        self._rows = n * size

    @cached_property
    def inverse_factor(self) -> Array:
        """Inverse ``((C - 1) n, (C - 1) n)`` of the lower Cholesky factor of B; the rows of a case are together."""
        b_matrix = self._prior(self._root, self._root)
        b_matrix.ravel(order="K")[:: self._rows + 1] += 1.0
        return triangular_inverse(cholesky(b_matrix, overwrite=True), overwrite=True)

    def remaining(self) -> Array:
        """Return the blocks ``(n, C - 1, C - 1)`` of B^-1: I - S Sigma S, with Sigma the covariance of contrasts."""
        blocks = self.inverse_factor.reshape(self._rows, *self.site_root.shape[:2])
        return np.asarray(np.einsum("ria,rib->iab", blocks, blocks))

    def prior_with(self) -> Array:
        """Return A' K H ``((C - 1) n, (C - 1) n)``, rows as in `inverse_factor`, columns the contrasts of each case."""
        return self._prior(self._root, np.broadcast_to(self._basis, self._root.shape))

    def _prior(self, left: Array, right: Array) -> Array:
        """Return left' K right for block-diagonal ``(n, C, C - 1)``, in the order of memory of columns."""
        n, _, size = left.shape
        total = np.zeros((self._rows, self._rows), order="F")
        for c in range(1 if self._gram.ndim == 2 else size + 1):
            # a shared kernel is one product for all classes
            of_left, of_right = (
                part.transpose(0, 2, 1).reshape(self._rows, -1)
                if self._gram.ndim == 2
                else np.ascontiguousarray(part[:, c, :]).reshape(self._rows, 1)
                for part in (left, right)
            )
            # the transpose, whose rows are columns in memory; K is its own
            product = (of_right @ of_left.T).reshape(n, size, n, size)
            product *= of_class(self._gram, c)[:, None, :, None]
            total += product.reshape(self._rows, self._rows).T
        return total

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        return -2.0 * float(np.sum(np.log(np.diag(self.inverse_factor))))

    def multiply(self, values: Array) -> Array:
        """Return R times ``values (..., n, C)``."""
        white = self._to_white(values)
        return self._from_white((white @ self.inverse_factor.T) @ self.inverse_factor)

    def weights(self, shift: Array) -> Array:
        """Return ``b - R K b`` for ``b (..., n, C)``: the weights alpha = b - W K alpha under sites with shifts b."""
        return np.asarray(shift - self.multiply(times_gram(shift, self._gram)))

    def _to_white(self, values: Array) -> Array:
        """Return A' v ``(..., (C - 1) n)``."""
        white = np.einsum("ica,...ic->...ia", self._root, values)
        return np.asarray(white.reshape(*white.shape[:-2], self._rows))

    def _from_white(self, white: Array) -> Array:
        """Return A w ``(..., n, C)``."""
        shaped = white.reshape(*white.shape[:-1], *self._root.shape[::2])
        return np.asarray(np.einsum("ica,...ia->...ic", self._root, shaped))

    @property
    def rounding(self) -> float:
        """Nothing that is known."""
        return float("nan")

    @property
    def _signs(self) -> Array:
        return np.ones(self._rows)

    def _own(self, c: int, k: Array) -> None:
        """Return None."""

    def _half(self, c: int, k: Array, own: Array | None) -> Array:
        """Return L^-1 A_c' k_c ``((C - 1) n, m)``."""
        of_one = self._root[:, c, :, None] * k[:, None, :]
        return np.asarray(self.inverse_factor @ of_one.reshape(self._rows, -1))

    def class_block(self, c: int) -> Array:
        """Return the block R_cc ``(n, n)``."""
        n, _, size = self._root.shape
        # column i holds L^-1 times the rows of case i of A_c
        columns = np.einsum("ria,ia->ri", self.inverse_factor.reshape(self._rows, n, size), self._root[:, c, :])
        return np.asarray(columns.T @ columns)

    def noise(self, scores: Array) -> Array:
        """Return R e ``(..., n, C)`` for standard normal ``scores``, where e has the covariance of the sites.

        The contrasts of the scores are standard normal, too, and R e is A B^-1 times them.
        """
        white = scores @ self._basis
        flat = white.reshape(*white.shape[:-2], self._rows)
        return self._from_white((flat @ self.inverse_factor.T) @ self.inverse_factor)
