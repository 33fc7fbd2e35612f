"""Leave-one-out by linear response, where it is hard on the arithmetic."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import exact_loo
from bayesgp_mf.methods import METHODS


@pytest.mark.parametrize("method", ["tap", "naive", "svm", "variational"])
@pytest.mark.parametrize("lengthscale", [0.05, 0.1])
def test_at_very_short_range_the_field_keeps_the_sign_of_what_the_others_say(method, lengthscale):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 3))
    t = np.where(X[:, 0] > 0, 1.0, -1.0)
    gram = bgp.kernels.Gaussian(lengthscale).gram(X)
    closest = np.abs(gram - np.eye(40)).max(axis=1)
    assert np.median(closest) < 1e-4  # nearly independent
    problem = bgp.Problem(gram, t, bgp.Step())
    estimate = METHODS[method].leave_one_out(problem, METHODS[method].solve(problem)).mean
    exact = exact_loo(problem, method).mean
    small = closest < 1e-3
    np.testing.assert_allclose(estimate[small], exact[small], rtol=5e-3, atol=0)
    assert np.array_equal(np.sign(estimate[small]), np.sign(exact[small]))
    # the plain difference f - lambda alpha has lost some of these signs
    if lengthscale == 0.05:
        solution = METHODS["tap"].solve(problem)
        plain = gram @ solution.alpha - solution.cavity.variance * solution.alpha
        assert not np.array_equal(np.sign(plain[small]), np.sign(exact[small]))


@pytest.mark.parametrize("lengthscale", [0.1, 1.0, 10.0])
def test_for_tap_it_is_the_cavity(lengthscale):
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(0.7), n=30, random_seed=2)
    kernel = bgp.kernels.Gaussian(lengthscale, 3.0)
    problem = bgp.Problem(kernel.gram(toy.X), 2.0 * toy.y - 1.0, bgp.Probit(0.2))
    solution = METHODS["tap"].solve(problem)
    loo = METHODS["tap"].leave_one_out(problem, solution)
    np.testing.assert_allclose(loo.mean, solution.cavity.mean, atol=1e-9)
    np.testing.assert_allclose(loo.variance, solution.cavity.variance, rtol=1e-9)
