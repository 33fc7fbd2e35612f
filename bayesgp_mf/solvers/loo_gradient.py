r"""The derivative of the leave-one-out log predictive density with respect to the Gram matrix.

Leave-one-out predictions are taken at fixed sites, with (2000, appendix D, eq. 51)

.. math:: L = \sum_i \log Z_i(\mu_i, \nu_i), \qquad \mu = f - \nu \odot \alpha, \quad f = K \alpha, \quad
          \nu_i = 1/R_{ii} - 1/W_i,

but sites and weights are those of the method's fixed point, which moves with K. All methods below solve

.. math:: \alpha_i = d_1(m_i, \lambda_i), \quad m = f - \lambda \odot \alpha, \quad W_i = -d_2 / (1 + \lambda_i d_2)

and differ in the cavity variance lambda: 1/[K^-1]_ii, K_ii, zero (Laplace, whose :math:`\log Z(f, 0)` is
:math:`\log p(t|f)`), or, for TAP, nu itself. With :math:`P = I - K R`, :math:`\Sigma = P K`,
:math:`g = 1 + W \lambda` (which is :math:`1/(1 + \lambda d_2)`), :math:`\gamma = 1 + W \nu` and d_3, d_4 the further
derivatives of log Z in m, their linearisation is

.. math::
    d\alpha &= -R\, dK \alpha + P^T (e \odot d\lambda), \qquad e = \tfrac12 d_3 g \\
    df &= P\, dK \alpha + \Sigma (e \odot d\lambda), \qquad dm = df - \lambda \odot d\alpha - \alpha \odot d\lambda \\
    dW &= -g^2 d_3 \odot dm + g^2 (d_2^2 - \partial_\lambda d_2) \odot d\lambda \\
    d\nu_i &= \gamma_i^2 \Big[ (P\, dK P^T)_{ii} - \sum_{j \ne i} \Sigma_{ij}^2 dW_j \Big]

where the heat equation has been used, :math:`\partial_\lambda d_1 = d_3/2 + d_1 d_2` and
:math:`\partial_\lambda d_2 = d_4/2 + d_2^2 + d_1 d_3`. The code below runs these lines backwards, from L to dK. For
TAP, :math:`d\lambda = d\nu` closes a loop, which is a system of n linear equations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import LeaveOneOut, Solution
from bayesgp_mf.likelihoods.higher import higher_derivatives
from bayesgp_mf.solvers.response import site_form
from bayesgp_mf.types import Array

PullBack: TypeAlias = Callable[[Array, Array, Array], Array]
"""From K, cavity variances that follow from it alone, and what is said of them, to what that says of K ``(n, n)``."""


def loo_gram_gradient(
    problem: Problem, solution: Solution, others: LeaveOneOut, pull_back: PullBack | None = None
) -> Array:
    """Return the derivative ``(n, n)`` of the sum of leave-one-out log densities with respect to the Gram matrix.

    Parameters
    ----------
    problem : Problem
        What was solved.
    solution : Solution
        Its solution.
    others : LeaveOneOut
        The leave-one-out predictions.
    pull_back : callable, optional
        How the cavity variances of a method depend on the Gram matrix, backwards; those of TAP react to all else.

    Returns
    -------
    (n, n) array
        Symmetric; contract it with dK/dtheta over both indices.

    Notes
    -----
    O(n^3), about as much as ten steps of the solver.
    """
    own = _own_cavity(problem, solution)
    posterior = _posterior(problem, solution, others.variance)
    log_z = problem.likelihood.log_partition(problem.t, others.mean, others.variance)
    # what L says of mu and nu; mu = f - nu alpha
    mean_bar = log_z.d1
    nu_bar = 0.5 * (log_z.d2 + log_z.d1**2) - log_z.d1 * solution.alpha
    f_bar, alpha_bar = mean_bar, -others.variance * mean_bar
    if pull_back is None:
        # lambda is nu: what the sites say of lambda comes back to nu
        loop = _site_response(own, posterior, solution.alpha) @ posterior.reaction.T
        lambda_bar = _through_lambda(own, posterior, f_bar, alpha_bar)
        try:
            closed = np.linalg.solve(np.eye(problem.n) + loop, nu_bar + lambda_bar)
        except np.linalg.LinAlgError as error:
            raise NotPositiveDefiniteError("the mean-field equations are singular here") from error
        nu_bar = np.asarray(closed, dtype=np.float64)
    site_bar = -posterior.reaction.T @ nu_bar
    m_bar = -(own.g**2) * own.d3 * site_bar
    f_bar, alpha_bar = f_bar + m_bar, alpha_bar - own.variance * m_bar
    half = posterior.projection.T @ f_bar - posterior.correction @ alpha_bar
    outer = np.outer(half, solution.alpha)
    weight = nu_bar * posterior.gamma**2
    gradient = 0.5 * (outer + outer.T) + (posterior.projection.T * weight) @ posterior.projection
    if pull_back is None:
        return np.asarray(gradient)
    lambda_bar = own.g**2 * own.d2_by_variance_less_square * -site_bar - solution.alpha * m_bar
    lambda_bar = lambda_bar + _through_lambda(own, posterior, f_bar, alpha_bar)
    return np.asarray(gradient + pull_back(problem.dense_gram, own.variance, lambda_bar))


class _Own(NamedTuple):
    """The method's own cavities, and what depends on them case by case, ``(n,)`` each."""

    variance: Array
    g: Array
    d3: Array
    d2_by_variance_less_square: Array  # the derivative of d2 in lambda, less d2^2
    e: Array


