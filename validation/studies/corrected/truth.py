"""Exact probabilities of new labels, with what chance may have done to them.

With a probit or a step the posterior is a mixture over points of minimax tilting. With `Logit` it is one over points of
TAP's own Gaussian, made wider and weighed with the exact posterior density; the points fill the cube evenly, so that up
to thirty cases some ten thousand of them are enough.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import ndtri

from bayesgp_mf.inference.solver import Cloud
from bayesgp_mf.likelihoods.moments import scrambled_points
from bayesgp_mf.matrices.factors import cholesky, triangular_inverse
from bayesgp_mf.matrices.matrix import InverseCorrection
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.solvers.exact import Exact
from bayesgp_mf.types import Array

WIDER = 1.25
"""Times the variance of the Gaussian that points are drawn from: tails that are too short would not be found out."""


@dataclass(frozen=True, slots=True)
class Truth:
    """Exact probabilities of class +1.

    Attributes
    ----------
    p, error : (m,) array
        With the standard errors of these numbers.
    sd : (m,) array
        Of the probability over the posterior of the latent function: that of an average over independent draws is this
        by the root of their number.
    """

    p: Array
    error: Array
    sd: Array


def true_probabilities(posterior: Posterior, X_new: Array, log2_points: int, repeats: int) -> Truth:
    """Return the exact probabilities of the model that was approximated, from independent sets of points."""
    problem, kernel = posterior.problem, posterior.kernel
    cross, prior = kernel.cross(posterior.X, X_new), kernel.diag(X_new)
    first, second = [], []
    for seed in range(repeats):
        cloud = _cloud(posterior, log2_points, seed)
        each = problem.likelihood.predict_proba(*cloud.moments(cross, prior))
        first.append(cloud.share @ each)
        second.append(cloud.share @ each**2)
    p, error = average(first)
    return Truth(p, error, np.sqrt(np.maximum(np.mean(second, axis=0) - p**2, 0.0)))


def true_leave_one_out(posterior: Posterior, log2_points: int, repeats: int) -> tuple[Array, Array]:
    """Return the exact probability ``(n,)`` of each label given the others, with its standard error; refits."""
    problem, solution = posterior.problem, posterior.solution
    solvers = [Exact(log2_points=log2_points, random_seed=seed) for seed in range(repeats)]
    return average([np.exp(solver.leave_one_out(problem, solution).log_density) for solver in solvers])


def average(repeated: Any) -> tuple[Array, Array]:
    """Return the mean over independent repeats ``(repeats, m)``, and its standard error."""
    values = np.asarray(repeated)
    return values.mean(axis=0), values.std(axis=0, ddof=1) / np.sqrt(len(values))


def _cloud(posterior: Posterior, log2_points: int, seed: int) -> Cloud:
    if posterior.problem.likelihood.latent_noise is not None:
        return Exact(log2_points=log2_points, random_seed=seed).cloud(posterior.problem)
    return _weighed(posterior, log2_points, seed)


def _weighed(posterior: Posterior, log2_points: int, seed: int) -> Cloud:
    """Return the posterior as a mixture over points of a Gaussian, for any likelihood; the Gram matrix has a factor."""
    problem, solution = posterior.problem, posterior.solution
    gram = problem.dense_gram
    factor = cholesky(gram)  # f = L u, with u white under the prior
    covariance = np.eye(problem.n) - solution.correction.quadratic(factor)
    spread = cholesky(WIDER * covariance)
    points = ndtri(scrambled_points(problem.n, log2_points, np.random.default_rng(seed)))  # (n, points)
    u = (factor.T @ solution.alpha)[:, None] + spread @ points
    log_likelihood = np.sum(problem.likelihood.log_prob(problem.t, (factor @ u).T).value, axis=1)
    log_share = log_likelihood + 0.5 * np.sum(points**2 - u**2, axis=0)
    share = np.exp(log_share - log_share.max())
    weights = u.T @ triangular_inverse(factor)
    return Cloud(weights, share / share.sum(), InverseCorrection(factor))
