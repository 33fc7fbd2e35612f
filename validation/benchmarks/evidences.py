"""What a log evidence costs: TAP's, its correction, Laplace's, by importance sampling, and exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import bayesgp_mf as bgp
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.solvers.second_order import SecondOrder, second_order
from validation.benchmarks.solving import KERNEL, LIKELIHOOD
from validation.benchmarks.timing import EVIDENCE, Benchmark, Case, in_turn

REPEATS = {100: 9, 1000: 3}
"""By number of cases; the first size is one that exact integration reaches."""
DRAWS = 10_000
"""Of TAP with tilted marginals, that importance sampling weighs."""
REMARK = (
    "For both sizes: labels drawn from the model, five inputs, all from the inputs on but for the correction, which is "
    f"that of a solution just made. Importance sampling has {DRAWS} draws and finds the solution too."
)


def benchmarks(advance: Callable[[str], None]) -> Iterator[Benchmark]:
    """Time the evidences at each size."""
    for n, repeats in REPEATS.items():
        cases = cases_of(n, DRAWS, exact=n == min(REPEATS))
        yield Benchmark(f"Log evidence, n = {n}", in_turn(cases, repeats, advance), (REMARK,) * (n == max(REPEATS)))


def cases_of(n: int, draws: int, *, exact: bool) -> dict[str, Case]:
    """Return what is timed, by name."""
    toy = bgp.datasets.make_toy(KERNEL, LIKELIHOOD, n=n, n_test=0, d=5, random_seed=1)
    t = 2.0 * toy.y - 1.0
    made: list[tuple[Problem, Solution]] = []

    def solve(method: str) -> Solution:
        return bgp.solve(KERNEL.gram(toy.X), t, LIKELIHOOD, method=method)

    def prepare() -> None:
        made[:] = [(Problem(KERNEL.gram(toy.X), t, LIKELIHOOD), solve("tap"))]

    def correct() -> SecondOrder | None:
        return second_order(*made[0])

    def corrected(found: SecondOrder) -> dict[str, float | None]:
        return {EVIDENCE: made[0][1].evidence.value + found.correction}

    def sample() -> Any:
        options: dict[str, Any] = {"marginals": "tilted", "draws": draws // 4, "random_seed": 1}
        return bgp.diagnostics.importance(bgp.fit(toy.X, toy.y, KERNEL, LIKELIHOOD, **options))

    cases = {
        "TAP": Case(partial(solve, "tap"), measure=_value),
        "its correction": Case(correct, prepare, measure=corrected),
        "Laplace": Case(partial(solve, "laplace"), measure=_value),
        "importance sampling": Case(sample, measure=lambda found: {EVIDENCE: found.log_evidence}, repeats=1),
    }
    if exact:
        cases["exact"] = Case(partial(solve, "exact"), measure=_value, repeats=1)
    return cases


def _value(solution: Solution) -> dict[str, float | None]:
    return {EVIDENCE: solution.evidence.value}
