from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, ndtri
from scipy.stats import qmc

import bayesgp_mf as bgp
from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.likelihoods.softmax_tilted import log_partition
from bayesgp_mf.methods import METHODS
from bayesgp_mf.multiclass.laplace import multiclass_laplace
from tests.multiclass.cases import NAMES, softmax_problem
from tests.multiclass.reference_tap import MulticlassTap, check_class_memory, multiclass_tap


def test_two_classes_are_binary_tap_with_a_logistic_likelihood_and_twice_the_kernel():
    problem = softmax_problem(12, 2)
    binary = bgp.Problem(2.0 * problem.gram, 2.0 * problem.t - 1.0, bgp.Logit())
    ours, theirs = multiclass_tap.solve(problem), METHODS["tap"].solve(binary)
    assert ours.evidence.value == pytest.approx(theirs.evidence.value, abs=1e-9)
    np.testing.assert_allclose(ours.alpha[:, 1], theirs.alpha, atol=1e-7)
    np.testing.assert_allclose(ours.alpha[:, 0], -theirs.alpha, atol=1e-7)
    mean, covariance = ours.cavity
    np.testing.assert_allclose(mean[:, 1] - mean[:, 0], theirs.cavity.mean, atol=1e-6)
    difference = np.array([-1.0, 1.0])
    np.testing.assert_allclose(difference @ covariance @ difference, theirs.cavity.variance, atol=1e-6)
    gradient = multiclass_tap.gram_gradient(problem, ours)
    np.testing.assert_allclose(gradient, 2.0 * METHODS["tap"].gram_gradient(binary, theirs), atol=1e-6)


@pytest.mark.parametrize(("n_classes", "tolerance"), [(2, 1e-9), (3, 1e-7), (6, 1e-3)])
def test_one_case_is_exact(n_classes, tolerance):
    problem = softmax_problem(1, n_classes)
    # all classes are alike before the label
    assert multiclass_tap.solve(problem).evidence.value == pytest.approx(-np.log(n_classes), abs=tolerance)


def test_independent_cases_are_exact():
    variance = np.array([0.5, 2.0, 8.0])
    problem = bgp.Problem(np.diag(variance), np.array([0.0, 2.0, 1.0]), bgp.Softmax(NAMES[:3]))
    solution = multiclass_tap.solve(problem)
    assert solution.evidence.value == pytest.approx(-3.0 * np.log(3.0), abs=1e-6)
    np.testing.assert_allclose(solution.cavity.mean, 0.0, atol=1e-9)
    np.testing.assert_allclose(solution.cavity.variance, variance[:, None, None] * np.eye(3), atol=1e-9)


@pytest.mark.parametrize("per_class", [False, True])
def test_it_is_near_exact_sampling(per_class):
    """Three cases of three classes by many Sobol points of the prior, weighted by the likelihood."""
    problem = softmax_problem(3, 3, variance=4.0, per_class=per_class)
    solution = multiclass_tap.solve(problem)
    grams = problem.gram if per_class else np.stack([problem.gram] * 3)
    z = ndtri(qmc.Sobol(9, scramble=True, seed=1).random_base2(17)).reshape(-1, 3, 3)
    f = np.stack([z[:, :, c] @ np.linalg.cholesky(grams[c]).T for c in range(3)], axis=-1)
    each = np.take_along_axis(log_softmax(f, axis=-1), problem.t.astype(int)[None, :, None], axis=-1)
    weight = np.exp(each.sum(axis=(1, 2)))
    assert solution.evidence.value == pytest.approx(np.log(weight.mean()), abs=0.01)  # what TAP leaves out
    weight /= weight.sum()
    exact = np.einsum("k,kic->ic", weight, f)
    ours = np.stack([grams[c] @ solution.alpha[:, c] for c in range(3)], axis=1)
    np.testing.assert_allclose(ours, exact, atol=0.03)
    # the probabilities of the tilted distributions
    exact = np.einsum("k,kic->ic", weight, np.exp(log_softmax(f, axis=-1)))
    np.testing.assert_allclose(np.eye(3)[problem.t.astype(int)] - solution.alpha, exact, atol=5e-3)
    laplace = multiclass_laplace.solve(problem)
    assert abs(laplace.evidence.value - np.log(np.exp(each.sum(axis=(1, 2))).mean())) > 0.05


