"""The root L of a Gram matrix ``(n, M)``: an array, or one whose rows are computed whenever they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from scipy.linalg import blas

from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.factors import blas_routine
from bayesgp_mf.types import Array


def features_of(kernel: Any, points: Array, factor: Array, X: Array) -> Array:
    """Return the features L^-1 k(P, x) ``(r, m)`` of cases, for the Cholesky factor L of the covariances of points."""
    # the transpose of k(x, P) has the order of memory in which equations are solved in place
    cross = np.asarray(kernel.cross(X, points), dtype=np.float64)
    return np.asarray(blas.dtrsm(1.0, factor, cross.T, lower=1, overwrite_b=1))


def weighted_square(root: Root, weights: Array) -> Array:
    """Return the lower triangle of L' D L ``(r, r)`` for a root ``(n, r)`` and weights ``(n,)`` of any sign."""
    result = np.zeros((root.shape[1], root.shape[1]), dtype=root.dtype, order="F")
    for block in blocks(weights.size):
        add_weighted_square(result, root[block], weights[block])
    return result


def add_weighted_square(result: Array, rows: Array, weights: Array) -> None:
    """Add to the lower triangle ``(r, r)``, in the order of memory of columns, that of some rows ``(k, r)``."""
    scaled = rows * np.sqrt(np.abs(weights)).astype(rows.dtype)[:, None]
    for sign in (1.0, -1.0):
        these = sign * weights > 0
        if these.any():
            some = scaled if these.all() else scaled[these]
            blas_routine("syrk", result)(sign, some.T, beta=1.0, c=result, lower=1, overwrite_c=1)


def variances(root: Root, inverse_factor: Array) -> Array:
    """Return the diagonal ``(n,)`` of L T'T L' for a root ``(n, r)`` and a lower triangular T ``(r, r)``."""
    result, multiply = np.empty(root.shape[0]), blas_routine("trmm", inverse_factor)
    for block in blocks(result.size):
        projected = multiply(1.0, inverse_factor, root[block].T, lower=1)
        result[block] = np.einsum("ij,ij->j", projected, projected)
    return result


@dataclass(frozen=True, eq=False)
class ComputedRoot:
    """A root that is never there as a whole, for when it would not fit into memory.

    Attributes
    ----------
    kernel : Kernel
        Prior covariance.
    X : (n, k) array
        Inputs.
    points : (M, k) array
        Inducing inputs.
    factor : (M, M) array
        Lower Cholesky factor of their covariances.
    """

    kernel: Any
    X: Array
    points: Array
    factor: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Cases and columns."""
        return int(self.X.shape[0]), int(self.points.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its entries."""
        return np.dtype(np.float64)

    @property
    def T(self) -> _Transposed:  # noqa: N802
        """The transpose."""
        return _Transposed(self)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, tuple):  # [:, :r]
            rank = which[1].stop
            return ComputedRoot(self.kernel, self.X, self.points[:rank], np.asfortranarray(self.factor[:rank, :rank]))
        return features_of(self.kernel, self.points, self.factor, self.X[which]).T

    def __matmul__(self, other: Array) -> Array:
        return np.concatenate([self[block] @ other for block in blocks(self.shape[0])])

    def kept(self) -> Array:
        """Return the whole root as an array."""
        root = np.empty(self.shape)
        for block in blocks(self.shape[0]):
            root[block] = self[block]
        return root


@dataclass(frozen=True, eq=False)
class _Transposed:
    root: ComputedRoot

    def __matmul__(self, other: Array) -> Array:
        return np.asarray(sum(self.root[block].T @ other[block] for block in blocks(self.root.shape[0])))


Root: TypeAlias = Array | ComputedRoot
"""Of an array that stands for a root, rows, products and, as ``[:, :r]``, the first columns are asked."""
