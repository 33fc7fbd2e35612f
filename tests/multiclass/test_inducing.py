"""Several classes on inducing cases: the dense method on the same Gram matrix, at a part of its price."""

import arviz as az
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.errors import LowRankError
from bayesgp_mf.inference.assembly import assemble_inducing, kernel_entries
from bayesgp_mf.matrices.low_rank import LowRankGram, at_pivots
from bayesgp_mf.methods import METHODS, get_method
from bayesgp_mf.multiclass.class_gram import class_gram
from bayesgp_mf.processes.several_classes import MulticlassPosterior
from tests.multiclass.block_correction import quadratic

RNG = np.random.default_rng(0)
N = 60
X = RNG.uniform(-1, 1, (N, 2))
X_NEW = RNG.uniform(-1.5, 1.5, (4, 2))
Z = RNG.uniform(-1, 1, (8, 2))
KERNEL = kernels.Matern32([1.0, 1.5], 2.0) + kernels.White(0.2)
TIGHT = bgp.Control(tolerance=1e-10, max_iterations=500)
FEW = {"draws": 10, "chains": 2, "random_seed": 0, "progress": False}


def codes(n_classes, n=N):
    """Return classes that hang on the first input, and on chance."""
    angle = np.linspace(0.0, 2.0 * np.pi, n_classes, endpoint=False)
    score = 2.0 * X[:n] @ np.array([np.cos(angle), np.sin(angle)]) + RNG.standard_normal((n, n_classes))
    return np.argmax(score, axis=1).astype(np.float64)


CASES = {
    "softmax tap": ("tap", bgp.Softmax(("a", "b", "c"))),
    "softmax laplace": ("laplace", bgp.Softmax(("a", "b", "c", "d", "e"))),
    "probit of five": ("tap", bgp.MultinomialProbit(tuple("abcde"))),
    "flips of three": ("tap", bgp.MultinomialProbit(tuple("abc"), 0.5, 0.1)),
    "flips of five": ("tap", bgp.MultinomialProbit(tuple("abcde"), 1.0, 0.2)),
}


@pytest.fixture(params=CASES)
def case(request):
    method, likelihood = CASES[request.param]
    return get_method(method, likelihood), likelihood, codes(likelihood.n_classes)


def process(solver, problem, kernel=KERNEL):
    return MulticlassPosterior(kernel, X, problem, solver.solve(problem, TIGHT), solver)


def same(found, expected, tolerance=1e-8):
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance)


def test_all_cases_as_inducing_cases_are_the_dense_fit(case):
    solver, likelihood, t = case
    kernel = kernels.Matern32([1.0, 1.5], 2.0)
    on_all = process(solver, assemble_inducing(kernel, X, t, likelihood, inducing=X), kernel)
    dense = process(solver, bgp.Problem(kernel.gram(X), t, likelihood), kernel)
    assert abs(on_all.log_evidence - dense.log_evidence) < 1e-8
    same(on_all.solution.alpha, dense.solution.alpha)
    for found, expected in zip(on_all.latent_covariance(X_NEW), dense.latent_covariance(X_NEW), strict=True):
        same(found, expected)
    gaussian = likelihood.predict_proba(*dense.latent_covariance(X_NEW))  # what TAP knows beyond costs n^2 a case
    same(on_all.predict_proba(X_NEW), gaussian)


def test_few_are_the_dense_method_on_their_own_gram_matrix(case):
    solver, likelihood, t = case
    problem = assemble_inducing(KERNEL, X, t, likelihood, inducing=Z)
    few, dense = process(solver, problem), process(solver, bgp.Problem(problem.matrix.dense(), t, likelihood))
    assert abs(few.log_evidence - dense.log_evidence) < 1e-9
    same(few.solution.alpha, dense.solution.alpha)
    for found, expected in zip(few.at_training, dense.at_training, strict=True):
        same(found, expected)
    for name in ("mean", "variance", "log_density", "probability"):
        same(getattr(few.loo, name), getattr(dense.loo, name))
    assert few.solution.info.rank == 8
    assert few.solution.info.independent > 0.05


def gradient_of(solver, problem, kernel):
    """Return the derivatives of the log evidence in the parameters of the kernel, all in one."""
    solution = solver.solve(problem, TIGHT)
    slopes = problem.matrix.pull_back(solver.gram_gradient(problem, solution), kernel, X)
    return np.concatenate([np.atleast_1d(slopes[name]) for name in kernel.params])


def differences(kernel, log_evidence, step=1e-5):
    """Return the same by central differences of a function of the kernel."""
    found = []
    for name, value in kernel.params.items():
        for k in range(np.size(value)):
            here = np.zeros(np.size(value))
            here[k] = step
            moved = [np.atleast_1d(value) + sign * here for sign in (1, -1)]
            ahead, behind = (log_evidence(kernel.replace(**{name: v if np.ndim(value) else v[0]})) for v in moved)
            found.append((ahead - behind) / (2.0 * step))
    return np.array(found)


