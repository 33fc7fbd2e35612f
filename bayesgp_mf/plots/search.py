"""How the choice of hyperparameters went."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.container.groups import Container, get_group, group_names, is_stream
from bayesgp_mf.container.read import fit_group
from bayesgp_mf.plots._axes import ACCENT, LINE, POINT, as_drawn, at_tick, axes_or_new, colour, legend_above
from bayesgp_mf.streams.learning import LogScore
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.streams import Stream


RANGE = 30.0
"""Nats below the best that are drawn by default: a start may be hundreds below."""


def plot_search(idata: Container, *, ax: Axes | None = None) -> Axes:
    """Plot the evidence, or the leave-one-out density, along the search for hyperparameters.

    After ``hyper="evidence"``, ``"loo"`` and ``"integrate"`` it shows the path of the best start, and where the other
    starts ended; after ``"scan"`` the points of the grid; after ``"surrogate"`` the points that the surrogate learned
    from; after ``"hmc"`` and ``"nuts"`` the chains; on inducing cases the end of each round.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, which pyplot saves and shows.

    Returns
    -------
    matplotlib.axes.Axes
        The vertical axis is in nats; with priors their log density is in it.

    Raises
    ------
    ValueError
        If hyperparameters were kept, or there is no record of how they were chosen.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> options = {"hyper": "evidence", "fixed": ["variance"], "draws": 5, "random_seed": 1}
    >>> idata = bgp.fit(X, np.sin(3 * X[:, 0]) > 0, bgp.kernels.Gaussian(), **options)
    >>> bgp.plots.plot_search(idata).get_xlabel()
    'Iteration of the best search'
    """
    fit = fit_group(idata)
    what = "Leave-one-out log density" if fit.attrs.get("hyper") in ("loo", "scan") else "Log evidence"
    if fit.attrs.get("hyper") == "nuts" and "sample_stats" in group_names(idata):  # which keeps no other record
        fit = fit.assign(hyper_path_lp=(("path", "step"), get_group(idata, "sample_stats")["lp"].values))
    drawers = {
        "hyper_trace": _draw_trace,
        "hyper_path_lp": _draw_paths,
        "hyper_training_lp": _draw_training,
        "hyper_loo": _draw_scan,
        "hyper_loo_errors": _draw_scan,
    }
    name = next((name for name in drawers if name in fit), None)
    if name is None:
        raise ValueError(
            f"this fit has no record of a search (hyper={fit.attrs.get('hyper', 'none')!r}): its hyperparameters are "
            "those that it was given. Fit with hyper='evidence', or another strategy."
        )
    ax = axes_or_new(ax)
    has_prior = name in ("hyper_path_lp", "hyper_training_lp") or "hyper_log_prior" in fit
    ax.set_ylabel(f"{what}{' + log prior' if has_prior else ''} (nats)")
    drawers[name](ax, fit)
    ax.ticklabel_format(axis="y", style="plain", useOffset=False)  # an offset would stand where the legend does
    legend_above(ax)
    return ax


def _draw_trace(ax: Axes, fit: xr.Dataset) -> None:
    from matplotlib.ticker import MaxNLocator

    trace = fit["hyper_trace"].values
    ax.plot(np.arange(trace.size), trace, "o-", color=POINT, markersize=3, label="best search")
    score = next((name for name in ("hyper_log_evidence", "hyper_loo") if name in fit), None)
    ends = np.empty(0)
    if score is not None and fit[score].size > 1:
        ends = fit[score].values + (fit["hyper_log_prior"].values if "hyper_log_prior" in fit else 0.0)
        ends = ends[np.isfinite(ends)]
        at = np.full(ends.size, trace.size - 1)
        ax.plot(at, ends, "D", color=ACCENT, markersize=4, fillstyle="none", label="end of each start", zorder=3)
    _show_best(ax, np.append(trace, ends))
    ax.set_xlabel("Iteration of the best search")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def _show_best(ax: Axes, values: Array) -> None:
    """Leave out what is far below the best."""
    top = float(values.max())
    if top - float(values.min()) > RANGE:
        ax.set_ylim(top - RANGE, top + 0.06 * RANGE)


def _draw_paths(ax: Axes, fit: xr.Dataset) -> None:
    for chain, values in enumerate(fit["hyper_path_lp"].values):
        ax.plot(np.arange(values.size), values, color=colour(chain), linewidth=0.8, label=f"chain {chain}")
    ax.set_xlabel("Iteration (the beginning is not kept)")


def _draw_training(ax: Axes, fit: xr.Dataset) -> None:
    values = fit["hyper_training_lp"].values
    ax.plot(np.arange(values.size), values, "o", color=POINT, markersize=3, alpha=0.6, label="one point")
    best = np.maximum.accumulate(np.where(np.isfinite(values), values, -np.inf))
    ax.plot(np.arange(values.size), best, color=ACCENT, label="best so far")
    _show_best(ax, values[np.isfinite(values)])
    ax.set_xlabel("Point that the surrogate learned from (number)")


def _draw_scan(ax: Axes, fit: xr.Dataset) -> None:
    name = "hyper_loo" if "hyper_loo" in fit else "hyper_loo_errors"
    points, values = np.exp(fit["hyper_scan"].values), fit[name].values
    names = [str(each) for each in fit["hyper"].values]
    if name == "hyper_loo_errors":
        ax.set_ylabel("Leave-one-out errors (cases)")
    if len(names) == 1:
        order = np.argsort(points[:, 0])
        ax.plot(points[order, 0], values[order], "o-", color=POINT, markersize=3, label="point of the grid")
        ax.set(xlabel=as_drawn(names[0]), xscale="log")
        return
    best = int(np.argmin(values) if name == "hyper_loo_errors" else np.argmax(values))
    ax.plot(np.arange(values.size), values, "o", color=LINE, markersize=3, label="point of the grid")
    text = ", ".join(f"{at_tick(each)} {value:.3g}" for each, value in zip(names, points[best], strict=True))
    ax.plot([best], [values[best]], "D", color=ACCENT, label=f"best: {text}")
    ax.set_xlabel("Point of the grid (number)")


def plot_stream(stream: Stream | Container, *, ax: Axes | None = None, window: int = 5) -> Axes:
    """Plot the log score of each batch of a stream, predicted before learning from it, with moving and overall mean.

    The score falls when the data change, and rises as the stream learns. For labels, a dashed line marks the score of
    guessing: log(1/2) for two classes, log(1/C) for C.

    Parameters
    ----------
    stream : Stream, InferenceData or DataTree
        A stream, or what its ``to_container`` returned, also from a file.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, which pyplot saves and shows.
    window : int
        Batches in a moving mean, which weighs them by their cases.

    Returns
    -------
    matplotlib.axes.Axes
        The horizontal axis counts cases, the vertical one is in nats for each case.

    Raises
    ------
    ValueError
        If it is no stream, or one that has learned from nothing, or ``window`` is less than one.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> stream = bgp.streams.Stream(bgp.kernels.Gaussian(), bgp.Probit(), random_seed=1)
    >>> for x in (0.0, 1.0, 2.0):
    ...     stream = stream.update([[x], [x - 3.0]], [True, False])
    >>> bgp.plots.plot_stream(stream).get_ylabel()
    'Log score before learning (nats a case)'
    """
    score, n_classes = _score(stream)
    check_integers(1, window=window)
    if not score.batches.size:
        raise ValueError("this stream has learned from no batch yet. First stream.update(X, y).")
    seen = np.cumsum(score.cases)
    total, cases = (np.concatenate([[0.0], np.cumsum(each)]) for each in (score.batches, score.cases))
    first = np.maximum(np.arange(1, seen.size + 1) - window, 0)
    moving = (total[1:] - total[first]) / (cases[1:] - cases[first])
    ax = axes_or_new(ax)
    ax.plot(seen, score.batches / score.cases, "o", color=POINT, markersize=3, alpha=0.5, label="one batch")
    if window > 1:
        ax.plot(seen, moving, color=POINT, label=f"mean of {window} batches")
    ax.plot(seen, total[1:] / cases[1:], color=ACCENT, linestyle="-.", label="mean of all so far")
    if n_classes:
        text = "a coin, log(1/2)" if n_classes == 2 else f"chance, log(1/{n_classes})"
        ax.axhline(-np.log(n_classes), color=LINE, linewidth=1, linestyle="--", label=text)
    ax.set(xlabel="Cases seen", ylabel="Log score before learning (nats a case)")
    legend_above(ax)
    return ax


def _score(stream: Any) -> tuple[LogScore, int]:
    """Return the scores of a stream, and how many classes its labels have: none where targets are real."""
    if isinstance(getattr(stream, "log_score", None), LogScore):
        return stream.log_score, len(stream.classes or ())
    if not is_stream(stream):
        raise ValueError(
            "stream must be a streams.Stream, or what its to_container returned. The search of a fit has plot_search."
        )
    fit = get_group(stream, "fit")
    n_classes = len(json.loads(fit.attrs.get("class_names", "[]")))
    return LogScore.of(fit["log_score"].values.tolist(), fit["n_cases"].values.tolist()), n_classes
