"""From a choice of hyperparameters to posteriors: one for a point estimate, a mixture for an average."""

from __future__ import annotations

from contextlib import closing, suppress
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesgp_mf.errors import ConvergenceError, ConvergenceWarning, NotPositiveDefiniteError, warn
from bayesgp_mf.hyper import Strategy, Target
from bayesgp_mf.hyper.forecast import FEWER_INDUCING, Forecast, advice_for, warn_before
from bayesgp_mf.hyper.objective import NO_VALUE
from bayesgp_mf.hyper.priors import quantiles
from bayesgp_mf.hyper.rounds import choose_on_inducing
from bayesgp_mf.hyper.strategy import HyperResult, Record
from bayesgp_mf.hyper.target import Model
from bayesgp_mf.inference.inducing import Inducing
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control, Solution
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.processes.process import Part, Process, Tuned
from bayesgp_mf.processes.several_classes import make_process
from bayesgp_mf.progress import progress_bar

STEPS = 8
"""On the way from the model at the start to one that was chosen, where that cannot be solved from the prior."""
LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def tune(
    target: Target,
    strategy: Strategy,
    solver: Solver,
    *,
    control: Control,
    draws: int,
    chains: int,
    rng: np.random.Generator,
    progress: bool,
    inducing: Inducing | None = None,
) -> Tuned:
    """Choose hyperparameters and solve at each of them.

    Parameters
    ----------
    target : Target
        Data, the method that judges hyperparameters, priors, bounds.
    strategy : Strategy
        How to choose.
    solver : Solver
        The method of the posterior; it need not be the one that judges (2000, section 9).
    control : Control
        Of ``solver``.
    draws, chains : int
        Draws of the posterior where the strategy does not draw itself.
    rng : numpy.random.Generator
        Source of randomness.
    progress : bool
        Show a progress bar for what takes longer than a second.
    inducing : Inducing, optional
        What stands for all cases in the covariances between them.
    """
    if inducing is None or strategy.averages:
        target = _with_forecast(target, strategy, on_inducing=inducing is not None)
    with progress_bar(f"choosing hyperparameters ({strategy.name})", enabled=progress) as advance:
        if inducing is None:
            result = strategy.choose(target, rng, advance)
        else:
            result, points = choose_on_inducing(target, strategy, inducing, rng, advance)
            target = replace(target, inducing=points)
    # a rejected step repeats the last model
    values = [b"".join(np.asarray(value).tobytes() for value in model.params.values()) for model in result.models]
    part_of = pd.factorize(np.array(values, dtype=object))[0]
    first = np.unique(part_of, return_index=True)[1]
    models = [result.models[k] for k in first]
    target = replace(target, settings=len(models))
    known = result.solutions if result.solutions and solver is target.solver else (None,) * len(result.models)
    starts = [known[k] for k in first[::-1]]
    del known
    result = replace(result, solutions=())  # each is let go once it was started from
    at = target, solver, control, strategy.averages
    parts: list[Part] = []
    with (
        progress_bar("solving at each of them", total=len(models), enabled=progress) as advance,
        closing(strategy.workers()) as pool,
        closing(pool.map(_chosen, ((model, starts.pop(), result.lower) for model in models), at)) as solved,
    ):
        for model, problem, solution in solved:
            if not parts and inducing is None:
                problem.matrix.check_memory(len(models), target.n_classes)
            parts.append(make_process(model.kernel, target.X, problem, solution, solver))
            advance(f"{len(parts)} of {len(models)}")
    if len(result.models) == 1:
        node = np.zeros((chains, draws), dtype=np.intp)
        record = result.record | record_of_priors(target, averaged=False)
        highest = result.log_evidence if model is models[0] else None
        return Tuned(parts[0], node, {}, record, target.names, highest, priors=target.priors)
    weights = np.bincount(part_of, weights=result.weights)
    chosen = _spread(result, chains, draws, rng)
    weighed = target if result.priors is None else replace(target, priors=result.priors)
    each = [weighed.log_priors(model) for model in models]
    return Tuned(
        Process(tuple(parts), weights / weights.sum()),
        part_of[chosen],
        {name: values[chosen] for name, values in result.stats.items()},
        result.record | record_of_priors(weighed, averaged=True),
        target.names,
        sampled=result.sampled,
        node_evidence=None if result.node_evidence is None else result.node_evidence[first],
        log_prior={name: np.array([one[name] for one in each]) for name in each[0]},
        priors=weighed.priors,
    )


