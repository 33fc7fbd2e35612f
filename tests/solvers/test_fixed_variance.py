"""Newton's method at fixed cavity variances: the same solution, the minimum of a convex function."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import bayesgp_mf as bgp
from bayesgp_mf.inference.assembly import kernel_entries
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.inducing import inducing_gram
from bayesgp_mf.matrices.low_rank import pivoted_cholesky
from bayesgp_mf.methods import METHODS
from bayesgp_mf.solvers.driver import fixed_point
from bayesgp_mf.solvers.fixed_variance import solve_at_fixed_variance
from bayesgp_mf.solvers.meanfield import naive

LIKELIHOODS = {
    "probit": bgp.Probit(),
    "step": bgp.Step(),
    "logit": bgp.Logit(),
    "regression": bgp.likelihoods.Gaussian(0.1),
}


def make_problem(likelihood, n: int = 30, scale: float = 4.0, seed: int = 1) -> bgp.Problem:
    kernel = bgp.kernels.Gaussian(0.7, scale) + bgp.kernels.White(0.05 * scale)
    toy = bgp.datasets.make_toy(kernel, bgp.Probit(0.1), n=n, random_seed=seed)
    return bgp.Problem(kernel.gram(toy.X), 2.0 * toy.y - 1.0, likelihood)


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
@settings(max_examples=15, deadline=None)
@given(n=st.integers(1, 40), log_scale=st.floats(-4, 4), seed=st.integers(0, 10**6))
def test_the_equations_of_naive_mean_field_hold(likelihood, n, log_scale, seed):
    problem = make_problem(likelihood, n, 10.0**log_scale, seed)
    solution = naive.solve(problem)
    prior = np.diag(problem.gram)
    field = problem.gram @ solution.alpha - prior * solution.alpha
    alpha = problem.likelihood.log_partition(problem.t, field, prior).d1
    scale = np.sqrt(prior + getattr(likelihood, "noise_variance", 0.0))
    np.testing.assert_allclose(solution.alpha * scale, alpha * scale, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
@pytest.mark.parametrize("method", ["naive", "variational"])
def test_the_iteration_over_sites_ends_at_the_same_solution(likelihood, method):
    problem, solver = make_problem(likelihood), METHODS[method]
    solution = solver.solve(problem)
    state = solver.init(problem)
    for _ in range(100):
        state = solver.step(problem, state)
    by_sites = solver.finish(problem, state, solution.info)
    np.testing.assert_allclose(solution.alpha, by_sites.alpha, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(solution.correction.dense(), by_sites.correction.dense(), rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(solution.evidence.value, by_sites.evidence.value, rtol=1e-12)


def test_the_evidence_is_the_minimum_of_a_convex_function():
    problem = make_problem(bgp.Probit(0.3), n=6)
    prior, t = np.diag(problem.gram), problem.t

    def phi(mean):
        value, alpha, _ = problem.likelihood.log_partition(t, mean, prior)
        return np.sum(value) - alpha @ mean + 0.5 * alpha @ (problem.gram @ alpha - prior * alpha)

    found = minimize(phi, np.zeros(6), method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 20000})
    solution = naive.solve(problem)
    np.testing.assert_allclose(solution.evidence.value, found.fun, atol=1e-8)
    # convex in alpha: halfway between two points it lies below the mean of their values
    rng = np.random.default_rng(3)
    for _ in range(20):
        one, other = 2.0 * rng.standard_normal((2, 6))
        alphas = [problem.likelihood.log_partition(t, mean, prior).d1 for mean in (one, other)]
        target = 0.5 * (alphas[0] + alphas[1])
        low, high = np.minimum(one, other), np.maximum(one, other)
        for _ in range(200):  # d1 is monotone in the mean
            middle = 0.5 * (low + high)
            above = problem.likelihood.log_partition(t, middle, prior).d1 > target
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        assert phi(0.5 * (low + high)) < 0.5 * (phi(one) + phi(other)) + 1e-9


def low_rank_problem(likelihood) -> bgp.Problem:
    """Return a problem of 60 cases whose Gram matrix is of low rank; 20 of the labels are of two minds."""
    kernel, X = bgp.kernels.Gaussian(1.0, 3.0), np.random.default_rng(0).uniform(-2.0, 2.0, (60, 1))
    t = np.where(X[:, 0] > 0.0, 1.0, -1.0) * np.where(np.arange(60) % 3 == 0, np.sign(np.sin(9.0 * X[:, 0])), 1.0)
    gram = pivoted_cholesky(kernel_entries(kernel, X), kernel.diag(X), 1e-9, 60)
    return bgp.Problem(gram, t, likelihood)


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Logit(), bgp.Probit(0.1)], ids=repr)
@pytest.mark.parametrize("sure", [0, 10])
def test_newtons_steps_on_a_root_lead_where_those_on_the_matrix_do(likelihood, sure):
    problem = low_rank_problem(likelihood)
    # so far from the other label that the likelihood is flat there
    shifted = by_case(likelihood, prior_mean=np.where(np.arange(60) < sure, 200.0 * problem.t, 0.0))
    problem, variance = bgp.Problem(problem.gram, problem.t, shifted), problem.gram.diagonal()
    dense = bgp.Problem(problem.gram.dense(), problem.t, shifted)
    found, info = solve_at_fixed_variance(problem, variance, bgp.Control())
    expected, _ = solve_at_fixed_variance(dense, variance, bgp.Control(tolerance=1e-10))
    np.testing.assert_allclose(found.alpha, expected.alpha, atol=1e-9)
    np.testing.assert_allclose(found.alpha[:sure], 0.0, atol=1e-30)
    assert info.n_iterations < 10  # as a step would not have it that is Newton's only roughly


@pytest.mark.parametrize("certain", [1.0, 1.5], ids=["nothing", "less"])
def test_sites_that_leave_no_variance_end_it(certain):
    class Certain(bgp.Probit):
        """A likelihood that says, wrongly, that nothing is left of the cavity variance, or less."""

        def log_partition(self, t, mean, variance):
            return super().log_partition(t, mean, variance)._replace(d2=-certain / variance)

    found, info = solve_at_fixed_variance(low_rank_problem(Certain()), np.full(60, 4.0), bgp.Control())
    assert (found, info.status, info.n_iterations) == (None, bgp.Status.STALLED, 1)


def test_no_matrix_is_factorised_until_something_needs_it(factorised):
    problem = make_problem(bgp.Probit())
    solution = naive.solve(problem)
    assert np.isfinite(solution.evidence.value)
    assert np.all(np.isfinite(naive.gram_gradient(problem, solution)))
    assert not factorised
    assert np.all(naive.leave_one_out(problem, solution).variance > 0)
    assert len(factorised) == 1
    METHODS["tap"].solve(problem)
    assert len(factorised) > 1


def test_where_it_does_not_arrive_the_iteration_over_sites_goes_on():
    """Prior variances ten million times that of the noise: rounding shakes Newton's steps, and sites are exact."""
    X, control = np.linspace(-2.0, 2.0, 20)[:, None], bgp.Control(max_iterations=50)
    problem = bgp.Problem(bgp.kernels.Linear(1e4).gram(X), np.sign(X[:, 0]), bgp.likelihoods.Gaussian(1e-3))
    _, info = solve_at_fixed_variance(problem, np.diag(problem.gram), control)
    assert info.status is not bgp.Status.CONVERGED
    solution = naive.solve(problem, control)
    assert solution.info.status is bgp.Status.CONVERGED
    regression = np.linalg.solve(problem.gram + 1e-3 * np.eye(problem.n), problem.t)
    np.testing.assert_allclose(solution.alpha, regression, rtol=1e-4)


