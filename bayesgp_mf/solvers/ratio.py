r"""Predictive probabilities as ratios of corrected evidences.

.. math:: p(t_* | t) = Z(t, t_*) / Z(t)

holds exactly. TAP's own prediction leaves the sites of the other cases as they are while a new label comes in. Here
they answer to it, and both evidences are corrected to second order (`second_order`), which takes most of the error away
(an idea of Tierney and Kadane, 1986, there for Laplace's method).

The problem with one case more is solved near the solution that there is. With posterior means :math:`\mu` and
covariance :math:`\Sigma` of that solution, the new case among them, and changes D of the site precisions and db of the
shifts,

.. math:: \Sigma' = \Sigma (1 + D \Sigma)^{-1}, \quad \mu' = \mu + \Sigma' h, \quad h = db - D \mu, \qquad
    \Delta \log Z = db^T \mu - \tfrac12 \mu^T D \mu - \tfrac12 \log\det(1 + D \Sigma) + \tfrac12 h^T \Sigma' h
                    + \Delta \sum_i [\log Z_i - \log Z_i^{\text{site}}].

Newton's steps (`newton`, here as dense matrices) on the sites of the cases that answer most, and of the new one. What
the other cases add is taken to third order in the change of their cavities, up to which their answer does not count. If
that is not small, more cases are let answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.cumulants import tilted_cumulants
from bayesgp_mf.likelihoods.optional import of_cases, unshifted
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.solvers.response import site_form
from bayesgp_mf.solvers.sites import site_of_cavity
from bayesgp_mf.types import Array

ANSWERING = (64, 128, 256)
"""Cases whose sites answer to a label: as many as this, then more where the others would answer as well."""
REST = 4e-3
"""What the others may add to the log of the odds, in nats; what is left when it is added is of that size or less."""
TOLERANCE = 1e-5
"""Change of a site, in units of the standard deviation of its latent value, below which it is settled."""
MOST_STEPS = 100
NEAR = 1.0
"""Change of a site, in those units, below which Newton's step is tried."""
LEAST_PART = 0.1
"""Part of Newton's step for which precisions must leave room, else a part of a plain step is taken."""
SHORTER = 0.4
"""Part of a step that is tried next when what is left to change did not fall ..."""
MOST_TRIES = 4
"""... which is done so often."""
AT_ONCE = 2**19
"""Entries of the covariance matrices that are worked on together."""


class Ratios(NamedTuple):
    """What evidences with one label more say of each of some cases.

    Attributes
    ----------
    log_odds : (m,) array
        log p(t = +1) - log p(t = -1).
    total : (m,) array
        The sum of the probabilities of the two labels, each by itself a ratio of evidences: one, but for errors. NaN
        where a case is left out.
    settled : (m,) bool array
        Whether the equations were solved, and what was neglected in them is small.
    """

    log_odds: Array
    total: Array
    settled: NDArray[np.bool_]


class _Special(NamedTuple):
    """The cases that are new, or left out: what is known of each under the solution that there is."""

    covariance: Array
    """With the training cases ``(m, n)``."""
    mean: Array
    variance: Array
    precision: Array
    shift: Array
    offset: Array
    likelihood: Callable[[NDArray[np.intp]], Likelihood]
    itself: NDArray[np.intp] | None
    """Its number among the training cases, if it is one."""


