"""One self-contained HTML page from a title, sections, tables and figures; it knows nothing of their content.

Everything is text until it is rendered, and all text is escaped. Figures become images inside the file, so
that it needs no network and can be sent by mail.
"""

from __future__ import annotations

import base64
import io
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np

from bayesgp_mf.plots._axes import alt_text, apart

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

REM_PER_INCH = 6.0
"""How large figures are shown: a rem is the height of the text."""
LARGEST_SVG = 150_000
"""Bytes of a drawing, beyond which it goes into the page as pixels: one of thousands of points would fill it."""
DOTS_PER_INCH = 200
WIDE = 3
"""Columns of a table, beyond which a narrow screen may not show all of them."""
MAY_BREAK = r"(?<=_)|(?=\[)"
"""Where a name may go on in the next line."""
LONG = 16
"""Letters of a cell, beyond which it may stand in several lines."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with a caption; cells are text."""

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures side by side where there is room: axes, or all axes of a figure, each with its caption."""

    figures: Sequence[tuple[Axes | Sequence[Axes], str]]


NEGATIVE_SPACE = r"\!"
HINT = '<p class="hint">This table scrolls sideways.</p>'


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula, as LaTeX that matplotlib can draw; what it cannot stands as it is."""

    latex: str


Block: TypeAlias = str | Table | Figures | Formula


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and what stands under it: paragraphs (text), tables, figures."""

    title: str
    blocks: Sequence[Block]

    @property
    def anchor(self) -> str:
        """The name that the contents list links to."""
        return re.sub(r"[^a-z0-9]+", "-", self.title.lower()).strip("-")


def or_words(*makes: Callable[[], Block | Sequence[Block]]) -> list[Block]:
    """Return what functions make, figures that follow each other side by side.

    In place of what a fit does not have stands the sentence that says so, once.
    """
    blocks: list[Block] = []
    for make in makes:
        try:
            made = make()
        except ValueError as error:  # how diagnostics and figures refuse a fit
            made = f"Not shown: {error}"
        for block in [made] if isinstance(made, str) or not isinstance(made, Sequence) else made:
            last = blocks[-1] if blocks else None
            if isinstance(block, Figures) and isinstance(last, Figures):
                blocks[-1] = Figures([*last.figures, *block.figures])
            elif not (isinstance(block, str) and block in blocks):
                blocks.append(block)
    return blocks


def number(value: Any) -> str:
    """Return a number with four digits, and a dash where there is none."""
    return f"{float(value):.4g}" if np.isfinite(value) else "\N{EN DASH}"


FONTS = ("font.family", "font.sans-serif", "font.serif", "font.monospace")
"""What a page takes over of a user's style: names may be in letters that only these have."""


@contextmanager
def own_style() -> Iterator[None]:
    """Draw the figures of a page alike, whatever style its user has set, and leave that and pyplot as they were."""
    import matplotlib as mpl  # not with the package, but when something is drawn
    from matplotlib import style

    fonts = {name: mpl.rcParams[name] for name in FONTS}
    with style.context("default"), apart(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph .* missing from")  # of a name, which the page has in words too
        mpl.rcParams.update(fonts)
        yield


def render(title: str, lead: Sequence[str], summary: Table, sections: Sequence[Section]) -> str:
    """Return the page.

    Parameters
    ----------
    title : str
        Of the page.
    lead : sequence of str
        Paragraphs under the title; the first says what was found.
    summary : Table
        Stands before the contents list.
    sections : sequence of Section
        The rest, listed in the contents.

    Raises
    ------
    ValueError
        If two sections would have the same anchor.
    """
    anchors = [section.anchor for section in sections]
    if len(set(anchors)) < len(anchors):
        raise ValueError(f"section titles must differ in their letters and digits, got anchors {anchors}.")
    style = files("bayesgp_mf.reports").joinpath("page.css").read_text(encoding="utf-8")
    tables, figures = (map(f"{kind} {{}}".format, count(1)) for kind in ("Table", "Figure"))
    contents = "".join(f'<li><a href="#{s.anchor}">{escape(s.title)}</a></li>' for s in sections)
    parts = [
        "<!DOCTYPE html>",
        '<html lang="en"><head><meta charset="utf-8">',
        '<meta name="viewport" content="width=device-width, initial-scale=1">',
        f"<title>{escape(title)}</title><style>\n{style}</style></head><body><main>",
        f"<h1>{escape(title)}</h1>",
        *(f'<p class="lead">{escape(text)}</p>' for text in lead),
        _table(summary, tables),
        f'<nav aria-labelledby="contents"><h2 id="contents">Contents</h2><ul>{contents}</ul></nav>',
    ]
    for section in sections:
        parts.append(f'<section aria-labelledby="{section.anchor}">')
        parts.append(f'<h2 id="{section.anchor}">{escape(section.title)}</h2>')
        parts.extend(_block(block, tables, figures) for block in section.blocks)
        parts.append("</section>")
    parts.append("</main></body></html>\n")
    return "\n".join(parts)


def _caption(text: str, numbers: Iterator[str]) -> str:
    return f"<figcaption><b>{next(numbers)}.</b> {escape(text)}</figcaption>"


def _block(block: Block, tables: Iterator[str], figures: Iterator[str]) -> str:
    match block:
        case Table():
            return _table(block, tables)
        case Figures():
            drawn = (f"<figure>{_image(ax, text)}{_caption(text, figures)}</figure>" for ax, text in block.figures)
            return f'<div class="figures">{"".join(drawn)}</div>'
        case Formula():
            return f'<p class="formula">{_formula(block.latex)}</p>'
    return f"<p>{escape(block)}</p>"


def _table(table: Table, numbers: Iterator[str]) -> str:
    head = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in table.header)
    body = "".join(f"<tr>{_cells(row)}</tr>" for row in table.rows)
    label = escape(_first_sentence(table.caption))
    return (
        f"<figure>{_caption(table.caption, numbers)}"
        f"{HINT if len(table.header) > WIDE else ''}"
        f'<div class="scroll" role="region" tabindex="0" aria-label="{label}">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div></figure>"
    )


