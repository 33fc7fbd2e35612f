"""What a fit says along its inputs: at the medians of the others, and on average over its cases."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgp_mf.diagnostics.curves import Curve, Scale, curve, partial_dependence, relevance
from bayesgp_mf.diagnostics.fitted import Fitted, fitted
from bayesgp_mf.kernels import leaves
from bayesgp_mf.plots import _axes
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
        Where to draw; by default a new figure, which pyplot saves and shows.
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
    ax = _axes.axes_or_new(ax)
    draw_curve(ax, found, levels, fit.classes if found.mean.ndim > 1 else (), inside="f" if scale == "latent" else "")
    if fit.y is not None:
        _draw_cases(ax, fit, column, scale, found)
    ax.set(xlabel=_axes.as_drawn(fit.names[column]) + other_inputs(fit, 1), ylabel=target_label(fit, scale))
    name_groups(ax, found)
    if scale == "target":
        name_levels(ax, fit)
    _axes.legend_above(ax)
    return ax


def _draw_cases(ax: Axes, fit: Fitted, column: int, scale: Scale, found: Curve) -> None:
    """Draw each case, at its target where the axis has targets, and else at the edge where its label stands."""
    assert fit.y is not None
    x, y = fit.X[fit.shown, column], fit.y[fit.shown]
    likelihood = fit.likelihood
    if fit.is_location or (scale == "target" and not likelihood.has_classes):
        ax.plot(
            x, _on_scale(fit)[fit.shown], "o", color=_axes.ACCENT, markersize=3, alpha=0.6, label="one case", zorder=4
        )
        return
    if found.levels:
        return
    if likelihood.is_real:
        at_edge = ax.get_xaxis_transform()
        ax.plot(x, np.full(x.size, EDGE), "|", color=_axes.ACCENT, markersize=7, transform=at_edge, label="one case")
        return
    for code, name in enumerate(fit.classes):
        here = y == code
        height = 1.0 - EDGE if likelihood.is_binary and code else EDGE
        shade = (_axes.LINE, _axes.ACCENT)[code] if likelihood.is_binary else _axes.colour(code)
        ax.plot(
            x[here], np.full(int(here.sum()), height), "|" if likelihood.is_binary else _axes.marker(code), color=shade,
            markersize=8 if likelihood.is_binary else 3, transform=ax.get_xaxis_transform(),
            label=_axes.in_legend(name, "case of "), zorder=4, alpha=0.8,
        )  # fmt: skip


def _on_scale(fit: Fitted) -> Array:
    """Return targets ``(n,)`` as they would be at an exposure of one, or as shares of trials."""
    assert fit.y is not None
    y = np.asarray(fit.y, dtype=np.float64)
    if fit.is_location:
        return y - fit.offset
    multiplied = fit.is_rate or fit.likelihood.of_one_case.of_times
    return np.asarray(y / (fit.trials * np.exp(fit.offset * multiplied)))


MOST = 6
"""Panels, if nobody says which inputs to draw."""
FEW, A_PERIOD, MANY = 25, 10, 200
"""Values of an input, if nobody says how many: for each period, and never more."""
MOST_LEVEL = 4
"""Groups whose names stand level below a panel; those of more are turned."""
PANEL_LETTERS = 26
"""Of a name that fit below a panel."""


def plot_partial_dependence(
    idata: Container,
    *,
    ax: Sequence[Axes] | Axes | None = None,
    features: Sequence[Any] | str | int | None = None,
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
        Where to draw, one for each input; by default a new figure, which pyplot saves and shows.
    features : str, int or sequence of these, optional
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
        features = ([int(column) for column in order if column in fit.stated] or [0])[:MOST]
    probabilities = band_levels(levels)
    curves = partial_dependence(
        idata, features, scale=scale, probabilities=probabilities, points=points or _enough(fit), **given
    )  # fmt: skip
    axes = _axes.panels(ax, len(curves))
    sides = [np.concatenate([each.mean.ravel(), each.quantiles.ravel()]) for each in curves]
    low, high = min(each.min() for each in sides), max(each.max() for each in sides)
    margin = 0.06 * (high - low) or 0.5
    for place, (each, one) in enumerate(zip(curves, axes, strict=True)):
        draw_curve(one, each, levels, fit.classes if each.mean.ndim > 1 else (), label="average")
        column = fit.names.index(each.feature)
        if not each.levels:
            deciles = np.quantile(fit.X[:, column], np.linspace(0.0, 1.0, 11))
            one.plot(
                deciles, np.full(11, 0.02), "|", color=_axes.LINE, transform=one.get_xaxis_transform(),
                label="deciles of the cases",
            )  # fmt: skip
        one.set(xlabel=_axes.as_drawn(each.feature, PANEL_LETTERS), ylim=(low - margin, high + margin))
        where = one.get_subplotspec()  # axes to the left state what is drawn upwards
        is_left = place == 0 or len(curves) == 1 or where is None or where.is_first_col()
        one.set_ylabel(target_label(fit, scale) if is_left else "", fontsize=8)
        name_groups(one, each)
    if len(axes) == 1:
        _axes.legend_above(axes[0])
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


def band_levels(levels: Sequence[float]) -> list[float]:
    """Return which quantiles are the ends of central bands with given probabilities, or raise a ValueError."""
    for level in levels:
        if not 0.0 < level < 1.0:
            raise ValueError(f"levels must be between 0 and 1, as 0.9 for a band of 90 %, got {level!r}.")
    return [side for level in levels for side in (0.5 - 0.5 * level, 0.5 + 0.5 * level)]


def draw_curve(
    ax: Axes, curve: Curve, levels: Sequence[float], classes: Sequence[str] = (), *, inside: str = "", label: str = ""
) -> None:
    """Draw a curve with its bands; of several classes one for each, of groups a point with bars for each."""
    for code in range(len(classes) or 1):
        several = len(classes) > 0
        mean = curve.mean[:, code] if several else curve.mean
        sides = curve.quantiles[..., code] if several else curve.quantiles
        shade, name = (
            (_axes.colour(code), _axes.in_legend(classes[code])) if several else (_axes.POINT, label or "mean")
        )
        order = np.argsort(levels)[::-1]  # the widest band first, below the others
        for place, k in enumerate(order if len(sides) else ()):
            low, high = sides[2 * k], sides[2 * k + 1]
            text = "" if several else f"{100 * levels[k]:g} %{' of ' * bool(inside)}{inside}"
            if curve.levels:
                ax.vlines(
                    curve.x + 0.12 * code, low, high, color=shade, linewidth=2 + 3 * place, alpha=0.45, label=text
                )
            else:
                alpha = 0.15 if several else 0.18 + 0.14 * place
                ax.fill_between(curve.x, low, high, color=shade, alpha=alpha, linewidth=0, label=text, zorder=1)
        style = "o" if curve.levels else _axes.LINES[code % len(_axes.LINES)]
        ax.plot(curve.x + (0.12 * code if curve.levels else 0.0), mean, style, color=shade, label=name, zorder=3)


def name_groups(ax: Axes, curve: Curve) -> None:
    """Put the names of groups on the horizontal axis, if it is an input that tells groups apart."""
    if curve.levels:
        names = [_axes.at_tick(level) for level in curve.levels[: curve.x.size]]
        ax.set_xticks(curve.x, names, rotation=30 if len(curve.levels) > MOST_LEVEL else 0)
        ax.margins(x=0.15)


def name_levels(ax: Axes, fit: Fitted) -> None:
    """Put the names of ordered levels on the vertical axis, if targets are such."""
    number = fit.likelihood.of_one_case.n_levels
    if number is not None:
        ax.set_yticks(np.arange(number), [_axes.at_tick(level) for level in fit.classes or range(number)])


def other_inputs(fit: Fitted, shown: int) -> str:
    """Return a line that says where the inputs are that are not on an axis, if there are some."""
    others = len(fit.names) - shown
    return f"\n({others} other input{'s' * (others > 1)} at the median)" if others else ""


def target_label(fit: Fitted, scale: Scale) -> str:
    """Return what stands on the axis of a latent value, a probability, or the mean of a target."""
    likelihood = fit.likelihood
    if scale == "latent":
        return "Latent function f of each class" if likelihood.has_classes else "Latent function f"
    if likelihood.has_classes:
        return "Probability of each class"
    if likelihood.is_binary:
        return _axes.as_drawn(f"Probability of {_axes.as_drawn(fit.classes[1])}")
    if likelihood.of_one_case.n_levels is not None:
        return "Mean level"
    if fit.is_share:
        return "Probability of success"
    return "Mean count, exposure 1" if np.any(fit.offset) and fit.is_rate else "Mean of the target"
