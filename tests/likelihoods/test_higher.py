"""Third and fourth derivatives of log Z against arithmetic of many digits, and where they are known."""

from __future__ import annotations

from functools import partial

import mpmath
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.likelihoods.cumulants import higher_derivatives

MEAN, VARIANCE = np.array([-6.0, -1.0, 0.0, 0.3, 4.0]), np.array([0.1, 2.0, 1.0, 30.0, 1e-3])
T = np.array([1.0, 1.0, -1.0, 1.0, 1.0])
ROUGH = partial(higher_derivatives, rough=True)
FUNCTIONS = pytest.mark.parametrize(("function", "tolerance"), [(higher_derivatives, 1e-9), (ROUGH, 2e-4)])


def unstated(likelihood):
    """Return a likelihood without closed forms, of which differences are taken."""
    names = ("targets", "forbids", "log_concave", "log_prob", "log_partition", "predict_proba", "sample")
    return type("Unstated", (Likelihood,), {name: getattr(likelihood, name) for name in names})()


def exact(order, t, mean, variance, flip=0.0):
    """Return the derivative of log[flip + (1 - 2 flip) Phi(t m / sqrt(variance + 1))] of an order, in 60 digits."""
    with mpmath.workdps(60):
        flip, t = mpmath.mpf(flip), mpmath.mpf(t)
        return float(
            mpmath.diff(
                lambda m: mpmath.log(flip + (1 - 2 * flip) * mpmath.ncdf(t * m / mpmath.sqrt(variance + 1))),
                mean,
                order,
            )
        )


@FUNCTIONS
@pytest.mark.parametrize("wrap", [lambda likelihood: likelihood, unstated], ids=["closed form", "differences"])
def test_derivatives_of_a_probit(function, tolerance, wrap):
    found = function(wrap(bgp.Probit()), T, MEAN, VARIANCE, bgp.Probit().log_partition(T, MEAN, VARIANCE))
    for order, derivative in zip((3, 4), found, strict=True):
        expected = [exact(order, *case) for case in zip(T, MEAN, VARIANCE, strict=True)]
        np.testing.assert_allclose(derivative, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("flip", [0.0, 0.1])
def test_closed_form_holds_in_the_tails(flip):
    """Where a label fits badly, and where it is sure; with flips both tails are flat."""
    mean, t = np.repeat([-60.0, -20.0, -3.0, -0.1, 0.0, 2.0, 9.0, 50.0], 2), np.tile([1.0, -1.0], 8)
    variance, likelihood = np.full(16, 1.5), bgp.Probit(flip=flip)
    found = likelihood.higher_derivatives(t, mean, variance, likelihood.log_partition(t, mean, variance))
    for order, derivative in zip((3, 4), found, strict=True):
        expected = [exact(order, *case, flip) for case in zip(t, mean, variance, strict=True)]
        np.testing.assert_allclose(derivative, expected, rtol=1e-6, atol=1e-9)


def test_closed_form_of_a_sigmoid():
    """At variance zero, where its log partition function is the log of the sigmoid itself."""
    f, t = np.repeat([-60.0, -3.0, -0.1, 0.0, 2.0, 50.0], 2), np.tile([1.0, -1.0], 6)
    derivs = bgp.Logit().log_prob(t, f)
    found = higher_derivatives(bgp.Logit(), t, f, np.zeros(12), derivs)
    with mpmath.workdps(60):
        for order, derivative in zip((3, 4), found, strict=True):
            expected = [
                float(mpmath.diff(lambda x, sign=sign: -mpmath.log(1 + mpmath.exp(-sign * x)), at, order))
                for sign, at in zip(t, f, strict=True)
            ]
            np.testing.assert_allclose(derivative, expected, rtol=1e-13, atol=1e-70)  # of the differences
    variance = np.full(12, 1e-4)  # which has no such form
    averaged = higher_derivatives(bgp.Logit(), t, f, variance, bgp.Logit().log_partition(t, f, variance))
    np.testing.assert_allclose(averaged, found, atol=1e-4)


@FUNCTIONS
def test_a_prior_mean_shifts_them(function, tolerance):
    offset = np.array([0.5, -2.0, 0.0, 1.0, 3.0])
    shifted, derivs = by_case(bgp.Probit(), prior_mean=offset), bgp.Probit().log_partition(T, MEAN + offset, VARIANCE)
    found = function(shifted, T, MEAN, VARIANCE, derivs)
    np.testing.assert_allclose(found, bgp.Probit().higher_derivatives(T, MEAN + offset, VARIANCE, derivs), rtol=1e-12)


def test_a_certain_value_under_a_step_has_none():
    mean, variance = np.array([1.0, 1.0]), np.array([0.0, 1.0])
    derivs = bgp.Step().log_partition(T[:2], mean, variance)
    d3, d4 = bgp.Step().higher_derivatives(T[:2], mean, variance, derivs)
    assert d3[0] == d4[0] == 0.0
    assert d3[1] != 0.0
    assert d4[1] != 0.0


@pytest.mark.parametrize("function", [higher_derivatives, ROUGH])
def test_a_parabola_has_none(function):
    likelihood = bgp.likelihoods.Gaussian(0.5)
    for derivative in function(likelihood, T, MEAN, VARIANCE, likelihood.log_partition(T, MEAN, VARIANCE)):
        np.testing.assert_array_equal(derivative, 0.0)
