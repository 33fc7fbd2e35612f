"""The correction of several classes on a root: the dense one of the same Gram matrix, with fewer operations."""

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods.star import star_precision, star_root
from bayesgp_mf.matrices.inducing import inducing_gram
from bayesgp_mf.matrices.low_rank import LowRankGram
from bayesgp_mf.multiclass.correction import SoftmaxCorrection, case_covariances, prior_variance
from bayesgp_mf.multiclass.low_rank import RootClassCorrection
from bayesgp_mf.multiclass.site_form import StarForm

N, RANK, NEW = 40, 7, 5


def problem(n_classes, variance=1.0, weights=(-2.0, 1.0), seed=0, own=True):
    """Return a Gram matrix on inducing cases, or its shared part, weights of sites, and features of new cases."""
    rng = np.random.default_rng(seed)
    X, X_new = rng.normal(size=(N, 2)), rng.normal(size=(NEW, 2))
    kernel = bgp.kernels.Gaussian(1.0, variance)
    gram = inducing_gram(kernel, X, X[:RANK])
    features = gram.features(kernel, X, X_new)
    weight = 10.0 ** rng.uniform(*weights, size=(N, n_classes))
    return gram if own else LowRankGram(gram.root, np.empty(0, dtype=int), 0.0), weight, features


def within(found, expected, tolerance):
    """Assert that two arrays differ by little, in units of the largest entry."""
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * np.max(np.abs(expected)))


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize("n_classes", [2, 3, 6])
def test_everything_is_that_of_the_dense_correction(n_classes, own):
    gram, weight, features = problem(n_classes, own=own)
    found, expected = RootClassCorrection(gram, StarForm(weight)), SoftmaxCorrection(gram.dense(), StarForm(weight))
    rng = np.random.default_rng(1)
    values, cross = rng.normal(size=(3, N, n_classes)), gram.root @ features
    assert found.form == gram.form
    assert abs(found.log_det - expected.log_det) < 1e-10
    for name in ("weights", "multiply"):
        within(getattr(found, name)(values), getattr(expected, name)(values), 1e-12)
        within(getattr(found, name)(values[0]), getattr(expected, name)(values)[0], 1e-12)
    alpha, latent = found.posterior(values[0])
    within(alpha, expected.weights(values[0]), 1e-12)
    within(latent, gram.dense() @ alpha, 1e-12)
    within(found.blocks(features), expected.blocks(cross), 1e-12)
    within(found.dense(), expected.dense(), 1e-12)
    within(found.site.precision, expected.site.precision, 1e-15)
    prior = prior_variance(gram.dense(), n_classes)
    within(found.covariances(), case_covariances(expected, prior, gram.dense()), 1e-11)


@pytest.mark.parametrize("weights", [(-12.0, 3.0), (0.0, 3.0), (-12.0, -6.0)])
@pytest.mark.parametrize("variance", [1.0, 1e4])
def test_wide_priors_and_sites_of_every_strength_keep_their_digits(variance, weights):
    for seed in range(3):
        gram, weight, _ = problem(5, variance, weights, seed)
        found, expected = RootClassCorrection(gram, StarForm(weight)), SoftmaxCorrection(gram.dense(), StarForm(weight))
        assert abs(found.log_det - expected.log_det) < 1e-10 * max(1.0, abs(expected.log_det))
        assert found.rounding < 1e-8
        values = np.random.default_rng(1).normal(size=(N, 5))
        within(found.multiply(values), expected.multiply(values), 1e-10)
        within(found.weights(values), expected.weights(values), 1e-10)
        prior = prior_variance(gram.dense(), 5)
        own = np.einsum("icc->ic", found.covariances())
        np.testing.assert_allclose(
            found.covariances(),
            case_covariances(expected, prior, gram.dense()),
            rtol=0,
            atol=1e-10 * variance,
        )
        assert np.all(own > 0)


def test_a_common_offset_of_the_classes_stays_as_it_is_in_the_prior():
    gram, weight, _ = problem(4, 100.0)
    correction = RootClassCorrection(gram, StarForm(weight))
    ones = np.ones((N, 4))
    within(correction.multiply(ones) + 1.0, ones, 1e-12)  # R 1 = 0
    common = np.einsum("icd->i", correction.covariances()) / 4
    within(common, gram.diagonal(), 1e-12)


def test_classes_change_places_with_their_weights():
    gram, weight, features = problem(4)
    order = [2, 0, 3, 1]
    found, other = RootClassCorrection(gram, StarForm(weight)), RootClassCorrection(gram, StarForm(weight[:, order]))
    within(other.blocks(features), found.blocks(features)[:, order][:, :, order], 1e-12)
    within(other.covariances(), found.covariances()[:, order][:, :, order], 1e-12)
    assert abs(found.log_det - other.log_det) < 1e-11


def test_sites_that_overflow_are_named():
    gram, weight, _ = problem(3, 1e4)
    with pytest.raises(bgp.NotPositiveDefiniteError, match="too strong to be added up"):
        RootClassCorrection(LowRankGram(gram.root * 1e150, np.arange(RANK), 0.0), StarForm(weight * 1e20)).log_det  # noqa: B018


def test_a_site_is_the_square_of_its_root():
    _, weight, _ = problem(5, weights=(-12.0, 3.0))
    root = star_root(weight)
    scale = np.sqrt(weight[:, :, None] * weight[:, None, :])
    np.testing.assert_allclose(root @ np.swapaxes(root, 1, 2) / scale, star_precision(weight) / scale, atol=1e-14)
    np.testing.assert_allclose(root.sum(axis=1) / np.sqrt(weight.max(axis=1))[:, None], 0.0, atol=1e-14)
