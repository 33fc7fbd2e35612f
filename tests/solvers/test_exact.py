"""The exact oracle against closed forms and rejection sampling."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS


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
    np.testing.assert_allclose(loo.log_density[2], both.evidence.value - without_last.evidence.value)
    np.testing.assert_allclose(loo.mean[2], gram[2, :2] @ without_last.alpha)


def test_nearly_singular_gram_matrices_do_not_overflow():
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=8, random_seed=1)
    gram = bgp.kernels.Gaussian(1.0, 4.0).gram(toy.X)
    for likelihood in (bgp.Step(), bgp.Step(0.1)):
        solution = bgp.solve(gram, 2 * toy.y - 1, likelihood, method="exact", control=bgp.Control(throw=False))
        assert np.all(np.isfinite(solution.alpha))
        assert -8 * np.log(2) * 4 < solution.evidence.value < 0
    with pytest.raises(bgp.NotPositiveDefiniteError, match=r"needs an invertible Gram matrix.*kernels\.White"):
        bgp.solve(np.ones((2, 2)), [1, 1], bgp.Step(), method="exact")


def test_it_says_when_it_cannot_be_exact():
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 9.0), n=60, random_seed=0)
    gram = bgp.kernels.Gaussian(1.0, 9.0).gram(toy.X)
    with pytest.raises(bgp.ConvergenceError, match=r"standard error of the log evidence is .* Use method='tap'"):
        bgp.solve(gram, 2 * toy.y - 1, bgp.Probit(0.1), method="exact")
    honest = bgp.solve(gram, 2 * toy.y - 1, bgp.Probit(0.1), method="exact", control=bgp.Control(throw=False))
    assert honest.info.status is not bgp.Status.CONVERGED
    assert honest.evidence.standard_error > 1e-3
