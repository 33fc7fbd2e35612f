"""A small table with two classes, and a quick fit of it."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd

import bayesgp_mf as bgp

X = np.random.default_rng(0).standard_normal((12, 2))
Y = np.where(X[:, 0] > 0, "present", "absent")
FRAME = pd.DataFrame(X, columns=["height", "weight"])
KERNEL = bgp.kernels.Gaussian(1.0)
SOFTMAX = {"likelihood": bgp.Softmax(), "method": "laplace"}


def quick(X=X, y=Y, kernel=KERNEL, likelihood=bgp.Probit(), **options):
    return bgp.fit(X, y, kernel, likelihood, **{"draws": 20, "chains": 2, "random_seed": 0, **options})


def class_names(idata) -> list[str]:
    return json.loads(idata["fit"].attrs["class_names"])
