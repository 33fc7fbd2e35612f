"""`sharded.fit_stream` in every pair of values of their options."""

from __future__ import annotations

import pytest

from tests.covering.arrays import uncovered
from tests.covering.shards import OPTIONS, REFUSALS, SLOW, TABLE

PARTS = 6


@pytest.mark.parametrize("part", range(PARTS))
def test_every_pair_works_and_agrees_with_what_it_must_be_equal_to(part, tmp_path):
    for number, cell in list(enumerate(TABLE.pairs))[part::PARTS]:
        assert TABLE.tried(number, cell, tmp_path) == "works"


def test_what_does_not_go_together_is_refused_in_words(tmp_path):
    for number, cell in enumerate(TABLE.refused):
        assert TABLE.tried(number, cell, tmp_path) == "refused"


def test_the_cells_have_every_pair():
    assert not list(uncovered(TABLE.pairs, OPTIONS, 2, (*REFUSALS, *SLOW)))
