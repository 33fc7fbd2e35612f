"""One BLAS thread for small matrices: more only wait for each other, and cost up to a factor of two or three."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import cache

from threadpoolctl import ThreadpoolController

SMALL = 1000
"""Cases up to which one thread is the fastest; the developer guide has the times."""

_guard = threading.Lock()
_holders = 0
_limit: ExitStack | None = None


@contextmanager
def one_thread_if_small(n: int) -> Iterator[None]:
    """Limit BLAS to one thread while the block runs, if it works on matrices of at most ``SMALL`` rows.

    The limit belongs to the whole process. Where several Python threads ask for it at once, the first to come sets it
    and the last to go restores what was there before. (If each set and restored it, one could take another's limit for
    what was there before, and leave the process with one thread for good.)
    """
    global _holders, _limit  # a limit of the process is state of the process
    if n > SMALL:
        yield
        return
    with _guard:
        if _holders == 0:
            _limit = ExitStack()
            _limit.enter_context(_controller().limit(limits=1, user_api="blas"))
        _holders += 1
    try:
        yield
    finally:
        with _guard:
            _holders -= 1
            if _holders == 0 and _limit is not None:
                _limit.close()
                _limit = None


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()  # looks through all loaded libraries: once is enough
