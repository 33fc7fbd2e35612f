r"""Exact inference for small problems: the oracle that the approximations are held against.

With a Gaussian likelihood everything is in closed form. With a probit, f plus its noise is a Gaussian
vector g ~ N(0, K + v I) seen only through its signs (2000, appendix A), and

.. math:: p(t) = \int \prod_i [\kappa + (1 - 2\kappa)\, \Theta(t_i g_i)]\; N(g | 0, K + v I)\, dg

is integrated one variable at a time along the Cholesky factor, each drawn from what its own label leaves of
its conditional distribution, so that only the product of the normalisers has to be averaged [1]_. The points
are a randomly shifted lattice; the spread over independent shifts is the standard error.

References
----------
.. [1] Genz, A. (1992). Numerical computation of multivariate normal probabilities. Journal of Computational
   and Graphical Statistics 1, 141-149. https://doi.org/10.1080/10618600.1992.10477010
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, logsumexp, ndtri_exp

from bayesgp_mf.errors import (
    ConvergenceError,
    InconsistentDataError,
    NotPositiveDefiniteError,
    Status,
    UndefinedQuantityError,
)
from bayesgp_mf.likelihoods import Gaussian, Probit
from bayesgp_mf.linalg import DenseCorrection, SiteCorrection, cholesky, triangular_inverse
from bayesgp_mf.problem import Problem, explain_infeasible
from bayesgp_mf.solution import Control, Evidence, Info, LeaveOneOut, Solution
from bayesgp_mf.types import Array

LARGEST_STANDARD_ERROR = 1e-3
"""In nats; an integral less certain than this is not called exact."""


@dataclass(frozen=True, slots=True)
class Exact:
    """Exact posterior moments and evidence, by integration.

    Parameters
    ----------
    points : int
        Lattice points for each random shift.
    shifts : int
        Independent random shifts, from whose spread the standard error is taken.
    random_seed : int
        Seed of the shifts; fixed, so that the same problem gives the same answer.
    """

    name: str = "exact"
    points: int = 16381
    shifts: int = 12
    random_seed: int = 0

    def solve(self, problem: Problem, control: Control = Control(), start: Solution | None = None) -> Solution:
        """Return the exact posterior mean, covariance and evidence of a problem.

        Parameters
        ----------
        problem : Problem
            With a Gaussian or probit likelihood; for probit up to some ten cases.
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
        UndefinedQuantityError
            If the likelihood is neither Gaussian nor probit.
        """
        control.check_scheme(self.name)
        match problem.likelihood:
            case Gaussian() as likelihood:
                return self._regression(problem, likelihood)
            case Probit() as likelihood:
                return self._orthant(problem, likelihood, control)
        raise UndefinedQuantityError(
            f"method 'exact' handles Gaussian and Probit likelihoods, got {type(problem.likelihood).__name__}."
        )

    def gram_gradient(self, problem: Problem, solution: Solution) -> Array:
        """Return the derivative ``(n, n)`` of the log evidence with respect to the Gram matrix."""
        return 0.5 * (np.outer(solution.alpha, solution.alpha) - solution.correction.dense())

    def leave_one_out(self, problem: Problem, solution: Solution) -> LeaveOneOut:
        """Return exact leave-one-out predictions, by leaving each case out and integrating again."""
        n = problem.n
        mean, variance, log_density = np.zeros(n), np.diag(problem.gram).copy(), np.empty(n)
        for i in range(n):
            if n == 1:
                log_density[i] = solution.evidence.value
                break
            without = self.solve(problem.without(i), Control(throw=solution.info.status is Status.CONVERGED))
            cross = np.delete(problem.gram[:, i], i)[:, None]
            mean[i] = cross[:, 0] @ without.alpha
            variance[i] -= without.correction.quadratic_diagonal(cross)[0]
            log_density[i] = solution.evidence.value - without.evidence.value
        return LeaveOneOut(mean, variance, log_density)

    def _regression(self, problem: Problem, likelihood: Gaussian) -> Solution:
        noise = likelihood.noise_variance
        correction = SiteCorrection(problem.gram, np.full(problem.n, 1.0 / noise))
        alpha = correction.multiply(problem.t)
        value = -0.5 * (problem.t @ alpha + correction.log_det + problem.n * np.log(2.0 * np.pi * noise))
        info = Info(Status.CONVERGED, 1, 0.0)
        return Solution(self.name, alpha, correction, Evidence(float(value), "exact"), None, info)

    def _orthant(self, problem: Problem, likelihood: Probit, control: Control) -> Solution:
        n = problem.n
        try:
            factor = cholesky(problem.gram + likelihood.noise_variance * np.eye(n))
        except NotPositiveDefiniteError as cause:
            raise NotPositiveDefiniteError(
                "method 'exact' without noise needs an invertible Gram matrix, and this one is singular. Add "
                "kernels.White(...) or use Probit(noise_variance=...)."
            ) from cause
        rng = np.random.default_rng(self.random_seed)
        parts = [self._one_shift(factor, problem.t, likelihood.flip, rng.random(n)) for _ in range(self.shifts)]
        log_mass = np.array([part[0] for part in parts])
        total = float(logsumexp(log_mass))
        share = np.exp(log_mass - total)
        # whitened g = L u: its posterior moments give alpha and R as derivatives of log p(t)
        mean = sum(s * part[1] for s, part in zip(share, parts, strict=True))
        second = sum(s * part[2] for s, part in zip(share, parts, strict=True))
        inverse = triangular_inverse(factor)
        alpha = inverse.T @ mean
        correction = inverse.T @ (np.eye(n) - second + np.outer(mean, mean)) @ inverse
        relative = np.exp(log_mass - log_mass.max())
        error = float(np.std(relative, ddof=1) / np.sqrt(self.shifts) / np.mean(relative))
        status = Status.CONVERGED if error <= LARGEST_STANDARD_ERROR else Status.MAX_ITERATIONS
        reason = None if status is Status.CONVERGED else explain_infeasible(problem)
        if reason is not None:
            raise InconsistentDataError(reason)
        if control.throw and status is not Status.CONVERGED:
            raise ConvergenceError(
                f"exact: the standard error of the log evidence is {error:.2g} nats with n = {n} cases, above "
                f"{LARGEST_STANDARD_ERROR:g}. Use method='tap', or Control(throw=False) to have it all the same.",
                status,
            )
        return Solution(
            method=self.name,
            alpha=alpha,
            correction=DenseCorrection(0.5 * (correction + correction.T)),
            evidence=Evidence(total - float(np.log(self.shifts)), "exact", standard_error=error),
            cavity=None,
            info=Info(status, self.shifts, error),
        )

    def _one_shift(self, factor: Array, t: Array, flip: float, shift: Array) -> tuple[float, Array, Array]:
        """Return log p(t) and the first two posterior moments of u, g = factor @ u, from one shifted lattice."""
        n = t.size
        directions = np.concatenate([[1.0 / self.points], np.sqrt(_primes(n - 1))])
        grid = np.arange(self.points)[:, None] * directions + shift
        # folded, which makes the integrand periodic; 0 and 1 themselves would be points at infinity
        uniform = np.clip(np.abs(2.0 * (grid % 1.0) - 1.0), np.finfo(np.float64).tiny, 1.0 - 2.0**-53)
        signed = np.empty((self.points, n))  # t_i u_i
        log_weight = np.zeros(self.points)
        for i in range(n):
            conditional_mean = (signed[:, :i] * t[:i]) @ factor[i, :i]
            threshold = -t[i] * conditional_mean / factor[i, i]  # the label holds for t_i u_i above this
            log_right = np.log1p(-flip) + log_ndtr(-threshold)
            # invert the distribution function piece by piece, in logs: a piece may be smaller than any number
            if flip == 0:
                log_weight += log_right
                signed[:, i] = -ndtri_exp(np.log(uniform[:, i]) + log_right)
            else:
                log_total = np.logaddexp(log_right, np.log(flip) + log_ndtr(threshold))
                log_weight += log_total
                level, rest = np.log(uniform[:, i]) + log_total, np.log1p(-uniform[:, i]) + log_total
                above = level <= log_right
                signed[above, i] = -ndtri_exp(level[above] - np.log1p(-flip))
                signed[~above, i] = ndtri_exp(rest[~above] - np.log(flip))
        log_mass = float(logsumexp(log_weight)) - float(np.log(self.points))
        weight = np.exp(log_weight - logsumexp(log_weight))
        u = signed * t
        return log_mass, weight @ u, (u * weight[:, None]).T @ u


def _primes(count: int) -> Array:
    """Return the first ``count`` primes, whose square roots are independent directions of a lattice."""
    found: list[int] = []
    candidate = 2
    while len(found) < count:
        if all(candidate % prime for prime in found if prime * prime <= candidate):
            found.append(candidate)
        candidate += 1
    return np.array(found, dtype=np.float64)


exact = Exact()
