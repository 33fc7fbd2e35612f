"""What estimators are put into: pipelines, searches, calibration, plots, other processes."""

from __future__ import annotations

import pickle

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
import sklearn
from joblib import parallel_config
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.gaussian_process import GaussianProcessClassifier
from sklearn.gaussian_process.kernels import RBF
from sklearn.inspection import PartialDependenceDisplay, permutation_importance
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Bias, Gaussian

GPClassifier, GPRegressor = bgp.sklearn.GPClassifier, bgp.sklearn.GPRegressor


@pytest.fixture(scope="module")
def mixed():
    """A table of numbers and words, and labels that depend on both."""
    rng = np.random.default_rng(1)
    table = pd.DataFrame(
        {
            "age": rng.normal(50.0, 10.0, 60),
            "dose": rng.lognormal(size=60),
            "site": rng.choice(["north", "south", "west"], 60),
        },
        index=[f"patient {i}" for i in range(60)],
    )
    score = (table["age"] - 50.0) / 10.0 + 2.0 * (table["site"] == "south")
    return table, pd.Series(np.where(score > 0.5, "yes", "no"), index=table.index)


def pipeline(model):
    columns = ColumnTransformer(
        [("numbers", StandardScaler(), ["age", "dose"]), ("words", OneHotEncoder(sparse_output=False), ["site"])]
    )
    return make_pipeline(columns, model)


def test_a_pipeline_on_a_mixed_table_is_searched_over_the_kernel(mixed):
    grid = {"gpclassifier__kernel__lengthscale": [0.1, 2.0]}
    model = pipeline(GPClassifier(Gaussian(1.0, 4.0), hyper=None))
    search = GridSearchCV(model, grid, cv=3, scoring="neg_log_loss").fit(*mixed)
    assert search.best_params_ == {"gpclassifier__kernel__lengthscale": 2.0}
    best = search.best_estimator_[-1]
    assert best.kernel == best.kernel_ == Gaussian(2.0, 4.0)
    assert model[-1].kernel == Gaussian(1.0, 4.0)  # that which was given stays as it is
    assert search.cv_results_["mean_test_score"][0] < search.best_score_ - 0.1  # there hardly anything is learnt
    assert search.best_score_ > -0.45
    assert list(search.classes_) == ["no", "yes"]


def test_folds_side_by_side_have_the_same_scores(mixed):
    model = pipeline(GPClassifier(random_state=1))
    here = cross_val_score(model, *mixed, cv=3, scoring="neg_log_loss")
    with parallel_config(backend="threading"):  # processes take ten seconds to begin; a file is what they exchange
        there = cross_val_score(model, *mixed, cv=3, n_jobs=2, scoring="neg_log_loss")
    np.testing.assert_array_equal(here, there)
    assert here.mean() > -0.45


def test_names_of_columns_reach_the_kernel(mixed):
    model = pipeline(GPClassifier(Gaussian(1.0, 4.0, columns=["numbers__age"]), hyper=None))
    model.set_output(transform="pandas").fit(*mixed)
    assert list(model[-1].feature_names_in_[:2]) == ["numbers__age", "numbers__dose"]
    assert list(model[-1].idata_["constant_data"]["feature"].values[:2]) == ["numbers__age", "numbers__dose"]
    other = mixed[0].assign(dose=1.0, site="north")
    np.testing.assert_allclose(model.predict_proba(other), model.predict_proba(mixed[0]), rtol=1e-12)
    with pytest.raises(ValueError, match="numbers__age"):
        GPClassifier(Gaussian(columns=["numbers__age"]), hyper=None).fit(np.eye(4), [0, 0, 1, 1])


@pytest.mark.parametrize(
    "model",
    [
        GPClassifier(random_state=1),
        GPClassifier(method="laplace", hyper=None),
        GPRegressor(random_state=1),
    ],
    ids=["multinomial probit", "softmax", "regressor"],
)
def test_a_copy_and_a_file_predict_the_same(model):
    rng = np.random.default_rng(2)
    X = rng.standard_normal((24, 2))
    y = np.argmax(X @ rng.standard_normal((2, 3)), axis=1)
    fitted = clone(model).fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    twice = clone(fitted).fit(X, y)
    ask = "predict" if isinstance(model, GPRegressor) else "predict_proba"
    for other in (again, twice):
        np.testing.assert_array_equal(getattr(other, ask)(X), getattr(fitted, ask)(X))
    assert not hasattr(clone(fitted), "posterior_")


