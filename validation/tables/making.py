"""Making one table: by itself, or as one of all."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from bayesgp_mf.progress import progress_bar
from validation.command import Command, say, written
from validation.tables.paper_table import PaperTable

Make: TypeAlias = Callable[[Callable[[str], None]], PaperTable]
OUTPUT = Path("reports/tables")


def main(make: Make, arguments: Sequence[str] | None = None) -> int:
    """Make one table, print it, write its files; the ``main`` of every script in this folder."""

    def work(options: Namespace) -> int:
        produce(make, options.output)
        return 0

    module = f"validation.tables.{Path(sys.argv[0]).stem}"
    return Command(module, "Regenerate one table or figure of a paper.", OUTPUT).run(work, arguments)


def produce(make: Make, folder: Path, name: str | None = None) -> PaperTable:
    """Make a table under a progress bar, write its files, print it, and return it.

    Raises
    ------
    ValueError
        If the table has another name than ``name``: its files could then overwrite those of another.
    """
    with progress_bar(name or "table") as advance:
        table = make(advance)
    if name is not None and table.name != name:
        raise ValueError(f"the table that {name} makes must have that name too, got {table.name!r}.")
    paths = table.write(folder)
    say(*table.lines(), "", *written(*paths), "")
    return table
