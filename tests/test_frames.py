"""Tables of every kind through every door: the same numbers, labels of rows that come back, refusals in words."""

from __future__ import annotations

import sys

import arviz
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, group_names
from bayesgp_mf.diagnostics import class_scores, error_count
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.sharded import from_arrays
from bayesgp_mf.sklearn import GPClassifier, GPRegressor
from bayesgp_mf.streams import Stream
from tests.inputs.tables import KINDS, LABELS, NUMBERS, ROWS, TABLE, N

KERNEL = bgp.kernels.Gaussian(10.0, 4.0, columns=["age"]) + bgp.kernels.Categorical(columns="site")
PLAIN = bgp.kernels.Gaussian(10.0, 4.0)
QUICK = {"draws": 25, "chains": 2, "random_seed": 1}
NEW = TABLE.iloc[[5, 2, 9]]
ONES = pd.Series(np.ones(N), ROWS)
LACKING = NUMBERS.assign(visits=NUMBERS["visits"].where(NUMBERS.index != "woman 3"))


@pytest.fixture(scope="module", params=KINDS)
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def fits():
    """Return a fit with predictions for each kind of table; tests do not change them."""
    found = {}
    for kind, made in KINDS.items():
        idata = bgp.fit(made(TABLE), made(LABELS), KERNEL, weights=made(ONES + 1.0), **QUICK)
        found[kind] = bgp.predict(idata, made(NEW), random_seed=2)
    return found


def test_one_table_has_one_posterior_whatever_its_kind(fits, kind):
    reference, found = fits["pandas"], fits[kind]
    assert group_names(found) == group_names(reference)
    for name in group_names(found):
        ours, theirs = get_group(found, name), get_group(reference, name)
        assert list(ours) == list(theirs)
        for variable in theirs:
            assert ours[variable].values.tobytes() == theirs[variable].values.tobytes(), (name, variable)
    assert found["constant_data"]["feature"].values.tolist() == list(TABLE.columns)


def test_labels_of_rows_come_back(fits, kind):
    numbered = kind == "polars"  # which has no labels of rows
    own, new = (np.arange(N), np.arange(3)) if numbered else (ROWS, NEW.index)
    for group in set(group_names(fits[kind])) - {"sample_stats", "log_prior"}:
        expected = new if group.startswith("predictions") else own
        np.testing.assert_array_equal(fits[kind][group]["obs_id"].values, expected)
    estimate = bgp.loo(fits[kind])
    pointwise = estimate.loo_i if hasattr(estimate, "loo_i") else estimate.elpd_i  # before ArviZ 1, and from then on
    np.testing.assert_array_equal(pointwise["obs_id"], own)
    assert type(bgp.to_frame(fits[kind])) is type(KINDS[kind](TABLE))


def test_a_file_keeps_labels_and_kind(fits, tmp_path):
    fits["xarray"].to_netcdf(tmp_path / "fit.nc")
    loaded = arviz.from_netcdf(tmp_path / "fit.nc")
    xr.testing.assert_identical(bgp.to_frame(loaded), bgp.to_frame(fits["xarray"]))
    np.testing.assert_array_equal(bgp.to_frame(loaded, "fit")["obs_id"], ROWS)
    loaded.close()


