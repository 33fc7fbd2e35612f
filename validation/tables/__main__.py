"""``make tables``: regenerate the tables and figures of the papers, print them, write JSON, PNG and one HTML page."""

from __future__ import annotations

import argparse
import sys
import time
import traceback
from collections.abc import Sequence
from types import ModuleType

from validation.reporting.page import Block, Figures, Section, Table, render
from validation.tables import (
    crabs_2000_table_2,
    glass_1996_table_2,
    laplace_1996_table_1,
    likelihoods_by_quadrature,
    online_1999_figure_2,
    pima_1999_figure_1,
    pima_1999_table_1,
    pima_2000_table_2,
    schemes_2000_section_4,
    sonar_1998_table_1,
    sonar_2000_figure_2,
    sonar_2000_figure_3,
    sonar_2000_table_1,
    sonar_exchanged,
    svm_limit_2000_section_7,
    thesis_figure_2_1,
)
from validation.tables.making import add_output, produce
from validation.tables.paper_table import HEADER, PaperTable

TABLES: tuple[ModuleType, ...] = (
    sonar_1998_table_1,
    sonar_2000_table_1,
    sonar_2000_figure_2,
    sonar_2000_figure_3,
    sonar_exchanged,
    svm_limit_2000_section_7,
    schemes_2000_section_4,
    crabs_2000_table_2,
    pima_2000_table_2,
    pima_1999_table_1,
    pima_1999_figure_1,
    laplace_1996_table_1,
    glass_1996_table_2,
    online_1999_figure_2,
    thesis_figure_2_1,
    likelihoods_by_quadrature,
)
"""The scripts, in the order of the page; a new one is added here."""
PAGE = "tables.html"
TITLE = "Tables and figures of the papers, regenerated"


def main(arguments: Sequence[str] | None = None, tables: Sequence[ModuleType] = TABLES) -> int:
    """Make all tables, or those named, and return 0, or 1 if one of them raised an error."""
    scripts = {name_of(module): module for module in tables}
    options = _parse(arguments, list(scripts))
    made: list[tuple[PaperTable, float]] = []
    failed: list[str] = []
    for name in options.names or scripts:
        started = time.perf_counter()
        try:
            table = produce(scripts[name].make, options.output, name)
        except Exception:  # the other tables must not be lost
            traceback.print_exc()
            failed.append(name)
        else:
            made.append((table, time.perf_counter() - started))
    page = options.output / PAGE
    options.output.mkdir(parents=True, exist_ok=True)
    page.write_text(_page(made, failed, len(scripts)), encoding="utf-8")
    print(f"Wrote {page}", flush=True)
    if failed:
        print(f"Failed, see above: {', '.join(failed)}", file=sys.stderr, flush=True)
    return 1 if failed else 0


def name_of(module: ModuleType) -> str:
    """Return the name of a script without its package."""
    return module.__name__.rpartition(".")[2]


def _parse(arguments: Sequence[str] | None, names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m validation.tables", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to make (default: all): {', '.join(names)}")
    add_output(parser)
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in names]
    if unknown:
        parser.error(f"there is no table {', '.join(unknown)}; choose from {', '.join(names)}")
    options.names = list(dict.fromkeys(options.names))  # named twice is made once
    return options


def _page(made: Sequence[tuple[PaperTable, float]], failed: Sequence[str], known: int) -> str:
    lead = [
        f"{len(made)} of the {known} tables and figures that can be regenerated are on this page. Differences are "
        "ours less the paper's, before rounding."
    ]
    if failed:
        lead.append(f"These raised an error and are missing: {', '.join(failed)}.")
    rows = [_summary_row(table, seconds) for table, seconds in made]
    header = ("Table", "Source", "Lines", "With a published number", "Seconds")
    return render(TITLE, lead, Table("What is here.", header, rows), [_section(table) for table, _ in made])


def _summary_row(table: PaperTable, seconds: float) -> tuple[str, ...]:
    published = sum(entry.paper is not None for entry in table.entries)
    return table.name, table.source, f"{len(table.entries)}", f"{published}", f"{seconds:.1f}"


def _section(table: PaperTable) -> Section:
    rows = [entry.cells()[:-1] for entry in table.entries]
    blocks: list[Block] = [
        Table(f"{table.source}, and the same by this package.", HEADER[:-1], rows),
        # notes are sentences: they would stretch a table beyond the page
        *(f"{entry.quantity}: {entry.note}" for entry in table.entries if entry.note),
        *table.remarks,
    ]
    if table.figures:
        blocks.append(Figures([(ax, caption) for _, ax, caption in table.figures]))
    return Section(table.title, blocks)


if __name__ == "__main__":
    sys.exit(main())
