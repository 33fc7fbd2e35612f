"""The root L of a Gram matrix ``(n, M)``: an array, or one whose rows are computed whenever they are needed.

With it go the derivative with respect to a Gram matrix L L' + diag(d), as the kernel that made it takes it, and draws
of latent values from a Gaussian posterior, with the densities that importance sampling needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.linalg import blas

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.factors import blas_routine, blocks, symmetric, triangular_inverse
from bayesgp_mf.types import Array


def features_of(kernel: Any, points: Array, factor: Array, X: Array) -> Array:
    """Return the features L^-1 k(P, x) ``(r, m)`` of cases, for the Cholesky factor L of the covariances of points."""
    if points.shape[0] == 0:  # which not every kernel is made for
        return np.empty((0, X.shape[0]), order="F")
    # the transpose of k(x, P) has the order of memory in which equations are solved in place
    cross = np.asarray(kernel.cross(X, points), dtype=np.float64)
    return np.asarray(blas.dtrsm(1.0, factor, cross.T, lower=1, overwrite_b=1))


def weighted_square(root: Root, weights: Array) -> Array:
    """Return the lower triangle of L' D L ``(r, r)`` for a root ``(n, r)`` and weights ``(n,)`` of any sign."""
    result = np.zeros((root.shape[1], root.shape[1]), dtype=root.dtype, order="F")
    for block in blocks(weights.size):
        add_weighted_square(result, root[block], weights[block])
    return result


def add_weighted_square(result: Array, rows: Array, weights: Array) -> None:
    """Add to the lower triangle ``(r, r)``, in the order of memory of columns, that of some rows ``(k, r)``."""
    scaled = rows * np.sqrt(np.abs(weights)).astype(rows.dtype)[:, None]
    for sign in (1.0, -1.0):
        these = sign * weights > 0
        if these.any():
            some = scaled if these.all() else scaled[these]
            blas_routine("syrk", result)(sign, some.T, beta=1.0, c=result, lower=1, overwrite_c=1)


def variances(root: Root, inverse_factor: Array) -> Array:
    """Return the diagonal ``(n,)`` of L T'T L' for a root ``(n, r)`` and a lower triangular T ``(r, r)``."""
    result, multiply = np.empty(root.shape[0]), blas_routine("trmm", inverse_factor)
    for block in blocks(result.size):
        projected = multiply(1.0, inverse_factor, root[block].T, lower=1)
        result[block] = np.einsum("ij,ij->j", projected, projected)
    return result


