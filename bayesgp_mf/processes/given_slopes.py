"""The posterior of a function of whose slopes something is known, which stands in its prior as Gaussian sites.

Of data and slopes together TAP makes Gaussian sites. Given those of the slopes, the function is a Gaussian process with
another mean and covariance, under which the data have the sites that they had. So all that is said of cases is said of
data, by the same formulas as without slopes; only what corrects TAP looks at the slopes themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, Control, Solution
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.kernels.given_slopes import GivenSlopes, SlopeSites, WithSlopes, as_values
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.likelihoods.with_slopes import DataAndSlopes
from bayesgp_mf.processes.corrected import CorrectedProba, LeftOut, Points
from bayesgp_mf.processes.process import Draws, Marginals
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.solvers.given_slopes import GivenSigns
from bayesgp_mf.solvers.second_order import SecondOrder, second_order
from bayesgp_mf.types import Array


@dataclass(frozen=True, eq=False, repr=False)
class PosteriorGivenSlopes(Posterior):
    """A posterior of data under the Gaussian process that sites of slopes leave (`kernels.given_slopes`).

    Attributes are those of `Posterior`. The log evidence of its solution is that of the data given the slopes.
    """

    @classmethod
    def of(cls, joint: Posterior, n: int, solver: Solver, control: Control, names: Any = None) -> Self:
        """Return that of the first n cases of a posterior, of which the others are slopes."""
        problem, before = joint.problem, joint.solution
        likelihood: Any = problem.likelihood
        precision = before.sites.site_precision
        shift = before.alpha + precision * joint.mean_at_training
        sites = SlopeSites(joint.X[n:], shift[n:], precision[n:])
        kernel, X = GivenSlopes(joint.kernel.before_slopes, sites), joint.X[:n, :-1]
        data = Problem(kernel.gram(X), problem.t[:n], by_case(likelihood.likelihood, prior_mean=kernel.mean(X)))
        solution = solver.solve(data, control)
        solution = replace(solution, evidence=before.evidence)
        return cls(kernel, X, data, solution, solver, feature_names=names, mean=kernel.mean)

    @property
    def _known_slopes(self) -> SlopeSites:
        kernel: Any = self.kernel
        return kernel.known_slopes  # type: ignore[no-any-return]

    def stored(self) -> dict[str, NDArray[Any]]:
        """Return the sites of the slopes, and how likely the prior has them to be positive."""
        places, shift, precision = self._known_slopes
        return {
            "slope_input": places[:, :-1],
            "slope_column": places[:, -1],
            "slope_shift": shift,
            "slope_precision": precision,
            "log_evidence_of_slopes": np.array(self.slopes_alone[1].evidence.value),
        }

    @cached_property
    def joint(self) -> Posterior:
        """The posterior of the data and, after them, of the slopes. Its evidence is that of the data given these."""
        places, shift, precision = self._known_slopes
        kernel, X = WithSlopes(self.kernel.before_slopes), np.vstack([as_values(self.X), places])
        n, m = self.problem.n, len(places)
        own = self.solution.sites.site_precision
        likelihood = DataAndSlopes(self.problem.likelihood.unshifted, np.arange(n + m) >= n)
        problem = Problem(kernel.gram(X), np.append(self.problem.t, np.ones(m)), likelihood, covariance=True)
        sites = problem.matrix.sites(np.append(own, precision))
        alpha, mean = sites.posterior(np.append(self.solution.alpha + own * self.mean_at_training, shift))
        variance = sites.cavity_variance()
        cavity = Cavity(mean - variance * alpha, variance)
        solution = replace(self.solution, alpha=alpha, correction=sites, cavity=cavity)
        return Posterior(kernel, X, problem, solution, self.solver, new_cases=self.new_cases)

    @cached_property
    def slopes_alone(self) -> tuple[Problem, Solution]:
        """What the prior says of the slopes: a problem of these alone, and its solution."""
        return GivenSigns(self.method).alone(self.joint.problem)

    @property
    def corrections(self) -> tuple[SecondOrder | None, float | None]:
        """The second-order correction of the evidence given the slopes, and how far a probability may be off."""
        both, alone = second_order(self.joint.problem, self.joint.solution), second_order(*self.slopes_alone)
        if both is None or alone is None:
            return None, None
        known = SecondOrder(both.correction - alone.correction, both.remaining + alone.remaining)
        return known, self.probability_shift

    @property
    def probability_shift(self) -> float | None:
        """How far a probability may be off for new cases at the inputs of the data; None where it is not known."""
        likelihood = self.problem.likelihood
        facts = {k: values for k, values in likelihood.stored_by_case.items() if k in likelihood.new_case_facts}
        if len(facts) < len(likelihood.new_case_facts):  # of trials
            return None
        return replace(self, new_cases=facts).shift_at(self.X)

    def shift_at(self, X: Array) -> float | None:
        """How far a probability may be off at new cases, at those few where TAP is worst."""
        return self.joint.shift_at(as_values(X))

    def corrected_at(self, X: Array) -> CorrectedProba:
        """Return corrected probabilities, and how good they are, at inputs that were checked."""
        return self.joint.corrected_at(as_values(X))

    def corrected_points_at(self, X: Array) -> Points | None:
        """Return latent values less the prior mean with corrected weights."""
        found = self.joint.corrected_points_at(as_values(X))
        return None if found is None else found._replace(values=found.values - np.reshape(self._prior_mean(X), (-1, 1)))

    def density_at(self, X: Array, f: Array) -> Array:
        """Return what `density` does at inputs and values ``(m, q)`` that were checked."""
        return self.joint.density_at(as_values(X), f)

    @property
    def corrected_loo(self) -> Array:
        """Log predictive density ``(n,)`` of each target given the others and the slopes, corrected."""
        return self.joint.corrected_loo[: self.problem.n]

    @property
    def loo_of_worst(self) -> LeftOut | None:
        """Leave-one-out densities of the data, corrected where TAP's are farthest off; None where they cannot be."""
        found, n = self.joint.loo_of_worst, self.problem.n
        return None if found is None else LeftOut(found.log_density[:n], found.corrected[:n], found.error)

    def draw_in_blocks(
        self, draws: int, size: int, rng: np.random.Generator, marginals: Marginals = "gaussian"
    ) -> Iterator[Draws]:
        """Return the draws of `draw` a few at a time, at most ``size``; log p is that of data given the slopes."""
        constant = self.log_evidence - self.method.solve(self.problem, start=self.solution).evidence.value
        for drawn in super().draw_in_blocks(draws, size, rng, marginals):
            yield drawn._replace(log_p=drawn.log_p + constant)
