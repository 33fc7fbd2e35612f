"""What the tests of the PyMC face share: one small problem, and a mode that compiles nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from pytensor.compile.mode import Mode

import bayesgp_mf as bgp

INTERPRETED = Mode(linker="py", optimizer=None)
"""Ready at once and slow; PyTensor's own modes take seconds to compile each graph."""


class Data(NamedTuple):
    X: np.ndarray
    y: np.ndarray
    t: np.ndarray


@pytest.fixture(scope="package")
def data() -> Data:
    """Return 20 cases with two inputs and both labels."""
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.5, 9.0), n=20, random_seed=8)
    return Data(toy.X, toy.y, 2.0 * toy.y - 1.0)
