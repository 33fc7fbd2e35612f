"""Laplace's approximation: its mode, evidence and gradient against what is known without it."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, gammaln

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian, Logit, Quadrature
from bayesgp_mf.methods import METHODS
from bayesgp_mf.solvers.laplace import Laplace, laplace

TIGHT = bgp.Control(tolerance=1e-11)


def poisson(t, f):
    return t * f - np.exp(f) - gammaln(t + 1)


def student(t, f):
    return -2.5 * np.log1p((t - f) ** 2 / 4.0 / 0.25)


LIKELIHOODS = {
    "logit": Logit(),
    "probit": bgp.Probit(),
    "probit small noise": bgp.Probit(0.01),
    "gaussian": Gaussian(0.3),
    "poisson": Quadrature(poisson, "real"),
}
every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)


def make_problem(likelihood, n: int = 8, scale: float = 1.5, seed: int = 0) -> bgp.Problem:
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2))
    gram = bgp.kernels.Gaussian(1.0, scale).gram(x)
    t = np.where(x[:, 0] + 0.7 * rng.standard_normal(n) > 0, 1.0, -1.0)
    if likelihood.targets == "real":
        t = rng.poisson(np.exp(x[:, 0])).astype(float)
    return bgp.Problem(gram, t, likelihood)


def textbook(gram: np.ndarray, t: np.ndarray) -> tuple[np.ndarray, float, np.ndarray]:
    """Logistic mode, evidence and posterior covariance by Newton with the inverse of K (the paper's eqs. 7, 10)."""
    inverse, f = np.linalg.inv(gram), np.zeros(t.size)
    for _ in range(100):
        pi = expit(f)
        w = pi * (1 - pi)
        f = np.linalg.solve(inverse + np.diag(w), w * f + 0.5 * (t + 1) - pi)
    pi = expit(f)
    w = pi * (1 - pi)
    precision = inverse + np.diag(w)
    value = -np.sum(np.log1p(np.exp(-t * f))) - 0.5 * f @ inverse @ f
    value -= 0.5 * (np.linalg.slogdet(precision)[1] + np.linalg.slogdet(gram)[1])
    return f, float(value), np.linalg.inv(precision)


def covariance(problem: bgp.Problem, solution) -> np.ndarray:
    return problem.gram - solution.correction.quadratic(problem.gram)


def test_it_agrees_with_a_textbook_implementation():
    problem = make_problem(Logit(), n=12)
    mode, value, posterior = textbook(problem.gram, problem.t)
    solution = laplace.solve(problem, TIGHT)
    assert solution.method == laplace.name == "laplace"
    assert solution.cavity is None
    assert (solution.evidence.kind, solution.evidence.bound) == ("laplace", None)
    np.testing.assert_allclose(problem.gram @ solution.alpha, mode, rtol=1e-9, atol=1e-11)
    np.testing.assert_allclose(solution.evidence.value, value, rtol=1e-12)
    np.testing.assert_allclose(covariance(problem, solution), posterior, atol=1e-11)


@every_likelihood
def test_the_mode_is_where_a_general_optimiser_finds_it(likelihood):
    problem = make_problem(likelihood)
    root = np.linalg.cholesky(problem.gram)

    def cost(white: np.ndarray) -> tuple[float, np.ndarray]:
        derivs = likelihood.log_prob(problem.t, root @ white)
        return 0.5 * white @ white - np.sum(derivs.value), white - root.T @ derivs.d1

    found = minimize(cost, np.zeros(problem.n), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 2000})
    solution = laplace.solve(problem)
    np.testing.assert_allclose(problem.gram @ solution.alpha, root @ found.x, atol=1e-6)
    f = problem.gram @ solution.alpha
    np.testing.assert_allclose(solution.alpha, likelihood.log_prob(problem.t, f).d1, rtol=1e-8, atol=1e-9)


