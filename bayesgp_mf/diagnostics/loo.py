"""What the other cases predict for each: draws of its target, for checks of ArviZ without weights; the worst cases.

And the same as it is defined, by n refits (`exact_loo`): what these free estimates are checked against.
"""

from __future__ import annotations

from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.arguments import as_generator, check_integers
from bayesgp_mf.container.draws import as_stored
from bayesgp_mf.container.groups import Container, get_group, make_container
from bayesgp_mf.container.layout import SAMPLE_DIMS, Layout, common_attrs
from bayesgp_mf.container.loo import log_densities
from bayesgp_mf.container.read import fit_group, from_container
from bayesgp_mf.container.write import check_has_cases
from bayesgp_mf.diagnostics.curves import relevance
from bayesgp_mf.diagnostics.fitted import fitted
from bayesgp_mf.errors import ConvergenceError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import ClassLeaveOneOut, Control, LeaveOneOut, Solution
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inference.undefined import LeaveOneOutFields
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.memory import check_draws
from bayesgp_mf.methods import MethodName, get_method
from bayesgp_mf.multiclass.class_gram import class_correction, class_predictions
from bayesgp_mf.multiclass.correction import case_covariances, prior_variance, times_gram
from bayesgp_mf.parallel import backend
from bayesgp_mf.processes.process import Process
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.types import Array


def loo_predictive(
    idata: Container,
    *,
    draws: int = 1000,
    chains: int = 4,
    random_seed: int | np.random.Generator | None = None,
    kernel: Any = None,
    likelihood: Likelihood | None = None,
    method: Solver | None = None,
) -> Container:
    r"""Draw each target from its leave-one-out prediction, for the predictive checks of ArviZ.

    .. math:: y_i \sim \int p(y_i | f_i)\, p(f_i | y_{-i})\, df_i

    The cavity of a case is its leave-one-out posterior (2000, eq. 32 and appendix D), so this needs no importance
    weights. ArviZ's own ``loo_pit`` and ``plot_loo_pava`` weight draws from the posterior instead, and warn if the
    weights are unreliable.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file; it is not changed.
    draws, chains : int
        Number of draws of each target. All draws are independent; chains are only ArviZ's layout.
    random_seed : int, numpy.random.Generator or None
        Source of the draws.
    kernel, likelihood, method : optional
        As for `predict`: those of the fit, if the container does not hold them.

    Returns
    -------
    InferenceData or DataTree
        With ``posterior_predictive`` (``y``, drawn without the case's own target), ``observed_data`` and
        ``constant_data``. In ArviZ 1 ``az.plot_ppc_pit`` of it is the leave-one-out PIT, and ``az.plot_ppc_pava`` the
        calibration of leave-one-out probabilities; in ArviZ 0.2x ``az.plot_bpv(..., kind="u_value")`` and
        ``az.plot_separation(..., y="y")``.

    Raises
    ------
    ValueError
        If the container was not made by this package, or ``kernel``, ``likelihood`` or ``method`` is missing, not
        needed, or another than in the fit.
    UndefinedQuantityError
        If the container has nothing about single cases.
    MemoryError
        If the draws would not fit into this machine's memory.

    Notes
    -----
    Labels are drawn by the leave-one-out probabilities of `loo`. The latent values of other targets are drawn from the
    Gaussian cavity; in an average over hyperparameters, from that of a setting chosen by its weight without the case.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X = np.linspace(-2, 2, 20)[:, None]
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), bgp.Probit(), draws=50, random_seed=1)
    >>> without = bgp.diagnostics.loo_predictive(idata, random_seed=2)
    >>> share = without["posterior_predictive"]["y"].mean(("chain", "draw")).values[:3]  # of class 1
    >>> bool(np.all(np.abs(share - (1 - np.exp(idata["fit"]["loo_i"].values[:3]))) < 0.03))
    True
    """
    check_integers(1, draws=draws, chains=chains)
    fit = fit_group(idata)
    check_has_cases(fit, "leave-one-out prediction")
    rng, posterior = as_generator(random_seed), from_container(idata, kernel, likelihood, method)
    n = posterior.problem.n
    check_draws(draws * chains, n, "training", "Ask for fewer: loo_predictive(..., draws=...).")
    y = _draw(posterior, draws * chains, rng).reshape(chains, draws, n)
    stored = as_stored(posterior.problem.likelihood, y)
    targets = Layout.of(idata, (chains, draws)).targets(stored, SAMPLE_DIMS)
    return make_container(
        {
            "posterior_predictive": xr.Dataset({"y": targets}, attrs=common_attrs()),
            **{name: get_group(idata, name) for name in ("observed_data", "constant_data")},
        }
    )


