"""Hybrid Monte Carlo on densities that are known: laws of the leapfrog, and moments within Monte-Carlo error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import kstest, truncnorm

from bayesgp_mf.hyper.hmc import Dynamics, one_by_one, reflect, walk
from tests.hyper.known import MEAN, PRECISION, ignore, within_monte_carlo_error

FREE = np.array([-np.inf, -np.inf]), np.array([np.inf, np.inf])


def gaussian(x):
    """Log density of N(MEAN, PRECISION^-1), up to a constant."""
    slope = -PRECISION @ (x - MEAN)
    return 0.5 * float((x - MEAN) @ slope), slope


def anharmonic(x):
    """Log density with quartic walls."""
    return -float(np.sum(x**4 / 4.0 + np.cos(x))) - 0.3 * x[0] * x[1], -(x**3) + np.sin(x) - 0.3 * x[::-1]


def dynamics_of(log_density, step, walls=FREE):
    return Dynamics(one_by_one(log_density), np.asarray(step), *walls)


def energy(points, momentum):
    return 0.5 * np.sum(momentum**2, axis=1) - points.value


@pytest.mark.parametrize("walls", [FREE, (np.array([-0.2, -1.0]), np.array([1.0, 0.4]))], ids=["free", "walls"])
def test_a_trajectory_can_be_retraced(walls):
    dynamics = dynamics_of(anharmonic, [0.2, 0.1], walls)
    start, momentum = dynamics.points(np.array([[0.3, -0.4]])), np.array([[1.1, -0.7]])
    end, final = dynamics.trajectories(start, momentum, 25)
    assert np.linalg.norm(end.x - start.x) > 0.1
    back, turned = dynamics.trajectories(end, -final, 25)
    np.testing.assert_allclose(back.x, start.x, atol=1e-11)
    np.testing.assert_allclose(turned, -momentum, atol=1e-11)
    assert np.all((end.x >= walls[0]) & (end.x <= walls[1]))


@pytest.mark.parametrize("walls", [FREE, (np.array([-0.2, -1.0]), np.array([1.0, 0.4]))], ids=["free", "walls"])
def test_a_trajectory_preserves_volume(walls):
    dynamics, h = dynamics_of(anharmonic, [0.2, 0.1], walls), 1e-6

    def end(z):
        points, momentum = dynamics.trajectories(dynamics.points(z[None, :2]), z[None, 2:], 25)
        return np.concatenate([points.x[0], momentum[0]])

    at = np.array([0.3, -0.4, 1.1, -0.7])
    jacobian = np.array([(end(at + h * e) - end(at - h * e)) / (2 * h) for e in np.eye(4)])
    np.testing.assert_allclose(abs(np.linalg.det(jacobian)), 1.0, atol=1e-6)
    assert np.max(np.abs(jacobian - np.eye(4))) > 0.5


def energy_error_ratios(log_density, x, step, steps, trajectories=8):
    """Return by what half the step divides the root mean squared energy error of trajectories of one length."""
    momenta, errors = np.random.default_rng(5).standard_normal((trajectories, x.size)), []
    walls = np.full(x.size, -np.inf), np.full(x.size, np.inf)
    for halvings in (0, 1, 2):
        dynamics = dynamics_of(log_density, np.full(x.size, step / 2**halvings), walls)
        start = dynamics.points(np.tile(x, (trajectories, 1)))
        changes = energy(*dynamics.trajectories(start, momenta, steps * 2**halvings)) - energy(start, momenta)
        errors.append(np.sqrt(np.mean(np.square(changes))))
    return np.array(errors[:-1]) / np.array(errors[1:])


def test_energy_error_falls_with_the_square_of_the_step():
    x = np.array([0.3, -0.4])
    np.testing.assert_allclose(energy_error_ratios(anharmonic, x, 0.1, 12), 4.0, atol=0.2)
    wrong = energy_error_ratios(lambda x: (anharmonic(x)[0], 1.01 * anharmonic(x)[1]), x, 0.1, 12)
    assert np.max(np.abs(wrong - 4.0)) > 1.0  # the control: the same comparison refuses a wrong gradient


def moments(path):
    apart = path - MEAN
    return np.column_stack([path, apart**2, apart[:, 0] * apart[:, 1]])


COVARIANCE = np.linalg.inv(PRECISION)
EXPECTED = np.array([*MEAN, *np.diag(COVARIANCE), COVARIANCE[0, 1]])


@pytest.mark.parametrize(("step", "steps"), [([0.15, 0.25], 6), ([0.75, 0.75], 2)], ids=["careful", "coarse"])
def test_means_and_variances_are_those_of_the_density(step, steps):
    dynamics = dynamics_of(gaussian, step)
    chain = walk(dynamics, dynamics.points(MEAN[None]), steps, 8000, np.random.default_rng(1), ignore)
    assert within_monte_carlo_error(moments(chain.points.x), EXPECTED)
    assert not chain.failed.any()
    np.testing.assert_allclose(chain.accepted.mean(), chain.acceptance_rate.mean(), atol=0.02)


def test_without_the_decision_the_comparison_fails():
    # steps this long widen the density that the leapfrog itself leaves invariant
    dynamics, rng = dynamics_of(gaussian, [0.75, 0.75]), np.random.default_rng(1)
    here, path = dynamics.points(MEAN[None]), []
    for _ in range(8000):
        here, _ = dynamics.trajectories(here, rng.standard_normal((1, 2)), 2)
        path.append(here.x[0])
    assert not within_monte_carlo_error(moments(np.array(path)), EXPECTED)


def test_walls_reflect_and_the_density_between_them_is_right():
    def falling(x):
        return -2.0 * float(x[0]), np.array([-2.0])

    dynamics = dynamics_of(falling, [0.4], (np.zeros(1), np.full(1, 1.5)))
    chain = walk(dynamics, dynamics.points(np.array([[0.5]])), 4, 8000, np.random.default_rng(2), ignore)
    assert chain.points.x.min() >= 0
    assert chain.points.x.max() <= 1.5
    thinned = chain.points.x[::4, 0]  # nearly independent
    assert kstest(thinned, lambda x: np.expm1(-2.0 * x) / np.expm1(-3.0)).pvalue > 1e-3
    assert kstest(thinned, lambda x: x / 1.5).pvalue < 1e-6  # the control


def test_points_without_a_density_are_rejected_and_counted():
    def only_below(x):
        return None if x[0] > 0.4 else (-0.5 * float(x @ x), -x)

    dynamics = dynamics_of(only_below, [0.5], (np.full(1, -np.inf), np.full(1, np.inf)))
    chain = walk(dynamics, dynamics.points(np.zeros((1, 1))), 3, 8000, np.random.default_rng(3), ignore)
    assert 0.1 < chain.failed.mean() < 0.9
    np.testing.assert_array_equal(chain.failed, np.isinf(chain.energy_error))
    assert not (chain.accepted & chain.failed).any()
    truth = truncnorm(-np.inf, 0.4)
    apart = np.column_stack([chain.points.x[:, 0], chain.points.x[:, 0] ** 2])
    assert within_monte_carlo_error(apart, np.array([truth.mean(), truth.moment(2)]))


def test_chains_in_step_go_each_their_own_way():
    nowhere = []

    def only_below(x):
        nowhere.append(bool(x[0] > 0.4))
        return None if nowhere[-1] else anharmonic(x)

    rng = np.random.default_rng(6)
    x, momenta = rng.uniform(-2.0, 0.4, (20, 2)), rng.standard_normal((20, 2))
    dynamics = dynamics_of(only_below, [0.2, 0.3])
    together, final = dynamics.trajectories(dynamics.points(x), momenta, 9)
    gone = np.isnan(together.value)
    assert 3 < gone.sum() < 17
    for k in range(20):
        nowhere.clear()
        alone, its_own = dynamics.trajectories(dynamics.points(x[k : k + 1]), momenta[k : k + 1], 9)
        assert np.isnan(alone.value[0]) == gone[k]
        if gone[k]:
            assert nowhere.index(True) == len(nowhere) - 1  # it goes no further, which would take solutions
        else:
            np.testing.assert_array_equal(alone.x[0], together.x[k])
            np.testing.assert_array_equal(its_own[0], final[k])


def test_a_trajectory_that_runs_away_is_a_divergence():
    dynamics = dynamics_of(gaussian, [50.0, 50.0])
    chain = walk(dynamics, dynamics.points(MEAN[None] + 1.0), 3, 5, np.random.default_rng(4), ignore)
    assert chain.diverging.all()
    assert not chain.accepted.any()
    np.testing.assert_array_equal(chain.points.x, np.tile(MEAN + 1.0, (5, 1)))
    np.testing.assert_array_equal(chain.acceptance_rate, 0.0)


def one_wall_at_a_time(x, lower, upper):
    """Return where one coordinate ends between walls, and how often it bounced."""
    bounces = 0
    while not lower <= x <= upper:
        x, bounces = (2.0 * upper - x if x > upper else 2.0 * lower - x), bounces + 1
    return x, bounces


coordinates = st.tuples(st.floats(-5.0, 5.0), st.floats(0.01, 10.0), st.floats(-20.0, 20.0), st.sampled_from("bluf"))


@given(st.lists(coordinates, min_size=1, max_size=6))
@settings(max_examples=150, deadline=None)
def test_bounces_are_those_of_one_wall_at_a_time(drawn):
    lower = np.array([low if walls in "bl" else -np.inf for low, _, _, walls in drawn])
    upper = np.array([low + width if walls in "bu" else np.inf for low, width, _, walls in drawn])
    x = np.array([low + where * width for low, width, where, _ in drawn])
    momentum = np.linspace(1.0, 2.0, x.size)
    there, turned = reflect(x, momentum, lower, upper)
    assert np.all((there >= lower) & (there <= upper))
    np.testing.assert_array_equal(np.abs(turned), momentum)
    for k, (_, width, where, _) in enumerate(drawn):
        expected, bounces = one_wall_at_a_time(x[k], lower[k], upper[k])
        assert there[k] == pytest.approx(expected, abs=1e-11)
        if bounces == 0:
            assert (there[k], turned[k]) == (x[k], momentum[k])
        if abs(where - round(where)) * width > 1e-9:  # at a wall rounding decides whether it bounced
            assert turned[k] == (-1.0) ** bounces * momentum[k]
    rows, signs = reflect(np.array([x, x]), np.array([momentum, -momentum]), lower, upper)  # many chains at once
    np.testing.assert_array_equal(rows, [there, there])
    np.testing.assert_array_equal(signs, [turned, -turned])


@given(st.floats(-5.0, 5.0), st.floats(0.01, 10.0), st.floats(-1e12, 1e12))
@settings(max_examples=150, deadline=None)
def test_from_however_far_away_it_is_inside_at_once(low, width, where):
    walls = np.array([low]), np.array([low + width])
    there, turned = reflect(np.array([low + where * width]), np.ones(1), *walls)
    assert walls[0] <= there <= walls[1]
    assert abs(turned[0]) == 1.0


@pytest.mark.parametrize("gone", [np.inf, -np.inf, np.nan], ids=str)
def test_what_is_not_finite_stays_and_the_others_are_reflected(gone):
    for low, high in ((-np.inf, np.inf), (0.0, np.inf), (-np.inf, 0.0), (0.0, 1.0)):
        lower, upper = np.array([low, 0.0, -np.inf]), np.array([high, 1.0, 2.0])
        there, turned = reflect(np.array([gone, 1.25, 2.5]), np.ones(3), lower, upper)
        np.testing.assert_array_equal(there, [gone, 0.75, 1.5])
        np.testing.assert_array_equal(turned, [1.0, -1.0, -1.0])
        alone, momentum = np.array([gone, 0.25, -9.0]), np.ones(3)
        assert reflect(alone, momentum, lower, upper) == (alone, momentum)  # the same objects
