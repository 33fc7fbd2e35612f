"""Problems of several classes that more than one file of tests works on."""

from __future__ import annotations

import numpy as np

import bayesgp_mf as bgp

NAMES = ("a", "b", "c", "d", "e", "f")


def softmax_problem(n, n_classes, variance=3.0, seed=0, per_class=False):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    gram = bgp.kernels.Gaussian(1.2, variance).gram(X)
    t = np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, n)])[:n].astype(float)
    if per_class:
        gram = np.stack([bgp.kernels.Gaussian(1.0 + 0.3 * c, variance + c).gram(X) for c in range(n_classes)])
    return bgp.Problem(gram, t, bgp.Softmax(NAMES[:n_classes]))
