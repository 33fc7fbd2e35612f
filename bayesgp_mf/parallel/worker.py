"""What runs in a process of the pool: calls come from its standard input, answers go to its standard output.

A call is a pickled function with its arguments, an answer whether it went well, with the result or the error. What is
printed on the way goes to where errors go. Tasks are pulled:
so many at a time as there are workers, the next when one is done.
"""

from __future__ import annotations

import os
import pickle
import struct
import threading
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from operator import methodcaller
from queue import SimpleQueue
from typing import IO, Any, TypeAlias

import cloudpickle

from bayesgp_mf.matrices.blas import one_thread_if_small

_LENGTH = struct.Struct("<Q")
_COMMON: dict[int, Any] = {}  # what the tasks of a map share: that of the last one


def send(stream: IO[bytes], message: bytes) -> None:
    """Write a message, its length before it."""
    stream.write(_LENGTH.pack(len(message)))
    stream.write(message)
    stream.flush()


def receive(stream: IO[bytes]) -> bytes | None:
    """Read a message; None where the other side has ended."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    length = _LENGTH.unpack(head)[0]
    message = stream.read(length)
    return message if len(message) == length else None


def share(number: int, common: Any) -> None:
    """Keep what the tasks of a map share."""
    _COMMON.clear()
    _COMMON[number] = common


def task(number: int, function: Callable[[Any, Any], Any], item: Any) -> Any:
    """Return the result of a task, with what it shares with others."""
    return alone(function, _COMMON[number], item)


def alone(function: Callable[[Any, Any], Any], common: Any, item: Any) -> Any:
    """Return the result of a task, computed with one BLAS thread."""
    with one_thread_if_small(0):  # a core for each worker
        return function(common, item)


def serve() -> None:
    """Answer calls until whoever sends them closes the pipe or is gone, in the middle of a task too."""
    calls, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    waiting: SimpleQueue[bytes] = SimpleQueue()
    threading.Thread(target=_listen, args=(calls, waiting), daemon=True).start()
    while True:
        send(answers, _answer(waiting.get()))


def _listen(calls: IO[bytes], waiting: SimpleQueue[bytes]) -> None:
    while (call := receive(calls)) is not None:
        waiting.put(call)
    os._exit(0)


def _answer(call: bytes) -> bytes:
    try:
        function, arguments = pickle.loads(call)
        return _pickled(True, function(*arguments), "")
    except BaseException as error:  # one that asks to exit too: somebody waits for the answer
        trace = traceback.format_exc()
        try:
            answer = _pickled(False, error, trace)
            pickle.loads(answer)
        except Exception:  # an error that cannot travel
            return _pickled(False, RuntimeError(f"{type(error).__name__}: {error}"), trace)
        return answer


def _pickled(*answer: Any) -> bytes:
    message: bytes = cloudpickle.dumps(answer)
    return message


Answer: TypeAlias = dict[str, Any]
"""Numbers and arrays by name, which are added up name by name."""


def added(one: Answer, other: Answer) -> Answer:
    """Return the sum of two answers, name by name."""
    return {name: one[name] + other[name] for name in one}


def tree_sum(answers: Sequence[Any], add: Callable[[Any, Any], Any] = added) -> Any:
    """Return the sum of answers, in pairs and in order, so that it is the same whoever adds."""
    level = list(answers)
    while len(level) > 1:
        level = [add(*level[k : k + 2]) if k + 1 < len(level) else level[k] for k in range(0, len(level), 2)]
    return level[0]


Make: TypeAlias = Callable[[], Any]
"""Makes the state of a shard, where it will live."""

_STATES: dict[tuple[str, int], Any] = {}  # of this process
_CLOSED: set[str] = set()


def ask(
    job: str, number: int, make: Any, function: Callable[[Any, Any], Answer], message: Any, data: Any = None
) -> Answer:
    """Return what a shard answers to a message; its state is made if it is not here."""
    with one_thread_if_small(0):  # a core for each worker
        key = job, number
        state = _STATES.get(key)
        if state is None:
            state = make() if data is None else make(data)
            if job not in _CLOSED:  # as it may be when a slow first reading ends
                _STATES[key] = state
        return function(state, message)


def has_state(job: str, number: int) -> bool:
    """Return whether the state of a shard is here."""
    return (job, number) in _STATES


def release(job: str) -> None:
    """Let the states of a job go."""
    _CLOSED.add(job)
    for key in [key for key in _STATES if key[0] == job]:
        del _STATES[key]


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
