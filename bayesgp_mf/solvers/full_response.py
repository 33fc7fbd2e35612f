r"""All cases answer to a label, where the posterior covariance is nearly one of low rank.

With :math:`\Sigma = V V^T + \mathrm{diag}(s)`, changes D of the site precisions and h = db - D mu,

.. math:: \tilde D = D / (1 + D s), \quad \hat V = V / (1 + D s), \quad A = 1 + V^T \tilde D V, \\
    \Sigma' = \hat V A^{-1} \hat V^T + \mathrm{diag}(s / (1 + D s)), \quad
    \log\det(1 + D \Sigma) = \log\det A + \sum_i \log(1 + D_i s_i).

A new case is a row more. A latent value of it that is known, f, takes a direction out of V: with
:math:`q = |v|^2 + s_*`, V becomes V H with :math:`H^2 = 1 - v v^T / q`.

The steps are Newton's at the solution that there is, whose matrix is factorised once. The sums over all pairs, of
which the correction's third order is, are taken at fewer cases: the features of which :math:`\Sigma_{ij}^3` is the
product span no more than some hundred directions, and stay in them, whatever the sites.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular

from bayesgp_mf.matrices.low_rank import pivoted_cholesky
from bayesgp_mf.matrices.matrix import Cases
from bayesgp_mf.solvers.queries import Base, Gaussians, Query, cube, gaussians
from bayesgp_mf.solvers.settling import KNOWN, Response, change_of_log_integral, last_is, sum_over_pairs
from bayesgp_mf.types import Array

LEFT = 3e-4
"""Share of the posterior variances, on average, that may be left to each case alone."""
LEFT_OF_CUBES = 1e-4
"""The same for the cubes of covariances."""
WORK = 2e7
"""Cases times the square of the rank, at most: a tenth of a second for each label."""
MOST_CUBES = 600
SHARPEST = 100.0
"""Skewness over the cube of a standard deviation, in units of what this was: more is not right at those fewer cases."""
ROUNDING = 1e-13
"""Part of a variance that is rounding."""
LARGEST = 4096
"""Cases up to which Newton's matrix is factorised; above that, the steps are plain ones."""


class Compressed:
    """A solution whose covariance is nearly of low rank.

    Parameters
    ----------
    base : Base
        The solution.
    scaled_root : (n, r) array
        V over the standard deviations.
    pivots : (r,) array of int
        Cases whose rows of it are a triangular matrix.
    """

    def __init__(self, base: Base, scaled_root: Array, pivots: NDArray[np.intp]) -> None:
        sd = np.sqrt(base.variance)
        self.base, self.pivots = base, pivots
        self.root = scaled_root * sd[:, None]
        self.own = _rest(base.variance, np.einsum("ij,ij->i", self.root, self.root))
        self._triangle, self._sd = scaled_root[pivots], sd[pivots]
        self.newton = _Newton(base, self.root, self.own) if base.n <= LARGEST else None
        self._few, self._to_few = _representatives(self.root)
        self.few_rows = self.root[self._few]
        itself = np.sum(base.skewness**2 * cube(base.variance - self.own))
        self.third = float(
            sum_over_pairs(self.weights(base.skewness[None]), (self.few_rows @ self.few_rows.T)[None], itself)[0]
        )

    @classmethod
    def of(cls, base: Base) -> Compressed | None:
        """Return that of a solution, or None if the rank would be too large."""
        sd = np.sqrt(base.variance)

        def entries(rows: Cases, columns: Cases) -> Array:
            return base.covariance.entries(rows, columns) / np.multiply.outer(sd[rows], sd[columns])

        shared = (base.variance - base.covariance.own) / base.variance
        most = int(np.sqrt(WORK / base.n))
        found = pivoted_cholesky(entries, shared, LEFT * base.n, min(most, base.n))
        return None if found is None else cls(base, np.asarray(found.root), found.pivots)

    def rows_of_new(self, features: Array, variance: Array) -> tuple[Array, Array]:
        """Return the rows v ``(B, r)`` and the own parts ``(B,)`` of new cases."""
        cross = self.base.covariance.with_new(features, self.pivots) / self._sd
        v = solve_triangular(self._triangle, cross.T, lower=True).T
        return v, _rest(variance, np.einsum("ij,ij->i", v, v))

    def weights(self, skewness: Array) -> Array:
        """Return the weights ``(B, p)`` of few cases that stand for those of all ``(B, n)``."""
        return np.asarray(skewness @ self._to_few.T)


