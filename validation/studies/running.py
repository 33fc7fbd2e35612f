"""Doing the tasks of all studies, several at once; what fails does not take the others along."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence

from joblib import Parallel, delayed, parallel_config

from validation.studies.store import Store
from validation.studies.study import Study, Task


def run_missing(studies: Sequence[Study], store: Store, processes: int, advance: Callable[[str], None]) -> list[str]:
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
    """
    missing = [(f"{study.name}: {task.name}", task) for study in studies for task in study.tasks]
    missing = sorted(((name, task) for name, task in missing if not store.holds(task)), key=lambda pair: -pair[1].cost)
    failures = []
    with parallel_config(backend="loky", inner_max_num_threads=1):
        jobs = (delayed(_attempt)(store, name, task) for name, task in missing)
        for name, failure in Parallel(n_jobs=processes, return_as="generator_unordered", pre_dispatch=processes)(jobs):
            if failure is not None:
                failures.append(f"{name} failed.\n{failure}")
            advance(name)
    return sorted(failures)


def _attempt(store: Store, name: str, task: Task) -> tuple[str, str | None]:
    try:
        store.run(task)
    except Exception:  # the other tasks must not be lost
        return name, traceback.format_exc()
    return name, None
