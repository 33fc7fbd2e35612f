"""TAP of the multinomial probit against exact integration: orthants of n (C - 1) dimensions, for up to six cases."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import bayesgp_mf as bgp
from validation.multinomial.exact import log_evidence, predicted

NAMES = ("a", "b", "c", "d")


def problem(n, n_classes, seed):
    """Return inputs of n + 1 cases, a kernel for all classes, and n labels."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % n_classes)
    return rng.standard_normal((n + 1, 2)), bgp.kernels.Gaussian(1.2, 5.0), codes


@pytest.mark.parametrize("variances", [(0.5, 2.0, 8.0), (4.0, 0.1, 0.1), (30.0, 20.0, 0.01)])
@pytest.mark.parametrize("label", [0, 1, 2])
def test_one_case_of_three_classes_is_one_integral(variances, label):
    """Independent classes are one integral over the utility of the label."""
    own, *others = np.sqrt(1.0 + np.roll(variances, -label))
    mpmath.mp.dps = 25

    def integrand(u):
        return mpmath.npdf(u) * mpmath.ncdf(u * own / others[0]) * mpmath.ncdf(u * own / others[1])

    exact = float(mpmath.log(mpmath.quad(integrand, [-12, -4, 0, 4, 12])))
    gram = np.array(variances)[:, None, None]
    solution = bgp.solve(gram, np.array([float(label)]), bgp.MultinomialProbit(NAMES[:3]), method="tap")
    assert solution.evidence.value == pytest.approx(exact, abs=1e-10)


@pytest.mark.parametrize(("n", "n_classes"), [(4, 3), (4, 4)])
def test_few_cases_without_noise_are_near_the_exact_integrals(n, n_classes):
    """Expectation propagation is off by 0.046 nats for three classes and 0.104 for four: edges are no Gaussians."""
    X, kernel, codes = problem(n, n_classes, seed=n)
    gram = kernel.gram(X)[:n, :n]
    exact = log_evidence(np.stack([gram - np.eye(n)] * n_classes), codes)  # it adds the noise that is not there
    likelihood = bgp.MultinomialProbit(NAMES[:n_classes], noise_variance=0)
    solution = bgp.solve(gram, codes.astype(float), likelihood, method="tap")
    assert solution.evidence.value == pytest.approx(exact.value, abs=0.05 if n_classes == 3 else 0.11)
    noisy = bgp.solve(gram, codes.astype(float), bgp.MultinomialProbit(NAMES[:n_classes]), method="tap")
    assert abs(noisy.evidence.value - exact.value) > 0.2


@pytest.mark.parametrize(("n", "n_classes"), [(2, 3), (4, 3), (6, 3), (4, 4), (6, 4)])
def test_few_cases_are_near_the_exact_integrals(n, n_classes):
    """Expectation propagation is off by 0.018 nats for three classes, 0.039 for four; probabilities by 0.003."""
    X, kernel, codes = problem(n, n_classes, seed=n)
    gram = np.stack([kernel.gram(X)] * n_classes)
    exact = log_evidence(gram[:, :n, :n], codes)
    assert exact.standard_error < 1e-3
    likelihood = bgp.MultinomialProbit(NAMES[:n_classes])
    solution = bgp.solve(gram[0, :n, :n], codes.astype(float), likelihood, method="tap")
    assert solution.evidence.value == pytest.approx(exact.value, abs=0.02 if n_classes == 3 else 0.045)
    p, missing = predicted(gram, codes)
    assert abs(missing) < 2e-3
    idata = bgp.fit(X[:n], np.array(NAMES)[codes], kernel, likelihood, method="tap", draws=1, chains=1, random_seed=1)
    found = bgp.posterior(idata).predict_proba(X[n:])[0]
    np.testing.assert_allclose(found, p, atol=0.004)
    # a control: without the labels all classes are as likely
    assert np.abs(found - 1.0 / n_classes).max() > 0.02
