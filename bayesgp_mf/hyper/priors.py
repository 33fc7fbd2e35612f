"""Prior densities of hyperparameters, as functions of their logarithm."""

from __future__ import annotations

import importlib
import math
import numbers
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np

from bayesgp_mf.types import Array

DEFAULT_SD = 1.5
"""Of the logarithm of a parameter that has neither prior nor bounds, around where it starts."""


@runtime_checkable
class Prior(Protocol):
    """A prior of one positive parameter; of a vector parameter, of each entry independently."""

    def log_density(self, log_value: Array) -> tuple[Array, Array]:
        """Return the log density with respect to log theta and its derivative in log theta; elementwise."""


@dataclass(frozen=True, slots=True)
class LogNormal:
    r"""A log-normal prior: the logarithm of the parameter, or of a power of it, is normal.

    .. math:: q \log \theta \sim N(\mathrm{mean}, \mathrm{sd}^2)

    Parameters
    ----------
    mean, sd : float
        Mean and standard deviation of the logarithm. The defaults are those of Barber & Williams [1]_ (section 2.3):
        broad, and in favour of inputs that matter little.
    power : float
        q, not zero. The prior of [1]_ is on :math:`w_l = \ell_l^{-2}`, so that of a length scale has ``power=-2``;
        :math:`\log \ell` is then normal with mean 1.5 and standard deviation 1.5.

    Raises
    ------
    ValueError
        If a number is not finite, ``sd`` not positive or ``power`` zero.

    References
    ----------
    .. [1] Barber, D., & Williams, C. K. I. (1996). Gaussian processes for Bayesian classification via hybrid
       Monte Carlo. NIPS 9.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.hyper import LogNormal
    >>> LogNormal(power=-2.0).log_density(np.array([1.5]))[0].round(4)
    array([-1.3244])
    """

    mean: float = -3.0
    sd: float = 3.0
    power: float = 1.0

    def __post_init__(self) -> None:
        for name in ("mean", "sd", "power"):
            value = getattr(self, name)
            if not _is_finite(value):
                raise ValueError(f"{name} must be a finite number, got {value!r}.")
        if self.sd <= 0:
            raise ValueError(f"sd must be > 0 (a standard deviation of the logarithm), got {self.sd!r}.")
        if self.power == 0:
            raise ValueError("power must not be 0: the logarithm of theta^0 is no parameter. Use power=1.0.")

    def log_density(self, log_value: Array) -> tuple[Array, Array]:
        """Return the log density with respect to log theta and its derivative in log theta; elementwise."""
        z = (self.power * log_value - self.mean) / self.sd
        constant = math.log(abs(self.power) / self.sd) - 0.5 * math.log(2.0 * math.pi)
        return np.asarray(constant - 0.5 * z**2), np.asarray(-z * self.power / self.sd)


@dataclass(frozen=True, slots=True, eq=False)
class Around:
    """The prior of a parameter for which none is given: log-normal, each entry around where it starts.

    Parameters
    ----------
    centre : (k,) array
        Logarithms of the entries at the start.
    """

    centre: Array

    def log_density(self, log_value: Array) -> tuple[Array, Array]:
        """Return the log density with respect to log theta and its derivative in log theta; elementwise."""
        return LogNormal(0.0, DEFAULT_SD).log_density(log_value - self.centre)


def _is_finite(value: object) -> bool:
    try:
        return isinstance(value, numbers.Real) and math.isfinite(value)
    except OverflowError:  # a huge integer
        return False


def as_prior(prior: object) -> object:
    """Return a distribution of PyMC, such as ``pm.Gamma.dist(2, 1)``, as a prior, and anything else as it is."""
    if type(prior).__module__.partition(".")[0] != "pytensor":
        return prior
    # `bayesgp_mf.pymc` lies above this layer; who has such a distribution has imported PyMC already
    return importlib.import_module("bayesgp_mf.pymc.kernel").from_pymc(prior)
