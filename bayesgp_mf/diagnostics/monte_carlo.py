"""Averages over the draws of chains with their Monte-Carlo standard errors, as both generations of ArviZ give them.

Arrays are ``(chain, draw, case)``; results are ``(case,)``.
"""

from __future__ import annotations

import numpy as np
import xarray as xr

from bayesgp_mf.container.layout import SAMPLE_DIMS
from bayesgp_mf.types import Array


def mean_and_error(draws: xr.DataArray) -> tuple[Array, Array, Array]:
    """Return mean, Monte-Carlo standard error of the mean, and effective number of draws."""
    import arviz as az

    dataset = xr.Dataset({"x": draws})
    mean = draws.mean(dim=SAMPLE_DIMS).values
    return mean, az.mcse(dataset, method="mean")["x"].values, az.ess(dataset, method="mean")["x"].values


def sd_and_error(draws: xr.DataArray) -> tuple[Array, Array]:
    """Return standard deviation and its Monte-Carlo standard error.

    By the delta method from the mean squared deviation; ``az.mcse(method="sd")`` of ArviZ 0.23 fails with
    NumPy 2.4.
    """
    squared = (draws - draws.mean(dim=SAMPLE_DIMS)) ** 2
    variance, error, _ = mean_and_error(squared)
    sd = np.sqrt(variance)
    return sd, error / (2.0 * sd)


def quantile_and_error(draws: xr.DataArray, level: float) -> tuple[Array, Array]:
    """Return a quantile and its Monte-Carlo standard error."""
    import arviz as az

    quantile = draws.quantile(level, dim=SAMPLE_DIMS).values
    return quantile, az.mcse(xr.Dataset({"x": draws}), method="quantile", prob=level)["x"].values
