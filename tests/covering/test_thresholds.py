"""Constants of the package at which a size decides which way a fit goes, crossed on both sides."""

from __future__ import annotations

import ast
from functools import cache
from importlib import import_module

import numpy as np
import pytest

import bayesgp_mf as bgp
from tests.covering import laws, sizes
from tests.covering.calls import CALLS
from tests.covering.options import arguments, draw
from tests.covering.thresholds import CELLS, THRESHOLDS

CROSSED = [
    pytest.param(each, cell, id=f"{each.module}.{each.name}: {cell}") for each in THRESHOLDS for cell in each.cells
]


def outcome(name):
    """Return what a call says: of its cases, of new ones and of those left out, in solutions and sums."""
    with laws.quiet():
        return of_fit(CELLS[name]) if name in CELLS else CALLS[name]()


def of_fit(cell):
    rng = np.random.default_rng(0)
    idata = bgp.fit(**arguments(cell, draw(cell, rng)))
    corrected = cell["corrected"] == "yes"
    found = laws.predicted(cell, idata, laws.new_cases(cell, rng), corrected=corrected)
    found |= {f"fitted {each}": idata["fit"][each].values for each in ("latent_mean", "latent_sd")}
    parts = bgp.posterior(idata).parts
    found["evidence"] = np.array([part.solution.evidence.value for part in parts])
    if parts[0].solution.evidence.correction is not None:
        found["correction"] = parts[0].solution.evidence.correction
        found["remaining"] = parts[0].solution.evidence.remaining
    if "loo_omitted" not in idata["fit"].attrs:
        found["loo"] = laws.pointwise(bgp.loo(idata))
        if corrected:
            found["corrected loo"] = laws.pointwise(bgp.loo(idata, corrected=True))
    return found


usual = cache(outcome)


def prepared(threshold, monkeypatch):
    """Return the modules of a constant, where those it stands beside have the values that it needs."""
    for module, name, value in threshold.beside:
        monkeypatch.setattr(import_module(f"bayesgp_mf.{module}"), name, value)
    return [import_module(f"bayesgp_mf.{module}") for module in (threshold.module, *threshold.together)]


@pytest.mark.parametrize(("threshold", "cell"), CROSSED)
def test_both_sides_agree_or_the_far_one_is_refused_in_words(threshold, cell, monkeypatch):
    modules = prepared(threshold, monkeypatch)
    assert getattr(modules[0], threshold.name) != threshold.beyond
    near = outcome(cell) if threshold.beside else usual(cell)
    for module in modules:
        monkeypatch.setattr(module, threshold.name, threshold.beyond)
    if threshold.words:
        with pytest.raises(ValueError, match=threshold.words):
            outcome(cell)
        return
    far = outcome(cell)
    assert far.keys() == near.keys()
    if threshold.differs is not None:
        threshold.differs(near, far)
        return
    for key, values in near.items():
        if key == "remaining":
            continue  # an estimate by the largest terms, of which two may be as large but for rounding
        if isinstance(values, str):
            assert far[key] == values
        else:
            np.testing.assert_allclose(far[key], values, rtol=threshold.within, atol=threshold.within, err_msg=key)


@pytest.mark.parametrize("threshold", THRESHOLDS, ids=lambda each: f"{each.module}.{each.name}")
def test_the_call_reads_the_constant(threshold, monkeypatch):
    """Without it, a cell ends at the line that asks for it: so changing it is felt."""
    module, *_ = prepared(threshold, monkeypatch)
    monkeypatch.delattr(module, threshold.name)
    with pytest.raises(NameError, match=threshold.name):
        outcome(threshold.cells[0])


LISTED = {sizes.origin(each.module, each.name) for each in THRESHOLDS}
OTHERS = {name for names in sizes.NO_THRESHOLDS.values() for name in names.split()}


def test_every_number_that_a_size_may_be_compared_with_is_crossed_or_has_a_reason():
    """Who adds one lists it in `thresholds`, with a cell that is beyond it, or says in `sizes` why it is none."""
    found = sizes.sizes(sizes.trees())
    assert not found - LISTED - OTHERS
    assert not OTHERS - found
    assert not OTHERS & LISTED


def test_a_new_number_is_found():
    source = "from bayesgp_mf.one import FROM as BEYOND\n_MOST, NEAR = 100, 0.5\nOTHER = 2**10\n"
    read = "def small(n):\n    return n <= _MOST and n > NEAR and n < BEYOND or [OTHER]\n"
    trees = {"one": ast.parse("FROM: int = 20_000"), "two": ast.parse(source + read)}
    assert sizes.sizes(trees) == {"one.FROM", "two._MOST"}
