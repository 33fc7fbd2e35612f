"""Which classes are taken for which."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.diagnostics.predicted import Predicted
from bayesgp_mf.diagnostics.tables import confusion_table
from bayesgp_mf.plots._axes import axes_or_new
from bayesgp_mf.plots._names import at_tick, in_lines
from bayesgp_mf.plots._predictions import predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container

MANY = 12
"""Classes, beyond which their names are small."""
LETTERS = 36
"""Of a title in a line, and of names that fit side by side below the axis; longer ones are turned."""


def plot_confusion(
    idata: Container | Predicted, *, ax: Axes | None = None, y_new: ArrayLike | None = None, **given: Any
) -> Axes:
    """Plot how many cases of each class were predicted as each class, with stronger colours for larger shares.

    Predictions are leave-one-out; with ``y_new`` they are those of `predict`. The prediction is the most probable
    class. Colours are shares of a row, so that rare classes are visible too.

    Parameters
    ----------
    idata : InferenceData, DataTree or Predicted
        What `fit` or `predict` returned, or the same loaded from a file; or the predictions that
        `diagnostics.predicted` made of it, for several figures of them.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.
    y_new : (m,) array_like, optional
        Labels of the cases that were predicted.
    **held
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    matplotlib.axes.Axes
        With a number in each field.

    Raises
    ------
    ValueError
        If targets are neither labels nor levels, or `diagnostics.predicted` would refuse the arguments.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> idata = bgp.fit(X, ["no", "no", "yes", "yes"], bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> [text.get_text() for text in bgp.plots.plot_confusion(idata).texts]
    ['2', '0', '0', '2']
    """
    found = predictions(idata, y_new, given)
    table = confusion_table(found)
    ax = axes_or_new(ax)
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0.0, vmax=1.0)
    for (row, column), count in np.ndenumerate(table):
        ax.text(
            column, row, f"{count}", ha="center", va="center", color="white" if share[row, column] > 0.55 else "black",
            fontsize=9 if len(table) < 8 else 7,
        )  # fmt: skip
    names = [at_tick(name) for name in found.classes]
    turned = len(table) * max(len(name) for name in names) > LETTERS
    ax.set_xticks(range(len(table)), names, rotation=45 if turned else 0, ha="right" if turned else "center")
    ax.set_yticks(range(len(table)), names)
    if len(table) > MANY:
        ax.tick_params(labelsize=7)
    right = int(np.trace(table))
    ax.set(xlabel="Predicted", ylabel="Observed")
    ax.set_title(in_lines(f"{right} of {table.sum()} right, {found.description}", LETTERS), fontsize=9)
    return ax
