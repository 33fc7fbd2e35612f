"""The fixed-point driver on maps whose fixed points, or lack of them, are known."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.errors import NotPositiveDefiniteError, Status
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.solvers.driver import fixed_point

CONTROL = Control(tolerance=1e-10, max_iterations=500)


def test_linear_map_is_solved_in_memory_plus_a_few_steps():
    rng = np.random.default_rng(0)
    matrix = 0.98 * np.linalg.qr(rng.standard_normal((4, 4)))[0]
    target = rng.standard_normal(4)
    x, info = fixed_point(lambda x: matrix @ x + target, np.zeros(4), CONTROL)
    np.testing.assert_allclose(x, np.linalg.solve(np.eye(4) - matrix, target), atol=1e-8)
    assert info.status is Status.CONVERGED
    assert info.residual <= 1e-10
    assert info.n_iterations <= 10  # plain iteration needs over a thousand


def test_expanding_map_is_solved_too():
    x, info = fixed_point(lambda x: -3.0 * x + 8.0, np.zeros(1), CONTROL)
    assert info.status is Status.CONVERGED
    np.testing.assert_allclose(x, 2.0)


def test_start_at_the_solution_takes_one_evaluation():
    _, info = fixed_point(np.cos, np.array([0.7390851332151607]), CONTROL)
    assert info.n_iterations == 1
    assert info.status is Status.CONVERGED


def test_invalid_states_are_stepped_back_from():
    evaluated = []

    def update(x: np.ndarray) -> np.ndarray:
        evaluated.append(float(x[0]))
        if x[0] > 1.5:
            raise NotPositiveDefiniteError("beyond the edge")
        return x + 10.0 * (1.4 - x)  # overshoots far beyond 1.5

    x, info = fixed_point(update, np.zeros(1), CONTROL)
    assert max(evaluated) > 1.5
    assert info.status is Status.CONVERGED
    np.testing.assert_allclose(x, 1.4)


def test_a_mixed_step_that_leads_away_is_taken_back():
    visited = []

    def update(x):
        visited.append(float(x[0]))
        return x - np.where(np.abs(x) < 30.0, np.arctan(x), 10.0 * x)  # flat where it begins, steep beyond

    x, info = fixed_point(update, np.array([10.0]), Control(), worse=3.0)
    assert visited[2] < -30.0
    assert visited[3] == pytest.approx(visited[1] - np.arctan(visited[1]))
    assert info.status is Status.CONVERGED
    assert abs(x[0]) < 1e-8


def test_values_that_are_not_finite_are_stepped_back_from():
    # the plain step from 3 leads to -13, where the root is not defined
    x, info = fixed_point(lambda x: x - 8.0 * (np.sqrt(x) - 1.0) ** 3 - (x - 1.0), np.array([3.0]), CONTROL)
    assert info.status is Status.CONVERGED
    np.testing.assert_allclose(x, 1.0, atol=1e-6)


@pytest.mark.parametrize(
    ("update", "start", "status"),
    [
        (lambda x: x + 1.0, 0.0, Status.STALLED),
        (lambda x: x * np.nan, 1.0, Status.NO_VALID_STEP),
        (lambda x: np.where(x == 0, 1.0, np.nan), 0.0, Status.NO_VALID_STEP),
    ],
    ids=["no fixed point", "invalid start", "nowhere to go"],
)
def test_failure_is_named(update, start, status):
    _, info = fixed_point(update, np.array([start]), CONTROL)
    assert info.status is status
    assert info.residual > CONTROL.tolerance


def test_too_few_iterations_are_reported():
    _, info = fixed_point(np.cos, np.zeros(1), Control(tolerance=1e-12, max_iterations=3))
    assert info.status is Status.MAX_ITERATIONS
    assert info.n_iterations == 3


def test_newton_steps_are_taken_where_they_help():
    """x = x - sin x at pi: plain steps converge slowly at first, Newton's from near by at once."""
    taken = []

    def newton(x: np.ndarray, change: np.ndarray) -> np.ndarray:
        taken.append(float(x[0]))
        return -change / (0.3 * np.cos(x))

    x, info = fixed_point(lambda x: x + 0.3 * np.sin(x), np.array([2.5]), CONTROL, newton)
    np.testing.assert_allclose(x, np.pi, atol=1e-9)
    assert info.status is Status.CONVERGED
    assert len(taken) == info.n_iterations - 1 <= 5


@pytest.mark.parametrize("bad", [np.nan, 1e3, 0.0], ids=["not a number", "far too long", "none at all"])
def test_newton_steps_that_do_not_help_are_not_taken(bad):
    calls = []

    def newton(x: np.ndarray, change: np.ndarray) -> np.ndarray:
        calls.append(None)
        return np.full_like(x, bad)

    x, info = fixed_point(lambda x: 0.5 * np.cos(x), np.zeros(1), CONTROL, newton)
    alone, plain = fixed_point(lambda x: 0.5 * np.cos(x), np.zeros(1), CONTROL)
    np.testing.assert_array_equal(x, alone)
    assert info.n_iterations == plain.n_iterations + len(calls)
    assert 1 <= len(calls) < plain.n_iterations  # each needs changes ten times smaller than the last


def test_newton_may_have_no_step():
    x, info = fixed_point(lambda x: 0.5 * np.cos(x), np.zeros(1), CONTROL, lambda x, change: None)
    np.testing.assert_array_equal(x, fixed_point(lambda x: 0.5 * np.cos(x), np.zeros(1), CONTROL)[0])
    assert info.status is Status.CONVERGED


def test_it_may_be_enough_before_the_tolerance_is_reached():
    seen = []

    def enough(change: np.ndarray) -> bool:
        seen.append(float(np.abs(change).max()))
        return seen[-1] < 1e-2

    _, info = fixed_point(np.cos, np.zeros(1), CONTROL, enough=enough)
    assert info.status is Status.CONVERGED
    assert CONTROL.tolerance < info.residual == seen[-1] < 1e-2 < min(seen[:-1])
    assert info.n_iterations == len(seen) < fixed_point(np.cos, np.zeros(1), CONTROL)[1].n_iterations


@pytest.mark.parametrize("bad", [-1e-3, np.nan, np.inf, "small"])
def test_a_tolerance_of_the_evidence_is_a_number_of_nats(bad):
    with pytest.raises(ValueError, match="evidence_tolerance must be a number of nats, 0 or more"):
        Control(evidence_tolerance=bad)
