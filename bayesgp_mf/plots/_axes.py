"""What all figures share: where they are drawn, their colours, the check of their arrays."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import ArrayLike

from bayesgp_mf.types import Array

POINT = "#1f5fa8"
LINE = "#777777"
BAND = "#ececec"


def axes_or_new(ax: Axes | None) -> Axes:
    """Return ``ax``, or the axes of a new figure that pyplot knows nothing about."""
    if ax is not None:
        return ax
    return Figure(figsize=(4.3, 3.9), layout="constrained").subplots()


def legend_above(ax: Axes) -> None:
    """Put the legend above the axes, where it hides no point."""
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, fontsize=8, borderaxespad=0.2)


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
