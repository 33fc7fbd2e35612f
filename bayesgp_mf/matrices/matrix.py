r"""The Gram matrix of the training cases, and what the data take away from it: what a form of either must say.

What is taken away is the correction R, however it is known. Every approximation ends in a posterior covariance of one
form (thesis, parametrisation lemma, eq. 33, whose R is minus this one):

.. math:: \mathrm{cov}(x, x') = k(x, x') - k(x)^T R\, k(x'),

with :math:`R = (K + \Omega)^{-1}` when each example acts as a measurement with noise variance
:math:`\omega_i` (its *site variance*); those are the `Sites` of a Gram matrix.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import Any, ClassVar, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.factors import blocks, cholesky, psd_root, triangular_inverse
from bayesgp_mf.matrices.memory import check_memory
from bayesgp_mf.matrices.root import Root, RootSampler
from bayesgp_mf.types import Array

Cases: TypeAlias = NDArray[np.intp] | slice
Product: TypeAlias = Callable[[Array], Array]
"""Returns a matrix times a vector ``(n,)``."""
LOST = 1e-8
"""One less the precision of a site times its posterior variance: below this the difference is not known."""


class Correction(ABC):
    """What the data takes away from the prior covariance: ``R`` of ``k(x,x') - k(x)' R k(x')``.

    New cases are known to it by their features phi ``(r, m)``, as `Matrix.features` of its ``form`` of Gram matrix has
    them: for a dense one they are the covariances k(x) with the n training cases. One of one's own is R as a matrix;
    what else is asked of it follows.
    """

    @property
    def form(self) -> str:
        """Of which form of Gram matrix the features are."""
        return "dense"

    @property
    def sites(self) -> Sites | None:
        """The same as R of `Sites`, if it is one."""
        return None

    @abstractmethod
    def dense(self) -> Array:
        """Return ``R (n, n)``."""

    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors``, ``(n,)`` or ``(n, m)``."""
        return np.asarray(self.dense() @ vectors)

    def quadratic(self, features: Array) -> Array:
        """Return ``k(x)' R k(x')``, ``(m, m)``, of cases with features ``(r, m)``."""
        result = features.T @ self.multiply(features)
        return np.asarray(0.5 * (result + result.T))

    def quadratic_diagonal(self, features: Array) -> Array:
        """Return its diagonal ``(m,)``."""
        return np.asarray(np.einsum("ij,ij->j", features, self.multiply(features)))

    def gradient(self, left: Array, right: Array) -> Any:
        """Return ``(left right' + right left' - R) / 2`` as `Matrix.pull_back` takes it, for ``(n,)`` arrays."""
        product = np.outer(left, right)
        return np.asarray(0.5 * (product + product.T - self.dense()))

    def stored(self) -> dict[str, Array]:
        """Return what it can be made from again, by the names that a container has for it."""
        return {"correction": self.dense()}


class PosteriorCovariance(NamedTuple):
    """The covariance Sigma of the latent values under all sites.

    Attributes
    ----------
    diagonal : (n,) array
        Sigma_ii.
    own : (n,) array
        The part of it that is a case's own: noise that no other case has, an old or a new one.
    entries : callable
        Returns ``Sigma[rows, columns]``, on the diagonal without what is a case's own. Rows and columns may be
        ``(B, k)`` numbers each, for ``(B, k, k)`` of B choices at once.
    with_new : callable
        Returns the covariances ``(m, k)`` of new cases, by their features ``(r, m)``, with k training cases.
    """

    diagonal: Array
    own: Array
    entries: Callable[[Cases, Cases], Array]
    with_new: Callable[[Array, Cases], Array]

    def of(self, cases: NDArray[np.intp]) -> PosteriorCovariance:
        """Return that of some of the cases, given by their numbers ``(k,)``; they are numbered anew."""
        return PosteriorCovariance(
            self.diagonal[cases],
            self.own[cases],
            partial(_entries_of_some, self.entries, cases),
            partial(_with_new_of_some, self.with_new, cases),
        )


# functions with names, of which a copy can be sent to other processes


def _entries_of_some(entries: Any, cases: NDArray[np.intp], rows: Cases, columns: Cases) -> Array:
    return np.asarray(entries(cases[rows], cases[columns]))


def _with_new_of_some(with_new: Any, cases: NDArray[np.intp], features: Array, which: Cases) -> Array:
    return np.asarray(with_new(features, cases[which]))


def covariance_of_matrix(matrix: Array, with_all: Callable[[Array], Array]) -> PosteriorCovariance:
    """Return Sigma known as a matrix ``(n, n)``.

    ``with_all`` returns the covariances ``(n, m)`` of all training cases with new ones, from their features ``(r, m)``.
    """
    diagonal = matrix.diagonal().copy()
    return PosteriorCovariance(
        diagonal, np.zeros_like(diagonal), partial(_entries_of_matrix, matrix), partial(_with_new_of_all, with_all)
    )


def _entries_of_matrix(matrix: Array, rows: Cases, columns: Cases) -> Array:
    if isinstance(rows, np.ndarray) and rows.ndim == 2 and isinstance(columns, np.ndarray):
        return matrix[rows[:, :, None], columns[:, None, :]]
    return matrix[rows][:, columns]


def _with_new_of_all(with_all: Callable[[Array], Array], features: Array, which: Cases) -> Array:
    return with_all(features)[which].T


def covariance_of_factor(factor: Array, own: Array, of_features: Array) -> PosteriorCovariance:
    """Return Sigma = F F' and what is each case's own ``(n,)``, given F ``(n, r)``.

    By ``of_features (r, r)``, T, features phi of a new case become its row T phi of F.
    """
    return PosteriorCovariance(
        np.einsum("ij,ij->i", factor, factor) + own,
        own,
        partial(_entries_of_factor, factor),
        partial(_with_new_of_factor, factor, of_features),
    )


def _entries_of_factor(factor: Array, rows: Cases, columns: Cases) -> Array:
    return np.asarray(factor[rows] @ np.swapaxes(factor[columns], -1, -2))


def _with_new_of_factor(factor: Array, of_features: Array, features: Array, which: Cases) -> Array:
    return np.asarray((of_features @ features).T @ factor[which].T)


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


class Sites(Correction):
    """``R = (K + Omega)^{-1}`` of sites on a Gram matrix K.

    Everything of a posterior with sites that a solver asks for. A form of its own must have a log determinant and
    `posterior`, which is the product with the posterior covariance Sigma; all else follows, R = W - W Sigma W. Factors
    are computed when something first needs them.

    Parameters
    ----------
    site_precision : (n,) array
        W = 1/omega, in latent units to the power -2; finite, of any sign.
    """

    def __init__(self, site_precision: Array) -> None:
        self.site_precision = site_precision

    @property
    @abstractmethod
    def log_det(self) -> float:
        """Log determinant of I + K W, in nats."""

    @abstractmethod
    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha and the means K alpha under sites with shifts b, ``(n,)`` each, or ``(n, m)``.

        The means are Sigma b, and alpha = b - W Sigma b.
        """

    @property
    def sites(self) -> Sites:
        """Itself."""
        return self

    def weights(self, shift: Array) -> Array:
        """Return the weights alpha of `posterior`: those of alpha + W K alpha = b."""
        return self.posterior(shift)[0]

    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors``, ``(n,)`` or ``(n, m)``."""
        return self.weights((self.site_precision * vectors.T).T)

    def diagonal(self) -> Array:
        """Return ``R_ii (n,)``."""
        return np.asarray(self.site_precision * (1.0 - self.site_precision * self.covariance_diagonal()))

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of R with the given numbers ``(k,)``."""
        return self.multiply(_of_identity(self.site_precision.size, which)).T

    def dense(self) -> Array:
        """Return ``R (n, n)``."""
        return self.rows(np.arange(self.site_precision.size))

    def cavity_variance(self) -> Array:
        r"""Return the variance ``(n,)`` of each latent value with its own site taken out (2000, eq. 28).

        .. math:: \lambda_i = \Sigma_{ii} / (1 - W_i \Sigma_{ii})

        A result that is not positive means that the sites are not those of a valid approximation.

        Raises
        ------
        NotPositiveDefiniteError
            If some site says so much more than the others that these are lost in rounding.
        """
        variance = self.covariance_diagonal()
        rest = 1.0 - self.site_precision * variance
        if np.any(np.abs(rest) < LOST):
            raise NotPositiveDefiniteError(
                "a site says so much more than the other cases that what they say is lost in rounding; "
                "Control(gram='dense') keeps it"
            )
        return np.asarray(variance / rest)

    def covariance_diagonal(self) -> Array:
        """Return the posterior variances ``(n,)`` under all sites, Sigma_ii."""
        every = np.arange(self.site_precision.size)
        some = (every[block] for block in blocks(every.size))
        return np.concatenate(
            [self.posterior(_of_identity(self.site_precision.size, which))[1][which].diagonal() for which in some]
        )

    def covariance(self, cavity_variance: Array, left_out: Callable[[], float]) -> Covariance | None:
        """Return the products with Sigma, of some columns of a root if the others leave out at most a trace.

        None where Newton's step, which asks for them, would take as long as several others.
        """
        return None

    def covariance_with(self, which: NDArray[np.intp]) -> Iterator[tuple[slice, Array]]:
        """Yield posterior covariances ``(k, m)`` of all cases, some at a time, with those of given numbers ``(m,)``."""
        _, found = self.posterior(_of_identity(self.site_precision.size, which))
        for block in blocks(found.shape[0]):
            yield block, found[block]

    def posterior_covariance(self) -> PosteriorCovariance:
        """Return Sigma, of which a few entries can be asked for."""
        return covariance_of_matrix(self.posterior(np.eye(self.site_precision.size))[1], self._with_new)

    def _with_new(self, features: Array) -> Array:
        """Return the posterior covariances ``(n, m)`` with new cases, by prior ones: (I - K R) k = k - Sigma W k."""
        return np.asarray(features - self.posterior(self.site_precision[:, None] * features)[1])

    def weight_factor(self, root: Array) -> Array:
        """Return the lower triangular C ``(r, r)`` with C C' = (I + A'WA)^-1, given A ``(n, r)`` with K = A A'.

        With f = A u that is the posterior covariance of u, without a difference from that of the prior.
        """
        return factor_of_weights((root.T * self.site_precision) @ root)

    def stored(self) -> dict[str, Array]:
        """Return the site variances; a site that says nothing has an infinite one."""
        with np.errstate(divide="ignore", over="ignore"):
            return {"site_variance": np.asarray(1.0 / (self.site_precision + 0.0))}  # a zero of either sign


def _of_identity(n: int, which: NDArray[np.intp]) -> Array:
    """Return columns ``(n, k)`` of the identity."""
    result = np.zeros((n, which.size))
    result[which, np.arange(which.size)] = 1.0
    return result


def factor_of_weights(precision: Array) -> Array:
    """Return the lower triangular C ``(r, r)`` with C C' = (I + P)^-1, given P, which is overwritten."""
    precision.ravel()[:: precision.shape[0] + 1] += 1.0
    lower = np.asarray(np.linalg.qr(triangular_inverse(cholesky(precision)), mode="r")).T
    return np.asarray(lower * np.sign(np.diag(lower)))


class DenseCorrection(Correction):
    """A correction given as the matrix R itself.

    Parameters
    ----------
    matrix : (n, n) array
        R, symmetric.
    """

    def __init__(self, matrix: Array) -> None:
        self._matrix = matrix

    def dense(self) -> Array:
        """Return ``R (n, n)``."""
        return self._matrix


class InverseCorrection(Correction):
    """``R = C^-1`` for a covariance C: what exact knowledge of values with this covariance takes away.

    Parameters
    ----------
    factor : (n, n) array
        Lower Cholesky factor of C.
    """

    def __init__(self, factor: Array) -> None:
        self._inverse_factor = triangular_inverse(factor)

    def dense(self) -> Array:
        """Return ``R (n, n)``."""
        return np.asarray(self._inverse_factor.T @ self._inverse_factor)

    def multiply(self, vectors: Array) -> Array:
        """Return R times ``vectors``, ``(n,)`` or ``(n, m)``."""
        return np.asarray(self._inverse_factor.T @ (self._inverse_factor @ vectors))

    def quadratic(self, features: Array) -> Array:
        """Return ``k(x)' R k(x')``, ``(m, m)``."""
        projected = self._inverse_factor @ features
        return np.asarray(projected.T @ projected)

    def quadratic_diagonal(self, features: Array) -> Array:
        """Return its diagonal ``(m,)``."""
        projected = self._inverse_factor @ features
        return np.asarray(np.einsum("ij,ij->j", projected, projected))


class Matrix(ABC):
    """The Gram matrix K ``(n, n)`` of the training cases, in one form or another.

    A form must have a name, a diagonal, products and the correction that sites make of it. All else follows from these,
    at the cost of a dense matrix where it needs one, and may be said in a better way: the features of a case are its
    covariances with the training cases, and a derivative in K is an array ``(n, n)``.

    Attributes
    ----------
    form : str
        The name by which a solver says that it takes it.
    is_whole : bool
        Whether it has all of its entries: work on it grows as n^3.
    is_root : bool
        Whether it is a root with a part of each case's own, L L' + diag(d).
    factor_is_cheap : bool
        Whether a factorisation costs no more than some products.
    independent_rest : bool
        Whether what its root leaves of the variance of a case, old or new, is noise of the case's own.
    pivots : (r,) array of int or None
        The training cases that a root of low rank was made from.
    description : str
        What it is and what else there would be, where that is not the whole matrix, to be said of a failure.
    """

    form: ClassVar[str]
    is_whole: ClassVar[bool] = False
    is_root: ClassVar[bool] = False
    factor_is_cheap: ClassVar[bool] = True
    independent_rest: ClassVar[bool] = False
    pivots: NDArray[np.intp] | None = None

    @abstractmethod
    def diagonal(self) -> Array:
        """Return K_ii ``(n,)``."""

    @abstractmethod
    def __matmul__(self, vector: Array) -> Array:
        """Return K v, for ``v (n,)`` or ``(n, k)``."""

    @abstractmethod
    def sites(self, precision: Array) -> Sites:
        """Return the correction of sites with precisions ``(n,)``."""

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the dense matrix."""
        n = self.diagonal().size
        return n, n

    @property
    def rank(self) -> int | None:
        """Columns of its root, where it is made from one."""
        return None

    @property
    def width(self) -> int:
        """Features of a case."""
        return int(self.shape[-1])

    @property
    def numbers(self) -> Any:
        """What it is made of, which must be finite."""
        return self.diagonal()

    @property
    def description(self) -> str:
        """Nothing."""
        return ""

    @property
    def stated(self) -> dict[str, Any]:
        """What the `Info` of a solution on it states of it, by name."""
        return {}

    @property
    def of_classes(self) -> Any:
        """Itself, where it has the verbs that methods for several classes ask for."""
        return None

    @cached_property
    def root(self) -> Root:
        """A ``(n, r)`` with K = A A', but for what is `independent_rest`."""
        return psd_root(self.dense())

    def some_of_product(self, which: NDArray[np.intp], vector: Array) -> Array:
        """Return the entries with the given numbers ``(k,)`` of K v, where that costs less for less than all."""
        return np.asarray((self @ vector)[which])

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of K with the given numbers ``(k,)``."""
        return (self @ _of_identity(self.shape[-1], which)).T

    def dense(self) -> Array:
        """Return K ``(n, n)`` as an array."""
        return self.rows(np.arange(self.shape[-1]))

    def in_root_form(self) -> Matrix | None:
        """Return the same on a root, for steps that small eigenvalues do not spoil, or None where all are so already.

        The steps of `solvers.meanfield` take differences of large numbers where K is nearly singular, or huge beside
        the noise. On a root there is no such difference; but a step costs two to three times as much at full rank.
        """
        return None

    def basis(self, X: Array) -> tuple[Array, Array] | None:
        """Return the inputs P ``(r, d)`` and the factor L ``(r, r)`` of the features L^-1 k(P, x), if K is made so."""
        return None

    def anew(self) -> Self:
        """Return the same, with nothing known beforehand (as from a file) of what would be computed."""
        return self

    def in_single_precision(self) -> Matrix | None:
        """Return the same in single precision, or None where that would not pay."""
        return None

    def coarser(self, left_out: Callable[[], float], most: float, *, started: bool) -> Matrix | None:
        """Return a matrix of fewer columns whose solution is a start for that of this one, or None if none pays.

        Where there is a start already (``started``), it must be nearer than that. Of a root of low rank it has at most
        a part ``most`` of the columns, and leaves out at most a trace ``left_out`` of the matrix.
        """
        return None

    def check_memory(self, settings: int, classes: int) -> None:
        """Raise a MemoryError if so many solutions on such matrices would not fit into this machine together."""
        check_memory(self.shape[-1], settings, self.rank, classes)

    def features(self, kernel: Any, X: Array, X_new: Array) -> Array:
        """Return the features ``(width, m)`` of new cases, linear in their covariances with the training cases."""
        return np.asarray(kernel.cross(X, X_new))

    def in_features(self, alpha: Array) -> Array:
        """Return the weights ``(..., width)`` of the features whose sum is the mean, from ``alpha (..., n)``."""
        return alpha

    def posterior_variance(self, correction: Correction) -> Array:
        """Return the posterior variances ``(n,)`` of the training cases; rounding may make them negative."""
        sites = correction.sites
        if sites is not None:  # without a difference
            return sites.covariance_diagonal()
        return np.asarray(self.diagonal() - correction.quadratic_diagonal(self.dense()))

    def posterior_factor(self, correction: Any) -> Array:
        """Return the triangular C ``(r, r)`` with the posterior covariance C C' of u, f = A u for the `root` A."""
        root, sites = np.asarray(self.root), correction.sites
        if sites is not None:
            return np.asarray(sites.weight_factor(root))
        return cholesky(np.eye(root.shape[1]) - correction.quadratic(root))

    def sampler(self, alpha: Array, correction: Any) -> RootSampler:
        """Return what draws the latent values of the training cases from the posterior with weights ``alpha (n,)``."""
        root = np.asarray(self.root)
        return RootSampler(root, self.posterior_factor(correction), root.T @ alpha)

    def draw_new(self, kernel: Any, X_new: Array, alpha: Array, correction: Any, noise: Any) -> Array | None:
        """Return joint draws ``(draws, m)`` of the latent values of new cases, where it knows a way, or None.

        ``noise`` returns independent normal numbers ``(draws, k)``, given k.
        """
        return None

    def field_of_others(self, alpha: Array, variance: Array, sites: Sites) -> Array:
        """Return f_i - lambda_i alpha_i ``(n,)`` at cavity variances lambda."""
        return np.asarray(self @ alpha - variance * alpha)

    def solve_scaled(self, root: Array, own: Array, right: Array) -> Array:
        """Return y ``(n,)`` with (diag(own) + S K S) y = right, for S = diag(root)."""
        # that matrix is S (K + Omega) S for the sites W = S^2/own
        if not np.all(own > 0):
            raise NotPositiveDefiniteError("the sites are too strong to be added up")
        root_times_y = self.sites(root**2 / own).weights(root * right / own)
        return np.asarray((right - root * (self @ root_times_y)) / own)

    def stored(self, alpha: Array, correction: Any) -> dict[str, NDArray[Any]]:
        """Return what it, and predictions under it, can be made from again beside kernel and inputs, by name."""
        return {}

    def gradient(self, alpha: Array, weights: Array) -> Any:
        """Return ``alpha alpha' / 2 + diag(weights)``, a derivative with respect to K, as `pull_back` takes it."""
        return np.asarray(0.5 * np.outer(alpha, alpha) + np.diag(weights))

    def pull_back(self, gradient: Any, kernel: Any, X: Array) -> dict[str, Array]:
        """Return the derivatives in the parameters of the kernel from that in K."""
        return dict(kernel.gram_vjp(X, gradient))

    def rounding(self, gradient: Any) -> float:
        """Return by how much rounding of K moves a number of which this is the derivative.

        Each entry of K is off by up to eps sqrt(K_ii K_jj), whatever made it; the errors are taken as independent.
        """
        sd = np.sqrt(self.diagonal())
        return float(np.finfo(np.float64).eps * np.linalg.norm(sd[..., :, None] * gradient * sd[..., None, :]))
