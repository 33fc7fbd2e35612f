"""The study of flipped labels, on few draws and fewer cases."""

from __future__ import annotations

import numpy as np
import pytest

from validation.studies.flips import DRAWS, STUDY, found_flips


@pytest.mark.parametrize("seed", [7, 9, 14])
def test_flips_are_found_where_there_are_some(seed):
    """Of draws of 100 cases, which say less than the study's: those of seed 5 do not tell flips from roughness."""
    found = found_flips(100, seed)
    assert found["flipped"] == pytest.approx(0.1, abs=0.04)
    assert found["clean"] < 0.04


def test_a_draw_that_is_off_is_not_let_through():
    results = {task.name: {"flipped": 0.11, "clean": 1e-5} for task in STUDY.tasks}
    assert len(results) == DRAWS == 20
    assert all(check.passed for check in STUDY.conclude(results).checks)
    for which, value in (("flipped", 0.15), ("flipped", 0.05), ("clean", 0.05)):
        wrong = results | {"draw 3": results["draw 3"] | {which: value}}
        assert not np.all([check.passed for check in STUDY.conclude(wrong).checks])
