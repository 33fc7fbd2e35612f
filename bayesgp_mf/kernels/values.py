"""Checking the values of parameters, and gradients in their shapes."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.types import Array


def positive(name: str, value: ArrayLike, *, vector: bool = False, zero_allowed: bool = False) -> Array:
    """Return a parameter, finite and positive, as a read-only float array ``()`` (or ``(d,)``, if it is a vector)."""
    try:
        array = np.array(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be a number{' or a sequence of numbers' * vector}, got {value!r}.") from None
    if array.ndim > int(vector) or array.size == 0:
        expected = "a number or a sequence with one entry for each input" if vector else "one number"
        raise ValueError(f"{name} must be {expected}, got an array of shape {array.shape}.")
    allowed = array >= 0 if zero_allowed else array > 0
    if not (np.isfinite(array).all() and allowed.all()):
        sign = ">= 0" if zero_allowed else "> 0"
        raise ValueError(f"{name} must be finite and {sign}, got {array.tolist()}.")
    array.setflags(write=False)
    return array


def check_columns(name: str, parameter: Array, X: Array) -> None:
    """Raise if a parameter with one entry for each input does not fit ``X (n, d)``."""
    if parameter.ndim == 1 and parameter.shape[0] != X.shape[1]:
        raise ValueError(
            f"{name} has {parameter.shape[0]} entries, but X has {X.shape[1]} columns. "
            "Give one entry for each column, or a single number for all."
        )


def reduce_like(parameter: Array, per_column: Array) -> Array:
    """Return a gradient per input ``(d,)``, summed if the parameter is one number for all inputs."""
    return per_column if parameter.ndim == 1 else np.asarray(per_column.sum())
