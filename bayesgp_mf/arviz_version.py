"""Which of its two generations the installed ArviZ is."""

from __future__ import annotations

import importlib.metadata
from functools import cache


@cache
def arviz_major() -> int:
    """Return the major version of the installed ArviZ (0 for 0.2x) without importing it."""
    return int(importlib.metadata.version("arviz").split(".")[0])
