"""Thirty groups of unequal size, whose random intercepts `record_groups` has recorded as PyMC's NUTS finds them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

PATH = Path(__file__).with_suffix(".json")
INTERCEPT, SLOPE, NOISE = 0.8, 1.5, 0.5
"""Prior variances of the intercepts and of the slope, and the noise variance of the Gaussian likelihood."""


def table(likelihood: str) -> tuple[pd.DataFrame, np.ndarray]:
    """Return thirty groups of 1 to 30 cases with a covariate, and targets: numbers, or labels of a probit."""
    rng = np.random.default_rng(20)
    number = np.repeat(np.arange(30), np.arange(1, 31))[rng.permutation(465)]
    frame = pd.DataFrame({"clinic": [f"clinic {k:02d}" for k in number], "dose": rng.standard_normal(465)})
    f = rng.normal(0.0, np.sqrt(INTERCEPT), 30)[number] + 0.7 * frame["dose"].to_numpy()
    sd = np.sqrt(NOISE) if likelihood == "gaussian" else 1.0
    y = f + sd * rng.standard_normal(465)
    return frame, y if likelihood == "gaussian" else (y > 0).astype(int)
