"""The multinomial probit: its integrals against brute force, its derivatives against differences."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp
from scipy.integrate import quad
from scipy.special import log_ndtr
from scipy.stats import multivariate_normal, norm

from bayesgp_mf import likelihoods
from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.likelihoods import MultinomialProbit, Probit
from bayesgp_mf.likelihoods.one_factor import log_all_positive
from bayesgp_mf.likelihoods.star import star_precision
from tests.likelihoods.test_softmax import gaussians

STEP = 1e-5


def by_orthant(t: int, mean: np.ndarray, covariance: np.ndarray, noise: float, accuracy: float) -> float:
    """The probability that the latent value of t with its noise is the largest, by scipy's randomised lattice."""
    every = np.eye(mean.size)
    turn = every[t] - np.delete(every, t, axis=0)
    spread = turn @ (covariance + noise * every) @ turn.T
    return float(multivariate_normal.cdf(np.zeros(len(turn)), -turn @ mean, spread, maxpts=10**6, abseps=accuracy))


@pytest.mark.parametrize("noise", [0.0, 0.3, 1.0])
@pytest.mark.parametrize(("n_classes", "tolerance"), [(2, 1e-7), (3, 1e-7), (4, 2e-3), (6, 2e-3)])
def test_probabilities_are_those_of_the_largest(n_classes, tolerance, noise):
    mean, covariance = gaussians(n_classes, 1.5)
    found = MultinomialProbit(noise_variance=noise).predict_proba(mean, covariance)
    pairs = zip(mean, covariance, strict=True)
    expected = np.array([[by_orthant(c, m, s, noise, tolerance / 10.0) for c in range(n_classes)] for m, s in pairs])
    np.testing.assert_allclose(found, expected, atol=tolerance)
    np.testing.assert_allclose(found.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("n_classes", [2, 3, 5, 10])
def test_independent_classes_are_one_integral(n_classes):
    """Where the classes of a case are independent the integral is over the winner's value alone."""
    rng = np.random.default_rng(2)
    mean, variance = rng.standard_normal(n_classes) * 2.0, rng.uniform(0.5, 8.0, n_classes)
    covariance = np.diag(variance)[None]
    found = MultinomialProbit().predict_proba(mean[None], covariance)[0]
    sd = np.sqrt(variance + 1.0)
    for c in range(n_classes):
        others = np.delete(np.arange(n_classes), c)

        def integrand(f, c=c, others=others):
            return norm.pdf(f, mean[c], sd[c]) * np.exp(np.sum(log_ndtr((f - mean[others]) / sd[others])))

        points = np.sort([mean[c], *mean[others]])
        exact = quad(integrand, mean[c] - 12 * sd[c], mean[c] + 12 * sd[c], points=points, epsabs=1e-13, limit=400)[0]
        assert found[c] == pytest.approx(exact, abs=1e-11 if n_classes <= 3 else 2e-4)


def test_two_classes_are_those_of_probit():
    mean, covariance = gaussians(2, 3.0)
    difference = mean[:, 1] - mean[:, 0]
    variance = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
    t = np.array([0.0, 1.0, 1.0, 0.0])
    ours, binary = MultinomialProbit(noise_variance=0.7), Probit(1.4)
    found, expected = ours.log_partition(t, mean, covariance), binary.log_partition(2 * t - 1, difference, variance)
    np.testing.assert_allclose(found.value, expected.value, rtol=1e-13)
    np.testing.assert_allclose(found.d1[:, 1], expected.d1, rtol=1e-12)
    np.testing.assert_allclose(found.d2[:, 1, 1], expected.d2, rtol=1e-12)
    of_f, binary_f = ours.log_prob(t, mean), binary.log_prob(2 * t - 1, difference)
    np.testing.assert_allclose(of_f.value, binary_f.value, rtol=1e-12)
    np.testing.assert_allclose(of_f.d2[:, 1, 1], binary_f.d2, rtol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3, 4, 7])
