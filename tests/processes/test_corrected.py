"""Corrected predictions: against exact integration, against solving with one case more, and where nothing changes."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from scipy.special import expit, logit
from scipy.stats import multivariate_normal, norm

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.diagnostics import log_orthant_probability
from bayesgp_mf.likelihoods import Gaussian, Logit
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.processes import corrected
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.solvers import full_response, ratio
from bayesgp_mf.solvers.second_order import second_order

pytestmark = pytest.mark.filterwarnings("ignore:the likelihood is not log-concave")
SETTINGS = [
    (8, 1, 4, 0.1),
    (12, 2, 25, 1),
    (20, 2, 100, 1),
    (20, 1, 4, 0.1),
    (20, 1, 1, 0),
]  # n, scale, variance, noise
LIKELIHOODS = [bgp.Probit(0.5), bgp.Probit(0.3, 0.05), Logit(), bgp.Step(), bgp.Step(0.1)]


def data(n, lengthscale, variance, noise, seed, m=6):
    rng = np.random.default_rng(seed)
    X, X_new = rng.normal(size=(n, 2)), rng.normal(size=(m, 2))
    kernel = bgp.kernels.Gaussian(lengthscale=lengthscale, variance=variance)
    gram = kernel.gram(X)
    f = np.linalg.cholesky(gram + 1e-8 * np.eye(n)) @ rng.normal(size=n)
    return kernel, X, np.sign(f + np.sqrt(noise) * rng.normal(size=n)), X_new


def posterior_of(kernel, X, t, likelihood, **options):
    problem = bgp.Problem(kernel.gram(X), t, likelihood)
    return Posterior(kernel, X, problem, bgp.solve(problem.gram, t, likelihood, **options))


def with_one_more(posterior, x, label):
    X, t = np.vstack([posterior.X, x]), np.append(posterior.problem.t, label)
    return posterior_of(posterior.kernel, X, t, posterior.problem.likelihood, control=bgp.Control(tolerance=1e-9))


def corrected_evidence(posterior):
    return posterior.log_evidence + second_order(posterior.problem, posterior.solution).correction


def test_errors_fall_against_exact_integration():
    falls = []
    for seed, setting in enumerate(SETTINGS):
        noise = setting[-1]
        kernel, X, t, X_new = data(*setting, seed, m=2)
        posterior = posterior_of(kernel, X, t, bgp.Probit(noise) if noise else bgp.Step())
        odds = []
        for x in X_new:
            gram = kernel.gram(np.vstack([X, x])) + (noise + 1e-10) * np.eye(t.size + 1)
            right, wrong = (log_orthant_probability(gram, np.append(t, label)).value for label in (1.0, -1.0))
            odds.append(right - wrong)
        exact = expit(odds)
        before = np.max(np.abs(posterior.predict_proba(X_new) - exact))
        after = np.max(np.abs(posterior.predict_proba(X_new, corrected=True) - exact))
        assert after < before + 0.0005
        assert after < 0.0035
        falls.append(before / after)
    assert np.median(falls) > 8.0
    assert np.min(falls) > 4.0


def test_left_out_errors_fall_against_exact_integration():
    kernel, X, t, _ = data(30, 1, 4, 0.1, 3)
    posterior = posterior_of(kernel, X, t, bgp.Probit(0.1))
    exact = np.exp(posterior_of(kernel, X, t, bgp.Probit(0.1), method="exact").loo.log_density)
    before = np.max(np.abs(np.exp(posterior.loo.log_density) - exact))
    after = np.max(np.abs(np.exp(posterior.corrected_loo) - exact))
    assert after < before / 6.0


def test_the_density_of_a_value_beyond_all_numbers_is_zero():
    kernel, X, t, X_new = data(12, 1, 4, 0.1, 2, m=2)
    for likelihood in (bgp.Probit(0.1), Gaussian(0.1)):
        posterior = posterior_of(kernel, X, t, likelihood)
        found = posterior.density(X_new, [0.0, 1e40, -1e200])
        assert np.all(found[:, 0] > 0)
        np.testing.assert_array_equal(found[:, 1:], 0.0)
        np.testing.assert_array_equal(found[:, :1], posterior.density(X_new, [0.0]))


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
def test_is_the_ratio_of_corrected_evidences(likelihood):
    kernel, X, t, X_new = data(25, 1, 4, 0.5, 11, m=3)
    if isinstance(likelihood, bgp.Probit) and likelihood.forbids:
        t = np.sign(X[:, 0])
    posterior = posterior_of(kernel, X, t, likelihood, control=bgp.Control(tolerance=1e-9))
    found = posterior.corrected_at(X_new)
    assert found.settled.all()
    each = np.array([[corrected_evidence(with_one_more(posterior, x, label)) for label in (1, -1)] for x in X_new])
    np.testing.assert_allclose(found.p, expit(each[:, 0] - each[:, 1]), atol=1e-6)
    sums = np.sum(np.exp(each - corrected_evidence(posterior)), axis=1)
    assert found.largest_sum_error == pytest.approx(np.max(np.abs(sums - 1.0)), abs=3e-6)


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=str)
def test_a_left_out_case_is_a_new_one_for_the_others(likelihood):
    kernel, X, t, _ = data(15, 1, 4, 0.5, 12)
    if isinstance(likelihood, bgp.Probit) and likelihood.forbids:
        t = np.sign(X[:, 0])
    control = bgp.Control(tolerance=1e-9)
    posterior = posterior_of(kernel, X, t, likelihood, control=control)
    for i in (0, 7, 14):
        others = np.arange(15) != i
        p = posterior_of(kernel, X[others], t[others], likelihood, control=control).predict_proba(
            X[[i]], corrected=True
        )
        assert np.exp(posterior.corrected_loo[i]) == pytest.approx(p[0] if t[i] > 0 else 1.0 - p[0], abs=1e-6)


def log_odds_of(posterior, X_new):
    found = posterior.corrected_at(X_new)
    assert found.settled.all()
    return logit(found.p), logit(np.exp(posterior.corrected_loo))


def test_cases_that_do_not_answer_are_nearly_enough(monkeypatch):
    monkeypatch.setattr(full_response, "WORK", 0.0)
    monkeypatch.setattr(ratio, "REST", 1.0)
    kernel, X, t, X_new = data(120, 1, 4, 1.0, 13, m=20)
    X, X_new = 2.5 * X, 2.5 * X_new

    def probabilities(answering):
        monkeypatch.setattr(ratio, "ANSWERING", (answering,))
        return [expit(odds) for odds in log_odds_of(posterior_of(kernel, X, t, bgp.Probit(1.0)), X_new)]

    (new, left_out), (some_new, some_left_out) = probabilities(120), probabilities(16)
    # without what the others add by themselves these are 7e-5 and 9e-5, without pairs with them 14e-5 and 15e-5
    assert np.std(some_new - new) < 6e-5
    assert np.std(some_left_out - left_out) < 8e-5


@pytest.mark.parametrize("likelihood", [bgp.Probit(0.3), bgp.Probit(0.3, 0.03), Logit()], ids=str)
@pytest.mark.parametrize("setting", [(80, 1, 2, 0.5), (80, 2, 9, 0.5)])
def test_with_a_covariance_of_low_rank_all_answer(likelihood, setting, monkeypatch):
    kernel, X, t, X_new = data(*setting, 31, m=8)

    def solved():
        return posterior_of(kernel, X, t, likelihood, control=bgp.Control(tolerance=1e-9))

    found = log_odds_of(solved(), X_new)
    monkeypatch.setattr(full_response, "WORK", 0.0)
    monkeypatch.setattr(ratio, "ANSWERING", (80,))
    whole = log_odds_of(solved(), X_new)
    new, left_out = zip(found, whole, strict=True)
    np.testing.assert_allclose(*expit(new), atol=3e-4)  # TAP is off by 100 times as much
    np.testing.assert_allclose(*expit(left_out), atol=1e-3)  # there 64 answer, and the others may change so much


def test_on_roots_and_inducing_cases():
    kernel, X, t, X_new = data(100, 3, 4, 0.3, 32)
    dense = bgp.posterior(bgp.fit(X, t, kernel, draws=1, chains=1, random_seed=1, control=bgp.Control(gram="dense")))
    p, left_out = dense.predict_proba(X_new, corrected=True), dense.corrected_loo
    change = np.max(np.abs(p - dense.predict_proba(X_new)))
    for options in ({"control": bgp.Control(gram="low_rank")}, {"inducing": X}):
        other = bgp.posterior(bgp.fit(X, t, kernel, draws=1, chains=1, random_seed=1, **options))
        np.testing.assert_allclose(other.predict_proba(X_new, corrected=True), p, atol=3e-3 * change)
        np.testing.assert_allclose(other.corrected_loo, left_out, atol=3e-4)
    few = bgp.posterior(bgp.fit(X, t, kernel, draws=1, chains=1, random_seed=1, inducing=4))
    problem = few.problem
    dense = bgp.solve(problem.matrix.dense(), t, problem.likelihood)
    whole = Posterior(kernel, X, bgp.Problem(problem.matrix.dense(), t, problem.likelihood), dense)
    np.testing.assert_allclose(few.corrected_loo, whole.corrected_loo, atol=3e-4)


def test_an_average_is_that_of_its_parts():
    kernel, X, t, X_new = data(15, 1, 4, 0.3, 33)
    priors = {"lengthscale": bgp.hyper.LogNormal(0.0, 0.3)}
    options = {"hyper": "integrate", "priors": priors, "fixed": ["variance"]}
    idata = bgp.fit(X, t, kernel, draws=5, chains=1, random_seed=1, **options)
    process = bgp.posterior(idata)
    each = [part.predict_proba(X_new, corrected=True) for part in process.parts]
    np.testing.assert_allclose(process.predict_proba(X_new, corrected=True), process.weights @ np.array(each))
    bgp.predict(idata, X_new, corrected=True, draws=False)
    np.testing.assert_allclose(get_group(idata, "predictions")["p"].values, process.weights @ np.array(each))
    left_out = np.array([part.corrected_loo for part in process.parts])
    np.testing.assert_allclose(process.corrected_loo, -np.log(process.weights @ np.exp(-left_out)))
    densities = np.array([part.density(X_new, [0.0, 1.0]) for part in process.parts])
    np.testing.assert_allclose(process.density(X_new, [0.0, 1.0]), np.tensordot(process.weights, densities, 1))


@pytest.mark.parametrize("likelihood", [bgp.Probit(0.2), bgp.Probit(0.2, 0.02), Logit()], ids=str)
def test_density_of_a_latent_value_against_integration(likelihood):
    kernel, X, t = bgp.kernels.Gaussian(1.0, 9.0), np.array([[0.0], [0.7]]), np.array([1.0, -1.0])
    posterior = posterior_of(kernel, X, t, likelihood)
    grid, x, values = np.linspace(-12.0, 12.0, 481), np.array([[0.3]]), np.linspace(-6.0, 6.0, 13)
    gram, cross = kernel.gram(X), kernel.cross(X, x)[:, 0]
    given = [np.exp(likelihood.log_prob(np.full(grid.size, label), grid).value) for label in t]
    step = (grid[1] - grid[0]) ** 2
    points = np.dstack(np.meshgrid(grid, grid, indexing="ij"))
    evidence = given[0] @ multivariate_normal(np.zeros(2), gram).pdf(points) @ given[1] * step
    exact = []
    for f in values:
        others = multivariate_normal(cross * f / 9.0, gram - np.outer(cross, cross) / 9.0)
        exact.append(norm.pdf(f, 0.0, 3.0) * (given[0] @ others.pdf(points) @ given[1]) * step / evidence)
    mean, variance = posterior.latent(x)
    before = np.max(np.abs(norm.pdf(values, mean, np.sqrt(variance)) - exact))
    after = np.max(np.abs(posterior.density(x, values)[0] - exact))
    assert after < 0.3 * before


@pytest.mark.parametrize("n", [20, 90])  # some answer, all answer
def test_density_holds_together_with_the_probability(n):
    kernel, X, t, X_new = data(n, 2, 9, 0.3, 34, m=3)
    X_new = np.vstack([X_new, X[:1]])
    posterior = posterior_of(kernel, X, t, bgp.Probit(0.3))
    mean, variance = posterior.latent(X_new)
    values = mean[:, None] + np.sqrt(variance)[:, None] * np.linspace(-7, 7, 141)
    density, width = posterior.density(X_new, values), 0.1 * np.sqrt(variance)
    total = density.sum(axis=1) * width
    np.testing.assert_allclose(total, 1.0, atol=0.01)
    given = np.exp(bgp.Probit(0.3).log_prob(np.ones(values.size), values.ravel()).value).reshape(values.shape)
    p = np.sum(density * given, axis=1) * width / total
    uncorrected = np.max(np.abs(posterior.predict_proba(X_new) - p))
    np.testing.assert_allclose(posterior.predict_proba(X_new, corrected=True), p, atol=0.2 * uncorrected)


def test_density_of_a_gaussian_process_with_gaussian_noise_and_a_prior_mean():
    kernel, X, t, X_new = data(10, 1, 4, 0.1, 35, m=2)
    posterior = posterior_of(kernel, X, t + 0.1, Gaussian(0.5))
    mean, variance = posterior.latent(X_new)
    np.testing.assert_allclose(posterior.density(X_new, [0.3])[:, 0], norm.pdf(0.3, mean, np.sqrt(variance)))

    def prior(at):
        return 0.5 + at[:, 0]

    problem = bgp.Problem(kernel.gram(X), t, by_case(bgp.Probit(), prior_mean=prior(X)))
    moved = Posterior(kernel, X, problem, bgp.solve(problem.gram, t, problem.likelihood), mean=prior)
    mean, variance = moved.latent(X_new)
    values = mean[:, None] + np.sqrt(variance)[:, None] * np.linspace(-7, 7, 141)
    density = moved.density(X_new, values)
    given = np.exp(bgp.Probit().log_prob(np.ones(values.size), values.ravel()).value).reshape(values.shape)
    p = np.sum(density * given, axis=1) / density.sum(axis=1)
    np.testing.assert_allclose(moved.predict_proba(X_new, corrected=True), p, atol=1e-3)


@pytest.mark.parametrize(
    ("f", "said"),
    [
        (0.0, r"f must have shape \(q,\)"),
        (np.zeros((3, 2)), r"f must have shape.*got \(3, 2\)"),
        ([np.nan], "f"),
        (["a"], "f must hold numbers"),
    ],
)
def test_density_refuses_other_values(f, said):
    kernel, X, t, X_new = data(10, 1, 4, 0.1, 36, m=2)
    with pytest.raises(ValueError, match=said):
        posterior_of(kernel, X, t, bgp.Probit()).density(X_new, f)


def test_a_density_far_out_is_counted_by_values_and_overflows_into_no_warning(recwarn):
    rng = np.random.default_rng(7)
    X = rng.normal(size=(40, 2))
    kernel = bgp.kernels.Gaussian(1.5, 4.0) + bgp.kernels.Bias()
    problem = bgp.Problem(kernel.gram(X), np.where(X[:, 0] + 0.5 * X[:, 1] > 0, 1.0, -1.0), bgp.Step())
    posterior = bgp.Posterior(kernel, X, problem, bgp.solve(problem.gram, problem.t, bgp.Step()))
    posterior.density(X[:2], np.linspace(-20.0, 20.0, 101))
    said = [str(each.message) for each in recwarn]
    assert len(said) == 1
    assert "of 202 latent values are not corrected" in said[0]


def test_where_too_many_answer_it_says_so_and_leaves_the_probability_as_it_is(monkeypatch):
    kernel, X, t, X_new = data(40, 2, 25, 0.1, 14)
    posterior = posterior_of(kernel, X, t, bgp.Probit(0.1))
    monkeypatch.setattr(full_response, "WORK", 0.0)
    monkeypatch.setattr(ratio, "ANSWERING", (2,))
    monkeypatch.setattr(ratio, "REST", 1e-6)
    with pytest.warns(bgp.ConvergenceWarning, match="of 6 new cases are not corrected"):
        found = posterior.corrected_at(X_new)
    left = ~found.settled
    assert left.any()
    np.testing.assert_array_equal(found.p[left], posterior.predict_proba(X_new)[left])


def test_a_label_that_cannot_be_has_no_probability():
    kernel, X, t, _ = data(20, 1, 4, 0, 37)
    posterior = posterior_of(kernel, X, t, bgp.Step())
    found = posterior.corrected_at(X)
    assert found.settled.all()
    known = found.extreme == found.p  # by densities, the others by the evidence of the label that can be
    assert known.sum() >= 14
    np.testing.assert_allclose(found.p[known], t[known] > 0, atol=1e-6)
    np.testing.assert_array_equal(found.extreme[~known], t[~known] > 0)
    off, before = (np.abs(p - (t > 0))[~known] for p in (found.p, posterior.predict_proba(X)))
    assert np.all(off < 0.6 * before)


def test_density_of_a_training_case_again_does_not_depend_on_how_many_are_asked():
    rng = np.random.default_rng(104)
    X = rng.normal(size=(rng.choice([20, 65, 66, 80, 129]), 2))
    scale, variance = 10 ** rng.uniform(-0.5, 1), 10 ** rng.uniform(-1, 3)
    rng.random(2)
    t = np.sign(X[:, 0] + rng.choice([0, 1]) * rng.normal(size=X.shape[0]))
    posterior = posterior_of(bgp.kernels.Gaussian(scale, variance), X, t, Logit())
    mean, variance = posterior.latent(X[:1])
    values = mean + np.sqrt(variance) * np.linspace(-8, 8, 161)
    density = posterior.density(X[:1], values)[0]
    assert density.sum() * 0.1 * np.sqrt(variance[0]) == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(density[::40], [posterior.density(X[:1], [f])[0, 0] for f in values[::40]], rtol=1e-6)


def test_of_what_cannot_be_no_more_cases_are_asked_in_vain(monkeypatch):
    kernel, X, _, _ = data(140, 2, 100, 0, 42)
    t = np.where(X[:, 0] > 0.1, 1.0, -1.0)
    posterior = posterior_of(kernel, X, t, bgp.Step())
    asked = []

    class Counted(ratio.PartialResponse):
        def __init__(self, base, questions, answering):
            asked.append(answering.size)
            super().__init__(base, questions, answering)

    monkeypatch.setattr(ratio, "PartialResponse", Counted)
    found = posterior.corrected_at(X[:6])  # no numpy warnings: they are errors in tests
    assert found.settled.all()  # by the label that can be
    np.testing.assert_allclose(found.p, t[:6] > 0, atol=0.05)
    assert sum(asked) < 2500  # 1728; if all were asked of all others, twice as many


def test_far_away_the_prior_is_left():
    kernel, X, t, _ = data(12, 1, 4, 1.0, 15)
    p = posterior_of(kernel, X, t, bgp.Probit(1.0)).predict_proba([[1e3, 1e3]], corrected=True)
    assert p == pytest.approx(0.5, abs=1e-12)


def test_a_training_case_again_and_labels_exchanged():
    kernel, X, t, X_new = data(12, 1, 9, 0.1, 16)
    one, other = (posterior_of(kernel, X, sign * t, bgp.Probit(0.1)) for sign in (1, -1))
    X_new = np.vstack([X[:3], X_new])
    p = one.predict_proba(X_new, corrected=True)
    np.testing.assert_allclose(p, 1.0 - other.predict_proba(X_new, corrected=True), atol=1e-7)
    each = [corrected_evidence(with_one_more(one, X[0], label)) for label in (1, -1)]
    assert p[0] == pytest.approx(expit(each[0] - each[1]), abs=1e-6)


@pytest.mark.parametrize("likelihood", [bgp.Probit(0.5), Logit()], ids=str)
def test_one_case(likelihood):
    posterior = posterior_of(bgp.kernels.Gaussian(), np.zeros((1, 2)), np.ones(1), likelihood)
    assert np.exp(posterior.corrected_loo) == pytest.approx(0.5)
    each = [corrected_evidence(with_one_more(posterior, [0.5, 0.0], label)) for label in (1, -1)]
    p = posterior.predict_proba([[0.5, 0.0]], corrected=True)
    assert p == pytest.approx(expit(each[0] - each[1]), abs=1e-6)
    assert p != pytest.approx(posterior.predict_proba([[0.5, 0.0]]), abs=1e-6)


@pytest.mark.parametrize("likelihood", [bgp.Probit(0.5), Logit()], ids=str)
def test_a_prior_mean(likelihood):
    kernel, X, t, X_new = data(10, 1, 4, 0.5, 22, m=2)

    def mean(at):
        return 0.5 + at[:, 0]

    def solved(X, t):
        problem = bgp.Problem(kernel.gram(X), t, by_case(likelihood, prior_mean=mean(X)))
        solution = bgp.solve(problem.gram, t, problem.likelihood, control=bgp.Control(tolerance=1e-9))
        return Posterior(kernel, X, problem, solution, mean=mean)

    posterior = solved(X, t)
    each = np.array(
        [[corrected_evidence(solved(np.vstack([X, x]), np.append(t, label))) for label in (1, -1)] for x in X_new]
    )
    p = posterior.predict_proba(X_new, corrected=True)
    np.testing.assert_allclose(p, expit(each[:, 0] - each[:, 1]), atol=1e-6)
    others = solved(X[1:], t[1:]).predict_proba(X[:1], corrected=True)
    assert np.exp(posterior.corrected_loo[0]) == pytest.approx(others if t[0] > 0 else 1.0 - others, abs=1e-6)


def test_container_says_that_it_is_corrected():
    kernel, X, t, X_new = data(20, 1, 4, 0.1, 18)
    idata = bgp.fit(X, t, kernel, bgp.Probit(0.1), draws=10, random_seed=1)
    bgp.predict(idata, X_new, corrected=True, random_seed=1)
    group, posterior = get_group(idata, "predictions"), bgp.posterior(idata)
    np.testing.assert_allclose(group["p"].values, posterior.predict_proba(X_new, corrected=True), rtol=1e-9)
    assert group.attrs["corrected"] == len(X_new)
    assert 0.0 < group.attrs["largest_sum_error"] < 0.02
    assert "f" in group
    for after in (bgp.loo(idata, corrected=True), bgp.loo(idata)):  # of few cases all are corrected
        key = "elpd_loo" if hasattr(after, "elpd_loo") else "elpd"
        assert getattr(after, key) == pytest.approx(np.sum(posterior.corrected_loo))
        assert getattr(after, key) != pytest.approx(float(idata["fit"]["loo_i"].sum()), abs=1e-3)
    bgp.predict(idata, X_new, draws=False)
    assert "corrected" not in get_group(idata, "predictions").attrs


def test_gaussian_noise_has_nothing_to_correct():
    kernel, X, t, X_new = data(10, 1, 4, 0.1, 19)
    idata = bgp.fit(X, t + 0.1 * X[:, 0], kernel, Gaussian(0.5), draws=10, random_seed=1)
    bgp.predict(idata, X_new, draws=False)
    before = get_group(idata, "predictions")
    bgp.predict(idata, X_new, draws=False, corrected=True)
    np.testing.assert_array_equal(get_group(idata, "predictions")["latent_sd"], before["latent_sd"])
    process = bgp.posterior(idata)
    np.testing.assert_array_equal(process.corrected_loo, process.loo.log_density)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "laplace"}, "this fit is by method 'laplace'.*method='tap'"),
        ({"likelihood": bgp.Softmax()}, "several"),
    ],
    ids=["laplace", "softmax"],
)
def test_what_cannot_be_corrected_is_refused(options, said):
    kernel, X, t, X_new = data(60, 3, 4, 0.1, 20)
    idata = bgp.fit(X, t, kernel, **{"likelihood": bgp.Probit(), "draws": 5, "random_seed": 1, **options})
    with pytest.raises(ValueError, match=said):
        bgp.predict(idata, X_new, corrected=True)
    with pytest.raises(ValueError, match=said):
        bgp.loo(idata, corrected=True)


def test_other_refusals():
    kernel, X, t, X_new = data(12, 2, 4, 0.1, 21)
    idata = bgp.fit(X, t, kernel, draws=5, random_seed=1)
    with pytest.raises(ValueError, match="corrected must be True or False"):
        bgp.predict(idata, X_new, corrected="yes")
    with pytest.raises(ValueError, match="corrected must be True or False"):
        bgp.loo(idata, corrected=1)


def test_with_flips_it_warns():
    kernel, X, t, X_new = data(12, 2, 4, 0.1, 23)
    with pytest.warns(UserWarning, match=r"not log-concave.*farther off in some"):
        posterior_of(kernel, X, t, bgp.Probit(0.1, 0.05)).predict_proba(X_new, corrected=True)


def test_labels_that_miss_one_together_are_said(monkeypatch):
    monkeypatch.setattr(corrected, "LARGEST_SUM_ERROR", 1e-4)
    kernel, X, t, X_new = data(12, 2, 25, 0.1, 24)
    with pytest.warns(UserWarning, match=r"each found by itself, miss one by up to 0\.0"):
        posterior_of(kernel, X, t, bgp.Probit(0.1)).predict_proba(X_new, corrected=True)


@pytest.mark.parametrize("n", [12, 90])  # some answer, all answer
def test_a_case_that_is_known_without_a_label_changes_nothing(n):
    rng = np.random.default_rng(25)
    X, X_new = rng.normal(size=(n, 2)), rng.normal(size=(3, 2))
    t = np.where(X[:, 0] + 0.5 * rng.normal(size=n) > 0, 1.0, -1.0)
    kernel, control = bgp.kernels.Linear(2.0), bgp.Control(tolerance=1e-9)
    without = posterior_of(kernel, X, t, bgp.Probit(), control=control)
    at = [2, 5]
    more = posterior_of(
        kernel, np.insert(X, at, 0.0, axis=0), np.insert(t, at, [1.0, -1.0]), bgp.Probit(), control=control
    )
    p = without.predict_proba(X_new, corrected=True)
    np.testing.assert_allclose(more.predict_proba(X_new, corrected=True), p, atol=1e-6)
    np.testing.assert_allclose(more.density(X_new, [0.0, 1.0]), without.density(X_new, [0.0, 1.0]), atol=1e-5)
    others = np.delete(np.arange(n + 2), [2, 6])
    np.testing.assert_allclose(more.corrected_loo[others], without.corrected_loo, atol=1e-5)
    np.testing.assert_allclose(more.corrected_loo[[2, 6]], np.log(0.5))
    nothing = posterior_of(kernel, np.zeros((4, 2)), np.array([1.0, 1.0, -1.0, 1.0]), bgp.Probit())
    np.testing.assert_allclose(nothing.corrected_loo, np.log(0.5))
    np.testing.assert_allclose(nothing.predict_proba(X_new, corrected=True), 0.5, atol=1e-12)


@pytest.mark.parametrize(
    ("kernel", "inducing"),
    [(bgp.kernels.Linear(), None), (bgp.kernels.Gaussian(1.0), None), (bgp.kernels.Gaussian(), 8)],
)
def test_a_posterior_that_knows_its_corrections_can_be_sent(kernel, inducing):
    _, X, t, X_new = data(20, 1, 4, 0.1, seed=1)
    process = bgp.posterior(bgp.fit(X, t, kernel, bgp.Probit(0.5), inducing=inducing, draws=5, chains=1))
    p, loo = process.predict_proba(X_new, corrected=True), process.corrected_loo
    copy = pickle.loads(pickle.dumps(process))
    np.testing.assert_array_equal(copy.predict_proba(X_new, corrected=True), p)
    np.testing.assert_array_equal(copy.corrected_loo, loo)


@pytest.mark.filterwarnings("ignore:the densities of 1 of 1")
@pytest.mark.parametrize("variance", [1e4, 1e10, 1e13, 1e15, 1.7e16, 1e18])
def test_one_case_left_out_leaves_the_prior_however_wide_it_is(variance):
    """At 1.7e16 the corrected density was off by 0.06 nats, or none, and at 1e18 by 2.8."""
    y, likelihood = np.array([3.0]), bgp.Poisson()
    idata = bgp.fit([[0.0]], y, bgp.kernels.Bias(variance), likelihood, draws=2, random_seed=1, progress=False)
    exact = likelihood.log_partition(y, np.zeros(1), np.array([variance])).value
    np.testing.assert_allclose(bgp.posterior(idata).corrected_loo, exact, atol=1e-5)
