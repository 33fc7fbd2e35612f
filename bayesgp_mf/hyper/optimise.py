"""Hyperparameters by maximum evidence: L-BFGS-B on log parameters from several starts."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from bayesgp_mf.errors import BoundWarning, ConvergenceError, ConvergenceWarning, Status
from bayesgp_mf.hyper.objective import EvidenceObjective
from bayesgp_mf.kernels import Kernel, log_vector, log_vector_names, with_log_vector
from bayesgp_mf.types import Array

LOG_RANGE = float(np.log(1e4))
"""A parameter may move this far from where it started, to either side."""
START_SPREAD = 1.0
"""Standard deviation of the log parameters of the further starts around the first one."""
MAX_ITERATIONS = 200


@dataclass(frozen=True, slots=True)
class Run:
    """One descent.

    Attributes
    ----------
    start, end : (p,) array
        Log parameters where it began and where it ended.
    log_evidence : float
        At the end, in nats; -inf if no point had a solution.
    trace : (k,) array
        Log evidence after each iteration, in nats.
    n_evaluations : int
        Solutions computed.
    n_failures : int
        Points where the inner solver found no solution; the line search stepped back from them.
    message : str
        How the optimiser ended, in its own words.
    success : bool
        Whether it ended at a maximum or a bound.
    """

    start: Array
    end: Array
    log_evidence: float
    trace: Array
    n_evaluations: int
    n_failures: int
    message: str
    success: bool


def maximise_evidence(
    kernel: Kernel,
    objective: EvidenceObjective,
    *,
    starts: int,
    rng: np.random.Generator,
    advance: Callable[[str], None],
) -> tuple[Kernel, list[Run]]:
    """Return the kernel with the highest evidence found, and all descents.

    Parameters
    ----------
    kernel : Kernel
        The first start; parameters that are exactly zero stay so.
    objective : EvidenceObjective
        Log evidence and gradient.
    starts : int
        Number of descents; all but the first start at random around ``kernel``.
    rng : numpy.random.Generator
        Source of the random starts.
    advance : callable
        Called after each iteration of the optimiser.

    Raises
    ------
    ValueError
        If the kernel has no parameter to tune.
    ConvergenceError
        If no start had a solution.

    Warns
    -----
    BoundWarning
        If a parameter of the result sits at a bound.
    ConvergenceWarning
        If the best descent did not end at a maximum, or the inner solver failed on the way.
    """
    first = log_vector(kernel)
    if first.size == 0:
        raise ValueError("the kernel has no parameter to tune; use hyper=None.")
    lower, upper = first - LOG_RANGE, first + LOG_RANGE
    runs = []
    for k in range(starts):
        start = first if k == 0 else first + START_SPREAD * rng.standard_normal(first.size)
        runs.append(_descend(objective, np.clip(start, lower, upper), lower, upper, advance))
    best = max(runs, key=lambda run: run.log_evidence)
    if not np.isfinite(best.log_evidence):
        raise ConvergenceError(
            f"the inner solver found no solution at any of {starts} starting points of the hyperparameters. "
            "Try a kernel with other length scales, or allow noise in the likelihood. The last reason: "
            f"{objective.last_failure}",
            Status.NO_VALID_STEP,
        ) from objective.last_failure
    _warn(kernel, best, lower, upper)
    return with_log_vector(kernel, best.end), runs


def _descend(
    objective: EvidenceObjective, start: Array, lower: Array, upper: Array, advance: Callable[[str], None]
) -> Run:
    objective.forget()
    evaluations, failures = objective.n_evaluations, objective.n_failures
    trace: list[float] = []
    last: tuple[Array, Array] | None = None  # the last point that had a solution, and the slope there
    highest = -np.inf  # of the negative evidence, over all points that had a solution

    def negative(x: Array) -> tuple[float, Array]:
        nonlocal last, highest
        answer = objective(x)
        if answer is None:
            if last is None:
                raise _NoStart
            # a bowl around the last good point, above all that was seen (so never accepted) and steeper than
            # the evidence was there (so the line search turns back)
            step = x - last[0]
            steepness = 1.0 + 10.0 * float(np.linalg.norm(last[1])) / float(np.linalg.norm(step))
            return highest + steepness * float(step @ step), 2.0 * steepness * step
        last, highest = (x.copy(), answer[1]), max(highest, -answer[0])
        return -answer[0], -answer[1]

    def after_iteration(intermediate_result: object) -> None:
        trace.append(-float(intermediate_result.fun))  # type: ignore[attr-defined]
        advance(f"log evidence {trace[-1]:.3f}")

    try:
        found = minimize(
            negative,
            start,
            jac=True,
            method="L-BFGS-B",
            bounds=list(zip(lower, upper, strict=True)),
            callback=after_iteration,
            options={"maxiter": MAX_ITERATIONS},
        )
    except _NoStart:
        return Run(start, start, -np.inf, np.empty(0), 1, 1, "no solution at the starting point", False)
    return Run(
        start=start,
        end=np.asarray(found.x),
        log_evidence=-float(found.fun),
        trace=np.array(trace),
        n_evaluations=objective.n_evaluations - evaluations,
        n_failures=objective.n_failures - failures,
        message=str(found.message),
        success=bool(found.success),
    )


class _NoStart(Exception):  # noqa: N818  (it ends a descent, it is not an error)
    """The first point of a descent has no solution."""


def _warn(kernel: Kernel, best: Run, lower: Array, upper: Array) -> None:
    at_bound = [
        f"{name} = {np.exp(value):.3g} ({'lower' if value <= low else 'upper'})"
        for name, value, low, high in zip(log_vector_names(kernel), best.end, lower, upper, strict=True)
        if value <= low or value >= high
    ]
    if at_bound:
        warnings.warn(
            f"at a bound of the search, a factor of 10^4 from where it started: {', '.join(at_bound)}. The evidence "
            "does not determine them. A length scale at its upper bound means that the input hardly matters; "
            "otherwise start elsewhere or simplify the kernel.",
            BoundWarning,
            stacklevel=4,
        )
    if not best.success:
        warnings.warn(
            f"the search for the highest evidence did not finish: {best.message}. The hyperparameters are the "
            "best it found.",
            ConvergenceWarning,
            stacklevel=4,
        )
    if best.n_failures:
        warnings.warn(
            f"at {best.n_failures} of {best.n_evaluations} points of the search the equations had no solution; "
            "the search turned back there.",
            ConvergenceWarning,
            stacklevel=4,
        )
