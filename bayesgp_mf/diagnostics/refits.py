"""Leave-one-out as it is defined, by n refits: what the free estimates are checked against."""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from bayesgp_mf.errors import ConvergenceError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control, LeaveOneOut, Solution
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inference.undefined import LeaveOneOutFields
from bayesgp_mf.inputs.options import check_positive_integers
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.methods import MethodName, get_method
from bayesgp_mf.multiclass.correction import case_covariances, prior_variance, times_gram
from bayesgp_mf.multiclass.response import class_correction, class_predictions
from bayesgp_mf.parallel import backend
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.types import Array


class _Prediction(NamedTuple):
    mean: float | Array  # one number, or one for each class (C,)
    variance: float | Array | None  # None for a method that has none; of several classes their covariance (C, C)


def exact_loo(
    problem: Problem,
    method: MethodName | Solver = "tap",
    *,
    control: Control = Control(),
    processes: int = 1,
    client: Any = None,
    progress: bool = False,
) -> LeaveOneOut:
    """Leave out each case in turn, solve the problem of the others, and predict it.

    Leaving out is exact (2000, section 8: the exact leave-one-out estimator); each prediction is that of the method.

    Parameters
    ----------
    problem : Problem
        Gram matrix ``(n, n)``, targets ``(n,)``, likelihood. Several classes stay as many, with or without a case.
    method : str or Solver
        Name of a method, a key of `methods.METHODS`, or one with options of its own.
    control : Control
        Of each refit.
    processes : int
        Refits at the same time, each in a process of its own with one BLAS thread. Starting them takes a second
        or two, so that a few hundred small cases are done sooner by one.
    client : distributed.Client, optional
        A Dask cluster whose workers do the refits instead; one that is lost is made up for. Up to 1000 cases the
        result is the same to the last bit whoever computes; beyond, one process has more BLAS threads, and rounds
        differently.
    progress : bool
        Show a progress bar if it takes longer than a second.

    Returns
    -------
    LeaveOneOut
        Means, variances ``(n,)`` in latent units and log predictive densities ``(n,)`` in nats; ``error_count(t)``
        counts the errors. For the support-vector machine only the means; the rest raises. For several classes means and
        variances are ``(n, C)``, and there are probabilities.

    Raises
    ------
    ValueError
        If there is no such method, ``processes`` is not a positive integer, or ``client`` no client of Dask.
    ConvergenceError
        If a refit was not solved, naming the case that was left out.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.diagnostics import exact_loo
    >>> problem = bgp.Problem([[2.0, 1.0], [1.0, 2.0]], [1, 1], bgp.Step())
    >>> loo = exact_loo(problem)
    >>> loo.mean.round(4)
    array([0.5642, 0.5642])
    >>> loo.error_count(problem.t)
    0
    """
    if not isinstance(problem, Problem):
        raise ValueError(
            f"problem must be a Problem, of Gram matrix, targets and likelihood, got {type(problem).__name__}. That of "
            "a fit is bgp.posterior(idata).problem."
        )
    name = get_method(method, problem.likelihood).name
    check_positive_integers(processes=processes)
    predictions: list[_Prediction] = []
    with (
        closing(backend(int(processes), client)) as workers,
        one_thread_if_small(problem.n),
        closing(
            workers.map(partial(_predict_without, method=method, control=control), range(problem.n), problem)
        ) as each,
        progress_bar("leaving one out", total=problem.n, enabled=progress) as advance,
    ):
        for prediction in each:
            predictions.append(prediction)
            advance(f"case {len(predictions)} of {problem.n}")
    mean = np.array([prediction.mean for prediction in predictions])
    if any(prediction.variance is None for prediction in predictions):
        return LeaveOneOutFields(name, mean)
    variance = np.array([prediction.variance for prediction in predictions])
    if problem.likelihood.has_classes:
        return class_predictions(problem, mean, variance)
    return LeaveOneOut(mean, variance, problem.likelihood.log_partition(problem.t, mean, variance).value)


def _predict_without(problem: Problem, i: int, *, method: str | Solver, control: Control) -> _Prediction:
    solver = get_method(method, problem.likelihood)
    if problem.likelihood.has_classes:
        return _predict_class_without(problem, solver, control, i)
    prior = float(problem.matrix.diagonal()[i])
    if problem.n == 1:  # what is left is the prior
        return _Prediction(0.0, prior if solver.solve(problem, control).has_variance else None)
    solution = _solve_without(problem, solver, control, i)
    cross = np.delete(problem.matrix.rows(np.array([i]))[0], i)
    mean = float(cross @ solution.alpha)
    if not solution.has_variance:
        return _Prediction(mean, None)
    return _Prediction(mean, prior - float(solution.correction.quadratic_diagonal(cross[:, None])[0]))


def _solve_without(problem: Problem, solver: Solver, control: Control, i: int) -> Solution:
    try:
        return solver.solve(problem.without(i), control)
    except ConvergenceError as error:
        raise ConvergenceError(f"without case {i}: {error}", error.status) from error


def _predict_class_without(problem: Problem, solver: Solver, control: Control, i: int) -> _Prediction:
    prior = prior_variance(problem.dense_gram, problem.n_classes)[i]
    if problem.n == 1:  # what is left is the prior
        return _Prediction(np.zeros(prior.size), np.diag(prior))
    solution = _solve_without(problem, solver, control, i)
    cross = np.delete(problem.dense_gram[..., i], i, axis=-1)[..., None]
    covariance = case_covariances(class_correction(solution), prior[None], cross)
    return _Prediction(times_gram(solution.alpha, cross)[0], covariance[0])
