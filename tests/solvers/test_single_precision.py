"""First steps in single precision lead to the same solution, and are given up where they cannot."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.matrices.factors import cholesky, squared_symmetric_times, symmetric_times, triangular_inverse
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.solvers import meanfield
from bayesgp_mf.solvers.meanfield import naive, tap

TIGHT = bgp.Control(tolerance=1e-10)
KERNELS = [bgp.kernels.Gaussian(1.0, 3.0), bgp.kernels.Matern32(0.3, 50.0), bgp.kernels.Linear(1.0)]


SINGLE = np.dtype(np.float32)


@pytest.fixture(autouse=True)
def small_problems_too(monkeypatch):
    """Let small problems begin in single precision too."""
    monkeypatch.setattr(meanfield, "SINGLE_FROM", 1)


def problem_of(kernel, likelihood, n=60):
    rng = np.random.default_rng(5)
    X = rng.standard_normal((n, 2))
    f = rng.multivariate_normal(np.zeros(n), kernel.gram(X) + 1e-6 * np.eye(n))
    t = f if likelihood.targets == "real" else likelihood.sample(f, rng)
    return bgp.Problem(kernel.gram(X), t, likelihood)


@pytest.mark.parametrize("kernel", KERNELS, ids=repr)
@pytest.mark.parametrize(
    "likelihood", [bgp.Probit(), bgp.Logit(), bgp.Probit(flip=0.1), bgp.likelihoods.Gaussian(0.5)], ids=repr
)
def test_the_solution_is_the_same(kernel, likelihood, factorised, monkeypatch):
    problem = problem_of(kernel, likelihood)
    mixed = tap.solve(problem, TIGHT)
    assert (SINGLE in factorised) == likelihood.log_concave
    monkeypatch.setattr(meanfield, "SINGLE_FROM", 10**9)
    double = tap.solve(problem, TIGHT)
    assert mixed.info.status is double.info.status
    assert mixed.evidence.value == pytest.approx(double.evidence.value, abs=1e-9)
    np.testing.assert_allclose(mixed.alpha, double.alpha, atol=1e-8)
    assert mixed.correction.diagonal().dtype == np.float64
    np.testing.assert_allclose(mixed.cavity.variance, double.cavity.variance, rtol=1e-8)


def test_where_single_precision_does_not_come_near_it_is_given_up(factorised, monkeypatch):
    """A step on labels that are hard to tell apart: sites so strong that seven digits are none."""
    X = np.linspace(-1.0, 1.0, 40)[:, None]
    problem = bgp.Problem(bgp.kernels.Gaussian(1.0, 1e4).gram(X), np.where(X[:, 0] > 0.03, 1.0, -1.0), bgp.Step())
    solution = tap.solve(problem)
    assert SINGLE in factorised
    assert solution.info.residual <= 1e-8
    monkeypatch.setattr(meanfield, "SINGLE_FROM", 10**9)
    assert solution.evidence.value == pytest.approx(tap.solve(problem).evidence.value, abs=1e-6)


def test_fixed_variances_need_none(factorised):
    problem = problem_of(KERNELS[0], bgp.Probit())
    naive.leave_one_out(problem, naive.solve(problem))
    assert set(factorised) == {np.dtype(np.float64)}


def test_a_warm_start_takes_one_step_in_single_precision_and_one_in_double(factorised):
    problem = problem_of(KERNELS[0], bgp.Probit())
    start = tap.solve(problem)
    factorised.clear()
    assert tap.solve(problem, start=start).info.n_iterations == 2
    assert set(factorised) == {np.dtype(np.float32), np.dtype(np.float64)}


def test_all_steps_come_out_of_one_budget():
    info = tap.solve(problem_of(KERNELS[0], bgp.Probit()), bgp.Control(max_iterations=2, throw=False)).info
    assert info.status is bgp.Status.MAX_ITERATIONS
    assert info.n_iterations <= 3


def test_the_evidence_may_be_known_without_another_step():
    problem = problem_of(KERNELS[0], bgp.Probit())
    full, sooner = tap.solve(problem), tap.solve(problem, bgp.Control(evidence_tolerance=1e-6))
    assert sooner.info.n_iterations < full.info.n_iterations
    assert abs(sooner.evidence.value - full.evidence.value) < 1e-6


def test_work_on_a_single_gram_matrix_is_in_single_precision():
    gram, precision = problem_of(KERNELS[0], bgp.Probit()).gram, np.linspace(0.1, 3.0, 60)
    double, rough = SiteCorrection(gram, precision), SiteCorrection(gram.astype(np.float32), precision)
    shift = np.linspace(-1.0, 1.0, 60)
    variance = double.cavity_variance()
    for of in (
        lambda c: c.weights(shift),
        lambda c: c.cavity_variance(),
        lambda c: c.multiply(shift),
        lambda c: c.covariance(variance, lambda: 0.0).times(shift),
    ):
        assert 0.0 < np.max(np.abs(of(rough) - of(double))) < 1e-4
    matrix = np.asfortranarray(np.eye(120) + 0.5, dtype=np.float32)
    inverse = triangular_inverse(cholesky(matrix))
    assert inverse.dtype == np.float32
    np.testing.assert_allclose(inverse.T @ inverse @ matrix, np.eye(120), atol=1e-4)


@pytest.mark.parametrize("n", [5, 128, 300])
@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float64, 1e-12), (np.float32, 1e-4)])
def test_products_with_a_symmetric_matrix_and_with_its_squares(n, dtype, tolerance):
    rng = np.random.default_rng(n)
    full = rng.standard_normal((n, n))
    full, vector = full + full.T, rng.standard_normal(n)
    lower = np.asfortranarray(np.tril(full), dtype=dtype)
    squares = full**2
    np.fill_diagonal(squares, 0.0)
    for product, expected in ((symmetric_times, full @ vector), (squared_symmetric_times, squares @ vector)):
        found = product(lower, vector)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, atol=tolerance * n)
