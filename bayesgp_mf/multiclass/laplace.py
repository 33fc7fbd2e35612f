r"""Laplace's approximation for several classes: a Gaussian at the mode of the posterior under a softmax.

The mode maximises, over f = K alpha with a latent function for each class ([1]_, eq. 3.34),

.. math:: \Psi = \sum_i \log \pi_{i t_i} - \tfrac12 \sum_c \alpha_c^T K_c \alpha_c

so that :math:`\alpha = y - \pi` there, with y one in the column of the case's class (eq. 3.35). With
:math:`W_i = \mathrm{diag}(\pi_i) - \pi_i \pi_i^T` (eq. 3.38), Newton's step is that of the binary method
(`solvers.ascent`), :math:`\alpha \leftarrow \alpha + (I - R K)(y - \pi - \alpha)`, with the R of
`multiclass.correction` ([1]_, algorithm 3.3).

References
----------
.. [1] Rasmussen, C. E., & Williams, C. K. I. (2006). Gaussian Processes for Machine Learning. MIT Press. Section 3.5.
   http://gaussianprocess.org/gpml/
.. [2] Barber, D., & Williams, C. K. I. (1996). Gaussian processes for Bayesian classification via hybrid
   Monte Carlo. NIPS 9.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.special import log_softmax

from bayesgp_mf.errors import Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import ClassLeaveOneOut, Evidence, Info, Solution
from bayesgp_mf.inference.solver import GramGradient, Traits
from bayesgp_mf.likelihoods import Likelihood, Softmax
from bayesgp_mf.multiclass import class_gram
from bayesgp_mf.multiclass.correction import ClassCorrection
from bayesgp_mf.multiclass.site_form import StarForm
from bayesgp_mf.solvers.accuracy import assessed, in_deviations
from bayesgp_mf.solvers.ascent import NEGLIGIBLE, Hill, ModeState, log_det_change, psi, state_at
from bayesgp_mf.solvers.laplace import Laplace
from bayesgp_mf.types import Array, Derivs


@dataclass(frozen=True, slots=True)
class MulticlassLaplace(Laplace):
    """Laplace's approximation to the posterior and the evidence of several classes.

    The Gram matrix is ``(n, n)`` or ``(C, n, n)``, and targets are codes of classes. O(C n^3) operations for each step,
    and C + 2 matrices of n rows in memory.

    Parameters
    ----------
    name : str
        The name users call it by.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> problem = bgp.Problem(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([0.0, 2.0]), bgp.Softmax(("a", "b", "c")))
    >>> multiclass_laplace.solve(problem).alpha.round(4)
    array([[ 0.4461, -0.1756, -0.2705],
           [-0.2705, -0.1756,  0.4461]])
    """

    @property
    def traits(self) -> Traits:
        """It takes the softmax of several classes."""
        return Traits(matrices=class_gram.FORMS, targets=frozenset({"classes"}), check=_check_softmax)

    def finish(self, problem: Problem, state: ModeState, info: Info) -> Solution:
        r"""Return the solution at a state: weights, correction and the evidence.

        The log evidence (GPML, eq. 3.44; 1996, eq. 10) is

        .. math:: \sum_i \log \pi_{i t_i} - \tfrac12 \sum_c \alpha_c^T K_c \alpha_c - \tfrac12 \log \det(I + K W).
        """
        mode = state_at(self.hill(problem), state.alpha)
        correction = class_gram.class_gram(problem).correction(StarForm(-mode.derivs.d2))
        value = psi(mode) - 0.5 * correction.log_det
        info = replace(info, **problem.matrix.stated)
        solution = Solution(self.name, state.alpha, correction, Evidence(value, "laplace"), None, info)
        class_gram.require_known_determinant(solution)
        residual = mode.derivs.d1 - mode.alpha
        mean_error = self._mean_error(problem, correction, residual)
        if info.status is Status.CONVERGED:
            # where the softmax saturates W changes by its whole size long before a mean does by a standard deviation
            hill, left = self.hill(problem), class_gram.class_gram(problem).times(correction.weights(residual))
            then = hill.precision_at(hill.log_prob(mode.latent + left))
            moved = log_det_change(hill, hill.precision_at(mode.derivs), then)
            self._require_stationary(problem, solution, 0.5 * moved)
        gradient = partial(self.gram_gradient, problem)
        return assessed(solution, problem.matrix, mean_error, -mode.derivs.d2, gradient)

    def hill(self, problem: Problem) -> Hill:
        """Return the log posterior, to be climbed; ValueError if the likelihood is no softmax."""
        _check_softmax(problem.likelihood)
        return _Hill(problem)

    @staticmethod
    def _mean_error(problem: Problem, correction: ClassCorrection, residual: Array) -> float:
        """Return how far the means are off, in posterior standard deviations (`solvers.accuracy`)."""
        gram = class_gram.class_gram(problem)
        own = float(np.max(np.sqrt(gram.prior) * np.abs(residual)))  # at most: a posterior variance is no larger
        if own <= NEGLIGIBLE:
            return own
        sigma = correction.covariances()
        variance = np.diagonal(sigma, axis1=1, axis2=2)
        step = gram.times(correction.weights(residual))
        return max(in_deviations(moved, np.sqrt(variance)) for moved in (variance * residual, step))

    def gram_gradient(self, problem: Problem, solution: Solution) -> GramGradient:
        r"""Return the derivative of the log evidence with respect to the Gram matrix, or to that of each class.

        ``(n, n)``, summed over the classes, where they share a kernel, and ``(C, n, n)`` where they do not; symmetric.

        Notes
        -----
        As in the binary method, with :math:`s_i` the derivative of :math:`-\tfrac12 \log\det(I + K W)` in the latent
        values of case i at fixed K. Since :math:`\partial \pi_a / \partial f_c = W_{ac}`,

        .. math:: s_i = -\tfrac12 W_i\, [\mathrm{diag}(\Sigma_i) - 2 \Sigma_i \pi_i],

        with Sigma_i the posterior covariance of the case's classes. The mode changes by
        :math:`(I + K W)^{-1} dK\, \alpha` (1996, section 3, from its eq. 5), so that

        .. math::
            \frac{d \log p(t)}{dK_c} = \tfrac12 (\alpha_c \alpha_c^T - R_{cc})
            + \tfrac12 (u_c \alpha_c^T + \alpha_c u_c^T), \quad u = (I - R K)\, s.
        """
        correction, alpha, gram = class_gram.class_correction(solution), solution.alpha, class_gram.class_gram(problem)
        sigma = correction.covariances()
        pi = np.exp(log_softmax(gram.times(alpha), axis=1))
        inner = np.diagonal(sigma, axis1=1, axis2=2) - 2.0 * np.einsum("icd,id->ic", sigma, pi)
        site = np.asarray(class_gram.class_likelihood_of(problem).case_weights)[..., None] * pi
        u = correction.weights(-0.5 * site * (inner - np.sum(pi * inner, axis=1, keepdims=True)))  # of -W inner / 2
        return correction.gradient(0.5 * alpha + u, alpha)

    def leave_one_out(self, problem: Problem, solution: Solution) -> ClassLeaveOneOut:
        """Return the leave-one-out predictions by linear response."""
        return class_gram.class_linear_response(problem, solution)


def _check_softmax(likelihood: Likelihood) -> None:
    """Raise a ValueError if a likelihood is no softmax, whose sites all this is about."""
    if not isinstance(likelihood, Softmax):
        raise ValueError(
            f"method 'laplace' for several classes needs Softmax(), got {likelihood.display_name}. Use method='tap'."
        )


class _Hill(Hill):
    """That of a latent value for each class, whose sites w (diag(pi) - pi pi') are known by w pi."""

    __slots__ = ()

    @property
    def scale(self) -> Array:
        return np.sqrt(class_gram.class_gram(self.problem).prior)

    def times(self, weights: Array) -> Array:
        return class_gram.class_gram(self.problem).times(weights)

    def log_prob(self, latent: Array) -> Derivs:
        log_pi, own = log_softmax(latent, axis=1), (np.arange(latent.shape[0]), self.problem.t.astype(np.intp))
        pi = np.exp(log_pi)
        slope = -pi
        slope[own] = _others(pi)[own]
        weights = np.asarray(class_gram.class_likelihood_of(self.problem).case_weights)
        return Derivs(weights * log_pi[own], weights[..., None] * slope, weights[..., None] * -pi)

    def precision_at(self, derivs: Derivs) -> Array:
        site = -derivs.d2
        return np.asarray(site * (_others(site) / np.sum(site, axis=1, keepdims=True)))

    def direction(self, derivs: Derivs, residual: Array, share: float) -> tuple[Array, None]:
        # its factors are too large to be kept beside those of the next step
        sites = StarForm(-share * derivs.d2)
        return class_gram.class_gram(self.problem).correction(sites).weights(share * residual), None


def _others(pi: Array) -> Array:
    """Return 1 - pi ``(n, C)`` as a sum of the others, which keeps its digits where pi is nearly one."""
    return np.asarray(pi @ (1.0 - np.eye(pi.shape[1])))


multiclass_laplace = MulticlassLaplace()
"""Laplace's approximation for several classes, as a registered method."""
