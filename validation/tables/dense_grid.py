"""Posterior moments of a few latent values by brute force: the sum over a dense grid of all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from bayesgp_mf.types import Array


class Moments(NamedTuple):
    """What is integrated: log evidence in nats, and mean and standard deviation ``(n,)`` of each latent value."""

    log_evidence: float
    mean: Array
    sd: Array


def integrate(
    gram: Array, t: Array, log_density: Callable[[float, Array], Array], half_width: float, points: int
) -> Moments:
    """Sum over the grid of ``points`` values from -half_width to half_width in each of the n latent values.

    For a smooth integrand that is small at the ends the error of such a sum falls faster than any power of its spacing.

    Parameters
    ----------
    gram : (n, n) array
        Prior covariance, invertible.
    t : (n,) array
        Targets.
    log_density : callable
        ``log_density(t_i, f)``, log p(t_i | f) for an array of f.
    half_width : float
        In latent units.
    points : int
        In each direction; the memory is ``points`` to the power n.

    Raises
    ------
    ValueError
        If the grid cuts off part of the posterior, or is too coarse for it.
    """
    n = t.size
    axis = np.linspace(-half_width, half_width, points)
    spacing = axis[1] - axis[0]
    along = [axis.reshape([-1 if k == i else 1 for k in range(n)]) for i in range(n)]
    precision = np.linalg.inv(gram)
    log_mass = np.zeros([points] * n)
    for i in range(n):
        log_mass += log_density(float(t[i]), along[i]) - 0.5 * precision[i, i] * along[i] ** 2
        for j in range(i):
            log_mass -= precision[i, j] * along[i] * along[j]
    peak = log_mass.max()
    mass = np.exp(log_mass - peak)
    margins = [mass.sum(axis=tuple(k for k in range(n) if k != i)) for i in range(n)]
    total = margins[0].sum()
    mean = np.array([margin @ axis for margin in margins]) / total
    sd = np.sqrt(np.array([margin @ axis**2 for margin in margins]) / total - mean**2)
    if max(max(margin[0], margin[-1]) for margin in margins) > 1e-6 * total or sd.min() < 2 * spacing:
        raise ValueError(f"a grid of {points} points in ±{half_width:g} does not hold the posterior (sd {sd}).")
    constant = n * np.log(spacing) - 0.5 * np.linalg.slogdet(2.0 * np.pi * gram).logabsdet
    return Moments(float(peak + np.log(total) + constant), mean, sd)
