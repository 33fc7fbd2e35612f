"""The fields of kernels: values of parameters, and columns of inputs, by name until a fit has found their positions.

Optimisers and samplers see one flat log vector of parameters, of a kernel or of a whole model.
"""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self, TypeAlias, TypeVar

import numpy as np
from numpy.typing import ArrayLike
from scipy.spatial.distance import pdist

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


Columns: TypeAlias = str | int | Sequence[str | int] | None
"""What a user writes; a kernel keeps a tuple, or None for all columns."""


def as_columns(columns: Columns) -> tuple[str | int, ...] | None:
    """Return names and positions of columns as a tuple, or None for all, or raise a ValueError."""
    if columns is None:
        return None
    given = [columns] if isinstance(columns, str | numbers.Integral) else columns
    expected = "columns must be names or positions of columns, such as ['age', 'bmi'] or [0, 2]"
    if not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
        raise ValueError(f"{expected}, got {columns!r}.")
    found: list[str | int] = []
    for column in given:
        if isinstance(column, str):
            found.append(str(column))
        elif isinstance(column, numbers.Integral) and not isinstance(column, bool) and column >= 0:
            found.append(int(column))
        else:
            raise ValueError(f"{expected}, got {column!r}. Positions are counted from 0.")
    if not found:
        raise ValueError(f"{expected}, got none. Leave columns out for all of them.")
    if len(set(found)) < len(found):
        raise ValueError(f"columns has one twice: {found}. Name each once.")
    return tuple(found)


def check_entries(name: str, parameter: Array, columns: Columns) -> None:
    """Raise a ValueError if a parameter with one entry for each input has not one for each of the columns."""
    if parameter.ndim == 1 and isinstance(columns, tuple) and parameter.size != len(columns):
        raise ValueError(
            f"{name} has {parameter.size} entries, but columns has {len(columns)}: {list(columns)}. "
            "Give one entry for each of them, or a single number for all."
        )


def positions(columns: tuple[str | int, ...], names: Sequence[str] | None) -> tuple[int, ...]:
    """Return the positions of columns among those of inputs with these names, or raise a ValueError.

    Positions stay what they are: whether inputs have so many columns is seen when the kernel is used.
    """
    found = []
    for column in columns:
        if isinstance(column, int):
            found.append(column)
        elif names is None:
            raise ValueError(
                f"the kernel names the column {column!r}, but the columns of X have no names. Pass a data frame, or "
                "positions such as columns=[0, 1]."
            )
        elif column not in names:
            raise ValueError(
                f"the kernel names the column {column!r}, which X does not have; X has {list(names)}. Rename one."
            )
        else:
            found.append(list(names).index(column))
    if len(set(found)) < len(found):
        raise ValueError(f"columns {list(columns)} has one column of X both by name and by position. Name each once.")
    return tuple(found)


def chosen(columns: Columns, X: Array) -> Array:
    """Return the columns of ``X (n, d)`` that a kernel looks at: ``X`` itself, if those are all."""
    return X if columns is None else np.take(X, positions_among(columns, X.shape[1]), axis=1)


def chosen_pair(columns: Columns, A: Array, B: Array) -> tuple[Array, Array]:
    """Return the same of two arrays; they stay one, if they are one."""
    left = chosen(columns, A)
    return left, left if B is A else chosen(columns, B)


Span: TypeAlias = tuple[Array, Array]
"""A short and a long value of a parameter, in its shape."""

MEASURED = 300
"""Cases between which distances are measured."""
SHORT = 0.1
"""The shortest length scale to begin with, over the median distance; the longest is the largest distance."""


