"""Powers of likelihoods: against quadrature, central differences and what integer powers are."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import (
    Beta,
    Binomial,
    Gamma,
    Gaussian,
    Hurdle,
    NegativeBinomial,
    Poisson,
    Quadrature,
    StudentT,
    Truncated,
    ZeroInflated,
)
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.likelihoods.cumulants import higher_derivatives, tilted_cumulants

LABELS, COUNTS = np.array([1.0, -1.0, -1.0, 1.0, -1.0]), np.array([3.0, 0.0, 1.0, 2.0, 4.0])
CASES = {
    "probit": (bgp.Probit(0.7), LABELS),
    "probit with flips": (bgp.Probit(0.7, 0.1), LABELS),
    "step with flips": (bgp.Step(0.1), LABELS),
    "logit": (bgp.Logit(), LABELS),
    "gaussian": (Gaussian(0.4), COUNTS),
    "poisson": (Poisson(), COUNTS),
    "negative binomial": (NegativeBinomial(0.5), COUNTS),
    "binomial": (Binomial([4, 5, 6, 7, 4]), COUNTS),
    "student": (StudentT(0.5, 4.0), COUNTS),
    "zero-inflated": (ZeroInflated(Poisson(), 0.3), COUNTS),
    "hurdle": (Hurdle(NegativeBinomial(0.5), 0.3), COUNTS),
    "truncated": (Truncated(Poisson()), COUNTS + 1.0),
    "gamma": (Gamma(2.0), COUNTS + 0.5),
    "beta": (Beta(4.0), (COUNTS + 0.5) / 10.0),
    "student of a power that is none": (StudentT(0.5, 1.0), COUNTS),
    "of a user": (Quadrature(lambda t, f: -np.logaddexp(0.0, -t * f)), LABELS),
    "shifted": (by_case(Poisson(), offset=np.linspace(-1.0, 1.0, 5)), COUNTS),
}
WEIGHTS = np.array([0.3, 1.0, 2.5, 0.0, 2.5])
MEAN, VARIANCE = np.array([-1.0, 0.5, 2.0, 0.0, -2.0]), np.array([0.5, 1.0, 2.0, 1.0, 0.3])
every_case = pytest.mark.parametrize("name", CASES)


def weighted(name: str, weights=WEIGHTS):
    likelihood, t = CASES[name]
    return by_case(likelihood, weights=weights), t


def by_quad(likelihood, t: float, weight: float, mean: float, variance: float) -> float:
    """Return log of the integral of p(t|f)^weight N(f | mean, variance), in two pieces: at zero a step jumps."""
    peak = np.sqrt(2.0 * np.pi * variance)

    def density(f: float) -> float:
        log_prob = likelihood.log_prob(np.array([t]), np.array([f])).value[0]
        return float(np.exp(weight * log_prob - 0.5 * (f - mean) ** 2 / variance) / peak)

    reach = 12.0 * np.sqrt(variance)
    ends = [mean - reach, *sorted({0.0, mean}), mean + reach]
    return float(np.log(sum(quad(density, a, b, epsabs=1e-14, epsrel=1e-11)[0] for a, b in zip(ends, ends[1:]))))  # noqa: B905, RUF007


@every_case
def test_log_partition_is_the_integral_of_the_power(name):
    likelihood, t = weighted(name)
    got = likelihood.log_partition(t, MEAN, VARIANCE).value
    each = [CASES[name][0].of_cases(np.array([i])) for i in range(5)]
    expected = [by_quad(each[i], t[i], WEIGHTS[i], MEAN[i], VARIANCE[i]) for i in range(5)]
    np.testing.assert_allclose(got, expected, atol=1e-9)
    of_another = by_quad(each[2], t[2], 2.4, MEAN[2], VARIANCE[2])
    assert abs(got[2] - of_another) > 1e-4  # a control: another power


@every_case
def test_derivatives_are_those_of_the_value(name):
    likelihood, t = weighted(name)
    at, h = likelihood.log_partition(t, MEAN, VARIANCE), 1e-4
    above, below = (likelihood.log_partition(t, MEAN + s, VARIANCE) for s in (h, -h))
    np.testing.assert_allclose(at.d1, (above.value - below.value) / (2 * h), atol=3e-7)
    np.testing.assert_allclose(at.d2, (above.d1 - below.d1) / (2 * h), atol=3e-7)
    assert np.abs(at.d1 - CASES[name][0].log_partition(t, MEAN, VARIANCE).d1)[WEIGHTS != 1.0].max() > 1e-2  # a control
    point = likelihood.log_prob(t, MEAN)
    above, below = (likelihood.log_prob(t, MEAN + s) for s in (h, -h))
    np.testing.assert_allclose(point.d1, (above.value - below.value) / (2 * h), atol=1e-6)
    certain = likelihood.log_partition(t, MEAN, np.zeros(5))
    np.testing.assert_allclose(certain.value, point.value, rtol=1e-12)


@every_case
def test_weight_one_is_the_likelihood_and_weight_zero_says_nothing(name):
    likelihood, t = CASES[name]
    once = by_case(likelihood, weights=np.ones(5))
    np.testing.assert_array_equal(once.log_partition(t, MEAN, VARIANCE), likelihood.log_partition(t, MEAN, VARIANCE))
    for of_zero in (weighted(name)[0].log_partition(t, MEAN, VARIANCE), weighted(name)[0].log_prob(t, MEAN)):
        assert all(part[3] == 0.0 for part in of_zero)
    np.testing.assert_array_equal(
        weighted(name)[0].log_partition(t, MEAN, VARIANCE).value[1],
        likelihood.log_partition(t, MEAN, VARIANCE).value[1],
    )


@every_case
def test_some_of_the_cases_are_those_of_all(name):
    likelihood, t = weighted(name)
    which = np.array([4, 0, 3])
    some = likelihood.of_cases(which).log_partition(t[which], MEAN[which], VARIANCE[which])
    whole = likelihood.log_partition(np.tile(t, (2, 1)), np.stack([MEAN, MEAN + 1.0]), VARIANCE)
    np.testing.assert_allclose(np.array(some), np.array(whole)[:, 0, which], rtol=1e-12, atol=1e-14)
    with pytest.raises(ValueError, match=r"(weights|offsets) of 5 cases"):
        likelihood.log_partition(t[:1], MEAN[:1], np.ones((2, 6)))


@every_case
def test_higher_derivatives_and_cumulants_are_those_of_the_value(name):
    likelihood, t = weighted(name)
    at = likelihood.log_partition(t, MEAN, VARIANCE)
    third, fourth = higher_derivatives(likelihood, t, MEAN, VARIANCE, at)
    h = 1e-3
    above, below = (likelihood.log_partition(t, MEAN + s, VARIANCE).d2 for s in (h, -h))
    np.testing.assert_allclose(third, (above - below) / (2 * h), atol=2e-4)
    np.testing.assert_allclose(fourth, (above - 2.0 * at.d2 + below) / h**2, atol=2e-3)
    skewness = tilted_cumulants(likelihood, t, MEAN, VARIANCE, 3)[0]
    tilted = VARIANCE + VARIANCE**2 * at.d2
    np.testing.assert_allclose(skewness, VARIANCE**3 * third / tilted**1.5, atol=1e-6)


@pytest.mark.parametrize(
    ("name", "parameter"),
    [
        ("probit", "noise_variance"),
        ("gaussian", "noise_variance"),
        ("probit with flips", "flip"),
        ("step with flips", "flip"),
        ("negative binomial", "dispersion"),
        ("student", "scale"),
        ("student", "df"),
    ],
)
def test_derivatives_in_parameters_are_those_of_the_value(name, parameter):
    likelihood, t = weighted(name)
    start, h = likelihood.parameters[parameter], 1e-5
    variance = np.where(np.arange(5) == 0, 0.0, VARIANCE)
    above, below = (
        likelihood.with_parameters(**{parameter: start + s}).log_partition(t, MEAN, variance).value for s in (h, -h)
    )
    got = likelihood.parameter_derivative(parameter, t, MEAN, variance).value
    np.testing.assert_allclose(got, (above - below) / (2 * h), atol=1e-7)
    once = CASES[name][0].parameter_derivative(parameter, t, MEAN, variance).value
    assert abs(got[2] - once[2]) > 1e-2  # a control: the same without the weight


def test_gaussian_powers_have_known_sites_shifted_or_not():
    t, offset = COUNTS, np.arange(5.0)
    precision, shift = by_case(by_case(Gaussian(0.4), weights=WEIGHTS), prior_mean=offset).known_sites(t, 0.1)
    np.testing.assert_allclose(precision, np.divide(1.0, 0.4 / np.maximum(WEIGHTS, 1e-300) + 0.1), atol=1e-200)
    np.testing.assert_allclose(shift, precision * (t - offset))
    assert by_case(Poisson(), weights=WEIGHTS).known_sites(t, 0.1) is None


def test_a_far_tail_is_the_power_of_the_tail():
    """Where the label is far off and the Gaussian narrow, log Z is w log p at the mean, up to what is known of both."""
    likelihood = by_case(bgp.Probit(), weights=np.array([0.5]))
    got = likelihood.log_partition(np.array([1.0]), np.array([-40.0]), np.array([1e-8]))
    at = bgp.Probit().log_prob(np.array([1.0]), np.array([-40.0]))
    value = 0.5 * at.value + 0.5e-8 * ((0.5 * at.d1) ** 2 + 0.5 * at.d2)
    np.testing.assert_allclose(got.value, value, rtol=1e-9)
    np.testing.assert_allclose(got.d1, 0.5 * at.d1, rtol=1e-6)


def test_what_has_no_power_is_refused():
    with pytest.raises(bgp.UndefinedQuantityError, match="its every power"):
        by_case(bgp.Step(), weights=np.ones(2))
    with pytest.raises(bgp.UndefinedQuantityError, match=r"go with Softmax\(\).* this is MultinomialProbit"):
        by_case(bgp.MultinomialProbit(), weights=np.ones(2))
    with pytest.raises(bgp.UndefinedQuantityError, match="one for each class"):
        by_case(bgp.Softmax(), offset=np.ones(2))


@pytest.mark.parametrize("name", ["logit", "binomial", "poisson", "negative binomial"])
def test_large_weights_on_wide_gaussians(name):
    """The mode is far from where it would be without the weight."""
    likelihood, t = CASES[name]
    mean, variance, weights = np.full(5, -3.0), np.full(5, 4.0), np.array([1e4, 3e3, 1e-4, 50.0, 1e5])
    got = by_case(likelihood, weights=weights).log_partition(t, mean, variance)

    def log_density(i, f):
        which = i.astype(int)
        return weights[which] * likelihood.of_cases(which).log_prob(t[which], f).value

    expected = Quadrature(log_density, targets="real").log_partition(np.arange(5.0), mean, variance)
    np.testing.assert_allclose(got.value, expected.value, rtol=1e-10)
    np.testing.assert_allclose(got.d1, expected.d1, rtol=1e-8)


def test_noise_of_each_case_is_divided_by_its_weight():
    t, mean, variance = np.random.default_rng(3).standard_normal((3, 4))
    noise, weights = np.array([0.3, 1.0, 2.0, 0.1]), np.array([2.0, 1.0, 0.5, 2.0])
    got = by_case(Gaussian(noise), weights=weights).log_partition(t, mean, variance**2)
    for i in range(4):
        alone = by_case(Gaussian(noise[i]), weights=weights[i : i + 1])
        expected = alone.log_partition(t[i : i + 1], mean[i : i + 1], variance[i : i + 1] ** 2)
        np.testing.assert_allclose(np.array(got)[:, i], np.ravel(expected), rtol=1e-13)


def test_a_message_names_the_likelihood_and_what_the_cases_have():
    likelihood = by_case(bgp.Probit(0.7), offset=np.zeros(2), weights=np.ones(2))
    assert repr(likelihood) == "Probit(noise_variance=0.7, flip=0.0) with weights and offset"
    with pytest.raises(ValueError, match=r"labels -1 and \+1 for Probit with weights and offset, got"):
        bgp.Problem(np.eye(2), [1.0, 2.0], likelihood)


def test_a_rule_of_fixed_size_for_flips_agrees_with_the_adaptive_one():
    """Below and above the variance at which one takes the place of the other."""
    likelihood, weights = bgp.Probit(0.5, 0.05), np.array([0.4, 1.7, 3.3, 0.9, 2.2])
    weighted = by_case(likelihood, weights=weights)
    mean = np.array([-2.0, 0.1, 3.0, 40.0, -0.5])
    for variance in (0.01, 1.0, 10.0, 49.0 / 3.3, 51.0 / 3.3, 200.0):
        v = np.full(5, variance)
        found = weighted.log_partition(LABELS, mean, v)
        for i in range(5):
            grid = mean[i] + np.sqrt(variance) * np.linspace(-12.0, 12.0, 40001)
            log = weights[i] * likelihood.log_prob(LABELS[i], grid).value - 0.5 * (grid - mean[i]) ** 2 / variance
            area = np.sum(np.exp(log - log.max())) * (grid[1] - grid[0])
            expected = log.max() + np.log(area) - 0.5 * np.log(2.0 * np.pi * variance)
            np.testing.assert_allclose(found.value[i], expected, rtol=1e-10, atol=1e-10)
        low, high = likelihood.mode_bracket(LABELS, mean, v)
        assert np.isfinite([low, high]).all() == (variance <= 50.0)
