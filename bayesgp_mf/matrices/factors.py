"""Factorisations of dense matrices, products with triangles, and many cases a few at a time.

Nothing here inverts a covariance matrix, which may be singular, and nothing adds jitter: a matrix that has no factor is
an error. What is worked out for each of many cases need never be there for all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from types import ModuleType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.types import Array

BLOCK = 1024
"""Cases handled at once, where nothing else is said: their rows stay in the processor's cache."""


def blocks(n: int, size: int | None = None) -> Iterator[slice]:
    """Return slices of at most `BLOCK` cases, or of another ``size``, that make up all ``n``."""
    step = BLOCK if size is None else size
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def blocks_by_size(sizes: NDArray[Any], entries: float) -> Iterator[NDArray[np.intp]]:
    """Yield numbers of cases that are handled at once, those of similar size together.

    So many, at least one, that their number times the largest size ``sizes (n,)`` among them is at most ``entries``.
    """
    order, start = np.argsort(sizes, kind="stable"), 0
    while start < order.size:
        end = start + 1
        while end < order.size and (end + 1 - start) * sizes[order[end]] <= entries:
            end += 1
        yield order[start:end]
        start = end


PSD_TOLERANCE = 1e-8
"""A Gram matrix may have eigenvalues down to -PSD_TOLERANCE * max(diagonal): rounding, not structure."""

SQUARED = 128
"""Columns of a matrix that are squared at once."""

SMALL_TRIANGLE = 50
"""Rows up to which a triangular matrix is inverted in one piece."""

# A freed block of memory goes back to the system if it is larger than any freed before (glibc's rule), and costs a
# page fault for every 4 kB when it is next needed: a quarter of the time of a solution at n = 200. Nothing is touched.
np.empty(2**22 - 2**10)


def lapack_routine(name: str, matrix: Array) -> Callable[..., Any]:
    """Return a routine of LAPACK for the precision of a matrix."""
    return _routine(lapack, name, matrix.dtype.char)


def blas_routine(name: str, matrix: Array) -> Callable[..., Any]:
    """Return a routine of BLAS for the precision of a matrix."""
    return _routine(blas, name, matrix.dtype.char)


@cache
def _routine(library: ModuleType, name: str, precision: str) -> Callable[..., Any]:
    return cast("Callable[..., Any]", getattr(library, ("s" if precision == "f" else "d") + name))


def times(matrix: Array, vector: Array) -> Array:
    """Return ``matrix @ vector``, computed in the precision of the matrix."""
    return np.asarray(matrix @ vector.astype(matrix.dtype, copy=False), dtype=np.float64)


def symmetric_times(lower: Array, vector: Array) -> Array:
    """Return the product ``(n,)`` of a symmetric matrix, given its lower triangle, computed in its precision."""
    return np.asarray(blas_routine("symv", lower)(1.0, lower, vector, lower=1), dtype=np.float64)


def squared_symmetric_times(lower: Array, vector: Array) -> Array:
    """Return the product ``(n,)`` of a symmetric matrix whose entries are squared, those of its diagonal left out.

    In blocks of columns: the squares are never there all at once.
    """
    n, short = vector.size, vector.astype(lower.dtype, copy=False)
    result = np.zeros(n)
    for inside in blocks(n, SQUARED):
        below = slice(inside.start, n)
        block = np.square(lower[below, inside])
        np.fill_diagonal(block, 0.0)
        result[below] += block @ short[inside]
        result[inside] += block.T @ short[below]
    return result


def cholesky(matrix: Array, *, overwrite: bool = False, is_lower: bool = False) -> Array:
    """Return the lower Cholesky factor of a symmetric positive-definite matrix ``(n, n)``, in place of it if allowed.

    Only the lower triangle is read; ``is_lower`` says that there are zeros above it already.

    Raises
    ------
    NotPositiveDefiniteError
        If the matrix is not positive definite; nothing is added to its diagonal to make it so.
    """
    factor, info = lapack_routine("potrf", matrix)(matrix, lower=1, clean=not is_lower, overwrite_a=overwrite)
    if info != 0:
        raise NotPositiveDefiniteError(
            f"a {matrix.shape[0]} x {matrix.shape[0]} matrix that must be positive definite is not "
            f"(its leading minor of order {info} is not positive)"
        )
    return np.asarray(factor)


