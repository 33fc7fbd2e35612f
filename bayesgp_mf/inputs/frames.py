"""Tables of any kind as pandas objects: polars, pyarrow and others through narwhals, xarray by its own face.

All other checks are written for arrays and pandas objects. A table of another kind becomes one here, under the same
names of columns and the same labels of rows, so that every message and every number is the same for it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesgp_mf.kernels import Kernel

MOST_DENSE = 10**8
"""Entries of a sparse matrix of inputs that is made dense: 0.8 GB."""
ARRAY = "array"
"""The kind of what is no table."""
_INSTALL = "pip install 'bayesgp-mf[frames]'"


def as_pandas(name: str, value: Any) -> Any:
    """Return a table, or a column, of another kind as a DataFrame or a Series, and anything else as it is.

    Parameters
    ----------
    name : str
        What the argument is called.
    value : object
        What a user gave: of polars, pyarrow, or another library that narwhals knows, or of xarray a Dataset of
        variables along one dimension, the cases, or a DataArray (cases, inputs) or (cases).

    Raises
    ------
    ValueError
        If it is a kernel, if two columns have one name, the table is lazy, or variables of a Dataset are
        along other dimensions.
    ImportError
        If narwhals is needed and is not there.
    """
    if isinstance(value, Kernel) or (isinstance(value, type) and issubclass(value, Kernel)):  # which has columns
        raise ValueError(f"{name} must be an array or a table of numbers, got {value!r}.")
    read = _READERS.get(kind_of(value))
    return value if read is None else read(name, value)


def kind_of(value: Any) -> str:
    """Return which library a table is of: "pandas", "polars", "pyarrow", "xarray", ...; "array" if it is no table."""
    for base in type(value).__mro__:
        root = base.__module__.partition(".")[0]
        if root in _READERS or (root == "pandas" and isinstance(value, pd.DataFrame | pd.Series)):
            return root
    return ARRAY


def row_labels(name: str, table: Any) -> NDArray[Any] | None:
    """Return the labels ``(n,)`` of the rows of a pandas object as a container can hold them, or None without any.

    An index that only counts from 0 is none. Integers, floats and dates stay what they are, anything else is text, the
    levels of a MultiIndex joined by commas; so are dates outside of the years 1678 to 2261, which no file gives back.

    Raises
    ------
    ValueError
        If a file could not hold the text of a label.
    """
    index = getattr(table, "index", None)  # of a list a method
    if not isinstance(index, pd.Index) or is_numbered(index):
        return None
    index = plain_index(index)
    if isinstance(index, pd.MultiIndex):
        return _as_text(name, [", ".join(str(level) for level in label) for label in index])
    if isinstance(index.dtype, np.dtype) and index.dtype.kind in "iufM" and not _is_far(index):
        # copied, since an index may be made of a user's array
        return np.array(index, dtype="datetime64[ns]" if index.dtype.kind == "M" else None)
    return _as_text(name, [str(label) for label in index])


def is_numbered(index: pd.Index) -> bool:
    """Tell whether an index counts from 0, as one does that says nothing."""
    return bool(plain_index(index).equals(pd.RangeIndex(len(index))))


def plain_index(index: pd.Index) -> pd.Index:
    """Return an index of numbers or dates that may be missing, or are of pyarrow, as one of NumPy's; others as is.

    To pandas two indices of different kinds are not equal, whatever their labels.
    """
    there = getattr(index.dtype, "numpy_dtype", None)  # of the types that pandas adds to those of NumPy
    if there is None or there.kind not in "iufM" or index.hasnans:
        return index
    values = index.to_numpy() if there.kind == "M" else index.to_numpy(dtype=there)
    return pd.Index(values, name=index.name) if values.dtype == there else index  # dates with a zone are objects


def check_names(name: str, columns: Sequence[Any]) -> list[str]:
    """Return the names of columns as text, or raise a ValueError if two have one name."""
    names = [str(column) for column in columns]
    if len(set(names)) < len(names):
        raise ValueError(f"{name} has two columns of one name: {names}. Rename or drop one.")
    check_text(f"{name} has a column named", names)
    return names


def check_text(what: str, texts: Sequence[str]) -> None:
    """Raise a ValueError that begins as ``said`` if a text has a character that no netCDF file can hold."""
    if _can_be_written("".join(texts)):
        return
    first = next(text for text in texts if not _can_be_written(text))
    raise ValueError(
        f"{what} {first!r}, and no file can hold that text: it has a NUL, or half of a surrogate pair. Rename it."
    )


def _can_be_written(text: str) -> bool:
    try:
        return b"\0" not in text.encode()
    except UnicodeEncodeError:
        return False


def _as_text(name: str, labels: Sequence[str]) -> NDArray[np.str_]:
    check_text(f"{name} has a row labelled", labels)
    return np.array(labels, dtype=np.str_)


def _is_far(index: pd.Index) -> bool:
    """Tell whether some dates are outside of what nanoseconds count, in which files are read."""
    first, last = pd.Timestamp.min, pd.Timestamp.max
    return index.dtype.kind == "M" and bool(np.any((index < first) | (index > last)))


def _of_narwhals(name: str, value: Any) -> Any:
    """Return a table or column that narwhals knows; anything else of such a library as it is."""
    try:
        import narwhals.stable.v2 as nw
    except ImportError as error:
        raise ImportError(
            f"{name} is of {kind_of(value)}, which is read by narwhals: {_INSTALL}. Or pass {name}.to_pandas()."
        ) from error
    check_names(name, getattr(value, "column_names", ()))  # of pyarrow, where two may be the same
    found = nw.from_native(_as_chunked(value), pass_through=True, allow_series=True)
    if isinstance(found, nw.LazyFrame):
        raise ValueError(f"{name} is lazy: its rows are not there yet. Pass {name}.collect().")
    if not isinstance(found, nw.DataFrame | nw.Series):
        return value
    if found.implementation.is_pyarrow():  # whose own way keeps row labels that came from pandas, and categories
        return _with_distinct_categories(found.to_native()).to_pandas()
    if not found.implementation.is_polars():  # whose own way asks for pyarrow
        return found.to_pandas()
    if isinstance(found, nw.Series):
        return _of_polars(nw, found)
    if not found.columns:
        return pd.DataFrame(index=pd.RangeIndex(len(found)))
    return pd.concat([_of_polars(nw, column) for column in found.iter_columns()], axis=1)


def _as_chunked(value: Any) -> Any:
    """Return an array or a batch of pyarrow as the column or the table that narwhals knows."""
    arrow = sys.modules.get("pyarrow")  # whoever has such an object has imported it
    if arrow is not None and isinstance(value, arrow.RecordBatch):
        return arrow.Table.from_batches([value])
    return arrow.chunked_array([value]) if arrow is not None and isinstance(value, arrow.Array) else value


def _with_distinct_categories(table: Any) -> Any:
    """Return a table or column of pyarrow in which no dictionary has a null or one entry twice, as pandas asks."""
    import pyarrow
    import pyarrow.compute

    if isinstance(table, pyarrow.Table):
        for j, column in enumerate(table.columns):
            clean = _with_distinct_categories(column)
            if clean is not column:
                table = table.set_column(j, pyarrow.field(table.field(j).name, clean.type), clean)
        return table
    if not pyarrow.types.is_dictionary(table.type):
        return table
    dictionaries = [chunk.dictionary for chunk in table.chunks]
    if all(not each.null_count and len(each.unique()) == len(each) for each in dictionaries):
        return table
    categories = pyarrow.chunked_array(dictionaries).unique().drop_null()
    codes = [pyarrow.compute.index_in(chunk.dictionary_decode(), categories) for chunk in table.chunks]
    make = pyarrow.DictionaryArray.from_arrays
    return pyarrow.chunked_array([make(each, categories, ordered=table.type.ordered) for each in codes])


def _of_polars(nw: Any, column: Any) -> pd.Series:
    """Return a column of polars: an Enum as an ordered Categorical, text as it is."""
    if column.dtype == nw.Enum:
        categories = pd.CategoricalDtype(column.cat.get_categories().to_list(), ordered=True)
        return pd.Series(pd.Categorical(column.to_list(), dtype=categories), name=column.name)
    if column.dtype.is_numeric() or column.dtype.is_temporal():
        return pd.Series(column.to_numpy(), name=column.name)
    # of its Categorical, too, whose categories are all that the process has seen
    return pd.Series(column.to_list(), name=column.name, dtype=None if column.dtype == nw.Boolean else object)


def _of_xarray(name: str, value: Any) -> Any:
    """Return a Dataset, or a DataArray of one or two dimensions; anything else of xarray as it is."""
    if hasattr(value, "data_vars"):
        return _of_dataset(name, value)
    if not hasattr(value, "indexes"):
        return value
    axes = [_index(value, dim) for dim in value.dims]
    if len(axes) not in (1, 2) or all(is_numbered(axis) for axis in axes):  # no names that could be lost
        return value.values
    return pd.Series(value.values, *axes, name=value.name) if len(axes) == 1 else pd.DataFrame(value.values, *axes)


def _of_dataset(name: str, value: Any) -> pd.DataFrame:
    dims = {str(key): variable.dims for key, variable in value.data_vars.items()}
    if dims and not any(dims.values()):  # one case
        return pd.DataFrame({key: [variable.item()] for key, variable in value.data_vars.items()})
    if len(set(dims.values())) != 1 or any(len(each) != 1 for each in dims.values()):
        raise ValueError(
            f"{name} is an xarray Dataset, whose variables must all have one dimension, that of the cases, got "
            f"{dims or 'no variables'}. Pass those that have it, such as {name}[['age', 'bmi']]."
        )
    (dim,) = next(iter(dims.values()))
    columns = {key: variable.values for key, variable in value.data_vars.items()}
    return pd.DataFrame(columns, index=_index(value, dim))


def _index(value: Any, dim: Any) -> pd.Index:
    """Return the index of a dimension, or numbers from 0 if it has none."""
    return value.indexes[dim] if dim in value.indexes else pd.RangeIndex(value.sizes[dim])


def _of_scipy(name: str, value: Any) -> Any:
    """Return a sparse matrix of inputs as an array, if it is not too large."""
    if not name.startswith("X") or not hasattr(value, "toarray"):
        return value
    if np.prod(value.shape, dtype=float) > MOST_DENSE:
        raise ValueError(
            f"{name} is sparse, of shape {value.shape}: kernels read all entries, and these are more than "
            f"{MOST_DENSE:.0e}. Take fewer columns, such as by TruncatedSVD(100) of scikit-learn in a pipeline, or "
            "fewer rows."
        )
    return value.toarray()


_READERS: dict[str, Callable[[str, Any], Any]] = {
    **dict.fromkeys(("polars", "pyarrow", "narwhals", "modin", "cudf"), _of_narwhals),
    "xarray": _of_xarray,
    "scipy": _of_scipy,
}
"""How a table of each library becomes one of pandas."""
