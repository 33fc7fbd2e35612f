"""A posterior with a prior mean: everything that it says is of the latent values, draws in blocks too."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods.by_case import by_case

MEAN, X_NEW, DRAWS = 5.0, np.array([[-0.5], [3.0]]), 4000


def process(method: str = "tap", mean: float = MEAN) -> bgp.Posterior:
    X = np.linspace(-2.0, 2.0, 12)[:, None]
    t, kernel = np.where(X[:, 0] > 0.3, 1.0, -1.0), bgp.kernels.Gaussian(1.0, 4.0)
    problem = bgp.Problem(kernel.gram(X), t, by_case(bgp.Probit(), prior_mean=np.full(12, mean)))
    solution = bgp.solve(problem.gram, t, problem.likelihood, method=method)
    return bgp.Posterior(kernel, X, problem, solution, mean=lambda inputs: np.full(inputs.shape[0], mean))


@pytest.mark.parametrize("method", ["tap", "naive", "laplace"])
def test_draws_at_once_and_in_blocks_have_the_mean_of_the_posterior(method):
    posterior = process(method)
    at_once = posterior.draw(DRAWS, np.random.default_rng(1)).f
    in_blocks = np.concatenate([d.f for d in posterior.draw_in_blocks(DRAWS, 700, np.random.default_rng(1))])
    mean, variance = posterior.at_training
    for f in (at_once, in_blocks):
        assert np.all(np.abs(f.mean(axis=0) - mean) < 5.0 * np.sqrt(variance / DRAWS))
        # the control: the deviations alone are far away
        assert np.all(np.abs(f.mean(axis=0) - (mean - MEAN)) > 50.0 * np.sqrt(variance / DRAWS))
    np.testing.assert_allclose(in_blocks, at_once, atol=1e-12)


def test_new_cases_have_it_too():
    posterior = process()
    mean, variance = posterior.latent(X_NEW)
    f = posterior.draw_new(X_NEW, DRAWS, np.random.default_rng(2))
    assert np.all(np.abs(f.mean(axis=0) - mean) < 5.0 * np.sqrt(variance / DRAWS))
    np.testing.assert_array_equal(posterior.latent_mean(X_NEW), mean)
    np.testing.assert_array_equal(posterior.predict_proba(X_NEW), bgp.Probit().predict_proba(mean, variance))
    far = posterior.latent(np.array([[50.0]]))[0]
    np.testing.assert_allclose(far, MEAN, atol=1e-9)


def test_at_training_cases_it_agrees_with_new_ones():
    posterior = process()
    for ours, new in zip(posterior.at_training, posterior.latent(posterior.X), strict=True):
        np.testing.assert_allclose(ours, new, atol=1e-9)
    np.testing.assert_allclose(posterior.loo.log_density, process(mean=MEAN).loo.log_density)


def test_a_mean_of_zero_is_none():
    X = process().X
    zero, t = process(mean=0.0), process().problem.t
    none = bgp.Posterior(zero.kernel, X, bgp.Problem(zero.problem.gram, t, bgp.Probit()), zero.solution)
    np.testing.assert_array_equal(zero.predict_proba(X_NEW), none.predict_proba(X_NEW))
    np.testing.assert_array_equal(zero.loo.mean, none.loo.mean)
