"""What stands between an algorithm and the machines it runs on, with two verbs.

``map_reduce`` sends a message to shards. Each has a state that lives where its rows live and is made when it is first
asked there; each answers with numbers, which are added up as a tree in the order of the shards. ``map`` does tasks that
know nothing of each other. Neither result depends on who computed what, to the last bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Protocol

from bayesgp_mf.parallel.cluster import Dask
from bayesgp_mf.parallel.processes import Processes
from bayesgp_mf.parallel.worker import Answer, Make, ask, release, tree_sum

_JOBS = itertools.count()


class Backend(Protocol):
    """Where shards live and tasks are done."""

    def map_reduce(self, function: Callable[[Any, Any], Answer], message: Any) -> Answer:
        """Return the sum over all shards of ``function(state, message)``."""

    def map(
        self, function: Callable[[Any, Any], Any], items: Iterable[Any], common: Any = None, *, ordered: bool = True
    ) -> Generator[Any, None, None]:
        """Yield ``function(common, item)`` for each item, in their order, or as they are ready.

        ``common`` is sent to each worker once. Few tasks are in flight, and items are taken as they are begun. An error
        in a task is raised here. Closing the generator, and Ctrl-C, cancel what is in flight; a worker that is lost is
        made up for.
        """

    def close(self) -> None:
        """Let the states go."""


class Serial:
    """All shards and tasks in this process; tasks with as many BLAS threads as whoever asks has.

    Parameters
    ----------
    makes : sequence of callable
        Each makes the state of a shard.
    """

    def __init__(self, makes: Sequence[Make] = ()) -> None:
        self._makes, self._job = list(makes), f"serial-{next(_JOBS)}"

    def map_reduce(self, function: Callable[[Any, Any], Answer], message: Any) -> Answer:
        """Return the sum over all shards of ``function(state, message)``."""
        answers = (ask(self._job, k, make, function, message) for k, make in enumerate(self._makes))
        result: Answer = tree_sum([*answers])
        return result

    def map(
        self, function: Callable[[Any, Any], Any], items: Iterable[Any], common: Any = None, *, ordered: bool = True
    ) -> Generator[Any, None, None]:
        """Yield ``function(common, item)`` for each item, in their order."""
        return (function(common, item) for item in items)

    def close(self) -> None:
        """Let the states go."""
        release(self._job)


def backend(processes: int = 1, client: Any = None, makes: Sequence[Make] = ()) -> Backend:
    """Return where to compute: on a Dask cluster, without one in processes of this machine, and for one process here.

    Raises
    ------
    ValueError
        If ``client`` is no client of Dask.
    """
    check_client(client)
    if client is not None:
        return Dask(makes, client)
    return Processes(makes, processes) if processes > 1 else Serial(makes)


def check_client(client: Any) -> None:
    """Raise a ValueError if what should be a client of Dask is none."""
    if client is not None and not (hasattr(client, "submit") and hasattr(client, "nthreads")):
        raise ValueError(f"client must be a distributed.Client, connected to a Dask cluster, or None, got {client!r}.")
    status = getattr(client, "status", "running")
    if status not in ("running", "connecting", "newly-created"):
        raise ValueError(f"client is {status}. Connect anew, client=distributed.Client(address), or leave it out.")
