r"""What the data take away from a prior covariance: the correction R, however it is known.

Every approximation ends in a posterior covariance of one form (thesis, parametrisation lemma, eq. 33, whose R is
minus this one):

.. math:: \mathrm{cov}(x, x') = k(x, x') - k(x)^T R\, k(x'),

with :math:`R = (K + \Omega)^{-1}` when each example acts as a measurement with noise variance
:math:`\omega_i` (its *site variance*); those are the `Sites` of a Gram matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.matrices.factors import triangular_inverse
from bayesgp_mf.matrices.posterior_covariance import PosteriorCovariance
from bayesgp_mf.types import Array

Product: TypeAlias = Callable[[Array], Array]
"""Returns a matrix times a vector ``(n,)``."""


class Correction(Protocol):
    """What the data takes away from the prior covariance: ``R`` of ``k(x,x') - k(x)' R k(x')``.

    New cases are known to it by their features phi ``(r, m)``, as `Matrix.features` of its ``form`` of Gram matrix has
    them: for a dense one they are the covariances k(x) with the n training cases.
    """

    @property
    def form(self) -> str:
        """Of which form of Gram matrix the features are."""

    def quadratic(self, features: Array) -> Array:
        """Return ``k(x)' R k(x')``, ``(m, m)``, of cases with features ``(r, m)``."""

    def quadratic_diagonal(self, features: Array) -> Array:
        """Return its diagonal ``(m,)``."""

    def dense(self) -> Array:
        """Return ``R (n, n)``."""

    def stored(self) -> dict[str, Array]:
        """Return what it can be made from again, by the names that a container has for it."""


class Covariance(NamedTuple):
    """Products with the posterior covariance Sigma, for Newton's step.

    Attributes
    ----------
    times, squared_times : callable
        Return the product of a vector ``(n,)`` with Sigma, and with its squared entries off the diagonal.
    is_whole : bool
        Whether they are those of Sigma, or of the part of it that matters for a direction.
    """

    times: Product
    squared_times: Product
    is_whole: bool


class Sites(Correction, Protocol):
    """``R = (K + Omega)^{-1}`` of sites on a Gram matrix K.

    Everything of a posterior with sites that a solver asks for. Factors are computed when something first needs them.
    """

    @property
    def site_precision(self) -> Array:
        """W = 1/omega ``(n,)``, in latent units to the power -2; finite, of any sign."""

    @property
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""

    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha and the means K alpha, ``(n,)`` each, under sites with shifts ``b (n,)``."""

    def weights(self, shift: Array) -> Array:
        """Return the weights ``alpha (n,)`` under sites with shifts ``b (n,)``: those of alpha + W K alpha = b."""

    def diagonal(self) -> Array:
        """Return ``R_ii (n,)``."""

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of R with the given numbers ``(k,)``."""

    def cavity_variance(self) -> Array:
        """Return the variance ``(n,)`` of each latent value with its own site taken out (2000, eq. 28)."""

    def covariance_diagonal(self) -> Array:
        """Return the posterior variances ``(n,)`` under all sites, Sigma_ii."""

    def covariance(self, cavity_variance: Array, left_out: Callable[[], float]) -> Covariance | None:
        """Return the products with Sigma, of some columns of a root if the others leave out at most a trace.

        None where Newton's step, which asks for them, would take as long as several others.
        """

    def covariance_with(self, which: NDArray[np.intp]) -> Iterator[tuple[slice, Array]]:
        """Yield posterior covariances ``(k, m)`` of all cases, some at a time, with those of given numbers ``(m,)``."""

    def posterior_covariance(self) -> PosteriorCovariance:
        """Return Sigma, of which a few entries can be asked for."""

    def gradient(self, left: Array, right: Array) -> Any:
        """Return ``(left right' + right left' - R) / 2`` as `Matrix.pull_back` takes it, for ``(n,)`` arrays."""


class DenseCorrection:
    """A correction given as the matrix R itself.

    Parameters
    ----------
    matrix : (n, n) array
        R, symmetric.
    """

    form: ClassVar[str] = "dense"

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

    def gradient(self, left: Array, right: Array) -> Array:
        """Return ``(left right' + right left' - R) / 2``, ``(n, n)``, for ``left`` and ``right (n,)``."""
        product = np.outer(left, right)
        return np.asarray(0.5 * (product + product.T - self._matrix))

    def stored(self) -> dict[str, Array]:
        """Return R."""
        return {"correction": self._matrix}


class InverseCorrection:
    """``R = C^-1`` for a covariance C: what exact knowledge of values with this covariance takes away.

    Parameters
    ----------
    factor : (n, n) array
        Lower Cholesky factor of C.
    """

    form: ClassVar[str] = "dense"

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

    def stored(self) -> dict[str, Array]:
        """Return R."""
        return {"correction": self.dense()}


def site_variance(precision: Array) -> Array:
    """Return 1/W ``(n,)``; a site that says nothing has infinite variance."""
    with np.errstate(divide="ignore", over="ignore"):
        return np.asarray(1.0 / precision)
