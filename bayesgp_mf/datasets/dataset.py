"""What every loader returns: inputs, labels, and the words that go with them, as arrays or as data frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesgp_mf.notebook import as_html
from bayesgp_mf.types import Array

MOST_INPUTS = 12
"""Inputs that a notebook names."""


# eq=False: the generated comparison of arrays would raise; two data sets are equal if they are one object.
@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class Dataset:
    """A classification set split into training and test rows; arrays are copied in and read-only.

    Attributes
    ----------
    name : str
        Short name, as in the name of the loader.
    X : (n, d) float64 array
        Training inputs, standardised if ``feature_mean`` and ``feature_scale`` say so.
    y : (n,) array of str
        Class name of each training row.
    X_test : (m, d) float64 array
        Test inputs, rescaled with the same numbers as ``X``; ``m`` may be 0.
    y_test : (m,) array of str
        Class name of each test row.
    feature_names : tuple of str, length d
        Name of each input.
    class_names : tuple of str
        The classes, sorted.
    feature_mean, feature_scale : (d,) float64 array
        What the inputs were rescaled with, in ``units``: ``raw = X * feature_scale + feature_mean``.
        Zeros and ones if the inputs are raw.
    description : str
        One paragraph: what was measured, which rows are which, where it comes from.
    units : tuple of str, length d
        Unit of each raw input.
    fold : (n,) int64 array or None
        Published cross-validation fold of each training row, where there is one.

    Raises
    ------
    ValueError
        If the shapes do not agree, or the labels and ``class_names`` do not.

    Examples
    --------
    >>> from bayesgp_mf.datasets import load_crabs
    >>> crabs = load_crabs()
    >>> crabs
    Dataset('crabs': 80 training rows (F 40, M 40), 120 test rows (F 60, M 60), 6 standardised inputs)
    >>> crabs.X.flags.writeable
    False
    """

    name: str
    X: Array
    y: NDArray[np.str_]
    X_test: Array
    y_test: NDArray[np.str_]
    feature_names: tuple[str, ...]
    class_names: tuple[str, ...]
    feature_mean: Array
    feature_scale: Array
    description: str
    units: tuple[str, ...]
    fold: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        """Copy the arrays, make the copies read-only and check that all fields agree."""
        for field in ("X", "X_test", "feature_mean", "feature_scale"):
            _freeze(self, field, np.array(getattr(self, field), dtype=np.float64))
        for field in ("y", "y_test"):
            _freeze(self, field, np.array(getattr(self, field), dtype=np.str_))
        if self.fold is not None:
            _freeze(self, "fold", np.array(self.fold, dtype=np.int64))
        _check_shapes(self)
        _check_classes(self)

    def __repr__(self) -> str:
        """Name, row counts per class, and whether the inputs are raw."""
        rescaled = np.any(self.feature_mean != 0.0) or np.any(self.feature_scale != 1.0)
        return (
            f"Dataset({self.name!r}: {_count(self.y, self.class_names, 'training')}, "
            f"{_count(self.y_test, self.class_names, 'test')}, "
            f"{self.X.shape[1]} {'standardised' if rescaled else 'raw'} inputs)"
        )

    def _repr_html_(self) -> str:
        inputs = [
            f"{name} ({unit})" if unit else name for name, unit in zip(self.feature_names, self.units, strict=True)
        ]
        many = len(inputs) > MOST_INPUTS
        shown = [*inputs[:MOST_INPUTS], f"and {len(inputs) - MOST_INPUTS} more"] if many else inputs
        rows = [
            ("training", _count(self.y, self.class_names, "training")),
            ("test", _count(self.y_test, self.class_names, "test")),
            ("inputs", ", ".join(shown)),
            ("about", self.description),
        ]
        return as_html(f"Data set {self.name}", rows)


def _freeze(dataset: Dataset, field: str, array: NDArray[np.generic]) -> None:
    array.setflags(write=False)
    object.__setattr__(dataset, field, array)  # the way round frozen=True that dataclasses themselves take


def _check_shapes(dataset: Dataset) -> None:
    if dataset.X.ndim != 2:
        raise ValueError(f"X must be (n, d), got shape {dataset.X.shape}. Pass one row per case.")
    n, d = dataset.X.shape
    m = dataset.y_test.size
    expected = {"y": (n,), "X_test": (m, d), "y_test": (m,)}
    expected |= dict.fromkeys(("feature_names", "feature_mean", "feature_scale", "units"), (d,))
    if dataset.fold is not None:
        expected["fold"] = (n,)
    for field, shape in expected.items():
        got = np.shape(getattr(dataset, field))
        if got != shape:
            raise ValueError(
                f"{field} must have shape {shape} to go with X {dataset.X.shape} and y_test of {m} labels, "
                f"got {got}. Pass one entry per row, or per column, of the inputs."
            )


def _check_classes(dataset: Dataset) -> None:
    if list(dataset.class_names) != sorted(set(dataset.class_names)):
        raise ValueError(
            f"class_names must be distinct and sorted, got {dataset.class_names}. Pass tuple(sorted(set(labels)))."
        )
    unknown = sorted({str(label) for label in (*dataset.y, *dataset.y_test)} - set(dataset.class_names))
    if unknown:
        raise ValueError(
            f"every label must be one of class_names {dataset.class_names}, got also {unknown}. "
            "Add them to class_names or drop their rows."
        )


def _count(labels: NDArray[np.str_], class_names: tuple[str, ...], role: str) -> str:
    if labels.size == 0:
        return f"0 {role} rows"
    counts = ", ".join(f"{name} {np.count_nonzero(labels == name)}" for name in class_names)
    return f"{labels.size} {role} rows ({counts})"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False, repr=False)
class FrameDataset:
    """A classification set as data frames of pandas, whose rows are called by their numbers in the file.

    Attributes
    ----------
    X : (n, d) DataFrame
        Training inputs, with the names of the inputs as columns.
    y : (n,) Series of str
        Class name of each training row.
    X_test : (m, d) DataFrame
        Test inputs.
    y_test : (m,) Series of str
        Class name of each test row.
    fold : (n,) Series of int or None
        Published cross-validation fold of each training row, where there is one.
    arrays : Dataset
        The same as arrays, with what else is known: ``class_names``, ``feature_mean``, ``units``, ``description``, ...

    Examples
    --------
    >>> from bayesgp_mf.datasets import load_crabs
    >>> crabs = load_crabs(as_frame=True, standardise=False)
    >>> crabs.X.join(crabs.y).head(2)
        FL   RW    CL    CW   BD  colour sex
    1  8.8  7.7  18.1  20.8  7.4     0.0   M
    2  9.2  7.8  19.0  22.4  7.7     0.0   M
    """

    X: pd.DataFrame
    y: pd.Series
    X_test: pd.DataFrame
    y_test: pd.Series
    fold: pd.Series | None
    arrays: Dataset

    def __repr__(self) -> str:
        """Return what the arrays say, with the name of this class."""
        return f"Frame{self.arrays!r}"

    def _repr_html_(self) -> str:
        return self.arrays._repr_html_()


def as_frames(dataset: Dataset, train: NDArray[np.bool_], label: str) -> FrameDataset:
    """Return a data set as frames: ``train`` says which rows of the file are for training, ``label`` what y is called.

    The arrays are copied: those of a `Dataset` are read-only, and frames are to be worked on.
    """
    rows, others = pd.Index(np.flatnonzero(train)), pd.Index(np.flatnonzero(~train))
    columns = list(dataset.feature_names)
    return FrameDataset(
        X=pd.DataFrame(dataset.X.copy(), rows, columns),
        y=pd.Series(dataset.y.tolist(), rows, dtype=object, name=label),
        X_test=pd.DataFrame(dataset.X_test.copy(), others, columns),
        y_test=pd.Series(dataset.y_test.tolist(), others, dtype=object, name=label),
        fold=None if dataset.fold is None else pd.Series(dataset.fold.copy(), rows, name="fold"),
        arrays=dataset,
    )
