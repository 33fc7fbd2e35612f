"""Predictions that are corrected for what TAP's approximation leaves out, of new and of left-out cases.

The probability of a label is a ratio of corrected evidences (`solvers.ratio`). For counts, levels and measurements the
latent value is known by its corrected density at some points, given which a target is what the likelihood says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import PchipInterpolator

from bayesgp_mf.errors import ConvergenceWarning, warn
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.solvers.ratio import OneMore, Ratios
from bayesgp_mf.types import Array

Features: TypeAlias = Callable[[NDArray[np.intp]], Array]
"""Returns those of new cases with given numbers."""
NODES = np.linspace(-7.0, 7.0, 57)
"""Latent values whose density is asked for, in standard deviations from the mean."""
FEW_NODES = 29
"""So many of them are enough for the size of a difference."""
FIRST = 8
"""One in so many of them is asked for first: a case for which these are not right has the others not asked for."""
FINE = np.linspace(-7.0, 7.0, 225)
"""Those over which is averaged: between them the ratio to the Gaussian density is smooth, what a target is need not."""
LARGEST_SUM_ERROR = 0.03
"""By how much probabilities of the two labels may miss one before it is said."""
FARTHEST = 1e30
"""Standard deviations beyond which no value has a density, whatever the prior: their squares are beyond all numbers."""
LARGEST = 2**23
"""Covariances of new with training cases that are in memory at once."""
WORST, OTHERS = 48, 16
"""Training cases whose leave-one-out densities are corrected, those that their own targets can move most; and of the
rest, so many that say what all of these leave."""
LEFT_OF_CHANGE = 0.1
"""Share of the changes by a correction that it may leave out itself."""


class CorrectedProba(NamedTuple):
    """Corrected probabilities of new cases.

    Attributes
    ----------
    p : (m,) array
        Of class 1.
    extreme : (m,) array
        The same if a label is impossible whose evidence is not known: `Ratios.extreme`.
    largest_sum_error : float
        Each label's probability is found by itself; by how much the sum of the two is off one, at most, before it is
        made one.
    settled : (m,) bool array
        Where it is corrected. Elsewhere p is TAP's own.
    """

    p: Array
    extreme: Array
    largest_sum_error: float
    settled: NDArray[np.bool_]


class Points(NamedTuple):
    """Latent values of new cases, with weights: their corrected distributions.

    Attributes
    ----------
    values, weights : (m, q) array
        Less the prior mean; and how probable each is. Of each case the weights sum to one.
    largest_sum_error : float
        By how much the density misses an integral of one, at most, before it is made one.
    settled : (m,) bool array
        Where it is corrected. Elsewhere it is TAP's Gaussian.
    """

    values: Array
    weights: Array
    largest_sum_error: float
    settled: NDArray[np.bool_]


class LeftOut(NamedTuple):
    """Leave-one-out densities, of which some are corrected.

    Attributes
    ----------
    log_density : (n,) array
        log p(t_i | the others), in nats.
    corrected : (n,) bool array
        Where it is corrected; elsewhere it is TAP's.
    error : float
        Size of what their sum is off by, in nats.
    """

    log_density: Array
    corrected: NDArray[np.bool_]
    error: float


def together(weights: Array, parts: Sequence[CorrectedProba]) -> CorrectedProba:
    """Return the probabilities averaged over settings of the hyperparameters, which have weights ``(k,)``."""
    return CorrectedProba(
        np.asarray(sum(weight * part.p for weight, part in zip(weights, parts, strict=True))),
        np.asarray(sum(weight * part.extreme for weight, part in zip(weights, parts, strict=True))),
        max(part.largest_sum_error for part in parts),
        np.all([part.settled for part in parts], axis=0),
    )


class Corrected:
    """Corrected predictions of one solution.

    Parameters
    ----------
    problem, solution
        By TAP, with one latent value a case.
    few : int, optional
        With it so many cases answer and no more, which is enough for the size of a difference.

    Raises
    ------
    ValueError
        If they are others.
    """

    def __init__(self, problem: Problem, solution: Solution, few: int | None = None) -> None:
        check_corrected(problem, solution)
        self._more = OneMore(problem, solution, few)
        self._problem = problem
        self._nodes = NODES if few is None else NODES[:: NODES.size // FEW_NODES + 1]

    def say_if_unsure(self) -> None:
        """Warn if corrections are known to fail for some such likelihoods."""
        if not self._problem.likelihood.log_concave:
            warn(
                "the likelihood is not log-concave, as with label flips: there corrected probabilities were nearer to "
                "the truth than TAP's in most problems, and farther off in some. Hold them against method='exact', or "
                "NUTS, before they are relied on."
            )

    def skewness(self, features: Array, variance: Array) -> Array:
        """Return that of the latent values of new cases ``(m,)``, of which TAP says the variance."""
        return self._more.base.skewness_of(self._more.base.covariance.with_new(features, slice(None)), variance)

    def new(self, features: Features, latent: tuple[Array, Array], offset: Array, uncorrected: Array) -> CorrectedProba:
        """Return the probabilities of new cases, of which TAP says mean and variance less the prior mean, and p."""
        self.say_if_unsure()
        found = self.labels(features, latent, offset, uncorrected)
        say_unsettled(found.settled, "probabilities of", "new cases")
        if found.largest_sum_error > LARGEST_SUM_ERROR and self._problem.likelihood.log_concave:  # else it was said
            warn(
                "the corrected probabilities of the two labels, each found by itself, miss one by up to "
                f"{found.largest_sum_error:.2g}: they are known to about that. Less is left with more latent noise, or "
                "use method='exact'."
            )
        return found

    def labels(
        self, features: Features, latent: tuple[Array, Array], offset: Array, uncorrected: Array
    ) -> CorrectedProba:
        """Return what `new` does, without a warning."""
        mean, variance = latent
        uncertain = variance > 0  # a value that is known has one probability

        def ask(rows: NDArray[np.intp]) -> Ratios:
            return self._more.new_cases(features(rows), mean[rows], variance[rows], offset[rows])

        ratios = _in_blocks(ask, np.flatnonzero(uncertain), mean.size, self._problem.n)
        settled, total = ratios.settled | ratios.one_sided, ratios.total
        p, extreme = (np.where(settled, each, uncorrected) for each in (ratios.p, ratios.extreme))
        again = np.flatnonzero(uncertain & ~ratios.settled)
        if again.size:  # where a label contradicts those that there are, its evidence is that of a problem without one
            points = self.points(lambda rows: features(again[rows]), (mean[again], variance[again]))
            at = (points.values + offset[again, None]).ravel()
            given = np.exp(self._problem.likelihood.of_one_case.log_prob(np.ones(at.size), at).value)
            average = np.sum(points.weights * given.reshape(points.values.shape), axis=1)
            known = again[points.settled]
            p[known] = extreme[known] = average[points.settled]
            settled[known], total[known] = True, np.nan
        settled |= ~uncertain
        sums = total[np.isfinite(total)]
        return CorrectedProba(p, extreme, float(np.max(np.abs(sums - 1.0), initial=0.0)), settled)

    def points(self, features: Features, latent: tuple[Array, Array]) -> Points:
        """Return latent values of new cases and how probable they are, of which TAP says mean and variance."""
        mean, sd = latent[0], np.sqrt(latent[1])
        weights = np.tile(standard_density(FINE), (mean.size, 1))

        def ratios(queried: NDArray[np.intp], nodes: Array) -> tuple[Array, NDArray[np.bool_]]:
            density, settled = self._densities(
                lambda rows: features(queried[rows]),
                (mean[queried], latent[1][queried]),
                mean[queried, None] + sd[queried, None] * nodes,
            )
            return density * sd[queried, None] / standard_density(nodes), np.all(settled, axis=1)

        settled = latent[1] == 0.0  # a value that is known is at one point
        queried = np.flatnonzero(~settled)
        if self._nodes.size > FEW_NODES:
            queried = queried[ratios(queried, self._nodes[::FIRST])[1]]
        if queried.size:
            ratio, settled[queried] = ratios(queried, self._nodes)
            with np.errstate(divide="ignore"):  # a density may be zero to rounding
                log_ratio = np.maximum(np.log(ratio), np.log(np.finfo(float).tiny))
            # without overshoot: a count of none leaves a cliff where a rate would be large
            weights[queried] *= np.exp(PchipInterpolator(self._nodes, log_ratio, axis=1)(FINE))
            weights[~settled] = standard_density(FINE)
        total = weights.sum(axis=1)
        off = float(np.max(np.abs(total[queried] * (FINE[1] - FINE[0]) - 1.0), initial=0.0))
        return Points(mean[:, None] + sd[:, None] * FINE, weights / total[:, None], off, settled)

    def density(self, features: Features, latent: tuple[Array, Array], values: Array) -> Array:
        """Return the densities ``(m, q)`` of values ``(m, q)`` of new cases, all less the prior mean."""
        density, settled = self._densities(features, latent, values)
        say_unsettled(settled, "densities at", "latent values")
        return density

    def _densities(
        self, features: Features, latent: tuple[Array, Array], values: Array
    ) -> tuple[Array, NDArray[np.bool_]]:
        mean, variance = latent
        density = gaussian_density(values, mean, variance)
        settled = np.abs(values - mean[:, None]) > FARTHEST * np.sqrt(variance)[:, None]
        queried = np.flatnonzero(~settled)
        case = queried // values.shape[1]
        for part in blocks(queried.size, max(1, LARGEST // max(self._problem.n, 1))):
            which = case[part]
            log_density, right = self._more.log_density(
                features(which), mean[which], variance[which], values.ravel()[queried[part]]
            )
            settled.ravel()[queried[part]] = right
            density.ravel()[queried[part][right]] = np.exp(log_density[right])
        return density, settled

    def left_out(self, uncorrected: Array, which: NDArray[np.intp] | None = None) -> tuple[Array, NDArray[np.bool_]]:
        """Return the log density ``(n,)`` of each target given the others, and where it is corrected.

        TAP's own is ``uncorrected``. It is corrected for all cases, or for ``which`` of those of the base.
        """
        base, result, corrected = self._more.base, uncorrected.copy(), np.zeros(uncorrected.size, dtype=bool)
        which = np.arange(base.n) if which is None else which
        for part in blocks(which.size, max(1, LARGEST // max(base.n, 1))):
            rows = which[part]
            found, settled = self._more.left_out(rows)
            cases = base.cases[rows[settled]]
            result[cases], corrected[cases] = found[settled], True
        corrected[np.setdiff1d(np.arange(uncorrected.size), base.cases)] = True  # they know nothing of the others
        return result, corrected

    def left_out_of_worst(self, uncorrected: Array) -> LeftOut:
        r"""Return leave-one-out densities, corrected where TAP's are farthest off.

        What a third cumulant of a cavity makes of log Z_i is, to first order, proportional to the third derivative of
        Z_i over Z_i, :math:`d_3 + 3 d_1 d_2 + d_1^3`. Of the cases where that is not large some are corrected too, to
        know what the sum of all of them leaves out.
        """
        base = self._more.base
        _, d1, d2 = base.derivs
        moved = np.abs(base.d3 + 3.0 * d1 * d2 + d1**3) * base.cavity**3 / base.variance**1.5
        order = np.argsort(-moved, kind="stable")
        rest = order[WORST:]
        few = rest[np.unique(np.linspace(0, rest.size - 1, min(OTHERS, rest.size)).astype(np.intp))]
        found, corrected = self.left_out(uncorrected, np.concatenate([order[:WORST], few]))
        change = found - uncorrected
        error = LEFT_OF_CHANGE * float(np.sum(np.abs(change)))
        left = rest.size - few.size
        if left:
            of_few = change[base.cases[few]]
            error += left * (abs(float(of_few.mean())) + 2.0 * float(np.std(of_few)) / np.sqrt(few.size))
        return LeftOut(found, corrected, error)


def gaussian_density(values: Array, mean: Array, variance: Array) -> Array:
    """Return the densities of values ``(m, q)`` of Gaussians; zero far out, however far that is."""
    sd = np.sqrt(variance)[:, None]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # a value that is known has no density
        return standard_density((values - mean[:, None]) / sd) / sd


def standard_density(z: Array) -> Array:
    """Return the density of the standard normal distribution; SciPy's takes a second to import."""
    return np.asarray(np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi))


