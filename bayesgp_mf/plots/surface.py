"""What a fit says over two inputs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.polynomial.hermite_e import hermegauss
from scipy.special import ndtr

from bayesgp_mf.arguments import check_flags, check_integers, check_one_of
from bayesgp_mf.diagnostics.curves import SEED, Scale, check_scale, quantiles_at
from bayesgp_mf.diagnostics.fitted import Fitted, expected_given, fitted
from bayesgp_mf.kernels import leaves
from bayesgp_mf.plots._axes import DIVERGING, SEQUENTIAL, as_drawn, axes_or_new, colour, in_legend, legend_above, marker
from bayesgp_mf.plots.curves import other_inputs, target_label
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container

PROBABILITIES = (0.1, 0.25, 0.5, 0.75, 0.9)
FEW_CLASSES, FEWEST = 10, 8
"""Classes whose probabilities are quickly there at any point of a map, and values of each input with more of them."""
MARGIN = 0.05
"""By how much of the range of an input the axes go beyond it."""
MOST_CASES = 300
"""Cases beyond which so many of them are drawn, at random, and which leave the map to be seen."""
OBLONG = 4.0
"""How many times as long as the other an axis may be, for both to have one scale."""
UNIT = re.compile(r"[\[(]([^\])]+)[\])]\s*$")
NODES, NODE_WEIGHTS = hermegauss(32)
NODE_WEIGHTS /= NODE_WEIGHTS.sum()
FAR = 9.0
"""Standard deviations of f, beyond which it hardly ever is."""
BOTH_SIDES = 0.1
"""Share of the largest value that values of the other sign must reach, for zero to be the middle of the colours."""

What: TypeAlias = Literal["mean", "sd", "probability", "interval"]


def plot_surface(
    idata: Container,
    *,
    ax: Axes | None = None,
    features: tuple[Any, Any] | None = None,
    what: What = "mean",
    scale: Scale = "target",
    above: float | None = None,
    cases: bool = True,
    points: int | None = None,
    **given: Any,
) -> Axes:
    """Plot the prediction over two inputs, or how sure it is, as a coloured map with contour lines and cases.

    The map shows the probability of class 1, or the mean of a target; with several classes the most probable one, in a
    stronger colour if it is more probable. On the scale "latent" it shows the latent function. Both axes have one scale
    if their names end in the same unit in brackets, or if the kernel has one length scale for both; else
    ``ax.set_aspect("equal")`` gives them one.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, which pyplot saves and shows.
    features : pair of str or int, optional
        The inputs of the horizontal and the vertical axis; required if there are more than two. The others are at their
        medians, groups at the most frequent.
    what : {"mean", "sd", "probability", "interval"}
        The posterior mean of the quantity, its standard deviation, the probability that it is above a limit, or the
        width of its 90 % interval. The probability without a limit is that of class 1.
    scale : {"target", "latent"}
        The quantity: the probability or the mean of a target given f, or the function f itself.
    above : float, optional
        The limit, for ``what="probability"``.
    cases : bool
        Whether to draw the cases; of more than 300 so many, chosen at random.
    points : int, optional
        Number of values of each of the two inputs; by default 80, or 40 for several classes, and fewer for more than
        ten, whose probabilities take long.
    **given
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    matplotlib.axes.Axes
        Both axes are inputs in their own units.

    Raises
    ------
    ValueError
        If there are not two inputs and none are named, or one tells groups apart; if a limit is missing or has no use;
        or if there are several classes, for all but the most probable one.

    Examples
    --------
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> X = pd.DataFrame({"dose": [0.0, 1.0, 2.0, 3.0], "age": [4.0, 1.0, 2.0, 3.0]})
    >>> idata = bgp.fit(X, [0, 0, 1, 1], bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> ax = bgp.plots.plot_surface(idata, points=20)
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('dose', 'age')
    """
    check_scale(scale)
    check_one_of("what", what, "mean", "sd", "probability", "interval")
    check_flags(cases=cases)
    fit = fitted(idata, **given)
    across, upwards = columns_of(fit, features)
    several = fit.likelihood.has_classes
    if several and (scale == "latent" or what != "mean"):
        raise ValueError(
            "there is a latent function for each class, and the map has one. Use scale='target' and what='mean'."
        )
    if what == "probability" and above is None and fit.likelihood.is_binary and scale == "target":
        what = "mean"  # the probability of class 1
    elif (what == "probability") != (above is not None):
        raise ValueError("what='probability' is that of a value above a limit, above=0.2, and nothing else has one.")
    if points is None:
        points = grid_of_classes(40, len(fit.classes)) if several else 80
    check_integers(1, points=points)
    x, y = (_range(fit, column, points) for column in (across, upwards))
    X = np.tile(fit.middle(), (points * points, 1))
    X[:, across], X[:, upwards] = np.tile(x, points), np.repeat(y, points)
    z = _values(fit, X, what, scale, above)
    ax = axes_or_new(ax)
    if _is_one_unit(fit, across, upwards) and 1.0 / OBLONG < np.ptp(x) / np.ptp(y) < OBLONG:
        ax.set_aspect("equal")
    if several:
        _draw_classes(ax, fit, x, y, z.reshape(points, points, -1), named=not cases)
    else:
        drawn, label = _colours(fit, z, what, scale), _label(fit, what, scale, above)
        _draw_map(ax, x, y, z.reshape(points, points), **drawn, label=label)
    if cases:
        _draw_cases(ax, fit, across, upwards)
    ax.set(xlabel=as_drawn(fit.names[across]) + other_inputs(fit, 2), ylabel=as_drawn(fit.names[upwards]))
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    if cases or several:
        legend_above(ax)
    return ax


def grid_of_classes(points: int, classes: int) -> int:
    """Return how many values of an input to take where so many would do for ten classes: a case takes long with more.

    A probability of each of C classes costs some C² integrals.
    """
    return max(FEWEST, points * FEW_CLASSES // max(FEW_CLASSES, classes))


def columns_of(fit: Fitted, features: tuple[Any, Any] | None) -> tuple[int, int]:
    """Return the positions of the two inputs, or raise a ValueError."""
    if features is None and len(fit.names) != 2:
        raise ValueError(
            f"a surface is over two inputs, and this fit has {len(fit.names)}: {list(fit.names)[:8]}. "
            + ("Use plot_latent." if len(fit.names) == 1 else "Name two: features=('...', '...').")
        )
    chosen = (0, 1) if features is None else tuple(features)
    columns = [fit.column(each) for each in chosen]
    if len(columns) != 2 or columns[0] == columns[1]:
        raise ValueError(f"features must name two different inputs, got {chosen!r}.")
    for column in columns:
        if column in fit.levels:
            raise ValueError(
                f"{fit.names[column]} tells groups apart, and has no axis. Use plot_partial_dependence; or, of areas, "
                "plot_map with the outline of each as shapes."
            )
    return columns[0], columns[1]


def _range(fit: Fitted, column: int, points: int) -> Array:
    low, high = float(fit.X[:, column].min()), float(fit.X[:, column].max())
    margin = MARGIN * (high - low) or 1.0
    ends = fit.process.parts[0].kernel.within(column, np.array([low - margin, high + margin]))
    return np.linspace(ends[0], ends[1], points)


def _is_one_unit(fit: Fitted, across: int, upwards: int) -> bool:
    """Tell whether names end in the same unit, or, where they have none, the kernel has one length scale for both."""
    units = [UNIT.findall(fit.names[column]) for column in (across, upwards)]
    if any(units):
        return units[0] == units[1]
    kernel = fit.process.parts[0].kernel
    scales = [leaf.params["lengthscale"] for leaf in leaves(kernel) if "lengthscale" in leaf.params]
    return bool(scales) and all(np.ndim(scale) == 0 for scale in scales)


def _values(fit: Fitted, X: Array, what: What, scale: Scale, above: float | None) -> Array:
    """Return what is drawn at inputs ``(m, d)``."""
    if what == "mean":
        return fit.process.latent_at(X)[0] if scale == "latent" else fit.expected(X)
    if what == "probability":
        return _probability_above(fit, X, scale, above)
    if what == "interval":
        low, high = quantiles_at(fit.for_cases(len(X)), X, scale, np.array([0.05, 0.95]))
        return np.asarray(high - low)
    if scale == "latent":
        return np.sqrt(fit.process.latent_at(X)[1])
    process, each = fit.for_cases(len(X)), []
    for part in process.parts:
        mean, variance = part.latent_at(X)
        each.append(expected_given(part, mean + NODES[:, None] * np.sqrt(variance)))
    values = np.concatenate(each)
    share = np.multiply.outer(process.weights, NODE_WEIGHTS).ravel()
    return np.asarray(np.sqrt(share @ (values - share @ values) ** 2))


def _probability_above(fit: Fitted, X: Array, scale: Scale, above: Any) -> Array:
    """Return how likely f, or the mean of a target given f, which rises with f, is to be above a limit."""
    found, process = np.zeros(len(X)), fit.for_cases(1)
    for part, weight in zip(process.parts, process.weights, strict=True):
        mean, variance = part.latent_at(X)
        sd, limit = np.sqrt(variance), above
        if scale == "target":
            f = np.linspace(np.min(mean - FAR * sd), np.max(mean + FAR * sd), 2001)
            limit = np.interp(above, expected_given(part, f[:, None])[:, 0], f)
        found += weight * ndtr((mean - limit) / sd)
    return found


def _label(fit: Fitted, what: What, scale: Scale, above: float | None) -> str:
    begins = {"sd": "Standard deviation: ", "interval": "Width of the 90 % interval: "}.get(what, "")
    if above is not None:
        begins = f"Probability to be above {above:g}: "
    return as_drawn(begins + target_label(fit, scale))


def _colours(fit: Fitted, z: Array, what: What, scale: Scale) -> dict[str, Any]:
    """Return colours and contours for values: two hues only where there is a middle, 0 or a probability of a half."""
    low, high = float(np.min(z)), float(np.max(z))
    inside = [each for each in PROBABILITIES if low < each < high]
    if scale == "target" and what == "mean" and fit.likelihood.is_binary and low < 0.5 < high:
        return {"cmap": DIVERGING, "vmin": 0.0, "vmax": 1.0, "levels": inside}
    if what == "probability":
        return {"cmap": SEQUENTIAL, "vmin": 0.0, "vmax": 1.0, "levels": inside}
    largest = max(-low, high)
    if scale == "latent" and what == "mean" and min(-low, high) > BOTH_SIDES * largest:
        return {"cmap": DIVERGING, "vmin": -largest, "vmax": largest, "levels": 6}
    return {"cmap": SEQUENTIAL, "vmin": low, "vmax": high, "levels": 6}


def _draw_map(ax: Axes, x: Array, y: Array, z: Array, *, levels: Any, label: str, **colours: Any) -> None:
    """Draw one quantity in colours, with contour lines and a bar that says what they mean."""
    image = ax.pcolormesh(x, y, z, shading="gouraud", rasterized=True, **colours)
    if levels and np.ptp(z) > 0:
        contours = ax.contour(x, y, z, levels=levels, colors="#333333", linewidths=0.7)
        ax.clabel(contours, fontsize=7, fmt="%g")
    is_wide = ax.get_aspect() != "auto" and np.ptp(x) > np.ptp(y)  # and low, where a bar beside it would be longer
    ax.figure.colorbar(image, ax=ax, label=label, shrink=0.9, location="bottom" if is_wide else "right")


def _draw_classes(ax: Axes, fit: Fitted, x: Array, y: Array, p: Array, *, named: bool) -> None:
    """Draw the most probable class in its colour, paler where it is less probable, and where it changes."""
    from matplotlib.colors import to_rgb

    best, classes = np.argmax(p, axis=-1), p.shape[-1]
    shades = np.array([to_rgb(colour(code)) for code in range(classes)])
    sure = (np.max(p, axis=-1) - 1.0 / classes) / (1.0 - 1.0 / classes)
    image = 1.0 - (0.1 + 0.6 * sure[..., None]) * (1.0 - shades[best])
    half = 0.5 * (x[1] - x[0]), 0.5 * (y[1] - y[0])
    extent = (x[0] - half[0], x[-1] + half[0], y[0] - half[1], y[-1] + half[1])
    ax.imshow(image, extent=extent, origin="lower", aspect=ax.get_aspect(), interpolation="bilinear")
    for code in range(classes):
        if named:
            ax.plot([], [], "s", color=colour(code), label=in_legend(fit.classes[code]))
        others = np.max(np.delete(p, code, axis=-1), axis=-1)
        if np.any(best == code) and np.any(best != code):
            ax.contour(x, y, p[..., code] - others, levels=[0.0], colors="#333333", linewidths=0.9)


def _draw_cases(ax: Axes, fit: Fitted, across: int, upwards: int) -> None:
    which = fit.shown
    if which.size > MOST_CASES:
        which = np.random.default_rng(SEED).choice(which, MOST_CASES, replace=False)
    some = f" ({which.size} of {fit.shown.size})" if which.size < fit.shown.size else ""
    x, y = fit.X[which][:, [across, upwards]].T
    if fit.y is None or fit.likelihood.is_real:
        label = ("inducing input" if fit.y is None else "one case") + some
        ax.plot(x, y, "o", color="white", markeredgecolor="black", markersize=3, markeredgewidth=0.6, label=label)
        return
    several = fit.likelihood.has_classes
    for code, name in enumerate(fit.classes):
        here = fit.y[which] == code
        shade = colour(code) if several else ("#4b2a85", "#b35806")[code]  # the ends of the map
        ax.plot(
            x[here], y[here], marker(code), color=shade, markeredgecolor="white", markeredgewidth=0.5, markersize=4.5,
            linestyle="none", label=in_legend(name, "case of ") + some * (code == 0),
        )  # fmt: skip
