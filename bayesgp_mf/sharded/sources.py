"""Tables in parts: files, arrays, partitions of a Dask frame. Each part is read where it will live."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesgp_mf.inputs.tables import as_numbers
from bayesgp_mf.types import Array


class Rows:
    """The rows of a part.

    Attributes
    ----------
    name : str
        What to call the part in messages.
    X : (n, d) array
        Inputs; there may be no rows.
    y : (n,) array
        Labels or targets as they came.
    shard : object
        What is made of them for a model.
    """

    def __init__(self, name: str, X: Array, y: NDArray[Any]) -> None:
        self.name, self.X, self.y = name, X, y
        self.shard: Any = None


@dataclass(frozen=True)
class ArrayPart:
    """A part whose rows are here.

    Attributes
    ----------
    name : str
        What to call it.
    X, y : array_like
        Its rows.
    """

    name: str
    X: Any
    y: Any

    def __call__(self) -> Rows:
        """Return its rows."""
        return _checked(self.name, self.X, self.y, None)


@dataclass(frozen=True)
class ParquetPart:
    """A file.

    Attributes
    ----------
    path : str
        Where it is, for whoever reads it.
    columns : tuple of str
        Inputs, in order.
    target : str
        Column of the labels or targets.
    """

    path: str
    columns: tuple[str, ...]
    target: str

    def __call__(self) -> Rows:
        """Read it."""
        wanted = [*self.columns, self.target]
        try:
            frame = pd.read_parquet(self.path)
        except (OSError, ValueError) as error:
            raise ValueError(f"{self.path} cannot be read: {error}") from error
        return _of_frame(self.path, frame, wanted)


@dataclass(frozen=True)
class FramePart:
    """A partition of a Dask frame, or a block of a pair of Dask arrays, which Dask computes on the worker.

    Attributes
    ----------
    name : str
        What to call it.
    delayed : dask.delayed.Delayed
        The partition.
    columns : tuple of str or None
        Inputs, in order; None of arrays.
    target : str or None
        Column of the labels or targets.
    """

    name: str
    delayed: Any
    columns: tuple[str, ...] | None
    target: str | None

    def __call__(self, data: Any = None) -> Rows:
        """Return its rows, from what Dask computed."""
        found = self.delayed.compute() if data is None else data
        if self.columns is None or self.target is None:
            inputs, labels = found
            return _checked(self.name, inputs, labels, None)
        return _of_frame(self.name, found, [*self.columns, self.target])

    def __getstate__(self) -> dict[str, Any]:
        """Leave the partition out."""
        return {**self.__dict__, "delayed": None}  # its worker is given the partition itself


@dataclass(frozen=True)
class Table:
    """A table in parts.

    Attributes
    ----------
    parts : tuple of callable
        Each returns its `Rows`.
    columns : tuple of str or None
        Names of the inputs, if they have names.
    target : str or None
        Name of the column of labels or targets.
    """

    parts: tuple[Any, ...]
    columns: tuple[str, ...] | None = None
    target: str | None = None


def from_arrays(parts: Sequence[tuple[Any, Any]]) -> Table:
    """Return a table whose parts are pairs of inputs ``(n, d)`` and labels ``(n,)``, of which some may be empty.

    Raises
    ------
    ValueError
        If there is no part.
    """
    if not len(parts):
        raise ValueError("parts is empty: give at least one pair (X, y).")
    return Table(tuple(ArrayPart(f"part {k}", X, y) for k, (X, y) in enumerate(parts)))


def from_parquet(pattern: str, *, target: str, columns: Sequence[str] | None = None) -> Table:
    """Return a table whose parts are Parquet files, in the order of their names.

    Parameters
    ----------
    pattern : str
        Path with wildcards, such as ``"flights/*.parquet"``; all workers must see the same files under it.
    target : str
        Column of the labels or targets.
    columns : sequence of str, optional
        Inputs; the default takes all other columns of the first file.

    Raises
    ------
    ValueError
        If no file matches, or the first has no such columns.
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("from_parquet needs pyarrow: pip install 'bayesgp-mf[dask]'.") from error

    paths = sorted(glob.glob(str(pattern), recursive=True))
    if not paths:
        raise ValueError(f"no file matches {pattern!r}.")
    there = pyarrow.parquet.read_schema(paths[0]).names
    chosen = tuple(name for name in there if name != target) if columns is None else tuple(columns)
    missing = [name for name in [*chosen, target] if name not in there]
    if missing:
        raise ValueError(f"{paths[0]} has no columns {missing}; it has {there}.")
    return Table(tuple(ParquetPart(path, chosen, target) for path in paths), chosen, target)


