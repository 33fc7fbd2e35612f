"""How well a stream predicted each batch before it learned from it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgp_mf.container.groups import get_group, is_stream
from bayesgp_mf.plots._axes import ACCENT, LINE, POINT, axes_or_new, legend_above
from bayesgp_mf.streams.state import LogScore

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container
    from bayesgp_mf.streams import Stream


def plot_stream(stream: Stream | Container, *, ax: Axes | None = None, window: int = 5) -> Axes:
    """Plot the log score of each batch of a stream, predicted before learning from it, with moving and overall mean.

    The score falls when the data change, and rises as the stream learns. For labels, a dashed line marks the score of
    guessing: log(1/2) for two classes, log(1/C) for C.

    Parameters
    ----------
    stream : Stream, InferenceData or DataTree
        A stream, or what its ``to_container`` returned, also from a file.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.
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
    if window < 1:
        raise ValueError(f"window must be the number of batches in a moving mean, at least 1, got {window}.")
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
