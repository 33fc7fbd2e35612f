"""What hyperparameters are judged by: the log evidence, or the leave-one-out log predictive density."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple, Protocol

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control, Solution
from bayesgp_mf.inference.solver import GramGradient, LooGradient, Solver, parameter_gradient, traits_of
from bayesgp_mf.solvers.second_order import WHOLE, correction_gradient, second_order

SITES = 1e-6
"""Tolerance of the sites: the log evidence is stationary there, with errors of the order of the square."""
KNOWN = 1e-5
"""To how many nats samplers know the log evidence; judged with caution, most are a tenth of that off."""
KNOWN_IN_SEARCH = 1e-7
"""Likewise a search, whose points are solved from one another: by 1e-6 nats its values must not depend on the way."""
SITES_ON_INDUCING = 1e-4
"""Tolerance of the sites where the log evidence need not be known exactly, on inducing cases: there no Newton's step
judges it, and each step is a pass over all cases. It is off by some 1e-12 nats a case then."""


class Scored(NamedTuple):
    """A score in nats, and its derivatives, None where there is no formula for that in the Gram matrix.

    They are a function of the names that parameters of the likelihood have there: it returns the derivative in the Gram
    matrix, and those in these parameters by name, or None where there is no formula for one of them.
    """

    value: float
    gradient: LooGradient | None


class Score(Protocol):
    """A number by which solutions of one method at different hyperparameters are compared."""

    @property
    def noun(self) -> str:
        """What it is called in messages."""

    def control(self, target: Target) -> Control:
        """Return with which tolerances a solution suffices for it, however fine those that are asked for."""

    def __call__(self, solver: Solver, problem: Problem, solution: Solution) -> Scored:
        """Return the score of a solution."""


@dataclass(frozen=True, slots=True)
class EvidenceScore:
    """The log evidence of the method.

    Parameters
    ----------
    known : float
        To how many nats it has to be known; the gradient is then off by some thousandths of its largest entry. 0 (the
        default) asks for sites to 1e-6, which gives both to ten digits or so.
    """

    known: float = 0.0

    noun: ClassVar[str] = "log evidence"

    def control(self, target: Target) -> Control:
        """Ask a mean-field theory for no more than the log evidence needs, which is known before the sites are."""
        control = target.control
        if not traits_of(target.solver).stationary:
            return control
        sites = SITES if target.inducing is None or self.known == 0.0 else SITES_ON_INDUCING
        evidence_tolerance = max(control.evidence_tolerance, self.known)
        return replace(control, tolerance=max(control.tolerance, sites), evidence_tolerance=evidence_tolerance)

    def __call__(self, solver: Solver, problem: Problem, solution: Solution) -> Scored:
        """Return the log evidence, with its exact gradient."""

        def gradient(names: Sequence[str]) -> tuple[GramGradient, Mapping[str, float] | None]:
            return solver.gram_gradient(problem, solution), parameter_gradient(solver, problem, solution, names)

        return Scored(solution.evidence.value, gradient)


class CorrectedScore:
    """TAP's log evidence with its second-order correction (`solvers.second_order`)."""

    noun: ClassVar[str] = "corrected log evidence"

    def control(self, target: Target) -> Control:
        """Return what was asked for, on a dense matrix: the correction is not stationary in the sites.

        Raises
        ------
        ValueError
            If there is no correction of the target's evidence, or none with a gradient.
        """
        n = target.t.size
        if target.likelihood.has_classes:
            raise ValueError(
                "corrected=True needs two classes or real targets: the correction is not known of several classes, of "
                f"which {target.likelihood.display_name} is a likelihood. Leave it out."
            )
        if target.inducing is not None or n > WHOLE:
            raise ValueError(
                f"corrected=True needs a dense Gram matrix and at most {WHOLE} cases, for its gradient; here are {n} "
                f"cases{' on inducing cases' if target.inducing is not None else ''}. Leave it out: the fit then "
                "states the correction at the kernel that was chosen."
            )
        if target.control.gram == "low_rank":
            raise ValueError(
                "corrected=True needs a dense Gram matrix, and Control(gram='low_rank') asks for another. Leave out "
                "one of them."
            )
        return replace(target.control, gram="dense")

    def __call__(self, solver: Solver, problem: Problem, solution: Solution) -> Scored:
        """Return the corrected log evidence, with its exact gradient."""
        known = second_order(problem, solution)
        if known is None:
            raise ValueError(
                f"corrected=True is for TAP's evidence, and method {solver.name!r} has one of the kind "
                f"{solution.evidence.kind!r}. Use method='tap', or leave it out."
            )

        def gradient(_: Sequence[str]) -> tuple[GramGradient, None]:
            # how the correction hangs on the likelihood has no formula here
            return solver.gram_gradient(problem, solution) + correction_gradient(problem, solution), None

        return Scored(solution.evidence.value + known.correction, gradient)


def score_of_evidence(known: float, *, corrected: bool) -> Score:
    """Return the score of a strategy that goes by the log evidence, known to so many nats, or by the corrected one."""
    return CorrectedScore() if corrected else EvidenceScore(known)


class LooScore:
    """The sum over all cases of the log predictive density of their own targets, given the others."""

    noun: ClassVar[str] = "leave-one-out log density"

    def control(self, target: Target) -> Control:
        """Return what was asked for: its error is of the order of that of the solution."""
        return target.control

    def __call__(self, solver: Solver, problem: Problem, solution: Solution) -> Scored:
        """Return the sum, with its exact gradient where there is one."""
        sites = solution.correction.sites
        if sites is not None:
            variance = sites.cavity_variance()
            if not np.all((variance > 0) | (problem.matrix.diagonal() == 0)):
                # a negative site of another case can leave no posterior without this one
                raise NotPositiveDefiniteError("a leave-one-out variance is not positive")
        others = solver.leave_one_out(problem, solution)
        ask = traits_of(solver).loo_gradient
        gradient = None if ask is None else ask(problem, solution, others)
        return Scored(float(np.sum(others.log_density)), gradient)
