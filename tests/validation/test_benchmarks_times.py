"""The benchmark of times to an event, from one start."""

from __future__ import annotations

from validation.benchmarks import times


def test_both_tables_are_measured():
    (table,) = times.benchmarks(lambda _: None, starts=1)
    assert [row[1:3] for row in table.rows] == [("137", "7%"), ("200", "50%")]
    assert all(one[key] > 0 for one in table.numbers for key in (*times.TIMES, "bytes"))
