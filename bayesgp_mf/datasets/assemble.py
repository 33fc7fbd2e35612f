"""From all rows of a file to a `Dataset`: split, then rescale by the training rows; and checks of arguments."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.datasets.dataset import Dataset
from bayesgp_mf.datasets.frames import FrameDataset, as_frames
from bayesgp_mf.types import Array


def assemble(
    *,
    name: str,
    X: Array,
    y: NDArray[np.str_],
    train: NDArray[np.bool_],
    standardise: bool,
    feature_names: tuple[str, ...],
    units: tuple[str, ...],
    description: str,
    fold: NDArray[np.int64] | None = None,
    as_frame: bool = False,
    label: str = "class",
) -> Dataset | FrameDataset:
    """Split the rows, in order, by the mask of training rows, rescale the inputs if asked, and wrap them.

    As a `Dataset`, or as a `FrameDataset` whose targets have a name.

    Raises
    ------
    ValueError
        If ``standardise`` or ``as_frame`` is not a bool.
    """
    mean, scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
    if check_flag("standardise", standardise):
        mean, scale = training_moments(X[train], feature_names)
    dataset = Dataset(
        name=name,
        X=(X[train] - mean) / scale,
        y=y[train],
        X_test=(X[~train] - mean) / scale,
        y_test=y[~train],
        feature_names=feature_names,
        class_names=tuple(sorted({str(label) for label in y})),
        feature_mean=mean,
        feature_scale=scale,
        description=description,
        units=units,
        fold=None if fold is None else fold[train],
    )
    return as_frames(dataset, train, label) if check_flag("as_frame", as_frame) else dataset


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


def check_flag(name: str, value: object) -> bool:
    """Return `value` as a bool, or raise a ValueError: a word such as 'no' would otherwise count as true."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} must be True or False, got {value!r}. Pass {name}=True or {name}=False.")
    return bool(value)


def check_integer(name: str, value: object, *, low: int, high: float = math.inf, expected: str, advice: str) -> int:
    """Return `value` as an int from `low` to `high`, or raise a ValueError of what is `expected`, with `advice`."""
    # True and False are integers to Python, but fold=True is a slip.
    if not isinstance(value, int | np.integer) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} must be {expected}, got {value!r}. {advice}")
    return int(value)
