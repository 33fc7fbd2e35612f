"""The softmax likelihood: its integrals against brute force, its derivatives against differences."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_softmax, softmax

from bayesgp_mf import likelihoods
from bayesgp_mf.errors import ConvergenceError
from bayesgp_mf.likelihoods import Logit, Softmax, softmax_integral
from bayesgp_mf.likelihoods.softmax_integral import class_predictions, class_probabilities, log_class_density


def gaussians(n_classes: int, sd: float, n: int = 4, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Means and covariances like those of posteriors: independent classes, a common offset, and something besides."""
    rng = np.random.default_rng(seed)
    own = np.eye(n_classes) * rng.uniform(0.3, 1.0, (n, n_classes))[:, None, :]
    mixed = 0.4 * rng.standard_normal((n, n_classes, n_classes)) / np.sqrt(n_classes)
    covariance = sd**2 * (own + mixed @ np.swapaxes(mixed, 1, 2) + rng.uniform(0.0, 2.0, (n, 1, 1)))
    return sd * rng.standard_normal((n, n_classes)), covariance


def by_product_rule(mean: np.ndarray, covariance: np.ndarray, nodes: int = 80) -> np.ndarray:
    """Probabilities of three classes on a dense product of Gauss-Hermite rules over the two differences."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    difference = np.array([[-1.0, 1.0, 0.0], [-1.0, 0.0, 1.0]])
    root = np.linalg.cholesky(difference @ covariance @ difference.T)
    z = np.stack(np.meshgrid(x, x, indexing="ij"), axis=-1).reshape(-1, 2)
    f = np.column_stack([np.zeros(nodes**2), difference @ mean + z @ root.T])
    return np.outer(w, w).ravel() @ softmax(f, axis=1) / (2.0 * np.pi)


@pytest.mark.parametrize("sd", [0.1, 1.0, 2.5])
def test_three_classes_agree_with_a_dense_product_rule(sd):
    mean, covariance = gaussians(3, sd)
    found = class_probabilities(mean, covariance)
    expected = np.array([by_product_rule(m, c) for m, c in zip(mean, covariance, strict=True)])
    np.testing.assert_allclose(found, expected, atol=2e-5)


@pytest.mark.parametrize("n_classes", [4, 6, 9])
def test_more_classes_agree_with_draws(n_classes):
    mean, covariance = gaussians(n_classes, 2.0, n=2)
    found, rng = class_probabilities(mean, covariance), np.random.default_rng(1)
    for i in range(2):
        each = softmax(rng.multivariate_normal(mean[i], covariance[i], size=200_000), axis=1)
        error = each.std(axis=0) / np.sqrt(each.shape[0])
        assert np.all(np.abs(each.mean(axis=0) - found[i]) < 4.5 * error + 1e-4)
        assert np.any(np.abs(softmax(mean[i]) - found[i]) > 20 * error)  # at the mean itself it would be noticed
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-14)


def test_two_classes_are_those_of_logit():
    mean, covariance = gaussians(2, 3.0)
    difference = mean[:, 1] - mean[:, 0]
    variance = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
    t = np.array([0.0, 1.0, 1.0, 0.0])
    found = Softmax().log_partition(t, mean, covariance)
    expected = Logit().log_partition(2 * t - 1, difference, variance)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-13)
    np.testing.assert_allclose(found.d1[:, 1], expected.d1, rtol=1e-13)
    np.testing.assert_allclose(found.d1.sum(axis=1), 0.0, atol=1e-14)
    np.testing.assert_allclose(found.d2[:, 0, 1], -expected.d2, rtol=1e-13)
    np.testing.assert_allclose(class_probabilities(mean, covariance)[:, 1], Logit().predict_proba(difference, variance))


def test_without_variance_it_is_the_softmax_itself():
    mean, covariance = 5.0 * gaussians(5, 1.0)[0], np.zeros((4, 5, 5))
    t = np.array([0.0, 1.0, 2.0, 4.0])
    found, exact = Softmax().log_partition(t, mean, covariance), Softmax().log_prob(t, mean)
    for part in range(3):
        np.testing.assert_allclose(found[part], exact[part], rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(class_probabilities(mean, covariance), softmax(mean, axis=1), atol=1e-7)


def test_a_case_without_variance_may_stand_among_others():
    mean, covariance = gaussians(4, 2.0)
    alone = class_probabilities(mean, covariance)
    covariance[1] = 0.0  # as at the origin under a linear kernel
    found = class_probabilities(mean, covariance)
    np.testing.assert_allclose(found[1], softmax(mean[1]), atol=1e-7)
    np.testing.assert_allclose(found[[0, 2, 3]], alone[[0, 2, 3]], atol=1e-7)


def test_a_common_offset_of_any_variance_changes_nothing():
    mean, covariance = gaussians(4, 1.5)
    shifted = class_probabilities(mean + 7.0, covariance + 30.0)
    np.testing.assert_allclose(shifted, class_probabilities(mean, covariance), atol=1e-6)


def test_the_order_of_the_classes_does_not_matter():
    mean, covariance = gaussians(4, 1.5)
    order = np.array([2, 0, 3, 1])
    found = class_probabilities(mean[:, order], covariance[:, order][:, :, order])
    np.testing.assert_allclose(found, class_probabilities(mean, covariance)[:, order], atol=1e-4)


@pytest.mark.parametrize("n_classes", [3, 5])
def test_derivatives_are_those_of_differences(n_classes):
    mean, covariance = gaussians(n_classes, 1.5)
    t = np.array([0.0, 1.0, 2.0, 1.0])
    found, step = log_class_density(t, mean, covariance), 1e-3
    for c in range(n_classes):
        move = step * (np.arange(n_classes) == c)
        ahead, behind = (log_class_density(t, mean + sign * move, covariance) for sign in (1.0, -1.0))
        np.testing.assert_allclose((ahead.value - behind.value) / (2 * step), found.d1[:, c], atol=2e-5)
        np.testing.assert_allclose((ahead.d1 - behind.d1) / (2 * step), found.d2[:, :, c], atol=2e-5)
    assert np.max(np.abs(found.d1)) > 0.1  # there is something to compare


def test_heat_equation():
    """A derivative in the covariance is half a second derivative in the mean."""
    mean, covariance = gaussians(3, 1.0)
    t, step = np.array([0.0, 1.0, 2.0, 1.0]), 1e-3
    direction = np.outer([1.0, 0.5, -0.2], [1.0, 0.5, -0.2])
    ahead, behind = (log_class_density(t, mean, covariance + sign * step * direction).value for sign in (1.0, -1.0))
    _, d1, d2 = log_class_density(t, mean, covariance)
    expected = 0.5 * np.einsum("kcd,cd->k", d2 + d1[:, :, None] * d1[:, None, :], direction)
    np.testing.assert_allclose((ahead - behind) / (2 * step), expected, atol=1e-5)


@pytest.mark.parametrize("gap", [20.0, 60.0])
def test_an_unlikely_label_keeps_its_digits(gap):
    """With independent unit variances E pi_t is about exp(-gap + 1/2 + 1/2) / 2, by the log-normal mean."""
    mean = np.array([[-gap, 0.0, 0.0]])
    covariance = 0.01 * np.eye(3)[None]
    value = log_class_density(np.array([0.0]), mean, covariance).value[0]
    rng = np.random.default_rng(0)
    others = np.logaddexp.reduce(0.1 * rng.standard_normal((2, 100_000)), axis=0)
    expected = -gap + 0.005 + np.log(np.mean(np.exp(-others)))
    np.testing.assert_allclose(value, expected, atol=1e-3)


def test_dependent_classes_are_integrated_by_points(monkeypatch):
    """Where little is independent, Smolyak's levels give up and Sobol's points go on; both are right."""
    rng = np.random.default_rng(2)
    mixed = rng.standard_normal((1, 4, 2))
    mean, covariance = rng.standard_normal((1, 4)), mixed @ np.swapaxes(mixed, 1, 2) + 0.05 * np.eye(4)
    monkeypatch.setattr(softmax_integral, "LEVELS", 0)
    found = class_probabilities(mean, covariance)[0]
    each = softmax(rng.multivariate_normal(mean[0], covariance[0], size=200_000), axis=1)
    assert np.all(np.abs(each.mean(axis=0) - found) < 4.5 * each.std(axis=0) / np.sqrt(each.shape[0]) + 1e-4)
    monkeypatch.setattr(softmax_integral, "LAST", softmax_integral.FIRST)
    with pytest.raises(ConvergenceError, match=r"probability of 1 cases \(the first is 0\).*less variance"):
        class_probabilities(mean, 100.0 * covariance)


def over_the_shared_part(mean, variance, shared, nodes):
    """Probabilities for the covariance diag(variance) + B B', over a dense product of Gauss-Hermite rules for z."""
    x, w = np.polynomial.hermite_e.hermegauss(nodes)
    z = np.stack(np.meshgrid(*[x] * shared.shape[1], indexing="ij"), axis=-1).reshape(-1, shared.shape[1])
    weights = np.stack(np.meshgrid(*[w / w.sum()] * shared.shape[1], indexing="ij"), axis=-1).reshape(z.shape)
    independent = np.broadcast_to(np.diag(variance), (len(z), mean.size, mean.size))
    return weights.prod(axis=1) @ class_probabilities(mean + z @ shared.T, independent)


