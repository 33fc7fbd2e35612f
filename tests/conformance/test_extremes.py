"""Singular and extreme Gram matrices: every method converges to what is right, or says why it cannot."""

from __future__ import annotations

import re
from functools import partial

import numpy as np
import pytest
from scipy.special import log_expit, logsumexp
from scipy.stats import norm

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS
from bayesgp_mf.online import Online
from bayesgp_mf.solvers.accuracy import LARGEST_ROUNDING
from bayesgp_mf.solvers.sites import iterate_sites

N = 32
LIKELIHOODS = {
    "probit": bgp.Probit(),
    "probit with flips": bgp.Probit(0.5, 0.1),
    "step": bgp.Step(),
    "step with flips": bgp.Step(0.1),
    "logit": bgp.Logit(),
}
SOLVERS = {name: solver for name, solver in METHODS.items() if name != "exact"} | {"sweeps": Online(sweeps=None)}
PROBABILISTIC = [
    (name, likelihood)
    for name in SOLVERS
    for likelihood in LIKELIHOODS
    if name != "svm" and not (name == "laplace" and "step" in likelihood)
]
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
        "linear, scale 1e6, labels by chance": (1e6 * bgp.kernels.Linear().gram(many), chance),
        "length scale 1e3, labels by chance": (gaussian(1e3).gram(few), chance),
        "Matern, length scale 1e3, labels by chance": (bgp.kernels.Matern32(1e3).gram(few), chance),
    }


CASES = make_cases()


# What no method may refuse: its reasons are no way out of everything. Labels by chance contradict a flat prior;
# with flips, but without latent noise of their size, the equations may then have no solution.
SOLVED = {
    *(
        (name, case, likelihood)
        for name in ("tap", "laplace", "sweeps")
        for case in CASES
        for likelihood in ("probit", "logit")
    ),
    *(("naive", case, "probit") for case in CASES),
    *(
        (name, case, "probit with flips")
        for name in ("tap", "naive", "laplace", "sweeps")
        for case in CASES
        if "1e3, labels" not in case
    ),
    *(("svm", case, "probit") for case in CASES if "linear, scale 1e6" not in case),
    *((name, "Matern, length scale 1e3, labels by chance", "step") for name in ("tap", "variational", "sweeps")),
}


@pytest.mark.parametrize("of", LIKELIHOODS)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("name", SOLVERS)
def test_every_method_converges_or_says_why_it_cannot(name, case, of):
    gram, t = CASES[case]
    solver, likelihood = SOLVERS[name], LIKELIHOODS[of]
    reason = None
    try:
        problem = bgp.Problem(gram, t, likelihood)
        solution = solver.solve(problem)
    except REASONS as error:
        reason = str(error)
    if reason is not None:
        assert re.search(ADVICE, reason), reason
        assert (name, case, of) not in SOLVED
        return
    assert solution.info.status is bgp.Status.CONVERGED
    assert solution.info.residual <= bgp.Control().tolerance
    if solution.has_variance:
        variance = np.diag(gram) - solution.correction.quadratic_diagonal(gram)
        assert np.all(variance >= -1e-8 * np.diag(gram))
    try:
        finite = not solution.has_variance or np.all(np.isfinite(solver.gram_gradient(problem, solution)))
    except bgp.NotPositiveDefiniteError as error:
        finite, reason = name == "variational", str(error)
    assert finite
    assert reason is None or "which alone moves the derivative" in reason
    reason = None
    try:
        loo = solver.leave_one_out(problem, solution)
    except bgp.UndefinedQuantityError as error:
        reason = str(error)
    if reason is not None:
        assert not likelihood.log_concave
        assert re.search(ADVICE, reason), reason
        return
    assert np.all(np.isfinite(solution.alpha))
    assert np.all(np.isfinite(loo.mean))
    if solution.has_variance:
        assert np.isfinite(solution.evidence.value)
        assert np.all(np.isfinite(loo.log_density))
        assert np.all(loo.variance >= 0)


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


def test_at_a_long_length_scale_there_is_all_but_one_latent_value():
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


