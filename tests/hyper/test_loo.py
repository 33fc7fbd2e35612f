"""Leave-one-out as an objective: exact gradients through the fixed point, and better predictions at its maximum."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import LeaveOneOut, LogNormal, LooScore, Objective, Target
from bayesgp_mf.hyper.scores import Scored
from bayesgp_mf.methods import METHODS
from bayesgp_mf.multiclass.star_tap import StarTap
from bayesgp_mf.online import Online
from tests.hyper.known import ignore

TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian([0.7, 1.5], 4.0), n=30, random_seed=1)
LABELS = 2.0 * TOY.y - 1.0
SOLVERS = {name: METHODS[name] for name in ("tap", "naive", "variational", "laplace")} | {"online": Online(sweeps=None)}


def objective(solver, likelihood=bgp.Probit(), lengthscale=1.0, t=LABELS):
    kernel = bgp.kernels.Gaussian([lengthscale, 1.3 * lengthscale], 2.0) + bgp.kernels.White(0.1)
    priors = {"gaussian_lengthscale": LogNormal(power=-2.0)}
    return Objective(Target(TOY.X, t, likelihood, kernel, solver, bgp.Control(tolerance=1e-11), priors), LooScore())


def differences(evaluate, at, step=1e-3):
    """Central differences of order four."""

    def slope(e):
        far, near = (evaluate.value(at + k * step * e) - evaluate.value(at - k * step * e) for k in (2, 1))
        return (8.0 * near - far) / (12.0 * step)

    return np.array([slope(e) for e in np.eye(at.size)])


LIKELIHOODS = {"probit": bgp.Probit(), "logit": bgp.Logit(), "flip": bgp.Probit(0.5, 0.1), "step": bgp.Step()}
PAIRS = [
    (method, likelihood)
    for method in SOLVERS
    for likelihood in LIKELIHOODS
    # Laplace has no step; a sweep of logits takes long, and ends where TAP does
    if (method, likelihood) not in (("laplace", "step"), ("online", "logit"))
]


@pytest.mark.parametrize(
    ("method", "likelihood", "lengthscale"),
    [
        (*pair, lengthscale)
        for pair in PAIRS
        for lengthscale in ([1e-2, 0.1, 1.0, 10.0, 1e2] if "probit" in pair else [1e-2, 1.0, 1e2])
    ],
)
def test_gradient_passes_central_differences(method, likelihood, lengthscale):
    evaluate = objective(SOLVERS[method], LIKELIHOODS[likelihood], lengthscale)
    at = evaluate.target.start
    _, gradient = evaluate(at)
    np.testing.assert_allclose(gradient, differences(evaluate, at), rtol=1e-6, atol=2e-7)
    assert evaluate.n_failures == 0


@pytest.mark.parametrize("method", ["tap", "naive", "laplace", "exact"])
def test_gradient_of_regression(method):
    t = np.random.default_rng(2).standard_normal(30)
    evaluate = objective(METHODS[method], bgp.likelihoods.Gaussian(0.3), t=t)
    at = evaluate.target.start
    np.testing.assert_allclose(evaluate(at)[1], differences(evaluate, at), rtol=1e-6, atol=1e-7)


class Counting(StarTap):
    """TAP that notes whether each of its problems is solved from another one's solution."""

    starts: ClassVar[list[bool]] = []

    def solve(self, problem, control=bgp.Control(), start=None):
        self.starts.append(start is not None)
        return super().solve(problem, control, start)


def test_differences_of_flipped_classes_are_solved_from_the_middle():
    """Its points are far from each other, and each is solved from the prior; those of a difference are not."""
    codes = (TOY.X[:8, 0] > 0.0) + 1.0 * (TOY.X[:8, 1] > 0.0)
    likelihood = bgp.MultinomialProbit(classes=(0, 1, 2), flip=0.1)
    control, kernel = bgp.Control(tolerance=1e-10), bgp.kernels.Gaussian(1.0, 2.0)
    target = Target(TOY.X[:8], codes, likelihood, kernel, Counting(), control, fixed=("flip",))
    evaluate, at = Objective(target, LooScore()), target.start
    for _ in range(2):
        Counting.starts.clear()
        _, gradient = evaluate(at)
        assert Counting.starts == [False, True, True, True, True]
    np.testing.assert_allclose(gradient, differences(evaluate, at), rtol=1e-4, atol=1e-5)