class OneLabelMore:
    """TAP's solution of two classes, of which it is asked what one label more, or another one, does to the evidence.

    Parameters
    ----------
    problem : Problem
        With a dense Gram matrix.
    solution : Solution
        TAP's.

    Notes
    -----
    O(n^3) once; then for each case O(n k^2) for k cases that answer.
    """

    def __init__(self, problem: Problem, solution: Solution) -> None:
        sites = site_form(solution)
        n, t = problem.n, problem.t
        self._problem, self._sites = problem, sites
        self._mean = problem.matrix @ solution.alpha
        self._precision = sites.site_precision
        self._shift = self._precision * self._mean + solution.alpha
        self._covariance = np.concatenate([block for _, block in sites.covariance_with(np.arange(n))])
        self._variance = np.diagonal(self._covariance).copy()
        self._cavity = self._variance / (1.0 - self._precision * self._variance)
        self._cavity_mean = self._mean - self._cavity * solution.alpha
        value, _, d2 = problem.likelihood.log_partition(t, self._cavity_mean, self._cavity)
        cumulants = tilted_cumulants(problem.likelihood, t, self._cavity_mean, self._cavity, 4)
        self._d3, _ = _higher(cumulants, self._cavity, d2)
        self._skewness = cumulants[0] / self._variance**1.5
        self._bent = np.abs(cumulants[0]) + 0.5 * np.abs(cumulants[1])
        self._term = value - _log_site(self._precision, self._shift, self._cavity_mean, self._cavity)

    def posterior_covariance(self, cross: Array) -> Array:
        """Return the posterior covariances ``(m, n)`` of new cases with training cases, from the prior's ``(n, m)``."""
        return np.asarray((cross - self._problem.matrix.dense() @ (self._sites.dense() @ cross)).T)

    def new_cases(self, cross: Array, mean: Array, variance: Array, offset: Array) -> Ratios:
        """Return what is said of new cases.

        Parameters
        ----------
        cross : (n, m) array
            Prior covariances of the training cases with the new ones.
        mean, variance : (m,) array
            Of their latent values under the solution.
        offset : (m,) array
            Prior means, which are not in ``mean``.
        """
        nothing, likelihood = np.zeros(mean.size), unshifted(self._problem.likelihood)
        special = _Special(
            self.posterior_covariance(cross), mean, variance, nothing, nothing, offset, lambda _: likelihood, None
        )
        return self._ratios(special)

    def left_out(self, which: NDArray[np.intp]) -> Ratios:
        """Return what the others say of training cases with given numbers ``(m,)``, each in turn without its label."""
        problem = self._problem
        special = _Special(
            self._covariance[which],
            self._mean[which],
            self._variance[which],
            self._precision[which],
            self._shift[which],
            np.zeros(which.size),
            lambda rows: of_cases(problem.likelihood, which[rows]),
            which,
        )
        return self._ratios(special)

    def _ratios(self, special: _Special) -> Ratios:
        m, n = special.mean.size, self._problem.n
        found = Ratios(np.zeros(m), np.full(m, np.nan), np.zeros(m, dtype=bool))
        others = n if special.itself is None else n - 1
        score = self._bent * np.abs(special.covariance) / np.sqrt(self._variance)
        if special.itself is not None:
            score[np.arange(m), special.itself] = -1.0
        asked = np.arange(m)
        for most in ANSWERING:
            k = min(most, others)
            for rows in (asked[part] for part in blocks(asked.size, max(1, AT_ONCE // (k + 1) ** 2))):
                answering = np.argpartition(-score[rows], max(k - 1, 0), axis=1)[:, :k]
                each = [self._solve(special, rows, answering, label) for label in (1.0, -1.0)]
                found.log_odds[rows] = each[0].log_ratio - each[1].log_ratio
                if special.itself is None:
                    found.total[rows] = np.exp(each[0].log_ratio) + np.exp(each[1].log_ratio)
                small = np.abs(each[0].rest - each[1].rest) <= REST
                found.settled[rows] = small & each[0].settled & each[1].settled
            asked = np.flatnonzero(~found.settled)
            if k == others or not asked.size:
                break
        return found

    def _solve(self, special: _Special, rows: NDArray[np.intp], answering: NDArray[np.intp], label: float) -> _Answers:
        """Return the log of Z with a label over the Z that there is, for some of the special cases."""
        problem, count = self._problem, rows.size

        def with_special(own: Array, others: Array) -> Array:
            return np.concatenate([own[:, None], others[answering]], axis=1)

        k = answering.shape[1]
        covariance = np.empty((count, k + 1, k + 1))
        cross = np.take_along_axis(special.covariance[rows], answering, axis=1)
        covariance[:, 0, 0] = special.variance[rows]
        covariance[:, 0, 1:] = covariance[:, 1:, 0] = cross
        covariance[:, 1:, 1:] = self._covariance[answering[:, :, None], answering[:, None, :]]
        start = _Start(
            covariance,
            with_special(special.mean[rows], self._mean),
            with_special(special.precision[rows], self._precision),
            with_special(special.shift[rows], self._shift),
        )
        t = with_special(np.full(count, label), problem.t)
        offset = special.offset[rows]

        def evaluate(some: NDArray[np.intp], mean: Array, variance: Array, ask: _Question) -> Array:
            which = answering[some, : mean.shape[1] - 1]  # of the special cases alone, if there are no other columns
            own = ask(special.likelihood(rows[some]), t[some, 0], mean[:, 0] + offset[some], variance[:, 0])
            rest = ask(
                of_cases(problem.likelihood, which.ravel()),
                t[some, 1 : mean.shape[1]].ravel(),
                mean[:, 1:].ravel(),
                variance[:, 1:].ravel(),
            )
            rest = rest.reshape(rest.shape[0], *which.shape)
            return np.concatenate([own[:, :, None], rest], axis=2)

        settled = _settle(start, evaluate)
        value, third, rest = settled.value, settled.third, np.zeros(count)
        if special.itself is None:  # less what the evidence without the new case has for the same cases
            value = value - self._term[answering].sum(axis=1)
            third = third - _third(covariance[:, 1:, 1:], self._skewness[answering])
        if k < problem.n - (special.itself is not None):
            for i in range(count):
                out = np.ones(problem.n, dtype=bool)
                out[answering[i]] = False
                if special.itself is not None:
                    out[special.itself[rows[i]]] = False
                columns = np.concatenate([special.covariance[rows[i]][None], self._covariance[answering[i]]]).T
                old = np.concatenate([[0.0], self._skewness[answering[i]]])
                if special.itself is not None:
                    old[0] = self._skewness[special.itself[rows[i]]]
                rest[i], of_pairs = self._of_others(columns[out], out, settled, i, old)
                third[i] += of_pairs
        return _Answers(value + third + rest, rest, settled.settled)

    def _of_others(
        self, columns: Array, out: NDArray[np.bool_], settled: _Settled, i: int, old: Array
    ) -> tuple[float, float]:
        """Return what cases that do not answer add: by their own terms, and by pairs with those that do."""
        change = settled.change[i]
        new = columns @ settled.shrink[i]  # covariances with those that do
        mean = self._mean[out] + new @ settled.pull[i]
        variance = self._variance[out] - np.einsum("ij,ij->i", new, columns * change)
        precision = self._precision[out]
        cavity = variance / (1.0 - precision * variance)
        dm = mean - cavity * (self._shift[out] - precision * mean) - self._cavity_mean[out]
        dv = cavity - self._cavity[out]
        # of the Taylor series of log Z in mean and variance, its third order (by the heat equation), which the site has
        # not; what answering would add is of fourth order
        own = self._d3[out] * dm * (dm**2 / 6.0 + 0.5 * dv)
        skewness = self._skewness[out]
        pairs = (skewness @ _cube(new)) @ settled.skewness[i] - (skewness @ _cube(columns)) @ old
        return float(np.sum(own)), float(pairs) / 6.0


class _Answers(NamedTuple):
    log_ratio: Array
    rest: Array
    settled: NDArray[np.bool_]


class _Start(NamedTuple):
    """Gaussian posteriors ``(B, k)`` with their covariances ``(B, k, k)``, and the sites that are in them."""

    covariance: Array
    mean: Array
    precision: Array
    shift: Array


class _Settled(NamedTuple):
    """Where the sites came to rest, for each of B problems.

    The change of the log evidence by the Gaussian integral and the terms of these cases (all of each term, not its
    change); the sum over their pairs; whether the equations hold; and what others need to know: the skewness over the
    cube of the standard deviation, D, (1 + D Sigma)^-1 and its product with h.
    """

    value: Array
    third: Array
    settled: NDArray[np.bool_]
    skewness: Array
    change: Array
    shrink: Array
    pull: Array


_Question = Callable[[Likelihood, Array, Array, Array], Array]
_Evaluate = Callable[[NDArray[np.intp], Array, Array, _Question], Array]


def _ask_partition(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> Array:
    return np.array(likelihood.log_partition(t, mean, variance))


def _ask_cumulants(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> Array:
    return tilted_cumulants(likelihood, t, mean, variance, 4)


def _settle(start: _Start, evaluate: _Evaluate) -> _Settled:
    """Solve TAP's equations of B problems at once, the first case of each being new or with another label."""
    count, k = start.mean.shape
    everything = np.arange(count)
    precision, shift = start.precision.copy(), start.shift.copy()
    # the special case starts matched where the others' sites, as they are, let it be
    variance = start.covariance[:, 0, 0]
    cavity = variance / (1.0 - start.precision[:, 0] * variance)
    mean = start.mean[:, 0] - cavity * (start.shift[:, 0] - start.precision[:, 0] * start.mean[:, 0])
    first = evaluate(everything, mean[:, None], cavity[:, None], _ask_partition)[:, :, 0]
    precision[:, 0], shift[:, 0] = site_of_cavity(mean, first[1], first[2], cavity)

    result = _Settled(
        value=np.zeros(count),
        third=np.zeros(count),
        settled=np.zeros(count, dtype=bool),
        skewness=np.zeros((count, k)),
        change=np.zeros((count, k)),
        shrink=np.zeros((count, k, k)),
        pull=np.zeros((count, k)),
    )
    best, tries, length = np.full(count, np.inf), np.zeros(count, dtype=int), np.ones(count)
    # sites, the direction that was taken from them, and the plain step
    there = tuple(np.zeros((count, k)) for _ in range(6))
    active = everything
    for step in range(MOST_STEPS):
        now = _Posterior(start, active, precision[active], shift[active])
        with np.errstate(all="ignore"):  # a state that is none is stepped back from
            derivs = evaluate(active, now.usable(now.cavity_mean, 0.0), now.usable(now.cavity, 1.0), _ask_partition)
            plain = now.plain_step(derivs)
            off = np.where(now.valid, now.largest_change(plain), np.inf)
        worse = ~(off < best[active])
        finished = ~worse & (off < TOLERANCE)
        if step == MOST_STEPS - 1:
            finished = now.valid
        if finished.any():
            cumulants = evaluate(active, now.usable(now.cavity_mean, 0.0), now.usable(now.cavity, 1.0), _ask_cumulants)
            i = active[finished]
            result.settled[i] = off[finished] < TOLERANCE
            now.write(result, i, finished, derivs, cumulants[0])
        i, j = active[~worse], np.flatnonzero(~worse)
        best[i], tries[i], length[i] = off[j], 0, 1.0
        for kept, given in zip(there, (now.precision, now.shift, *plain, *plain), strict=True):
            kept[i] = given[j]
        newton = np.flatnonzero(~worse & ~finished & (off < NEAR))
        if newton.size:
            cumulants = evaluate(active[newton], now.cavity_mean[newton], now.cavity[newton], _ask_cumulants)
            dw, db, part = now.newton_step(newton, derivs[:, newton], cumulants, [each[newton] for each in plain])
            far = part > LEAST_PART
            i = active[newton[far]]
            there[2][i], there[3][i], length[i] = dw[far], db[far], part[far]
            length[active[newton[~far]]] = SHORTER
        i = active[worse]
        tries[i] += 1
        length[i] *= SHORTER
        i = active[tries[active] > MOST_TRIES]  # the direction leads nowhere: some plain steps, whatever comes of them
        for kept, given in zip(there[2:4], there[4:], strict=True):
            kept[i] = given[i]
        best[i], tries[i], length[i] = np.inf, 0, SHORTER
        for kept, at, move in zip((precision, shift), there[:2], there[2:4], strict=True):
            kept[active] = at[active] + length[active][:, None] * move[active]
        active = active[~finished]
        if not active.size:
            break
    return result


class _Posterior:
    """The Gaussian posteriors of some problems under given sites."""

    def __init__(self, start: _Start, which: NDArray[np.intp], precision: Array, shift: Array) -> None:
        self.precision, self.shift = precision, shift
        before, self._mean = start.covariance[which], start.mean[which]
        self.change, self._shift_change = precision - start.precision[which], shift - start.shift[which]
        self._grown = np.eye(precision.shape[1]) + self.change[:, :, None] * before
        self.shrink = np.linalg.inv(self._grown)
        self.covariance = before @ self.shrink
        self.pull = self._shift_change - self.change * self._mean
        moved = np.einsum("bij,bj->bi", self.covariance, self.pull)
        self.variance, self.mean = np.einsum("bii->bi", self.covariance), self._mean + moved
        left = 1.0 - precision * self.variance
        self._log_integral = 0.5 * np.sum(self.pull * moved + self._mean * (2.0 * self._shift_change), axis=1)
        self._log_integral -= 0.5 * np.sum(self.change * self._mean**2, axis=1)
        self.valid = np.all((left > 0) & (self.variance > 0), axis=1)
        with np.errstate(all="ignore"):
            self.cavity = self.variance / left
        self.alpha = shift - precision * self.mean
        self.cavity_mean = self.mean - self.cavity * self.alpha

    def usable(self, values: Array, instead: float) -> Array:
        """Return values where the posterior is one."""
        return np.where(self.valid[:, None], values, instead)

    def plain_step(self, derivs: Array) -> tuple[Array, Array]:
        """Return the changes of the sites to those that match the likelihood."""
        precision, shift = site_of_cavity(self.cavity_mean, derivs[1], derivs[2], self.cavity)
        return precision - self.precision, shift - self.shift

    def largest_change(self, step: tuple[Array, Array]) -> Array:
        """Return the largest change ``(B,)`` that a step makes, in standard deviations."""
        dw, db = step
        by_mean = np.abs(db - self.mean * dw) * np.sqrt(self.variance)
        return np.asarray(np.max(np.maximum(np.abs(dw) * self.variance, by_mean), axis=1))

    def newton_step(
        self, some: NDArray[np.intp], derivs: Array, cumulants: Array, plain: list[Array]
    ) -> tuple[Array, Array, Array]:
        """Return Newton's step for some problems, by the lines of `newton`, and how much of it may be taken.

        No precision loses more than nine tenths of what it has.
        """
        cavity, precision, mean = self.cavity[some], self.precision[some], self.mean[some]
        _, d1, d2 = derivs
        d3, d4 = _higher(cumulants, cavity, d2)
        gamma, g = 1.0 + precision * cavity, 1.0 / (1.0 + cavity * d2)
        diagonal = np.arange(precision.shape[1])
        by_others = -(gamma**2)[:, :, None] * self.covariance[some] ** 2
        by_others[:, diagonal, diagonal] = 0.0
        off = self.cavity_mean[some] + cavity * d1 - mean
        constant = plain[1] - mean * plain[0] - off * plain[0]
        in_u = (0.5 * d3 * g)[:, :, None] * by_others
        in_u[:, diagonal, diagonal] += off
        of_u = gamma[:, :, None] * self.covariance[some]
        of_u[:, diagonal, diagonal] -= cavity
        gain = g**2 * d3
        matrix = gain[:, :, None] * (of_u @ in_u)
        matrix += (g**2 * (0.5 * d4 + d3 * (d1 - self.alpha[some])))[:, :, None] * by_others
        matrix[:, diagonal, diagonal] += 1.0
        right = plain[0] - gain * np.einsum("bij,bj->bi", of_u, constant)
        dw = np.linalg.solve(matrix, right[:, :, None])[:, :, 0]
        db = constant + np.einsum("bij,bj->bi", in_u, dw) + mean * dw
        lost = np.max(np.where(precision > 0, -dw, 0.0) / np.where(precision > 0, precision, 1.0), axis=1)
        return dw, db, np.minimum(1.0, 0.9 / np.maximum(lost, 0.1))

    def write(
        self, result: _Settled, i: NDArray[np.intp], some: NDArray[np.bool_], derivs: Array, skewness: Array
    ) -> None:
        """Put what some problems came to into the result, under the numbers i."""
        site = _log_site(self.precision[some], self.shift[some], self.cavity_mean[some], self.cavity[some])
        _, log_det = np.linalg.slogdet(self._grown[some])
        result.value[i] = self._log_integral[some] - 0.5 * log_det + np.sum(derivs[0][some] - site, axis=1)
        result.skewness[i] = skewness[some] / self.variance[some] ** 1.5
        result.third[i] = _third(self.covariance[some], result.skewness[i])
        result.change[i], result.shrink[i] = self.change[some], self.shrink[some]
        result.pull[i] = np.einsum("bij,bj->bi", self.shrink[some], self.pull[some])


def _log_site(precision: Array, shift: Array, mean: Array, variance: Array) -> Array:
    """Return the log of the integral of exp(b f - W f^2 / 2) over cavities."""
    grown = 1.0 + precision * variance
    return np.asarray(
        (2.0 * mean * shift + variance * shift**2 - precision * mean**2) / (2.0 * grown) - 0.5 * np.log(grown)
    )


def _higher(cumulants: Array, variance: Array, d2: Array) -> tuple[Array, Array]:
    """Return the third and fourth derivative of log Z in the mean, from the tilted skewness and excess kurtosis."""
    tilted = 1.0 / variance + d2  # the tilted variance over the square of the cavity's
    return cumulants[0] * tilted**1.5, cumulants[1] * tilted**2


def _cube(x: Array) -> Array:
    return np.asarray(x * x * x)  # a power takes ten times as long


def _third(covariance: Array, skewness: Array) -> Array:
    """Return the third order of the correction, the sum over all pairs ``(B,)``, of skewness over cubed deviations."""
    terms = np.einsum("bi,bij,bj->b", skewness, _cube(covariance), skewness, optimize=True)
    itself = np.sum(skewness**2 * np.einsum("bii->bi", covariance) ** 3, axis=1)
    return np.asarray((terms - itself) / 12.0)
