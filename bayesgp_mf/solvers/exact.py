r"""Exact inference up to some hundred cases: the oracle that the approximations are held against.

With a Gaussian likelihood everything is in closed form. With a probit, f plus its noise is a Gaussian
vector g ~ N(0, K + v I) seen only through its signs (2000, appendix A), and

.. math:: p(t) = \int \prod_i [\kappa + (1 - 2\kappa)\, \Theta(t_i g_i)]\; N(g | 0, K + v I)\, dg

without flips is the probability of an orthant. `orthant` integrates it by minimax tilting.

Given g the process is Gaussian, f(x) with mean k(x)' C^-1 g and covariance k(x,x') - k(x)' C^-1 k(x'), C = K + v I. So
the posterior is a mixture of Gaussians that differ in their weights C^-1 g alone; a prediction is an average over g of
what each of them predicts.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from bayesgp_mf import errors
from bayesgp_mf.arguments import check_integers
from bayesgp_mf.inference.problem import Problem, explain_infeasible
from bayesgp_mf.inference.solution import Control, Evidence, Info, LeaveOneOut, Solution
from bayesgp_mf.inference.solver import Cloud, GramGradient, LooGradient, Traits
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.base import LatentNoise
from bayesgp_mf.matrices.factors import cholesky, psd_root
from bayesgp_mf.matrices.matrix import DenseCorrection, InverseCorrection
from bayesgp_mf.solvers.accuracy import NO_FACTOR, require_accurate, rounding_decides
from bayesgp_mf.solvers.ascent import state_at
from bayesgp_mf.solvers.laplace import Laplace, gradient_at_mode
from bayesgp_mf.solvers.loo_gradient import loo_gradient, pull_back_nothing
from bayesgp_mf.solvers.orthant import Estimate, Orthant, tilted
from bayesgp_mf.solvers.sites import linear_response
from bayesgp_mf.types import Array

LARGEST_STANDARD_ERROR = 1e-3
"""In nats; an integral less certain than this is not called exact."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Exact posterior moments and evidence, by integration.

    Parameters
    ----------
    log2_points : int
        Logarithm to base 2 of the number of points in each scrambled set.
    scrambles, most_scrambles : int
        Independent sets, from whose spread the standard error is taken, though never less than one point may count: at
        first, and at most. As long as it exceeds 1e-3 nats, there are as many more.
    random_seed : int
        Seed of the scrambles; fixed, so that the same problem gives the same answer.
    """

    name: str = "exact"
    log2_points: int = 14
    scrambles: int = 12
    most_scrambles: int = 192
    random_seed: int = 0

    def __post_init__(self) -> None:
        check_integers(1, log2_points=self.log2_points, scrambles=self.scrambles, most_scrambles=self.most_scrambles)
        check_integers(0, random_seed=self.random_seed)

    @property
    def traits(self) -> Traits:
        """With labels its posterior is no Gaussian process, but known all the same."""
        return Traits(
            matrices=frozenset({"dense", "inducing"}),
            known_posterior=lambda problem: ExactPosterior(self, problem) if problem.likelihood.is_binary else None,
            loo_gradient=_loo_gradient,
            parameter_gradient=_parameter_gradient,
            check=_noise_of,
        )

    def solve(self, problem: Problem, control: Control = Control(), start: Solution | None = None) -> Solution:
        """Return the exact posterior mean, covariance and evidence of a problem.

        Parameters
        ----------
        problem : Problem
            With a Gaussian or probit likelihood; for probit up to some hundred cases, with flips some ten.
        control : Control
            Only ``throw`` is used.
        start : Solution, optional
            Not used: there is nothing to iterate.

        Returns
        -------
        Solution
            With the standard error of the log evidence in ``evidence.standard_error`` (0 in closed form).

        Raises
        ------
        ConvergenceError
            If ``control.throw`` and the standard error exceeds 1e-3 nats.
        InconsistentDataError
            If it does because the labels have probability zero.
        NotPositiveDefiniteError
            If K + v I is singular, as smooth kernels make it without noise.
        UndefinedQuantityError
            If the likelihood is neither Gaussian nor probit.
        """
        control.check_scheme(self.name)
        noise = _noise_of(problem.likelihood)
        if problem.likelihood.is_real:
            return self._regression(problem, noise.variance)
        return self._classification(problem, control)

    def gram_gradient(self, problem: Problem, solution: Solution) -> GramGradient:
        """Return (alpha alpha' - R)/2, the derivative of the log evidence with respect to the Gram matrix."""
        correction: Any = solution.correction
        return correction.gradient(0.5 * solution.alpha, solution.alpha)

    def leave_one_out(self, problem: Problem, solution: Solution) -> LeaveOneOut:
        """Return exact leave-one-out predictions: of a Gaussian likelihood in closed form, by linear response.

        Of labels by leaving each case out and integrating again. log p(t_i | other labels) is the log of an average of
        p(t_i | g of the others), over points that are weighted for the other labels: a ratio of two evidences, in which
        most of the error cancels. Fewer points will do.
        """
        if problem.likelihood.is_real:
            return linear_response(problem, solution)
        n, gram = problem.n, problem.dense_gram
        prior = np.diag(gram)
        mean, variance, log_density = np.zeros(n), prior.copy(), np.empty(n)
        expected = gram @ solution.alpha
        for i in range(n):
            here = slice(i, i + 1)
            if n == 1:
                log_density[i] = solution.evidence.value
            else:
                fewer = replace(self, log2_points=self.log2_points - 2)
                cloud = fewer.cloud(problem.without(i), np.delete(expected, i))
                means, rest = cloud.moments(np.delete(gram[:, here], i, axis=0), prior[here])
                mean[i] = cloud.share @ means[:, 0]
                variance[i] = rest[0] + cloud.share @ (means[:, 0] - mean[i]) ** 2
                density = np.exp(problem.likelihood.log_partition(problem.t[here], means, rest).value)
                log_density[i] = np.log(cloud.share @ density[:, 0])
        return LeaveOneOut(mean, variance, log_density)

    def integrate(self, orthant: Orthant) -> Estimate:
        """Return the log probability and the moments given the labels, with as many points as the error asks for."""
        return orthant.estimate(
            self.log2_points, self.scrambles, self.most_scrambles, LARGEST_STANDARD_ERROR, self.random_seed
        )

    def cloud(self, problem: Problem, expected: Array | None = None) -> Cloud:
        """Return the posterior of a probit problem as a mixture over weighted points.

        Posterior means ``expected (n,)``, if some are known, save time.
        """
        orthant = _orthant(problem, expected)
        z, share = orthant.weighted(self.log2_points, self.scrambles, self.random_seed)
        return Cloud(orthant.weights(z), share, InverseCorrection(cholesky(_covariance(problem))))

    def _regression(self, problem: Problem, noise: float | Array) -> Solution:
        """Return the posterior, which is the Gaussian at its mode, in one step."""
        noise = np.broadcast_to(noise, problem.t.shape)
        correction = problem.matrix.sites(1.0 / noise)
        try:
            alpha = correction.weights(problem.t / noise)
        except errors.NotPositiveDefiniteError as error:
            raise rounding_decides(self.name, NO_FACTOR) from error
        mode = Laplace(self.name)
        state = state_at(mode.hill(problem), alpha, correction)
        return require_accurate(mode.finish(problem, state, Info(errors.Status.CONVERGED, 1, 0.0)))

    def _classification(self, problem: Problem, control: Control) -> Solution:
        n = problem.n
        orthant = _orthant(problem)
        value, error, mean, second, scrambles = self.integrate(orthant)
        status = errors.Status.CONVERGED if error <= LARGEST_STANDARD_ERROR else errors.Status.MAX_ITERATIONS
        reason = None if status is errors.Status.CONVERGED else explain_infeasible(problem)
        if reason is not None:
            raise errors.InconsistentDataError(reason)
        if control.throw and status is not errors.Status.CONVERGED:
            raise errors.ConvergenceError(
                f"exact: the standard error of the log evidence is {error:.2g} nats with n = {n} cases, above "
                f"{LARGEST_STANDARD_ERROR:g}. Use method='tap', or Control(throw=False) to have it all the same.",
                status,
            )
        # the posterior moments of z give alpha and R as derivatives of log p(t)
        return Solution(
            method=self.name,
            alpha=orthant.weights(mean[:, None])[0],
            correction=DenseCorrection(orthant.quadratic_form(np.eye(n) - second + np.outer(mean, mean))),
            evidence=Evidence(value, "exact", standard_error=error),
            cavity=None,
            info=Info(status, scrambles, error),
        )


@dataclass(frozen=True, eq=False)
class ExactPosterior:
    """The posterior process of labels: a mixture of Gaussian processes.

    Attributes
    ----------
    solver : Exact
        How it is integrated.
    problem : Problem
        Of which it is the posterior.
    """

    solver: Exact
    problem: Problem

    @cached_property
    def cloud(self) -> Cloud:
        """The mixture over weighted points."""
        return self.solver.cloud(self.problem)

    def draw(self, draws: int, rng: np.random.Generator) -> tuple[Array, Array]:
        """Return exact independent draws of f at the training cases of a probit problem.

        Returns
        -------
        f : (draws, n) array
            In latent units.
        log_prior : (draws,) array
            Log prior density of each, with respect to the whitened latent values, in nats.

        Raises
        ------
        ConvergenceError
            If too few proposals are accepted.
        """
        problem, orthant = self.problem, _orthant(self.problem)
        g = orthant.values(orthant.draw(draws, rng))
        correction = InverseCorrection(cholesky(_covariance(problem)))
        if _noise_of(problem.likelihood).variance == 0.0:
            f, square, rank = g, correction.quadratic_diagonal(g.T), problem.n
        else:
            root = psd_root(problem.dense_gram)  # f = A u with A A' = K; given g, u has mean A' C^-1 g
            rank = root.shape[1]
            factor = cholesky(np.eye(rank) - correction.quadratic(root))
            u = correction.multiply(g.T).T @ root + rng.standard_normal((draws, rank)) @ factor.T
            f, square = u @ root.T, np.sum(u**2, axis=1)
        return f, -0.5 * square - 0.5 * rank * np.log(2.0 * np.pi)

    def draw_cloud(self, draws: int, rng: np.random.Generator) -> Cloud:
        """Return the process given each of some exact independent draws of g, each with the same share.

        Raises
        ------
        ConvergenceError
            If too few proposals are accepted.
        """
        orthant = _orthant(self.problem)
        weights = orthant.weights(orthant.draw(draws, rng))
        return Cloud(weights, np.full(draws, 1.0 / draws), InverseCorrection(cholesky(_covariance(self.problem))))


def _noise_of(likelihood: Likelihood) -> LatentNoise:
    noise = likelihood.latent_noise
    if noise is None:
        raise errors.UndefinedQuantityError(
            f"method 'exact' handles Gaussian and Probit likelihoods without offsets or weights, got "
            f"{likelihood.display_name}."
        )
    return noise


def _loo_gradient(problem: Problem, solution: Solution, others: LeaveOneOut) -> LooGradient | None:
    return loo_gradient(problem, solution, others, pull_back_nothing) if problem.likelihood.is_real else None


def _parameter_gradient(problem: Problem, solution: Solution, name: str) -> float | None:
    """Return the derivative of the log evidence of regression, of which Laplace's is exact; of labels there is none."""
    return gradient_at_mode(problem, solution, name) if problem.likelihood.is_real else None


def _covariance(problem: Problem) -> Array:
    """Return that of g, the latent values with their noise."""
    return problem.dense_gram + _noise_of(problem.likelihood).variance * np.eye(problem.n)


def _orthant(problem: Problem, expected: Array | None = None) -> Orthant:
    noise = _noise_of(problem.likelihood)
    if not problem.likelihood.is_binary:
        raise errors.UndefinedQuantityError(
            f"only a probit is seen through signs, got {problem.likelihood.display_name}. Use the solution's moments."
        )
    try:
        return tilted(_covariance(problem), problem.t, noise.flip, expected)
    except errors.NotPositiveDefiniteError as cause:
        raise errors.NotPositiveDefiniteError(
            "method 'exact' without noise needs an invertible Gram matrix, and this one is singular. Add "
            "kernels.White(...) or use Probit(noise_variance=...)."
        ) from cause


exact = Exact()
