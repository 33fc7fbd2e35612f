"""A progress bar that appears only when the work turns out to be long."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE_SECONDS = 1.0


@contextmanager
def progress_bar(
    description: str, total: int | None = None, *, enabled: bool = True
) -> Iterator[Callable[[str], None]]:
    """Yield a function to be called once for each finished part of the work, with a word on how it stands.

    Parameters
    ----------
    description : str
        What is being done.
    total : int, optional
        Number of parts, if it is known.
    enabled : bool
        With False nothing is ever shown.
    """
    started = time.monotonic()
    done = 0
    bar = task = None

    def advance(note: str) -> None:
        nonlocal bar, task, done
        done += 1
        if not enabled:
            return
        if bar is None and time.monotonic() - started > PATIENCE_SECONDS:
            # imported only now: most work is over before anyone would look
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[note]}"))
            console = Console(stderr=True)  # what a script prints stays clean
            bar = Progress(*columns, TimeElapsedColumn(), console=console, transient=True)
            task = bar.add_task(description, total=total, note="")
            bar.start()
        if bar is not None and task is not None:
            bar.update(task, completed=done if total is None else min(done, total), note=note)

    try:
        yield advance
    finally:
        if bar is not None:
            bar.stop()
