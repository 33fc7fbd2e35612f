"""A kernel of this package as a covariance function of PyMC, whose parameters may be random variables."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from bayesgp_mf.kernels import Kernel
from bayesgp_mf.pymc.graph import FloatOp
from bayesgp_mf.types import Array

_DIMENSIONS = {
    "gram": (2,),
    "cross": (2, 2),
    "diag": (2,),
    "gram_vjp": (2, 2),
    "cross_vjp": (2, 2, 2),
    "diag_vjp": (2, 1),
    "inputs_vjp": (2, 2, 2),
}
"""Methods of a kernel, and the dimensions of what each takes: inputs, and behind them a derivative to pull back."""


def kernel_to_pymc(kernel: Kernel, **parameters: Any) -> KernelCovariance:
    """Return a covariance function of PyMC that computes with a kernel of this package, with its own gradient.

    Parameters
    ----------
    kernel : Kernel
        Any kernel, also a sum or product. Columns of inputs must be given by position.
    **parameters : float, array_like, random variable or other tensor
        Values that replace parameters of the kernel, by their names in ``kernel.params``. The others keep their
        numbers.

    Returns
    -------
    KernelCovariance
        It adds and multiplies with those of ``pm.gp.cov``, and works where they do. If a parameter is outside its
        domain, such as a length scale below zero, the covariances are NaN, and the density of a `Marginal` is zero.

    Raises
    ------
    ValueError
        If ``kernel`` is not a kernel, or is a `PerClass`; if it has no parameter of that name, or refuses a number.

    Examples
    --------
    >>> import numpy as np, pymc as pm
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.pymc import Marginal, kernel_to_pymc
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> with pm.Model() as model:
    ...     lengthscale = pm.InverseGamma("lengthscale", 3.0, 3.0)
    ...     gp = Marginal(kernel_to_pymc(bgp.kernels.Matern32(variance=4.0), lengthscale=lengthscale))
    ...     y = gp.marginal_likelihood("y", X, X[:, 0] > 0)
    >>> gp.posterior({"lengthscale": 1.0}).predict_proba([[-1.0], [1.0]]).round(2)
    array([0.04, 0.96])
    """
    if not isinstance(kernel, Kernel):
        found = f"the class {kernel.__name__}" if isinstance(kernel, type) else type(kernel).__name__
        raise ValueError(f"kernel must be one of bayesgp_mf.kernels, such as Matern32(), got {found}.")
    if kernel.per_class:
        raise ValueError(
            "models of PyMC here have one latent value for each case, and this kernel is one for each class. Use one "
            "of its kernels."
        )
    unknown = [name for name in parameters if name not in kernel.params]
    if unknown:
        raise ValueError(f"unknown parameter {unknown[0]!r} of the kernel; it has {list(kernel.params)}.")
    tensors = {name: value for name, value in parameters.items() if isinstance(value, Variable)}
    for name, tensor in tensors.items():
        if tensor.type.ndim > 1:
            raise ValueError(
                f"{name} must be one number, or a vector with an entry for each input, got {tensor.type.ndim} "
                "dimensions."
            )
        if None not in tensor.type.shape:
            kernel.replace(**{name: np.ones(tensor.type.shape)})  # a wrong shape is refused now
    return KernelCovariance(kernel.replace(**{k: v for k, v in parameters.items() if k not in tensors}), tensors)


def as_cov_func(cov_func: Any) -> Any:
    """Return a covariance function of PyMC, also of a kernel of this package, or raise a ValueError."""
    return kernel_to_pymc(cov_func) if isinstance(cov_func, Kernel) else cov_func_of_tensors(cov_func)


def cov_func_of_tensors(cov_func: Any) -> Any:
    """Return a covariance function of PyMC, also of a kernel of another package that has its interface.

    That is: called with inputs ``(n, d)``, and perhaps others, it returns their covariances, and ``diag`` of
    inputs their variances, as tensors of PyTensor. The kernels of ptgp are such.

    Raises
    ------
    ValueError
        If it is none.
    """
    if is_cov_func(cov_func):
        return cov_func if isinstance(cov_func, pm.gp.cov.BaseCovariance) else OfOthers(cov_func)
    hint = " That is a kernel of this package already; kernel_to_pymc makes the other of it."
    is_class = isinstance(cov_func, type)
    found = f"the class {cov_func.__name__}: write it with ()" if is_class else type(cov_func).__name__
    raise ValueError(
        f"cov_func must be a covariance function such as pm.gp.cov.ExpQuad(1, ls=1.0), got {found}."
        + (hint if isinstance(cov_func, Kernel) else "")
    )


def is_cov_func(given: Any) -> bool:
    """Tell whether this has the interface of a covariance function of PyMC; scikit-learn's kernels have its names."""
    if isinstance(given, pm.gp.cov.BaseCovariance):
        return True
    if isinstance(given, type | Kernel) or not (callable(given) and callable(getattr(given, "diag", None))):
        return False
    try:
        return isinstance(given(pt.dmatrix("X")), Variable)
    except Exception:  # whatever is said of a tensor by what was made for something else
        return False


