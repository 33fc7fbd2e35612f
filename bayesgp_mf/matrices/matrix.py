"""The questions that every form of Gram matrix answers, so that nobody asks which one it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.matrices.corrections import Correction, Sites
from bayesgp_mf.matrices.root import Root
from bayesgp_mf.matrices.sampling import Sampler
from bayesgp_mf.types import Array


class HasPullBack(Protocol):
    """What a matrix asks of the kernel that made it."""

    def cross(self, A: Array, B: Array, /) -> Array:
        """Return the covariances ``(n, m)`` of two sets of inputs."""

    def gram_vjp(self, X: Array, gram_bar: Array, /) -> dict[str, Array]:
        """Return the derivatives in the parameters from that in the Gram matrix."""

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array, /) -> dict[str, Array]:
        """Return the derivatives in the parameters from that in `cross`."""

    def diag_vjp(self, X: Array, diag_bar: Array, /) -> dict[str, Array]:
        """Return the derivatives in the parameters from that in the variances of single cases."""


class Matrix(Protocol):
    """The Gram matrix K ``(n, n)`` of the training cases, in one form or another."""

    @property
    def form(self) -> str:
        """The name by which a solver says that it takes it."""

    @property
    def entries(self) -> Any:
        """The numbers that it is made of."""

    @property
    def root(self) -> Root:
        """A ``(n, r)`` with K = A A', but for what is `independent_rest`."""

    @property
    def rank(self) -> int | None:
        """Columns of its root; None if it has all of its entries."""

    @property
    def pivots(self) -> NDArray[np.intp] | None:
        """The training cases that a root of low rank was made from."""

    @property
    def is_whole(self) -> bool:
        """Whether it has all of its entries.

        The features of a case are then its covariances with the training cases, `pull_back` takes a derivative in all
        entries, and work on it grows as n^3.
        """

    @property
    def independent_rest(self) -> bool:
        """Whether what its root leaves of the variance of a case, old or new, is noise of the case's own."""

    @property
    def description(self) -> str:
        """What it is and what else there would be, where that is not the whole matrix, to be said of a failure."""

    @property
    def stated(self) -> dict[str, Any]:
        """What the `Info` of a solution on it states of it, by name."""

    @property
    def width(self) -> int:
        """Features of a case."""

    @property
    def factor_is_cheap(self) -> bool:
        """Whether a factorisation costs no more than some products."""

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the dense matrix."""

    def diagonal(self) -> Array:
        """Return K_ii ``(n,)``."""

    def __matmul__(self, vector: Array) -> Array:
        """Return K v."""

    def some_of_product(self, which: NDArray[np.intp], vector: Array) -> Array:
        """Return the entries with the given numbers ``(k,)`` of K v, for less than all of them cost."""

    def rows(self, which: NDArray[np.intp]) -> Array:
        """Return the rows ``(k, n)`` of K with the given numbers ``(k,)``."""

    def dense(self) -> Array:
        """Return K ``(n, n)`` as an array."""

    def scaled_root(self) -> Array | None:
        """Return an A for steps that small eigenvalues do not spoil, or None where all steps are so already."""

    def basis(self, X: Array) -> tuple[Array, Array] | None:
        """Return the inputs P ``(r, d)`` and the factor L ``(r, r)`` of the features L^-1 k(P, x), if K is made so."""

    def sites(self, precision: Array) -> Sites:
        """Return the correction of sites with precisions ``(n,)``."""

    def anew(self) -> Matrix:
        """Return the same, with nothing known beforehand (as from a file) of what would be computed."""

    def in_single_precision(self) -> Matrix | None:
        """Return the same in single precision, or None where that would not pay."""

    def coarser(self, left_out: Callable[[], float], most: float, *, started: bool) -> Matrix | None:
        """Return a matrix of fewer columns whose solution is a start for that of this one, or None if none pays.

        Where there is a start already (``started``), it must be nearer than that. Of a root of low rank it has at most
        a part ``most`` of the columns, and leaves out at most a trace ``left_out`` of the matrix.
        """

    def features(self, kernel: HasPullBack, X: Array, X_new: Array) -> Array:
        """Return the features ``(width, m)`` of new cases, linear in their covariances with the training cases."""

    def in_features(self, alpha: Array) -> Array:
        """Return the weights ``(..., width)`` of the features whose sum is the mean, from ``alpha (..., n)``."""

    def posterior_variance(self, correction: Correction) -> Array:
        """Return the posterior variances ``(n,)`` of the training cases; rounding may make them negative."""

    def posterior_factor(self, correction: Correction) -> Array:
        """Return C ``(r, r)`` with the posterior covariance C C' of the weights u of the features of a root."""

    def sampler(self, alpha: Array, correction: Correction) -> Sampler:
        """Return what draws the latent values of the training cases from the posterior with weights ``alpha (n,)``."""

    def field_of_others(self, alpha: Array, variance: Array, sites: Sites) -> Array:
        """Return f_i - lambda_i alpha_i ``(n,)`` at cavity variances lambda."""

    def solve_scaled(self, root: Array, own: Array, right: Array) -> Array:
        """Return y ``(n,)`` with (diag(own) + S K S) y = right, for S = diag(root)."""

    def stored(self, alpha: Array, correction: Correction) -> dict[str, NDArray[Any]]:
        """Return what it, and predictions under it, can be made from again beside kernel and inputs, by name."""

    def gradient(self, alpha: Array, weights: Array) -> Any:
        """Return ``alpha alpha' / 2 + diag(weights)``, a derivative with respect to K, as `pull_back` takes it."""

    def pull_back(self, gradient: Any, kernel: HasPullBack, X: Array) -> dict[str, Array]:
        """Return the derivatives in the parameters of the kernel from that in K."""

    def rounding(self, gradient: Any) -> float:
        """Return by how much rounding of K moves a number with this derivative; 0 where it could not be seen."""
