"""Cases of a likelihood beside others that say that a slope of the function is positive."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.likelihoods.by_case import trait
from bayesgp_mf.likelihoods.cumulants import higher_derivatives, tilted_cumulants
from bayesgp_mf.likelihoods.probit import Probit
from bayesgp_mf.types import Array, Derivs

RISES = Probit(1.0)
"""Of slopes in units of the noise that is allowed for; their target is +1."""


@dataclass(frozen=True, slots=True, eq=False)
class DataAndSlopes(Likelihood):
    """A likelihood of some cases, and a probit of the others: that their latent value, a slope, is positive.

    Parameters
    ----------
    likelihood : Likelihood
        Of the cases with data, also where it knows something of each of them. What is said of new cases is its.
    rises : (n,) bool array
        Which of all cases are slopes.
    """

    likelihood: Likelihood
    rises: NDArray[np.bool_]

    targets = trait("targets")
    forbids = trait("forbids")
    log_concave = trait("log_concave")
    is_flat = trait("is_flat")
    parameters = trait("parameters")
    tunable = trait("tunables")
    of_one_case = trait("of_one_case")
    new_case_facts = trait("new_case_facts")
    of_new_cases = trait("of_new_cases")
    predict_proba = trait("predict_proba")
    whole_targets = trait("whole_targets")
    n_levels = trait("n_levels")

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if targets of the cases with data are none of their likelihood."""
        self.likelihood.check_targets(name, t[~self.rises])

    def of_cases(self, which: NDArray[np.intp]) -> Likelihood:
        """Return the likelihood of some cases."""
        some = self.rises[which]
        if some.all():
            return DataAndSlopes(self.likelihood.of_one_case, some)
        place = np.cumsum(~self.rises) - 1
        return DataAndSlopes(self.likelihood.of_cases(place[which[~some]]), some)

    def with_parameters(self, **values: Any) -> DataAndSlopes:
        """Return the same with other parameters of the likelihood of data."""
        return DataAndSlopes(self.likelihood.with_parameters(**values), self.rises)

    def curved_at(self, t: Array) -> Any:
        """Return the latent values near which log p(t|f) bends most."""
        return self._each(lambda likelihood, t: likelihood.curved_at(t), (), t)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t | f), and its derivatives in f, ``(..., n)`` each."""
        return Derivs(*self._each(lambda likelihood, *at: likelihood.log_prob(*at), (3,), t, f))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t | f) N(f | mean, variance), and its derivatives in mean."""
        return Derivs(*self._each(lambda likelihood, *at: likelihood.log_partition(*at), (3,), t, mean, variance))

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the derivative of `log_partition` in a parameter, of which slopes know nothing."""

        def query(likelihood: Likelihood, *at: Array) -> Any:
            return [np.zeros_like(at[1])] * 3 if likelihood is RISES else likelihood.parameter_derivative(name, *at)

        return Derivs(*self._each(query, (3,), t, mean, variance))

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> Any:
        """Return the third and fourth derivative of `log_partition`."""

        def query(likelihood: Likelihood, t: Array, mean: Array, variance: Array, *derivs: Array) -> Any:
            return higher_derivatives(likelihood, t, mean, variance, Derivs(*derivs))

        return self._each(query, (2,), t, mean, variance, *derivs)

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Any:
        """Return what `cumulants.tilted_cumulants` does of each kind."""

        def query(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> Array:
            return tilted_cumulants(likelihood, t, mean, variance, order)

        return self._each(query, (order - 2,), t, mean, variance)

    def tilted_share(self, t: Array, mean: Array, variance: Array) -> Any:
        """Return what `Likelihood.tilted_share` does, where the likelihood of data knows it."""
        return self._each(lambda likelihood, *at: likelihood.tilted_share(*at), (), t, mean, variance)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Raise: a slope has no target to draw."""
        raise UndefinedQuantityError("targets are those of the cases with data: ask their likelihood.")

    def to_dict(self) -> dict[str, Any]:
        """Raise: what is known of certain places says nothing about others."""
        raise UndefinedQuantityError("slopes are those at certain places: fit(X, y, kernel, monotone=...).")

    def _each(self, query: Any, lead: tuple[int, ...], *at: Array) -> Any:
        """Return what a function of a likelihood and arrays of its cases finds, ``(*lead, ..., n)``; or None."""
        arrays = np.broadcast_arrays(*at)
        result = np.empty((*lead, *arrays[0].shape))
        for rows, likelihood in ((~self.rises, self.likelihood), (self.rises, RISES)):
            found = query(likelihood, *(array[..., rows] for array in arrays)) if rows.any() else 0.0
            if found is None:
                return None
            result[..., rows] = found
        return result
