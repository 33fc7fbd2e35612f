"""An average of models: what it says is the average of what they say, in memory and from a file."""

from __future__ import annotations

import warnings
from html import unescape

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp, softmax

import bayesgp_mf as bgp

pytestmark = pytest.mark.filterwarnings("ignore:the models have different links")
N = 40
RNG = np.random.default_rng(3)
X = RNG.normal(size=(N, 2))
Y = (1.5 * X[:, 0] + RNG.normal(size=N) > 0).astype(int)
NEW = RNG.normal(size=(5, 2))
OPTIONS = {"draws": 500, "chains": 2, "random_seed": 1}
SMOOTH, ROUGH = bgp.kernels.Gaussian([1.0, 2.0], 4.0), bgp.kernels.Matern32(1.0) + bgp.kernels.Bias()


@pytest.fixture(scope="module")
def fits():
    return {
        "smooth": bgp.fit(X, Y, SMOOTH, **OPTIONS),
        "rough": bgp.fit(X, Y, ROUGH, bgp.Logit(), **OPTIONS),
        "laplace": bgp.fit(X, Y, bgp.kernels.Linear() + bgp.kernels.Bias(), method="laplace", **OPTIONS),
        "naive": bgp.fit(X, Y, SMOOTH, method="naive", **OPTIONS),
        "inducing": bgp.fit(X, Y, ROUGH, inducing=15, **OPTIONS),
        "averaged": bgp.fit(X, Y, bgp.kernels.Gaussian(1.0), hyper=bgp.hyper.Integrate(starts=1), **OPTIONS),
    }


def proba(idata, corrected=False):
    return bgp.predict(idata, NEW, draws=False, corrected=corrected)["predictions"]["p"].values


def test_predictions_are_averages_of_those_of_the_models_in_memory_and_from_a_file(fits, tmp_path):
    weights = np.arange(1.0, 7.0)
    both = bgp.combine(fits, weights, random_seed=1)
    expected = np.average([proba(idata) for idata in fits.values()], axis=0, weights=weights)
    np.testing.assert_allclose(proba(both), expected, atol=1e-12)
    bgp.save(both, tmp_path / "both.nc")
    np.testing.assert_array_equal(proba(bgp.load(tmp_path / "both.nc")), proba(both))


def test_draws_are_those_of_the_models_as_often_as_they_weigh(fits):
    both = bgp.combine(fits, [3.0, 1.0, 0, 0, 0, 0], random_seed=1)
    drawn = bgp.predict(both, NEW, random_seed=1)["predictions"]
    np.testing.assert_allclose(drawn["y"].mean(("chain", "draw")), drawn["p"], atol=5.0 * 0.5 / np.sqrt(1000))
    assert np.mean(both["sample_stats"]["node"] == 0) == pytest.approx(0.75, abs=0.07)


def test_given_weights_average_densities_without_a_case_and_evidence_changes_with_it(fits):
    two = {name: fits[name] for name in ("smooth", "rough")}
    each = np.array([idata["fit"]["loo_i"].values for idata in two.values()])
    given = bgp.combine(two, [0.3, 0.7], random_seed=1)["fit"]["loo_i"].values
    np.testing.assert_allclose(given, logsumexp(each, b=np.array([[0.3], [0.7]]), axis=0), atol=1e-10)
    by_evidence = bgp.combine(two, "evidence", random_seed=1)
    evidences = bgp.compare(two).table.loc[list(two), "log_evidence"]
    weights = softmax(evidences.to_numpy())
    np.testing.assert_allclose(by_evidence["fit"]["node_weight"], weights, atol=1e-12)
    without = -logsumexp(-each, b=weights[:, None], axis=0)
    np.testing.assert_allclose(by_evidence["fit"]["loo_i"], without, atol=1e-10)


def test_stacking_is_no_worse_than_any_of_the_models(fits):
    stacked = bgp.combine(fits, random_seed=1)
    best = max(float(idata["fit"]["loo_i"].sum()) for idata in fits.values())
    assert float(stacked["fit"]["loo_i"].sum()) >= best - 1e-3


