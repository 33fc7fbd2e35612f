"""Evidence times prior as a PyTensor operation, for samplers of PyMC."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any
from weakref import WeakValueDictionary

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.graph.basic import Apply, Variable
from pytensor.graph.op import Op

from bayesgp_mf.errors import LowRankError
from bayesgp_mf.hyper import EvidenceScore, Objective, Target
from bayesgp_mf.hyper.result import Advance
from bayesgp_mf.hyper.scores import KNOWN
from bayesgp_mf.pymc.op import FAILURES
from bayesgp_mf.types import Array

_operations: WeakValueDictionary[int, LogTarget] = WeakValueDictionary()


def _operation(number: int) -> LogTarget:
    return _operations[number]


class LogTarget(Op):  # type: ignore[misc]
    """Log evidence plus log prior as a PyTensor operation of the free logarithms: ``[value, gradient (p,)]``.

    Where there is no solution the value is -inf and the gradient zero. It has no memory but its counts: each solution
    starts from the prior. Each operation counts for itself, so that no two are equal, and a copy is the same one.
    """

    def __init__(self, target: Target, advance: Advance) -> None:
        self.target, self.advance = target, advance
        self.n_evaluations = 0
        self.n_failures = 0
        self._counting = threading.Lock()  # chains of nutpie are threads
        _operations[id(self)] = self

    def __reduce__(self) -> tuple[Any, ...]:
        # numba pickles what it calls back, in the same process, and what a copy of the operation counts would be lost
        return _operation, (id(self),)

    def make_node(self, log_free: Any) -> Apply:
        """Return the application to the free logarithms ``(p,)``."""
        log_free = pt.as_tensor_variable(log_free, dtype="float64")
        return Apply(self, [log_free], [pt.dscalar(), pt.tensor(dtype="float64", shape=(self.target.start.size,))])

    def infer_shape(self, *args: Any) -> list[tuple[Any, ...]]:
        """Return the shapes of the outputs; the last argument holds those of the inputs, in old and new PyTensor."""
        return [(), args[-1][0]]

    def perform(self, node: Apply, inputs: Sequence[Array], output_storage: Sequence[list[Any]]) -> None:
        """Solve, and store the value and the gradient."""
        answer = None
        try:
            with np.errstate(all="ignore"):  # far out something may overflow; what comes of it is checked
                answer = Objective(self.target, EvidenceScore(KNOWN))(inputs[0])
        except (*FAILURES, MemoryError, LowRankError):  # the last two: a rougher kernel than that of the start
            pass  # counted below
        value, gradient = (-np.inf, np.zeros(inputs[0].shape)) if answer is None else answer
        with self._counting:
            self.n_evaluations += 1
            self.n_failures += answer is None
            self.advance(f"{self.n_evaluations} solutions, log target {value:.2f}")
        output_storage[0][0] = np.array(value, dtype=np.float64)
        output_storage[1][0] = np.array(gradient, dtype=np.float64)

    def pullback(self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]) -> Any:
        """Return the derivative in the free logarithms, given that in the value."""
        if not isinstance(cotangents[1].type, DisconnectedType):
            raise NotImplementedError("only the value of LogTarget can be differentiated, and only once.")
        return [cotangents[0] * outputs[1]]

    L_op = pullback  # the name in PyTensor 2
