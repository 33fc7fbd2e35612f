r"""Gram matrices of low rank: a pivoted Cholesky root, and the correction R of sites on it, at O(n r^2).

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

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.linalg import PSD_TOLERANCE, SiteCorrection, cholesky, triangular_inverse
from bayesgp_mf.types import Array

Rows: TypeAlias = NDArray[np.intp] | slice
Entries: TypeAlias = Callable[[Rows, NDArray[np.intp]], Array]
"""Returns K[rows, columns]."""

BLOCK = 1024
"""Rows of a root that are worked on at once, so that they stay in the processor's cache."""
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


@dataclass(frozen=True, eq=False)
class LowRankGram:
    """A Gram matrix ``(n, n)`` known by a root: it stands where the dense matrix stands.

    Attributes
    ----------
    root : (n, r) array
        L, with K = L L'.
    pivots : (r,) array of int
        The cases whose columns it was made from, in the order in which L is triangular.
    left_out : float
        Trace of what was left out of the matrix that the kernel gives, in squared latent units.
    """

    root: Array
    pivots: NDArray[np.intp]
    left_out: float

    __array_ufunc__: ClassVar[None] = None  # so that ``vector @ gram`` comes here

    @property
    def shape(self) -> tuple[int, int]:
        """That of the dense matrix."""
        return int(self.root.shape[0]), int(self.root.shape[0])

    @property
    def rank(self) -> int:
        """Columns of the root, r."""
        return int(self.root.shape[1])

    @cached_property
    def pivot_factor(self) -> Array:
        """Lower Cholesky factor ``(r, r)`` of the block of the pivots."""
        return np.tril(self.root[self.pivots])

    @cached_property
    def _diagonal(self) -> Array:
        return np.asarray(np.einsum("ij,ij->i", self.root, self.root))

    def diagonal(self) -> Array:
        """Return K_ii ``(n,)``."""
        return self._diagonal

    def __matmul__(self, other: Array) -> Array:
        return np.asarray(self.root @ (self.root.T @ other))

    def __rmatmul__(self, other: Array) -> Array:
        return np.asarray((other @ self.root) @ self.root.T)

    def __getitem__(self, rows: NDArray[np.intp]) -> Array:
        return np.asarray(self.root[rows] @ self.root.T)

    def features(self, pivot_cross: Array) -> Array:
        """Return phi ``(r, m)`` of new cases, so that their covariances with the old ones are ``root @ phi``.

        Parameters
        ----------
        pivot_cross : (r, m) array
            Covariances between the pivots and the new cases.
        """
        return np.asarray(blas.dtrsm(1.0, self.pivot_factor, pivot_cross, lower=1))

    @cached_property
    def _left_out_after(self) -> Array:
        """Trace ``(r + 1,)`` of what the first columns of the root, none to all, leave out of all of them."""
        columns = np.einsum("ij,ij->j", self.root, self.root)
        return np.append(np.cumsum(columns[::-1])[::-1], 0.0)

    def leading_rank(self, left_out: float) -> int:
        """Return how few of the first columns of the root, but at least one, leave out at most a trace ``left_out``."""
        return max(1, int(np.argmax(self._left_out_after <= left_out)))

    def leading(self, rank: int) -> LowRankGram:
        """Return the Gram matrix of the first columns of the root."""
        left_out = self.left_out + float(self._left_out_after[rank])
        return LowRankGram(np.ascontiguousarray(self.root[:, :rank]), self.pivots[:rank], left_out)

    def dense(self) -> Array:
        """Return K ``(n, n)``, exactly symmetric."""
        return symmetric(np.asarray(blas.dsyrk(1.0, self.root.T, trans=1, lower=1)))


Gram: TypeAlias = Array | LowRankGram
"""A Gram matrix of either form. Both have ``shape``, ``diagonal()``, ``@`` and rows by number."""