def test_labels_that_nothing_separates_are_told():
    X = np.random.default_rng(0).standard_normal((40, 10))
    problem = bgp.Problem(bgp.kernels.Linear().gram(X), np.where(X[:, 0] * X[:, 1] > 0, 1.0, -1.0), bgp.Step())
    with pytest.raises(bgp.InconsistentDataError, match="not separable"):
        naive.solve(problem)


def test_too_few_steps_are_not_a_result():
    with pytest.raises(bgp.ConvergenceError, match=r"naive: The largest number .*after \d+ steps"):
        naive.solve(make_problem(bgp.Probit()), bgp.Control(max_iterations=2))


def test_a_plain_damped_iteration_of_alpha_agrees():
    problem = make_problem(bgp.Probit(), scale=0.5)
    prior = np.diag(problem.gram)

    def update(alpha, damping):
        field = problem.gram @ alpha - prior * alpha
        return (1 - damping) * alpha + damping * problem.likelihood.log_partition(problem.t, field, prior).d1

    alpha, info = fixed_point(partial(update, damping=0.1), np.zeros(problem.n), bgp.Control(tolerance=1e-11))
    assert info.status is bgp.Status.CONVERGED
    np.testing.assert_allclose(naive.solve(problem).alpha, alpha, atol=1e-8)


def student_problem(scale: float, n: int = 30, seed: int = 0) -> bgp.Problem:
    """Return a plane with outliers, of which a narrow likelihood believes a few."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    y = 1.5 * X[:, 0] - 0.5 * X[:, 1] + 0.3 * rng.standard_t(4, n)
    return bgp.Problem(bgp.kernels.Gaussian(2.0, 4.0).gram(X) + 1e-3 * np.eye(n), y, bgp.StudentT(scale, 4.0))


@pytest.mark.parametrize(("method", "scale"), [("naive", 0.1), ("naive", 0.03), ("variational", 0.3)])
def test_equations_of_slopes_that_are_bounded_are_solved(method, scale):
    """As they have a solution: m -> (K - Lambda) g'(m) takes all m into a box (Brouwer)."""
    for seed in range(3):
        problem = student_problem(scale, seed=seed)
        solution = METHODS[method].solve(problem)
        variance = solution.cavity.variance
        mean = problem.gram @ solution.alpha - variance * solution.alpha
        alpha = problem.likelihood.log_partition(problem.t, mean, variance).d1
        np.testing.assert_allclose(solution.alpha, alpha, rtol=1e-6, atol=1e-6)


def test_a_saddle_whose_sites_leave_no_covariance_is_no_solution():
    """There the equations hold, and the variances that they are for do not exist."""
    for seed in range(3):
        problem = student_problem(0.03, seed=seed)
        try:
            solution = METHODS["variational"].solve(problem)
        except bgp.ConvergenceError:
            continue
        assert np.all(solution.correction.quadratic_diagonal(problem.gram) <= np.diag(problem.gram))


def test_the_solution_on_inducing_inputs_is_that_on_their_matrix():
    dense = student_problem(0.1)
    X = np.random.default_rng(3).standard_normal((dense.n, 2))
    gram = inducing_gram(bgp.kernels.Gaussian(2.0, 4.0), X, X[:6], keep_root=True)
    found, expected = (naive.solve(bgp.Problem(each, dense.t, dense.likelihood)) for each in (gram, gram.dense()))
    np.testing.assert_allclose(found.alpha, expected.alpha, atol=1e-6)
    np.testing.assert_allclose(found.evidence.value, expected.evidence.value, rtol=1e-8)
