"""A score of hyperparameters, plus the log prior, as a function of their logarithms, with its gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from bayesgp_mf.errors import ConvergenceError, InconsistentDataError, LowRankError, NotPositiveDefiniteError, Status
from bayesgp_mf.hyper.scores import Score, Scored
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.inference.solver import GramGradient
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.multiclass.gram import times_gram
from bayesgp_mf.types import Array

LARGEST_LOG = 150.0
"""Parameters beyond this in the logarithm have fourth powers near the end of the range of numbers."""

DIFFERENCE = 1e-3
"""Step in the log parameters of the central differences that stand in where there is no formula."""
NO_SOLUTION = (ConvergenceError, NotPositiveDefiniteError, InconsistentDataError, ArithmeticError)
"""What says that there is no solution, or that rounding left none."""
TOO_LARGE = (MemoryError, LowRankError)
"""What can be wrong at some hyperparameters while others have a solution: the second under a rougher kernel."""

NOTHING = 1e-3
"""Prior variance over that of the measurement that a target is at most; below it the kernel says nothing."""


class _Solved(NamedTuple):
    kernel: Kernel
    problem: Problem
    solution: Solution
    value: float  # with the log prior
    gram_gradient: Callable[[], GramGradient] | None  # without


class Objective:
    """Score plus log prior at log parameters: a function of these alone, whatever points came before.

    Each point is solved from the solution at the last one, which is faster, and where this leads nowhere, from the
    prior. Where the likelihood is not log-concave the equations may have several solutions, and the one that is reached
    would depend on the way: then every point is solved from the prior.

    Parameters
    ----------
    target : Target
        Data, method, priors.
    score : Score
        What is wanted of a solution.
    from_prior : bool
        Solve every point from the prior even where the likelihood is log-concave: for points far from each other.

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
        self._control = replace(score.control(target), throw=True, progress=False)
        self._from_prior = from_prior or not target.likelihood.log_concave
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
        solved = self._solve(log_free)
        gradient = None if solved is None else self._gradient(solved, log_free)
        self._count(failed=gradient is None)
        return None if solved is None or gradient is None else (solved.value, gradient)

    def value(self, log_free: Array) -> float | None:
        """Return score plus log prior, in nats, without the gradient, or None where there is no solution."""
        solved = self._solve(log_free)
        self._count(failed=solved is None)
        return None if solved is None else solved.value

    def separates(self, log_free: Array) -> bool:
        """Return whether the posterior mean has every training case on the side of its own label; not of real ones."""
        solved = self._solve(log_free)
        if solved is None or self.target.likelihood.targets == "real":
            return False
        t, alpha = self.target.t, solved.solution.alpha
        if alpha.ndim == 1:
            return bool(np.all(t * (solved.problem.matrix @ alpha) > 0))
        return bool(np.all(np.argmax(times_gram(alpha, solved.problem.dense_gram), axis=1) == t))

    def says_nothing(self, log_free: Array) -> bool:
        """Return whether the prior variances are so small that no target can move a latent value within them."""
        target = self.target
        classes = (int(np.max(target.t)) + 1,) if target.likelihood.targets == "classes" else ()
        curvature = target.likelihood.log_prob(target.t, np.zeros((*target.t.shape, *classes))).d2
        told = float(np.max(target.kernel_at(log_free).diag(target.X))) * float(np.max(np.abs(curvature), initial=0.0))
        return 0.0 < told < NOTHING  # a step knows no scale

    def at_nodes(self, nodes: Array, advance: Callable[[str], None], noun: str = "node") -> Array:
        """Return the values ``(k,)`` at nodes ``(k, p)``, -inf where there is no solution, telling of each."""
        values = np.empty(len(nodes))
        for k, node in enumerate(nodes):
            value = self.value(node)
            values[k] = -np.inf if value is None else value
            advance(f"{noun} {k + 1} of {len(nodes)}")
        return values

    def failed(self, message: str) -> ConvergenceError:
        """Return the error that says so, with the last reason."""
        error = ConvergenceError(f"{message} The last reason: {self.last_failure}", Status.NO_VALID_STEP)
        error.__cause__ = self.last_failure
        return error

    def _count(self, *, failed: bool) -> None:
        self.n_evaluations += 1
        if failed:
            self.n_failures += 1
            self.forget()

    def _gradient(self, solved: _Solved, log_free: Array) -> Array | None:
        if solved.gram_gradient is None:
            return self._differences(log_free)
        try:
            gram_bar = solved.gram_gradient()
        except NO_SOLUTION as reason:
            self.last_failure = reason
            return None
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is no gradient
            try:
                gradient = self.target.pull_back(solved.kernel, solved.problem.matrix, gram_bar)
            except NotImplementedError:  # a kernel without `cross_vjp`, on inducing cases
                return self._differences(log_free)
            gradient = gradient + self.target.log_prior(log_free)[1]
        if np.all(np.isfinite(gradient)):
            return gradient
        self.last_failure = ArithmeticError(f"the gradient of the {self.score.noun} is not finite.")
        return None

    def _solve(self, log_free: Array) -> _Solved | None:
        if not np.all(np.abs(log_free) <= LARGEST_LOG):  # nor if one is NaN
            self.last_failure = ArithmeticError("the hyperparameters are too large or too small to compute with.")
            return None
        log_prior, _ = self.target.log_prior(log_free)
        if log_prior == -np.inf:
            self.last_failure = ArithmeticError("the priors exclude these hyperparameters.")
            return None
        kernel = self.target.kernel_at(log_free)
        if self._from_prior:
            self.forget()
        try:
            problem = self.target.problem_at(kernel)
            solution, scored = self._scored(problem)
        except (*NO_SOLUTION, *TOO_LARGE) as reason:
            if isinstance(reason, TOO_LARGE) and not self._any_solved:
                raise
            self.last_failure = reason
            return None
        self._last, self._any_solved = solution, True
        value = scored.value + log_prior
        if np.isfinite(value):
            return _Solved(kernel, problem, solution, value, scored.gram_gradient)
        self.last_failure = ArithmeticError(f"the {self.score.noun} is {value}.")
        return None

    def _scored(self, problem: Problem) -> tuple[Solution, Scored]:
        """Return a solution and its score: from the last one, and where that leads nowhere, from the prior."""
        solver = self.target.solver
        if self._last is not None:
            try:
                solution = solver.solve(problem, self._control, self._last)
                return solution, self.score(solver, problem, solution)
            except NO_SOLUTION:
                pass  # the last point says nothing of this one
        solution = solver.solve(problem, self._control)
        return solution, self.score(solver, problem, solution)

    def _differences(self, log_free: Array) -> Array | None:
        slopes = []
        for direction in np.eye(log_free.size):
            ahead, behind = (self._solve(log_free + sign * DIFFERENCE * direction) for sign in (1.0, -1.0))
            if ahead is None or behind is None:
                return None
            slopes.append((ahead.value - behind.value) / (2.0 * DIFFERENCE))
        return np.array(slopes)
