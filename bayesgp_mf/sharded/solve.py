"""TAP on inducing cases whose rows are on several machines: rounds of two messages, mixed as in `solvers.driver`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from bayesgp_mf.errors import ConvergenceError, NotPositiveDefiniteError, Status
from bayesgp_mf.inference.solution import Control, Info
from bayesgp_mf.matrices.factors import cholesky, symmetric, triangular_inverse
from bayesgp_mf.matrices.inducing import InducingGram
from bayesgp_mf.matrices.inducing_gradient import InducingGradient
from bayesgp_mf.seam import Answer, Backend
from bayesgp_mf.sharded.shard import Form, Measure, Model, Told, form, gradient, measure
from bayesgp_mf.solvers.accuracy import rounding_decides, unknown
from bayesgp_mf.solvers.driver import PATIENCE, PROGRESS, SMALLEST_DAMPING
from bayesgp_mf.solvers.refinement import EPS, rounding_of_sums
from bayesgp_mf.types import Array

RCOND = 1e-12
"""Part of the largest below which products of differences say nothing but rounding."""


class ShardedSolution(NamedTuple):
    """The solution on all shards.

    Attributes
    ----------
    precision : (M, M) array
        A, the posterior precision of the weights of the features.
    shift : (M,) array
        A times their mean.
    log_evidence : float
        In nats.
    info : Info
        How the iteration went.
    posterior : Measure
        The last message, from which the gradient goes on.
    """

    precision: Array
    shift: Array
    log_evidence: float
    info: Info
    posterior: Measure


def _assessed(info: Info, found: Answer, value: float) -> Info:
    """Return how well the numbers are known, as `solvers.accuracy` has it, or raise if rounding decides."""
    mean_error = float(np.maximum(found["gap"], rounding_of_sums(found["told"], found["weight"])))
    rounding = EPS * max(float(np.sqrt(found["terms"])) - abs(value), 0.0)
    info = replace(info, mean_error=mean_error, rounding=rounding)
    said = unknown(info)
    if said:
        raise rounding_decides("tap", " and ".join(said))
    return info


@dataclass
class _Rounds:
    """The messages, numbered."""

    backend: Backend
    model: Model
    number: int

    def form(self, taken: bool, weights: Array | None, damping: float) -> Answer:
        """Let all shards form their next state; again from where they are, if one of them had to start anew."""
        answer = self._ask(form, lambda number: Form(self.model, number, taken, weights, damping))
        while answer["lost"]:
            answer = self._ask(form, lambda number: Form(self.model, number, False, None, 0.0))
        return answer

    def measure(self, inverse_factor: Array, mean: Array) -> Answer:
        """Let all shards say by how much their sites would change."""
        return self._ask(measure, lambda number: Measure(self.model, number, inverse_factor, mean))

    def _ask(self, function: Callable[[Any, Any], Answer], message: Callable[[int], Any]) -> Answer:
        self.number += 1
        return self.backend.map_reduce(function, message(self.number))


def solve(
    backend: Backend, model: Model, control: Control, advance: Callable[[str], None], after: int = -1
) -> ShardedSolution:
    """Solve TAP's equations on all shards.

    Parameters
    ----------
    backend : Backend
        Of parts, `sources.Rows`.
    model : Model
        The model.
    control : Control
        Tolerance and largest number of rounds.
    advance : callable
        Told of each round.
    after : int
        Number of the last message to the same shards, so that they start from their sites.

    Raises
    ------
    ConvergenceError
        If the equations were not solved.
    """
    rounds, damping, weights, taken = _Rounds(backend, model, after), 1.0, None, False
    rank = model.points.shape[0]
    size = mark = smallest = float("inf")
    marked, mixing, begins = 1, True, True
    for iteration in range(1, control.max_iterations + 1):
        answer = rounds.form(taken, weights, 0.0 if begins else damping)
        begins = False
        posterior = _posterior(answer, rank)
        found = None if posterior is None else rounds.measure(posterior.inverse_factor, posterior.mean)
        if found is not None and found["lost"]:  # the sum that the posterior came from is no longer that of all
            taken, weights, begins = False, None, True
            continue
        if found is None or found["refused"]:
            taken, weights, damping = False, None, damping / 2.0
            if iteration == 1 or damping < SMALLEST_DAMPING:
                raise _unsolved(Status.NO_VALID_STEP, smallest, iteration)
            continue
        taken, size = True, float(found["size"])
        smallest = min(smallest, size)
        advance(f"round {iteration}, largest change {size:.1e} (tolerance {control.tolerance:.0e})")
        if size <= control.tolerance:
            assert posterior is not None
            value = found["value"] - 0.5 * posterior.log_det
            info = _assessed(Info(Status.CONVERGED, iteration, size, rank), found, value)
            last = Measure(model, rounds.number, posterior.inverse_factor, posterior.mean)
            return ShardedSolution(posterior.precision, posterior.shift, value, info, last)
        if size < PROGRESS * mark:
            mark, marked = size, iteration
        elif iteration - marked >= PATIENCE:
            if not mixing:
                damping /= 2.0
            mixing, marked = not mixing, iteration
        weights = _weights(found["products"]) if mixing else None
    raise _unsolved(Status.MAX_ITERATIONS, smallest, control.max_iterations)


def evidence_gradient(backend: Backend, solution: ShardedSolution) -> dict[str, Array] | None:
    """Return the derivatives of the log evidence in the parameters of the kernel, at fixed inducing inputs.

    None where some shard was lost since the solution, whose sites are then no longer there.
    """
    kernel, points = solution.posterior.model.kernel, solution.posterior.model.points
    factor = cholesky(np.asfortranarray(kernel.cross(points, points), dtype=np.float64))
    found = backend.map_reduce(gradient, solution.posterior)
    if found.pop("lost"):
        return None
    mean, inverse = solution.posterior.mean, solution.posterior.inverse_factor
    nothing = np.empty(0)  # no case is here
    gram = InducingGram(lambda: np.empty((0, len(points))), nothing, points, factor)
    told = Told(nothing, inverse.T @ inverse, nothing)
    bar = InducingGradient(gram, nothing, nothing, told, nothing, (0.5 * mean, mean))
    result = {name[2:]: value for name, value in found.items() if name != "square"}
    for name, value in kernel.cross_vjp(points, points, bar.of_inducing(found["square"])).items():
        result[name] = result[name] + value
    return result


class _Posterior(NamedTuple):
    precision: Array
    shift: Array
    inverse_factor: Array
    mean: Array
    log_det: float


def _posterior(answer: Answer, rank: int) -> _Posterior | None:
    """Return what follows from the sums of all shards, or None if no posterior does."""
    if answer["refused"]:
        return None
    precision = symmetric(answer["precision"])
    precision.ravel(order="K")[:: rank + 1] += 1.0
    if not np.all(np.isfinite(precision)):
        return None
    try:
        factor = cholesky(np.asfortranarray(precision))
    except NotPositiveDefiniteError:
        return None
    inverse = triangular_inverse(factor)
    mean = np.asarray(inverse.T @ (inverse @ answer["shift"]))
    return _Posterior(precision, answer["shift"], inverse, mean, 2.0 * float(np.sum(np.log(np.diag(factor)))))


def _weights(products: Array) -> Array | None:
    """Return how the last differences explain the change best, from their products with each other and with it."""
    k = int(np.count_nonzero(products.diagonal() > 0))
    if k == 0:
        return None
    # the oldest falls out of the memory of the shards when the newest comes in
    first = max(0, k - (products.shape[0] - 1))
    gram, right = products[first:k, first:k], products[first:k, -1]
    scale = 1.0 / np.sqrt(gram.diagonal())
    values, vectors = np.linalg.eigh(scale[:, None] * gram * scale)
    kept = values > RCOND * values[-1]
    solved = vectors[:, kept] @ ((vectors[:, kept].T @ (scale * right)) / values[kept])
    return np.asarray(scale * solved)


def _unsolved(status: Status, residual: float, iterations: int) -> ConvergenceError:
    return ConvergenceError(
        f"tap: {status.value} (residual {residual:.2g} after {iterations} rounds on shards)", status
    )
