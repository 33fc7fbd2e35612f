"""The support-vector machine: its conditions, its leave-one-out, its limits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import exact_loo
from bayesgp_mf.solvers.svm import svm


def make_problem(n: int = 30, noise: float = 0.0, seed: int = 1) -> bgp.Problem:
    kernel = bgp.kernels.Gaussian(0.5)
    toy = bgp.datasets.make_toy(kernel, bgp.Step(), n=n, random_seed=seed)
    return bgp.Problem(kernel.gram(toy.X), 2.0 * toy.y - 1.0, bgp.Probit(noise))


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 40), noise=st.sampled_from([0.01, 0.3, 3.0]), seed=st.integers(0, 10**6))
def test_the_kuhn_tucker_conditions_hold(n, noise, seed):
    problem = make_problem(n, noise, seed)
    solution = svm.solve(problem)
    weight = problem.t * solution.alpha
    margin = problem.t * (problem.gram @ solution.alpha + noise * solution.alpha)
    support = weight > 0
    assert np.all(weight >= 0)
    np.testing.assert_allclose(margin[support], 1.0, atol=1e-8)
    assert np.all(margin[~support] >= 1.0 - 1e-8)


def test_the_weights_minimise_the_dual():
    problem = make_problem(12, noise=0.2)
    q = np.outer(problem.t, problem.t) * (problem.gram + 0.2 * np.eye(12))
    weight = problem.t * svm.solve(problem).alpha

    def objective(a):
        return 0.5 * a @ q @ a - a.sum()

    found = minimize(
        objective,
        np.ones(12),
        jac=lambda a: q @ a - 1.0,
        bounds=[(0, None)] * 12,
        options={"ftol": 1e-15, "gtol": 1e-10},
    )
    assert objective(weight) <= found.fun + 1e-12
    np.testing.assert_allclose(weight, found.x, atol=1e-4)


def test_noise_in_the_likelihood_is_noise_in_the_prior():
    problem = make_problem(noise=0.3)
    in_the_prior = bgp.Problem(problem.gram + 0.3 * np.eye(problem.n), problem.t, bgp.Step())
    one, other = svm.solve(problem), svm.solve(in_the_prior)
    np.testing.assert_allclose(one.alpha, other.alpha, atol=1e-12)
    np.testing.assert_allclose(
        svm.leave_one_out(problem, one).mean, svm.leave_one_out(in_the_prior, other).mean, atol=1e-12
    )


def test_scale_of_the_gram_matrix_label_flip_and_order():
    problem = make_problem()
    alpha = svm.solve(problem).alpha
    for scale in (1e-6, 1e6):
        scaled = bgp.Problem(scale * problem.gram, problem.t, bgp.Step())
        np.testing.assert_allclose(svm.solve(scaled).alpha * scale, alpha, rtol=1e-6, atol=1e-9)
    flipped = bgp.Problem(problem.gram, -problem.t, bgp.Step())
    np.testing.assert_allclose(svm.solve(flipped).alpha, -alpha, atol=1e-10)
    order = np.random.default_rng(2).permutation(problem.n)
    permuted = bgp.Problem(problem.gram[np.ix_(order, order)], problem.t[order], bgp.Step())
    np.testing.assert_allclose(svm.solve(permuted).alpha, alpha[order], rtol=1e-6, atol=1e-8)


def test_the_leave_one_out_field_is_exact_where_the_support_vectors_stay():
    problem = make_problem(40, noise=0.5)
    solution = svm.solve(problem)
    estimate, exact = svm.leave_one_out(problem, solution), exact_loo(problem, "svm")
    stays = []
    for i in range(problem.n):
        rest = np.delete(np.arange(problem.n), i)
        without = np.zeros(problem.n, dtype=bool)
        without[rest] = svm.solve(problem.without(i)).alpha != 0
        stays.append(np.array_equal(without[rest], solution.alpha[rest] != 0))
    stays = np.array(stays)
    assert stays.sum() >= 10
    assert not stays.all()
    np.testing.assert_allclose(estimate.mean[stays], exact.mean[stays], atol=1e-10)
    assert np.max(np.abs(estimate.mean[~stays] - exact.mean[~stays])) > 1e-6
    assert abs(estimate.error_count(problem.t) - exact.error_count(problem.t)) <= 1


def test_labels_that_no_function_separates_are_an_error():
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    problem = bgp.Problem(bgp.kernels.Linear().gram(X), np.array([1.0, 1.0, -1.0]), bgp.Step())
    with pytest.raises(bgp.InconsistentDataError, match="not separable"):
        svm.solve(problem)
    softened = bgp.Problem(problem.gram, problem.t, bgp.Probit(1.0))
    assert svm.solve(softened).info.status is bgp.Status.CONVERGED


def test_a_singular_gram_matrix_and_repeated_inputs_are_solved():
    rng = np.random.default_rng(5)
    X = rng.standard_normal((40, 4))
    t = np.sign(X @ rng.standard_normal(4))
    X[7], t[7] = X[3], t[3]
    gram = bgp.kernels.Linear().gram(X)
    solution = svm.solve(bgp.Problem(gram, t, bgp.Step()))
    margin = t * (gram @ solution.alpha)
    assert np.count_nonzero(solution.alpha) <= 4
    np.testing.assert_allclose(margin.min(), 1.0, atol=1e-8)


def test_too_few_steps_are_not_a_result():
    problem = make_problem(60, noise=0.5)
    with pytest.raises(bgp.ConvergenceError, match=r"svm: .*tolerance"):
        svm.solve(problem, bgp.Control(tolerance=1e-300))


def test_there_is_no_posterior():
    problem = make_problem(10)
    solution = svm.solve(problem)
    for ask in (
        lambda: solution.evidence.value,
        lambda: solution.correction.quadratic(problem.gram),
        lambda: svm.gram_gradient(problem, solution),
        lambda: svm.leave_one_out(problem, solution).log_density,
    ):
        with pytest.raises(bgp.UndefinedQuantityError, match="method 'svm' has no"):
            ask()


def test_it_is_no_fit():
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(0.5), bgp.Step(), n=10, random_seed=1)
    for hyper in (None, "evidence", "scan"):
        with pytest.raises(bgp.UndefinedQuantityError, match=r"method 'svm' is a limit .*bgp\.solve"):
            bgp.fit(toy.X, toy.y, bgp.kernels.Gaussian(0.5), method="svm", hyper=hyper)


@pytest.mark.parametrize("scale", [1.0, 1e6])
def test_noise_that_the_gram_matrix_swallows_decides(scale):
    """Two cases that differ in nothing but their labels are told apart by the noise alone."""
    for decades in range(0, 17):
        noise = scale * 10.0**-decades
        problem = bgp.Problem(scale * np.ones((2, 2)), np.array([1.0, -1.0]), bgp.Probit(noise))
        if decades < 9:  # f is zero and all of the margin slack: v alpha_i = t_i
            assert noise * svm.solve(problem).alpha == pytest.approx([1.0, -1.0], abs=1e-7)
        else:  # the conditions of the rounded matrix may hold, or fail to, or have no solution
            with pytest.raises((bgp.NotPositiveDefiniteError, bgp.ConvergenceError, bgp.InconsistentDataError)):
                svm.solve(problem)