@pytest.mark.parametrize("name", ["softmax tap", "softmax laplace"])
def test_gradient_is_that_of_the_evidence(name):
    method, likelihood = CASES[name]
    solver, t = get_method(method, likelihood), codes(likelihood.n_classes)

    def problem(kernel):
        return assemble_inducing(kernel, X, t, likelihood, inducing=Z)

    found = gradient_of(solver, problem(KERNEL), KERNEL)
    expected = differences(KERNEL, lambda kernel: solver.solve(problem(kernel), TIGHT).evidence.value)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert not np.allclose(found, 1.01 * expected, rtol=1e-6, atol=1e-6)  # the control


def test_gradient_of_six_classes_is_that_of_the_evidence():
    likelihood = bgp.MultinomialProbit(tuple("abcdef"))
    solver, t = get_method("tap", likelihood), codes(6)

    def problem(kernel):
        return assemble_inducing(kernel, X, t, likelihood, inducing=Z)

    found = gradient_of(solver, problem(KERNEL), KERNEL)
    expected = differences(KERNEL, lambda kernel: solver.solve(problem(kernel), TIGHT).evidence.value)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)
    assert not np.allclose(found, 1.01 * expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_gradient_at_low_rank_is_that_at_fixed_pivots(name):
    method, likelihood = CASES[name]
    kernel = kernels.Gaussian([1.0, 1.5], 2.0)
    solver, t, pivots = get_method(method, likelihood), codes(likelihood.n_classes), np.arange(9)

    def problem(kernel):
        return bgp.Problem(at_pivots(kernel_entries(kernel, X), kernel.diag(X), pivots), t, likelihood)

    found = gradient_of(solver, problem(kernel), kernel)
    expected = differences(kernel, lambda kernel: solver.solve(problem(kernel), TIGHT).evidence.value)
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-6)


def test_two_classes_of_the_multinomial_probit_are_those_of_probit():
    t = codes(2)
    two = bgp.MultinomialProbit(("a", "b"), 0.5)
    solver, of_difference = get_method("tap", two), 2.0 * KERNEL
    several = process(solver, assemble_inducing(KERNEL, X, t, two, inducing=Z))
    problem = assemble_inducing(of_difference, X, 2.0 * t - 1.0, bgp.Probit(noise_variance=1.0), inducing=Z)
    one = METHODS["tap"].solve(problem, TIGHT)
    assert abs(several.log_evidence - one.evidence.value) < 1e-8
    same(several.solution.alpha[:, 1], one.alpha)
    mean, variance = several.loo.mean, METHODS["tap"].leave_one_out(problem, one)
    same(mean[:, 1] - mean[:, 0], variance.mean)


def test_draws_have_the_moments_of_the_posterior(case):
    posterior = process(case[0], assemble_inducing(KERNEL, X, case[2], case[1], inducing=Z))
    draws = 2_000
    f = posterior.draw(draws, np.random.default_rng(1)).f
    mean, variance = posterior.at_training
    assert np.max(np.abs(f.mean(axis=0) - mean) / np.sqrt(variance / draws)) < 5.0
    assert np.max(np.abs(f.var(axis=0) / variance - 1.0)) < 5.0 * np.sqrt(2.0 / draws)
    new = posterior.draw_new(X_NEW, draws, np.random.default_rng(2))
    mean, covariance = posterior.latent_covariance(X_NEW)
    sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert np.max(np.abs(new.mean(axis=0) - mean) / sd) < 5.0 / np.sqrt(draws)
    centred = (new - new.mean(axis=0)) / sd
    found = np.einsum("kic,kid->icd", centred, centred) / draws
    same(found, covariance / sd[:, :, None] / sd[:, None, :], 6.0 / np.sqrt(draws))


@pytest.mark.parametrize("own", [True, False], ids=["inducing", "low rank"])
def test_densities_of_draws_are_those_of_prior_times_sites(case, own):
    solver, likelihood, t = case
    matrix = assemble_inducing(KERNEL, X, t, likelihood, inducing=Z).matrix
    gram = matrix if own else LowRankGram(matrix.root, np.empty(0, dtype=int), 0.0)
    posterior = process(solver, bgp.Problem(gram, t, likelihood))
    alpha, correction = posterior.solution.alpha, posterior.solution.correction
    drawn = class_gram(posterior.problem).sampler(alpha, correction).draw(50, np.random.default_rng(1))
    sites = correction.site.precision
    shift = alpha + np.einsum("icd,id->ic", sites, posterior.mean_at_training)
    told = np.einsum("kic,ic->k", drawn.f, shift)
    told -= 0.5 * np.einsum("kic,icd,kid->k", drawn.f, sites, drawn.f, optimize=True)
    left = drawn.log_prior + told - drawn.log_density
    assert np.ptp(told) > 1.0
    same(left, np.full(50, left[0]))


