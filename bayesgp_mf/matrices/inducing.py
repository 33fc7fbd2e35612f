r"""Gram matrices on inducing cases: a root of M columns, and what is left of each case's variance as noise of its own.

For M inducing inputs Z, with :math:`K_{mm} = L_m L_m^T` their covariances and :math:`L = K_{nm} L_m^{-T}`,

.. math:: K = L L^T + \operatorname{diag}(d), \qquad d_i = k_{ii} - \sum_j L_{ij}^2 \ge 0,

so that all variances are exact, and covariances are what the inducing cases explain of them (the fully independent
training conditional [1]_, [2]_). With sites W on K the posterior is that of sites

.. math:: W' = W / (1 + W d), \qquad b' = b / (1 + W d)

on :math:`L L^T` alone: what is left is noise in the measurement of :math:`g = f - e`, :math:`e_i \sim N(0, d_i)`.
Hence

.. math:: R = (L L^T + D + \Omega)^{-1}, \qquad
          \log\det(I + K W) = \sum_i \log(1 + W_i d_i) + \log\det(I + L^T W' L), \qquad \lambda_i = \lambda'_i + d_i,

with cavity variances :math:`\lambda'` of g. Nothing is approximated beyond K itself. A step is O(n M^2).

References
----------
.. [1] Snelson, E., & Ghahramani, Z. (2006). Sparse Gaussian processes using pseudo-inputs. NIPS 18.
.. [2] Quinonero-Candela, J., & Rasmussen, C. E. (2005). A unifying view of sparse approximate Gaussian process
   regression. JMLR 6, 1939-1959.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.factors import blocks, cholesky
from bayesgp_mf.matrices.root import ComputedRoot, Root, RootGradient
from bayesgp_mf.matrices.root_gram import RootGram
from bayesgp_mf.types import Array

LEAST_OWN = 1e-10
"""Inducing cases are left out that the others determine but for so small a part of their variance: the root would be
rounding in their directions (its error is eps over the square root of this)."""
NEGATIVE = 1e-8
"""What is left of a variance may be below zero by so much of it: rounding, which is nothing."""
COARSER = 4
"""A solution on so many times fewer inducing cases is a start for that on all ..."""
LEAST_COARSE = 25
"""... if these are not fewer than this."""


@dataclass(frozen=True, eq=False)
class InducingGram(RootGram):
    """A Gram matrix ``(n, n)`` known by what M inducing cases say of it; see the module.

    Attributes
    ----------
    source : Root
        L ``(n, M)``, of which some rows can be had without all.
    prior : (n,) array
        k_ii.
    points : (M, k) array
        Z, those that are not determined by the others.
    factor : (M, M) array
        L_m, lower triangular.
    known : pair of arrays, optional
        Weights alpha ``(n,)`` of which L' alpha ``(M,)`` is known, and that: so that predictions need no root.
    keep_root : bool
        Whether a root that is computed a few rows at a time is kept as a whole, from when it is first needed.
    inducing : InducingPoints, optional
        What became of the inducing inputs as they were given (`matrices.inducing_points`).
    """

    source: Any
    prior: Array
    points: Array
    factor: Array
    known: tuple[Array, Array] | None = None
    keep_root: bool = False
    inducing: Any = None

    form = "inducing"
    independent_rest = True

    @cached_property
    def root(self) -> Root:
        """L ``(n, M)``, kept or computed anew a few rows at a time."""
        return self.source.kept() if self.keep_root else self.source  # type: ignore[no-any-return]

    @cached_property
    def own(self) -> Array:
        """The part d ``(n,)`` of each prior variance that is noise of the case's own, in squared latent units."""
        own = self.prior.copy()
        for block in blocks(own.size):
            some = self.root[block]
            own[block] -= np.einsum("ij,ij->i", some, some)
        return own_part(own, self.prior, "inducing cases")

    @property
    def rank(self) -> int:
        """Columns of the root, M."""
        return int(self.factor.shape[0])

    @property
    def description(self) -> str:
        """What it is, to be said where a solution is."""
        return f" on {self.rank} inducing cases"

    @property
    def stated(self) -> dict[str, Any]:
        """What a solution on it states of it: M, and the mean part of the prior variances that is noise of its own."""
        share = np.divide(self.own, self.prior, out=np.zeros_like(self.own), where=self.prior > 0)
        return {"rank": self.rank, "independent": float(np.mean(share))}

    def diagonal(self) -> Array:
        """Return K_ii ``(n,)``."""
        return self.prior

    def some_of_product(self, which: NDArray[np.intp], vector: Array) -> Array:
        """Return the entries with the given numbers ``(k,)`` of K v, without the root where L' v is known."""
        some = self.source[which]
        own = np.maximum(self.prior[which] - np.einsum("ij,ij->i", some, some), 0.0)
        return np.asarray(some @ self.in_features(vector) + own * vector[which])

    def basis(self, X: Array) -> tuple[Array, Array]:
        """Return Z and L_m: the features of a case are L_m^-1 k(Z, x)."""
        return self.points, self.factor

    def in_features(self, alpha: Array) -> Array:
        """Return L' alpha ``(..., M)``: the posterior mean is its product with the features."""
        if self.known is not None and alpha is self.known[0]:
            return self.known[1]
        return super().in_features(alpha)

    def anew(self) -> InducingGram:
        """Return the same, with nothing known beforehand of what would be computed."""
        return self if self.known is None else replace(self, known=None)

    def in_single_precision(self) -> InducingGram | None:
        """Return the same with a root in single precision, if it is kept."""
        shorten = getattr(self.root, "astype", None)
        if shorten is None:
            return None
        single = InducingGram(shorten(np.float32), self.prior, self.points, self.factor)
        vars(single)["own"] = self.own  # of which single precision would leave a few digits
        return single

    def stored(self, alpha: Array, correction: Any) -> dict[str, NDArray[Any]]:
        """Return Z, the weights of the features and the factor of their covariance: predictions need no more."""
        return {"inducing_input": self.points, **correction.stored_on_inducing(alpha)}

    def pull_back(self, gradient: RootGradient, kernel: Any, X: Array) -> dict[str, Array]:
        """Return the derivatives in the parameters of the kernel from that in K, at inducing inputs that stay."""
        result = gradient.of_diagonal(kernel, X)
        for block, bar in gradient.of_cross():
            _add(result, kernel.cross_vjp(X[block], self.points, bar))
        _add(result, kernel.cross_vjp(self.points, self.points, gradient.of_inducing()))
        return result

    def pull_back_inputs(self, gradient: RootGradient, kernel: Any, X: Array) -> Array:
        """Return the derivatives ``(M, k)`` in the inducing inputs from that in K."""
        # K_mm is symmetric: each inputs stand on both of its sides
        result = 2.0 * kernel.inputs_vjp(self.points, self.points, gradient.of_inducing())
        for block, bar in gradient.of_cross():
            result += kernel.inputs_vjp(X[block], self.points, bar)
        return np.asarray(result)

    def leading(self, rank: int) -> InducingGram:
        """Return the Gram matrix on the first inducing cases."""
        factor = np.asfortranarray(self.factor[:rank, :rank])
        return InducingGram(self.root[:, :rank], self.prior, self.points[:rank], factor)

    def coarser(self, left_out: Callable[[], float], most: float, *, started: bool) -> InducingGram | None:
        """Return the matrix on a quarter of the inducing cases, or None where these are few."""
        rank = self.rank // COARSER
        return None if started or rank < LEAST_COARSE else self.leading(rank)


