"""Huge counts, weights, offsets and targets: solved, or refused at once in words that name the argument."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.likelihoods import Binomial, Gaussian, NegativeBinomial, Poisson, StudentT
from bayesgp_mf.likelihoods.by_case import Powered

X = np.linspace(-2.0, 2.0, 8)[:, None]
F = np.sin(X[:, 0])
LABELS = F > 0
KERNEL = bgp.kernels.Gaussian()
EACH = np.ones(8)


def fitted(y, likelihood, **options):
    return get_group(bgp.fit(X, y, KERNEL, likelihood, draws=5, random_seed=1, progress=False, **options), "fit")


@pytest.mark.parametrize(
    ("y", "likelihood", "options", "what"),
    [
        (LABELS, bgp.Step(flip=0.1), {"weights": 1e300 * EACH}, "weights must be at most 1e.12, got 1e.300"),
        (LABELS, bgp.Logit(), {"weights": 1e7 * EACH}, "weights must be at most 1e.06 under Logit"),
        (F, Gaussian(1.0), {"weights": 1e13 * EACH}, "weights must be at most 1e.12, got 1e.13 at index 0"),
        (1e18 * EACH, Poisson(), {}, "y must hold counts of at most 1e.12 for Poisson"),
        (1e16 * EACH, NegativeBinomial(1.0), {}, "y must hold counts of at most 1e.15 for NegativeBinomial"),
        (EACH, Poisson(), {"offset": -701.0 * EACH}, "offset must be between -700 and 700 for Poisson"),
        (F, StudentT(1.0, 1e-3), {"offset": 1e300 * EACH}, "offset must be between -1e.09"),
        (F * 1e60, StudentT(1.0, 4.0), {}, "y must hold numbers of at most 1e.50"),
    ],
)
def test_what_is_beyond_all_digits_is_refused_at_the_door(y, likelihood, options, what):
    for method in ("tap", "laplace"):
        with pytest.raises(ValueError, match=what):
            fitted(y, likelihood, method=method, **options)


def test_so_are_more_trials_than_can_be_drawn():
    with pytest.raises(ValueError, match=r"trials must be at most 1e.08, got 1e.19"):
        Binomial(1e19)
    idata = bgp.fit(X, EACH, KERNEL, Binomial(3), draws=5, random_seed=1)
    with pytest.raises(ValueError, match=r"trials must be at most 1e.08, got 1e.19"):
        bgp.predict(idata, [[0.3]], trials=[1e19])


@pytest.mark.parametrize("method", ["tap", "laplace"])
def test_up_to_there_a_count_is_a_measurement_of_its_log_rate(method):
    """By both methods what it is of many trials in the limit: Gaussian noise about the log, of variance 1/count."""
    counts = np.floor(1e9 * np.exp(F))
    options = {"offset": np.full(8, np.log(1e9)), "method": method}
    found, limit = (
        fitted(y, likelihood, **given)
        for y, likelihood, given in (
            (counts, Poisson(), options),
            (np.log(counts) - np.log(1e9), Gaussian(1.0 / counts), {"method": method}),
        )
    )
    np.testing.assert_allclose(found["latent_mean"], limit["latent_mean"], atol=1e-7)
    np.testing.assert_allclose(found["latent_sd"], limit["latent_sd"], rtol=1e-4)
    constant = 0.5 * np.sum(np.log(1.0 / counts))  # a density of logs is one of counts times the count
    assert float(found["log_evidence"]) == pytest.approx(float(limit["log_evidence"]) + constant * 2.0, abs=1e-3)


def test_a_large_count_has_its_digits():
    t = np.array([1e9, 1e12])
    f = np.log(t) + 3.0 / np.sqrt(t)
    value, d1, _ = Poisson().log_prob(t, f)
    np.testing.assert_allclose(value, -0.5 * np.log(2.0 * np.pi * t) - 4.5, atol=1e-3)
    np.testing.assert_allclose(d1, -3.0 * np.sqrt(t), rtol=1e-3)


def test_the_heaviest_tails_overflow_nowhere():
    fit = fitted(np.where(LABELS, 5e11, 0.0), StudentT(1.0, 1e-3))
    for name in ("latent_sd", "loo_i", "log_evidence", "log_evidence_correction", "log_evidence_remaining"):
        assert np.isfinite(fit[name]).all()


def test_a_large_weight_is_a_power():
    """A weight that is integrated is that of the likelihood which has the power in closed form."""
    t, mean, variance = F, 0.3 * F, EACH
    weighed = Powered(StudentT(0.5, 4.0), 1e5 * EACH)
    other, constant, _ = StudentT(0.5, 4.0).powers(1e5 * EACH)
    found, exact = weighed.log_partition(t, mean, variance), other.log_partition(t, mean, variance)
    np.testing.assert_allclose(found.value, exact.value + constant, rtol=1e-9)
    np.testing.assert_allclose(
        weighed.tilted_share(t, mean, variance), other.tilted_share(t, mean, variance), rtol=1e-6
    )


@pytest.mark.parametrize("scale", [1e-200, 1e300])
def test_a_scale_whose_square_is_no_number_is_refused(scale):
    with pytest.raises(ValueError, match=r"scale must be between 1e-150 and 1e.150"):
        StudentT(scale)