def test_classes_permute():
    problem = softmax_problem(9, 3)
    order = np.array([2, 0, 1])
    other = bgp.Problem(problem.gram, np.argsort(order)[problem.t.astype(int)].astype(float), problem.likelihood)
    ours, permuted = multiclass_tap.solve(problem), multiclass_tap.solve(other)
    assert permuted.evidence.value == pytest.approx(ours.evidence.value, abs=1e-7)
    np.testing.assert_allclose(permuted.alpha, ours.alpha[:, order], atol=1e-7)


def test_cases_permute():
    problem = softmax_problem(9, 4, per_class=True)
    order = np.random.default_rng(2).permutation(9)
    other = bgp.Problem(problem.gram[:, order[:, None], order], problem.t[order], problem.likelihood)
    np.testing.assert_allclose(multiclass_tap.solve(other).alpha, multiclass_tap.solve(problem).alpha[order], atol=1e-7)


def test_a_stack_of_one_kernel_is_that_kernel():
    problem = softmax_problem(7, 3)
    stack = bgp.Problem(np.stack([problem.gram] * 3), problem.t, problem.likelihood)
    ours, theirs = multiclass_tap.solve(problem), multiclass_tap.solve(stack)
    np.testing.assert_allclose(theirs.alpha, ours.alpha, atol=1e-9)
    summed = multiclass_tap.gram_gradient(stack, theirs).sum(axis=0)
    np.testing.assert_allclose(summed, multiclass_tap.gram_gradient(problem, ours), atol=1e-9)


@pytest.mark.parametrize("per_class", [False, True])
def test_gradient_is_that_of_the_evidence(per_class):
    problem = softmax_problem(7, 3, per_class=per_class)
    solution = multiclass_tap.solve(problem)
    gradient = multiclass_tap.gram_gradient(problem, solution)
    factor = np.random.default_rng(4).standard_normal(problem.gram.shape)
    direction = factor @ np.swapaxes(factor, -1, -2)
    step = 1e-4
    values = [
        multiclass_tap.solve(bgp.Problem(problem.gram + s * direction, problem.t, problem.likelihood)).evidence.value
        for s in (step, -step)
    ]
    slope = (values[0] - values[1]) / (2.0 * step)
    assert np.sum(gradient * direction) == pytest.approx(slope, rel=1e-6)
    assert np.sum(multiclass_laplace.gram_gradient(problem, multiclass_laplace.solve(problem)) * direction) != (
        pytest.approx(slope, rel=1e-2)
    )


def ep_functional(problem, precision, shift):
    """Expectation propagation's log evidence at any sites, in contrasts, written with dense matrices."""
    n, size = shift.shape
    basis = contrast_basis(size + 1)
    prior = np.kron(problem.gram, np.eye(size))
    sites = np.zeros((n, size, n, size))
    sites[np.arange(n), :, np.arange(n), :] = precision
    sites = sites.reshape(n * size, n * size)
    assert basis.shape == (size + 1, size)
    sigma = np.linalg.inv(np.linalg.inv(prior) + sites)
    mean = (sigma @ shift.ravel()).reshape(n, size)
    value = 0.5 * shift.ravel() @ sigma @ shift.ravel() - 0.5 * np.linalg.slogdet(np.eye(n * size) + prior @ sites)[1]
    for i in range(n):
        own = sigma.reshape(n, size, n, size)[i, :, i]
        inverse = np.linalg.inv(own) - precision[i]
        v = np.linalg.inv(inverse)
        m = v @ (np.linalg.solve(own, mean[i]) - shift[i])
        value += log_partition(problem.t[i : i + 1], m[None], v[None])[0]
        together = shift[i] + inverse @ m
        value -= 0.5 * together @ own @ together - 0.5 * m @ inverse @ m
        value += 0.5 * np.linalg.slogdet(np.eye(size) + v @ precision[i])[1]
    return value


