"""TAP's equations of many small changes to one problem that is solved, all at once: where the sites come to rest.

What a label, or a known latent value, does to the posterior is known exactly once the sites are, by a `Response`; this
moves the sites until they match the likelihood again, from where they were.
"""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.solvers import queries
from bayesgp_mf.types import Array

NEAR = 1.0
"""Change of a site, in standard deviations of its latent value, below which the better direction is asked for."""
LEAST_PART = 0.1
"""Part of that for which precisions must leave room, else a part of a plain step is taken."""
SHORTER = 0.4
"""Part of a step that is tried next when what is left to change did not fall ..."""
MOST_TRIES = 4
"""... which is done so often."""
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


class Response(abc.ABC):
    """The change that each of B questions makes of the sites of k training cases, and of that which comes in, the last.

    Parameters
    ----------
    base : Base
        The solution.
    query : Query
        The questions.
    which : (B, k) array of int
        The training cases whose sites answer.
    """

    tolerance: ClassVar[float]
    """Change of a site, in standard deviations of its latent value, below which it is settled."""
    most_steps: ClassVar[int]
    """Steps after which those that are not are given up."""

    def __init__(self, base: queries.Base, query: queries.Query, which: NDArray[np.intp]) -> None:
        self._base, self._query, self._which = base, query, which
        self._comes_in = query.label is not None
        """Whether one site more answers: that of the case that comes in, or is left out."""
        self._count, self._k = which.shape
        t, mean, precision, shift = (each[which] for each in (base.t, base.mean, base.precision, base.shift))
        if self._comes_in:
            assert query.label is not None
            own = np.zeros(self._count), np.zeros(self._count)
            if query.itself is not None:
                own = base.precision[query.itself], base.shift[query.itself]
            t, mean = last_is(t, query.label), last_is(mean, query.mean)
            precision, shift = last_is(precision, own[0]), last_is(shift, own[1])
        self._t, self._mean, self._precision, self._shift = t, mean, precision, shift
        self._value, self._third = np.zeros(self._count), np.zeros(self._count)
        self._is_right = np.ones(self._count, dtype=bool)

    @abc.abstractmethod
    def after(self, some: NDArray[np.intp], precision: Array, shift: Array) -> queries.Gaussians:
        """Return the posteriors of some questions under sites ``(b, k)``."""

    @abc.abstractmethod
    def direction(
        self, now: queries.Gaussians, some: NDArray[np.intp], derivs: Array, plain: tuple[Array, Array]
    ) -> tuple[Array, Array]:
        """Return a better step than the plain one, of some of the Gaussians."""

    @abc.abstractmethod
    def keep(self, now: queries.Gaussians, numbers: NDArray[np.intp], some: NDArray[np.bool_], skewness: Array) -> None:
        """Keep the third order of some of the Gaussians, of which the skewness is given, under these numbers."""

    def answers(self) -> Answers:
        """Solve, and return what each question came to."""
        query, everything = self._query, np.arange(self._count)
        precision, shift = self._precision.copy(), self._shift.copy()
        if query.label is not None:  # it starts matched where the others' sites, as they are, let it be
            place = everything, np.full(self._count, self._k)
            dw, db = query.matched(precision[place], shift[place])
            precision[place] += dw
            shift[place] += db
        settled = self._settle(precision, shift) & self._is_right
        value, third = self.before()
        value = self._value - value
        if query.value is not None:
            z = (query.value - query.mean) ** 2 / query.variance
            value -= 0.5 * (z + np.log(2.0 * np.pi * query.variance))
        rest, of_pairs = self.of_others()
        return Answers(value + (self._third - third + of_pairs) + rest, rest, settled)

    @abc.abstractmethod
    def before(self) -> tuple[Any, Any]:
        """Return what the evidence before has for the same cases: their own terms, and the third order."""

    def of_others(self) -> tuple[Array, Array]:
        """Return what cases that do not answer add ``(B,)``: by their own terms, and by pairs with those that do."""
        return np.zeros(self._count), np.zeros(self._count)

    def evaluate(self, some: NDArray[np.intp], mean: Array, variance: Array, ask: queries.Question) -> Array:
        """Ask the likelihood of the cases of some questions, of cavities ``(b, k)``: ``(..., b, k)``."""
        which, k = self._which[some], self._k
        old = ask(
            self._base.likelihood.of_cases(which.ravel()),
            self._t[some, :k].ravel(),
            mean[:, :k].ravel(),
            variance[:, :k].ravel(),
        )
        old = old.reshape(old.shape[0], *which.shape)
        if not self._comes_in:
            return old
        own = self._query.ask(some, mean[:, k], variance[:, k], ask)
        return np.concatenate([old, own[:, :, None]], axis=2)

    def _write(self, now: queries.Gaussians, numbers: NDArray[np.intp], some: NDArray[np.bool_], derivs: Array) -> None:
        """Keep what some of the Gaussians came to, if it is a posterior, under the numbers of their questions."""
        cumulants = self.evaluate(numbers, now.cavity_mean[some], now.cavity[some], queries.ask_cumulants)
        site = queries.log_site(now.precision[some], now.shift[some], now.cavity_mean[some], now.cavity[some])
        self._value[numbers] = now.details.log_integral[some] + np.sum(derivs[0][some] - site, axis=1)
        self.keep(now, numbers, some, cumulants[0] / now.variance[some] ** 1.5)

    def _settle(self, precision: Array, shift: Array) -> NDArray[np.bool_]:
        """Move the sites ``(B, k)`` of each change, from where they are, to where they match the likelihood.

        Returns
        -------
        (B,) bool array
            Where they do, to the tolerance. What all came to is kept, if it came to a posterior.
        """
        count = precision.shape[0]
        settled = np.zeros(count, dtype=bool)
        best, tries, length = np.full(count, np.inf), np.zeros(count, dtype=int), np.ones(count)
        # sites, the direction that was taken from them, and the plain step
        there = tuple(np.zeros_like(precision) for _ in range(6))
        active = np.arange(count)
        for step in range(self.most_steps):
            with np.errstate(all="ignore"):  # a state that is none is stepped back from
                now = self.after(active, precision[active], shift[active])
                derivs = self.evaluate(active, now.cavity_mean, now.cavity, queries.ask_partition)
                plain = now.plain_step(derivs)
                off = np.where(now.valid, now.largest_change(plain), np.inf)
            worse = ~(off < best[active])
            finished = ~worse & (off < self.tolerance)
            if step == self.most_steps - 1:
                finished = now.valid
            if finished.any():
                settled[active[finished]] = off[finished] < self.tolerance
                self._write(now, active[finished], finished, derivs)
            i, j = active[~worse], np.flatnonzero(~worse)
            best[i], tries[i], length[i] = off[j], 0, 1.0
            for kept, given in zip(there, (now.precision, now.shift, *plain, *plain), strict=True):
                kept[i] = given[j]
            near = np.flatnonzero(~worse & ~finished & (off < NEAR))
            if near.size:
                dw, db = self.direction(now, near, derivs, plain)
                part = now.part(near, dw)
                far = part > LEAST_PART
                i = active[near[far]]
                there[2][i], there[3][i], length[i] = dw[far], db[far], part[far]
                length[active[near[~far]]] = SHORTER
            i = active[worse]
            tries[i] += 1
            length[i] *= SHORTER
            i = active[
                tries[active] > MOST_TRIES
            ]  # the direction leads nowhere: some plain steps, whatever comes of them
            for kept, given in zip(there[2:4], there[4:], strict=True):
                kept[i] = given[i]
            best[i], tries[i], length[i] = np.inf, 0, SHORTER
            for kept, at, move in zip((precision, shift), there[:2], there[2:4], strict=True):
                kept[active] = at[active] + length[active][:, None] * move[active]
            active = active[~finished]
            if not active.size:
                break
        return settled


def change_of_log_integral(start: Array, moved: Array, pull: Array, change: Array, shift_change: Array) -> Array:
    """Return what changes of sites make of the log integral of a Gaussian ``(b,)``, without the determinant."""
    return np.asarray(0.5 * np.sum(pull * moved + start * (2.0 * shift_change) - change * start**2, axis=1))


def last_is(others: Array, last: Array) -> Array:
    """Return columns with one more."""
    return np.concatenate([others, last[:, None]], axis=1)


def sum_over_pairs(skewness: Array, covariance: Array, itself: Array) -> Array:
    """Return the correction's third order ``(B,)``: all pairs of skewness over cubed deviations, less a case's own."""
    terms = np.einsum("bi,bij,bj->b", skewness, queries.cube(covariance), skewness, optimize=True)
    return np.asarray((terms - itself) / 12.0)