def _rest(variance: Array, explained: Array) -> Array:
    rest = variance - explained
    return np.where(rest > ROUNDING * variance, rest, 0.0)


def _representatives(root: Array) -> tuple[NDArray[np.intp], Array]:
    """Return few cases ``(p,)``, and P ``(p, n)`` that takes the weights of all to theirs."""
    length = np.sqrt(np.einsum("ij,ij->i", root, root))
    unit = np.divide(root, length[:, None], out=np.zeros_like(root), where=length[:, None] > 0)

    def entries(rows: Cases, columns: Cases) -> Array:
        return cube(unit[rows] @ unit[columns].T)

    n = root.shape[0]
    diagonal = np.where(length > 0, 1.0, 0.0)
    found = pivoted_cholesky(entries, diagonal, LEFT_OF_CUBES * n, min(MOST_CUBES, n))
    if found is None:
        return np.arange(n), np.eye(n)
    scaled = np.asarray(found.root)
    to_few = solve_triangular(scaled[found.pivots], scaled.T, lower=True, trans=1)
    return found.pivots, to_few * cube(length) / cube(length[found.pivots])[:, None]


class _Newton:
    """The matrix of Newton's step at the solution (`newton`), factorised."""

    def __init__(self, base: Base, root: Array, own: Array) -> None:
        gamma, g = 1.0 + base.precision * base.cavity, 1.0 / (1.0 + base.cavity * base.derivs[2])
        self._root, self._own, self._gamma, self._cavity = root, own, gamma, base.cavity
        self._gain = g**2 * base.d3
        squares = root @ root.T
        squares *= squares
        squares *= -(gamma**2)[:, None]
        squares.ravel()[:: base.n + 1] = 0.0
        matrix = self._gain[:, None] * self._of_u((0.5 * base.d3 * g)[:, None] * squares)
        matrix += (0.5 * g**2 * base.d4)[:, None] * squares
        matrix.ravel()[:: base.n + 1] += 1.0
        self._in_u = np.ascontiguousarray(((0.5 * base.d3 * g)[:, None] * squares).T)
        self._inverse = np.ascontiguousarray(np.linalg.inv(matrix).T)

    def _of_u(self, columns: Array) -> Array:
        shared = self._root @ (self._root.T @ columns)
        return np.asarray(
            self._gamma[:, None] * (shared + self._own[:, None] * columns) - self._cavity[:, None] * columns
        )

    def step(self, dw: Array, db: Array, mean: Array, off: Array) -> tuple[Array, Array]:
        constant = db - mean * dw - off * dw
        x = (dw - self._gain * self._of_u(constant.T).T) @ self._inverse
        return x, constant + x @ self._in_u + mean * x


class _Details(NamedTuple):
    """How Gaussians came from where they started: by H A^-1/2 and 1 + D s; and variances without own parts."""

    after: Array
    shared: Array
    grown: Array
    log_integral: Array