def span(lengthscale: Array, X: Array) -> Span:
    """Return the length scales that the distances between inputs ``(n, d)`` span, in the shape of ``lengthscale``.

    Where there is one for each input, the distances are those in units of its own spread. A length scale on which
    nothing hangs, since its input is constant, stays as it is.
    """
    some = X[:: -(-X.shape[0] // MEASURED)]
    away = some - some[0]
    size = np.max(np.abs(away), axis=0, initial=0.0)  # first, so that no square overflows
    units = size if lengthscale.ndim else np.full(size.shape, np.max(size, initial=0.0))
    moves = units > 0.0
    if not moves.any():
        return lengthscale, lengthscale
    away[:, moves] /= units[moves]
    if lengthscale.ndim:
        spread = away[:, moves].std(axis=0)
        away[:, moves], units[moves] = away[:, moves] / spread, units[moves] * spread
    distances = pdist(away)
    usual, largest = np.median(distances[distances > 0.0]), np.max(distances)
    where, unit = (moves, units) if lengthscale.ndim else (True, units[0])
    short, long = (np.where(where, length * unit, lengthscale) for length in (SHORT * usual, largest))
    return short, long


def put_back(columns: Columns, gradient: Array, X: Array) -> Array:
    """Return a gradient in the `chosen` columns of ``X (n, d)`` as one in all of them: zero in the others."""
    if columns is None:
        return gradient
    whole = np.zeros(X.shape)
    whole[:, positions_among(columns, X.shape[1])] = gradient
    return whole


def positions_among(columns: Columns, width: int) -> list[int]:
    """Return positions that inputs of so many columns have."""
    found = positions(as_columns(columns) or (), None)
    if max(found) >= width:
        raise ValueError(
            f"the kernel is of column {max(found)}, but X has {width} columns, which are counted from 0. Give columns "
            "that are there."
        )
    return list(found)


class Parametrised(Protocol):
    """What has parameters by name, and can be had with others: a kernel, or a kernel and a likelihood."""

    @property
    def params(self) -> Mapping[str, Array]:
        """The parameters by name."""

    def replace(self, **values: Any) -> Self:
        """Return the same with other parameters."""


Of = TypeVar("Of", bound=Parametrised)


def log_vector(kernel: Parametrised) -> Array:
    """Return the logarithms ``(p,)`` of all parameters that are not zero, in the order of ``params``.

    A parameter that is exactly zero is switched off and stays so.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> bgp.kernels.log_vector(bgp.kernels.Gaussian([1.0, 2.0], variance=3.0)).round(3)
    array([0.   , 0.693, 1.099])
    """
    return np.concatenate([np.log(value[value > 0]) for value in _arrays(kernel).values()] or [np.empty(0)])


def log_vector_names(kernel: Parametrised) -> list[str]:
    """Return a name for each entry of `log_vector`, such as ``lengthscale[2]``.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> bgp.kernels.log_vector_names(bgp.kernels.Gaussian([1.0, 2.0], variance=3.0))
    ['lengthscale[0]', 'lengthscale[1]', 'variance']
    """
    names = []
    for name, value in _arrays(kernel).items():
        labels = [name] if value.ndim == 0 else [f"{name}[{i}]" for i in range(value.size)]
        names += [label for label, entry in zip(labels, np.atleast_1d(value), strict=True) if entry > 0]
    return names


def with_log_vector(kernel: Of, vector: ArrayLike) -> Of:
    """Return the kernel with the parameters that `log_vector` would give back as ``vector (p,)``.

    Raises
    ------
    ValueError
        If the length is not that of `log_vector`.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> bgp.kernels.with_log_vector(bgp.kernels.Gaussian([1.0, 2.0]), [0.0, 0.0, 0.0])
    Gaussian(lengthscale=[1.0, 1.0], variance=1.0)
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


def log_gradient(kernel: Parametrised, gradient: Mapping[str, ArrayLike]) -> Array:
    """Turn a gradient in the parameters, by name, into one in `log_vector`, ``(p,)``.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> kernel = bgp.kernels.Gaussian(lengthscale=2.0, variance=3.0)
    >>> bgp.kernels.log_gradient(kernel, {"lengthscale": 0.5, "variance": 1.0})
    array([1., 3.])
    """
    arrays = _arrays(kernel).items()
    return np.concatenate([(np.asarray(gradient[n]) * value)[value > 0] for n, value in arrays] or [np.empty(0)])


def _arrays(kernel: Parametrised) -> dict[str, Array]:
    return {name: np.asarray(value) for name, value in kernel.params.items()}
