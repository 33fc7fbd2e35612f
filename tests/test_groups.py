"""Groups that are told by text: from a data frame through `fit` to predictions, in another process too."""

from __future__ import annotations

import json

import arviz as az
import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.inputs.groups import as_inputs_of
from bayesgp_mf.kernels import Bias, Categorical, Gaussian, Linear, PerClass, from_dict
from bayesgp_mf.sklearn import GPClassifier
from tests.reference import groups

RNG = np.random.default_rng(8)
FRAME = pd.DataFrame({"clinic": RNG.choice(["north", "east", "1"], 45), "dose": RNG.standard_normal(45)})
Y = FRAME["dose"] + (FRAME["clinic"] == "east") + 0.5 * RNG.standard_normal(45) > 0.3
KERNEL = Categorical(2.0, columns="clinic") + Linear(columns="dose") * Categorical(columns="clinic")
NEW = pd.DataFrame({"clinic": ["east", "south", "west", "south"], "dose": [0.0, 0.0, 0.0, 0.0]})


def fitted(frame=FRAME, kernel=KERNEL, **options):
    return bgp.fit(frame, Y, kernel, **{"draws": 500, "random_seed": 1, "progress": False, **options})


def predicted(idata, new=NEW):
    return get_group(bgp.predict(idata, new, random_seed=2), "predictions")


IDATA = fitted()


@pytest.mark.parametrize("kind", ["codes", "categorical", "objects", "array"])
def test_text_is_what_codes_would_be(kind):
    """The same predictions, however the groups are written, and whatever their order."""
    order = ["north", "1", "unused", "east", "south", "west"]
    if kind == "array":
        frame, new, kernel = FRAME.to_numpy(dtype=object), NEW.to_numpy(dtype=object), KERNEL
        kernel = KERNEL.with_column_names(["clinic", "dose"])
    elif kind == "objects":
        frame, new, kernel = FRAME.astype({"clinic": object}), NEW.astype({"clinic": object}), KERNEL
    elif kind == "codes":
        frame, new = (table.assign(clinic=[7.0 * order.index(c) for c in table["clinic"]]) for table in (FRAME, NEW))
        kernel = KERNEL
    else:
        frame, new = (table.assign(clinic=pd.Categorical(table["clinic"], order)) for table in (FRAME, NEW))
        kernel = KERNEL
    other, here = predicted(fitted(frame, kernel), new), predicted(IDATA)
    np.testing.assert_allclose(other["p"].values, here["p"].values, atol=1e-9)
    np.testing.assert_allclose(other["latent_sd"].values, here["latent_sd"].values, atol=1e-9)
    exchanged = predicted(IDATA, NEW.assign(clinic=["north", "south", "west", "south"]))["p"].values
    assert abs(exchanged[0] - here["p"].values[0]) > 0.1


def test_groups_that_are_new_come_from_the_prior_and_are_independent():
    said = predicted(IDATA)
    np.testing.assert_allclose(said["latent_mean"].values[1:], 0.0, atol=1e-12)
    np.testing.assert_allclose(said["latent_sd"].values[1:] ** 2, 2.0, rtol=1e-12)
    f = said["f"].values.reshape(-1, 4)
    np.testing.assert_allclose(f[:, 1], f[:, 3], atol=1e-6)  # of one group
    correlation = np.corrcoef(f.T)
    assert np.abs(correlation[[0, 0, 1], [1, 2, 2]]).max() < 5.0 / np.sqrt(len(f))
    # and those that are there are told from each other
    assert said["latent_sd"].values[0] < 1.0


def test_a_file_keeps_the_texts(tmp_path):
    path = tmp_path / "fit.nc"
    IDATA.to_netcdf(str(path))
    loaded, here = predicted(az.from_netcdf(str(path))), predicted(IDATA)
    for name in ("p", "latent_sd", "f"):
        np.testing.assert_array_equal(loaded[name].values, here[name].values)
    kernel = bgp.posterior(IDATA).kernel
    assert from_dict(json.loads(json.dumps(kernel.to_dict()))) == kernel
    assert kernel != KERNEL.with_column_names(["clinic", "dose"])


