from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, log_softmax, ndtri, softmax
from scipy.stats import qmc

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.likelihoods import Logit
from bayesgp_mf.likelihoods.logistic_normal import COARSE, discretise, gauss_rule, mode
from bayesgp_mf.likelihoods.softmax_integral import contrast_basis
from bayesgp_mf.likelihoods.softmax_tilted import (
    check_number_of_classes,
    log_partition,
    tilted,
    tilted_probabilities,
)


def gaussians(n, n_classes, scale, seed=0):
    """Means and correlated covariances, of a size at which labels are surprising."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal((n, n_classes, n_classes + 2))
    covariance = scale * (0.5 * np.eye(n_classes) + 0.5 * factor @ np.swapaxes(factor, 1, 2) / (n_classes + 2))
    t = rng.integers(0, n_classes, n).astype(float)
    return t, np.sqrt(scale) * rng.standard_normal((n, n_classes)), covariance


def brute_force(t, mean, covariance, log2_points=17):
    """Z, and the tilted mean and covariance, by Sobol's points under the Gaussian itself."""
    z = ndtri(qmc.Sobol(mean.size, scramble=True, seed=1).random_base2(log2_points))
    f = mean + z @ np.linalg.cholesky(covariance).T
    weight = np.exp(log_softmax(f, axis=1)[:, int(t)])
    value = np.log(weight.mean())
    weight /= weight.sum()
    centre = weight @ f
    return value, centre, (weight[:, None] * (f - centre)).T @ (f - centre)


@pytest.mark.parametrize("scale", [0.1, 3.0, 40.0])
@pytest.mark.parametrize(("n_classes", "tolerance"), [(3, 2e-3), (4, 3e-3), (6, 1e-2)])
def test_moments_are_those_of_brute_force(n_classes, tolerance, scale):
    t, mean, covariance = gaussians(4, n_classes, scale)
    basis = contrast_basis(n_classes)
    centre, inner = mean @ basis, basis.T @ covariance @ basis
    found = tilted(t, centre, inner)
    for i in range(t.size):
        value, tilted_mean, tilted_covariance = brute_force(t[i], mean[i], covariance[i])
        assert found.log_partition[i] == pytest.approx(value, abs=tolerance)
        ours = centre[i] + inner[i] @ found.gradient[i]
        np.testing.assert_allclose(ours, tilted_mean @ basis, atol=tolerance * np.sqrt(scale))
        ours = np.linalg.inv(np.linalg.inv(inner[i]) + found.precision[i])
        np.testing.assert_allclose(ours, basis.T @ tilted_covariance @ basis, atol=3 * tolerance * scale)


@pytest.mark.parametrize("scale", [1e-4, 1.0, 100.0, 1e4])
def test_two_classes_are_the_logistic_likelihood(scale):
    t, mean, covariance = gaussians(30, 2, scale)
    basis = contrast_basis(2)
    inner = basis.T @ covariance @ basis
    found = tilted(t, mean @ basis, inner)
    variance = 2.0 * inner[:, 0, 0]
    exact = Logit().log_partition(2.0 * t - 1.0, mean[:, 1] - mean[:, 0], variance)
    np.testing.assert_allclose(found.log_partition, exact.value, rtol=1e-8, atol=1e-12)
    difference = np.array([-1.0, 1.0]) @ basis
    np.testing.assert_allclose(found.gradient[:, 0], exact.d1 * difference, rtol=1e-6)
    # of the difference of two values, whose precision is half that of the contrast
    expected = -exact.d2 / (1.0 + variance * exact.d2)
    np.testing.assert_allclose(0.5 * found.precision[:, 0, 0], expected, rtol=1e-5)


@pytest.mark.parametrize("scale", [1e8, 1e12, 1e26, 1e40])
def test_two_classes_are_the_logistic_likelihood_however_wide(scale):
    """One case needs more points than another, which is solved in the same call."""
    t, mean, covariance = gaussians(12, 2, scale)
    covariance[6:] /= np.sqrt(scale)
    mean[3] *= np.sqrt(scale)
    mean[:2, 0], mean[:2, 1], t[:2] = 0.0, -2.0 * scale, 1.0  # far beyond: the label all but contradicts the mean
    basis = contrast_basis(2)
    inner = basis.T @ covariance @ basis
    found = tilted(t, mean @ basis, inner)
    exact = Logit().log_partition(2.0 * t - 1.0, mean[:, 1] - mean[:, 0], 2.0 * inner[:, 0, 0])
    np.testing.assert_allclose(found.log_partition, exact.value, rtol=1e-11, atol=1e-15)
    by_sd = np.sqrt(inner[:, 0, 0])
    expected = exact.d1 * (np.array([-1.0, 1.0]) @ basis)
    np.testing.assert_allclose(by_sd * found.gradient[:, 0], by_sd * expected, rtol=1e-11, atol=1e-14)


@pytest.mark.parametrize("scale", [1e5, 1e8, 1e12])
def test_three_classes_need_more_points_where_latent_values_are_wide(scale):
    _, mean, covariance = gaussians(8, 3, scale)
    basis = contrast_basis(3)
    centre, inner = mean @ basis, basis.T @ covariance @ basis
    each = [log_partition(np.full(8, c), centre, inner) for c in range(3)]
    np.testing.assert_allclose(np.exp(each).sum(axis=0), 1.0, atol=1e-4)


def test_more_points_are_better_and_many_are_exact():
    t, mean, covariance = gaussians(5, 3, 4.0)
    basis = contrast_basis(3)
    value = {q: log_partition(t, mean @ basis, basis.T @ covariance @ basis, q) for q in (2, 4, 8, 32, 48)}
    errors = [np.abs(value[q] - value[48]).max() for q in (2, 4, 8, 32)]
    assert errors == sorted(errors, reverse=True)
    assert errors[0] > 1e-3
    assert errors[-1] < 1e-7


