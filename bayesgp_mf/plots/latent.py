"""The latent function, or what it says of targets, along one input."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgp_mf.diagnostics.curves import Curve, Scale, curve
from bayesgp_mf.diagnostics.fitted import Fitted, fitted
from bayesgp_mf.plots._axes import ACCENT, LINE, as_drawn, axes_or_new, colour, in_legend, legend_above, marker
from bayesgp_mf.plots._curves import band_levels, draw_curve, name_groups, name_levels, other_inputs, target_label
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container

EDGE = 0.025
"""How far from the edge of the axes labels stand, as a share of their height."""


def plot_latent(
    idata: Container,
    *,
    ax: Axes | None = None,
    feature: Any = None,
    scale: Scale = "latent",
    levels: Sequence[float] = (0.5, 0.9),
    points: int = 200,
    **given: Any,
) -> Axes:
    """Plot the latent function along an input: posterior mean, credible bands, and cases.

    On the scale "latent", labels are at the lower and the upper edge (several classes, and counts, at the lower one),
    and measurements at their values. On the scale "target", the curve is the probability of class 1, or of each class,
    or the mean of a target. Cases are at their targets: counts for an exposure of one, successes as shares of the
    trials.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.
    feature : str or int, optional
        The input to plot along; required if there are several. The others are at their medians, groups at the most
        frequent.
    scale : {"latent", "target"}
        What the vertical axis shows: the function f, or probabilities and means of targets.
    levels : sequence of float
        Posterior probabilities of the bands.
    points : int
        Number of values of the input.
    **given
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    matplotlib.axes.Axes
        The horizontal axis is the input in its own unit.

    Raises
    ------
    ValueError
        If there are several inputs and none is named, there is no such input, or the fit has no probabilities.

    Examples
    --------
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> X = pd.DataFrame({"dose (mg)": [0.0, 1.0, 2.0, 3.0]})
    >>> idata = bgp.fit(X, [0, 0, 1, 1], bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> bgp.plots.plot_latent(idata).get_xlabel()
    'dose (mg)'
    """
    fit = fitted(idata, **given)
    if feature is None and len(fit.names) > 1:
        raise ValueError(
            f"this fit has {len(fit.names)} inputs {list(fit.names)[:8]}: name one, feature={fit.names[0]!r}, or use "
            "plot_partial_dependence, or plot_surface for two."
        )
    column = 0 if feature is None else fit.column(feature)
    probabilities = band_levels(levels)
    found = curve(fit, column, scale=scale, probabilities=probabilities, points=points)
    ax = axes_or_new(ax)
    draw_curve(ax, found, levels, fit.classes if found.mean.ndim > 1 else (), inside="f" if scale == "latent" else "")
    if fit.y is not None:
        _draw_cases(ax, fit, column, scale, found)
    ax.set(xlabel=as_drawn(fit.names[column]) + other_inputs(fit, 1), ylabel=target_label(fit, scale))
    name_groups(ax, found)
    if scale == "target":
        name_levels(ax, fit)
    legend_above(ax)
    return ax


def _draw_cases(ax: Axes, fit: Fitted, column: int, scale: Scale, found: Curve) -> None:
    """Draw each case, at its target where the axis has targets, and else at the edge where its label stands."""
    assert fit.y is not None
    x, y = fit.X[:, column], fit.y
    likelihood = fit.likelihood
    if scale == "target" and not likelihood.has_classes:
        ax.plot(x, _on_scale(fit), "o", color=ACCENT, markersize=3, alpha=0.6, label="one case", zorder=4)
        return
    if likelihood.is_real and fit.is_location:
        ax.plot(x, y - fit.offset, "o", color=ACCENT, markersize=3, alpha=0.6, label="one case", zorder=4)
        return
    if found.levels:
        return
    if likelihood.is_real:
        at_edge = ax.get_xaxis_transform()
        ax.plot(x, np.full(x.size, EDGE), "|", color=ACCENT, markersize=7, transform=at_edge, label="one case")
        return
    for code, name in enumerate(fit.classes):
        here = y == code
        height = 1.0 - EDGE if likelihood.is_binary and code else EDGE
        shade = (LINE, ACCENT)[code] if likelihood.is_binary else colour(code)
        ax.plot(
            x[here], np.full(int(here.sum()), height), "|" if likelihood.is_binary else marker(code), color=shade,
            markersize=8 if likelihood.is_binary else 3, transform=ax.get_xaxis_transform(),
            label=in_legend(name, "case of "), zorder=4, alpha=0.8,
        )  # fmt: skip


def _on_scale(fit: Fitted) -> Array:
    """Return targets ``(n,)`` as they would be at an exposure of one, or as shares of trials."""
    assert fit.y is not None
    y = np.asarray(fit.y, dtype=np.float64)
    if fit.is_location:
        return y - fit.offset
    return np.asarray(y / (fit.trials * np.exp(fit.offset * fit.is_rate)))
