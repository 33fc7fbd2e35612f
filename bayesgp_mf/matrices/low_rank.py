r"""Gram matrices of low rank: a pivoted Cholesky root.

Smooth kernels in few dimensions, and linear ones, have Gram matrices :math:`K = L L^T + E` with L ``(n, r)``, r far
below n, and a positive semi-definite rest E of small trace. L is the Cholesky factor whose pivots are r of the cases:
their values are exact, and those of the others what these predict, :math:`K_{np} K_{pp}^{-1} K_{pn}`. All that is
needed of K are its diagonal and the columns of the pivots.

What is left out moves a log evidence whose derivative in K is G by tr(G E) (to first order, and exactly with G taken
somewhere between the two). For TAP and for Laplace's method at a fixed mode :math:`2 G = \alpha \alpha^T - R`, and with
site precisions W of at most :math:`W_{max}`, R is no larger than W, so that

.. math:: -\tfrac12 W_{max} \operatorname{tr} E \;\le\; \operatorname{tr}(G E) \;\le\; \tfrac12 \alpha^T E \alpha.

The lower bound is one of the trace alone. The upper one is near :math:`\tfrac12 \overline{\alpha^2}
\operatorname{tr} E` where the weights, which are residuals of single cases, owe nothing to the directions of E; the
average of :math:`\alpha^2` is of the order of W. So a trace of 2 accuracy / curvature keeps the log evidence to the
accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.factors import PSD_TOLERANCE, blocks, cholesky, triangular_inverse
from bayesgp_mf.matrices.root import RootGradient
from bayesgp_mf.matrices.root_gram import RootGram
from bayesgp_mf.types import Array

Rows: TypeAlias = NDArray[np.intp] | slice
Entries: TypeAlias = Callable[[Rows, NDArray[np.intp]], Array]
"""Returns K[rows, columns]."""

SMALL = 2**20
"""Numbers in all products of two columns, n r^2, up to which leaving out columns saves no time."""
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


@dataclass(frozen=True, eq=False)
class LowRankGram(RootGram):
    """A Gram matrix ``(n, n)`` known by a root: it stands where the dense matrix stands.

    Attributes
    ----------
    root : Root
        L ``(n, r)``, with K = L L'.
    pivots : (r,) array of int
        The cases whose columns it was made from, in the order in which L is triangular.
    left_out : float
        Trace of what was left out of the matrix that the kernel gives, in squared latent units.
    """

    root: Any = field()  # each matrix has one, which is no default here
    pivots: NDArray[np.intp] = field()
    left_out: float

    form = "low_rank"

    @property
    def numbers(self) -> Any:
        """The root, which is all that there is of K."""
        return self.root

    @property
    def description(self) -> str:
        """What it is, to be said of a failure."""
        return f" on a root of rank {self.rank}; Control(gram='dense') keeps the whole matrix"

    @cached_property
    def factor(self) -> Array:
        """Lower Cholesky factor ``(r, r)`` of the block of the pivots."""
        return np.tril(self.root[self.pivots])

    @cached_property
    def _diagonal(self) -> Array:
        return np.asarray(np.einsum("ij,ij->i", self.root, self.root))

    def diagonal(self) -> Array:
        """Return K_ii ``(n,)``."""
        return self._diagonal

    def some_of_product(self, which: NDArray[np.intp], vector: Array) -> Array:
        """Return the entries with the given numbers ``(k,)`` of K v."""
        return np.asarray(self.root[which] @ (self.root.T @ vector))

    def basis(self, X: Array) -> tuple[Array, Array]:
        """Return the inputs of the pivots, and their factor: the features of a case are L^-1 k(P, x)."""
        return X[self.pivots], self.factor

    def stored(self, alpha: Array, correction: Any) -> dict[str, NDArray[Any]]:
        """Return the pivots."""
        return {"pivot": self.pivots.astype(np.int64)}

    def pull_back(self, gradient: RootGradient, kernel: Any, X: Array) -> dict[str, Array]:
        """Return the derivatives in the parameters of the kernel from that in K."""
        return dict(kernel.cross_vjp(X, X[self.pivots], gradient.columns()))

    @cached_property
    def _left_out_after(self) -> Array:
        """Trace ``(r + 1,)`` of what the first columns of the root, none to all, leave out of all of them."""
        columns = np.einsum("ij,ij->j", self.root, self.root)
        return np.append(np.cumsum(columns[::-1])[::-1], 0.0)

    def leading_rank(self, left_out: float) -> int:
        """Return how few of the first columns of the root, but at least one, leave out at most a trace ``left_out``."""
        return max(1, int(np.argmax(self._left_out_after <= left_out)))

    def columns_of_a_step(self, left_out: Callable[[], float]) -> int:
        """Return how many columns a rough step needs if the others may leave out a trace; all if fewer save nothing."""
        return self.rank if self.shape[0] * self.rank**2 <= SMALL else self.leading_rank(left_out())

    def leading(self, rank: int) -> LowRankGram:
        """Return the Gram matrix of the first columns of the root."""
        left_out = self.left_out + float(self._left_out_after[rank])
        return LowRankGram(np.ascontiguousarray(self.root[:, :rank]), self.pivots[:rank], left_out)

    def coarser(self, left_out: Callable[[], float], most: float, *, started: bool) -> LowRankGram | None:
        """Return the matrix of so few first columns that the others leave out at most a trace, or None.

        Parameters
        ----------
        left_out : callable
            Returns that trace.
        most : float
            The largest part of all columns that is fewer.
        """
        rank = self.columns_of_a_step(left_out)
        return None if rank >= most * self.rank else self.leading(rank)


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
    probe = np.random.default_rng(0).choice(n, min(PROBED, n), replace=False)  # the first candidates, at random
    allowed = max(tolerance, n * rounding)
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
