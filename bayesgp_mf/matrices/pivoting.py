"""The root of a Gram matrix of low rank by pivoted Cholesky, which asks for the columns of its pivots only."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.factors import PSD_TOLERANCE, cholesky, triangular_inverse
from bayesgp_mf.matrices.low_rank import LowRankGram
from bayesgp_mf.types import Array

Rows: TypeAlias = NDArray[np.intp] | slice
Entries: TypeAlias = Callable[[Rows, NDArray[np.intp]], Array]
"""Returns K[rows, columns]."""

PANEL = 64
"""Columns of a triangular system that are solved for at once."""
ROUNDING = 100 * float(np.finfo(np.float64).eps)
"""What is left of a variance counts as rounding below this part of the largest."""
LOOSE = 8.0
"""Largest rest that is left at first, in units of the average that may be left; most are well below the largest."""
UNEXPLAINED = 3.0
"""What is left of a diagonal may differ by so much more than rounding from what is left of the columns there."""
CANDIDATES = 1000
"""Cases among which pivots are looked for at once."""
PROBED = 400
"""Cases at which it is looked whether the largest rank may still be enough."""
CLEARLY = 0.1
"""Share of the trace that must be out of reach of the columns that are still to come; the rest is for chance."""


def pivoted_cholesky(
    entries: Entries, diagonal: Array, tolerance: float, most: int, first: NDArray[np.intp] | None = None
) -> LowRankGram | None:
    """Return a Gram matrix in low-rank form, or None if there is none with at most ``most`` columns.

    Parameters
    ----------
    entries : callable
        Returns K[rows, columns]; it is asked for the columns of pivots, and for small blocks.
    diagonal : (n,) array
        K_ii.
    tolerance : float
        Trace that may be left out. Where no diagonal element of the rest exceeds 100 eps times the largest of K, it is
        rounding, and left out too.
    most : int
        Largest rank.
    first : (k,) array of int, optional
        Cases among which to look for pivots first, such as those of a kernel nearby.

    Notes
    -----
    Pivots are looked for among a part of the cases, by LAPACK's pivoted Cholesky of what is left of their block; then
    all cases are updated at once, and those with the largest rest are the next part. O(n r^2) time, O(n r) memory.

    There is none, too, where columns do not explain the diagonal: where it has noise in it that they have not. The
    search ends early where what is left is clearly too much for the columns that are still to come.
    """
    n = diagonal.size
    rounding = ROUNDING * float(np.max(diagonal, initial=0.0))
    smallest = max(LOOSE * tolerance / n, rounding)
    size = min(CANDIDATES, n)
    candidates = np.linspace(0, n - 1, size).astype(np.intp) if first is None else first
    root, rest = np.empty((n, 0)), diagonal.copy()
    pivots: NDArray[np.intp] = np.empty(0, dtype=np.intp)
    by_rest = False  # whether the candidates are those of which most is left
    probe, allowed = _probe(n), max(tolerance, n * rounding)
    while rest.sum() > tolerance and rest.max() > rounding:
        chosen, factor, left = _pivots_among(candidates, entries, root, smallest)
        if np.any(rest[candidates] - left > max(0.5 * smallest, UNEXPLAINED * rounding)):
            return None  # noise that no column has
        if by_rest and not chosen.size:
            if smallest <= rounding:
                break  # what is left is rounding, though by a little more
            smallest = max(smallest / LOOSE, rounding)
            continue
        if pivots.size + chosen.size > most:
            return None
        if n > CANDIDATES:  # else all there is to do is done soon
            known, new = root[probe], _columns(entries, chosen, factor, root, probe)
            rest_there = entries(probe, probe) - known @ known.T - new @ new.T
            if _out_of_reach(rest_there, n, most - pivots.size - chosen.size, allowed):
                return None
        if first is None and not pivots.size and 2 * chosen.size > size and size < n:  # too few to choose among
            size = min(2 * size, n)
            candidates = np.linspace(0, n - 1, size).astype(np.intp)
            continue
        added = _columns(entries, chosen, factor, root)
        rest = _less(rest, added, diagonal.max())
        root = np.concatenate([root, added], axis=1) if pivots.size else added
        pivots = np.concatenate([pivots, chosen])
        candidates, by_rest = np.argpartition(rest, -size)[-size:], True
        if rest[candidates].max() <= smallest:  # but together they are more than may be left out
            smallest = max(smallest / LOOSE, rounding)
        candidates = candidates[rest[candidates] > smallest]
    return LowRankGram(root, pivots, float(rest.sum()))


def at_pivots(entries: Entries, diagonal: Array, pivots: NDArray[np.intp]) -> LowRankGram:
    """Return the Gram matrix in low-rank form that has given pivots.

    Raises
    ------
    NotPositiveDefiniteError
        If the block of the pivots has no Cholesky factor.
    """
    root = _columns(entries, pivots, cholesky(np.asfortranarray(entries(pivots, pivots))), np.empty((diagonal.size, 0)))
    return LowRankGram(root, pivots, float(_less(diagonal, root, diagonal.max()).sum()))


def _less(diagonal: Array, columns: Array, largest: float) -> Array:
    """Return what the columns of a root leave of a diagonal ``(n,)``; below zero there is only rounding of K."""
    rest = diagonal - np.einsum("ij,ij->i", columns, columns)
    if np.any(rest < -PSD_TOLERANCE * largest):
        raise NotPositiveDefiniteError(
            f"the Gram matrix must be positive semi-definite, but {float(np.min(rest)):.3g} is left of the variance of "
            f"case {int(np.argmin(rest))} given others. It is no covariance matrix; check the kernel that made it."
        )
    return np.asarray(np.maximum(rest, 0.0))


def _pivots_among(
    candidates: NDArray[np.intp], entries: Entries, root: Array, smallest: float
) -> tuple[NDArray[np.intp], Array, Array]:
    """Return those of some cases that make good pivots, the factor of what is left of their block, and its diagonal."""
    known = root[candidates]
    block = np.asfortranarray(entries(candidates, candidates) - known @ known.T)
    left = np.diagonal(block).copy()
    factor, order, rank, _ = lapack.dpstrf(block, lower=1, tol=smallest, overwrite_a=1)
    return candidates[order[:rank] - 1], np.tril(factor[:rank, :rank]), left


def _probe(n: int) -> NDArray[np.intp]:
    """Return some cases, always the same, at random: those at equal distances are the first candidates."""
    return np.random.default_rng(0).choice(n, min(PROBED, n), replace=False)


def _out_of_reach(rest: Array, n: int, columns: int, allowed: float) -> bool:
    """Tell whether no further ``columns`` can bring the trace of the rest of K ``(n, n)`` down to what is ``allowed``.

    Whatever they are, they take as many eigenvalues from the trace at most, and the sum of k of them is not above
    sqrt(k) times the root of the sum of all their squares. Both sums are those of the ``rest`` at some cases
    ``(m, m)``, with the shares that its diagonal and other entries have in the whole.
    """
    share, diagonal = n / rest.shape[0], np.diagonal(rest)
    own = float(diagonal @ diagonal)
    trace, squares = share * float(np.sum(diagonal)), share * own + share**2 * (float(np.sum(rest**2)) - own)
    return bool(trace - np.sqrt(columns * squares) > max(allowed, CLEARLY * trace))


def _columns(
    entries: Entries, pivots: NDArray[np.intp], factor: Array, root: Array, which: NDArray[np.intp] | None = None
) -> Array:
    """Return the columns ``(n, k)`` of a root that new pivots add to the ``root (n, r)`` so far; or rows of them."""
    n = root.shape[0] if which is None else which.size
    added, known = np.empty((n, pivots.size)), root[pivots]
    for block in blocks(n):
        rows = block if which is None else which[block]
        columns = entries(rows, pivots)
        if known.size:
            columns = columns - root[rows] @ known.T
        _substitute(factor, columns, added[block])
    return added


def _substitute(factor: Array, right: Array, result: Array) -> None:
    """Put the solution x ``(k, r)`` of x C' = b into ``result``, for a lower triangular C ``(r, r)`` and b ``(k, r)``.

    In steps of some columns, whose triangles are inverted, so that nearly all of the work is products of matrices.
    """
    for panel in blocks(factor.shape[0], PANEL):
        done = slice(panel.start)
        rest = right[:, panel] - result[:, done] @ factor[panel, done].T if panel.start else right[:, panel]
        np.matmul(rest, triangular_inverse(factor[panel, panel]).T, out=result[:, panel])