def test_one_model_twice_is_that_model(fits):
    twice = bgp.combine({"a": fits["averaged"], "b": fits["averaged"]}, [1.0, 2.0], random_seed=1)
    for name in ("latent_mean", "latent_sd", "loo_i", "cavity_mean", "cavity_sd"):
        np.testing.assert_allclose(twice["fit"][name], fits["averaged"]["fit"][name], atol=1e-9, err_msg=name)


def test_counts_and_offsets(tmp_path):
    counts, offset = RNG.poisson(np.exp(0.5 * X[:, 0] + 0.3)), np.full(N, 0.3)
    kernels = {"smooth": SMOOTH, "rough": ROUGH}
    fits = {name: bgp.fit(X, counts, k, bgp.Poisson(), offset=offset, **OPTIONS) for name, k in kernels.items()}
    fits["wide"] = bgp.fit(X, counts, SMOOTH, bgp.NegativeBinomial(2.0), offset=offset, **OPTIONS)
    both = bgp.combine(fits, np.ones(3), random_seed=1)
    found = [
        bgp.predict(idata, NEW, offset=np.zeros(5), draws=False)["predictions"]["y_mean"].values
        for idata in (both, *fits.values())
    ]
    np.testing.assert_allclose(found[0], np.mean(found[1:], axis=0), rtol=1e-9)
    bgp.report(both, tmp_path / "page.html")
    page = (tmp_path / "page.html").read_text()
    assert "An average of models" in page
    assert "NegativeBinomial" in page


def test_what_is_not_of_one_model_says_so(fits):
    both = bgp.combine(fits, np.ones(6), random_seed=1)
    with pytest.raises(ValueError, match="one of the fits that were combined"):
        bgp.diagnostics.hyperparameters(both)
    with pytest.raises(bgp.UndefinedQuantityError, match="Ask each of the fits"):
        bgp.diagnostics.importance(both)
    for ask in (bgp.diagnostics.sensitivity, bgp.prior_predictive, lambda idata: bgp.plan(idata, 5, hyper="evidence")):
        with pytest.raises(ValueError, match="an average of models has no prior of its own"):
            ask(both)
    with pytest.raises(ValueError, match="Combine all models at once"):
        bgp.combine({"both": both, **fits})


@pytest.mark.parametrize("weights", [{"rough": 3.0, "smooth": 1.0}, pd.Series([0.75, 0.25], ["rough", "smooth"])])
def test_weights_with_names_are_of_the_models_with_these(fits, weights):
    two = {name: fits[name] for name in ("smooth", "rough")}
    assert bgp.combine(two, weights, random_seed=1)["fit"]["node_weight"].values == pytest.approx([0.25, 0.75])
    large = bgp.combine(two, [1e308, 1e308], random_seed=1)["fit"]["node_weight"].values
    assert large == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize(
    "weights", ["best", [1.0], {"smooth": 1.0}, pd.Series([1.0] * 6), [-1.0] * 6, [0.0] * 6, [np.nan] * 6]
)
def test_wrong_weights_are_named(fits, weights):
    with pytest.raises(ValueError, match="weights must be"):
        bgp.combine(fits, weights)


def test_evidences_of_several_kinds_are_refused(fits):
    with pytest.raises(ValueError, match="no evidences of one kind"):
        bgp.combine(fits, "evidence")


def test_models_of_other_cases_are_refused(fits):
    other = bgp.fit(X + 1.0, Y, SMOOTH, **OPTIONS)
    with pytest.raises(ValueError, match="another X than smooth"):
        bgp.combine({"smooth": fits["smooth"], "moved": other}, [0.5, 0.5])
    with pytest.raises(ValueError, match="at least two"):
        bgp.combine({"smooth": fits["smooth"]})


class OwnKernel(bgp.kernels.Gaussian):
    """A kernel that a container does not hold."""


def test_a_program_is_asked_for_by_no_average(fits):
    own = bgp.fit(X, Y, OwnKernel(1.0), **OPTIONS)
    with pytest.raises(ValueError, match="container of own does not hold its kernel"):
        bgp.combine({"smooth": fits["smooth"], "own": own})


