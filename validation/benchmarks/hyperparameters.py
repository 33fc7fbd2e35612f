"""What one step of tuning costs on Pima (n = 200, seven inputs): the evidence with its gradient."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.hyper import EvidenceScore, Objective, Target
from bayesgp_mf.hyper.scores import KNOWN_IN_SEARCH
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.methods import get_method
from bayesgp_mf.types import Array
from validation.benchmarks.goals import Goals
from validation.benchmarks.listing import Result
from validation.benchmarks.timing import Benchmark, Case, in_turn
from validation.reporting.checks import at_most
from validation.tables.selection import Split

METHODS = ("tap", "naive", "laplace", "variational")
LENGTHSCALE, VARIANCE = np.full(7, 3.0), 4.0
"""Where the evidence is asked for."""
MOVE = 0.05
"""In every logarithm: as far as the last step of a search, or one leapfrog step."""
CALLS = 15
"""Repeats."""


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Time single calls."""
    split = Split.of(bgp.datasets.load_pima())
    cases: dict[str, Case] = {}
    for method in METHODS:
        cases |= evidence_cases(split, method)
    rows = in_turn(cases, CALLS, advance)
    yield Benchmark(
        "Pima: log evidence and its gradient in 8 hyperparameters, one call",
        rows,
        (
            "Probit likelihood. Gram matrix, solution, evidence, gradient. Cold: from the prior. Warm: from the "
            f"solution at a point {MOVE:g} away in each logarithm, as in a search.",
        ),
    )
    median = {row.name: 1e3 * row.median for row in rows}
    yield Goals(
        "What an evidence with its gradient was to cost",
        [
            at_most("Pima: evidence and gradient by tap, warm", median["tap, warm"], 3.0, "ms"),
            at_most("Pima: evidence and gradient by tap, cold", median["tap, cold"], 6.0, "ms"),
        ],
    )


def evidence_cases(split: Split, method: str) -> dict[str, Case]:
    """Return a call from the prior, and one from the solution at a point nearby."""
    kernel = bgp.kernels.Gaussian(LENGTHSCALE, VARIANCE)
    objective = Objective(
        Target(split.X, split.t, bgp.Probit(), kernel, get_method(method), Control()), EvidenceScore(KNOWN_IN_SEARCH)
    )
    here: Array = objective.target.start

    def nearby() -> None:
        objective.forget()
        objective(here - MOVE)

    def call() -> tuple[float, Array]:
        answer = objective(here)
        if answer is None:
            raise RuntimeError(f"there is no solution to time: {objective.last_failure}")
        return answer

    def describe(answer: tuple[float, Array]) -> str:
        return f"log evidence {answer[0]:.3f}"

    return {
        f"{method}, cold": Case(call, objective.forget, describe),
        f"{method}, warm": Case(call, nearby, describe),
    }
