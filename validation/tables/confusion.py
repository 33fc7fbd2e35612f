"""The figure of confusion: which classes are taken for which."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DARK = 0.55
"""Share of its row above which a count is written in white."""


def confusion(true: NDArray[np.int64], predicted: NDArray[np.int64], n_classes: int) -> NDArray[np.int64]:
    """Return how many cases of each class (rows) were taken for each class (columns), ``(C, C)``."""
    counts = np.zeros((n_classes, n_classes), dtype=np.int64)
    np.add.at(counts, (true, predicted), 1)
    return counts


def plot_confusion(counts: Mapping[str, NDArray[np.int64]], class_names: Sequence[str]) -> Axes:
    """Draw matrices of counts ``(C, C)`` side by side, shaded by the share of their row, and return the first axes."""
    figure = Figure(figsize=(3.9 * len(counts), 3.9), layout="constrained")
    panels = np.atleast_1d(figure.subplots(1, len(counts)))
    every = np.arange(len(class_names))
    for ax, (name, matrix) in zip(panels, counts.items(), strict=True):
        share = matrix / np.maximum(matrix.sum(axis=1, keepdims=True), 1)
        ax.imshow(share, cmap="Blues", vmin=0.0, vmax=1.0)
        for row in every:
            for column in every[matrix[row] > 0]:
                ax.text(
                    column,
                    row,
                    str(matrix[row, column]),
                    ha="center",
                    va="center",
                    fontsize=9,
                    color="white" if share[row, column] > DARK else "#222222",
                )
        ax.set_xticks(every, class_names, fontsize=8)
        ax.set_yticks(every, class_names if ax is panels[0] else [""] * every.size, fontsize=8)
        ax.set_xlabel("predicted")
        ax.set_title(f"{name}: {int(matrix.sum() - np.trace(matrix))} of {int(matrix.sum())} wrong", fontsize=10)
        ax.tick_params(length=0)
        for side in ax.spines.values():
            side.set_visible(False)
    panels[0].set_ylabel("true class")
    first: Axes = panels[0]
    return first