def _draw(posterior: Process, size: int, rng: np.random.Generator) -> NDArray[Any]:
    """Return targets ``(size, n)``, each drawn from what the other cases predict for it."""
    loo, problem = posterior.loo, posterior.problem
    if isinstance(loo, ClassLeaveOneOut):
        ends = np.cumsum(loo.probability, axis=1)
        levels = rng.random((size, problem.n)) * ends[:, -1]
        return np.stack([np.searchsorted(ends[i], levels[:, i], side="right") for i in range(problem.n)], axis=1)
    if problem.likelihood.is_binary and "weights" not in problem.likelihood.stored_by_case:
        own = np.exp(loo.log_density)  # of the case's own label
        return np.where(rng.random((size, problem.n)) < own, problem.t, -problem.t).astype(np.int16)
    return _through_latent_values(posterior, size, rng)


def _through_latent_values(posterior: Process, size: int, rng: np.random.Generator) -> NDArray[Any]:
    part_of = _parts(posterior, size, rng)
    white = rng.standard_normal(part_of.shape)
    y = np.empty(part_of.shape)
    for k, part in enumerate(posterior.parts):
        here = part_of == k
        rows = here.any(axis=1)
        f = part.loo.mean + np.sqrt(part.loo.variance) * white[rows]
        y[here] = part.problem.likelihood.unshifted.sample(f, rng)[here[rows]]
    return y


def _parts(posterior: Process, size: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the number ``(size, n)`` of the part that each draw is from, by the weights without the case."""
    if len(posterior.parts) == 1:
        return np.zeros((size, posterior.problem.n), dtype=np.intp)
    ends = np.cumsum(posterior.loo_weights, axis=0)
    level = rng.random(size)  # one for all cases of a draw, which then has few parts
    chosen = np.stack([np.searchsorted(end, level * end[-1], side="right") for end in ends.T], axis=1)
    last = int(np.flatnonzero(posterior.weights)[-1])
    return np.asarray(np.minimum(chosen, last), dtype=np.intp)  # where a sum is rounded to less than one


class WorstCases(NamedTuple):
    """Cases of a fit, the one that is predicted worst first.

    Attributes
    ----------
    labels : tuple of str
        Labels of their rows.
    log_density : (k,) array
        Log predictive density of each target given all other cases, in nats.
    targets : tuple of str
        Classes by name, or numbers with three digits.
    features : tuple of str
        Names of the inputs that are stated, the most relevant one first if some are left out.
    values : tuple of tuple of str
        For each case these inputs, with three digits, or the name of the group.
    """

    labels: tuple[str, ...]
    log_density: Array
    targets: tuple[str, ...]
    features: tuple[str, ...]
    values: tuple[tuple[str, ...], ...]


def worst_cases(idata: Container, number: int = 5, *, inputs: int = 3, **given: Any) -> WorstCases:
    """Return the cases that are predicted worst from all others, by leave-one-out log density.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.
    number : int
        How many cases, if there are so many.
    inputs : int
        How many inputs to state, those that do most by `diagnostics.relevance`; all if there are no more.
    **given
        ``kernel``, ``likelihood`` and ``method`` as for `predict`, where the container does not hold them.

    Raises
    ------
    ValueError
        If ``number`` or ``inputs`` is less than one, or ``idata`` is not a fit of this package.
    UndefinedQuantityError
        If the fit has no predictive density, or has nothing about single cases.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.diagnostics.loo import worst_cases
    >>> X, y = [[0.0], [1.0], [2.0], [3.0]], ["no", "no", "yes", "no"]
    >>> idata = bgp.fit(X, y, bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> worst_cases(idata, 1).targets
    ('yes',)
    """
    check_integers(1, number=number, inputs=inputs)
    loo_i = log_densities(idata)
    fit = fitted(idata, **given)
    columns = np.array(fit.stated, dtype=np.intp)
    if columns.size > inputs:
        columns = columns[np.argsort(-relevance(idata, **given).effect[columns], kind="stable")[:inputs]]
    lowest = np.argsort(loo_i.values, kind="stable")[:number]
    y = get_group(idata, "observed_data")["y"].values
    return WorstCases(
        tuple(label_in_words(label) for label in loo_i["obs_id"].values[lowest]),
        loo_i.values[lowest],
        tuple(fit.classes[int(y[i])] if fit.classes else f"{y[i]:.4g}" for i in lowest),
        tuple(fit.names[j] for j in columns),
        tuple(tuple(fit.value_in_words(int(j), fit.X[i, j]) for j in columns) for i in lowest),
    )


def label_in_words(label: Any) -> str:
    """Return the label of a row as text, a date or a time without digits that say nothing."""
    return np.datetime_as_string(label, unit="auto") if isinstance(label, np.datetime64) else str(label)


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
    check_integers(1, processes=processes)
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
