"""Many cases, a few at a time: what is worked out for each of them need never be there for all."""

from __future__ import annotations

from collections.abc import Iterator

BLOCK = 1024
"""Cases handled at once, where nothing else is said: their rows stay in the processor's cache."""


def blocks(n: int, size: int | None = None) -> Iterator[slice]:
    """Return slices of at most `BLOCK` cases, or of another ``size``, that make up all ``n``."""
    step = BLOCK if size is None else size
    return (slice(start, min(start + step, n)) for start in range(0, n, step))
