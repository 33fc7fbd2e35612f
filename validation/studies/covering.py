"""Whether options work together: every triple of the first six, and every pair of all with what takes long.

The cells and their laws are those of `tests.covering`, of which the fast tests have every pair that takes no seconds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from bayesgp_mf.reports.page import Table
from validation.reporting.checks import at_least, at_most
from validation.studies.study import Findings, Study, Task

PARTS = {"triples": 48, "pairs 1": 12, "pairs 2": 12, "streams 1": 6, "streams 2": 6}
PARTS |= {"estimators 1": 6, "estimators 2": 6, "shards 1": 6, "shards 2": 6}
"""In how many tasks each array is done. The two arrays of pairs have other cells and other data."""
SEED = 36
"""Of the arrays and of the data of their cells."""


def table(kind: str) -> Any:
    """Return the table of streams, of estimators or of shards; None for those of `fit`."""
    from tests.covering import estimators, shards, streams

    tables = {"streams": streams.TABLE, "estimators": estimators.TABLE, "shards": shards.TABLE}
    return tables.get(kind.split()[0])


@cache
def cells(kind: str, seed: int) -> list[dict[str, str]]:
    """Return the cells of an array: of the first six options with the usual values of the others, or of all."""
    from tests.covering import refusals  # with libraries that only tests need
    from tests.covering.arrays import array
    from tests.covering.options import FIRST_SIX, FIT

    of_kind = table(kind)
    if of_kind is not None:
        return array(of_kind.options, 2, of_kind.refusals, salt=(kind, seed))
    if kind != "triples":
        return array(FIT, 2, refusals.FIT, salt=(kind, seed))
    six = {name: FIT[name] for name in FIRST_SIX}
    known = tuple(each for each in (*refusals.FIT, *refusals.SLOW) if set(each.options) <= set(six))
    usual = {name: values[0] for name, values in FIT.items()}
    return [{**usual, **cell} for cell in array(six, 3, known, salt=(kind, seed))]


def tried(kind: str, part: int, seed: int) -> dict[str, Any]:
    """Return how many cells of a part work, how many are refused, and what the others raised."""
    from tests.covering.arrays import label
    from tests.covering.laws import check

    others = table(kind)
    of_kind = check if others is None else others.check
    found: dict[str, Any] = {"works": 0, "refused": 0, "failed": []}
    with tempfile.TemporaryDirectory() as folder:
        for number, cell in list(enumerate(cells(kind, seed)))[part :: PARTS[kind]]:
            try:
                found[of_kind(cell, 10_000 * seed + number, Path(folder))] += 1
            except Exception as error:  # whatever it is, it is what this is to find
                found["failed"].append([label(cell), f"{type(error).__name__}: {error}"[:500]])
    return found


def conclude(results: Mapping[str, Any]) -> Findings:
    """Count what works, what is refused, and what fails."""
    failed = [row for name, found in results.items() for row in ((name, *each) for each in found["failed"])]
    works = sum(found["works"] for found in results.values())
    return Findings(
        (at_least("Cells that work", works, 1000), at_most("Cells that fail", len(failed), 0)),
        (
            f"{works} cells work: nothing in them is not finite, what was saved is what is loaded, a chosen kernel is "
            "a fit at it, cases may come in any order, an offset is a prior mean, and weights of two are cases twice. "
            f"{sum(found['refused'] for found in results.values())} are refused in words before work is done.",
            Table("Cells that fail.", ("Part", "Options", "Error"), failed or [("none", "", "")]),
        ),
    )


STUDY = Study(
    "covering",
    "Whether options work together",
    [
        Task(f"{kind}, {part + 1}", tried, {"kind": kind, "part": part, "seed": SEED})
        for kind, parts in PARTS.items()
        for part in range(parts)
    ],
    conclude,
)
