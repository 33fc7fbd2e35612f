"""A row for each by its name: how much inputs matter, and hyperparameters with how sure they are and their priors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtri

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.container.read import from_container
from bayesgp_mf.diagnostics.curves import NOTHING, relevance
from bayesgp_mf.diagnostics.fitted import expected_target
from bayesgp_mf.diagnostics.hyperparameters import Hyperparameters, hyperparameters
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.plots._axes import LINE, POINT, as_drawn, axes_or_new, legend_above
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container

APART = 0.22
"""By how much the prior stands below the posterior, in rows."""
QUANTILES = ndtri((0.05, 0.95))
"""Of a standard normal: 5 and 95 %."""
DECADES = 100.0
"""Of an axis, beyond which matplotlib's own ticks may lie where there are no numbers any more."""
LETTERS, INPUT_LETTERS, ROWS = 22, 24, 12
"""Of a name in a line, of that of an input, and lines of names that fit beside the usual height."""


def plot_hyperparameters(idata: Container, *, ax: Axes | None = None, most: int = 25) -> Axes:
    """Plot each hyperparameter with its 50 and 90 % interval, and those of its prior below it, as a forest.

    The axis is logarithmic. Hyperparameters that are averaged over have intervals, from draws or from weighted nodes,
    which are also shown as dots. Those that were chosen have a point, and those that were kept fixed a hollow one.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, which pyplot saves and shows.
    most : int
        How many to draw; of the others the number is stated.

    Returns
    -------
    matplotlib.axes.Axes
        With a row for each, in the units of the parameters.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit of this package, or ``most`` is less than one.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, np.sin(3 * X[:, 0]) > 0.5, bgp.kernels.Gaussian(), draws=5, random_seed=1)
    >>> [text.get_text() for text in bgp.plots.plot_hyperparameters(idata).get_yticklabels()]
    ['lengthscale', 'variance']
    """
    check_integers(1, most=most)
    found = hyperparameters(idata)
    shown = np.flatnonzero(np.all(found.values > 0, axis=0))[:most]  # one that is zero is switched off
    rows = np.arange(shown.size, dtype=np.float64)
    names = [as_drawn(found.names[k], LETTERS) for k in shown]
    ax = _axes_of_rows(ax, names)
    _draw_intervals(ax, found.prior[:, shown], rows + APART, LINE, "prior")
    if found.kind == "chosen":
        tuned = found.tuned[shown]
        for here, style, label in ((tuned, "full", "chosen"), (~tuned, "none", "as given")):
            if here.any():
                ax.plot(found.values[0, shown][here], rows[here], "o", color=POINT, fillstyle=style, label=label)
    else:
        _draw_intervals(ax, found.quantiles[:, shown], rows, POINT, found.kind)
    if found.kind == "nodes":
        _draw_nodes(ax, found, shown, rows)
    drawn = (found.quantiles, found.prior, *([found.values] if found.kind == "nodes" else []))
    _set_limits(ax, np.concatenate(drawn)[:, shown])
    ax.set_xscale("log")
    _plain_ticks(ax)
    ax.set_yticks(rows, names, fontsize=8)
    ax.set_ylim(shown.size - 0.5, -0.5)
    left_out = len(found.names) - shown.size
    ax.set_xlabel("Value (log scale)")
    ax.set_ylabel(f"Hyperparameter ({left_out} not shown)" if left_out else "Hyperparameter")
    ax.grid(axis="x", color="#e4e4e4", linewidth=0.6)
    ax.set_axisbelow(True)
    legend_above(ax, right=True)
    return ax


def _axes_of_rows(ax: Axes | None, names: list[str]) -> Axes:
    """Return axes, of a new figure with room for a row for each name, which may have several lines."""
    return axes_or_new(ax, max(0, sum(name.count("\n") + 1 for name in names) - ROWS))


def _set_limits(ax: Axes, values: Array) -> None:
    """Leave a tenth of the range of a logarithmic axis free on either side, as far as there are such numbers."""
    known = np.log10(values[np.isfinite(values) & (values > 0)])
    if known.size:
        margin = 0.1 * float(np.ptp(known)) or 0.5
        ax.set_xlim(*10.0 ** np.clip([known.min() - margin, known.max() + margin], -307.0, 308.0))


