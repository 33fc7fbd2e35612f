"""Online learning: one example after the other, each seen once, or revisited.

Over a stream: `init`, `update` with one example at a time, `finish`. Over a Gram matrix: `Online`, a solver
with the face of the others. `methods` looks inside.
"""

from __future__ import annotations

from bayesgp_mf.online.adf import OnlineState, finish, init, update
from bayesgp_mf.online.solver import Online

__all__ = ["Online", "OnlineState", "finish", "init", "update"]