def test_gaussian_likelihood_is_exact_regression():
    problem = make_problem(Gaussian(0.3), n=10)
    solution, truth = laplace.solve(problem), METHODS["exact"].solve(problem)
    np.testing.assert_allclose(solution.alpha, truth.alpha, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(solution.correction.dense(), truth.correction.dense(), atol=1e-10)
    np.testing.assert_allclose(solution.evidence.value, truth.evidence.value, rtol=1e-12)
    gradient = laplace.gram_gradient(problem, solution)
    np.testing.assert_allclose(gradient, METHODS["exact"].gram_gradient(problem, truth), atol=1e-9)
    ours, exact = laplace.leave_one_out(problem, solution), METHODS["exact"].leave_one_out(problem, truth)
    for name in ("mean", "variance", "log_density"):
        np.testing.assert_allclose(getattr(ours, name), getattr(exact, name), rtol=1e-8, atol=1e-9)


def slope(problem: bgp.Problem, direction: np.ndarray) -> float:
    """Return d log evidence / d step along a direction, by fourth-order central differences."""
    step = 1e-4

    def evidence(along: float) -> float:
        moved = bgp.Problem(problem.gram + along * direction, problem.t, problem.likelihood)
        return laplace.solve(moved, TIGHT).evidence.value

    near, far = evidence(step) - evidence(-step), evidence(2 * step) - evidence(-2 * step)
    return (8 * near - far) / (12 * step)


NOT_QUADRATIC = {
    **{name: case for name, case in LIKELIHOODS.items() if name != "gaussian"},
    "student": Quadrature(student, "real"),
    "probit with flips": bgp.Probit(1.0, 0.1),
}


@pytest.mark.parametrize("likelihood", NOT_QUADRATIC.values(), ids=NOT_QUADRATIC)
def test_the_gradient_needs_the_motion_of_the_mode(likelihood):
    problem = make_problem(likelihood, n=7)
    solution = laplace.solve(problem, TIGHT)
    gradient = laplace.gram_gradient(problem, solution)
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-14)
    at_fixed_mode = 0.5 * (np.outer(solution.alpha, solution.alpha) - solution.correction.dense())
    rng = np.random.default_rng(1)
    for _ in range(3):
        half = 0.3 * rng.standard_normal((7, 7))
        direction = half @ half.T  # symmetric, and the Gram matrix stays one
        expected = slope(problem, direction)
        np.testing.assert_allclose(np.sum(gradient * direction), expected, rtol=1e-5)
        assert abs(np.sum(at_fixed_mode * direction) - expected) > 1e-3 * abs(expected)


def test_leave_one_out_by_linear_response_is_near_refitting():
    problem = make_problem(Logit(), n=25)
    got = laplace.leave_one_out(problem, laplace.solve(problem))
    for i in range(problem.n):
        rest = np.delete(np.arange(problem.n), i)
        without = laplace.solve(bgp.Problem(problem.gram[np.ix_(rest, rest)], problem.t[rest], Logit()))
        cross = problem.gram[rest, i][:, None]
        np.testing.assert_allclose(got.mean[i], cross[:, 0] @ without.alpha, atol=0.05)
        variance = problem.gram[i, i] - without.correction.quadratic_diagonal(cross)[0]
        np.testing.assert_allclose(got.variance[i], variance, rtol=0.05)


@every_likelihood
def test_one_case(likelihood):
    problem = bgp.Problem(np.array([[2.0]]), np.array([1.0]), likelihood)
    solution = laplace.solve(problem)
    f = 2.0 * solution.alpha
    derivs = likelihood.log_prob(problem.t, f)
    np.testing.assert_allclose(solution.alpha, derivs.d1, rtol=1e-9, atol=1e-12)
    expected = derivs.value[0] - f[0] ** 2 / 4 - 0.5 * np.log(1 - 2.0 * derivs.d2[0])
    np.testing.assert_allclose(solution.evidence.value, expected, rtol=1e-12)
    loo = laplace.leave_one_out(problem, solution)  # nothing is left but the prior
    np.testing.assert_allclose([loo.mean[0], loo.variance[0]], [0.0, 2.0], atol=1e-8)


