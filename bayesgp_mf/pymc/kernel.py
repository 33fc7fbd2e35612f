"""A covariance function of PyMC as a kernel of this package, and distributions of PyMC as priors of hyperparameters."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Self

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from numpy.typing import ArrayLike
from pymc.distributions.distribution import support_point
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant, Variable
from pytensor.graph.traversal import graph_inputs

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.kernels.values import positive
from bayesgp_mf.pymc.covariance import OfOthers, cov_func_of_tensors
from bayesgp_mf.pymc.graph import free_inputs, interpret
from bayesgp_mf.types import Array

# simplified by PyTensor but not compiled: ready in 0.1 s, and one evaluation takes less than 0.1 ms
_SIMPLIFIED = Mode(linker="py", optimizer="fast_run")


def _unpickled(kind: Callable[[Any], Any], pickled: bytes) -> Any:
    return kind(cloudpickle.loads(pickled))


class PymcPrior:
    """A distribution of PyMC as a `Prior`; `from_pymc` makes it, and says what is accepted."""

    def __init__(self, distribution: Any) -> None:
        self.distribution = distribution
        self._function = _log_density(distribution)
        self._lock = threading.Lock()  # a function of PyTensor has one place for its results

    def __repr__(self) -> str:
        return f"from_pymc({self.distribution.owner.op})"

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (type(self), cloudpickle.dumps(self.distribution))

    def log_density(self, log_value: Array) -> tuple[Array, Array]:
        """Return the log density with respect to log theta and its derivative in log theta; elementwise.

        Outside of the distribution's support they are -inf and 0.
        """
        log_value = np.asarray(log_value, dtype=np.float64)
        density, slope = np.empty(log_value.shape), np.empty(log_value.shape)
        with self._lock, np.errstate(all="ignore"):  # far out something may overflow; what comes of it is checked
            for index, value in np.ndenumerate(log_value):
                density[index], slope[index] = self._function(value)
        impossible = ~(np.isfinite(density) & np.isfinite(slope))
        density[impossible], slope[impossible] = -np.inf, 0.0
        return density, slope


def from_pymc(distribution: Any) -> PymcPrior:
    r"""Return the prior of a positive parameter from a distribution of PyMC.

    The density of PyMC is one of theta; that of its logarithm, by which all strategies go, is
    :math:`\log p(\log\theta) = \log p(\theta) + \log\theta`.

    Parameters
    ----------
    distribution : TensorVariable
        What ``pm.InverseGamma.dist(5.0, 5.0)`` returns: scalar, continuous, with numbers as parameters. Of a vector
        parameter it holds for each entry. One that reaches below zero, as a normal one does, is cut there, and not
        normalised again.

    Returns
    -------
    PymcPrior
        With ``log_density``, as `Prior` has it.

    Raises
    ------
    ValueError
        If the distribution is none, no scalar or discrete, or has parameters that are random or out of their range.

    Examples
    --------
    >>> import numpy as np
    >>> import pymc as pm
    >>> from bayesgp_mf.pymc.kernel import from_pymc
    >>> density, slope = from_pymc(pm.LogNormal.dist(0.0, 2.0)).log_density(np.array([0.0, 1.0]))
    >>> density.round(4), slope.round(4)  # that of N(0, 2^2) in the logarithm
    (array([-1.6121, -1.7371]), array([ 0.  , -0.25]))
    """
    if not isinstance(distribution, pt.TensorVariable) or distribution.owner is None:
        raise ValueError(f"a prior from PyMC must be a distribution such as pm.Gamma.dist(2, 1), got {distribution!r}.")
    if distribution.type.ndim != 0 or not distribution.type.dtype.startswith("float"):
        raise ValueError(
            "a prior from PyMC must be one continuous distribution without a shape, which holds for each entry of the "
            f"parameter, got type {distribution.type}."
        )
    return PymcPrior(distribution)


def prior_of(name: str, variable: Any) -> PymcPrior:
    """Return the prior of a parameter that is a random variable of a model; of a vector, that of each entry."""
    if variable.type.ndim:
        _check_entries(name, variable)
    prior = PymcPrior(variable)
    value = pt.dscalar("value")
    density = pytensor.function([value], _of_one_entry(variable, value), mode=_SIMPLIFIED)
    if any(np.isfinite(density(-(10.0**power))) for power in range(-3, 4)):
        raise ValueError(
            f"the random variable {name!r} may be negative, but fit looks for the logarithms of parameters. Write the "
            "covariance function in terms of positive ones, or use a pymc.Marginal."
        )
    return prior


def start_of(variable: Any) -> Array:
    """Return the value of a random variable at which PyMC starts a model that has it."""
    return np.asarray(support_point(variable).eval(mode=_SIMPLIFIED), dtype=np.float64)


def _check_entries(name: str, variable: Any) -> None:
    """Raise a ValueError unless the entries of a random vector are independent and have one distribution."""
    operation = variable.owner.op
    parameters = operation.dist_params(variable.owner)
    known = all(isinstance(v, Constant) for v in graph_inputs(parameters))
    same = known and all(np.unique(parameter.eval(mode=_SIMPLIFIED)).size == 1 for parameter in parameters)
    if variable.type.ndim > 1 or operation.ndim_supp > 0 or not same:
        raise ValueError(
            f"the entries of {name!r} must be independent, with one distribution of numbers for all of them, to be "
            "those of a kernel's parameter. Use several random variables, give priors, or use a pymc.Marginal."
        )


def _of_one_entry(distribution: Any, value: Any) -> Any:
    """Return the log density of a number under a distribution, or under that of each entry of a vector."""
    density = pm.logp(distribution, value)
    return density if density.type.ndim == 0 else density[0]


def _log_density(distribution: Any) -> Any:
    """Return the function of log theta that gives log p(log theta) and its derivative."""
    log_value = pt.dscalar("log_value")
    try:
        value = _of_one_entry(distribution, pt.exp(log_value)) + log_value
    except NotImplementedError as error:
        raise ValueError(f"PyMC knows no density of {distribution!r}. Use one of its distributions.") from error
    others = [v for v in graph_inputs([value]) if v is not log_value and not isinstance(v, Constant)]
    if others:
        raise ValueError(
            f"the parameters of a prior from PyMC must be numbers; those of {distribution!r} depend on other variables."
        )
    function = pytensor.function([log_value], [value, pytensor.grad(value, log_value)], mode=_SIMPLIFIED)
    try:
        function(0.0)
    except ParameterValueError as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(f"the parameters of {distribution!r} are out of their range; expected {reason}.") from None
    return function


def kernel_from_pymc(cov_func: Any, **values: ArrayLike) -> PymcKernel:
    """Return a kernel that computes with a covariance function of PyMC.

    Parameters
    ----------
    cov_func : pymc.gp.cov.BaseCovariance
        Any covariance function, also a kernel of ptgp, which has the same interface. Its numbers stay fixed; named
        tensors (``pt.scalar("lengthscale")``, ``pt.vector("lengthscales")``) and random variables become parameters
        under their names.
    **values : array_like
        A value > 0 for each of these parameters.

    Returns
    -------
    PymcKernel
        A kernel with the gradient in its parameters, which works wherever a kernel does. The container of a fit holds
        the values, but not the covariance function, which is a program: `predict` and others need it again.

    Raises
    ------
    ValueError
        If ``cov_func`` is not a covariance function, or the values do not match its parameters.

    Examples
    --------
    >>> import numpy as np, pymc as pm, pytensor.tensor as pt
    >>> from bayesgp_mf.pymc import kernel_from_pymc
    >>> kernel = kernel_from_pymc(pm.gp.cov.Matern52(1, ls=pt.scalar("lengthscale")), lengthscale=2.0)
    >>> kernel
    PymcKernel(Matern52, lengthscale=2.0)
    >>> kernel.gram(np.array([[0.0], [1.0]])).round(4)
    array([[1.    , 0.8286],
           [0.8286, 1.    ]])
    """
    covariance = PymcCovariance(cov_func)
    covariance.check_names(values)
    checked = {name: positive(name, value, vector=True) for name, value in values.items()}
    missing = [name for name in covariance.parameters if name not in checked]
    if missing:
        raise ValueError(
            f"the covariance function depends on {missing[0]!r}: give it a value, {missing[0]}=..., by "
            "pymc.kernel_from_pymc."
        )
    return PymcKernel(covariance, {name: checked[name] for name in covariance.parameters})


def start_from_pymc(cov_func: Any) -> PymcKernel:
    """Return the kernel whose random variables have the values where PyMC, too, would start them."""
    random = {name: v for name, v in PymcCovariance(cov_func).parameters.items() if v.owner is not None}
    return kernel_from_pymc(cov_func, **{name: start_of(variable) for name, variable in random.items()})


class PymcCovariance:
    """A covariance function of PyMC as NumPy functions of inputs and parameters, compiled when first used."""

    def __init__(self, cov_func: Any) -> None:
        self.cov_func = cov_func = cov_func_of_tensors(cov_func)
        self.parameters: dict[str, Variable] = free_inputs([cov_func(pt.dmatrix("X"))])
        self.parameters.pop("X")
        self._functions: dict[str, Callable[..., list[Array]]] = {}

    def __reduce__(self) -> tuple[Any, ...]:  # compiled functions would take longer to copy than to make
        # a random variable of a model has methods of PyMC that pickle alone cannot name
        return _unpickled, (type(self), cloudpickle.dumps(self.cov_func))

    def check_names(self, values: Mapping[str, Any]) -> None:
        """Raise a ValueError if a name is not that of a parameter."""
        unknown = sorted(set(values) - set(self.parameters))
        if unknown:
            has = f"this covariance function has {list(self.parameters)}"
            raise ValueError(f"unknown parameter {unknown[0]!r}; {has}.")

    def check_columns(self, X: Array) -> None:
        """Raise a ValueError if inputs ``(n, d)`` have fewer columns than it was made for; warn if they have more."""
        needed = getattr(self.cov_func, "input_dim", None)  # a constant, and white noise, take any
        columns = np.shape(X)[1]
        if needed is None or columns == needed:
            return
        if columns < needed:
            raise ValueError(f"the covariance function was made for {needed} columns, but X has {columns}.")
        warnings.warn(  # as PyMC does, which cannot see it here
            f"the covariance function uses only {needed} of the {columns} columns of X. Raise its input_dim, or "
            "name those that are meant in active_dims.",
            UserWarning,
            stacklevel=3,
        )

    def arguments(self, values: Mapping[str, ArrayLike]) -> list[Array]:
        """Return parameter values in order, in the types that the functions take; ValueError for a wrong dimension."""
        arrays = {name: np.asarray(values[name], dtype=variable.dtype) for name, variable in self.parameters.items()}
        for name, array in arrays.items():
            if array.ndim != self.parameters[name].ndim:
                raise ValueError(f"{name} must have {self.parameters[name].ndim} dimensions, got shape {array.shape}.")
        return list(arrays.values())

    def __call__(self, method: str, *arrays: Array) -> list[Array]:
        """Return what a method of a kernel says of arrays: inputs, what to contract with, and the parameters.

        The covariances of inputs with themselves come, and are contracted, with their diagonal beside them.
        """
        if method not in self._functions:
            self._functions[method] = self._function(method)
        return self._functions[method](*arrays)

    def _function(self, method: str) -> Callable[..., list[Array]]:
        verb, _, derivative = method.replace("inputs", "cross").partition("_")
        X, cov_func, parameters = pt.dmatrix("X"), self.cov_func, list(self.parameters.values())
        if verb == "cross":
            arrays = [X, pt.dmatrix("other")]
            outputs = [cov_func(*arrays)]
        else:
            arrays, diagonal = [X], cov_func(X, diag=True)
            outputs = [cov_func(X), diagonal] if verb == "gram" else [diagonal]
        if derivative:
            known = {output: pt.tensor(dtype="float64", shape=(None,) * output.ndim) for output in outputs}
            variables = arrays[1:] if method == "inputs_vjp" else parameters
            outputs = pytensor.grad(None, variables, known_grads=known, disconnected_inputs="ignore")
            arrays += known.values()
        return interpret([*arrays, *parameters], outputs)


class PymcKernel(Kernel):
    """A covariance function of PyMC at given parameters; `kernel_from_pymc` makes one.

    Parameters
    ----------
    covariance : PymcCovariance
        The compiled functions, which all kernels made by `replace` share.
    values : dict
        A value for each parameter, unchecked.
    """

    def __init__(self, covariance: PymcCovariance, values: Mapping[str, Array]) -> None:
        self._covariance = covariance
        self._values = dict(values)
        self._arguments = covariance.arguments(values)

    @property
    def params(self) -> dict[str, Array]:
        """The parameters by name."""
        return dict(self._values)

    @cached_property
    def priors(self) -> dict[str, Any]:
        """The distributions of those parameters that are random variables."""
        random = {name: v for name, v in self._covariance.parameters.items() if v.owner is not None}
        return {name: prior_of(name, variable) for name, variable in random.items()}

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)`` of the process at ``X (n, d)``, exactly symmetric."""
        self._covariance.check_columns(X)
        gram, diagonal = self._covariance("gram", X, *self._arguments)
        gram = 0.5 * (gram + gram.T)
        np.fill_diagonal(gram, diagonal)  # which PyMC has without the rounding of squared distances
        return np.asarray(gram)

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)`` between ``A (a, d)`` and other cases ``B (b, d)``."""
        return np.asarray(self._covariance("cross", A, B, *self._arguments)[0])

    def diag(self, X: Array) -> Array:
        """Return the variances ``(n,)`` at ``X (n, d)``: the diagonal of `gram`."""
        return np.asarray(self._covariance("diag", X, *self._arguments)[0])

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return sum_ij gram_bar_ij dK_ij/dtheta for each parameter, in the shapes of `params`."""
        off_diagonal = gram_bar.copy()
        np.fill_diagonal(off_diagonal, 0.0)
        return self._pull_back("gram_vjp", X, off_diagonal, np.diag(gram_bar).copy())

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return sum_ij cross_bar_ij dk(a_i, b_j)/dtheta for each parameter, in the shapes of `params`."""
        return self._pull_back("cross_vjp", A, B, cross_bar)

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return sum_i diag_bar_i dk(x_i, x_i)/dtheta for each parameter, in the shapes of `params`."""
        return self._pull_back("diag_vjp", X, diag_bar)

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return sum_i cross_bar_ij dk(a_i, b_j)/db_jl for each of the second inputs, ``(b, d)``."""
        return np.asarray(self._covariance("inputs_vjp", A, B, cross_bar, *self._arguments)[0])

    def _pull_back(self, method: str, *arrays: Array) -> dict[str, Array]:
        if not self._values:
            return {}
        gradients = self._covariance(method, *arrays, *self._arguments)
        return {name: np.asarray(value) for name, value in zip(self._values, gradients, strict=True)}

    def replace(self, **params: ArrayLike) -> Self:
        """Return the kernel with some parameters changed; unknown names raise ValueError."""
        self._covariance.check_names(params)
        return type(self)(self._covariance, {**self._values, **{k: np.asarray(v) for k, v in params.items()}})

    def to_dict(self) -> dict[str, Any]:
        """Raise an UndefinedQuantityError: the covariance function is a program."""
        raise UndefinedQuantityError(
            "a covariance function of PyMC is a program, which cannot be saved as numbers and strings. One of "
            "bayesgp_mf.kernels can."
        )

    def __repr__(self) -> str:
        values = [f"{name}={value.tolist()!r}" for name, value in self._values.items()]
        cov_func = self._covariance.cov_func
        called = repr(cov_func) if isinstance(cov_func, OfOthers) else type(cov_func).__name__
        return f"{type(self).__name__}({', '.join([called, *values])})"
