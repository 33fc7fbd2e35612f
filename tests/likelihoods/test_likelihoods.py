"""Every likelihood against numerical integration, finite differences and 450-digit arithmetic."""

from __future__ import annotations

import inspect

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from bayesgp_mf import likelihoods
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods import (
    Gaussian,
    Likelihood,
    Logit,
    MultinomialProbit,
    Probit,
    Quadrature,
    Softmax,
    Step,
    from_dict,
)
from tests.likelihoods.test_counts import CASES as COUNTS
from tests.likelihoods.test_times import CASES as CENSORED
from tests.likelihoods.test_times import SEEN as TIMES

CASES = {
    "probit": Probit(),
    "probit small noise": Probit(0.01),
    "probit with flips": Probit(2.0, 0.1),
    "step": Step(),
    "step with flips": Step(0.2),
    "gaussian": Gaussian(0.3),
    "logit": Logit(),
}
SMOOTH = {name: case for name, case in CASES.items() if getattr(case, "noise_variance", 1.0) > 0}


def test_no_likelihood_is_left_untested():
    public = [getattr(likelihoods, name) for name in likelihoods.__all__]
    classes = {c for c in public if inspect.isclass(c) and c is not Likelihood}
    elsewhere = (*COUNTS.values(), *CENSORED.values(), *TIMES.values())
    apart = {Quadrature, Softmax, MultinomialProbit, *map(type, elsewhere)} - {
        Gaussian
    }  # which have tests of their own
    assert classes - apart == {type(case) for case in CASES.values()}
    assert all(isinstance(case, Likelihood) for case in CASES.values())


