"""Those cases answer to a label that it concerns most; what the others add is taken to third order."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.likelihoods.cumulants import derivatives_of_cumulants
from bayesgp_mf.solvers.queries import Base, Query
from bayesgp_mf.solvers.settling import (
    Gaussians,
    Question,
    ask_cumulants,
    cube,
    gaussians,
    log_site,
    settle,
    sum_over_pairs,
)
from bayesgp_mf.types import Array

OTHERS = 4096
"""Cases that do not answer whose change is looked at, at most: those that it concerns most."""
KNOWN = 1e-9
"""Part of its variance to which a latent value is known: what rounding leaves of a difference."""


class Answers(NamedTuple):
    """What each of B questions came to.

    Attributes
    ----------
    log_ratio : (B,) array
        The log of the evidence with what is asked to be known over that without.
    rest : (B,) array
        What in it is of cases whose sites did not answer.
    settled : (B,) bool array
        Whether the equations hold.
    """

    log_ratio: Array
    rest: Array
    settled: NDArray[np.bool_]


def concern(base: Base, query: Query) -> Array:
    """Return how much each training case is concerned ``(B, n)``: changes of its cavity times how bent it is."""
    score = base.bent * np.abs(query.covariance) / np.sqrt(base.variance)
    if query.itself is not None:
        score[np.arange(query.mean.size), query.itself] = -1.0
    return np.asarray(score)


class _Known(NamedTuple):
    """How a Gaussian came from where it started: D, (1 + D Sigma)^-1, its product with h, and the log integral."""

    numbers: NDArray[np.intp]
    covariance: Array
    change: Array
    shrink: Array
    pull: Array
    log_integral: Array
    log_det: Array


class PartialResponse:
    """The change that each question makes of the sites of k cases, and of the new or left-out one, which comes first.

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
        self._base, self._query, self._answering = base, query, answering
        count, k = answering.shape
        self._first = first = 0 if query.label is None else 1
        covariance = np.empty((count, first + k, first + k))
        cross = np.take_along_axis(query.covariance, answering, axis=1)
        among = base.covariance.entries(answering, answering)
        diagonal = np.arange(k)
        among[:, diagonal, diagonal] = base.variance[answering]
        mean, t = base.mean[answering], base.t[answering]
        if query.label is None:
            assert query.value is not None
            pull = (query.value - query.mean) / query.variance
            mean = mean + cross * pull[:, None]
            among = among - cross[:, :, None] * (cross / query.variance[:, None])[:, None, :]
            least = KNOWN * base.variance[answering]
            among[:, diagonal, diagonal] = np.maximum(among[:, diagonal, diagonal], least)
        else:
            covariance[:, 0, 0] = query.variance
            covariance[:, 0, 1:] = covariance[:, 1:, 0] = cross
            mean, t = _first_is(query.mean, mean), _first_is(query.label, t)
        covariance[:, first:, first:] = among
        self._covariance, self._mean, self._t = covariance, mean, t
        precision, shift = base.precision[answering], base.shift[answering]
        if query.label is not None:
            nothing = np.zeros(count)
            own = (
                (nothing, nothing) if query.itself is None else (base.precision[query.itself], base.shift[query.itself])
            )
            precision, shift = _first_is(own[0], precision), _first_is(own[1], shift)
        self._precision, self._shift = precision, shift
        self._value, self._third = np.zeros(count), np.zeros(count)
        self._skewness = np.zeros(mean.shape)
        self._known: dict[int, _Known] = {}

    def answers(self) -> Answers:
        """Solve, and return what each question came to."""
        base, query = self._base, self._query
        precision, shift = self._precision.copy(), self._shift.copy()
        if query.label is not None:  # it starts matched where the others' sites, as they are, let it be
            dw, db = query.matched(precision[:, 0], shift[:, 0])
            precision[:, 0] += dw
            shift[:, 0] += db
        settled = settle(self, precision, shift)
        value, third, rest = self._value, self._third, np.zeros(settled.size)
        if query.itself is None:  # less what the evidence before has for the same cases
            value = value - base.term[self._answering].sum(axis=1)
            among = base.covariance.entries(self._answering, self._answering)
            third = third - _third(among, base.skewness[self._answering])
        if query.value is not None:
            z = (query.value - query.mean) ** 2 / query.variance
            value = value - 0.5 * (z + np.log(2.0 * np.pi * query.variance))
        if self._answering.shape[1] < base.n - (query.itself is not None):
            score = concern(base, query)
            for i, known in self._known.items():
                rest[i], of_pairs = self._of_others(i, known, score[i])
                third[i] += of_pairs
        return Answers(value + third + rest, rest, settled)

    def evaluate(self, some: NDArray[np.intp], mean: Array, variance: Array, ask: Question) -> Array:
        """Ask the likelihood of the cases of some questions."""
        query, first, t = self._query, self._first, self._t[some]
        which = self._answering[some, : mean.shape[1] - first]  # of the first alone, if there are no other columns
        rest = ask(
            self._base.likelihood.of_cases(which.ravel()),
            t[:, first : mean.shape[1]].ravel(),
            mean[:, first:].ravel(),
            variance[:, first:].ravel(),
        )
        rest = rest.reshape(rest.shape[0], *which.shape)
        if not first:
            return rest
        own = query.ask(some, mean[:, 0], variance[:, 0], ask)
        return np.concatenate([own[:, :, None], rest], axis=2)

    def after(self, some: NDArray[np.intp], precision: Array, shift: Array) -> Gaussians:
        """Return the posteriors of some questions under sites."""
        before, start = self._covariance[some], self._mean[some]
        change, shift_change = precision - self._precision[some], shift - self._shift[some]
        grown = np.eye(precision.shape[1]) + change[:, :, None] * before
        shrink: Array = np.asarray(np.linalg.inv(grown), dtype=np.float64)
        covariance = before @ shrink
        pull = shift_change - change * start
        moved = np.einsum("bij,bj->bi", covariance, pull)
        integral = np.sum(pull * moved + start * (2.0 * shift_change) - change * start**2, axis=1)
        known = _Known(
            some,
            covariance,
            change,
            shrink,
            np.einsum("bij,bj->bi", shrink, pull),
            np.asarray(0.5 * integral),
            np.asarray(np.linalg.slogdet(grown)[1], dtype=np.float64),
        )
        variance = np.einsum("bii->bi", covariance)
        return gaussians(precision, shift, start + moved, variance, np.ones(some.size, dtype=bool), known)

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

    def write(self, now: Gaussians, numbers: NDArray[np.intp], some: NDArray[np.bool_], derivs: Array) -> None:
        """Keep what some of the Gaussians came to, under the numbers of their questions."""
        known: _Known = now.details
        cumulants = self.evaluate(numbers, now.cavity_mean[some], now.cavity[some], ask_cumulants)
        site = log_site(now.precision[some], now.shift[some], now.cavity_mean[some], now.cavity[some])
        integral = known.log_integral[some] - 0.5 * known.log_det[some]
        self._value[numbers] = integral + np.sum(derivs[0][some] - site, axis=1)
        self._skewness[numbers] = cumulants[0] / now.variance[some] ** 1.5
        self._third[numbers] = _third(known.covariance[some], self._skewness[numbers])
        if self._answering.shape[1] < self._base.n - (self._query.itself is not None):
            for i, j in zip(numbers, np.flatnonzero(some), strict=True):
                self._known[int(i)] = _Known(*(each[j].copy() for each in known))

    def _of_others(self, i: int, known: _Known, score: Array) -> tuple[float, float]:
        """Return what cases that do not answer add: by their own terms, and by pairs with those that do."""
        base, query, answering = self._base, self._query, self._answering[i]
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
            columns = old_columns = np.concatenate([cross[:, None], columns], axis=1)
            old = np.concatenate([[0.0 if query.itself is None else base.skewness[query.itself[i]]], old])
        new = columns @ known.shrink  # covariances with those that do
        mean = mean + columns @ known.pull
        variance = variance - np.einsum("ij,ij->i", new, columns * known.change)
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


def _first_is(first: Array, others: Array) -> Array:
    return np.concatenate([first[:, None], others], axis=1)


def _third(covariance: Array, skewness: Array) -> Array:
    """Return the third order of the correction, the sum over all pairs ``(B,)``, of skewness over cubed deviations."""
    itself = np.sum(skewness**2 * cube(np.einsum("bii->bi", covariance)), axis=1)
    return sum_over_pairs(skewness, covariance, itself)
