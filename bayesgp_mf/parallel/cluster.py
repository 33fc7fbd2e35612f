"""Shards and tasks on the workers of a Dask cluster."""

from __future__ import annotations

import itertools
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

from bayesgp_mf.parallel import worker

IN_FLIGHT = 2
"""Tasks for each thread of a worker, so that none waits for the next one to come."""
LOOK_SECONDS = 1.0
"""Between two looks at how many workers there are."""
NO_WORKER_SECONDS = 10.0
"""Without a worker, after which that is said; some clusters take long to get one."""
PAUSED_SECONDS = 30.0
"""For which a worker with shards may be paused: Dask pauses one whose memory is nearly full, and shards do not end."""
RELEASE_SECONDS = 2.0
"""How long is waited for workers to let go of what they have."""
TRIES = 10
"""A message that so often lost a worker on its way is given up."""
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

    def __init__(self, makes: Sequence[worker.Make], client: Any) -> None:
        self._client, self._job = client, f"dask-{id(self)}-{next(_JOBS)}"
        self._rejoin = _left_pool()
        self._looked, self._paused = time.monotonic(), dict[str, float]()
        self._where: list[str | None] = [None] * len(makes)
        # partitions of a Dask frame stay on its workers
        every: list[Any] = list(makes)
        self._data = [client.compute(make.delayed) if hasattr(make, "delayed") else None for make in every]
        self._makes = [replace(make, delayed=None) if hasattr(make, "delayed") else make for make in every]

    def map_reduce(self, function: Callable[[Any, Any], worker.Answer], message: Any) -> worker.Answer:
        """Return the sum over all shards of ``function(state, message)``.

        A shard is asked where its state is. If Dask gives that task to another worker, because one had nothing to do
        or is lost, that one does not make the state again but says so, and all are asked once more; those that have
        answered a message have the answer ready.
        """
        client, lost = self._client, 0
        with _in_words(client), self._naming_parts():
            while True:
                self._wait_for_workers()
                workers = sorted(client.nthreads())
                gone = [where for where in self._where if where is not None and where not in workers]
                lost += bool(gone)
                if lost > TRIES:
                    raise RuntimeError(
                        f"workers of the cluster were lost {lost} times in the same piece of work. {_TOO_SMALL}"
                    )
                for k, where in enumerate(self._where):
                    if where not in workers:  # at first, or because it was lost
                        self._where[k] = workers[k % len(workers)]
                sent = self._sent(message)
                answers = []
                for k, (make, where, data) in enumerate(zip(self._makes, self._where, self._data, strict=True)):
                    call = (_ask_at, where, self._job, k, make, function, sent, data)
                    answers.append(client.submit(*call, workers=[where], allow_other_workers=True, pure=False))
                try:
                    result = self._result(worker.tree_sum(answers, partial(client.submit, _added_if_all, pure=False)))
                finally:
                    for future in (sent, *answers):
                        future.release()
                if result is not None:
                    return result
                self._check_not_paused()
                time.sleep(0.05)  # nobody is asked in a circle as fast as possible

    @contextmanager
    def _naming_parts(self) -> Generator[None, None, None]:
        """Name the partition that Dask could not compute, where its error comes from all that needs it."""
        try:
            yield
        except Exception as error:
            for make, data in zip(self._makes, self._data, strict=True):
                if data is not None and data.status == "error":
                    raise worker.uncomputed(make.name, data.exception()) from error
            raise

    def _wait_for_workers(self) -> None:
        if not self._client.nthreads():
            try:
                self._client.wait_for_workers(1, timeout=NO_WORKER_SECONDS)
            except TimeoutError:
                warnings.warn(
                    "the Dask cluster has no workers. They are waited for: start some, as by cluster.scale(2), or "
                    "interrupt.",
                    stacklevel=2,
                )
                self._client.wait_for_workers(1)

    def _result(self, future: Any) -> worker.Answer | None:
        """Return what a future has, or raise an error where nobody will ever compute it."""
        result: worker.Answer | None
        try:
            while not future.done():
                try:
                    result = future.result(timeout=LOOK_SECONDS)
                    return result
                except TimeoutError:  # of this look, or of the work itself: it may have ended at this very moment
                    self._check_not_paused()
            result = future.result()
            return result
        finally:
            future.release()

    def _check_not_paused(self) -> None:
        """Raise a RuntimeError if a worker with shards has been paused for long."""
        now = time.monotonic()
        if now - self._looked < LOOK_SECONDS:
            return
        paused = {*self._where} & {*self._client.run_on_scheduler(_paused)}
        self._looked, self._paused = now, {where: self._paused.get(where, now) for where in paused if where}
        if any(now - since > PAUSED_SECONDS for since in self._paused.values()):
            raise RuntimeError(
                f"Dask has paused {sorted(self._paused)}, since their memory is nearly full, and what fills it are the "
                f"shards. {_TOO_SMALL}"
            )

    def map(
        self, function: Callable[[Any, Any], Any], items: Iterable[Any], common: Any = None, *, ordered: bool = True
    ) -> Generator[Any, None, None]:
        """Yield ``function(common, item)`` for each item, of two at a time for each thread of the workers."""
        self._wait_for_workers()
        crew, sent = _Crew(self._client), self._sent(common)
        return worker.in_order(
            lambda item: crew.submit(worker.alone, function, sent, item),
            items,
            crew.n_threads,
            self._client.cancel,
            ordered=ordered,
            take=_taken,
        )

    def close(self) -> None:
        """Let the states and the partitions go."""
        self._data = []
        self._rejoin()
        if not self._makes or self._client.status != "running":
            return
        from distributed import fire_and_forget, wait

        released = [
            self._client.submit(worker.release, self._job, workers=[address], allow_other_workers=True, pure=False)
            for address in self._client.nthreads()
        ]
        try:  # a cluster that is closed next would tell of tasks that it had to give up
            wait(released, timeout=RELEASE_SECONDS)
        except TimeoutError:  # a worker was lost, or is busy: nothing waits for it
            fire_and_forget(released)

    def _sent(self, message: Any) -> Any:
        """Return a message that travels to each worker once.

        It is a task, which is run again where a worker is lost; to scatter would wait for that worker.
        """
        import dask

        # Dask warns of large graphs, as of data that were better read by the workers; these are nowhere but here
        threshold = {"distributed.admin.large-graph-warning-threshold": "1 TiB"}
        with dask.config.set(threshold), worker.refused_as_unsent():
            return self._client.submit(_itself, message, pure=False)


