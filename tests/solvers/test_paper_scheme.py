"""The papers' iteration arrives where the faster one does, and says so when it does not."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.methods import METHODS
from bayesgp_mf.solvers.paper_scheme import paper_scheme

PAPER = bgp.Control(scheme="paper", max_iterations=5000)


def make_problem(likelihood=bgp.Probit(), n: int = 20) -> bgp.Problem:
    kernel = bgp.kernels.Gaussian(0.7, 2.0) + bgp.kernels.White(0.1)
    toy = bgp.datasets.make_toy(kernel, bgp.Probit(0.1), n=n, random_seed=1)
    return bgp.Problem(kernel.gram(toy.X), 2.0 * toy.y - 1.0, likelihood)


@pytest.mark.parametrize("method", ["tap", "naive", "variational"])
@pytest.mark.parametrize(
    "likelihood",
    [bgp.Probit(), bgp.Step(), bgp.Logit(), bgp.Probit(0.5, 0.1)],
    ids=["probit", "step", "logit", "flips"],
)
def test_it_ends_at_the_same_solution(method, likelihood):
    problem = make_problem(likelihood)
    fast, paper = (METHODS[method].solve(problem, control) for control in (bgp.Control(), PAPER))
    assert paper.info.status is bgp.Status.CONVERGED
    assert paper.info.n_iterations > fast.info.n_iterations
    np.testing.assert_allclose(paper.alpha, fast.alpha, atol=1e-6)
    np.testing.assert_allclose(paper.cavity.variance, fast.cavity.variance, rtol=1e-6)
    np.testing.assert_allclose(paper.evidence.value, fast.evidence.value, atol=1e-7)


def test_cavity_variances_are_refreshed_every_twentieth_step():
    problem = make_problem()
    rule = METHODS["tap"].rule
    calls = []

    class Counting(rule):
        def cavity_variance(self, correction):
            calls.append(1)
            return super().cavity_variance(correction)

    _, info = paper_scheme(
        Counting(problem.matrix), problem, bgp.Control(scheme="paper", max_iterations=59, tolerance=1e-14)
    )
    assert info.status is bgp.Status.MAX_ITERATIONS
    assert len(calls) == 2


@pytest.mark.parametrize("throw", [True, False])
def test_not_arriving_is_an_error(throw):
    problem = make_problem(bgp.Step())
    control = bgp.Control(scheme="paper", max_iterations=30, throw=throw)
    if throw:
        with pytest.raises(bgp.ConvergenceError, match="tap: The largest number"):
            METHODS["tap"].solve(problem, control)
    else:
        assert METHODS["tap"].solve(problem, control).info.status is bgp.Status.MAX_ITERATIONS


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("tap", "naive", "variational")])
def test_other_methods_refuse_it(method):
    with pytest.raises(ValueError, match=f"which method '{method}' does not solve"):
        METHODS[method].solve(make_problem(bgp.Probit(), 5), PAPER)


def test_an_unknown_scheme_is_refused():
    with pytest.raises(ValueError, match="scheme must be 'fast' or 'paper', got 'papers'"):
        bgp.Control(scheme="papers")
