"""A score of hyperparameters, plus the log prior, as a function of their logarithms, with its gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayesgp_mf.errors import ConvergenceError, InconsistentDataError, LowRankError, NotPositiveDefiniteError
from bayesgp_mf.hyper.scores import Score, Scored
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.inference.solver import GramGradient
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.matrices.matrix import Matrix
from bayesgp_mf.types import Array

LARGEST_LOG = 150.0
"""Parameters beyond this in the logarithm have fourth powers near the end of the range of numbers."""

DIFFERENCE = 1e-3
"""Step in the log parameters of the central differences that stand in where there is no formula."""


class _Solved(NamedTuple):
    kernel: Kernel
    matrix: Matrix
    value: float  # with the log prior
    gram_gradient: Callable[[], GramGradient] | None  # without


class Objective:
    """Score plus log prior at log parameters, each solved anew from the solution at the last point.

    Parameters
    ----------
    target : Target
        Data, method, priors.
    score : Score
        What is wanted of a solution.
    from_prior : bool
        Solve every point from the prior, so that the value is a function of the point even where the equations have
        several solutions.

    Attributes
    ----------
    n_evaluations, n_failures : int
        Points asked for, and those among them without a solution.
    last_failure : Exception or None
        The reason of the last one.
    """

    def __init__(self, target: Target, score: Score, *, from_prior: bool = False) -> None:
        self.target, self.score = target, score
        # a point that was not solved has no score, whatever the last solution may be
        self._control = replace(score.control(target.solver, target.control), throw=True, progress=False)
        self._from_prior = from_prior
        self._last: Solution | None = None
        self._any_solved = False
        self.n_evaluations = 0
        self.n_failures = 0
        self.last_failure: Exception | None = None

    def forget(self) -> None:
        """Start the next solution from the prior instead of from the last one."""
        self._last = None

    def __call__(self, log_free: Array) -> tuple[float, Array] | None:
        """Return score plus log prior, in nats, and the gradient ``(p,)``, or None where there is no solution.

        Where there is no formula the gradient is that of central differences, 2p more solutions.
        """
        answer = self._with_gradient(log_free)
        self._count(failed=answer is None)
        return answer

    def value(self, log_free: Array) -> float | None:
        """Return score plus log prior, in nats, without the gradient, or None where there is no solution."""
        solved = self._solve(log_free)
        self._count(failed=solved is None)
        return None if solved is None else solved.value

    def at_nodes(self, nodes: Array, advance: Callable[[str], None]) -> Array:
        """Return the values ``(k,)`` at nodes ``(k, p)``, -inf where there is no solution, telling of each."""
        values = np.full(len(nodes), -np.inf)
        for k, node in enumerate(nodes):
            value = self.value(node)
            if value is not None:
                values[k] = value
            advance(f"node {k + 1} of {len(nodes)}")
        return values

    def _count(self, *, failed: bool) -> None:
        self.n_evaluations += 1
        if failed:
            self.n_failures += 1
            self.forget()

    def _with_gradient(self, log_free: Array) -> tuple[float, Array] | None:
        solved = self._solve(log_free)
        if solved is None:
            return None
        if solved.gram_gradient is None:
            gradient = self._differences(log_free)
        else:
            try:
                gram_bar = solved.gram_gradient()
            except NotPositiveDefiniteError as reason:
                self.last_failure = reason
                return None
            with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is no gradient
                gradient = self.target.pull_back(solved.kernel, solved.matrix, gram_bar)
                gradient = gradient + self.target.log_prior(log_free)[1]
        return None if gradient is None or not np.all(np.isfinite(gradient)) else (solved.value, gradient)

    def _solve(self, log_free: Array) -> _Solved | None:
        if not np.all(np.abs(log_free) <= LARGEST_LOG):  # nor if one is NaN
            return None
        kernel = self.target.kernel_at(log_free)
        found = self._score_at(kernel)
        if found is None:
            return None
        matrix, scored = found
        value = scored.value + self.target.log_prior(log_free)[0]
        return _Solved(kernel, matrix, value, scored.gram_gradient) if np.isfinite(value) else None

    def _score_at(self, kernel: Kernel) -> tuple[Matrix, Scored] | None:
        solver = self.target.solver
        if self._from_prior:
            self.forget()
        try:
            problem = self.target.problem_at(kernel)
            solution = solver.solve(problem, self._control, self._last)
            scored = self.score(solver, problem, solution)
        except (ConvergenceError, NotPositiveDefiniteError, InconsistentDataError) as reason:
            self.last_failure = reason
            return None
        except (MemoryError, LowRankError) as reason:  # a rougher kernel than one that was solved before
            if not self._any_solved:
                raise
            self.last_failure = reason
            return None
        self._last, self._any_solved = solution, True
        return problem.matrix, scored

    def _differences(self, log_free: Array) -> Array | None:
        slopes = []
        for direction in np.eye(log_free.size):
            ahead, behind = (self._solve(log_free + sign * DIFFERENCE * direction) for sign in (1.0, -1.0))
            if ahead is None or behind is None:
                return None
            slopes.append((ahead.value - behind.value) / (2.0 * DIFFERENCE))
        return np.array(slopes)
