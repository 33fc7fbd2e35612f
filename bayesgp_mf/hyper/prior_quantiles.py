"""Quantiles of the priors of hyperparameters: what a container keeps of a prior, which may be a program."""

from __future__ import annotations

import numpy as np
from scipy.integrate import cumulative_trapezoid

from bayesgp_mf.hyper.result import Record
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.types import Array

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
WIDEST, COARSE, FINE = 30.0, 241, 401
"""How far from the start the logarithm of a parameter may be, and at how many points its density is asked for."""
DROP = 15.0
"""Logarithm by which the density falls, beyond which nothing of it matters to these quantiles."""


def record_of_priors(target: Target, *, averaged: bool) -> Record:
    """Return quantiles of the prior of each free entry, as logarithms, for the record of a choice of hyperparameters.

    Where hyperparameters are ``averaged`` over, a range without a prior is one, uniform in the logarithm. An entry
    without a prior has NaN. There is nothing if no entry has one.
    """
    found = np.full((len(LEVELS), target.start.size), np.nan)
    bounded = np.isfinite(target.lower) & np.isfinite(target.upper)
    if averaged:
        low, high = target.lower[bounded], target.upper[bounded]
        found[:, bounded] = low + np.array(LEVELS)[:, None] * (high - low)
    for name in target.priors:
        own = target.owners == name
        found[:, own] = _quantiles(target, name, target.start[own], target.lower[own], target.upper[own])
    return {} if np.all(np.isnan(found)) else {"hyper_prior_quantile": (("prior_level", "hyper"), found)}


def _quantiles(target: Target, name: str, start: Array, lower: Array, upper: Array) -> Array:
    """Return quantiles ``(levels, k)`` of the logarithms of the entries of a parameter, by the trapezoidal rule."""
    low, high = np.maximum(lower, start - WIDEST), np.minimum(upper, start + WIDEST)
    for points in (COARSE, FINE):
        x = low + np.linspace(0.0, 1.0, points)[:, None] * (high - low)
        with np.errstate(over="ignore", invalid="ignore"):
            log_density = np.array([target.priors[name].log_density(row)[0] for row in x])
        log_density = np.where(np.isnan(log_density), -np.inf, log_density)
        matters = log_density > log_density.max(axis=0) - DROP
        first, last = np.argmax(matters, axis=0), points - 1 - np.argmax(matters[::-1], axis=0)
        entries = np.arange(start.size)
        if points == COARSE:
            low, high = x[np.maximum(first - 1, 0), entries], x[np.minimum(last + 1, points - 1), entries]
    density = np.exp(log_density - log_density.max(axis=0))
    below = cumulative_trapezoid(density, x, axis=0, initial=0.0)
    found = [np.interp(LEVELS, below[:, k] / below[-1, k], x[:, k]) for k in entries]
    return np.array(found).T
