"""One BLAS thread for small matrices: more only wait for each other, and cost up to a factor of two or three."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from threadpoolctl import ThreadpoolController

SMALL = 1000
"""Cases up to which one thread is the fastest; the developer guide has the times."""


def _from_any_thread(change: Callable[[], Any]) -> Any:
    """Call what changes the limit: from version 3.8 on, threadpoolctl ignores all threads but the first that did."""
    try:
        _let_go()
        return change()
    finally:
        _let_go()


def _let_go() -> None:
    for library in _blas().lib_controllers:
        if hasattr(library, "clear_controlling_thread"):
            library.clear_controlling_thread(force=True)


_lock = threading.Lock()
_inside: list[Any] = []  # one for each that is inside: the first keeps what restores the limit, if there was one to set


@contextmanager
def one_thread_if_small(n: int) -> Iterator[None]:
    """Limit BLAS to one thread while the block runs, if it works on matrices of at most ``SMALL`` rows.

    The limit belongs to the whole process. Where several Python threads ask for it at once, it holds until the last one
    is done, so that each computes what it would alone, to the last bit. Larger work beside them has one thread too.
    """
    if n > SMALL:
        yield
        return
    # the first sets the limit, the last restores what was there: if each did, one could take another's limit for that,
    # and leave one thread for good; if the first restored it, sums of the others would round differently
    with _lock:
        # to ask costs far less than to set and restore what is so already
        needed = not _inside and any(library.num_threads != 1 for library in _blas().lib_controllers)
        _inside.append(_from_any_thread(lambda: _blas().limit(limits=1)) if needed else None)
    try:
        yield
    finally:
        with _lock:
            limit = _inside.pop()
            if limit is not None:
                _from_any_thread(limit.restore_original_limits)


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")  # looks through all loaded libraries: once is enough