def test_to_frame_is_a_table_of_the_users_kind(fits):
    there = bgp.to_frame(fits["pandas"])
    assert list(there.columns) == ["latent_mean", "latent_sd", "p"]
    np.testing.assert_array_equal(there.loc["woman 9", "p"], fits["pandas"]["predictions"]["p"].values[2])
    assert bgp.to_frame(fits["polars"])["obs_id"].to_list() == [0, 1, 2]
    assert bgp.to_frame(fits["polars"])["p"].to_list() == there["p"].to_list()
    pd.testing.assert_frame_equal(bgp.to_frame(fits["pyarrow"]).to_pandas(), there)
    assert bgp.to_frame(fits["xarray"])["p"].sel(obs_id="woman 9").item() == there.loc["woman 9", "p"]
    cases = bgp.to_frame(fits["pandas"], "fit")
    assert list(cases.index) == ROWS
    np.testing.assert_array_equal(cases["loo_i"], fits["pandas"]["fit"]["loo_i"])
    assert not set(cases.columns) & {"alpha", "site_variance"}
    pd.testing.assert_frame_equal(bgp.to_frame(fits["pandas"]["predictions"]), there)
    with pytest.raises(ValueError, match=r"got 'fit' with a group\. Leave it out"):
        bgp.to_frame(fits["pandas"]["predictions"], "fit")
    with pytest.raises(ValueError, match=r"this group has nothing about single cases, only \['log_p'"):
        bgp.to_frame(fits["pandas"]["sample_stats"])
    with pytest.raises(ValueError, match="group must be 'predictions' or 'fit', got 'posterior'"):
        bgp.to_frame(fits["pandas"], "posterior")


@pytest.mark.parametrize("kind", ["pandas", "polars"])
def test_diagnostics_and_figures_name_the_rows(fits, kind):
    idata, own = fits[kind], np.arange(N) if kind == "polars" else np.array(ROWS)
    found = bgp.diagnostics.agreement(idata, bgp.fit(TABLE.to_numpy()[:, :2], LABELS, PLAIN, **QUICK)).to_dataset()
    assert found.sizes["obs_id"] == N
    for each in (bgp.diagnostics.importance(idata).to_dataset(), found):
        np.testing.assert_array_equal(each["obs_id"], own)
    named = [text.get_text() for text in bgp.plots.plot_loo(idata, worst=1).texts]
    assert named == [str(own[np.argmin(idata["fit"]["loo_i"].values)])]
    backwards = bgp.fit(NUMBERS[::-1], LABELS[::-1], PLAIN, **QUICK)
    if kind != "polars":  # whose rows have no names to compare
        with pytest.raises(ValueError, match="other labels of cases, or the same in another order"):
            bgp.diagnostics.agreement(idata, backwards)


def test_to_frame_without_a_table_and_of_several_classes():
    codes = np.arange(N) % 3
    idata = bgp.fit(
        NUMBERS.to_numpy(), np.array(["a", "b", "c"])[codes], PLAIN, bgp.Softmax(), method="laplace", **QUICK
    )
    with pytest.raises(ValueError, match=r"no predictions in this container\. Make them"):
        bgp.to_frame(idata, "predictions")
    assert list(bgp.to_frame(idata)["latent_mean[b]"]) == idata["fit"]["latent_mean"].values[:, 1].tolist()
    bgp.predict(idata, pl.from_pandas(NUMBERS[:2]), draws=False)
    found = bgp.to_frame(idata)
    assert isinstance(found, pl.DataFrame)
    assert found.columns[-3:] == ["p[a]", "p[b]", "p[c]"]


FAR = pd.date_range("1500-01-01", periods=N, freq="s", unit="s")


@pytest.mark.parametrize(
    ("index", "labels"),
    [
        (pd.RangeIndex(N), range(N)),
        (pd.RangeIndex(5, 5 + N), range(5, 5 + N)),
        (pd.Index([1, 2] * 8), [1, 2] * 8),
        (pd.MultiIndex.from_product([["a", "b"], range(8)]), [f"{a}, {k}" for a in "ab" for k in range(8)]),
        (pd.date_range("2020-01-01", periods=N, tz="UTC"), [f"2020-01-{k:02} 00:00:00+00:00" for k in range(1, N + 1)]),
        (pd.date_range("2020-01-01", periods=N), pd.date_range("2020-01-01", periods=N).to_numpy()),
        (FAR, [f"1500-01-01 00:00:{k:02}" for k in range(N)]),
        (
            pd.Index(np.append(np.datetime64("2300-01-01", "s"), FAR[1:].to_numpy())),
            ["2300-01-01 00:00:00", *map(str, FAR[1:])],
        ),
    ],
    ids=["numbers", "range", "repeated", "levels", "zone", "dates", "long ago", "far"],
)
def test_an_index_of_any_kind_is_kept_as_a_file_can_hold_it(index, labels):
    found = bgp.fit(NUMBERS.set_axis(index), LABELS.to_numpy(), PLAIN, **QUICK)["fit"]["obs_id"].values
    np.testing.assert_array_equal(found, np.array(labels))
    assert found.dtype.kind in "iMU"


