"""PyTensor graphs as NumPy functions: what a graph depends on by name, and compiling it at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.rewriting.basic import in2out, node_rewriter
from pytensor.scalar.basic import Clip
from pytensor.tensor.elemwise import Elemwise
from pytensor.tensor.random.op import RandomVariable
from pytensor.tensor.rewriting.ofg import inline_ofg_node


@node_rewriter([Elemwise, OpFromGraph])  # type: ignore[untyped-decorator]
def _for_numpy(_: FunctionGraph, node: Apply) -> list[Variable] | None:
    """Write out what has no counterpart in NumPy: clip, which would be a loop, and graphs that would be compiled."""
    if isinstance(node.op, OpFromGraph):
        return inline_ofg_node(node)  # type: ignore[no-any-return]
    if isinstance(node.op.scalar_op, Clip):
        value, lowest, highest = node.inputs
        return [pt.minimum(pt.maximum(value, lowest), highest)]
    return None


INTERPRETED = Mode(linker="py", optimizer=in2out(_for_numpy))
"""NumPy, operation by operation: hardly anything to rewrite or compile, which is what takes PyTensor seconds."""


def free_inputs(outputs: Sequence[Variable]) -> dict[str, Variable]:
    """Return by name what must be known before ``outputs`` can be computed: random variables and free tensors.

    What a random variable depends on itself does not count. Constants and shared variables (data) have values.
    """
    found: dict[str, Variable] = {}
    seen: set[Variable] = set()
    waiting = list(reversed(outputs))
    while waiting:
        variable = waiting.pop()
        if variable in seen or isinstance(variable, Constant | SharedVariable):
            continue
        seen.add(variable)
        made_by = variable.owner
        if made_by is not None and not isinstance(made_by.op, RandomVariable | SymbolicRandomVariable):
            waiting += reversed(made_by.inputs)
            continue
        if not variable.name:
            raise ValueError(f"{variable} has no name, by which it could be set: write pt.scalar('lengthscale').")
        if variable.name in found:
            raise ValueError(f"two variables have the name {variable.name!r}. Rename one.")
        found[variable.name] = variable
    return found


def interpret(inputs: Sequence[Variable], outputs: Sequence[Variable]) -> Callable[..., list[Any]]:
    """Return ``outputs`` as a function of NumPy arrays, ready in some milliseconds; it runs at the speed of NumPy."""
    function = pytensor.function(list(inputs), list(outputs), mode=INTERPRETED, on_unused_input="ignore")
    return function  # type: ignore[no-any-return]