def _cells(row: Iterable[str]) -> str:
    return "".join(f"<td{_kind(cell)}>{re.sub(MAY_BREAK, '<wbr>', escape(cell))}</td>" for cell in row)


def _kind(cell: str) -> str:
    """Return the class of a cell: a verdict, or words that may stand in several lines."""
    if cell in ("PASS", "FAIL"):
        return f' class="{cell}"'
    return ' class="words"' if len(cell) > LONG else ""


def _image(axes: Axes | Sequence[Axes], caption: str) -> str:
    """Return a figure as an image inside the page; its text becomes outlines, so no font is needed."""
    figure = cast("Figure", np.asarray(axes, dtype=object).ravel()[0].figure)
    file, kind = _svg(figure), "svg+xml"
    if len(file.getvalue()) > LARGEST_SVG:
        file, kind = io.BytesIO(), "png"
        figure.savefig(file, format="png", dpi=DOTS_PER_INCH)
    width = max(30.0, REM_PER_INCH * float(figure.get_figwidth()))  # of several panels: a wide one
    return _inside(file, kind, f"{_first_sentence(caption)}. {alt_text(axes)}", f"max-width: {width:.0f}rem")


def _svg(figure: Figure) -> io.BytesIO:
    from matplotlib import rc_context  # not with the package, but when something is drawn
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    file = io.BytesIO()
    with rc_context({"svg.hashsalt": "bayesgp_mf"}):  # or the names within it are drawn at random
        FigureCanvasSVG(figure).print_svg(file, metadata={"Date": None})  # savefig draws twice, for the same bytes
    return file


def _inside(file: io.BytesIO, kind: str, alt: str, style: str) -> str:
    """Return an image as a part of the page."""
    data = base64.b64encode(file.getvalue()).decode("ascii")
    return f'<img alt="{escape(alt)}" style="{style}" src="data:image/{kind};base64,{data}">'


def _formula(latex: str) -> str:
    """Return a formula as an image inside the page, or as it is written where it cannot be drawn."""
    from matplotlib.figure import Figure
    from matplotlib.mathtext import MathTextParser

    braced = re.sub(r"(\\sqrt) ?([0-9A-Za-z])", r"\1{\2}", latex)  # as matplotlib wants it
    drawn = f"${braced.replace(NEGATIVE_SPACE, '')}$"  # a negative space, which it draws too large
    try:
        width, height, depth, _, _ = MathTextParser("path").parse(drawn, dpi=72)
    except ValueError:
        return f"<code>{escape(latex)}</code>"
    figure = Figure(figsize=(width / 72 + 0.03, height / 72 + 0.06), facecolor="none")
    figure.text(0.0, (depth + 2.0) / (height + 4.0), drawn)
    return _inside(_svg(figure), "svg+xml", latex, f"width: {width / 9:.1f}rem")


def _first_sentence(text: str) -> str:
    return re.split(r"[.:](?:\s|$)", text)[0]
