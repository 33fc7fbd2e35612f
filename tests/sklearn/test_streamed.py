"""``partial_fit``: batch after batch, by itself and after a fit."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.kernels import Gaussian
from bayesgp_mf.likelihoods import Censored
from bayesgp_mf.likelihoods import Gaussian as Noise
from bayesgp_mf.streams import Stream

GPClassifier, GPRegressor = bgp.sklearn.GPClassifier, bgp.sklearn.GPRegressor
KERNEL = Gaussian(0.8, 3.0)
RNG = np.random.default_rng(6)
X = RNG.standard_normal((60, 2))
REAL = 3.0 + np.sin(2.0 * X[:, 0]) + 0.3 * RNG.standard_normal(60)
LABELS = np.array(["a", "b", "c"])[np.digitize(REAL, [2.6, 3.4])]
NEAR = np.arange(60) % 2 == 0
NEW = RNG.standard_normal((6, 2))
PARTS = [slice(0, 20), slice(20, 45), slice(45, 60)]


def test_a_classifier_learns_as_a_stream_does():
    model, y = GPClassifier(KERNEL, hyper=None, budget=15, random_state=1), LABELS == "a"
    for part in PARTS:
        model.partial_fit(X[part], y[part], classes=[False, True])
    seed = np.random.RandomState(1).randint(2**31 - 1)
    stream = Stream(KERNEL, budget=15, classes=(False, True), random_seed=seed)
    for part in PARTS:
        stream.update(X[part], y[part])
    np.testing.assert_array_equal(model.predict_proba(NEW)[:, 1], stream.predict_proba(NEW))
    assert model.posterior_.n_seen == 60
    assert model.kernel_ == KERNEL
    assert model.idata_["posterior"]["f"].shape == (4, 250, 15)
    for name, instead in (("log_evidence_", "log_score"), ("loo_", "log_score")):
        with pytest.raises(UndefinedQuantityError, match=instead):
            getattr(model, name)
    again = pickle.loads(pickle.dumps(model)).partial_fit(X[:5], y[:5])
    assert again.posterior_.n_seen == 65


def test_real_targets_learned_in_parts_are_those_learned_at_once():
    whole = GPRegressor(KERNEL, Noise(0.1), hyper=None).fit(X, REAL)
    model = GPRegressor(KERNEL, Noise(0.1), hyper=None, budget=None)
    for part in PARTS:
        model.partial_fit(X[part], REAL[part])
    for ask in ({"return_std": True}, {"return_cov": True}):
        for found, expected in zip(model.predict(NEW, **ask), whole.predict(NEW, **ask), strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-8)
    drawn, (mean, covariance) = model.sample_y(NEW, 8000, random_state=1), model.predict(NEW, return_cov=True)
    sd = np.sqrt(np.diag(covariance))
    assert np.abs((drawn.mean(axis=1) - mean) / sd).max() < 4.5 / np.sqrt(8000)
    np.testing.assert_allclose(np.cov(drawn) / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.07)


def test_after_a_fit_it_goes_on_from_there():
    model = GPRegressor(budget=None, random_state=1).fit(X[:45], REAL[:45])
    kernel = model.kernel_
    model.partial_fit(X[45:], REAL[45:])
    unit, centre = np.std(REAL[:45]), np.mean(REAL[:45])
    noise = model.posterior_.likelihood
    whole = GPRegressor(kernel, noise, hyper=None).fit(X, (REAL - centre) / unit)
    assert model.kernel_ == kernel
    np.testing.assert_allclose(model.predict(NEW), centre + unit * whole.predict(NEW), rtol=1e-5)
    classifier = GPClassifier(random_state=1).fit(X[:45], LABELS[:45])
    kernels = classifier.kernel_
    before = classifier.predict_proba(NEW)
    assert classifier.partial_fit(X[45:], LABELS[45:]).kernel_ == kernels
    assert np.abs(classifier.predict_proba(NEW) - before).max() > 0.01


def test_several_classes_are_learned_together_by_their_likelihood():
    likelihood, seed = bgp.MultinomialProbit(), np.random.RandomState(1).randint(2**31 - 1)
    model = GPClassifier(KERNEL, likelihood, hyper=None, budget=15, random_state=1)
    stream = Stream(KERNEL, likelihood, budget=15, classes=("a", "b", "c"), random_seed=seed)
    for part in PARTS:
        model.partial_fit(X[part], LABELS[part], classes=["c", "a", "b"])
        stream.update(X[part], LABELS[part])
    np.testing.assert_array_equal(model.predict_proba(NEW), stream.predict_proba(NEW))
    assert set(model.predict(NEW)) <= {"a", "b", "c"}
    assert model.idata_["posterior"]["f"].shape == (4, 250, 15, 3)
    drawn = model.sample_y(NEW, 4000, random_state=1)
    frequency = np.stack([np.mean(drawn == label, axis=1) for label in model.classes_], axis=1)
    np.testing.assert_allclose(frequency, model.predict_proba(NEW), atol=0.04)
    with pytest.raises(ValueError, match=r"all those of MultinomialProbit.*\['d'\] are missing"):
        GPClassifier(KERNEL, bgp.MultinomialProbit(tuple("abcd"))).partial_fit(X, LABELS, classes=["a", "b", "c"])


def test_after_a_joint_fit_several_classes_go_on_from_there():
    model = GPClassifier(KERNEL, bgp.MultinomialProbit(), hyper=None, budget=60, random_state=1)
    model.fit(X[:40], LABELS[:40]).partial_fit(X[40:], LABELS[40:])
    stream = Stream(KERNEL, bgp.MultinomialProbit(), budget=60, random_seed=2).update(X[:40], LABELS[:40])
    stream.update(X[40:], LABELS[40:])
    np.testing.assert_allclose(model.predict_proba(NEW), stream.predict_proba(NEW), atol=1e-8)
    default = GPClassifier(KERNEL, hyper=None, budget=60, random_state=1).fit(X[:40], LABELS[:40])
    found = default.partial_fit(X[40:], LABELS[40:]).predict_proba(NEW)
    np.testing.assert_array_equal(found, model.predict_proba(NEW))


def test_weights_of_batches_and_of_a_fit_before_them():
    weights = np.where(np.arange(60) % 4 == 0, 2.0, 1.0)
    expected = GPRegressor(KERNEL, Noise(0.1), hyper=None).fit(X, REAL, sample_weight=weights).predict(NEW)
    model = GPRegressor(KERNEL, Noise(0.1), hyper=None, budget=None)
    model.fit(X[:20], REAL[:20], sample_weight=weights[:20])
    model.partial_fit(X[20:], REAL[20:], sample_weight=weights[20:])
    np.testing.assert_allclose(model.predict(NEW), expected, rtol=1e-7)


def test_what_a_stream_is_not_for_is_said():
    y = LABELS == "a"
    with pytest.raises(ValueError, match="classes must be given at the first call"):
        GPClassifier().partial_fit(X, y)
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        GPClassifier(hyper=None).partial_fit(X, y, classes=[False, True]).partial_fit(X, y, classes=[1, 2])
    with pytest.raises(ValueError, match=r"none of the classes \['a', 'b'\]: \['c'\]"):
        GPClassifier(hyper=None).partial_fit(X, LABELS, classes=["a", "b"])
    with pytest.raises(ValueError, match="got one class"):
        GPClassifier().partial_fit(X, y, classes=[True])


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (GPRegressor(hyper="integrate"), "hyper must be None or one of"),
        (GPClassifier(method="laplace"), "learns by method 'tap', got method='laplace'"),
        (GPRegressor(inducing=5), "Leave out inducing"),
    ],
    ids=["average", "method", "inducing"],
)
def test_a_model_that_is_no_stream_has_no_partial_fit(model, message):
    assert not hasattr(model, "partial_fit")
    with pytest.raises(AttributeError, match="has no attribute 'partial_fit'") as raised:
        _ = model.partial_fit
    assert message in str(raised.value.__cause__)


CENSORED = Censored(Noise(0.1))
LIMITS = np.column_stack([np.minimum(REAL, 3.0), np.where(REAL < 3.0, REAL, np.where(NEAR, 4.0, np.inf))])


@pytest.mark.parametrize("fitted", [True, False])
@pytest.mark.parametrize("normal", [True, False])
def test_limits_of_batches_and_of_a_fit_before_them(fitted, normal):
    model = GPRegressor(KERNEL, CENSORED, hyper=None, budget=None, normalize_y=normal)
    (model.fit if fitted else model.partial_fit)(X[:20], LIMITS[:20])
    model.partial_fit(X[20:45], LIMITS[20:45]).partial_fit(X[45:], REAL[45:])
    centre, unit = (LIMITS[:20, 0].mean(), LIMITS[:20, 0].std()) if normal else (0.0, 1.0)
    stream = Stream(KERNEL, CENSORED, budget=None)
    for part, y in zip(PARTS, (LIMITS[:20], LIMITS[20:45], REAL[45:]), strict=True):
        stream.update(X[part], (y - centre) / unit)
    np.testing.assert_allclose(model.predict(NEW), centre + unit * stream.latent(NEW)[0], atol=1e-6)


def test_limits_are_normalised_as_targets_are():
    model = GPRegressor(KERNEL, CENSORED, hyper=None, normalize_y=True).fit(X, LIMITS)
    centre, unit = LIMITS[:, 0].mean(), LIMITS[:, 0].std()
    expected = GPRegressor(KERNEL, CENSORED, hyper=None).fit(X, (LIMITS - centre) / unit).predict(NEW)
    np.testing.assert_allclose(model.predict(NEW), centre + unit * expected, rtol=1e-10)


def test_a_stream_with_limits_starts_with_the_default_kernel():
    model = GPRegressor(likelihood=CENSORED, hyper=None).partial_fit(X, LIMITS)
    assert model.kernel_ == GPRegressor(likelihood=CENSORED, hyper=None).fit(X, LIMITS).kernel_