@pytest.mark.parametrize("likelihood", [Logit(), bgp.Probit()])
def test_labels_and_order_are_only_names(likelihood):
    problem = make_problem(likelihood, n=10)
    solution = laplace.solve(problem)
    flipped = laplace.solve(bgp.Problem(problem.gram, -problem.t, likelihood))
    np.testing.assert_allclose(flipped.alpha, -solution.alpha, rtol=1e-10)
    np.testing.assert_allclose(flipped.evidence.value, solution.evidence.value, rtol=1e-13)
    order = np.random.default_rng(4).permutation(10)
    moved = laplace.solve(bgp.Problem(problem.gram[np.ix_(order, order)], problem.t[order], likelihood))
    np.testing.assert_allclose(moved.alpha, solution.alpha[order], rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(moved.evidence.value, solution.evidence.value, rtol=1e-12)


def test_a_singular_gram_matrix_is_a_linear_model():
    rng = np.random.default_rng(2)
    x = rng.standard_normal((40, 2))
    t = np.where(x @ [1.0, -0.5] + 0.5 * rng.standard_normal(40) > 0, 1.0, -1.0)
    problem = bgp.Problem(3.0 * x @ x.T, t, Logit())
    solution = laplace.solve(problem)
    weights = minimize(
        lambda w: w @ w / 6.0 + np.sum(np.log1p(np.exp(-t * (x @ w)))),
        np.zeros(2),
        method="BFGS",
        options={"gtol": 1e-9},
    ).x
    np.testing.assert_allclose(3.0 * x.T @ solution.alpha, weights, atol=1e-6)
    pi = expit(x @ weights)
    precision = np.eye(2) / 3.0 + (x.T * (pi * (1 - pi))) @ x
    value = np.sum(np.log(expit(t * (x @ weights)))) - weights @ weights / 6.0
    value -= 0.5 * np.linalg.slogdet(3.0 * precision)[1]
    np.testing.assert_allclose(solution.evidence.value, value, rtol=1e-7)  # as good as the optimiser's mode
    assert np.all(np.isfinite(laplace.gram_gradient(problem, solution)))


@pytest.mark.parametrize("likelihood", [Logit(), bgp.Probit(), bgp.Probit(0.01), Quadrature(poisson, "real")])
@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e3, 1e5])
def test_extreme_scales_converge(likelihood, scale):
    problem = make_problem(likelihood, n=40, scale=scale)
    solution = laplace.solve(problem)
    f = problem.gram @ solution.alpha
    np.testing.assert_allclose(solution.alpha, likelihood.log_prob(problem.t, f).d1, rtol=1e-5, atol=1e-7)
    assert solution.info.residual <= 1e-8
    assert np.isfinite(solution.evidence.value)


def test_contradicting_labels_and_far_tails():
    gram = 400.0 * np.ones((5, 5))
    solution = laplace.solve(bgp.Problem(gram, np.array([1.0, -1.0, 1.0, 1.0, -1.0]), Logit()))
    pi = expit(gram[0] @ solution.alpha)
    np.testing.assert_allclose(3 - 5 * pi, np.sum(solution.alpha), atol=1e-9)
    # one label against a certain majority
    sure = laplace.solve(bgp.Problem(1e4 * np.ones((1001, 1001)), np.array([-1.0] + 1000 * [1.0]), Logit()))
    assert sure.alpha[0] < -0.99
    np.testing.assert_allclose(1e4 * sure.alpha.sum(), np.log(1000.0), atol=0.05)