def test_a_file_with_dates_of_long_ago_can_be_read(tmp_path):
    bgp.fit(NUMBERS.set_axis(FAR), LABELS.to_numpy(), PLAIN, **QUICK).to_netcdf(tmp_path / "fit.nc")
    loaded = arviz.from_netcdf(tmp_path / "fit.nc")
    assert loaded["fit"]["obs_id"].values.tolist() == [str(date) for date in FAR]
    loaded.close()


@pytest.mark.parametrize("text", ["a\0b", "a\0", "\ud800"])
def test_text_that_no_file_can_hold_is_refused_at_the_fit(text, fits):
    index = pd.Index([text, *ROWS[1:]], dtype=object)
    rows, columns = NUMBERS.set_axis(index), NUMBERS.set_axis(pd.Index(["age", text], dtype=object), axis=1)
    with pytest.raises(ValueError, match=r"X has a row labelled '.*', and no file can hold that text.* Rename it"):
        bgp.fit(rows, LABELS.to_numpy(), PLAIN, **QUICK)
    with pytest.raises(ValueError, match="X_new has a row labelled"):
        bgp.predict(fits["pandas"], TABLE.set_axis(index))
    with pytest.raises(ValueError, match="X has a column named"):
        bgp.fit(columns, LABELS, PLAIN, **QUICK)
    with pytest.raises(ValueError, match="y has the label"):
        bgp.fit(NUMBERS, [text if label == "ill" else label for label in LABELS], PLAIN, **QUICK)


DATES = pd.date_range("2020-01-05", periods=N)


@pytest.mark.parametrize(
    ("index", "plain"),
    [
        (pd.array(range(5, 5 + N), dtype="Int64"), range(5, 5 + N)),
        (pd.array(range(5, 5 + N), dtype="int64[pyarrow]"), range(5, 5 + N)),
        (pd.array(np.arange(N) + 0.5, dtype="Float64"), np.arange(N) + 0.5),
        (pd.array(list(DATES), dtype="timestamp[us][pyarrow]"), DATES),
        (pd.array(list(DATES.tz_localize("UTC")), pd.ArrowDtype(pa.timestamp("us", "UTC"))), DATES.tz_localize("UTC")),
        (pd.array(ROWS, dtype="string[pyarrow]"), ROWS),
        (pd.CategoricalIndex(ROWS), ROWS),
    ],
    ids=["Int64", "int64[pyarrow]", "Float64", "pyarrow dates", "pyarrow zone", "pyarrow text", "categories"],
)
def test_labels_are_the_same_whatever_their_type(index, plain):
    """Also in what comes back, which joins the table that was given."""
    X, y = NUMBERS.set_axis(index), LABELS.set_axis(plain)
    idata = bgp.fit(X, y, PLAIN, **QUICK)
    reference = bgp.fit(NUMBERS.set_axis(plain), y, PLAIN, **QUICK)["fit"]["obs_id"].values
    np.testing.assert_array_equal(idata["fit"]["obs_id"].values, reference)
    assert idata["fit"]["obs_id"].dtype == reference.dtype
    with pytest.raises(ValueError, match="X and y have the same index in another order"):
        bgp.fit(X, y[::-1], PLAIN, **QUICK)
    if reference.dtype.kind in "iufM":
        assert not X.join(bgp.to_frame(idata, "fit")).isna().to_numpy().any()


def regression(**options):
    return bgp.fit(NUMBERS, TABLE["age"], PLAIN, Gaussian(1.0), **QUICK, **options)


def marginal(X, y, **options):
    pymc = pytest.importorskip("pymc")
    gp = bgp.pymc.Marginal(pymc.gp.cov.ExpQuad(2, ls=10.0))
    with pymc.Model() as model:
        gp.marginal_likelihood("y", X, y, dims="woman", **options)
    return gp, model