def test_codes_of_a_container_are_inputs_too():
    frame = FRAME.assign(clinic=FRAME["clinic"].replace("1", "west"))
    idata = fitted(frame, draws=2)
    X = get_group(idata, "constant_data")["X"].values
    assert set(X[:, 0]) == {0.0, 1.0, 2.0}
    own = bgp.posterior(idata)
    np.testing.assert_array_equal(own.predict_proba(X), own.predict_proba(frame))
    for wrong in (-1.0, 99.0, 3.0, 0.5):
        with pytest.raises(
            ValueError, match=rf"column 0 told groups such as 'east' .* 0 to 2, .* and {wrong:g} is none"
        ):
            own.predict_proba(np.array([[wrong, 0.0]]))


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")  # which scikit-learn says first
@pytest.mark.parametrize("kind", ["float", "whole"])
def test_numbers_are_refused_where_groups_are_called_by_numbers(kind):
    """10 could be the group "10", and its code is 1."""
    frame = pd.DataFrame({"clinic": np.tile(["1", "10", "2"], 15), "dose": FRAME["dose"]})
    new = np.array([[1.0, 0.0], [2.0, 0.0], [10.0, 0.0]]).astype("f8" if kind == "float" else "i8")
    text = new.astype(int).astype(str).astype(object)
    text[:, 1] = 0.0
    idata, model = fitted(frame, draws=2), GPClassifier(KERNEL, hyper=None, random_state=1).fit(frame, Y)
    several = GPClassifier(KERNEL, hyper=None, random_state=1).fit(frame, np.arange(45) % 3)
    process = bgp.posterior(idata)
    for ask in (lambda X: predicted(idata, X), process.predict_proba, process.latent_mean, model.predict):
        with pytest.raises(ValueError, match=r"array of numbers, and its column 0 .* name, as in '1', or its code"):
            ask(new)
    table = pd.DataFrame({"clinic": ["1", "2", "10"], "dose": 0.0})
    assert np.ptp(process.predict_proba(table)) > 0.1
    np.testing.assert_array_equal(process.predict_proba(text), process.predict_proba(table))
    np.testing.assert_array_equal(model.predict_proba(table)[:, 1], process.predict_proba(table))
    assert model.sample_y(table).shape == (3, 1)
    with pytest.raises(ValueError, match="partial_fit takes numbers, and at the fit text such as '1'"):
        model.partial_fit(pd.DataFrame(new, columns=["clinic", "dose"]), [False, True, True])
    np.testing.assert_allclose(several.predict_proba(table).sum(axis=1), 1.0)
    np.testing.assert_array_equal(several.predict_proba(table), several.posterior_.predict_proba(table))


@pytest.mark.parametrize("options", [{"inducing": 20}, {"hyper": bgp.hyper.Evidence(starts=1)}, {"method": "laplace"}])
def test_every_way_of_fitting_takes_text(options):
    codes = FRAME.assign(clinic=pd.factorize(FRAME["clinic"], sort=True)[0])
    text, numbers = (fitted(frame, draws=2, **options) for frame in (FRAME, codes))
    assert float(text["fit"]["log_evidence"]) == float(numbers["fit"]["log_evidence"])
    assert predicted(text)["p"].values[2] == pytest.approx(0.5, abs=1e-9)


UNREAD = {
    "note": np.tile(["a", "b", "c"], 15),
    "when": pd.date_range("2026-01-01", periods=45),
    "lab": np.where(np.arange(45) == 3, np.nan, 1.0),
}


