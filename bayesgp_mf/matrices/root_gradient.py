"""The derivative with respect to a Gram matrix L L' + diag(d), as the kernel that made it takes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import blas

from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.factors import symmetric, triangular_inverse
from bayesgp_mf.matrices.root import weighted_square
from bayesgp_mf.types import Array


@dataclass(frozen=True, eq=False)
class RootGradient:
    r"""The derivative G of a number with respect to K, :math:`G = (l r^T + r l^T - R)/2 + \operatorname{diag}(w)`.

    For fixed inducing cases m, :math:`Q = L L^T = K_{nm} K_{mm}^{-1} K_{mn}` changes with
    :math:`B = K_{mm}^{-1} K_{mn}` by

    .. math:: dQ = dK_{nm} B + B^T dK_{mn} - B^T dK_{mm} B .

    Where the rest of the variances is noise of the cases' own, these are exact, and with
    :math:`G' = G - \operatorname{diag} G`

    .. math:: \operatorname{tr}(G\, dK) = \sum_i G_{ii}\, dk_{ii} + \operatorname{tr}(G'\, dQ) .

    Where it is left out, K = Q and G' = G.

    Attributes
    ----------
    gram : RootGram
        K.
    left, right : (n,) or (n, k) array
        l and r; a sum over the columns where there are several.
    correction : RootCorrection or None
        R, or a sum of such, of which `diagonal`, `times_root` and `of_weights` are asked; zero if None.
    weights : (n,) array
        w.
    seen : pair of arrays, optional
        L' l and L' r, ``(M,)`` or ``(M, k)``, where they are known, or where these cases are a part of all.
    """

    gram: Any
    left: Array
    right: Array
    correction: Any
    weights: Array
    seen: tuple[Array, Array] | None = None

    @cached_property
    def _inverse(self) -> Array:
        return triangular_inverse(self.gram.factor)

    @cached_property
    def _without_weights(self) -> Array:
        """The diagonal ``(n,)`` of G, less w."""
        product = np.asarray(np.einsum("ik,ik->i", _columns(self.left), _columns(self.right)))
        return product if self.correction is None else product - 0.5 * self.correction.diagonal()

    @property
    def _taken(self) -> Array:
        """What G' has less on its diagonal ``(n,)`` than (l r' + r l' - R)/2."""
        return self._without_weights if self.gram.independent_rest else -self.weights

    @cached_property
    def _seen(self) -> tuple[Array, Array]:
        """L' l and L' r ``(M, k)``."""
        if self.seen is not None:
            return _columns(self.seen[0]), _columns(self.seen[1])
        return self.gram.root.T @ _columns(self.left), self.gram.root.T @ _columns(self.right)

    def _times_root(self, block: slice) -> Array:
        """Return rows of G' L."""
        some, (left, right) = self.gram.root[block], self._seen
        result = 0.5 * _columns(self.left)[block] @ right.T
        result += 0.5 * _columns(self.right)[block] @ left.T
        if self.correction is not None:
            result -= 0.5 * self.correction.times_root(block, some)
        result -= self._taken[block, None] * some
        return np.asarray(result)

    def of_cross(self) -> Iterator[tuple[slice, Array]]:
        """Return the derivatives in rows of K_nm, 2 G' B', block by block, as pairs of a slice and ``(k, M)``."""
        for block in blocks(self.left.shape[0]):
            rows = self._times_root(block)  # B' = L L_m^-1
            yield block, blas.dtrmm(2.0, self._inverse, rows.T, lower=1, trans_a=1, overwrite_b=1).T

    def square(self) -> Array:
        """Return L' diag(G - G') L ``(M, M)`` without w, the sum over cases that `of_inducing` takes."""
        return symmetric(weighted_square(self.gram.root, self._taken))

    def of_inducing(self, square: Array | None = None) -> Array:
        """Return the derivative in K_mm, -B G' B' ``(M, M)``; with the sum of `square` over more cases, that of all."""
        left, right = self._seen
        inner = 0.5 * left @ right.T
        inner += inner.T
        inner -= self.square() if square is None else square
        if self.correction is not None:
            inner -= 0.5 * self.correction.of_weights()
        return np.asarray(-self._inverse.T @ inner @ self._inverse)

    def of_diagonal(self, kernel: Any, X: Array) -> dict[str, Array]:
        """Return the derivatives in the parameters of the kernel by way of k_ii."""
        return dict(kernel.diag_vjp(X, self._without_weights + self.weights))

    def columns(self) -> Array:
        """Return the derivative ``(n, r)`` in the columns of pivots, which are cases, their own rows among them."""
        result = np.concatenate([rows for _, rows in self.of_cross()])
        result[self.gram.pivots] += self.of_inducing()
        return result


def _columns(values: Array) -> Array:
    """Return ``(n, k)`` for a vector or for several."""
    return values[:, None] if values.ndim == 1 else values
