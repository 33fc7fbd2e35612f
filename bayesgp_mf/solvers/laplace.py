r"""Laplace's approximation: a Gaussian at the mode of the posterior (Barber & Williams).

The mode maximises, over f = K alpha,

.. math:: \Psi = \sum_i \log p(t_i|f_i) - \tfrac12 \alpha^T K \alpha
          \qquad \text{([1]_, eq. 3 without its constants)}

so that alpha = grad log p(t|f) there ([1]_, eq. 5). With W = -d^2 log p / df^2, Newton's step ([1]_, eq. 7) is

.. math:: f \leftarrow (K^{-1} + W)^{-1} b, \quad b = W f + \nabla \log p(t|f)

or, without the inverse of a matrix that may have none ([2]_, algorithm 3.1),

.. math:: \alpha \leftarrow b - R K b, \quad R = (K + W^{-1})^{-1},

whose climb, with a line search along the step, is that of `solvers.ascent`.

References
----------
.. [1] Barber, D., & Williams, C. K. I. (1996). Gaussian processes for Bayesian classification via hybrid
   Monte Carlo. NIPS 9.
.. [2] Rasmussen, C. E., & Williams, C. K. I. (2006). Gaussian Processes for Machine Learning. MIT Press.
   Algorithms 3.1 and 5.1. http://gaussianprocess.org/gpml/
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError, Status, UndefinedQuantityError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control, Evidence, Info, LeaveOneOut, Solution
from bayesgp_mf.inference.solver import GramGradient, Traits
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.cumulants import higher_derivatives
from bayesgp_mf.matrices.matrix import Sites
from bayesgp_mf.solvers import accuracy, ascent
from bayesgp_mf.solvers.driver import require_solved
from bayesgp_mf.solvers.loo_gradient import loo_gradient, pull_back_nothing
from bayesgp_mf.solvers.sites import linear_response
from bayesgp_mf.types import Array

ROUNDS = 3
EVIDENCE_ERROR = 3e-7
"""In nats, what steps to the mode that rounding does not let be taken may leave of an error, or ..."""
ROUNDINGS = 2.0
"""... so many times what the rounding of K does to it; ..."""
SAME_SITES = 1e-14
"""... and sites that the last step moved by so little, in the log determinant and for each case, are those of its own
factor."""


@dataclass(frozen=True, slots=True)
class Laplace:
    """Laplace's approximation to the posterior and the evidence.

    Its sites are W = -d^2 log p(t|f)/df^2 at the mode; it has no cavities. For any likelihood with a second
    derivative. The step likelihood, `Step`, has none: the mode of its posterior lies at an edge, not at a summit. With
    Gaussian noise, where nothing is approximated, its evidence is of the kind "exact".

    Parameters
    ----------
    name : str
        The name users call it by.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.likelihoods import Logit
    >>> problem = bgp.Problem(np.array([[2.0, 1.0], [1.0, 2.0]]), np.array([1.0, -1.0]), Logit())
    >>> laplace.solve(problem).alpha.round(4)
    array([ 0.4011, -0.4011])
    """

    name: str = "laplace"

    @property
    def traits(self) -> Traits:
        """It works on a root of low rank too; a prior mean moves its mode."""
        return Traits(
            matrices=frozenset({"dense", "low_rank", "inducing", "precision"}),
            mean_gradient=lambda problem, solution: solution.alpha + response_to_mean(problem, solution),
            loo_gradient=partial(loo_gradient, pull_back=pull_back_nothing),
            parameter_gradient=gradient_at_mode,
            check=_check_curvature,
        )

    def init(self, problem: Problem) -> ascent.ModeState:
        """Return the mode before any data: zero.

        Raises
        ------
        UndefinedQuantityError
            If the likelihood has no curvature, so that there is no Laplace approximation, or no derivative at zero.
        """
        state = ascent.state_at(self.hill(problem), np.zeros(problem.latent_shape))
        if not np.all(np.isfinite(state.derivs.d1)):
            raise UndefinedQuantityError(
                f"method 'laplace' starts at f = 0, where {problem.likelihood.display_name} has no derivative: the "
                "probability of a target is zero there, or beside it. Use method='tap', or a density that is positive."
            )
        return state

    def hill(self, problem: Problem) -> ascent.Hill:
        """Return the log posterior, to be climbed; UndefinedQuantityError if the likelihood has no curvature."""
        _check_curvature(problem.likelihood)
        return ascent.Hill(problem)

    def step(self, problem: Problem, state: ascent.ModeState) -> ascent.ModeState:
        """Return the state after one Newton step, shortened until Psi rises; the same state if it cannot."""
        return ascent.newton(self.hill(problem), state) or state

    def finish(self, problem: Problem, state: ascent.ModeState, info: Info) -> Solution:
        r"""Return the solution at a state: weights, correction and the evidence.

        The log evidence (Barber & Williams, eq. 10) is

        .. math:: \sum_i \log p(t_i|f_i) - \tfrac12 \alpha^T K \alpha - \tfrac12 \log \det(I + K W).

        Raises
        ------
        NotPositiveDefiniteError
            If K^-1 + W is not positive definite: the state is no summit of the posterior.
        """
        hill, same = ascent.Hill(problem), SAME_SITES * problem.n
        mode = ascent.state_at(hill, state.alpha, state.correction)
        if mode.correction is None:
            mode = mode._replace(correction=problem.matrix.sites(hill.precision_at(mode.derivs)))
        for _ in range(ROUNDS):  # more than one where better weights have other sites
            precision_at = hill.precision_at(mode.derivs)
            if ascent.log_det_change(hill, mode.correction.site_precision, precision_at) > same:
                mode = mode._replace(correction=problem.matrix.sites(precision_at))
            log_det = self._log_det(problem, mode.correction)
            mode, mean_error, left = ascent.refined_mode(problem, hill, mode, info)
            moved = ascent.log_det_change(hill, mode.correction.site_precision, hill.precision_at(mode.derivs))
            if moved <= same:
                break
        value = ascent.psi(mode) - 0.5 * log_det
        info = replace(info, **problem.matrix.stated)
        # a posterior that is Gaussian is the Gaussian at its mode
        is_exact = problem.likelihood.known_sites(problem.t, 0.0) is not None
        evidence = Evidence(value, "exact" if is_exact else "laplace")
        solution = Solution(self.name, mode.alpha, mode.correction, evidence, None, info)
        if info.status is Status.CONVERGED and (np.any(left) or moved > same):
            self._require_stationary(problem, solution, _left_of_evidence(hill, mode, left, moved))
        precision = mode.correction.site_precision  # R has no larger trace
        return accuracy.assessed(
            solution,
            problem.matrix,
            mean_error,
            precision,
            partial(self.gram_gradient, problem),
            lambda: accuracy.log_evidence(problem, mode.alpha, precision, np.zeros(problem.n)),
        )

    def _require_stationary(self, problem: Problem, solution: Solution, error: float) -> None:
        """Raise if a log evidence has an error in nats that is felt, unless rounding of K does as much to it."""
        if error <= EVIDENCE_ERROR * accuracy.coarseness(solution.info.residual):
            return
        if not error <= ROUNDINGS * problem.matrix.rounding(self.gram_gradient(problem, solution)):
            raise accuracy.rounding_decides(
                self.name, f"with the digits of the mode it moves the log evidence by {error:.1g} nats"
            )

    def _log_det(self, problem: Problem, correction: Sites) -> float:
        try:
            return correction.log_det
        except NotPositiveDefiniteError as error:
            upwards = int(np.sum(correction.site_precision < 0))
            if upwards == 0:
                raise accuracy.rounding_decides(self.name, accuracy.NO_FACTOR) from error
            raise NotPositiveDefiniteError(
                f"laplace: the posterior precision K^-1 + W is not positive definite where the iteration ended, since "
                f"{problem.likelihood.display_name} is not log-concave there ({upwards} of {problem.n} cases curve "
                "upwards). It is no maximum, and no Gaussian fits. Use method='tap', or a log-concave likelihood."
            ) from error

    def solve(self, problem: Problem, control: Control = Control(), start: Solution | None = None) -> Solution:
        """Find the mode of the posterior and the Gaussian at it.

        Parameters
        ----------
        problem : Problem
            Gram matrix ``(n, n)``, targets ``(n,)``, likelihood with a second derivative in f.
        control : Control
            Tolerance, largest number of Newton steps, and whether to raise if they were not enough.
        start : Solution, optional
            Warm start with the same n, from any method; the default starts from f = 0.

        Returns
        -------
        Solution
            With ``info.status`` saying whether the mode was reached, and ``cavity`` None.

        Raises
        ------
        ConvergenceError
            If ``control.throw`` and the mode was not reached.
        UndefinedQuantityError
            If the likelihood has no curvature (the step likelihood).
        NotPositiveDefiniteError
            If the likelihood is not log-concave and where the iteration ended is no maximum.
        ValueError
            If ``start`` has another number of cases.

        Notes
        -----
        O(n^3) for each step: one Cholesky factor and one triangular inverse. Differences from the paper, which starts
        from probabilities of one half (f = 0 too), takes full steps and stops where W changes by less than 1e-4 in
        the mean: a line search, and a stop where alpha, in units of the prior's standard deviations, changes by less
        than the tolerance. Newton's steps square the error, so that they are not mixed as fixed-point steps are. The
        mode of a likelihood that is not log-concave may be one of several.
        """
        control.check_scheme(self.name)
        zero = self.init(problem)
        if start is not None:
            start.check_start(*zero.alpha.shape)
        state, info = ascent.find_mode(self.hill(problem), zero, control, None if start is None else start.alpha)
        require_solved(self.name, problem, info, control)
        return accuracy.require_accurate(self.finish(problem, state, info))

    def gram_gradient(self, problem: Problem, solution: Solution) -> GramGradient:
        r"""Return the derivative ``(n, n)`` of the log evidence with respect to the Gram matrix.

        Symmetric; contract it with dK/dtheta over both indices for a hyperparameter theta.

        Notes
        -----
        At a fixed mode the derivative is (alpha alpha' - R)/2, by which Psi, stationary at the mode, is done with.
        W moves with the mode. The log determinant changes with f_i by :math:`-\Sigma_{ii} l'''_i`, where
        Sigma = K - K R K and l''' is the third derivative of log p(t_i|f_i), and the mode changes by
        :math:`(I + K W)^{-1} dK \alpha = (I - K R)\, dK \alpha` (the paper, section 3, from its eq. 5). So

        .. math::
            \frac{d \log p(t)}{dK} = \tfrac12 (\alpha \alpha^T - R) + \tfrac12 (u \alpha^T + \alpha u^T),
            \quad u = (I - R K)\, s, \quad s_i = \tfrac12 \Sigma_{ii} l'''_i.

        l''' has a closed form, or is a central difference of the likelihood's own second derivative
        (`likelihoods.cumulants`).
        """
        return solution.sites.gradient(0.5 * solution.alpha + response_to_mean(problem, solution), solution.alpha)

    def leave_one_out(self, problem: Problem, solution: Solution) -> LeaveOneOut:
        """Return the leave-one-out predictions by linear response, with omega = 1/W at the mode.

        They are exact for a Gaussian likelihood.

        Raises
        ------
        UndefinedQuantityError
            If the likelihood is not log-concave and without some case the Gaussian would have no maximum.
        """
        return linear_response(problem, solution)


def _check_curvature(likelihood: Likelihood) -> None:
    if likelihood.is_flat:
        raise UndefinedQuantityError(
            "method 'laplace' needs a likelihood with a second derivative, and the step likelihood is flat on "
            "either side of its jump: its posterior has no summit to fit a Gaussian to. Use method='tap', or "
            "noise: Probit(noise_variance=1.0) or Logit()."
        )


def _left_of_evidence(hill: ascent.Hill, mode: ascent.ModeState, left: Array, moved: float) -> float:
    """Return by how much, in nats, what Newton's step would still change the latent values by is felt in the evidence.

    It is not stationary at the mode, but moves with W, whose log determinant changes with the posterior variances.
    ``left (n,)`` is that change, and ``moved`` by how much the last change of W moved the log determinant.
    """
    precision_at, then = hill.precision_at(mode.derivs), hill.precision_at(hill.log_prob(mode.latent + left))
    strongest = np.maximum(np.abs(precision_at), np.abs(then))
    with np.errstate(divide="ignore", over="ignore"):
        variance = np.minimum(mode.correction.covariance_diagonal(), 1.0 / strongest)
    return 0.5 * (moved + float(np.sum(variance * np.abs(then - precision_at))))


def response_to_mean(problem: Problem, solution: Solution) -> Array:
    """Return u ``(n,)`` of `Laplace.gram_gradient`: what a shift of the prior mean adds by way of the mode."""
    correction, f = solution.sites, problem.matrix @ solution.alpha
    variance = correction.covariance_diagonal()
    known = np.zeros(problem.n)  # log p(t|f) is log Z at variance zero
    derivs = problem.likelihood.log_prob(problem.t, f)
    d3, _ = higher_derivatives(problem.likelihood, problem.t, f, known, derivs)
    return correction.weights(0.5 * variance * d3)


def gradient_at_mode(problem: Problem, solution: Solution, name: str) -> float:
    r"""Return the derivative of Laplace's log evidence in a parameter theta of the likelihood; exact for regression.

    Psi, stationary at the mode, and the log determinant change with theta by themselves; the mode moves by
    :math:`\Sigma\, \partial_\theta \nabla \log p`, which only the log determinant feels. With u of
    `response_to_mean`, :math:`\Sigma s = K u`,

    .. math::
        \frac{d \log p(t)}{d\theta} = \sum_i \partial_\theta \log p(t_i|f_i)
        + \tfrac12 \sum_i \Sigma_{ii}\, \partial_\theta l''_i + (K u)^T \partial_\theta l' .
    """
    f, variance = problem.matrix @ solution.alpha, solution.sites.covariance_diagonal()
    value, d1, d2 = problem.likelihood.parameter_derivative(name, problem.t, f, np.zeros(problem.n))
    moved = problem.matrix @ response_to_mean(problem, solution)
    return float(np.sum(value) + 0.5 * (variance @ d2) + moved @ d1)


laplace = Laplace()
"""Laplace's approximation, as a registered method."""
