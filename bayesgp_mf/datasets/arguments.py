"""Checks of the arguments the loaders share."""

from __future__ import annotations

import math

import numpy as np


def check_flag(name: str, value: object) -> bool:
    """Return `value` as a bool; a word such as 'no' would otherwise count as true.

    Raises
    ------
    ValueError
        If `value` is not a bool.
    """
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}. Pass {name}=True or {name}=False.")
    return bool(value)


def check_integer(name: str, value: object, *, low: int, high: float = math.inf, expected: str, advice: str) -> int:
    """Return `value` as an int between `low` and `high`, both included.

    Raises
    ------
    ValueError
        If `value` is not such an integer; the message is put together from `expected` and `advice`.
    """
    # True and False are integers to Python, but fold=True is a slip.
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} must be {expected}, got {value!r}. {advice}")
    return int(value)
