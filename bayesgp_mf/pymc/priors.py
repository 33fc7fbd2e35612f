"""Distributions of PyMC as priors of hyperparameters, for every strategy."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
from pymc.distributions.distribution import support_point
from pymc.logprob.utils import ParameterValueError
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import graph_inputs

from bayesgp_mf.types import Array

# simplified by PyTensor but not compiled: ready in 0.1 s, and one evaluation takes less than 0.1 ms
_SIMPLIFIED = Mode(linker="py", optimizer="fast_run")


class PymcPrior:
    """A distribution of PyMC as a `Prior`; `from_pymc` makes it, and says what is accepted."""

    def __init__(self, distribution: Any) -> None:
        self.distribution = distribution
        self._function = _log_density(distribution)
        self._lock = threading.Lock()  # a function of PyTensor has one place for its results

    def __repr__(self) -> str:
        return f"from_pymc({self.distribution.owner.op})"

    def __reduce__(self) -> tuple[Any, ...]:
        return PymcPrior, (self.distribution,)

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
    >>> from bayesgp_mf.pymc.priors import from_pymc
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
