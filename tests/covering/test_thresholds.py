"""Every listed threshold on size is crossed at 30 cases, by a constant that is lowered, and both sides agree."""

from __future__ import annotations

from functools import cache
from importlib import import_module

import numpy as np
import pytest

import bayesgp_mf as bgp
from tests.covering import laws
from tests.covering.options import arguments, draw
from tests.covering.thresholds import CELLS, THRESHOLDS

CROSSED = [
    pytest.param(each, cell, id=f"{each.module}.{each.name}: {cell}") for each in THRESHOLDS for cell in each.cells
]


def outcome(name):
    """Return what a fit says of its cases, of new ones and of those left out; solutions and sums, no draws."""
    cell, rng = CELLS[name], np.random.default_rng(0)
    with laws.quiet():
        idata = bgp.fit(**arguments(cell, draw(cell, rng)))
        corrected = cell["corrected"] == "yes"
        found = laws.predicted(cell, idata, laws.new_cases(cell, rng), corrected=corrected)
        found |= {f"fitted {each}": idata["fit"][each].values for each in ("latent_mean", "latent_sd")}
        found["evidence"] = np.array([part.solution.evidence.value for part in bgp.posterior(idata).parts])
        if "loo_omitted" not in idata["fit"].attrs:
            found["loo"] = bgp.loo(idata, corrected=corrected)["se"]
    return {key: np.asarray(values, dtype=float) for key, values in found.items()}


usual = cache(outcome)


@pytest.mark.parametrize(("threshold", "cell"), CROSSED)
def test_both_sides_agree_or_the_far_one_is_refused_in_words(threshold, cell, monkeypatch):
    module = import_module(f"bayesgp_mf.{threshold.module}")
    assert getattr(module, threshold.name) > threshold.lowered
    near = usual(cell)
    monkeypatch.setattr(module, threshold.name, threshold.lowered)
    if threshold.words:
        with pytest.raises(ValueError, match=threshold.words):
            outcome(cell)
        return
    far = outcome(cell)
    assert far.keys() == near.keys()
    for key, values in near.items():
        np.testing.assert_allclose(far[key], values, rtol=threshold.within, atol=threshold.within, err_msg=key)


@pytest.mark.parametrize("threshold", THRESHOLDS, ids=lambda each: f"{each.module}.{each.name}")
def test_the_call_reads_the_constant(threshold, monkeypatch):
    """Without it, a cell ends at the line that asks for it: so lowering it is felt."""
    monkeypatch.delattr(import_module(f"bayesgp_mf.{threshold.module}"), threshold.name)
    with pytest.raises(NameError, match=threshold.name):
        outcome(threshold.cells[0])