def test_a_copy_has_the_kernel_itself_since_nothing_changes_it():
    kernel = Gaussian([1.0, 2.0]) + Bias()
    assert clone(kernel) is kernel
    model = clone(GPClassifier(kernel))
    assert model.kernel is kernel
    model.set_params(kernel__gaussian__lengthscale=3.0, budget=20)
    assert model.kernel == Gaussian(3.0) + Bias()
    assert model.budget == 20
    assert model.get_params()["kernel__gaussian__lengthscale"] == 3.0
    assert kernel == Gaussian([1.0, 2.0]) + Bias()
    with pytest.raises(ValueError, match="kernel__lengthscale is a parameter of a kernel"):
        GPClassifier().set_params(kernel__lengthscale=2.0)
    with pytest.raises(ValueError, match="unknown parameter 'length'"):
        model.set_params(kernel__length=2.0)
    with pytest.raises(ValueError, match="Invalid parameter 'kernels'"):
        model.set_params(kernels=kernel)


def test_importance_calibration_and_dependence(mixed):
    table, y = mixed
    model = pipeline(GPClassifier(hyper=None)).fit(table, y)
    importance = permutation_importance(model, table, y, n_repeats=3, random_state=1, scoring="neg_log_loss")
    assert importance.importances_mean[1] < importance.importances_mean[[0, 2]].min()  # the dose means nothing
    calibrated = CalibratedClassifierCV(model, cv=2).fit(table, y)
    np.testing.assert_allclose(calibrated.predict_proba(table).sum(axis=1), 1.0)
    assert calibrated.score(table, y) > 0.8
    with mpl.rc_context({"backend": "agg"}):
        shown = PartialDependenceDisplay.from_estimator(model, table, ["age"], grid_resolution=4)
    (line,) = shown.lines_.ravel()
    assert np.all(np.diff(line.get_ydata()) > 0)
    mpl.pyplot.close(shown.figure_)


def test_weights_are_routed_where_they_are_asked_for():
    X = np.linspace(-1.0, 1.0, 12)[:, None]
    y, weights = np.sin(3.0 * X[:, 0]), np.where(np.arange(12) < 3, 0.0, 1.0)
    model = GPRegressor(Gaussian(1.0), bgp.likelihoods.Gaussian(0.1), hyper=None)
    with sklearn.config_context(enable_metadata_routing=True):
        outer = TransformedTargetRegressor(model.set_fit_request(sample_weight=True))
        routed = make_pipeline(outer).fit(X, y, sample_weight=weights).predict(X)
    np.testing.assert_allclose(routed, model.fit(X[3:], y[3:]).predict(X), rtol=1e-10)
    assert np.abs(routed - model.fit(X, y).predict(X)).max() > 0.01


def test_a_notebook_shows_an_estimator_before_and_after_its_fit():
    X, y = np.linspace(-1.0, 1.0, 9)[:, None], np.arange(9) % 3
    for model in (GPClassifier(Gaussian(1.0), hyper=None), GPRegressor(draws=2, hyper=None)):
        assert "Gaussian" in repr(model) or "draws=2" in repr(model)
        assert "<div" in model._repr_html_()
        assert "<div" in model.fit(X, y)._repr_html_()


@pytest.mark.parametrize(
    ("model", "grid"),
    [
        (GPClassifier(Gaussian(1.0), hyper=None), {"kernel__lengthscale": [0.5, 2.0]}),
        (GaussianProcessClassifier(RBF(1.0), optimizer=None), {"kernel__length_scale": [0.5, 2.0]}),
    ],
    ids=["ours", "theirs"],
)
def test_a_script_is_that_of_scikit_learns_own_estimator(mixed, model, grid):
    table, y = mixed
    numbers, words = ("numbers", StandardScaler(), ["age", "dose"]), ("words", OneHotEncoder(), ["site"])
    columns = ColumnTransformer([numbers, words], sparse_threshold=0)
    search = GridSearchCV(make_pipeline(columns, GridSearchCV(model, grid, cv=2)), {}, cv=2).fit(table, y)
    assert search.score(table, y) > 0.8
    assert cross_val_score(make_pipeline(columns, model), table, y, cv=2).mean() > 0.6
