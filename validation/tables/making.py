"""Making one table from the command line, by itself or as one of all."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeAlias

from threadpoolctl import ThreadpoolController

from bayesgp_mf.progress import progress_bar
from validation.tables.paper_table import PaperTable

Make: TypeAlias = Callable[[Callable[[str], None]], PaperTable]
OUTPUT = Path("reports/tables")


def main(make: Make, arguments: Sequence[str] | None = None) -> int:
    """Make one table, print it, write its files; the ``main`` of every script in this folder."""
    parser = argparse.ArgumentParser(description="Regenerate one table or figure of a paper.")
    add_output(parser)
    produce(make, parser.parse_args(arguments).output)
    return 0


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the option for the folder."""
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder to write to (default: {OUTPUT})")


def produce(make: Make, folder: Path, name: str | None = None) -> PaperTable:
    """Make a table under a progress bar, write its files, print it, and return it.

    Raises
    ------
    ValueError
        If the table has another name than ``name``: its files could then overwrite those of another.
    """
    # the matrices are small: more BLAS threads only wait for each other
    with ThreadpoolController().limit(limits=1, user_api="blas"), progress_bar(name or "table") as advance:
        table = make(advance)
    if name is not None and table.name != name:
        raise ValueError(f"the table that {name} makes must have that name too, got {table.name!r}.")
    paths = table.write(folder)
    print("\n".join([*table.lines(), "", *(f"Wrote {path}" for path in paths), ""]), flush=True)
    return table
