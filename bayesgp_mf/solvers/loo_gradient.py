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

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import LeaveOneOut, Solution
from bayesgp_mf.likelihoods.cumulants import higher_derivatives
from bayesgp_mf.solvers.response import site_form
from bayesgp_mf.types import Array

PullBack: TypeAlias = Callable[[Array, Array, Array], Array]
"""From K, cavity variances that follow from it alone, and what is said of them, to what that says of K ``(n, n)``."""


def loo_gradient(
    problem: Problem,
    solution: Solution,
    others: LeaveOneOut,
    names: Sequence[str] = (),
    pull_back: PullBack | None = None,
) -> tuple[Array, dict[str, float]]:
    """Return the derivatives of the sum of leave-one-out log densities.

    Parameters
    ----------
    problem : Problem
        What was solved.
    solution : Solution
        Its solution.
    others : LeaveOneOut
        The leave-one-out predictions.
    names : sequence of str
        Of parameters of the likelihood.
    pull_back : callable, optional
        How the cavity variances of a method depend on the Gram matrix, backwards; those of TAP react to all else.

    Returns
    -------
    gram : (n, n) array
        The derivative in the Gram matrix, symmetric; contract it with dK/dtheta over both indices.
    likelihood : dict of str to float
        That in each of the parameters.

    Notes
    -----
    O(n^3), about as much as ten steps of the solver.
    """
    fixed_point = FixedPoint(problem, solution, others.variance)
    at = problem.t, others.mean, others.variance
    log_z = problem.likelihood.log_partition(*at)
    # what L says of the predictions
    bars = CavityBars(log_z.d1, 0.5 * (log_z.d2 + log_z.d1**2))
    back = fixed_point.pull_back(bars, of_variance=pull_back)
    explicit = {name: problem.likelihood.parameter_derivative(name, *at).value for name in names}
    return back.gram, {
        name: float(np.sum(value)) + fixed_point.moved_by(name, back) for name, value in explicit.items()
    }


class CavityBars(NamedTuple):
    """What a number says of the means and variances of cavities, ``(n,)`` each: its derivatives at fixed K."""

    mean: Array
    variance: Array


class Pulled(NamedTuple):
    """What a number says of K ``(n, n)``, symmetric, and of the equations of alpha and W, ``(n,)`` each.

    By ``alpha`` it changes with a term added to d_1 g, and by ``site`` with one added to W.
    """

    gram: Array
    alpha: Array
    site: Array


class FixedPoint:
    """The fixed point of a method, which moves with K: what a number says of its quantities, said of K.

    Parameters
    ----------
    problem : Problem
        What was solved.
    solution : Solution
        Its solution.
    variance : (n,) array
        nu, of the leave-one-out predictions; for TAP also the variance of its cavities.
    """

    def __init__(self, problem: Problem, solution: Solution, variance: Array) -> None:
        self._problem, self._alpha, self._variance = problem, solution.alpha, variance
        self._own = _own_cavity(problem, solution)
        self._posterior = _posterior(problem, solution, variance)

    @property
    def covariance(self) -> Array:
        """Sigma ``(n, n)``."""
        return self._posterior.covariance

    def moved_by(self, name: str, back: Pulled) -> float:
        r"""Return the derivative of a number in a parameter of the likelihood that moves the fixed point.

        It adds :math:`g\, \partial_\theta d_1` where :math:`e \odot d\lambda` stands above, and
        :math:`-g^2\, \partial_\theta d_2` to dW.
        """
        own = self._own
        _, d1, d2 = self._problem.likelihood.parameter_derivative(name, self._problem.t, own.mean, own.variance)
        return float(back.alpha @ (own.g * d1) - back.site @ (own.g**2 * d2))

    def pull_back(
        self, bars: CavityBars, covariance_bar: Array | None = None, of_variance: PullBack | None = None
    ) -> Pulled:
        """Return what a number of cavities, and of Sigma ``(n, n)``, says of K and of the equations.

        Those of TAP react to all else; of other methods ``of_variance`` says how their cavity variances follow from K.

        Raises
        ------
        NotPositiveDefiniteError
            If the linearised equations are singular.
        """
        own, posterior = self._own, self._posterior
        # mu = f - nu alpha
        f_bar, alpha_bar = bars.mean, -self._variance * bars.mean
        nu_bar = bars.variance - self._alpha * bars.mean
        direct = np.zeros(self._problem.n)
        if covariance_bar is not None:  # d Sigma = P dK P' - Sigma dW Sigma
            inner = posterior.covariance @ covariance_bar
            direct = -np.einsum("ij,ji->i", inner, posterior.covariance)
        if of_variance is None:
            # lambda is nu: what the sites say of lambda comes back to nu
            response = _site_response(own, posterior, self._alpha)
            lambda_bar = _through_lambda(own, posterior, f_bar, alpha_bar) + response @ direct
            try:
                closed = np.linalg.solve(np.eye(self._problem.n) + response @ posterior.reaction.T, nu_bar + lambda_bar)
            except np.linalg.LinAlgError as error:
                raise NotPositiveDefiniteError("the mean-field equations are singular here") from error
            nu_bar = np.asarray(closed, dtype=np.float64)
        site_bar = direct - posterior.reaction.T @ nu_bar
        gradient, f_bar, alpha_bar, m_bar = self._of_sites(f_bar, alpha_bar, nu_bar, site_bar)
        if of_variance is not None:
            lambda_bar = own.g**2 * own.d2_by_variance_less_square * -site_bar - self._alpha * m_bar
            lambda_bar = lambda_bar + _through_lambda(own, posterior, f_bar, alpha_bar)
            gradient = gradient + of_variance(self._problem.dense_gram, own.variance, lambda_bar)
        if covariance_bar is not None:
            gradient += posterior.projection.T @ covariance_bar @ posterior.projection
        return Pulled(gradient, posterior.covariance @ f_bar + posterior.projection @ alpha_bar, site_bar)

    def _of_sites(
        self, f_bar: Array, alpha_bar: Array, nu_bar: Array, site_bar: Array
    ) -> tuple[Array, Array, Array, Array]:
        """Return what follows for K once all is said of nu and W; with it, what is said of f, alpha and m."""
        own, posterior = self._own, self._posterior
        m_bar = -(own.g**2) * own.d3 * site_bar
        f_bar, alpha_bar = f_bar + m_bar, alpha_bar - own.variance * m_bar
        half = posterior.projection.T @ f_bar - posterior.correction @ alpha_bar
        outer = np.outer(half, self._alpha)
        weight = nu_bar * posterior.gamma**2
        gradient = 0.5 * (outer + outer.T) + (posterior.projection.T * weight) @ posterior.projection
        return np.asarray(gradient), f_bar, alpha_bar, m_bar


class _Own(NamedTuple):
    """The method's own cavities, and what depends on them case by case, ``(n,)`` each."""

    mean: Array
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
    return _Own(mean, variance, g, d3, 0.5 * d4 + d1 * d3, 0.5 * d3 * g)


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
