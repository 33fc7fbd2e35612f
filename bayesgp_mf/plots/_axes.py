"""What all figures share: where they are drawn, their colours, the check of their arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

POINT = "#1f5fa8"
LINE = "#777777"
BAND = "#ececec"
ACCENT = "#c25700"
CYCLE = ("#1f5fa8", "#c25700", "#008a6a", "#a8478f", "#8a7500", "#4aa3d9", "#333333")
"""Colours of classes, which stay apart in the common kinds of colour blindness (after Okabe and Ito, 2008)."""
MARKERS = "osD^vPX"
ROWS, LETTERS = 8, 52
"""Of a legend, and letters of its columns side by side."""
DIVERGING, SEQUENTIAL = "PuOr_r", "viridis"


def axes_or_new(ax: Axes | None, lines: int = 0) -> Axes:
    """Return ``ax``, or the axes of a new figure that pyplot knows nothing about, with room for lines of text."""
    if ax is not None:
        _check_are_axes([ax], "one matplotlib.axes.Axes, such as an entry of what subplots returned")
        return ax
    from matplotlib.figure import Figure  # not with the package, but when something is drawn

    return Figure(figsize=(4.3, 3.9 + 0.16 * lines), layout="constrained").subplots()


def _check_are_axes(given: Iterable[object], wanted: str) -> None:
    from matplotlib.axes import Axes

    for each in given:
        if not isinstance(each, Axes):
            raise ValueError(f"ax must be {wanted}, got {type(each).__name__}. Leave it out for a new figure.")


def check_axes(ax: object, number: int) -> None:
    """Raise a ValueError unless ``ax`` are as many axes as there are panels."""
    if np.size(np.asarray(ax, dtype=object)) != number:
        raise ValueError(
            f"ax must hold {number} axes, one for each panel, got {np.size(np.asarray(ax, dtype=object))}."
        )
    _check_are_axes(np.asarray(ax, dtype=object).ravel(), f"{number} matplotlib.axes.Axes, one for each panel")


def panels(ax: Axes | Sequence[Axes] | None, number: int, columns: int = 2) -> list[Axes]:
    """Return ``ax`` as a list, or the axes of a new figure of so many panels."""
    if ax is not None:
        check_axes(ax, number)
        return list(np.asarray(ax, dtype=object).ravel())
    from matplotlib.figure import Figure

    across = min(columns, number)
    down = -(-number // across)
    size = (4.3, 3.9) if number == 1 else (2.6 * across, 2.4 * down + 0.4)
    axes = Figure(figsize=size, layout="constrained").subplots(down, across, squeeze=False).ravel()
    for unused in axes[number:]:
        unused.remove()
    return list(axes[:number])


def colour(code: int) -> str:
    """Return the colour of a class."""
    return CYCLE[code % len(CYCLE)]


def marker(code: int) -> str:
    """Return the marker of a class."""
    return MARKERS[code % len(MARKERS)]


def legend_above(ax: Axes, columns: int = 2, *, right: bool = False) -> None:
    """Put the legend above the axes, where it hides no point; to the right where long names stand on the left.

    It has as many columns as there is room for, and no more rows: of many entries the number of the others is stated.
    """
    from matplotlib.lines import Line2D

    handles, names = ax.get_legend_handles_labels()
    entries = list(zip(handles, names, strict=True))[: columns * ROWS]
    side_by_side = np.array_split([len(name) for _, name in entries], columns)
    if sum(max(column, default=0) for column in side_by_side) > LETTERS:
        entries, columns = entries[:ROWS], 1
    if left := len(names) - len(entries):
        nothing = Line2D([], [], linestyle="none")
        entries[-1] = (nothing, f"and {left + 1} more")
    corner, at = ("lower right", (1.0, 1.0)) if right else ("lower left", (0.0, 1.0))
    ax.legend(
        *zip(*entries, strict=True), loc=corner, bbox_to_anchor=at, ncols=columns, frameon=False, fontsize=8,
        borderaxespad=0.2,
    )  # fmt: skip


def vector(name: str, values: ArrayLike, n: int | None = None) -> Array:
    """Return ``values`` as a finite float array ``(n,)``, or raise a ValueError that names them."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must hold numbers, but they cannot be converted: {error}") from error
    if array.ndim != 1 or array.size == 0:
        raise ValueError(f"{name} must be one array with a number for each case, got shape {array.shape}.")
    if n is not None and array.size != n:
        raise ValueError(f"{name} must have {n} values, one for each case, got {array.size}.")
    if not np.all(np.isfinite(array)):
        first = int(np.argmin(np.isfinite(array)))
        raise ValueError(
            f"{name} must be finite to be drawn, got {array[first]} at index {first}. Leave out such cases first."
        )
    return array
