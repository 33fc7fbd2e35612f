"""A solver that ends the process which computes with it."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass

import bayesgp_mf as bgp
from bayesgp_mf.methods import METHODS


@dataclass(frozen=True)
class DiesOnce:
    """TAP that ends its process in the middle of a solve, once; but not this one."""

    mark: str
    here: int
    name: str = "dies"
    gram_gradient, leave_one_out = METHODS["tap"].gram_gradient, METHODS["tap"].leave_one_out

    def solve(self, problem, control=bgp.Control(), start=None):
        if os.getpid() != self.here and not os.path.exists(self.mark):
            open(self.mark, "w").close()
            os.kill(os.getpid(), signal.SIGKILL)
        return METHODS["tap"].solve(problem, control, start)
