"""One face for every method: each solver x likelihood x kernel gives a complete, finite, consistent solution."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels, likelihoods
from bayesgp_mf.inference.assembly import assemble, assemble_inducing, check_inducing
from bayesgp_mf.inference.solver import Solver, traits_of
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.methods import METHODS, MULTICLASS, get_method

KERNELS = {
    "gaussian": bgp.kernels.Gaussian(1.0, 2.0),
    "matern12": bgp.kernels.Matern12(1.0, columns=1),
    "matern32": bgp.kernels.Matern32(1.0),
    "matern52": bgp.kernels.Matern52([0.8, 1.5]),
    "rational quadratic": bgp.kernels.RationalQuadratic(1.0, 1.0, 1.0),
    "periodic": 2.0 * bgp.kernels.Periodic(1.0, period=3.0),
    "categorical with white noise": bgp.kernels.Categorical(columns=0) + bgp.kernels.White(0.1),
    "linear with white noise": bgp.kernels.Linear(1.0) + bgp.kernels.White(0.1),
    "polynomial": bgp.kernels.Polynomial(3, 0.5),
    "power": bgp.kernels.Matern52(1.5) ** 2,
    "warped": bgp.kernels.Warped(bgp.kernels.Gaussian(1.0, 2.0), 0, 0.4),
    "places": bgp.kernels.OnSphere(bgp.kernels.Matern12(100.0, 2.0), [1, 0], "haversine"),
    "network": bgp.kernels.NeuralNetwork(1.0, 0.5) * bgp.kernels.Bias(2.0),
    "difference": bgp.kernels.Difference(bgp.kernels.Gaussian(1.0, 2.0), 0, 1),
    "slope": bgp.kernels.Slope(bgp.kernels.Matern52(1.0, 2.0), 0),
}
LIKELIHOODS = {
    "probit": bgp.Probit(),
    "probit with flips": bgp.Probit(0.5, 0.1),
    "step": bgp.Step(),
    "step with flips": bgp.Step(0.1),
    "gaussian": Gaussian(0.5),
    "logit": bgp.Logit(),
    "gaussian with noise of each": Gaussian(np.linspace(0.3, 0.7, 30)),
    "poisson": bgp.Poisson(),
    "negative binomial": bgp.NegativeBinomial(2.0),
    "binomial": bgp.Binomial(5),
    "binomial with trials of each": bgp.Binomial(np.arange(30) % 4 + 1),
    "student": bgp.StudentT(0.5, 4.0),
    "ordinal": bgp.Ordinal([-0.7, 0.3], 0.5),
    "log-normal": likelihoods.LogNormal(0.5),
    "weibull": likelihoods.Weibull(1.5),
    "exponential": likelihoods.Exponential(),
    "log-logistic": likelihoods.LogLogistic(2.0),
    "censored gaussian": likelihoods.Censored(Gaussian(0.5), np.resize([np.nan, np.inf, -np.inf, 0.4], 30)),
    "censored weibull": likelihoods.Censored(likelihoods.Weibull(1.5), np.resize([np.nan, np.inf, -np.inf, 0.4], 30)),
    "gamma": likelihoods.Gamma(3.0),
    "beta": likelihoods.Beta(6.0),
    "zero-inflated": likelihoods.ZeroInflated(bgp.Poisson(), 0.2),
    "hurdle": likelihoods.Hurdle(bgp.NegativeBinomial(2.0), 0.2),
    "truncated": likelihoods.Truncated(bgp.NegativeBinomial(0.7)),
}
ELSEWHERE = {"Quadrature", "Softmax", "MultinomialProbit", "Step", "Likelihood", "from_dict"}
"""Names of `likelihoods` that are none of these classes: of the user's, of several classes, a function, a protocol."""


