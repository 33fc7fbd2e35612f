"""Cumulants of tilted distributions against integrals of many digits, and the Gauss rules that moments make."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian, Quadrature
from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.likelihoods.cumulants import tilted_cumulants
from bayesgp_mf.likelihoods.moments import from_moments, gauss_rule, to_moments

ORDER = 7
MEAN = np.array([-6.0, -1.0, 0.0, 0.3, 4.0, 1.0])
VARIANCE = np.array([0.1, 2.0, 1.0, 30.0, 1e-3, 1e4])
T = np.array([1.0, 1.0, -1.0, 1.0, 1.0, -1.0])


def exact(t, mean, variance, noise=1.0, flip=0.0, order=ORDER):
    """Return those of a probit from derivatives of log Z, in 60 digits: c_l = variance^l d^l log Z / d mean^l."""
    with mpmath.workdps(60):
        scale = mpmath.sqrt(mpmath.mpf(variance) + mpmath.mpf(noise))
        flip, t, variance = mpmath.mpf(flip), int(t), mpmath.mpf(variance)
        # differences in units of the scale, so that they are as good wherever it lies
        series = mpmath.taylor(
            lambda z: mpmath.log(flip + (1 - 2 * flip) * mpmath.ncdf(t * z)), mpmath.mpf(mean) / scale, order
        )
        found = [mpmath.factorial(k) * value * (variance / scale) ** k for k, value in enumerate(series)]
        sd = mpmath.sqrt(variance + found[2])
        return [float(found[k] / sd**k) for k in range(3, order + 1)]


@pytest.mark.parametrize(("noise", "flip"), [(1.0, 0.0), (0.3, 0.1), (0.0, 0.0), (0.0, 0.02)])
def test_cumulants_of_a_probit(noise, flip):
    likelihood = bgp.Probit(noise, flip) if noise else bgp.Step(flip)
    found = tilted_cumulants(likelihood, T, MEAN, VARIANCE, ORDER)
    expected = np.transpose([exact(*case, noise, flip) for case in zip(T, MEAN, VARIANCE, strict=True)])
    assert found.shape == (ORDER - 2, T.size)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("flip", [0.0, 1e-6, 0.1])
def test_they_hold_in_the_tails(flip):
    mean, t = np.repeat([-60.0, -20.0, -8.0, -3.0, -1.9, 9.0, 50.0], 2), np.tile([1.0, -1.0], 7)
    found = tilted_cumulants(bgp.Probit(flip=flip), t, mean, np.full(14, 1.5), ORDER)
    expected = np.transpose([exact(*case, 1.5, 1.0, flip) for case in zip(t, mean, strict=True)])
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)


def test_a_label_far_from_what_the_others_say_leaves_an_exponential_distribution():
    """Beyond a threshold far in its tail a Gaussian is one, whose l-th cumulant is (l - 1)!."""
    found = tilted_cumulants(bgp.Step(), np.ones(1), np.array([-1e4]), np.ones(1), ORDER)
    np.testing.assert_allclose(found[:, 0], [2.0, 6.0, 24.0, 120.0, 720.0], rtol=1e-5)


def test_a_step_without_other_information_leaves_half_a_gaussian():
    """Skewness sqrt(2) (4 - pi) / (pi - 2)^(3/2), excess kurtosis 8 (pi - 3) / (pi - 2)^2."""
    t, variance = np.array([1.0, -1.0]), np.array([0.2, 50.0])
    found = tilted_cumulants(bgp.Step(), t, np.zeros(2), variance, 4)
    np.testing.assert_allclose(found[0], t * np.sqrt(2) * (4 - np.pi) / (np.pi - 2) ** 1.5, rtol=1e-12)
    np.testing.assert_allclose(found[1], 8 * (np.pi - 3) / (np.pi - 2) ** 2, rtol=1e-12)


def unstated(likelihood):
    """Return a likelihood without a closed form of its cumulants."""
    names = ("targets", "forbids", "log_concave", "log_prob", "log_partition", "predict_proba", "sample")
    return type("Unstated", (Likelihood,), {name: getattr(likelihood, name) for name in names})()


def test_without_a_closed_form_they_are_integrated():
    likelihood = bgp.Probit(0.4, 0.05)
    closed = tilted_cumulants(likelihood, T, MEAN, VARIANCE, ORDER)
    integrated = tilted_cumulants(unstated(likelihood), T, MEAN, VARIANCE, ORDER)
    np.testing.assert_allclose(integrated, closed, rtol=1e-6, atol=1e-7)


def test_cumulants_of_a_logit_and_of_counts():
    counts = Quadrature(lambda t, f: t * f - np.exp(np.minimum(f, 700.0)), targets="real")
    t, mean, variance = np.array([1.0, -1.0, 1.0]), np.array([-3.0, 0.2, 1.0]), np.array([0.5, 4.0, 9.0])
    for likelihood, log_density in (
        (bgp.Logit(), lambda t, f: -mpmath.log(1 + mpmath.exp(-t * f))),
        (counts, lambda t, f: t * f - mpmath.exp(f)),
    ):
        found = tilted_cumulants(likelihood, t, mean, variance, 5)
        for k in range(t.size):
            np.testing.assert_allclose(found[:, k], integrals(log_density, t[k], mean[k], variance[k]), rtol=1e-7)


def integrals(log_density, t, mean, variance):
    """Return cumulants 3 to 5 from integrals on a fine grid, in units of the standard deviation."""
    with mpmath.workdps(30):
        sd = mpmath.sqrt(variance)
        grid = [mpmath.mpf(k) / 16 for k in range(-16 * 14, 16 * 14 + 1)]  # trapezoidal: exact to rounding
        weight = [mpmath.exp(log_density(t, mean + sd * x) - x * x / 2) for x in grid]
        total = mpmath.fsum(weight)
        centre = mpmath.fsum(w * x for w, x in zip(weight, grid, strict=True)) / total
        m2, m3, m4, m5 = (
            mpmath.fsum(w * (x - centre) ** k for w, x in zip(weight, grid, strict=True)) / total for k in range(2, 6)
        )
        return [float(c) for c in (m3 / m2**1.5, m4 / m2**2 - 3, (m5 - 10 * m3 * m2) / m2**2.5)]


def test_a_gaussian_has_none_nor_has_a_value_that_is_known():
    np.testing.assert_allclose(tilted_cumulants(Gaussian(0.3), T, MEAN, VARIANCE, 5), 0.0, atol=1e-9)
    assert not tilted_cumulants(bgp.Probit(), T, MEAN, np.zeros(6), 5).any()


def test_a_prior_mean_shifts_the_cavity():
    offset = np.linspace(-1.0, 1.0, 6)
    found = tilted_cumulants(by_case(bgp.Probit(), prior_mean=offset), T, MEAN, VARIANCE, 5)
    np.testing.assert_array_equal(found, tilted_cumulants(bgp.Probit(), T, MEAN + offset, VARIANCE, 5))


def test_moments_and_cumulants_are_each_others_way_back():
    cumulants = np.random.default_rng(0).standard_normal((6, 4))
    np.testing.assert_allclose(from_moments(to_moments(cumulants)), cumulants, atol=1e-10)
    poisson = np.full((4, 1), 2.0)  # all cumulants of a Poisson distribution are its mean
    np.testing.assert_allclose(to_moments(poisson)[:, 0], [2.0, 6.0, 22.0, 94.0])


def test_a_gauss_rule_integrates_polynomials_exactly():
    most = 5
    cumulants = tilted_cumulants(bgp.Probit(0.2), T[:4], MEAN[:4], VARIANCE[:4], 2 * most)
    nodes, weights = gauss_rule(cumulants, most)
    moments = to_moments(np.concatenate([np.zeros((1, 4)), np.ones((1, 4)), cumulants]))
    for k in range(1, 2 * most):
        np.testing.assert_allclose(np.sum(weights * nodes**k, axis=0), moments[k - 1], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(weights.sum(axis=0), 1.0, rtol=1e-12)
    # and no further: a polynomial of degree 2k is beyond k nodes
    assert np.all(np.abs(np.sum(weights * nodes ** (2 * most), axis=0) - moments[-1]) > 1.0)


def test_a_gauss_rule_of_a_gaussian_is_that_of_hermite():
    nodes, weights = gauss_rule(np.zeros((9, 1)), 6)
    expected, at = np.polynomial.hermite_e.hermegauss(6)
    order = np.argsort(nodes[:, 0])
    np.testing.assert_allclose(nodes[order, 0], expected, atol=1e-10)
    np.testing.assert_allclose(weights[order, 0], at / at.sum(), atol=1e-10)


def test_of_two_points_a_rule_has_no_more():
    """Cumulants of a coin, at -1 and +1: what is beyond two nodes weighs nothing."""
    coin = from_moments(np.array([0.0, 1.0] * 5)[:, None])[2:]
    nodes, weights = gauss_rule(coin, 5)
    some = weights[:, 0] > 0
    np.testing.assert_allclose(np.sort(nodes[some, 0]), [-1.0, 1.0], atol=1e-10)
    np.testing.assert_allclose(weights[some, 0], 0.5, atol=1e-10)
