"""The classes of a likelihood of several, as users name them, and labels that may be flipped to another one."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Set
from typing import Any

import numpy as np
from scipy.special import expit

from bayesgp_mf.types import Array, Derivs

_MISSING = ("None", "nan", "NaT", "<NA>")  # how Python, NumPy and pandas write what is missing


def checked_classes(classes: Any) -> tuple[Any, ...]:
    """Return classes as a tuple, or raise a ValueError if they are fewer than two, alike, missing, or without order."""
    one = isinstance(classes, str) or not isinstance(classes, Iterable) or getattr(classes, "ndim", 1) == 0
    if one or isinstance(classes, Set):  # a set has no order
        raise ValueError(f"classes must be a sequence of labels such as ('a', 'b', 'c'), got {classes!r}.")
    given = classes.tolist() if isinstance(classes, np.ndarray) else list(classes)
    if not all(isinstance(c, Hashable) and (isinstance(c, str) or str(c) not in _MISSING) for c in given):
        raise ValueError(f"classes must be labels such as text or numbers, none of them missing, got {given!r}.")
    names = [str(label) for label in given]
    if len(names) < 2 or len(set(names)) < len(names):
        raise ValueError(f"classes must be two or more, with names that differ, got {names}.")
    return tuple(given)


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
