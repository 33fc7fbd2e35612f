"""The sampled reference against exact integration, on a problem with a singular Gram matrix."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.diagnostics.importance import mean_and_error, sd_and_error
from bayesgp_mf.matrices.factors import psd_root
from validation.sampling import latent

X = np.array([[-1.0], [-0.3], [-0.3], [0.4], [1.2]])  # the second input stands twice: K has rank 4
X_NEW = np.array([[0.0], [-0.3], [2.5]])
T = np.array([-1.0, -1.0, 1.0, 1.0, 1.0])
KERNEL = bgp.kernels.Gaussian(lengthscale=1.0, variance=2.0)
LIKELIHOOD = bgp.Probit(noise_variance=0.5)
ERRORS_ALLOWED = 4.5
"""Standard errors of a maximum over ten numbers that is exceeded once in 10^4 times."""


@pytest.fixture(scope="module")
def samples():
    drawn = latent.sample_latent(KERNEL.gram(X), T, LIKELIHOOD, draws=600, tune=500, chains=4, cores=1, random_seed=4)
    return latent.add_predictions(drawn, KERNEL, X, X_NEW, LIKELIHOOD)


def exact_moments(t):
    gram = KERNEL.gram(X)
    solution = bgp.solve(gram, t, LIKELIHOOD, method="exact")
    return gram @ solution.alpha, np.sqrt(np.diag(gram) - solution.correction.quadratic_diagonal(gram))


def exact_probabilities(t):
    """P(t* = 1 | t) as a ratio of evidences with and without the new case."""

    def log_evidence(inputs, labels):
        return bgp.solve(KERNEL.gram(inputs), labels, LIKELIHOOD, method="exact").evidence.value

    joint = np.array([log_evidence(np.vstack([X, x]), np.append(t, 1.0)) for x in X_NEW])
    return np.exp(joint - log_evidence(X, t))


def standard_errors_off(samples, t):
    """Largest distance of the samples' means, sds and probabilities from the exact ones, in standard errors."""
    f = get_group(samples, "posterior")["f"]
    mean, mean_error, _ = mean_and_error(f)
    sd, sd_error = sd_and_error(f)
    predictions = get_group(samples, "predictions")
    exact_mean, exact_sd = exact_moments(t)
    return (
        np.max(np.abs(mean - exact_mean) / mean_error),
        np.max(np.abs(sd - exact_sd) / sd_error),
        np.max(np.abs(predictions["p"].values - exact_probabilities(t)) / predictions["p_mcse"].values),
    )


def test_samples_agree_with_exact_integration(samples):
    assert max(standard_errors_off(samples, T)) < ERRORS_ALLOWED


def test_wrong_labels_do_not_agree(samples):
    wrong = T * np.array([1.0, 1.0, 1.0, 1.0, -1.0])
    mean_off, _, p_off = standard_errors_off(samples, wrong)
    assert mean_off > 5 * ERRORS_ALLOWED
    assert p_off > 5 * ERRORS_ALLOWED


def test_there_is_an_observed_variable_with_a_likelihood_of_each_case(samples):
    np.testing.assert_array_equal(get_group(samples, "observed_data")["y"].values, T > 0)
    f = get_group(samples, "posterior")["f"].values
    expected = LIKELIHOOD.log_prob(T, f).value
    # PyMC's log-cdf takes sqrt(2) in single precision
    np.testing.assert_allclose(get_group(samples, "log_likelihood")["y"].values, expected, rtol=2e-6, atol=1e-7)


def test_likelihood_is_stable_far_in_the_tail():
    model = latent.latent_model(np.array([[40.0]]), np.array([-1.0]), bgp.Probit())
    log_prob = model.compile_logp(vars=model.observed_RVs)
    assert float(log_prob({"z": np.array([1.0])})) == pytest.approx(-804.608442, rel=1e-7)


def test_conditional_is_the_gaussian_conditional_where_the_gram_matrix_is_regular():
    inputs = X[[0, 1, 3, 4]]
    gram, cross = KERNEL.gram(inputs), KERNEL.cross(inputs, X_NEW)
    root = psd_root(gram)
    weights, variance = latent.conditional(root, cross, KERNEL.diag(X_NEW))
    z = np.array([0.3, -1.0, 2.0, 0.5])
    np.testing.assert_allclose(z @ weights, np.linalg.solve(gram, root @ z) @ cross, rtol=1e-9)
    expected = KERNEL.diag(X_NEW) - np.sum(cross * np.linalg.solve(gram, cross), axis=0)
    np.testing.assert_allclose(variance, expected, atol=1e-10)


def test_conditional_at_a_training_input_is_its_own_latent_value():
    root = psd_root(KERNEL.gram(X))
    assert root.shape == (5, 4)
    weights, variance = latent.conditional(root, KERNEL.cross(X, X), KERNEL.diag(X))
    np.testing.assert_allclose(weights.T, root, atol=1e-7)
    np.testing.assert_allclose(variance, 0.0, atol=1e-7)


def test_conditional_refuses_what_is_no_covariance():
    root = psd_root(KERNEL.gram(X))
    with pytest.raises(ArithmeticError, match="below zero"):
        latent.conditional(root, 3.0 * KERNEL.cross(X, X), KERNEL.diag(X))
    with pytest.raises(ArithmeticError, match="rank 4"):
        latent.conditional(np.column_stack([root, root[:, 0]]), KERNEL.cross(X, X), KERNEL.diag(X))


@pytest.mark.parametrize("likelihood", [bgp.Step(), bgp.Probit(flip=0.1)])
def test_likelihoods_it_does_not_sample_are_refused(likelihood):
    with pytest.raises(ValueError, match="without flips"):
        latent.latent_model(np.eye(2), np.ones(2), likelihood)
