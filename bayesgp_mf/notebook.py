"""What is shown of an object: a title and a small table, as text or, in a notebook, as HTML without the network."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, TypeVar

NAME = "text-align:left;vertical-align:top;padding-right:1em;font-weight:normal;opacity:0.7"
LONGEST = 400
"""Letters of a cell, beyond which it is cut."""
ROWS = 12
"""Of a table; of a longer one the first and the last are shown."""
NUMBERS: dict[str, Any] = {"float_format": "{:.4g}".format, "na_rep": "\N{EN DASH}"}
"""How a table shows them, and that there is none."""
T = TypeVar("T")


def as_text(title: str, table: Any) -> str:
    """Return a title and a data frame, numbers with four digits.

    Examples
    --------
    >>> import pandas as pd
    >>> print(as_text("One case.", pd.DataFrame({"p": [0.12345]})))
    One case.
            p
    0  0.1235
    """
    return f"{title}\n{table.to_string(max_rows=ROWS, **NUMBERS)}"


def shown_as_table(title: Callable[[Any], str]) -> Callable[[type[T]], type[T]]:
    """Let objects of a class print a title and the table of their ``to_frame``, and a notebook show both."""

    def text(self: Any) -> str:
        return as_text(title(self), self.to_frame())

    def html(self: Any) -> str:
        return as_html(title(self), (), self.to_frame().to_html(max_rows=ROWS, border=0, **NUMBERS))

    def shown(made: type[T]) -> type[T]:
        for name, method in (("__repr__", text), ("__str__", text), ("_repr_html_", html)):
            setattr(made, name, method)
        return made

    return shown


def as_html(title: str, rows: Iterable[tuple[str, object]], figure: str = "") -> str:
    """Return a title and a table of names and values, and a figure; all text is escaped, and long text is cut.

    Examples
    --------
    >>> as_html("A < B", [("cases", 3)])[:49]
    '<div style="overflow-x:auto"><strong>A &lt; B</st'
    """
    cells = "".join(
        f'<tr><th scope="row" style="{NAME}">{escape(name)}</th>'
        f'<td style="text-align:left;white-space:pre-line">{escape(cut(str(value)))}</td></tr>'
        for name, value in rows
    )
    table = f"<table>{cells}</table>" if cells else ""
    return f'<div style="overflow-x:auto"><strong>{escape(title)}</strong>{table}{figure}</div>'


def curve(values: Sequence[float], label: str) -> str:
    """Return a small drawing of numbers between 0 and 1, from left to right, over a line at 0, with what they are.

    Examples
    --------
    >>> "20.0,2.0 110.0,26.0 200.0,50.0" in curve([1.0, 0.5, 0.0], "falling")
    True
    """
    step = 180.0 / (len(values) - 1)
    points = " ".join(f"{20.0 + step * k:.1f},{50.0 - 48.0 * value:.1f}" for k, value in enumerate(values))
    return (
        f'<svg role="img" aria-label="{escape(label)}" width="220" height="72" viewBox="0 0 220 72" '
        'fill="none" stroke="currentColor" font-size="11">'
        f'<polyline points="20,2 20,50 200,50" stroke-opacity="0.4"/><polyline points="{points}" stroke-width="2"/>'
        f'<text x="20" y="66" fill="currentColor" stroke="none">{escape(label)}</text>'
        '<text x="8" y="10" fill="currentColor" stroke="none">1</text></svg>'
    )


def in_words(values: object, names: Iterable[object] = ()) -> str:
    """Return numbers with four digits, with the names of entries where these are given; of many the ends.

    Examples
    --------
    >>> in_words([1.0, 2.5], ["dose", "age"]), in_words(0.25)
    ('dose 1, age 2.5', '0.25')
    """
    entries = [float(value) for value in values] if isinstance(values, Iterable) else [float(values)]  # type: ignore[arg-type]
    labels = [str(name) for name in names]
    if len(entries) > FEW:
        return f"{len(entries)} values, {min(entries):.4g} to {max(entries):.4g}"
    if len(labels) == len(entries) > 1:
        return ", ".join(f"{name} {value:.4g}" for name, value in zip(labels, entries, strict=True))
    return ", ".join(f"{value:.4g}" for value in entries)


FEW = 12
"""Entries of a vector that are shown one by one."""


def cut(text: str, longest: int = LONGEST) -> str:
    """Return a text with no more than so many letters."""
    return text if len(text) <= longest else text[: longest - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
