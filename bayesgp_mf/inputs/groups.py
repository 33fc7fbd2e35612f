"""Columns of text that tell groups of cases: as codes, for the kernels that only ask whether inputs are equal."""

from __future__ import annotations

import numbers
import re
from collections.abc import Mapping, Sequence, Sized
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.tables import (
    as_inputs,
    as_numbers,
    check_same_features,
    feature_names,
    first_without_number,
    place,
)
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.types import Array

DATE = re.compile(r"\d{4}-\d\d-\d\d([ T]|$)")
"""A date as tables in text hold it, ISO 8601, with or without a time."""


def as_inputs_of(kernel: Kernel, X: ArrayLike, *, further: bool = False) -> tuple[Array, Kernel]:
    """Return training inputs as a finite array ``(n, d)``, and the kernel with what their columns of text hold.

    Texts become the numbers 0, 1, ... in sorted order, or in that of a pandas Categorical, where a kernel reads the
    column as groups. A column that no kernel reads may hold anything (`with_unread`).

    Parameters
    ----------
    kernel : Kernel
        With its columns by position: `Kernel.with_column_names`.
    X : (n, d) array_like
        What a user gave.
    further : bool
        Whether there were cases before, whose texts the kernel knows: they keep their codes, and texts that are new
        come behind them.

    Raises
    ------
    ValueError
        If the inputs are malformed; if further cases have text where those before had none; if a text is missing, or
        two of them have one name; if a kernel takes a column of text for numbers.
    """
    X = with_unread(X, kernel)
    levels: dict[int, tuple[str, ...]] = {}
    width = _width(X)
    columns = sorted(kernel.readers("groups", width))
    texts = {j: found for j in columns if (found := _texts("X", X, j)) is not None}
    known = kernel.levels_of_columns() if further else {}
    for j in texts:
        _check_not_numbers(kernel, X, j, width)
        if further and j not in known:
            raise ValueError(f"X has text in column {_named(X, j)!r}, where cases before had numbers. Pass numbers.")
        levels[j] = _levels(X, j, texts[j])
    for j in known.keys() - levels.keys():
        _check_known("X", X, j, known[j])
    for alike in kernel.alike():
        shared = [levels[j] for j in alike if j in levels]
        if 0 < len(shared) < len(alike):
            raise ValueError(
                f"X must have text in all of the columns {[_named(X, j) for j in alike]} or in none, since the kernel "
                "compares them. Make numbers text, as in X[column].astype(str)."
            )
        common = shared[0] if len(set(shared)) == 1 else tuple(sorted({text for own in shared for text in own}))
        levels |= {j: common for j in alike if j in levels}
    levels = {**known, **{j: tuple(dict.fromkeys((*known.get(j, ()), *own))) for j, own in levels.items()}}
    codes = {j: _codes(texts[j], levels[j]) for j in texts}
    return as_inputs("X", with_columns(X, codes), copy=True), kernel.with_levels(levels)