def test_new_cases_that_inducing_cases_determine_are_drawn_with_their_covariances():
    method, likelihood = CASES["probit of five"]
    solver, t = get_method(method, likelihood), codes(5)
    posterior = process(solver, assemble_inducing(KERNEL, X, t, likelihood, inducing=Z))
    f = posterior.draw_new(Z[:2], 20_000, np.random.default_rng(0))
    mean, covariance = posterior.latent_covariance(Z[:2])
    assert np.max(np.abs(f.mean(axis=0) - mean)) < 5.0 * np.sqrt(np.max(covariance) / 20_000)
    # two cases of one class covary as the kernel says, less what the cases tell
    features = posterior.problem.matrix.features(KERNEL, X, Z[:2])
    cross = posterior.problem.matrix.root[:] @ features
    told = quadratic(posterior.solution.correction, cross)[3, :, 3, :]
    same(np.cov(f[:, :, 3].T), KERNEL.gram(Z[:2]) - told, 0.05 * KERNEL.diag(Z[:1])[0])


@pytest.mark.parametrize("name", CASES)
def test_a_fit_is_saved_and_predicts_again(name, tmp_path):
    method, likelihood = CASES[name]
    y = np.array(list("abcde"))[codes(likelihood.n_classes).astype(int)]
    idata = bgp.fit(X, y, KERNEL, type(likelihood)(), method=method, inducing=Z, **FEW)
    assert idata["fit"].sizes["inducing"] == 8
    idata.to_netcdf(tmp_path / "fit.nc")
    again = bgp.posterior(az.from_netcdf(tmp_path / "fit.nc"))
    same(again.predict_proba(X_NEW), bgp.posterior(idata).predict_proba(X_NEW), 1e-12)
    assert again.solution.info.rank == 8
    predicted = bgp.predict(idata, X_NEW, random_seed=1)
    same(predicted["predictions"]["p"].values.sum(axis=-1), np.ones(4), 1e-12)
    same(idata["fit"]["loo_i"].values, again.loo.log_density)


def test_hyperparameters_are_tuned_on_a_number_of_inducing_cases_and_on_given_ones():
    y = np.array(list("abc"))[codes(3).astype(int)]
    kernel, evidence = kernels.Gaussian([1.0, 1.0], 1.0), []
    for inducing, hyper in ((Z, None), (Z, "evidence"), (8, "evidence"), (bgp.Inducing(8, move=True), "evidence")):
        idata = bgp.fit(X, y, kernel, bgp.MultinomialProbit(), inducing=inducing, hyper=hyper, **FEW)
        evidence.append(float(idata["fit"]["log_evidence"]))
    untuned, tuned, _, moved = evidence
    assert tuned > untuned + 1.0
    assert moved > untuned + 1.0


def test_twice_as_many_inducing_cases_are_compared():
    y = np.array(list("abcde"))[codes(5).astype(int)]
    idata = bgp.fit(X, y, KERNEL, bgp.MultinomialProbit(), inducing=Z, **FEW)
    check = bgp.diagnostics.inducing(idata, random_seed=1)
    assert (check.number, check.doubled) == (8, 16)
    assert check.independent_doubled < check.independent


def test_a_smooth_kernel_is_worked_with_at_low_rank():
    t, kernel = codes(5), kernels.Gaussian([4.0, 4.0], 2.0)
    y = np.array(list("abcde"))[t.astype(int)]
    fits = {
        gram: bgp.fit(X, y, kernel, bgp.MultinomialProbit(), control=bgp.Control(gram=gram), **FEW)
        for gram in ("low_rank", "dense")
    }
    low, dense = (fits[gram]["fit"] for gram in fits)
    assert low.sizes["rank"] < N
    assert abs(float(low["log_evidence"]) - float(dense["log_evidence"])) < 1e-5
    on_low, on_dense = (bgp.posterior(fits[gram]) for gram in fits)
    for found, expected in zip(*(each.latent_covariance(X_NEW) for each in (on_low, on_dense)), strict=True):
        same(found, expected, 1e-5)
    # which matches the sites of the nearest cases anew
    same(on_low.predict_proba(X_NEW), on_dense.predict_proba(X_NEW), 2e-4)


def test_a_kernel_for_each_class_is_refused():
    kernel = kernels.PerClass(KERNEL, KERNEL, KERNEL)
    y = np.array(list("abc"))[codes(3).astype(int)]
    with pytest.raises(ValueError, match="one kernel for all classes"):
        bgp.fit(X, y, kernel, bgp.Softmax(), inducing=8, **FEW)
    with pytest.raises(LowRankError, match="each class has a kernel of its own"):
        bgp.fit(X, y, kernel, bgp.Softmax(), control=bgp.Control(gram="low_rank"), **FEW)
