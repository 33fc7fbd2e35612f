"""Probabilities of labels that are corrected for what TAP's approximation leaves out, of new and of left-out cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_expit
from scipy.stats import norm

from bayesgp_mf.errors import ConvergenceWarning, warn
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.solvers.ratio import OneMore, Ratios
from bayesgp_mf.types import Array

Features: TypeAlias = Callable[[NDArray[np.intp]], Array]
"""Returns those of new cases with given numbers."""
NODES = np.linspace(-7.0, 7.0, 57)
"""Latent values over which is averaged, in standard deviations from the mean."""
FIRST = 8
"""One in so many of them is asked for first: a case for which these are not right has the others not asked for."""
LARGEST_SUM_ERROR = 0.03
"""By how much probabilities of the two labels may miss one before it is said."""
FARTHEST = 1e30
"""Standard deviations beyond which no value has a density, whatever the prior: their squares are beyond all numbers."""
LARGEST = 2**23
"""Covariances of new with training cases that are in memory at once."""


class CorrectedProba(NamedTuple):
    """Corrected probabilities of new cases.

    Attributes
    ----------
    p : (m,) array
        Of class 1.
    largest_sum_error : float
        Each label's probability is found by itself; by how much the sum of the two is off one, at most, before it is
        made one.
    settled : (m,) bool array
        Where it is corrected. Elsewhere p is TAP's own.
    """

    p: Array
    largest_sum_error: float
    settled: NDArray[np.bool_]


def together(weights: Array, parts: Sequence[CorrectedProba]) -> CorrectedProba:
    """Return the probabilities averaged over settings of the hyperparameters, which have weights ``(k,)``."""
    return CorrectedProba(
        np.asarray(sum(weight * part.p for weight, part in zip(weights, parts, strict=True))),
        max(part.largest_sum_error for part in parts),
        np.all([part.settled for part in parts], axis=0),
    )


class Corrected:
    """Corrected predictions of one solution.

    Parameters
    ----------
    problem, solution
        Of two classes by TAP.

    Raises
    ------
    ValueError
        If they are others.
    """

    def __init__(self, problem: Problem, solution: Solution) -> None:
        check_corrected(problem, solution)
        if not problem.likelihood.log_concave:
            warn(
                "the likelihood is not log-concave, as with label flips: there corrected probabilities were nearer to "
                "the truth than TAP's in most problems, and farther off in some. Hold them against method='exact', or "
                "NUTS, before they are relied on."
            )
        self._more = OneMore(problem, solution)
        self._problem = problem

    def new(self, features: Features, latent: tuple[Array, Array], offset: Array, uncorrected: Array) -> CorrectedProba:
        """Return the probabilities of new cases, of which TAP says mean and variance less the prior mean, and p."""
        mean, variance = latent
        uncertain = variance > 0  # a value that is known has one probability

        def ask(rows: NDArray[np.intp]) -> Ratios:
            return self._more.new_cases(features(rows), mean[rows], variance[rows], offset[rows])

        odds, total, settled = _in_blocks(ask, np.flatnonzero(uncertain), mean.size, self._problem.n)
        p = np.where(settled, expit(odds), uncorrected)
        again = np.flatnonzero(uncertain & ~settled)
        if again.size:  # where a label contradicts those that there are, its evidence is that of a problem without one
            p[again], settled[again] = self._by_density(features, latent, offset, uncorrected, again)
        settled |= ~uncertain
        _say_unsettled(settled, "probabilities of", "new cases")
        sums = total[np.isfinite(total)]
        found = CorrectedProba(p, float(np.max(np.abs(sums - 1.0), initial=0.0)), settled)
        if found.largest_sum_error > LARGEST_SUM_ERROR and self._problem.likelihood.log_concave:  # else it was said
            warn(
                "the corrected probabilities of the two labels, each found by itself, miss one by up to "
                f"{found.largest_sum_error:.2g}: they are known to about that. Less is left with more latent noise, or "
                "use method='exact'."
            )
        return found

    def _by_density(
        self,
        features: Features,
        latent: tuple[Array, Array],
        offset: Array,
        uncorrected: Array,
        which: NDArray[np.intp],
    ) -> tuple[Array, NDArray[np.bool_]]:
        """Return the probabilities of some cases as averages over the latent value, and where its density is right."""
        mean, sd = latent[0], np.sqrt(latent[1])

        def densities(queried: NDArray[np.intp], nodes: Array) -> tuple[Array, Array, NDArray[np.bool_]]:
            values = mean[queried, None] + sd[queried, None] * nodes
            density, settled = self._densities(
                lambda rows: features(queried[rows]), (mean[queried], sd[queried] ** 2), values
            )
            return values, density, np.all(settled, axis=1)

        p, right = uncorrected[which], densities(which, NODES[::FIRST])[2]
        left = np.flatnonzero(right)
        if not left.size:
            return p, right
        values, density, right[left] = densities(which[left], NODES)
        likelihood = self._problem.likelihood.of_one_case
        at = (values + offset[which[left], None]).ravel()
        given = np.exp(likelihood.log_prob(np.ones(at.size), at).value).reshape(values.shape)
        average = np.sum(density * given, axis=1) / np.sum(density, axis=1)
        p[left] = np.where(right[left], average, p[left])
        return p, right

    def density(self, features: Features, latent: tuple[Array, Array], values: Array) -> Array:
        """Return the densities ``(m, q)`` of values ``(m, q)`` of new cases, all less the prior mean."""
        density, settled = self._densities(features, latent, values)
        _say_unsettled(settled, "densities at", "latent values")
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

    def left_out(self, uncorrected: Array) -> Array:
        """Return the log probability ``(n,)`` of each label given the others, where TAP's own is ``uncorrected``."""
        cases, result = self._more.base.cases, uncorrected.copy()
        odds, _, settled = _in_blocks(self._more.left_out, np.arange(cases.size), cases.size, cases.size)
        _say_unsettled(settled, "probabilities of", "training cases")
        result[cases] = np.where(settled, log_expit(self._problem.t[cases] * odds), uncorrected[cases])
        return result


