"""Timing in turn, and the table that comes of it.

The cases of a table are run one after the other, and then all again, so that a machine that slows down for a while
slows down all of them. Each has the median of its repeats; the message is the ratio to the first case of the table.
Seconds are those of the processor, over all threads of the process. With one thread, and nothing else on the machine,
they are those of the clock on the wall; with other programs they are disturbed far less.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from validation.benchmarks.listing import Listing

HEADER = ("Case", "Median, ms", "Least", "Most")
STEPS, EVIDENCE, SCORE = "Steps", "Log evidence", "Log score"
FORMATS = {STEPS: "d", EVIDENCE: ".3f", SCORE: ".4f"}
"""Of the numbers that a case may give beside its time; in nats the evidence, and for each held-out case the score."""


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
    measure : callable, optional
        Returns numbers of the same, by name, a key of ``FORMATS``.
    repeats : int, optional
        Of a case that takes long: fewer than the others have, and without the round that is not counted.
    """

    run: Callable[[], Any]
    prepare: Callable[[], object] | None = None
    describe: Callable[[Any], str] | None = None
    measure: Callable[[Any], Mapping[str, float | None]] | None = None
    repeats: int | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """One case, timed.

    Attributes
    ----------
    name : str
        Of the case.
    seconds : tuple of float
        Of the processor, of all repeats, in order.
    note : str
        What the case has to say of its result.
    numbers : mapping of str to float
        What was measured beside the time, by name; None for what there is not.

    Raises
    ------
    ValueError
        If there is no repeat, or one has no positive, finite time.
    """

    name: str
    seconds: tuple[float, ...]
    note: str = ""
    numbers: Mapping[str, float | None] = field(default_factory=dict)

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
    unit : str
        The name of the column of ratios.

    Raises
    ------
    ValueError
        If there is no row.
    """

    title: str
    rows: tuple[Row, ...]
    remarks: tuple[str, ...] = ()
    unit: str = "Ratio"

    def __post_init__(self) -> None:
        if not self.rows:
            raise ValueError(f"a table needs a row to compare with: {self.title!r} has none.")

    def ratio(self, row: Row) -> float:
        """Return the median of a row over that of the first."""
        return row.median / self.rows[0].median

    def row(self, name: str) -> Row | None:
        """Return the row of a case, or None where it was not timed."""
        return next((row for row in self.rows if row.name == name), None)

    def lines(self) -> list[str]:
        """Return the table as aligned text, with its title above and its remarks below."""
        return self._listing().lines()

    def markdown(self) -> list[str]:
        """Return the table in markdown."""
        return self._listing().markdown()

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
                    **row.numbers,
                }
                for row in self.rows
            ],
            "remarks": list(self.remarks),
        }

    def _listing(self) -> Listing:
        given = [name for name in FORMATS if any(name in row.numbers for row in self.rows)]
        notes = ("",) if any(row.note for row in self.rows) else ()
        header = (*HEADER, self.unit, *given, *notes)
        return Listing(self.title, header, tuple(self._cells(row, given, notes) for row in self.rows), (), self.remarks)

    def _cells(self, row: Row, given: Sequence[str], notes: Sequence[str]) -> tuple[str, ...]:
        times = (row.median, min(row.seconds), max(row.seconds))
        return (
            row.name,
            *(f"{1e3 * second:.3g}" if second < 1 else f"{1e3 * second:.0f}" for second in times),
            f"{self.ratio(row):.2f}",
            *(_formatted(row.numbers.get(name), FORMATS[name]) for name in given),
            *(row.note for _ in notes),
        )


def _formatted(number: float | None, form: str) -> str:
    return "-" if number is None else f"{number:{form}}"


def in_turn(
    cases: Mapping[str, Case],
    repeats: int,
    advance: Callable[[str], None] = lambda note: None,
    clock: Callable[[], float] = time.process_time,
) -> tuple[Row, ...]:
    """Run all cases in turn, ``repeats`` times, and once before that without the clock.

    The first time something is run it loads modules and memory that are there afterwards.
    """
    seconds: dict[str, list[float]] = {name: [] for name in cases}
    results: dict[str, Any] = {}
    for repeat in range(repeats + 1):
        for name, case in cases.items():
            if case.repeats is not None and not 1 <= repeat <= case.repeats:
                continue
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
    note = "" if case.describe is None else case.describe(result)
    return Row(name, tuple(seconds), note, {} if case.measure is None else case.measure(result))
