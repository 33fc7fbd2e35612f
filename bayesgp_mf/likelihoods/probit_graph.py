r"""The multinomial probit in terms of PyTensor: one integral by the trapezoidal rule, whose nodes follow the integrand.

.. math:: p(t|f) = \int \varphi(u) \prod_{d \ne t} \Phi(u + f_t - f_d)\, du

is the integral of a log-concave, entire function whose logarithm curves by 1 to C. So a rule about its mode, of a step
that suits the largest curvature, has as many digits as floating point has; the nodes need no gradient, since the
integral does not depend on where they are.
"""

from __future__ import annotations

from math import ceil, log, pi, sqrt
from typing import Any

import numpy as np

STEP = 0.8
"""Times 1 / sqrt(C): the rule's error is exp(-2 pi^2 / STEP^2) = 4e-14 of the integral."""
REACH = 8.0
"""On both sides of the mode, from which the logarithm falls at least as fast as -u^2/2."""
NEWTON = 6
"""Steps to the mode, from the left, where they cannot overshoot; that it is met to 0.1 is enough."""


def log_probability(functions: Any, t: Any, f: Any, n_classes: int) -> Any:
    """Return log p(t|f) ``(n,)`` for noise of variance one, codes ``t (n,)`` and latent values ``f (n, C)``.

    ``functions`` are those of `pymc.latent`.
    """
    ahead = functions.of_class(f, t)[:, None] - f  # 0 for the class itself, whose factor is taken out below
    mode = functions.constant(_mode(functions, ahead))
    step = STEP / sqrt(n_classes)
    nodes = mode[:, None] + step * np.arange(-ceil(REACH / step), ceil(REACH / step) + 1)
    factors = functions.log_ndtr(nodes[:, :, None] + ahead[:, None, :]).sum(axis=-1) - functions.log_ndtr(nodes)
    return functions.log_sum_exp(factors - 0.5 * nodes**2) + (log(step) - 0.5 * log(2.0 * pi))


def _mode(functions: Any, ahead: Any) -> Any:
    """Return about where the integrand of each case ``(n,)`` is largest."""
    u = 0.0 * ahead[:, 0]
    for _ in range(NEWTON):
        # the slope falls, and is convex, in u: Newton's steps stay on the left of its zero
        (slope, bend), (own_slope, own_bend) = _hazards(functions, u[:, None] + ahead), _hazards(functions, u)
        u = u + (slope.sum(axis=1) - own_slope - u) / (1.0 + bend.sum(axis=1) - own_bend)
    return u


def _hazards(functions: Any, x: Any) -> tuple[Any, Any]:
    """Return the derivative of log Phi at x, and how fast it falls."""
    hazard = functions.exp(-0.5 * x**2 - 0.5 * log(2.0 * pi) - functions.log_ndtr(x))
    return hazard, hazard * (hazard + x)
