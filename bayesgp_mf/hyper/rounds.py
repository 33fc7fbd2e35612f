"""A search for hyperparameters on inducing cases: on few of them and on a part of the cases, drawn anew each round.

A solution on M inducing cases costs n M^2, and a search takes some hundred of them. Hyperparameters ask for less than
predictions do: few inducing cases and a part of the cases know them nearly as well, if they are not tuned to these very
ones, which is why the next round takes others.

Which inducing cases there are decides which maximum is found: where they happen to lie too far apart in an input, it
seems to have no effect. So the first round, on the fewest cases, is gone through with several draws of them, and the
next goes on from the best; from where a search starts matters less (on flights of 2013, 14 parameters: all of four
starts ended at one maximum, and two draws at two).

After the last round, inducing inputs may move uphill with the log evidence, together with the hyperparameters.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.hyper.objective import NO_VALUE
from bayesgp_mf.hyper.optimise import GAIN_ON_INDUCING, uphill
from bayesgp_mf.hyper.scores import KNOWN_IN_SEARCH, EvidenceScore
from bayesgp_mf.hyper.strategy import Advance, HyperResult, Record, Strategy
from bayesgp_mf.hyper.target import Model, Target
from bayesgp_mf.inference.inducing import Inducing, in_proportion
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.inference.solver import parameter_gradient
from bayesgp_mf.kernels import Kernel, all_parts
from bayesgp_mf.matrices.inducing_points import inducing_points
from bayesgp_mf.types import Array

MOST_STEPS = 100
"""Of L-BFGS-B."""
FARTHEST = 1.0
"""How far an inducing input may move beyond the cases, in the spread of each input."""


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
            found = inducing_points(model.kernel, inputs)  # what the others determine moves nothing
            problem = replace(target, inducing=found.used).problem_at(model)
            last = solver.solve(problem, control, last)
        except NO_VALUE:
            if last is None:
                raise
            return None
        bar: Any = solver.gram_gradient(problem, last)
        log_prior, slope = target.log_prior(x[:p])
        matrix: Any = problem.matrix
        by_inputs = found.pull_back(matrix.pull_back_inputs(bar, model.kernel, target.X), len(points))
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


FEWEST = 1000
"""A round has half the cases of the next, but not fewer than this; and all but the last half the inducing cases."""
RECORDS = ("round",)
"""Dimensions of the record that are its own."""


def choose_on_inducing(
    target: Target, strategy: Strategy, inducing: Inducing, rng: np.random.Generator, advance: Advance
) -> tuple[HyperResult, Array]:
    """Return what a strategy chooses on inducing cases, and the inducing inputs ``(M, d)`` of the solution.

    A search goes in rounds. An average over hyperparameters is over what all cases say of them: it takes them all, with
    all inducing cases, at each of its solutions.
    """
    if strategy.averages:
        points = inducing.chosen(target.X, target.t, target.kernel, rng)
        return strategy.choose(replace(target, inducing=points), rng, advance), points
    result = _of_all_cases(target, _in_rounds(target, strategy, inducing, rng, advance))
    points = inducing.chosen(target.X, target.t, result.models[0].kernel, rng)
    if not inducing.move:
        return result, points
    rows = _some(target, min(target.t.size, inducing.rows), rng)
    part = target.of_cases(rows).going_on_from(result.models[0])
    model, points = move(part, points, partial(_in_round, advance, "moving inducing inputs"))
    return _of_all_cases(target, replace(result, models=(model,))), points


def _of_all_cases(target: Target, result: HyperResult) -> HyperResult:
    """Return what a search on a part of the cases found, with the likelihood of all of them."""
    return replace(result, models=tuple(target.model.replace(**model.params) for model in result.models))


def check_moves(inducing: Inducing, strategy: Strategy | None, kernel: Kernel) -> None:
    """Raise a ValueError if inducing inputs are to move, and nothing can move them."""
    if not inducing.move:
        return
    if strategy is None or not strategy.for_evidence:
        raise ValueError(
            "Inducing(move=True) moves inducing inputs uphill with the log evidence: give hyper='evidence', or "
            "move=False."
        )
    for part in all_parts(kernel):
        if not part.has_inputs_vjp:
            raise ValueError(
                "Inducing(move=True) needs the derivative of the kernel in its inputs, and "
                f"{type(part).__name__} has no inputs_vjp. Use move=False."
            )


def _in_rounds(
    target: Target, strategy: Strategy, inducing: Inducing, rng: np.random.Generator, advance: Advance
) -> HyperResult:
    n = target.t.size
    most = min(n, inducing.rows)
    rounds = inducing.rounds if most < n or inducing.inputs is None else 1
    draws = strategy.starts if inducing.inputs is None else 1
    if draws > 1:  # other inducing cases stand in for other starts
        strategy = strategy.with_starts(1)
    model, ends, scores = target.model, [], []
    for k in range(rounds):
        cases = max(min(most, FEWEST), most // 2 ** (rounds - 1 - k))
        rows = _some(target, cases, rng)
        some = target.of_cases(rows).going_on_from(model)
        found = []
        for _ in range(draws if k == 0 else 1):
            number = inducing.in_search if k == rounds - 1 else -(-inducing.in_search // 2)
            points = inducing.chosen(some.X, some.t, model.kernel, rng, number)
            with warnings.catch_warnings():
                if k < rounds - 1:  # what the last one says of where it ended is what counts
                    warnings.simplefilter("ignore")
                report = partial(_in_round, advance, f"round {k + 1} of {rounds}, {cases} cases")
                found.append(strategy.choose(replace(some, inducing=points), rng, report))
        result = max(found, key=_score)
        model = result.models[0]
        ends.append(some.free_logarithms(model))
        scores.append(_score(result) / cases)
    record: Record = {**result.record, "hyper_round_end": (("round", "hyper"), np.array(ends))}
    if np.all(np.isfinite(scores)):  # a strategy that counts errors has none
        record["hyper_round_score"] = (("round",), np.array(scores))
    return replace(result, record=record, log_evidence=None, solutions=())  # which were those of a part of the cases


def _some(target: Target, cases: int, rng: np.random.Generator) -> NDArray[np.intp] | slice:
    """Return a random part of the cases, the classes in proportion; all of them in their order."""
    return in_proportion(target.t, rng)[:cases] if cases < target.t.size else slice(None)


def _score(result: HyperResult) -> float:
    """Return what was maximised, in nats; NaN of a strategy that does not say."""
    return float(result.stats["lp"][0]) if "lp" in result.stats else np.nan


def _in_round(advance: Advance, which: str, text: str) -> None:
    advance(f"{which}: {text}")
