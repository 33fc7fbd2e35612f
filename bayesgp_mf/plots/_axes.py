"""What all figures share: axes, colours, names that users gave, the check of arrays, and a figure in words."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, cast

import numpy as np

from bayesgp_mf.notebook import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


POINT = "#1f5fa8"
LINE = "#777777"
BAND = "#ececec"
ACCENT = "#c25700"
CYCLE = ("#1f5fa8", "#c25700", "#008a6a", "#a8478f", "#8a7500", "#4aa3d9", "#333333")
"""Colours of classes, which stay apart in the common kinds of colour blindness (after Okabe and Ito, 2008)."""
MARKERS = "osD^vPX"
LINES = ("-", "--", "-.", ":")
ROWS, ACROSS = 8, 52
"""Of a legend, and letters of its columns side by side."""
DIVERGING, SEQUENTIAL = "PuOr_r", "viridis"


_APART = ContextVar("apart", default=False)


@contextmanager
def apart() -> Iterator[None]:
    """Make figures that pyplot knows nothing about: those of a page are gone with it, and need no screen."""
    token = _APART.set(True)
    try:
        yield
    finally:
        _APART.reset(token)


def new_figure(width: float, height: float) -> Figure:
    """Return a new figure, pyplot's current one from now on."""
    if _APART.get():
        from matplotlib.figure import Figure  # not with the package, but when something is drawn

        return Figure(figsize=(width, height), layout="constrained")
    from matplotlib import pyplot

    return cast("Figure", pyplot.figure(figsize=(width, height), layout="constrained"))


def axes_or_new(ax: Axes | None, lines: int = 0, scale: float = 1.0) -> Axes:
    """Return ``ax``, or the axes of a new figure with room for lines of text."""
    if ax is not None:
        return _checked([ax], "one matplotlib.axes.Axes, such as an entry of what subplots returned")[0]
    return new_figure(4.3 * scale, (3.9 + 0.16 * lines) * scale).subplots()


def _checked(given: Iterable[Axes], wanted: str) -> list[Axes]:
    from matplotlib.axes import Axes

    for each in given:
        if not isinstance(each, Axes):
            raise ValueError(f"ax must be {wanted}, got {type(each).__name__}. Leave it out for a new figure.")
    return list(given)


