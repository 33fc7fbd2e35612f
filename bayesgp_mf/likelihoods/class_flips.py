r"""Labels of C classes that are recorded as another one now and then, each of the others as often.

With :math:`\kappa` the probability of that,

.. math:: p(t|f) = a + b\, p_0(t|f), \qquad a = \frac{\kappa}{C - 1}, \quad b = 1 - C a,

where :math:`p_0` is what the labels would be without. So is an average over a Gaussian, and the tilted distribution is
a mixture of the Gaussian and of that of :math:`p_0`, which has the share :math:`s = b Z_0 / Z`. With g and H the
derivatives of :math:`\log Z_0`, those of log Z are :math:`s g` and :math:`s H + s (1 - s) g g^T`.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from bayesgp_mf.types import Array, Derivs


def log_parts(flip: float, n_classes: int) -> tuple[float, float]:
    """Return the logs of a and b."""
    with np.errstate(divide="ignore"):  # log 0 = -inf: no label is flipped
        return float(np.log(flip) - np.log(n_classes - 1.0)), float(np.log1p(-flip * n_classes / (n_classes - 1.0)))


def log_flipped(log_probability: Array, flip: float, n_classes: int) -> Array:
    """Return the log of a + b p_0 from that of p_0."""
    log_a, log_b = log_parts(flip, n_classes)
    return np.logaddexp(log_a, log_b + log_probability)


def flipped(found: Derivs, flip: float, n_classes: int) -> Derivs:
    """Return log Z ``(m,)`` and its derivatives ``(m, k)`` and ``(m, k, k)`` from those of log Z_0."""
    if flip == 0.0:
        return found
    log_a, log_b = log_parts(flip, n_classes)
    odds = log_b + found.value - log_a
    right, wrong = expit(odds)[:, None], expit(-odds)[:, None, None]
    outer = found.d1[:, :, None] * found.d1[:, None, :]
    return Derivs(
        np.logaddexp(log_a, log_b + found.value), right * found.d1, right[:, :, None] * (found.d2 + wrong * outer)
    )


def flip_derivative(found: Derivs, log_unflipped: Array, flip: float, n_classes: int) -> Derivs:
    r"""Return the derivative in kappa of log Z and of its derivatives, which are ``found``, given log Z_0.

    It is :math:`q = (1 - C Z_0) / ((C - 1) Z)`, and with :math:`c = C / ((C - 1) b) + q` the others are
    :math:`-c\, d_1` and :math:`c\, (d_1 d_1^T - d_2)`.
    """
    others = n_classes - 1.0
    q = (np.exp(-found.value) - n_classes * np.exp(log_unflipped - found.value)) / others
    both = (n_classes / others / np.exp(log_parts(flip, n_classes)[1]) + q)[:, None]
    outer = found.d1[:, :, None] * found.d1[:, None, :]
    return Derivs(q, -both * found.d1, both[:, :, None] * (outer - found.d2))
