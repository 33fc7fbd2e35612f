"""Third and fourth derivatives of log partition functions: in closed form, or by central differences of the second."""

from __future__ import annotations

import numpy as np

from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.types import Array, Derivs

_FIRST = (45.0 / 60.0, -9.0 / 60.0, 1.0 / 60.0)  # a first difference of order six, at one, two and three steps
_SECOND = (270.0 / 180.0, -27.0 / 180.0, 2.0 / 180.0)  # and a second one
_STEP = 0.02  # in units of the scale of log Z: there truncation and rounding are both near 1e-11


def higher_derivatives(
    likelihood: Likelihood, t: Array, mean: Array, variance: Array, derivs: Derivs
) -> tuple[Array, Array]:
    """Return the third and fourth derivative ``(n,)`` in the mean of log Z, given ``derivs``, to some ten digits."""
    known = likelihood.higher_derivatives(t, mean, variance, derivs)
    if known is not None:
        return known
    d2 = derivs.d2
    # the curvature says on what scale log Z changes; most of it is near the zero of the latent value itself
    at_zero = likelihood.unshifted.log_partition(t, np.zeros_like(mean), variance).d2
    curvature = np.maximum(np.abs(d2), np.abs(at_zero))
    step = _STEP / np.sqrt(np.where(curvature > 0, curvature, 1.0))
    return _differences(likelihood, t, mean, variance, d2, step, np.array([_FIRST, _SECOND]))


def rough_higher_derivatives(
    likelihood: Likelihood, t: Array, mean: Array, variance: Array, derivs: Derivs
) -> tuple[Array, Array]:
    """Return what `higher_derivatives` does to three or four digits, with two evaluations instead of seven."""
    known = likelihood.higher_derivatives(t, mean, variance, derivs)
    if known is not None:
        return known
    # log Z changes on the scale of the Gaussian, or on a larger one
    step = _STEP * np.sqrt(np.where(variance > 0, variance, 1.0))
    return _differences(likelihood, t, mean, variance, derivs.d2, step, np.array([[0.5], [1.0]]))


def _differences(
    likelihood: Likelihood, t: Array, mean: Array, variance: Array, d2: Array, step: Array, weights: Array
) -> tuple[Array, Array]:
    copies = 2 * weights.shape[1]
    multiples = np.arange(1.0, weights.shape[1] + 1.0)
    shifted = mean + np.multiply.outer(np.concatenate([multiples, -multiples]), step)
    t, variance = np.tile(t, (copies, 1)), np.tile(variance, (copies, 1))
    around = likelihood.log_partition(t, shifted, variance).d2
    above, below = around[: copies // 2], around[copies // 2 :]
    return weights[0] @ (above - below) / step, weights[1] @ (above - 2.0 * d2 + below) / step**2