class OfAnyInputs(pm.gp.cov.BaseCovariance):  # type: ignore[misc]
    """A covariance function that is not made for a number of inputs, which the sums and products of PyMC ask for."""

    __array_ufunc__ = None  # so that a number of NumPy leaves ``number * covariance`` to it

    def __add__(self, other: Any) -> Combined:
        return Combined(operator.add, self, other)

    def __radd__(self, other: Any) -> Combined:
        return Combined(operator.add, other, self)

    def __mul__(self, other: Any) -> Combined:
        return Combined(operator.mul, self, other)

    def __rmul__(self, other: Any) -> Combined:
        return Combined(operator.mul, other, self)


class OfOthers(OfAnyInputs):
    """The kernel of another package as a covariance function of PyMC."""

    def __init__(self, kernel: Any) -> None:
        self.kernel = kernel
        self.input_dim = getattr(kernel, "input_dim", None)

    def full(self, X: Any, Xs: Any = None) -> Variable:
        """Return the covariances ``(n, n)`` of inputs ``(n, d)``, or ``(n, m)`` with others ``(m, d)``."""
        X, Xs = (None if inputs is None else pt.as_tensor_variable(inputs) for inputs in (X, Xs))
        return self.kernel(X) if Xs is None else self.kernel(X, Xs)

    def diag(self, X: Any) -> Variable:
        """Return the variances ``(n,)`` at inputs ``(n, d)``."""
        return self.kernel.diag(pt.as_tensor_variable(X))

    def __repr__(self) -> str:
        return type(self.kernel).__name__


class Combined(OfAnyInputs):
    """Two covariance functions, or one and a number that may be random, added or multiplied."""

    def __init__(self, combine: Callable[[Any, Any], Any], *parts: Any) -> None:
        self._combine, self._parts = combine, parts
        for part in parts:
            if not isinstance(part, pm.gp.cov.BaseCovariance) and pt.as_tensor_variable(part).type.ndim:
                raise ValueError(
                    "a covariance function is added to, or multiplied with, another one or one number, got one with "
                    f"{pt.as_tensor_variable(part).type.ndim} dimensions."
                )

    def full(self, X: Any, Xs: Any = None) -> Variable:
        """Return the covariances ``(n, n)`` of inputs ``(n, d)``, or ``(n, m)`` with others ``(m, d)``."""
        return self._combine(*(part(X, Xs) if callable(part) else part for part in self._parts))

    def diag(self, X: Any) -> Variable:
        """Return the variances ``(n,)`` at inputs ``(n, d)``."""
        return self._combine(*(part(X, diag=True) if callable(part) else part for part in self._parts))