@pytest.mark.parametrize("scale", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("name", ["tap", "sweeps"])
def test_a_singular_linear_kernel_is_a_posterior_over_its_weights(name, scale):
    """Expectation propagation for 8 weights instead of 32 latent values: nothing there is singular."""
    X, t = CASES["linear, n = 4 d, labels by chance"][0], CASES["linear, n = 4 d, labels by chance"][1]
    X = np.linalg.eigh(X)[1][:, -N // 4 :] * np.sqrt(scale * np.linalg.eigvalsh(X)[-N // 4 :])
    likelihood = bgp.Probit(0.5)
    precision, shift = np.zeros(N), np.zeros(N)
    for _ in range(200):
        covariance = np.linalg.inv(np.eye(N // 4) + X.T @ (precision[:, None] * X))
        mean, variance = X @ covariance @ X.T @ shift, np.einsum("ij,jk,ik->i", X, covariance, X)
        rest = 1.0 - precision * variance
        cavity_mean, cavity = (mean - variance * shift) / rest, variance / rest
        value, d1, d2 = likelihood.log_partition(t, cavity_mean, cavity)
        precision = -d2 / (1.0 + cavity * d2)
        shift = precision * cavity_mean + d1 / (1.0 + cavity * d2)
    _, log_det = np.linalg.slogdet(covariance)
    evidence = (
        np.sum(value + 0.5 * np.log1p(precision * cavity) + 0.5 * cavity * d1**2)
        - 0.5 * d1 @ (X @ X.T) @ d1
        + 0.5 * log_det
    )
    solution = SOLVERS[name].solve(bgp.Problem(X @ X.T, t, likelihood))
    np.testing.assert_allclose(solution.evidence.value, evidence, atol=1e-7)
    np.testing.assert_allclose(X @ X.T @ solution.alpha, mean, atol=1e-6 * np.sqrt(variance.min()))
    left = np.diag(X @ X.T) - solution.correction.quadratic_diagonal(X @ X.T)
    np.testing.assert_allclose(left, variance, rtol=1e-6)


@pytest.mark.parametrize("likelihood", [bgp.Probit(0.5), bgp.Probit(0.5, 0.1), bgp.Logit()], ids=repr)
def test_laplace_finds_the_mode_of_the_weights_beside_a_noise_1e9_times_smaller(likelihood):
    rng = np.random.default_rng(1)
    X, t = 3e4 * rng.standard_normal((N, N // 4)), np.where(rng.random(N) < 0.5, -1.0, 1.0)
    solution = SOLVERS["laplace"].solve(bgp.Problem(X @ X.T, t, likelihood))
    weights = X.T @ solution.alpha
    value, d1, d2 = likelihood.log_prob(t, X @ weights)
    precision = np.eye(N // 4) - X.T @ (d2[:, None] * X)
    np.testing.assert_array_less(0.0, np.linalg.eigvalsh(precision))
    # Newton's step that is left, in units of the posterior; rounding in K is all that is in it
    gradient = X.T @ d1 - weights
    assert gradient @ np.linalg.solve(precision, gradient) < 1e-8
    evidence = np.sum(value) - 0.5 * weights @ weights - 0.5 * np.linalg.slogdet(precision)[1]
    np.testing.assert_allclose(solution.evidence.value, evidence, rtol=1e-6)


@pytest.mark.parametrize("name", ["tap", "naive", "variational", "online", "sweeps"])
def test_a_step_does_not_know_the_unit_of_any_value(name):
    """K to D K D: each f_i has its own unit, and its sign does not change."""
    gram, t = CASES["scale 1e6"][0] / 1e6 + 0.01 * np.eye(N), CASES["scale 1e6"][1]
    unit = 10.0 ** np.random.default_rng(1).uniform(-4.0, 4.0, N)
    one = SOLVERS[name].solve(bgp.Problem(gram, t, bgp.Step()))
    other = SOLVERS[name].solve(bgp.Problem(unit[:, None] * gram * unit, t, bgp.Step()))
    np.testing.assert_allclose(other.evidence.value, one.evidence.value, atol=1e-7)
    np.testing.assert_allclose(other.alpha * unit, one.alpha, atol=1e-6)


@pytest.mark.parametrize(("name", "likelihood"), [pair for pair in PROBABILISTIC if pair[0] != "variational"])
def test_a_little_noise_changes_a_singular_problem_as_its_gradient_says(name, likelihood):
    """Inputs seen twice make K singular; with K + delta I it is not, and d log evidence / d delta is the trace."""
    gram, t = CASES["every input twice"]
    solver = SOLVERS[name]
    problem = bgp.Problem(gram, t, LIKELIHOODS[likelihood])
    singular = solver.solve(problem)
    slope = np.trace(solver.gram_gradient(problem, singular))
    # second order at h = 0, from the side where K is positive definite
    h = 1e-4
    at = [solver.solve(bgp.Problem(gram + k * h * np.eye(N), t, problem.likelihood)).evidence.value for k in (1, 2)]
    numeric = (-3.0 * singular.evidence.value + 4.0 * at[0] - at[1]) / (2.0 * h)
    np.testing.assert_allclose(numeric, slope, rtol=0.02)


@pytest.mark.parametrize(("name", "likelihood"), PROBABILISTIC)
def test_at_a_tiny_length_scale_nothing_is_known_of_a_case_left_out(name, likelihood):
    gram, t = CASES["length scale 1e-3"]
    problem = bgp.Problem(gram, t, LIKELIHOODS[likelihood])
    solution = SOLVERS[name].solve(problem)
    alone = SOLVERS[name].solve(bgp.Problem(gram[:1, :1], t[:1], problem.likelihood))
    np.testing.assert_allclose(solution.evidence.value, N * alone.evidence.value, rtol=1e-8)
    np.testing.assert_allclose(t * solution.alpha, t[0] * alone.alpha[0], rtol=1e-8)
    loo = SOLVERS[name].leave_one_out(problem, solution)
    np.testing.assert_allclose(loo.log_density, np.log(0.5), atol=1e-8)
    np.testing.assert_allclose(loo.variance, 1.0, rtol=1e-8)


@pytest.mark.parametrize("variance", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("likelihood", "log_prob"), [("probit", norm.logcdf), ("logit", log_expit)])
def test_at_a_huge_length_scale_one_value_explains_all(likelihood, log_prob, variance):
    """Against an integral over that one value; three labels of many disagree with it."""
    t = np.where(np.arange(N) < 3, -1.0, 1.0)
    sd = np.sqrt(variance)
    f = np.concatenate([-np.geomspace(8.0 * sd, 1e-9, 20_000), np.geomspace(1e-9, 8.0 * sd, 20_000)])
    log_joint = norm.logpdf(f, scale=sd) + 3 * log_prob(-f) + (N - 3) * log_prob(f)
    truth = np.log(np.trapezoid(np.exp(log_joint - log_joint.max()), f)) + log_joint.max()
    gram = bgp.kernels.Gaussian(1e6, variance).gram(np.random.default_rng(4).standard_normal((N, 2)))
    for name, tolerance in (("tap", 0.05), ("sweeps", 0.05), ("laplace", 0.2)):
        solution = SOLVERS[name].solve(bgp.Problem(gram, t, LIKELIHOODS[likelihood]))
        assert abs(solution.evidence.value - truth) < tolerance, name


def test_a_matrix_made_singular_by_rounding_is_refused_by_the_variational_method():
    """Rank two in eight cases: rounding alone decides whether a Cholesky factor exists, and its evidence is noise."""
    made = 0
    for seed in range(30):
        rng = np.random.default_rng(seed)
        gram = bgp.kernels.Linear().gram(rng.standard_normal((3, 2)))
        made += np.linalg.cond(gram) < 1e17
        with pytest.raises(bgp.NotPositiveDefiniteError, match=r"invertible Gram matrix.*White"):
            bgp.solve(gram, [1, -1, 1], bgp.Probit(), method="variational")
    assert made > 5  # of them had a factor, or might have
    # what is not refused stands firm against rounding
    rng = np.random.default_rng(0)
    gram = bgp.kernels.Matern32(1e3).gram(rng.standard_normal((8, 2)))
    t = np.sign(rng.standard_normal(8))
    value = bgp.solve(gram, t, bgp.Probit(), method="variational").evidence.value
    shaken = gram * (1.0 + 2.0**-52 * (lambda noise: noise + noise.T)(rng.uniform(-0.5, 0.5, (8, 8))))
    moved = bgp.solve(shaken, t, bgp.Probit(), method="variational").evidence.value
    assert 0 < abs(moved - value) < LARGEST_ROUNDING


def test_labels_that_hang_on_rounding_are_refused_and_others_are_not():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((8, 3))
    gram, chance = bgp.kernels.Gaussian(1e3).gram(X), np.array([1.0, -1.0, 1.0, 1.0, -1.0, 1.0, -1.0, -1.0])
    with pytest.raises(bgp.NotPositiveDefiniteError, match=r"singular up to rounding.* Allow noise"):
        Online(sweeps=None).solve(bgp.Problem(gram, chance, bgp.Step()))
    nearly, all_one = (
        Online(sweeps=None).solve(bgp.Problem(K, np.ones(8), bgp.Step())) for K in (gram, np.ones((8, 8)))
    )
    np.testing.assert_allclose(nearly.evidence.value, all_one.evidence.value, atol=0.01)


def test_two_all_but_equal_inputs_with_different_labels():
    """Sweeps once ran away here, to factors of 1e37 whose cases they left out for good; the answer is TAP's."""
    gram = 1e6 * np.array([[1.0, 1.0 - 1.2e-7], [1.0 - 1.2e-7, 1.0]])
    for likelihood in ("probit", "step", "logit"):
        problem = bgp.Problem(gram, np.array([1.0, -1.0]), LIKELIHOODS[likelihood])
        one, other = (SOLVERS[name].solve(problem) for name in ("tap", "sweeps"))
        np.testing.assert_allclose(other.evidence.value, one.evidence.value, atol=1e-7)
        np.testing.assert_allclose(other.alpha, one.alpha, rtol=1e-5)
        derivs = problem.likelihood.log_partition(problem.t, *other.cavity)
        np.testing.assert_allclose(other.alpha, derivs.d1, rtol=1e-5)


def test_a_left_out_case_without_a_gaussian_is_told():
    """Labels that look flipped have negative sites; without one that holds against them, nothing proper is left."""
    rng = np.random.default_rng(2)
    gram = bgp.kernels.Linear(1e6).gram(rng.standard_normal((8, 2)))
    problem = bgp.Problem(gram, np.where(rng.random(8) < 0.5, -1.0, 1.0), bgp.Probit(0.5, 0.1))
    solution = SOLVERS["laplace"].solve(problem)
    with pytest.raises(bgp.UndefinedQuantityError, match=r"no leave-one-out prediction for .* Use method='tap'"):
        SOLVERS["laplace"].leave_one_out(problem, solution)


@pytest.mark.parametrize("name", ["tap", "naive", "sweeps"])
@pytest.mark.parametrize("seed", range(6))
def test_labels_that_nothing_separates_are_told(name, seed):
    """The weights grow without bound there, until rounding makes the steps short."""
    rng = np.random.default_rng(seed)
    n = int(rng.choice([8, 20, 40]))
    gram = bgp.kernels.Linear(10.0 ** rng.choice([-6, 0, 6])).gram(rng.standard_normal((n, n // 4)))
    chance = np.where(rng.random(n) < 0.5, -1.0, 1.0)
    with pytest.raises(bgp.InconsistentDataError, match="not separable"):
        SOLVERS[name].solve(bgp.Problem(gram, chance, bgp.Step()))


def test_mixing_does_not_spoil_steps_that_are_newtons():
    """Two inputs 1e-7 apart in correlation, under the variational product: far from the prior, but a plain way."""
    gram = np.array([[1.0, 1.0 - 1.2e-7], [1.0 - 1.2e-7, 1.0]])
    problem, solver = bgp.Problem(gram, np.ones(2), bgp.Step()), SOLVERS["variational"]
    state, info = iterate_sites(problem, partial(solver.step, problem), solver.init(problem), bgp.Control())
    assert info.status is bgp.Status.CONVERGED
    assert info.n_iterations < 100
    np.testing.assert_allclose(solver.finish(problem, state, info).alpha, solver.solve(problem).alpha, rtol=1e-6)


def test_the_exact_method_tells_labels_without_a_solution():
    X = np.random.default_rng(0).standard_normal((8, 3))
    t = np.array([1.0, 1.0, -1.0, -1.0, 1.0, 1.0, 1.0, -1.0])
    with pytest.raises(bgp.InconsistentDataError, match="not separable"):
        bgp.solve(bgp.kernels.Gaussian(1e3, 1e6).gram(X), t, bgp.Step(), method="exact")


@pytest.mark.parametrize("variance", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize(("name", "likelihood"), [*PROBABILISTIC, ("exact", "probit"), ("exact", "step with flips")])
def test_one_case_says_nothing_about_itself(name, likelihood, variance):
    solver = METHODS["exact"] if name == "exact" else SOLVERS[name]
    problem = bgp.Problem(np.array([[variance]]), np.array([-1.0]), LIKELIHOODS[likelihood])
    solution = solver.solve(problem)
    loo = solver.leave_one_out(problem, solution)
    np.testing.assert_allclose(loo.log_density, np.log(0.5), atol=1e-7)
    np.testing.assert_allclose(loo.variance, variance, rtol=1e-7)
    if name != "laplace":
        np.testing.assert_allclose(solution.evidence.value, np.log(0.5), atol=1e-9)
