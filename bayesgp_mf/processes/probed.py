r"""How far TAP's probabilities are off, measured where they are worst.

TAP takes the posterior of a latent value for Gaussian, and that shows most at the training inputs themselves, where a
single case decides. There a new label is predicted twice: by TAP, and as the ratio of corrected evidences
(`solvers.ratio`), whose own error is a small part of the difference. Of all training inputs those few are asked for at
which the tilted distribution of the case alone,

.. math:: q_i(f) \propto p(t_i | f)\, N(f | m_i, \lambda_i),

gives its label the probability that differs most from what its Gaussian does. Where a label contradicts those that
there are, as under a step, there is no ratio, and TAP is held against that distribution.

Counts and ordered levels have no ratio at all. There the probabilities of "a target of at most t" by the two are held
against each other.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, Solution
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.matrix import PosteriorCovariance
from bayesgp_mf.processes.corrected import Corrected, Features, nothing_to_correct
from bayesgp_mf.processes.process import Latent
from bayesgp_mf.solvers.queries import Base
from bayesgp_mf.solvers.ratio import OneMore
from bayesgp_mf.solvers.sites import match
from bayesgp_mf.types import Array

PROBES = 8
"""Training inputs at which the correction is computed."""
DENSITIES = 4
"""New cases whose densities are corrected, where there are no labels."""
LOOKED_AT = 256
"""Cases, those whose tilted distributions are the farthest from Gaussian, of which these are chosen."""
MOST_CASES = 4000
"""Beyond it takes too much of the time of a fit."""
ANSWERING = 16
"""Cases whose sites answer at first to the label there, unless they are crowded."""
CERTAIN = 1e-6
"""Probability below which a label contradicts the case that is there, and no ratio is asked for."""
NODES = np.linspace(-7.0, 7.0, 113)
"""Latent values over which is averaged, in standard deviations from the mean."""
EACH = 4
"""Of which every so many are enough for an average of what is smooth."""
MIDDLE = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
"""Between each two of these probabilities is one of them."""
STEP = 0.5
"""Standard deviations between the points of a derivative."""
FEW_LEVELS = np.array([0.1, 0.5, 0.9])
"""Those by which new cases are chosen."""
LEVELS = np.array([0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98])
"""Quantiles of a count, about which it is asked how likely fewer are."""


class NewCases(NamedTuple):
    """Training inputs as those of new cases.

    Attributes
    ----------
    features : (r, m) array
        By which the form of the Gram matrix knows them.
    mean, variance : (m,) array
        Of their latent values, without the prior mean.
    offset : (m,) array
        What is added to them for the label: the prior mean, and the offset of the case.
    p : (m,) array
        TAP's probability of class 1.
    """

    features: Array
    mean: Array
    variance: Array
    offset: Array
    p: Array


def is_measured(problem: Problem, solution: Solution) -> bool:
    """Tell whether corrections are known to be better than the solution, and take no more than a part of its time."""
    likelihood = problem.likelihood
    if solution.evidence.kind != "ep" or likelihood.has_classes or nothing_to_correct(problem):
        return False
    # of a method of one's own there are no cavities
    return likelihood.log_concave and problem.n <= MOST_CASES and solution.cavity is not None


def probability_shift(
    problem: Problem,
    solution: Solution,
    as_new: Callable[[NDArray[np.intp]], NewCases],
    covariance: PosteriorCovariance | None = None,
    few: int | None = ANSWERING,
) -> float | None:
    """Return the largest change of a probability by its correction, at training inputs; None where it is not measured.

    Parameters
    ----------
    problem, solution
        It is measured of TAP, up to 4000 cases, and is zero under Gaussian noise. Not of several classes, nor of
        likelihoods that are not log-concave: of labels that may be flipped the correction may be farther off than TAP.
    as_new : callable
        Returns what is known of new cases at the inputs of some training cases.
    covariance : PosteriorCovariance, optional
        That of the solution, where it is there already.
    few : int, optional
        As for `OneMore`.

    Notes
    -----
    O(n^3) once for a dense Gram matrix, a small part of what a solution takes, and O(n) for each of 16 inputs.
    """
    is_binary = problem.likelihood.is_binary
    if not is_measured(problem, solution):
        return 0.0 if solution.evidence.kind == "ep" and is_binary and nothing_to_correct(problem) else None
    if not is_binary:
        assert solution.cavity is not None
        return _largest_difference(problem, solution.cavity)
    more = OneMore(problem, solution, few, covariance)
    base, likelihood = more.base, problem.likelihood.of_one_case
    which = _worst(base)
    if not which.size:
        return 0.0
    new = as_new(base.cases[which])
    p = _by_one_case(base, which, likelihood, new)
    unsure = np.flatnonzero(np.minimum(p, 1.0 - p) > CERTAIN)
    if unsure.size:
        ratios = more.new_cases(new.features[:, unsure], new.mean[unsure], new.variance[unsure], new.offset[unsure])
        p[unsure] = np.where(ratios.settled, ratios.p, p[unsure])
    return float(np.max(np.abs(p - new.p)))


def _largest_difference(problem: Problem, cavity: Cavity) -> float:
    """Return the largest difference in how likely a target is to be at most a number, by tilted and by Gaussian values.

    Of events at the inputs of those cases whose latent values differ most; without `Likelihood.predictive_below` it is
    the largest difference in how likely a latent value is to be at most a number, which bounds the other.
    """
    likelihood, t = problem.likelihood, problem.t
    derivs = likelihood.log_partition(t, *cavity)
    # the Gaussian that moment matching gives, which is the posterior's but for the residual of the equations
    mean = cavity.mean + cavity.variance * derivs.d1
    variance = cavity.variance / (1.0 + cavity.variance * match(likelihood, t, cavity, derivs).precision)
    values, weight = _tilted(likelihood, t, mean, variance, cavity)
    below = np.cumsum(weight, axis=0)[:-1]
    differ = np.max(np.abs(below - ndtr(0.5 * (NODES[1:] + NODES[:-1]))[:, None]), axis=0)
    which = np.argsort(-differ, kind="stable")[:PROBES]
    some = likelihood.of_cases(which)
    coarse, few = values[::EACH, which].T, weight[::EACH, which].T
    tilted = Latent(some, coarse, np.zeros_like(coarse), few / few.sum(axis=1, keepdims=True))
    found = _change_of_targets(Latent.gaussian(some, mean[which], variance[which]), tilted)
    return float(differ.max()) if found is None else found


def _change_of_targets(gaussian: Latent, better: Latent) -> float | None:
    """Return the largest difference in how likely a target is to be at most a number, at quantiles by the Gaussian."""
    if gaussian.below(gaussian.mean[:, 0]) is None:
        return None
    at = gaussian.quantiles(LEVELS)
    return float(np.max(np.abs(np.asarray(better.below(at)) - np.asarray(gaussian.below(at)))))


def shift_at(
    corrected: Corrected,
    features: Features,
    latent: tuple[Array, Array],
    prior_mean: Array,
    offset: Array,
    likelihood: Likelihood,
) -> float | None:
    """Return the largest change of a probability by its correction, at new cases; None where none is known.

    Parameters
    ----------
    corrected : Corrected
        Of the solution.
    features : callable
        Returns those of new cases with given numbers.
    latent : tuple of (m,) array
        Means less the prior mean, and variances.
    prior_mean, offset : (m,) array
        What is added to them for the latent value, and for the target of a case.
    likelihood : Likelihood
        Of the m new cases.

    Notes
    -----
    Of the new cases those few are asked for whose probabilities the skewness of their latent values moves most, and of
    labels some in the middle.
    """
    mean, variance = latent
    skewness = corrected.skewness(features(np.arange(mean.size)), variance)
    moved, beyond = _moved(likelihood, mean + prior_mean, variance, skewness)
    if likelihood.is_binary:
        which = _chosen(moved, beyond, likelihood.predict_proba(mean + prior_mean, variance))
    else:
        which = np.argsort(-moved, kind="stable")[:DENSITIES]
    some = likelihood.of_cases(which)
    few, prior = (mean[which], variance[which]), prior_mean[which]
    gaussian = Latent.gaussian(some, few[0] + prior, few[1])
    if likelihood.is_binary:
        p = some.predict_proba(few[0] + prior, few[1])
        found = corrected.labels(lambda rows: features(which[rows]), few, prior + offset[which], p)
        change = np.maximum(np.abs(found.p - p), np.abs(found.extreme - p))
        return float(np.max(change)) if found.settled.all() else None
    points = corrected.points(lambda rows: features(which[rows]), few)
    return _change_of_targets(gaussian, Latent.at_points(some, points, prior)) if points.settled.all() else None


def _moved(likelihood: Likelihood, mean: Array, variance: Array, skewness: Array) -> tuple[Array, Array]:
    r"""Return how far their skewness moves how likely a label is ``(m,)``, or a target of at most a number.

    To first order it is :math:`\tfrac16 \gamma \sigma^3 \partial_m^3 p`, and no more than what is left to zero or one.
    The derivative is taken a quarter of a standard deviation to both sides, since it is zero somewhere. Of numbers the
    largest of some is returned; and the skewness itself where the likelihood has no such probabilities. The second is
    how far a mean that is off by :math:`\gamma \sigma` would move it: the size of what that order may leave out.
    """
    steps = np.arange(2.0, -3.0, -1.0)[:, None, None] * STEP * np.sqrt(variance)
    at: Array = np.ones((1, mean.size))
    if not likelihood.is_binary:
        latent = Latent.gaussian(likelihood, mean, variance)
        if latent.below(mean) is None:
            return np.abs(skewness), np.abs(skewness)
        at = latent.quantiles(FEW_LEVELS)
    moved = np.broadcast_to(mean + steps, (len(steps), *at.shape))
    if likelihood.is_binary:
        p = likelihood.predict_proba(moved, np.broadcast_to(variance, moved.shape))
    else:
        p = np.array([likelihood.predictive_below(at, each, np.broadcast_to(variance, at.shape)) for each in moved])
    change = np.diff(-p, n=3, axis=0) * skewness / (6.0 * STEP**3)
    first = np.max(np.abs(np.clip(p[2] + change, 0.0, 1.0) - p[2]), axis=(0, 1))
    return first, np.max(np.abs((p[3] - p[1]) * skewness), axis=0)


def _chosen(moved: Array, beyond: Array, p: Array) -> NDArray[np.intp]:
    """Return numbers of cases: those that are said to move most, and of some ranges of p those that move beyond that.

    There what the first order in a skewness says is next to nothing, and the next orders are largest.
    """
    _, different = np.unique(np.round(moved, 9), return_index=True)  # copies of a case say nothing more
    by_moved = list(different[::-1])
    few = PROBES - MIDDLE.size + 1
    chosen = by_moved[:few]
    for low, high in pairwise(MIDDLE):
        rest = np.setdiff1d(np.flatnonzero((low <= p) & (p < high)), chosen)
        if rest.size:
            chosen.append(rest[np.argmax(beyond[rest])])
    left = [case for case in by_moved[few:] if case not in chosen]
    return np.array([*chosen, *left][:PROBES], dtype=np.intp)


def _worst(base: Base) -> NDArray[np.intp]:
    """Return the cases whose p their own tilted distributions or the skewness by all move most, and some others."""
    which = np.argsort(-base.bent, kind="stable")[:LOOKED_AT]
    likelihood, t = base.likelihood.of_cases(which), base.t[which]
    values, weight = _tilted_of(base, which, likelihood)
    p = np.sum(weight * np.exp(likelihood.log_prob(t, values).value), axis=0)
    mean, variance = base.mean[which], base.variance[which]
    by_gaussian = np.exp(likelihood.log_partition(t, mean, variance).value)
    skewness = base.skewness_of(base.covariance.entries(which, slice(None)), variance)
    moved, beyond = _moved(likelihood, mean, variance, skewness)
    return which[_chosen(np.maximum(np.abs(p - by_gaussian), moved), beyond, by_gaussian)]


def _tilted_of(base: Base, which: NDArray[np.intp], likelihood: Likelihood) -> tuple[Array, Array]:
    """Return what `_tilted` does of some cases."""
    cavity = Cavity(base.cavity_mean[which], base.cavity[which])
    return _tilted(likelihood, base.t[which], base.mean[which], base.variance[which], cavity)


def _tilted(likelihood: Likelihood, t: Array, mean: Array, variance: Array, cavity: Cavity) -> tuple[Array, Array]:
    """Return latent values ``(q, k)``, and their weights in the tilted distributions, from what their Gaussians are."""
    values = mean + np.sqrt(variance) * NODES[:, None]
    log_weight = likelihood.log_prob(t, values).value - 0.5 * (values - cavity.mean) ** 2 / cavity.variance
    weight = np.exp(log_weight - log_weight.max(axis=0))
    return values, weight / weight.sum(axis=0)


def _by_one_case(base: Base, which: NDArray[np.intp], likelihood: Likelihood, new: NewCases) -> Array:
    """Return probabilities of new cases, of which the training cases there are known by their tilted distributions."""
    values, weight = _tilted_of(base, which, base.likelihood.of_cases(which))
    slope = np.diagonal(base.covariance.with_new(new.features, which)) / base.variance[which]
    left = np.maximum(new.variance - slope**2 * base.variance[which], 0.0)
    centre = new.mean + new.offset + slope * (values - base.mean[which])
    return np.asarray(np.sum(weight * likelihood.predict_proba(centre, np.broadcast_to(left, centre.shape)), axis=0))
