"""Predicted probability against observed frequency."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.diagnostics import calibration_table
from bayesgp_mf.plots._axes import LINE, POINT, axes_or_new, legend_above


def plot_calibration(
    labels: ArrayLike,
    probabilities: ArrayLike,
    *,
    bins: int | ArrayLike = 10,
    level: float = 0.95,
    class_name: str = "class 1",
    ax: Axes | None = None,
) -> Axes:
    """Plot the observed frequency of a class against its predicted probability, bin by bin.

    Each bin is a point at its mean prediction, with an exact binomial interval and the number of cases in it.
    Where the predictions are calibrated, the intervals cover the diagonal.

    Parameters
    ----------
    labels, probabilities, bins, level
        As for `diagnostics.calibration_table`.
    class_name : str
        What class 1 is called on the axes.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.

    Returns
    -------
    matplotlib.axes.Axes
        Both axes are probabilities, without unit.

    Raises
    ------
    ValueError
        If `diagnostics.calibration_table` would refuse the arguments.

    Examples
    --------
    >>> from bayesgp_mf.plots import plot_calibration
    >>> ax = plot_calibration([0, 1, 1, 1], [0.2, 0.4, 0.7, 0.9], bins=2)
    >>> ax.get_xlabel()
    'Predicted probability of class 1'
    """
    table = calibration_table(labels, probabilities, bins=bins, level=level)
    ax = axes_or_new(ax)
    # rounding may leave a limit on the wrong side of 0 or 1
    sides = np.maximum([table.observed - table.interval_low, table.interval_high - table.observed], 0.0)
    ax.plot([0, 1], [0, 1], color=LINE, linewidth=1, linestyle="--", label="calibrated", zorder=1)
    label = f"bin, {100 * level:g} % interval, number of cases"
    ax.errorbar(
        table.predicted, table.observed, sides, fmt="o", color=POINT, markersize=5, capsize=2, linewidth=1, label=label
    )
    for x, high, count in zip(table.predicted, table.interval_high, table.cases, strict=True):
        ax.annotate(f"{count}", (x, high), (0, 3), textcoords="offset points", ha="center", fontsize=8)
    ax.set(xlabel=f"Predicted probability of {class_name}", ylabel=f"Observed frequency of {class_name}")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.1))
    legend_above(ax)
    return ax
