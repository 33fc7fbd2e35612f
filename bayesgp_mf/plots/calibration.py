"""Predicted probability against observed frequency."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from bayesgp_mf.diagnostics import calibration_table
from bayesgp_mf.diagnostics.predicted import Predicted
from bayesgp_mf.diagnostics.tables import pit_curve
from bayesgp_mf.plots._axes import BAND, LINE, POINT, axes_or_new, legend_above
from bayesgp_mf.plots._names import as_drawn
from bayesgp_mf.plots._predictions import predictions

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container


def plot_calibration(
    idata: ArrayLike | Container | Predicted,
    probabilities: ArrayLike | None = None,
    *,
    ax: Axes | None = None,
    y_new: ArrayLike | None = None,
    bins: int | ArrayLike = 10,
    level: float = 0.95,
    class_name: str | None = None,
    **given: Any,
) -> Axes:
    """Plot the observed frequency of a class against its predicted probability, bin by bin.

    Each bin is a point at its mean prediction, with an exact binomial interval and the number of cases in it. If
    predictions are calibrated, the intervals cover the diagonal. For targets that are numbers the axes have the level
    of a predicted quantile and the share of targets below it, with a pointwise band.

    Parameters
    ----------
    idata : InferenceData, DataTree, Predicted or (m,) array_like
        What `fit` or `predict` returned, or the same loaded from a file; the predictions that `diagnostics.predicted`
        made of it, for several figures of them; or labels 0/1, with ``probabilities``.
    probabilities : (m,) array_like, optional
        Probabilities of class 1, if labels are given.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.
    y_new : (m,) array_like, optional
        Targets of the cases of `predict`; without them predictions are leave-one-out.
    bins, level
        As for `diagnostics.calibration_table`.
    class_name : str, optional
        The class of a fit: by default class 1 of two, and the most frequent of several. For labels, the name of class 1
        on the axes.
    **held
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    matplotlib.axes.Axes
        Both axes are probabilities, without unit.

    Raises
    ------
    ValueError
        If `diagnostics.calibration_table` or `diagnostics.predicted` would refuse the arguments, there is no such
        class, or the fit has no probabilities.

    Examples
    --------
    >>> from bayesgp_mf.plots import plot_calibration
    >>> ax = plot_calibration([0, 1, 1, 1], [0.2, 0.4, 0.7, 0.9], bins=2)
    >>> ax.get_xlabel()
    'Predicted probability of class 1'
    """
    labels: Any = idata
    if isinstance(idata, Predicted) or hasattr(idata, "groups"):
        if probabilities is not None:
            raise ValueError("probabilities go with labels, and a fit has its own. Leave them out, or pass labels.")
        found = predictions(cast(Any, idata), y_new, given)
        if found.probability is None and found.settings:
            return _draw_quantiles(axes_or_new(ax), found, level)
        labels, probabilities, class_name = _of_class(found, class_name)
    elif probabilities is None:
        raise ValueError("probabilities are missing: pass them with labels, or a fit in place of both.")
    elif y_new is not None or given:
        raise ValueError("y_new, kernel, likelihood and method go with a fit. Leave them out with labels.")
    return _draw_bins(axes_or_new(ax), labels, probabilities, bins, level, class_name or "class 1")


def _of_class(found: Predicted, class_name: str | None) -> tuple[Any, Any, str]:
    """Return whether each case is of a class, its probability of that, and the name of the class."""
    if found.probability is None:
        raise ValueError("this fit has no probabilities: a support-vector machine has only signs. Use plot_roc.")
    if class_name is None:
        counts = np.bincount(found.targets.astype(np.int64), minlength=len(found.classes))
        code = 1 if len(found.classes) == 2 else int(np.argmax(counts))
    elif class_name in found.classes:
        code = found.classes.index(class_name)
    else:
        raise ValueError(f"class_name must be one of {list(found.classes)}, got {class_name!r}.")
    p = found.probability[:, code]
    return found.targets == code, p / np.maximum(1.0, p), found.classes[code]  # rounding may leave it above 1


def _draw_bins(ax: Axes, labels: Any, probabilities: Any, bins: int | ArrayLike, level: float, class_name: str) -> Axes:
    table = calibration_table(labels, probabilities, bins=bins, level=level)
    # rounding may leave a limit on the wrong side of 0 or 1
    sides = np.maximum([table.observed - table.interval_low, table.interval_high - table.observed], 0.0)
    ax.plot([0, 1], [0, 1], color=LINE, linewidth=1, linestyle="--", label="calibrated", zorder=1)
    label = f"bin, {100 * level:g} % interval, number of cases"
    ax.errorbar(
        table.predicted, table.observed, sides, fmt="o", color=POINT, markersize=5, capsize=2, linewidth=1, label=label
    )
    for x, high, count in zip(table.predicted, table.interval_high, table.cases, strict=True):
        ax.annotate(f"{count}", (x, high), (0, 5), textcoords="offset points", ha="center", fontsize=8)
    name = as_drawn(class_name)
    ax.set(xlabel=as_drawn(f"Predicted probability of {name}"), ylabel=as_drawn(f"Observed frequency of {name}"))
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.1))
    legend_above(ax)
    return ax


def _draw_quantiles(ax: Axes, found: Predicted, level: float) -> Axes:
    """Draw how many targets were below predicted quantiles, and how many would be by chance."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level!r}. Pass level=0.95 for 95 % bands.")
    curve = pit_curve(found, np.linspace(0.0, 1.0, 101))
    n, tail = curve.cases, 0.5 * (1.0 - level)
    share = n * curve.level
    low, high = (betaincinv(share + 0.5, n - share + 0.5, side) for side in (tail, 1.0 - tail))
    ax.fill_between(curve.level, low, high, color=BAND, linewidth=0, label=f"{100 * level:g} % of calibrated fits")
    ax.plot([0, 1], [0, 1], color=LINE, linewidth=1, linestyle="--", label="calibrated", zorder=1)
    ax.plot(curve.level, curve.observed, color=POINT, label=f"{n} targets", zorder=2)
    ax.set(xlabel="Level of the predicted quantile", ylabel="Share of targets below it")
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    legend_above(ax)
    return ax