def as_new_inputs(X_new: ArrayLike, X: Array, features: Sequence[str] | None, kernel: Kernel) -> Array:
    """Return new inputs as a finite array ``(m, d)`` that fits the training inputs, or raise a ValueError.

    A text that no training case has is a group that no training case is in: it gets a number of its own. An array of
    numbers has the codes of training cases itself, as the inputs that a container holds, and no others; but not where a
    group is called by a number, since one that says 10 may mean the group "10" then.

    Parameters
    ----------
    X_new : (m, d) array_like
        What a user gave.
    X : (n, d) array
        The training inputs.
    features : sequence of str, optional
        Their names, if they had names: those of a data frame must be the same, in the same order. An array has none.
    kernel : Kernel
        Which knows the texts of the training inputs.
    """
    X_new = with_unread(X_new, kernel)
    check_same_features(features, X_new)
    found: dict[int, list[str]] = {}
    levels = kernel.levels_of_columns()
    for j, known in levels.items():
        if j >= _width(X_new) or not np.size(X_new):  # is said below
            continue
        texts = _texts("X_new", X_new, j)
        if texts is not None:
            found[j] = texts
        else:
            _check_known("X_new", X_new, j, known)
    together = {j: columns for columns in kernel.alike() for j in columns}
    codes = {}
    for j, texts in found.items():
        unseen = [text for k in together.get(j, (j,)) for text in found.get(k, ()) if text not in set(levels[j])]
        codes[j] = _codes(texts, (*levels[j], *dict.fromkeys(unseen)))
    new = as_inputs("X_new", with_columns(X_new, codes), copy=True)
    if new.shape[1] != X.shape[1]:
        raise ValueError(
            f"X_new has {new.shape[1]} columns, but the model was fitted to {X.shape[1]}. "
            "Pass the same inputs in the same order and scale."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        prior = np.atleast_2d(kernel.diag(new))  # of each class, where these have kernels of their own
    if not np.all(np.isfinite(prior)):
        row = int(np.argmin(np.isfinite(prior).all(axis=0)))
        raise ValueError(f"X_new has inputs in row {row} so far out that the prior variance there overflows.")
    return new


def with_codes(name: str, inputs: ArrayLike, kernel: Kernel) -> Any:
    """Return inputs with the codes of groups that the training inputs have, in place of texts.

    Raises
    ------
    ValueError
        If a text is missing, or none of the training inputs has it.
    """
    table = with_unread(inputs, kernel)
    codes: dict[int, Array] = {}
    for j, known in kernel.levels_of_columns().items():
        texts = _texts(name, table, j) if j < _width(table) else None
        if texts is None:
            continue
        if unknown := sorted(set(texts) - set(known)):
            raise ValueError(
                f"{name} has groups in column {_named(table, j)!r} that X does not have: {unknown[:5]}. Nothing is "
                "learnt of these: leave them out."
            )
        codes[j] = _codes(texts, known)
    return with_columns(table, codes)


def with_unread(X: Any, kernel: Kernel) -> Any:
    """Return a table with zeros in the columns that no kernel reads and that do not hold finite numbers."""
    X = as_pandas("X", X)
    unread = [j for j in range(_width(X)) if not reads(kernel, j) and not _holds_numbers(X, j)]
    return with_columns(X, {j: np.zeros(len(X)) for j in unread})


def reads(kernel: Kernel, j: int) -> bool:
    """Tell whether a kernel makes anything of a column of inputs, by its position."""
    return any(j in kernel.readers(how, j + 1) for how in ("numbers", "groups"))


def _holds_numbers(X: Any, j: int) -> bool:
    """Tell whether all entries of a column are finite numbers."""
    try:
        return bool(np.isfinite(as_numbers("X", _column(X, j))).all())
    except ValueError:
        return False


def holds_more_than_numbers(X: Any) -> bool:
    """Tell whether a table ``(n, d)`` has a column that needs a kernel to say what becomes of it, as one of text."""
    if isinstance(X, pd.DataFrame):
        columns = [X.iloc[:, j] for j in range(X.shape[1])]
        text = any(isinstance(each, str) for column in columns if column.dtype.kind == "O" for each in column)
        return text or not all(_holds_numbers(X, j) for j in range(X.shape[1]))
    if _is_array_of_numbers(X) or hasattr(X, "toarray"):
        return False
    return any(isinstance(each, str) for each in _as_objects(X).flat)


def columns_of_groups(X: Any) -> list[int]:
    """Return the positions of the columns ``(n, d)`` that tell groups: of text, or of a categorical type of pandas.

    Raises
    ------
    ValueError
        If a text is missing, or a column holds dates, also as text, which are none.
    """
    found = []
    for j in range(_width(X)):
        dtype = getattr(_column(X, j), "dtype", None)
        if getattr(dtype, "kind", None) in ("M", "m"):
            raise ValueError(
                f"X holds dates or durations in column {_named(X, j)!r}. Make numbers of them, such as days: "
                "(X[column] - X[column].min()).dt.days; or, where each is a group of its own, .astype('category')."
            )
        texts = None if hasattr(dtype, "categories") else _texts("X", X, j)
        if texts and all(DATE.match(each) for each in texts):
            raise ValueError(
                f"X holds dates as text in column {_named(X, j)!r}, such as {texts[0]!r}: each would be a group of its "
                "own. Make numbers of them, such as days: pd.to_datetime(X[column]).sub(start).dt.days; or, where each "
                "is a group indeed, X[column].astype('category')."
            )
        if hasattr(dtype, "categories") or texts is not None:
            found.append(j)
    return found


def _check_not_numbers(kernel: Kernel, X: Any, j: int, width: int) -> None:
    """Raise a ValueError if a column of text is one that some kernel takes for numbers."""
    taking = kernel.readers("numbers", width).get(j)
    if taking is not None:
        raise ValueError(
            f"X must hold numbers in column {_named(X, j)!r} for the kernel {taking!r}, and it holds text, which "
            "kernels.Categorical alone takes. Give that kernel the columns of numbers, such as columns=['age', 'bmi']."
        )


def _width(X: Any) -> int:
    """Return the number of columns of a table, or 0 for what is none."""
    shape = X.shape if hasattr(X, "columns") else np.shape(X) if _is_array_of_numbers(X) else _as_objects(X).shape
    return int(shape[1]) if len(shape) == 2 else 0


def _column(X: Any, j: int) -> Any:
    return X.iloc[:, j] if hasattr(X, "iloc") else (X if _is_array_of_numbers(X) else _as_objects(X))[:, j]


def _as_objects(X: Any) -> NDArray[Any]:
    try:
        return np.asarray(X, dtype=object)
    except ValueError:  # rows of different lengths
        return np.empty(0, dtype=object)


def _is_array_of_numbers(X: Any) -> bool:
    return isinstance(X, np.ndarray) and X.dtype.kind in "biufc"


def _texts(name: str, X: Any, j: int) -> list[str] | None:
    """Return the names of the groups of all cases in a column, or None if it holds numbers; ValueError if one lacks."""
    if _is_array_of_numbers(X) or hasattr(X, "toarray"):
        return None
    entries = np.asarray(_column(X, j), dtype=object)
    missing = np.asarray(pd.isna(entries))
    known = entries[~missing]
    if all(isinstance(each, numbers.Number | np.bool_) and _is_real(each) for each in known):
        return None
    if missing.any():
        raise ValueError(
            f"{name} must say a group for every case, but column {_named(X, j)!r} lacks {int(missing.sum())} of "
            f"{entries.size} (the first {place(X, (int(np.argmax(missing)),))}). Drop those cases, or make "
            "them a group with a name of its own, as .fillna('unknown') of pandas does."
        )
    first: dict[str, Any] = {}
    for entry in entries:
        if (isinstance(entry, Sized) and not isinstance(entry, str | bytes)) or not _is_real(entry):
            raise ValueError(
                f"{name} must hold numbers or text in column {_named(X, j)!r}, got {entry!r}, which is a "
                f"{type(entry).__name__}. Make columns of numbers of it, or text where each is a group of its own."
            )
        if first.setdefault(str(entry), entry) != entry:
            raise ValueError(
                f"{name} has two entries of one name in column {_named(X, j)!r}, {first[str(entry)]!r} and {entry!r}, "
                "and groups are told apart by name. Make them one, or rename one."
            )
    return [str(entry) for entry in entries]


def _is_real(entry: object) -> bool:
    """Tell whether something is no complex number."""
    return isinstance(entry, numbers.Real) or not isinstance(entry, numbers.Complex)


def _levels(X: Any, j: int, texts: Sequence[str]) -> tuple[str, ...]:
    """Return the different texts: in the order of a pandas Categorical, whose categories need no case, or sorted."""
    categories = getattr(X.iloc[:, j].dtype, "categories", None) if hasattr(X, "iloc") else None
    return tuple(sorted(set(texts))) if categories is None else tuple(str(category) for category in categories)


def _codes(texts: Sequence[str], levels: Sequence[str]) -> Array:
    position = {text: k for k, text in enumerate(levels)}
    return np.array([position[text] for text in texts], dtype=np.float64)


def _check_known(name: str, X_new: Any, j: int, known: Sequence[str]) -> None:
    """Raise a ValueError if numbers are in a column of text, unless they are its codes in an array of numbers."""
    if not _is_array_of_numbers(X_new):
        raise ValueError(
            f"{name} has numbers in column {_named(X_new, j)!r}, which told groups such as {known[0]!r} at the fit. "
            f"Pass text as there, such as {name}[{_named(X_new, j)!r}].astype(str)."
        )
    start = f"{name} is an array of numbers, and its column {j} told groups such as {known[0]!r} at the fit"
    called = next((text for text in known if first_without_number([text]) is None), None)
    if called is not None:
        raise ValueError(
            f"{start}. A number there could be a group's name, as in {called!r}, or its code 0, 1, ... Pass text as at "
            "the fit, in a data frame or an array of dtype object."
        )
    values = np.real(X_new[:, j])  # what is complex is refused later
    strange = values[~np.isin(values, np.arange(len(known)))]
    if strange.size:
        raise ValueError(
            f"{start}. Its codes are 0 to {len(known) - 1}, as in constant_data, and {strange[0]:g} is none. Pass text "
            "as at the fit, in a data frame or an array of dtype object; so for a group that no training case is in."
        )


def with_columns(X: Any, columns: Mapping[int, Array]) -> Any:
    """Return a table with some columns replaced; a data frame stays one."""
    if not columns:
        return X
    changed = X.copy(deep=False) if hasattr(X, "isetitem") else np.array(_as_objects(X))
    for j, values in columns.items():
        if hasattr(changed, "isetitem"):
            changed.isetitem(j, values)
        else:
            changed[:, j] = values
    return changed


def _named(X: Any, j: int) -> str | int:
    """Return the name of a column, or its position."""
    names = feature_names("X", X)
    return j if names is None else names[j]
