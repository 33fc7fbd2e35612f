"""Estimators and data frames: columns of text, labels of rows, targets that cannot be normalised."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import polars as pl
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

import bayesgp_mf as bgp
from bayesgp_mf.sklearn import GPClassifier, GPRegressor
from tests.inputs.tables import KINDS, LABELS, NUMBERS, ROWS, TABLE, N

KERNEL = bgp.kernels.Gaussian(10.0, 4.0, columns=["age"]) + bgp.kernels.Categorical(columns="site")
MIXED = TABLE[["age", "site"]]
NEW = pd.DataFrame({"age": [40.0, 60.0, 60.0], "site": ["west", "south", "elsewhere"]})
THREE = np.array(["a", "b", "c"])[np.arange(N) % 3]


def quick(**options):
    return GPClassifier(KERNEL, hyper=None, random_state=1, draws=10, **options)


@pytest.fixture(scope="module")
def probabilities():
    idata = bgp.fit(MIXED, LABELS, KERNEL, draws=2, chains=1, random_seed=1)
    return bgp.posterior(idata).predict_proba(NEW)


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_text_are_groups_as_in_fit(kind, probabilities):
    made = KINDS[kind]
    model = quick().fit(made(MIXED), made(LABELS))
    np.testing.assert_array_equal(model.predict_proba(made(NEW))[:, 1], probabilities)
    assert model.predict(made(NEW)).tolist() == np.where(probabilities > 0.5, "well", "ill").tolist()
    assert model.sample_y(made(NEW), 3).shape == (3, 3)
    assert model.feature_names_in_.tolist() == ["age", "site"]
    assert model.n_features_in_ == 2
    assert model.idata_["posterior"]["obs_id"].values.tolist() == (list(range(N)) if kind == "polars" else ROWS)
    with pytest.raises(ValueError, match=r"X_new has columns \['site', 'age'\]"):
        model.predict(made(NEW[["site", "age"]]))
    with pytest.raises(ValueError, match="X_new has numbers in column 'site', which told groups"):
        model.predict(made(NEW.assign(site=[1.0, 2.0, 3.0])))


@pytest.mark.parametrize(
    "made", [pd.DataFrame.to_numpy, lambda table: table.to_numpy().tolist()], ids=["array", "list"]
)
def test_arrays_that_hold_text_are_taken_as_in_predict(made, probabilities):
    by_place = bgp.kernels.Gaussian(10.0, 4.0, columns=[0]) + bgp.kernels.Categorical(columns=1)
    alone = clone(quick()).set_params(kernel=by_place).fit(made(MIXED), LABELS, np.ones(N))
    np.testing.assert_array_equal(alone.predict_proba(made(NEW))[:, 1], probabilities)
    with pytest.warns(UserWarning, match="valid feature names"):  # scikit-learn's, of any array after a table
        found = quick().fit(MIXED, LABELS).predict_proba(made(NEW))
    np.testing.assert_array_equal(found[:, 1], probabilities)
    with pytest.raises(ValueError, match="column 1 has entries such as 'west'"):
        GPClassifier(bgp.kernels.Gaussian(), hyper=None).fit(NUMBERS.to_numpy(), LABELS).predict_proba(made(NEW))
    with pytest.raises(ValueError, match=r"^X_new must (have two dimensions|hold numbers)"):
        alone.predict(made(NEW)[0])


def test_several_classes_and_an_average_know_the_groups():
    for model in (
        quick(),
        quick(method="laplace"),
        GPClassifier(
            KERNEL,
            hyper=bgp.hyper.Integrate(starts=1, points=3),
            fixed=["gaussian_variance", "categorical_variance"],
            random_state=1,
        ),
    ):
        y = LABELS if model.hyper is not None else THREE
        found = clone(model).fit(MIXED, y).predict_proba(NEW)
        np.testing.assert_allclose(found.sum(axis=1), 1.0)
        assert not np.allclose(found[1], found[2])  # south, and a site that is new


def test_a_regressor_reads_groups_and_weights_leave_cases_out():
    y = TABLE["age"] + 5.0 * (TABLE["site"] == "south")
    model = GPRegressor(KERNEL, bgp.likelihoods.Gaussian(1.0), hyper=None)
    some = np.arange(N) % 4 > 0
    weighed = clone(model).fit(MIXED, y, pd.Series(some.astype(float), ROWS))
    np.testing.assert_array_equal(weighed.predict(NEW), clone(model).fit(MIXED[some], y[some]).predict(NEW))
    assert weighed.idata_["fit"]["obs_id"].values.tolist() == MIXED.index[some].tolist()
    _, covariance = weighed.predict(NEW, return_cov=True)
    np.testing.assert_allclose(np.sqrt(np.diag(covariance)), weighed.predict(NEW, return_std=True)[1])


@pytest.mark.parametrize(
    "labels",
    [
        LABELS.astype(object).where(LABELS.index != ROWS[3], None),
        LABELS.astype("string").where(LABELS.index != ROWS[3]),
        pl.Series([None if k == 3 else label for k, label in enumerate(LABELS)]),
        [None if k == 3 else label for k, label in enumerate(LABELS)],
        np.ma.MaskedArray((LABELS == "ill").to_numpy(), np.arange(N) == 3),
    ],
    ids=["object", "string", "polars", "list", "masked"],
)
def test_the_row_of_a_label_that_is_missing_is_named(labels):
    where = f"in row '{ROWS[3]}'" if isinstance(labels, pd.Series) else r"(at index|in row) 3"
    for learn in (quick().fit, lambda X, y: quick().partial_fit(X, y, classes=["ill", "well"])):
        with pytest.raises(ValueError, match=rf"y must hold a label for every case, but 1 of {N}.*first {where}"):
            learn(NUMBERS, labels)


def test_classes_are_sorted_whatever_the_order_of_categories(probabilities):
    backwards = pd.Series(pd.Categorical(LABELS, ["well", "ill"], ordered=True), ROWS)
    model = quick().fit(MIXED, backwards)
    assert model.classes_.tolist() == ["ill", "well"]
    assert json.loads(model.idata_["fit"].attrs["class_names"]) == ["ill", "well"]
    np.testing.assert_array_equal(model.predict_proba(NEW)[:, 1], probabilities)


@pytest.mark.parametrize("kind", KINDS)
def test_dates_are_no_targets_of_a_regressor(kind):
    y = pd.Series(pd.date_range("2020-01-01", periods=N), index=ROWS)
    for given in (y, y - y.iloc[0]):
        model = GPRegressor(bgp.kernels.Gaussian(10.0), hyper=None)
        for learn in (model.fit, model.partial_fit):
            with pytest.raises(ValueError, match=r"y must hold real numbers, got dtype (date|timedelta)"):
                learn(KINDS[kind](NUMBERS), KINDS[kind](given))


def test_text_goes_through_pipelines_and_searches():
    columns = make_column_transformer(
        (StandardScaler(), ["age"]), remainder="passthrough", verbose_feature_names_out=False
    )
    kernel = bgp.kernels.Gaussian(1.0, columns="age") + bgp.kernels.Categorical(columns="site")
    model = make_pipeline(columns.set_output(transform="pandas"), GPClassifier(kernel, hyper=None))
    assert np.all(np.isfinite(cross_val_score(model, MIXED, LABELS, cv=2, scoring="neg_log_loss", error_score="raise")))


@pytest.mark.parametrize("kernel", [bgp.kernels.Gaussian(1.0), bgp.kernels.Gaussian(1.0) + KERNEL])
@pytest.mark.parametrize("kind", KINDS)
def test_text_that_no_kernel_reads_as_groups_is_named(kernel, kind):
    with pytest.raises(ValueError, match=r"X must hold numbers.* column 'site'"):
        GPClassifier(kernel, hyper=None).fit(KINDS[kind](MIXED), LABELS)


def test_batches_hold_numbers():
    with pytest.raises(ValueError, match=r"partial_fit takes numbers, and X has text such as .* bgp\.Stream"):
        quick().partial_fit(MIXED, LABELS, classes=["ill", "well"])
    model = quick().fit(MIXED, LABELS)
    codes = MIXED.assign(site=pd.Categorical(MIXED["site"]).codes)
    for batch in (MIXED, codes):  # numbers need not be the codes that text got
        with pytest.raises(ValueError, match=r"partial_fit takes numbers.* at the fit text such as"):
            model.partial_fit(batch, LABELS)
    assert quick().fit(codes, LABELS).partial_fit(codes, LABELS).posterior_.n_seen == 2 * N


def test_labels_of_rows_reach_the_container():
    model = GPClassifier(bgp.kernels.Gaussian(10.0), hyper=None, draws=5).fit(NUMBERS, LABELS)
    assert list(bgp.to_frame(model.idata_).index) == ROWS
    assert model.idata_["posterior"]["obs_id"].values.tolist() == ROWS


@pytest.mark.parametrize("likelihood", [bgp.Poisson(), bgp.NegativeBinomial(2.0), bgp.Ordinal([1.5, 4.5])])
def test_counts_are_not_normalised_and_the_option_is_named(likelihood):
    y = TABLE["visits"] if not isinstance(likelihood, bgp.Ordinal) else TABLE["visits"] // 3
    model = GPRegressor(bgp.kernels.Gaussian(10.0), likelihood, normalize_y=True, hyper=None)
    with pytest.raises(ValueError, match=r"normalize_y=True subtracts.* Leave normalize_y out"):
        model.fit(NUMBERS, y)
    model.set_params(normalize_y=None).fit(NUMBERS, y)
    with pytest.raises(ValueError, match=r"^y must") as refused:  # what is no count has nothing to do with it
        model.set_params(normalize_y=True).fit(NUMBERS, y - 0.5)
    assert "normalize_y" not in str(refused.value)


def test_names_of_columns_of_text_go_through_a_pipeline():
    table = MIXED.assign(age=MIXED["age"].where(np.arange(N) % 5 > 0))
    columns = make_column_transformer(
        (SimpleImputer(), ["age"]), remainder="passthrough", verbose_feature_names_out=False
    )
    model = make_pipeline(columns, GPClassifier(KERNEL, hyper=None)).set_output(transform="pandas").fit(table, LABELS)
    assert model[:-1].get_feature_names_out().tolist() == model[-1].feature_names_in_.tolist() == ["age", "site"]
    assert np.all(np.isfinite(model.predict_proba(table)))
    for given in (table[["age"]].to_numpy(), table[["age"]]):
        with pytest.raises(ValueError, match=r"X must be finite.*NaN.*SimpleImputer in a make_pipeline"):
            GPClassifier(bgp.kernels.Gaussian(), hyper=None).fit(given, LABELS)
    words = make_column_transformer((OneHotEncoder(), ["site"]), sparse_threshold=1.0)
    assert sparse.issparse(words.fit_transform(table))
    linear = GPClassifier(bgp.kernels.Linear() + 1.0, hyper=None)
    p = [
        make_pipeline(each, linear).fit(table, LABELS).predict_proba(table)
        for each in (words, clone(words).set_params(sparse_threshold=0.0))
    ]
    np.testing.assert_array_equal(*p)


def test_parameters_of_a_likelihood_are_searched_by_name():
    x = np.linspace(-2.0, 2.0, 40)[:, None]
    y = (x[:, 0] > 0).astype(int)
    kernel = bgp.kernels.Gaussian(1.0)
    grid = {"likelihood__flip": [0.3, 0.01]}
    search = GridSearchCV(GPClassifier(kernel, bgp.Probit(flip=0.3), hyper=None), grid, cv=2, scoring="neg_log_loss")
    assert search.fit(x, y).best_estimator_.likelihood == bgp.Probit(flip=0.01)
    given = bgp.StudentT(2.0, 4.0)
    model = GPRegressor(kernel, given)
    assert model.get_params()["likelihood__scale"] == 2.0
    assert model.set_params(likelihood__scale=3.0, kernel__variance=2.0).likelihood == bgp.StudentT(3.0, 4.0)
    assert given == bgp.StudentT(2.0, 4.0)
    assert clone(model).likelihood is model.likelihood
    with pytest.raises(ValueError, match=r"StudentT has no parameters \['flip'\]; it has \['scale', 'df'\]"):
        model.set_params(likelihood__flip=0.1)
    for likelihood, shown in (("probit", "'probit'"), (bgp.Probit, "<class")):
        with pytest.raises(
            ValueError, match=rf"likelihood__flip is a parameter of a likelihood .* likelihood is {shown}"
        ):
            GPClassifier(likelihood=likelihood).set_params(likelihood__flip=0.1)
    levels = GPRegressor(kernel, bgp.Ordinal([0.0, 1.0]))
    assert levels.set_params(likelihood__gap1=2.0).likelihood == bgp.Ordinal([0.0, 2.0])
    for name, value, message in (
        ("nope", 1, "Ordinal has no parameters"),
        ("gap1", "a", "gap1 must be a finite number"),
    ):
        with pytest.raises(ValueError, match=message):
            levels.set_params(**{f"likelihood__{name}": value})
