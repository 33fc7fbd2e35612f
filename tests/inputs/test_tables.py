"""Inputs: what a table may hold, its columns, and whose rows they are."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import Integrate, LogNormal
from bayesgp_mf.inputs.tables import as_inputs
from bayesgp_mf.processes.several_classes import MulticlassPosterior
from tests.inputs.cases import FRAME, SOFTMAX, X, Y, quick

LETTERS = list("uv") * 6


def missing(dtype) -> pd.DataFrame:
    return pd.DataFrame({"height": X[:, 0], "weight": pd.Series([1, pd.NA] * 6, dtype=dtype)})


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (
            FRAME.assign(eyes=LETTERS),
            r"X must hold numbers, but column 'eyes' has entries such as 'u'\. In fit they may be",
        ),
        (FRAME.assign(eyes=pd.Categorical(LETTERS)), "column 'eyes' has entries such as 'u'"),
        (FRAME.assign(eyes=[*[1] * 11, "brown"]), "column 'eyes' has entries such as 'brown'"),
        (FRAME.assign(eyes=[pd.NA, *LETTERS[1:]]), "column 'eyes' has entries such as 'v'"),
        (np.array([[1.0, "u"]] * 12, dtype=object), "X must hold numbers, but column 1 has entries such as 'u'"),
        ([["1", "u"]] * 12, "X must hold numbers, but column 1 has entries such as 'u'"),
        (FRAME.assign(born=pd.date_range("2020", periods=12)), "X must hold real numbers, but column 'born' has dtype"),
        (FRAME.assign(z=1j * X[:, 0]), "X must hold real numbers, but column 'z' has dtype complex128"),
        (pd.DataFrame({"born": pd.date_range("2020", periods=12)}), "X must hold real numbers, but column 'born'"),
        (missing("Int64"), r"but 6 of its 24 .* in row 1, column 'weight'\)\. They are in 'weight'\. Drop or impute"),
        (missing(object), "X must be finite, but 6 of its 24 .* They are in 'weight'"),
        (np.array([[1, pd.NA]] * 12, dtype=object), r"X must be finite, but 12 of its 24 .* \(0, 1\)\)\. Drop"),
        (FRAME.where(X > 0), "They are in 'height', 'weight'"),
        (pd.DataFrame(np.full((2, 9), np.nan)), "They are in '0', '1', '2', '3', '4', ...[.] Drop"),
        (sparse.csr_matrix((20_000, 6_000)), r"X is sparse, of shape \(20000, 6000\).* more than 1e\+08.*TruncatedSVD"),
        ([[1.0, 2.0], [3.0]] * 6, "X must have one length for all rows, got rows with 1 to 2 entries"),
        ([np.zeros(1), np.zeros(2)], "X must have one length for all rows, got rows with 1 to 2 entries"),
        ([[10**400, 1.0]] * 12, "X must hold numbers, but column 0 has entries such as 10000"),
        (FRAME["height"], r"X must have two dimensions .*the one input of 12 cases, pass X\.to_frame\(\); if it is"),
        (
            X[:, 0],
            r"X must have two dimensions .*input of 12 cases, pass X\[:, None\]; if it is one case, X\[None, :\]",
        ),
        (X[:, 0].tolist(), r"X must have two dimensions .*pass np\.asarray\(X\)\[:, None\]; if it is one case"),
        (pd.Series(LETTERS), r"X must have two dimensions .*pass X\.to_frame\(\)"),
        (None, "X must have two dimensions"),
        ((row for row in X), "X must hold numbers"),
        ([np.zeros((2, 3)), np.zeros((2, 4))], "X must hold numbers"),
    ],
)
def test_what_is_no_table_of_numbers_is_named(table, message):
    with pytest.raises(ValueError, match=message):
        quick(X=table)


def test_what_reads_as_numbers_is_taken():
    for table in (
        FRAME.astype("Float64"),
        FRAME.astype(object),
        FRAME.astype("Float64").astype(object),
        sparse.csr_matrix(X).toarray(),
        pd.DataFrame.sparse.from_spmatrix(sparse.csr_matrix(X)),
        FRAME.map(repr),
        FRAME.map(repr).astype("category"),
        FRAME.astype("category"),
    ):
        np.testing.assert_array_equal(as_inputs("X", table), X)
    np.testing.assert_array_equal(as_inputs("X", pd.DataFrame({"a": [True, False], "b": [1, 2]})), [[1, 1], [0, 2]])


THREE = np.array(["low", "mid", "high"])[np.digitize(X[:, 0], [-0.5, 0.5])]


@pytest.fixture(
    scope="module",
    params=[
        {},
        {**SOFTMAX, "y": THREE},
        {"hyper": Integrate(starts=1, points=3), "fixed": {"variance"}, "priors": {"lengthscale": LogNormal(0.0, 0.3)}},
    ],
    ids=["single", "several classes", "mixture"],
)
def named(request):
    """Return a fit to a data frame."""
    idata = quick(X=FRAME, **request.param)
    assert (len(bgp.posterior(idata).parts) > 1) == ("hyper" in request.param)
    return idata


def verbs(process) -> list[str]:
    of_classes = ["latent_covariance"] if isinstance(process, MulticlassPosterior) else []
    drawn = [] if process.averaged else ["draw_new"]
    return ["latent_mean", "latent", "predict_proba", "predictive", *of_classes, *drawn]


def test_a_posterior_refuses_other_columns_in_the_words_of_predict(named, tmp_path):
    named.to_netcdf(tmp_path / "fit.nc")
    import arviz

    loaded = arviz.from_netcdf(tmp_path / "fit.nc")
    for idata in (named, loaded):
        process = bgp.posterior(idata)
        for other in (FRAME[["weight", "height"]], FRAME.rename(columns={"weight": "age"}), FRAME[["height"]]):
            with pytest.raises(ValueError, match=r"X_new has columns .* but the model was fitted to") as refusal:
                bgp.predict(idata, other)
            lacks = "weight" not in other
            what_to_do = "Pass these columns, such as X_new[['height', 'weight']] of pandas."
            assert str(refusal.value).endswith("It has no ['weight']." if lacks else what_to_do)
            for verb in verbs(process):
                with pytest.raises(ValueError, match="X_new has columns") as same:
                    ask(process, verb, other)
                assert str(same.value) == str(refusal.value)
        for verb in verbs(process):  # an array has no names to compare
            assert str(ask(process, verb, FRAME)) == str(ask(process, verb, X))
    loaded.close()


def ask(process, verb, X_new):
    return getattr(process, verb)(X_new, *((2, np.random.default_rng(0)) if verb == "draw_new" else ()))


def test_without_names_at_the_fit_any_are_taken():
    process = bgp.posterior(quick())
    np.testing.assert_array_equal(process.predict_proba(FRAME[["weight", "height"]]), process.predict_proba(X[:, ::-1]))
    with pytest.raises(ValueError, match="X_new has two columns of one name"):
        process.predict_proba(FRAME.set_axis(["a", "a"], axis=1))
    with pytest.raises(ValueError, match="X_new must hold numbers, but column 'weight'"):
        process.predict_proba(FRAME.assign(weight=LETTERS))
    np.testing.assert_array_equal(process.predict_proba(sparse.csr_matrix(X)), process.predict_proba(X))


def test_several_classes_know_the_names():
    result = bgp.posterior(quick(X=FRAME, y=THREE, likelihood=bgp.MultinomialProbit()))
    with pytest.raises(ValueError, match=r"X_new has columns .* but the model was fitted to"):
        result.predict_proba(FRAME[["weight", "height"]])


ROWS = [f"row{i}" for i in range(12)]
INDEXED, LABELS = FRAME.set_axis(ROWS), pd.Series(Y, index=ROWS)


@pytest.mark.parametrize(
    ("table", "y"),
    [
        (INDEXED, LABELS[::-1]),
        (INDEXED, pd.DataFrame({"state": LABELS})[::-1]),
        (FRAME, pd.Series(Y)[::-1]),
        (FRAME.sample(frac=1.0, random_state=1), pd.Series(Y)),
        (INDEXED.set_axis(range(5, 17)), LABELS.set_axis(range(16, 4, -1))),
    ],
    ids=["names", "frame", "numbers", "shuffled", "range"],
)
def test_rows_in_another_order_are_refused(table, y):
    aligned = r"X and y have the same index in another order.* Pass y in the order of X, such as y\.loc\[X\.index\] of"
    with pytest.raises(ValueError, match=aligned):
        quick(X=table, y=y)
    if isinstance(y, pd.Series):
        idata, reference = quick(X=table, y=y.loc[table.index]), quick(X=table, y=y.loc[table.index].to_numpy())
        np.testing.assert_array_equal(idata["observed_data"]["y"], reference["observed_data"]["y"])
        quick(X=table, y=y.to_numpy())  # so it is said that the order is meant


def test_rows_of_other_cases_are_refused():
    y = LABELS.set_axis([*ROWS[2:], "row12", "row13"])
    with pytest.raises(ValueError, match=r"different cases: only 10 of the 12 .*X\.index\.intersection\(y\.index\)"):
        quick(X=INDEXED, y=y)
    both = INDEXED.index.intersection(y.index)
    assert quick(X=INDEXED.loc[both], y=y.loc[both])["observed_data"].sizes["obs_id"] == 10
    for other in ([f"label{i}" for i in range(12)], pd.MultiIndex.from_product([ROWS[:3], range(4)])):
        with pytest.raises(ValueError, match=r"different cases: only 0 of the 12 .* Pass y\.to_numpy\(\) if"):
            quick(X=INDEXED, y=LABELS.set_axis(other))
    repeated = LABELS.set_axis([*ROWS[:11], "row0"])
    with pytest.raises(ValueError, match=r"different cases: only 11 of the 12"):
        quick(X=INDEXED, y=repeated)
    twice = [*ROWS[:6]] * 2
    with pytest.raises(ValueError, match=r"in another order.* Pass y\.to_numpy\(\)"):  # y.loc would have 24 rows
        quick(X=INDEXED.set_axis(twice), y=LABELS.set_axis(twice[::-1]))


@pytest.mark.parametrize("start", [0, 1, 40])
@pytest.mark.parametrize("apart", [1, -1])
def test_slices_that_are_a_row_apart_are_refused(start, apart):
    """Also where the first begins at 0, as if it had been numbered afresh."""
    frame = INDEXED.set_axis(range(start, start + 12))
    with pytest.raises(ValueError, match=r"only 11 of the 12 .*y\.to_numpy\(\) if the rows belong together"):
        quick(X=frame, y=pd.Series(Y).set_axis(range(start + apart, start + apart + 12)))
    with pytest.raises(ValueError, match="only 11 of the 12"):
        quick(X=frame, y=pd.Series(Y).set_axis(np.arange(start + apart, start + apart + 12)))
    shuffled = pd.Series(Y).set_axis(np.random.default_rng(1).permutation(13)[:12])
    if start == 0:  # a random part of a table, and inputs that were numbered afresh
        quick(X=frame, y=shuffled)


def test_an_index_that_does_not_say_whose_rows_these_are_is_no_reason():
    reference = quick()["fit"]["alpha"].values
    for table, y in (
        (INDEXED, LABELS),
        (INDEXED, Y),
        (INDEXED, list(Y)),
        (INDEXED, pd.Series(Y)),  # numbered afresh
        (INDEXED.set_axis(range(4, 16)), pd.Series(Y)),
        (INDEXED.set_axis(range(4, 16)), pd.Series(Y, index=np.arange(12))),
        (X, LABELS),
    ):
        np.testing.assert_array_equal(quick(X=table, y=y)["fit"]["alpha"], reference)
    with pytest.raises(ValueError, match=r"y must have shape \(12,\)"):
        quick(X=INDEXED, y=LABELS[:5])


@pytest.mark.parametrize("kind", [np.int64, np.uint64, object, "Int64"])
def test_whole_numbers_that_double_precision_would_merge_are_refused(kind):
    ids = pd.DataFrame({"clinic": pd.Series(2**60 + np.arange(6) % 3).astype(kind)})
    with pytest.raises(ValueError, match=r"X holds the whole number 1152921504606846977.* Pass names as text"):
        bgp.fit(ids, Y[:6], bgp.kernels.Categorical(columns="clinic"))
    even = (2**60 + 1024 * np.arange(6)).astype(float)  # each of which is a number
    assert np.unique(bgp.posterior(bgp.fit(even[:, None], Y[:6], bgp.kernels.Categorical())).X).size == 6


@pytest.mark.parametrize("made", [sparse.csr_matrix, sparse.coo_array], ids=["matrix", "array"])
def test_sparse_inputs_are_those_of_the_array(made):
    dense, found = quick(), quick(X=made(X))
    np.testing.assert_array_equal(get_group(found, "fit")["alpha"].values, get_group(dense, "fit")["alpha"].values)
    p = [get_group(bgp.predict(each, made(X), draws=False), "predictions")["p"].values for each in (dense, found)]
    np.testing.assert_array_equal(*p)
    assert list(bgp.to_frame(found)["p"]) == p[0].tolist()
    stream, other = (bgp.Stream(bgp.kernels.Gaussian(), random_seed=1) for _ in range(2))
    y = np.arange(len(X)) % 2
    said = stream.update(made(X), y, progress=False).predict_proba(made(X))
    np.testing.assert_array_equal(said, other.update(X, y, progress=False).predict_proba(X))


def test_what_fills_missing_values_is_named():
    for X_missing in (np.where(X.max() == X, np.nan, X), FRAME.where(FRAME.max() > FRAME)):
        with pytest.raises(ValueError, match=r"NaN.*Drop or impute those cases: scikit-learn's SimpleImputer"):
            quick(X=X_missing)
