"""Inducing inputs that move uphill with the log evidence, together with the hyperparameters."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bayesgp_mf.hyper.model import Model
from bayesgp_mf.hyper.objective import NO_SOLUTION
from bayesgp_mf.hyper.optimise import GAIN_ON_INDUCING, uphill
from bayesgp_mf.hyper.scores import KNOWN_IN_SEARCH, EvidenceScore
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.inference.solver import parameter_gradient
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.matrices.inducing import independent_points
from bayesgp_mf.types import Array

MOST_STEPS = 100
"""Of L-BFGS-B."""
FARTHEST = 1.0
"""How far an inducing input may move beyond the cases, in the spread of each input."""


def check_can_move(kernel: Kernel) -> None:
    """Raise a ValueError if a kernel, or a part of it, does not know its derivative in the inputs."""
    for part in (kernel, *kernel.parts):
        if type(part).inputs_vjp is Kernel.inputs_vjp:
            raise ValueError(
                "Inducing(move=True) needs the derivative of the kernel in its inputs, and "
                f"{type(part).__name__} has no inputs_vjp. Use move=False."
            )
        if part is not kernel:
            check_can_move(part)


def move(target: Target, points: Array, advance: Callable[[str], None]) -> tuple[Model, Array]:
    """Return the model and the inducing inputs ``(M, d)`` at the end of a search over both, from where a target starts.

    Points without a solution are turned back from, as in a search over hyperparameters alone. The best that was seen is
    returned, which may be the start.
    """
    solver, p, names = target.solver, target.start.size, tuple(target.free_of_likelihood.values())
    control = replace(EvidenceScore(KNOWN_IN_SEARCH).control(target), throw=True, progress=False)
    spread = np.where(np.ptp(target.X, axis=0) > 0, target.X.std(axis=0), 1.0)  # of a constant input any unit will do
    start = np.concatenate([target.start, (points / spread).ravel()])
    last: Solution | None = None

    def function(x: Array) -> tuple[float, Array] | None:
        nonlocal last
        model, inputs = target.model_at(x[:p]), x[p:].reshape(points.shape) * spread
        try:
            kept = independent_points(model.kernel, inputs)  # what the others determine moves nothing
            problem = replace(target, inducing=inputs[kept]).problem_at(model)
            last = solver.solve(problem, control, last)
        except NO_SOLUTION:
            if last is None:
                raise
            return None
        bar: Any = solver.gram_gradient(problem, last)
        log_prior, slope = target.log_prior(x[:p])
        by_inputs = np.zeros(points.shape)
        matrix: Any = problem.matrix
        by_inputs[kept] = matrix.pull_back_inputs(bar, model.kernel, target.X)
        of_likelihood = parameter_gradient(solver, problem, last, names)
        if of_likelihood is None:
            raise ValueError(
                f"Inducing(move=True) needs the derivative of the log evidence in {', '.join(names)}, and method "
                f"{solver.name!r} does not state it. Name them in fixed, or use move=False."
            )
        by_parameters = target.pull_back(model, matrix, bar, of_likelihood)
        gradient = np.concatenate([by_parameters + slope, (by_inputs * spread).ravel()])
        return last.evidence.value + log_prior, gradient

    low, high = target.X.min(axis=0) / spread - FARTHEST, target.X.max(axis=0) / spread + FARTHEST
    lower = np.concatenate([target.lower, np.tile(low, points.shape[0])])
    upper = np.concatenate([target.upper, np.tile(high, points.shape[0])])
    end = uphill(
        function,
        np.clip(start, lower, upper),
        (lower, upper),
        gain=GAIN_ON_INDUCING * target.t.size,
        first_step=np.inf,
        advance=lambda value: advance(f"log evidence {value:.3f}"),
        most=MOST_STEPS,
    ).end
    return target.model_at(end[:p]), end[p:].reshape(points.shape) * spread