def refusal(solver: Solver, likelihood) -> Exception | None:
    """Return the error by which a method says beforehand that it cannot take a likelihood, or None."""
    if likelihood.targets not in traits_of(solver).targets:
        return ValueError()
    try:
        (traits_of(solver).check or (lambda likelihood: None))(likelihood)
    except bgp.UndefinedQuantityError as error:
        return error
    return None


REFUSED = [(m, name) for m in METHODS for name in LIKELIHOODS if refusal(METHODS[m], LIKELIHOODS[name]) is not None]
SOLVED = [(m, name) for m in METHODS for name in LIKELIHOODS if (m, name) not in REFUSED]
WALKED = [
    (KERNELS[kernel], method, name)
    for k, kernel in enumerate(KERNELS)
    for method, name in SOLVED
    # a solver sees a matrix: each likelihood meets each method with a third of the kernels, in turn
    if (k + list(LIKELIHOODS).index(name) + list(METHODS).index(method)) % 3 == 0
]
WITHOUT_VARIANCE = [m for m in METHODS if not traits_of(METHODS[m]).variance]
STEPPING = [m for m in METHODS if hasattr(METHODS[m], "step")]
every_method = pytest.mark.parametrize("method", METHODS)
every_distribution = pytest.mark.parametrize("method", [m for m in METHODS if m not in WITHOUT_VARIANCE])


def make_problem(kernel: bgp.kernels.Kernel, likelihood, n: int = 7) -> bgp.Problem:
    toy = bgp.datasets.make_toy(kernel, bgp.Probit(0.01), n=n, random_seed=3)
    likelihood = likelihood.of_cases(np.arange(n))
    return bgp.Problem(kernel.gram(toy.X), targets(likelihood, 2 * toy.y - 1), likelihood)


def targets(likelihood, labels):
    """Return labels -1/+1, which are real numbers too, or what a likelihood makes of them as latent values."""
    if hasattr(likelihood, "check_targets") and not isinstance(likelihood, Gaussian):
        return likelihood.sample(labels, np.random.default_rng(5))
    return labels


def test_no_kernel_or_likelihood_is_left_out():
    """By what the package has: who adds one adds it here."""
    public = {name for name in likelihoods.__all__ if name not in ELSEWHERE}
    assert public == {type(likelihood).__name__ for likelihood in LIKELIHOODS.values()}
    classes = {each for each in vars(kernels).values() if isinstance(each, type) and issubclass(each, kernels.Kernel)}

    def parts(kernel) -> set[type]:
        return {type(kernel)}.union(*map(parts, kernel.parts))

    elsewhere = {
        kernels.Kernel,
        kernels.Areal,
        kernels.PerClass,
        kernels.Kinds,
        kernels.Mean,
    }  # the latter need labels, or inputs, of their own
    assert classes - elsewhere == set().union(*map(parts, KERNELS.values()))


def test_the_traits_are_those_of_the_methods():
    """What the loops below walk by: written out once, so that no method says less of itself unnoticed."""
    assert {(m, name) for m, name in REFUSED} == {
        *(("laplace", name) for name in ("step", "step with flips")),
        *(("svm", name) for name in LIKELIHOODS if name not in ("probit", "step")),
        *(("exact", name) for name in LIKELIHOODS if name.split()[0] not in ("probit", "step", "gaussian")),
    }
    assert WITHOUT_VARIANCE == ["svm"]
    assert STEPPING == ["tap", "naive", "variational", "laplace"]
    low_rank = {m for m in METHODS if "low_rank" in traits_of(METHODS[m]).matrices}
    assert low_rank == {"tap", "naive", "laplace"}
    assert {m for m in METHODS if "inducing" in traits_of(METHODS[m]).matrices} == {*low_rank, "exact"}


@pytest.mark.parametrize(("method", "name"), REFUSED)
def test_what_a_method_cannot_do_it_refuses_in_words(method, name):
    with pytest.raises(bgp.UndefinedQuantityError, match=r"\.|use|Use"):
        METHODS[method].solve(make_problem(KERNELS["gaussian"], LIKELIHOODS[name]))


