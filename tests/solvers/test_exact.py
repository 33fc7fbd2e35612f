"""The exact oracle against closed forms and rejection sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import kstest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS
from bayesgp_mf.solvers.exact import Exact


def test_two_and_three_signs_have_the_arcsine_probabilities():
    # P(both positive) = 1/4 + asin(rho)/(2 pi); three: 1/8 + sum of asin / (4 pi)
    rho = np.array([[1.0, 0.6, -0.2], [0.6, 1.0, 0.3], [-0.2, 0.3, 1.0]])
    two = bgp.solve(4 * rho[:2, :2], [1, 1], bgp.Step(), method="exact")
    np.testing.assert_allclose(np.exp(two.evidence.value), 0.25 + np.arcsin(0.6) / (2 * np.pi), rtol=1e-8)
    three = bgp.solve(rho, [1, -1, 1], bgp.Step(), method="exact")
    expected = 0.125 + (np.arcsin(-0.6) + np.arcsin(-0.2) + np.arcsin(-0.3)) / (4 * np.pi)
    np.testing.assert_allclose(np.exp(three.evidence.value), expected, rtol=4 * three.evidence.standard_error)
    assert 0 < three.evidence.standard_error < 1e-4
    assert three.evidence.kind == "exact"


@pytest.mark.parametrize("flip", [0.0, 0.2])
def test_moments_and_evidence_agree_with_rejection_sampling(flip):
    gram = bgp.kernels.Gaussian(1.0, 2.0).gram(np.array([[0.0], [0.7], [1.5], [2.0]]))
    t = np.array([1.0, -1.0, 1.0, 1.0])
    solution = bgp.solve(gram, t, bgp.Probit(0.5, flip), method="exact")
    rng = np.random.default_rng(0)
    f = rng.standard_normal((1_000_000, 4)) @ np.linalg.cholesky(gram).T
    kept = f[np.all(bgp.Probit(0.5, flip).sample(f, rng) == t, axis=1)]
    accepted = len(kept) / len(f)
    spread = np.sqrt((1 - accepted) / accepted / len(f))
    assert abs(solution.evidence.value - np.log(accepted)) < 4 * spread
    mean_error = kept.std(axis=0) / np.sqrt(len(kept))
    np.testing.assert_array_less(np.abs(gram @ solution.alpha - kept.mean(axis=0)), 4.5 * mean_error)
    covariance = gram - gram @ solution.correction.dense() @ gram
    np.testing.assert_allclose(covariance, np.cov(kept.T), atol=5 * 2 / np.sqrt(len(kept)))
    # the oracle would notice a wrong label
    wrong = bgp.solve(gram, -t, bgp.Probit(0.5, flip), method="exact")
    assert np.max(np.abs(gram @ wrong.alpha - kept.mean(axis=0)) / mean_error) > 20


def test_gaussian_likelihood_is_textbook_regression():
    rng = np.random.default_rng(1)
    X, t = rng.standard_normal((12, 2)), rng.standard_normal(12)
    gram = bgp.kernels.Gaussian(0.8).gram(X)
    solution = bgp.solve(gram, t, Gaussian(0.3), method="exact")
    covariance = gram + 0.3 * np.eye(12)
    value = -0.5 * t @ np.linalg.solve(covariance, t) - 0.5 * np.linalg.slogdet(2 * np.pi * covariance)[1]
    np.testing.assert_allclose(solution.evidence.value, value)
    np.testing.assert_allclose(solution.alpha, np.linalg.solve(covariance, t))
    np.testing.assert_allclose(solution.correction.dense(), np.linalg.inv(covariance))


def test_leave_one_out_is_a_ratio_of_evidences():
    gram, t = bgp.kernels.Gaussian(1.0, 2.0).gram(np.array([[0.0], [0.7], [1.5]])), np.array([1.0, -1.0, 1.0])
    problem = bgp.Problem(gram, t, bgp.Probit(0.5))
    exact = METHODS["exact"]
    loo = exact.leave_one_out(problem, exact.solve(problem))
    without_last = bgp.solve(gram[:2, :2], t[:2], bgp.Probit(0.5), method="exact")
    both = bgp.solve(gram, t, bgp.Probit(0.5), method="exact")
    # another estimate of the same ratio, with fewer points
    error = np.hypot(both.evidence.standard_error, without_last.evidence.standard_error)
    assert error < 1e-4
    np.testing.assert_allclose(loo.log_density[2], both.evidence.value - without_last.evidence.value, atol=4e-5)
    np.testing.assert_allclose(loo.mean[2], gram[2, :2] @ without_last.alpha, atol=1e-4)
    cross = gram[:2, 2:]
    variance = gram[2, 2] - without_last.correction.quadratic_diagonal(cross)[0]
    np.testing.assert_allclose(loo.variance[2], variance, atol=1e-3)


def test_nearly_singular_gram_matrices_do_not_overflow():
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=8, random_seed=1)
    gram = bgp.kernels.Gaussian(1.0, 4.0).gram(toy.X)
    for likelihood in (bgp.Step(), bgp.Step(0.1)):
        solution = bgp.solve(gram, 2 * toy.y - 1, likelihood, method="exact", control=bgp.Control(throw=False))
        assert np.all(np.isfinite(solution.alpha))
        assert -8 * np.log(2) * 4 < solution.evidence.value < 0
    with pytest.raises(bgp.NotPositiveDefiniteError, match=r"needs an invertible Gram matrix.*kernels\.White"):
        bgp.solve(np.ones((2, 2)), [1, 1], bgp.Step(), method="exact")


def test_a_hundred_cases_and_their_exact_draws():
    kernel = bgp.kernels.Gaussian(1.0, 4.0)
    toy = bgp.datasets.make_toy(kernel, n=100, random_seed=4)
    problem = bgp.Problem(kernel.gram(toy.X), 2 * toy.y - 1, bgp.Probit())
    solution = METHODS["exact"].solve(problem)
    assert solution.evidence.standard_error < 1e-3
    tap = METHODS["tap"].solve(problem)
    assert 0.05 < solution.evidence.value - tap.evidence.value < 0.3  # TAP's is below the truth
    f, log_prior = METHODS["exact"].traits.known_posterior(problem).draw(4000, np.random.default_rng(0))
    mean_error = f.std(axis=0) / np.sqrt(4000)
    assert np.max(np.abs(f.mean(axis=0) - problem.gram @ solution.alpha) / mean_error) < 4.5
    covariance = problem.gram - solution.correction.quadratic(problem.gram)
    np.testing.assert_allclose(f.var(axis=0) / np.diag(covariance), 1.0, atol=5 * np.sqrt(2 / 4000))
    assert f.shape == (4000, 100)
    assert np.all(np.isfinite(log_prior))


@pytest.mark.parametrize("flip", [0.0, 0.2])
@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_predictions_are_ratios_of_evidences(noise, flip):
    kernel = bgp.kernels.Gaussian(1.0, 2.0) + bgp.kernels.White(0.01)
    X, t = np.array([[0.0], [0.7], [1.5], [2.0]]), np.array([1.0, -1.0, 1.0, 1.0])
    likelihood, X_new = bgp.Probit(noise, flip), np.array([[0.3], [1.1], [5.0]])
    problem = bgp.Problem(kernel.gram(X), t, likelihood)
    solution = METHODS["exact"].solve(problem)
    p = bgp.Posterior(kernel, X, problem, solution).predict_proba(X_new)
    for x, value in zip(X_new, p, strict=True):
        both = bgp.solve(kernel.gram(np.vstack([X, x])), np.append(t, 1.0), likelihood, method="exact")
        expected = np.exp(both.evidence.value - solution.evidence.value)
        np.testing.assert_allclose(value, expected, atol=5e-4)  # of 2^14 points
    gaussian = likelihood.predict_proba(*bgp.Posterior(kernel, X, problem, solution).latent(X_new))
    if flip == 0.0:  # what the Gaussian of the same moments would say is something else
        assert np.max(np.abs(gaussian - p)) > 1.5e-3


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_a_posterior_draws_exactly_at_old_and_new_cases(noise):
    kernel = bgp.kernels.Gaussian(1.0, 2.0) + bgp.kernels.White(0.01)
    X, t = np.array([[0.0], [0.7], [1.5], [2.0]]), np.array([1.0, -1.0, 1.0, 1.0])
    problem = bgp.Problem(kernel.gram(X), t, bgp.Probit(noise))
    posterior = bgp.Posterior(kernel, X, problem, METHODS["exact"].solve(problem))
    X_new = np.array([[0.3], [1.1]])
    rng = np.random.default_rng(0)
    joint = rng.standard_normal((400_000, 6)) @ np.linalg.cholesky(kernel.gram(np.vstack([X, X_new]))).T
    joint = joint[np.all(problem.likelihood.sample(joint[:, :4], rng) == t, axis=1)]
    drawn = posterior.draw(10_000, np.random.default_rng(1))
    new = posterior.draw_new(X_new, 10_000, np.random.default_rng(2))
    pvalues = [kstest(drawn.f[:, k], joint[:, k]).pvalue for k in range(4)]
    pvalues += [kstest(new[:, k], joint[:, 4 + k]).pvalue for k in range(2)]
    pvalues += [kstest(drawn.f[:, 0] - drawn.f[:, 1], joint[:, 0] - joint[:, 1]).pvalue]
    pvalues += [kstest(new[:, 0] - new[:, 1], joint[:, 4] - joint[:, 5]).pvalue]
    assert min(pvalues) > 1e-3
    np.testing.assert_allclose(drawn.log_p - drawn.log_q, posterior.log_evidence, rtol=1e-12)
    # the Gaussian with the same moments is told from the posterior
    mean, variance = posterior.at_training
    normal = mean + np.sqrt(variance) * np.random.default_rng(3).standard_normal((10_000, 4))
    assert min(kstest(normal[:, k], joint[:, k]).pvalue for k in range(4)) < 1e-6
    density = np.exp(problem.likelihood.log_prob(t, joint[:, :4]).value)
    error = density.std(axis=0) / np.sqrt(len(joint)) + 5e-4
    assert np.all(np.abs(np.exp(posterior.log_density_at_training) - density.mean(axis=0)) < 4 * error)


def test_it_says_when_it_cannot_be_exact():
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 9.0), n=40, random_seed=0)
    gram = bgp.kernels.Gaussian(1.0, 9.0).gram(toy.X)
    few = Exact(log2_points=8, most_scrambles=12)
    for likelihood in (bgp.Probit(0.1), bgp.Probit(0.1, flip=0.1)):
        problem = bgp.Problem(gram, 2 * toy.y - 1, likelihood)
        with pytest.raises(bgp.ConvergenceError, match=r"standard error of the log evidence is .* Use method='tap'"):
            few.solve(problem)
        honest = few.solve(problem, bgp.Control(throw=False))
        assert honest.info.status is not bgp.Status.CONVERGED
        assert honest.evidence.standard_error > 1e-3
    enough = METHODS["exact"].solve(bgp.Problem(gram, 2 * toy.y - 1, bgp.Probit(0.1)))
    assert enough.info.status is bgp.Status.CONVERGED


def test_draws_are_refused_for_what_is_not_seen_through_signs():
    problem = bgp.Problem([[1.0]], [0.3], Gaussian(0.3))
    with pytest.raises(bgp.UndefinedQuantityError, match="only a probit is seen through signs, got Gaussian"):
        METHODS["exact"].cloud(problem)
