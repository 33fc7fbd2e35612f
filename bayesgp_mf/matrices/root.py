"""The root L of a Gram matrix ``(n, M)``: an array, or one whose rows are computed whenever they are needed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np
from scipy.linalg import blas

from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.types import Array


class Root(Protocol):
    """What is asked of a root: an array has all of it."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Cases and columns."""

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its entries."""

    @property
    def T(self) -> Any:  # noqa: N802
        """The transpose, of which only products with arrays are asked."""

    def __getitem__(self, which: Any, /) -> Any:
        """Return some rows, or, for ``[:, :r]``, a root of the first columns."""

    def __matmul__(self, other: Array, /) -> Any:
        """Return the product with an array ``(M, ...)``."""

    def __rmatmul__(self, other: Array, /) -> Any:
        """Return the product of an array ``(..., n)`` with it."""


def features_of(kernel: Any, points: Array, factor: Array, X: Array) -> Array:
    """Return the features L^-1 k(P, x) ``(r, m)`` of cases, for the Cholesky factor L of the covariances of points."""
    # the transpose of k(x, P) has the order of memory in which equations are solved in place
    cross = np.asarray(kernel.cross(X, points), dtype=np.float64)
    return np.asarray(blas.dtrsm(1.0, factor, cross.T, lower=1, overwrite_b=1))


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

    __array_ufunc__: ClassVar[None] = None  # so that ``array @ root`` comes here

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

    def __rmatmul__(self, other: Array) -> Array:
        return np.asarray((self.T @ other.T).T)

    def itself(self) -> ComputedRoot:
        """Return this root, which is never there as a whole."""
        return self

    def kept(self) -> Array:
        """Return the whole root as an array."""
        root = np.empty(self.shape)
        for block in blocks(self.shape[0]):
            root[block] = self[block]
        return root


@dataclass(frozen=True, eq=False)
class _Transposed:
    root: ComputedRoot

    __array_ufunc__: ClassVar[None] = None

    def __matmul__(self, other: Array) -> Array:
        return np.asarray(sum(self.root[block].T @ other[block] for block in blocks(self.root.shape[0])))

    def __rmatmul__(self, other: Array) -> Array:
        return np.asarray((self.root @ other.T).T)