@dataclass(frozen=True, eq=False)
class ComputedRoot:
    """A root that is never there as a whole, for when it would not fit into memory.

    Attributes
    ----------
    kernel : Kernel
        Prior covariance.
    X : (n, k) array
        Inputs.
    points : (M, k) array
        Inducing inputs.
    factor : (M, M) array
        Lower Cholesky factor of their covariances.
    """

    kernel: Any
    X: Array
    points: Array
    factor: Array

    @property
    def shape(self) -> tuple[int, int]:
        """Cases and columns."""
        return int(self.X.shape[0]), int(self.points.shape[0])

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of its entries."""
        return np.dtype(np.float64)

    @property
    def T(self) -> _Transposed:  # noqa: N802
        """The transpose."""
        return _Transposed(self)

    def __getitem__(self, which: Any) -> Any:
        if isinstance(which, tuple):  # [:, :r]
            rank = which[1].stop
            return ComputedRoot(self.kernel, self.X, self.points[:rank], np.asfortranarray(self.factor[:rank, :rank]))
        return features_of(self.kernel, self.points, self.factor, self.X[which]).T

    def __matmul__(self, other: Array) -> Array:
        return np.concatenate([self[block] @ other for block in blocks(self.shape[0])])

    def kept(self) -> Array:
        """Return the whole root as an array."""
        root = np.empty(self.shape)
        for block in blocks(self.shape[0]):
            root[block] = self[block]
        return root


@dataclass(frozen=True, eq=False)
class _Transposed:
    root: ComputedRoot

    def __matmul__(self, other: Array) -> Array:
        return np.asarray(sum(self.root[block].T @ other[block] for block in blocks(self.root.shape[0])))


Root: TypeAlias = Array | ComputedRoot
"""Of an array that stands for a root, rows, products and, as ``[:, :r]``, the first columns are asked."""


@dataclass(frozen=True, eq=False)
class RootGradient:
    r"""The derivative G of a number with respect to K, :math:`G = (l r^T + r l^T - R)/2 + \operatorname{diag}(w)`.

    For fixed inducing cases m, :math:`Q = L L^T = K_{nm} K_{mm}^{-1} K_{mn}` changes with
    :math:`B = K_{mm}^{-1} K_{mn}` by

    .. math:: dQ = dK_{nm} B + B^T dK_{mn} - B^T dK_{mm} B .

    Where the rest of the variances is noise of the cases' own, these are exact, and with
    :math:`G' = G - \operatorname{diag} G`

    .. math:: \operatorname{tr}(G\, dK) = \sum_i G_{ii}\, dk_{ii} + \operatorname{tr}(G'\, dQ) .

    Where it is left out, K = Q and G' = G.

    Attributes
    ----------
    gram : RootGram
        K.
    left, right : (n,) or (n, k) array
        l and r; a sum over the columns where there are several.
    correction : RootCorrection or None
        R, or a sum of such, of which `diagonal`, `times_root` and `of_weights` are asked; zero if None.
    weights : (n,) array
        w.
    seen : pair of arrays, optional
        L' l and L' r, ``(M,)`` or ``(M, k)``, where they are known, or where these cases are a part of all.
    """

    gram: Any
    left: Array
    right: Array
    correction: Any
    weights: Array
    seen: tuple[Array, Array] | None = None

    @cached_property
    def _inverse(self) -> Array:
        return triangular_inverse(self.gram.factor)

    @cached_property
    def _without_weights(self) -> Array:
        """The diagonal ``(n,)`` of G, less w."""
        product = np.asarray(np.einsum("ik,ik->i", _columns(self.left), _columns(self.right)))
        return product if self.correction is None else product - 0.5 * self.correction.diagonal()

    @property
    def _taken(self) -> Array:
        """What G' has less on its diagonal ``(n,)`` than (l r' + r l' - R)/2."""
        return self._without_weights if self.gram.independent_rest else -self.weights

    @cached_property
    def _seen(self) -> tuple[Array, Array]:
        """L' l and L' r ``(M, k)``."""
        if self.seen is not None:
            return _columns(self.seen[0]), _columns(self.seen[1])
        return self.gram.root.T @ _columns(self.left), self.gram.root.T @ _columns(self.right)

    def _times_root(self, block: slice) -> Array:
        """Return rows of G' L."""
        some, (left, right) = self.gram.root[block], self._seen
        result = 0.5 * _columns(self.left)[block] @ right.T
        result += 0.5 * _columns(self.right)[block] @ left.T
        if self.correction is not None:
            result -= 0.5 * self.correction.times_root(block, some)
        result -= self._taken[block, None] * some
        return np.asarray(result)

    def of_cross(self) -> Iterator[tuple[slice, Array]]:
        """Return the derivatives in rows of K_nm, 2 G' B', block by block, as pairs of a slice and ``(k, M)``."""
        for block in blocks(self.left.shape[0]):
            rows = self._times_root(block)  # B' = L L_m^-1
            yield block, blas.dtrmm(2.0, self._inverse, rows.T, lower=1, trans_a=1, overwrite_b=1).T

    def square(self) -> Array:
        """Return L' diag(G - G') L ``(M, M)`` without w, the sum over cases that `of_inducing` takes."""
        return symmetric(weighted_square(self.gram.root, self._taken))

    def of_inducing(self, square: Array | None = None) -> Array:
        """Return the derivative in K_mm, -B G' B' ``(M, M)``; with the sum of `square` over more cases, that of all."""
        left, right = self._seen
        inner = 0.5 * left @ right.T
        inner += inner.T
        inner -= self.square() if square is None else square
        if self.correction is not None:
            inner -= 0.5 * self.correction.of_weights()
        return np.asarray(-self._inverse.T @ inner @ self._inverse)

    def of_diagonal(self, kernel: Any, X: Array) -> dict[str, Array]:
        """Return the derivatives in the parameters of the kernel by way of k_ii."""
        return dict(kernel.diag_vjp(X, self._without_weights + self.weights))

    def dense(self) -> Array:
        """Return G ``(n, n)``: the derivative in all of K, where what is left out of it stays small as K changes."""
        result = _columns(self.left) @ _columns(self.right).T
        if self.correction is not None:
            result -= 0.5 * self.correction.dense()
        result = 0.5 * (result + result.T)
        result.ravel()[:: result.shape[0] + 1] += self.weights
        return np.asarray(result)

    def columns(self) -> Array:
        """Return the derivative ``(n, r)`` in the columns of pivots, which are cases, their own rows among them."""
        result = np.concatenate([rows for _, rows in self.of_cross()])
        result[self.gram.pivots] += self.of_inducing()
        return result


def _columns(values: Array) -> Array:
    """Return ``(n, k)`` for a vector or for several."""
    return values[:, None] if values.ndim == 1 else values


class Drawn(NamedTuple):
    """Some draws of the latent values of the training cases.

    Attributes
    ----------
    f : (draws, n) array
        In latent units.
    log_prior, log_density : (draws,) array
        Logs of the prior density and of that which they were drawn by, of the whitened values: those with which
        f is a linear map of independent standard normal ones under the prior.
    """

    f: Array
    log_prior: Array
    log_density: Array


class Own(NamedTuple):
    r"""What is a case's own, given the shared part g of its latent value.

    Under a site W it has the mean :math:`d (b - W g) / (1 + W d)` and the variance :math:`d / (1 + W d)`.

    Attributes
    ----------
    prior : (n,) array
        Its prior variances d.
    mean, slope : (n,) array
        Its mean is ``mean - slope * g``.
    share : (n,) array
        1 + W d.
    """

    prior: Array
    mean: Array
    slope: Array
    share: Array

    def draw(self, block: slice, shared: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Return draws ``(draws, k)`` for some cases, and the sums of their squares as prior and posterior see them."""
        prior, noise = self.prior[block], rng.standard_normal(shared.shape)
        uncertain = prior > 0
        values = self.mean[block] - self.slope[block] * shared + np.sqrt(prior / self.share[block]) * noise
        white = np.divide(values**2, prior, out=np.zeros_like(values), where=uncertain)
        return values, np.sum(white, axis=1), np.sum(noise[:, uncertain] ** 2, axis=1)


class RootSampler:
    r"""Draws of f = A u, or of A u + e with what is a case's own, with a posterior of u.

    Densities are those of the whitened values: u, and :math:`e_i / \sqrt{d_i}`.

    Parameters
    ----------
    root : (n, r) array
        A, with K = A A' but for what is a case's own.
    factor : (r, r) array
        Lower triangular C with the posterior covariance C C' of u.
    mean : (r,) array
        That of u: A' alpha, since the mean of A u is A A' alpha.
    own : Own, optional
        What is a case's own.
    """

    def __init__(self, root: Root, factor: Array, mean: Array, own: Own | None = None) -> None:
        self._root, self._factor, self._mean, self._own = root, factor, mean, own
        size = mean.size + (0 if own is None else np.count_nonzero(own.prior))
        self._constant = 0.5 * size * np.log(2.0 * np.pi)
        self._log_factor = float(np.sum(np.log(np.diag(factor))))
        if own is not None:
            self._log_factor -= 0.5 * float(np.sum(np.log(own.share)))

    def draw(self, draws: int, rng: np.random.Generator) -> Drawn:
        """Return some draws."""
        noise = rng.standard_normal((draws, self._mean.size))
        u = self._mean + noise @ self._factor.T
        f = np.empty((draws, self._root.shape[0]))
        square, square_noise = np.sum(u**2, axis=1), np.sum(noise**2, axis=1)
        for block in blocks(f.shape[1]):
            f[:, block] = u @ self._root[block].T
            if self._own is not None:
                values, of_prior, of_noise = self._own.draw(block, f[:, block], rng)
                f[:, block] += values
                square += of_prior
                square_noise += of_noise
        return Drawn(f, -0.5 * square - self._constant, -0.5 * square_noise - self._log_factor - self._constant)

    def log_prior(self, f: Array) -> Array:
        """Return the log prior density of values ``(draws, n)``, where A is invertible and nothing is a case's own."""
        if self._own is not None:  # values do not say which part of them is
            raise NotPositiveDefiniteError("tilted marginals need the dense Gram matrix; use marginals='gaussian'.")
        u = np.linalg.solve(self._root[:], f.T).T
        return np.asarray(-0.5 * np.sum(u**2, axis=1) - self._constant)
