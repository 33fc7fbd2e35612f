"""The same posterior by ``hyper="surrogate"``: nodes with weights, and what the averages over them are worth."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesgp_mf.hyper import Surrogate
from bayesgp_mf.types import Array
from validation.hyperposterior.approximate import choose
from validation.hyperposterior.setting import log_parameters_at
from validation.tables.selection import Split


@dataclass(frozen=True, slots=True, eq=False)
class Averaged:
    """Weighted nodes by one method's evidence.

    Attributes
    ----------
    log_parameters : (k, p) array
        log w_l and log v_0 at each node.
    weights : (k,) array
        Sum to one.
    probabilities : (m,) array
        Of class +1 at the test cases, averaged.
    pareto_k : float
        Shape of the tail of the weights.
    seconds : float
        Of learning, and of all nodes.
    n_evaluations : int
        Solutions, with gradient or without.
    """

    log_parameters: Array
    weights: Array
    probabilities: Array
    pareto_k: float
    seconds: float
    n_evaluations: int

    @property
    def mean(self) -> Array:
        """The weighted mean ``(p,)``."""
        return self.weights @ self.log_parameters

    @property
    def mean_error(self) -> Array:
        """Its Monte-Carlo standard error ``(p,)``, if the nodes are independent."""
        return np.sqrt(self.weights**2 @ (self.log_parameters - self.mean) ** 2)

    @property
    def sd(self) -> Array:
        """The weighted standard deviation ``(p,)``."""
        return np.sqrt(self.weights @ (self.log_parameters - self.mean) ** 2)

    @property
    def sd_error(self) -> Array:
        """Its Monte-Carlo standard error ``(p,)``, by the delta method."""
        squared = (self.log_parameters - self.mean) ** 2
        return np.sqrt(self.weights**2 @ (squared - self.sd**2) ** 2) / (2.0 * self.sd)

    @property
    def ess(self) -> Array:
        """How many independent draws give a mean as good as that of each log parameter, ``(p,)``."""
        return (self.sd / self.mean_error) ** 2

    @property
    def ess_per_second(self) -> float:
        """The least of these, by second of learning and nodes."""
        return float(self.ess.min()) / self.seconds


def average(split: Split, method: str, surrogate: Surrogate, seed: int, advance: Callable[[str], None]) -> Averaged:
    """Choose hyperparameters as ``fit(..., hyper="surrogate")`` does, and predict the test cases at each node."""
    found, seconds, probabilities = choose(split, method, surrogate, seed, advance)
    pareto_k, n_evaluations = (found.record[name][1] for name in ("hyper_pareto_k", "hyper_n_evaluations"))
    return Averaged(
        log_parameters_at(found.kernels),
        found.weights,
        found.weights @ probabilities,
        float(pareto_k),
        seconds,
        int(n_evaluations),
    )
