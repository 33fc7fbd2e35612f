"""Tasks that are pulled: so many at a time as there are workers, the next when one is done."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from operator import methodcaller
from queue import SimpleQueue
from typing import Any

import cloudpickle

AHEAD = 8
"""Results for each hand that may wait for one before them; then no further task is begun."""


def in_order(
    submit: Callable[[Any], Any],
    items: Iterable[Any],
    n_workers: Callable[[], int],
    cancel: Callable[[list[Any]], None],
    *,
    ordered: bool,
    take: Callable[[Any], Any] = methodcaller("result"),
) -> Generator[Any, None, None]:
    """Yield the results of tasks, in the order of the items or as they are ready.

    Parameters
    ----------
    submit : callable
        Begins the task of an item, and returns a future with ``add_done_callback`` and ``result``.
    items : iterable
        Is gone through as tasks are begun, never far ahead.
    n_workers : callable
        Returns how many tasks may be in flight now.
    cancel : callable
        Is given the futures that are in flight when an error, Ctrl-C or ``close()`` ends this.
    ordered : bool
        Whether the results come in the order of the items. An error then comes in its place too, so that it is the
        same one whoever computes.
    take : callable
        Returns the result of a future that is done, or raises its error.
    """
    ready: SimpleQueue[int] = SimpleQueue()
    running: dict[int, Any] = {}
    done: dict[int, Any] = {}
    left, following = enumerate(items), 0

    def begin() -> None:
        while len(running) < n_workers() and len(done) < AHEAD * n_workers():
            number, item = next(left, (-1, None))
            if number < 0:
                return
            running[number] = future = submit(item)
            future.add_done_callback(lambda _, number=number: ready.put(number))

    try:
        begin()
        while running:
            number = ready.get()
            done[number] = running.pop(number)
            begin()  # before the result is used: no hand waits for that
            if not ordered:
                yield take(done.pop(number))
            while ordered and following in done:
                yield take(done.pop(following))
                following += 1
                begin()
    finally:
        if running:
            cancel([*running.values()])


def pickled(what: Any) -> bytes:
    """Return what is sent as bytes, or raise a ValueError if it cannot be."""
    with refused_as_unsent():
        message: bytes = cloudpickle.dumps(what)
    return message


@contextmanager
def refused_as_unsent() -> Generator[None, None, None]:
    """Raise a ValueError for what pickling raises, which may be anything that a class of the user raises."""
    try:
        yield
    except Exception as error:
        cause = error.__cause__ or error  # Dask says no more than that it could not
        raise ValueError(
            "a kernel, a likelihood or data cannot be sent to another process, since pickling it failed: "
            f"{type(cause).__name__}: {cause}. Let its class be pickled (__reduce__, __getstate__), or compute in this "
            "process: processes=1 and no client."
        ) from error


def uncomputed(name: str, error: BaseException) -> ValueError:
    """Return the error of a partition that Dask could not compute."""
    return ValueError(f"{name} of the Dask collection cannot be computed: {type(error).__name__}: {error}")