@pytest.mark.parametrize("method", METHODS)
def test_cavities_a_root_and_a_slope_in_the_prior_mean_are_there_if_and_only_if_they_are_stated(method):
    solver, traits = METHODS[method], traits_of(METHODS[method])
    problem = make_problem(KERNELS["gaussian"], bgp.Probit(0.5))
    solution = solver.solve(problem)
    assert (solution.cavity is not None) == traits.cavities
    kernel, X = KERNELS["gaussian"], np.linspace(-1.0, 1.0, 40)[:, None]
    t = np.where(X[:, 0] > 0.1, 1.0, -1.0)
    control = bgp.Control(gram="low_rank")
    if "low_rank" in traits.matrices:
        assert solver.solve(assemble(kernel, X, t, bgp.Probit(), solver=solver, control=control)).info.rank <= 20
    else:
        with pytest.raises(ValueError, match=f"method '{method}' needs the dense Gram matrix"):
            assemble(kernel, X, t, bgp.Probit(), solver=solver, control=control)
    if traits.mean_gradient is None:
        return
    shifted = [
        bgp.Problem(problem.gram, problem.t, by_case(bgp.Probit(0.5), prior_mean=at))
        for at in np.outer([-1e-4, 0, 1e-4], np.ones(7))
    ]
    below, here, above = (solver.solve(at, bgp.Control(tolerance=1e-11)) for at in shifted)
    slope = (above.evidence.value - below.evidence.value) / 2e-4
    np.testing.assert_allclose(np.sum(traits.mean_gradient(shifted[1], here)), slope, rtol=1e-5)
    assert abs(np.sum(1.01 * traits.mean_gradient(shifted[1], here)) - slope) > 1e-5 * abs(slope)


@pytest.mark.parametrize("method", MULTICLASS)
def test_methods_of_several_classes_have_the_same_face(method):
    solver, kernel = MULTICLASS[method], KERNELS["gaussian"]
    X = np.random.default_rng(0).standard_normal((9, 2))
    problem = bgp.Problem(kernel.gram(X), np.arange(9.0) % 3, bgp.Softmax(("a", "b", "c")))
    traits = traits_of(solver)
    assert traits.targets == {"classes"}
    assert get_method(method, problem.likelihood) is get_method(solver, problem.likelihood) is solver
    solution = solver.solve(problem)
    assert solution.method == method
    assert solution.info.status is bgp.Status.CONVERGED
    assert solution.alpha.shape == (9, 3)
    assert (solution.cavity is not None) == traits.cavities
    assert solver.gram_gradient(problem, solution).shape == (9, 9)
    loo = solver.leave_one_out(problem, solution)
    np.testing.assert_allclose(loo.probability.sum(axis=1), 1.0, atol=1e-9)
    if traits.known_classes is not None:
        known = traits.known_classes(problem, solution)
        own = known.probabilities(problem.gram, np.full((9, 3), 2.0))
        np.testing.assert_allclose(own[np.arange(9), problem.t.astype(int)], np.exp(known.log_density), atol=2e-3)
    with pytest.raises(ValueError, match="does not take the binary targets"):
        get_method(solver, bgp.Probit())


