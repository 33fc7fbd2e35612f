"""Tilted marginals: the map against quadrature, its density, and draws that are closer to the exact posterior."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import logsumexp
from scipy.stats import wasserstein_distance

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.inference.solution import Cavity
from bayesgp_mf.kernels import Matern32
from bayesgp_mf.likelihoods import Gaussian, Logit
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.methods import METHODS, check_cavities
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.processes.tilted import tilted_values

BINARY = [bgp.Probit(), bgp.Probit(1e-4), bgp.Probit(0.3, 0.05), Logit(), bgp.Step(), bgp.Step(0.1)]
CAVITIES = [(0.3, 1.0), (-6.0, 1.0), (5.0, 9.0), (-3.0, 400.0)]
SCORES = np.linspace(-6.0, 6.0, 25)[:, None]


def log_density(likelihood, t, cavity, f):
    gauss = -0.5 * (f - cavity.mean) ** 2 / cavity.variance - 0.5 * np.log(2.0 * np.pi * cavity.variance)
    log_z = likelihood.log_partition(t, *cavity).value
    return likelihood.log_prob(t, f).value + gauss - log_z


def posterior_of(gram, t, likelihood, method="tap"):
    """A posterior of cases whose inputs are their numbers, under a Gram matrix of the test's own."""
    problem = bgp.Problem(np.asarray(gram, dtype=float), np.asarray(t, dtype=float), likelihood)
    X = np.arange(float(problem.n))[:, None]
    return Posterior(Matern32(), X, problem, bgp.solve(gram, t, likelihood, method=method))


@pytest.mark.parametrize("likelihood", BINARY, ids=str)
@pytest.mark.parametrize(("mean", "variance"), CAVITIES)
@pytest.mark.parametrize("label", [-1.0, 1.0])
def test_slope_is_that_of_the_levels(likelihood, mean, variance, label):
    """df'/dx = phi(x) / q(f'), everywhere; with the level of one point right, all levels are."""
    t, cavity = np.array([label]), Cavity(np.array([mean]), np.array([variance]))
    values, log_slopes = tilted_values(likelihood, t, cavity, SCORES)
    expected = -0.5 * SCORES**2 - 0.5 * np.log(2.0 * np.pi) - log_density(likelihood, t, cavity, values)
    np.testing.assert_allclose(log_slopes, expected, atol=2e-4)
    assert np.all(np.diff(values[:, 0]) > 0)


@pytest.mark.parametrize(
    "likelihood", [bgp.Probit(), bgp.Probit(0.3, 0.05), Logit(), bgp.Step(), bgp.Step(0.1)], ids=str
)
@pytest.mark.parametrize("score", [-5.0, 0.0, 3.0])
def test_level_is_kept_in_both_tails(likelihood, score):
    """Against scipy's own quadrature, with the small tail integrated and not the difference from one."""
    t, cavity = np.array([-1.0]), Cavity(np.array([0.7]), np.array([2.0]))
    value = float(tilted_values(likelihood, t, cavity, np.array([[score]]))[0][0, 0])
    lower, upper = (-30.0, value) if score < 0 else (value, 30.0)

    def density(f):
        return float(np.exp(log_density(likelihood, t, cavity, np.array([f]))[0]))

    points = [p for p in (0.0, value - 1.0, value + 1.0) if lower < p < upper]
    level = quad(density, lower, upper, points=points, epsabs=0.0, epsrel=1e-10, limit=200)[0]
    expected = quad(lambda x: np.exp(-0.5 * x * x) / np.sqrt(2.0 * np.pi), abs(score), 30.0, epsabs=0.0)[0]
    np.testing.assert_allclose(level, expected, rtol=1e-5)


def test_a_gaussian_stays_as_it_is():
    t, cavity = np.array([1.3]), Cavity(np.array([-0.4]), np.array([2.0]))
    values, log_slopes = tilted_values(Gaussian(0.5), t, cavity, SCORES)
    variance = 1.0 / (1.0 / 2.0 + 1.0 / 0.5)
    mean = variance * (-0.4 / 2.0 + 1.3 / 0.5)
    np.testing.assert_allclose(values, mean + np.sqrt(variance) * SCORES, atol=1e-9)
    np.testing.assert_allclose(log_slopes, 0.5 * np.log(variance), atol=1e-9)


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Step(0.1)], ids=str)
def test_a_prior_mean_is_a_shift(likelihood):
    t, offset = np.array([1.0, -1.0]), np.array([0.5, -2.0])
    cavity = Cavity(np.array([0.2, 0.1]), np.array([1.0, 3.0]))
    scores = np.tile(SCORES, (1, 2))
    shifted, slopes = tilted_values(by_case(likelihood, prior_mean=offset), t, cavity, scores)
    moved = Cavity(cavity.mean + offset, cavity.variance)
    plain, plain_slopes = tilted_values(likelihood, t, moved, scores)
    np.testing.assert_allclose(shifted, plain - offset, atol=1e-6)
    np.testing.assert_allclose(slopes, plain_slopes, atol=1e-4)