def own_part(own: Array, prior: Array, others: str) -> Array:
    """Return what others leave of prior variances ``(n,)``, where it is below zero by rounding as nothing.

    Raises
    ------
    NotPositiveDefiniteError
        If it is below zero by more, or NaN.
    """
    if not np.all(own >= -NEGATIVE * prior):  # false if one is NaN
        raise NotPositiveDefiniteError(
            f"the covariances of case {int(np.argmin(own))} with the {others} are larger than its variance allows: "
            "they are those of no process. Check cross and diag of the kernel."
        )
    return np.asarray(np.maximum(own, 0.0))


def inducing_gram(
    kernel: Any, X: Array, points: Array, keep_root: bool = True, known: tuple[Array, Array] | None = None
) -> InducingGram:
    """Return the Gram matrix of inputs ``X (n, k)`` on inducing inputs ``points (M, k)``.

    No point must be determined by the others: `independent_points` leaves out those that are.

    Parameters
    ----------
    kernel : Kernel
        Prior covariance. What `diag` has beyond `cross`, as noise of single cases, is part of d.
    X, points : (n, k) and (M, k) array
        Inputs of the cases, and of the inducing cases.
    keep_root : bool
        Whether the root ``(n, M)`` is kept; else it is computed anew, a few rows at a time, whenever it is needed.
    known : pair of arrays, optional
        As `InducingGram` has it.

    Raises
    ------
    NotPositiveDefiniteError
        If the covariances of the points have no Cholesky factor.
    """
    factor = cholesky(np.asfortranarray(kernel.cross(points, points), dtype=np.float64))
    prior = np.array(np.broadcast_to(kernel.diag(X), (X.shape[0],)), dtype=np.float64)
    return InducingGram(ComputedRoot(kernel, X, points, factor), prior, points, factor, known, keep_root)


def from_columns(entries: Array, which: NDArray[np.intp]) -> InducingGram:
    """Return the Gram matrix on some of its cases, given all of its entries ``(n, n)``."""
    factor = cholesky(np.asfortranarray(entries[np.ix_(which, which)]))
    root = blas.dtrsm(1.0, factor, entries[which], lower=1).T
    return InducingGram(root, entries.diagonal().copy(), which[:, None].astype(np.float64), factor)


def independent_points(kernel: Any, points: Array) -> NDArray[np.intp]:
    """Return which of some inputs ``(M, k)`` the others do not determine up to rounding, in their order.

    Raises
    ------
    NotPositiveDefiniteError
        If the prior variances there, without noise of each case's own, are all zero, or overflow.
    """
    gram = kernel.cross(points, points)
    scale = np.sqrt(np.maximum(np.diagonal(gram), 0.0))
    some = np.flatnonzero(scale > 0)
    if not some.size or not np.all(np.isfinite(gram)):
        what = "overflow" if some.size else "are all zero"
        raise NotPositiveDefiniteError(
            f"the prior variances at the inducing inputs, without noise of each case's own, {what} under {kernel!r}"
        )
    correlation = gram[np.ix_(some, some)] / np.outer(scale[some], scale[some])
    _, order, rank, _ = lapack.dpstrf(np.asfortranarray(correlation), lower=1, tol=LEAST_OWN)
    # in the order in which they came, since that is at random: the first of them are a fair part of all
    return np.asarray(some[np.sort(order[:rank] - 1)])


def _add(total: dict[str, Array], more: dict[str, Array]) -> None:
    for name, value in more.items():
        total[name] = total[name] + value