@pytest.mark.parametrize(("kernel", "method", "name"), WALKED)
def test_every_solver_solves_every_problem(kernel, method, name):
    likelihood = LIKELIHOODS[name]
    if likelihood.forbids:
        kernel = kernel + bgp.kernels.White(0.2)  # seven labels may not be separable without noise
    problem = make_problem(kernel, likelihood)
    solver = METHODS[method]
    solution = solver.solve(problem)
    n = problem.n
    assert solution.method == method == solver.name
    assert solution.info.status is bgp.Status.CONVERGED
    assert solution.alpha.shape == (n,)
    assert solution.alpha.dtype == np.float64
    assert np.all(np.isfinite(solution.alpha))
    assert solution.info.residual <= bgp.Control().tolerance or method == "exact"
    with pytest.raises(dataclasses.FrozenInstanceError):
        solution.alpha = np.zeros(n)
    loo = solver.leave_one_out(problem, solution)
    assert loo.mean.shape == (n,)
    assert np.all(np.isfinite(loo.mean))
    assert solution.has_variance == (method not in WITHOUT_VARIANCE)
    if not solution.has_variance:
        return
    dense = solution.correction.dense()
    np.testing.assert_allclose(dense, dense.T, atol=1e-12)
    covariance = problem.gram - solution.correction.quadratic(problem.gram)
    prior = np.diag(problem.gram)
    assert np.all(np.diag(covariance) > 0)
    if likelihood.log_concave:
        says = problem.t > 0 if name == "hurdle" else slice(None)  # whose zeros say nothing
        assert np.all(np.diag(covariance)[says] < prior[says])  # log-concave likelihoods only take variance away
    assert np.isfinite(solution.evidence.value)
    if likelihood.targets == "binary":
        assert solution.evidence.value < 0
    gradient = solver.gram_gradient(problem, solution)
    np.testing.assert_allclose(gradient, gradient.T, atol=1e-12)
    for field in (loo.variance, loo.log_density):
        assert field.shape == (n,)
        assert np.all(np.isfinite(field))
    assert np.all(loo.variance > 0)
    assert np.all(loo.variance <= prior * (1 + 1e-9)) or not likelihood.log_concave


@pytest.mark.parametrize(("method", "name"), SOLVED)
def test_every_solver_solves_every_problem_on_inducing_cases_or_refuses_it(method, name):
    likelihood, solver, n = LIKELIHOODS[name], METHODS[method], 30
    is_gaussian = name.startswith("gaussian")
    if name == "step" or method in ("svm", "variational", "online") or (method == "exact" and not is_gaussian):
        with pytest.raises(ValueError, match="Use "):
            check_inducing(likelihood, solver)
        return
    check_inducing(likelihood, solver)
    assert method in ("tap", "naive", "laplace") or (method == "exact" and is_gaussian)
    for kernel in KERNELS.values():
        X = np.random.default_rng(3).standard_normal((n, 2))
        t = targets(likelihood, np.where(X[:, 0] > 0.1 * X[:, 1], 1.0, -1.0))
        problem = assemble_inducing(kernel, X, t, likelihood, inducing=X[:6])
        solution = solver.solve(problem)
        assert solution.method == method
        assert solution.info.status is bgp.Status.CONVERGED
        assert solution.info.rank == problem.matrix.rank <= 6
        assert 0.0 <= solution.info.independent < 1.0
        assert solution.alpha.shape == (n,)
        assert solution.has_variance
        assert np.isfinite(solution.evidence.value)
        assert (solution.cavity is not None) == traits_of(solver).cavities
        prior, loo = problem.matrix.diagonal(), solver.leave_one_out(problem, solution)
        for field in (loo.mean, loo.variance, loo.log_density):
            assert field.shape == (n,)
            assert np.all(np.isfinite(field))
        for variance in (loo.variance, problem.matrix.posterior_variance(solution.correction)):
            assert np.all(variance > 0)
            assert np.all(variance <= prior * (1 + 1e-9)) or not likelihood.log_concave
        gradient = problem.matrix.pull_back(solver.gram_gradient(problem, solution), kernel, X)
        assert gradient.keys() == kernel.params.keys()
        assert all(np.all(np.isfinite(values)) for values in gradient.values())


