"""A Gram matrix with all of its entries."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices import factors
from bayesgp_mf.matrices.inducing import InducingGram, from_columns
from bayesgp_mf.matrices.low_rank import LowRankGram
from bayesgp_mf.matrices.matrix import Matrix, Sites
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.types import Array

LEAST = 1000
"""Cases from which on a start is found on some of them ..."""
PART = 20
"""... this part of all."""
CLEARLY = 0.8
"""Part of the columns that are allowed, above which as many cases leave too few for the others."""
ROUNDING = 10 * float(np.finfo(np.float64).eps)
"""Part of the largest variance below which pivots are made of rounding."""


@dataclass(frozen=True, eq=False)
class DenseGram(Matrix):
    """A Gram matrix ``(n, n)`` with all of its entries; of several classes also ``(C, n, n)``, one for each.

    Attributes
    ----------
    entries : (n, n) array
        K. In single precision (float32) all work of the order of n^3 on it is too, at half its time.
    """

    entries: Array

    form = "dense"
    is_whole = True
    factor_is_cheap = False

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the array."""
        return self.entries.shape

    def diagonal(self) -> Array:
        """Return K_ii ``(n,)``, of several classes ``(C, n)`` where each has its own."""
        return self.entries.diagonal(axis1=-2, axis2=-1)

    def __matmul__(self, vector: Array) -> Array:
        return factors.times(self.entries, vector)

    def some_of_product(self, which: NDArray[np.intp], vector: Array) -> Array:
        """Return the entries with the given numbers ``(k,)`` of K v."""
        return np.asarray(self.entries[which] @ vector)

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of K with the given numbers ``(k,)``."""
        return self.entries[which]

    def dense(self) -> Array:
        """Return K."""
        return self.entries

    def in_root_form(self) -> LowRankGram:
        """Return the same on a root, of correlations: no small variance beside larger ones is taken for rounding."""
        sd = np.sqrt(self.diagonal())
        unit = np.where(sd > 0, sd, 1.0)
        root, pivots = factors.pivoted_root(self.entries / unit[:, None] / unit, -1.0)
        if not pivots.size:  # all zero: LAPACK takes no triangle without rows
            root, pivots = np.zeros((sd.size, 1)), np.zeros(1, dtype=np.intp)
        return LowRankGram(root * sd[:, None], pivots, 0.0)

    def on_root(self, left_out: float, most: int) -> LowRankGram | None:
        """Return the same on a root of at most ``most`` columns that leaves out at most a trace, or None.

        None, too, where rounding of the entries is more than that, and where more is left beside the diagonal than on
        it: then this is no covariance.
        """
        n, threshold = self.entries.shape[-1], left_out / self.entries.shape[-1]
        if threshold < ROUNDING * float(np.max(self.diagonal())):
            return None
        some = np.linspace(0, n - 1, most + 1).astype(np.intp)  # a rough kernel needs all of them, and more of the rest
        if factors.pivoted_root(self.entries[np.ix_(some, some)], threshold)[1].size > CLEARLY * most:
            return None
        root, pivots = factors.pivoted_root(self.entries, threshold)
        if not 0 < pivots.size <= most:
            return None
        rest = self.diagonal() - np.einsum("ij,ij->i", root, root)
        probe = np.random.default_rng(0).standard_normal(n)
        unexplained = self.entries @ probe - root @ (root.T @ probe)  # |E_ij| is at most the root of E_ii E_jj
        if np.any(rest < -threshold) or np.any(np.abs(unexplained) > threshold * np.sum(np.abs(probe))):
            return None
        return LowRankGram(root, pivots, float(np.sum(np.maximum(rest, 0.0))))

    def sites(self, precision: Array) -> SiteCorrection:
        """Return the correction of sites ``(n,)``."""
        return SiteCorrection(self.entries, precision)

    def in_single_precision(self) -> DenseGram:
        """Return the same in single precision."""
        return DenseGram(self.entries.astype(np.float32))

    def coarser(self, left_out: Callable[[], float], most: float, *, started: bool) -> InducingGram | None:
        """Return the matrix on some of its cases, always the same at random; None where the whole is soon solved."""
        n = self.entries.shape[-1]
        if started or n < LEAST:
            return None
        try:
            return from_columns(self.entries, np.random.default_rng(0).choice(n, n // PART, replace=False))
        except NotPositiveDefiniteError:  # the matrix is singular up to rounding
            return None

    def field_of_others(self, alpha: Array, variance: Array, sites: Sites) -> Array:
        """Return f_i - lambda_i alpha_i ``(n,)`` at cavity variances lambda, and keep its sign."""
        return field_of_others(self.entries, alpha, shrinkage(self.entries, variance, sites.diagonal(), sites.rows))

    def solve_scaled(self, root: Array, own: Array, right: Array) -> Array:
        """Return y ``(n,)`` with (diag(own) + S K S) y = right, for S = diag(root)."""
        matrix = root[:, None] * self.entries * root
        matrix.ravel()[:: right.size + 1] += own
        half_inverse = factors.triangular_inverse(factors.cholesky(matrix))
        return np.asarray(half_inverse.T @ (half_inverse @ right))


def shrinkage(gram: Array, variance: Array, diagonal: Array, rows: Callable[[NDArray[np.intp]], Array]) -> Array:
    r"""Return by how much the other cases shrink the variance of each, ``K_ii - lambda_i (n,)``, to full accuracy.

    Where they hardly do, as for a kernel of very short range, the difference would be nothing but rounding; there it is

    .. math:: -\sum_{j \ne i} K_{ij} R_{ji} / R_{ii}.

    Parameters
    ----------
    gram : (n, n) array
        K.
    variance : (n,) array
        The cavity variances lambda.
    diagonal : (n,) array
        That of R = (K + Omega)^-1.
    rows : callable
        Returns some of its rows ``(k, n)``, by their numbers ``(k,)``.
    """
    result = np.asarray(np.diag(gram) - variance)
    (little,) = np.nonzero((variance > 0.5 * np.diag(gram)) & (diagonal > 0))
    if little.size:
        others = gram[little]
        others[np.arange(little.size), little] = 0.0
        result[little] = -np.einsum("ij,ij->i", others, rows(little)) / diagonal[little]
    return result


def field_of_others(gram: Array, alpha: Array, shrinkage: Array) -> Array:
    """Return f_i - lambda_i alpha_i ``(n,)``, in a form that keeps the sign of what the others say.

    ``shrinkage`` is K_ii - lambda_i. However little the others say, there is no difference of large numbers.
    """
    others = gram.copy()
    np.fill_diagonal(others, 0.0)
    return np.asarray(others @ alpha + shrinkage * alpha)
