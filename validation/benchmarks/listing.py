"""A table of text with the numbers behind it: printed, as markdown, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from validation.reporting.text import aligned, wrapped


class Result(Protocol):
    """What a section yields: something with a title that can be printed and written."""

    @property
    def title(self) -> str:
        """What was measured."""

    def lines(self) -> list[str]:
        """Return it as lines of text."""

    def markdown(self) -> list[str]:
        """Return it as lines of markdown."""

    def to_dict(self) -> dict[str, Any]:
        """Return what is written as JSON."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A table of text, the first column to the left and all others to the right.

    Attributes
    ----------
    title : str
        What was measured.
    header : tuple of str
        Names of the columns.
    rows : tuple of tuple of str
        As many cells as there are columns.
    numbers : sequence
        What is written as JSON: the numbers before they were rounded.
    remarks : tuple of str
        What the numbers mean; what is missing, and why.

    Raises
    ------
    ValueError
        If a row has more or fewer cells than there are columns.
    """

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    numbers: Sequence[Any] = ()
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.header):
                raise ValueError(f"a row must have {len(self.header)} cells, one for each column, got {row}.")

    def lines(self) -> list[str]:
        """Return aligned text, with the title above and the remarks below."""
        return [self.title, "", *aligned([self.header, *self.rows]), *wrapped(self.remarks)]

    def markdown(self) -> list[str]:
        """Return a table of markdown, with the title as its heading and the remarks below."""
        rule = ("---", *("---:" for _ in self.header[1:]))
        table = ["| " + " | ".join(row) + " |" for row in (self.header, rule, *self.rows)]
        return [f"### {self.title}", "", *table, *wrapped(self.remarks)]

    def to_dict(self) -> dict[str, Any]:
        """Return what is written as JSON."""
        return {"title": self.title, "rows": list(self.numbers), "remarks": list(self.remarks)}
