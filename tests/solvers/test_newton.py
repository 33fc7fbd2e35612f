"""Newton's step for TAP against the derivative of the plain step, by differences."""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.inference.solution import Cavity
from bayesgp_mf.likelihoods import Quadrature
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.solvers.meanfield import naive, tap
from bayesgp_mf.solvers.newton import newton_step
from bayesgp_mf.solvers.sites import SiteState, iterate_sites, site_of_cavity, sites_of
from bayesgp_mf.types import Derivs

LIKELIHOODS = {
    "probit": bgp.Probit(),
    "nearly a step": bgp.Probit(0.01),
    "logit": bgp.Logit(),
    "regression": bgp.likelihoods.Gaussian(0.5),
    "an outlier": bgp.StudentT(0.3, 4.0),
}


class Followed(NamedTuple):
    """What follows from a state under TAP, in the order in which a solver keeps it."""

    alpha: np.ndarray
    correction: SiteCorrection
    cavity: Cavity
    derivs: Derivs


def follow(problem, state, extra_noise=0.0):
    """Return what follows from a state, by its definition."""
    correction = SiteCorrection(problem.gram, state.precision)
    alpha, variance = correction.weights(state.shift), correction.cavity_variance()
    mean = problem.gram @ alpha - variance * alpha
    derivs = problem.likelihood.log_partition(problem.t, mean, variance + extra_noise)
    return Followed(alpha, correction, Cavity(mean, variance), derivs)


def plain_step(problem, state, extra_noise=0.0):
    """Return the sites that match the likelihood at the cavities of a state."""
    _, _, (mean, variance), (_, d1, d2) = follow(problem, state, extra_noise)
    return SiteState(*site_of_cavity(mean, d1, d2, variance))


def residual_of(problem, state, extra_noise=0.0):
    """Return by how much a plain step would change a state."""
    target = plain_step(problem, state, extra_noise)
    return SiteState(target.precision - state.precision, target.shift - state.shift)


def problem_and_state(likelihood, extra_noise=0.0, n=12):
    """Return a problem, and a state two plain steps from the prior, which is no solution."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 2))
    t = np.where(X[:, 0] > 0.2, 1.0, -1.0)
    if isinstance(likelihood, bgp.StudentT):
        t[0] = 8.0
    problem = bgp.Problem(bgp.kernels.Gaussian(1.0, 3.0).gram(X), t, likelihood)
    return problem, plain_step(problem, plain_step(problem, tap.init(problem), extra_noise), extra_noise)


def residual_after(problem, state, extra_noise=0.0, likelihood=None):
    """Return by how much Newton's step fails to solve the linearised equations, relative to its right-hand side.

    The step takes its further derivatives from another likelihood if one is given.
    """
    residual, followed = residual_of(problem, state, extra_noise), follow(problem, state, extra_noise)
    asked = problem if likelihood is None else bgp.Problem(problem.gram, problem.t, likelihood)
    move = newton_step(asked, state, followed, residual, 1e-10, extra_noise)[0]
    # the derivative of the plain step along the move, of order four
    h = 1e-3 * float(np.min(np.abs(state.precision) / np.maximum(np.abs(move.precision), 1e-12)))
    h = min(h, 1e-3)

    def along(k):
        moved = SiteState(state.precision + k * h * move.precision, state.shift + k * h * move.shift)
        return np.concatenate(plain_step(problem, moved, extra_noise)[:2])

    derivative = (8.0 * (along(1) - along(-1)) - (along(2) - along(-2))) / (12.0 * h)
    right = np.concatenate(residual[:2])
    return np.max(np.abs(np.concatenate(move[:2]) - derivative - right)) / np.max(np.abs(right))


def test_the_plain_step_is_that_of_the_solver():
    problem, state = problem_and_state(bgp.Probit())
    np.testing.assert_allclose(plain_step(problem, state)[:2], tap.step(problem, state)[:2], rtol=1e-9)


@pytest.mark.parametrize("extra_noise", [0.0, 0.7])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_it_solves_the_linearised_equations(name, extra_noise):
    problem, state = problem_and_state(LIKELIHOODS[name], extra_noise)
    # third and fourth derivatives are those of rough differences
    assert residual_after(problem, state, extra_noise) < 2e-4


def test_the_comparison_refuses_a_step_with_other_further_derivatives():
    problem, state = problem_and_state(bgp.Probit())
    assert residual_after(problem, state, likelihood=bgp.Probit(1.01)) > 1e-3


@pytest.mark.parametrize("name", ["probit", "nearly a step", "logit"])
def test_it_knows_how_far_off_the_evidence_is(name):
    """Half the slope along the step, to second order: with absolute values never less than the error itself."""
    problem, state = problem_and_state(LIKELIHOODS[name])
    solution = tap.solve(problem, bgp.Control(tolerance=1e-12))
    end = sites_of(solution, problem)
    for part in (1e-1, 1e-2):
        near = SiteState(*(part * away + (1.0 - part) * at for away, at in zip(state[:2], end[:2], strict=True)))
        _, found = newton_step(problem, near, follow(problem, near), residual_of(problem, near), 1e-10)
        error = abs(tap.finish(problem, near, solution.info).evidence.value - solution.evidence.value)
        assert 0.9 * error < found < 30.0 * error


def test_solutions_take_a_handful_of_factorisations(problem):
    for likelihood in (bgp.Probit(), bgp.Step(), bgp.Probit(0.01)):
        info = tap.solve(bgp.Problem(problem.gram, problem.t, likelihood)).info
        assert info.n_iterations <= 12, likelihood


def test_an_outlier_has_a_negative_site_here():
    assert (problem_and_state(LIKELIHOODS["an outlier"])[1].precision < 0).any()


def test_sites_that_say_nothing_have_none(problem):
    nothing = tap.init(problem)
    some = SiteState(np.where(np.arange(problem.n) == 3, 0.0, 0.5), np.zeros(problem.n))
    for state in (nothing, some):
        found = newton_step(problem, state, follow(problem, state), state, 0.1)
        assert found == (None, None)


@pytest.mark.parametrize("solver", [naive, tap], ids=["naive", "tap"])
def test_newtons_steps_are_fewer_than_plain_ones(solver):
    # as a function it is not known to be log-concave, which naive mean field would solve in another way
    logit = Quadrature(lambda t, f: -np.logaddexp(0.0, -t * f))
    problem, _ = problem_and_state(logit)
    start = solver.solve(bgp.Problem(1.2 * problem.gram, problem.t, logit))
    _, plain = iterate_sites(problem, partial(solver.step, problem), sites_of(start, problem), bgp.Control())
    assert solver.solve(problem, start=start).info.n_iterations < plain.n_iterations