_TOO_SMALL = "Take workers with more memory or more of them, parts of fewer rows, or fewer inducing cases."


def _left_pool() -> Callable[[], None]:
    """Give up the place of the task that asks, if one does, and return how to come back.

    A task that keeps its place while it waits for others waits for ever where they are to run in that place.
    """
    from distributed import get_worker, rejoin, secede

    try:
        get_worker()
        secede()
    except (
        ValueError,
        KeyError,
        AttributeError,
    ):  # no task; one that has left, as in a worker_client; one in no thread
        return lambda: None
    back: Callable[[], None] = rejoin
    return back


@contextmanager
def _in_words(client: Any) -> Generator[None, None, None]:
    """Say in words that the client was closed, or that workers were lost, where Dask raises what followed from that."""
    from distributed import KilledWorker

    try:
        yield
    except KilledWorker as error:
        raise RuntimeError(
            f"workers of the cluster were lost in the same piece of work: {error}. {_TOO_SMALL}"
        ) from error
    except Exception as error:
        if client.status == "running":
            raise
        raise RuntimeError(
            f"client is {client.status}: it, or its cluster, was closed before the work was done. Connect anew, and "
            "call again."
        ) from error


def _paused(dask_scheduler: Any) -> list[str]:
    """Return the addresses of the workers that take no tasks, as the scheduler knows them."""
    return [address for address, state in dask_scheduler.workers.items() if state.status.name == "paused"]


class _Crew:
    """The workers, which come and go, and what each has to do.

    Where a task goes is said here: Dask would give all to the worker that has what they share, until others steal some.
    """

    def __init__(self, client: Any) -> None:
        self._client, self._seen = client, -LOOK_SECONDS
        self._threads: dict[str, int] = {}
        self._given: dict[str, list[Any]] = {}

    def n_threads(self) -> int:
        """Return how many tasks may be in flight."""
        now = time.monotonic()
        if now - self._seen >= LOOK_SECONDS:
            self._seen, self._threads = now, dict(self._client.nthreads())
        return max(1, IN_FLIGHT * sum(self._threads.values()))

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Begin a task on the worker with the least to do, or on another if that one is lost."""
        for each in self._threads:
            self._given[each] = [future for future in self._given.get(each, ()) if not future.done()]
        least = min(self._threads, key=lambda each: len(self._given[each]) / self._threads[each], default=None)
        where = None if least is None else [least]
        future = self._client.submit(
            function, *arguments, workers=where, allow_other_workers=where is not None, pure=False
        )
        if least is not None:
            self._given[least].append(future)
        return future


def _taken(future: Any) -> Any:
    """Return the result of a future, and let it go.

    As long as a client knows of one that failed it holds its error, and that holds all frames it went through, with the
    futures and the data in these.
    """
    try:
        return future.result()
    finally:
        future.release()


def _ask_at(where: str, job: str, number: int, *rest: Any) -> worker.Answer | None:
    """Return the answer of a shard, or None if its state is not here and belongs elsewhere."""
    from distributed import get_worker

    if get_worker().address != where and not worker.has_state(job, number):
        return None
    return worker.ask(job, number, *rest)


def _added_if_all(one: worker.Answer | None, other: worker.Answer | None) -> worker.Answer | None:
    return None if one is None or other is None else worker.added(one, other)


def _itself(message: Any) -> Any:
    return message
