"""Smoothed importance weights: what is left alone, what the tail becomes, and laws of both."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.hyper.pareto import FEWEST_WEIGHTS, largest_k, smooth


def log_weights(n=1000, k=0.4, seed=0):
    """Log weights with P(w > x) = x^(-1/k)."""
    return -k * np.log(np.random.default_rng(seed).random(n))


def tail_size(n):
    """How many of the largest are smoothed (Vehtari et al. 2024, section 2.4), which ArviZ rounds in two ways."""
    size = min(n / 5.0, 3.0 * math.sqrt(n))
    return math.ceil(size) if arviz_major() < 1 else math.floor(size)


def test_only_the_tail_changes_and_keeps_its_order():
    raw = log_weights()
    smoothed, _ = smooth(raw)
    order = np.argsort(raw)
    body, tail = order[: -tail_size(1000)], order[-tail_size(1000) :]
    np.testing.assert_allclose(smoothed[body], raw[body], atol=1e-12)
    assert np.max(np.abs(smoothed[tail] - raw[tail])) > 1e-3
    assert np.all(np.diff(smoothed[order]) >= 0)
    assert smoothed.max() <= raw.max() + 1e-12


def test_the_tail_lies_on_a_pareto_distribution():
    raw = log_weights()
    smoothed, k = smooth(raw)
    size, order = tail_size(1000), np.argsort(raw)
    above = np.exp(smoothed[order[-size:]]) - np.exp(raw[order[-size - 1]])
    unit = ((1.0 - (np.arange(size) + 0.5) / size) ** -k - 1.0) / k  # quantiles for the scale one
    free = np.exp(smoothed[order[-size:]]) < (1.0 - 1e-9) * np.exp(raw.max())  # none is above the largest there was
    assert free.sum() > size / 2
    np.testing.assert_allclose(above[free] / unit[free], above[0] / unit[0], rtol=1e-6)


def test_a_constant_and_the_order_do_not_matter():
    raw = log_weights()
    smoothed, k = smooth(raw)
    moved, same = smooth(raw - 750.0)
    np.testing.assert_allclose(moved, smoothed - 750.0, atol=1e-9)
    assert same == pytest.approx(k, abs=1e-9)
    shuffled = np.random.default_rng(1).permutation(1000)
    np.testing.assert_allclose(smooth(raw[shuffled])[0], smoothed[shuffled], atol=1e-12)


@pytest.mark.parametrize("spread", [30.0, 300.0, 3000.0, 1e5])
@pytest.mark.parametrize("n", [30, 60, 1000])
def test_weights_of_any_range_stay_finite_and_are_found_out(spread, n):
    for seed in range(5):
        smoothed, k = smooth(spread * np.random.default_rng(seed).standard_normal(n))
        assert np.all(np.isfinite(smoothed))
        assert k > 0.7


@pytest.mark.parametrize("n_high", [100, 30, 20], ids=["all", "more than the tail", "the tail"])
def test_weights_that_are_equal_where_they_are_large_have_no_tail(n_high):
    raw = np.where(np.arange(100) < n_high, -3.0, -3.5)
    assert smooth(raw) == (raw, -math.inf)  # the same object
    assert smooth(raw + 1e-11 * np.random.default_rng(3).random(100))[1] == -math.inf
    assert smooth(raw + np.random.default_rng(3).random(100))[1] > -math.inf  # the control


def test_few_weights_say_nothing_and_the_fewest_something():
    few = log_weights(FEWEST_WEIGHTS - 1)
    assert smooth(few) == (few, math.inf)
    for seed in range(10):
        assert np.isfinite(smooth(log_weights(FEWEST_WEIGHTS, seed=seed))[1])


def test_how_large_a_k_draws_allow():
    assert largest_k(100) == pytest.approx(0.5)
    assert largest_k(1000) == pytest.approx(2.0 / 3.0)
    assert largest_k(10**6) == 0.7
