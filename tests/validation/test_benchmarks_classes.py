"""The section on several classes, on a few cases; no time is asserted."""

from __future__ import annotations

import numpy as np
import pytest

from validation.benchmarks import class_competitors, classes
from validation.benchmarks.class_competitors import (
    COMPETITORS,
    DEFAULT,
    FIXED,
    LARGE,
    LOGISTIC,
    ON,
    PLATT,
    PROBIT,
    REST,
    Reached,
    Scored,
)
from validation.multinomial.tables import TABLES, divided, drawn


@pytest.fixture(scope="module")
def small():
    return drawn(30, 3)


@pytest.mark.parametrize("table", TABLES)
def test_tables_are_divided_and_on_one_scale(table):
    parts = list(TABLES[table]())
    assert len(parts) == {"wine": 5, "forensic glass": 10, "overlapping": 1, "digits": 1}[table]
    for split in parts:
        assert set(split.codes) == set(range(split.n_classes)) >= set(split.codes_test)
        if table == "digits":  # ink
            assert (split.X.min(), split.X.max()) == (0.0, 1.0)
            continue
        assert np.abs(split.X.mean(axis=0)).max() < 1e-10
        sd = split.X.std(axis=0)
        assert np.all((np.abs(sd - 1.0) < 1e-10) | (sd == 0.0))
    held_out = sum(split.codes_test.size for split in parts)
    assert held_out == {"wine": 178, "forensic glass": 214, "overlapping": 1000, "digits": 1297}[table]


def test_a_class_that_is_held_out_alone_is_refused():
    with pytest.raises(ValueError, match=r"none is left of \[1\]"):
        divided(np.arange(4.0)[:, None], np.array([0, 1, 0, 2]), np.array([False, True, False, False]))


@pytest.mark.parametrize("name", COMPETITORS)
def test_all_competitors_beat_the_frequencies(name, small):
    found = class_competitors.scored(COMPETITORS[name].train, small)
    assert len(found.log_density) == small.codes_test.size
    shares = np.bincount(small.codes, minlength=3) / small.codes.size
    assert np.mean(found.log_density) > np.mean(np.log(shares)[small.codes_test])
    assert 0 < found.errors < small.codes_test.size
    assert found.seconds > 0


def test_components_that_say_nothing_are_left_out():
    table, rng = drawn(80, 3), np.random.default_rng(0)

    def noisy(X):
        return np.hstack([X, 0.3 * rng.standard_normal((len(X), 6))])

    table = table._replace(X=noisy(table.X), X_test=noisy(table.X_test))
    assert class_competitors.numbers_of_components(table) == [8, 4, 2]
    for name in (PROBIT, LOGISTIC):
        whole, part = (class_competitors.scored(COMPETITORS[each].train, table) for each in (name, ON.format(name)))
        assert np.mean(part.log_density) > np.mean(whole.log_density)


def test_what_are_no_probabilities_is_refused(small):
    with pytest.raises(ValueError, match="sum to one"):
        class_competitors.scored(lambda split: lambda X: np.full((len(X), 3), 0.5), small)


def test_a_process_reports_each_part_and_says_when_it_is_stopped():
    reached = class_competitors.compete(LOGISTIC, "wine", 60)
    assert (reached.failure, len(reached.parts)) == ("", 5)
    assert -0.2 < reached.score < 0.0
    assert sum(len(part.log_density) for part in reached.parts) == 178
    stopped = class_competitors.compete(PROBIT, "digits", 1)
    assert (stopped.failure, stopped.parts) == ("stopped after 1 s", ())


def one(score, seconds=1.0, size=10**9, failure=""):
    return Reached("somebody", (Scored(seconds, 0.1, size, [score, score], 1),), failure)


def test_goals_are_of_those_who_came_to_the_end():
    found = {
        "digits": {
            DEFAULT: one(-0.12),
            PLATT: one(-0.13),
            ON.format(PROBIT): one(-0.1, 59.0),
            LOGISTIC: one(-0.2),
            REST: one(-0.05),
            ON.format(REST): one(-0.1001),
        },
        "wine": {PROBIT: one(-0.1), LOGISTIC: one(-0.05, failure="stopped after 300 s")},
    }
    verdicts = [goal.passed for goal in classes.goals(found)]
    assert verdicts == [True, True, None, False, True, None, None, None, True, None, None, None]
    assert [goal.passed for goal in classes.goals_at_fixed({LARGE: one(-1.0, 41.0)})] == [False, True, None, None]


def test_a_listing_has_no_score_of_some_parts():
    lines = classes.listing("a table", [one(-0.1), one(-0.3, failure="stopped after 300 s")], ()).lines()
    assert "-0.1000" in lines[3]
    assert "stopped after 300 s" in lines[4]
    assert "-0.3000" not in lines[4]
    assert set(FIXED) == {LARGE, classes.INDUCING}
