"""Importance weights: their tail smoothed by a Pareto distribution, whose shape says whether they average out [1]_.

References
----------
.. [1] Vehtari, A., Simpson, D., Gelman, A., Yao, Y., & Gabry, J. (2024). Pareto smoothed importance sampling.
   Journal of Machine Learning Research 25(72), 1-58.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.types import Array

LARGEST_K = 0.7
"""Above this the weights have a tail that no affordable number of draws averages out."""
FEWEST_WEIGHTS = 30
"""Draws with a weight that leave six in the tail, the fewest that either generation of ArviZ fits."""
EQUAL = 1e-9
"""Log weights that differ by less, in nats, differ by rounding."""


def largest_k(n_draws: int) -> float:
    """Return the largest shape of the tail that so many draws allow, at most 0.7."""
    return min(1.0 - 1.0 / math.log10(n_draws), LARGEST_K)


def smooth(log_weights: Array) -> tuple[Array, float]:
    """Return smoothed log weights ``(draws,)``, on the scale of the given finite ones, and the shape k-hat.

    It is minus infinity if the weights of the tail are equal, so that there is none, and infinity where no shape can be
    fitted, to too few draws or to weights of which all but a few are nothing; these are then as they were.
    """
    if log_weights.size < FEWEST_WEIGHTS:
        return log_weights, math.inf
    in_tail = int(min(log_weights.size / 5.0, 3.0 * math.sqrt(log_weights.size)))
    if float(np.ptp(np.sort(log_weights)[-in_tail:])) < EQUAL:
        return log_weights, -math.inf
    smoothed, k = _psis(log_weights)
    if math.isnan(k) or not np.all(np.isfinite(smoothed)):
        return log_weights, math.inf
    smallest = int(np.argmin(log_weights))  # far from the tail, so that only the normalisation has changed it
    return smoothed + (log_weights[smallest] - smoothed[smallest]), k


def _psis(log_weights: Array) -> tuple[Array, float]:
    """Return what either generation of ArviZ does: log weights whose exponentials sum to one, and k-hat."""
    answer: tuple[Any, Any]
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # of a fit that fails, which its answer says
        if arviz_major() < 1:
            import arviz as az

            answer = az.psislw(log_weights)
        else:
            from arviz_stats.base import array_stats

            answer = array_stats.psislw(-log_weights)  # it takes log likelihoods, whose inverses are weights
    return np.asarray(answer[0]), float(answer[1])
