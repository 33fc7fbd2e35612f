"""``make tables``: regenerate the tables and figures of the papers, print them, write JSON, PNG and one HTML page."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Mapping, Sequence
from functools import partial
from types import ModuleType

from bayesgp_mf.reports.page import Block, Figures, Section, Table, render
from validation.command import Command, each, say, written
from validation.reporting.files import write_text
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
from validation.tables.making import OUTPUT, produce
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
    command = Command("validation.tables", "Regenerate the papers' tables and figures.", OUTPUT, {}, scripts, "table")
    return command.run(partial(_make, scripts), arguments)


def _make(scripts: Mapping[str, ModuleType], options: Namespace) -> int:
    made: list[PaperTable] = []

    def one(name: str) -> None:
        made.append(produce(scripts[name].make, options.output, name))

    failed, status = each(options.names or scripts, "table", one)
    say(*written(write_text(options.output / PAGE, _page(made, failed, len(scripts)))))
    return status


def name_of(module: ModuleType) -> str:
    """Return the name of a script without its package."""
    return module.__name__.rpartition(".")[2]


def _page(made: Sequence[PaperTable], failed: Sequence[str], known: int) -> str:
    lead = [
        f"{len(made)} of the {known} tables and figures that can be regenerated are on this page. Differences are "
        "ours less the paper's, before rounding."
    ]
    if failed:
        lead.append(f"These raised an error and are missing: {', '.join(failed)}.")
    rows = [_summary_row(table) for table in made]
    header = ("Table", "Source", "Lines", "With a published number")
    return render(TITLE, lead, Table("What is here.", header, rows), [_section(table) for table in made])


def _summary_row(table: PaperTable) -> tuple[str, ...]:
    published = sum(entry.paper is not None for entry in table.entries)
    return table.name, table.source, f"{len(table.entries)}", f"{published}"


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