class FullResponse(Response):
    """The change that each of B questions makes of the sites of all cases; that of a new one comes last.

    Parameters
    ----------
    compressed : Compressed
        The solution.
    query : Query
        The questions.
    """

    tolerance = 3e-4
    most_steps = 30  # with the matrix of one solution for all: who has not settled by then hardly will

    def __init__(self, compressed: Compressed, query: Query) -> None:
        base, count = compressed.base, query.mean.size
        super().__init__(base, query, np.broadcast_to(np.arange(base.n), (count, base.n)))
        self._compressed = compressed
        self._own = np.broadcast_to(compressed.own, (count, base.n))
        self._without: Array | None = None  # H of the module
        assert query.features is not None
        self._row, own_part = compressed.rows_of_new(query.features, query.variance)
        if self._comes_in:
            self._own = last_is(self._own, own_part)
        else:
            assert query.value is not None
            along = np.einsum("ij,ij->i", self._row, self._row)
            own_part = np.maximum(own_part, KNOWN * query.variance)  # its equals would be known to rounding
            q = along + own_part
            factor = np.divide(1.0 - np.sqrt(own_part / q), along, out=np.zeros(count), where=along > 0)
            self._without = (
                np.eye(self._row.shape[1]) - factor[:, None, None] * self._row[:, :, None] * self._row[:, None, :]
            )
            self._mean = self._mean + (self._row @ compressed.root.T) * ((query.value - query.mean) / q)[:, None]

    def before(self) -> tuple[Any, Any]:
        """Return what the evidence before has for the same cases."""
        return self._base.term.sum(), self._compressed.third

    def after(self, some: NDArray[np.intp], precision: Array, shift: Array) -> Gaussians:
        """Return the posteriors of some questions under sites."""
        compressed, own, start, n = self._compressed, self._own[some], self._mean[some], self._base.n
        change, shift_change = precision - self._precision[some], shift - self._shift[some]
        grown = 1.0 + change * own
        relative = change / grown
        rank = compressed.root.shape[1]
        after = np.empty((some.size, rank, rank))
        rows = np.empty((*change.shape, rank))
        log_det = np.sum(np.log(np.abs(grown)), axis=1)
        valid = np.all(grown > 0, axis=1)
        for b, i in enumerate(some):
            matrix = (compressed.root.T * relative[b, :n]) @ compressed.root
            if self._comes_in:
                matrix += relative[b, n] * np.multiply.outer(self._row[i], self._row[i])
            if self._without is not None:
                matrix = self._without[i] @ matrix @ self._without[i]
            matrix.ravel()[:: rank + 1] += 1.0
            factor, failed = lapack.dpotrf(np.asfortranarray(matrix), lower=1, clean=1)
            if failed or not np.all(np.isfinite(factor)):
                valid[b], after[b], rows[b] = False, 0.0, 0.0
                continue
            log_det[b] += 2.0 * np.sum(np.log(factor.diagonal()))
            inverse = lapack.dtrtri(factor, lower=1)[0].T
            after[b] = inverse if self._without is None else self._without[i] @ inverse
            np.matmul(compressed.root, after[b], out=rows[b, :n])
            if self._comes_in:
                rows[b, n] = self._row[i] @ after[b]
        rows /= grown[:, :, None]
        pull = shift_change - change * start
        single = own / grown
        moved = np.einsum("bkr,br->bk", rows, np.einsum("bkr,bk->br", rows, pull)) + single * pull
        shared = np.einsum("bkr,bkr->bk", rows, rows)
        integral = change_of_log_integral(start, moved, pull, change, shift_change) - 0.5 * log_det
        details = _Details(after, shared, grown, integral)
        return gaussians(precision, shift, start + moved, shared + single, valid, details)

    def direction(
        self, now: Gaussians, some: NDArray[np.intp], derivs: Array, plain: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Return the step of the training cases by Newton's matrix at the solution, and the plain one of a new one."""
        n, newton = self._base.n, self._compressed.newton
        dw, db = (each[some] for each in plain)
        if newton is None:
            return dw, db
        off = (now.cavity_mean + now.cavity * derivs[1] - now.mean)[some]
        dw[:, :n], db[:, :n] = newton.step(dw[:, :n], db[:, :n], now.mean[some, :n], off[:, :n])
        return dw, db

    def keep(self, now: Gaussians, numbers: NDArray[np.intp], some: NDArray[np.bool_], skewness: Array) -> None:
        """Keep the third order of some of the Gaussians, of which the skewness is given, under these numbers."""
        details, n = now.details, self._base.n
        known = now.variance[some, :n] < 10.0 * KNOWN * self._base.variance
        skewness[:, :n][known] = 0.0  # what is known shares nothing
        sharpness = np.abs(skewness[:, :n]) * self._base.variance**1.5
        self._is_right[numbers] = np.max(sharpness, axis=1) <= SHARPEST
        weights = self._compressed.weights((skewness / cube(details.grown[some]))[:, :n])
        few = self._compressed.few_rows @ details.after[some]
        if self._comes_in:
            weights = last_is(weights, skewness[:, n] / cube(details.grown[some, n]))
            few = np.concatenate([few, self._row[numbers][:, None] @ details.after[some]], axis=1)
        itself = np.sum(skewness**2 * cube(details.shared[some]), axis=1)
        self._third[numbers] = sum_over_pairs(weights, few @ few.swapaxes(1, 2), itself)
