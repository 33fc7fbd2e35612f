"""What a figure shows, for who does not see it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def alt_text(ax: Axes | Sequence[Axes]) -> str:
    """Return the alternative text of a figure: a sentence for each panel, about its axes and its legend.

    Parameters
    ----------
    ax : matplotlib.axes.Axes, or a sequence of these
        What a function of `plots` returned.

    Returns
    -------
    str
        The vertical axis, the horizontal axis with its range, and what is drawn.

    Examples
    --------
    >>> from bayesgp_mf.plots import alt_text, plot_loo
    >>> alt_text(plot_loo([-0.1, -2.0, -0.3], worst=1))
    'Leave-one-out log predictive density (nats) against case (number), 0 to 2: log(1/2); one case; predicted worst.'
    """
    panels: list[Axes] = list(np.asarray(ax, dtype=object).ravel())
    return " ".join(_sentence(panel) for panel in panels).replace("\\$", "$")


def _sentence(ax: Axes) -> str:
    across = " ".join(ax.get_xlabel().split())
    _, names = ax.get_legend_handles_labels()
    low, high = ax.dataLim.intervalx
    numbers = [text.get_text() for text in ax.get_xticklabels()]
    spread = f", {low:.3g} to {high:.3g}" if np.isfinite([low, high]).all() and not _are_names(numbers) else ""
    drawn = f": {'; '.join(names)}" if names else ""
    title = " ".join(ax.get_title().split())
    # the first letter is small, but not of a name
    across = across[0].lower() + across[1:] if across[:2].istitle() and len(across) > 1 else across
    upwards = f"{ax.get_ylabel()} against {across}" if ax.get_ylabel() else f"The same against {across}"
    return f"{title + ': ' if title else ''}{upwards}{spread}{drawn}."


def _are_names(texts: list[str]) -> bool:
    """Tell whether ticks have words on them."""
    return any(text and not text.strip("-\N{MINUS SIGN}").replace(".", "").isdigit() for text in texts)