class KernelCovariance(OfAnyInputs):
    """The covariance function of a kernel at tensors; `kernel_to_pymc` makes it."""

    def __init__(self, kernel: Kernel, tensors: Mapping[str, Variable]) -> None:
        self.kernel = kernel
        self._names, self._tensors = tuple(tensors), tuple(tensors.values())

    def full(self, X: Any, Xs: Any = None) -> Variable:
        """Return the covariances ``(n, n)`` of inputs ``(n, d)``, or ``(n, m)`` with others ``(m, d)``."""
        if Xs is None:
            return AtKernel(self.kernel, self._names, "gram")(X, *self._tensors)
        return AtKernel(self.kernel, self._names, "cross")(X, Xs, *self._tensors)

    def diag(self, X: Any) -> Variable:
        """Return the variances ``(n,)`` at inputs ``(n, d)``."""
        return AtKernel(self.kernel, self._names, "diag")(X, *self._tensors)

    def __repr__(self) -> str:
        return f"KernelCovariance({self.kernel!r}, {', '.join(self._names)})"


class AtKernel(FloatOp):
    """What a method of a kernel returns, as an operation of its arguments and of the parameters that are random.

    Covariances can be differentiated: a method ``..._vjp`` has the derivative in the parameters, or in the second of
    two inputs, given that in the covariances, which is its last argument.
    """

    __props__: tuple[str, ...] = ("kernel", "names", "method")

    def __init__(self, kernel: Kernel, names: tuple[str, ...], method: str) -> None:
        self.kernel, self.names, self.method = kernel, names, method
        self._dimensions = _DIMENSIONS[method]

    def _check(self, tensors: list[Variable]) -> None:
        """Raise a ValueError if inputs ``(n, d)``, or what is to be pulled back, have another number of dimensions."""
        for tensor, ndim in zip(tensors, self._dimensions, strict=False):
            if tensor.type.ndim != ndim:
                raise ValueError(
                    f"X must be a matrix with a row for each case, got {tensor.type.ndim} dimensions. If a vector is "
                    "the one input of all cases, pass X[:, None]."
                )

    def _output_shapes(self, shapes: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
        count = len(self._dimensions)
        if self.method == "inputs_vjp":
            return [shapes[1]]
        if self.method.endswith("_vjp"):
            return list(shapes[count:])
        cases = [shape[0] for shape in shapes[:count]]
        return [tuple(2 * cases if self.method == "gram" else cases)]

    def _results(self, *inputs: Array) -> Sequence[Array]:
        """Return what the kernel says at these parameters."""
        count = len(self._dimensions)
        arrays, values = inputs[:count], dict(zip(self.names, inputs[count:], strict=True))
        try:
            kernel = self.kernel.replace(**values) if values else self.kernel
        except ValueError:
            if all(np.all(np.isfinite(value) & (value > 0.0)) for value in values.values()):  # so it is the shape
                raise
            # nothing depends on covariances whose density was taken for zero
            nothing = self.method.endswith("_vjp") and not np.any(arrays[-1])
            return [np.full(s, 0.0 if nothing else np.nan) for s in self._output_shapes([x.shape for x in inputs])]
        with np.errstate(all="ignore"):  # far out something may overflow; what comes of it is checked by who asked
            found = getattr(kernel, self.method)(*arrays)
        return [found[name] for name in self.names] if isinstance(found, dict) else [found]

    def pullback(self, inputs: Sequence[Variable], outputs: Sequence[Variable], cotangents: Sequence[Variable]) -> Any:
        """Return the derivatives in inputs and parameters, given that in the covariances.

        Those that are not asked for have no part in the graph, and need not be known.
        """
        if self.method.endswith("_vjp"):
            raise NotImplementedError("covariances can be differentiated once: a kernel has no second derivatives.")
        count = len(self._dimensions)
        arrays, values, bar = inputs[:count], inputs[count:], cotangents[0]
        if self.method == "gram":
            bar = 0.5 * (bar + bar.T)
        of_values = AtKernel(self.kernel, self.names, f"{self.method}_vjp")(*arrays, bar, *values, return_list=True)
        move = AtKernel(self.kernel, self.names, "inputs_vjp")
        if self.method == "cross":
            first, second = arrays
            return [move(second, first, bar.T, *values), move(first, second, bar, *values), *of_values]
        (X,) = arrays
        square = bar if self.method == "gram" else pt.diag(bar)
        return [2.0 * move(X, X, square, *values), *of_values]
