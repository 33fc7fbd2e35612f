"""How well the equations of a mode hold: alpha = grad log p(t|K alpha), without cavities.

With a Gaussian likelihood they are the normal equations of the exact posterior.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Info, Solution
from bayesgp_mf.inference.solver import GramGradient
from bayesgp_mf.matrices.corrections import Sites
from bayesgp_mf.solvers.accuracy import assessed
from bayesgp_mf.solvers.extended import log_evidence
from bayesgp_mf.solvers.refinement import EPS, Gap, in_deviations, most_rounding_of_weights, refined
from bayesgp_mf.types import Array, Derivs

NEGLIGIBLE = 1e-9
"""Of a mean, in posterior standard deviations: less than elsewhere, since an error counts to first order in the log
evidence of Laplace's method, which is not stationary at the mode."""


class AtMode(NamedTuple):
    """Weights, the latent values K alpha, what the likelihood says there, and R of the sites W at the mode."""

    alpha: Array
    latent: Array
    derivs: Derivs
    correction: Sites


def at_mode(problem: Problem, alpha: Array, correction: Sites) -> AtMode:
    """Return what follows from weights ``(n,)``, with R as it is."""
    latent = problem.matrix @ alpha
    return AtMode(alpha, latent, problem.likelihood.log_prob(problem.t, latent), correction)


def refined_mode(problem: Problem, first: AtMode, info: Info) -> tuple[AtMode, float, Array]:
    """Return weights alpha = grad log p(t|K alpha) that hold as well as they can, and how far the means are off.

    Also what Newton's step would still change the latent values by ``(n,)``. There are no cavities here: the equation
    is that of the mode (`solvers.laplace`), and with a Gaussian likelihood that of the exact posterior.
    """
    matrix, correction, precision = problem.matrix, first.correction, first.correction.site_precision
    with np.errstate(divide="ignore"):
        # what no posterior variance exceeds where all sites are positive, ...
        variance = np.minimum(matrix.diagonal(), 1.0 / np.abs(precision))
    residual = first.derivs.d1 - first.alpha
    own = variance * np.abs(residual)
    is_easy = bool((precision >= 0).all()) and in_deviations(own, np.sqrt(variance)) <= NEGLIGIBLE
    # a likelihood may be far narrower than the posterior: latent values are known, too
    is_easy = is_easy and bool((own <= NEGLIGIBLE * np.abs(first.latent)).all())
    if not (is_easy and most_rounding_of_weights(matrix, first) <= NEGLIGIBLE):
        # ... and what they are; of one that is lost in rounding, no more is known than that
        variance = np.maximum(correction.covariance_diagonal(), EPS * variance)

    def gap(here: AtMode) -> Gap:
        residual = here.derivs.d1 - here.alpha
        return Gap(variance * residual, residual)

    def moved(here: AtMode, weights: Array) -> AtMode:
        return at_mode(problem, weights, here.correction)

    best, error = refined(matrix, first, gap, moved, np.sqrt(variance), info, NEGLIGIBLE)
    residual = best.derivs.d1 - best.alpha
    return best, error, (np.zeros_like(residual) if is_easy else matrix @ correction.weights(residual))


def assessed_mode(
    problem: Problem,
    solution: Solution,
    correction: Sites,
    mean_error: float,
    gradient: Callable[[Solution], GramGradient],
) -> Solution:
    """Return a solution at a mode that says how well its numbers are known (`accuracy.assessed`)."""
    precision = correction.site_precision
    return assessed(
        solution,
        problem.matrix,
        mean_error,
        precision,  # R has no larger trace
        gradient,
        lambda: log_evidence(problem, solution.alpha, precision, np.zeros(problem.n)),
    )
