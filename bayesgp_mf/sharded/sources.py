"""Tables in parts: files, arrays, partitions of a Dask frame. Each part is read where it will live."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import PurePath
from typing import Any, ClassVar
from urllib.parse import unquote

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.tables import as_numbers, check_same_cases, feature_names
from bayesgp_mf.parallel.worker import uncomputed
from bayesgp_mf.streams.arguments import in_range
from bayesgp_mf.types import Array

NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""What a folder is called for rows without a value."""
TRUTH = {"false": False, "true": True, "False": False, "True": True}
"""How Arrow and Spark, and how pandas and Dask, write truth values as names of folders."""


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
    order : tuple or None
        The categories of labels that came as a Categorical.
    label : str
        What tells the part from the others of its table, wherever that lies: its random numbers go by it.
    shard : object
        What is made of them for a model.
    """

    def __init__(self, name: str, X: Array, y: NDArray[Any], order: tuple[Any, ...] | None = None) -> None:
        self.name, self.X, self.y, self.order = name, X, y, order
        self.label = name
        self.shard: Any = None


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
    label : str
        Its path from the folder that all files of the table are in.
    folders : tuple of (str, value)
        Columns that the folders on its path say, the same for all of its rows.
    """

    path: str
    columns: tuple[str, ...]
    target: str
    label: str
    folders: tuple[tuple[str, Any], ...] = ()

    def __call__(self) -> Rows:
        """Read it."""
        wanted = [*self.columns, self.target]
        try:
            frame = pd.read_parquet(self.path)
        except Exception as error:  # what pyarrow says of a damaged file
            raise _unread(self.path, error) from error
        more = {name: value for name, value in self.folders if name in wanted and name not in frame.columns}
        rows = _of_frame(self.path, frame.assign(**more), wanted)
        rows.label = self.label
        return rows


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
        try:
            found = self.delayed.compute() if data is None else data
        except Exception as error:  # what the graph of the user raises
            raise uncomputed(self.name, error) from error
        if self.columns is None or self.target is None:
            inputs, labels = found
            return _checked(self.name, inputs, labels, None)
        return _of_frame(self.name, found, [*self.columns, self.target])


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

    in_parts: ClassVar[bool] = True
    parts: tuple[Any, ...]
    columns: tuple[str, ...] | None = None
    target: str | None = None


def from_arrays(parts: Sequence[tuple[Any, Any]]) -> Table:
    """Return a table whose parts are pairs of inputs ``(n, d)`` and labels ``(n,)``, of which some may be empty.

    Raises
    ------
    ValueError
        If there is no part.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(600, 2))
    >>> y = np.where(X[:, 0] + 0.5 * rng.normal(size=600) > 0, "late", "on time")
    >>> len(bgp.sharded.from_arrays([(X[:200], y[:200]), (X[200:], y[200:])]).parts)
    2
    """
    pairs = list(parts) if isinstance(parts, Iterable) else []
    if not pairs or not all(isinstance(pair, tuple | list) and len(pair) == 2 for pair in pairs):
        raise ValueError(f"parts must be a list of pairs (X, y), with at least one, got {type(parts).__name__}.")
    pairs = [(as_pandas("X", X), as_pandas("y", y)) for X, y in pairs]
    columns = [feature_names("X", X) for X, _ in pairs]
    for k, (X, y) in enumerate(pairs):
        check_same_cases(X, y)
        if columns[k] != columns[0]:
            raise ValueError(f"part {k} has columns {columns[k]}, and part 0 has {columns[0]}.")
    names = None if columns[0] is None else tuple(columns[0])
    return Table(tuple(partial(_checked, f"part {k}", X, y, names) for k, (X, y) in enumerate(pairs)), names)


