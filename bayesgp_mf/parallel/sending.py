"""What is sent to other processes, or computed there for a user, may fail in any way: it is said as a ValueError."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import cloudpickle


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