@pytest.mark.parametrize("flip", [0.0, 0.2])
def test_derivatives_are_those_of_the_values(flip, n_classes):
    likelihood, (mean, covariance) = MultinomialProbit(None, 0.8, flip), gaussians(n_classes, 2.0, n=6)
    t = np.arange(6.0) % n_classes

    def of_latent(f):
        return likelihood.log_prob(t, f)

    for function in (of_latent, lambda f: likelihood.log_partition(t, f, covariance)):
        found = function(mean)
        assert np.all(np.linalg.eigvalsh(found.d2) < 1e-10) or flip > 0.0  # log-concave
        for c in range(n_classes):
            up, down = (function(mean + s * STEP * np.eye(n_classes)[c]) for s in (1.0, -1.0))
            np.testing.assert_allclose(found.d1[:, c], (up.value - down.value) / (2 * STEP), atol=1e-8)
            if function is of_latent or n_classes <= 3:  # of more, d2 is that of the Gaussian approximation
                np.testing.assert_allclose(found.d2[:, c], (up.d1 - down.d1) / (2 * STEP), atol=1e-8)
            assert np.abs(found.d1[:, c] - (up.value - down.value) / (1.9 * STEP)).max() > 1e-4  # it can fail


def test_permuting_the_classes_permutes_what_is_said():
    likelihood, (mean, covariance), order = MultinomialProbit(), gaussians(5, 2.0), np.array([3, 0, 4, 1, 2])
    t, back = np.array([0.0, 1.0, 2.0, 4.0]), np.argsort(order)
    found = likelihood.star_sites(t, mean, covariance)
    other = likelihood.star_sites(back[t.astype(int)].astype(float), mean[:, order], covariance[:, order][:, :, order])
    np.testing.assert_allclose(other.log_partition, found.log_partition, atol=1e-9)
    np.testing.assert_allclose(other.gradient, found.gradient[:, order], atol=1e-8)
    np.testing.assert_allclose(other.weight, found.weight[:, order], atol=1e-8)


def test_sites_are_the_same_from_those_at_gaussians_nearby():
    likelihood, (mean, covariance), t = MultinomialProbit(), gaussians(5, 2.0), np.array([0.0, 1.0, 2.0, 4.0])
    found, near = (likelihood.star_sites(t, mean + shift, covariance) for shift in (0.0, 0.1 * np.eye(5)[0]))
    again = likelihood.star_sites(t, mean, covariance, start=near.inner)
    np.testing.assert_allclose(again.log_partition, found.log_partition, atol=1e-11)
    np.testing.assert_allclose(again.weight, found.weight, atol=1e-9)
    rough = likelihood.star_sites(t, mean, covariance, start=near.inner._replace(tolerance=0.5))
    assert 1e-9 < np.abs(rough.weight - found.weight).max() < 0.1


def test_unlikely_labels_keep_their_digits():
    mean, covariance = np.array([[-60.0, 0.0, 1.0]]), np.diag([2.0, 1.0, 0.5])[None]
    found = MultinomialProbit().log_partition(np.zeros(1), mean, covariance)

    mp.dps = 30

    def integrand(f):  # variances with the noise: 3, and 2 and 1.5 of those below
        return mp.npdf(f, -60, mp.sqrt(3)) * mp.ncdf(f / mp.sqrt(2)) * mp.ncdf((f - 1) / mp.sqrt(1.5))

    exact = mp.log(mp.quad(integrand, np.arange(-60.0, 20.0, 0.5).tolist()))
    assert found.value[0] == pytest.approx(float(exact), rel=1e-11)
    assert found.value[0] < -400.0
    assert np.all(np.isfinite(found.d1))
    assert np.all(np.isfinite(found.d2))