@pytest.mark.parametrize("n_classes", [3, 4, 7])
@pytest.mark.parametrize("own", [0.0, 1e-6, 0.1, 3.0])
def test_a_part_that_classes_share_is_integrated(n_classes, own):
    rng = np.random.default_rng(0)
    mean, shared = rng.standard_normal((2, n_classes)), rng.standard_normal((2, n_classes, 2))
    variance = np.full(n_classes, own)
    found = class_probabilities(mean, shared @ np.swapaxes(shared, 1, 2) + np.diag(variance))
    for m, each, part in zip(mean, found, shared, strict=True):
        np.testing.assert_allclose(each, over_the_shared_part(m, variance, part, 30), atol=1e-4)
    independent = class_probabilities(mean, np.broadcast_to(np.diag(variance), (2, n_classes, n_classes)))
    assert np.abs(found - independent).max() > 1e-2  # the control


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("sds", "levels"),
    [((0.6, 0.6, 0.6), 3), ((0.8, 0.2, 0.05), 4), ((0.8, 0.8, 0.02), 3), ((0.3, 0.3, 0.3), 2), ((0.1, 0.1, 0.02), 2)],
    ids=str,
)
def test_a_few_sparse_rules_will_do_where_little_is_shared(sds, levels, seed, monkeypatch):
    """So few would not, were they not exact for their degree along each axis, or were more shared than has to be."""
    monkeypatch.setattr(softmax_integral, "ABSOLUTE", 1e-6)
    monkeypatch.setattr(softmax_integral, "LEVELS", levels)
    monkeypatch.setattr(softmax_integral, "FIRST", softmax_integral.LAST + 1)  # no points
    rng = np.random.default_rng(seed)
    mean, variance = rng.standard_normal(4), rng.uniform(2.0, 4.0, 4)
    shared = np.linalg.qr(rng.standard_normal((4, 3)))[0] * sds
    found = class_probabilities(mean[None], (np.diag(variance) + shared @ shared.T)[None])[0]
    np.testing.assert_allclose(found, over_the_shared_part(mean, variance, shared, 9), atol=5e-6)


