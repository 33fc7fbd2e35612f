"""A small problem of signs that the tests of orthants share."""

from __future__ import annotations

import numpy as np

import bayesgp_mf as bgp


def toy(n, variance=4.0, noise=0.1, seed=4):
    """Return a Gram matrix with noise, and labels drawn from it."""
    data = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, variance), n=n, random_seed=seed)
    return bgp.kernels.Gaussian(1.0, variance).gram(data.X) + noise * np.eye(n), 2.0 * data.y - 1.0
