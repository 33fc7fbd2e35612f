"""Means and standard deviations of draws with their Monte-Carlo errors, and how far two sets of them are apart."""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import xarray as xr

from bayesgp_mf.container.layout import SAMPLE_DIMS
from bayesgp_mf.diagnostics.importance import mean_and_error, sd_and_error
from bayesgp_mf.types import Array
from validation.sampling.arviz_calls import convergence


class Moments(Protocol):
    """Means and standard deviations of k quantities with their Monte-Carlo standard errors, ``(k,)`` each."""

    @property
    def mean(self) -> Array:
        """The means."""

    @property
    def mean_error(self) -> Array:
        """Their errors."""

    @property
    def sd(self) -> Array:
        """The standard deviations."""

    @property
    def sd_error(self) -> Array:
        """Their errors."""


class Statistics(NamedTuple):
    """Of each of k quantities, ``(k,)`` each.

    Attributes
    ----------
    mean, mean_error, sd, sd_error : array
        Posterior mean and standard deviation, with their Monte-Carlo standard errors.
    r_hat, ess_bulk, ess_tail : array
        Rank-normalised split r-hat, effective sample sizes.
    """

    mean: Array
    mean_error: Array
    sd: Array
    sd_error: Array
    r_hat: Array
    ess_bulk: Array
    ess_tail: Array


class Apart(NamedTuple):
    """How far a sample is from a reference, in posterior standard deviations of the reference, ``(k,)`` each.

    Attributes
    ----------
    mean, mean_error : array
        Difference of the means, with its standard error.
    sd, sd_error : array
        Difference of the standard deviations, with its standard error.
    """

    mean: Array
    mean_error: Array
    sd: Array
    sd_error: Array

    def beyond_error(self) -> Array:
        """Return the larger of the two differences ``(k,)`` in size, each less its standard error."""
        return np.maximum(np.abs(self.mean) - self.mean_error, np.abs(self.sd) - self.sd_error)


def statistics(draws: Array) -> Statistics:
    """Return the statistics of draws ``(chain, draw, k)``."""
    array = xr.DataArray(draws, dims=(*SAMPLE_DIMS, "quantity"))
    return Statistics(*mean_and_error(array)[:2], *sd_and_error(array), *convergence(array))


def apart(sample: Moments, reference: Moments) -> Apart:
    """Return how far a sample is from a reference."""
    return Apart(
        (sample.mean - reference.mean) / reference.sd,
        np.hypot(sample.mean_error, reference.mean_error) / reference.sd,
        (sample.sd - reference.sd) / reference.sd,
        np.hypot(sample.sd_error, reference.sd_error) / reference.sd,
    )
