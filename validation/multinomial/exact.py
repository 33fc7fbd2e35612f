r"""The exact evidence of a multinomial probit: the probability of an orthant.

With noise e of variance one for each class, label t_i says that :math:`f_{t_i} + e_{t_i} - f_d - e_d > 0` for all other
classes d: n (C - 1) Gaussian variables are positive. A prediction is a ratio of two such probabilities.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesgp_mf.diagnostics import log_orthant_probability
from bayesgp_mf.diagnostics.orthant import LogProbability
from bayesgp_mf.types import Array


def comparisons(gram: Array, codes: NDArray[np.int64]) -> Array:
    """Return the covariance ``(n (C - 1), n (C - 1))`` of what labels compare, for ``gram (C, n, n)``, one a class."""
    n_classes, n = gram.shape[:2]
    rows = [(i, d) for i in range(n) for d in range(n_classes) if d != codes[i]]
    difference = np.zeros((len(rows), n_classes, n))
    for row, (i, d) in enumerate(rows):
        difference[row, codes[i], i], difference[row, d, i] = 1.0, -1.0
    noisy = gram + np.eye(n)
    return np.asarray(np.einsum("aci,cij,bcj->ab", difference, noisy, difference, optimize=True))


def log_evidence(gram: Array, codes: NDArray[np.int64]) -> LogProbability:
    """Return the log evidence in nats, with its standard error, for ``gram (C, n, n)``."""
    covariance = comparisons(gram, codes)
    return log_orthant_probability(covariance, np.ones(covariance.shape[0]))


def predicted(gram: Array, codes: NDArray[np.int64]) -> tuple[Array, float]:
    """Return the probabilities ``(C,)`` of the last of n + 1 cases, given n labels, and by how much they miss one.

    That the C evidences of n + 1 labels add up to that of n is no part of their computation.
    """
    n = codes.size
    joint = np.array([log_evidence(gram, np.append(codes, c)).value for c in range(gram.shape[0])])
    missing = float(np.exp(logsumexp(joint) - log_evidence(gram[:, :n, :n], codes).value)) - 1.0
    return np.exp(joint - logsumexp(joint)), missing
