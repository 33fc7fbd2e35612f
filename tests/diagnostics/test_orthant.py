"""Probabilities of orthants and exact draws, against closed forms, scipy and rejection sampling."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import log_ndtr, logsumexp
from scipy.stats import kstest, multivariate_normal

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import log_orthant_probability, sample_orthant
from bayesgp_mf.diagnostics import orthant as orthant_module
from bayesgp_mf.solvers.exact import Exact
from bayesgp_mf.solvers.orthant import elimination_order, tilted
from bayesgp_mf.solvers.second_order import second_order
from tests.conftest import toy_cases, toy_gram
from tests.diagnostics.cases import toy


def by_rejection(gram, t, draws, rng):
    f = rng.standard_normal((draws, t.size)) @ np.linalg.cholesky(gram).T
    return f[np.all(f * t > 0, axis=1)]


@pytest.mark.parametrize("n", [2, 20, 100])
def test_equal_signs_of_variables_with_correlation_one_half(n):
    gram = 0.5 * np.eye(n) + 0.5  # f_i = e_i + e_0: all positive if -e_0 is the smallest of n + 1
    value, error = log_orthant_probability(gram, -np.ones(n))
    assert 0 < error < 1e-3
    assert abs(value + np.log(n + 1)) < 4 * error


def test_a_tilt_that_is_found_only_from_very_near():
    """The noise under which the tilt is found must fall far below the least variance before none at all will do."""
    kernel = bgp.kernels.Gaussian(1.0, 10.0) + bgp.kernels.White(0.01)
    drawn = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), bgp.Probit(1.0), n=60, random_seed=1)
    gram, t = kernel.gram(drawn.X), 2.0 * drawn.y - 1.0
    few = Exact(log2_points=10)
    exact = bgp.solve(gram, t, bgp.Step(), method=few, control=bgp.Control(throw=False)).evidence
    problem = bgp.Problem(gram, t, bgp.Step())
    solution = bgp.solve(gram, t, bgp.Step())
    known = second_order(problem, solution)
    assert exact.standard_error < 0.01
    assert exact.value == pytest.approx(solution.evidence.value + known.correction, abs=1.5 * known.remaining)


def test_independent_and_rescaled_variables():
    gram, t = toy(12)
    value, error = log_orthant_probability(gram, t)
    scale = np.geomspace(1e-3, 1e3, 12)
    np.testing.assert_allclose(log_orthant_probability(scale[:, None] * gram * scale, t).value, value, rtol=1e-9)
    np.testing.assert_allclose(log_orthant_probability(gram, -t).value, value, rtol=1e-12)
    order = np.random.default_rng(0).permutation(12)
    moved = log_orthant_probability(gram[np.ix_(order, order)], t[order])
    assert abs(moved.value - value) < 4 * np.hypot(moved.standard_error, error)
    np.testing.assert_allclose(log_orthant_probability(np.diag(scale), t).value, -12 * np.log(2), rtol=1e-12)


@pytest.mark.parametrize("n", [2, 5, 8])
@pytest.mark.parametrize("noise", [0.01, 1.0])
def test_probability_is_that_of_scipy(n, noise):
    gram, t = toy(n, noise=noise)
    t[0] *= -1  # an unlikely label
    signed = t[:, None] * gram * t
    expected = multivariate_normal(cov=signed, abseps=1e-9, releps=1e-9, maxpts=1_000_000, seed=0).cdf(np.zeros(n))
    value, error = log_orthant_probability(gram, t)
    assert abs(np.exp(value) - expected) < 1e-6
    assert error < 1e-3


@pytest.mark.parametrize("case", [c for c in toy_cases() if "log_evidence_exact" in c], ids=lambda case: case["name"])
def test_probability_is_that_of_the_reference(case):
    gram = toy_gram(case) + case["noise_variance"] * np.eye(case["t"].size)
    value, error = log_orthant_probability(gram, case["t"])
    assert abs(value - case["log_evidence_exact"]) <= 4 * np.hypot(error, case["log_evidence_exact_spread"]) + 1e-12


@pytest.mark.parametrize(("n", "variance", "noise"), [(100, 4.0, 1.0), (40, 9.0, 0.1)])
def test_up_to_a_hundred_variables(n, variance, noise):
    gram, t = toy(n, variance, noise)
    value, error = log_orthant_probability(gram, t)
    assert 0 < error < 1e-3
    again = log_orthant_probability(gram, t, random_seed=1)
    assert again.value != value
    assert abs(again.value - value) < 4 * np.hypot(error, again.standard_error)
    # an independent way: the chain rule, with the conditional of the last label from exact draws of the others
    draws = sample_orthant(gram[:-1, :-1], t[:-1], draws=2000, random_seed=2)
    weights = np.linalg.solve(gram[:-1, :-1], gram[:-1, -1])
    sd = np.sqrt(gram[-1, -1] - weights @ gram[:-1, -1])
    share = np.exp(log_ndtr(t[-1] * (draws @ weights) / sd))
    others = log_orthant_probability(gram[:-1, :-1], t[:-1])
    spread = np.hypot(np.hypot(error, others.standard_error), share.std() / share.mean() / np.sqrt(share.size))
    assert abs(value - others.value - np.log(share.mean())) < 4 * spread


def test_the_standard_error_is_the_spread_over_seeds():
    gram, t = toy(30, noise=0.01)
    orthant = tilted(gram, t)
    estimates = [orthant.estimate(8, 12, 12, 0.0, seed) for seed in range(40)]
    values = np.array([estimate.log_probability for estimate in estimates])
    errors = np.array([estimate.standard_error for estimate in estimates])
    ratio = values.std(ddof=1) / np.sqrt(np.mean(errors**2))
    assert 0.65 < ratio < 1.5  # chi-square with 39 degrees of freedom: 0.78 to 1.23 in 95% of cases


def test_the_tilt_is_at_the_saddle_point_and_bounds_the_weights():
    gram, t = toy(25, seed=3)
    orthant = tilted(gram, t)
    factor, diagonal = orthant.factor, np.diag(orthant.factor)
    np.testing.assert_allclose(
        factor @ factor.T, (t[:, None] * gram * t)[np.ix_(orthant.order, orthant.order)], atol=1e-12
    )

    def psi(z, mu):
        below = np.tril(factor, -1) @ z / diagonal
        return float(np.sum(log_ndtr(mu + below) - mu * z + 0.5 * mu**2))

    mu = orthant.tilt
    outcome = minimize(lambda z: -psi(z, mu), np.zeros(25), tol=1e-10)
    np.testing.assert_allclose(-outcome.fun, orthant.log_bound, atol=1e-7)  # the greatest weight there is
    for k in (0, 3, 20):  # which no other tilt makes smaller at that z, as for a saddle point
        for shift in (0.05, -0.05):
            assert psi(outcome.x, mu + shift * np.eye(25)[k]) > orthant.log_bound + 1e-5
    _, log_weight = orthant.propose(np.random.default_rng(0).random((25, 20_000)))
    assert orthant.log_bound - 1.0 < log_weight.max() <= orthant.log_bound + 1e-9
    plain = orthant.propose(np.full((25, 1), 0.5))
    assert np.all(factor @ plain[0] > 0)


def test_the_order_has_the_hardest_first():
    # two contradicting neighbours, and one far away that agrees with everything
    gram = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, -0.95], [0.0, -0.95, 1.0]])
    order = elimination_order(gram, np.array([1.0, 0.2, 0.2]))
    assert order.tolist()[0] in (0, 1)
    assert abs(int(np.flatnonzero(order == 1)[0]) - int(np.flatnonzero(order == 2)[0])) == 1


def pvalues(draws, reference):
    """Two-sample Kolmogorov-Smirnov over marginals and sums of neighbours."""
    columns = [*range(reference.shape[1])]
    each = [kstest(draws[:, k], reference[:, k]).pvalue for k in columns]
    pairs = [kstest(draws[:, k] + draws[:, k - 1], reference[:, k] + reference[:, k - 1]).pvalue for k in columns[1:]]
    return np.array(each + pairs)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_draws_are_those_of_rejection_sampling(n):
    gram, t = toy(n, noise=0.01)
    reference = by_rejection(gram, t, 200_000, np.random.default_rng(0))
    draws = sample_orthant(gram, t, draws=20_000, random_seed=1)
    assert draws.shape == (20_000, n)
    assert np.all(draws * t > 0)
    assert pvalues(draws, reference).min() > 1e-3


@pytest.mark.parametrize("seed", [4, 7])
def test_proposals_that_are_not_rejected_are_told_from_draws(seed):
    gram, t = toy(5, noise=0.01, seed=seed)
    t[2] *= -1  # so that the tilt matters
    reference = by_rejection(gram, t, 2_000_000, np.random.default_rng(0))
    orthant = tilted(gram, t)
    proposals = orthant.values(orthant.propose(1.0 - np.random.default_rng(1).random((5, 20_000)))[0])
    assert np.all(proposals * t > 0)
    assert pvalues(proposals, reference).min() < 1e-6
    assert pvalues(sample_orthant(gram, t, draws=20_000, random_seed=1), reference).min() > 1e-3


def test_draws_have_the_moments_of_the_weighted_points():
    gram, t = toy(40)
    solution = bgp.solve(gram, t, bgp.Step(), method="exact")
    draws = sample_orthant(gram, t, draws=5000, random_seed=0)
    error = draws.std(axis=0) / np.sqrt(5000)
    assert np.max(np.abs(draws.mean(axis=0) - gram @ solution.alpha) / error) < 4.5
    covariance = gram - solution.correction.quadratic(gram)
    scale = np.sqrt(np.outer(np.diag(covariance), np.diag(covariance)))
    assert np.max(np.abs(np.cov(draws.T) - covariance) / scale) < 5 * np.sqrt(2 / 5000)


def test_random_seeds():
    gram, t = toy(6)
    first, second, third = (sample_orthant(gram, t, draws=10, random_seed=seed) for seed in (0, 0, 1))
    np.testing.assert_array_equal(first, second)
    assert not np.array_equal(first, third)
    assert log_orthant_probability(gram, t) == log_orthant_probability(gram, t)


@pytest.mark.parametrize("ask", [log_orthant_probability, lambda gram, t: sample_orthant(gram, t, draws=1)])
def test_what_is_refused_and_how(ask):
    with pytest.raises(bgp.NotPositiveDefiniteError, match=r"singular.*gram \+ noise_variance \* np\.eye\(n\)"):
        ask(np.ones((2, 2)), [1, 1])
    with pytest.raises(bgp.InconsistentDataError, match="probability zero"):
        ask(np.ones((2, 2)), [1, -1])
    with pytest.raises(ValueError, match="t must hold labels -1 and"):
        ask(np.eye(2), [1, 0])
    with pytest.raises(ValueError, match="square matrix"):
        ask(np.ones((2, 3)), [1, 1])


def test_number_of_draws_is_checked():
    with pytest.raises(ValueError, match="draws must be a positive integer, got 0"):
        sample_orthant(np.eye(2), [1, 1], draws=0)


def test_too_many_rejections_are_an_error():
    gram, t = toy(8)
    orthant = tilted(gram, t)
    impossible = type(orthant)(t, orthant.order, orthant.factor, orthant.tilt, orthant.log_bound + 30.0, 0.0)
    with pytest.raises(bgp.ConvergenceError, match=r"only 0 of .* accepted.*sample_orthant_chains"):
        impossible.draw(1, np.random.default_rng(0))
    broken = type(orthant)(t, orthant.order, orthant.factor, orthant.tilt, orthant.log_bound - 1.0, 0.0)
    with pytest.raises(ArithmeticError, match="exceeds its bound"):
        broken.draw(1, np.random.default_rng(0))


def test_weights_with_flips_are_those_of_a_sum_over_all_signs():
    gram, t = toy(4)
    orthant = tilted(gram, t, flip=0.2)
    _, share = orthant.weighted(12, 12, 0)
    assert abs(share.sum() - 1) < 1e-12
    signs = np.array(np.meshgrid(*[[-1.0, 1.0]] * 4)).reshape(4, -1).T
    terms = [log_orthant_probability(gram, s).value + np.log(np.where(s == t, 0.8, 0.2)).sum() for s in signs]
    value = orthant.estimate(12, 12, 12, 0.0, 0)
    assert abs(value.log_probability - logsumexp(terms)) < 5 * value.standard_error + 1e-4


def test_an_error_that_is_too_large_is_an_error(monkeypatch):
    gram, t = toy(8)
    error = log_orthant_probability(gram, t).standard_error
    monkeypatch.setattr(orthant_module, "LARGEST_STANDARD_ERROR", 1.1 * error)
    log_orthant_probability(gram, t)
    monkeypatch.setattr(orthant_module, "LARGEST_STANDARD_ERROR", 0.9 * error)
    with pytest.raises(bgp.ConvergenceError, match=r"of these 8 signs has a standard error of .* not to be trusted"):
        log_orthant_probability(gram, t)


def test_the_tilt_is_found_for_labels_that_the_prior_all_but_forbids():
    rng = np.random.default_rng(0)
    gram = bgp.kernels.Gaussian(3.0).gram(rng.standard_normal((20, 2))) + 1e-5 * np.eye(20)
    t = np.where(rng.random(20) < 0.5, 1.0, -1.0)
    orthant = tilted(gram, t)
    assert orthant.log_bound < -20
    estimate = orthant.estimate(12, 12, 12, 0.0, 0)
    assert estimate.standard_error < 0.01
    assert estimate.log_probability < orthant.log_bound  # which is an upper bound
    natural = tilted(gram, t, expected=-t)  # another order, a worse one
    again = natural.estimate(14, 12, 12, 0.0, 1)
    assert again.log_probability < natural.log_bound
    spread = np.hypot(estimate.standard_error, again.standard_error)
    assert spread < 0.2
    assert abs(again.log_probability - estimate.log_probability) < 4 * spread
