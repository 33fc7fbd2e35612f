"""Streams, estimators and tables in parts, each in every pair of values of its options."""

from __future__ import annotations

from itertools import combinations

import pytest

from tests.covering import estimators, shards, streams
from tests.covering.arrays import uncovered

TABLES = {"streams": streams.TABLE, "estimators": estimators.TABLE, "shards": shards.TABLE}
PARTS = 8
of_each = pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)


@of_each
@pytest.mark.parametrize("part", range(PARTS))
def test_every_pair_works_and_agrees_with_what_it_must_be_equal_to(table, part, tmp_path):
    for number, cell in list(enumerate(table.pairs))[part::PARTS]:
        assert table.tried(number, cell, tmp_path) == "works"


@of_each
def test_what_does_not_go_together_is_refused_in_words(table, tmp_path):
    for number, cell in enumerate(table.refused):
        assert table.tried(number, cell, tmp_path) == "refused"


@of_each
def test_the_cells_have_every_pair(table):
    assert not list(uncovered(table.pairs, table.options, 2, (*table.refusals, *table.slow)))
    left = sum(1 for _ in uncovered(table.pairs, table.options, 2, table.refusals))
    assert left <= 0.1 * sum(len(table.options[a]) * len(table.options[b]) for a, b in combinations(table.options, 2))
