"""Laplace's approximation for several classes: against dense linear algebra, the binary method, and what is exact."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.linalg import block_diag
from scipy.special import logsumexp, softmax

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import exact_loo
from bayesgp_mf.errors import ConvergenceError, NotPositiveDefiniteError
from bayesgp_mf.methods import MULTICLASS, get_method
from bayesgp_mf.multiclass.correction import case_covariances
from bayesgp_mf.multiclass.laplace import multiclass_laplace
from bayesgp_mf.solvers.laplace import laplace
from tests.multiclass.block_correction import quadratic

TIGHT = bgp.Control(tolerance=1e-11)


def data(n: int = 14, n_classes: int = 3, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    t = np.argmax(X @ rng.standard_normal((2, n_classes)) + 0.5 * rng.standard_normal((n, n_classes)), axis=1)
    t[:n_classes] = np.arange(n_classes)  # none is without a case
    return X, t.astype(float)


def problem_of(kernel: str, n_classes: int = 3, scale: float = 2.0, **options: int) -> bgp.Problem:
    X, t = data(n_classes=n_classes, **options)
    gaussian = bgp.kernels.Gaussian(1.0, scale)
    if kernel == "shared":
        return bgp.Problem(gaussian.gram(X), t, bgp.Softmax())
    own = [bgp.kernels.Gaussian(0.5 + c, scale * (1 + 0.3 * c)) for c in range(n_classes)]
    return bgp.Problem(bgp.kernels.PerClass(*own).gram(X), t, bgp.Softmax())


every_kernel = pytest.mark.parametrize("kernel", ["shared", "separate"])


def dense(problem: bgp.Problem, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """K, W and pi with matrices of C n rows, class after class (GPML, section 3.5)."""
    n, n_classes = problem.latent_shape
    grams = [problem.gram] * n_classes if problem.gram.ndim == 2 else list(problem.gram)
    gram = block_diag(*grams)
    pi = softmax((gram @ alpha.T.ravel()).reshape(n_classes, n), axis=0)
    stacked = np.vstack([np.diag(row) for row in pi])
    return gram, np.diag(pi.ravel()) - stacked @ stacked.T, pi


@every_kernel
def test_it_agrees_with_dense_linear_algebra(kernel):
    problem = problem_of(kernel)
    (n, n_classes), solution = problem.latent_shape, multiclass_laplace.solve(problem, TIGHT)
    gram, w, pi = dense(problem, solution.alpha)
    own = pi[problem.t.astype(int), np.arange(n)]
    y = np.arange(n_classes)[:, None] == problem.t
    np.testing.assert_allclose(solution.alpha, (y - pi).T, atol=1e-10)  # eq. 3.35
    log_det = np.linalg.slogdet(np.eye(n_classes * n) + gram @ w)[1]
    f = gram @ solution.alpha.T.ravel()
    expected = np.sum(np.log(own)) - 0.5 * solution.alpha.T.ravel() @ f - 0.5 * log_det
    np.testing.assert_allclose(solution.evidence.value, expected, rtol=1e-12)
    assert (solution.method, solution.evidence.kind, solution.cavity) == ("laplace", "laplace", None)
    r = np.linalg.solve(np.eye(n_classes * n) + w @ gram, w)
    np.testing.assert_allclose(solution.correction.dense().reshape(r.shape), r, atol=1e-12)
    assert abs(log_det - np.linalg.slogdet(np.eye(n_classes * n) + gram @ np.diag(pi.ravel()))[1]) > 1.0


@every_kernel
def test_the_correction_agrees_with_itself(kernel):
    problem, rng = problem_of(kernel), np.random.default_rng(0)
    n, n_classes = problem.latent_shape
    correction = multiclass_laplace.solve(problem).correction
    r = correction.dense().reshape(n_classes * n, -1)
    values = rng.standard_normal((2, n, n_classes))
    flat = np.swapaxes(values, 1, 2).reshape(2, -1) @ r
    expected = np.swapaxes(flat.reshape(2, n_classes, n), 1, 2)
    np.testing.assert_allclose(correction.multiply(values), expected, atol=1e-12)
    np.testing.assert_allclose(correction.multiply(np.ones((n, n_classes))), 0.0, atol=1e-12)  # common offsets
    cross = rng.standard_normal((n, 4))
    full = quadratic(correction, cross)
    for i in range(4):
        np.testing.assert_allclose(correction.blocks(cross)[i], full[:, i, :, i], atol=1e-12)
    for c in range(n_classes):
        np.testing.assert_allclose(correction.class_block(c), correction.dense()[c, :, c], atol=1e-12)
    # R e has the covariance R Omega R, which is R - R K R
    unit = np.eye(n * n_classes).reshape(-1, n, n_classes)
    root = np.swapaxes(correction.noise(unit), 1, 2).reshape(n * n_classes, -1)
    gram = dense(problem, np.zeros((n, n_classes)))[0]
    np.testing.assert_allclose(root.T @ root, r - r @ gram @ r, atol=1e-11)


@pytest.mark.parametrize("scale", [0.1, 2.0, 30.0])
def test_two_classes_are_the_binary_method(scale):
    """K for each of two latent functions is 2 K for their difference (evidence, weights, gradient, leave-one-out)."""
    problem = problem_of("shared", n_classes=2, scale=scale, n=20)
    binary = bgp.Problem(2.0 * problem.gram, 2.0 * problem.t - 1.0, bgp.Logit())
    one, other = multiclass_laplace.solve(problem, TIGHT), laplace.solve(binary, TIGHT)
    np.testing.assert_allclose(one.evidence.value, other.evidence.value, rtol=1e-11)
    np.testing.assert_allclose(one.alpha[:, 1], other.alpha, atol=1e-10)
    np.testing.assert_allclose(one.alpha[:, 0], -other.alpha, atol=1e-10)
    gradient = 2.0 * laplace.gram_gradient(binary, other)  # by the chain rule
    np.testing.assert_allclose(multiclass_laplace.gram_gradient(problem, one), gradient, atol=1e-9)
    ours, theirs = multiclass_laplace.leave_one_out(problem, one), laplace.leave_one_out(binary, other)
    np.testing.assert_allclose(ours.log_density, theirs.log_density, atol=1e-9)
    np.testing.assert_allclose(ours.mean[:, 1] - ours.mean[:, 0], theirs.mean, atol=1e-8)
    assert ours.error_count(problem.t) == theirs.error_count(binary.t)
    cross = problem.gram[:, :5] * 0.7
    covariance = case_covariances(one.correction, np.full((5, 2), scale), cross)
    variance = 2.0 * scale - other.correction.quadratic_diagonal(2.0 * cross)
    difference = covariance[:, 0, 0] + covariance[:, 1, 1] - 2.0 * covariance[:, 0, 1]
    np.testing.assert_allclose(difference, variance, rtol=1e-9)


@every_kernel
def test_permuted_classes_permute_the_answer(kernel):
    problem, order = problem_of(kernel, n_classes=4), np.array([2, 0, 3, 1])
    codes = np.argsort(order)[problem.t.astype(int)].astype(float)
    gram = problem.gram if kernel == "shared" else problem.gram[order]
    one, other = multiclass_laplace.solve(problem), multiclass_laplace.solve(bgp.Problem(gram, codes, bgp.Softmax()))
    np.testing.assert_allclose(other.alpha, one.alpha[:, order], atol=1e-9)
    np.testing.assert_allclose(other.evidence.value, one.evidence.value, rtol=1e-11)


@every_kernel
@pytest.mark.parametrize("lengthscale", [1e-3, 0.1, 1.0, 10.0, 1e3])
def test_gradient_is_that_of_differences(kernel, lengthscale):
    """In the logarithms of length scale and variance, by way of the kernel."""
    X, t = data()
    solver = MULTICLASS["laplace"]
    base = bgp.kernels.Gaussian([lengthscale, 2 * lengthscale], 5.0)
    whole = base if kernel == "shared" else bgp.kernels.PerClass(base, base.replace(variance=2.0), base)

    def evidence(vector: np.ndarray) -> float:
        gram = bgp.kernels.with_log_vector(whole, vector).gram(X)
        return solver.solve(bgp.Problem(gram, t, bgp.Softmax()), TIGHT).evidence.value

    problem = bgp.Problem(whole.gram(X), t, bgp.Softmax())
    solution = solver.solve(problem, TIGHT)
    found = bgp.kernels.log_gradient(whole, whole.gram_vjp(X, solver.gram_gradient(problem, solution)))
    vector, step = bgp.kernels.log_vector(whole), 1e-4
    moves = step * np.eye(vector.size)
    expected = [(evidence(vector + move) - evidence(vector - move)) / (2 * step) for move in moves]
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=2e-7)


def test_the_gradient_needs_the_way_by_the_mode():
    """The control of the test above: with the mode held fixed it would fail."""
    problem = problem_of("shared")
    solution = multiclass_laplace.solve(problem, TIGHT)
    fixed = sum(np.outer(a, a) for a in solution.alpha.T)
    fixed = 0.5 * (fixed - sum(solution.correction.class_block(c) for c in range(3)))
    assert np.max(np.abs(multiclass_laplace.gram_gradient(problem, solution) - fixed)) > 1e-3


@every_kernel
def test_leave_one_out_is_near_to_refits(kernel):
    problem = problem_of(kernel, n=24)
    free = multiclass_laplace.leave_one_out(problem, multiclass_laplace.solve(problem))
    refits = exact_loo(problem, "laplace")
    prior = np.max(problem.gram)
    np.testing.assert_allclose(free.mean, refits.mean, atol=0.15 * np.sqrt(prior))
    np.testing.assert_allclose(free.variance, refits.variance, rtol=0.15)
    assert abs(np.sum(free.log_density) - np.sum(refits.log_density)) < 0.05 * abs(np.sum(refits.log_density))
    np.testing.assert_allclose(np.sum(refits.probability, axis=1), 1.0)
    assert abs(free.error_count(problem.t) - refits.error_count(problem.t)) <= 1


@pytest.mark.parametrize("prior", [1e-6, 1.0, 1e4, 1e7])
def test_leave_one_out_of_independent_cases_is_the_prior(prior):
    """What the others say of a case that depends on none of them, however much it says itself."""
    problem = bgp.Problem(prior * np.eye(4), np.array([0.0, 1.0, 2.0, 1.0]), bgp.Softmax())
    loo = multiclass_laplace.leave_one_out(problem, multiclass_laplace.solve(problem, TIGHT))
    np.testing.assert_allclose(loo.variance, prior, rtol=1e-5)
    np.testing.assert_allclose(loo.mean / np.sqrt(prior), 0.0, atol=1e-3)
    np.testing.assert_allclose(loo.log_density, -np.log(3.0), atol=1e-3)


def test_one_case_alone():
    loo = exact_loo(bgp.Problem([[2.0]], [1.0], bgp.Softmax(("a", "b", "c"))), "laplace")
    np.testing.assert_allclose(loo.log_density, -np.log(3.0), atol=1e-7)
    np.testing.assert_allclose(loo.variance, 2.0)


@pytest.mark.parametrize("prior", [0.5, 4.0, 16.0])
def test_how_far_the_evidence_of_laplace_is_from_exact(prior):
    """One case of three classes, whose evidence is log 1/3 by symmetry: the error grows with the prior variance."""
    problem = bgp.Problem([[prior]], [0.0], bgp.Softmax(("a", "b", "c")))
    error = multiclass_laplace.solve(problem).evidence.value + np.log(3.0)
    bounds = {0.5: (0.0, 0.02), 4.0: (0.02, 0.15), 16.0: (0.1, 0.4)}
    low, high = bounds[prior]
    assert low < abs(error) < high


def test_two_cases_against_quadrature():
    """The exact evidence of two dependent cases, by brute force over their latent values: near, not equal."""
    gram = np.array([[2.0, 1.2], [1.2, 2.0]])
    t, rng = np.array([0, 1]), np.random.default_rng(0)
    f = np.einsum("ij,kjc->kic", np.linalg.cholesky(gram), rng.standard_normal((400_000, 2, 3)))
    log_p = f[:, [0, 1], t].sum(axis=1) - logsumexp(f, axis=2).sum(axis=1)
    exact = np.log(np.mean(np.exp(log_p)))
    found = multiclass_laplace.solve(bgp.Problem(gram, t, bgp.Softmax(("a", "b", "c")))).evidence.value
    assert 0.01 < abs(found - exact) < 0.15


def test_a_class_without_a_case_keeps_its_prior():
    X, t = data(n_classes=2)
    kernel = bgp.kernels.Gaussian(1.0, 3.0)
    problem = bgp.Problem(kernel.gram(X), t, bgp.Softmax(("a", "b", "never")))
    solution = multiclass_laplace.solve(problem)
    assert solution.alpha.shape == (14, 3)
    assert np.all(solution.alpha[:, 2] < 0)
    # far from all cases
    covariance = case_covariances(solution.correction, np.full((1, 3), 3.0), np.zeros((14, 1)))
    np.testing.assert_allclose(problem.likelihood.predict_proba(np.zeros((1, 3)), covariance), 1 / 3, atol=1e-7)


def test_extremes_converge():
    X, t = data(n=30, n_classes=5)
    for lengthscale in (1e-3, 1.0, 1e3):
        for variance in (1e-8, 1.0, 1e6):
            gram = bgp.kernels.Gaussian(lengthscale, variance).gram(X)
            problem = bgp.Problem(gram, t, bgp.Softmax())
            solution = multiclass_laplace.solve(problem)
            assert np.isfinite(solution.evidence.value)
            assert np.all(np.isfinite(multiclass_laplace.gram_gradient(problem, solution)))


def test_single_steps_lead_to_the_solution():
    problem = problem_of("shared")
    state = multiclass_laplace.init(problem)
    for _ in range(10):
        state = multiclass_laplace.step(problem, state)
    np.testing.assert_allclose(state.alpha, multiclass_laplace.solve(problem, TIGHT).alpha, atol=1e-10)


def test_starts_and_endings():
    problem = problem_of("shared")
    solution = multiclass_laplace.solve(problem)
    again = multiclass_laplace.solve(problem, start=solution)
    assert again.info.n_iterations < solution.info.n_iterations
    with pytest.raises(ConvergenceError, match="laplace"):
        multiclass_laplace.solve(problem, bgp.Control(max_iterations=1))
    rough = multiclass_laplace.solve(problem, bgp.Control(max_iterations=1, throw=False))
    assert rough.info.status is bgp.Status.MAX_ITERATIONS
    with pytest.raises(ValueError, match="14 cases and 3 classes, but the problem has 14 cases and 4 classes"):
        multiclass_laplace.solve(problem_of("shared", n_classes=4), start=solution)
    with pytest.raises(ValueError, match="scheme"):
        multiclass_laplace.solve(problem, bgp.Control(scheme="paper"))


def test_arguments_are_left_alone():
    problem = problem_of("separate")
    before = problem.gram.copy(), problem.t.copy()
    solution = multiclass_laplace.solve(problem)
    multiclass_laplace.gram_gradient(problem, solution)
    multiclass_laplace.leave_one_out(problem, solution)
    np.testing.assert_array_equal(problem.gram, before[0])
    np.testing.assert_array_equal(problem.t, before[1])


def test_bad_problems_are_refused():
    with pytest.raises(ValueError, match=r"codes 0 to C - 1 of classes for Softmax, got values such as \[-1.0, 1.0\]"):
        bgp.Problem(np.eye(2), [-1, 1], bgp.Softmax())
    with pytest.raises(ValueError, match=r"codes 0 to 1 .*\[0.0, 2.0\]"):
        bgp.Problem(np.eye(2), [0, 2], bgp.Softmax(("a", "b")))
    with pytest.raises(ValueError, match=r"\(3, n, n\) with a matrix for each of the 3 classes.*\(2, 2, 2\)"):
        bgp.Problem(np.ones((2, 2, 2)), [0, 2], bgp.Softmax())
    with pytest.raises(NotPositiveDefiniteError, match="positive semi-definite"):
        bgp.Problem(np.stack([np.eye(2), np.eye(2), np.array([[1.0, 2.0], [2.0, 1.0]])]), [0, 2], bgp.Softmax())
    with pytest.raises(ValueError, match="method 'naive' has one latent value for each case, and Softmax one"):
        bgp.solve(np.eye(2), [0, 1], bgp.Softmax(), method="naive")
    assert get_method("laplace", bgp.Softmax()) is multiclass_laplace
    assert get_method("laplace", bgp.Logit()) is laplace


def test_a_method_of_several_classes_alone_has_a_name(monkeypatch):
    alone = replace(multiclass_laplace, name="alone")
    monkeypatch.setitem(MULTICLASS, "alone", alone)
    assert get_method("alone", bgp.Softmax()) is alone
    X, y = np.linspace(-2, 2, 9)[:, None], np.repeat(["a", "b", "c"], 3)
    idata = bgp.fit(X, y, bgp.kernels.Gaussian(), bgp.Softmax(), method="alone", draws=5, random_seed=1)
    assert idata["fit"].attrs["method"] == "alone"
    with pytest.raises(ValueError, match="method 'alone' does not take the binary targets of Logit"):
        bgp.fit(X, y == "a", bgp.kernels.Gaussian(), bgp.Logit(), method="alone")
    with pytest.raises(ValueError, match=r"one of \['alone', 'exact', .*got 'other'"):
        get_method("other", bgp.Softmax())