def check_corrected(problem: Problem, solution: Solution) -> None:
    """Raise a ValueError if there are no corrected predictions of such a solution, which says what to do."""
    if nothing_to_correct(problem):
        return
    if problem.likelihood.has_classes:  # their labels have no ratio of two evidences
        raise ValueError(
            f"corrected=True is for one latent value a case, and {problem.likelihood.display_name} has several "
            "classes. Leave it out."
        )
    if solution.evidence.kind != "ep":
        raise ValueError(
            "corrected=True and a density correct what TAP leaves out, and this fit is by method "
            f"{solution.method!r}. Fit with method='tap', or go without."
        )


def nothing_to_correct(problem: Problem) -> bool:
    """Tell whether TAP is exact, since its sites are known: with Gaussian noise."""
    return problem.likelihood.known_sites(problem.t, 0.0) is not None


def _in_blocks(ask: Callable[[NDArray[np.intp]], Ratios], queried: NDArray[np.intp], m: int, n: int) -> Ratios:
    neither = np.zeros(m, dtype=bool)
    found = Ratios(np.zeros(m), np.zeros(m), np.full(m, np.nan), neither, neither.copy())
    for part in blocks(queried.size, max(1, LARGEST // max(n, 1))):
        rows = queried[part]
        for whole, some in zip(found, ask(rows), strict=True):
            whole[rows] = some
    return found


def say_unsettled(settled: NDArray[np.bool_], what: str, which: str) -> None:
    """Warn of what could not be corrected."""
    if not np.all(settled):
        warn(
            f"the {what} {int(np.sum(~settled))} of {settled.size} {which} are not corrected but TAP's own: more "
            "cases answer to their labels than are let answer, the equations did not settle, or a case says so much "
            "more than the prior that a variance without it has lost its digits. Fewer training cases, a shorter "
            "length scale, a smaller variance or more latent noise make them fewer.",
            ConvergenceWarning,
        )
