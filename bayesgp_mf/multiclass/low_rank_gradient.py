"""The derivative of a log evidence of several classes in the root that their Gram matrix is known by."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from bayesgp_mf.matrices.factors import triangular_inverse
from bayesgp_mf.matrices.inducing_gradient import InducingGradient
from bayesgp_mf.multiclass.low_rank import LowRankSites
from bayesgp_mf.types import Array


@dataclass(frozen=True, eq=False)
class LowRankClassGradient:
    r"""The derivative :math:`G = \sum_c (l_c r_c^T + r_c l_c^T - R_{cc}) / 2` in K, which all classes share.

    A Gram matrix on inducing cases asks it the questions of `matrices.inducing_gradient.InducingGradient`, and one of
    low rank that of `matrices.low_rank.RootGradient`.

    Attributes
    ----------
    gram : LowRankGram or InducingGram
        K.
    left, right : (n, C) array
        l and r.
    correction : LowRankSites
        R.
    """

    gram: Any
    left: Array
    right: Array
    correction: LowRankSites

    @cached_property
    def _on_inducing(self) -> InducingGradient:
        nothing = np.zeros(self.left.shape[0])
        return InducingGradient(self.gram, self.left, self.right, self.correction, nothing)

    def of_cross(self) -> Iterator[tuple[slice, Array]]:
        """Return the derivatives in rows of K_nm, block by block, as pairs of a slice and ``(k, M)``."""
        return self._on_inducing.of_cross()

    def of_inducing(self) -> Array:
        """Return the derivative in K_mm ``(M, M)``."""
        return self._on_inducing.of_inducing()

    def of_diagonal(self, kernel: Any, X: Array) -> dict[str, Array]:
        """Return the derivatives in the parameters of the kernel by way of k_ii."""
        return self._on_inducing.of_diagonal(kernel, X)

    def columns(self) -> Array:
        """Return the derivative ``(n, r)`` with respect to the columns of the pivots, their own rows among them."""
        root, inverse = self.gram.root, triangular_inverse(self.gram.pivot_factor)
        left, right = root.T @ self.left, root.T @ self.right
        inner = 0.5 * left @ right.T
        inner += inner.T
        inner -= 0.5 * self.correction.of_weights()  # L' G L
        twice = self.left @ right.T + self.right @ left.T - self.correction.times_root(slice(None), root)  # 2 G L
        result = twice @ inverse
        result[self.gram.pivots] -= inverse.T @ inner @ inverse
        return np.asarray(result)
