"""Gram matrices and corrections as arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.inference.assembly import kernel_entries
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.matrices.dense import Correction, DenseCorrection, SiteCorrection
from bayesgp_mf.matrices.low_rank import Gram, LowRankCorrection, LowRankGram, site_correction
from bayesgp_mf.matrices.pivoting import at_pivots
from bayesgp_mf.multiclass.correction import SoftmaxCorrection
from bayesgp_mf.types import Array


def gram_arrays(gram: Gram, most: int) -> dict[str, NDArray[Any]]:
    """Return what a Gram matrix of low rank is made of again, its pivots; -1 where there are fewer than ``most``."""
    if most == 0:
        return {}
    pivots = gram.pivots if isinstance(gram, LowRankGram) else np.empty(0, dtype=np.intp)
    return {"pivot": np.pad(pivots, (0, most - pivots.size), constant_values=-1).astype(np.int64)}


def read_gram(node: xr.Dataset, kernel: Kernel, X: Array) -> Gram:
    """Return the Gram matrix of a fit: of low rank, from its pivots, where the fit worked with such a one."""
    if "pivot" not in node or not np.any(node["pivot"].values >= 0):
        return kernel.gram(X)
    pivots = node["pivot"].values
    pivots = np.asarray(pivots[pivots >= 0], dtype=np.intp)
    if pivots.max() >= X.shape[0] or np.unique(pivots).size < pivots.size:
        raise ValueError("pivot does not number different cases")
    return at_pivots(kernel_entries(kernel, X), kernel.diag(X), pivots)


def correction_arrays(correction: Correction) -> Mapping[str, NDArray[Any]]:
    """Return what a correction is made of again: its sites, or R itself."""
    if isinstance(correction, SoftmaxCorrection):
        return {"site_weight": correction.site_weight}
    if isinstance(correction, SiteCorrection | LowRankCorrection):
        with np.errstate(divide="ignore"):  # a site that says nothing has infinite variance
            return {"site_variance": 1.0 / correction.site_precision}
    return {"correction": correction.dense()}


def read_correction(node: xr.Dataset, problem: Problem) -> Correction:
    """Return the correction of a fit."""
    if "site_weight" in node:
        site_weight = node["site_weight"].values
        if site_weight.shape != problem.latent_shape or not np.all(site_weight >= 0):  # also false if one is NaN
            raise ValueError("site_weight is not a number >= 0 for each case and class")
        return SoftmaxCorrection(problem.dense_gram, site_weight)
    if "site_variance" in node:
        site_variance = node["site_variance"].values
        if np.any(np.isnan(site_variance)) or site_variance.shape != problem.t.shape:
            raise ValueError("site_variance is not one number for each case")
        return site_correction(problem.gram, 1.0 / site_variance)
    return DenseCorrection(node["correction"].values)
