"""What a worker keeps between two calls: the states of its shards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.parallel.sums import Answer

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
