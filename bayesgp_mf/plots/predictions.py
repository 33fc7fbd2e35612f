"""Predictions against what came: which classes are taken for which, ROC curves, calibration, counts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv

from bayesgp_mf.diagnostics import calibration_table, confusion_table, count_table, pit_curve, roc_curve
from bayesgp_mf.diagnostics.predicted import Predicted, check_has_classes, predicted
from bayesgp_mf.plots import _axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container


MANY = 12
"""Classes, beyond which their names are small."""
MOST_TICKS = 12
"""Counts, up to which each has a tick."""
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
        Where to draw; by default a new figure, which pyplot saves and shows.
    y_new : (m,) array_like, optional
        Labels of the cases that were predicted.
    **given
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
    found = predicted(idata, y_new, **given)
    table = confusion_table(found)
    ax = _axes.axes_or_new(ax)
    share = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    ax.imshow(share, cmap="Blues", vmin=0.0, vmax=1.0)
    for (row, column), count in np.ndenumerate(table):
        ax.text(
            column, row, f"{count}", ha="center", va="center", color="white" if share[row, column] > 0.55 else "black",
            fontsize=9 if len(table) < 8 else 7,
        )  # fmt: skip
    names = [_axes.at_tick(name) for name in found.classes]
    turned = len(table) * max(len(name) for name in names) > LETTERS
    ax.set_xticks(range(len(table)), names, rotation=45 if turned else 0, ha="right" if turned else "center")
    ax.set_yticks(range(len(table)), names)
    if len(table) > MANY:
        ax.tick_params(labelsize=7)
    right = int(np.trace(table))
    ax.set(xlabel="Predicted", ylabel="Observed")
    ax.set_title(_axes.in_lines(f"{right} of {table.sum()} right, {found.description}", LETTERS), fontsize=9)
    return ax


def plot_roc(
    idata: Container | Predicted, *, ax: Axes | None = None, y_new: ArrayLike | None = None, **given: Any
) -> Axes:
    """Plot the true positive rate of a class against its false positive rate (ROC curve).

    Predictions are leave-one-out; with ``y_new`` they are those of `predict`. With several classes, or ordered levels,
    each has a curve against the rest. The legend has the areas under the curves: 0.5 is guessing, 1 is perfect
    separation.

    Parameters
    ----------
    idata : InferenceData, DataTree or Predicted
        What `fit` or `predict` returned, or the same loaded from a file; or the predictions that
        `diagnostics.predicted` made of it, for several figures of them.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, which pyplot saves and shows.
    y_new : (m,) array_like, optional
        Labels of the cases that were predicted.
    **given
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Returns
    -------
    matplotlib.axes.Axes
        Both axes are shares of cases.

    Raises
    ------
    ValueError
        If targets are not labels, there are none of some class, or `diagnostics.predicted` would refuse the arguments.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> idata = bgp.fit(X, ["no", "no", "yes", "yes"], bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> bgp.plots.plot_roc(idata).get_ylabel()
    'Share of yes that is found'
    """
    found = predicted(idata, y_new, **given)
    check_has_classes(found)
    ax = _axes.axes_or_new(ax)
    _diagonal(ax, "guessing: 0.50")
    assert found.probability is not None  # as of all labels
    columns = list(zip(map(_axes.in_legend, found.classes), found.probability.T, strict=True))
    if found.score is not None:
        columns = [("area under the curve", found.score)]
    for code, (name, score) in enumerate(columns):
        curve = roc_curve(found.targets == code + len(found.classes) - len(columns), score)
        label, style = f"{name}: {curve.area:.3f}", _axes.LINES[code % len(_axes.LINES)]
        ax.plot(curve.false_positive, curve.true_positive, style, color=_axes.colour(code), label=label)
    if found.score is not None:
        other, name = (_axes.as_drawn(each) for each in found.classes)
        ax.set(
            xlabel=_axes.as_drawn(f"Share of {other} that is taken for {name}", longest=3 * _axes.LONGEST),
            ylabel=_axes.as_drawn(f"Share of {name} that is found", longest=2 * _axes.LONGEST),
        )
    else:
        ax.set(xlabel="Share of the others that is taken for the class", ylabel="Share of the class that is found")
    _axes.legend_above(ax)
    return ax


def _diagonal(ax: Axes, label: str, top: float = 1.02) -> None:
    """Draw what is expected of two shares that are equal."""
    ax.plot([0, 1], [0, 1], color=_axes.LINE, linewidth=1, linestyle="--", label=label, zorder=1)
    ax.set(xlim=(-0.02, 1.02), ylim=(-0.02, top))


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
        Where to draw; by default a new figure, which pyplot saves and shows.
    y_new : (m,) array_like, optional
        Counts of the cases that were predicted.
    **given
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
    found = predicted(idata, y_new, **given)
    table = count_table(found)
    top, height = np.sqrt(table.expected), np.sqrt(table.observed)
    ax = _axes.axes_or_new(ax)
    ax.axhspan(-1.0, 1.0, color="#e4e4e4", linewidth=0, zorder=0, label="two standard errors")
    ax.bar(table.counts, height, 0.8, bottom=top - height, color=_axes.POINT, alpha=0.6, label="observed", zorder=1)
    ax.plot(table.counts, top, "o-", color=_axes.ACCENT, markersize=3.5, linewidth=1.2, label="expected", zorder=3)
    ax.axhline(0.0, color=_axes.LINE, linewidth=1, zorder=2)
    ax.set(xlabel="Count", ylabel="Square root of the number of cases")
    if table.counts.size <= MOST_TICKS:
        ax.set_xticks(table.counts)
    _axes.legend_above(ax)
    return ax


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
        Where to draw; by default a new figure, which pyplot saves and shows.
    y_new : (m,) array_like, optional
        Targets of the cases of `predict`; without them predictions are leave-one-out.
    bins, level
        As for `diagnostics.calibration_table`.
    class_name : str, optional
        The class of a fit: by default class 1 of two, and the most frequent of several. For labels, the name of class 1
        on the axes.
    **given
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
        found = predicted(cast(Any, idata), y_new, **given)
        if found.probability is None:
            return _draw_quantiles(ax, found, level)
        labels, probabilities, class_name = _of_class(found, class_name)
    elif probabilities is None:
        raise ValueError("probabilities are missing: pass them with labels, or a fit in place of both.")
    elif y_new is not None or given:
        raise ValueError("y_new, kernel, likelihood and method go with a fit. Leave them out with labels.")
    return _draw_bins(ax, labels, probabilities, bins, level, class_name or "class 1")


def _of_class(found: Predicted, class_name: str | None) -> tuple[Any, Any, str]:
    """Return whether each case is of a class, its probability of that, and the name of the class."""
    assert found.probability is not None  # as of all labels
    if class_name is None:
        counts = np.bincount(found.targets.astype(np.int64), minlength=len(found.classes))
        code = 1 if len(found.classes) == 2 else int(np.argmax(counts))
    elif class_name in found.classes:
        code = found.classes.index(class_name)
    else:
        raise ValueError(f"class_name must be one of {list(found.classes)}, got {class_name!r}.")
    p = found.probability[:, code]
    return found.targets == code, p / np.maximum(1.0, p), found.classes[code]  # rounding may leave it above 1


def _draw_bins(
    ax: Axes | None, labels: Any, probabilities: Any, bins: int | ArrayLike, level: float, class_name: str
) -> Axes:
    table = calibration_table(labels, probabilities, bins=bins, level=level)
    ax = _axes.axes_or_new(ax)
    # rounding may leave a limit on the wrong side of 0 or 1
    sides = np.maximum([table.observed - table.interval_low, table.interval_high - table.observed], 0.0)
    _diagonal(ax, "calibrated", top=1.1)
    label = f"bin, {100 * level:g} % interval, number of cases"
    style: dict[str, Any] = {"fmt": "o", "color": _axes.POINT, "markersize": 5, "capsize": 2, "linewidth": 1}
    ax.errorbar(table.predicted, table.observed, sides, label=label, **style)
    for x, high, count in zip(table.predicted, table.interval_high, table.cases, strict=True):
        ax.annotate(f"{count}", (x, high), (0, 5), textcoords="offset points", ha="center", fontsize=8)
    name = _axes.as_drawn(class_name)
    ax.set(
        xlabel=_axes.as_drawn(f"Predicted probability of {name}"),
        ylabel=_axes.as_drawn(f"Observed frequency of {name}"),
    )
    _axes.legend_above(ax)
    return ax


def _draw_quantiles(ax: Axes | None, found: Predicted, level: float) -> Axes:
    """Draw how many targets were below predicted quantiles, and how many would be by chance."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level!r}. Pass level=0.95 for 95 % bands.")
    curve = pit_curve(found, np.linspace(0.0, 1.0, 101))
    ax = _axes.axes_or_new(ax)
    n, tail = curve.cases, 0.5 * (1.0 - level)
    share = n * curve.level
    low, high = (betaincinv(share + 0.5, n - share + 0.5, side) for side in (tail, 1.0 - tail))
    ax.fill_between(
        curve.level, low, high, color=_axes.BAND, linewidth=0, label=f"{100 * level:g} % of calibrated fits"
    )
    _diagonal(ax, "calibrated")
    ax.plot(curve.level, curve.observed, color=_axes.POINT, label=f"{n} targets", zorder=2)
    ax.set(xlabel="Level of the predicted quantile", ylabel="Share of targets below it")
    _axes.legend_above(ax)
    return ax
