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

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import LeaveOneOut, Solution
from bayesgp_mf.inference.solver import LooGradient
from bayesgp_mf.likelihoods.cumulants import higher_derivatives
from bayesgp_mf.types import Array

PullBack: TypeAlias = Callable[[Array], Array]
"""From what is said of cavity variances that follow from K alone to what that says of K ``(n, n)``."""


def loo_gradient(
    problem: Problem, solution: Solution, others: LeaveOneOut, pull_back: PullBack | None = None
) -> LooGradient | None:
    """Return how to compute the derivatives of the sum of leave-one-out log densities; no formula is for a root.

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
    callable or None
        From names of parameters of the likelihood to the derivative ``(n, n)`` in the Gram matrix, symmetric, to be
        contracted with dK/dtheta over both indices, and those in each of the parameters, by name.

    Notes
    -----
    O(n^3), about as much as ten steps of the solver.
    """
    if not problem.matrix.is_whole:
        return None

    def derivatives(names: Sequence[str]) -> tuple[Array, Mapping[str, float]]:
        fixed_point = FixedPoint(problem, solution, others.variance)
        at = problem.t, others.mean, others.variance
        log_z = problem.likelihood.log_partition(*at)
        # what L says of the predictions
        back = fixed_point.pull_back(log_z.d1, 0.5 * (log_z.d2 + log_z.d1**2), of_variance=pull_back)
        explicit = {name: problem.likelihood.parameter_derivative(name, *at).value for name in names}
        return back.gram, {
            name: float(np.sum(value)) + fixed_point.moved_by(name, back) for name, value in explicit.items()
        }

    return derivatives


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

    Attributes
    ----------
    covariance : (n, n) array
        Sigma.
    """

    def __init__(self, problem: Problem, solution: Solution, variance: Array) -> None:
        self._problem, self._alpha, self._variance = problem, solution.alpha, variance
        if solution.cavity is None:  # Laplace: the likelihood itself
            self._own = problem.matrix @ solution.alpha, np.zeros(problem.n)
        else:
            self._own = solution.cavity
        derivs = problem.likelihood.log_partition(problem.t, *self._own)
        d3, d4 = higher_derivatives(problem.likelihood, problem.t, *self._own, derivs)
        self._d3, self._g = d3, 1.0 / (1.0 + self._own[1] * derivs.d2)
        self._e = 0.5 * d3 * self._g
        self._d2_by_variance = 0.5 * d4 + derivs.d1 * d3  # less d2^2
        gram, sites = problem.dense_gram, solution.sites
        precision, self._correction = sites.site_precision, sites.dense()  # R
        self._gamma = 1.0 + precision * variance
        self._projection = np.eye(problem.n) - gram @ self._correction  # P = I - K R
        # K R = I - Omega R: where a site says much, the difference from I would cancel
        strong = np.abs(precision) * np.diag(gram) > 1.0
        self._projection[strong] = self._correction[strong] / precision[strong, None]
        self.covariance = self._projection @ gram
        self.covariance[:, strong] = -self._projection[:, strong] / precision[strong]
        np.fill_diagonal(self.covariance, variance / self._gamma)
        self._reaction = (self._gamma[:, None] * self.covariance) ** 2  # gamma_i^2 Sigma_ij^2, i not j
        np.fill_diagonal(self._reaction, 0.0)

    def moved_by(self, name: str, back: Pulled) -> float:
        r"""Return the derivative of a number in a parameter of the likelihood that moves the fixed point.

        It adds :math:`g\, \partial_\theta d_1` where :math:`e \odot d\lambda` stands above, and
        :math:`-g^2\, \partial_\theta d_2` to dW.
        """
        _, d1, d2 = self._problem.likelihood.parameter_derivative(name, self._problem.t, *self._own)
        return float(back.alpha @ (self._g * d1) - back.site @ (self._g**2 * d2))

    def pull_back(
        self,
        mean_bar: Array,
        variance_bar: Array,
        covariance_bar: Array | None = None,
        of_variance: PullBack | None = None,
    ) -> Pulled:
        """Return what a number of cavities, and of Sigma ``(n, n)``, says of K and of the equations.

        The bars are its derivatives at fixed K in means and variances ``(n,)`` of cavities, and in Sigma. Those of TAP
        react to all else; of other methods ``of_variance`` says how their cavity variances follow from K.

        Raises
        ------
        NotPositiveDefiniteError
            If the linearised equations are singular.
        """
        # mu = f - nu alpha
        f_bar, alpha_bar = mean_bar, -self._variance * mean_bar
        nu_bar = variance_bar - self._alpha * mean_bar
        direct = np.zeros(self._problem.n)
        if covariance_bar is not None:  # d Sigma = P dK P' - Sigma dW Sigma
            direct = -np.einsum("ij,ji->i", self.covariance @ covariance_bar, self.covariance)
        if of_variance is None:
            # lambda is nu: what the sites say of lambda comes back to nu
            response = self._site_response()
            lambda_bar = self._e * self._through_alpha(f_bar, alpha_bar) + response @ direct
            try:
                closed = np.linalg.solve(np.eye(self._problem.n) + response @ self._reaction.T, nu_bar + lambda_bar)
            except np.linalg.LinAlgError as error:
                raise NotPositiveDefiniteError("the mean-field equations are singular here") from error
            nu_bar = np.asarray(closed, dtype=np.float64)
        site_bar = direct - self._reaction.T @ nu_bar
        m_bar = -(self._g**2) * self._d3 * site_bar
        f_bar, alpha_bar = f_bar + m_bar, alpha_bar - self._own[1] * m_bar
        through_alpha = self._through_alpha(f_bar, alpha_bar)
        outer = np.outer(self._projection.T @ f_bar - self._correction @ alpha_bar, self._alpha)
        weight = nu_bar * self._gamma**2
        gradient = np.asarray(0.5 * (outer + outer.T) + (self._projection.T * weight) @ self._projection)
        if of_variance is not None:
            lambda_bar = self._g**2 * self._d2_by_variance * -site_bar - self._alpha * m_bar
            gradient = gradient + of_variance(lambda_bar + self._e * through_alpha)
        if covariance_bar is not None:
            gradient += self._projection.T @ covariance_bar @ self._projection
        return Pulled(gradient, through_alpha, site_bar)

    def _through_alpha(self, f_bar: Array, alpha_bar: Array) -> Array:
        """Return what f and alpha say ``(n,)`` of a term added to d_1 g: the transposes of Sigma and of P'."""
        return np.asarray(self.covariance @ f_bar + self._projection @ alpha_bar)

    def _site_response(self) -> Array:
        """Return the matrix ``(n, n)`` that takes what is said of W into what that says of lambda."""
        through = self._e[:, None] * (self._projection * self._own[1] - self.covariance)
        response = through * (self._g**2 * self._d3)
        response.ravel()[:: self._alpha.size + 1] += self._g**2 * (self._d3 * self._alpha - self._d2_by_variance)
        return np.asarray(response)


def pull_back_nothing(bar: Array) -> Array:
    """Pull back lambda_i = 0 (Laplace, and regression, of which it is true too)."""
    return np.zeros((bar.size, bar.size))
