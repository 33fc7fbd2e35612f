"""PyTensor graphs as NumPy functions: what a graph depends on by name, and compiling it at once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import SymbolicRandomVariable
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.mode import Mode
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Apply, Constant, Variable
from pytensor.graph.fg import FunctionGraph
from pytensor.graph.op import Op
from pytensor.graph.replace import clone_replace
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


def roots(outputs: Sequence[Variable], known: Collection[Variable] = ()) -> list[Variable]:
    """Return what ``outputs`` are computed from: random variables, data that are shared, free tensors, and ``known``.

    What a random variable depends on itself does not count, nor do constants.
    """
    found: list[Variable] = []
    seen: set[Variable] = set()
    waiting = list(reversed(outputs))
    while waiting:
        variable = waiting.pop()
        if variable in seen or isinstance(variable, Constant):
            continue
        seen.add(variable)
        made_by = variable.owner
        if made_by is None or variable in known or isinstance(made_by.op, RandomVariable | SymbolicRandomVariable):
            found.append(variable)
        else:
            waiting += reversed(made_by.inputs)
    return found


def free_inputs(outputs: Sequence[Variable]) -> dict[str, Variable]:
    """Return by name what must be known before ``outputs`` can be computed: random variables and free tensors.

    What a random variable depends on itself does not count. Constants and shared variables (data) have values.
    """
    found: dict[str, Variable] = {}
    for variable in roots(outputs):
        if isinstance(variable, SharedVariable):
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


class Interpreted(Op):  # type: ignore[misc]
    """A part of a graph as one operation, which runs it with NumPy: a sampler has nothing in it to compile.

    Compiled for each call by itself, as PyTensor would, a covariance function takes up to a minute, and some draws with
    it a second. `interpreted` makes it.

    Parameters
    ----------
    inputs, outputs : sequence of Variable
        Of the part; it is copied.
    """

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        own = [variable.type(name=variable.name) for variable in inputs]
        copied = clone_replace(list(outputs), dict(zip(inputs, own, strict=True)))
        self._types = [output.type for output in outputs]
        self._function = interpret(own, copied)

    def make_node(self, *inputs: Variable) -> Apply:
        """Return the application to what stands for the inputs."""
        return Apply(self, list(inputs), [kind() for kind in self._types])

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Sequence[list[Any]]) -> None:
        """Run the part, and store what it returns."""
        for storage, result in zip(output_storage, self._function(*inputs), strict=True):
            storage[0] = np.array(result)  # a result of a function may be its own memory

    def pullback(self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]) -> Any:
        """Raise a NotImplementedError."""
        raise NotImplementedError(
            "what is drawn after sampling cannot be differentiated. Sample first, and only then call conditional(...) "
            "and pm.sample_posterior_predictive."
        )

    L_op = pullback  # the name in PyTensor 2


def interpreted(outputs: Sequence[Variable], known: Collection[Variable] = ()) -> list[Variable]:
    """Return ``outputs``, computed by one operation from their `roots`, which has no derivative."""
    inputs = roots(outputs, known)
    return list(Interpreted(inputs, outputs)(*inputs, return_list=True))
