"""Duels: the utility of items, and who beats whom, as it is predicted and as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.plots import _axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from bayesgp_mf.container.groups import Container
    from bayesgp_mf.duels import Duels

ROWS, FEW, LABELLED = 12, 8, 20
"""Items that fit beside the usual height, whose numbers fit into their fields, and whose names fit on an axis."""


def plot_utility(idata: Container, duels: Duels, *, ax: Axes | None = None, most: int = 60, **options: Any) -> Axes:
    """Plot the utility of items with 90 % intervals, best first.

    Only differences are known, so that zero is the mean of all items. Intervals are of each item by itself: two that
    overlap may still be told apart by the duels that they had, as `plot_duels` says.

    Parameters
    ----------
    idata : InferenceData or DataTree
        A fit of duels.
    duels : Duels
        The duels; of a fit that was loaded `Duels.from_fit`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, which pyplot saves and shows.
    most : int
        How many items to draw; of the others the number is stated.
    **options
        ``common``, ``draws`` and ``random_seed`` of `Duels.utility`.

    Returns
    -------
    matplotlib.axes.Axes
        With a row for each item.

    Raises
    ------
    ValueError
        As `Duels.utility`.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> duels = bgp.duels.Duels(["Ann", "Ann", "Bob", "Ann"], ["Bob", "Cy", "Cy", "Bob"])
    >>> idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), random_seed=1, progress=False)
    >>> ax = bgp.plots.plot_utility(idata, duels, random_seed=1)
    >>> [text.get_text() for text in ax.get_yticklabels()]
    ['Ann', 'Bob', 'Cy']
    """
    check_integers(1, most=most)
    table = duels.utility(idata, **options).iloc[:most]
    rows, left = np.arange(len(table)), len(duels.items) - len(table)
    ax = _axes.axes_or_new(ax, max(0, len(table) - ROWS))
    ax.hlines(rows, table["5%"], table["95%"], color=_axes.POINT, alpha=0.5, linewidth=2, label="90 % interval")
    ax.plot(table["mean"], rows, "o", color=_axes.POINT, markersize=4, label="mean")
    ax.axvline(0.0, color=_axes.LINE, linewidth=1, zorder=0)
    ax.set_yticks(rows, [_axes.at_tick(name) for name in table.index], fontsize=8)
    ax.set_ylim(len(table) - 0.5, -0.5)
    more = f", {left} not shown" if left else ""
    ax.set(xlabel="Utility above the mean of all items", ylabel=f"Item (best first{more})")
    _axes.legend_above(ax)
    return ax


def plot_duels(
    idata: Container, duels: Duels, *, ax: Axes | None = None, most: int = 60, common: Any = None, **options: Any
) -> Axes:
    r"""Plot the probability that an item beats another one, beside the share of their duels that it won.

    Fields have the colour of the probability; a disc in one has that of the observed share, and its area grows with
    the number of duels. A disc that stands out from its field is a surprise, unless it is a small one. Of few items
    both are written too.

    Parameters
    ----------
    idata : InferenceData or DataTree
        A fit of duels.
    duels : Duels
        The duels; of a fit that was loaded `Duels.from_fit`.
    ax : matplotlib.axes.Axes, optional
        Where to draw; by default a new figure, which pyplot saves and shows.
    most : int
        How many items to draw, the best ones; of the others the number is stated.
    common, **options
        As for `plot_utility`, by which items are in order.

    Returns
    -------
    matplotlib.axes.Axes
        With a row and a column for each item, the best first.

    Raises
    ------
    ValueError
        As `Duels.utility` and `Duels.probabilities`.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> duels = bgp.duels.Duels(["Ann", "Ann", "Bob", "Ann"], ["Bob", "Cy", "Cy", "Bob"])
    >>> idata = bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), random_seed=1, progress=False)
    >>> bgp.plots.plot_duels(idata, duels, random_seed=1).texts[0].get_text()
    '0.79\n2 of 2'
    """
    check_integers(1, most=most)
    names = duels.utility(idata, common=common, **options).index[:most]
    beats = duels.probabilities(idata, names, common=common).to_numpy()
    won, met = (table.loc[names, names].to_numpy() for table in duels.record())
    ax = _axes.axes_or_new(ax, scale=max(1.0, len(names) / 40.0))
    scale: dict[str, Any] = {"cmap": _axes.DIVERGING, "vmin": 0.0, "vmax": 1.0}
    image = ax.imshow(beats, **scale)
    if len(names) <= FEW:
        for r, c in np.argwhere(~np.eye(len(names), dtype=bool)):
            observed = f"\n{won[r, c]} of {met[r, c]}" if met[r, c] else ""
            colour = "white" if abs(beats[r, c] - 0.5) > 0.35 else "black"
            ax.text(c, r, f"{beats[r, c]:.2f}{observed}", ha="center", va="center", fontsize=7, color=colour)
        ax.set_title("Probability that the row wins, and duels that it won", fontsize=9)
    else:
        row, column = np.nonzero(met)
        field = 0.8 * 72.0 / ax.figure.dpi * ax.get_window_extent().width / len(names)  # its side in points, about
        area = (0.85 * field) ** 2 * np.sqrt(met[row, column] / met.max(initial=1))
        share = won[row, column] / met[row, column]
        ax.scatter(column, row, area, share, linewidths=0, label="observed share (larger of more duels)", **scale)
        _axes.legend_above(ax)
    shown = np.arange(0, len(names), -(-len(names) // LABELLED))
    texts = [_axes.at_tick(names[k]) for k in shown]
    ax.set_yticks(shown, texts, fontsize=8)
    across = len(shown) if len(names) <= FEW else 0
    ax.set_xticks(shown[:across], texts[:across], fontsize=8, rotation=45, ha="right")
    left = len(duels.items) - len(names)
    ax.set(xlabel="Other item (same order)", ylabel=f"Item (best first{f', {left} not shown' if left else ''})")
    ax.figure.colorbar(image, ax=ax, shrink=0.7, label="Probability that the row wins")
    return ax