def test_evidence_is_stationary_in_the_sites():
    problem = softmax_problem(5, 3)
    solution = multiclass_tap.solve(problem)
    root, basis = solution.correction.site_root, contrast_basis(3)
    precision = root @ root
    shift = np.einsum("iab,ib->ia", precision, problem.gram @ solution.alpha @ basis) + solution.alpha @ basis
    assert ep_functional(problem, precision, shift) == pytest.approx(solution.evidence.value, abs=1e-9)
    rng, step = np.random.default_rng(6), 1e-4
    moved = rng.standard_normal(shift.shape)
    turned = rng.standard_normal(precision.shape)
    turned = 0.1 * (turned + np.swapaxes(turned, 1, 2))

    def slope(at):
        there = ep_functional(problem, precision + (at + step) * turned, shift + (at + step) * moved)
        return (there - ep_functional(problem, precision + (at - step) * turned, shift + (at - step) * moved)) / step

    assert abs(slope(0.0)) < 1e-5
    assert abs(slope(0.1)) > 1e-3  # elsewhere it is not


def test_leaving_out_is_the_cavity():
    problem = softmax_problem(8, 3)
    solution = multiclass_tap.solve(problem)
    loo = multiclass_tap.leave_one_out(problem, solution)
    own = loo.probability[np.arange(8), problem.t.astype(int)]
    np.testing.assert_allclose(np.exp(loo.log_density), own, atol=1e-6)
    np.testing.assert_allclose(loo.mean, solution.cavity.mean)
    refits = []
    for i in range(8):
        part = problem.without(i)
        without = multiclass_tap.solve(part)
        cross = np.delete(problem.gram[i], i)
        mean = cross @ without.alpha
        covariance = problem.gram[i, i] * np.eye(3) - without.correction.blocks(cross[:, None])[0]
        refits.append(problem.likelihood.log_partition(problem.t[i : i + 1], mean[None], covariance[None]).value[0])
    np.testing.assert_allclose(loo.log_density, refits, atol=0.08)  # cavities do not know how the others would react
    assert np.abs(loo.log_density + np.log(3.0)).max() > 0.8


def test_a_warm_start_leads_to_the_same_place_sooner():
    problem = softmax_problem(10, 3)
    cold = multiclass_tap.solve(problem)
    warm = multiclass_tap.solve(problem, start=cold)
    assert warm.info.n_iterations < cold.info.n_iterations / 3
    np.testing.assert_allclose(warm.alpha, cold.alpha, atol=1e-7)


def test_wide_priors_are_solved():
    """Whole steps would overshoot here."""
    problem = softmax_problem(25, 3, variance=100.0)
    assert multiclass_tap.solve(problem).info.residual < 1e-8


def test_more_points_change_little():
    problem = softmax_problem(8, 4, variance=10.0)
    values = [MulticlassTap(points=q).solve(problem).evidence.value for q in (3, 6, 12, 16)]
    errors = np.abs(np.array(values[:3]) - values[3])
    assert errors[2] < 1e-3
    assert errors[2] < errors[1] < errors[0]


def test_what_it_refuses():
    problem = softmax_problem(5, 3)
    with pytest.raises(ValueError, match="solution of method 'tap'"):
        multiclass_tap.solve(problem, start=multiclass_laplace.solve(problem))
    with pytest.raises(MemoryError, match="StarTap"):
        check_class_memory(200_000, 6)
    gram = problem.gram.copy()
    gram[0] = gram[:, 0] = 0.0
    with pytest.raises(NotPositiveDefiniteError, match="case 0 is zero"):
        multiclass_tap.solve(bgp.Problem(gram, problem.t, problem.likelihood))
    with pytest.raises(bgp.ConvergenceError):
        multiclass_tap.solve(problem, Control(max_iterations=2))
