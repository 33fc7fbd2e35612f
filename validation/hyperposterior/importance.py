r"""A second way to the exact posterior: draws by an evidence, weighted by how far that is off at each of them.

At each draw of theta the evidence is estimated without bias by importance sampling from the method's Gaussian of the
latent values, and the draw gets the weight of this estimate over the method's own evidence. Weighted averages then tend
to those of the exact posterior, however few latent values are drawn for each theta [1]_.

References
----------
.. [1] Filippone, M., & Girolami, M. (2014). Pseudo-marginal Bayesian inference for Gaussian processes. IEEE
   Transactions on Pattern Analysis and Machine Intelligence 36(11), 2214-2226.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

import bayesgp_mf as bgp
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.types import Array
from validation.hyperposterior.setting import LIKELIHOOD, kernel_at
from validation.tables.selection import Split


@dataclass(frozen=True, slots=True, eq=False)
class Weighted:
    """Draws of the log parameters with weights.

    Attributes
    ----------
    log_parameters : (k, p) array
        Draws by the evidence of a method.
    log_weights : (k,) array
        Log of the estimated evidence less the method's log evidence, in nats.
    """

    log_parameters: Array
    log_weights: Array

    @property
    def weights(self) -> Array:
        """The weights ``(k,)``; they sum to one."""
        return np.asarray(np.exp(self.log_weights - logsumexp(self.log_weights)))

    @property
    def ess(self) -> float:
        """How many draws of equal weight these are worth."""
        return 1.0 / float(np.sum(self.weights**2))

    @property
    def mean(self) -> Array:
        """The weighted mean ``(p,)``."""
        return self.weights @ self.log_parameters

    @property
    def sd(self) -> Array:
        """The weighted standard deviation ``(p,)``."""
        return np.sqrt(self.weights @ (self.log_parameters - self.mean) ** 2)

    @property
    def moved(self) -> Array:
        """By how much the weights move each mean ``(p,)``, in weighted standard deviations."""
        return (self.mean - self.log_parameters.mean(axis=0)) / self.sd


def weighted(split: Split, method: str, log_parameters: Array, latent_draws: int, rng: np.random.Generator) -> Weighted:
    """Weigh draws ``(k, p)`` by the evidence of a method, with ``latent_draws`` latent functions for each."""
    log_weights = []
    for point in log_parameters:
        kernel = kernel_at(point)
        problem = Problem(kernel.gram(split.X), split.t, LIKELIHOOD)
        solution = bgp.solve(problem.gram, split.t, LIKELIHOOD, method=method)
        process = bgp.Posterior(kernel, split.X, problem, solution)
        drawn = process.draw(latent_draws, rng)
        log_evidence = float(logsumexp(drawn.log_p - drawn.log_q)) - np.log(latent_draws)
        log_weights.append(log_evidence - process.log_evidence)
    return Weighted(log_parameters, np.array(log_weights))