class _Posterior(NamedTuple):
    """Matrices ``(n, n)`` of the Gaussian posterior, and gamma ``(n,)``."""

    correction: Array  # R
    projection: Array  # P = I - K R
    covariance: Array  # Sigma = P K
    reaction: Array  # gamma_i^2 Sigma_ij^2, zero on the diagonal
    gamma: Array


def _own_cavity(problem: Problem, solution: Solution) -> _Own:
    if solution.cavity is None:  # Laplace: the likelihood itself
        mean, variance = problem.matrix @ solution.alpha, np.zeros(problem.n)
    else:
        mean, variance = solution.cavity

    derivs = problem.likelihood.log_partition(problem.t, mean, variance)
    _, d1, d2 = derivs
    d3, d4 = higher_derivatives(problem.likelihood, problem.t, mean, variance, derivs)
    g = 1.0 / (1.0 + variance * d2)
    return _Own(variance, g, d3, 0.5 * d4 + d1 * d3, 0.5 * d3 * g)


def _posterior(problem: Problem, solution: Solution, variance: Array) -> _Posterior:
    gram, sites = problem.dense_gram, site_form(solution)
    precision, correction = sites.site_precision, sites.dense()
    gamma = 1.0 + precision * variance
    projection = np.eye(problem.n) - gram @ correction
    # K R = I - Omega R: where a site says much, the difference from I would cancel
    strong = np.abs(precision) * np.diag(gram) > 1.0
    projection[strong] = correction[strong] / precision[strong, None]
    covariance = projection @ gram
    covariance[:, strong] = -projection[:, strong] / precision[strong]
    np.fill_diagonal(covariance, variance / gamma)
    reaction = (gamma[:, None] * covariance) ** 2
    np.fill_diagonal(reaction, 0.0)
    return _Posterior(correction, projection, covariance, reaction, gamma)


def _through_lambda(own: _Own, posterior: _Posterior, f_bar: Array, alpha_bar: Array) -> Array:
    """Return what f and alpha say of lambda ``(n,)``: the transposes of Sigma e and of P' e."""
    return np.asarray(own.e * (posterior.covariance @ f_bar + posterior.projection @ alpha_bar))


def _site_response(own: _Own, posterior: _Posterior, alpha: Array) -> Array:
    """Return the matrix ``(n, n)`` that takes what is said of W into what that says of lambda."""
    through = own.e[:, None] * (posterior.projection * own.variance - posterior.covariance)
    response = through * (own.g**2 * own.d3)
    response.ravel()[:: alpha.size + 1] += own.g**2 * (own.d3 * alpha - own.d2_by_variance_less_square)
    return np.asarray(response)


def pull_back_nothing(gram: Array, variance: Array, bar: Array) -> Array:
    """Pull back lambda_i = 0 (Laplace, and regression, of which it is true too)."""
    return np.zeros_like(gram)
