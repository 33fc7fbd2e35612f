"""Leave-one-out log predictive densities, case by case."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.loo import pointwise_loo
from bayesgp_mf.container.parts import check_has_cases
from bayesgp_mf.container.read import fit_group
from bayesgp_mf.plots._axes import LINE, POINT, axes_or_new, legend_above, vector

WORST = "#c03a2b"


def plot_loo(
    loo_i: ArrayLike | Container,
    reference: ArrayLike | None = None,
    *,
    names: tuple[str, str] = ("importance sampling", "analytic"),
    case_names: Sequence[Any] | None = None,
    worst: int = 5,
    ax: Axes | None = None,
) -> Axes:
    """Plot what the other cases predict for each case, and name the cases that are predicted worst.

    Parameters
    ----------
    loo_i : (n,) array_like, InferenceData or DataTree
        Log predictive density of the label of each case given the others, in nats; or a fit that has it.
    reference : (n,) array_like, optional
        The same by another way, such as PSIS: it becomes the horizontal axis. Without it the cases stand side
        by side, with log(1/2), the score of a coin, as a line.
    names : (str, str)
        What the reference and ``loo_i`` are called.
    case_names : sequence, optional
        A name for each case; by default the labels of their rows, of a fit, or numbers from 0.
    worst : int
        How many cases to name, those with the lowest ``loo_i``.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure outside pyplot, ``ax.figure``.

    Returns
    -------
    matplotlib.axes.Axes
        With one point for each case.

    Raises
    ------
    ValueError
        If the arrays or names differ in length, hold anything that is not a finite number, or ``worst`` is
        negative.

    Examples
    --------
    >>> from bayesgp_mf.plots import plot_loo
    >>> ax = plot_loo([-0.1, -2.0, -0.3], worst=1)
    >>> [text.get_text() for text in ax.texts]
    ['1']
    """
    held = _of_container(loo_i) if hasattr(loo_i, "groups") else None
    given: Any = loo_i if held is None else held.values
    y = vector("loo_i", given)
    known: Iterable[Any] = range(y.size) if held is None else held["obs_id"].values
    labels = list(known if case_names is None else case_names)
    if len(labels) != y.size:
        raise ValueError(f"case_names must have {y.size} names, one for each case, got {len(labels)}.")
    if worst < 0:
        raise ValueError(f"worst must be the number of cases to name, 0 or more, got {worst}.")
    ax = axes_or_new(ax)
    if reference is None:
        x = np.arange(y.size, dtype=np.float64)
        ax.axhline(np.log(0.5), color=LINE, linewidth=1, linestyle="--", label="log(1/2)", zorder=1)
        ax.set(xlabel="Case (number)", ylabel="Leave-one-out log predictive density (nats)")
    else:
        x = vector("reference", reference, y.size)
        ends = np.array([min(x.min(), y.min()), max(x.max(), y.max())])
        ax.plot(ends, ends, color=LINE, linewidth=1, label="equal", zorder=1)
        xlabel, ylabel = (f"{name}: log predictive density (nats)" for name in names)
        ax.set(xlabel=xlabel, ylabel=ylabel)
    lowest = np.argsort(y, kind="stable")[:worst]
    others = np.setdiff1d(np.arange(y.size), lowest)
    ax.plot(x[others], y[others], "o", color=POINT, markersize=3, alpha=0.7, label="one case", zorder=2)
    if lowest.size:
        ax.plot(x[lowest], y[lowest], "o", color=WORST, markersize=4, label="predicted worst", zorder=3)
    right = x[lowest] > np.median(ax.get_xlim())
    for i, leftwards in zip(lowest, right, strict=True):
        if reference is not None:  # below the diagonal, where no other case is
            offset, side, height = (4, -2), "left", "top"
        elif leftwards:
            offset, side, height = (-5, 0), "right", "center"
        else:
            offset, side, height = (5, 0), "left", "center"
        ax.annotate(str(labels[i]), (x[i], y[i]), offset, textcoords="offset points", ha=side, va=height, fontsize=8)
    legend_above(ax)
    return ax


def _of_container(idata: Any) -> Any:
    fit = fit_group(idata)
    check_has_cases(fit, "leave-one-out prediction")
    return pointwise_loo(fit)
