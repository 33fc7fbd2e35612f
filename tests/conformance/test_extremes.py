"""Singular and extreme Gram matrices: every method converges to something finite, or says why it cannot."""

from __future__ import annotations

import re

import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS
from bayesgp_mf.online import Online

N = 40
LIKELIHOODS = {
    "probit": bgp.Probit(),
    "probit with flips": bgp.Probit(0.5, 0.1),
    "step": bgp.Step(),
    "step with flips": bgp.Step(0.1),
    "logit": bgp.Logit(),
}
SOLVERS = {name: solver for name, solver in METHODS.items() if name != "exact"} | {"sweeps": Online(sweeps=None)}
REASONS = (
    bgp.ConvergenceError,
    bgp.InconsistentDataError,
    bgp.NotPositiveDefiniteError,
    bgp.UndefinedQuantityError,
)
# what can be done about it must stand in the message
ADVICE = r"[Aa]dd |[Uu]se |[Aa]llow |[Rr]aise "


def make_cases() -> dict[str, tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    many, few = rng.standard_normal((N, N // 4)), rng.standard_normal((N, 2))
    halves = np.where(few[:, 0] > 0, 1.0, -1.0)
    chance = np.where(rng.random(N) < 0.5, -1.0, 1.0)
    twice = np.repeat(np.arange(N // 2), 2)
    gaussian = bgp.kernels.Gaussian
    return {
        "linear, n = 4 d, separable": (bgp.kernels.Linear().gram(many), np.sign(many @ rng.standard_normal(N // 4))),
        "linear, n = 4 d, labels by chance": (bgp.kernels.Linear().gram(many), chance),
        "every input twice": (gaussian(1.0).gram(few[twice]), chance[twice]),
        "one case": (np.array([[1.3]]), np.array([1.0])),
        "length scale 1e-3": (gaussian(1e-3).gram(few), halves),
        "length scale 1e3, one class": (gaussian(1e3).gram(few), np.ones(N)),
        "length scale 1e3": (gaussian(1e3).gram(few), halves),
        "scale 1e-6": (1e-6 * gaussian(1.0).gram(few), halves),
        "scale 1e6": (1e6 * gaussian(1.0).gram(few), halves),
        "scale 1e6, labels by chance": (1e6 * gaussian(1.0).gram(few), chance),
    }


CASES = make_cases()


@pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SOLVERS)
def test_every_method_converges_or_says_why_it_cannot(name, case, likelihood):
    gram, t = CASES[case]
    solver = SOLVERS[name]
    reason = None
    try:
        problem = bgp.Problem(gram, t, likelihood)
        solution = solver.solve(problem)
    except REASONS as error:
        reason = str(error)
    if reason is not None:
        assert re.search(ADVICE, reason), reason
        return
    assert solution.info.status is bgp.Status.CONVERGED
    assert solution.info.residual <= bgp.Control().tolerance
    loo = solver.leave_one_out(problem, solution)
    assert np.all(np.isfinite(solution.alpha))
    assert np.all(np.isfinite(loo.mean))
    if solution.has_variance:
        assert np.isfinite(solution.evidence.value)
        assert np.all(np.isfinite(loo.log_density))
        assert np.all(loo.variance >= 0)


# (method, case, likelihood) that must be solved, however hard: the reasons above are no way out of everything
SOLVED = [
    (name, case, likelihood)
    for name in ("tap", "naive", "laplace", "sweeps")
    for case in CASES
    for likelihood in ("probit", "logit", "probit with flips")
] + [("svm", case, "probit") for case in CASES]


@pytest.mark.parametrize(("name", "case", "likelihood"), SOLVED)
def test_with_noise_a_solution_is_found(name, case, likelihood):
    gram, t = CASES[case]
    solution = SOLVERS[name].solve(bgp.Problem(gram, t, LIKELIHOODS[likelihood]))
    assert solution.info.status is bgp.Status.CONVERGED


@pytest.mark.parametrize("scale", [1e-6, 1e6])
@pytest.mark.parametrize("name", ["tap", "naive", "variational", "svm", "sweeps"])
def test_a_step_does_not_know_the_scale_of_f(name, scale):
    gram, t = CASES["scale 1e6"][0] / 1e6, CASES["scale 1e6"][1]
    gram = gram + 0.01 * np.eye(N)
    one = SOLVERS[name].solve(bgp.Problem(gram, t, bgp.Step()))
    other = SOLVERS[name].solve(bgp.Problem(scale * gram, t, bgp.Step()))
    # f grows with sqrt(scale); the machine's margin stays one
    power = 1.0 if name == "svm" else 0.5
    np.testing.assert_allclose(other.alpha * scale**power, one.alpha, rtol=1e-5, atol=1e-7)
    if one.has_variance:
        np.testing.assert_allclose(other.evidence.value, one.evidence.value, atol=1e-7)


@pytest.mark.parametrize("name", ["tap", "naive", "variational", "sweeps"])
def test_at_a_tiny_length_scale_each_case_stands_alone(name):
    gram, t = CASES["length scale 1e-3"]
    solution = SOLVERS[name].solve(bgp.Problem(gram, t, bgp.Probit()))
    np.testing.assert_allclose(solution.alpha, t / np.sqrt(np.pi), rtol=1e-9)  # phi(0)/(1/2)/sqrt(2)
    np.testing.assert_allclose(solution.evidence.value, N * np.log(0.5), rtol=1e-12)


def test_at_a_huge_length_scale_there_is_one_latent_value():
    gram, t = CASES["length scale 1e3"]
    grid = np.linspace(-8.0, 8.0, 20001)
    log_joint = norm.logpdf(grid) + norm.logcdf(t[:, None] * grid).sum(axis=0)
    truth = logsumexp(log_joint) + np.log(grid[1] - grid[0])
    methods = ("tap", "laplace", "naive")
    values = {name: bgp.solve(gram, t, bgp.Probit(), method=name).evidence.value for name in methods}
    assert abs(values["tap"] - truth) < 0.01
    assert abs(values["laplace"] - truth) < 0.05
    assert values["naive"] < truth - 1.0


def test_a_singular_linear_kernel_is_regression_on_its_weights():
    rng = np.random.default_rng(1)
    X, y = rng.standard_normal((N, N // 4)), rng.standard_normal(N)
    for noise in (1e-4, 1.0, 1e6):
        posterior = np.linalg.inv(X.T @ X / noise + np.eye(N // 4))
        mean = X @ posterior @ X.T @ y / noise
        for name in ("tap", "naive", "laplace", "sweeps"):
            gram = bgp.kernels.Linear().gram(X)
            solution = SOLVERS[name].solve(bgp.Problem(gram, y, Gaussian(noise)))
            np.testing.assert_allclose(gram @ solution.alpha, mean, rtol=1e-4, atol=1e-4 * np.abs(mean).max())
