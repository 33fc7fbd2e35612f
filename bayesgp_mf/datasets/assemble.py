"""From all rows of a file to a `Dataset`: split, then rescale by the training rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.datasets.dataset import Dataset
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
) -> Dataset:
    """Split the rows by the mask `train`, rescale the inputs if asked, and wrap them.

    Parameters
    ----------
    name, feature_names, units, description
        As in :class:`Dataset`.
    X : (N, d) array
        Raw inputs of all rows.
    y : (N,) array of str
        Labels of all rows.
    train : (N,) array of bool
        True for a training row. Rows keep their order on both sides of the split.
    standardise : bool
        Whether to rescale the inputs.
    fold : (N,) array of int, optional
        Cross-validation fold of all rows.

    Returns
    -------
    Dataset
        Training rows in ``X``, all others in ``X_test``.
    """
    d = X.shape[1]
    mean, scale = training_moments(X[train], feature_names) if standardise else (np.zeros(d), np.ones(d))
    return Dataset(
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


def training_moments(X: Array, feature_names: tuple[str, ...]) -> tuple[Array, Array]:
    """Mean and standard deviation (``ddof=0``) of each input over the training rows.

    Parameters
    ----------
    X : (n, d) array
        Raw training inputs.
    feature_names : tuple of str, length d
        Names for the error message.

    Returns
    -------
    mean, scale : (d,) array
        In the units of the input.

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