def test_many_classes():
    rng = np.random.default_rng(0)
    mean, covariance = gaussians(20, 1.0, n=1)
    each = softmax(rng.multivariate_normal(mean[0], covariance[0], size=100_000), axis=1)
    found = class_probabilities(mean, covariance)[0]
    assert np.all(np.abs(each.mean(axis=0) - found) < 4.5 * each.std(axis=0) / np.sqrt(each.shape[0]) + 1e-4)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_covariance_is_refused(n_classes):
    covariance = np.ones((1, n_classes, n_classes)) - 2.0 * np.eye(n_classes)
    with pytest.raises(ArithmeticError, match="not positive semi-definite"):
        class_probabilities(np.zeros((1, n_classes)), covariance)
    with pytest.raises(ArithmeticError, match="not positive semi-definite"):
        class_probabilities(np.zeros((1, n_classes)), np.full((1, n_classes, n_classes), np.nan))


def test_predictions_are_both():
    mean, covariance = gaussians(5, 1.0)
    t = np.array([4.0, 0.0, 1.0, 2.0])
    log_density, probability = class_predictions(t, mean, covariance)
    np.testing.assert_allclose(log_density, log_class_density(t, mean, covariance).value, atol=3e-4)
    np.testing.assert_allclose(probability, class_probabilities(mean, covariance), atol=1e-4)


def test_log_prob_and_its_derivatives():
    rng, t = np.random.default_rng(0), np.array([0.0, 2.0])
    f, step = rng.standard_normal((3, 2, 4)), 1e-5
    value, d1, d2 = Softmax().log_prob(t, f)
    np.testing.assert_allclose(value[:, 1], log_softmax(f, axis=-1)[:, 1, 2])
    for c in range(4):
        move = step * (np.arange(4) == c)
        ahead, behind = (Softmax().log_prob(t, f + sign * move) for sign in (1.0, -1.0))
        np.testing.assert_allclose((ahead.value - behind.value) / (2 * step), d1[..., c], atol=1e-9)
        np.testing.assert_allclose((ahead.d1 - behind.d1) / (2 * step), d2[..., c], atol=1e-9)


def test_draws_have_the_probabilities():
    f = np.broadcast_to(np.array([0.0, 1.0, -1.0]), (50_000, 3))
    drawn = Softmax().sample(f, np.random.default_rng(0))
    share = np.bincount(drawn.astype(int), minlength=3) / drawn.size
    np.testing.assert_allclose(share, softmax([0.0, 1.0, -1.0]), atol=4 * 0.5 / np.sqrt(drawn.size))


def test_it_survives_its_description():
    for likelihood in (Softmax(), Softmax(("a", "b", "c"))):
        assert likelihoods.from_dict(likelihood.to_dict()) == likelihood
    assert Softmax(np.array([1, 2, 5])).to_dict()["classes"] == ["1", "2", "5"]


@pytest.mark.parametrize("classes", ["abc", 3, ("a",), ("a", "a"), (1, "1")])
def test_bad_classes_are_refused(classes):
    with pytest.raises(ValueError, match="classes must be"):
        Softmax(classes)