def test_both_ways_to_a_probability_of_two_agree():
    """By Owen's T where it is likely, by quadrature where it is not: the quadrature is right for both."""
    rng = np.random.default_rng(3)
    h, loading = rng.normal(0.0, 2.0, (300, 2)), rng.uniform(-0.95, 0.95, (300, 2))
    correlation = loading[:, 0] * loading[:, 1]
    found = np.exp(log_all_positive(h, loading))
    expected = [
        multivariate_normal.cdf([0.0, 0.0], -at, [[1.0, r], [r, 1.0]]) for at, r in zip(h, correlation, strict=True)
    ]
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("noise", [0.0, 0.3])
def test_opposed_labels_are_no_more_likely_than_it_is_said(noise):
    rng, likelihood = np.random.default_rng(5), MultinomialProbit(noise_variance=noise)
    for apart in (1e-3, 0.1, 1.0, 3.0):
        for mean in 1.5 * rng.standard_normal((6, 2)):
            mean[1] = mean[0] + 0.5 * apart * mean[1]
            covariance = np.full((2, 2), 2.0) + np.diag([0.0, apart**2])
            ends = np.array([1.0, -1.0])  # above zero at one case, below at the other
            spread = (covariance + 2.0 * noise * np.eye(2)) * np.outer(ends, ends)
            exact = multivariate_normal(np.zeros(2), spread, allow_singular=True).cdf(mean * ends)
            (bound,) = likelihood.opposed_at_most(mean[None], covariance[None])
            assert exact - 1e-7 <= bound <= 1.0
    # of two cases that are nearly the same it is the angle between them over a whole turn
    for apart in (1e-3, 1e-5):
        near = np.full((2, 2), 2.0) + np.diag([0.0, apart**2])
        angle = np.arctan2(apart, np.sqrt(2.0))
        assert MultinomialProbit(noise_variance=0.0).opposed_at_most(np.zeros((1, 2)), near[None]) == pytest.approx(
            angle / (2.0 * np.pi), rel=1e-3
        )
    opposite = np.array([[2.0, -1.0], [-1.0, 2.0]])
    np.testing.assert_array_equal(likelihood.opposed_at_most(np.zeros((1, 2)), opposite[None]), 1.0)


def test_two_differences_that_are_one_are_refused():
    same = np.diag([3.0, 0.0, 0.0])  # of classes 1 and 2 all is known, and sqrt(3)^2 is less than 3
    with pytest.raises(NotPositiveDefiniteError, match="no positive-definite covariance"):
        MultinomialProbit(noise_variance=0.0).log_partition(np.zeros(1), np.zeros((1, 3)), same[None])


def test_the_largest_of_noisy_values_is_drawn():
    likelihood, f = MultinomialProbit(noise_variance=2.0), np.array([0.5, 0.0, -1.0, 0.2])
    draws = likelihood.sample(np.broadcast_to(f, (200_000, 4)), np.random.default_rng(1))
    share = np.bincount(draws.astype(int), minlength=4) / draws.size
    expected = [np.exp(likelihood.log_density(np.array([c]), f[None]))[0] for c in range(4)]
    np.testing.assert_allclose(share, expected, atol=5e-3)
    assert np.sum(expected) == pytest.approx(1.0, abs=1e-12)


def test_it_is_saved_and_made_again():
    likelihood = MultinomialProbit(("a", "b", "c"), noise_variance=0.5)
    assert likelihoods.from_dict(likelihood.to_dict()) == likelihood
    assert likelihoods.from_dict(MultinomialProbit().to_dict()) == MultinomialProbit()


@pytest.mark.parametrize("noise", [-1.0, np.nan, "much", "1.0", True])
def test_noise_must_be_a_variance(noise):
    with pytest.raises(ValueError, match="noise_variance must be"):
        MultinomialProbit(noise_variance=noise)


def test_without_noise_the_largest_value_names_the_label():
    likelihood, f = MultinomialProbit(noise_variance=0.0), np.array([[1.0, 3.0, 2.0], [2.0, -1.0, 2.0]])
    found = [np.exp(likelihood.log_density(np.full(2, c), f)) for c in range(3)]
    np.testing.assert_array_equal(np.transpose(found), [[0.0, 1.0, 0.0], [0.5, 0.0, 0.5]])
    np.testing.assert_array_equal(likelihood.log_prob(np.zeros(2), f).d1, 0.0)
    assert likelihood.sample(f[:1], np.random.default_rng(0)) == [1.0]
    assert likelihood.forbids
    assert not MultinomialProbit().forbids
    with pytest.raises(ValueError, match="no star form"):
        likelihood.star_sites(np.zeros(1), np.zeros((1, 3)), np.eye(3)[None])


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_matrix_sites_of_noise_are_those_of_stars(n_classes):
    likelihood, (mean, covariance) = MultinomialProbit(noise_variance=0.6), gaussians(n_classes, 1.0)
    t = np.arange(4.0) % n_classes
    stars, found = (ask(t, mean, covariance) for ask in (likelihood.star_sites, likelihood.matrix_sites))
    np.testing.assert_allclose(found.precision, star_precision(stars.weight), atol=1e-9)
    np.testing.assert_allclose(found.gradient, stars.gradient)


