r"""A log evidence in extended precision, where its sum in floats would lose digits.

.. math:: \sum_i \log Z_i(m_i, \lambda_i) - \tfrac12 \alpha^T f + \tfrac12 \sum_i \lambda_i \alpha_i^2
          - \tfrac12 \log\det(I + K W) + \tfrac12 \sum_i \log(1 + W_i \lambda_i), \qquad f = K\alpha,\;
          m = f - \lambda\odot\alpha

is TAP's, and with :math:`\lambda = 0` that of a Gaussian at the mode. It is stationary in what the iteration leaves
unsettled; but where K is nearly singular and the noise small, its terms are large and nearly cancel. The Gram matrix is
taken as it is: what its own rounding does is another matter (`solvers.accuracy.assessed`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.types import Array

MOST_CASES = 300
"""A factor in extended precision is made without BLAS: half a second for so many cases."""

Extended = NDArray[np.longdouble]


def log_evidence(problem: Problem, alpha: Array, precision: Array, variance: Array) -> float | None:
    """Return the log evidence of weights ``alpha`` under sites ``precision`` with cavity variances ``(n,)``, in nats.

    None where it cannot be had: for many cases, for sites of negative precision, on a root of low rank, and on a
    machine whose extended precision is none.
    """
    known = latent_and_log_det(problem, alpha, precision)
    if known is None:
        return None
    latent, log_det = known
    weights, own = alpha.astype(np.longdouble), variance.astype(np.longdouble)
    exact_weights = precision.astype(np.longdouble)
    mean = latent - own * weights
    rounded = mean.astype(np.float64)
    value, slope, _ = problem.likelihood.log_partition(problem.t, rounded, variance)
    terms = value + slope * (mean - rounded) - 0.5 * weights * mean + 0.5 * np.log1p(exact_weights * own)
    return float(np.sum(terms) - 0.5 * log_det)


def latent_and_log_det(problem: Problem, alpha: Array, precision: Array) -> tuple[Extended, np.longdouble] | None:
    """Return K alpha ``(n,)`` and log det(I + K W) for sites ``precision (n,)``; None where they cannot be had."""
    has_digits = np.finfo(np.longdouble).eps < np.finfo(np.float64).eps
    if not problem.matrix.is_whole or problem.n > MOST_CASES or not has_digits or np.any(precision < 0):
        return None
    gram = problem.dense_gram.astype(np.longdouble)
    scale = np.sqrt(precision.astype(np.longdouble))
    log_det = _log_det(scale[:, None] * gram * scale + np.eye(problem.n, dtype=np.longdouble))
    return None if log_det is None else (gram @ alpha.astype(np.longdouble), log_det)


def _log_det(matrix: Extended) -> np.longdouble | None:
    """Return the log determinant of a positive-definite matrix, which is overwritten; None if it is not one."""
    pivots = np.empty(matrix.shape[0], dtype=np.longdouble)
    for k in range(pivots.size):
        pivots[k] = matrix[k, k]
        if not pivots[k] > 0:
            return None
        column = matrix[k + 1 :, k].copy()
        matrix[k + 1 :, k + 1 :] -= np.outer(column, column / pivots[k])
    return np.longdouble(np.sum(np.log(pivots)))