def latent(X, y):
    import pymc

    return bgp.pymc.latent_model(X, y, pymc.gp.cov.ExpQuad(2, ls=10.0))


FITS = {
    "fit": lambda X, y, **given: bgp.fit(X, y, PLAIN, **QUICK, **given),
    "Stream.update": lambda X, y, **given: Stream(PLAIN).update(X, y, **given),
    "sharded": lambda X, y: bgp.sharded.fit(from_arrays([(X, y)]), None, PLAIN, bgp.Probit(), inducing=3),
    "GPClassifier": lambda X, y, weights=None: GPClassifier(PLAIN, hyper=None).fit(X, y, weights),
    "partial_fit": lambda X, y: GPClassifier(PLAIN, hyper=None).partial_fit(X, y, ["ill", "well"]),
    "GPRegressor": lambda X, y: GPRegressor(PLAIN, hyper=None).fit(X, y == "well" if isinstance(y, pd.Series) else y),
    "Marginal": marginal,
    "latent_model": latent,
}


@pytest.mark.parametrize("door", FITS)
@pytest.mark.parametrize(
    ("X", "y", "said"),
    [
        (NUMBERS, LABELS[::-1], r"X and y have the same index in another order.* such as y\.loc\[X\.index\]"),
        (NUMBERS, LABELS.set_axis([*ROWS[1:], "else"]), "X and y are of different cases: only 15 of the 16"),
        (NUMBERS, LABELS.set_axis([f"man {k}" for k in range(N)]), "X and y are of different cases: only 0 of the 16"),
        (KINDS["xarray"](NUMBERS), KINDS["xarray"](LABELS[::-1]), "X and y have the same index in another order"),
        (KINDS["pyarrow"](NUMBERS), LABELS[::-1], "X and y have the same index in another order"),
        (NUMBERS.set_axis(["age", "age"], axis=1), LABELS, "X has two columns of one name"),
        (pa.table([NUMBERS["age"]] * 2, names=["age"] * 2), LABELS, "X has two columns of one name"),
        (TABLE[["age", "site"]], LABELS, "X must hold numbers, but column 'site' has entries such as"),
        (pl.from_pandas(TABLE[["age", "site"]]), LABELS, "X must hold numbers, but column 'site' has entries such as"),
    ],
    ids=["order", "shifted", "others", "xarray", "pyarrow", "twice", "pyarrow twice", "text", "polars text"],
)
def test_what_does_not_fit_together_is_refused_at_every_door(door, X, y, said):
    if door == "sharded":  # which says which part it is
        said = said.replace("X must", "X of part 0 must")
    with pytest.raises(ValueError, match=said):
        FITS[door](X, y)


@pytest.mark.parametrize("door", [door for door in FITS if door != "sharded"])  # which names part and row
@pytest.mark.parametrize("of", KINDS)
def test_what_is_missing_is_located_by_row_and_column(door, of):
    table = KINDS[of](LACKING)
    row = "3" if of == "polars" else "'woman 3'"
    with pytest.raises(ValueError, match=rf"X must be finite, but 1 of .*\(the first in row {row}, column 'visits'\)"):
        FITS[door](table, LABELS.to_numpy())


@pytest.mark.parametrize(
    ("door", "name"),
    [
        ("fit", "offset"),
        ("fit", "weights"),
        ("Stream.update", "offset"),
        ("Stream.update", "weights"),
        ("Marginal", "weights"),
        ("GPClassifier", "weights"),
    ],
)
def test_numbers_of_each_case_are_those_of_the_same_cases(door, name):
    said = f"X and {'sample_weight' if door == 'GPClassifier' else name} have the same index in another order"
    for of in ("pandas", "xarray"):
        with pytest.raises(ValueError, match=said):
            FITS[door](NUMBERS, LABELS, **{name: KINDS[of](ONES[::-1])})
    if door != "GPClassifier":  # scikit-learn has its own words
        with pytest.raises(ValueError, match=rf"{name} must be finite.* in row 'woman 4'\)"):
            FITS[door](NUMBERS, LABELS, **{name: ONES.where(ONES.index != "woman 4")})


