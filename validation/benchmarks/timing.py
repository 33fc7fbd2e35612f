"""Timing in turn, and the table that comes of it.

The cases of a table are run one after the other, and then all again, so that a machine that slows down for a while
slows down all of them. Each has the median of its repeats; the message is the ratio to the first case of the table.
"""

from __future__ import annotations

import math
import textwrap
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

HEADER = ("Case", "Median, ms", "Least", "Most", "Ratio")
WIDTH = 120
"""Columns of printed remarks."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is timed.

    Attributes
    ----------
    run : callable
        The part that is timed.
    prepare : callable, optional
        Is called before each repeat, and not timed.
    describe : callable, optional
        Makes a note of what ``run`` returned the last time.
    """

    run: Callable[[], Any]
    prepare: Callable[[], object] | None = None
    describe: Callable[[Any], str] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One case, timed.

    Attributes
    ----------
    name : str
        Of the case.
    seconds : tuple of float
        Of all repeats, in order.
    note : str
        What the case has to say of its result.

    Raises
    ------
    ValueError
        If there is no repeat, or one has no positive, finite time.
    """

    name: str
    seconds: tuple[float, ...]
    note: str = ""

    def __post_init__(self) -> None:
        if not self.seconds or not all(0 < second < math.inf for second in self.seconds):
            raise ValueError(f"{self.name!r} must have positive, finite times, got {self.seconds}.")

    @property
    def median(self) -> float:
        """Of the repeats, in seconds."""
        return float(np.median(self.seconds))


@dataclass(frozen=True, slots=True)
class Benchmark:
    """A table: times of several cases, each beside the first.

    Attributes
    ----------
    title : str
        What is timed.
    rows : tuple of Row
        The first one is what the others are compared with.
    remarks : tuple of str
        What the numbers mean; what is missing, and why.

    Raises
    ------
    ValueError
        If there is no row.
    """

    title: str
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError(f"a table needs a row to compare with: {self.title!r} has none.")

    def ratio(self, row: Row) -> float:
        """Return the median of a row over that of the first."""
        return row.median / self.rows[0].median

    def lines(self) -> list[str]:
        """Return the table as aligned text, with its title above and its remarks below."""
        cells = [HEADER, *(self._cells(row) for row in self.rows)]
        widths = [max(len(line[column]) for line in cells) for column in range(len(HEADER))]
        notes = ["", *(row.note for row in self.rows)]
        aligned = [
            "  ".join([line[0].ljust(widths[0]), *map(str.rjust, line[1:], widths[1:]), note]).rstrip()
            for line, note in zip(cells, notes, strict=True)
        ]
        remarks = [line for remark in self.remarks for line in ("", *textwrap.wrap(remark, WIDTH))]
        return [self.title, "", *aligned, *remarks]

    def to_dict(self) -> dict[str, Any]:
        """Return what is written as JSON, times in seconds."""
        return {
            "title": self.title,
            "rows": [
                {
                    "name": row.name,
                    "seconds": list(row.seconds),
                    "median": row.median,
                    "ratio": self.ratio(row),
                    "note": row.note,
                }
                for row in self.rows
            ],
            "remarks": list(self.remarks),
        }

    def _cells(self, row: Row) -> tuple[str, ...]:
        times = (row.median, min(row.seconds), max(row.seconds))
        return (
            row.name,
            *(f"{1e3 * second:.3g}" if second < 1 else f"{1e3 * second:.0f}" for second in times),
            (f"{self.ratio(row):.2f}"),
        )


def in_turn(
    cases: Mapping[str, Case],
    repeats: int,
    advance: Callable[[str], None] = lambda note: None,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Row, ...]:
    """Run all cases in turn, ``repeats`` times, and once before that without the clock.

    The first time something is run it loads modules and memory that are there afterwards.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    results: dict[str, Any] = {}
    for repeat in range(repeats + 1):
        for name, case in cases.items():
            if case.prepare is not None:
                case.prepare()
            started = clock()
            results[name] = case.run()
            elapsed = clock() - started
            if repeat:
                seconds[name].append(elapsed)
            advance(name)
    return tuple(_row(name, case, seconds[name], results[name]) for name, case in cases.items())


def _row(name: str, case: Case, seconds: Sequence[float], result: Any) -> Row:
    return Row(name, tuple(seconds), "" if case.describe is None else case.describe(result))
