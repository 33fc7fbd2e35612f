"""The one seam between an algorithm and the machines it runs on: a function, shards, a message, and a sum.

Each shard has a state that lives where its rows live and is made when it is first asked there. A round sends a message
to all shards; each answers with numbers, which are added up as a tree in the order of the shards. So the result does
not depend on who computed what, to the last bit.
"""

from __future__ import annotations

import itertools
import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeAlias

from bayesgp_mf.matrices.blas import one_thread_if_small

Make: TypeAlias = Callable[[], Any]
"""Makes the state of a shard, where it will live."""
Answer: TypeAlias = dict[str, Any]
"""Numbers and arrays by name, which are added up name by name."""

_STATES: dict[tuple[str, int], Any] = {}  # of this process
_CLOSED: set[str] = set()
_JOBS = itertools.count()


class Backend(Protocol):
    """Where shards live."""

    def map_reduce(self, function: Callable[[Any, Any], Answer], message: Any) -> Answer:
        """Return the sum over all shards of ``function(state, message)``."""

    def close(self) -> None:
        """Let the states go."""


class Serial:
    """All shards in this process.

    Parameters
    ----------
    makes : sequence of callable
        Each makes the state of a shard.
    """

    def __init__(self, makes: Sequence[Make]) -> None:
        self._makes, self._job = list(makes), f"serial-{next(_JOBS)}"

    def map_reduce(self, function: Callable[[Any, Any], Answer], message: Any) -> Answer:
        """Return the sum over all shards of ``function(state, message)``."""
        asked = (_ask(self._job, k, make, function, message) for k, make in enumerate(self._makes))
        result: Answer = tree_sum([*asked])
        return result

    def close(self) -> None:
        """Let the states go."""
        _release(self._job)


class Processes:
    """Shards in processes of this machine, each always in the same one, with one BLAS thread.

    Parameters
    ----------
    makes : sequence of callable
        Each makes the state of a shard; they and all messages are pickled.
    processes : int
        How many processes.
    """

    def __init__(self, makes: Sequence[Make], processes: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._makes, self._job = list(makes), f"processes-{next(_JOBS)}"
        self._pools = [ProcessPoolExecutor(1, context) for _ in range(min(processes, len(self._makes)))]

    def map_reduce(self, function: Callable[[Any, Any], Answer], message: Any) -> Answer:
        """Return the sum over all shards of ``function(state, message)``."""
        pools = itertools.cycle(self._pools)
        futures = [
            pool.submit(_ask, self._job, k, make, function, message)
            for k, (make, pool) in enumerate(zip(self._makes, pools, strict=False))
        ]
        try:
            result: Answer = tree_sum([future.result() for future in futures])
        except BrokenProcessPool as error:
            raise RuntimeError(
                "a process with parts of the table ended. If it never began: a script that asks for processes must do "
                "so under `if __name__ == '__main__':`, since each of them imports it. Else it was killed, perhaps for "
                "memory: take fewer processes or inducing cases."
            ) from error
        return result

    def close(self) -> None:
        """End the processes."""
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)


class Dask:
    """Shards on the workers of a Dask cluster.

    Parameters
    ----------
    makes : sequence of callable
        Each makes the state of a shard, on its worker. If a worker is lost, its shards are made again on another one.
    client : distributed.Client
        The cluster.
    """

    def __init__(self, makes: Sequence[Make], client: Any) -> None:
        self._makes: list[Any] = list(makes)
        self._client, self._job = client, f"dask-{id(self)}-{next(_JOBS)}"
        self._where: list[str | None] = [None] * len(self._makes)
        # partitions of a Dask frame stay on its workers
        makes = self._makes
        self._data = [client.compute(make.delayed) if hasattr(make, "delayed") else None for make in makes]
        self._makes = [replace(make, delayed=None) if hasattr(make, "delayed") else make for make in makes]

    def map_reduce(self, function: Callable[[Any, Any], Answer], message: Any) -> Answer:
        """Return the sum over all shards of ``function(state, message)``."""
        client = self._client
        client.wait_for_workers(1)
        workers = sorted(client.nthreads())
        for k, where in enumerate(self._where):
            if where not in workers:  # at first, or because it was lost
                self._where[k] = workers[k % len(workers)]
        # a task, which is run again where a worker is lost; to scatter would wait for that worker
        sent = client.submit(_itself, message, pure=False)
        answers = [
            client.submit(
                _ask, self._job, k, make, function, sent, data, workers=[where], allow_other_workers=True, pure=False
            )
            for k, (make, where, data) in enumerate(zip(self._makes, self._where, self._data, strict=True))
        ]
        result: Answer = tree_sum(answers, partial(client.submit, _added, pure=False)).result()
        return result

    def close(self) -> None:
        """Let the states and the partitions go."""
        self._data = []
        from distributed import fire_and_forget

        for worker in self._client.nthreads():  # as tasks: nothing waits for a worker that is lost
            released = self._client.submit(_release, self._job, workers=[worker], allow_other_workers=True, pure=False)
            fire_and_forget(released)


def _added(one: Answer, other: Answer) -> Answer:
    return {name: one[name] + other[name] for name in one}


def tree_sum(answers: Sequence[Any], add: Callable[[Any, Any], Any] = _added) -> Any:
    """Return the sum of answers, in pairs and in order, so that it is the same whoever adds."""
    level = list(answers)
    while len(level) > 1:
        level = [add(*level[k : k + 2]) if k + 1 < len(level) else level[k] for k in range(0, len(level), 2)]
    return level[0]


def _itself(message: Any) -> Any:
    return message


def _ask(
    job: str, number: int, make: Any, function: Callable[[Any, Any], Answer], message: Any, data: Any = None
) -> Answer:
    with one_thread_if_small(0):  # a core for each worker
        key = job, number
        state = _STATES.get(key)
        if state is None:
            state = make() if data is None else make(data)
            if job not in _CLOSED:  # as it may be when a slow first reading ends
                _STATES[key] = state
        return function(state, message)


def _release(job: str) -> None:
    _CLOSED.add(job)
    for key in [key for key in _STATES if key[0] == job]:
        del _STATES[key]
