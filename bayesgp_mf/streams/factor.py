r"""What past cases say of a function, or of several, kept at a few inputs: the state of a stream with a budget.

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

Several functions that are independent under one prior, the contrasts of classes, have q values at each basis input:
what acts on the inputs acts on each of them alike, and B, which the past has made one matrix of all, has q M rows.

What leaving r out costs on its own is, with :math:`P = K^{-1}`, S the posterior covariance of u and mu its mean, each
of which has a block of q rows for r,

.. math:: \mathrm{KL}_r = \tfrac12 \Bigl[ \log\det\frac{(S^{-1})_{rr}}{P_{rr}} - q
          + \frac{|(P \mu)_r|^2 + \mathrm{tr}\,(P S P)_{rr}}{P_{rr}} \Bigr].

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
from bayesgp_mf.matrices.factors import blocks, cholesky, psd_root, symmetric, triangular_inverse
from bayesgp_mf.matrices.inducing import LEAST_OWN, independent_points
from bayesgp_mf.matrices.root import features_of
from bayesgp_mf.types import Array

_ENTRIES = 2**21  # of what covariances of cases are made of, at once
SMALLEST_CONDITION = 1e-7
"""Reciprocal condition number of L, below which basis inputs are chosen anew among those there are."""


@dataclass(frozen=True, eq=False)
class Factor:
    """The posterior of functions at basis inputs, given all past cases; nothing is ever changed in it.

    Attributes
    ----------
    points : (M, d) array
        Z.
    root : (M, M) array
        L, the lower Cholesky factor of their prior covariances.
    precision : (M q, M q) array
        B, symmetric; rows j q to j q + q - 1 are those of the functions at input j.
    shift : (M q,) array
        h.
    outputs : int
        How many functions there are, q.
    """

    points: Array
    root: Array
    precision: Array
    shift: Array
    outputs: int = 1

    @property
    def size(self) -> int:
        """How many basis inputs there are, M."""
        return int(self.points.shape[0])

    @cached_property
    def inverse_factor(self) -> Array:
        """Lower triangular T ``(M q, M q)`` with T'T the posterior covariance of v."""
        return triangular_inverse(cholesky(np.asfortranarray(self.precision)))

    @cached_property
    def mean(self) -> Array:
        """Posterior mean ``(M q,)`` of v."""
        return np.asarray(self.inverse_factor.T @ (self.inverse_factor @ self.shift))

    def features(self, kernel: Any, X: Array) -> Array:
        """Return phi = L^-1 k(Z, x) ``(M, m)`` of cases ``(m, d)``."""
        return features_of(kernel, self.points, self.root, X)

    def moments(self, features: Array) -> tuple[Array, Array]:
        """Return the posterior mean ``(m, q)`` and covariance ``(m, q, q)`` of what the basis says of cases, phi' v."""
        q, m = self.outputs, features.shape[1]
        mean, covariance = np.zeros((m, q)), np.zeros((m, q, q))
        if self.size == 0:
            return mean, covariance
        for rows in blocks(m, max(1, _ENTRIES // (self.size * q**2))):
            # each block of T is triangular, too: its rows and columns are those of the inputs, in order
            projected = [
                [blas.dtrmm(1.0, self.inverse_factor[a::q, b::q], features[:, rows], lower=1) for a in range(q)]
                for b in range(q)
            ]
            for b in range(q):
                for c in range(b + 1):
                    pairs = zip(projected[b], projected[c], strict=True)
                    both = sum((np.einsum("ij,ij->j", *pair) for pair in pairs), np.zeros(rows.stop - rows.start))
                    covariance[rows, b, c] = covariance[rows, c, b] = both
        return np.asarray(features.T @ self.mean.reshape(-1, q)), covariance

    def draw(self, sizes: tuple[int, int], rng: np.random.Generator) -> Array:
        """Return draws ``(chains, draws, M, q)`` of the functions at the basis inputs."""
        return np.asarray(self.root @ self._draw_weights(sizes, rng))

    def draw_at(self, features: Array, gram: Array, draws: int, rng: np.random.Generator) -> Array:
        """Return joint draws ``(draws, m, q)`` of the functions at cases whose prior covariances are ``(m, m)``."""
        v = self._draw_weights((draws,), rng)
        rest = psd_root(gram - features.T @ features)  # what the basis leaves of the prior
        noise = rng.standard_normal((draws, rest.shape[1], self.outputs))
        return np.asarray(features.T @ v + rest @ noise)

    def _draw_weights(self, sizes: tuple[int, ...], rng: np.random.Generator) -> Array:
        """Return draws ``(*sizes, M, q)`` of v."""
        v = rng.standard_normal((*sizes, self.shift.size))
        if self.size:
            v = self.mean + v @ self.inverse_factor
        return np.asarray(v.reshape(*sizes, self.size, self.outputs))

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
        old, size, rows = self.size, self.size + new.size, self.shift.size
        root, precision = np.zeros((size, size), order="F"), np.eye(size * self.outputs)
        shift = np.zeros(size * self.outputs)
        root[:old, :old], root[old:, :old] = self.root, features[:, new].T
        root[old:, old:] = cholesky(np.asfortranarray(rest[np.ix_(new, new)]))
        precision[:rows, :rows], shift[:rows] = self.precision, self.shift
        return Factor(np.concatenate([self.points, X[new]]), root, precision, shift, self.outputs)

    def with_sites(self, features: Array, precision: Array, shift: Array) -> Factor:
        """Return the same after measurements of phi'v, with precisions W ``(m, q, q)`` and shifts b ``(m, q)``."""
        known, q = self.precision.copy(), self.outputs
        for a in range(q):
            for b in range(a + 1):
                block = (features * precision[:, a, b]) @ features.T
                known[a::q, b::q] += block
                if a > b:
                    known[b::q, a::q] += block.T
        return replace(self, precision=symmetric(np.tril(known)), shift=self.shift + (features @ shift).ravel())

    def forgetting(self, part: float) -> Factor:
        """Return the same with the factor to the power ``part``: 1 for all of it, 0 for nothing but the prior."""
        own = np.eye(self.shift.size)
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
        own = np.eye(self.shift.size)
        known, shift = _turned(turn, self.precision - own), _along(turn, self.shift)
        found = replace(self, root=root, precision=own + 0.5 * (known + known.T), shift=shift)
        if not np.all(np.isfinite(found.mean)):  # which raises if negative sites leave no posterior under it
            raise NotPositiveDefiniteError(f"what was learned is not finite under {kernel!r}")
        return found

    def _cheapest(self, number: int) -> NDArray[np.intp]:
        """Return which basis inputs go, by KL_r, each given that those before it are gone."""
        q = self.outputs
        inverse = triangular_inverse(self.root)  # L^-1, so that u = L v
        weights = inverse.T @ self.mean.reshape(-1, q)  # P mu
        halves = (self.inverse_factor[:, a::q] @ inverse for a in range(q))
        both = sum((half.T @ half for half in halves), np.zeros_like(inverse))  # P S P, added up
        prior, posterior = inverse.T @ inverse, _turned(inverse, self.precision)  # P and S^-1
        gone: list[int] = []
        here = np.ones(self.size, dtype=bool)
        every = np.arange(self.size)
        for _ in range(number):
            p, own = prior.diagonal(), posterior.reshape(self.size, q, self.size, q)[every, :, every]
            with np.errstate(divide="ignore", invalid="ignore"):
                sign, log_det = np.linalg.slogdet(own)
                cost = log_det - q * np.log(p) + (np.sum(weights**2, axis=1) + both.diagonal()) / p
            r = int(np.argmin(np.where(here & (sign > 0) & np.isfinite(cost), cost, np.inf)))
            gone.append(r)
            here[r] = False
            # of the others alone: P and S^-1 lose a rank, or q, and P mu and P S P are taken through the new P
            column = prior[:, r] / p[r]
            column[r] = 0.0
            weights = weights - np.outer(column, weights[r])
            cross = both[:, r] - (0.5 * both[r, r]) * column
            both = both - np.outer(column, cross) - np.outer(cross, column)
            rows = posterior[q * r : q * r + q]
            posterior = posterior - rows.T @ np.linalg.solve(own[r], rows)
            prior = prior - np.outer(prior[:, r], column)
        return np.array(gone, dtype=np.intp)

    def keeping(self, stays: NDArray[np.intp]) -> Factor:
        """Return the same without all basis inputs but some, in order, whose marginal posterior stays."""
        if stays.size == self.size:
            return self
        k = stays.size * self.outputs
        gone = np.setdiff1d(np.arange(self.size), stays)
        turn, upper = np.linalg.qr(self.root[np.concatenate([stays, gone])].T)  # P L = L_p Q'
        sign = np.where(np.diag(upper) < 0, -1.0, 1.0)
        turn, root = turn * sign, (upper * sign[:, None]).T
        precision, shift = _turned(turn, self.precision), _along(turn, self.shift)
        solved = triangular_inverse(cholesky(np.asfortranarray(precision[k:, k:])))
        cross = solved @ precision[k:, :k]
        left = precision[:k, :k] - cross.T @ cross
        return Factor(
            self.points[stays],
            np.asfortranarray(np.tril(root[: stays.size, : stays.size])),
            0.5 * (left + left.T),
            shift[:k] - cross.T @ (solved @ shift[k:]),
            self.outputs,
        )


def _along(turn: Array, rows: Array) -> Array:
    """Return Q' ``(M, k)``, for each function alike, times rows ``(M q, ...)``."""
    return np.asarray((turn.T @ rows.reshape(turn.shape[0], -1)).reshape(-1, *rows.shape[1:]))


def _turned(turn: Array, matrix: Array) -> Array:
    """Return Q' A Q, with Q of each function alike, for a symmetric A ``(M q, M q)``."""
    return _along(turn, np.ascontiguousarray(_along(turn, matrix).T))


def nothing(columns: int, outputs: int = 1) -> Factor:
    """Return the state before any case, for inputs ``(m, columns)``."""
    return Factor(np.empty((0, columns)), np.empty((0, 0), order="F"), np.empty((0, 0)), np.empty(0), outputs)