def from_dask(X: Any, y: Any, columns: Sequence[str] | None = None) -> Table:
    """Return a table whose parts are the partitions of a Dask frame, or the blocks of a pair of Dask arrays.

    Parameters
    ----------
    X : dask.dataframe.DataFrame or (n, d) dask.array.Array
        The frame, or the inputs, all columns in one block.
    y : str or (n,) dask.array.Array
        Column of the labels or targets in the frame, or an array in blocks of the same rows.
    columns : sequence of str, optional
        Inputs in the frame; the default takes all other columns.

    Raises
    ------
    ValueError
        If there are no such columns, or the blocks are not of the same rows.
    """
    if not hasattr(X, "to_delayed"):
        raise ValueError(f"X must be a Dask frame or array, got {type(X).__name__}; arrays go to from_arrays.")
    if not isinstance(y, str):
        return _from_dask_arrays(X, y)
    there = [str(name) for name in X.columns]
    chosen = tuple(name for name in there if name != y) if columns is None else tuple(columns)
    missing = [name for name in [*chosen, y] if name not in there]
    if missing:
        raise ValueError(f"the frame has no columns {missing}; it has {there}.")
    parts = [FramePart(f"partition {k}", part, chosen, y) for k, part in enumerate(X.to_delayed())]
    return Table(tuple(parts), chosen, y)


def _from_dask_arrays(X: Any, y: Any) -> Table:
    import dask

    rows = getattr(X, "chunks", None), getattr(y, "chunks", None)
    if rows[0] is None or rows[1] is None or len(rows[0]) != 2 or len(rows[1]) != 1:
        raise ValueError("X and y must be Dask arrays (n, d) and (n,), or a frame and the name of a column.")
    if len(rows[0][1]) != 1 or rows[0][0] != rows[1][0]:
        raise ValueError(
            f"X and y must have blocks of the same rows, and X all columns in one, got chunks {rows[0]} and {rows[1]}. "
            "Rechunk them: X.rechunk({1: -1}), y.rechunk(X.chunks[0])."
        )
    pairs = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True)
    pair = dask.delayed(lambda inputs, labels: (inputs, labels), pure=True)
    return Table(tuple(FramePart(f"block {k}", pair(*both), None, None) for k, both in enumerate(pairs)))


def _of_frame(name: str, frame: Any, wanted: list[str]) -> Rows:
    there = [str(column) for column in frame.columns]
    missing = [column for column in wanted if column not in there]
    if missing:
        raise ValueError(f"{name} has no columns {missing}; it has {there}.")
    return _checked(name, frame[wanted[:-1]], frame[wanted[-1]], wanted)


def _checked(name: str, X: Any, y: Any, wanted: list[str] | None) -> Rows:
    """Return rows whose inputs are finite numbers, or raise a ValueError that names the part and the row."""
    inputs = as_numbers(f"X of {name}", X)
    labels = np.asarray(y)
    if inputs.ndim != 2 or labels.ndim != 1 or inputs.shape[0] != labels.shape[0]:
        raise ValueError(
            f"{name} must have inputs (n, d) and as many labels (n,), got shapes {inputs.shape} and {labels.shape}."
        )
    bad = np.argwhere(~np.isfinite(inputs))
    if bad.size:
        row, column = (int(k) for k in bad[0])
        called = repr(wanted[column]) if wanted is not None else str(column)
        raise ValueError(
            f"{name}: row {row} has {inputs[row, column]} in column {called}. Drop such rows, or fill them."
        )
    missing = np.flatnonzero(pd.isna(labels))
    if missing.size:
        raise ValueError(f"{name}: row {int(missing[0])} has no label. Drop such rows.")
    return Rows(name, inputs, labels)
