"""One solution by each method, at fixed hyperparameters, for three sizes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import bayesgp_mf as bgp
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.methods import get_method
from validation.benchmarks.timing import Benchmark, Case, in_turn

METHODS = ("tap", "naive", "variational", "laplace", "online", "svm")
"""All but exact integration, which is for some ten cases. The first one counts as 1."""
REPEATS = {200: 9, 500: 5, 1000: 3}
"""By number of cases."""
KERNEL = bgp.kernels.Matern32(lengthscale=2.0, variance=4.0)
"""Not too smooth: the variational method needs a Gram matrix that can be inverted."""
LIKELIHOOD = bgp.Probit(noise_variance=0.25)
REMARK = (
    "For all sizes: Gram matrix and targets are given; labels are drawn from the model, five inputs. All start from "
    "the prior and stop at 1e-8, except online: one sweep. The svm has no variances and no evidence."
)


def benchmarks(advance: Callable[[str], None]) -> Iterator[Benchmark]:
    """Time all methods at each size."""
    for n, repeats in REPEATS.items():
        problem = toy(n)
        cases = {method: _case(problem, method) for method in METHODS}
        remarks = (REMARK,) if n == max(REPEATS) else ()  # it is about all sizes
        yield Benchmark(f"Solve, n = {n}", in_turn(cases, repeats, advance), remarks)


def toy(n: int) -> Problem:
    """Return a problem whose labels are drawn from its own model."""
    drawn = bgp.datasets.make_toy(KERNEL, LIKELIHOOD, n=n, n_test=0, d=5, random_seed=1)
    return Problem(KERNEL.gram(drawn.X), 2.0 * drawn.y - 1.0, LIKELIHOOD)


def _case(problem: Problem, method: str) -> Case:
    return Case(partial(get_method(method).solve, problem), describe=_steps)


def _steps(solution: Solution) -> str:
    steps = solution.info.n_iterations
    return f"{steps} step" + "s" * (steps != 1)