@pytest.mark.parametrize(
    ("door", "name"),
    [
        ("fit", "offset"),
        ("fit", "weights"),
        ("Stream.update", "weights"),
        ("Marginal", "weights"),
        ("GPClassifier", "weights"),
    ],
)
@pytest.mark.parametrize("kind", ["array", "polars"])
def test_labels_that_only_what_is_beside_x_has_are_compared_too(door, name, kind):
    X = NUMBERS.to_numpy() if kind == "array" else pl.from_pandas(NUMBERS)
    said = f"y and {'sample_weight' if door == 'GPClassifier' else name} have the same index in another order"
    with pytest.raises(ValueError, match=said):
        FITS[door](X, LABELS, **{name: ONES[::-1]})


def test_what_is_said_of_new_cases_is_of_the_same_ones():
    counts = pd.Series(np.arange(N) % 3, ROWS)
    idata = bgp.fit(NUMBERS.to_numpy(), counts, PLAIN, bgp.Binomial(np.full(N, 4)), offset=ONES, **QUICK)
    with pytest.raises(ValueError, match=r"offset and trials .* another order.* trials\.loc\[offset\.index\]"):
        bgp.predict(idata, NUMBERS.to_numpy(), offset=ONES, trials=ONES[::-1])
    with pytest.raises(ValueError, match="y_new and trials have the same index in another order"):
        bgp.diagnostics.log_predictive_density(idata, NUMBERS.to_numpy(), counts, offset=ONES, trials=ONES[::-1])
    with pytest.raises(ValueError, match="offset and weights have the same index in another order"):
        bgp.fit(NUMBERS.to_numpy(), LABELS.to_numpy(), PLAIN, offset=ONES, weights=ONES[::-1], **QUICK)


@pytest.fixture(scope="module")
def fitted():
    """Return what predicts, by name: a function of new inputs."""
    pymc = pytest.importorskip("pymc")
    idata = bgp.fit(NUMBERS, LABELS, PLAIN, **QUICK)
    process = bgp.posterior(idata)
    several = bgp.posterior(bgp.fit(NUMBERS, LABELS, PLAIN, bgp.MultinomialProbit(), **QUICK))
    stream = Stream(PLAIN).update(NUMBERS, LABELS)
    gp, model = marginal(NUMBERS, LABELS)
    assert list(model.coords["woman"]) == ROWS

    def conditional(X):
        with model:
            return gp.conditional("f", X)

    assert list(latent(NUMBERS, LABELS).coords["obs_id"]) == ROWS
    drawn = arviz.from_dict({"posterior": {"z": np.zeros((1, 2))}}) if arviz.__version__ >= "1" else None
    if drawn is None:
        drawn = arviz.from_dict(posterior={"z": np.zeros((1, 2))})
    assert pymc
    return {
        "predict": lambda X: bgp.predict(idata, X, draws=False),
        "latent": process.latent,
        "predict_proba": process.predict_proba,
        "corrected": lambda X: process.predict_proba(X, corrected=True),
        "predictive": process.predictive,
        "density": lambda X: process.density(X, [0.0]),
        "draw_new": lambda X: process.draw_new(X, 2, np.random.default_rng(1)),
        "several classes": several.predict_proba,
        "Stream.latent": stream.latent,
        "Stream.predict_proba": stream.predict_proba,
        "Marginal.conditional": conditional,
        "Marginal.predict": lambda X: gp.predict(X, {}),
        "sample_latent": lambda X: bgp.pymc.sample_latent(drawn, gp, X),
        "Inducing": lambda X: bgp.fit(NUMBERS, LABELS, PLAIN, inducing=bgp.Inducing(inputs=X, number=len(X)), **QUICK),
        "inducing": lambda X: bgp.fit(NUMBERS, LABELS, PLAIN, inducing=X, **QUICK),
    }