@pytest.mark.parametrize("scale", [0.1, 1e-2, 1e-3])
def test_the_climb_is_short_where_most_of_the_targets_are_outliers(scale):
    """Where a likelihood curves upwards, what it curves by says how long a step may be."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 2))
    y = 1.5 * X[:, 0] - 0.5 * X[:, 1] + 0.3 * rng.standard_t(4, 30)
    problem = bgp.Problem(bgp.kernels.Matern32(1.0).gram(X) + 0.1 * np.eye(30), y, bgp.StudentT(scale, 4.0))
    solution = laplace.solve(problem)
    slope = problem.likelihood.log_prob(y, problem.gram @ solution.alpha).d1
    np.testing.assert_allclose(solution.alpha, slope, rtol=1e-5, atol=1e-5)
    assert solution.info.n_iterations < 60


def test_steps_by_hand_climb_to_the_same_mode():
    problem = make_problem(bgp.Probit(0.01), n=20, scale=50.0)
    solution = laplace.solve(problem)
    state, heights = laplace.init(problem), []
    for _ in range(60):
        state = laplace.step(problem, state)
        f = problem.gram @ state.alpha
        heights.append(np.sum(problem.likelihood.log_prob(problem.t, f).value) - 0.5 * state.alpha @ f)
    assert np.all(np.diff(heights) >= -1e-9)
    by_hand = laplace.finish(problem, state, solution.info)
    np.testing.assert_allclose(by_hand.alpha, solution.alpha, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-4, 1e-9])
def test_the_sites_are_those_of_the_mode(tolerance, factorised):
    """The factor of the last step serves for them where that step was too small to see, and only there."""
    problem = make_problem(Logit(), n=30, scale=20.0)
    solution = laplace.solve(problem, bgp.Control(tolerance=tolerance))
    curvature = -problem.likelihood.log_prob(problem.t, problem.gram @ solution.alpha).d2
    np.testing.assert_allclose(solution.correction.site_precision, curvature, atol=1e-12)
    assert len(factorised) == solution.info.n_iterations + (tolerance > 1e-8)


def test_warm_starts_take_fewer_steps_and_end_in_the_same_place():
    problem = make_problem(Logit(), n=30, scale=20.0)
    cold = laplace.solve(problem)
    for start in (cold, METHODS["tap"].solve(problem)):
        warm = laplace.solve(problem, start=start)
        np.testing.assert_allclose(warm.alpha, cold.alpha, rtol=1e-7, atol=1e-9)
    assert laplace.solve(problem, start=cold).info.n_iterations < cold.info.n_iterations
    with pytest.raises(ValueError, match="start has 30 cases, but the problem has 8"):
        laplace.solve(make_problem(Logit()), start=cold)


def test_a_start_that_leads_nowhere_is_given_up():
    """From far on the wrong side the way is long, from the prior it is short: that is taken next."""
    problem, few = make_problem(Logit(), n=30, scale=20.0), bgp.Control(max_iterations=8)
    cold = laplace.solve(problem, few)
    far = dataclasses.replace(cold, alpha=-100.0 * cold.alpha)
    assert laplace.solve(problem, start=far).info.n_iterations > few.max_iterations
    np.testing.assert_array_equal(laplace.solve(problem, few, start=far).alpha, cold.alpha)


@pytest.mark.parametrize("likelihood", [bgp.Step(), bgp.Step(0.1)])
def test_a_step_has_no_curvature(likelihood):
    problem = make_problem(likelihood)
    for ask in (laplace.solve, laplace.init):
        with pytest.raises(bgp.UndefinedQuantityError, match=r"second derivative.*method='tap'"):
            ask(problem)


def test_a_saddle_is_no_posterior():
    # a double well of the likelihood, symmetric about f = 0, where Newton starts and the gradient is zero
    wells = Quadrature(lambda t, f: -((f**2 - 4.0) ** 2), "real")
    problem = bgp.Problem(np.eye(2), np.zeros(2), wells)
    with pytest.raises(bgp.NotPositiveDefiniteError, match="not log-concave there \\(2 of 2 cases"):
        laplace.solve(problem)


def test_too_few_steps_are_no_result():
    problem = make_problem(bgp.Probit(0.01), n=20, scale=50.0)
    with pytest.raises(bgp.ConvergenceError, match="laplace: The largest number of iterations") as caught:
        laplace.solve(problem, bgp.Control(max_iterations=2))
    assert caught.value.status is bgp.Status.MAX_ITERATIONS
    loose = laplace.solve(problem, bgp.Control(max_iterations=2, throw=False))
    assert loose.info.status is bgp.Status.MAX_ITERATIONS
    assert loose.info.n_iterations == 2


def test_other_methods_solutions_are_refused():
    problem = make_problem(bgp.Probit(), n=4)
    exact = METHODS["exact"].solve(problem)
    with pytest.raises(ValueError, match="made by method 'exact'"):
        laplace.gram_gradient(problem, exact)


def test_the_solver_is_a_frozen_value():
    assert laplace == Laplace()
    with pytest.raises(AttributeError):
        laplace.name = "other"
