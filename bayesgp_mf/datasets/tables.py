"""From rows of a bundled file to a `Dataset`: split, then rescaled by the training rows; and checks of arguments."""

from __future__ import annotations

import csv
import math
import tomllib
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.arguments import check_flags
from bayesgp_mf.datasets.dataset import Dataset, FrameDataset, as_frames
from bayesgp_mf.types import Array


class CsvTable(NamedTuple):
    """What there is to know of a table before its rows."""

    name: str
    label: str  # the column of the classes
    features: tuple[str, ...]
    units: tuple[str, ...]
    description: str


def table_of(name: str) -> CsvTable:
    """Return what ``tables.toml`` says of a bundled table."""
    stated = tomllib.loads(files("bayesgp_mf.datasets").joinpath("tables.toml").read_text(encoding="utf-8"))[name]
    features = tuple(stated["features"])
    units = stated.get("units") or len(features) * [stated["unit"]]
    return CsvTable(name, stated["label"], features, tuple(units), " ".join(stated["description"].split()))


def read_columns(file: str) -> dict[str, list[str]]:
    """Read a CSV file of ``bayesgp_mf/datasets/data`` (a header line, then rows) into its columns, as text."""
    text = files("bayesgp_mf.datasets").joinpath("data", file).read_text(encoding="utf-8")
    header, *rows = csv.reader(text.splitlines())
    return {name: list(cells) for name, cells in zip(header, zip(*rows, strict=True), strict=True)}


def input_matrix(columns: Mapping[str, Sequence[str]], names: Sequence[str]) -> Array:
    """Put the named columns of `read_columns` side by side as numbers, in the order of the names."""
    return np.column_stack([np.array(columns[name], dtype=np.float64) for name in names])


def assemble(
    table: CsvTable,
    columns: Mapping[str, Sequence[str]],
    train: NDArray[np.bool_],
    *,
    standardise: bool,
    as_frame: bool = False,
    fold: NDArray[np.int64] | None = None,
) -> Dataset | FrameDataset:
    """Split the rows, in order, by the mask of training rows, rescale the inputs if asked, and wrap them.

    As a `Dataset`, or as a `FrameDataset` whose targets have a name.

    Raises
    ------
    ValueError
        If ``standardise`` or ``as_frame`` is not a bool.
    """
    check_flags(standardise=standardise, as_frame=as_frame)
    X, y = input_matrix(columns, table.features), np.array(columns[table.label])
    mean, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if standardise:
        mean, scale = training_moments(X[train], table.features)
    dataset = Dataset(
        name=table.name,
        X=(X[train] - mean) / scale,
        y=y[train],
        X_test=(X[~train] - mean) / scale,
        y_test=y[~train],
        feature_names=table.features,
        class_names=tuple(sorted(set(columns[table.label]))),
        feature_mean=mean,
        feature_scale=scale,
        description=table.description,
        units=table.units,
        fold=None if fold is None else fold[train],
    )
    return as_frames(dataset, train, table.label) if as_frame else dataset


def training_moments(X: Array, feature_names: tuple[str, ...]) -> tuple[Array, Array]:
    """Mean and standard deviation (``ddof=0``) of each input over the training rows.

    Raises
    ------
    ValueError
        If an input is constant: no factor gives it unit variance.
    """
    # Compared exactly, because rounding in the mean leaves a constant column a tiny standard deviation.
    constant = [name for name, same in zip(feature_names, np.all(X[0] == X, axis=0), strict=True) if same]
    if constant:
        raise ValueError(
            f"every input must vary over the training rows to be standardised, got constant {constant}. "
            "Drop these inputs or pass standardise=False."
        )
    return X.mean(axis=0), X.std(axis=0)


def check_integer(name: str, value: object, *, low: int, high: float = math.inf, expected: str, advice: str) -> int:
    """Return `value` as an int from `low` to `high`, or raise a ValueError of what is `expected`, with `advice`."""
    # True and False are integers to Python, but fold=True is a slip.
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} must be {expected}, got {value!r}. {advice}")
    return int(value)
