"""Derivatives with respect to a Gram matrix on inducing cases, as the kernel that made it takes them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from scipy.linalg import blas

from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.factors import symmetric, triangular_inverse
from bayesgp_mf.matrices.low_rank import LowRankGram, weighted_square
from bayesgp_mf.matrices.root import Root
from bayesgp_mf.types import Array


class RootAndOwn(Protocol):
    """What is asked here of a Gram matrix L L' + diag(d)."""

    @property
    def root(self) -> Root:
        """L ``(n, M)``."""

    @property
    def own(self) -> Array:
        """D ``(n,)``."""

    @property
    def prior(self) -> Array:
        """The variances ``(n,)``."""

    @property
    def factor(self) -> Array:
        """Lower Cholesky factor ``(M, M)`` of the covariances of the inducing inputs."""

    @property
    def rank(self) -> int:
        """Columns of L, M."""

    @property
    def shared(self) -> LowRankGram:
        """L L'."""

    def in_features(self, alpha: Array) -> Array:
        """Return L' alpha."""


class WeightedSites(Protocol):
    """What is asked here of a correction R, or of a sum of such."""

    def diagonal(self) -> Array:
        """Return R_ii ``(n,)``."""

    def times_root(self, block: slice, some: Array) -> Array:
        """Return rows of R L, given those of L."""

    def of_weights(self) -> Array:
        """Return L' R L ``(M, M)``."""


@dataclass(frozen=True, eq=False)
class InducingGradient:
    r"""The derivative G of a number with respect to K, :math:`G = (l r^T + r l^T - R)/2 + \operatorname{diag}(w)`.

    With :math:`B = K_{mm}^{-1} K_{mn}` and :math:`G' = G - \operatorname{diag} G`, since variances are exact,

    .. math:: \operatorname{tr}(G\, dK) = \sum_i G_{ii}\, dk_{ii} + \operatorname{tr}(G'\, dQ), \qquad
              dQ = dK_{nm} B + B^T dK_{mn} - B^T dK_{mm} B .

    Attributes
    ----------
    gram : RootAndOwn
        K.
    left, right : (n,) or (n, k) array
        l and r; a sum over the columns where there are several.
    correction : WeightedSites or None
        R; zero if None.
    weights : (n,) array
        w.
    seen : pair of arrays, optional
        L' l and L' r, ``(M,)`` or ``(M, k)``, where they are known, or where these cases are a part of all.
    """

    gram: RootAndOwn
    left: Array
    right: Array
    correction: WeightedSites | None
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

    @cached_property
    def _seen(self) -> tuple[Array, Array]:
        """L' l and L' r ``(M, k)``."""
        if self.seen is not None:
            return _columns(self.seen[0]), _columns(self.seen[1])
        return self.gram.root.T @ _columns(self.left), self.gram.root.T @ _columns(self.right)

    def _times_root(self, block: slice) -> Array:
        """Return rows of G' L, to which w adds nothing."""
        some, (left, right) = self.gram.root[block], self._seen
        result = 0.5 * _columns(self.left)[block] @ right.T
        result += 0.5 * _columns(self.right)[block] @ left.T
        if self.correction is not None:
            result -= 0.5 * self.correction.times_root(block, some)
        result -= self._without_weights[block, None] * some
        return np.asarray(result)

    def of_cross(self) -> Iterator[tuple[slice, Array]]:
        """Return the derivatives in rows of K_nm, 2 G' B', block by block, as pairs of a slice and ``(k, M)``."""
        for block in blocks(self.gram.prior.size):
            rows = self._times_root(block)  # B' = L L_m^-1
            yield block, blas.dtrmm(2.0, self._inverse, rows.T, lower=1, trans_a=1, overwrite_b=1).T

    def square(self) -> Array:
        """Return L' diag(G - w) L ``(M, M)``, the sum over cases that `of_inducing` takes."""
        return symmetric(weighted_square(self.gram.root, self._without_weights))

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


def _columns(values: Array) -> Array:
    """Return ``(n, k)`` for a vector or for several."""
    return values[:, None] if values.ndim == 1 else values
