"""Targets that are not all seen: every form in which people have them is one and the same, or refused in words."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.inputs.limits import with_limits
from bayesgp_mf.likelihoods import Censored, Gaussian, LogNormal, Weibull
from bayesgp_mf.sklearn import GPRegressor

TIME = np.array([3.0, 1.5, 4.0, 1.5])
EVENT = np.array([True, False, True, True])
UPPER = np.where(EVENT, TIME, np.inf)
ROWS = ["a", "b", "c", "d"]
FORMS = {
    "structured": np.array([*zip(EVENT, TIME, strict=True)], dtype=[("dead", "?"), ("days", "f8")]),
    "structured, time first": np.array([*zip(TIME, EVENT, strict=True)], dtype=[("t", "f8"), ("e", "?")]),
    "time and event": np.column_stack([TIME, EVENT]),
    "list": [[3.0, 1], [1.5, 0], [4.0, 1], [1.5, 1]],
    "pandas": pd.DataFrame({"dead": EVENT, "days": TIME}),
    "pandas, numbers": pd.DataFrame({"days": TIME, "dead": EVENT.astype(int)}, index=ROWS),
    "pandas, missing allowed": pd.DataFrame({"days": TIME, "dead": pd.array(EVENT, dtype="boolean")}),
    "polars": pl.DataFrame({"days": TIME, "dead": EVENT}),
    "xarray": xr.DataArray(np.column_stack([TIME, EVENT]), dims=("row", "column")),
    "limits": np.column_stack([TIME, UPPER]),
    "limits in a frame": pl.DataFrame({"lower": TIME, "upper": UPPER}),
}
CENSORED = Censored(Weibull(1.0))


@pytest.mark.parametrize("form", FORMS)
def test_every_form_says_the_same(form):
    t, likelihood = with_limits(FORMS[form], CENSORED)
    np.testing.assert_array_equal(t, TIME)
    np.testing.assert_array_equal(likelihood.other_limit, np.where(EVENT, np.nan, np.inf))


def test_limits_on_both_sides():
    limits = [[0.0, 2.0], [1.0, 2.0], [2.0, np.inf], [3.0, 3.0], [-np.inf, 4.0]]
    t, likelihood = with_limits(limits, CENSORED)
    np.testing.assert_array_equal(t, [2.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(likelihood.other_limit, [-np.inf, 2.0, np.inf, np.nan, -np.inf])
    t, likelihood = with_limits(limits, Censored(Gaussian(1.0)))  # of which zero is a limit
    np.testing.assert_array_equal(t, [0.0, 1.0, 2.0, 3.0, 4.0])
    np.testing.assert_array_equal(likelihood.other_limit, [2.0, 2.0, np.inf, np.nan, -np.inf])


def test_one_column_was_seen():
    for likelihood in (CENSORED, Weibull(1.0), bgp.Probit()):
        y, same = with_limits(TIME, likelihood)
        assert y is TIME
        assert same is likelihood


@pytest.mark.parametrize(
    ("y", "words"),
    [
        ([[2.0, 1.0, 0.0]], r"must be a structured array .* Got shape \(1, 3\)"),
        ([[2.0, 1.0], [3.0, 2.0]], r"lower limit above the upper one at index 0 \(2 such cases\).*status == 2"),
        ([[0.0, np.inf], [1.0, 2.0]], "says nothing of a target at index 0"),
        ([[-np.inf, np.inf], [1.0, 2.0]], "says nothing of a target at index 0"),
        ([[np.inf, np.inf], [1.0, 2.0]], "a target that is infinite at index 0"),
        ([[np.nan, 2.0], [1.0, 2.0]], "lower limit, or an event, is missing at index 0.*np.inf"),
        ([[0, 2.5], [1, 3.5], [1, 2.0]], "only 0 and 1 in its first column"),
        ([[0.4, 1.0]], "only 0 and 1 in its second column"),  # seen at 0.4, or between 0.4 and 1?
        ([[-2.0, 0], [0.5, 1], [1.0, 1]], "only 0 and 1 in its second column"),
        (pd.DataFrame({"t": [1.0, np.nan], "e": [True, False]}), "y .*row 1"),
        (pd.DataFrame({"t": [1.0, 2.0], "e": ["dead", "alive"]}), "as booleans, status == 'dead'"),
        (pd.DataFrame({"t": [1.0, 2.0], "e": [True, None]}), "or an event, is missing at index 1"),
        (pd.DataFrame({"t": [1.0, 2.0], "e": pd.array([True, None], dtype="boolean")}), "event that is missing"),
        (pd.DataFrame({"t": [True, False], "e": [True, False]}), "must have one boolean column"),
        (np.array([(1, 2.0)], dtype=[("e", "i8"), ("t", "f8")]), "must have one boolean field"),
        (np.array([(True, 2.0, 1.0)], dtype=[("e", "?"), ("t", "f8"), ("x", "f8")]), "must have two fields"),
    ],
)
def test_what_is_none_is_refused_in_words(y, words):
    with pytest.raises(ValueError, match=words):
        with_limits(y, CENSORED)


def test_few_zeros_and_ones_that_can_be_one_thing_alone_are_taken():
    for y, other in (
        ([[2.0, 1], [0.4, 0]], [np.nan, np.inf]),
        ([[1.0, 1]], np.nan),
        (pd.DataFrame({"t": [0.4], "e": [True]}), np.nan),
    ):
        np.testing.assert_array_equal(with_limits(y, CENSORED)[1].other_limit, np.atleast_1d(other))


def test_other_likelihoods_say_how_to_take_times():
    with pytest.raises(ValueError, match=r"Wrap it: likelihood=likelihoods.Censored"):
        bgp.fit(np.arange(4.0)[:, None], FORMS["structured"], likelihood=Weibull(1.0))
    for likelihood in (Weibull(1.0), bgp.Probit()):
        with pytest.raises(ValueError, match=r"y is two columns.*Wrap it: likelihood=likelihoods.Censored"):
            bgp.fit(np.arange(2.0)[:, None], pd.DataFrame({"t": [1.0, 2.0], "e": [True, False]}), likelihood=likelihood)
    with pytest.raises(ValueError, match="so has the likelihood, its other_limit"):
        with_limits(FORMS["limits"], Censored(Weibull(1.0), [np.nan] * 4))


def test_times_at_zero_are_refused():
    X = np.arange(4.0)[:, None]
    for event in (1, 0):
        y = np.column_stack([[0.0, 1.0, 2.0, 3.0], [event, 1, 1, 0]])
        with pytest.raises(ValueError, match=r"times > 0 for Weibull, got 0 at index 0"):
            bgp.fit(X, y, bgp.kernels.Gaussian(1.0), CENSORED)


@pytest.mark.parametrize(("side", "limits"), [("above", [1.0, np.inf]), ("below", [-np.inf, 1.0])])
def test_where_nothing_was_seen_it_is_said_what_decides(side, limits):
    with pytest.warns(UserWarning, match=f"all are {side} their .*of shape, is what the priors say"):
        idata = bgp.fit(
            np.arange(3.0)[:, None], [limits] * 3, bgp.kernels.Gaussian(1.0), CENSORED, draws=5, random_seed=1
        )
    assert np.all(np.isfinite(idata["fit"]["latent_mean"].values))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with_limits([[1.0, 2.0]] * 3, CENSORED)


def test_doors_take_the_same_forms():
    """`fit`, the default model, scikit-learn's estimator with weights of zero, and labels of rows that do not match."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(20, 1))
    y = np.column_stack([rng.weibull(2.0, 20), np.resize([1, 1, 0], 20)])
    kernel, weights = bgp.kernels.Gaussian(1.0), np.resize([1.0, 2.0, 0.0, 0.5], 20)
    idata = bgp.fit(X, y, kernel, CENSORED, weights=weights, draws=5, random_seed=1)
    estimator = GPRegressor(kernel, CENSORED, hyper=None).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(estimator.log_evidence_, float(idata["fit"]["log_evidence"]), rtol=1e-12)
    bgp.predict(idata, X[:3], draws=False)
    np.testing.assert_allclose(estimator.predict(X[:3]), idata["predictions"]["y_mean"].values, rtol=1e-10)
    found = bgp.hyper.default_model(X, y, CENSORED)
    spread = np.log(y[:, 0]).std()
    assert 0.2 * spread**2 < found.kernel.params["gaussian_variance"] < 5.0 * spread**2
    assert estimator.score(X, y) == bgp.survival.concordance_index(y, bgp.posterior(idata).latent(X)[0])
    with pytest.raises(ValueError, match="has no weights"):
        estimator.score(X, y, weights)
    with pytest.raises(ValueError, match="same index in another order"):
        bgp.fit(pd.DataFrame(X[:4], ROWS), pd.DataFrame(y[:4], ROWS[::-1]), kernel, CENSORED)


