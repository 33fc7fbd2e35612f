"""Functions that a likelihood may be made of, at the top of a module, as those of a user's package are."""

import numpy as np
from scipy.special import gammaln


def log_poisson(t, f):
    """Return the log probability of a count at the rate exp(f)."""
    return t * f - np.exp(f) - gammaln(t + 1)


def another(t, f):
    """Return another one."""
    return log_poisson(t, f)


def draw_poisson(f, rng):
    """Draw counts."""
    return rng.poisson(np.exp(f)).astype(float)
