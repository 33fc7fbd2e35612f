"""Checking kernel parameters, and the one flat log vector that optimisers and samplers see."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.kernels.base import Kernel
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


def log_vector(kernel: Kernel) -> Array:
    """Return the logarithms ``(p,)`` of all parameters that are not zero, in the order of ``params``.

    A parameter that is exactly zero is switched off and stays so.
    """
    return np.concatenate([np.log(value[value > 0]) for value in _arrays(kernel).values()] or [np.empty(0)])


def log_vector_names(kernel: Kernel) -> list[str]:
    """Return a name for each entry of `log_vector`, such as ``lengthscale[2]``."""
    names = []
    for name, value in _arrays(kernel).items():
        labels = [name] if value.ndim == 0 else [f"{name}[{i}]" for i in range(value.size)]
        names += [label for label, entry in zip(labels, np.atleast_1d(value), strict=True) if entry > 0]
    return names


def with_log_vector(kernel: Kernel, vector: ArrayLike) -> Kernel:
    """Return the kernel with the parameters that `log_vector` would give back as ``vector (p,)``.

    Raises
    ------
    ValueError
        If the length is not that of `log_vector`.
    """
    values = np.exp(np.asarray(vector, dtype=np.float64))
    arrays = _arrays(kernel)
    expected = (int(sum(np.count_nonzero(value > 0) for value in arrays.values())),)
    if values.shape != expected:
        raise ValueError(f"the log vector of this kernel has shape {expected}, got {values.shape}.")
    replaced, position = {}, 0
    for name, old in arrays.items():
        new = old.copy()
        count = int(np.count_nonzero(old > 0))
        new[old > 0] = values[position : position + count]
        replaced[name], position = new, position + count
    return kernel.replace(**replaced)


def log_gradient(kernel: Kernel, gradient: Mapping[str, ArrayLike]) -> Array:
    """Turn a gradient in the parameters, by name, into one in `log_vector`, ``(p,)``."""
    arrays = _arrays(kernel).items()
    return np.concatenate([(np.asarray(gradient[n]) * value)[value > 0] for n, value in arrays] or [np.empty(0)])


def _arrays(kernel: Kernel) -> dict[str, Array]:
    return {name: np.asarray(value) for name, value in kernel.params.items()}
