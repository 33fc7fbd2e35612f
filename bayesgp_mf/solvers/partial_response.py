"""Those cases answer to a label that it concerns most; what the others add is taken to third order."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.likelihoods.cumulants import derivatives_of_cumulants
from bayesgp_mf.solvers.queries import Base, Gaussians, Query, ask_cumulants, cube, gaussians
from bayesgp_mf.solvers.settling import KNOWN, Response, change_of_log_integral, last_is, sum_over_pairs
from bayesgp_mf.types import Array

OTHERS = 4096
"""Cases that do not answer whose change is looked at, at most: those that it concerns most."""


def concern(base: Base, query: Query) -> Array:
    """Return how much each training case is concerned ``(B, n)``: changes of its cavity times how bent it is."""
    score = base.bent * np.abs(query.covariance) / np.sqrt(base.variance)
    if query.itself is not None:
        score[np.arange(query.mean.size), query.itself] = -1.0
    return np.asarray(score)


class _Details(NamedTuple):
    """How a Gaussian came from where it started: D, (1 + D Sigma)^-1, its product with h, and the log integral."""

    numbers: NDArray[np.intp]
    covariance: Array
    change: Array
    shrink: Array
    pull: Array
    log_integral: Array


class PartialResponse(Response):
    """The change that each question makes of the sites of k cases, and of the new or left-out one, which comes last.

    Parameters
    ----------
    base : Base
        The solution.
    query : Query
        B questions.
    answering : (B, k) array of int
        The training cases that answer to each.
    """

    tolerance = 1e-5
    most_steps = 100

    def __init__(self, base: Base, query: Query, answering: NDArray[np.intp]) -> None:
        super().__init__(base, query, answering)
        count, k = answering.shape
        cross = np.take_along_axis(query.covariance, answering, axis=1)
        self._among = among = base.covariance.entries(answering, answering)
        diagonal = np.arange(k)
        among[:, diagonal, diagonal] = base.variance[answering]
        if query.label is None:
            assert query.value is not None
            self._mean = self._mean + cross * ((query.value - query.mean) / query.variance)[:, None]
            covariance = among - cross[:, :, None] * (cross / query.variance[:, None])[:, None, :]
            least = KNOWN * base.variance[answering]
            covariance[:, diagonal, diagonal] = np.maximum(covariance[:, diagonal, diagonal], least)
        else:
            covariance = np.empty((count, k + 1, k + 1))
            covariance[:, :k, :k], covariance[:, k, k] = among, query.variance
            covariance[:, k, :k] = covariance[:, :k, k] = cross
        self._covariance = covariance
        self._skewness = np.zeros(self._mean.shape)
        self._kept: dict[int, _Details] = {}

    def before(self) -> tuple[Any, Any]:
        """Return what the evidence before has for the same cases, a left-out one among them."""
        base, which, covariance = self._base, self._which, self._among
        if self._query.itself is not None:
            which, covariance = np.column_stack([which, self._query.itself]), self._covariance
        return base.term[which].sum(axis=1), _third(covariance, base.skewness[which])

    def of_others(self) -> tuple[Array, Array]:
        """Return what cases that do not answer add ``(B,)``."""
        rest, of_pairs = super().of_others()
        if self._has_others:
            score = concern(self._base, self._query)
            for i, kept in self._kept.items():
                rest[i], of_pairs[i] = self._of_others(i, kept, score[i])
        return rest, of_pairs

    @property
    def _has_others(self) -> bool:
        return bool(self._k < self._base.n - (self._query.itself is not None))

    def after(self, some: NDArray[np.intp], precision: Array, shift: Array) -> Gaussians:
        """Return the posteriors of some questions under sites."""
        before, start = self._covariance[some], self._mean[some]
        change, shift_change = precision - self._precision[some], shift - self._shift[some]
        grown = np.eye(precision.shape[1]) + change[:, :, None] * before
        sign, log_det = np.linalg.slogdet(grown)
        valid = sign > 0  # of a posterior the determinant is positive
        grown[~valid] = np.eye(precision.shape[1])
        shrink: Array = np.asarray(np.linalg.inv(grown), dtype=np.float64)
        covariance = before @ shrink
        pull = shift_change - change * start
        moved = np.einsum("bij,bj->bi", covariance, pull)
        integral = change_of_log_integral(start, moved, pull, change, shift_change)
        integral -= 0.5 * np.asarray(log_det, dtype=np.float64)
        details = _Details(some, covariance, change, shrink, np.einsum("bij,bj->bi", shrink, pull), integral)
        variance = np.einsum("bii->bi", covariance)
        return gaussians(precision, shift, start + moved, variance, valid, details)

    def direction(
        self, now: Gaussians, some: NDArray[np.intp], derivs: Array, plain: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Return Newton's step, by the lines of `newton`, of the Gaussians with given numbers."""
        cumulants = self.evaluate(now.details.numbers[some], now.cavity_mean[some], now.cavity[some], ask_cumulants)
        cavity, precision, mean = now.cavity[some], now.precision[some], now.mean[some]
        covariance, alpha = now.details.covariance[some], now.alpha[some]
        plain_dw, plain_db = (each[some] for each in plain)
        _, d1, d2 = derivs[:, some]
        d3, d4 = derivatives_of_cumulants(cumulants, cavity, d2)
        gamma, g = 1.0 + precision * cavity, 1.0 / (1.0 + cavity * d2)
        diagonal = np.arange(precision.shape[1])
        by_others = -(gamma**2)[:, :, None] * covariance**2
        by_others[:, diagonal, diagonal] = 0.0
        off = now.cavity_mean[some] + cavity * d1 - mean
        constant = plain_db - mean * plain_dw - off * plain_dw
        in_u = (0.5 * d3 * g)[:, :, None] * by_others
        in_u[:, diagonal, diagonal] += off
        of_u = gamma[:, :, None] * covariance
        of_u[:, diagonal, diagonal] -= cavity
        gain = g**2 * d3
        matrix = gain[:, :, None] * (of_u @ in_u)
        matrix += (g**2 * (0.5 * d4 + d3 * (d1 - alpha)))[:, :, None] * by_others
        matrix[:, diagonal, diagonal] += 1.0
        right = plain_dw - gain * np.einsum("bij,bj->bi", of_u, constant)
        dw = np.linalg.solve(matrix, right[:, :, None])[:, :, 0]
        return dw, constant + np.einsum("bij,bj->bi", in_u, dw) + mean * dw

    def keep(self, now: Gaussians, numbers: NDArray[np.intp], some: NDArray[np.bool_], skewness: Array) -> None:
        """Keep the third order of some of the Gaussians, of which the skewness is given, under these numbers."""
        self._skewness[numbers] = skewness
        self._third[numbers] = _third(now.details.covariance[some], skewness)
        if self._has_others:
            for i, j in zip(numbers, np.flatnonzero(some), strict=True):
                self._kept[int(i)] = _Details(*(np.copy(each[j]) for each in now.details))

    def _of_others(self, i: int, kept: _Details, score: Array) -> tuple[float, float]:
        """Return what cases that do not answer add: by their own terms, and by pairs with those that do."""
        base, query, answering = self._base, self._query, self._which[i]
        score[answering] = -1.0
        out = np.flatnonzero(score >= 0)
        if out.size > OTHERS:
            out = out[np.argpartition(-score[out], OTHERS)[:OTHERS]]
        columns = base.covariance.entries(out, answering)
        old_columns, old = columns, base.skewness[answering]
        mean, variance, cross = base.mean[out], base.variance[out], query.covariance[i, out]
        if query.label is None:
            assert query.value is not None
            mean = mean + cross * ((query.value[i] - query.mean[i]) / query.variance[i])
            variance = variance - cross**2 / query.variance[i]
            columns = columns - cross[:, None] * (query.covariance[i, answering] / query.variance[i])
        else:
            columns = old_columns = last_is(columns, cross)
            old = np.append(old, 0.0 if query.itself is None else base.skewness[query.itself[i]])
        new = columns @ kept.shrink  # covariances with those that do
        mean = mean + columns @ kept.pull
        variance = variance - np.einsum("ij,ij->i", new, columns * kept.change)
        precision = base.precision[out]
        cavity = variance / (1.0 - precision * variance)
        dm = mean - cavity * (base.shift[out] - precision * mean) - base.cavity_mean[out]
        dv = cavity - base.cavity[out]
        # of the Taylor series of log Z in mean and variance, its third order (by the heat equation), which the site has
        # not; what answering would add is of fourth order
        own = base.d3[out] * dm * (dm**2 / 6.0 + 0.5 * dv)
        skewness = base.skewness[out]
        pairs = (skewness @ cube(new)) @ self._skewness[i] - (skewness @ cube(old_columns)) @ old
        return float(np.sum(own)), float(pairs) / 6.0


def _third(covariance: Array, skewness: Array) -> Array:
    """Return the third order of the correction, the sum over all pairs ``(B,)``, of skewness over cubed deviations."""
    itself = np.sum(skewness**2 * cube(np.einsum("bii->bi", covariance)), axis=1)
    return sum_over_pairs(skewness, covariance, itself)