@pytest.mark.parametrize("likelihood", CASES.values(), ids=CASES)
@pytest.mark.parametrize(("t", "mean", "variance"), [(1.0, 0.3, 0.7), (-1.0, 1.5, 2.0), (-1.0, -2.0, 0.1)])
def test_log_partition_is_the_integral_it_says(likelihood, t, mean, variance):
    def integrand(f: float) -> float:
        density = np.exp(-0.5 * (f - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
        return float(np.exp(likelihood.log_prob(np.array(t), np.array(f)).value)) * density

    reach = 12 * np.sqrt(variance)
    expected = quad(integrand, mean - reach, mean + reach, points=[0.0, mean], limit=400, epsabs=1e-13)[0]
    got = likelihood.log_partition(np.array([t]), np.array([mean]), np.array([variance])).value
    np.testing.assert_allclose(got, np.log(expected), rtol=1e-9, atol=1e-10)


@pytest.mark.parametrize("likelihood", CASES.values(), ids=CASES)
@given(mean=st.floats(-8, 8), variance=st.floats(0.05, 20), t=st.sampled_from([-1.0, 1.0]))
@settings(deadline=None, max_examples=60)
def test_derivatives_of_log_partition_pass_central_differences(likelihood, mean, variance, t):
    def at(m: float, v: float = variance):
        return likelihood.log_partition(np.array(t), np.array(m), np.array(v))

    step = 1e-4 * np.sqrt(variance)
    d = at(mean)
    scale = 1.0 / np.sqrt(variance)
    np.testing.assert_allclose(
        d.d1, (at(mean + step).value - at(mean - step).value) / (2 * step), atol=1e-6 * scale, rtol=1e-6
    )
    np.testing.assert_allclose(
        d.d2, (at(mean + step).d1 - at(mean - step).d1) / (2 * step), atol=1e-6 * scale**2, rtol=1e-6
    )
    # heat equation: d log Z / d variance = (d2 + d1^2) / 2
    spread = 1e-5 * variance
    slope = (at(mean, variance + spread).value - at(mean, variance - spread).value) / (2 * spread)
    np.testing.assert_allclose(slope, 0.5 * (d.d2 + d.d1**2), atol=1e-7 / variance, rtol=1e-5)


@pytest.mark.parametrize("likelihood", SMOOTH.values(), ids=SMOOTH)
def test_log_prob_is_the_partition_at_variance_zero(likelihood):
    f = np.linspace(-3, 3, 13)
    t = np.ones(13)
    for got, expected in zip(likelihood.log_prob(t, f), likelihood.log_partition(t, f, np.zeros(13)), strict=True):
        np.testing.assert_array_equal(got, expected)


def truth(z: float, flip: float) -> tuple[float, float, float]:
    """log Z, rho and rho (rho + z) to 450 digits (enough for 1 - Phi(40)), rounded once."""
    with mpmath.workdps(450):
        right = mpmath.erfc(-mpmath.mpf(z) / mpmath.sqrt(2)) / 2
        kappa = mpmath.mpf(flip)
        total = kappa + (1 - 2 * kappa) * right
        rho = (1 - 2 * kappa) * mpmath.npdf(mpmath.mpf(z)) / total
        return float(mpmath.log(total)), float(rho), float(rho * (rho + z))


@pytest.mark.parametrize("flip", [0.0, 1e-12, 0.1])
@pytest.mark.parametrize("z", [-40.0, -39.0, -10.0, -5.001, -5.0, -4.999, -1.0, -1e-8, 0.0, 0.5, 5.0, 8.0, 30.0, 40.0])
def test_tails_are_exact(z, flip):
    value, rho, product = truth(z, flip)
    d = Probit(1.0, flip).log_partition(np.array([1.0]), np.array([z]), np.array([0.0]))
    np.testing.assert_allclose(d.value, value, rtol=2e-13, atol=1e-300 if flip == 0 else 1e-16)
    # what cannot be represented next to zero is zero
    np.testing.assert_allclose(d.d1, rho, rtol=2e-13, atol=1e-300)
    np.testing.assert_allclose(d.d2, -product, rtol=1e-12 if flip == 0 else 1e-9, atol=1e-300)


def test_far_beyond_every_tail_nothing_breaks():
    z = np.array([-1e8, -1e3, 1e3, 1e8])
    d = Probit().log_partition(np.ones(4), z, np.zeros(4))
    assert np.all(np.isfinite(d.value))
    np.testing.assert_allclose(d.d1[:2], [1e8, 1e3], rtol=1e-5)
    np.testing.assert_allclose(d.d2[:2], -1.0, rtol=1e-5)
    np.testing.assert_array_equal(d.d1[2:], 0.0)


@given(mean=st.floats(-50, 50), variance=st.floats(0, 100), v=st.floats(0, 10), flip=st.floats(0, 0.49))
def test_probabilities_of_the_two_labels_sum_to_one(mean, variance, v, flip):
    likelihood = Probit(v, flip)
    p = likelihood.predict_proba(np.array([mean, -mean]), np.array([variance, variance]))
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-14)
    assert np.all((p >= flip) & (p <= 1 - flip + 1e-15))


def test_step_is_certain_about_a_certain_value():
    np.testing.assert_array_equal(Step().predict_proba(np.array([-1.0, 0.0, 2.0]), np.zeros(3)), [0.0, 0.5, 1.0])
    np.testing.assert_array_equal(
        Step().log_prob(np.ones(3), np.array([-1.0, 0.0, 2.0])).value, [-np.inf, np.log(0.5), 0]
    )
    assert Step().forbids
    assert not Step(0.1).forbids
    assert not Probit(0.1).forbids


@pytest.mark.parametrize("likelihood", CASES.values(), ids=CASES)
def test_samples_have_the_right_mean(likelihood):
    f = np.full(200_000, 0.4)
    drawn = likelihood.sample(f, np.random.default_rng(0))
    if likelihood.targets == "real":
        expected, spread = 0.4, np.sqrt(likelihood.noise_variance)
    else:
        assert set(np.unique(drawn)) <= {-1.0, 1.0}
        p = likelihood.predict_proba(np.array(0.4), np.array(0.0))
        expected, spread = 2 * p - 1, 2 * np.sqrt(p * (1 - p))
    assert abs(drawn.mean() - expected) <= 5 * spread / np.sqrt(f.size)


@pytest.mark.parametrize("likelihood", CASES.values(), ids=CASES)
def test_dictionary_round_trip(likelihood):
    assert from_dict(likelihood.to_dict()) == likelihood


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Probit(-1.0), r"noise_variance must be a finite number >= 0 .*got -1\.0"),
        (lambda: Probit(np.nan), "noise_variance must be a finite number"),
        (lambda: Probit(1.0, 0.5), r"flip must be a probability in \[0, 0\.5\), got 0\.5"),
        (lambda: Step(-0.1), "flip must be a probability"),
        (lambda: Probit(flip=np.nan), "flip must be a probability"),
        (lambda: Gaussian(0.0), r"noise_variance must be a finite number > 0"),
        (lambda: from_dict({"likelihood": "Cauchit"}), "unknown likelihood 'Cauchit'; expected one of"),
        (lambda: from_dict(None), "description must be a dict, as to_dict of a likelihood returns it, got None"),
        (lambda: from_dict([1]), r"description must be a dict, .* got \[1\]"),
        (lambda: from_dict({1: 2.0}), "description must be a dict, .* got {1: 2.0}"),
        (lambda: from_dict({"likelihood": {}}), "unknown likelihood {}; expected one of"),
        (lambda: from_dict({"likelihood": "Probit", "width": 1.0}), "no description of a Probit likelihood: .*'width'"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_real_targets_have_no_class_probability():
    with pytest.raises(UndefinedQuantityError, match="no class probabilities"):
        Gaussian().predict_proba(np.zeros(1), np.ones(1))
