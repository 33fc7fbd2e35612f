"""What a stream must agree with: fits of all cases at once, exact regression, the papers' online learning."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels, online
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.streams import Stream

RNG = np.random.default_rng(5)
X, X_NEW = RNG.normal(size=(90, 3)), RNG.normal(size=(40, 3))
F = np.sin(2.0 * X[:, 0]) + X[:, 1]
LABELS, REAL = np.where(F + 0.5 * RNG.normal(size=90) > 0, "yes", "no"), F + 0.3 * RNG.normal(size=90)
KERNEL = kernels.Matern32([1.0, 2.0, 4.0], 2.0) + kernels.Bias()
REGRESSION = Gaussian(0.09)


def targets(likelihood):
    return REAL if likelihood.targets == "real" else LABELS


def exact(kernel, X, y, noise=0.09):
    """Mean and variance of regression at new cases, by the textbook."""
    cross = kernel.cross(X, X_NEW)
    solved = np.linalg.solve(kernel.gram(X) + np.diag(np.broadcast_to(noise, y.shape)), np.column_stack([y, cross]))
    return cross.T @ solved[:, 0], kernel.diag(X_NEW) - np.einsum("ij,ij->j", cross, solved[:, 1:])


@pytest.mark.parametrize("kernel", [KERNEL, KERNEL + kernels.White(0.2), kernels.Linear(1.0)], ids=repr)
@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Logit(), bgp.Probit(flip=0.1), REGRESSION], ids=repr)
def test_one_batch_within_the_budget_is_a_fit_on_all_inputs(kernel, likelihood):
    stream = Stream(kernel, likelihood, budget=90, random_seed=1).update(X, targets(likelihood))
    idata = bgp.fit(X, targets(likelihood), kernel, likelihood, inducing=X, draws=1, chains=1, random_seed=1)
    for found, expected in zip(stream.latent(X_NEW), bgp.posterior(idata).latent(X_NEW), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-8)


@pytest.mark.parametrize("batch", [1, 7, 90])
def test_regression_without_a_budget_is_exact_whatever_the_batches(batch):
    stream = Stream(KERNEL, REGRESSION, budget=None, batch=batch, random_seed=1).update(X, REAL)
    for found, expected in zip(stream.latent(X_NEW), exact(KERNEL, X, REAL), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_densities_given_the_past_multiply_up_to_the_evidence():
    stream = Stream(KERNEL, REGRESSION, budget=None, batch=1, random_seed=1).update(X, REAL)
    evidence = bgp.fit(X, REAL, KERNEL, REGRESSION, method="exact", draws=1, chains=1)["fit"]["log_evidence"]
    assert stream.log_score.total == pytest.approx(float(evidence), abs=1e-8)


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Logit(), REGRESSION], ids=repr)
def test_one_by_one_without_a_budget_is_the_papers_online_learning(likelihood):
    y = REAL if likelihood.targets == "real" else np.where(LABELS == "yes", 1.0, -1.0)
    stream, state = Stream(KERNEL, likelihood, budget=None, batch=1), online.init()
    stream.update(X[:40], y[:40])
    for x, t in zip(X[:40], y[:40], strict=True):
        state = online.update(state, KERNEL, x, t, likelihood)
    cross = KERNEL.cross(X_NEW, state.X)
    mean, variance = stream.latent(X_NEW)
    np.testing.assert_allclose(mean, cross @ state.alpha, atol=1e-9)
    np.testing.assert_allclose(
        variance, KERNEL.diag(X_NEW) + np.einsum("ij,jk,ik->i", cross, state.C, cross), atol=1e-9
    )
    assert stream.log_score.total == pytest.approx(state.log_evidence, abs=1e-9)


def test_what_was_learned_is_carried_over_to_another_kernel():
    """Exactly so in regression: what was measured does not depend on the prior."""
    stream = Stream(KERNEL, REGRESSION, budget=None, random_seed=1).update(X, REAL).retune(bgp.hyper.Evidence(starts=1))
    assert stream.kernel != KERNEL
    for found, expected in zip(stream.latent(X_NEW), exact(stream.kernel, X, REAL), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-7)


def test_what_is_half_forgotten_was_measured_with_twice_the_noise():
    kernel = kernels.Matern32([1.0, 2.0, 4.0], 2.0)
    stream = Stream(kernel, REGRESSION, budget=None, forget=50.0, random_seed=1).update(X, REAL)
    stream.update(RNG.normal(size=(48, 3)) + 1e3, np.zeros(48))  # cases far away say nothing here but pass the time
    ends = np.minimum(6 * (np.arange(90) // 6 + 1), 90)  # parts have at most an eighth of the half-life
    noise = 0.09 * 2.0 ** ((90 - ends + 48) / 50.0)
    for found, expected in zip(stream.latent(X_NEW), exact(kernel, X, REAL, noise), strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-9)


def test_batches_of_a_budget_are_near_all_at_once_in_any_order():
    toy = np.random.default_rng(8)
    inputs = toy.normal(size=(3000, 4))
    labels = np.where(np.sin(2.0 * inputs[:, 0]) + inputs[:, 1] + 0.5 * toy.normal(size=3000) > 0, 1, 0)
    kernel, test = kernels.Matern32(1.5, 4.0), slice(2000, 3000)
    idata = bgp.fit(inputs[:2000], labels[:2000], kernel, inducing=80, draws=1, chains=1, random_seed=1)

    def score(p):
        return float(np.mean(np.log(np.where(labels[test] == 1, p, 1.0 - p))))

    at_once, found = score(bgp.posterior(idata).predict_proba(inputs[test])), []
    for seed in range(4):
        stream = Stream(kernel, budget=80, batch=200, random_seed=seed)
        for k in np.random.default_rng(seed).permutation(10):
            stream.update(inputs[200 * k : 200 * (k + 1)], labels[200 * k : 200 * (k + 1)])
        found.append(score(stream.predict_proba(inputs[test])))
    assert len(stream.basis) == 80
    # at once with other inducing cases: -0.3235 to -0.3330
    assert min(found) > at_once - 0.01
    assert np.ptp(found) < 0.015