@dataclass(frozen=True, eq=False)
class RootGradient:
    r"""The derivative G of a number with respect to a Gram matrix of low rank, as far as it can be felt: G L.

    For fixed pivots p, :math:`K = K_{np} K_{pp}^{-1} K_{pn}` changes with :math:`B = K_{pp}^{-1} K_{pn}` by

    .. math:: dK = dK_{np}\, B + B^T dK_{pn} - B^T dK_{pp}\, B,

    so that :math:`\operatorname{tr}(G\, dK)` is the sum over all entries of :math:`2 G B^T \odot dK_{np}`, less that of
    :math:`B G B^T \odot dK_{pp}`. With L_p the rows of the pivots, :math:`B^T = L L_p^{-1}`.

    Every G here is such that :math:`G L = U V^T + D L M` with few columns in U and V and a diagonal D.

    Attributes
    ----------
    gram : LowRankGram
        K.
    left, right : (n, k) and (r, k) array
        U and V.
    scale : (n,) array
        The diagonal of D.
    middle : (r, r) array
        M.
    inner : (r, r) array
        L' D L.
    """

    gram: LowRankGram
    left: Array
    right: Array
    scale: Array
    middle: Array
    inner: Array

    def times_root(self) -> Array:
        """Return G L ``(n, r)``."""
        return self._times_root(np.eye(self.gram.rank))

    def _times_root(self, after: Array) -> Array:
        result = self.gram.root @ (self.middle @ after)
        result *= self.scale[:, None]
        result += self.left @ (self.right.T @ after)
        return np.asarray(result)

    def columns(self) -> Array:
        """Return the derivative ``(n, r)`` with respect to the columns of the pivots, their own rows among them."""
        inverse = triangular_inverse(self.gram.pivot_factor)
        result = self._times_root(inverse)
        result *= 2.0
        both_sides = (self.gram.root.T @ self.left) @ self.right.T + self.inner @ self.middle  # L' G L
        result[self.gram.pivots] -= inverse.T @ both_sides @ inverse
        return result


GramGradient: TypeAlias = Array | RootGradient
"""The derivative of a number with respect to a Gram matrix of either form."""


def dense_gram(gram: Gram) -> Array:
    """Return a Gram matrix ``(n, n)`` as an array."""
    return gram.dense() if isinstance(gram, LowRankGram) else gram


def rank_of(gram: Gram) -> int | None:
    """Return the rank of a Gram matrix in low-rank form, None for a dense one."""
    return gram.rank if isinstance(gram, LowRankGram) else None


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

    There is none, too, where columns do not explain the diagonal: where it has noise in it that they have not.
    """
    n = diagonal.size
    rounding = ROUNDING * float(np.max(diagonal, initial=0.0))
    smallest = max(LOOSE * tolerance / n, rounding)
    size = min(CANDIDATES, n)
    candidates = np.linspace(0, n - 1, size).astype(np.intp) if first is None else first
    root, rest = np.empty((n, 0)), diagonal.copy()
    pivots: NDArray[np.intp] = np.empty(0, dtype=np.intp)
    by_rest = False  # whether the candidates are those of which most is left
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


def _columns(entries: Entries, pivots: NDArray[np.intp], factor: Array, root: Array) -> Array:
    """Return the columns ``(n, k)`` of a root that new pivots add to the ``root (n, r)`` so far."""
    added, known = np.empty((root.shape[0], pivots.size)), root[pivots]
    for block in row_blocks(root.shape[0]):
        columns = entries(block, pivots)
        if known.size:
            columns = columns - root[block] @ known.T
        _substitute(factor, columns, added[block])
    return added


def _substitute(factor: Array, right: Array, result: Array) -> None:
    """Put the solution x ``(k, r)`` of x C' = b into ``result``, for a lower triangular C ``(r, r)`` and b ``(k, r)``.

    In steps of some columns, whose triangles are inverted, so that nearly all of the work is products of matrices.
    """
    for start in range(0, factor.shape[0], PANEL):
        panel = slice(start, start + PANEL)
        rest = right[:, panel] - result[:, :start] @ factor[panel, :start].T if start else right[:, panel]
        np.matmul(rest, triangular_inverse(factor[panel, panel]).T, out=result[:, panel])


def row_blocks(n: int) -> Iterator[slice]:
    """Return slices of `BLOCK` rows that make up all ``n``."""
    return (slice(start, start + BLOCK) for start in range(0, n, BLOCK))


def weighted_square(root: Array, weights: Array) -> Array:
    """Return the lower triangle of L' D L ``(r, r)`` for a root ``(n, r)`` and weights ``(n,)`` of any sign."""
    result = np.zeros((root.shape[1], root.shape[1]), order="F")
    for sign in (1.0, -1.0):
        if np.any(sign * weights > 0):
            scale = np.sqrt(np.maximum(sign * weights, 0.0))
            for block in row_blocks(scale.size):
                scaled = (root[block] * scale[block, None]).T
                result = blas.dsyrk(sign, scaled, beta=1.0, c=result, lower=1, overwrite_c=1)
    return result


