"""Functions that a likelihood may be made of, at the top of a module, as those of a user's package are."""

import subprocess

import numpy as np
from scipy.special import gammaln

called = subprocess.run  # a function of the standard library under a name of this module
not_a_function = 3.0


def log_poisson(t, f):
    """Return the log probability of a count at the rate exp(f)."""
    return t * f - np.exp(f) - gammaln(t + 1)


def draw_poisson(f, rng):
    """Draw counts."""
    return rng.poisson(np.exp(f)).astype(float)