def test_models_that_read_other_columns_of_text_are_of_the_same_cases(tmp_path):
    sites = np.array(["east", "north", "west"])[np.arange(N) % 3]
    table, new = (pd.DataFrame({"dose": X[:, 0], "site": texts}) for X, texts in ((X, sites), (NEW, sites[:5])))
    by_dose = bgp.kernels.Gaussian(1.0, columns=["dose"])
    kernels = {"dose": by_dose, "both": by_dose + bgp.kernels.Categorical(columns=["site"])}
    fits = {name: bgp.fit(table, Y, kernel, **OPTIONS) for name, kernel in kernels.items()}
    both = bgp.combine(fits, [0.5, 0.5], random_seed=1)
    bgp.save(both, tmp_path / "both.nc")
    found = [
        bgp.predict(idata, new, draws=False)["predictions"]["p"].values
        for idata in (both, bgp.load(tmp_path / "both.nc"), *fits.values())
    ]
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_allclose(found[0], np.mean(found[2:], axis=0), atol=1e-12)
    other = bgp.fit(table.assign(site=sites[::-1]), Y, kernels["both"], **OPTIONS)
    with pytest.raises(ValueError, match="moved was fitted with another X than both"):
        bgp.combine({"both": fits["both"], "moved": other}, [0.5, 0.5])
    renamed = bgp.fit(table.replace({"site": {"east": "dawn"}}), Y, kernels["both"], **OPTIONS)  # to the same codes
    with pytest.raises(ValueError, match="renamed was fitted with another X than dose"):
        bgp.combine({**fits, "renamed": renamed}, [0.4, 0.3, 0.3])


def test_kernels_of_each_class(tmp_path):
    classes = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    each = bgp.kernels.PerClass(SMOOTH, ROUGH, SMOOTH)
    fits = {name: bgp.fit(X, classes, k, bgp.Softmax(), **OPTIONS) for name, k in {"each": each, "one": SMOOTH}.items()}
    both = bgp.combine(fits, [0.5, 0.5], random_seed=1)
    np.testing.assert_allclose(proba(both), np.mean([proba(idata) for idata in fits.values()], axis=0), atol=1e-12)


def test_links_that_differ_are_warned_of(fits):
    with pytest.warns(UserWarning, match=r"different links \(Probit, Logit\)"):
        bgp.combine({name: fits[name] for name in ("smooth", "rough")}, [0.5, 0.5], random_seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bgp.combine({name: fits[name] for name in ("smooth", "rough")}, [1.0, 0.0], random_seed=1)  # one is left out
        counts = (bgp.Poisson(), bgp.NegativeBinomial(2.0))
        same = {str(each): bgp.fit(X, Y, SMOOTH, each, **OPTIONS) for each in counts}
        bgp.combine(same, [0.5, 0.5], random_seed=1)


def test_a_report_says_whose_hyperparameters_an_average_has(fits, tmp_path):
    both = bgp.combine({name: fits[name] for name in ("smooth", "naive")}, [0.5, 0.5], random_seed=1)
    page = bgp.report(both, tmp_path / "both.html").read_text()
    assert "those of the combined models" in page
    assert "as they were given" not in page
    assert "hyper='none'" not in unescape(page)
    assert "as they were given" in bgp.report(fits["smooth"], tmp_path / "one.html").read_text()


def test_what_was_chosen_is_stacked_beside_an_average_with_a_warning(fits):
    prior = {"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)}
    chosen = bgp.fit(X, Y, bgp.kernels.Gaussian(1.0), hyper="evidence", priors=prior, fixed=["variance"], **OPTIONS)
    mixed = {"chosen": chosen, "averaged": fits["averaged"]}
    words = "hyperparameters of chosen were chosen with the case that is left out among all others, those of averaged"
    assert words in bgp.compare(mixed).sentence
    with pytest.warns(UserWarning, match=words):
        bgp.combine(mixed, random_seed=1)
    bgp.combine(mixed, [0.5, 0.5], random_seed=1)
    given = bgp.compare({"given": fits["smooth"], "averaged": fits["averaged"]}).sentence
    assert "were chosen" not in given