def test_columns_that_no_kernel_reads_may_hold_anything():
    dose = FRAME[["dose"]]
    kernel, more = bgp.kernels.Linear(4.0, columns=["dose"]) + bgp.kernels.Bias(), dose.assign(**UNREAD)
    few, y = {"draws": 2, "random_seed": 1, "progress": False}, FRAME["dose"] + np.sin(np.arange(45)) > 0
    wanted = bgp.posterior(bgp.fit(dose, y, kernel, **few)).predict_proba(dose)
    idata = bgp.fit(more, y, kernel, **few)
    for table in (more, more.assign(note="d")):
        np.testing.assert_allclose(bgp.posterior(idata).predict_proba(table), wanted, rtol=1e-12)
    np.testing.assert_array_equal(get_group(idata, "constant_data")["X"].values[:, 1:], 0.0)
    with_points = bgp.fit(more, y, kernel, inducing=more[:8], **few)
    np.testing.assert_allclose(bgp.posterior(with_points).predict_proba(more), wanted, atol=1e-5)
    stream = bgp.streams.Stream(kernel, classes=(False, True), random_seed=1).update(more, y)
    np.testing.assert_allclose(stream.predict_proba(more), wanted, atol=1e-5)
    model = bgp.sklearn.GPClassifier(kernel, hyper=None).fit(more, y)
    np.testing.assert_allclose(model.predict_proba(more)[:, 1], wanted, rtol=1e-9)
    for table in (more, more.drop(columns="note")):
        with pytest.raises(ValueError, match=r"X must hold (real )?numbers"):
            bgp.fit(table, y, bgp.kernels.Linear(4.0), **few)


def test_inducing_inputs_have_the_groups_as_text():
    """The group "1" is the code 0, and not the number 1 that its text could be read as."""
    some = FRAME.groupby("clinic").head(4)
    codes = some.assign(clinic=np.searchsorted(["1", "east", "north"], some["clinic"]))
    expected = float(fitted(draws=2, inducing=codes)["fit"]["log_evidence"])
    for inducing in (some, some.to_numpy(dtype=object), bgp.Inducing(inputs=some)):
        assert float(fitted(draws=2, inducing=inducing)["fit"]["log_evidence"]) == expected
    with pytest.raises(ValueError, match=r"inducing has groups in column 'clinic' that X does not have: \['south'\]"):
        fitted(inducing=some.replace({"clinic": {"east": "south"}}))
    with pytest.raises(ValueError, match=r"inducing must say a group for every case, but column 'clinic' lacks 4"):
        fitted(inducing=some.replace({"clinic": {"east": None}}))


def test_several_classes():
    y = np.where(Y, FRAME["clinic"], "none")
    kernel = PerClass(*[KERNEL * Bias(c + 1.0) for c in range(4)])
    idata = bgp.fit(FRAME, y, kernel, bgp.Softmax(), method="laplace", draws=2, random_seed=1, progress=False)
    p = predicted(idata)["p"].values
    assert p[0].argmax() == 1  # 'east', of ['1', 'east', 'none', 'north']
    np.testing.assert_array_equal(p[1], p[2])


def test_levels_go_to_the_categorical_kernels_of_their_columns_alone():
    frame = FRAME.assign(ward=["a", "b", "c"] * 15)
    kernel = Categorical(columns=["ward", "clinic"]) + Categorical(columns="clinic") ** 2 + Bias()
    X, known = as_inputs_of(kernel.with_column_names(list(frame.columns)), frame)
    assert X.shape == (45, 3)
    first, second, bias = known.parts
    assert first.levels == (("a", "b", "c"), ("1", "east", "north"))
    assert second.parts[0].levels == (("1", "east", "north"),)
    assert bias == Bias()
    assert "levels" not in repr(known)
    assert as_inputs_of(Categorical(), frame[["clinic", "ward"]])[1].levels == (first.levels[1], first.levels[0])


