"""Posterior covariances of the classes of one case, and leave-one-out by linear response."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import ClassLeaveOneOut, Solution
from bayesgp_mf.likelihoods.base import ClassLikelihood
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.multiclass.correction import ClassCorrection
from bayesgp_mf.multiclass.gram import prior_variance, times_gram
from bayesgp_mf.types import Array

BLOCK = 512
"""Cases handled at once: C matrices of n rows and so many columns."""

_INFORMATIVE = (
    1e-3  # where a case leaves less than this of its own variance, what the others say is lost in a difference
)
_BALANCED = 1e-8  # ... and is found from R instead, if the case says something of every contrast
_ROUNDING = 1e-8


def class_correction(solution: Solution) -> ClassCorrection:
    """Return the correction of a solution of several classes, or raise a ValueError if it is another one's."""
    if not isinstance(solution.correction, ClassCorrection):
        raise ValueError(f"this needs a solution of several classes, got one of method {solution.method!r} with two.")
    return solution.correction


def case_covariances(correction: ClassCorrection, prior: Array, cross: Array) -> Array:
    """Return the posterior covariances ``(m, C, C)`` of the classes at new cases.

    Parameters
    ----------
    correction : ClassCorrection
        R.
    prior : (m, C) array
        Prior variances.
    cross : (n, m) or (C, n, m) array
        Covariances with the training cases.
    """
    result = np.empty((*prior.shape, prior.shape[1]))
    for rows in blocks(prior.shape[0], BLOCK):
        result[rows] = -correction.blocks(cross[..., rows])
    every = np.arange(prior.shape[1])
    result[:, every, every] += prior
    lowest = np.min(result[:, every, every] / np.maximum(prior, np.finfo(float).tiny), initial=0.0)
    if lowest < -_ROUNDING:
        raise ArithmeticError(
            f"a posterior variance came out as {lowest:.3g} of the prior one, below zero by more than rounding; please "
            "report this with the kernel and the data."
        )
    result[:, every, every] = np.maximum(result[:, every, every], 0.0)  # rounding
    return result


def class_linear_response(problem: Problem, solution: Solution) -> ClassLeaveOneOut:
    r"""Return the leave-one-out predictions of a solution of several classes by linear response.

    Without case i, whose site is W_i, the latent values of its classes have the covariance and mean

    .. math:: V_i = (\Sigma_i^{-1} - W_i)^{-1}, \qquad m_i = f_i - V_i \alpha_i,

    with Sigma_i their posterior covariance: the form of 2000, eq. 51, with C rows. It is computed as

    .. math:: V_i = \Sigma_i + \Sigma_i F (I - F^T \Sigma_i F)^{-1} F^T \Sigma_i, \qquad W_i = F F^T ,

    which holds where Sigma_i or W_i is singular, too, as W_i always is. Under a softmax a case never says so much that
    the bracket is lost to rounding: where the prior is wide its label is fitted so well that W_i is small.

    Parameters
    ----------
    problem : Problem
        The problem that was solved.
    solution : Solution
        Of several classes.

    Returns
    -------
    ClassLeaveOneOut
        Means and variances ``(n, C)``, log predictive densities ``(n,)`` in nats, probabilities ``(n, C)``.

    Raises
    ------
    ArithmeticError
        If rounding leaves no covariance.
    """
    correction = class_correction(solution)
    prior = prior_variance(problem.dense_gram, problem.n_classes)
    sigma = case_covariances(correction, prior, problem.dense_gram)
    basis = contrast_basis(problem.n_classes)
    values, vectors = np.linalg.eigh(basis.T @ correction.site_precision() @ basis)
    values = np.maximum(values, 0.0)  # rounding: sites are positive semi-definite
    factor = (basis @ vectors) * np.sqrt(values)[:, None, :]  # F (n, C, C - 1)
    remaining = np.eye(problem.n_classes - 1) - np.swapaxes(factor, 1, 2) @ sigma @ factor
    smallest = np.linalg.eigvalsh(remaining)[:, 0]
    if not np.all(smallest > 0):
        worst = int(np.argmin(smallest))
        raise ArithmeticError(
            f"method {solution.method!r}: rounding leaves no leave-one-out covariance of case {worst}, whose prior "
            f"variance is {prior[worst].max():.3g}. Use a kernel with less variance."
        )
    covariance = without_own_site(sigma, sigma @ factor, remaining)
    latent = times_gram(solution.alpha, problem.dense_gram)
    mean = latent - np.einsum("icd,id->ic", covariance, solution.alpha)
    return class_predictions(problem, mean, covariance)


def without_own_site(sigma: Array, through: Array, remaining: Array) -> Array:
    """Return (Sigma^-1 - F F')^-1 ``(n, C, C)``, without a difference, given Sigma F and I - F' Sigma F."""
    covariance = sigma + through @ np.linalg.solve(remaining, np.swapaxes(through, 1, 2))
    return np.asarray(0.5 * (covariance + np.swapaxes(covariance, 1, 2)))


def class_predictions(problem: Problem, mean: Array, covariance: Array) -> ClassLeaveOneOut:
    """Return what Gaussians of the latent values, ``(n, C)`` and ``(n, C, C)``, say of the cases' own targets."""
    log_density, probability = softmax_of(problem).predictions(problem.t, mean, covariance)
    return ClassLeaveOneOut(mean, np.array(np.diagonal(covariance, axis1=1, axis2=2)), log_density, probability)


def softmax_of(problem: Problem) -> ClassLikelihood:
    """Return the likelihood of a problem, or raise a ValueError if it is not one of several classes."""
    if not isinstance(problem.likelihood, ClassLikelihood):
        raise ValueError(f"several classes need a Softmax likelihood, got {type(problem.likelihood).__name__}.")
    return problem.likelihood