@pytest.mark.parametrize("noise_variance", [0.0, 0.8])
@pytest.mark.parametrize("n_classes", [2, 3, 4])
def test_the_derivative_in_flips_is_that_of_the_values(n_classes, noise_variance):
    (mean, covariance), t = gaussians(n_classes, 2.0), np.arange(4.0) % n_classes
    found = MultinomialProbit(None, noise_variance, 0.2).parameter_derivative("flip", t, mean, covariance)
    up, down = (
        MultinomialProbit(None, noise_variance, 0.2 + s).log_partition(t, mean, covariance) for s in (STEP, -STEP)
    )
    for slope, more, less in zip(found, up, down, strict=True):
        np.testing.assert_allclose(slope, (more - less) / (2 * STEP), rtol=1e-7, atol=1e-8)
        assert np.abs(slope - (more - less) / (1.9 * STEP)).max() > 1e-4  # it can fail


def test_a_flipped_label_is_any_other_as_often():
    likelihood, plain = MultinomialProbit(None, 2.0, 0.3), MultinomialProbit(None, 2.0)
    f = np.array([[0.5, 0.0, -1.0, 0.2]])
    each, unflipped = (
        np.exp([kind.log_density(np.array([c]), f)[0] for c in range(4)]) for kind in (likelihood, plain)
    )
    np.testing.assert_allclose(each, 0.7 * unflipped + 0.1 * (1.0 - unflipped), rtol=1e-12)
    draws = likelihood.sample(np.broadcast_to(f[0], (200_000, 4)), np.random.default_rng(1))
    np.testing.assert_allclose(np.bincount(draws.astype(int), minlength=4) / draws.size, each, atol=5e-3)
    mean, covariance = gaussians(4, 1.0)
    expected = 0.7 * plain.predict_proba(mean, covariance) + 0.1 * (1.0 - plain.predict_proba(mean, covariance))
    np.testing.assert_allclose(likelihood.predict_proba(mean, covariance), expected, atol=1e-12)
    assert likelihoods.from_dict(likelihood.to_dict()) == likelihood
    assert not likelihood.log_concave
    assert not MultinomialProbit(None, 0.0, 0.1).forbids


@pytest.mark.parametrize("flip", [-0.1, 0.5, 2, np.nan, "some"])
def test_flips_are_a_probability_below_one_half(flip):
    with pytest.raises(ValueError, match=r"flip must be a probability in \[0, 0.5\).* most labels would be wrong"):
        MultinomialProbit(flip=flip)


def test_flips_of_two_classes_are_those_of_probit():
    mean, covariance = gaussians(2, 3.0)
    variance = covariance[:, 0, 0] + covariance[:, 1, 1] - 2 * covariance[:, 0, 1]
    at, t = (mean[:, 1] - mean[:, 0], variance), np.array([0.0, 1.0, 1.0, 0.0])
    ours, binary = MultinomialProbit(None, 0.7, 0.1), Probit(1.4, 0.1)
    for found, expected in (
        (ours.log_partition(t, mean, covariance), binary.log_partition(2 * t - 1, *at)),
        (ours.parameter_derivative("flip", t, mean, covariance), binary.parameter_derivative("flip", 2 * t - 1, *at)),
    ):
        np.testing.assert_allclose(found.value, expected.value, rtol=1e-12)
        np.testing.assert_allclose(found.d1[:, 1], expected.d1, rtol=1e-10)
        np.testing.assert_allclose(found.d2[:, 1, 1], expected.d2, rtol=1e-10)