def test_the_default_model_holds_a_shape_of_which_nothing_is_known():
    X = np.random.default_rng(2).normal(size=(30, 1))
    with pytest.warns(UserWarning, match="all are above their lower limits|y is constant"):
        idata = bgp.fit(X, [[0.5, np.inf]] * 30, likelihood=CENSORED, draws=5, random_seed=1)
    assert 0.1 < float(idata["fit"]["shape"]) < 10.0


@pytest.mark.parametrize("likelihood", [Weibull(1.0), LogNormal(1.0), Gaussian(1.0)])
def test_the_default_model_looks_behind_limits(likelihood):
    """Where nineteen of twenty times are censored at one limit their spread is a thirtieth of that of the times."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(400, 2))
    t = np.exp(np.sin(X[:, 0])) * rng.weibull(1.5, 400)
    t = np.log(t) if isinstance(likelihood, Gaussian) else t
    end = np.quantile(t, 0.05)
    y = pd.DataFrame({"time": np.minimum(t, end), "event": t <= end})
    whole, censored = (
        bgp.hyper.default_model(X, targets, each).kernel.params["gaussian_variance"]
        for targets, each in ((t, likelihood), (y, Censored(likelihood)))
    )
    assert 0.4 < censored / whole < 2.5
    narrow = np.column_stack([t - 1e-9 * np.abs(t), t + 1e-9 * np.abs(t)])
    between = bgp.hyper.default_model(X, narrow, Censored(likelihood)).kernel.params["gaussian_variance"]
    np.testing.assert_allclose(between, whole, rtol=0.05)


def test_a_model_of_times_is_judged_by_what_was_seen():
    """Beside a constant on the scale of log times, whatever the unit; of limits nothing is said."""
    rng = np.random.default_rng(3)
    X = rng.normal(size=(40, 1))
    t = Weibull(1.5).sample(X[:, 0], rng)
    found = []
    for unit in (1.0, 365.25):
        idata = bgp.fit(
            X, unit * t, bgp.kernels.Linear(), Weibull(1.5), offset=np.full(40, np.log(unit)), draws=5, random_seed=1
        )
        found.append(bgp.diagnostics.misfit(idata))
    np.testing.assert_allclose(found[0].loo - found[0].constant, found[1].loo - found[1].constant, rtol=1e-6)
    assert found[0].coverage == found[1].coverage > 0.8
    y = np.column_stack([t, np.resize([1, 0], 40)])
    censored = bgp.diagnostics.misfit(bgp.fit(X, y, bgp.kernels.Linear(), CENSORED, draws=5, random_seed=1))
    assert censored.constant is censored.coverage is None