def gaussian_density(values: Array, mean: Array, variance: Array) -> Array:
    """Return the densities of values ``(m, q)`` of Gaussians; zero far out, however far that is."""
    with np.errstate(over="ignore"):
        return np.asarray(norm.pdf(values, mean[:, None], np.sqrt(variance)[:, None]))


def check_corrected(problem: Problem, solution: Solution) -> None:
    """Raise a ValueError if there are no corrected predictions of such a solution, which says what to do."""
    if nothing_to_correct(problem):
        return
    if not problem.likelihood.is_binary:  # labels of several classes have no ratio of two evidences
        raise ValueError(
            f"corrected=True is for two classes, and {problem.likelihood.display_name} has "
            f"{'several' if problem.likelihood.has_classes else 'real targets'}. Leave it out."
        )
    if solution.evidence.kind != "ep":
        raise ValueError(
            "corrected=True and a density correct what TAP leaves out, and this fit is by method "
            f"{solution.method!r}. Fit with method='tap', or go without."
        )


def nothing_to_correct(problem: Problem) -> bool:
    """Tell whether TAP is exact, since its sites are known: with Gaussian noise."""
    return problem.likelihood.known_sites(problem.t, 0.0) is not None


def _in_blocks(
    ask: Callable[[NDArray[np.intp]], Ratios], queried: NDArray[np.intp], m: int, n: int
) -> tuple[Array, Array, NDArray[np.bool_]]:
    odds, total, settled = np.zeros(m), np.full(m, np.nan), np.zeros(m, dtype=bool)
    for part in blocks(queried.size, max(1, LARGEST // max(n, 1))):
        rows = queried[part]
        odds[rows], total[rows], settled[rows] = ask(rows)
    return odds, total, settled


def _say_unsettled(settled: NDArray[np.bool_], what: str, which: str) -> None:
    if not np.all(settled):
        warn(
            f"the {what} {int(np.sum(~settled))} of {settled.size} {which} are not corrected but TAP's own: more "
            "cases answer to their labels than are let answer, or the equations did not settle. Fewer training cases, "
            "a shorter length scale or more latent noise make them fewer.",
            ConvergenceWarning,
        )
