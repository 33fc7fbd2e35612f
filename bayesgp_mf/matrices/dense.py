r"""Cholesky factorisations of dense matrices, and the correction R they give.

Every approximation ends in a posterior covariance of one form (thesis, parametrisation lemma, eq. 33, whose R is
minus this one):

.. math:: \mathrm{cov}(x, x') = k(x, x') - k(x)^T R\, k(x'),

with :math:`R = (K + \Omega)^{-1}` when each example acts as a measurement with noise variance
:math:`\omega_i` (its *site variance*). Nothing here inverts K, which may be singular, and nothing
here adds jitter: a matrix that has no factor is an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, cached_property
from types import ModuleType
from typing import Any, Protocol, cast

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.types import Array

PSD_TOLERANCE = 1e-8
"""A Gram matrix may have eigenvalues down to -PSD_TOLERANCE * max(diagonal): rounding, not structure."""

SQUARED = 128
"""Columns of a matrix that are squared at once."""

SMALL_TRIANGLE = 50
"""Rows up to which a triangular matrix is inverted in one piece."""

CANCELLATION = 1e-3
"""Where site precision times prior variance is below this, 1/R_ii - omega_i would lose over 3 digits."""


# A freed block of memory goes back to the system if it is larger than any freed before (glibc's rule), and costs a
# page fault for every 4 kB when it is next needed: a quarter of the time of a solution at n = 200. Nothing is touched.
np.empty(2**22 - 2**10)


def _lapack(name: str, matrix: Array) -> Callable[..., Any]:
    """Return a routine of LAPACK for the precision of a matrix."""
    return _routine(lapack, name, matrix.dtype.char)


def _blas(name: str, matrix: Array) -> Callable[..., Any]:
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
    return np.asarray(_blas("symv", lower)(1.0, lower, vector, lower=1), dtype=np.float64)


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
    factor, info = _lapack("potrf", matrix)(matrix, lower=1, clean=not is_lower, overwrite_a=overwrite)
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
    if n <= SMALL_TRIANGLE:
        matrix[:], info = _lapack("trtri", matrix)(matrix, lower=1)
        if info != 0:
            raise NotPositiveDefiniteError(f"triangular factor has a zero at position {info} of its diagonal")
        return
    first, second = slice(0, n // 2), slice(n // 2, n)
    _invert_triangle(matrix[first, first])
    _invert_triangle(matrix[second, second])
    multiply = _blas("trmm", matrix)
    product = multiply(-1.0, matrix[first, first], matrix[second, first], side=1, lower=1)
    matrix[second, first] = multiply(1.0, matrix[second, second], product, lower=1, overwrite_b=1)


def symmetric(lower: Array) -> Array:
    """Return the symmetric matrix with a lower triangle that has zeros above it."""
    result = lower + lower.T
    result.ravel(order="K")[:: lower.shape[0] + 1] *= 0.5
    return np.asarray(result)


def _gram_of_lower(lower: Array) -> Array:
    """Return the lower triangle ``(n, n)`` of T'T for a lower triangular T, in place of it; zeros are above it."""
    return np.asarray(_lapack("lauum", lower)(lower, lower=1, overwrite_c=1)[0])


def gmres(multiply: Callable[[Array], Array], right: Array, accuracy: float, most: int) -> Array:
    """Return x ``(n,)`` with A x near ``right (n,)``, by generalised minimal residuals.

    For matrices close to the identity, where a few products with A do and SciPy's own would spend most of the time
    around them. (Y. Saad & M. H. Schultz, 1986, SIAM J. Sci. Stat. Comput. 7, 856-869.)

    Parameters
    ----------
    multiply : callable
        Returns A x.
    right : (n,) array
        Right-hand side.
    accuracy : float
        Length of the residual that is wanted, relative to that of ``right``.
    most : int
        Products after which x is returned as it is.

    Returns
    -------
    (n,) array
        x; NaN if a product overflows.
    """
    length = math.sqrt(right @ right)
    if length == 0.0:
        return np.zeros_like(right)
    basis = np.empty((most + 1, right.size))
    basis[0] = right / length
    # the Hessenberg matrix of the products in the basis, turned upper triangular by rotations as it grows
    triangle, target = np.zeros((most, most)), [length]
    rotations: list[tuple[float, float]] = []
    for k in range(most):
        known, image = basis[: k + 1], multiply(basis[k])
        if not np.isfinite(image).all():
            return np.full_like(right, np.nan)
        column = known @ image
        image = image - column @ known
        below = math.sqrt(image @ image)
        for i, (cosine, sine) in enumerate(rotations):
            column[i : i + 2] = cosine * column[i] + sine * column[i + 1], cosine * column[i + 1] - sine * column[i]
        corner = math.hypot(column[k], below)
        if corner == 0.0:  # A is singular on what was found: nothing more to gain
            break
        rotations.append((column[k] / corner, below / corner))
        target[k:] = [target[k] * column[k] / corner, -target[k] * below / corner]
        column[k] = corner
        triangle[: k + 1, k] = column
        if abs(target[-1]) <= accuracy * length or below == 0.0:
            break
        basis[k + 1] = image / below
    size = len(rotations)
    if size == 0:
        return np.zeros_like(right)
    weights, _ = lapack.dtrtrs(triangle[:size, :size], target[:size])
    return np.asarray(weights @ basis[:size])


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
    root[pivots - 1] = np.tril(factor)[:, :rank]
    return root, np.asarray(pivots[:rank] - 1, dtype=np.intp)