@pytest.mark.parametrize(
    ("frame", "kernel", "said"),
    [
        (
            FRAME,
            Linear(),
            r"column 'clinic' has entries such as '.*kernels\.Categorical\(columns='clinic'",
        ),
        (
            FRAME,
            Categorical(columns="clinic") + Gaussian(),
            r"numbers in column 'clinic' for the kernel Gaussian\(leng",
        ),
        (
            FRAME.assign(clinic=FRAME["clinic"].where(FRAME.index != 7)),
            KERNEL,
            r"column 'clinic' lacks 1 of 45 \(the first in row 7\)\. Drop",
        ),
        (
            FRAME.assign(clinic=pd.Categorical(FRAME["clinic"].where(FRAME.index > 2))),
            KERNEL,
            "column 'clinic' lacks 3 of 45",
        ),
        (FRAME.assign(clinic=[1, "1", "2"] * 15), KERNEL, "two entries of one name in column 'clinic', 1 and '1'"),
        (FRAME.assign(clinic=np.where(FRAME.index == 3, np.nan, 1.0)), KERNEL, r"They are in 'clinic'\. Drop"),
    ],
)
def test_what_is_no_group_is_refused_in_words(frame, kernel, said):
    with pytest.raises(ValueError, match=said):
        fitted(frame, kernel)


def test_new_cases_that_do_not_fit_are_refused_in_words():
    with pytest.raises(ValueError, match="X_new has numbers in column 'clinic', which told groups such as '1' at the"):
        predicted(IDATA, NEW.assign(clinic=1))
    with pytest.raises(
        ValueError, match=r"X_new must say a group .* column 'clinic' lacks 1 of 4 \(the first in row 2"
    ):
        predicted(IDATA, NEW.assign(clinic=["east", "east", None, "east"]))
    with pytest.raises(ValueError, match="X_new has 1 columns, but the model was fitted to 2"):
        predicted(IDATA, NEW[["clinic"]].to_numpy())
    of_numbers = fitted(FRAME.assign(clinic=1.0), draws=2)
    with pytest.raises(ValueError, match="X_new must hold numbers, but column 'clinic' has entries such as 'east'"):
        predicted(of_numbers)


@pytest.mark.parametrize(
    ("levels", "said"),
    [
        ("ab", "levels must have for each of the columns a sequence of different texts"),
        ([["a", "a"]], r"got \['a', 'a'\]"),
        ([["a"], ["b"]], r"got 2 of them for the columns \[0\]"),
        ([[1.0]], r"got \[1\.0\]"),
    ],
)
def test_levels_that_are_none_are_refused(levels, said):
    with pytest.raises(ValueError, match=said):
        Categorical(columns=0, levels=levels)


@pytest.mark.parametrize(("likelihood", "method", "of_sd"), [("gaussian", "exact", 0.02), ("probit", "tap", 0.05)])
def test_thirty_groups_are_those_of_nuts(likelihood, method, of_sd):
    """Means within 0.05 posterior standard deviations of the recorded ones; those of TAP are up to 4 % too small."""
    frame, y = groups.table(likelihood)
    known = json.loads(groups.PATH.read_text())[likelihood]
    mean, sd, error = (np.array(known[name]) for name in ("mean", "sd", "mcse_mean"))
    assert known["largest_r_hat"] < 1.01
    assert np.max(error / sd) < 0.006
    model = bgp.likelihoods.Gaussian(groups.NOISE) if likelihood == "gaussian" else bgp.Probit()

    def intercepts(variance: float):
        kernel = Categorical(variance, columns="clinic") + Linear(groups.SLOPE, columns="dose")
        idata = bgp.fit(frame, y, kernel, model, method=method, draws=2, random_seed=1, progress=False)
        new = pd.DataFrame({"clinic": [*sorted(set(frame["clinic"])), "another"], "dose": 0.0})
        said = get_group(bgp.predict(idata, new, draws=False), "predictions")
        return said["latent_mean"].values, said["latent_sd"].values

    found, spread = intercepts(groups.INTERCEPT)
    assert np.max(np.abs(found[:30] - mean) / sd) < 0.05
    np.testing.assert_allclose(spread[:30], sd, rtol=of_sd)  # of which 0.01 is Monte-Carlo error
    assert (found[30], spread[30] ** 2) == pytest.approx((0.0, groups.INTERCEPT), abs=1e-12)
    control, _ = intercepts(1.5 * groups.INTERCEPT)
    assert np.max(np.abs(control[:30] - mean) / sd) > 0.05
