"""Containers that version 0.1.0 wrote: they load and predict the same numbers, whatever has changed since."""

from __future__ import annotations

import json
from pathlib import Path

import arviz as az
import numpy as np
import pytest

from tests.container.recorded.record import numbers_of

FOLDER = Path(__file__).parent / "recorded"
RECORDED = json.loads((FOLDER / "predictions.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("name", RECORDED["fits"])
def test_they_predict_the_same_numbers(name):
    idata = az.from_netcdf(str(FOLDER / f"{name}.nc"))
    found = numbers_of(idata, np.array(RECORDED["X_new"]), RECORDED["random_seed"])
    assert set(found) == set(RECORDED["fits"][name])
    for quantity, expected in RECORDED["fits"][name].items():
        # nothing is solved again, so only rounding may differ, of other releases of BLAS: 1e-12 was seen, in draws
        np.testing.assert_allclose(found[quantity], expected, rtol=1e-8, err_msg=quantity)