def triangular_inverse(lower: Array, *, overwrite: bool = False) -> Array:
    """Return the inverse ``(n, n)`` of a lower triangular matrix with a positive diagonal, in place of it if allowed.

    By halves, so that nearly all of the work is products of matrices, at which BLAS is best: half to five sixths of the
    time of LAPACK's own, which inverts the small blocks.
    """
    inverse = lower if overwrite else lower.copy(order="F")
    _invert_triangle(inverse)
    return inverse


def _invert_triangle(matrix: Array) -> None:
    n = matrix.shape[0]
    if n == 0:  # which LAPACK complains about
        return
    if n <= SMALL_TRIANGLE:
        matrix[:], info = lapack_routine("trtri", matrix)(matrix, lower=1)
        if info != 0:
            raise NotPositiveDefiniteError(f"triangular factor has a zero at position {info} of its diagonal")
        return
    first, second = slice(0, n // 2), slice(n // 2, n)
    _invert_triangle(matrix[first, first])
    _invert_triangle(matrix[second, second])
    multiply = blas_routine("trmm", matrix)
    product = multiply(-1.0, matrix[first, first], matrix[second, first], side=1, lower=1)
    matrix[second, first] = multiply(1.0, matrix[second, second], product, lower=1, overwrite_b=1)


def symmetric(lower: Array) -> Array:
    """Return the symmetric matrix with a lower triangle that has zeros above it."""
    result = lower + lower.T
    result.ravel(order="K")[:: lower.shape[0] + 1] *= 0.5
    return np.asarray(result)


def gram_of_lower(lower: Array) -> Array:
    """Return the lower triangle ``(n, n)`` of T'T for a lower triangular T, in place of it; zeros are above it."""
    return np.asarray(lapack_routine("lauum", lower)(lower, lower=1, overwrite_c=1)[0])


def psd_root(matrix: Array) -> Array:
    """Return ``A (n, r)`` with ``A @ A.T`` equal to a positive semi-definite matrix, by pivoted Cholesky.

    The rank r is where the largest remaining diagonal element falls below ``n * eps * max(diagonal)``,
    LAPACK's own threshold; what is left out is of the order of rounding in the matrix itself.
    """
    return pivoted_root(matrix, -1.0)[0]


def pivoted_root(matrix: Array, threshold: float) -> tuple[Array, NDArray[np.intp]]:
    """Return ``A (n, r)`` with ``A @ A.T`` near a positive semi-definite matrix, and the r rows it took in turn.

    The rank is where the largest diagonal element of the rest is at most ``threshold``; if that is negative, LAPACK's
    own, ``n * eps * max(diagonal)``. The rows of A that were taken are a lower triangular matrix.
    """
    factor, pivots, rank, _ = lapack.dpstrf(matrix, tol=threshold, lower=1)
    root = np.zeros((matrix.shape[0], rank))
    root[pivots - 1] = np.tril(factor[:, :rank])
    return root, np.asarray(pivots[:rank] - 1, dtype=np.intp)


def is_positive_semidefinite(gram: Array) -> bool:
    """Tell whether the smallest eigenvalue exceeds ``-PSD_TOLERANCE * max(diagonal)``."""
    scale = float(gram.diagonal().max(initial=0.0))
    shifted = gram.copy(order="F")
    shifted.ravel(order="K")[:: gram.shape[0] + 1] += PSD_TOLERANCE * (scale if scale > 0 else 1.0)
    return bool(lapack.dpotrf(shifted, lower=1, clean=0, overwrite_a=1)[1] == 0)
