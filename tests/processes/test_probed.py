"""How far probabilities are off as measured: what the full correction says, and exact where that is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian, Logit
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.processes import probed
from bayesgp_mf.processes.single import Posterior

KERNEL = bgp.kernels.Gaussian(1.0, 9.0)
RNG = np.random.default_rng(5)
X = RNG.standard_normal((30, 2))
T = np.where(X[:, 0] + 0.4 * RNG.standard_normal(30) > 0, 1.0, -1.0)


def posterior_of(X, t, likelihood, kernel=KERNEL, method="tap"):
    problem = bgp.Problem(kernel.gram(X), t, likelihood)
    return Posterior(kernel, X, problem, bgp.solve(problem.gram, t, likelihood, method=method))


def whole(posterior):
    """The largest change by the full correction, at every training input."""
    return np.max(np.abs(posterior.predict_proba(posterior.X, corrected=True) - posterior.predict_proba(posterior.X)))


@pytest.mark.parametrize(
    ("likelihood", "kernel"),
    [
        (bgp.Probit(0.3), KERNEL),
        (Logit(), KERNEL),
        (bgp.Step(), KERNEL + bgp.kernels.White(0.5)),  # a new case there has other noise
    ],
    ids=str,
)
def test_it_is_what_the_full_correction_says(likelihood, kernel):
    posterior = posterior_of(X, T, likelihood, kernel)
    assert posterior.probability_shift == pytest.approx(whole(posterior), rel=0.05)
    assert posterior.probability_shift > 0.002


def test_under_a_step_the_label_that_was_seen_is_certain():
    far = 50.0 * np.arange(3)[:, None]
    alone = posterior_of(far, np.array([1.0, -1.0, 1.0]), bgp.Step())
    assert alone.probability_shift == pytest.approx(norm.sf(np.sqrt(2.0 / (np.pi - 2.0))), abs=1e-9)
    t = np.where(X[:, 0] > 0, 1.0, -1.0)
    together = posterior_of(X, t, bgp.Step())
    p = together.predict_proba(X)
    assert together.probability_shift == pytest.approx(np.max(np.where(t > 0, 1.0 - p, p)), abs=1e-9)


def test_the_order_of_cases_and_of_classes_is_nothing():
    expected = posterior_of(X, T, bgp.Probit(0.3)).probability_shift
    assert posterior_of(X[::-1], T[::-1], bgp.Probit(0.3)).probability_shift == pytest.approx(expected, abs=1e-6)
    assert posterior_of(X, -T, bgp.Probit(0.3)).probability_shift == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("certain", [probed.CERTAIN, 1.0], ids=["ratios", "one case alone"])
def test_a_prior_mean_is_in_it(certain, monkeypatch):
    monkeypatch.setattr(probed, "CERTAIN", certain)
    likelihood = by_case(bgp.Probit(0.3), prior_mean=np.full(30, 1.5))
    problem = bgp.Problem(KERNEL.gram(X), T, likelihood)
    solution = bgp.solve(problem.gram, T, likelihood)
    posterior = Posterior(KERNEL, X, problem, solution, mean=lambda X: np.full(len(X), 1.5))
    assert posterior.probability_shift == pytest.approx(whole(posterior), rel=0.05 if certain < 1.0 else 0.3)
    assert abs(posterior.probability_shift - posterior_of(X, T, bgp.Probit(0.3)).probability_shift) > 1e-4


def test_an_offset_is_in_it_and_weights_are_in_the_posterior_alone():
    offset, weights = np.full(30, 1.5), np.full(30, 2.0)
    as_mean = by_case(bgp.Probit(0.3), prior_mean=offset)
    problem = bgp.Problem(KERNEL.gram(X), T, as_mean)
    solution = bgp.solve(problem.gram, T, as_mean)
    expected = Posterior(KERNEL, X, problem, solution, mean=lambda X: np.full(len(X), 1.5)).probability_shift
    assert posterior_of(X, T, by_case(bgp.Probit(0.3), offset)).probability_shift == pytest.approx(expected, abs=1e-9)
    assert posterior_of(X, T, by_case(bgp.Probit(0.3), None, np.ones(30))).probability_shift == pytest.approx(
        posterior_of(X, T, bgp.Probit(0.3)).probability_shift, abs=1e-9
    )
    weighted = posterior_of(X, T, by_case(bgp.Probit(0.3), None, weights))
    assert weighted.probability_shift == pytest.approx(whole(weighted), rel=0.1)


def test_where_it_is_not_measured(monkeypatch):
    for other in (
        posterior_of(X, T, bgp.Probit(0.3), method="laplace"),
        posterior_of(X, T, bgp.Probit(0.3, 0.05)),
        posterior_of(X, X[:, 0], bgp.likelihoods.StudentT(0.3, 4.0)),
    ):
        assert other.probability_shift is None
    assert posterior_of(X, X[:, 0], Gaussian(0.1)).probability_shift is None  # no probabilities
    monkeypatch.setattr(probed, "MOST_CASES", 29)
    assert posterior_of(X, T, bgp.Probit(0.3)).probability_shift is None


@pytest.mark.parametrize("variance", [1.0, 1e6])
def test_of_counts_that_say_much_it_falls_with_their_root_whatever_the_prior(variance):
    """Skewness of a log rate does: what is left of a wide variance must keep its digits."""
    X, kernel = np.linspace(0.0, 5.0, 6)[:, None], bgp.kernels.Gaussian(0.3, variance) + bgp.kernels.Bias(1e3)
    few, many = (posterior_of(X, np.full(6, count), bgp.Poisson(), kernel).probability_shift for count in (1e6, 1e10))
    assert few / many == pytest.approx(100.0, rel=0.02)
