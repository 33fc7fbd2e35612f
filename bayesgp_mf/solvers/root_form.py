"""The mean-field step in a form that small eigenvalues of the Gram matrix do not spoil: K = A A' and f = A w.

The step of `meanfield` takes differences of large numbers where K is nearly singular, or huge beside the noise: its
fixed point is then shaken by rounding before the tolerance is reached. Here there is no such difference; but a step
costs two to three times as much where K has full rank.
"""

from __future__ import annotations

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity
from bayesgp_mf.matrices.factors import cholesky, triangular_inverse
from bayesgp_mf.solvers.rules import Rule
from bayesgp_mf.solvers.sites import State, match
from bayesgp_mf.types import Array


def posterior_root(root: Array, sites: State) -> tuple[Array, Array]:
    """Return posterior means ``(n,)`` under some sites, and a root F ``(n, r)`` of the covariances, F F'.

    ``root`` is that of the prior, A. With f = A w, w has precision I + A' W A; small eigenvalues of K do not spoil it.
    """
    if not (sites.precision.any() or sites.shift.any()):
        return np.zeros(root.shape[0]), root.copy()
    precision = (root.T * sites.precision) @ root
    precision.ravel()[:: precision.shape[0] + 1] += 1.0
    if not np.all(np.isfinite(precision)):
        raise NotPositiveDefiniteError("the sites are too strong to be added up")
    posterior = root @ triangular_inverse(cholesky(precision)).T
    return posterior @ (posterior.T @ sites.shift), posterior


def step_in_root_form(rule: Rule, problem: Problem, root: Array, state: State, extra_noise: float = 0.0) -> State:
    """Return the next state, as `MeanField.step` does; ``root`` is that of the prior."""
    precision, shift = state.precision, state.shift
    latent, posterior = posterior_root(root, state)
    variance = rule.fixed_variance
    if variance is None:
        sigma = np.einsum("ij,ij->i", posterior, posterior)
        rest = 1.0 - precision * sigma
        if not np.all(rest > 0):
            raise NotPositiveDefiniteError("a cavity variance is not positive: the sites contradict each other")
        variance = sigma / rest
        mean = (latent - sigma * shift) / rest
    else:
        mean = latent - variance * (shift - precision * latent)
    derivs = problem.likelihood.log_partition(problem.t, mean, variance + extra_noise)
    return match(problem.likelihood, problem.t, Cavity(mean, variance), derivs, extra_noise)
