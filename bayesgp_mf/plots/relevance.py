"""Which inputs matter."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgp_mf.diagnostics.relevance import NOTHING, relevance
from bayesgp_mf.plots._axes import LINE, POINT, axes_or_new, legend_above
from bayesgp_mf.plots._names import as_drawn

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container

LETTERS = 24
"""Of a name in a line."""


def plot_relevance(idata: Container, *, ax: Axes | None = None, most: int = 20, **given: Any) -> Axes:
    """Plot how much each input matters for the prediction, the strongest first, and which inputs have no effect.

    A bar is the total effect of `diagnostics.relevance`: the share of the variance of the latent mean over cases that
    is lost if the input is exchanged between cases. For an average over hyperparameters, a line has the 5 to 95 % range
    over their settings. Inputs below 1 % are hollow.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.
    most : int
        How many inputs to draw; of the others the number is stated.
    **held
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    matplotlib.axes.Axes
        With a bar for each input.

    Raises
    ------
    ValueError
        If ``most`` is less than one, or `diagnostics.relevance` has no numbers.

    Examples
    --------
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> X = pd.DataFrame({"age": [4.0, 1.0, 2.0, 3.0], "dose": [0.0, 1.0, 2.0, 3.0]})
    >>> idata = bgp.fit(X, [0, 0, 1, 1], bgp.kernels.Gaussian([99.0, 1.0], 4.0), draws=10, random_seed=1)
    >>> ax = bgp.plots.plot_relevance(idata)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['dose', 'age']
    """
    if most < 1:
        raise ValueError(f"most must be the number of inputs to draw, at least 1, got {most}.")
    found = relevance(idata, **given)
    order = np.argsort(-found.effect, kind="stable")[:most]
    ax = axes_or_new(ax)
    for is_unused, label, inside, edge in (
        (False, "total effect", POINT, POINT),
        (True, f"does nothing (below {100 * NOTHING:g} %)", "white", LINE),
    ):
        places = np.flatnonzero(found.unused[order] == is_unused)
        if places.size:
            ax.barh(places, found.effect[order][places], height=0.6, label=label, facecolor=inside, edgecolor=edge)
    if np.any(found.high > found.low):
        ax.hlines(
            np.arange(order.size), found.low[order], found.high[order], color="#111111", linewidth=1.5,
            label="5 to 95 % over the hyperparameters",
        )  # fmt: skip
    ax.set_yticks(np.arange(order.size), [as_drawn(found.features[j], LETTERS) for j in order], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    left_out = len(found.features) - order.size
    ax.set(xlabel="Total effect\n(in variances of the prediction)", ylabel="Input")
    if left_out:
        ax.set_ylabel(f"Input ({left_out} with less effect not shown)")
    legend_above(ax, columns=1, right=True)
    return ax
