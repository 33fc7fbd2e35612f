"""Weights of cases: none, twice, and in between."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Gaussian
from bayesgp_mf.likelihoods import Gaussian as Noise

GPClassifier, GPRegressor = bgp.sklearn.GPClassifier, bgp.sklearn.GPRegressor
KERNEL = Gaussian(0.8, 3.0)
RNG = np.random.default_rng(5)
X = RNG.standard_normal((30, 2))
REAL = np.sin(2.0 * X[:, 0]) + 0.3 * RNG.standard_normal(30)
LABELS = np.array(["a", "b", "c"])[np.digitize(REAL, [-0.4, 0.4])]
NEW = RNG.standard_normal((6, 2))

MODELS = {
    "regression": (GPRegressor(KERNEL, Noise(0.1), hyper=None), REAL, "predict"),
    "default regressor": (GPRegressor(), REAL, "predict"),
    "classifier": (GPClassifier(), LABELS == "a", "predict_proba"),
    "three classes": (GPClassifier(KERNEL, hyper=None), LABELS, "predict_proba"),
    "three classes, Laplace": (GPClassifier(KERNEL, method="laplace", hyper=None), LABELS, "predict_proba"),
    "Laplace": (GPClassifier(KERNEL, bgp.Logit(), method="laplace", hyper=None), LABELS == "a", "predict_proba"),
}


@pytest.mark.parametrize("name", MODELS)
def test_a_case_of_weight_zero_is_left_out(name):
    model, y, ask = MODELS[name]
    weights = np.where(np.arange(30) % 3 == 0, 0.0, 1.0)
    without = getattr(model.fit(X[weights > 0], y[weights > 0]), ask)(NEW)
    np.testing.assert_array_equal(getattr(model.fit(X, y, sample_weight=weights), ask)(NEW), without)
    assert np.abs(getattr(model.fit(X, y), ask)(NEW) - without).max() > 1e-4


@pytest.mark.parametrize("name", ["regression", "three classes, Laplace", "Laplace"])
def test_weight_two_is_the_case_twice(name):
    model, y, ask = MODELS[name]
    weights = np.where(np.arange(30) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(30), weights.astype(int))
    expected = getattr(model.fit(X[twice], y[twice]), ask)(NEW)
    np.testing.assert_allclose(getattr(model.fit(X, y, sample_weight=weights), ask)(NEW), expected, rtol=1e-7)
    assert np.abs(getattr(model.fit(X, y), ask)(NEW) - expected).max() > 1e-3


def test_of_three_classes_they_choose_softmax_by_laplace():
    weights = np.where(np.arange(30) % 3 == 0, 2.0, 1.0)
    model = GPClassifier(KERNEL, hyper=None).fit(X, LABELS, sample_weight=weights)
    laplace = GPClassifier(KERNEL, method="laplace", hyper=None).fit(X, LABELS, sample_weight=weights)
    np.testing.assert_array_equal(model.predict_proba(NEW), laplace.predict_proba(NEW))
    given = GPClassifier(KERNEL, bgp.Softmax(), hyper=None).fit(X, LABELS, sample_weight=weights)
    np.testing.assert_array_equal(given.predict_proba(NEW), laplace.predict_proba(NEW))
    plain = GPClassifier(KERNEL, hyper=None).fit(X, LABELS, sample_weight=np.ones(30))
    assert "MultinomialProbit" in str(plain.posterior_)
    for refused in (GPClassifier(KERNEL, bgp.MultinomialProbit()), GPClassifier(KERNEL, method="tap")):
        with pytest.raises(ValueError, match=r"weights of several classes go with Softmax\(\)"):
            refused.fit(X, LABELS, sample_weight=weights)
    with pytest.raises(ValueError, match=r"weights of several classes go with Softmax\(\)"):
        GPClassifier(KERNEL, hyper=None).partial_fit(X, LABELS, classes=["a", "b", "c"], sample_weight=weights)
    for batch in ({}, {"sample_weight": weights}):  # a stream of classes has no weights, nor those of the fit
        with pytest.raises(ValueError, match="weights of several classes, which partial_fit does not take"):
            model.partial_fit(X, LABELS, **batch)


def test_a_weight_moves_tap_towards_the_label():
    model = GPClassifier(KERNEL, hyper=None)
    y = LABELS == "a"
    p = [model.fit(X, y, sample_weight=np.where(y, w, 1.0)).predict_proba(NEW)[:, 1] for w in (0.5, 1.0, 2.0)]
    assert np.all(p[0] < p[1])
    assert np.all(p[1] < p[2])


def test_targets_are_normalised_by_their_weights():
    weights = np.where(np.arange(30) % 3 == 0, 2.0, 1.0)
    twice = np.repeat(np.arange(30), weights.astype(int))
    model = GPRegressor(KERNEL, Noise(0.1), hyper=None, normalize_y=True)
    expected = model.fit(X[twice], 100.0 + REAL[twice]).predict(NEW)
    np.testing.assert_allclose(model.fit(X, 100.0 + REAL, sample_weight=weights).predict(NEW), expected, rtol=1e-9)


def test_bad_weights_are_refused():
    model = GPRegressor(KERNEL, Noise(0.1), hyper=None)
    for weights, message in (
        (np.ones(29), r"sample_weight must have shape \(30,\), a number for each row of X, got \(29,\)"),
        (-np.ones(30), "sample_weight must be >= 0, got -1 at index 0"),
        (np.full(30, np.nan), "sample_weight must be finite"),
        (np.zeros(30), "sample_weight must not all be zero"),
    ):
        with pytest.raises(ValueError, match=message):
            model.fit(X, REAL, sample_weight=weights)
    with pytest.raises(ValueError, match="among the cases whose weight is not 0"):
        GPClassifier().fit(X, LABELS, sample_weight=LABELS == "a")


@pytest.mark.parametrize("labels", [LABELS == "a", LABELS])
def test_weights_of_classes_are_those_of_another_population(labels):
    counted = 1.0 + np.arange(30) % 3
    plain = GPClassifier(KERNEL, hyper=None).fit(X, labels, sample_weight=counted)
    sums = np.array([counted[labels == label].sum() for label in plain.classes_])
    for class_weight, shares in (
        ("balanced", 1.0 / sums),
        ({plain.classes_[0]: 4.0}, np.array([4.0, *np.ones(sums.size - 1)])),
    ):
        model = GPClassifier(KERNEL, hyper=None, class_weight=class_weight).fit(X, labels, sample_weight=counted)
        expected = plain.predict_proba(NEW) * shares
        np.testing.assert_allclose(model.predict_proba(NEW), expected / expected.sum(axis=1)[:, None], rtol=1e-12)
        np.testing.assert_array_equal(model.predict(NEW), model.classes_[expected.argmax(axis=1)])
        assert model.log_evidence_ == plain.log_evidence_


def test_balanced_classes_leave_the_search_as_it_is():
    """With weights in the evidence the length scales of a rare class shrink until each case stands alone."""
    rng = np.random.default_rng(2)
    rare = rng.random(300) < 0.06
    inputs = rng.standard_normal((300, 3)) + 0.5 * rare[:, None]
    fits = [GPClassifier(class_weight=each, random_state=1).fit(inputs, rare) for each in (None, "balanced")]
    np.testing.assert_array_equal(
        fits[0].kernel_.params["gaussian_lengthscale"], fits[1].kernel_.params["gaussian_lengthscale"]
    )
    new = rng.standard_normal((500, 3))
    assert fits[0].predict_proba(new)[:, 1].mean() < 0.1
    assert fits[1].predict_proba(new)[:, 1].mean() > 0.3


def test_weights_of_classes_that_do_not_do_are_named():
    batch = X, LABELS == "a", (False, True)
    with pytest.raises(ValueError, match="class_weight='balanced' needs all cases at once"):
        GPClassifier(KERNEL, hyper=None, class_weight="balanced").partial_fit(*batch)
    with pytest.raises(ValueError, match=r"'class_weight' parameter.*'balanced'"):
        GPClassifier(KERNEL, hyper=None, class_weight="even").fit(X, LABELS)
    for weight in (-1.0, 0.0, np.nan):
        with pytest.raises(ValueError, match=r"class_weight must be positive numbers, got \{True"):
            GPClassifier(KERNEL, hyper=None, class_weight={True: weight}).fit(*batch[:2])
    told = GPClassifier(KERNEL, hyper=None, class_weight={True: 4.0}).partial_fit(*batch).predict_proba(NEW)
    same = GPClassifier(KERNEL, hyper=None).partial_fit(*batch).predict_proba(NEW)
    np.testing.assert_allclose(told[:, 1] / told[:, 0], 4.0 * same[:, 1] / same[:, 0], rtol=1e-12)


@pytest.mark.parametrize("column", ["dose", 0])
def test_slopes_are_held_to_their_signs(column):
    table = pd.DataFrame(X[:, :1], columns=["dose"])
    grid = pd.DataFrame({"dose": np.linspace(X[:, 0].min(), X[:, 0].max(), 12)})
    falls = GPClassifier(KERNEL, hyper=None, monotone={column: -1}).fit(table, REAL > 0).predict_proba(grid)[:, 1]
    assert np.all(np.diff(falls) < 1e-3)
    rises = GPRegressor(KERNEL, Noise(0.1), hyper=None, monotone={column: +1}).fit(table, REAL)
    assert np.all(np.diff(rises.predict(grid)) > -1e-3)
    assert not np.all(np.diff(GPRegressor(KERNEL, Noise(0.1), hyper=None).fit(table, REAL).predict(grid)) > -1e-3)
    with pytest.raises(AttributeError, match="partial_fit") as refused:
        _ = rises.partial_fit
    assert "Leave out monotone" in str(refused.value.__cause__)
