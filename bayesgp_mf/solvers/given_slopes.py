"""A method for data and slopes whose evidence is that of the data given that the slopes are positive."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control, LeaveOneOut, Solution
from bayesgp_mf.inference.solver import GramGradient, Solver, Traits, traits_of
from bayesgp_mf.likelihoods.with_slopes import RISES
from bayesgp_mf.matrices.dense import DenseGram


@dataclass(frozen=True, eq=False)
class GivenSigns:
    r"""A solver of problems of data y and of slopes, of which a function is known to have the signs M.

    Its evidence is :math:`\log p(y|M) = \log p(y, M) - \log p(M)`, each by the solver below. A function that is known
    to rise is one of those that rise: what the prior has to say of how likely these are is no reason for a length
    scale. (By the first term alone, the longest would be chosen.)

    Parameters
    ----------
    solver : Solver
        Of both.
    """

    solver: Solver

    @property
    def name(self) -> str:
        """That of the solver below."""
        return self.solver.name

    @property
    def traits(self) -> Traits:
        """Those of the solver below."""
        return traits_of(self.solver)

    def solve(self, problem: Problem, control: Control = Control(), start: Solution | None = None) -> Solution:
        """Return the solution of data and slopes, with the evidence of the data given the slopes."""
        found = self.solver.solve(problem, control, start)
        value = found.evidence.value - self.alone(problem)[1].evidence.value
        return replace(found, evidence=replace(found.evidence, value=value))

    def alone(self, problem: Problem) -> tuple[Problem, Solution]:
        """Return what the prior says of the slopes: a problem of these alone, and its solution."""
        _, gram = _of_slopes(problem)
        alone = Problem(DenseGram(gram), np.ones(len(gram)), RISES, covariance=True)
        return alone, self.solver.solve(alone)

    def gram_gradient(self, problem: Problem, solution: Solution) -> GramGradient:
        """Return the derivative of the evidence with respect to the Gram matrix."""
        gradient: Any = np.array(self.solver.gram_gradient(problem, solution))
        gradient[_of_slopes(problem)[0]] -= self.solver.gram_gradient(*self.alone(problem))
        return gradient

    def leave_one_out(self, problem: Problem, solution: Solution) -> LeaveOneOut:
        """Return what the other cases and slopes predict for each."""
        return self.solver.leave_one_out(problem, solution)


def _of_slopes(problem: Problem) -> tuple[Any, Any]:
    """Return the index of the slopes among rows and columns of the Gram matrix, and what stands there."""
    likelihood: Any = problem.likelihood
    (slopes,) = np.nonzero(likelihood.rises)
    block = np.ix_(slopes, slopes)
    return block, problem.dense_gram[block]
