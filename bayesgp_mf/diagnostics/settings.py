"""Averages over settings of the hyperparameters: some of them for all, and quantiles with weights."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.processes.process import Part, Process
from bayesgp_mf.types import Array

SETTINGS = 20
"""How many stand for all, where a figure would take long otherwise."""


def some_settings(process: Process) -> tuple[list[Part], Array]:
    """Return at most 20 of the settings of the hyperparameters, chosen by their weights, and new weights ``(k,)``."""
    if len(process.parts) <= SETTINGS:
        return list(process.parts), process.weights
    levels = (np.arange(SETTINGS) + 0.5) / SETTINGS
    chosen = np.minimum(np.searchsorted(np.cumsum(process.weights), levels), len(process.parts) - 1)
    parts, times = np.unique(chosen, return_counts=True)
    return [process.parts[k] for k in parts], times / SETTINGS


def weighted_quantiles(values: Array, weights: Array, levels: Array) -> Array:
    """Return quantiles ``(q, ...)`` of values ``(k, ...)`` along the first axis, with weights ``(k,)``."""
    order = np.argsort(values, axis=0, kind="stable")
    ends = np.cumsum(weights[order], axis=0)
    ordered = np.take_along_axis(values, order, axis=0)
    reached = [np.argmax(ends >= level * ends[-1:], axis=0) for level in levels]
    found = [np.take_along_axis(ordered, first[None], axis=0)[0] for first in reached]
    return np.array(found) if found else np.empty((0, *values.shape[1:]))
