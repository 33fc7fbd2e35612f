"""The benchmark of many areas, made small."""

from __future__ import annotations

from validation.benchmarks import areas


def test_few_areas_have_a_table():
    (table,) = areas.benchmarks(lambda _: None, sides=(6,))
    assert [row[:2] for row in table.rows] == [("leroux", "36"), ("leroux + Bias", "36")]
    assert all(0.0 < one["mixing"] < 1.0 for one in table.numbers)
