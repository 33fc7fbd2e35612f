"""Inputs: arrays, data frames and their columns, and whether their rows are those of the labels.

The numbers of each case beside its inputs and its target, too: offset, weights, trials.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.inference.problem import as_float_array, check_finite
from bayesgp_mf.inputs.frames import as_pandas, check_names, is_numbered, kind_of, plain_index
from bayesgp_mf.types import Array

DROP = "Drop or impute those cases."
IMPUTE = (
    f"{DROP[:-1]}: scikit-learn's SimpleImputer in a make_pipeline before an estimator does that, beside text in a "
    "make_column_transformer."
)

LARGEST_WHOLE = 2.0**53
"""From here on double precision holds some whole numbers only."""
APART = 0.1
"""Part of the rows by which two slices of one table may be apart and are still meant to be the same."""


def check_here(X: Any, y: Any) -> None:
    """Raise a ValueError for a table in parts, and for the name of a folder or of a column, which such tables have."""
    if getattr(X, "in_parts", False) or _is_dask(X):
        raise ValueError(
            "X is a table in parts, whose rows may be on many machines: fit it by bgp.sharded.fit(X, y, kernel, "
            "likelihood, inducing=500); or pass X.compute() of a Dask collection that fits into memory."
        )
    if _is_dask(y):
        raise ValueError(
            "y is a Dask collection and X is none: pass y.compute(). Two Dask arrays with the same rows in their "
            "blocks, or a Dask frame and the name of its column, go to bgp.sharded.fit."
        )
    if isinstance(X, str | os.PathLike):
        raise ValueError(
            f"X must be inputs (n, d), got {str(X)!r}. Of a formula pass the columns, as fit(table[['age', 'site']], "
            "table['y']). Parquet files are fitted as a table in parts: "
            f"sharded.fit(sharded.from_parquet({str(X)!r}, target=...), None, kernel, likelihood, inducing=500)."
        )
    if isinstance(y, str):
        raise ValueError(
            f"y must be labels (n,), got {y!r}: the name of a column goes with a Dask frame, to sharded.fit. Of a "
            f"frame that is here pass X.drop(columns={y!r}) and X[{y!r}]."
        )


def _is_dask(value: Any) -> bool:
    """Return whether rows are in parts; those of xarray, which knows Dask too, are gathered."""
    return hasattr(value, "__dask_graph__") and kind_of(value) != "xarray"


def as_inputs(name: str, X: ArrayLike, *, copy: bool = False) -> Array:
    """Return inputs as a finite float64 array ``(n, d)``, or raise a ValueError that says what is wrong.

    What is kept, in a posterior or a container, asks for a ``copy``: a user may go on to change the own array in place.
    """
    X = as_pandas(name, X)
    columns = feature_names(name, X)
    of_one = getattr(X, "ndim", None) == 1  # before its entries are looked at, which may be text
    if of_one:
        _refuse_lengths(name, np.asarray(X, dtype=object))
    array = np.asarray(X) if of_one else as_numbers(name, X, copy=copy)
    if array.ndim != 2:
        hint = "" if array.ndim != 1 else f" {_as_table(name, X)}"
        raise ValueError(f"{name} must have two dimensions (cases, inputs), got shape {array.shape}.{hint}")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} is empty: shape {array.shape}. At least one case and one input are needed.")
    bad = [repr(column) for j, column in enumerate(columns or ()) if not np.isfinite(array[:, j]).all()]
    advice = f"They are in {', '.join(bad[:5])}{', ...' * (len(bad) > 5)}. {IMPUTE}" if bad else IMPUTE
    check_finite(name, array, advice, partial(place, X))
    return array


def place(table: Any, where: tuple[int, ...]) -> str:
    """Return where an entry stands: under which labels of row and column in a table, at which index in an array.

    Parameters
    ----------
    table : object
        A pandas object, or anything else.
    where : tuple of int
        Position of the row, and of the column if there are columns.
    """
    index = getattr(table, "index", None)  # of a list a method
    if not isinstance(index, pd.Index):
        return f"at index {where if len(where) > 1 else where[0]}"
    label = index[where[0]]
    row = f"in row {label.item() if isinstance(label, np.generic) else label!r}"
    columns = getattr(table, "columns", None)
    return row if columns is None or len(where) == 1 else f"{row}, column {str(columns[where[1]])!r}"


def feature_names(name: str, X: Any) -> list[str] | None:
    """Return the column names of a data frame of any kind, or None for anything else.

    Raises
    ------
    ValueError
        If two columns have one name.
    """
    columns = getattr(as_pandas(name, X), "columns", None)
    return None if columns is None else check_names(name, columns)


def check_same_features(
    features: Sequence[str] | None, X_new: Any, name: str = "X_new", trained: str = "the model was fitted to"
) -> None:
    """Raise a ValueError if a data frame, ``name``, has other columns, or another order, than the training one."""
    names = None if features is None else feature_names(name, X_new)
    if features is not None and names is not None and names != list(features):
        wanted = list(features)
        lacking = [column for column in wanted if column not in names]
        advice = f"It has no {lacking}." if lacking else f"Pass these columns, such as {name}[{wanted}] of pandas."
        raise ValueError(f"{name} has columns {names}, but {trained} {wanted}. {advice}")


def check_same_cases(X: Any, y: Any, inputs: str = "X", name: str = "y") -> None:
    """Raise a ValueError if row labels say that inputs and labels are not of the same cases in one order.

    ``inputs`` and ``name`` are what the two arguments are called.

    Cases are matched by position. An index that was numbered afresh (0, 1, ...) does not say whose rows these are; but
    of two slices of one numbered table that are a row or so apart (`X.iloc[0:100]`, `y.iloc[1:101]`) the first begins
    at 0 as well.
    """
    ours = getattr(as_pandas(inputs, X), "index", None)  # of a list a method
    theirs = getattr(as_pandas(name, y), "index", None)
    if not (isinstance(ours, pd.Index) and isinstance(theirs, pd.Index)) or len(ours) != len(theirs):
        return
    ours, theirs = plain_index(ours), plain_index(theirs)
    if ours.equals(theirs):
        return
    common = set(ours) & set(theirs)
    as_they_stand = f"{name}.to_numpy() if the rows belong together as they stand"
    if common == set(ours) | set(theirs):
        if list(ours) == list(theirs):  # of types that pandas does not compare
            return
        sorted_alike = f"{name} in the order of {inputs}, such as {name}.loc[{inputs}.index] of pandas, or "
        aligned = f"{sorted_alike if theirs.is_unique else ''}{as_they_stand}"
        raise ValueError(
            f"{inputs} and {name} have the same index in another order, but their rows are matched by place. Pass "
            f"{aligned}."
        )
    if not (is_numbered(ours) or is_numbered(theirs)) or _are_shifted(ours, theirs):
        both = f"{inputs}.index.intersection({name}.index)"
        of_both = f"{inputs}.loc[both] and {name}.loc[both] of pandas, with both = {both}, or "
        shared = f"the rows of both, such as {of_both}" if common else ""
        raise ValueError(
            f"{inputs} and {name} are of different cases: only {len(common)} of the {len(set(ours))} index labels of "
            f"{inputs} are in that of {name}, and rows are matched by place. Pass {shared}{as_they_stand}."
        )


def check_all_same_cases(**given: Any) -> None:
    """Raise a ValueError if row labels of any two arguments, given by name, say that they are not of the same cases.

    Labels of rows that X does not have may be there in what else is said of its cases.
    """
    for (one, first), (other, second) in combinations(given.items(), 2):
        check_same_cases(first, second, one, other)


def as_numbers(name: str, value: ArrayLike, *, copy: bool = False) -> Array:
    """Return ``value`` as a float64 array in which what pandas calls missing is NaN, or raise a ValueError.

    With ``copy`` it shares no memory with ``value``.
    """
    value = as_pandas(name, value)
    if hasattr(value, "toarray"):
        raise ValueError(f"{name} is sparse, and every entry of it is needed here. Pass {name}.toarray().")
    frame: Any = value
    for column, dtype in frame.dtypes.items() if hasattr(frame, "columns") else ():
        if getattr(dtype, "kind", "") in ("c", "M", "m"):
            raise ValueError(
                f"{name} must hold real numbers, but column {column!r} has dtype {dtype}. Convert it yourself, or "
                "drop it."
            )
    try:
        found = as_float_array(name, value, copy=copy)
    except ValueError:
        entries = _objects(value)
        if entries is None:
            raise
        _refuse_lengths(name, entries)
        filled = np.where(pd.isna(entries), np.nan, entries)
        if first_without_number(filled.ravel()) is None:
            return np.asarray(filled, dtype=np.float64)
        if entries.ndim == 2:
            _refuse_column(name, filled, feature_names(name, value))
        raise
    _refuse_merged(name, value, found)
    return found


def _refuse_merged(name: str, value: Any, found: Array) -> None:
    """Raise a ValueError if whole numbers are so large that some of them are one and the same in double precision."""
    if not np.any(np.abs(found) >= LARGEST_WHOLE):
        return
    entries = _objects(value)
    if entries is None or entries.shape != found.shape:
        return
    for entry, number in zip(entries.flat, found.flat, strict=True):
        if isinstance(entry, int | np.integer) and not isinstance(entry, bool) and int(entry) != int(number):
            raise ValueError(
                f"{name} holds the whole number {entry}, which double precision cannot tell from its neighbours. Pass "
                "names as text, such as .astype(str); numbers that count in a smaller unit."
            )


def _as_table(name: str, X: Any) -> str:
    """Return what to pass in place of a vector: it may be the only input of all cases, or all inputs of one."""
    if hasattr(X, "to_frame"):
        column, row = f"{name}.to_frame()", f"{name}.to_frame().T"
    else:
        array = name if isinstance(X, np.ndarray) else f"np.asarray({name})"
        column, row = f"{array}[:, None]", f"{array}[None, :]"
    return f"If that is the one input of {np.size(X)} cases, pass {column}; if it is one case, {row}."


def _are_shifted(one: pd.Index, other: pd.Index) -> bool:
    """Tell whether two indices count up by one and are apart by no more than `APART` of their length, or by one."""
    if any(index.dtype.kind not in "iu" or isinstance(index, pd.MultiIndex) for index in (one, other)):
        return False
    first, second = int(one[0]), int(other[0])
    ranges = one.equals(pd.RangeIndex(first, first + len(one))), other.equals(pd.RangeIndex(second, second + len(one)))
    return all(ranges) and 0 < abs(first - second) <= max(1, int(APART * len(one))) < len(one)


def _objects(value: Any) -> NDArray[Any] | None:
    """Return the entries as they are, or None if an array in which a conversion failed says nothing about them."""
    if isinstance(value, np.ma.MaskedArray) or getattr(getattr(value, "dtype", None), "kind", "") in ("c", "M", "m"):
        return None
    try:
        return np.asarray(value, dtype=object)
    except ValueError:  # arrays of shapes that do not fit together
        return None


def first_without_number(entries: Iterable[Any]) -> Any:
    """Return the first entry that is no number, or None."""
    for entry in entries:
        try:
            float(entry)
        except (TypeError, ValueError, OverflowError):
            return entry
    return None


def _refuse_lengths(name: str, entries: NDArray[Any]) -> None:
    """Raise a ValueError if rows of a table, lists in an array of one dimension, have different lengths."""
    if entries.ndim != 1:
        return
    lengths = {len(row) for row in entries if isinstance(row, list | tuple | np.ndarray)}
    if len(lengths) > 1:
        raise ValueError(
            f"{name} must have one length for all rows, got rows with {min(lengths)} to {max(lengths)} entries. Fill "
            "them up, or drop some."
        )


def _refuse_column(name: str, entries: NDArray[Any], columns: list[str] | None) -> None:
    """Raise a ValueError that names the first column of a table ``(n, d)`` with an entry that is no number."""
    for j, column in enumerate(columns or range(entries.shape[1])):
        entry = first_without_number(entries[:, j])
        if entry is not None:
            raise ValueError(
                f"{name} must hold numbers, but column {column!r} has entries such as {entry!r}. In fit they may be "
                f"groups, kernels.Categorical(columns={column!r}). Else encode them as numbers, such as 0 and 1 for "
                "each of its values, or drop it."
            )


def as_values_of_cases(values: ArrayLike, m: int) -> Array:
    """Return latent values as an array ``(m, q)``: the same q for each of m cases, or those of each.

    Raises
    ------
    ValueError
        If they are not numbers, not finite, or of another shape.
    """
    given = as_float_array("f", values)
    if given.ndim not in (1, 2) or (given.ndim == 2 and given.shape[0] != m):
        raise ValueError(
            f"f must have shape (q,), the same values for all cases, or ({m}, q), those of each of the {m} cases of "
            f"X_new; got {given.shape}."
        )
    check_finite("f", given)
    return np.broadcast_to(given, (m, given.shape[-1]))


def as_offset(offset: Any, X: Any, n: int, rows: str = "X") -> Array | None:
    """Return offsets ``(n,)`` of the cases of X, or None, or raise a ValueError that says what is wrong.

    ``rows`` is the name of the argument that X is.
    """
    if offset is None:
        return None
    values, where = _of_cases("offset", offset, X, n, rows)
    (none,) = np.nonzero(np.isneginf(values))
    if none.size:
        raise ValueError(
            f"offset is -inf {where((int(none[0]),))} ({none.size} such cases), as the log of an exposure 0 is. A case "
            "without exposure says nothing: drop it."
        )
    check_finite("offset", values, "An exposure must be above zero; drop or impute those cases.", where)
    return values


def as_weights(weights: Any, X: Any, n: int, name: str = "weights") -> Array | None:
    """Return weights ``(n,)`` of the cases of X, or None, or raise a ValueError that says what is wrong.

    ``name`` is that of the argument.
    """
    if weights is None:
        return None
    values, where = _of_cases(name, weights, X, n, "X")
    check_finite(name, values, "Give a weight of 0 to a case that is to say nothing.", where)
    (negative,) = np.nonzero(values < 0)
    if negative.size:
        first = int(negative[0])
        raise ValueError(
            f"{name} must be >= 0, got {values[first]:g} {where((first,))} ({negative.size} such cases). A weight of "
            "0 leaves a case out."
        )
    if not values.any():
        raise ValueError(
            f"{name} must not all be zero: then no case says anything. Give at least one case a weight above 0."
        )
    return values


def facts_of_new_cases(X_new: Any, m: int, offset: Any, trials: Any) -> dict[str, Array]:
    """Return what was given of m new cases, ``(m,)`` by name; the likelihood says which numbers are trials.

    Raises
    ------
    ValueError
        If one of them is not of these cases.
    """
    check_all_same_cases(X_new=X_new, offset=offset, trials=trials)
    found: dict[str, Any] = {} if offset is None else {"offset": as_offset(offset, X_new, m, "X_new")}
    if trials is not None:
        found["trials"] = _of_cases("trials", trials, X_new, m, "X_new")[0]
    return found


def _of_cases(name: str, given: Any, X: Any, n: int, rows: str) -> tuple[Array, Callable[[tuple[int, ...]], str]]:
    """Return numbers ``(n,)`` of the cases of X, and what says where one of them stands.

    One offset, or one number of trials, is that of all cases.
    """
    X, given = as_pandas(rows, X), as_pandas(name, given)
    check_same_cases(X, given, rows, name)
    values = as_numbers(name, given, copy=True)  # a container keeps them
    if values.ndim == 0 and name in ("offset", "trials"):
        return np.full(n, values), partial(place, X)
    if values.shape != (n,):
        hint = f" Pass np.full({n}, {name}) for the same in all cases." if values.ndim == 0 else ""
        raise ValueError(f"{name} must have shape ({n},), a number for each row of {rows}, got {values.shape}.{hint}")
    return values, partial(place, X if hasattr(X, "columns") else given)
