"""Targets that are seen or known to lie between limits, of likelihoods that know their distribution function."""

from __future__ import annotations

from abc import abstractmethod
from operator import methodcaller
from typing import Any, ClassVar, Literal

import numpy as np

from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.types import Array


def _of_form(name: str) -> Any:
    """Return a method of targets: that of what they say, `WithLimits.form`."""

    def member(self: WithLimits, *args: Any) -> Any:
        t = args[1 if name == "parameter_derivative" else 0]
        return methodcaller(name, *args)(self.form(np.asarray(t, dtype=np.float64)))

    member.__name__ = name  # by which it is pickled when bound
    return member


class WithLimits(Likelihood):
    """A likelihood whose answers are those of another one, which knows between which limits each target lies."""

    __slots__ = ()
    targets: ClassVar[Literal["real"]] = "real"
    forbids: ClassVar[bool] = False
    log_concave: ClassVar[bool] = True

    @abstractmethod
    def form(self, t: Array) -> Likelihood:
        """Return the likelihood of cases with such targets along the last axis."""

    log_prob = _of_form("log_prob")
    log_partition = _of_form("log_partition")
    higher_derivatives = _of_form("higher_derivatives")
    tilted_cumulants = _of_form("tilted_cumulants")
    tilted_share = _of_form("tilted_share")
    mode_bracket = _of_form("mode_bracket")
    parameter_derivative = _of_form("parameter_derivative")