def test_no_value_crosses_the_edge_of_a_step():
    t, cavity = np.array([1.0]), Cavity(np.array([-2.0]), np.array([1.0]))
    values, log_slopes = tilted_values(bgp.Step(), t, cavity, np.array([[-40.0], [-10.0], [10.0]]))
    assert np.all(values > 0)
    assert np.all(np.isfinite(log_slopes))


@pytest.mark.parametrize("likelihood", [*BINARY[:1], *BINARY[3:]], ids=str)
def test_one_case_is_exact(likelihood):
    """At n = 1 the tilted distribution is the posterior: every weight is the evidence."""
    posterior = posterior_of([[2.0]], [1.0], likelihood)
    drawn = posterior.draw(500, np.random.default_rng(0), "tilted")
    np.testing.assert_allclose(drawn.log_p - drawn.log_q, posterior.log_evidence, atol=2e-5)
    gaussian = posterior.draw(500, np.random.default_rng(0))
    with np.errstate(invalid="ignore"):
        assert np.ptp(gaussian.log_p - gaussian.log_q) > 0.01  # the control


@pytest.mark.parametrize("likelihood", [bgp.Probit(0.1), bgp.Step(0.05)], ids=str)
def test_density_of_the_draws_integrates_to_one(likelihood):
    """At n = 2: the mean of 1/q over draws in a box is its volume in u, whatever q is; that needs the right q."""
    gram, t = np.array([[2.0, 1.2], [1.2, 1.0]]), [1.0, -1.0]
    posterior = posterior_of(gram, t, likelihood)
    drawn = posterior.draw(40_000, np.random.default_rng(1), "tilted")
    centre, half = np.median(drawn.f, axis=0), np.array([0.5, 0.4])
    inside = np.all(np.abs(drawn.f - centre) < half, axis=1)
    terms = np.where(inside, np.exp(-drawn.log_q), 0.0)
    volume = np.prod(2.0 * half) / np.sqrt(np.linalg.det(gram))  # q is a density of the whitened u, f = A u
    assert abs(terms.mean() - volume) < 4.0 * terms.std() / np.sqrt(terms.size)
    assert terms.std() / np.sqrt(terms.size) < 0.02 * volume


@pytest.mark.parametrize("marginals", ["gaussian", "tilted"])
def test_evidence_by_weighting_is_exact_at_two_cases(marginals):
    gram, t, likelihood = np.array([[4.0, 3.0], [3.0, 4.0]]), np.array([1.0, -1.0]), bgp.Step(0.02)
    # P(the signs differ) at a correlation of 3/4: the arcsine law
    differ = 0.5 - np.arcsin(3.0 / 4.0) / np.pi
    right, wrong = 0.98, 0.02
    exact = np.log(0.5 * differ * (right**2 + wrong**2) + (1.0 - differ) * right * wrong)
    drawn = posterior_of(gram, t, likelihood).draw(20_000, np.random.default_rng(2), marginals)
    log_weights = drawn.log_p - drawn.log_q
    estimate = float(logsumexp(log_weights)) - np.log(log_weights.size)
    error = np.std(np.exp(log_weights - estimate)) / np.sqrt(log_weights.size)
    assert abs(estimate - exact) < 4.0 * error
    assert error < 0.02


@pytest.mark.parametrize("n", [3, 4])
def test_step_draws_are_closer_to_the_exact_posterior(n):
    """The exact posterior is the prior where no label is contradicted: draw, and reject."""
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, 2))
    gram, t = Matern32(1.5).gram(X), np.where(np.arange(n) % 3 == 0, -1.0, 1.0)
    prior = rng.standard_normal((400_000, n)) @ np.linalg.cholesky(gram).T
    exact = prior[np.all(t * prior > 0, axis=1)]
    assert exact.shape[0] > 8000
    posterior = posterior_of(gram, t, bgp.Step())
    drawn = {kind: posterior.draw(20_000, np.random.default_rng(0), kind).f for kind in ("gaussian", "tilted")}
    far = {
        kind: np.array([wasserstein_distance(f[:, i], exact[:, i]) for i in range(n)]) / exact.std(axis=0)
        for kind, f in drawn.items()
    }
    assert np.all(far["tilted"] < 0.5 * far["gaussian"])
    assert np.all(t * drawn["tilted"] > 0)
    assert np.mean(np.any(t * drawn["gaussian"] < 0, axis=1)) > 0.05
    log_weights = {
        kind: (d := posterior.draw(20_000, np.random.default_rng(0), kind)).log_p - d.log_q for kind in drawn
    }
    effective = {kind: np.exp(2 * logsumexp(w) - logsumexp(2 * w)) for kind, w in log_weights.items()}
    assert effective["tilted"] > 1.2 * effective["gaussian"]


