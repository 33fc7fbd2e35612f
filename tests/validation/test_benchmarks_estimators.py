"""The section on estimators, on a few cases; no time is asserted."""

from __future__ import annotations

import numpy as np
import pytest

from validation.benchmarks.estimators import TABLES, Compared, compare, goals, mixed


def test_both_are_fitted_to_the_same_cases_and_scored_on_the_same_others():
    X, y = mixed(60)
    found = compare("mixed", X, y, most=30, splits=1)
    assert (found.n, found.d) == (30, 9)
    assert found.ratio == found.seconds[0] / found.seconds[1] > 0
    assert found.difference == pytest.approx(found.scores[0] - found.scores[1])
    assert all(score < 0 for score in found.scores)
    assert found.error > 0


def test_goals_are_of_the_time_and_of_the_score():
    fast = Compared("fast", 500, 3, (1.0, 1.0), (-0.4, -0.5), 0.1, 0.01)
    slow = Compared("slow", 500, 3, (1.6, 1.0), (-0.6, -0.5), -0.1, 0.01)
    assert [goal.passed for goal in goals([fast, slow])] == [True, True, False, False]


def test_there_are_five_tables_of_two_classes():
    assert len(TABLES) == 5
    for load in TABLES.values():
        X, y = load()
        assert len(X) == len(y) >= 200
        assert np.unique(np.asarray(y)).size == 2
