"""A score of hyperparameters, plus the log prior, as a function of their logarithms, with its gradient."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import closing
from copy import copy
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import NO_SOLUTION, ConvergenceError, LowRankError, Status, UndefinedQuantityError
from bayesgp_mf.hyper.scores import Score, Scored
from bayesgp_mf.hyper.target import Model, Target
from bayesgp_mf.inference.assembly import curvature_of
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.inference.solver import LooGradient, traits_of
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.multiclass.class_gram import class_gram
from bayesgp_mf.parallel import Backend, Serial
from bayesgp_mf.types import Array

LARGEST_LOG = 150.0
"""Parameters beyond this in the logarithm have fourth powers near the end of the range of numbers."""

DIFFERENCE = 1e-3
"""Step in the log parameters of the central differences that stand in where there is no formula."""
NO_VALUE = (*NO_SOLUTION, ArithmeticError)
"""What says that there is no solution, or that rounding left none."""
NOT_HERE = (MemoryError, LowRankError, UndefinedQuantityError)
"""What can be wrong at some hyperparameters while others have a solution: the second under a rougher kernel, the third
where a likelihood so narrow is zero at the mode before data."""

NOTHING = 1e-3
"""Prior variance over that of the measurement that a target is at most; below it the kernel says nothing."""


FOLLOWED = 80
"""Steps to a solution that follows the last one: some ten from there and some twenty from the prior, and one that takes
more hardly ends."""


Found = TypeVar("Found")


class _Solved(NamedTuple):
    model: Model
    problem: Problem
    solution: Solution
    value: float  # with the log prior
    gradient: LooGradient | None  # without


class Objective:
    """Score plus log prior at log parameters: a function of these alone, whatever points came before.

    Each point is solved from the solution at the last one, which is faster, and where this leads nowhere, from the
    prior. Where the likelihood is not log-concave the equations may have several solutions, and the one that is reached
    would depend on the way: then every point is solved from the prior, unless it is to `follow`.

    Parameters
    ----------
    target : Target
        Data, method, priors.
    score : Score
        What is wanted of a solution.
    from_prior : bool
        Solve every point from the prior even where the likelihood is log-concave: for points far from each other.
    last : Solution, optional
        Where the first point is solved from, if not from the prior.

    Attributes
    ----------
    n_evaluations, n_failures : int
        Points asked for, and those among them without a solution.
    last_failure : Exception or None
        The reason of the last one.
    """

    def __init__(self, target: Target, score: Score, *, from_prior: bool = False, last: Solution | None = None) -> None:
        # a point that was not solved has no score, whatever the last solution may be
        self._control = replace(score.control(target), throw=True, progress=False)
        if self._control.gram != target.control.gram:  # of which the target makes its problems
            target = replace(target, control=self._control)
        self.target, self.score = target, score
        self._from_prior = from_prior or not target.likelihood.log_concave
        self._last = last
        self._any_solved = last is not None
        self.n_evaluations = 0
        self.n_failures = 0
        self.last_failure: Exception | None = None
        self._highest: tuple[float, Array, Solution] | None = None
        self._at_nodes: dict[bytes, Solution] = {}  # to start from

    def solution_at(self, log_free: Array) -> Solution | None:
        """Return the solution that was found at a node, or at a point if none was higher than that; else None."""
        if self._highest is None or not np.array_equal(self._highest[1], log_free):
            return self._at_nodes.get(log_free.tobytes())
        return self._highest[2]

    def solutions_at(self, points: Array) -> tuple[Solution | None, ...]:
        """Return `solution_at` each of points ``(k, p)``, as an average over them keeps it."""
        return tuple(self.solution_at(point) for point in points)

    def forget(self) -> None:
        """Start the next solution from the prior instead of from the last one."""
        self._last = None

    def follow(self, *, last: bool) -> None:
        """Solve each point from the last one, or each from the prior, after which no solution of before is known."""
        self._from_prior = not last
        if not last:
            self._highest = None

    def __call__(self, log_free: Array) -> tuple[float, Array] | None:
        """Return score plus log prior, in nats, and the gradient ``(p,)``, or None where there is no solution.

        Where there is no formula the gradient is that of central differences, 2p more solutions.
        """
        return self._counted(log_free, lambda solved: (solved.value, self._gradient(solved, log_free)))

    def value(self, log_free: Array) -> float | None:
        """Return score plus log prior, in nats, without the gradient, or None where there is no solution."""
        return self._counted(log_free, lambda solved: solved.value)

    def value_and_start(self, log_free: Array) -> tuple[float, Solution] | None:
        """Return the value with what to solve from once more, or None where there is no solution."""
        return self._counted(log_free, lambda solved: (solved.value, solved.solution.as_start()))

    def separates(self, log_free: Array) -> bool:
        """Return whether the posterior mean has every training case on the side of its own label; not of real ones."""
        if self.target.likelihood.is_real:
            return False
        try:
            solved = self._solve(log_free)
        except (*NO_VALUE, *NOT_HERE):
            return False
        t, alpha = self.target.t, solved.solution.alpha
        if alpha.ndim == 1:
            return bool(np.all(t * (solved.problem.matrix @ alpha) > 0))
        return bool(np.all(np.argmax(class_gram(solved.problem).times(alpha), axis=1) == t))

    def leave_one_out(self, log_free: Array) -> Array:
        """Return the log predictive density ``(n,)`` of each target given the others, where there is a solution.

        Raises
        ------
        UndefinedQuantityError
            If the method has none.
        """
        solved = self._solve(log_free)
        return self.target.solver.leave_one_out(solved.problem, solved.solution).log_density

    def says_nothing(self, log_free: Array) -> bool:
        """Return whether the prior variances are so small that no target can move a latent value within them."""
        target, model = self.target, self.target.model_at(log_free)
        information = float(np.max(model.kernel.diag(target.X))) * curvature_of(model.likelihood, target.t)
        return 0.0 < information < NOTHING  # a step knows no scale

    def at_nodes(
        self, nodes: Array, advance: Callable[[str], None], workers: Backend = Serial(), noun: str = "node"
    ) -> Array:
        """Return the values ``(k,)`` at nodes ``(k, p)``, -inf where there is no solution, telling of each."""
        values = np.empty(len(nodes))
        with closing(self._each(nodes, workers, slopes=False)) as found:
            for k, answer in enumerate(found):
                values[k] = -np.inf
                if answer is not None:
                    values[k], self._at_nodes[nodes[k].tobytes()] = answer
                advance(f"{noun} {k + 1} of {len(nodes)}")
        return values

    def with_gradients(self, points: Array, workers: Backend) -> list[tuple[float, Array] | None]:
        """Return for each of points ``(k, p)`` what a call does; no point knows of another."""
        with closing(self._each(points, workers, slopes=True)) as found:
            return list(found)

    def _each(self, points: Array, workers: Backend, *, slopes: bool) -> Generator[Any, None, None]:
        """Yield the value and a start at each point, or what a call returns; all from the last solution before them.

        So it does not matter who computes them, nor in which order.
        """
        here = Objective(self.target, self.score, from_prior=self._from_prior, last=self._last), slopes
        with one_thread_if_small(self.target.t.size), closing(workers.map(_answer, points, here)) as answers:
            for answer, failure in answers:
                if isinstance(failure, NOT_HERE) and not self._any_solved:
                    raise failure
                self.last_failure = failure or self.last_failure
                self._any_solved |= failure is None
                self.n_evaluations += 1
                self.n_failures += failure is not None
                yield answer

    def failed(self, message: str) -> ConvergenceError:
        """Return the error that says so, with the last reason."""
        error = ConvergenceError(f"{message} The last reason: {self.last_failure}", Status.NO_VALID_STEP)
        error.__cause__ = self.last_failure
        return error

    def _counted(self, log_free: Array, found: Callable[[_Solved], Found]) -> Found | None:
        """Return what is found of a solution, and count the point.

        Where there is none, keep the reason, and the last solution: a line search goes back towards it.
        """
        self.n_evaluations += 1
        answer = None
        try:
            answer = found(self._solve(log_free))
            self._any_solved = True
        except (*NO_VALUE, *NOT_HERE) as reason:
            if isinstance(reason, NOT_HERE) and not self._any_solved:
                raise
            self.last_failure = reason
            self.n_failures += 1
        if self.target.forecast is not None:
            self.target.forecast.after_point()
        return answer

    def _gradient(self, solved: _Solved, log_free: Array) -> Array:
        """Return the gradient ``(p,)``, or raise one of `NO_VALUE`."""
        if solved.gradient is None:
            return self._differences(log_free)
        target, of_likelihood = self.target, self.target.free_of_likelihood
        gram_bar, slopes = solved.gradient(tuple(of_likelihood.values()))
        with np.errstate(over="ignore", invalid="ignore"):  # what is not finite is no gradient
            try:
                gradient = target.pull_back(solved.model, solved.problem.matrix, gram_bar, slopes)
            except NotImplementedError:  # a kernel without `cross_vjp`, on inducing cases
                return self._differences(log_free)
            gradient = gradient + target.log_prior(log_free)[1]
        if of_likelihood and slopes is None:
            which = np.isin(target.names, list(of_likelihood))
            gradient[which] = self._differences(log_free, which)[which]
        if not np.all(np.isfinite(gradient)):
            raise ArithmeticError(f"the gradient of the {self.score.noun} is not finite.")
        return gradient

    def _solve(self, log_free: Array, *, is_near: bool = False) -> _Solved:
        """Return what is known at a point, or raise one of `NO_VALUE` or `NOT_HERE`.

        One that ``is_near`` the last is solved from there, whatever the likelihood: where the equations have several
        solutions it is the same one.
        """
        if not np.all(np.abs(log_free) <= LARGEST_LOG):  # nor if one is NaN
            raise ArithmeticError("the hyperparameters are too large or too small to compute with.")
        if not self.target.allows(log_free):
            raise ArithmeticError("a parameter of the likelihood is beyond what it can be.")
        log_prior, _ = self.target.log_prior(log_free)
        if log_prior == -np.inf:
            raise ArithmeticError("the priors exclude these hyperparameters.")
        model = self.target.model_at(log_free)
        if self._from_prior and not is_near:
            self.forget()
        problem = self.target.problem_at(model)
        self._last, scored = self._scored(problem)
        value = scored.value + log_prior
        if not np.isfinite(value):
            raise ArithmeticError(f"the {self.score.noun} is {value}.")
        if self._highest is None or value > self._highest[0]:
            self._highest = value, np.array(log_free), self._last
        return _Solved(model, problem, self._last, value, scored.gradient)

    def _scored(self, problem: Problem) -> tuple[Solution, Scored]:
        """Return a solution and its score: from the last one, and where that leads nowhere, from the prior."""
        solver, control = self.target.solver, self._control
        shorter = min(FOLLOWED, control.max_iterations)
        if self._any_solved and not self._from_prior and not problem.likelihood.log_concave:
            control = replace(control, max_iterations=shorter)
        try:
            solution = solver.solve(problem, control, self._last)
            return solution, self.score(solver, problem, solution)
        except NO_VALUE as reason:  # the last point says nothing of this one
            if control != self._control and getattr(reason, "status", None) is Status.MAX_ITERATIONS:
                raise ConvergenceError(f"no solution within {shorter} steps.", Status.MAX_ITERATIONS) from reason
            if self._last is None or (isinstance(reason, ConvergenceError) and traits_of(solver).starts_again):
                raise
        solution = solver.solve(problem, control)
        return solution, self.score(solver, problem, solution)

    def _differences(self, log_free: Array, which: NDArray[np.bool_] | None = None) -> Array:
        """Return the gradient by central differences, or some entries of it; the others are NaN."""
        slopes, steps = np.full(log_free.size, np.nan), DIFFERENCE * np.eye(log_free.size)
        for k in range(log_free.size) if which is None else np.flatnonzero(which):
            ahead, behind = (self._solve(log_free + sign * steps[k], is_near=True).value for sign in (1.0, -1.0))
            slopes[k] = (ahead - behind) / (2.0 * DIFFERENCE)
        return slopes


def _answer(here: tuple[Objective, bool], log_free: Array) -> tuple[Any, Exception | None]:
    """Return the value and a start at a point, or what a call returns, or why there is none; no other is known here."""
    objective, slopes = copy(here[0]), here[1]
    objective.target = objective.target.apart()
    try:
        answer = objective(log_free) if slopes else objective.value_and_start(log_free)
    except NOT_HERE as reason:  # whether others had a solution is known where all answers come
        return None, reason
    return answer, objective.last_failure if answer is None else None