def from_parquet(pattern: str | os.PathLike[str], *, target: str, columns: Sequence[str] | None = None) -> Table:
    """Return a table whose parts are Parquet files, in the order of their names.

    Folders that name a column, as in ``flights/year=2013/month=1/0.parquet``, become columns of their files: numbers,
    truth values or, as the target, labels. Folders before the first wildcard of the pattern do not.

    Parameters
    ----------
    pattern : str or os.PathLike
        Path with wildcards, such as ``"flights/*.parquet"``, or a folder, for all ``.parquet`` files below it; all
        workers must see the same files under it.
    target : str
        Column of the labels or targets.
    columns : sequence of str, optional
        Inputs; the default takes all other columns of the first file.

    Raises
    ------
    ValueError
        If it is not a path, no file matches, the first file lacks a column, or the folders of files name different
        columns.

    Examples
    --------
    >>> from pathlib import Path
    >>> from tempfile import TemporaryDirectory
    >>> import numpy as np
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame(rng.normal(size=(600, 2)), columns=["distance", "wind"])
    >>> frame["label"] = np.where(frame["wind"] > 0, "late", "on time")
    >>> with TemporaryDirectory() as folder:
    ...     for month in (1, 2):
    ...         frame[300 * (month - 1) : 300 * month].to_parquet(Path(folder) / f"{month}.parquet")
    ...     table = bgp.sharded.from_parquet(folder, target="label")
    >>> len(table.parts), table.columns
    (2, ('distance', 'wind'))
    """
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("from_parquet needs pyarrow: pip install 'bayesgp-mf[dask]'.") from error

    if not isinstance(pattern, str | os.PathLike):
        raise ValueError(
            f"pattern must be a path with wildcards, or a folder, got {type(pattern).__name__}. Name several files by "
            "what they have in common, such as 'flights/2013*.parquet'."
        )
    paths, depth = _files(os.path.expanduser(pattern))
    try:
        schema = pyarrow.parquet.read_schema(paths[0])
    except Exception as error:  # what pyarrow says of a damaged file, or of a folder
        raise _unread(paths[0], error) from error
    index = (schema.pandas_metadata or {}).get("index_columns", [])  # which pandas takes for no columns
    folders = _folder_columns(depth, paths)
    there = [name for name in schema.names if name not in index]
    there += [name for name, _ in folders[0] if name not in there]
    chosen = _chosen(columns, there, target, paths[0])
    base = os.path.commonpath([os.path.dirname(path) for path in paths])
    parts = [
        ParquetPart(path, chosen, target, PurePath(os.path.relpath(path, base or ".")).as_posix(), shown)
        for path, shown in zip(paths, folders, strict=True)
    ]
    return Table(tuple(parts), chosen, target)


def _files(pattern: str) -> tuple[list[str], int]:
    """Return the files that match, or all below a folder, and how many parts of their paths are named as they are."""
    parts = PurePath(pattern).parts
    if os.path.isdir(pattern):
        depth, pattern = len(parts), os.path.join(glob.escape(pattern), "**", "*.parquet")
    else:
        depth = next((k for k, part in enumerate(parts) if glob.has_magic(part)), len(parts))
    found = sorted(glob.glob(pattern, recursive=True))
    paths = [path for path in found if not os.path.isdir(path)]
    # Spark writes a table as a folder that is called like a file: its rows are those of the files in it, once
    for folder in (path for path in found if os.path.isdir(path)):
        if not any(path.startswith(os.path.join(folder, "")) for path in paths):
            raise ValueError(f"{folder} is a folder, and {pattern!r} matches no file in it. Give the folder above it.")
    if not paths:
        raise ValueError(f"no file matches {pattern!r}.")
    return paths, depth


def _unread(path: str, error: Exception) -> ValueError:
    missing = isinstance(error, FileNotFoundError)  # which says no more than the path
    return ValueError(f"{path} cannot be read: {'there is no such file, or no longer' if missing else error}")


def _folder_columns(depth: int, paths: list[str]) -> list[tuple[tuple[str, Any], ...]]:
    """Return the columns that folders ``name=value`` say of each path, below what the pattern names as it is."""
    shown = [
        [tuple(map(unquote, each.split("=", 1))) for each in PurePath(path).parts[depth:-1] if "=" in each]
        for path in paths
    ]
    names = [tuple(name for name, _ in each) for each in shown]
    for path, each in zip(paths, names, strict=True):
        if each != names[0] or len(set(each)) < len(each):
            raise ValueError(
                f"the folders of {path} say the columns {list(each)}, those of {paths[0]} {list(names[0])}."
            )
    columns = [_values([each[k][1] for each in shown]) for k in range(len(names[0]))]
    return [tuple((name, column[k]) for name, column in zip(names[0], columns, strict=True)) for k in range(len(paths))]


