"""Newton's step for TAP against the derivative of the plain step, by differences."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.solvers import newton as newton_module
from bayesgp_mf.solvers.meanfield import _Equations, naive, tap
from bayesgp_mf.solvers.sites import State, sites_of

LIKELIHOODS = {
    "probit": bgp.Probit(),
    "nearly a step": bgp.Probit(0.01),
    "logit": bgp.Logit(),
    "regression": bgp.likelihoods.Gaussian(0.5),
}


def equations_at_some_state(likelihood, extra_noise=0.0, n=12):
    """Return equations, and a state two plain steps from the prior, which is no solution."""
    rng = np.random.default_rng(3)
    X = rng.standard_normal((n, 2))
    problem = bgp.Problem(bgp.kernels.Gaussian(1.0, 3.0).gram(X), np.where(X[:, 0] > 0.2, 1.0, -1.0), likelihood)
    equations = _Equations(tap.rule(problem.matrix), problem)
    return equations, equations.step(equations.step(tap.init(problem), extra_noise), extra_noise)


def residual_after(equations, state, extra_noise=0.0):
    """Return by how much Newton's step fails to solve the linearised equations, relative to its right-hand side."""
    target = equations.step(state, extra_noise)
    residual = State(target.precision - state.precision, target.shift - state.shift)
    move = equations.newton_step(state, residual, 1e-10, extra_noise)
    # the derivative of the plain step along the move, of order four
    h = 1e-3 * float(np.min(state.precision / np.maximum(np.abs(move.precision), 1e-12)))
    h = min(h, 1e-3)

    def along(k):
        moved = equations.step(State(state.precision + k * h * move.precision, state.shift + k * h * move.shift))
        return np.concatenate(moved[:2])

    if extra_noise:

        def along(k):
            moved = State(state.precision + k * h * move.precision, state.shift + k * h * move.shift)
            return np.concatenate(equations.step(moved, extra_noise)[:2])

    derivative = (8.0 * (along(1) - along(-1)) - (along(2) - along(-2))) / (12.0 * h)
    right = np.concatenate(residual[:2])
    return np.max(np.abs(np.concatenate(move[:2]) - derivative - right)) / np.max(np.abs(right))


@pytest.mark.parametrize("extra_noise", [0.0, 0.7])
@pytest.mark.parametrize("name", LIKELIHOODS)
def test_it_solves_the_linearised_equations(name, extra_noise):
    equations, state = equations_at_some_state(LIKELIHOODS[name], extra_noise)
    # third and fourth derivatives are those of rough differences
    assert residual_after(equations, state, extra_noise) < 2e-4


@pytest.mark.parametrize("name", ["probit", "nearly a step", "logit"])
def test_it_knows_how_far_off_the_evidence_is(name):
    """Half the slope along the step, to second order: with absolute values never less than the error itself."""
    equations, state = equations_at_some_state(LIKELIHOODS[name])
    solution = tap.solve(equations.problem, bgp.Control(tolerance=1e-12))
    end = sites_of(solution, equations.problem)
    for part in (1e-1, 1e-2):
        near = State(*(part * away + (1.0 - part) * at for away, at in zip(state[:2], end[:2], strict=True)))
        target = equations.step(near)
        residual = State(target.precision - near.precision, target.shift - near.shift)
        posterior = equations.posterior(near)
        found = newton_module.newton_step(equations.problem, near, posterior, residual, 1e-10)
        error = abs(equations.evidence(posterior) - solution.evidence.value)
        assert 0.9 * error < found.evidence_error < 30.0 * error


def test_the_comparison_refuses_a_step_without_fourth_derivatives(monkeypatch):
    def without(likelihood, t, mean, variance, derivs):
        d3, d4 = original(likelihood, t, mean, variance, derivs)
        return d3, np.zeros_like(d4)

    original = newton_module.rough_higher_derivatives
    monkeypatch.setattr(newton_module, "rough_higher_derivatives", without)
    equations, state = equations_at_some_state(bgp.Probit())
    assert residual_after(equations, state) > 1e-3


def test_solutions_take_a_handful_of_factorisations(problem):
    for likelihood in (bgp.Probit(), bgp.Step(), bgp.Probit(0.01)):
        info = tap.solve(bgp.Problem(problem.gram, problem.t, likelihood)).info
        assert info.n_iterations <= 12, likelihood


def test_negative_sites_and_fixed_cavities_have_none(problem):
    flips = _Equations(tap.rule(problem.matrix), bgp.Problem(problem.gram, problem.t, bgp.Probit(flip=0.1)))
    says_nothing = tap.init(problem)
    assert flips.newton_step(says_nothing, says_nothing, 0.1) is None
    negative = State(np.full(problem.n, -0.01), np.zeros(problem.n))
    assert flips.newton_step(negative, negative, 0.1) is None
    positive = State(np.ones(problem.n), np.ones(problem.n))
    assert _Equations(naive.rule(problem.matrix), problem).newton_step(positive, positive, 0.1) is None