def symmetric(lower: Array) -> Array:
    """Return the symmetric matrix with a lower triangle that has zeros above it."""
    result = lower + lower.T
    np.fill_diagonal(result, lower.diagonal())
    return np.asarray(result)


class LowRankCorrection:
    r"""``R = (K + Omega)^{-1}`` of sites on a Gram matrix K = L L' of low rank.

    The prior is that of f = L w with r independent standard normal weights w, whose posterior precision is A,

    .. math:: A = I + L^T W L, \qquad \Sigma = L A^{-1} L^T, \qquad R = W - W \Sigma W, \qquad
              \log\det(I + K W) = \log\det A.

    Sites may be negative; A has a Cholesky factor exactly when they leave a posterior.

    Parameters
    ----------
    gram : LowRankGram
        Gram matrix K.
    site_precision : (n,) array
        W = 1/omega, in latent units to the power -2; finite, of any sign.

    Raises
    ------
    NotPositiveDefiniteError
        When the factor is first needed, if the sites leave no positive-definite posterior covariance.
    """

    def __init__(self, gram: LowRankGram, site_precision: Array) -> None:
        self.gram = gram
        self.site_precision = site_precision

    @cached_property
    def _factor(self) -> Array:
        """Cholesky factor of A."""
        precision = weighted_square(self.gram.root, self.site_precision)
        precision.ravel(order="K")[:: self.gram.rank + 1] += 1.0
        if not np.all(np.isfinite(precision)):
            raise NotPositiveDefiniteError("the sites are too strong to be added up")
        return cholesky(precision, overwrite=True)

    @cached_property
    def inverse_factor(self) -> Array:
        """Lower triangular T ``(r, r)`` with T'T = A^-1, the posterior covariance of the weights w."""
        return triangular_inverse(self._factor)

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        return 2.0 * float(np.sum(np.log(np.diag(self._factor))))

    @cached_property
    def _covariance_diagonal(self) -> Array:
        result = np.empty(self.site_precision.size)
        for block in row_blocks(result.size):
            projected = blas.dtrmm(1.0, self.inverse_factor, self.gram.root[block].T, lower=1)
            result[block] = np.einsum("ij,ij->j", projected, projected)
        return result

    def covariance_diagonal(self) -> Array:
        """Return the posterior variances ``(n,)`` under all sites, Sigma_ii."""
        return self._covariance_diagonal

    def leading_covariance_root(self, rank: int) -> Array:
        """Return F ``(n, k)`` with F F' the posterior covariance if only the first k columns of the root were there."""
        inverse = np.asfortranarray(self.inverse_factor[:rank, :rank])  # of the leading block of A
        result = np.empty((self.site_precision.size, rank))
        for block in row_blocks(result.shape[0]):
            result[block] = blas.dtrmm(1.0, inverse, self.gram.root[block, :rank].T, lower=1).T
        return result

    def covariance_times(self, vectors: Array) -> Array:
        """Return Sigma times ``vectors``, ``(n,)`` or ``(n, m)``."""
        inner = self.gram.root.T @ vectors
        return np.asarray(self.gram.root @ lapack.dpotrs(self._factor, inner, lower=1)[0])

    def weights(self, shift: Array) -> Array:
        """Return the weights ``alpha (n,)`` under sites with shifts ``b (n,)``: those of alpha + W K alpha = b."""
        return np.asarray(shift - self.site_precision * self.covariance_times(shift))

    def multiply(self, vector: Array) -> Array:
        """Return ``R @ vector`` for ``vector (n,)``."""
        return self.weights(self.site_precision * vector)

    def gradient(self, left: Array, right: Array) -> RootGradient:
        """Return the derivative of which G L = left @ right' - R L / 2, for ``left (n, k)`` and ``right (r, k)``."""
        inverse = self.inverse_factor.T @ self.inverse_factor
        inner = self._factor @ self._factor.T  # A = I + L'WL
        inner.ravel()[:: self.gram.rank + 1] -= 1.0
        # R L = W L A^-1
        return RootGradient(self.gram, left, right, -0.5 * self.site_precision, inverse, -0.5 * inner)

    def quadratic(self, cross: Array) -> Array:
        """Return ``cross.T @ R @ cross``, ``(m, m)``."""
        weighted = self.site_precision[:, None] * cross
        projected = self.inverse_factor @ (self.gram.root.T @ weighted)
        return np.asarray(cross.T @ weighted - projected.T @ projected)

    def quadratic_diagonal(self, cross: Array) -> Array:
        """Return the diagonal ``(m,)`` of ``cross.T @ R @ cross``."""
        weighted = self.site_precision[:, None] * cross
        projected = self.inverse_factor @ (self.gram.root.T @ weighted)
        return np.asarray(np.einsum("ij,ij->j", cross, weighted) - np.einsum("ij,ij->j", projected, projected))

    def feature_quadratic(self, features: Array) -> Array:
        """Return ``cross.T @ R @ cross (m, m)`` for cross = L phi, from `LowRankGram.features` phi ``(r, m)``."""
        projected = self.inverse_factor @ features
        return np.asarray(features.T @ features - projected.T @ projected)

    def feature_quadratic_diagonal(self, features: Array) -> Array:
        """Return the diagonal ``(m,)`` of `feature_quadratic`, in O(r^2) for each new case."""
        projected = self.inverse_factor @ features
        return np.asarray(np.einsum("ij,ij->j", features, features) - np.einsum("ij,ij->j", projected, projected))

    def diagonal(self) -> Array:
        """Return ``R_ii (n,)``."""
        return np.asarray(self.site_precision * (1.0 - self.site_precision * self._covariance_diagonal))

    def cavity_variance(self) -> Array:
        r"""Return the variance ``(n,)`` of each latent value with its own site taken out (2000, eq. 28).

        .. math:: \lambda_i = \Sigma_{ii} / (1 - W_i \Sigma_{ii})

        A result that is not positive means that the sites are not those of a valid approximation.
        """
        if not self.site_precision.any():
            return self.gram.diagonal().copy()
        sigma = self._covariance_diagonal
        return np.asarray(sigma / (1.0 - self.site_precision * sigma))

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of R with the given numbers ``(k,)``."""
        solved = lapack.dpotrs(self._factor, self.gram.root[which].T, lower=1)[0]
        result = -(self.site_precision[which, None] * (solved.T @ self.gram.root.T) * self.site_precision)
        result[np.arange(which.size), which] += self.site_precision[which]
        return np.asarray(result)

    def dense(self) -> Array:
        """Return ``R (n, n)``."""
        return self.rows(np.arange(self.site_precision.size))


Sites: TypeAlias = SiteCorrection | LowRankCorrection
"""A correction by sites, on a Gram matrix of either form."""


def site_correction(gram: Gram, site_precision: Array) -> Sites:
    """Return the correction R of sites ``(n,)`` on a Gram matrix of either form."""
    if isinstance(gram, LowRankGram):
        return LowRankCorrection(gram, site_precision)
    return SiteCorrection(gram, site_precision)
