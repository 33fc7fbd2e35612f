r"""A power of a likelihood, averaged over Gaussians: :math:`\int p(t|f)^w\, N(f | m, v)\, df`.

Where p is log-concave so is its power, and the average is the self-checking rule of `likelihoods.centred`; else it is
the adaptive one of `likelihoods.quadrature`. The mode of :math:`w \log p(t|f) - (f - m)^2/(2v)` is that of log p with
the variance w v in place of v.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.likelihoods.base import Likelihood, Targets
from bayesgp_mf.likelihoods.centred import Bracket, Centred, Curve
from bayesgp_mf.types import Array, Derivs


@dataclass(frozen=True, slots=True, eq=False)
class Powered(Centred):
    """Powers of the likelihood of some cases, by quadrature.

    Parameters
    ----------
    likelihood : Likelihood
        p(t | f) of these cases.
    weights : (k,) array
        The exponents, above zero.
    """

    likelihood: Likelihood
    weights: Array

    @property
    def targets(self) -> Targets:
        """Those of the likelihood."""
        return self.likelihood.targets

    @property
    def log_concave(self) -> bool:
        """Whether the likelihood is, and so are its powers."""
        return self.likelihood.log_concave

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw one target for each latent value."""
        return self.likelihood.sample(f, rng)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return w log p(t|f) and its derivatives in f, ``(..., k)``."""
        with np.errstate(over="ignore"):  # far out: minus infinity is the answer
            return Derivs(*(self.weights * part for part in self.likelihood.log_prob(t, f)))

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition` at variance zero, if the likelihood has them."""
        if np.any(variance):
            return None
        once = self.likelihood.log_partition(t, mean, variance)
        found = self.likelihood.higher_derivatives(t, mean, variance, once)
        return None if found is None else (self.weights * found[0], self.weights * found[1])

    def _of_targets(self, t: Array) -> tuple[Curve, Bracket]:
        case = np.broadcast_to(np.arange(self.weights.size), t.shape).ravel()
        flat, weights = t.ravel(), self.weights[case]

        def bracket(rows: Any, mean: Array, variance: Array) -> tuple[Array, Array]:
            if not self.log_concave:
                return np.full_like(mean, -np.inf), np.full_like(mean, np.inf)
            some, spread = self.likelihood.of_cases(case[rows]), variance * weights[rows]
            known = some.mode_bracket(flat[rows], mean, spread)
            if known is not None:
                return known
            with np.errstate(over="ignore", invalid="ignore"):
                # the slope of log p falls along f, so that the mode is no farther than that at the mean says
                end = mean + spread * some.log_prob(flat[rows], mean).d1
            return np.minimum(mean, end), np.maximum(mean, end)

        return self._powers_of(case, flat, lambda some, t, f: some.log_prob(t, f)), bracket

    def _slope_of_targets(self, name: str, t: Array) -> Curve:
        def slope(some: Likelihood, t: Array, f: Array) -> Derivs:
            return some.parameter_derivative(name, np.broadcast_to(t, f.shape), f, np.zeros(f.shape))

        case = np.broadcast_to(np.arange(self.weights.size), t.shape).ravel()
        return self._powers_of(case, t.ravel(), slope)

    def _powers_of(self, case: NDArray[np.intp], t: Array, once: Callable[[Likelihood, Array, Array], Derivs]) -> Curve:
        """Return the weights times what a function finds of the likelihood of some cases and their targets."""

        def curve(rows: Any, f: Array) -> Derivs:
            which = np.ravel(rows)
            some = case[which]
            found, weights = once(self.likelihood.of_cases(some), t[which], f.T), self.weights[some]
            return Derivs(*((weights * part).T for part in found))  # the last axis was that of cases

        return curve
