"""Corrected predictions: against exact integration, against solving with one case more, and where nothing changes."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit, logit

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.diagnostics import log_orthant_probability
from bayesgp_mf.likelihoods import Gaussian, Logit
from bayesgp_mf.likelihoods.shifted import Shifted
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.solvers import ratio
from bayesgp_mf.solvers.second_order import second_order

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
        kernel, X, t, X_new = data(*setting, seed)
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


def test_cases_that_do_not_answer_are_nearly_enough(monkeypatch):
    kernel, X, t, X_new = data(120, 1, 4, 1.0, 13, m=20)
    X, X_new = 2.5 * X, 2.5 * X_new
    posterior = posterior_of(kernel, X, t, bgp.Probit(1.0))

    def log_odds(answering):
        monkeypatch.setattr(ratio, "ANSWERING", answering)
        found = posterior.corrected_at(X_new)
        assert found.settled.all()
        return logit(found.p), logit(np.exp(posterior.corrected_loo))

    (new, left_out), (some_new, some_left_out) = log_odds((120,)), log_odds((24, 48, 96))
    correction = np.std(new - logit(posterior.predict_proba(X_new)))
    # without what the others add by themselves it would be 0.014, without their pairs with those that answer 0.018
    assert np.std(some_new - new) < 0.0105 * correction
    correction = np.std(left_out - logit(np.exp(posterior.loo.log_density)))
    assert np.std(some_left_out - left_out) < 0.0055 * correction


def test_where_too_many_answer_it_says_so_and_leaves_the_probability_as_it_is(monkeypatch):
    kernel, X, t, X_new = data(40, 2, 25, 0.1, 14)
    posterior = posterior_of(kernel, X, t, bgp.Probit(0.1))
    monkeypatch.setattr(ratio, "ANSWERING", (2,))
    with pytest.warns(bgp.ConvergenceWarning, match="of 6 new cases are not corrected"):
        found = posterior.corrected_at(X_new)
    left = ~found.settled
    assert left.any()
    np.testing.assert_array_equal(found.p[left], posterior.predict_proba(X_new)[left])


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
        problem = bgp.Problem(kernel.gram(X), t, Shifted(likelihood, mean(X)))
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
    before = bgp.loo(idata)
    bgp.predict(idata, X_new, corrected=True, random_seed=1)
    group, posterior = get_group(idata, "predictions"), bgp.posterior(idata)
    np.testing.assert_allclose(group["p"].values, posterior.predict_proba(X_new, corrected=True), rtol=1e-9)
    assert group.attrs["corrected"] == len(X_new)
    assert 0.0 < group.attrs["largest_sum_error"] < 0.02
    assert "f" in group
    after = bgp.loo(idata, corrected=True)
    key = "elpd_loo" if hasattr(after, "elpd_loo") else "elpd"
    assert getattr(after, key) == pytest.approx(np.sum(posterior.corrected_loo))
    assert getattr(after, key) != pytest.approx(getattr(before, key), abs=1e-3)
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
        ({"inducing": 5}, "inducing cases.*gram='dense'"),
        ({"control": bgp.Control(gram="low_rank")}, "low rank.*gram='dense'"),
    ],
    ids=["laplace", "softmax", "inducing", "low rank"],
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
    priors = {"lengthscale": bgp.hyper.LogNormal(2.0, 0.3)}
    options = {"hyper": "integrate", "priors": priors, "fixed": ["variance"]}
    average = bgp.fit(X, t, kernel, draws=5, chains=1, random_seed=1, **options)
    with pytest.raises(ValueError, match=r"an average over.*hyper='evidence'"):
        bgp.predict(average, X_new, corrected=True)
