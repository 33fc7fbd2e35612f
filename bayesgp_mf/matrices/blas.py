"""One BLAS thread for small matrices: more only wait for each other, and cost up to a factor of two or three."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

SMALL = 1000
"""Cases up to which one thread is the fastest; the developer guide has the times."""

_limit_is_set = threading.Lock()


@contextmanager
def one_thread_if_small(n: int) -> Iterator[None]:
    """Limit BLAS to one thread while the block runs, if it works on matrices of at most ``SMALL`` rows.

    The limit belongs to the whole process. Where several Python threads ask for it at once, the first one sets it
    and restores what was there before; the others leave it alone. (If each set and restored it, one could take
    another's limit for what was there before, and leave the process with one thread for good.)
    """
    if n > SMALL or not _limit_is_set.acquire(blocking=False):
        yield
        return
    try:
        # to ask costs far less than to set and restore what is so already
        if all(library.num_threads == 1 for library in _blas().lib_controllers):
            yield
        else:
            with _blas().limit(limits=1):
                yield
    finally:
        _limit_is_set.release()


@cache
def _blas() -> ThreadpoolController:
    return ThreadpoolController().select(user_api="blas")  # looks through all loaded libraries: once is enough
