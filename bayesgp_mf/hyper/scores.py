"""What hyperparameters are judged by: the log evidence, or the leave-one-out log predictive density."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError, UndefinedQuantityError
from bayesgp_mf.hyper.loo_gradient import has_loo_gradient, loo_gram_gradient
from bayesgp_mf.linalg import SiteCorrection
from bayesgp_mf.lowrank import GramGradient, LowRankCorrection
from bayesgp_mf.methods import Solver
from bayesgp_mf.problem import Problem
from bayesgp_mf.solution import Solution
from bayesgp_mf.solvers.meanfield import MeanField


class Scored(NamedTuple):
    """A score, and how to get its gradient.

    Attributes
    ----------
    value : float
        In nats.
    gram_gradient : callable or None
        Computes the derivative with respect to the Gram matrix, ``(n, n)`` or as `lowrank.RootGradient`; None where there is no formula for it.
    """

    value: float
    gram_gradient: Callable[[], GramGradient] | None


class Score(Protocol):
    """A number by which solutions of one method at different hyperparameters are compared."""

    @property
    def noun(self) -> str:
        """What it is called in messages."""

    def tolerance(self, solver: Solver) -> float:
        """Return the tolerance of a solution that suffices for it, however fine the one that is asked for."""

    def __call__(self, solver: Solver, problem: Problem, solution: Solution) -> Scored:
        """Return the score of a solution."""


class EvidenceScore:
    """The log evidence of the method."""

    noun: ClassVar[str] = "log evidence"

    def tolerance(self, solver: Solver) -> float:
        """Return 1e-5 for a mean-field theory: its evidence is stationary, with errors of the order of the square."""
        return 1e-5 if isinstance(solver, MeanField) else 0.0

    def __call__(self, solver: Solver, problem: Problem, solution: Solution) -> Scored:
        """Return the log evidence, with its exact gradient."""
        if not solution.has_variance:
            raise UndefinedQuantityError(
                f"method {solver.name!r} has no evidence to maximise; use hyper='scan', or evidence_of='naive'."
            )
        return Scored(solution.evidence.value, lambda: solver.gram_gradient(problem, solution))


class LooScore:
    """The sum over all cases of the log predictive density of their own targets, given the others."""

    noun: ClassVar[str] = "leave-one-out log density"

    def tolerance(self, solver: Solver) -> float:
        """Return 0: its error is of the order of that of the solution."""
        return 0.0

    def __call__(self, solver: Solver, problem: Problem, solution: Solution) -> Scored:
        """Return the sum, with its exact gradient where there is one."""
        if not solution.has_variance:
            raise UndefinedQuantityError(
                f"method {solver.name!r} has no leave-one-out density to maximise, only a count of errors; use "
                "hyper='scan', or evidence_of='naive'."
            )
        correction = solution.correction
        if isinstance(correction, SiteCorrection | LowRankCorrection):
            variance = correction.cavity_variance()
            if not np.all((variance > 0) | (problem.gram.diagonal() == 0)):
                # a negative site of another case can leave no posterior without this one
                raise NotPositiveDefiniteError("a leave-one-out variance is not positive")
        others = solver.leave_one_out(problem, solution)
        value = float(np.sum(others.log_density))
        if not has_loo_gradient(solver, solution):
            return Scored(value, None)
        return Scored(value, lambda: loo_gram_gradient(solver, problem, solution, others))
