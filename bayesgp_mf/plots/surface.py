"""What a fit says over two inputs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.diagnostics.curves import Scale, check_scale
from bayesgp_mf.diagnostics.fitted import Fitted, fitted
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


def plot_surface(
    idata: Container,
    *,
    ax: Axes | None = None,
    features: tuple[Any, Any] | None = None,
    scale: Scale = "target",
    points: int | None = None,
    **given: Any,
) -> Axes:
    """Plot the prediction over two inputs as a coloured map with contour lines, and the cases on it.

    The map shows the probability of class 1, or the mean of a target; with several classes the most probable one, in a
    stronger colour if it is more probable. On the scale "latent" it shows the mean of the latent function.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, which pyplot saves and shows.
    features : pair of str or int, optional
        The inputs of the horizontal and the vertical axis; required if there are more than two. The others are at their
        medians, groups at the most frequent.
    scale : {"target", "latent"}
        What to draw: probabilities and means of targets, or the function f.
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
        If there are not two inputs and none are named, or one tells groups apart; or on the latent scale, if there are
        several classes.

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
    fit = fitted(idata, **given)
    across, upwards = _columns(fit, features)
    several = fit.likelihood.has_classes
    if several and scale == "latent":
        raise ValueError("there is a latent function for each class, and the map has one. Use scale='target'.")
    if points is None:
        points = grid_of_classes(40, len(fit.classes)) if several else 80
    check_integers(1, points=points)
    x, y = (_range(fit.X[:, column], points) for column in (across, upwards))
    X = np.tile(fit.middle(), (points * points, 1))
    X[:, across], X[:, upwards] = np.tile(x, points), np.repeat(y, points)
    z = fit.process.latent_at(X)[0] if scale == "latent" else fit.expected(X)
    ax = axes_or_new(ax)
    if several:
        _draw_classes(ax, fit, x, y, z.reshape(points, points, -1))
    else:
        _draw_map(ax, fit, x, y, z.reshape(points, points), scale)
    _draw_cases(ax, fit, *fit.X[fit.shown][:, [across, upwards]].T)
    ax.set(xlabel=as_drawn(fit.names[across]) + other_inputs(fit, 2), ylabel=as_drawn(fit.names[upwards]))
    ax.set(xlim=(x[0], x[-1]), ylim=(y[0], y[-1]))
    legend_above(ax)
    return ax


def grid_of_classes(points: int, classes: int) -> int:
    """Return how many values of an input to take where so many would do for ten classes: a case takes long with more.

    A probability of each of C classes costs some C² integrals.
    """
    return max(FEWEST, points * FEW_CLASSES // max(FEW_CLASSES, classes))


def _columns(fit: Fitted, features: tuple[Any, Any] | None) -> tuple[int, int]:
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
            raise ValueError(f"{fit.names[column]} tells groups apart, and has no axis. Use plot_partial_dependence.")
    return columns[0], columns[1]


def _range(values: Array, points: int) -> Array:
    low, high = float(values.min()), float(values.max())
    margin = MARGIN * (high - low) or 1.0
    return np.linspace(low - margin, high + margin, points)


def _draw_map(ax: Axes, fit: Fitted, x: Array, y: Array, z: Array, scale: Scale) -> None:
    """Draw one quantity in colours, with contour lines and a bar that says what they mean."""
    of_shares = scale == "target" and (fit.likelihood.is_binary or fit.is_share)
    if of_shares:
        colours: dict[str, Any] = {"cmap": DIVERGING, "vmin": 0.0, "vmax": 1.0}
    elif scale == "latent":
        largest = float(np.max(np.abs(z))) or 1.0
        colours = {"cmap": DIVERGING, "vmin": -largest, "vmax": largest}
    else:
        colours = {"cmap": SEQUENTIAL}
    image = ax.pcolormesh(x, y, z, shading="gouraud", rasterized=True, **colours)
    lines: Any = PROBABILITIES if of_shares else 6
    if np.ptp(z) > 0:
        contours = ax.contour(x, y, z, levels=lines, colors="#333333", linewidths=0.7)
        ax.clabel(contours, fontsize=7, fmt="%g")
    ax.figure.colorbar(image, ax=ax, label=target_label(fit, scale), shrink=0.9)


def _draw_classes(ax: Axes, fit: Fitted, x: Array, y: Array, p: Array) -> None:
    """Draw the most probable class in its colour, paler where it is less probable, and where it changes."""
    from matplotlib.colors import to_rgb

    best, classes = np.argmax(p, axis=-1), p.shape[-1]
    shades = np.array([to_rgb(colour(code)) for code in range(classes)])
    sure = (np.max(p, axis=-1) - 1.0 / classes) / (1.0 - 1.0 / classes)
    image = 1.0 - (0.1 + 0.6 * sure[..., None]) * (1.0 - shades[best])
    half = 0.5 * (x[1] - x[0]), 0.5 * (y[1] - y[0])
    extent = (x[0] - half[0], x[-1] + half[0], y[0] - half[1], y[-1] + half[1])
    ax.imshow(image, extent=extent, origin="lower", aspect="auto", interpolation="bilinear")
    for code in range(classes):
        others = np.max(np.delete(p, code, axis=-1), axis=-1)
        if np.any(best == code) and np.any(best != code):
            ax.contour(x, y, p[..., code] - others, levels=[0.0], colors="#333333", linewidths=0.9)


def _draw_cases(ax: Axes, fit: Fitted, x: Array, y: Array) -> None:
    if fit.y is None or fit.likelihood.is_real:
        label = "inducing input" if fit.y is None else "one case"
        ax.plot(x, y, "o", color="white", markeredgecolor="black", markersize=3, markeredgewidth=0.6, label=label)
        return
    several = fit.likelihood.has_classes
    for code, name in enumerate(fit.classes):
        here = fit.y[fit.shown] == code
        shade = colour(code) if several else ("#4b2a85", "#b35806")[code]  # the ends of the map
        ax.plot(
            x[here], y[here], marker(code), color=shade, markeredgecolor="white", markeredgewidth=0.5, markersize=4.5,
            linestyle="none", label=in_legend(name, "case of "),
        )  # fmt: skip
