"""The logistic likelihood against 40-digit integration, its symmetries and its limits."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from flint import arb
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import expit, ndtr

from bayesgp_mf.likelihoods import Logit, Probit, from_dict
from bayesgp_mf.likelihoods.logistic_normal import mode
from tests.integrals import over_gaussian


def truth(mean: float, variance: float) -> tuple[arb, arb, arb]:
    """log Z, d1 and d2 for t = +1, from integrals in which nothing is differenced but a sign."""

    def sigmoid(f):
        return 1 / (1 + (-f).exp())

    def integral(function):
        return over_gaussian(lambda f, _: function(f), mean, variance, (0.0, mean - variance, mean + variance))

    right = integral(sigmoid)
    d1 = integral(lambda f: sigmoid(f) * sigmoid(-f)) / right
    bent = integral(lambda f: sigmoid(f) * sigmoid(-f) * (sigmoid(-f) - sigmoid(f)))
    value = right.log() if mean <= 0 else (-integral(lambda f: sigmoid(-f))).log1p()
    return value, d1, bent / right - d1**2


@pytest.mark.parametrize("variance", [1e-6, 0.5, 15.9, 16.1, 100.0, 1e4])  # the grid changes at 16
@pytest.mark.parametrize("mean", [-50.0, -4.0, 0.0, 0.7, 50.0])
def test_log_partition_is_right_to_eleven_digits(mean, variance):
    got = Logit().log_partition(np.array([1.0]), np.array([mean]), np.array([variance]))
    for ours, expected in zip(got, truth(mean, variance), strict=True):
        assert abs(arb(float(ours[0])) - expected) <= 1e-11 * abs(expected)


def wide_truth(mean: float, variance: float) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
    """The same for any variance: by the trapezoidal rule in u, with f = sinh(u), and the label that is less likely."""
    with mpmath.workdps(150):
        m, v = -abs(mpmath.mpf(mean)), mpmath.mpf(variance)
        s, e = mpmath.sqrt(v), mpmath.exp
        ends = [mpmath.asinh(end) for end in (m - 16 * s, min(m + v, 0) + 16 * s)]
        count = max(int((ends[1] - ends[0]) / mpmath.mpf("0.1")), 250)
        step = (ends[1] - ends[0]) / count
        total, right, wrong, both, once, twice = (mpmath.mpf(0) for _ in range(6))
        for k in range(count + 1):
            root = e(ends[0] + k * step)
            f, odds = (root - 1 / root) / 2, e(-(root - 1 / root) / 2)
            density = e(-((f - m) ** 2) / (2 * v)) * (root + 1 / root) / 2 * step / (1 + odds)
            sigma = 1 / (1 + odds)
            total += density
            right += density * sigma
            wrong += density * odds * sigma
            both += density * odds * sigma**2
            once += density * f
            twice += density * f**2
        value = mpmath.log(total / (s * mpmath.sqrt(2 * mpmath.pi)))
        # d2 by the variance of f, which has the digits that the sigmoid's own have not
        d1, d2 = wrong / total, (twice / total - (once / total) ** 2 - v) / v**2
        if mean <= 0:
            return value, d1, d2
        odds = e(value) / (1 - e(value))
        return mpmath.log1p(-e(value)), odds * d1, -odds * (d2 + (1 + odds) * d1**2)


@pytest.mark.parametrize("variance", [1e-10, 0.5, 1e4, 0.9e10, 1.1e10, 1e16, 1e60])
def test_log_partition_is_right_for_any_variance(variance):
    s = np.sqrt(variance)
    for mean in [-0.3 * s, 4.0 * s, -0.3 * variance, -variance, 30.0]:
        got = Logit().log_partition(np.float64(1.0), np.float64(mean), np.float64(variance))
        for ours, expected in zip(got, wide_truth(mean, variance), strict=True):
            assert abs(mpmath.mpf(float(ours)) - expected) <= 1e-12 * abs(expected)


@pytest.mark.parametrize("variance", [1e-300, 1e-10, 1.0, 1e16, 1e60, 1e150, 1e300])
def test_log_partition_returns_something_finite_for_any_mean(variance):
    """It did not come back from mean = -1e16 with variance 1e16, where labels of one input contradict each other."""
    mean = np.concatenate([sign * 10.0 ** np.arange(-300.0, 301.0, 12.0) for sign in (-1.0, 1.0)])
    mean = np.concatenate([mean, variance * np.array([-2.0, -1.0, -1.0 + 1e-15, -0.5, 0.5])])
    value, d1, d2 = Logit().log_partition(np.float64(1.0), mean, np.float64(variance))
    assert np.all(np.isfinite([value, d1, d2]))
    assert np.all((value <= 0.0) & (d1 >= 0.0) & (d1 <= 1.0 + 1e-14))
    assert np.all((d2 <= 0.0) & (d2 >= -1.0 / variance * (1.0 + 1e-14)))


@pytest.mark.parametrize("z", [-800.0, -40.0, -1.0, 0.0, 1.0, 40.0, 700.0])
def test_log_prob_is_exact_in_both_tails(z):
    got = Logit().log_prob(np.array([1.0]), np.array([z]))
    with mpmath.workdps(700):
        right, wrong = 1 / (1 + mpmath.exp(-mpmath.mpf(z))), 1 / (1 + mpmath.exp(mpmath.mpf(z)))
        expected = [float(x) for x in (mpmath.log(right), wrong, -right * wrong)]
    np.testing.assert_allclose(np.ravel(got), expected, rtol=1e-14, atol=1e-320)


@given(mean=st.floats(-60, 60), variance=st.floats(0, 1e4))
def test_the_labels_mirror_each_other_and_share_the_probability(mean, variance):
    m, v = np.array([mean]), np.array([variance])
    plus, minus = (Logit().log_partition(np.array([t]), t * m, v) for t in (1.0, -1.0))
    np.testing.assert_array_equal(plus.value, minus.value)
    np.testing.assert_array_equal(plus.d1, -minus.d1)
    np.testing.assert_array_equal(plus.d2, minus.d2)
    assert -1.0 <= plus.d2[0] <= 0.0 <= plus.d1[0] <= 1.0 + 1e-14
    p = Logit().predict_proba(np.array([mean, -mean]), np.array([variance, variance]))
    np.testing.assert_allclose(p.sum(), 1.0, rtol=1e-13)


@pytest.mark.parametrize("scale", [1e-100, 1e-6, 0.3, 3.0, 300.0, 1e6, 1e100])
def test_the_grid_is_laid_around_the_mode(scale):
    mean = np.concatenate([-np.logspace(-3, 6, 13), [0.0], np.logspace(-3, 6, 13), [-0.7 * scale**2, -(scale**2)]])
    found = mode(mean, np.full(29, scale**2))
    # the mode is where f - mean - variance sigma(-f) = 0, and that rises in f
    near = 1e-12 * (1.0 + np.abs(found))
    with mpmath.workdps(250):
        for f, m, step in zip(found, mean, near, strict=True):
            low, high = (
                x - mpmath.mpf(float(m)) - mpmath.mpf(scale**2) / (1 + mpmath.exp(x))
                for x in (mpmath.mpf(float(f)) - float(step), mpmath.mpf(float(f)) + float(step))
            )
            assert low < 0 < high


def test_variance_joins_zero_smoothly():
    m = np.linspace(-30, 30, 61)
    at = Logit().log_prob(np.ones(61), m)
    near = Logit().log_partition(np.ones(61), m, np.full(61, 1e-14))
    for a, b in zip(at, near, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-26)


def test_a_wide_gaussian_sees_a_step():
    m = np.array([-2e5, -1e4, 0.0, 3e5])
    got = Logit().predict_proba(m, np.full(4, 1e10))
    np.testing.assert_allclose(got, ndtr(m / 1e5), rtol=1e-8)  # the sigmoid's width counts as 1e-10 of the variance


def test_means_far_out_break_nothing():
    m, v = np.array([-1e6, -1e3, 1e3, 1e6]), np.array([1e4, 10.0, 10.0, 1e4])
    d = Logit().log_partition(np.ones(4), m, v)
    assert all(np.all(np.isfinite(part)) for part in d)
    np.testing.assert_allclose(d.value[:2], m[:2] + 0.5 * v[:2], rtol=1e-12)  # E exp(f)


def test_shapes_broadcast_and_blocks_do_not_show():
    m = np.linspace(-5, 5, 5000)
    together = Logit().log_partition(np.array(-1.0), m, np.array(2.0))
    alone = Logit().log_partition(np.array(-1.0), m[4500:4501], np.array(2.0))
    np.testing.assert_allclose(together.d2[4500], alone.d2[0], rtol=1e-13)
    assert Logit().log_partition(np.array(1.0), np.zeros((2, 1)), np.ones(3)).d2.shape == (2, 3)
    assert Logit().log_prob(np.ones((2, 1)), np.zeros(3)).value.shape == (2, 3)
    assert Logit().predict_proba(np.float64(0.0), np.float64(1.0)).shape == ()
    # a probit of the width that matches a sigmoid is no substitute, but it is near
    near = Probit(1.7**2).predict_proba(m, np.full(m.shape, 2.0))
    assert 1e-4 < np.max(np.abs(near - Logit().predict_proba(m, np.full(m.shape, 2.0)))) < 0.02


def test_the_rest_of_the_face():
    assert Logit().targets == "binary"
    assert not Logit().forbids
    assert from_dict({"likelihood": "Logit"}) == Logit()
    drawn = Logit().sample(np.full((400, 500), -0.7), np.random.default_rng(3))
    assert set(np.unique(drawn)) == {-1.0, 1.0}
    p = expit(-0.7)
    assert abs((drawn > 0).mean() - p) < 5 * np.sqrt(p * (1 - p) / drawn.size)
