"""Averages over the draws of chains with their Monte-Carlo standard errors, as both generations of ArviZ give them.

Arrays are ``(chain, draw, case)``; results are ``(case,)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from bayesgp_mf.inferencedata import SAMPLE_DIMS, arviz_major
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


def smoothed_log_weights(log_weights: Array) -> tuple[Array, float]:
    """Return Pareto-smoothed log importance weights ``(draws,)``, whose exponentials sum to one, and k-hat [1]_.

    References
    ----------
    .. [1] Vehtari, A., Simpson, D., Gelman, A., Yao, Y., & Gabry, J. (2024). Pareto smoothed importance sampling.
       Journal of Machine Learning Research 25(72), 1-58.
    """
    answer: tuple[Any, Any]
    if arviz_major() < 1:
        import arviz as az

        with np.errstate(over="ignore"):  # of a sum whose inverse is then zero, as it should be
            answer = az.psislw(log_weights)
    else:
        from arviz_stats.base import array_stats

        answer = array_stats.psislw(-log_weights)  # it takes log likelihoods, whose inverses are weights
    return np.asarray(answer[0]), float(answer[1])
