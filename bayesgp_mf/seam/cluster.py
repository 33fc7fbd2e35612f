"""Shards and tasks on the workers of a Dask cluster."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from bayesgp_mf.seam.pulling import pulled
from bayesgp_mf.seam.sending import refused_as_unsent
from bayesgp_mf.seam.states import Make, ask, has_state, release
from bayesgp_mf.seam.sums import Answer, added, tree_sum
from bayesgp_mf.seam.worker import alone

IN_FLIGHT = 2
"""Tasks for each thread of a worker, so that none waits for the next one to come."""
LOOK_SECONDS = 1.0
"""Between two looks at how many workers there are."""
_JOBS = itertools.count()


class Dask:
    """Shards and tasks on the workers of a Dask cluster.

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
        """Return the sum over all shards of ``function(state, message)``.

        A shard is asked where its state is. If Dask gives that task to another worker, because one had nothing to do
        or is lost, that one does not make the state again but says so, and all are asked once more; those that have
        answered a message have the answer ready.
        """
        client = self._client
        while True:
            client.wait_for_workers(1)
            workers = sorted(client.nthreads())
            for k, where in enumerate(self._where):
                if where not in workers:  # at first, or because it was lost
                    self._where[k] = workers[k % len(workers)]
            sent = self._sent(message)
            answers = [
                client.submit(
                    _ask_at,
                    where,
                    self._job,
                    k,
                    make,
                    function,
                    sent,
                    data,
                    workers=[where],
                    allow_other_workers=True,
                    pure=False,
                )
                for k, (make, where, data) in enumerate(zip(self._makes, self._where, self._data, strict=True))
            ]
            result: Answer | None = tree_sum(answers, partial(client.submit, _added_if_all, pure=False)).result()
            if result is not None:
                return result

    def map(
        self, function: Callable[[Any, Any], Any], items: Iterable[Any], common: Any = None, *, ordered: bool = True
    ) -> Generator[Any, None, None]:
        """Yield ``function(common, item)`` for each item, of two at a time for each thread of the workers."""
        self._client.wait_for_workers(1)
        crew, sent = _Crew(self._client), self._sent(common)
        return pulled(
            lambda item: crew.submit(alone, function, sent, item),
            items,
            crew.hands,
            self._client.cancel,
            ordered=ordered,
        )

    def close(self) -> None:
        """Let the states and the partitions go."""
        self._data = []
        if not self._makes:
            return
        from distributed import fire_and_forget

        for worker in self._client.nthreads():  # as tasks: nothing waits for a worker that is lost
            released = self._client.submit(release, self._job, workers=[worker], allow_other_workers=True, pure=False)
            fire_and_forget(released)

    def _sent(self, message: Any) -> Any:
        """Return a message that travels to each worker once.

        It is a task, which is run again where a worker is lost; to scatter would wait for that worker.
        """
        import dask

        # Dask warns of large graphs, as of data that were better read by the workers; these are nowhere but here
        threshold = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}
        with dask.config.set(threshold), refused_as_unsent():
            return self._client.submit(_itself, message, pure=False)


class _Crew:
    """The workers, which come and go, and what each has to do.

    Where a task goes is said here: Dask would give all to the worker that has what they share, until others steal some.
    """

    def __init__(self, client: Any) -> None:
        self._client, self._seen = client, -LOOK_SECONDS
        self._threads: dict[str, int] = {}
        self._given: dict[str, list[Any]] = {}

    def hands(self) -> int:
        """Return how many tasks may be in flight."""
        now = time.monotonic()
        if now - self._seen >= LOOK_SECONDS:
            self._seen, self._threads = now, dict(self._client.nthreads())
        return max(1, IN_FLIGHT * sum(self._threads.values()))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Begin a task on the worker with the least to do, or on another if that one is lost."""
        for worker in self._threads:
            self._given[worker] = [future for future in self._given.get(worker, ()) if not future.done()]
        least = min(self._threads, key=lambda worker: len(self._given[worker]) / self._threads[worker], default=None)
        where = None if least is None else [least]
        future = self._client.submit(
            function, *arguments, workers=where, allow_other_workers=where is not None, pure=False
        )
        if least is not None:
            self._given[least].append(future)
        return future


def _ask_at(where: str, job: str, number: int, *rest: Any) -> Answer | None:
    """Return the answer of a shard, or None if its state is not here and belongs elsewhere."""
    from distributed import get_worker

    if get_worker().address != where and not has_state(job, number):
        return None
    return ask(job, number, *rest)


def _added_if_all(one: Answer | None, other: Answer | None) -> Answer | None:
    return None if one is None or other is None else added(one, other)


def _itself(message: Any) -> Any:
    return message