@pytest.mark.parametrize("method", WITHOUT_VARIANCE)
@pytest.mark.parametrize(
    "ask",
    [
        lambda solver, problem, solution: solution.evidence.value,
        lambda solver, problem, solution: solution.evidence.standard_error,
        lambda solver, problem, solution: solution.correction.dense(),
        lambda solver, problem, solution: solution.correction.quadratic(problem.gram),
        lambda solver, problem, solution: solution.correction.quadratic_diagonal(problem.gram),
        lambda solver, problem, solution: solver.gram_gradient(problem, solution),
        lambda solver, problem, solution: solver.leave_one_out(problem, solution).variance,
        lambda solver, problem, solution: solver.leave_one_out(problem, solution).log_density,
    ],
)
def test_what_a_method_does_not_have_is_an_error_when_it_is_asked_for(method, ask):
    solver, problem = METHODS[method], make_problem(KERNELS["gaussian"], bgp.Probit())
    solution = solver.solve(problem)
    repr(solution), repr(solver.leave_one_out(problem, solution))  # looking is not asking
    with pytest.raises(bgp.UndefinedQuantityError, match=f"method '{method}' has no"):
        ask(solver, problem, solution)


@every_distribution
def test_the_gradient_in_the_gram_matrix_is_the_slope_of_the_evidence(method):
    kernel = bgp.kernels.Gaussian(1.0, 2.0) + bgp.kernels.White(0.1)
    solver, problem = METHODS[method], make_problem(kernel, bgp.Probit(0.5), n=4)
    gradient = solver.gram_gradient(problem, solver.solve(problem))
    direction = np.diag([1.0, 0.0, 2.0, 0.5]) + 0.3

    def along(step: float) -> float:
        moved = bgp.Problem(problem.gram + step * direction, problem.t, problem.likelihood)
        return solver.solve(moved, bgp.Control(tolerance=1e-12)).evidence.value

    numeric = (along(1e-3) - along(-1e-3)) / 2e-3
    np.testing.assert_allclose(np.sum(gradient * direction), numeric, rtol=1e-3)
    assert abs(np.sum(0.9 * gradient * direction) - numeric) > 0.05 * abs(numeric)


@every_method
def test_arguments_are_not_changed(method):
    problem = make_problem(KERNELS["gaussian"], bgp.Probit())
    gram, t = problem.gram.copy(), problem.t.copy()
    METHODS[method].solve(problem)
    np.testing.assert_array_equal(problem.gram, gram)
    np.testing.assert_array_equal(problem.t, t)


@pytest.mark.parametrize("method", STEPPING)
def test_an_iterative_solver_takes_single_steps(method):
    solver, problem = METHODS[method], make_problem(KERNELS["gaussian"], bgp.Probit())
    state = solver.init(problem)
    for _ in range(200):
        state = solver.step(problem, state)
    by_hand = solver.finish(problem, state, solver.solve(problem).info)
    np.testing.assert_allclose(by_hand.alpha, solver.solve(problem).alpha, atol=1e-7)


def test_unknown_methods_are_answered_with_those_there_are():
    names = r"\['exact', 'laplace', 'naive', 'online', 'svm', 'tap', 'variational'\]"
    with pytest.raises(ValueError, match=rf"method must be one of {names}, or an object that solves, got 'ep'"):
        get_method("ep")


@pytest.mark.parametrize("missing", ["name", "gram_gradient", "leave_one_out"])
def test_an_object_that_lacks_a_member_is_told_which(missing):
    members = {name: None for name in ("name", "solve", "gram_gradient", "leave_one_out") if name != missing}
    with pytest.raises(ValueError, match=f"has no {missing}"):
        get_method(type("Half", (), members)())


def test_a_class_and_traits_that_are_none_are_told():
    with pytest.raises(ValueError, match=r"got the class MeanField: write it with \(\)"):
        get_method(type(METHODS["tap"]))
    members = {name: None for name in ("name", "solve", "gram_gradient", "leave_one_out")}
    with pytest.raises(ValueError, match=r"traits of a method must be an inference\.solver\.Traits"):
        get_method(type("Odd", (), {**members, "traits": {"cavities": False}})())