def test_tap_keeps_mean_and_sd_and_naive_only_the_mean():
    rng = np.random.default_rng(0)
    gram = Matern32(1.0, 4.0).gram(rng.standard_normal((6, 2)))
    t = np.sign(rng.standard_normal(6))
    for method, same_sd in (("tap", True), ("naive", False)):
        posterior = posterior_of(gram, t, bgp.Step(), method)
        f = posterior.draw(40_000, np.random.default_rng(1), "tilted").f
        mean, variance = posterior.at_training
        np.testing.assert_allclose(f.mean(axis=0), mean, atol=5.0 * float(np.sqrt(gram[0, 0] / 40_000)))
        assert np.allclose(f.std(axis=0), np.sqrt(variance), rtol=0.03) is same_sd


@pytest.mark.parametrize("method", sorted({*METHODS} - {"svm"}))
def test_methods_without_cavities_say_who_has_them(method):
    X = np.arange(4.0)[:, None]
    has = bgp.solve(Matern32().gram(X), [1, -1, 1, 1], bgp.Probit(), method=method).cavity is not None
    if has:
        check_cavities(METHODS[method])
        idata = bgp.fit(X, [1, 0, 1, 1], Matern32(), method=method, marginals="tilted", draws=5, random_seed=0)
        assert get_group(idata, "fit").attrs["marginals"] == "tilted"
        return
    with pytest.raises(ValueError, match=r"one of \['tap', 'naive', 'variational'\], and method '" + method):
        bgp.fit(X, [1, 0, 1, 1], Matern32(), method=method, marginals="tilted")


def test_container_says_which_and_holds_the_right_weights():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((8, 2))
    fits = {
        kind: bgp.fit(X, X[:, 0] > 0, Matern32(), bgp.Step(), marginals=kind, draws=500, random_seed=1)
        for kind in ("gaussian", "tilted")
    }
    assert {kind: idata["fit"].attrs["marginals"] for kind, idata in fits.items()} == {k: k for k in fits}
    assert np.isfinite(fits["tilted"]["sample_stats"]["log_p"].values).all()
    assert np.isneginf(fits["gaussian"]["sample_stats"]["log_p"].values).any()
    assert (np.sign(fits["tilted"]["posterior"]["f"].values) == np.where(X[:, 0] > 0, 1, -1)).all()
    log_weights = [(i["sample_stats"]["log_p"] - i["sample_stats"]["log_q"]).values for i in fits.values()]
    estimates = [float(logsumexp(w)) - np.log(w.size) for w in log_weights]
    np.testing.assert_allclose(estimates[0], estimates[1], atol=0.15)


def test_a_singular_gram_matrix_is_refused():
    X = np.ones((3, 1))
    with pytest.raises(bgp.NotPositiveDefiniteError, match="this one of 3 cases has rank 1"):
        bgp.fit(X, [0, 1, 1], Matern32(), marginals="tilted", draws=5)


def test_other_names_and_containers_are_refused():
    X = np.arange(3.0)[:, None]
    with pytest.raises(ValueError, match="marginals must be 'gaussian' or 'tilted', got 'exact'"):
        bgp.fit(X, [0, 1, 1], Matern32(), marginals="exact")
    idata = bgp.fit(X, [0, 1, 1], Matern32(), method="naive", draws=5)
    with pytest.raises(ValueError, match="has no cavities to tilt: it was read from a container"):
        bgp.posterior(idata).draw(5, np.random.default_rng(0), "tilted")
    with pytest.raises(ValueError, match="marginals must be"):
        bgp.posterior(idata).draw(5, np.random.default_rng(0), "exact")


def test_taps_cavities_are_in_the_container():
    X, t = np.arange(3.0)[:, None], np.array([-1.0, 1.0, 1.0])
    problem = bgp.Problem(Matern32().gram(X), t, bgp.Probit())
    made = bgp.Posterior(Matern32(), X, problem, bgp.solve(problem.gram, t, bgp.Probit()))
    read = bgp.posterior(bgp.fit(X, [0, 1, 1], Matern32(), draws=5))
    expected, found = (each.draw(5, np.random.default_rng(0), "tilted").f for each in (made, read))
    np.testing.assert_allclose(found, expected, rtol=1e-7)


def test_a_density_that_cannot_be_tabulated_is_an_error():
    class Claims(bgp.likelihoods.Likelihood):
        """A likelihood whose partition function is not the integral of what it says."""

        targets, forbids, log_concave = "binary", False, True
        log_prob, predict_proba, sample = bgp.Probit().log_prob, bgp.Probit().predict_proba, bgp.Probit().sample

        def log_partition(self, t, mean, variance):
            right = bgp.Probit().log_partition(t, mean, variance)
            return right._replace(value=right.value + 1e-3)

    t, cavity = np.array([1.0]), Cavity(np.array([0.0]), np.array([1.0]))
    with pytest.raises(ArithmeticError, match=r"case 0 .* was not tabulated: its integral is off by 0.001 nats"):
        tilted_values(Claims(), t, cavity, SCORES)
