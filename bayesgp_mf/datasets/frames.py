"""A `Dataset` as data frames."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesgp_mf.datasets.dataset import Dataset


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
