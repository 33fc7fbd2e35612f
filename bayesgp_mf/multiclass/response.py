"""Posterior covariances of the classes of one case, and leave-one-out by linear response."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, ClassLeaveOneOut, Solution
from bayesgp_mf.likelihoods.base import ClassLikelihood
from bayesgp_mf.multiclass.class_gram import class_gram
from bayesgp_mf.multiclass.correction import ClassCorrection
from bayesgp_mf.types import Array

LARGEST_ROUNDING = 1e-6
"""In nats; a log determinant that rounding moves by more may be off by far more."""


def class_correction(solution: Solution) -> ClassCorrection:
    """Return the correction of a solution of several classes, or raise a ValueError if it is another one's."""
    if not isinstance(solution.correction, ClassCorrection):
        raise ValueError(f"this needs a solution of several classes, got one of method {solution.method!r} with two.")
    return solution.correction


def require_known_determinant(solution: Solution) -> None:
    """Raise a NotPositiveDefiniteError if rounding decides the log determinant of what is called solved."""
    rounding = class_correction(solution).rounding
    if solution.info.status is Status.CONVERGED and not rounding <= LARGEST_ROUNDING:
        raise NotPositiveDefiniteError(
            f"{solution.method}: rounding decides. The log determinant of the evidence is known to some {rounding:.1g} "
            "nats only: the classes' common offset is lost among Gram matrices that are huge beside what the labels "
            "say. Use a kernel of less variance."
        )


def class_linear_response(problem: Problem, solution: Solution) -> ClassLeaveOneOut:
    r"""Return the leave-one-out predictions of a solution of several classes by linear response.

    Without case i, whose site is W_i, the latent values of its classes have the covariance and mean

    .. math:: V_i = (\Sigma_i^{-1} - W_i)^{-1}, \qquad m_i = f_i - V_i \alpha_i,

    with Sigma_i their posterior covariance: the form of 2000, eq. 51, with C rows. It is computed as

    .. math:: V_i = \Sigma_i + \Sigma_i F (I - F^T \Sigma_i F)^{-1} F^T \Sigma_i, \qquad W_i = F F^T ,

    which holds where Sigma_i or W_i is singular, too, as W_i always is. Under a softmax a case never says so much that
    the bracket is lost to rounding: where the prior is wide its label is fitted so well that W_i is small.
    """
    own = own_sites(class_correction(solution))
    smallest = np.linalg.eigvalsh(own.remaining)[:, 0]
    if not np.all(smallest > 0):
        worst = int(np.argmin(smallest))
        prior = class_gram(problem).prior[worst]
        raise NotPositiveDefiniteError(
            f"method {solution.method!r}: rounding leaves no leave-one-out covariance of case {worst}, whose prior "
            f"variance is {prior.max():.3g}. Use a kernel with less variance."
        )
    return class_predictions(problem, *class_cavity(problem, own, solution.alpha))


class OwnSites(NamedTuple):
    """Sigma ``(n, C, C)`` of each case, Sigma F and J - F' Sigma F, where its site is W = F J F' with signs J."""

    sigma: Array
    through: Array
    remaining: Array


def own_sites(correction: ClassCorrection) -> OwnSites:
    """Return what is needed to take each case's own site out of the posterior, and to know how much that changes."""
    sigma, factor = correction.covariances(), correction.site.root
    through = sigma @ factor
    signs = correction.site.signs[:, :, None] * np.eye(factor.shape[2])
    return OwnSites(sigma, through, signs - np.swapaxes(factor, 1, 2) @ through)


def class_cavity(problem: Problem, own: OwnSites, alpha: Array) -> Cavity:
    """Return means ``(n, C)`` and covariances ``(n, C, C)`` without each case's own site."""
    covariance = without_own_site(*own)
    return Cavity(cavity_mean(problem, covariance, alpha), covariance)


def cavity_mean(problem: Problem, covariance: Array, alpha: Array) -> Array:
    """Return K alpha - V alpha ``(n, C)``."""
    return np.asarray(class_gram(problem).times(alpha) - np.einsum("icd,id->ic", covariance, alpha))


def without_own_site(sigma: Array, through: Array, remaining: Array) -> Array:
    """Return (Sigma^-1 - F J F')^-1 ``(n, C, C)``, without a difference, given Sigma F and J - F' Sigma F.

    Raises
    ------
    NotPositiveDefiniteError
        If a site says all that is known of its case, but for rounding.
    """
    try:
        solved = np.linalg.solve(remaining, np.swapaxes(through, 1, 2))
    except np.linalg.LinAlgError as error:
        raise NotPositiveDefiniteError("a site says all that is known of its case, but for rounding") from error
    covariance = sigma + through @ solved
    return np.asarray(0.5 * (covariance + np.swapaxes(covariance, 1, 2)))


def class_predictions(problem: Problem, mean: Array, covariance: Array) -> ClassLeaveOneOut:
    """Return what Gaussians of the latent values, ``(n, C)`` and ``(n, C, C)``, say of the cases' own targets."""
    log_density, probability = class_likelihood_of(problem).predictions(problem.t, mean, covariance)
    return ClassLeaveOneOut(mean, np.array(np.diagonal(covariance, axis1=1, axis2=2)), log_density, probability)


def class_likelihood_of(problem: Problem) -> ClassLikelihood:
    """Return the likelihood of a problem, or raise a ValueError if it is not one of several classes."""
    if not isinstance(problem.likelihood, ClassLikelihood):
        raise ValueError(
            f"several classes need a likelihood such as Softmax() or MultinomialProbit(), got "
            f"{type(problem.likelihood).__name__}."
        )
    return problem.likelihood
