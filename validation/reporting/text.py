"""Tables and remarks as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence

WIDTH = 120
"""Columns of remarks."""


def aligned(rows: Sequence[Sequence[str]], notes: Sequence[str] | None = None) -> list[str]:
    """Return rows with the first column to the left and all others to the right, each followed by its note."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [[row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])] for row in rows]
    return ["  ".join([*row, note]).rstrip() for row, note in zip(cells, notes or [""] * len(rows), strict=True)]


def wrapped(remarks: Iterable[str]) -> list[str]:
    """Return remarks in lines, with an empty one before each."""
    return [line for remark in remarks for line in ("", *textwrap.wrap(remark, WIDTH))]
