r"""How far TAP's probabilities are off, measured where they are worst.

TAP takes the posterior of a latent value for Gaussian, and that shows most at the training inputs themselves, where a
single case decides. There a new label is predicted twice: by TAP, and as the ratio of corrected evidences
(`solvers.ratio`), whose own error is a small part of the difference. Of all training inputs those few are asked for at
which the tilted distribution of the case alone,

.. math:: q_i(f) \propto p(t_i | f)\, N(f | m_i, \lambda_i),

gives its label the probability that differs most from what its Gaussian does. Where a label contradicts those that
there are, as under a step, there is no ratio, and TAP is held against that distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.optional import of_cases, of_one_case
from bayesgp_mf.matrices.posterior_covariance import PosteriorCovariance
from bayesgp_mf.processes.corrected import nothing_to_correct
from bayesgp_mf.solvers.asked import Base
from bayesgp_mf.solvers.ratio import OneMore
from bayesgp_mf.types import Array

PROBES = 8
"""Training inputs at which the correction is computed."""
LOOKED_AT = 256
"""Cases, those whose tilted distributions are the farthest from Gaussian, of which these are chosen."""
MOST_CASES = 4000
"""Beyond it takes too much of the time of a fit."""
ANSWERING = 16
"""Cases whose sites answer to the label there."""
CERTAIN = 1e-6
"""Probability below which a label contradicts the case that is there, and no ratio is asked for."""
NODES = np.linspace(-7.0, 7.0, 113)
"""Latent values over which is averaged, in standard deviations from the mean."""


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


def asks_for_covariance(problem: Problem, solution: Solution) -> bool:
    """Tell whether `probability_shift` is measured, and by the covariance of all cases."""
    if solution.evidence.kind != "ep" or problem.likelihood.targets != "binary" or nothing_to_correct(problem):
        return False
    # of a method of one's own there are no cavities
    return problem.likelihood.log_concave and problem.n <= MOST_CASES and solution.cavity is not None


def probability_shift(
    problem: Problem,
    solution: Solution,
    as_new: Callable[[NDArray[np.intp]], NewCases],
    covariance: PosteriorCovariance | None = None,
) -> float | None:
    """Return the largest change of a probability by its correction, at training inputs; None where it is not measured.

    Parameters
    ----------
    problem, solution
        It is measured of two classes by TAP, up to 4000 cases; it is zero under Gaussian noise. Not of labels that may
        be flipped, for which the correction may be farther off than TAP.
    as_new : callable
        Returns what is known of new cases at the inputs of some training cases.
    covariance : PosteriorCovariance, optional
        That of the solution, where it is there already.

    Notes
    -----
    O(n^3) once for a dense Gram matrix, a small part of what a solution takes, and O(n) for each of 16 inputs.
    """
    if solution.evidence.kind != "ep" or problem.likelihood.targets != "binary":
        return None
    if nothing_to_correct(problem):
        return 0.0
    if not asks_for_covariance(problem, solution):
        return None
    more = OneMore(problem, solution, ANSWERING, covariance)
    base, likelihood = more.base, of_one_case(problem.likelihood)
    which = _worst(base)
    if not which.size:
        return 0.0
    new = as_new(base.cases[which])
    p = _by_one_case(base, which, likelihood, new)
    unsure = np.flatnonzero(np.minimum(p, 1.0 - p) > CERTAIN)
    if unsure.size:
        ratios = more.new_cases(new.features[:, unsure], new.mean[unsure], new.variance[unsure], new.offset[unsure])
        p[unsure] = np.where(ratios.settled, expit(ratios.log_odds), p[unsure])
    return float(np.max(np.abs(p - new.p)))


def _worst(base: Base) -> NDArray[np.intp]:
    """Return the cases whose own tilted distributions give their labels the most other probabilities."""
    which = np.argsort(-base.bent, kind="stable")[:LOOKED_AT]
    likelihood, t = of_cases(base.likelihood, which), base.t[which]
    values, weight = _tilted(base, which, likelihood)
    p = np.sum(weight * np.exp(likelihood.log_prob(t, values).value), axis=0)
    by_gaussian = np.exp(likelihood.log_partition(t, base.mean[which], base.variance[which]).value)
    return which[np.argsort(-np.abs(p - by_gaussian), kind="stable")[:PROBES]]


def _tilted(base: Base, which: NDArray[np.intp], likelihood: Likelihood) -> tuple[Array, Array]:
    """Return latent values ``(q, k)`` of some cases, and their weights in the tilted distributions."""
    mean, variance = base.cavity_mean[which], base.cavity[which]
    values = base.mean[which] + np.sqrt(base.variance[which]) * NODES[:, None]
    log_weight = likelihood.log_prob(base.t[which], values).value - 0.5 * (values - mean) ** 2 / variance
    weight = np.exp(log_weight - log_weight.max(axis=0))
    return values, weight / weight.sum(axis=0)


def _by_one_case(base: Base, which: NDArray[np.intp], likelihood: Likelihood, new: NewCases) -> Array:
    """Return probabilities of new cases, of which the training cases there are known by their tilted distributions."""
    values, weight = _tilted(base, which, of_cases(base.likelihood, which))
    slope = np.diagonal(base.covariance.with_new(new.features, which)) / base.variance[which]
    left = np.maximum(new.variance - slope**2 * base.variance[which], 0.0)
    centre = new.mean + new.offset + slope * (values - base.mean[which])
    return np.asarray(np.sum(weight * likelihood.predict_proba(centre, np.broadcast_to(left, centre.shape)), axis=0))
