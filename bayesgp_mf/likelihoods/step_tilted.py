"""A Gaussian times a step: the values at given levels, in closed form."""

from __future__ import annotations

import numpy as np
from scipy.special import log_ndtr, ndtri_exp

from bayesgp_mf.types import Array

_SMALLEST = float(np.finfo(np.float64).tiny)


def step_values(flip: float, t: Array, mean: Array, variance: Array, scores: Array) -> tuple[Array, Array]:
    """Answer `processes.tilted.tilted_values` for a step: two pieces of one Gaussian, the wrong one times ``flip``."""
    scale = np.sqrt(variance)
    centre, level = t * mean / scale, t * scores  # signed: the label holds for values above zero
    log_right = np.log1p(-flip) + log_ndtr(centre)
    with np.errstate(divide="ignore"):  # log 0 = -inf: without flips nothing lies on the wrong side
        log_flip = np.log(flip)
    log_total = np.logaddexp(log_right, log_flip + log_ndtr(-centre))
    # invert each piece from its own tail, in logs: it may be smaller than any number
    above = log_ndtr(-level) <= log_right - log_total
    with np.errstate(invalid="ignore", over="ignore"):  # of the piece that is not taken
        upper = centre - ndtri_exp(np.minimum(log_ndtr(-level) + log_total - np.log1p(-flip), 0.0))
        lower = centre + ndtri_exp(np.minimum(log_ndtr(level) + log_total - log_flip, 0.0)) if flip else upper
    # next to the edge, rounding must not take a value across it
    signed = np.where(above, np.maximum(upper, _SMALLEST), np.minimum(lower, -_SMALLEST))
    log_density = np.where(above, np.log1p(-flip), log_flip) - log_total - 0.5 * (signed - centre) ** 2
    return t * scale * signed, np.log(scale) - 0.5 * scores**2 - log_density