def is_positive_semidefinite(gram: Array) -> bool:
    """Tell whether the smallest eigenvalue exceeds ``-PSD_TOLERANCE * max(diagonal)``."""
    scale = float(gram.diagonal().max(initial=0.0))
    shifted = gram.copy(order="F")
    shifted.ravel(order="K")[:: gram.shape[0] + 1] += PSD_TOLERANCE * (scale if scale > 0 else 1.0)
    return bool(lapack.dpotrf(shifted, lower=1, clean=0, overwrite_a=1)[1] == 0)


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


class Correction(Protocol):
    """What the data takes away from the prior covariance: ``R`` of ``k(x,x') - k(x)' R k(x')``."""

    def quadratic(self, cross: Array) -> Array:
        """Return ``cross.T @ R @ cross``, ``(m, m)``, for ``cross (n, m)``."""

    def quadratic_diagonal(self, cross: Array) -> Array:
        """Return the diagonal ``(m,)`` of ``cross.T @ R @ cross`` for ``cross (n, m)``."""

    def dense(self) -> Array:
        """Return ``R (n, n)``."""


class SiteCorrection:
    r"""``R = (K + Omega)^{-1}`` for site variances ``omega``, any of which may be infinite or negative.

    With W = 1/omega and S = sqrt(max(W, 0)), R = S B^{-1} S where B = I + S K S has eigenvalues of at
    least one, so that its Cholesky factor exists whatever the rank of K. Sites with negative variance
    (a likelihood that is not log-concave, such as one with label noise, makes them) are then taken out by
    Woodbury's identity, R = A'A - G G', which exists exactly when the posterior covariance does.

    The factor is computed when something first needs it: a method that works without it does not pay for it.

    Parameters
    ----------
    gram : (n, n) array
        Gram matrix K. In single precision (float32) all work of the order of n^3 is too, at half its time.
    site_precision : (n,) array
        W = 1/omega, in latent units to the power -2; finite, of any sign.

    Raises
    ------
    NotPositiveDefiniteError
        When the factor is first needed, if the sites leave no positive-definite posterior covariance.
    """

    def __init__(self, gram: Array, site_precision: Array) -> None:
        self._gram = gram
        self.site_precision = site_precision
        self._root_precision = np.sqrt(np.maximum(site_precision, 0.0))

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        _, negative = self._negative_sites
        known = -np.log(self._inverse_factor.diagonal()) if self._is_inverted else np.log(self._factor.diagonal())
        return 2.0 * float(known.sum()) + negative

    @property
    def _says_nothing(self) -> bool:
        """Whether R is zero, as before any data."""
        return not np.count_nonzero(self.site_precision)

    @cached_property
    def _factor(self) -> Array:
        """The Cholesky factor of B."""
        b_matrix = np.asarray(_blas("syr", self._gram)(1.0, self._root_precision, lower=1))
        b_matrix *= self._gram.T  # which K is too, and in the same order of memory
        b_matrix.ravel(order="K")[:: b_matrix.shape[0] + 1] += 1.0
        return cholesky(b_matrix, overwrite=True, is_lower=True)

    @cached_property
    def _inverse_factor(self) -> Array:
        """Its inverse, in place of it: what needs it is a diagonal or a product with many."""
        inverse = triangular_inverse(self._factor, overwrite=True)
        del self._factor
        return inverse

    @property
    def _is_inverted(self) -> bool:
        return "_inverse_factor" in self.__dict__

    @cached_property
    def _negative_sites(self) -> tuple[Array | None, float]:
        """Return G of R = A'A - G G', None where no site is negative, and what it adds to the log determinant."""
        if not np.count_nonzero(self.site_precision < 0):
            return None, 0.0
        (negative,) = np.nonzero(self.site_precision < 0)
        root = np.sqrt(-self.site_precision[negative])
        cross = self._gram[:, negative]
        # U Sigma_P U with Sigma_P the covariance under the positive sites alone
        covariance = self._gram[np.ix_(negative, negative)] - self._positive_quadratic(cross)
        factor = cholesky(np.eye(negative.size) - root[:, None] * covariance * root)
        # G = (I - R_P K) E C^-T with E = identity columns times root
        columns = -self._half().T @ (self._half() @ cross)
        columns[negative, np.arange(negative.size)] += 1.0
        removed = np.asarray((columns * root) @ triangular_inverse(factor).T)
        return removed, 2.0 * float(np.sum(np.log(np.diag(factor))))

    @property
    def _removed(self) -> Array | None:
        return self._negative_sites[0]

    def _half(self) -> Array:
        """A with A'A = R of the positive sites."""
        return self._inverse_factor * self._root_precision

    def _positive_quadratic(self, cross: Array) -> Array:
        projected = self._half() @ cross
        return projected.T @ projected

    def weights(self, shift: Array) -> Array:
        """Return the weights ``alpha (n,)`` under sites with shifts ``b (n,)``: those of alpha + W K alpha = b."""
        if self._says_nothing:
            return shift
        # b - R K b, which is (K + Omega)^-1 times the measured values b/W, but holds for W = 0 too
        return np.asarray(shift - self.multiply(times(self._gram, shift)))

    def multiply(self, vector: Array) -> Array:
        """Return ``R @ vector`` for ``vector (n,)``."""
        scale = self._root_precision
        if self._is_inverted:
            product = scale * (self._inverse_factor.T @ (self._inverse_factor @ (scale * vector)))
        else:
            solve = _blas("trsv", self._factor)  # twice: LAPACK's own is meant for many right-hand sides
            halfway = solve(self._factor, scale * vector, lower=1, overwrite_x=1)
            product = scale * solve(self._factor, halfway, lower=1, trans=1, overwrite_x=1)
        if self._removed is not None:
            product = product - self._removed @ (self._removed.T @ vector)
        return np.asarray(product)

    def quadratic(self, cross: Array) -> Array:
        """Return ``cross.T @ R @ cross``, ``(m, m)``."""
        result = self._positive_quadratic(cross)
        if self._removed is not None:
            projected = self._removed.T @ cross
            result -= projected.T @ projected
        return result

    def quadratic_diagonal(self, cross: Array) -> Array:
        """Return the diagonal ``(m,)`` of ``cross.T @ R @ cross``."""
        scaled = np.multiply(cross, self._root_precision[:, None], order="F")
        projected = blas.dtrmm(1.0, self._inverse_factor, scaled, lower=1, overwrite_b=1)  # half the work of a product
        result = np.einsum("ij,ij->j", projected, projected)
        if self._removed is not None:
            removed = self._removed.T @ cross
            result -= np.einsum("ij,ij->j", removed, removed)
        return np.asarray(result)

    def diagonal(self) -> Array:
        """Return ``R_ii (n,)``."""
        inverse = self._inverse_factor
        result = self._root_precision**2 * np.einsum("ij,ij->j", inverse, inverse)
        if self._removed is not None:
            result -= np.einsum("ij,ij->i", self._removed, self._removed)
        return np.asarray(result)

    def cavity_variance(self) -> Array:
        r"""Return the variance ``(n,)`` of each latent value with its own site taken out.

        .. math:: \lambda_i = 1 / [(K + \Omega)^{-1}]_{ii} - \omega_i \qquad \text{(2000, eq. 28)}

        which is also Sigma_ii / (1 - W_i Sigma_ii) with Sigma the covariance under all sites. The first
        form cancels where a site says little, the second where it says much; each row takes the other.
        A result that is not positive means that the sites are not those of a valid approximation.
        """
        precision, prior = self.site_precision, self._gram.diagonal()
        if self._says_nothing:
            return prior.copy()
        informative = self._informative
        if informative.all():
            return np.asarray(1.0 / self.diagonal() - 1.0 / precision)
        variance, weak = np.empty_like(prior), ~informative
        variance[informative] = 1.0 / self.diagonal()[informative] - 1.0 / precision[informative]
        sigma = prior[weak] - self.quadratic_diagonal(self._gram[:, weak])
        variance[weak] = sigma / (1.0 - precision[weak] * sigma)
        return variance

    @property
    def _informative(self) -> NDArray[np.bool_]:
        """Which sites ``(n,)`` say so much that a difference from 1/W does not cancel."""
        return np.asarray(np.abs(self.site_precision) * self._gram.diagonal() > CANCELLATION)

    def covariance_diagonal(self) -> Array:
        r"""Return the posterior variances ``(n,)`` under all sites, Sigma_ii.

        That is :math:`\omega_i - \omega_i^2 R_{ii}`, unless a site says so little that this would cancel.
        """
        if self._informative.all():
            return np.asarray((1.0 - self.diagonal() / self.site_precision) / self.site_precision)
        return np.asarray(self._gram.diagonal() - self.quadratic_diagonal(self._gram))

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of R with the given numbers ``(k,)``."""
        half = self._half()
        result = half[:, which].T @ half
        if self._removed is not None:
            result -= self._removed[which] @ self._removed.T
        return np.asarray(result)

    def dense(self) -> Array:
        """Return ``R (n, n)``."""
        result = symmetric(_gram_of_lower(self._half()))
        if self._removed is not None:
            result -= self._removed @ self._removed.T
        return result

    def gradient(self, left: Array, right: Array) -> Array:
        """Return ``(left right' + right left' - R) / 2``, ``(n, n)``, for ``left`` and ``right (n,)``."""
        lower = _gram_of_lower(self._half())
        lower *= -0.5
        result = symmetric(_blas("syr2", lower)(0.5, left, right, lower=1, a=lower, overwrite_a=1))
        if self._removed is not None:
            result += 0.5 * (self._removed @ self._removed.T)
        return result

    def covariance_lower(self, cavity_variance: Array) -> Array:
        """Return the lower triangle ``(n, n)`` of the posterior covariance; zeros are above it.

        It takes the memory of what else was computed here, which is computed anew if it is needed again.

        Parameters
        ----------
        cavity_variance : (n,) array
            The variances with each site taken out, as `cavity_variance` has them.

        Raises
        ------
        ValueError
            If a site says nothing, or is negative: it is found by dividing by them.
        """
        if not (self.site_precision > 0).all():
            raise ValueError("the covariance follows from R only where every site has a positive precision.")
        half = self._inverse_factor
        del self._inverse_factor
        half /= self._root_precision
        covariance = _gram_of_lower(half)
        np.negative(covariance, out=covariance)
        covariance.ravel(order="K")[:: cavity_variance.size + 1] = cavity_variance / (
            1.0 + self.site_precision * cavity_variance
        )
        return covariance


class DenseCorrection:
    """A correction given as the matrix R itself.

    Parameters
    ----------
    matrix : (n, n) array
        R, symmetric.
    """

    def __init__(self, matrix: Array) -> None:
        self._matrix = matrix

    def quadratic(self, cross: Array) -> Array:
        """Return ``cross.T @ R @ cross``, ``(m, m)``."""
        result = cross.T @ self._matrix @ cross
        return np.asarray(0.5 * (result + result.T))

    def quadratic_diagonal(self, cross: Array) -> Array:
        """Return the diagonal ``(m,)`` of ``cross.T @ R @ cross``."""
        return np.asarray(np.einsum("ij,ij->j", cross, self._matrix @ cross))

    def dense(self) -> Array:
        """Return ``R (n, n)``."""
        return self._matrix


class InverseCorrection:
    """``R = C^-1`` for a covariance C: what exact knowledge of values with this covariance takes away.

    Parameters
    ----------
    factor : (n, n) array
        Lower Cholesky factor of C.
    """

    def __init__(self, factor: Array) -> None:
        self._inverse_factor = triangular_inverse(factor)

    def solve(self, columns: Array) -> Array:
        """Return ``R @ columns (n, m)``."""
        return np.asarray(self._inverse_factor.T @ (self._inverse_factor @ columns))

    def quadratic(self, cross: Array) -> Array:
        """Return ``cross.T @ R @ cross``, ``(m, m)``."""
        projected = self._inverse_factor @ cross
        return np.asarray(projected.T @ projected)

    def quadratic_diagonal(self, cross: Array) -> Array:
        """Return the diagonal ``(m,)`` of ``cross.T @ R @ cross``."""
        projected = self._inverse_factor @ cross
        return np.asarray(np.einsum("ij,ij->j", projected, projected))

    def dense(self) -> Array:
        """Return ``R (n, n)``."""
        return np.asarray(self._inverse_factor.T @ self._inverse_factor)
