"""What the tests of the PyMC face share: one small problem, containers as of PyMC, and a mode that compiles nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
import xarray as xr
from pytensor.compile.mode import Mode

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import make_container

INTERPRETED = Mode(linker="py", optimizer=None)
"""Ready at once and slow; PyTensor's own modes take seconds to compile each graph."""


CASES = [f"case{i}" for i in range(20)]


class Data(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    t: np.ndarray


@pytest.fixture(scope="package")
def data() -> Data:
    """Return 20 cases with two inputs and both labels."""
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.5, 9.0), n=20, random_seed=8)
    return Data(toy.X, toy.y, 2.0 * toy.y - 1.0)


def drawn(data, ls):
    """Return a container as PyMC makes it, with given draws of the length scale."""
    ls = np.asarray(ls)
    coords = {"chain": np.arange(2), "draw": np.arange(ls.shape[1])}
    groups = {
        "posterior": xr.Dataset({"ls": xr.DataArray(ls, dims=("chain", "draw"), coords=coords)}),
        "observed_data": xr.Dataset({"y": xr.DataArray(data.y, dims=("case",), coords={"case": CASES})}),
        # what PyMC computes for a joint density
        "log_likelihood": xr.Dataset({"y": xr.DataArray(0.0 * ls, dims=("chain", "draw"), coords=coords)}),
    }
    return make_container(groups)