def _with_forecast(target: Target, strategy: Strategy, *, on_inducing: bool) -> Target:
    """Return a target of which it is said how long a strategy will take, and say it now if its first step is long."""
    points, averages, advice = strategy.solutions(target), strategy.averages, FEWER_INDUCING
    if not on_inducing:
        given = target.kernel, target.X, target.t, target.likelihood, target.solver, target.control
        warn_before(*given, name=strategy.name, points=points or 1, averages=averages)
        advice = advice_for(target.t.size, target.kernel, target.likelihood, target.solver, averages=averages)
    return replace(target, forecast=Forecast(target.t.size, strategy.name, points, advice))


def _spread(result: HyperResult, chains: int, draws: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the model ``(chains, draws)`` of each draw of f.

    Draws that share a model are not independent, and what ArviZ computes takes that from their order. So those of a
    random model stand side by side, as many as it has weight, and each chain has models of its own: autocorrelation
    and what chains differ by are then those of weighted draws. Given the nodes of a rule, draws are independent.
    """
    k = len(result.models)
    if result.chains is not None:
        return np.arange(k).reshape(result.chains, -1)
    if not result.sampled:
        return rng.choice(k, size=(chains, draws), p=result.weights)
    ends = np.cumsum(result.weights)
    levels = (np.arange(chains * draws) + rng.random()) / (chains * draws)  # systematic resampling
    chosen = np.searchsorted(ends, levels, side="right")
    last = int(np.flatnonzero(result.weights)[-1])  # where the sum of the weights is rounded to less than one
    return np.minimum(chosen, last).reshape(chains, draws)


At: TypeAlias = tuple[Target, Solver, Control, bool]
"""What is the same for all that are chosen, and whether they are several."""
Lower: TypeAlias = tuple[tuple[float, Model], ...]


def _chosen(at: At, chosen: tuple[Model, Solution | None, Lower]) -> tuple[Model, Problem, Solution]:
    """Return a model that was chosen, or the highest of lower ones that has a solution, with problem and solution.

    A search knows its score well enough where a fit, which asks for more, may find that rounding decides.
    """
    model, found, lower = chosen
    try:
        return model, *_solved(at, model, found)
    except (ConvergenceError, NotPositiveDefiniteError) as reason:
        for less, other in lower:
            with suppress(*NO_VALUE):
                problem, solution = _solved(at, other, None)
                warn(
                    "at the highest point of the search the equations cannot be solved as closely as a fit is: "
                    f"{reason} Hyperparameters are those of the highest point where they can, {less:.3g} nats lower.",
                    ConvergenceWarning,
                )
                return other, problem, solution
        raise


def _solved(at: At, model: Model, found: Solution | None) -> tuple[Problem, Solution]:
    """Return problem and solution at a model that was chosen, which know nothing of those at others.

    One of many takes a step from what was found there. A single one is solved from the prior, as a fit at these
    hyperparameters is: a search has done that where there may be several solutions. What leads nowhere goes from what
    was found, or as a search came there.
    """
    shared, solver, control, is_one_of_many = at
    target = shared.apart()
    problem = target.problem_at(model, solver)
    if found is not None and (is_one_of_many or not target.likelihood.log_concave):
        with suppress(*NO_VALUE):
            return problem, solver.solve(problem, control, found)
    try:
        return problem, solver.solve(problem, control)
    except (ConvergenceError, NotPositiveDefiniteError) as reason:
        if not is_one_of_many and found is not None:
            with suppress(*NO_VALUE):
                return problem, solver.solve(problem, control, found)
        begin, end = target.start, target.free_logarithms(model)
        last: Solution | None = None
        try:
            for share in np.arange(STEPS) / STEPS:
                nearer = target.problem_at(target.model_at(begin + share * (end - begin)), solver)
                last = solver.solve(nearer, replace(control, throw=True), last)
            return problem, solver.solve(problem, control, last)
        except NO_VALUE:
            raise reason from None


def record_of_priors(target: Target, *, averaged: bool) -> Record:
    """Return quantiles of the prior of each free entry, as logarithms, for the record of a choice of hyperparameters.

    Where hyperparameters are ``averaged`` over, a range without a prior is one, uniform in the logarithm. An entry
    without a prior has NaN. There is nothing if no entry has one.
    """
    found = np.full((len(LEVELS), target.start.size), np.nan)
    bounded = np.isfinite(target.lower) & np.isfinite(target.upper)
    if averaged:
        low, high = target.lower[bounded], target.upper[bounded]
        found[:, bounded] = low + np.array(LEVELS)[:, None] * (high - low)
    for name in target.priors:
        own = target.owners == name
        levels = np.tile(np.array(LEVELS)[:, None], np.count_nonzero(own))
        at = target.start[own], target.lower[own], target.upper[own]
        found[:, own] = quantiles(target.priors[name], levels, *at)
    return {} if np.all(np.isnan(found)) else {"hyper_prior_quantile": (("prior_level", "hyper"), found)}
