"""What a fit says of places and areas: a mean, its standard deviation, and how likely a threshold is exceeded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import ndtr

from bayesgp_mf.container.groups import get_group, group_names
from bayesgp_mf.diagnostics.curves import Scale, check_scale
from bayesgp_mf.diagnostics.fitted import Fitted, expected_target, fitted
from bayesgp_mf.plots._axes import DIVERGING, SEQUENTIAL, as_drawn, panels
from bayesgp_mf.plots.curves import target_label
from bayesgp_mf.plots.surface import columns_of
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container
    from bayesgp_mf.processes.process import Part

WIDE = 1.6
"""A map so much wider than high has its panels one above the other."""
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(40)
HALVINGS = 60


def plot_map(
    idata: Container,
    shapes: Any = None,
    *,
    ax: Sequence[Axes] | None = None,
    features: tuple[Any, Any] | None = None,
    threshold: float | None = None,
    scale: Scale = "target",
    **given: Any,
) -> list[Axes]:
    """Plot what a fit says of places or areas, with how sure it is of that.

    A panel shows the posterior mean, one the standard deviation, and one the probability that a threshold is exceeded:
    of the probability of class 1, or of the mean of a target (a rate, a risk), and not of a new target; on the scale
    "latent" of the latent function. The places are those that `predict` was asked of, or else those of the fit. Offsets
    count as 0: rates are those of one unit of exposure.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` or `predict` returned, or the same loaded from a file.
    shapes : GeoDataFrame, GeoSeries or sequence, optional
        The area of each place, in the order of the places: polygons or multipolygons of shapely, whose outlines are
        drawn and whose holes left out, or arrays ``(k, 2)`` of corners. By default the places are points.
    ax : sequence of matplotlib.axes.Axes, optional
        Two axes, or three with a threshold; by default a new figure.
    features : pair of str or int, optional
        The inputs of the horizontal and the vertical axis; required if there are more than two and no shapes.
    threshold : float, optional
        What the third panel asks about, in units of the first.
    scale : {"target", "latent"}
        Of what mean, standard deviation and threshold are.
    **given
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    list of matplotlib.axes.Axes
        One for each panel. One unit is as long upwards as across; of inputs that are called longitude and latitude (or
        lon, long, lng and lat), in kilometres at their mean latitude.

    Raises
    ------
    ValueError
        If there are several classes; if there are not so many shapes as places, or one is no polygon; if there are not
        two inputs and neither shapes nor features.

    Examples
    --------
    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> X = pd.DataFrame({"east": [0.0, 1.0, 2.0, 3.0], "north": [4.0, 1.0, 2.0, 3.0]})
    >>> idata = bgp.fit(X, [0, 2, 1, 5], bgp.kernels.Gaussian(1.0), bgp.Poisson(), draws=10, random_seed=1)
    >>> [ax.get_title() for ax in bgp.plots.plot_map(idata, threshold=2.0)]
    ['Mean of the target', 'Its standard deviation', 'Probability that it exceeds 2']
    """
    check_scale(scale)
    if threshold is not None and not (isinstance(threshold, Real) and np.isfinite(threshold)):
        raise ValueError(f"threshold must be a finite number, got {threshold!r}.")
    fit = fitted(idata, **given)
    if fit.likelihood.has_classes:
        raise ValueError("a map is of one quantity, and there is one for each class. Use plot_surface.")
    X, values = _values(fit, threshold, scale)
    rings, owners = (None, None) if shapes is None else _rings(shapes, len(X))
    names, places = ["x", "y"], np.empty((0, 2))
    if rings is None or features is not None or len(fit.names) == 2:
        columns = columns_of(fit, features)
        names, places = [fit.names[column] for column in columns], X[:, columns]
    corners = places if rings is None else np.concatenate([outer for outer, *_ in rings])
    across, upwards = np.ptp(corners, axis=0)
    degrees = _on_globe(names) and np.all(np.abs(corners[:, 1]) <= 90.0)
    aspect = 1.0 / np.cos(np.radians(np.mean(corners[:, 1]))) if degrees else 1.0
    axes = panels(ax, len(values), stacked=across > WIDE * aspect * upwards)
    for each, (title, colours, z) in zip(axes, values, strict=True):
        if rings is None:
            drawn: Any = each.scatter(
                places[:, 0], places[:, 1], c=z, s=14, edgecolors="#555555", linewidths=0.3, **colours
            )
        else:
            drawn = _areas(each, rings, z[owners], colours)
        each.set(title=title, xlabel=as_drawn(names[0]), ylabel=as_drawn(names[1]), aspect=aspect)
        each.title.set_fontsize(9)
        each.figure.colorbar(drawn, ax=each, shrink=0.8)
    return axes


def _values(
    fit: Fitted, threshold: float | None, scale: Scale
) -> tuple[Array, list[tuple[str, dict[str, Any], Array]]]:
    """Return inputs of the places, and of each panel its title, its colours and its numbers."""
    predicted = "predictions" in group_names(fit.idata)
    X = np.asarray(get_group(fit.idata, "predictions_constant_data")["X"]) if predicted else fit.X[fit.shown]
    process = fit.for_cases(len(X))
    each = [_of_part(part, X, threshold, scale) for part in process.parts]
    means, variances, chances = (np.stack(some) for some in zip(*each, strict=True))
    centre = process.weights @ means
    spread = np.sqrt(process.weights @ (variances + (means - centre) ** 2))
    shares = {"cmap": DIVERGING, "vmin": 0.0, "vmax": 1.0}
    of_shares = shares if scale == "target" and (fit.likelihood.is_binary or fit.is_share) else {"cmap": SEQUENTIAL}
    values = [(target_label(fit, scale), of_shares, centre), ("Its standard deviation", {"cmap": SEQUENTIAL}, spread)]
    if threshold is not None:
        values.append((f"Probability that it exceeds {threshold:g}", shares, process.weights @ chances))
    return X, values


def _of_part(part: Part, X: Array, threshold: float | None, scale: Scale) -> tuple[Array, Array, Array]:
    """Return mean and variance under one setting, and how likely the threshold is exceeded."""
    mean, variance = part.latent_at(X)
    sd = np.sqrt(variance)

    def of(f: Array) -> Array:
        return f if scale == "latent" else expected_target(part.new_likelihood, f, np.zeros_like(f))

    at, weight = of(mean + sd * NODES[:, None]), WEIGHTS / WEIGHTS.sum()
    centre = weight @ at
    spread = weight @ (at - centre) ** 2
    if threshold is None:
        return centre, spread, np.zeros_like(mean)
    low, high = mean - 9.0 * sd, mean + 9.0 * sd
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)  # what the latent value exceeds then, of which the mean of a target is a function
        below = of(middle) <= threshold
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    exceeds = ndtr(np.divide(mean - low, sd, out=np.sign(mean - low) * np.inf, where=sd > 0))
    return centre, spread, exceeds


def _on_globe(names: list[str]) -> bool:
    """Tell whether two inputs are called longitude and latitude."""
    return all(map(re.match, (r"(?i)(lng|long?)(itude?)?(?![a-z])", r"(?i)lat(itude?)?(?![a-z])"), names))


def _rings(shapes: Any, count: int) -> tuple[list[list[Array]], list[int]]:
    """Return outlines ``(k, 2)``, each with those of its holes after it, and the places that they belong to."""
    each: Iterable[Any] = getattr(shapes, "geometry", shapes)
    rings, owners, number = list[list[Array]](), list[int](), 0
    for number, shape in enumerate(each, start=1):
        for part in getattr(shape, "geoms", [shape]):
            outlines = [part.exterior, *part.interiors] if hasattr(part, "exterior") else [part]
            each_ring = [np.asarray(getattr(outline, "coords", outline)) for outline in outlines]
            for ring in each_ring:
                flat = ring.ndim == 2 and ring.shape[1] in (2, 3) and len(ring) >= 3 and ring.dtype.kind in "fiu"
                if not flat or not np.all(np.isfinite(ring)):
                    raise ValueError(f"shapes must be polygons, or arrays (k, 2) of corners, got {part!r:.80}.")
            rings.append([ring[:, :2].astype(np.float64) for ring in each_ring])
            owners.append(number - 1)
    if number != count:
        raise ValueError(
            f"shapes must have the area of each place, got {number} for {count} places. They are the new cases of "
            "predict, or those of fit where nothing was predicted."
        )
    return rings, owners


def _areas(ax: Axes, rings: list[list[Array]], z: Array, colours: dict[str, Any]) -> Any:
    from matplotlib.collections import PathCollection
    from matplotlib.path import Path

    def path(ring: Array, *, is_hole: bool) -> Path:
        """Return an outline that goes one way round, and that of a hole the other, by which it is left out."""
        x, y = np.concatenate([ring, ring[:1]]).T
        turns_right = np.sum(x[:-1] * y[1:] - x[1:] * y[:-1]) < 0
        return Path(np.stack([x, y], axis=1)[:: -1 if turns_right != is_hole else 1], closed=True)

    each = [Path.make_compound_path(*(path(ring, is_hole=k > 0) for k, ring in enumerate(part))) for part in rings]
    drawn = PathCollection(each, array=z, cmap=colours["cmap"], edgecolors="#777777", linewidths=0.4)
    drawn.set_clim(colours.get("vmin"), colours.get("vmax"))
    ax.add_collection(drawn)
    ax.autoscale_view()
    return drawn
