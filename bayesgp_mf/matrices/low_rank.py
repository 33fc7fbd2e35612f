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
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.corrections import Covariance, Sites
from bayesgp_mf.matrices.factors import blas_routine, cholesky, lapack_routine, symmetric, triangular_inverse
from bayesgp_mf.matrices.matrix import HasPullBack, Matrix
from bayesgp_mf.matrices.posterior_covariance import FactorCovariance
from bayesgp_mf.matrices.root import Root, features_of
from bayesgp_mf.matrices.sampling import RootSampler
from bayesgp_mf.types import Array

SMALL_REST = 1e-4
"""One less the precision of a site times its posterior variance: below this it is no longer that difference ..."""
AT_ONCE = 2**22
"""Entries ``(n, k)`` that are worked out at once for k cases."""
LEAST_REST = 1e-26
"""... and below this, which is the square of rounding times some ten thousand, not known to four digits either."""


@dataclass(frozen=True, eq=False)
class LowRankGram(Matrix):
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

    root: Any = field()
    pivots: NDArray[np.intp] = field()
    left_out: float

    __array_ufunc__: ClassVar[None] = None  # so that ``vector @ gram`` comes here
    form = "low_rank"
    is_root = True

    @property
    def numbers(self) -> Any:
        """The root, which is all that there is of K."""
        return self.root

    @property
    def shape(self) -> tuple[int, int]:
        """That of the dense matrix."""
        return int(self.root.shape[0]), int(self.root.shape[0])

    @property
    def rank(self) -> int:
        """Columns of the root, r."""
        return int(self.root.shape[1])

    @property
    def description(self) -> str:
        """What it is, to be said of a failure."""
        return f" on a root of rank {self.rank}; Control(gram='dense') keeps the whole matrix"

    @property
    def stated(self) -> dict[str, Any]:
        """What the `Info` of a solution on it states of it."""
        return {"rank": self.rank}

    @property
    def width(self) -> int:
        """Features of a case, r."""
        return self.rank

    @cached_property
    def own(self) -> Array:
        """The part ``(n,)`` of each prior variance that is noise of the case's own: nothing."""
        return np.zeros(self.root.shape[0])

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

    def some_of_product(self, which: NDArray[np.intp], vector: Array) -> Array:
        """Return the entries with the given numbers ``(k,)`` of K v."""
        return np.asarray(self.root[which] @ (self.root.T @ vector))

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of K with the given numbers ``(k,)``."""
        return np.asarray(self.root[which] @ self.root.T)

    def basis(self, X: Array) -> tuple[Array, Array]:
        """Return the inputs of the pivots, and their factor: the features of a case are L^-1 k(P, x)."""
        return X[self.pivots], self.pivot_factor

    def features(self, kernel: HasPullBack, X: Array, X_new: Array) -> Array:
        """Return phi ``(r, m)`` of new cases, so that their covariances with the old ones are ``root @ phi``."""
        return features_of(kernel, X[self.pivots], self.pivot_factor, X_new)

    def in_features(self, alpha: Array) -> Array:
        """Return L' alpha ``(..., r)``: the posterior mean is its product with the features."""
        return np.asarray(alpha @ self.root)

    def sites(self, precision: Array) -> LowRankCorrection:
        """Return the correction of sites ``(n,)``."""
        return LowRankCorrection(self, precision)

    def posterior_factor(self, correction: Any) -> Array:
        """Return the triangular C with the posterior covariance C C' of u, f = L u."""
        return np.asarray(correction.inverse_factor.T)

    def sampler(self, alpha: Array, correction: Any) -> RootSampler:
        """Return what draws the latent values of the training cases."""
        return RootSampler(self.root, self.posterior_factor(correction), alpha)

    def stored(self, alpha: Array, correction: Any) -> dict[str, NDArray[Any]]:
        """Return the pivots."""
        return {"pivot": self.pivots.astype(np.int64)}

    def gradient(self, alpha: Array, weights: Array) -> RootGradient:
        """Return the derivative G = alpha alpha' / 2 + diag(weights), known by G L."""
        inner = symmetric(weighted_square(self.root, weights))
        left, right = 0.5 * alpha[:, None], self.root.T @ alpha[:, None]
        return RootGradient(self, left, right, weights, np.eye(self.rank), inner)

    def pull_back(self, gradient: RootGradient, kernel: HasPullBack, X: Array) -> dict[str, Array]:
        """Return the derivatives in the parameters of the kernel from that in K."""
        return kernel.cross_vjp(X, X[self.pivots], gradient.columns())

    def rounding(self, gradient: Any) -> float:
        """Return 0: what rounding of the entries could decide is not in a root; a sum may lose digits all the same."""
        return 0.0

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

    def coarser(self, left_out: Callable[[], float], most: float, *, started: bool) -> LowRankGram | None:
        """Return the matrix of so few first columns that the others leave out at most a trace, or None.

        Parameters
        ----------
        left_out : callable
            Returns that trace.
        most : float
            The largest part of all columns that is fewer.
        """
        rank = self.leading_rank(left_out())
        return None if rank >= most * self.rank else self.leading(rank)

    def dense(self) -> Array:
        """Return K ``(n, n)``, exactly symmetric."""
        return symmetric(np.asarray(blas.dsyrk(1.0, self.root[:].T, trans=1, lower=1)))


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


