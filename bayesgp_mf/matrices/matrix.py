"""The Gram matrix of the training cases: what a form of it must say, and what follows from that."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.corrections import Correction, Sites
from bayesgp_mf.matrices.factors import cholesky, psd_root
from bayesgp_mf.matrices.memory import check_memory
from bayesgp_mf.matrices.root import Root, RootSampler, Sampler
from bayesgp_mf.types import Array


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
        columns = np.zeros((self.shape[-1], which.size))
        columns[which, np.arange(which.size)] = 1.0
        return (self @ columns).T

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
        return _posterior_factor(np.asarray(self.root), correction)

    def sampler(self, alpha: Array, correction: Any) -> Sampler:
        """Return what draws the latent values of the training cases from the posterior with weights ``alpha (n,)``."""
        root = np.asarray(self.root)
        return RootSampler(root, _posterior_factor(root, correction), root.T @ alpha)

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


def _posterior_factor(root: Array, correction: Correction) -> Array:
    sites = correction.sites
    return cholesky(np.eye(root.shape[1]) - correction.quadratic(root)) if sites is None else sites.weight_factor(root)