@pytest.mark.parametrize(
    "wrong",
    [
        NUMBERS[["visits", "age"]],
        NUMBERS.rename(columns={"age": "Age"}),
        NUMBERS[["age"]],
        NUMBERS.assign(more=1.0),
        pl.from_pandas(NUMBERS[["visits", "age"]]),
        KINDS["pyarrow"](NUMBERS[["visits", "age"]]),
        KINDS["xarray"](NUMBERS[["visits", "age"]]),
    ],
    ids=["permuted", "renamed", "lacking", "more", "polars", "pyarrow", "xarray"],
)
def test_other_columns_are_refused_wherever_predictions_are_made(fitted, wrong):
    for door, ask in fitted.items():
        assert refusal(ask, wrong).startswith(
            "inducing has columns" if door.lower() == "inducing" else "X_new has columns"
        ), door


def test_repeated_columns_and_missing_entries_are_refused_wherever_predictions_are_made(fitted):
    for door, ask in fitted.items():
        name = "inducing" if door.lower() == "inducing" else "X_new"
        twice = refusal(ask, NUMBERS.set_axis(["age", "age"], axis=1))
        assert twice.startswith(f"{name} has two columns of one name"), door
        lacking = refusal(ask, LACKING)
        assert lacking.startswith(f"{name} must be finite, but 1 of"), door
        assert "(the first in row 'woman 3', column 'visits')" in lacking, door


def refusal(ask, X) -> str:
    """Return what is said of new inputs that are refused."""
    with pytest.raises(ValueError) as refused:
        ask(X)
    return str(refused.value)


def test_estimators_refuse_other_columns_too():
    model = GPClassifier(PLAIN, hyper=None).fit(NUMBERS, LABELS)
    for made in KINDS.values():
        for ask in (model.predict, model.predict_proba, model.sample_y):
            with pytest.raises(ValueError, match="feature names should match"):
                ask(made(NUMBERS[["visits", "age"]]))
    with pytest.raises(ValueError, match="X has two columns of one name"):
        model.predict(NUMBERS.set_axis(["age", "age"], axis=1))


def test_targets_and_a_gram_matrix_are_of_the_same_cases():
    gram = pd.DataFrame(PLAIN.gram(NUMBERS.to_numpy()), ROWS, ROWS)
    t = TABLE["age"] - 50.0
    alpha = bgp.solve(gram.to_numpy(), t.to_numpy(), Gaussian(1.0)).alpha
    np.testing.assert_array_equal(bgp.solve(gram, t, Gaussian(1.0)).alpha, alpha)
    np.testing.assert_array_equal(bgp.solve(pl.from_pandas(gram), pa.array(t), Gaussian(1.0)).alpha, alpha)
    with pytest.raises(ValueError, match="gram and t have the same index in another order"):
        bgp.solve(gram, t[::-1], Gaussian(1.0))
    p = pd.Series(np.full(N, 0.25), ROWS)
    for score in (error_count, lambda y, q: class_scores(y, np.column_stack([1 - q, q]), [0, 1]).errors):
        assert score(pl.from_pandas(LABELS == "well"), KINDS["xarray"](p)) == int((LABELS == "well").sum())
    for score in (error_count, lambda y, q: class_scores(y, pd.DataFrame({0: 1 - q, 1: q}), [0, 1])):
        with pytest.raises(ValueError, match="labels and probabilities have the same index in another order"):
            score(LABELS == "well", p[::-1])


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Softmax()], ids=["two", "softmax"])
def test_labels_have_the_order_of_their_categories_in_every_kind(likelihood):
    named = pd.Series(pd.Categorical(LABELS, ["well", "ill"], ordered=True))
    enum = pl.Series(LABELS.tolist(), dtype=pl.Enum(["well", "ill"]))
    for y in (named, enum, pa.array(named), pa.chunked_array([pa.array(named)])):
        idata = bgp.fit(NUMBERS, y, PLAIN, likelihood, **QUICK)
        assert idata["fit"].attrs["class_names"] == '["well", "ill"]'
    y = pl.Series(LABELS.tolist(), dtype=pl.Categorical)  # whose categories have no order but the alphabet's
    assert bgp.fit(NUMBERS, y, PLAIN, likelihood, **QUICK)["fit"].attrs["class_names"] == '["ill", "well"]'


