"""`fit`, `predict` and `loo` in every pair of values of their options, and some triples of the first six.

Not part of the fast tests is what takes seconds (`refusals.SLOW`), and most of the triples; `make validate` has both.
"""

from __future__ import annotations

from itertools import combinations

import pytest

from bayesgp_mf import likelihoods
from bayesgp_mf.hyper import strategy_names
from bayesgp_mf.methods import METHODS
from tests.covering import refusals
from tests.covering.arrays import Cell, array, uncovered
from tests.covering.laws import TABLE
from tests.covering.options import FIRST_SIX, FIT, HYPER, LIKELIHOODS

PARTS = 16
THIRDS = 3
FAST = (*refusals.FIT, *refusals.SLOW)
SIX = {name: FIT[name] for name in FIRST_SIX}
USUAL = {name: values[0] for name, values in FIT.items()}
OF_SIX = tuple(each for each in FAST if set(each.options) <= set(SIX))


def every(part: int, cells: list[Cell]) -> list[tuple[int, Cell]]:
    """Return every so-manieth of the cells, with its number, which is the seed of its data."""
    return list(enumerate(cells))[part::PARTS]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_pair_works_and_agrees_with_what_it_must_be_equal_to(part, tmp_path):
    for number, cell in every(part, TABLE.pairs):
        assert TABLE.tried(number, cell, tmp_path) == "works"


@pytest.mark.parametrize("part", range(PARTS))
def test_what_does_not_go_together_is_refused_in_words_before_work_is_done(part, tmp_path):
    for number, cell in every(part, TABLE.refused):
        assert TABLE.tried(number, cell, tmp_path) == "refused"


def test_triples_of_one_likelihood_work(tmp_path):
    """All pairs of the other options are triples with it; those of the others are tried by `make validate`."""
    cells = array({**SIX, "likelihood": [USUAL["likelihood"]]}, 2, OF_SIX)
    for number, cell in list(enumerate(cells))[::THIRDS]:
        TABLE.tried(number, {**USUAL, **cell}, tmp_path)


def test_the_cells_have_every_pair():
    assert not list(uncovered(TABLE.pairs, FIT, 2, FAST))
    *others, last = TABLE.pairs  # which could not be left out
    assert any(all((c[a], c[b]) != (last[a], last[b]) for c in others) for a, b in combinations(FIT, 2))


def test_a_triple_of_the_first_six_is_in_some_cell_of_that_strength():
    some = {name: FIT[name][:4] for name in FIRST_SIX}
    of_six = [each for each in refusals.FIT if set(each.options) <= set(some)]
    cells = array(some, 3, of_six)
    assert not list(uncovered(cells, some, 3, of_six))
    assert list(uncovered(array(some, 2, of_six), some, 3, of_six))


def test_every_refusal_is_met_alone():
    counts = [sum(each.refuses(cell) for each in refusals.FIT) for cell in TABLE.refused]
    alone_in = [
        [each.refuses(cell) for each in refusals.FIT].index(True)
        for cell, n in zip(TABLE.refused, counts, strict=True)
        if n == 1
    ]
    assert set(alone_in) == set(range(len(refusals.FIT)))


def test_what_is_slow_is_little():
    """At most a tenth of the pairs are left to `make validate`."""
    left = sum(1 for _ in uncovered(TABLE.pairs, FIT, 2, refusals.FIT))
    whole = sum(len(FIT[a]) * len(FIT[b]) for a, b in combinations(FIT, 2))
    assert left <= 0.1 * whole


def test_the_table_has_what_the_package_has():
    """Who adds a likelihood, a method or a strategy adds it here."""
    made = {type(make(6)).__name__ for make in LIKELIHOODS.values()}
    assert made == set(likelihoods.__all__) - {"Likelihood", "Step", "from_dict"}
    assert set(FIT["method"]) == set(METHODS)
    assert {strategy.name for strategy in HYPER.values() if strategy is not None} == set(strategy_names())
