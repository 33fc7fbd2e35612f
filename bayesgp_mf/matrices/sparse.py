r"""Sparse positive-definite matrices: equations, log determinant, and those entries of the inverse that a factor knows.

Takahashi's equations [1]_ for :math:`Q = L D L^T` and :math:`Z = Q^{-1}`, with s the rows below the diagonal in which
column j of L is not zero,

.. math:: Z_{sj} = -Z_{ss} L_{sj}, \qquad Z_{jj} = 1 / D_{jj} - L_{sj}^T Z_{sj},

need no other entries than those on the pattern of L. All rows s are among those of the column that is the first of
them, j's parent: columns are done from the last to the first, those at one distance from it together.

References
----------
.. [1] Takahashi, K., Fagan, J., & Chen, M.-S. (1973). Formation of a sparse bus impedance matrix and its application to
   short circuit study. 8th PICA Conference, 63-69.
"""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, csr_array
from scipy.sparse.linalg import splu, spsolve_triangular

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.types import Array


class _Level(NamedTuple):
    """Columns of a factor at one distance from the last of all, with as many rows below the diagonal each."""

    columns: NDArray[np.intp]  # (m,)
    below: NDArray[np.intp]  # (m, k), where their entries below the diagonal stand
    among: NDArray[np.intp]  # (m, k), which of the rows of the parent those are
    parents: NDArray[np.intp]  # (m,)


class SparseFactor:
    """The factor of a sparse symmetric positive-definite matrix.

    Parameters
    ----------
    matrix : (n, n) sparse array
        Both of its triangles.

    Raises
    ------
    NotPositiveDefiniteError
        If the matrix is not positive definite.
    """

    def __init__(self, matrix: Any) -> None:
        self._matrix = csc_array(matrix)
        options = {"SymmetricMode": True}
        try:
            self._factor = splu(self._matrix, "MMD_AT_PLUS_A", diag_pivot_thresh=0.0, options=options)
        except RuntimeError:  # exactly singular
            raise NotPositiveDefiniteError("a sparse precision is singular") from None
        self._pivots = self._factor.U.diagonal()
        if not np.all(self._pivots > 0):
            raise NotPositiveDefiniteError("a sparse precision is not positive definite")

    def __reduce__(self) -> tuple[Any, ...]:
        return SparseFactor, (self._matrix,)

    @property
    def log_det(self) -> float:
        """Log determinant of the matrix."""
        return float(np.sum(np.log(self._pivots)))

    def solve(self, right: Array) -> Array:
        """Return the inverse times ``(n,)`` or ``(n, m)``."""
        return np.asarray(self._factor.solve(np.asarray(right, dtype=np.float64)))

    def root_solve(self, right: Array) -> Array:
        """Return Q^-1/2 times ``(n, m)``: of independent normal numbers, draws with the inverse as covariance."""
        scaled = right / np.sqrt(self._pivots)[:, None]
        return np.asarray(spsolve_triangular(csr_array(self._lower.T), scaled, lower=False)[self._factor.perm_c])

    @cached_property
    def _lower(self) -> csc_array:
        """L, with rows in order, and with zeros where entries cancelled or are too small for a number."""
        lower = csc_array(self._factor.L)
        lower.sort_indices()
        while (missing := _missing(lower.indptr.tobytes(), lower.indices.tobytes())).size:
            there = lower.tocoo()
            rows, columns = np.hstack([there.coords, missing])
            values = np.concatenate([there.data, np.zeros(missing.shape[1])])
            lower = csc_array((values, (rows, columns)), shape=lower.shape)
        return lower

    @cached_property
    def _selected(self) -> Array:
        """The entries of the inverse on the pattern of L, in the order of its entries."""
        return _selected(self._lower, 1.0 / self._pivots)

    @cached_property
    def diagonal_of_inverse(self) -> Array:
        """The diagonal ``(n,)`` of the inverse."""
        return np.asarray(self._selected[self._lower.indptr[:-1]][self._factor.perm_c])

    def entries_of_inverse(self, rows: NDArray[Any], columns: NDArray[Any]) -> Array:
        """Return entries ``(k,)`` of the inverse that are on the pattern of L or its transpose, and NaN for others."""
        lower, order = self._lower, self._factor.perm_c
        first, second = order[rows], order[columns]
        n, later = lower.shape[0], np.maximum(first, second)
        keys = np.repeat(np.arange(n), np.diff(lower.indptr)) * n + lower.indices
        wanted = np.minimum(first, second).astype(np.intp) * n + later
        place = np.minimum(np.searchsorted(keys, wanted), keys.size - 1)
        return np.where(keys[place] == wanted, self._selected[place], np.nan)

    def trace_with(self, other: Any) -> float:
        """Return tr(Q^-1 S) for a symmetric S whose pattern is within that of the matrix."""
        entries = coo_array(other)
        return float(self.entries_of_inverse(*entries.coords) @ entries.data)