def _values(texts: list[str]) -> list[Any]:
    """Return what folders say as numbers or truth values, if all of it is such, else as text; nothing is NaN."""
    for kind in (int, float, TRUTH.__getitem__, str):
        try:
            return [np.nan if text == NOTHING else kind(text) for text in texts]
        except (KeyError, ValueError):
            continue
    raise AssertionError("every text is text")


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

    Examples
    --------
    >>> import numpy as np
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> rng = np.random.default_rng(1)
    >>> frame = pd.DataFrame(rng.normal(size=(600, 2)), columns=["distance", "wind"])
    >>> frame["label"] = np.where(frame["wind"] > 0, "late", "on time")
    >>> import dask.dataframe as dd
    >>> table = bgp.sharded.from_dask(dd.from_pandas(frame, npartitions=3), "label")
    >>> len(table.parts), table.columns
    (3, ('distance', 'wind'))
    """
    if not hasattr(X, "to_delayed"):
        raise ValueError(f"X must be a Dask frame or array, got {type(X).__name__}; arrays go to from_arrays.")
    if not isinstance(y, str):
        return _from_dask_arrays(X, y)
    there = [str(name) for name in X.columns]
    chosen = _chosen(columns, there, y, "the frame")
    parts = [FramePart(f"partition {k}", part, chosen, y) for k, part in enumerate(X.to_delayed())]
    return Table(tuple(parts), chosen, y)


def _from_dask_arrays(X: Any, y: Any) -> Table:
    import dask

    rows = getattr(X, "chunks", None), getattr(y, "chunks", None)
    if rows[0] is None or rows[1] is None or len(rows[0]) != 2 or len(rows[1]) != 1:
        raise ValueError(
            "X and y must be Dask arrays (n, d) and (n,), or a frame and the name of a column, got "
            f"{_called(X)} and {_called(y)}. Labels that are here become an array by dask.array.from_array(y, "
            "chunks=X.chunks[0])."
        )
    if len(rows[0][1]) != 1 or rows[0][0] != rows[1][0]:
        raise ValueError(
            f"X and y must have blocks of the same rows, and X all columns in one, got chunks {rows[0]} and {rows[1]}. "
            + _rechunked(X, y)
        )
    pairs = zip(X.to_delayed().ravel(), y.to_delayed().ravel(), strict=True)
    pair = dask.delayed(lambda inputs, labels: (inputs, labels), pure=True)
    return Table(tuple(FramePart(f"block {k}", pair(*both), None, None) for k, both in enumerate(pairs)))


def _called(array: Any) -> str:
    shape = getattr(array, "shape", None)
    return type(array).__name__ if shape is None else f"{type(array).__name__} of shape {shape}"


def _rechunked(X: Any, y: Any) -> str:
    """Return what to do about blocks that do not go together."""
    if np.isnan([*X.shape, *y.shape]).any():
        return "Where blocks have unknown sizes, first X.compute_chunk_sizes(), and likewise y."
    if X.shape[0] != y.shape[0]:
        return f"There are {X.shape[0]} rows of X, and {y.shape[0]} of y: are these the labels of X?"
    return "Rechunk them: X.rechunk({1: -1}), y.rechunk((X.chunks[0],))."


def _chosen(columns: Any, there: Sequence[str], target: str, name: str) -> tuple[str, ...]:
    """Return the inputs of a table, or raise a ValueError."""
    if isinstance(columns, str):
        raise ValueError(f"columns must be a list of names, got {columns!r}: write [{columns!r}].")
    chosen = tuple(each for each in there if each != target) if columns is None else tuple(columns)
    missing = [each for each in [*chosen, target] if each not in there]
    if missing:
        raise ValueError(f"{name} has no columns {missing}; it has {list(there)}.")
    if target in chosen or len(set(chosen)) < len(chosen) or not chosen:
        raise ValueError(f"columns must be different inputs, without the target {target!r}, got {list(chosen)}.")
    return chosen


def _of_frame(name: str, frame: Any, wanted: list[str]) -> Rows:
    if not isinstance(frame, pd.DataFrame):
        raise ValueError(f"{name} must be a frame, got {type(frame).__name__}.")
    there = {str(column): column for column in frame.columns}
    missing = [column for column in wanted if column not in there]
    if missing:
        raise ValueError(f"{name} has no columns {missing}; it has {list(there)}.")
    inputs = frame[[there[column] for column in wanted[:-1]]]
    return _checked(name, inputs, frame[there[wanted[-1]]], wanted[:-1])


def _checked(name: str, X: Any, y: Any, columns: Sequence[str] | None) -> Rows:
    """Return rows whose inputs are finite numbers, or raise a ValueError that names the part and the row."""
    inputs = as_numbers(f"X of {name}", X)
    labels = np.asarray(y)
    if inputs.ndim != 2 or labels.ndim != 1 or inputs.shape[0] != labels.shape[0]:
        hint = " If the first is the one input of all cases, pass X[:, None]." * (inputs.ndim == 1)
        raise ValueError(
            f"{name} must have inputs (n, d) and as many labels (n,), got shapes {inputs.shape} and {labels.shape}."
            f"{hint}"
        )
    bad = np.argwhere(~np.isfinite(inputs))
    if bad.size:
        row, column = (int(k) for k in bad[0])
        called = repr(columns[column]) if columns is not None else str(column)
        raise ValueError(
            f"{name}: row {row} has {inputs[row, column]} in column {called}. Drop such rows, or fill them."
        )
    in_range(f"X of {name}", inputs)
    labels = labels.astype(labels.dtype.newbyteorder("="), copy=False)  # pandas counts no others
    if labels.dtype.kind in "mM" and np.datetime_data(labels.dtype)[0] == "ns":
        labels = labels.astype(f"{labels.dtype.kind}8[us]")  # as objects, nanoseconds are no dates but numbers
    missing = np.flatnonzero(pd.isna(labels))
    if missing.size:
        raise ValueError(f"{name}: row {int(missing[0])} has no label. Drop such rows.")
    categories = getattr(getattr(y, "dtype", None), "categories", None)
    return Rows(name, inputs, labels, None if categories is None else tuple(categories))
