"""Small problems that the tests of online learning share."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian

KERNEL = bgp.kernels.Gaussian(1.0, 2.0) + bgp.kernels.Bias(0.5)

LIKELIHOODS = {
    "probit": bgp.Probit(),
    "probit with flips": bgp.Probit(0.5, 0.1),
    "step": bgp.Step(),
    "step with flips": bgp.Step(0.1),
    "gaussian": Gaussian(0.5),
}
every_likelihood = pytest.mark.parametrize("likelihood", LIKELIHOODS.values(), ids=LIKELIHOODS)


def make_inputs(n: int = 25, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs ``(n, 2)`` and labels, in random order, that a step function of the prior can have."""
    toy = bgp.datasets.make_toy(KERNEL, bgp.Step(), n=n, random_seed=seed)
    return toy.X, 2.0 * toy.y - 1.0


def make_problem(likelihood, n: int = 25, seed: int = 1) -> bgp.Problem:
    """Return the problem of `make_inputs`."""
    X, t = make_inputs(n, seed)
    return bgp.Problem(KERNEL.gram(X), t, likelihood)