def panels(ax: Axes | Sequence[Axes] | None, number: int, *, stacked: bool | None = None) -> list[Axes]:
    """Return ``ax`` as a list, or the axes of a new figure of so many panels: two in a row, or all or one of them."""
    if ax is not None:
        given = np.asarray(ax, dtype=object).ravel()
        if given.size != number:
            raise ValueError(f"ax must hold {number} axes, one for each panel, got {given.size}.")
        return _checked(given, f"{number} matplotlib.axes.Axes, one for each panel")
    across = min(2, number) if stacked is None else 1 if stacked else number
    down = -(-number // across)
    size = (4.3, 3.9) if number == 1 else (2.6 * max(across, 2), 2.4 * down + 0.4)
    axes = new_figure(*size).subplots(down, across, squeeze=False).ravel()
    for unused in axes[number:]:
        unused.remove()
    return list(axes[:number])


def colour(code: int) -> str:
    """Return the colour of a class."""
    return CYCLE[code % len(CYCLE)]


def marker(code: int) -> str:
    """Return the marker of a class."""
    return MARKERS[code % len(MARKERS)]


def legend_above(ax: Axes, columns: int = 2, *, right: bool = False) -> None:
    """Put the legend above the axes, where it hides no point; to the right where long names stand on the left.

    It has as many columns as there is room for, and no more rows: of many entries the number of the others is stated.
    """
    from matplotlib.lines import Line2D

    handles, names = ax.get_legend_handles_labels()
    entries = list(zip(handles, names, strict=True))[: columns * ROWS]
    side_by_side = np.array_split([len(name) for _, name in entries], columns)
    if sum(max(column, default=0) for column in side_by_side) > ACROSS:
        entries, columns = entries[:ROWS], 1
    if left := len(names) - len(entries):
        nothing = Line2D([], [], linestyle="none")
        entries[-1] = (nothing, f"and {left + 1} more")
    corner, at = ("lower right", (1.0, 1.0)) if right else ("lower left", (0.0, 1.0))
    ax.legend(
        *zip(*entries, strict=True), loc=corner, bbox_to_anchor=at, ncols=columns, frameon=False, fontsize=8,
        borderaxespad=0.2,
    )  # fmt: skip


LONGEST, LONGEST_TICK, LONGEST_ENTRY = 80, 24, 30
"""Letters of a name on an axis, at a tick and in a legend, beyond which it is cut."""
LETTERS = 42
"""Of a line along an axis."""
_DOLLAR = re.compile(r"(?<!\\)\$")


def as_drawn(name: object, letters: int = LETTERS, longest: int = LONGEST) -> str:
    r"""Return a name as matplotlib draws it: between two dollars a formula if it is one, and else every letter itself.

    Examples
    --------
    >>> as_drawn("dose (mg)"), as_drawn("$x_1$"), as_drawn("cost in $"), as_drawn("$5 to $9 {")
    ('dose (mg)', '$x_1$', 'cost in \\$', '\\$5 to \\$9 {')
    """
    words = " ".join(str(name).split())
    visible = "".join(letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in words)
    lines = in_lines(cut(visible, longest), letters) or "''"
    if all(_is_formula_or_none(line) for line in lines.split("\n")):
        return lines
    return _DOLLAR.sub(r"\\$", lines)


def at_tick(name: object) -> str:
    """Return a name for a tick, where there is little room."""
    return as_drawn(name, LONGEST_TICK, LONGEST_TICK)


def in_legend(name: object, before: str = "") -> str:
    """Return a name for an entry of a legend, from which matplotlib leaves out what begins with an underscore."""
    text = before + as_drawn(name, LONGEST_ENTRY, LONGEST_ENTRY)
    return f" {text}" if text.startswith("_") else text


def in_lines(name: str, letters: int) -> str:
    """Return a long name in lines of so many letters, broken before a bracket, at spaces, and after underscores."""
    if len(name) <= letters:
        return name
    before, bracket, within = name.partition("[")
    loose = [
        part.replace("_", "_\0 ") for part in (before, bracket + within) if part
    ]  # a space that is taken out again
    lines = [line for part in loose for line in textwrap.wrap(part, letters)]
    return "\n".join(lines).replace("\0 ", "").replace("\0", "")


def _is_formula_or_none(line: str) -> bool:
    """Tell whether matplotlib takes no part of a line for a formula, or only parts that are meant so."""
    parts = _DOLLAR.split(line)
    formulas, after = parts[1::2], parts[2::2]
    if not formulas:
        return True
    if len(formulas) > len(after):  # one dollar has no other
        return False
    if any(not each or each != each.strip() for each in formulas) or any(each[:1].isdigit() for each in after):
        return False  # as in "from $5 to $9"
    from matplotlib.mathtext import MathTextParser

    try:
        MathTextParser("path").parse(line)
    except ValueError:
        return False
    return True


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
    in_words = any(text and not text.strip("-\N{MINUS SIGN}").replace(".", "").isdigit() for text in numbers)
    spread = f", {low:.4g} to {high:.4g}" if np.isfinite([low, high]).all() and not in_words else ""
    drawn = f": {'; '.join(names)}" if names else ""
    title = " ".join(ax.get_title().split())
    # the first letter is small, but not of a name
    across = across[0].lower() + across[1:] if across[:2].istitle() and len(across) > 1 else across
    upwards = f"{ax.get_ylabel()} against {across}" if ax.get_ylabel() else f"The same against {across}"
    return f"{title + ': ' if title else ''}{upwards}{spread}{drawn}."