def weighted_square(root: Root, weights: Array) -> Array:
    """Return the lower triangle of L' D L ``(r, r)`` for a root ``(n, r)`` and weights ``(n,)`` of any sign."""
    result = np.zeros((root.shape[1], root.shape[1]), dtype=root.dtype, order="F")
    scale, syrk = np.sqrt(np.abs(weights)).astype(root.dtype), blas_routine("syrk", result)
    for block in blocks(scale.size):
        scaled = root[block] * scale[block, None]
        for sign in (1.0, -1.0):
            these = sign * weights[block] > 0
            if these.any():
                some = scaled if these.all() else scaled[these]
                result = syrk(sign, some.T, beta=1.0, c=result, lower=1, overwrite_c=1)
    return result


def variances(root: Root, inverse_factor: Array) -> Array:
    """Return the diagonal ``(n,)`` of L T'T L' for a root ``(n, r)`` and a lower triangular T ``(r, r)``."""
    result, multiply = np.empty(root.shape[0]), blas_routine("trmm", inverse_factor)
    for block in blocks(result.size):
        projected = multiply(1.0, inverse_factor, root[block].T, lower=1)
        result[block] = np.einsum("ij,ij->j", projected, projected)
    return result


class LowRankCorrection(Sites):
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
    inverse_factor : (r, r) array, optional
        T of `inverse_factor`, where it is known already, as where these cases are a part of all.

    Raises
    ------
    NotPositiveDefiniteError
        When the factor is first needed, if the sites leave no positive-definite posterior covariance.
    """

    def __init__(self, gram: LowRankGram, site_precision: Array, inverse_factor: Array | None = None) -> None:
        super().__init__(site_precision)
        self.gram, self._known_factor = gram, inverse_factor

    @property
    def form(self) -> str:
        """That of the Gram matrix."""
        return self.gram.form

    @cached_property
    def _factor(self) -> Array:
        """Cholesky factor of A."""
        precision = weighted_square(self.gram.root, self.site_precision)
        precision.ravel(order="K")[:: self.gram.rank + 1] += 1.0
        if not np.all(np.isfinite(precision)):
            raise NotPositiveDefiniteError("the sites are too strong to be added up")
        return cholesky(precision, overwrite=True, is_lower=True)

    @cached_property
    def inverse_factor(self) -> Array:
        """Lower triangular T ``(r, r)`` with T'T = A^-1, the posterior covariance of the weights w."""
        return triangular_inverse(self._factor) if self._known_factor is None else self._known_factor

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""
        return 2.0 * float(np.sum(np.log(np.diag(self._factor))))

    @cached_property
    def _covariance_diagonal(self) -> Array:
        return variances(self.gram.root, self.inverse_factor)

    def covariance_diagonal(self) -> Array:
        """Return the posterior variances ``(n,)`` under all sites, Sigma_ii."""
        return self._covariance_diagonal

    def covariance(self, cavity_variance: Array, left_out: Callable[[], float]) -> Covariance:
        """Return the products with Sigma by the first columns of the root, if the others leave out at most a trace.

        A product with the squared entries takes O(n k^2) for k columns, which would be as much as a plain step for all
        of them. The direction of a step need not be exact; the equations that it leads to are.
        """
        rank = self.gram.leading_rank(left_out())
        inverse = np.asfortranarray(self.inverse_factor[:rank, :rank])  # of the leading block of A
        root = np.empty((self.site_precision.size, rank))  # F, with F F' the covariance
        for block in blocks(root.shape[0]):
            root[block] = blas.dtrmm(1.0, inverse, self.gram.root[block, :rank].T, lower=1).T
        own = np.einsum("ij,ij->i", root, root) ** 2

        def squared_times(vector: Array) -> Array:
            inner = root.T @ (vector[:, None] * root)
            return np.asarray(np.einsum("ij,ij->i", root @ inner, root) - own * vector)

        return Covariance(lambda vector: np.asarray(root @ (root.T @ vector)), squared_times, rank == self.gram.rank)

    def covariance_with(self, which: NDArray[np.intp]) -> Iterator[tuple[slice, Array]]:
        """Yield posterior covariances ``(k, m)`` of all cases, some at a time, with those of given numbers ``(m,)``."""
        root, inverse = self.gram.root, self.inverse_factor
        after = inverse.T @ (inverse @ np.asarray(root[which], dtype=np.float64).T)
        for block in blocks(root.shape[0], max(1, AT_ONCE // which.size)):
            yield block, np.asarray(root[block] @ after, dtype=np.float64)

    def posterior_covariance(self) -> FactorCovariance:
        """Return Sigma, of which a few entries can be asked for."""
        factor = np.asarray(self.gram.root @ self.inverse_factor.T, dtype=np.float64)
        return FactorCovariance(factor, np.zeros(factor.shape[0]), self.inverse_factor)

    def covariance_times(self, vectors: Array) -> Array:
        """Return Sigma times ``vectors``, ``(n,)`` or ``(n, m)``."""
        root, solve = self.gram.root, lapack_routine("potrs", self._factor)
        inner = root.T @ vectors.astype(root.dtype, copy=False)
        return np.asarray(root @ solve(self._factor, inner, lower=1)[0], dtype=np.float64)

    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha and the means K alpha, ``(n,)`` each, under sites with shifts ``b (n,)``."""
        # K alpha would magnify the rounding of alpha by the prior variances over those of the posterior
        latent = self.covariance_times(shift)
        return shift - self.site_precision * latent, latent

    def gradient(self, left: Array, right: Array) -> RootGradient:
        """Return the derivative ``(left right' + right left' - R) / 2``, known by its product with L."""
        sides = np.stack([left, right], axis=1)
        inverse = self.inverse_factor.T @ self.inverse_factor
        inner = self._factor @ self._factor.T  # A = I + L'WL
        inner.ravel()[:: self.gram.rank + 1] -= 1.0
        # R L = W L A^-1
        precision = -0.5 * self.site_precision
        return RootGradient(self.gram, 0.5 * sides, self.gram.root.T @ sides[:, ::-1], precision, inverse, -0.5 * inner)

    def quadratic(self, features: Array) -> Array:
        """Return ``cross' R cross (m, m)`` for cross = L phi, from `LowRankGram.features` phi ``(r, m)``."""
        projected = self.inverse_factor @ features
        return np.asarray(features.T @ features - projected.T @ projected)

    def quadratic_diagonal(self, features: Array) -> Array:
        """Return the diagonal ``(m,)`` of `quadratic`, in O(r^2) for each new case."""
        projected = self.inverse_factor @ features
        return np.asarray(np.einsum("ij,ij->j", features, features) - np.einsum("ij,ij->j", projected, projected))

    def diagonal(self) -> Array:
        """Return ``R_ii (n,)``."""
        return np.asarray(self.site_precision * (1.0 - self.site_precision * self._covariance_diagonal))

    def cavity_variance(self) -> Array:
        r"""Return the variance ``(n,)`` of each latent value with its own site taken out (2000, eq. 28).

        .. math:: \lambda_i = \Sigma_{ii} / (1 - W_i \Sigma_{ii})

        A result that is not positive means that the sites are not those of a valid approximation.

        Raises
        ------
        NotPositiveDefiniteError
            If some site says so much more than the others that these are lost in rounding.
        """
        if not self.site_precision.any():
            return self.gram.diagonal().copy()
        sigma, rest = self._covariance_diagonal, self._rest
        if np.any(np.abs(rest) < LEAST_REST):
            raise NotPositiveDefiniteError(
                "a site says so much more than the other cases that, on a root of low rank, what they say is lost in "
                "rounding; Control(gram='dense') keeps it"
            )
        return np.asarray(sigma / rest)

    @property
    def _rest(self) -> Array:
        r"""Return :math:`1 - W_i \Sigma_{ii} = R_{ii} / W_i` ``(n,)``, where it is small without that difference.

        It is the least value, for negative sites a stationary one, of

        .. math:: (1 - W_i\, l_i^T u)^2 + W_i \sum_{j \ne i} W_j\, (l_j^T u)^2 + W_i\, u^T u,

        at :math:`u = A^{-1} l_i`: an error of u counts by its square.
        """
        precision, root = self.site_precision, self.gram.root
        rest = np.asarray(1.0 - precision * self._covariance_diagonal)
        (small,) = np.nonzero(np.abs(rest) < SMALL_REST)  # no more than r where all sites are positive
        for some in (small[block] for block in blocks(small.size, max(1, AT_ONCE // precision.size))):
            u = np.asarray(lapack.dpotrs(self._factor, root[some].T, lower=1)[0])
            latent, own = root @ u, (some, np.arange(some.size))
            share = 1.0 - precision[some] * latent[own]
            latent[own] = 0.0
            rest[some] = share**2 + precision[some] * (precision @ latent**2 + np.einsum("ij,ij->j", u, u))
        return rest

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of R with the given numbers ``(k,)``."""
        solved = lapack.dpotrs(self._factor, self.gram.root[which].T, lower=1)[0]
        result = -(self.site_precision[which, None] * (solved.T @ self.gram.root.T) * self.site_precision)
        result[np.arange(which.size), which] += self.site_precision[which]
        return np.asarray(result)

    def dense(self) -> Array:
        """Return ``R (n, n)``."""
        return self.rows(np.arange(self.site_precision.size))
