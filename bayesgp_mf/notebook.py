"""What a notebook shows of an object: a title and a small table, as HTML that asks nothing of the network."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

NAME = "text-align:left;vertical-align:top;padding-right:1em;font-weight:normal;opacity:0.7"
LONGEST = 400
"""Letters of a cell, beyond which it is cut."""


def as_html(title: str, rows: Iterable[tuple[str, object]]) -> str:
    """Return a title and a table of names and values; all text is escaped, and long text is cut.

    Examples
    --------
    >>> as_html("A < B", [("cases", 3)])[:49]
    '<div style="overflow-x:auto"><strong>A &lt; B</st'
    """
    cells = "".join(
        f'<tr><th scope="row" style="{NAME}">{escape(name)}</th>'
        f'<td style="text-align:left;white-space:pre-line">{escape(_cut(str(value)))}</td></tr>'
        for name, value in rows
    )
    table = f"<table>{cells}</table>" if cells else ""
    return f'<div style="overflow-x:auto"><strong>{escape(title)}</strong>{table}</div>'


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


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1].rstrip() + "\N{HORIZONTAL ELLIPSIS}"
