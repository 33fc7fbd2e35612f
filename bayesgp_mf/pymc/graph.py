"""PyTensor graphs as NumPy functions: what a graph depends on by name, and compiling it at once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from importlib.util import find_spec
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
from pytensor.graph.traversal import walk
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

    def is_root(variable: Variable) -> bool:
        made_by = variable.owner
        drawn = made_by is not None and isinstance(made_by.op, RandomVariable | SymbolicRandomVariable)
        return drawn or made_by is None or variable in known

    def sources(variable: Variable) -> Iterable[Variable]:
        return () if is_root(variable) else reversed(variable.owner.inputs)

    every = walk(reversed(outputs), sources, bfs=False)
    return [variable for variable in every if is_root(variable) and not isinstance(variable, Constant)]


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


class Function:
    """A graph as a NumPy function of inputs, and of what else it depends on by name, compiled when first used."""

    def __init__(self, inputs: Sequence[Variable], outputs: Sequence[Variable]) -> None:
        self._inputs, self._outputs = inputs, outputs
        found = free_inputs(outputs)
        self.parameters = {name: variable for name, variable in found.items() if variable not in inputs}

    @cached_property
    def _compiled(self) -> Callable[..., list[Any]]:
        return interpret([*self._inputs, *self.parameters.values()], self._outputs)

    def __call__(self, arrays: Sequence[Any], values: Mapping[str, Any]) -> list[Any]:
        """Return the outputs at arrays, one for each input, and at values of the parameters."""
        return list(self._compiled(*arrays, *(values[name] for name in self.parameters)))


class NumpyOp(Op):  # type: ignore[misc]
    """An operation whose outputs are made with NumPy, by `_results`."""

    def _results(self, *inputs: Any) -> Sequence[Any]:
        raise NotImplementedError

    def perform(self, node: Apply, inputs: Sequence[Any], output_storage: Sequence[list[Any]]) -> None:
        """Store the outputs, in memory of their own: PyTensor may write into it."""
        for output, storage, result in zip(node.outputs, output_storage, self._results(*inputs), strict=True):
            storage[0] = np.array(result, dtype=output.type.dtype, order="C")

    def L_op(self, *args: Any) -> Any:  # noqa: N802  (the name of `pullback` in PyTensor 2)
        """Return the derivatives in the inputs."""
        return self.pullback(*args)


class FloatOp(NumpyOp):
    """One of float64 tensors, the shapes of whose outputs follow from those of the inputs."""

    def _check(self, tensors: list[Variable]) -> None:
        """Raise a ValueError if the inputs are none of this operation."""

    def _output_shapes(self, shapes: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        raise NotImplementedError

    def make_node(self, *inputs: Any) -> Apply:
        """Return the application to the inputs in order."""
        tensors = [pt.cast(pt.as_tensor_variable(value), "float64") for value in inputs]
        self._check(tensors)
        shapes = self._output_shapes([tensor.type.shape for tensor in tensors])
        return Apply(self, tensors, [pt.tensor(dtype="float64", shape=shape) for shape in shapes])

    def infer_shape(self, *args: Any) -> list[tuple[Any, ...]]:
        """Return the shapes of the outputs; the last argument holds those of the inputs, in old and new PyTensor."""
        return self._output_shapes(args[-1])


if find_spec("numba") is not None:  # it comes with nutpie and with PyMC 6, not with PyMC 5
    from pytensor.link.numba.dispatch.basic import generate_fallback_impl, numba_funcify

    @numba_funcify.register(NumpyOp)  # type: ignore[untyped-decorator]
    def _call_python(op: Any, node: Apply, **kwargs: Any) -> Any:
        """Return the call back to Python, without PyTensor's warning that it does so: it costs 0.05 ms."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Numba will use object mode")
            return generate_fallback_impl(op, node, **kwargs)


class Interpreted(NumpyOp):
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

    def _results(self, *inputs: Any) -> Sequence[Any]:
        return self._function(*inputs)

    def pullback(self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]) -> Any:
        """Raise a NotImplementedError."""
        raise NotImplementedError(
            "what is drawn after sampling cannot be differentiated. Sample first, and only then call conditional(...) "
            "and pm.sample_posterior_predictive."
        )


def interpreted(outputs: Sequence[Variable], known: Collection[Variable] = ()) -> list[Variable]:
    """Return ``outputs``, computed by one operation from their `roots`, which has no derivative."""
    inputs = roots(outputs, known)
    return list(Interpreted(inputs, outputs)(*inputs, return_list=True))
