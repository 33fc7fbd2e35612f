from __future__ import annotations

import numpy as np
import pytensor
import pytest
from scipy.special import ndtr
from scipy.stats import multivariate_normal

import bayesgp_mf as bgp
from bayesgp_mf.pymc.graph import INTERPRETED
from validation.multinomial.compare import compare
from validation.multinomial.density import probabilities
from validation.multinomial.exact import comparisons, log_evidence, predicted
from validation.multinomial.gibbs import sampled
from validation.multinomial.record import probit_model
from validation.multinomial.recorded import path_of
from validation.multinomial.settings import SETTINGS, Setting, wine
from validation.sampling.recorded_classes import read

LARGEST_ERROR = 0.003
"""Of a recorded probability: ten standard errors are about what is asked for."""


@pytest.fixture(scope="module", params=SETTINGS)
def named(request):
    return SETTINGS[request.param](), read(path_of(request.param))


def tiny() -> Setting:
    """Return four cases of three classes, of which three are observed."""
    X = np.random.default_rng(0).standard_normal((4, 2))
    return Setting(bgp.kernels.Gaussian(1.2, 5.0), X, np.array([0, 1, 2, 0]), 3, ("a", "b", "c"))


def test_probabilities_of_two_classes_are_the_normal_distribution_function():
    f = np.array([[0.0, 0.0], [3.0, -1.0], [-6.0, 4.0]])
    np.testing.assert_allclose(probabilities(f)[:, 0], ndtr((f[:, 0] - f[:, 1]) / np.sqrt(2.0)), atol=1e-12)


def test_probabilities_of_six_classes_sum_to_one_and_are_the_share_of_wins():
    f = 3.0 * np.random.default_rng(1).standard_normal((4, 6))
    p = probabilities(f)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-9)
    noisy = f + np.random.default_rng(2).standard_normal((100_000, 4, 6))
    wins = np.mean(noisy.argmax(axis=-1)[..., None] == np.arange(6), axis=0)
    np.testing.assert_allclose(p, wins, atol=0.008)  # five standard errors of a half


def test_evidence_is_the_probability_of_an_orthant():
    setting = tiny()
    gram = np.stack([setting.gram[:2, :2]] * 3)
    covariance = comparisons(gram, setting.codes[:2])
    by_scipy = multivariate_normal.cdf(np.zeros(4), cov=covariance, maxpts=10**6, abseps=1e-7)
    assert log_evidence(gram, setting.codes[:2]).value == pytest.approx(np.log(by_scipy), abs=1e-4)
    # one label of three, a priori
    assert log_evidence(gram[:, :1, :1], setting.codes[:1]).value == pytest.approx(np.log(1.0 / 3.0), abs=1e-4)


def test_gibbs_and_the_orthants_agree_on_a_tiny_problem():
    setting = tiny()
    exact, missing = predicted(np.stack([setting.gram] * 3), setting.codes[:3])
    assert abs(missing) < 1e-3
    mean, error = sampled(setting, chains=200, tune=50, draws=400, seed=1)
    assert error[3].max() < 0.005
    np.testing.assert_array_less(np.abs(mean[3] - exact), 4.0 * error[3] + 1e-3)
    # a control: other labels are another posterior
    other, _ = predicted(np.stack([setting.gram] * 3), np.array([1, 0, 2]))
    assert np.max(np.abs(mean[3] - other) / error[3]) > 10.0


def test_the_model_of_nuts_has_the_probabilities_of_the_labels():
    setting, rng = tiny(), np.random.default_rng(3)
    model = probit_model(setting)
    z, u = 0.3 * rng.standard_normal(model["z"].shape.eval()), rng.standard_normal((5000, 3))
    f = pytensor.function([model["z"]], model["f"], mode=INTERPRETED)(z)
    log_likelihood = pytensor.function([model["z"], model["u"]], model["labels"], mode=INTERPRETED)
    values = probabilities(f)[np.arange(3), setting.codes[:3]]
    # an average over the noise, which is drawn from its prior here
    drawn = np.exp([log_likelihood(z, each) for each in u])
    assert drawn.mean() == pytest.approx(np.prod(values), abs=5.0 * drawn.std() / np.sqrt(drawn.size))


def test_records_are_converged_runs_of_these_settings(named):
    setting, recorded = named
    assert recorded.probabilities.mean.shape == (setting.codes.size, len(setting.class_names))
    assert recorded.observed == setting.observed
    assert recorded.probabilities.mean_error.max() < LARGEST_ERROR
    assert recorded.latent.r_hat.max() < 1.01
    assert recorded.latent.ess_bulk.min() > 1000
    assert recorded.divergences == 0
    likely = recorded.probabilities.mean.argmax(axis=1)
    assert np.mean(likely[: setting.observed] == setting.codes[: setting.observed]) > 0.8


def test_another_sampler_finds_the_record_of_wine():
    recorded = read(path_of("wine"))
    mean, error = sampled(wine(), chains=24, tune=1000, draws=1000, seed=2)
    assert error.max() < 0.02
    off = (mean - recorded.probabilities.mean) / np.hypot(error, recorded.probabilities.mean_error)
    # errors of the means of 24 chains have Student's t; 534 numbers
    assert np.abs(off).max() < 6.0
    assert np.sqrt(np.mean(off**2)) < 1.5


def test_tap_is_near_the_sample(named):
    setting, recorded = named
    tap = compare(setting, recorded)
    assert tap.tilted.max() < 0.02  # 0.011, of glass
    assert tap.observed.max() < 0.02  # 0.007
    assert tap.predicted.max() < 0.03  # 0.011
    assert tap.gaussian.max() > 0.02  # the Gaussian of an observed case is less sharp than its posterior


def test_other_labels_are_far_from_the_sample():
    """The control: the labels in another order are another posterior."""
    setting, recorded = wine(), read(path_of("wine"))
    turned = setting._replace(codes=(setting.codes + 1) % len(setting.class_names))
    assert compare(turned, recorded).predicted.max() > 0.3