class Straight(bgp.Probit):
    """A probit likelihood that says of itself that its curvature is the same everywhere."""

    def higher_derivatives(self, t, mean, variance, derivs):
        return np.zeros_like(mean), np.zeros_like(mean)


@pytest.mark.parametrize("method", ["tap", "naive", "variational", "laplace"])
def test_the_comparison_refuses_a_gradient_at_fixed_curvature(method):
    evaluate = objective(SOLVERS[method], Straight())
    at = evaluate.target.start
    assert np.max(np.abs(evaluate(at)[1] - differences(evaluate, at))) > 1e-3


@pytest.mark.parametrize("method", ["tap", "online sweep", "exact"])
def test_differences_stand_in_where_there_is_no_formula(method):
    solver, n = {"tap": (METHODS["tap"], 30), "online sweep": (Online(), 30), "exact": (METHODS["exact"], 3)}[method]
    kernel = bgp.kernels.Gaussian(1.0, 2.0) + bgp.kernels.White(0.1)
    target = Target(TOY.X[:n], LABELS[:n], bgp.Probit(), kernel, solver, fixed={"white_variance", "gaussian_variance"})

    class WithoutFormula(LooScore):
        def __call__(self, solver, problem, solution):
            return Scored(super().__call__(solver, problem, solution).value, None)

    evaluate = Objective(target, WithoutFormula() if method == "tap" else LooScore())
    numeric = differences(evaluate, target.start, step=1e-2)
    _, gradient = evaluate(target.start)
    # of the order of the step squared, and of the solver's tolerance over the step
    np.testing.assert_allclose(gradient, numeric, atol=1e-4)
    if method == "tap":
        np.testing.assert_allclose(gradient, Objective(target, LooScore())(target.start)[1], atol=1e-4)


def test_the_search_finds_the_best_predictions_and_tells_how():
    kernel = bgp.kernels.Gaussian([1.0, 1.0], 1.0)
    target = Target(TOY.X, LABELS, bgp.Probit(), kernel, METHODS["tap"], priors={"variance": LogNormal(1.0, 1.0)})
    result = LeaveOneOut(starts=2).choose(target, np.random.default_rng(0), ignore)
    evaluate = Objective(target, LooScore())
    at = target.free_logarithms(result.kernels[0])
    value, gradient = evaluate(at)
    np.testing.assert_allclose(gradient, 0.0, atol=2e-3)
    assert value > evaluate(target.start)[0] + 0.5
    np.testing.assert_allclose(result.stats["lp"], value, atol=1e-7)
    both = result.record["hyper_loo"][1] + result.record["hyper_log_prior"][1]
    np.testing.assert_allclose(both.max(), value, atol=1e-7)
    # and the predictions it promises are, up to what mean field theory is worth with 30 cases, those of refits
    problem = target.problem_at(result.models[0])
    refitted = 0.0
    for i in range(problem.n):
        without = target.solver.solve(problem.without(i))
        cross = np.delete(problem.gram[:, i], i)[:, None]
        variance = problem.gram[i, i] - without.correction.quadratic_diagonal(cross)
        refitted += float(
            problem.likelihood.log_partition(problem.t[i], cross[:, 0] @ without.alpha, variance).value[0]
        )
    np.testing.assert_allclose(result.record["hyper_loo"][1].max(), refitted, atol=0.2)


def test_a_machine_without_densities_is_refused():
    target = Target(TOY.X, LABELS, bgp.Probit(), bgp.kernels.Gaussian(1.0), METHODS["svm"])
    with pytest.raises(bgp.UndefinedQuantityError, match="method 'svm' has no predictive density"):
        LeaveOneOut().choose(target, np.random.default_rng(0), ignore)
