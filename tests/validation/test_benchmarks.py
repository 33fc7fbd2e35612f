"""The tables of times, from a clock that does as it is told; nothing here is really timed."""

from __future__ import annotations

import json
import math
from itertools import accumulate

import numpy as np
import pytensor
import pytest

from validation.benchmarks import inla
from validation.benchmarks.__main__ import main
from validation.benchmarks.timing import HEADER, Benchmark, Case, Row, in_turn


def table():
    return Benchmark(
        "Solve, n = 3",
        (Row("tap", (0.002, 0.004, 0.009), "5 steps"), Row("naive, slow", (2.0, 1.0, 3.0))),
        ("What it means. " * 20,),
    )


def clock_of(*durations):
    """Return a clock on which the timed parts take so long, one after the other, with a second between them."""
    ticks = accumulate(value for duration in durations for value in (1.0, duration))
    return lambda: next(ticks)


def test_ratios_are_those_of_medians_to_the_first_row():
    tap, naive = table().rows
    assert (tap.median, naive.median) == (0.004, 2.0)
    assert (table().ratio(tap), table().ratio(naive)) == (1.0, 500.0)


def test_lines_are_aligned_and_have_all_numbers():
    title, empty, header, first, second, gap, *remarks = table().lines()
    assert (title, empty, gap) == ("Solve, n = 3", "", "")
    assert header.split("  ")[0] == HEADER[0]
    assert first.split() == ["tap", "4", "2", "9", "1.00", "5", "steps"]
    assert second.split() == ["naive,", "slow", "2000", "1000", "3000", "500.00"]
    assert len(header) == len(second) == first.index("  5 steps")
    assert " ".join(remarks).split() == ("What it means. " * 20).split()
    assert max(map(len, remarks)) <= 120


@pytest.mark.parametrize("seconds", [(), (0.1, 0.0), (math.nan,), (math.inf,), (-1.0,)])
def test_a_row_without_a_time_is_refused(seconds):
    with pytest.raises(ValueError, match="'tap' must have positive, finite times"):
        Row("tap", seconds)


def test_a_table_without_a_row_is_refused():
    with pytest.raises(ValueError, match="needs a row to compare with"):
        Benchmark("empty", ())


def test_cases_are_run_in_turn_and_prepared_off_the_clock():
    calls = []
    cases = {
        "a": Case(lambda: calls.append("a"), prepare=lambda: calls.append("prepare a")),
        "b": Case(lambda: calls.append("b") or 7, describe=lambda result: f"gave {result}"),
    }
    told = []
    rows = in_turn(cases, 2, told.append, clock_of(90.0, 80.0, 1.0, 2.0, 3.0, 4.0))
    assert calls == ["prepare a", "a", "b"] * 3
    assert told == ["a", "b"] * 3
    # the first round, 90 and 80 seconds, is not counted
    assert rows == (Row("a", (1.0, 3.0)), Row("b", (2.0, 4.0), "gave 7"))


def test_time_of_the_preparation_is_not_counted():
    now = [0.0]

    def wait(seconds):
        now[0] += seconds

    cases = {"a": Case(lambda: wait(1.0), prepare=lambda: wait(100.0))}
    assert in_turn(cases, 2, clock=lambda: now[0]) == (Row("a", (1.0, 1.0)),)


def test_everything_is_printed_and_written(tmp_path, capsys):
    output = tmp_path / "new" / "bench.json"
    assert main(["--output", str(output)], [lambda advance: [table()], lambda advance: iter([table(), table()])]) == 0
    assert capsys.readouterr().out.count("Solve, n = 3") == 3
    written = json.loads(output.read_text(encoding="utf-8"))
    assert set(written["versions"]) == {"bayesgp_mf", "numpy", "scipy"}
    assert [benchmark["title"] for benchmark in written["benchmarks"]] == ["Solve, n = 3"] * 3
    assert written["benchmarks"][0]["rows"][1] == {
        "name": "naive, slow",
        "seconds": [2.0, 1.0, 3.0],
        "median": 2.0,
        "ratio": 500.0,
        "note": "",
    }


def test_densities_in_pymc_are_timed_beside_inla_which_is_named_where_it_is_absent(monkeypatch):
    monkeypatch.setattr(inla, "has_inla", lambda: False)
    for name, value in (("CALLS", 1), ("DRAWS", 2), ("RUNS", 1)):
        monkeypatch.setattr(inla, name, value)
    told = []
    X = np.linspace(-2.0, 2.0, 8)[:, None]
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        made = inla.models(inla.Data(X, (X[:, 0] > 0.3).astype(np.int64)))
        calls, steps = inla._tables(8, made, told.append)
    for table in (calls, steps):
        assert [row.name for row in table.rows] == list(inla.OURS)
        assert inla.MISSING in table.remarks
    assert len(told) == 12  # two rounds of calls, two of runs
    off = [float(row.note.rpartition(" ")[2]) for row in calls.rows]
    assert max(off) < 1e-6
    assert all(int(row.note.split()[0]) >= 2 for row in steps.rows)
