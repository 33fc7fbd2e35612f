"""What a fit says: the numbers of `fit`, of other code, and of each other."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.model_selection import cross_val_score

import bayesgp_mf as bgp
from bayesgp_mf.errors import BoundWarning, UndefinedQuantityError
from bayesgp_mf.kernels import Gaussian, White
from bayesgp_mf.likelihoods import Gaussian as Noise

GPClassifier, GPRegressor = bgp.sklearn.GPClassifier, bgp.sklearn.GPRegressor
KERNEL = Gaussian([0.7, 1.5], 3.0)


@pytest.fixture(scope="module")
def cases():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((40, 2))
    real = 5.0 + 2.0 * np.sin(2.0 * X[:, 0]) + 0.3 * rng.standard_normal(40)
    return X, real, np.where(X[:, 0] + 0.5 * rng.standard_normal(40) > 0, "up", "down"), rng.standard_normal((7, 2))


def test_a_classifier_says_what_a_fit_does(cases):
    X, _, labels, new = cases
    model = GPClassifier(KERNEL, hyper=None).fit(X, labels)
    idata = bgp.predict(bgp.fit(X, labels, KERNEL, random_seed=1, draws=50), new, draws=False)
    np.testing.assert_allclose(model.predict_proba(new)[:, 1], idata["predictions"]["p"].values, rtol=1e-10)
    np.testing.assert_allclose(np.exp(model.predict_log_proba(new)).sum(axis=1), 1.0)
    assert model.log_evidence_ == pytest.approx(float(idata["fit"]["log_evidence"]), rel=1e-12)
    assert float(model.loo_["se"]) == pytest.approx(float(bgp.loo(idata)["se"]), rel=1e-10)
    assert list(model.classes_) == ["down", "up"]
    assert list(model.predict(new)) == ["up" if p > 0.5 else "down" for p in idata["predictions"]["p"].values]


def test_a_regressor_is_scikit_learns_where_both_keep_the_same_kernel(cases):
    X, real, _, new = cases
    theirs = ConstantKernel(3.0) * RBF([0.7, 1.5]) + WhiteKernel(0.2)
    other = GaussianProcessRegressor(theirs, alpha=0.1, optimizer=None, normalize_y=True).fit(X, real)
    model = GPRegressor(KERNEL + White(0.2), Noise(0.1), hyper=None, normalize_y=True).fit(X, real)
    assert model.log_evidence_ == pytest.approx(other.log_marginal_likelihood_value_, rel=1e-9)
    mean, sd = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, other.predict(new), rtol=1e-8)
    measured = 0.1 * np.var(real)  # alpha is noise of the cases of the fit alone, to scikit-learn
    covariance = other.predict(new, return_cov=True)[1] + measured * np.eye(7)
    np.testing.assert_allclose(model.predict(new, return_cov=True)[1], covariance, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(sd**2, np.diag(covariance), rtol=1e-6)


def test_a_classifier_is_scikit_learns_by_laplaces_method(cases):
    X, _, labels, new = cases
    other = GaussianProcessClassifier(ConstantKernel(3.0) * RBF([0.7, 1.5]), optimizer=None).fit(X, labels)
    model = GPClassifier(KERNEL, bgp.Logit(), method="laplace", hyper=None).fit(X, labels)
    assert model.log_evidence_ == pytest.approx(other.log_marginal_likelihood_value_, abs=1e-6)
    # they replace the sigmoid by a sum of error functions
    np.testing.assert_allclose(model.predict_proba(new), other.predict_proba(new), atol=0.003)


def test_a_search_ends_where_that_of_fit_does(cases):
    X, _, labels, _ = cases
    prior = {"lengthscale": bgp.hyper.LogNormal(0.0, 1.0)}
    options = {"hyper": bgp.hyper.Evidence(starts=1), "priors": prior, "fixed": ["variance"]}
    model = GPClassifier(KERNEL, **options, random_state=4).fit(X, labels)
    idata = bgp.fit(X, labels, KERNEL, **options, random_seed=1, draws=1)
    np.testing.assert_allclose(model.kernel_.lengthscale, idata["fit"]["lengthscale"], rtol=1e-10)
    assert model.kernel_.variance == 3.0


def test_the_default_kernel_has_priors_but_where_something_else_is_said(cases):
    X, real, labels, _ = cases
    model = GPClassifier().fit(X, labels)
    narrow = {"gaussian_lengthscale": bgp.hyper.LogNormal(np.log(0.1), 0.01)}
    other = GPClassifier(priors=narrow).fit(X, labels)
    assert model.kernel_.params["gaussian_lengthscale"].shape == (2,)
    np.testing.assert_allclose(other.kernel_.params["gaussian_lengthscale"], 0.1, rtol=0.1)
    assert GPClassifier(fixed=["gaussian_variance"]).fit(X, labels).kernel_.params["gaussian_variance"] == 10.0
    with pytest.warns(BoundWarning, match="lengthscale"):  # which have no prior then
        bounded = GPClassifier(bounds={"gaussian_lengthscale": (2.0, 2.5)}).fit(X, labels)
    assert bounded.kernel_.params["gaussian_lengthscale"][0] == pytest.approx(2.0)
    regressor = GPRegressor().fit(X, real)
    assert regressor.score(X, real) > 0.9
    noise = regressor.posterior_.problem.likelihood.noise_variance
    assert 0.15 < np.sqrt(noise) * real.std() < 0.6  # 0.3 it was


def test_the_container_has_draws_when_it_is_asked_for(cases):
    X, _, labels, new = cases
    model = GPClassifier(KERNEL, hyper=None, draws=30, random_state=1).fit(X, labels)
    idata = model.idata_
    assert idata is model.idata_
    assert idata["posterior"]["f"].shape == (4, 30, 40)
    assert idata["posterior_predictive"]["y"].shape == (4, 30, 40)
    drawn, fit = idata["posterior"]["f"].values.reshape(120, 40), idata["fit"]
    error = (drawn.mean(axis=0) - fit["latent_mean"].values) / fit["latent_sd"].values
    assert np.abs(error).max() < 4.5 / np.sqrt(120)
    idata = bgp.predict(idata, new, random_seed=1)
    np.testing.assert_allclose(idata["predictions"]["p"], model.predict_proba(new)[:, 1], rtol=1e-10)
    again = GPClassifier(KERNEL, hyper=None, draws=30, random_state=1).fit(X, labels).idata_
    np.testing.assert_array_equal(again["posterior"]["f"], model.idata_["posterior"]["f"])
    model.fit(X[:20], labels[:20])
    assert model.idata_["posterior"]["f"].shape == (4, 30, 20)  # of the last fit
    with pytest.raises(ValueError, match="draws must be a positive integer"):
        _ = GPClassifier(KERNEL, hyper=None, draws=0).fit(X, labels).idata_


@pytest.mark.parametrize(
    ("model", "likelihood", "method"),
    [
        (GPClassifier(KERNEL, hyper=None, draws=5), bgp.MultinomialProbit(), "tap"),
        (GPClassifier(KERNEL, method="laplace", hyper=None, draws=5), bgp.Softmax(), "laplace"),
        (GPClassifier(KERNEL, bgp.Softmax(), hyper=None, draws=5), bgp.Softmax(), "tap"),
    ],
    ids=["multinomial probit", "softmax by Laplace", "softmax"],
)
def test_several_classes_in_one_model(cases, model, likelihood, method):
    X, _, _, new = cases
    y = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    idata = bgp.fit(X, y, KERNEL, likelihood, method=method, draws=5)
    model.fit(X, y)
    assert model.log_evidence_ == pytest.approx(float(idata["fit"]["log_evidence"]), rel=1e-10)
    np.testing.assert_allclose(model.predict_proba(new), bgp.posterior(idata).predict_proba(new), rtol=1e-9)
    assert model.kernel_ == KERNEL
    assert model.idata_["posterior"]["f"].shape == (4, 5, 40, 3)
    pointwise = model.loo_.elpd_i if hasattr(model.loo_, "elpd_i") else model.loo_["loo_i"]
    np.testing.assert_array_equal(pointwise, idata["fit"]["loo_i"])
    drawn = model.sample_y(new, 4000, random_state=1)
    np.testing.assert_allclose((drawn[:, :, None] == model.classes_).mean(axis=1), model.predict_proba(new), atol=0.035)


def test_draws_have_the_moments_that_are_predicted(cases):
    X, real, labels, new = cases
    model = GPRegressor(KERNEL, Noise(0.1), hyper=None, normalize_y=True).fit(X, real)
    drawn = model.sample_y(new, 8000, random_state=1)
    mean, covariance = model.predict(new, return_cov=True)
    sd = np.sqrt(np.diag(covariance))
    assert drawn.shape == (7, 8000)
    assert np.abs((drawn.mean(axis=1) - mean) / sd).max() < 4.5 / np.sqrt(8000)
    np.testing.assert_allclose(np.cov(drawn) / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.07)
    np.testing.assert_array_equal(drawn, model.sample_y(new, 8000, random_state=1))
    classifier = GPClassifier(KERNEL, hyper=None).fit(X, labels)
    up = (classifier.sample_y(new, 4000, random_state=1) == "up").mean(axis=1)
    np.testing.assert_allclose(up, classifier.predict_proba(new)[:, 1], atol=0.035)


def test_counts_and_outliers(cases):
    X, real, _, new = cases
    counts = np.round(np.exp(0.5 * (real - 4.0)))
    model = GPRegressor(KERNEL, bgp.Poisson(), hyper=None).fit(X, counts)
    idata = bgp.predict(bgp.fit(X, counts, KERNEL, bgp.Poisson(), draws=10), new)["predictions"]
    mean, sd = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, idata["y_mean"], rtol=1e-8)
    np.testing.assert_allclose(sd, idata["y_sd"], rtol=1e-8)
    assert np.all(model.sample_y(new, 20) >= 0)
    with pytest.raises(ValueError, match="return_cov is for Gaussian noise, and this is Poisson"):
        model.predict(new, return_cov=True)
    wild = real.copy()
    wild[3] += 40.0
    model = GPRegressor(KERNEL, bgp.StudentT(0.2, 3.0), hyper=None, normalize_y=True)
    assert np.abs(model.fit(X, wild).predict(X) - real)[np.arange(40) != 3].mean() < 0.6


def test_an_average_over_hyperparameters(cases):
    X, real, _, new = cases
    prior = {"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)}
    model = GPRegressor(KERNEL, Noise(0.1), hyper="integrate", priors=prior, draws=5).fit(X, real - 5.0)
    assert model.posterior_.averaged
    assert model.idata_["posterior"]["f"].shape == (4, 5, 40)
    mean, sd = model.predict(new, return_std=True)
    np.testing.assert_allclose(mean, model.posterior_.latent_mean(new), rtol=1e-9)
    again, covariance = model.predict(new, return_cov=True)
    np.testing.assert_allclose(again, mean)
    np.testing.assert_allclose(np.diag(covariance), sd**2, rtol=1e-8)
    drawn = model.sample_y(new, 4000, random_state=2)
    np.testing.assert_allclose(np.cov(drawn) / np.outer(sd, sd), covariance / np.outer(sd, sd), atol=0.1)
    for name in ("kernel_", "log_evidence_"):
        assert not hasattr(model, name)
        with pytest.raises(UndefinedQuantityError, match=f"{name} is of one setting"):
            getattr(model, name)


class OwnKernel(Gaussian):
    """One that a container does not hold."""


def test_what_a_container_does_not_hold_is_kept(cases):
    X, _, labels, new = cases
    model = GPClassifier(OwnKernel([0.7, 1.5], 3.0), hyper=None).fit(X, labels)
    same = GPClassifier(KERNEL, hyper=None).fit(X, labels)
    np.testing.assert_allclose(model.predict_proba(new), same.predict_proba(new), rtol=1e-12)
    assert float(model.loo_["se"]) == pytest.approx(float(same.loo_["se"]))


def test_what_is_not_there_is_said(cases):
    X, real, labels, new = cases
    for name in ("posterior_", "kernel_", "log_evidence_", "loo_", "idata_"):
        assert not hasattr(GPClassifier(), name)
        with pytest.raises(NotFittedError, match=f"call fit before {name}"):
            getattr(GPClassifier(), name)
    for model in (GPClassifier(), GPRegressor()):
        with pytest.raises(NotFittedError):
            model.sample_y(new)
    with pytest.raises(ValueError, match="got one class"):
        GPClassifier().fit(X, np.ones(40))
    with pytest.raises(ValueError, match=r"GPRegressor is for real targets, and Probit.*Use GPClassifier"):
        GPRegressor(likelihood=bgp.Probit()).fit(X, real)
    with pytest.raises(ValueError, match=r"GPClassifier is for labels, and Ordinal.*Use GPRegressor"):
        GPClassifier(likelihood=bgp.Ordinal([0.0])).fit(X, labels)
    with pytest.raises(ValueError, match="ask for one of them"):
        GPRegressor(hyper=None).fit(X, real).predict(new, return_std=True, return_cov=True)
    with pytest.raises(ValueError, match="n_samples must be a positive integer"):
        GPRegressor(hyper=None).fit(X, real).sample_y(new, 0)


def test_normalised_targets_may_be_of_any_scale_whose_square_is_a_number(cases):
    X, real, _, new = cases
    options = {"hyper": None, "normalize_y": True}
    expected = GPRegressor(KERNEL, Noise(0.1), **options).fit(X, real).predict(new, return_std=True)
    for scale in (1e-200, 1e145):
        model = GPRegressor(KERNEL, Noise(0.1), **options).fit(X, real * scale)
        np.testing.assert_allclose(np.array(model.predict(new, return_std=True)) / scale, expected, rtol=1e-10)
        assert np.all(np.isfinite(model.predict(new, return_cov=True)[1]))
    with pytest.raises(ValueError, match=r"y must hold numbers of at most 1e\+150 in absolute value, got .*e\+200"):
        GPRegressor().fit(X, real * 1e200)
    with pytest.raises(ValueError, match=r"y must hold numbers of at most 1e\+50"):
        GPRegressor(KERNEL, Noise(0.1), hyper=None).fit(X, real * 1e200)


def test_times_are_scored_by_their_order(cases):
    X = cases[0]
    time = bgp.likelihoods.Weibull(2.0).sample(X[:, 0], np.random.default_rng(0))
    event = np.arange(len(time)) % 3 > 0
    y = np.array(list(zip(event, time, strict=True)), dtype=[("event", bool), ("time", float)])
    model = GPRegressor(bgp.kernels.Matern32(1.0), bgp.likelihoods.Censored(bgp.likelihoods.Weibull(2.0)), hyper=None)
    fitted = clone(model).fit(X, y)
    assert fitted.score(X[event], y[event]) == fitted.score(X[event], time[event])
    assert fitted.score(X, y) == fitted.score(X, np.column_stack([time, event]))
    assert np.all(cross_val_score(model, X, y, cv=3, error_score="raise") > 0.5)


def test_a_pickle_holds_no_draws_and_makes_them_again():
    rng = np.random.default_rng(1)
    inputs = rng.standard_normal((40, 2))
    model = bgp.GPClassifier(Gaussian(1.0), hyper=None, random_state=1)
    assert not hasattr(pickle.loads(pickle.dumps(model)), "_idata")
    model.fit(inputs, inputs[:, 0] > 0)
    drawn = model.idata_["posterior"]["f"].values
    assert len(pickle.dumps(model)) < 0.5 * drawn.nbytes
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).idata_["posterior"]["f"].values, drawn)


def test_a_kernel_of_scikit_learn_is_told_from_ours_of_the_same_name():
    with pytest.raises(ValueError, match=r"kernel must be .*, got sklearn\.gaussian_process\.kernels\.RBF\."):
        bgp.GPClassifier(RBF(1.0)).fit([[0.0], [1.0]], [0, 1])
