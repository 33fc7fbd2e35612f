"""Hybrid Monte Carlo of many chains in step, on densities that are known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest, truncnorm

from bayesgp_mf.hyper.hmc import Dynamics
from bayesgp_mf.hyper.surrogate.strategy import raised, walk_on

SD = np.array([0.5, 2.0])
FREE = np.full(2, -np.inf), np.full(2, np.inf)
WALKERS = 4000


def normal(x):
    """Log density of N(0, diag(SD^2)) and gradient."""
    return -0.5 * np.sum((x / SD) ** 2, axis=1), -x / SD**2


def flat(x):
    """A density that is the same everywhere."""
    return np.zeros(x.shape[0]), np.zeros(x.shape)


def from_one_place(x):
    return np.tile(np.asarray(x, dtype=np.float64), (WALKERS, 1))


def has_moments(x, variance, width=4.0):
    """Tell whether independent draws have mean zero and this variance, and no correlation, within their own error."""
    z = x / np.sqrt(variance)
    seen = np.column_stack([z, (z**2 - 1.0) / np.sqrt(2.0), z[:, 0] * z[:, 1]])
    return bool(np.all(np.abs(seen.mean(axis=0)) < width / np.sqrt(x.shape[0])))


@pytest.mark.parametrize(
    ("power", "step"), [(1.0, 0.3), (0.5, 0.3), (2.0, 0.3), (1.0, 1.6)], ids=["careful", "wide", "narrow", "coarse"]
)
def test_variances_are_those_of_the_density_over_the_power(power, step):
    dynamics = Dynamics(raised(normal, power), step * SD / np.sqrt(power), *FREE)
    start = from_one_place(3.0 * SD)
    x, value, acceptance = walk_on(dynamics, start, 15, np.random.default_rng(0))
    assert has_moments(x, SD**2 / power)
    assert not has_moments(x, SD**2 / (1.1 * power))  # the controls
    assert not has_moments(start, SD**2 / power)
    np.testing.assert_allclose(value, power * normal(x)[0], atol=1e-12)
    assert (0.98 < acceptance <= 1.0) if step < 1.0 else (0.3 < acceptance < 0.9)


def test_the_share_accepted_is_that_of_the_chains_that_moved():
    # a single trajectory from the density itself
    start = SD * np.random.default_rng(1).standard_normal((WALKERS, 2))
    x, _, acceptance = walk_on(Dynamics(normal, 1.6 * SD, *FREE), start, 1, np.random.default_rng(2))
    moved = float(np.mean(np.any(x != start, axis=1)))
    assert abs(moved - acceptance) < 4.0 * np.sqrt(0.25 / WALKERS)
    assert 0.3 < moved < 0.9


def test_a_box_is_filled_evenly():
    lower, upper = np.array([0.0, -2.0]), np.array([1.0, 3.0])
    dynamics = Dynamics(flat, np.array([0.3, 0.9]), lower, upper)
    x, _, acceptance = walk_on(dynamics, from_one_place(upper), 10, np.random.default_rng(3))
    assert np.all((x >= lower) & (x <= upper))
    assert acceptance == pytest.approx(1.0, abs=1e-12)  # walls keep the energy
    for column in ((x - lower) / (upper - lower)).T:
        assert kstest(column, "uniform").pvalue > 1e-3
        assert kstest(column**1.1, "uniform").pvalue < 1e-3  # the control
    assert abs(np.corrcoef(x.T)[0, 1]) < 4.0 / np.sqrt(WALKERS)


@pytest.mark.parametrize("side", [1.0, -1.0], ids=["lower", "upper"])
def test_one_wall_leaves_a_truncated_normal_density(side):
    wall = side * 0.25 * SD[0]
    lower, upper = np.full(2, -np.inf), np.full(2, np.inf)
    (lower if side > 0 else upper)[0] = wall
    dynamics = Dynamics(normal, 0.3 * SD, lower, upper)
    x, _, _ = walk_on(dynamics, from_one_place([wall + side, 1.0]), 15, np.random.default_rng(4))
    assert np.all((x >= lower) & (x <= upper))
    assert kstest(side * x[:, 0] / SD[0], truncnorm(0.25, np.inf).cdf).pvalue > 1e-3
    assert kstest(side * x[:, 0] / SD[0], truncnorm(0.15, np.inf).cdf).pvalue < 1e-3  # the control
    assert kstest(x[:, 1] / SD[1], "norm").pvalue > 1e-3


def test_a_trajectory_that_runs_away_is_not_accepted():
    def steep(x):
        return -np.sum(x**4, axis=1), -4.0 * x**3

    start = np.concatenate([np.full((50, 2), 30.0), np.zeros((50, 2))])
    x, value, acceptance = walk_on(Dynamics(steep, np.full(2, 0.4), *FREE), start, 3, np.random.default_rng(5))
    np.testing.assert_array_equal(x[:50], start[:50])  # there every one overflows
    assert np.all(np.any(x[50:] != 0.0, axis=1))  # and here they do not, whatever those beside them do
    np.testing.assert_allclose(value, steep(x)[0])
    assert 0.0 < acceptance < 0.5


@pytest.mark.parametrize("there", [np.nan, -np.inf, np.inf], ids=str)
def test_where_there_is_no_density_none_ends(there):
    def only_below(x):
        value, gradient = normal(x)
        gone = x[:, 0] > 0.4
        return np.where(gone, there, value), np.where(gone[:, None], there, gradient)

    dynamics = Dynamics(only_below, 0.1 * SD, *FREE)
    x, value, _ = walk_on(dynamics, SD * [-1.0, 0.0] + np.zeros((WALKERS, 2)), 40, np.random.default_rng(6))
    assert np.all(np.isfinite(x))
    assert np.all(np.isfinite(value))
    assert x[:, 0].max() <= 0.4
    assert kstest(x[:, 0] / SD[0], truncnorm(-np.inf, 0.8).cdf).pvalue > 1e-3


def test_the_seed_decides():
    dynamics = Dynamics(normal, 0.3 * SD, *FREE)
    first, again, other = (walk_on(dynamics, np.zeros((5, 2)), 2, np.random.default_rng(seed))[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert np.all(first != other)
