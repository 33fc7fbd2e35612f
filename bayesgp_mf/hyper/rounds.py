"""A search for hyperparameters on inducing cases: on few of them and on a part of the cases, drawn anew each round.

A solution on M inducing cases costs n M^2, and a search takes some hundred of them. Hyperparameters ask for less than
predictions do: few inducing cases and a part of the cases know them nearly as well, if they are not tuned to these very
ones, which is why the next round takes others.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import partial

import numpy as np

from bayesgp_mf.hyper.result import Advance, HyperResult, Record
from bayesgp_mf.hyper.strategy import Restartable, Strategy, averages
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.inducing import Inducing, in_proportion
from bayesgp_mf.types import Array

RECORDS = ("round",)
"""Dimensions of the record that are its own."""


def choose_on_inducing(
    target: Target, strategy: Strategy, inducing: Inducing, rng: np.random.Generator, advance: Advance
) -> tuple[HyperResult, Array]:
    """Return what a strategy chooses on inducing cases, and the inducing inputs ``(M, d)`` of the solution.

    A search goes in rounds. An average over hyperparameters is over what all cases say of them: it takes them all, with
    all inducing cases, at each of its solutions.
    """
    if averages(strategy):
        points = inducing.chosen(target.X, target.t, target.kernel, rng)
        return strategy.choose(replace(target, inducing=points), rng, advance), points
    result = _in_rounds(target, strategy, inducing, rng, advance)
    return result, inducing.chosen(target.X, target.t, result.kernels[0], rng)


def _in_rounds(
    target: Target, strategy: Strategy, inducing: Inducing, rng: np.random.Generator, advance: Advance
) -> HyperResult:
    n = target.t.size
    cases = min(n, inducing.rows)
    anew = cases < n or inducing.inputs is None
    rounds = inducing.rounds if anew else 1
    kernel, ends, scores = target.kernel, [], []
    for k in range(rounds):
        rows = in_proportion(target.t, rng)[:cases] if cases < n else slice(None)
        X, t = target.X[rows], target.t[rows]
        points = inducing.chosen(X, t, kernel, rng, searching=True)
        part = replace(target, X=X, t=t, kernel=kernel, inducing=points)
        with warnings.catch_warnings():
            if k < rounds - 1:  # what the last one says of where it ended is what counts
                warnings.simplefilter("ignore")
            result = strategy.choose(part, rng, partial(_in_round, advance, f"round {k + 1} of {rounds}"))
        kernel = result.kernels[0]
        ends.append(part.free_logarithms(kernel))
        scores.append(float(result.stats["lp"][0]) / cases if "lp" in result.stats else np.nan)
        if isinstance(strategy, Restartable):  # the next begins where this one ended
            strategy = strategy.with_starts(1)
    record: Record = {
        **result.record,
        "hyper_round_end": (("round", "hyper"), np.array(ends)),
        "hyper_round_score": (("round",), np.array(scores)),
    }
    return replace(result, record=record, log_evidence=None)  # which was that of a part of the cases


def _in_round(advance: Advance, which: str, text: str) -> None:
    advance(f"{which}: {text}")
