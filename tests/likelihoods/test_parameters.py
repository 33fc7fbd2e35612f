"""Derivatives of log partition functions in the parameters of likelihoods: by differences, by digits, far out."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

from bayesgp_mf.likelihoods import (
    Beta,
    Censored,
    Gamma,
    Gaussian,
    Hurdle,
    LogLogistic,
    LogNormal,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Truncated,
    Weibull,
    ZeroInflated,
)
from bayesgp_mf.types import Derivs

N = 30
OTHER = np.resize([np.nan, np.inf, -np.inf, 0.9], N)
CASES = [
    NegativeBinomial(0.3),
    NegativeBinomial(2.0),
    NegativeBinomial(500.0),
    StudentT(0.5, 4.0),
    StudentT(1.0, 0.7),
    StudentT(0.3, 200.0),
    Gamma(0.3),
    Gamma(500.0),
    Beta(5.0),
    Beta(0.5),
    Truncated(NegativeBinomial(0.3)),
    Truncated(NegativeBinomial(40.0)),
    ZeroInflated(Poisson(), 0.2),
    ZeroInflated(NegativeBinomial(2.0), 0.2),
    Hurdle(NegativeBinomial(0.5), 0.2),
    Ordinal((-1.0, 0.5), 0.7),
    Ordinal((-1.0, 0.0, 0.5, 2.0), 0.3),
    Censored(Gaussian(0.4), OTHER),
    Censored(LogNormal(0.4), OTHER),
    Censored(Weibull(1.3), OTHER),
    Censored(LogLogistic(2.0), OTHER),
]
EACH = [(likelihood, name) for likelihood in CASES for name in likelihood.parameters]


@pytest.mark.parametrize(("likelihood", "name"), EACH, ids=str)
def test_derivatives_are_central_differences_of_order_six(likelihood, name):
    rng = np.random.default_rng(1)
    mean, variance = rng.normal(0.0, 2.0, N), 10.0 ** rng.uniform(-2.0, 2.0, N)
    variance[:5] = 0.0
    t, here = likelihood.sample(rng.normal(0.0, 2.0, N), rng), likelihood.parameters[name]

    def slope(log_step, around=here):
        h = log_step * around
        ahead = [
            likelihood.with_parameters(**{name: around + k * h}).log_partition(t, mean, variance).value
            for k in (-3, -2, -1, 1, 2, 3)
        ]
        return np.array([-1, 9, -45, 45, -9, 1]) @ ahead / (60.0 * h)

    expected = slope(1e-3)
    derivs = likelihood.parameter_derivative(name, t, mean, variance)
    assert isinstance(derivs, Derivs)
    found = derivs.value
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=2e-10 / here)
    assert np.max(np.abs(slope(1e-3, 1.01 * here) - found)) > 1e-4 * np.max(np.abs(found))  # elsewhere it is another


@pytest.mark.parametrize(
    ("r", "t", "f"), [(1e8, 3, 0.5), (1e6, 0, 0.5), (40.0, 3, 9.0), (1e3, 7, -30.0), (0.2, 2, 700.0)]
)
def test_the_slope_in_the_dispersion_keeps_its_digits_near_poisson(r, t, f):
    with mpmath.workdps(60):

        def log_prob(r):
            choose = mpmath.loggamma(t + r) - mpmath.loggamma(r) - mpmath.loggamma(t + 1)
            return choose + r * mpmath.log(r) + t * f - (t + r) * mpmath.log(r + mpmath.exp(f))

        expected = float(mpmath.diff(log_prob, mpmath.mpf(r), h=mpmath.mpf(10) ** -18))
    at = np.array([float(t)]), np.array([f])
    found = NegativeBinomial(r).parameter_derivative("dispersion", *at, np.zeros(1)).value
    np.testing.assert_allclose(found, [expected], rtol=1e-11)


@pytest.mark.parametrize(("df", "z"), [(1e6, 1.2), (1e6, 0.0), (3.0, 1e150), (50.0, 0.3), (0.5, 2.0)])
def test_the_slopes_of_student_keep_their_digits_near_gaussian(df, z):
    with mpmath.workdps(60):

        def log_prob(df, scale):
            half = (df + 1) / 2
            constant = mpmath.loggamma(half) - mpmath.loggamma(df / 2) - mpmath.log(mpmath.pi * df) / 2
            return constant - mpmath.log(scale) - half * mpmath.log(1 + (z / scale) ** 2 / df)

        at = mpmath.mpf(df), mpmath.mpf(1)
        expected = {
            name: float(mpmath.diff(log_prob, at, order, h=mpmath.mpf(10) ** -18))
            for name, order in (("df", (1, 0)), ("scale", (0, 1)))
        }
    for name, value in expected.items():
        found = StudentT(1.0, df).parameter_derivative(name, np.array([z]), np.zeros(1), np.zeros(1)).value
        np.testing.assert_allclose(found, [value], rtol=1e-11)


def test_far_beyond_every_tail_nothing_breaks():
    for likelihood, name in (pair for pair in EACH if not isinstance(pair[0], Censored)):  # which have their own tails
        t = np.array([0.0, 1.0, 2.0 if isinstance(likelihood, Ordinal) else 20.0])
        t = np.array([1e-3, 0.5, 0.9]) if isinstance(likelihood, Gamma | Beta) else t
        t = np.maximum(t, 1.0) if isinstance(likelihood, Truncated) else t
        for mean in (-600.0, -40.0, 40.0, 600.0):
            for variance in (0.0, 1e-8, 1.0, 1e8):
                found = likelihood.parameter_derivative(name, t, np.full(3, mean), np.full(3, variance)).value
                assert np.all(np.isfinite(found)), (likelihood, name, mean, variance)


def test_where_no_rule_settles_the_average_is_adaptive():
    mean, variance = np.array([0.4, 0.0, -2.0]), np.array([1.0, 0.0, 4.0])

    def edge(rows, f):  # of log p: the rules converge slowly
        return Derivs(-30.0 * np.abs(f), -30.0 * np.sign(f), np.zeros_like(f))

    def bracket(rows, mean, variance):
        return np.minimum(mean, 0.0) - 1e-3, np.maximum(mean, 0.0) + 1e-3

    def square(rows, f):
        return Derivs(f**2 + rows, 2.0 * f, np.full_like(f, 2.0))

    class Edge(Poisson):
        def _of_targets(self, t):
            return edge, bracket

        def _slope_of_targets(self, name, t):
            return square

    found = Edge().parameter_derivative("none", np.zeros(3), mean, variance).value
    expected = [0.0, mean[1] ** 2 + 1.0, 0.0]
    for i in (0, 2):

        def density(f, i=i):
            return np.exp(-30.0 * abs(f) - 0.5 * ((f - mean[i]) ** 2 - mean[i] ** 2) / variance[i])

        pieces = [
            [quad(lambda f, k=k: f**k * density(f), *ends, epsabs=1e-15, epsrel=1e-12)[0] for ends in ((-2, 0), (0, 2))]
            for k in (0, 2)
        ]
        expected[i] = sum(pieces[1]) / sum(pieces[0]) + i
    np.testing.assert_allclose(found, expected, rtol=1e-10)