def _selected(lower: csc_array, inverse_pivots: Array) -> Array:
    """Return the entries of the inverse on the pattern of its unit lower triangular factor: Takahashi's equations."""
    values, fronts, offsets = np.empty(lower.nnz), np.empty(0), np.zeros(lower.shape[0], dtype=np.intp)
    size = np.diff(lower.indptr)  # of the front of each column: itself and the rows below
    for depth in _levels(lower.indptr.tobytes(), lower.indices.tobytes()):
        columns = np.concatenate([level.columns for level in depth])
        starts = np.concatenate([[0], np.cumsum(size[columns] ** 2)])
        new, at = np.empty(starts[-1]), 0
        for columns, below, among, parents in depth:
            m, k = below.shape
            step = size[parents][:, None, None] if k else 1
            where = offsets[parents][:, None, None] + among[:, :, None] * step + among[:, None, :]
            known = fronts[where]  # Z_ss
            factor = lower.data[below]
            beside = -np.matmul(known, factor[:, :, None])[:, :, 0]
            own = inverse_pivots[columns] - np.einsum("ij,ij->i", factor, beside)
            values[lower.indptr[columns]], values[below] = own, beside
            front = new[starts[at] : starts[at + m]].reshape(m, k + 1, k + 1)
            front[:, 0, 0], front[:, 0, 1:], front[:, 1:, 0], front[:, 1:, 1:] = own, beside, beside, known
            offsets[columns] = starts[at : at + m]
            at += m
        fronts = new
    return values


def _in_parents(
    indptr_bytes: bytes, indices_bytes: bytes
) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """Return where columns begin, their parents, and keys: of all entries, in order, and of the same in the parents."""
    indptr, rows = (np.frombuffer(each, dtype=np.int32).astype(np.intp) for each in (indptr_bytes, indices_bytes))
    n, count = indptr.size - 1, np.diff(indptr) - 1
    parent = np.where(count > 0, rows[np.minimum(indptr[:-1] + 1, rows.size - 1)], -1)
    column = np.repeat(np.arange(n), count + 1)
    keys = column * n + rows
    return indptr, parent, keys, np.where(rows > column, parent[column] * n + rows, keys)


@lru_cache(maxsize=4)
def _missing(indptr_bytes: bytes, indices_bytes: bytes) -> NDArray[np.int32]:
    """Return rows and columns ``(2, k)`` of entries that a column has below the diagonal, and its parent has not."""
    indptr, _, keys, above = _in_parents(indptr_bytes, indices_bytes)
    wanted = np.setdiff1d(above, keys)
    return np.stack([wanted % (indptr.size - 1), wanted // (indptr.size - 1)]).astype(np.int32)


@lru_cache(maxsize=4)
def _levels(indptr_bytes: bytes, indices_bytes: bytes) -> list[list[_Level]]:
    """Return the columns of a factor by their distance from a last one, and by how many rows they have.

    A search, and each step of a solution, comes back to the same pattern, given as bytes.
    """
    indptr, parent, keys, above = _in_parents(indptr_bytes, indices_bytes)
    n, count = indptr.size - 1, np.diff(indptr) - 1
    depth = np.zeros(n, dtype=np.intp)
    for j in range(n - 1, -1, -1):
        if parent[j] >= 0:
            depth[j] = depth[parent[j]] + 1
    place = np.searchsorted(keys, above) - indptr[np.maximum(np.repeat(parent, count + 1), 0)]
    found: list[list[_Level]] = []
    order = np.lexsort((count, depth))
    breaks = np.flatnonzero(np.diff(depth[order]) | np.diff(count[order])) + 1
    for columns in np.split(order, breaks):
        below = indptr[columns][:, None] + 1 + np.arange(count[columns[0]])
        if depth[columns[0]] == len(found):
            found.append([])
        found[-1].append(_Level(columns, below, place[below], np.maximum(parent[columns], 0)))
    return found
