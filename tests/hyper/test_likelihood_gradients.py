"""Gradients in the parameters of likelihoods, through the score of every method and on every kind of matrix."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import EvidenceScore, LogNormal, LooScore, Objective, Target
from bayesgp_mf.hyper.scores import CorrectedScore
from bayesgp_mf.inference.solver import Traits, traits_of
from bayesgp_mf.likelihoods import Gaussian, Ordinal
from bayesgp_mf.methods import METHODS
from bayesgp_mf.online import Online

RNG = np.random.default_rng(1)
N = 10
X = RNG.normal(size=(N, 2))
F = np.sin(2.0 * X[:, 0])
LABELS, COUNTS = np.sign(F + 0.6 * RNG.normal(size=N)), RNG.poisson(np.exp(1.0 + F)).astype(float)
MEASURED = F + 0.4 * RNG.standard_t(3, size=N)
CASES = {
    "probit": (bgp.Probit(0.5, 0.1), LABELS),
    "gaussian": (Gaussian(0.3), MEASURED),
    "student": (bgp.StudentT(0.4, 4.0), MEASURED),
    "zero-inflated": (bgp.likelihoods.ZeroInflated(bgp.Poisson(), 0.2), COUNTS),
    "gamma": (bgp.likelihoods.Gamma(3.0), np.exp(MEASURED)),
    "beta": (bgp.likelihoods.Beta(6.0), 1.0 / (1.0 + np.exp(-MEASURED))),
    "negative binomial": (bgp.NegativeBinomial(2.0), COUNTS),
    "ordinal": (Ordinal((0.5, 2.5), 0.4), np.clip(COUNTS, 0.0, 2.0)),
}
PRIORS = {"noise_variance": LogNormal(), "df": LogNormal(1.0, 1.0)}
SOLVERS = {name: METHODS[name] for name in ("tap", "naive", "variational", "laplace", "exact", "online")}
SOLVERS["to the fixed point"] = Online(sweeps=None)
DENSE = [
    (method, likelihood)
    for method in SOLVERS
    for likelihood in CASES
    # of labels the integral is a rule, and of the others there is none; the fixed point is TAP's
    if likelihood == "gaussian" or method not in ("exact", "to the fixed point")
]
EXACT_LOO = [pair for pair in DENSE if pair[0] != "online"]
STEP = 1e-4


def objective(solver, name, score, kernel=bgp.kernels.Gaussian(1.0, 1.3), *, gram="auto", **options):
    likelihood, t = CASES[name]
    priors = {own: PRIORS[own] for own in likelihood.parameters if own in PRIORS}
    control = bgp.Control(tolerance=1e-12, gram=gram)
    return Objective(
        Target(X, t, likelihood, kernel, Counting(solver), control, priors, **options), score, from_prior=True
    )


def check(evaluate, *, solutions=1, allowed=1e-6):
    """Hold all entries of the gradient against central differences, and those of the likelihood against a control."""
    target, at = evaluate.target, evaluate.target.start
    _, gradient = evaluate(at)
    assert evaluate.n_evaluations == 1
    assert target.solver.count == solutions
    numeric = [(evaluate.value(at + e) - evaluate.value(at - e)) / (2.0 * STEP) for e in STEP * np.eye(at.size)]
    np.testing.assert_allclose(gradient, numeric, rtol=allowed, atol=allowed)
    for i, name in enumerate(target.names):
        if name in target.free_of_likelihood:
            assert abs(1.001 * gradient[i] - numeric[i]) > 5.0 * allowed, name


class Counting:
    """A solver that counts its solutions: a gradient by differences takes more than one."""

    def __init__(self, solver):
        self.solver, self.count = solver, 0
        self.name, self.traits = solver.name, traits_of(solver)
        self.gram_gradient, self.leave_one_out = solver.gram_gradient, solver.leave_one_out

    def solve(self, *args):
        self.count += 1
        return self.solver.solve(*args)


@pytest.mark.parametrize(("method", "likelihood"), DENSE)
def test_of_the_evidence_on_a_dense_matrix(method, likelihood):
    check(objective(SOLVERS[method], likelihood, EvidenceScore()))


@pytest.mark.parametrize(("method", "likelihood"), EXACT_LOO)
def test_of_leave_one_out(method, likelihood):
    check(objective(SOLVERS[method], likelihood, LooScore()))


@pytest.mark.parametrize("likelihood", CASES)
@pytest.mark.parametrize("method", ["tap", "naive", "laplace"])
def test_of_the_evidence_on_a_root_and_on_inducing_cases(method, likelihood):
    root = objective(SOLVERS[method], likelihood, EvidenceScore(), bgp.kernels.Linear(1.3), gram="low_rank")
    assert root.target.problem_at(root.target.model).matrix.rank == 2
    check(root)
    check(objective(SOLVERS[method], likelihood, EvidenceScore(), inducing=X[:5]))


def test_of_regression_on_inducing_cases():
    check(objective(SOLVERS["exact"], "gaussian", EvidenceScore(), inducing=X[:5]))


@pytest.mark.parametrize("likelihood", ["probit", "negative binomial"])
def test_where_there_is_no_formula_differences_stand_in_for_these_alone(likelihood):
    evaluate = objective(SOLVERS["tap"], likelihood, CorrectedScore())
    own = len(evaluate.target.free_of_likelihood)
    check(evaluate, solutions=1 + 2 * own, allowed=3e-6)


def test_the_parts_of_laplaces_gradient_are_all_needed():
    """Without the way by which the mode moves, the comparison above would see it."""
    evaluate = objective(SOLVERS["laplace"], "student", EvidenceScore())
    problem = evaluate.target.problem_at(evaluate.target.model)
    solution = SOLVERS["laplace"].solve(problem)
    f = problem.matrix @ solution.alpha
    value, _, d2 = problem.likelihood.parameter_derivative("scale", problem.t, f, np.zeros(N))
    at_fixed_mode = np.sum(value) + 0.5 * solution.correction.covariance_diagonal() @ d2
    whole = SOLVERS["laplace"].traits.parameter_gradient(problem, solution, "scale")
    assert abs(whole - at_fixed_mode) > 1e-2


class Unknown:
    """Laplace's method, which does not say how its evidence changes with the likelihood."""

    name = "unknown"

    def __init__(self):
        self.solve = METHODS["laplace"].solve
        self.gram_gradient = METHODS["laplace"].gram_gradient
        self.leave_one_out = METHODS["laplace"].leave_one_out
        self.traits = Traits()


def test_a_solver_of_ones_own_has_differences():
    found = objective(Unknown(), "student", EvidenceScore())
    known = objective(METHODS["laplace"], "student", EvidenceScore())
    at = known.target.start
    np.testing.assert_allclose(found(at)[1], known(at)[1], rtol=1e-5, atol=1e-5)
    assert found.target.solver.count == 5


def test_a_likelihood_without_free_parameters_costs_nothing(monkeypatch):
    def refuse(*_):
        raise AssertionError("nothing is to be asked of a likelihood that is kept")

    monkeypatch.setattr(bgp.Probit, "parameter_derivative", refuse)
    likelihood, t = bgp.Probit(0.5), LABELS
    for score in (EvidenceScore(), LooScore()):
        for method in ("tap", "laplace"):
            target = Target(X, t, likelihood, bgp.kernels.Gaussian(), METHODS[method])
            assert Objective(target, score)(target.start) is not None
    free = replace(target, priors={"noise_variance": LogNormal()})
    with pytest.raises(AssertionError, match="nothing is to be asked"):
        Objective(free, LooScore())(free.start)
