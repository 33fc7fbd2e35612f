"""Curves along inputs: those of the posterior, and averages of it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.special import ndtri

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import partial_dependence, relevance
from bayesgp_mf.diagnostics.curves import DRAWS, SETTINGS, curve, some_settings, weighted_quantiles
from bayesgp_mf.diagnostics.fitted import expected_given, fitted
from bayesgp_mf.processes.process import Process

RNG = np.random.default_rng(5)
X = RNG.standard_normal((40, 3))
SLOPES = np.array([2.0, -1.0, 0.0])
LEVELS = (0.05, 0.5, 0.95)


@pytest.fixture(scope="module", name="line")
def a_linear_fit():
    y = X @ SLOPES
    return bgp.fit(X, y, bgp.kernels.Linear(), bgp.likelihoods.Gaussian(1e-4), draws=10, random_seed=1)


@pytest.fixture(scope="module", name="labels")
def a_fit_to_labels():
    return bgp.fit(X[:, :1], X[:, 0] + 0.3 * X[:, 1] > 0, bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)


def test_quantiles_of_f_are_those_of_its_gaussian(labels):
    found = curve(fitted(labels), 0, scale="latent", probabilities=LEVELS, points=6)
    mean, variance = bgp.posterior(labels).latent(found.x[:, None])
    np.testing.assert_allclose(found.mean, mean)
    np.testing.assert_allclose(found.quantiles, mean + np.sqrt(variance) * ndtri(LEVELS)[:, None])


@pytest.mark.parametrize("one", ["x1", 1, np.int64(1)])
def test_one_input_may_be_named_alone(one):
    table = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    idata = bgp.fit(table, X[:, 1] > 0, bgp.kernels.Gaussian(), draws=5, random_seed=1)
    (found,) = partial_dependence(idata, one, points=3)
    assert found.feature == "x1"
    with pytest.raises(ValueError, match=r"one of the inputs.*got 'x'"):  # and not a letter of the name
        partial_dependence(idata, "x")
    assert [ax.get_xlabel() for ax in bgp.plots.plot_partial_dependence(idata, features=one, points=3)] == ["x1"]


def test_probabilities_given_f_are_between_its_quantiles_and_average_to_p(labels):
    fine = (np.arange(400) + 0.5) / 400
    found = curve(fitted(labels), 0, scale="target", probabilities=fine, points=6)
    np.testing.assert_allclose(found.mean, bgp.posterior(labels).predict_proba(found.x[:, None]))
    np.testing.assert_allclose(found.quantiles.mean(axis=0), found.mean, atol=2e-3)  # E p(t|f) = p(t)


def test_a_mixture_of_one_process_has_its_quantiles(labels):
    alone = fitted(labels)
    twice = replace(alone, process=Process((*alone.process.parts, *alone.process.parts), np.array([0.3, 0.7])))
    one, two = (curve(each, 0, scale="latent", probabilities=LEVELS, points=6).quantiles for each in (alone, twice))
    at = curve(alone, 0, scale="latent", probabilities=(), points=6).x[:, None]
    sd = np.sqrt(alone.process.latent_at(at)[1])
    assert np.max(np.abs(one - two) / sd) < 0.1  # 64 points stand for the Gaussian


def test_partial_dependence_on_the_only_input_is_the_curve(labels):
    (averaged,) = partial_dependence(labels, probabilities=LEVELS, points=6)
    alone = curve(fitted(labels), 0, scale="target", probabilities=LEVELS, points=6)
    np.testing.assert_allclose(averaged.mean, alone.mean)
    latent = partial_dependence(labels, scale="latent", probabilities=LEVELS, points=6)[0]
    exact = curve(fitted(labels), 0, scale="latent", probabilities=LEVELS, points=6)
    sd = (exact.quantiles[2] - exact.quantiles[0]) / (ndtri(0.95) - ndtri(0.05))
    error = 2.1 / np.sqrt(DRAWS)  # standard error of the 5 % quantile of a Gaussian, in its sd
    assert np.max(np.abs(latent.quantiles - exact.quantiles) / sd) < 4.0 * error


def test_partial_dependence_of_a_linear_function_has_its_slopes(line):
    for found, slope in zip(partial_dependence(line, scale="latent", points=3), SLOPES, strict=True):
        np.testing.assert_allclose(np.diff(found.mean) / np.diff(found.x), slope, atol=2e-3)
        assert np.all(found.quantiles[0] <= found.quantiles[1])


def test_with_gaussian_noise_the_mean_of_a_target_is_f(line):
    for scales in zip(
        *(partial_dependence(line, scale=scale, points=3) for scale in ("latent", "target")), strict=True
    ):
        np.testing.assert_allclose(scales[0].mean, scales[1].mean)
        np.testing.assert_allclose(scales[0].quantiles, scales[1].quantiles)


def test_partial_dependence_of_classes_sums_to_one():
    idata = bgp.fit(
        X, np.digitize(X[:, 0], [-0.5, 0.5]), bgp.kernels.Gaussian(2.0), bgp.Softmax(), draws=5, random_seed=1
    )
    for found in partial_dependence(idata, [0, 1], points=3):
        np.testing.assert_allclose(found.mean.sum(axis=-1), 1.0)
        assert found.mean.shape == (3, 3)
        assert found.quantiles.shape == (2, 3, 3)


@pytest.mark.parametrize("likelihood", [bgp.MultinomialProbit(flip=0.05), bgp.Softmax()])
def test_probabilities_of_classes_given_f_take_no_derivatives(likelihood, monkeypatch):
    """Under a multinomial probit derivatives take twice the time of the probabilities, and nobody asks for them."""
    f = np.random.default_rng(0).normal(size=(4, 5, 3)) * 2.0
    idata = bgp.fit(np.eye(3), ["a", "b", "c"], bgp.kernels.Gaussian(), likelihood, draws=1, random_seed=1)
    part = bgp.posterior(idata)
    wanted = np.exp([[likelihood.log_prob(np.full(5, c), rows).value for rows in f] for c in (0.0, 1.0, 2.0)])
    monkeypatch.delattr(type(likelihood), "log_prob")
    found = expected_given(part, f)
    np.testing.assert_allclose(found, np.moveaxis(wanted, 0, -1), rtol=1e-12)
    np.testing.assert_allclose(found.sum(axis=-1), 1.0, rtol=1e-12)


def test_total_effects_of_a_linear_function_are_the_shares_of_its_variance(line):
    found = relevance(line)
    m = X @ SLOPES
    shares = SLOPES**2 * X.var(axis=0) / m.var()  # of independent inputs, but for the exchange of a few cases
    np.testing.assert_allclose(found.effect, shares, atol=0.25)
    np.testing.assert_array_equal(found.unused, [False, False, True])
    np.testing.assert_array_equal(found.low, found.effect)
    np.testing.assert_array_equal(found.high, found.effect)


def test_an_input_that_is_alone_has_all_of_the_variance():
    idata = bgp.fit(X[:, :1], X[:, 0] > 0, bgp.kernels.Gaussian(1.0, 4.0), draws=5, random_seed=1)
    np.testing.assert_allclose(relevance(idata).effect, [1.0], rtol=1e-12)


def test_total_effects_do_not_depend_on_the_unit_of_the_target(line):
    scaled = bgp.fit(
        X, 100.0 * (X @ SLOPES), 1e4 * bgp.kernels.Linear(), bgp.likelihoods.Gaussian(1.0), draws=5, random_seed=1
    )
    np.testing.assert_allclose(relevance(scaled).effect, relevance(line).effect, rtol=1e-6, atol=1e-12)


def test_the_same_prediction_everywhere_has_no_relevance():
    idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Bias(), draws=5, random_seed=1)
    with pytest.raises(ValueError, match="no input does anything"):
        relevance(idata)


def test_weighted_quantiles_of_equal_weights_are_order_statistics():
    values = RNG.standard_normal((100, 2))
    found = weighted_quantiles(values, np.full(100, 0.01), np.array([0.105, 0.505, 0.995]))
    np.testing.assert_array_equal(found, np.sort(values, axis=0)[[10, 50, 99]])
    alone = weighted_quantiles(values, np.eye(100)[7], np.array([0.1, 0.9]))
    np.testing.assert_array_equal(alone, np.tile(values[7], (2, 1)))


def test_settings_stand_for_all_by_their_weights(labels):
    part = bgp.posterior(labels)
    weights = np.append(np.full(40, 0.01), 0.6)
    some = some_settings(Process(tuple(replace(part) for _ in weights), weights))
    chosen = some.weights
    assert len(some.parts) == len(chosen) <= SETTINGS
    np.testing.assert_allclose(chosen.sum(), 1.0)
    np.testing.assert_allclose(chosen.max(), 0.6, atol=1.0 / SETTINGS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"features": ["age"]}, "feature must be one of the inputs"),
        ({"features": []}, "features must name at least one input"),
        ({"features": [True]}, "feature must be one of the inputs"),
        ({"scale": "probability"}, "scale must be 'latent'"),
        ({"points": 0}, "points"),
        ({"probabilities": [1.5]}, "probabilities"),
    ],
)
def test_bad_input_is_named(line, options, message):
    with pytest.raises(ValueError, match=message):
        partial_dependence(line, **options)
