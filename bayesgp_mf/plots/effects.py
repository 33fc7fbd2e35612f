"""What inputs do: which ones matter, and what a fit predicts along each, averaged over its cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgp_mf.diagnostics.curves import NOTHING, Scale, partial_dependence, relevance
from bayesgp_mf.diagnostics.fitted import Fitted, fitted
from bayesgp_mf.kernels import leaves
from bayesgp_mf.plots._axes import LINE, POINT, as_drawn, axes_or_new, legend_above, panels
from bayesgp_mf.plots._curves import band_levels, draw_curve, name_groups, target_label

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
    **given
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


MOST = 6
"""Panels, if nobody says which inputs to draw."""
FEW, A_PERIOD, MANY = 25, 10, 200
"""Values of an input, if nobody says how many: for each period, and never more."""
PANEL_LETTERS = 26
"""Of a name that fit below a panel."""


def plot_partial_dependence(
    idata: Container,
    *,
    ax: Sequence[Axes] | Axes | None = None,
    features: Sequence[Any] | None = None,
    scale: Scale = "target",
    levels: Sequence[float] = (0.9,),
    points: int | None = None,
    **given: Any,
) -> list[Axes]:
    """Plot the prediction along each input, averaged over the cases, with bands, the most relevant input first.

    Each input has a panel, all with the same vertical scale, and marks at the deciles of the cases. A flat curve means
    that the input has no effect, at least not alone. `diagnostics.partial_dependence` has the numbers.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    ax : sequence of matplotlib.axes.Axes, optional
        Where to draw, one for each input; by default a new figure outside pyplot.
    features : sequence of str or int, optional
        Which inputs, in this order; by default the six most relevant by `diagnostics.relevance`.
    scale : {"target", "latent"}
        Whether to average probabilities and means of targets, or latent values.
    levels : sequence of float
        Which bands to draw, by the posterior probability that they hold the average with.
    points : int, optional
        Values of each input; by default 25, or ten for each period of a kernel that repeats, up to 200.
    **given
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    list of matplotlib.axes.Axes
        One for each input.

    Raises
    ------
    ValueError
        If there is no such input, the fit has no probabilities, or ``ax`` are not as many as inputs.

    Examples
    --------
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> X = pd.DataFrame({"age": [4.0, 1.0, 2.0, 3.0], "dose": [0.0, 1.0, 2.0, 3.0]})
    >>> idata = bgp.fit(X, [0, 0, 1, 1], bgp.kernels.Gaussian([9.0, 1.0], 4.0), draws=10, random_seed=1)
    >>> [ax.get_xlabel() for ax in bgp.plots.plot_partial_dependence(idata, points=5)]
    ['dose', 'age']
    """
    fit = fitted(idata, **given)
    if features is None:
        order = np.argsort(-relevance(idata, **given).effect, kind="stable") if len(fit.names) > 1 else [0]
        features = [int(column) for column in order[:MOST]]
    probabilities = band_levels(levels)
    curves = partial_dependence(
        idata, features, scale=scale, probabilities=probabilities, points=points or _enough(fit), **given
    )  # fmt: skip
    axes = panels(ax, len(curves))
    sides = [np.concatenate([each.mean.ravel(), each.quantiles.ravel()]) for each in curves]
    low, high = min(each.min() for each in sides), max(each.max() for each in sides)
    margin = 0.06 * (high - low) or 0.5
    for place, (each, one) in enumerate(zip(curves, axes, strict=True)):
        draw_curve(one, each, levels, fit.classes if each.mean.ndim > 1 else (), label="average")
        column = fit.names.index(each.feature)
        if not each.levels:
            deciles = np.quantile(fit.X[:, column], np.linspace(0.0, 1.0, 11))
            one.plot(
                deciles, np.full(11, 0.02), "|", color=LINE, transform=one.get_xaxis_transform(),
                label="deciles of the cases",
            )  # fmt: skip
        one.set(xlabel=as_drawn(each.feature, PANEL_LETTERS), ylim=(low - margin, high + margin))
        one.set_ylabel(target_label(fit, scale) if place == 0 or len(curves) == 1 or _is_left(one) else "", fontsize=8)
        name_groups(one, each)
    if len(axes) == 1:
        legend_above(axes[0])
    elif ax is None:  # above all panels of a figure of our own
        handles, names = axes[0].get_legend_handles_labels()
        axes[0].figure.legend(handles, names, loc="outside upper left", ncols=4, frameon=False, fontsize=8)
    else:
        axes[0].legend(loc="best", frameon=False, fontsize=7)
    return axes


def _enough(fit: Fitted) -> int:
    """Return at how many values of an input to draw, so that a function that repeats is seen to."""
    number = FEW
    for leaf in leaves(fit.process.parts[0].kernel):
        if "period" in leaf.params:
            looks_at = getattr(leaf, "columns", None)
            span = np.ptp(fit.X if looks_at is None else fit.X[:, list(looks_at)], axis=0)
            number = max(number, int(np.max(A_PERIOD * span / leaf.params["period"])))
    return min(number, MANY)


def _is_left(ax: Axes) -> bool:
    """Tell whether there are no other axes to the left, which state what is drawn upwards."""
    where = ax.get_subplotspec()
    return where is None or where.is_first_col()