def _plain_ticks(ax: Axes) -> None:
    """Write 0.1, 1, 10 on a logarithmic axis, and also 2 and 5 times these where it is short."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, MaxNLocator, NullFormatter, NullLocator

    low, high = ax.get_xlim()
    if np.log10(high) - np.log10(low) > DECADES:
        exponents = np.asarray(MaxNLocator(4, integer=True).tick_values(*np.log10([low, high])))[1:-1]
        ax.xaxis.set_major_locator(FixedLocator([*10.0**exponents]))
        ax.xaxis.set_minor_locator(NullLocator())
    else:
        ax.xaxis.set_major_locator(LogLocator(subs=(1.0,) if high > 50.0 * low else (1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.xaxis.set_minor_formatter(NullFormatter())


def plot_models(models: Any, X_new: ArrayLike, *, ax: Axes | None = None, most: int = 25) -> Axes:
    """Plot what each of several models predicts of a new case, with its 90 % interval, the best by leave-one-out first.

    Parameters
    ----------
    models : Exploration, or mapping of str to container
        What `explore` returned, or fits by name, without offsets and trials.
    X_new : (1, d) array_like
        The case.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, which pyplot saves and shows.
    most : int
        How many to draw; of the others the number is stated.

    Returns
    -------
    matplotlib.axes.Axes
        With a row for each: the probability of class 1, or the mean of the target, and between which values it lies as
        the latent value moves between its 5 and 95 % quantiles.

    Raises
    ------
    ValueError
        If there are no fits, there is not one new case, or ``most`` is less than one.
    UndefinedQuantityError
        If a case has several latent values.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> kernels = {"smooth": bgp.kernels.Gaussian(), "rough": bgp.kernels.Matern12()}
    >>> fits = {name: bgp.fit(X, X[:, 0] > 0, kernel, draws=5, random_seed=1) for name, kernel in kernels.items()}
    >>> [text.get_text() for text in bgp.plots.plot_models(fits, [[0.3]]).get_yticklabels()]
    ['smooth', 'rough']
    """
    fits = getattr(models, "fits", models)
    if not isinstance(fits, Mapping) or hasattr(fits, "groups") or not fits or most < 1:
        raise ValueError("models must be what explore returned or a mapping of names to fits, and most at least 1.")
    processes = {name: from_container(idata) for name, idata in fits.items()}
    if len({process.problem.likelihood.is_binary for process in processes.values()}) > 1:
        raise ValueError("some models predict probabilities of labels and some other numbers. Plot those of one kind.")
    ordered = sorted(processes, key=lambda name: -float(np.sum(processes[name].loo.log_density)))
    names, values = [as_drawn(name, LETTERS) for name in ordered[:most]], list[Array]()
    for name in ordered[:most]:
        process = processes[name]
        X, likelihood = process.new_inputs(X_new), process.new_likelihood
        if len(X) != 1:
            raise ValueError(f"X_new must be one case, got {len(X)}.")
        if likelihood.has_classes:
            raise UndefinedQuantityError("a case has a latent value for each class. Look at `predict` of each model.")
        mean, variance = process.latent_at(X)
        ends = mean + np.sqrt(variance) * QUANTILES
        at = (mean, variance), (ends, np.zeros(2))
        values.append(np.concatenate([expected_target(likelihood, *moments) for moments in at]))
    each, rows = np.array(values), np.arange(len(names), dtype=np.float64)
    ax = _axes_of_rows(ax, names)
    ax.hlines(rows, each[:, 1], each[:, 2], color=LINE)
    ax.plot(each[:, 0], rows, "o", color=POINT)
    ax.set_yticks(rows, names)
    ax.invert_yaxis()
    more = f"; {len(ordered) - len(names)} more are not drawn" if len(ordered) > len(names) else ""
    what = "probability" if likelihood.is_binary else "mean of the target"
    ax.set(xlabel=f"{what}, with its 90 % interval", ylabel=f"models, the best first{more}")
    return ax


def _draw_intervals(ax: Axes, quantiles: Array, rows: Array, shade: str, label: str) -> None:
    """Draw the 90 % interval thin, the 50 % one thick, and the median of each row that has them."""
    known = np.all(np.isfinite(quantiles), axis=0)
    if known.any():
        low, lower, middle, upper, high = quantiles[:, known]
        ax.hlines(rows[known], low, high, color=shade, linewidth=1.2)
        ax.hlines(rows[known], lower, upper, color=shade, linewidth=3.5, label=f"{label}: 50 and 90 %")
        ax.plot(middle, rows[known], "o", color=shade, markeredgecolor="white", markersize=6, label=f"{label}: median")


def _draw_nodes(ax: Axes, found: Hyperparameters, shown: NDArray[np.intp], rows: Array) -> None:
    """Draw the nodes above the interval, larger with a larger weight."""
    size = 30.0 * found.weights / found.weights.max()
    for row, k in zip(rows, shown, strict=True):
        label = "a node, by its weight" if row == 0 else ""
        ax.scatter(found.values[:, k], np.full(size.size, row - APART), s=size, color=POINT, alpha=0.5, label=label)


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
        Where to draw; by default a new figure, which pyplot saves and shows.
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
    check_integers(1, most=most)
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
    ax.set_yticks(np.arange(order.size), [as_drawn(found.features[j], INPUT_LETTERS) for j in order], fontsize=8)
    ax.invert_yaxis()
    ax.set_xlim(left=0.0)
    left_out = len(found.features) - order.size
    ax.set(xlabel="Total effect\n(in variances of the prediction)", ylabel="Input")
    if left_out:
        ax.set_ylabel(f"Input ({left_out} with less effect not shown)")
    legend_above(ax, columns=1, right=True)
    return ax