@pytest.mark.parametrize("kind", ["pyarrow", "polars"])
def test_streams_parts_and_models_know_the_order_too(kind):
    named = pd.Series(pd.Categorical(LABELS, ["well", "ill"], ordered=True), ROWS)
    X, enum = KINDS[kind](NUMBERS), pl.Enum(["well", "ill"])
    y = KINDS[kind](named) if kind != "polars" else pl.Series(LABELS.tolist(), dtype=enum)
    assert Stream(PLAIN).update(X, y).classes == ("well", "ill")
    parts = from_arrays([(X, y), (X, y)])
    assert bgp.sharded.fit_stream(parts, None, PLAIN, bgp.Probit(), inducing=3).stream.classes == ("well", "ill")
    for model in (latent(X, y), marginal(X, y)[1]):
        np.testing.assert_array_equal(model.rvs_to_values[model["y"]].data, LABELS == "ill")


@pytest.mark.parametrize("kind", ["xarray", "polars"])
def test_draws_of_a_pymc_model_come_under_the_labels(kind):
    gp, _ = marginal(NUMBERS, LABELS)
    made = {"posterior": {"z": np.zeros((1, 2))}, "observed_data": {"y": np.zeros(N)}}
    drawn = arviz.from_dict(made) if arviz.__version__ >= "1" else arviz.from_dict(**made)
    idata = bgp.pymc.sample_latent(drawn, gp, KINDS[kind](NUMBERS[3:5]), random_seed=1)
    assert idata["predictions"]["obs_id"].values.tolist() == ([0, 1] if kind == "polars" else ROWS[3:5])
    assert idata["predictions_constant_data"]["feature"].values.tolist() == ["age", "visits"]
    assert idata["predictions"].attrs["table"] == kind


def dictionary(codes, texts, **options):
    return pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(texts), **options)


def test_dictionaries_that_pandas_does_not_take_are_read():
    """With a null among their entries, which is a missing one, or with one entry twice."""
    codes = np.arange(N) % 3
    repeated, plain = dictionary(codes, ["well", "well", "ill"]), np.array(["well", "well", "ill"])[codes]
    chunks = pa.chunked_array([repeated[:5], dictionary(codes[5:] % 2, ["well", "ill", None], ordered=False)])
    both = [*plain[:5], *np.array(["well", "ill"])[codes[5:] % 2]]
    for labels, same in ((repeated, plain), (chunks, both)):
        found = bgp.fit(NUMBERS, labels, PLAIN, **QUICK)["fit"]
        reference = bgp.fit(NUMBERS, pd.Categorical(same, ["well", "ill"]), PLAIN, **QUICK)["fit"]
        assert found.attrs["class_names"] == reference.attrs["class_names"] == '["well", "ill"]'
        np.testing.assert_array_equal(found["alpha"], reference["alpha"])
    with pytest.raises(ValueError, match=r"y must hold a label for every case, but 5 of 16 .* in row 1\)"):
        bgp.fit(NUMBERS, dictionary(codes, ["well", None, "ill"]), PLAIN, **QUICK)
    table = pa.Table.from_pandas(TABLE[["age", "site"]])  # with labels of rows
    lacking, twice = (table.set_column(1, "site", dictionary(codes, ["n", other, "s"])) for other in (None, "n"))
    with pytest.raises(
        ValueError,
        match=r"X must say a group .* 'site' lacks 5 of 16 \(the first in row 'woman 1'\).*\.fillna\('unknown'\)",
    ):
        bgp.fit(lacking, LABELS, KERNEL, **QUICK)
    np.testing.assert_array_equal(bgp.posterior(bgp.fit(twice, LABELS, KERNEL, **QUICK)).X[:, 1], codes == 2)


