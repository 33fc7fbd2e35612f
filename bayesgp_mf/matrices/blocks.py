"""Many cases, a few at a time: what is worked out for each of them need never be there for all."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 1024
"""Cases handled at once, where nothing else is said: their rows stay in the processor's cache."""


def blocks(n: int, size: int | None = None) -> Iterator[slice]:
    """Return slices of at most `BLOCK` cases, or of another ``size``, that make up all ``n``."""
    step = BLOCK if size is None else size
    return (slice(start, min(start + step, n)) for start in range(0, n, step))


def blocks_by_size(sizes: NDArray[Any], entries: float) -> Iterator[NDArray[np.intp]]:
    """Yield numbers of cases that are handled at once, those of similar size together.

    So many, at least one, that their number times the largest size ``sizes (n,)`` among them is at most ``entries``.
    """
    order, start = np.argsort(sizes, kind="stable"), 0
    while start < order.size:
        end = start + 1
        while end < order.size and (end + 1 - start) * sizes[order[end]] <= entries:
            end += 1
        yield order[start:end]
        start = end
