"""Learning without an end: batches of cases, what they say kept at a few inputs, saved and resumed.

`sharded`, `sklearn` and figures look inside.
"""

from __future__ import annotations

from bayesgp_mf.streams.learning import LogScore
from bayesgp_mf.streams.stream import Stream

__all__ = ["LogScore", "Stream", "load"]

load = Stream.load
