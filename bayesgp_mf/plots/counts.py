"""Counts that came against counts that were expected: a hanging rootogram."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.diagnostics.predicted import Predicted
from bayesgp_mf.diagnostics.tables import count_table
from bayesgp_mf.plots._axes import ACCENT, LINE, POINT, axes_or_new, legend_above
from bayesgp_mf.plots._predictions import predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container


def plot_counts(
    idata: Container | Predicted, *, ax: Axes | None = None, y_new: ArrayLike | None = None, **given: Any
) -> Axes:
    """Plot the number of cases with each count, as bars that hang from the expected number (hanging rootogram).

    The vertical axis is a square root, on which random variation has the same size everywhere (Kleiber and Zeileis
    2016, The American Statistician 70). A bar that ends above zero means fewer cases than expected, one below zero
    more. Bars that end within the grey band, 1 to either side, are within two standard errors. Predictions are
    leave-one-out; with ``y_new`` they are those of `predict`.

    Parameters
    ----------
    idata : InferenceData, DataTree or Predicted
        What `fit` or `predict` returned, or the same loaded from a file; or the predictions that
        `diagnostics.predicted` made of it, for several figures of them.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.
    y_new : (m,) array_like, optional
        Counts of the cases that were predicted.
    **held
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    matplotlib.axes.Axes
        The vertical axis is the square root of a number of cases.

    Raises
    ------
    ValueError
        If targets are not counts, or one is above 1000, or `diagnostics.predicted` would refuse the arguments.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], [1, 0, 2, 4]
    >>> idata = bgp.fit(X, y, bgp.kernels.Gaussian(2.0), bgp.Poisson(), draws=10, random_seed=1)
    >>> bgp.plots.plot_counts(idata).get_xlabel()
    'Count'
    """
    found = predictions(idata, y_new, given)
    table = count_table(found)
    top, height = np.sqrt(table.expected), np.sqrt(table.observed)
    ax = axes_or_new(ax)
    ax.axhspan(-1.0, 1.0, color="#e4e4e4", linewidth=0, zorder=0, label="two standard errors")
    ax.bar(table.counts, height, 0.8, bottom=top - height, color=POINT, alpha=0.6, label="observed", zorder=1)
    ax.plot(table.counts, top, "o-", color=ACCENT, markersize=3.5, linewidth=1.2, label="expected", zorder=3)
    ax.axhline(0.0, color=LINE, linewidth=1, zorder=2)
    ax.set(xlabel="Count", ylabel="Square root of the number of cases")
    if table.counts.size <= 12:
        ax.set_xticks(table.counts)
    legend_above(ax)
    return ax
