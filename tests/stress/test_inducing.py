"""Inducing cases under awkward columns and length scales: solved, which one more step confirms, or refused in words."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.inference.assembly import assemble_inducing
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS

SEED = 20261122
N, LEAST, MOST = 400, 10, 100
OURS = (bgp.ConvergenceError, bgp.NotPositiveDefiniteError)
MODELS = (
    (bgp.Probit(), "tap"),
    (bgp.Logit(), "tap"),
    (bgp.Probit(0.3), "tap"),
    (bgp.Probit(1.0, 0.05), "tap"),
    (Gaussian(0.1), "tap"),
    (bgp.Probit(), "naive"),
    (bgp.Logit(), "laplace"),
)


def columns(rng):
    """Return a table ``(N, d)`` of integers, heavy tails, constants, rare ones, and columns and cases that repeat."""
    drawn = []
    for kind in rng.choice(["normal", "integers", "heavy", "constant", "again", "rare"], rng.integers(1, 9)):
        drawn.append(
            {
                "normal": lambda: rng.standard_normal(N),
                "integers": lambda: rng.integers(0, rng.integers(2, 30), N).astype(float),
                "heavy": lambda: rng.standard_t(1.2, N),
                "constant": lambda: np.full(N, rng.normal()),
                "again": lambda: drawn[-1] if drawn else rng.standard_normal(N),
                "rare": lambda: (rng.random(N) < 0.1).astype(float),
            }[str(kind)]()
        )
    X = np.column_stack(drawn)
    if rng.random() < 0.3:
        X[N // 2 :] = X[: N // 2]
    return X


def draw(number):
    """Return problem ``number``, the same each time: a Gram matrix on inducing cases, targets, and a method."""
    rng = np.random.default_rng((SEED, number))
    X = columns(rng)
    kind = [kernels.Gaussian, kernels.Matern32, kernels.Matern52, kernels.RationalQuadratic][rng.integers(4)]
    kernel = kind(10.0 ** rng.uniform(-2, 3, X.shape[1])) * kernels.Bias(10.0 ** rng.uniform(-1, 2))
    for other in (kernels.Bias(10.0 ** rng.uniform(-1, 2)), kernels.White(0.01), kernels.Linear(0.1)):
        if rng.random() < 0.3:
            kernel = kernel + other
    likelihood, method = MODELS[rng.integers(len(MODELS))]
    field = 2.0 * np.tanh(X / (1.0 + X.std(axis=0))) @ rng.standard_normal(X.shape[1])
    t = field - np.median(field) + rng.standard_normal(N)
    t = t if likelihood.targets == "real" else np.where(t > 0, 1.0, -1.0)
    chosen = bgp.Inducing(int(LEAST * (MOST / LEAST) ** rng.random())).chosen(X, t, kernel, rng)
    return assemble_inducing(kernel, X, t, likelihood, inducing=chosen), method


def left_by(problem, solution):
    """Return what one more step of the equations changes: of weights and means in their units, of cavities in parts."""
    matrix, alpha = problem.matrix, solution.alpha
    if solution.cavity is None:  # a mode
        return np.max(np.abs(problem.likelihood.log_prob(problem.t, matrix @ alpha).d1 - alpha))
    mean, variance = solution.cavity
    _, d1, d2 = problem.likelihood.log_partition(problem.t, mean, variance)
    precision = -d2 / (1.0 + variance * d2)
    sites = matrix.sites(precision)
    again, latent = sites.posterior(precision * mean + d1 / (1.0 + variance * d2))
    others = matrix.diagonal() if solution.method == "naive" else sites.cavity_variance()
    return max(
        np.max(np.abs(again - alpha) * np.sqrt(variance)),
        np.max(np.abs(latent - mean - variance * alpha) / np.sqrt(variance)),
        np.max(np.abs(others - variance) / variance),
    )


@pytest.mark.parametrize("number", range(20))
def test_awkward_tables_are_solved_or_refused(number):
    problem, method = draw(number)
    try:
        solution = METHODS[method].solve(problem)
    except OURS as error:
        assert f"{method}: " in str(error)
        return
    assert solution.info.status is bgp.Status.CONVERGED
    assert np.isfinite(solution.evidence.value)
    assert np.all(np.isfinite(solution.alpha))
    assert left_by(problem, solution) < 1e-6


def test_what_is_not_solved_would_be_seen_and_hardly_any_is_refused():
    refused = 0
    for number in range(20):
        problem, method = draw(number)
        early = METHODS[method].solve(problem, bgp.Control(max_iterations=2, throw=False))
        assert early.info.status is bgp.Status.CONVERGED or left_by(problem, early) > 1e-6
        refused += METHODS[method].solve(problem, bgp.Control(throw=False)).info.status is not bgp.Status.CONVERGED
    assert refused <= 1
