"""Doing the tasks of all studies, several at once; what fails does not take the others along."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, NamedTuple

from bayesgp_mf.parallel import backend
from validation.studies.store import Store, code_digest, result_of
from validation.studies.study import Study, Task


class _Done(NamedTuple):
    name: str
    task: Task
    result: str | None  # as JSON
    failure: str


def run_missing(
    studies: Sequence[Study], store: Store, processes: int, advance: Callable[[str], None], client: Any = None
) -> list[str]:
    """Do all tasks whose results the store does not hold, and return what went wrong, a paragraph each.

    Parameters
    ----------
    studies : sequence of Study
        Whose tasks they are.
    store : Store
        Keeps each result as soon as it is there.
    processes : int
        Tasks at the same time, each in a process of its own with one BLAS thread.
    advance : callable
        Called with the name of each task that is done.
    client : distributed.Client, optional
        A Dask cluster whose workers do the tasks instead. They need this code, and no access to the store.
    """
    missing = [(f"{study.name}: {task.name}", task) for study in studies for task in study.tasks]
    missing = sorted(((name, task) for name, task in missing if not store.holds(task)), key=lambda pair: -pair[1].cost)
    failures = []
    code = None if client is None else store.code
    with (
        closing(backend(processes, client)) as workers,
        closing(workers.map(_attempt, missing, code, ordered=False)) as answers,
    ):
        for done in answers:
            if done.result is None:
                failures.append(f"{done.name} failed.\n{done.failure}")
            else:
                store.keep(done.task, done.result)
            advance(done.name)
    return sorted(failures)


def _attempt(code: str | None, named: tuple[str, Task]) -> _Done:
    name, task = named
    try:
        if code is not None and code_digest() != code:
            raise RuntimeError(
                "this worker has another code of bayesgp_mf and validation, or other versions of their packages, than "
                "whoever sent the task. Start the workers where the same code is."
            )
        return _Done(name, task, result_of(task), "")
    except Exception:  # the other tasks must not be lost
        return _Done(name, task, None, traceback.format_exc())