def test_gradient_is_that_of_the_integral():
    t, mean, covariance = gaussians(6, 3, 4.0)
    basis = contrast_basis(3)
    centre, inner, step = mean @ basis, basis.T @ covariance @ basis, 1e-5
    found = tilted(t, centre, inner)
    for a in range(2):
        move = step * np.eye(2)[a]
        slope = (log_partition(t, centre + move, inner) - log_partition(t, centre - move, inner)) / (2.0 * step)
        np.testing.assert_allclose(found.gradient[:, a], slope, atol=1e-6)
        wrong = (log_partition(t, centre + move, 1.1 * inner) - log_partition(t, centre - move, 1.1 * inner)) / (
            2.0 * step
        )
        assert np.abs(found.gradient[:, a] - wrong).max() > 1e-4  # the comparison can fail


@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_probabilities_sum_to_one_before_they_are_made_to(n_classes):
    _, mean, covariance = gaussians(6, n_classes, 5.0)
    basis = contrast_basis(n_classes)
    each = [log_partition(np.full(6, c), mean @ basis, basis.T @ covariance @ basis) for c in range(n_classes)]
    probability = np.exp(np.stack(each, axis=1))
    np.testing.assert_allclose(probability.sum(axis=1), 1.0, atol={2: 1e-10, 3: 1e-6, 6: 5e-3}[n_classes])
    np.testing.assert_allclose(tilted_probabilities(mean, covariance), probability, atol=5e-3)


def test_without_variance_the_probability_is_the_softmax():
    mean = np.array([[0.3, -1.0, 2.0, 0.1]])
    np.testing.assert_allclose(tilted_probabilities(mean, 1e-10 * np.eye(4)[None]), softmax(mean, axis=1), atol=1e-8)


def test_a_label_makes_certain_even_where_it_surprises():
    t, mean, covariance = gaussians(20, 5, 30.0)
    basis = contrast_basis(5)
    found = tilted(t, mean @ basis, basis.T @ covariance @ basis, 3)
    assert np.linalg.eigvalsh(found.precision).min() >= -1e-12


def test_a_case_without_variance_is_refused():
    with pytest.raises(NotPositiveDefiniteError, match="no positive-definite covariance"):
        tilted(np.zeros(1), np.zeros((1, 2)), np.zeros((1, 2, 2)))


@pytest.mark.parametrize(("c", "s"), [(0.0, 1.0), (-30.0, 2.0), (4.0, 50.0), (-200.0, 20.0), (300.0, 5.0)])
def test_gauss_rule_has_the_moments_of_its_density(c, s):
    density = discretise(np.array([c]), np.array([s**2]), COARSE[0][1])
    nodes, weights = gauss_rule(density, 5)
    assert density.log_integral == pytest.approx(
        Logit().log_partition(np.ones(1), np.array([c]), np.array([s**2])).value, rel=1e-9, abs=1e-12
    )
    centre = np.sum(density.weight * density.x)
    for power in range(10):
        exact = np.sum(density.weight * (density.x - centre) ** power)
        spread = np.sum(density.weight * np.abs(density.x - centre) ** power)
        assert np.sum(weights * (nodes - centre) ** power) == pytest.approx(exact, abs=1e-9 * spread)
    beyond = np.sum(density.weight * (density.x - centre) ** 10)
    assert np.sum(weights * (nodes - centre) ** 10) < 0.999 * beyond  # and no more than it promises


@pytest.mark.parametrize("n_classes", [3, 4, 6])
@pytest.mark.parametrize("scale", [10.0, 100.0])
def test_the_integral_is_a_smooth_function(n_classes, scale):
    """Second differences over steps of 1e-9 are rounding: no node jumps, also of labels that surprise."""
    t, mean, covariance = gaussians({3: 150, 4: 150, 6: 20}[n_classes], n_classes, scale, seed=5)
    basis = contrast_basis(n_classes)
    centre, inner = mean @ basis, basis.T @ covariance @ basis
    value = [log_partition(t, centre + 1e-9 * k, inner * (1.0 + 1e-9 * k)) for k in range(3)]
    assert np.abs(np.diff(value, 2, axis=0)).max() < 1e-12
    assert np.abs(np.diff(value, axis=0)).max() > 1e-11  # it was moved


def test_three_classes_are_integrated_to_full_accuracy():
    _, mean, covariance = gaussians(60, 3, 100.0)
    basis = contrast_basis(3)
    centre, inner = mean @ basis, basis.T @ covariance @ basis
    each = [log_partition(np.full(60, c), centre, inner) for c in range(3)]
    np.testing.assert_allclose(np.exp(each).sum(axis=0), 1.0, atol=1e-8)


@pytest.mark.parametrize("s", [0.01, 1.0, 7.6, 50.0, 1e4])
def test_the_grid_is_around_the_mode(s):
    c = s * np.concatenate([np.linspace(-4.0, 4.0, 41), [-100.0, 100.0]])
    x = (mode(c, np.full(c.shape, s**2)) - c) / s
    np.testing.assert_allclose(x, s * expit(-(c + s * x)), rtol=1e-7, atol=1e-13 * (1.0 + s**2))
    for sign in (-1.0, 1.0):  # the slope of the log density changes its sign there
        beyond = x + sign * 1e-6 * (1.0 + s)
        assert np.all(sign * (beyond - s * expit(-(c + s * beyond))) > 0)


def test_many_classes_are_refused():
    with pytest.raises(
        ValueError, match=r"beyond 10 classes under a softmax, and there are 11.*MultinomialProbit.*laplace"
    ):
        check_number_of_classes(11)
    check_number_of_classes(10)
