"""What the figures share: colours, axes, and a mean with its band."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bayesgp_mf.plots import _axes
from bayesgp_mf.plots._axes import BAND, LINE, POINT, apart, legend_above
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

FIRST = POINT
SECOND = "#c03a2b"
THIRD = "#e8a317"
QUIET = LINE

__all__ = ["BAND", "FIRST", "QUIET", "SECOND", "THIRD", "axes_or_new", "legend_above", "plot_band"]


def axes_or_new(ax: Axes | None) -> Axes:
    """Return ``ax``, or the axes of a new figure of a page, which pyplot need not close."""
    with apart():
        return _axes.axes_or_new(ax)


def plot_band(ax: Axes, x: Array, mean: Array, half_width: Array, color: str, label: str, line: str = "-") -> None:
    """Draw a mean ``(m,)`` as a line, and a band that reaches ``half_width (m,)`` to either side of it."""
    ax.fill_between(x, mean - half_width, mean + half_width, color=color, alpha=0.18, linewidth=0, zorder=1)
    ax.plot(x, mean, color=color, linestyle=line, linewidth=1.6, label=label, zorder=3)
