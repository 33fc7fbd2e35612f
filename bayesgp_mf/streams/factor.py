r"""What past cases say of a function, kept at a few inputs: the state of a stream with a budget.

The past is a Gaussian factor on :math:`u = f(Z)` at M basis inputs Z. With :math:`K_{mm} = L L^T` and
:math:`v = L^{-1} u`, whose prior is N(0, I), the posterior of v is kept as

.. math:: q(v) \propto \exp(h^T v - \tfrac12 v^T B v), \qquad B = I + L^T \Lambda L,

:math:`\Lambda` being the precision of the factor on u. B has no eigenvalue below one as long as no site is negative,
whatever the condition of :math:`K_{mm}`, of which nothing is inverted:

- new basis inputs are more coordinates v with the prior, of which the past says nothing [1]_;
- leaving inputs out keeps the marginal posterior of the others, which is the nearest of all such factors in
  KL(q || .) [2]_: in the order in which they come last, :math:`P L = L_p Q^T` turns v into :math:`Q^T v`, whose prior
  is N(0, I) too, and of B the Schur complement is left;
- forgetting takes a power of the factor.

What leaving r out costs on its own is, with :math:`P = K^{-1}`, S the posterior covariance of u and mu its mean,

.. math:: \mathrm{KL}_r = \tfrac12 \Bigl[ \log\frac{(S^{-1})_{rr}}{P_{rr}} - 1
          + \frac{(P \mu)_r^2 + (P S P)_{rr}}{P_{rr}} \Bigr].

References
----------
.. [1] Bui, T. D., Nguyen, C. V., & Turner, R. E. (2017). Streaming sparse Gaussian process approximations. NIPS 30.
.. [2] Csato, L., & Opper, M. (2002). Sparse on-line Gaussian processes. Neural Computation 14(3), 641-668.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.factors import cholesky, symmetric, triangular_inverse
from bayesgp_mf.matrices.inducing import LEAST_OWN, independent_points
from bayesgp_mf.matrices.root import features_of
from bayesgp_mf.types import Array

SMALLEST_CONDITION = 1e-7
"""Reciprocal condition number of L, below which basis inputs are chosen anew among those there are."""


@dataclass(frozen=True, eq=False)
class Factor:
    """The posterior of a function at basis inputs, given all past cases; nothing is ever changed in it.

    Attributes
    ----------
    points : (M, d) array
        Z.
    root : (M, M) array
        L, the lower Cholesky factor of their prior covariances.
    precision : (M, M) array
        B, symmetric.
    shift : (M,) array
        h.
    """

    points: Array
    root: Array
    precision: Array
    shift: Array

    @property
    def size(self) -> int:
        """How many basis inputs there are, M."""
        return int(self.points.shape[0])

    @cached_property
    def inverse_factor(self) -> Array:
        """Lower triangular T ``(M, M)`` with T'T the posterior covariance of v."""
        return triangular_inverse(cholesky(np.asfortranarray(self.precision)))

    @cached_property
    def mean(self) -> Array:
        """Posterior mean ``(M,)`` of v."""
        return np.asarray(self.inverse_factor.T @ (self.inverse_factor @ self.shift))

    def features(self, kernel: Any, X: Array) -> Array:
        """Return phi = L^-1 k(Z, x) ``(M, m)`` of cases ``(m, d)``."""
        if self.size == 0:  # which not every kernel is made for
            return np.empty((0, X.shape[0]), order="F")
        return features_of(kernel, self.points, self.root, X)

    def moments(self, features: Array) -> tuple[Array, Array]:
        """Return the posterior mean and variance ``(m,)`` of what the basis says of cases, phi' v."""
        if self.size == 0:
            return np.zeros(features.shape[1]), np.zeros(features.shape[1])
        projected = blas.dtrmm(1.0, self.inverse_factor, features, lower=1)
        return np.asarray(features.T @ self.mean), np.einsum("ij,ij->j", projected, projected)

    def draw(self, sizes: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return draws ``(chains, draws, M)`` of the function at the basis inputs."""
        noise = rng.standard_normal((sizes[0] * sizes[1], self.size))
        f = (self.mean + noise @ self.inverse_factor) @ self.root.T if self.size else noise
        return np.asarray(f.reshape(*sizes, self.size))

    def with_points(self, kernel: Any, X: Array) -> Factor:
        """Return the same with more basis inputs ``(k, d)``, but for those that others determine up to rounding."""
        found = self._with_points(kernel, X)
        if found.size == 0 or lapack.dtrcon(found.root, uplo="L")[0] > SMALLEST_CONDITION:
            return found
        # each was told from those before it, and yet all together they are nearly dependent
        stays = independent_points(kernel, found.points)
        return found.keeping(stays)

    def _with_points(self, kernel: Any, X: Array) -> Factor:
        features = self.features(kernel, X)
        gram = np.asarray(kernel.cross(X, X), dtype=np.float64)
        prior = gram.diagonal().copy()
        if not np.all(np.isfinite(gram)) or np.any(prior < 0):
            raise NotPositiveDefiniteError(f"the prior covariances of these cases are not finite under {kernel!r}")
        rest = gram - features.T @ features
        some = np.flatnonzero(rest.diagonal() > LEAST_OWN * prior)  # LAPACK does not ask this of the first one
        if not some.size:
            return self
        scale = np.sqrt(prior[some])
        relative = rest[np.ix_(some, some)] / np.outer(scale, scale)
        _, order, rank, _ = lapack.dpstrf(np.asfortranarray(relative), lower=1, tol=LEAST_OWN)
        new = some[np.sort(order[:rank] - 1)]
        old, size = self.size, self.size + new.size
        root, precision = np.zeros((size, size), order="F"), np.eye(size)
        shift = np.zeros(size)
        root[:old, :old], root[old:, :old] = self.root, features[:, new].T
        root[old:, old:] = cholesky(np.asfortranarray(rest[np.ix_(new, new)]))
        precision[:old, :old], shift[:old] = self.precision, self.shift
        return Factor(np.concatenate([self.points, X[new]]), root, precision, shift)

    def with_sites(self, features: Array, precision: Array, shift: Array) -> Factor:
        """Return the same after measurements of phi'v ``(m,)``, with precisions W and shifts b."""
        told = self.precision + symmetric(np.tril((features * precision) @ features.T))
        return replace(self, precision=told, shift=self.shift + features @ shift)

    def forgetting(self, part: float) -> Factor:
        """Return the same with the factor to the power ``part``: 1 for all of it, 0 for nothing but the prior."""
        own = np.eye(self.size)
        return replace(self, precision=own + part * (self.precision - own), shift=part * self.shift)

    def within(self, budget: int) -> Factor:
        """Return the same with at most so many basis inputs: those go, one after the other, that cost least."""
        if self.size <= budget:
            return self
        return self.keeping(np.setdiff1d(np.arange(self.size), self._cheapest(self.size - budget)))

    def under(self, kernel: Any) -> Factor:
        """Return the same factor of the past under another prior covariance.

        Basis inputs that others determine under it up to rounding go first.

        Raises
        ------
        NotPositiveDefiniteError
            If all its variances there are zero, or overflow.
        """
        if self.size == 0:
            return self
        stays = independent_points(kernel, self.points)
        if stays.size < self.size:
            return self.keeping(stays).under(kernel)
        root = cholesky(np.asfortranarray(kernel.cross(self.points, self.points), dtype=np.float64))
        turn = blas.dtrsm(1.0, self.root, root, lower=1)  # of new coordinates into old ones
        own = np.eye(self.size)
        told = turn.T @ (self.precision - own) @ turn
        found = replace(self, root=root, precision=own + 0.5 * (told + told.T), shift=turn.T @ self.shift)
        if not np.all(np.isfinite(found.mean)):  # which raises if negative sites leave no posterior under it
            raise NotPositiveDefiniteError(f"what was learned is not finite under {kernel!r}")
        return found

    def _cheapest(self, number: int) -> NDArray[np.intp]:
        """Return which basis inputs go, by KL_r, each given that those before it are gone."""
        inverse = triangular_inverse(self.root)  # L^-1, so that u = L v
        weights = inverse.T @ self.mean  # P mu
        half = self.inverse_factor @ inverse
        prior, both = inverse.T @ inverse, half.T @ half  # P, and P S P
        posterior = inverse.T @ self.precision @ inverse  # S^-1
        gone: list[int] = []
        here = np.ones(self.size, dtype=bool)
        for _ in range(number):
            p, q = prior.diagonal(), posterior.diagonal()
            with np.errstate(divide="ignore", invalid="ignore"):
                cost = np.log(q / p) + (weights**2 + both.diagonal()) / p
            r = int(np.argmin(np.where(here & np.isfinite(cost), cost, np.inf)))
            gone.append(r)
            here[r] = False
            # of the others alone: P and S^-1 lose a rank, and P mu and P S P are taken through the new P
            column = prior[:, r] / p[r]
            column[r] = 0.0
            weights = weights - column * weights[r]
            cross = both[:, r] - (0.5 * both[r, r]) * column
            both = both - np.outer(column, cross) - np.outer(cross, column)
            posterior = posterior - np.outer(posterior[:, r], posterior[:, r] / q[r])
            prior = prior - np.outer(prior[:, r], column)
        return np.array(gone, dtype=np.intp)

    def keeping(self, stays: NDArray[np.intp]) -> Factor:
        """Return the same without all basis inputs but some, in order, whose marginal posterior stays."""
        k = stays.size
        if k == self.size:
            return self
        gone = np.setdiff1d(np.arange(self.size), stays)
        turn, upper = np.linalg.qr(self.root[np.concatenate([stays, gone])].T)  # P L = L_p Q'
        sign = np.where(np.diag(upper) < 0, -1.0, 1.0)
        turn, root = turn * sign, (upper * sign[:, None]).T
        precision, shift = turn.T @ self.precision @ turn, turn.T @ self.shift
        solved = triangular_inverse(cholesky(np.asfortranarray(precision[k:, k:])))
        cross = solved @ precision[k:, :k]
        left = precision[:k, :k] - cross.T @ cross
        return Factor(
            self.points[stays],
            np.asfortranarray(np.tril(root[:k, :k])),
            0.5 * (left + left.T),
            shift[:k] - cross.T @ (solved @ shift[k:]),
        )


def nothing(columns: int) -> Factor:
    """Return the state before any case, for inputs ``(m, columns)``."""
    return Factor(np.empty((0, columns)), np.empty((0, 0), order="F"), np.empty((0, 0)), np.empty(0))
