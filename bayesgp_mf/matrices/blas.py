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


class _Limit:
    """The limit of the whole process: the first that asks sets it, the last that is done restores what was there.

    If each set and restored it, one could take another's limit for what was there before, and leave the process with
    one thread for good; and if the first restored it, the others would go on with more threads, whose sums round
    differently.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._set: Any = None

    def enter(self) -> None:
        with self._lock:
            # to ask costs far less than to set and restore what is so already
            if self._inside == 0 and any(library.num_threads != 1 for library in _blas().lib_controllers):
                self._set = _from_any_thread(lambda: _blas().limit(limits=1))
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0 and self._set is not None:
                _from_any_thread(self._set.restore_original_limits)
                self._set = None


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


_limit = _Limit()


@contextmanager
def one_thread_if_small(n: int) -> Iterator[None]:
    """Limit BLAS to one thread while the block runs, if it works on matrices of at most ``SMALL`` rows.

    The limit belongs to the whole process. Where several Python threads ask for it at once, it holds until the last one
    is done, so that each computes what it would alone, to the last bit. Larger work beside them has one thread too.
    """
    if n > SMALL:
        yield
        return
    _limit.enter()
    try:
        yield
    finally:
        _limit.leave()


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")  # looks through all loaded libraries: once is enough
