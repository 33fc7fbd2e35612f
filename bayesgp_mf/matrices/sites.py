r"""The correction R that sites make of a dense Gram matrix, by one Cholesky factor.

Nothing here inverts K, which may be singular, and nothing adds jitter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.matrices import factors
from bayesgp_mf.matrices.matrix import Covariance, PosteriorCovariance, Sites, covariance_of_matrix
from bayesgp_mf.types import Array

CANCELLATION = 1e-3
"""Where site precision times prior variance is below this, 1/R_ii - omega_i would lose over 3 digits."""
HALF_LOST = 0.5
"""Power of eps: where site precision times posterior variance is below it, that loses half of all digits."""

AT_ONCE = 2**18
"""Entries of a covariance that are yielded together."""
SQUARES_KEPT = 1000
"""Cases up to which the squared entries of the covariance are kept beside it."""


class SiteCorrection(Sites):
    r"""``R = (K + Omega)^{-1}`` for site variances ``omega``, any of which may be infinite or negative.

    With W = 1/omega and S = sqrt(abs(W)), R = S (J + S K S)^{-1} S where J holds the signs of W. The sites of positive
    variance come first: their block of J + S K S has eigenvalues of at least one, so that its Cholesky factor exists
    whatever the rank of K. The others (a likelihood that is not log-concave, such as one with label noise, makes them)
    come last, and J + S K S = L J L' with L lower triangular exists exactly when the posterior covariance does.

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
        super().__init__(site_precision)
        self._gram = gram
        negative = site_precision < 0
        self._positive = site_precision.size - int(np.count_nonzero(negative))
        # positive ones before negative ones, else as they are; and the place of each in that order
        self._order = np.argsort(negative, kind="stable") if self._positive < site_precision.size else None
        self._place = None if self._order is None else np.argsort(self._order)
        self._root_precision = self._in_order(np.sqrt(np.abs(site_precision)))

    def _in_order(self, rows: Array) -> Array:
        """Return rows ``(n, ...)`` of all cases in the order of the factor."""
        return rows if self._order is None else rows[self._order]

    def _in_place(self, rows: Array) -> Array:
        """Return rows ``(n, ...)`` in the order of the factor as the cases are."""
        return rows if self._place is None else rows[self._place]

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        known = -np.log(self._inverse_factor.diagonal()) if self._is_inverted else np.log(self._factor.diagonal())
        return 2.0 * float(known.sum())

    @property
    def _says_nothing(self) -> bool:
        """Whether R is zero, as before any data."""
        return not np.count_nonzero(self.site_precision)

    @cached_property
    def _factor(self) -> Array:
        """L with L J L' = J + S K S."""
        return self._factorised()

    def _factorised(self) -> Array:
        matrix = np.asarray(factors.blas_routine("syr", self._gram)(1.0, self._root_precision, lower=1))
        # which K is too, and in the same order of memory
        matrix *= self._gram.T if self._order is None else self._gram[np.ix_(self._order, self._order)].T
        matrix.ravel(order="K")[:: matrix.shape[0] + 1] += self.signs
        if self._order is None:
            return factors.cholesky(matrix, overwrite=True, is_lower=True)
        first, last = slice(self._positive), slice(self._positive, None)
        matrix[first, first] = factors.cholesky(matrix[first, first], is_lower=True)
        matrix[last, first] = factors.blas_routine("trsm", matrix)(
            1.0, matrix[first, first], matrix[last, first], side=1, lower=1, trans_a=1
        )
        # what the positive sites leave of the others is I - S Sigma S, for the covariance under the positive ones
        left = matrix[last, first] @ matrix[last, first].T - matrix[last, last]
        matrix[last, last] = factors.cholesky(left)
        return matrix

    @cached_property
    def signs(self) -> Array:
        """The diagonal ``(n,)`` of J, in the order of the factor and of the rows of `halves`."""
        signs = np.ones(self._root_precision.size)
        signs[self._positive :] = -1.0
        return signs

    @cached_property
    def _inverse_factor(self) -> Array:
        """Its inverse, in place of it: what needs it is a diagonal or a product with many."""
        # one thread alone takes it out: two would invert the same memory (a cached property has no lock since 3.12)
        factor = vars(self).pop("_factor", None)
        return factors.triangular_inverse(self._factorised() if factor is None else factor, overwrite=True)

    @property
    def _is_inverted(self) -> bool:
        return "_inverse_factor" in self.__dict__

    def _half(self) -> Array:
        """A with A'JA = R, lower triangular in the order of the factor."""
        return self._inverse_factor * self._root_precision

    def _signed_gram(self, lower: Array) -> Array:
        """Return the lower triangle ``(n, n)`` of T'JT for a lower triangular T, in place of it."""
        if self._order is None:
            return factors.gram_of_lower(lower)
        negative = lower[self._positive :].copy()
        result = factors.gram_of_lower(lower)
        update = factors.blas_routine("syrk", result)
        return np.asarray(update(-2.0, negative, 1.0, result, trans=1, lower=1, overwrite_c=1))

    def _whole(self, lower: Array) -> Array:
        """Return the symmetric matrix of all cases of which that is the lower triangle in the order of the factor."""
        result = factors.symmetric(lower)
        return result if self._place is None else result[np.ix_(self._place, self._place)]

    def _projected(self, cross: Array) -> Array:
        """Return P ``(n, m)`` with P'JP = cross' R cross."""
        inverse = self._inverse_factor
        scaled = np.multiply(self._in_order(cross), self._root_precision[:, None], order="F", dtype=inverse.dtype)
        # half the work of a product
        return np.asarray(factors.blas_routine("trmm", inverse)(1.0, inverse, scaled, lower=1, overwrite_b=1))

    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha and the means K alpha, ``(n,)`` each, under sites with shifts ``b (n,)``."""
        alpha = self.weights(shift)
        return alpha, factors.times(self._gram, alpha)

    def weights(self, shift: Array) -> Array:
        """Return the weights ``alpha (n,)`` under sites with shifts ``b (n,)``: those of alpha + W K alpha = b."""
        if self._says_nothing:
            return shift
        strong = self._strong
        if strong.all():
            return self.multiply(shift / self.site_precision)
        # (I + W K)^-1 b is R y of measured values y = b/W where they say much: b - R K b would cancel there. Where they
        # say little it is that difference, which holds for W = 0 and below, too
        rest = np.where(strong, 0.0, shift)
        measured = (shift - rest) / np.where(strong, self.site_precision, 1.0)
        return np.asarray(rest + self.multiply(measured - factors.times(self._gram, rest)))

    def multiply(self, vector: Array) -> Array:
        """Return ``R @ vector`` for ``vector (n,)``."""
        scaled = self._root_precision * self._in_order(vector)
        if self._is_inverted:
            halfway = self._inverse_factor @ scaled
            halfway[self._positive :] *= -1.0
            solved = self._inverse_factor.T @ halfway
        else:
            solve = factors.blas_routine("trsv", self._factor)  # twice: LAPACK's own is meant for many right-hand sides
            halfway = solve(self._factor, scaled, lower=1, overwrite_x=1)
            halfway[self._positive :] *= -1.0
            solved = solve(self._factor, halfway, lower=1, trans=1, overwrite_x=1)
        return np.asarray(self._in_place(self._root_precision * solved))

    def halves(self, cross: Array) -> tuple[Array, Array]:
        """Return P, of as many rows as sites are not negative, and N, of the others, with P'P - N'N = cross' R cross.

        They have ``m`` columns, as ``cross (n, m)``.
        """
        projected = self._projected(cross)
        return projected[: self._positive], projected[self._positive :]

    def quadratic(self, cross: Array) -> Array:
        """Return ``cross.T @ R @ cross``, ``(m, m)``."""
        more, less = self.halves(cross)
        return np.asarray(more.T @ more - less.T @ less)

    def quadratic_diagonal(self, cross: Array) -> Array:
        """Return the diagonal ``(m,)`` of ``cross.T @ R @ cross``."""
        more, less = self.halves(cross)
        return np.asarray(np.einsum("ij,ij->j", more, more) - np.einsum("ij,ij->j", less, less))

    def diagonal(self) -> Array:
        """Return ``R_ii (n,)``."""
        return self._diagonal

    @cached_property
    def _diagonal(self) -> Array:
        half = self._inverse_factor
        result = np.einsum("ij,ij->j", half, half)
        if self._order is not None:
            result -= 2.0 * np.einsum("ij,ij->j", half[self._positive :], half[self._positive :])
        return np.asarray(self._in_place(self._root_precision**2 * result))

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

    @cached_property
    def _strong(self) -> NDArray[np.bool_]:
        """Which sites ``(n,)`` say more than the prior does."""
        return np.asarray(self.site_precision * self._gram.diagonal() > 1.0)

    @cached_property
    def _informative(self) -> NDArray[np.bool_]:
        """Which sites ``(n,)`` say so much that a difference from 1/W does not cancel."""
        may = np.abs(self.site_precision) * self._gram.diagonal() > CANCELLATION
        # one that says less than the prior does may say nothing beside the other sites: R_ii is W - W^2 Sigma_ii
        doubtful = may & ~self._strong
        if doubtful.any():
            share = 1.0 - self.diagonal()[doubtful] / self.site_precision[doubtful]
            may[doubtful] = np.abs(share) > np.finfo(self._gram.dtype).eps ** HALF_LOST
        return np.asarray(may)

    def covariance_diagonal(self) -> Array:
        r"""Return the posterior variances ``(n,)`` under all sites, Sigma_ii.

        That is :math:`\omega_i - \omega_i^2 R_{ii}`, unless a site says so little that this would cancel.
        """
        informative, precision = self._informative, self.site_precision
        if informative.all():
            return np.asarray((1.0 - self.diagonal() / precision) / precision)
        variance, weak = np.empty_like(precision), ~informative
        known = precision[informative]
        variance[informative] = (1.0 - self.diagonal()[informative] / known) / known
        variance[weak] = self._gram.diagonal()[weak] - self.quadratic_diagonal(self._gram[:, weak])
        return variance

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of R with the given numbers ``(k,)``."""
        half = self._half()
        some = half[:, which if self._place is None else self._place[which]].T * self.signs
        return np.asarray(self._in_place((some @ half).T).T)

    def dense(self) -> Array:
        """Return ``R (n, n)``."""
        return self._whole(self._signed_gram(self._half()))

    def gradient(self, left: Array, right: Array) -> Array:
        """Return ``(left right' + right left' - R) / 2``, ``(n, n)``, for ``left`` and ``right (n,)``."""
        lower = self._signed_gram(self._half())
        lower *= -0.5
        left, right = self._in_order(left), self._in_order(right)
        return self._whole(factors.blas_routine("syr2", lower)(0.5, left, right, lower=1, a=lower, overwrite_a=1))

    def covariance(self, cavity_variance: Array, left_out: Callable[[], float]) -> Covariance:
        """Return the products with the posterior covariance; all of it, whatever may be left out.

        No site may say nothing: the covariance is found by dividing by them, at a third of the work. It takes the
        memory of what else was computed here, which is computed anew if it is needed again.
        """
        half = self._inverse_factor
        del self._inverse_factor
        half *= self.signs / self._root_precision  # products take half the time of quotients
        covariance = self._signed_gram(half)  # its lower triangle, in the order of the factor
        np.negative(covariance, out=covariance)
        covariance.ravel(order="K")[:: cavity_variance.size + 1] = self._in_order(
            cavity_variance / (1.0 + self.site_precision * cavity_variance)
        )
        if cavity_variance.size > SQUARES_KEPT:
            squared_times = partial(factors.squared_symmetric_times, covariance)
        else:
            squared = covariance**2
            squared.ravel(order="K")[:: cavity_variance.size + 1] = 0.0
            squared_times = partial(factors.symmetric_times, squared)
        times = partial(factors.symmetric_times, covariance)
        return Covariance(self._of_all(times), self._of_all(squared_times), is_whole=True)

    def _of_all(self, times: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """Return a product with vectors ``(n,)`` of all cases, where there is one in the order of the factor."""
        return lambda vector: self._in_place(times(self._in_order(vector)))

    def covariance_with(self, which: NDArray[np.intp]) -> Iterator[tuple[slice, Array]]:
        r"""Yield posterior covariances ``(k, m)`` of all cases, some at a time, with those of given numbers ``(m,)``.

        Off the diagonal :math:`\Sigma_{ij} = -R_{ij} / (W_i W_j)`, unless sites say so little that a difference from K
        is the better way.
        """
        variance, precision = self.covariance_diagonal(), self.site_precision
        by_sites = bool(self._informative.all())
        if not by_sites:
            more, less = self.halves(self._gram)
            found = self._gram[:, which] - (more.T @ more[:, which] - less.T @ less[:, which])
        elif np.array_equal(which, np.arange(precision.size)):  # half the work
            found = self._whole(self._signed_gram(self._inverse_factor * (self.signs / self._root_precision)))
            found = found if found.flags.c_contiguous else found.T  # it is the same, and rows are asked for
            np.negative(found, out=found)
        else:
            found = self.rows(which).T / -np.multiply.outer(precision, precision[which])
        found[which, np.arange(which.size)] = variance[which]
        for block in factors.blocks(variance.size, max(1, AT_ONCE // which.size)):
            yield block, found[block]

    def posterior_covariance(self) -> PosteriorCovariance:
        """Return Sigma, of which a few entries can be asked for."""
        everything = np.arange(self.site_precision.size)
        matrix = np.concatenate([block for _, block in self.covariance_with(everything)])
        return covariance_of_matrix(matrix, partial(self._with_new_by, self.dense()))

    def _with_new_by(self, correction: Array, features: Array) -> Array:
        """Return R k / W ``(n, m)``, where a site says so much that it does not cancel, and else k - K R k."""
        found, weak = correction @ features, ~self._informative
        rest = features[weak] - self._gram[weak] @ found
        found[self._informative] /= self.site_precision[self._informative, None]
        found[weak] = rest
        return np.asarray(found)
