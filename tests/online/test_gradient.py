"""The gradient of the running evidence, against central differences of order four."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS
from bayesgp_mf.online import Online
from tests.online.conftest import every_likelihood, make_inputs, make_problem

WHITE = 0.1 * np.eye(8)  # keeps the moved matrices positive semi-definite


def slope(solver: Online, problem: bgp.Problem, direction: np.ndarray, h: float = 1e-4) -> float:
    def along(step: float) -> float:
        moved = bgp.Problem(problem.gram + step * direction, problem.t, problem.likelihood)
        return solver.solve(moved, bgp.Control(tolerance=1e-12)).evidence.value

    return (8.0 * (along(h) - along(-h)) - along(2.0 * h) + along(-2.0 * h)) / (12.0 * h)


@every_likelihood
@pytest.mark.parametrize("order", [None, (3, 1, 7, 0, 2, 6, 5, 4)])
def test_the_gradient_of_one_sweep_is_exact(likelihood, order):
    base, solver = make_problem(likelihood, 8), Online(order=order)
    problem = bgp.Problem(base.gram + WHITE, base.t, likelihood)
    solution = solver.solve(problem)
    gradient = solver.gram_gradient(problem, solution)
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-14)
    direction = np.random.default_rng(4).standard_normal((8, 8))
    direction = direction + direction.T
    numeric = slope(solver, problem, direction)
    np.testing.assert_allclose(np.sum(gradient * direction), numeric, rtol=1e-8)
    at_a_fixed_point = 0.5 * (np.outer(solution.alpha, solution.alpha) - solution.correction.dense())
    if isinstance(likelihood, Gaussian):
        np.testing.assert_allclose(gradient, at_a_fixed_point, atol=1e-10)
    else:  # the formula of the fixed point would be wrong here
        assert abs(np.sum(at_a_fixed_point * direction) - numeric) > 1e-3 * abs(numeric)


def test_the_gradient_after_reuse_is_that_of_the_first_sweep():
    problem = make_problem(bgp.Probit())
    thrice = Online(sweeps=3, reuse="as_new")
    np.testing.assert_array_equal(
        thrice.gram_gradient(problem, thrice.solve(problem)), Online().gram_gradient(problem, Online().solve(problem))
    )


def test_the_gradient_of_the_fixed_point_is_tap():
    problem, solver = make_problem(bgp.Step(0.1)), Online(sweeps=None)
    tap = METHODS["tap"]
    expected = tap.gram_gradient(problem, tap.solve(problem))
    np.testing.assert_allclose(solver.gram_gradient(problem, solver.solve(problem)), expected, atol=1e-7)


@pytest.mark.parametrize("lengthscale", [1e-3, 1e-1, 1.0, 10.0])
@pytest.mark.parametrize("variance", [1e-6, 1.0, 1e4])
def test_the_gradient_in_a_hyperparameter_over_many_scales(lengthscale, variance):
    X, t = make_inputs(12)
    kernel = bgp.kernels.Gaussian(lengthscale, variance) + bgp.kernels.White(0.1 * variance)

    def evidence(log_factor: float) -> float:
        gram = kernel.replace(gaussian_variance=variance * np.exp(log_factor)).gram(X)
        return Online().solve(bgp.Problem(gram, t, bgp.Probit())).evidence.value

    problem = bgp.Problem(kernel.gram(X), t, bgp.Probit())
    gradient = Online().gram_gradient(problem, Online().solve(problem))
    slope = variance * kernel.gram_vjp(X, gradient)["gaussian_variance"]
    h = 1e-3
    numeric = (8 * (evidence(h) - evidence(-h)) - evidence(2 * h) + evidence(-2 * h)) / (12 * h)
    np.testing.assert_allclose(slope, numeric, rtol=1e-7, atol=1e-10)


def test_a_value_known_beforehand_has_a_gradient():
    gram = np.diag([0.0, 1.0])
    problem = bgp.Problem(gram, np.array([1.0, -1.0]), bgp.Probit())
    gradient = Online().gram_gradient(problem, Online().solve(problem))
    expected = METHODS["tap"].gram_gradient(problem, METHODS["tap"].solve(problem))
    np.testing.assert_allclose(np.diag(gradient), np.diag(expected), atol=1e-12)  # independent cases: exact