def test_ordered_levels_come_as_an_enum_too():
    y = pl.Series(LABELS.tolist(), dtype=pl.Enum(["ill", "so so", "well"]))
    idata = bgp.fit(NUMBERS, y, PLAIN, bgp.Ordinal([-1.0, 1.0]), **QUICK)
    assert set(idata["observed_data"]["y"].values.tolist()) == {0, 2}


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (pl.from_pandas(NUMBERS).lazy(), r"X is lazy.* Pass X\.collect\(\)"),
        (xr.Dataset({"a": (("i", "j"), np.ones((N, 2)))}), r"variables must all have one dimension.*got \{'a': \('i'"),
        (xr.Dataset({"a": ("i", np.ones(N)), "b": ("j", np.ones(N))}), "must all have one dimension"),
        (xr.Dataset(), "got no variables"),
        (pl.DataFrame(), "X is empty"),
        (pl.DataFrame({"born": pd.date_range("2020", periods=N)}), "X must hold real numbers, but column 'born' has"),
        (pl.DataFrame({"a": [None, *range(N - 1)]}), r"\(the first in row 0, column 'a'\)"),
        (pl.DataFrame({"a": [None, *[True] * (N - 1)]}), r"\(the first in row 0, column 'a'\)"),
    ],
    ids=["lazy", "matrix", "two", "nothing", "empty", "dates", "null", "null truth"],
)
def test_what_is_no_table_of_cases_is_refused(table, said):
    with pytest.raises(ValueError, match=said):
        bgp.fit(table, LABELS, PLAIN)


def test_a_data_array_is_an_array_with_labels():
    table = xr.DataArray(NUMBERS.to_numpy(), {"woman": ROWS, "what": ["age", "visits"]}, ("woman", "what"))
    idata = bgp.fit(table, LABELS, PLAIN, **QUICK)
    reference = bgp.fit(NUMBERS, LABELS, PLAIN, **QUICK)
    xr.testing.assert_identical(idata["posterior"]["f"], reference["posterior"]["f"])
    xr.testing.assert_identical(idata["constant_data"]["X"], reference["constant_data"]["X"])
    again = bgp.fit(bgp.fit(NUMBERS.to_numpy(), LABELS, PLAIN, **QUICK)["constant_data"]["X"], LABELS, PLAIN, **QUICK)
    assert again["constant_data"]["feature"].dtype.kind == "i"  # numbers are no names
    row = Stream(PLAIN).update(NUMBERS, LABELS)
    for one in (NUMBERS.iloc[2], table[2], KINDS["xarray"](NUMBERS).isel(woman=2), pl.from_pandas(NUMBERS)[2]):
        np.testing.assert_array_equal(row.latent(one), row.latent(NUMBERS.iloc[[2]]))


def test_without_narwhals_it_is_said_what_to_install(monkeypatch):
    table = pl.from_pandas(NUMBERS)
    monkeypatch.setitem(sys.modules, "narwhals.stable.v2", None)
    with pytest.raises(ImportError, match=r"X is of polars.*pip install 'bayesgp-mf\[frames\]'.*X\.to_pandas\(\)"):
        bgp.fit(table, LABELS, PLAIN)
    bgp.fit(NUMBERS, LABELS, PLAIN, **QUICK)  # pandas does without


@pytest.mark.parametrize("load", ["pima", "crabs", "sonar", "forensic_glass"])
def test_data_sets_as_frames_are_the_same_rows(load):
    loader = getattr(bgp.datasets, f"load_{load}")
    arrays, frames = loader(), loader(as_frame=True)
    for name in ("X", "X_test", "y", "y_test"):
        np.testing.assert_array_equal(getattr(frames, name), getattr(arrays, name))
    assert tuple(frames.X.columns) == arrays.feature_names
    assert sorted([*frames.y.index, *frames.y_test.index]) == list(range(len(arrays.y) + len(arrays.y_test)))
    assert frames.X.index.equals(frames.y.index)
    assert repr(frames).startswith(f"FrameDataset('{load}'")
    assert frames.arrays.class_names == arrays.class_names
    with pytest.raises(ValueError, match="as_frame must be True or False"):
        loader(as_frame="yes")
