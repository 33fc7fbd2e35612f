"""Functions of likelihoods that are not built in, at the top of a module, as a file that names them asks."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln


def log_logistic(t: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return the log probability of labels under a logistic link."""
    return -np.logaddexp(0.0, -t * f)


def log_poisson(t: np.ndarray, f: np.ndarray) -> np.ndarray:
    """Return the log probability of counts at the rate exp(f)."""
    return t * f - np.exp(f) - gammaln(t + 1.0)


def draw_poisson(f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draw counts."""
    return rng.poisson(np.exp(np.minimum(f, 20.0))).astype(float)
