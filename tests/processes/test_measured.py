"""Errors that are measured where something is used: at new cases, and of leave-one-out; against integrals over a plane.

An intercept and a slope are all that varies, so that every truth is an integral over two numbers.
"""

from __future__ import annotations

import json
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Binomial, Logit, NegativeBinomial, Ordinal, Poisson

X = np.array([[0.9], [0.0], [-0.9], [-1.2], [-0.6]])
FAR = np.array([[-6.0], [-2.0], [0.0], [3.0]])
OPTIONS = {"draws": 2, "chains": 1, "random_seed": 1, "progress": False}
FEW = [
    (Poisson(), [2.0, 0.0, 1.0, 1.0, 1.0], {}),
    (Poisson(), [3.0, 1.0, 0.0, 4.0, 1.0], {"offset": np.array([0.5, 0.1, -1.0, 1.0, 0.0])}),
    (NegativeBinomial(3.0), [6.0, 0.0, 0.0, 1.0, 0.0], {"weights": np.array([1.0, 0.3, 2.0, 1.0, 0.7])}),
    (Binomial(2.0), [2.0, 2.0, 1.0, 0.0, 2.0], {}),
    (Ordinal((-1.0, 0.5), 0.3), [2.0, 1.0, 0.0, 0.0, 1.0], {}),
    (Logit(), [1.0, -1.0, -1.0, 1.0, 1.0], {"weights": np.array([1.0, 0.3, 2.0, 1.0, 0.7])}),
    (bgp.Probit(0.5), [1.0, -1.0, -1.0, 1.0, 1.0], {"offset": np.array([0.5, 0.1, -1.0, 1.0, 0.0])}),
]
IDS = [f"{type(likelihood).__name__} {' '.join(facts)}".strip() for likelihood, _, facts in FEW]
KERNEL = bgp.kernels.Bias(4.0) + bgp.kernels.Linear(20.0)
LOO_ERROR, PROBABILITY_ERROR = 0.02, 2e-3


def plane(likelihood, y, without=None, facts=None):
    """Return points (k, 2) of intercept and slope, their weights, and the log evidence, without a case if asked for."""
    facts = facts or {}
    kept = np.arange(len(y)) if without is None else np.delete(np.arange(len(y)), without)
    centre, root = np.zeros(2), np.eye(2)
    scales = np.sqrt([4.0, 20.0])
    for power, side in ((0.003, 61), (0.03, 61), (0.2, 61), (1.0, 61), (1.0, 121)):
        axis = np.linspace(-12.0, 12.0, side)
        z = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        u = centre + z @ root.T
        points = u * scales
        f = points[:, :1] + points[:, 1:] * X[kept, 0] + facts.get("offset", np.zeros(len(y)))[kept]
        log_p = likelihood.log_prob(np.broadcast_to(np.asarray(y)[kept], f.shape), f).value
        log_p = power * np.sum(facts.get("weights", np.ones(len(y)))[kept] * log_p, axis=1) - 0.5 * np.sum(u**2, axis=1)
        weights = np.exp(log_p - log_p.max())
        area = (axis[1] - axis[0]) ** 2 * abs(np.linalg.det(root)) / (2.0 * np.pi)
        log_evidence = np.log(weights.sum() * area) + log_p.max()
        weights /= weights.sum()
        centre = weights @ u
        off = (u - centre) * np.sqrt(weights)[:, None]
        root = np.linalg.cholesky(off.T @ off)
    some = weights > 1e-9 * weights.max()
    return points[some], weights[some] / weights[some].sum(), log_evidence


def fitted(likelihood, y, facts):
    return bgp.fit(X, np.asarray(y), KERNEL, likelihood, **facts, **OPTIONS)


def predicted(idata, facts, **options):
    new = {"offset": np.zeros(len(FAR))} if "offset" in facts else {}
    return bgp.predict(idata, FAR, draws=False, **new, **options)["predictions"]


def true_probabilities(likelihood, y, facts):
    """Return those of label one (m,), or of a target of at most one (m,)."""
    points, weights, _ = plane(likelihood, y, facts=facts)
    f = points[:, :1] + points[:, 1:] * FAR[:, 0]
    if likelihood.is_binary:
        return weights @ likelihood.predict_proba(f, np.zeros_like(f))
    return weights @ likelihood.predictive_below(np.ones_like(f), f, np.zeros_like(f))


def said_probabilities(likelihood, found, idata):
    if likelihood.is_binary:
        return found["p"].values
    if likelihood.n_levels is not None:
        return found["p"].values[:, :2].sum(axis=1)
    # of counts: quantiles say it, those below the level are at most one
    return None


@pytest.mark.parametrize(("likelihood", "y", "facts"), FEW, ids=IDS)
def test_leave_one_out_is_right_for_all_targets_offsets_and_weights(likelihood, y, facts):
    idata = fitted(likelihood, y, facts)
    whole = plane(likelihood, y, facts=facts)[2]
    truth = np.array([whole - plane(likelihood, y, i, facts)[2] for i in range(len(y))])
    elpd = bgp.loo(idata)
    values = elpd.loo_i if hasattr(elpd, "loo_i") else elpd.elpd_i
    assert np.abs(idata["fit"]["loo_i"].values - truth).max() > 2.0 * np.abs(values.values - truth).max()
    np.testing.assert_allclose(values, truth, atol=LOO_ERROR)
    assert values.attrs["corrected"] == len(y)
    assert abs(float(values.sum() - truth.sum())) < max(values.attrs["sum_error"], 1e-3)
    np.testing.assert_allclose(bgp.loo(idata, corrected=True).loo_i if hasattr(elpd, "loo_i") else values, values)


@pytest.mark.parametrize(("likelihood", "y", "facts"), FEW, ids=IDS)
def test_corrected_predictions_are_right_and_errors_of_others_are_stated(likelihood, y, facts):
    idata = fitted(likelihood, y, facts)
    truth = true_probabilities(likelihood, y, facts)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of a large error, which another test looks at
        plain, corrected = predicted(idata, facts), predicted(idata, facts, corrected=True)
    if likelihood.is_binary or likelihood.n_levels is not None:
        p, better = (said_probabilities(likelihood, each, idata) for each in (plain, corrected))
    else:
        part, one = bgp.posterior(idata).parts[0], np.ones(len(FAR))
        if "offset" in facts:
            part = replace(part, new_cases={"offset": np.zeros(len(FAR))})
        p = likelihood.predictive_below(one, *part.latent_at(FAR))
        better = part.latent_of_new(FAR, part.corrected_points_at(FAR)).below(one)
    off = np.abs(p - truth).max()
    np.testing.assert_allclose(better, truth, atol=PROBABILITY_ERROR)
    assert off <= plain.attrs["probability_error"]
    assert "probability_error" not in corrected.attrs
    assert corrected.attrs["corrected"] == len(FAR)
    assert corrected.attrs["largest_sum_error"] < 0.03


def test_corrected_counts_have_the_moments_and_quantiles_of_the_truth():
    likelihood, y, facts = FEW[0]
    idata = fitted(likelihood, y, facts)
    points, weights, _ = plane(likelihood, y, facts=facts)
    f = points[:, :1] + points[:, 1:] * X[:, 0]
    found = bgp.predict(idata, X, draws=False, corrected=True, quantiles=[0.05, 0.5, 0.95])["predictions"]
    truth = weights @ np.exp(f)
    np.testing.assert_allclose(found["y_mean"], truth, rtol=5e-3)
    np.testing.assert_allclose(found["latent_mean"], weights @ f, atol=5e-3)
    np.testing.assert_allclose(found["y_sd"], np.sqrt(weights @ (np.exp(f) + np.exp(2.0 * f)) - truth**2), rtol=2e-2)
    for row, at in zip(found["y_quantile"].values, f.T, strict=True):
        below = [weights @ likelihood.predictive_below(np.full_like(at, t), at, 0.0 * at) for t in range(30)]
        np.testing.assert_array_equal(row, [int(np.searchsorted(below, q)) for q in (0.05, 0.5, 0.95)])


def test_predictions_that_are_farther_off_than_the_fit_said_warn():
    idata = fitted(NegativeBinomial(1194.9), [6.0, 0.0, 0.0, 0.0, 0.0], {})
    assert bgp.diagnostics.quality(idata).verdict == "good"
    with pytest.warns(UserWarning, match=r"may be off by about .*corrected=True"):
        bgp.predict(idata, FAR, draws=False)
    found = bgp.diagnostics.quality(idata)
    assert found.verdict != "good"
    assert found.new_probability_error == idata["predictions"].attrs["probability_error"]
    bgp.predict(idata, X, draws=False)  # where the data are it is as good as was said, and says nothing
    assert bgp.diagnostics.quality(idata).verdict == "good"


def test_of_many_cases_those_that_surprise_are_corrected_and_others_say_what_the_rest_leaves():
    rng = np.random.default_rng(4)
    inputs = rng.uniform(-3.0, 3.0, size=(150, 1))
    y = rng.poisson(np.exp(np.sin(2.0 * inputs[:, 0])))
    y[7] = 25
    idata = bgp.fit(inputs, y, bgp.kernels.Gaussian(0.5, 2.0), Poisson(), **OPTIONS)
    elpd, whole = bgp.loo(idata), bgp.loo(idata, corrected=True)
    key = "loo_i" if hasattr(elpd, "loo_i") else "elpd_i"
    values, truth, plain = (np.asarray(each) for each in (elpd[key], whole[key], idata["fit"]["loo_i"]))
    assert elpd[key].attrs["corrected"] == 64
    assert np.sum(np.abs(values - plain) > 1e-7) == 64
    assert values[7] == truth[7] != plain[7]
    assert abs(values.sum() - truth.sum()) < elpd[key].attrs["sum_error"] < abs(plain.sum() - truth.sum())


def test_a_left_out_count_is_the_ratio_of_corrected_evidences():
    likelihood, y, _ = FEW[0]
    control = bgp.Control(tolerance=1e-10)

    def corrected_evidence(kept):
        idata = bgp.fit(X[kept], np.asarray(y)[kept], KERNEL, likelihood, control=control, **OPTIONS)
        evidence = bgp.posterior(idata).solution.evidence
        return evidence.value + evidence.correction

    found = bgp.posterior(bgp.fit(X, np.asarray(y), KERNEL, likelihood, control=control, **OPTIONS)).corrected_loo
    everything = np.arange(len(y))
    for i in everything:
        ratio = corrected_evidence(everything) - corrected_evidence(np.delete(everything, i))
        assert found[i] == pytest.approx(ratio, abs=1e-5)


REFERENCE = Path(__file__).resolve().parents[3] / "shared" / "reference" / "good_but_off.json"


@pytest.mark.skipif(not REFERENCE.exists(), reason="the reference is not there")
@pytest.mark.parametrize("number", range(3))
def test_leave_one_out_of_fits_that_were_called_good(number):
    case = json.loads(REFERENCE.read_text())["loo"][number]
    name, rest = case["likelihood"].split("(", 1)
    likelihood = getattr(bgp.likelihoods, name)(*(float(value.split("=")[-1]) for value in [rest[:-1]] if value))
    kernel = bgp.kernels.Bias(case["bias_variance"]) + bgp.kernels.Linear(case["linear_weight"])
    facts = {fact: np.array(case[fact]) for fact in ("offset", "weights") if case[fact]}
    idata = bgp.fit(np.array(case["x"])[:, None], np.array(case["y"]), kernel, likelihood, **facts, **OPTIONS)
    elpd = bgp.loo(idata)
    values = elpd.loo_i if hasattr(elpd, "loo_i") else elpd.elpd_i
    np.testing.assert_allclose(values, [each["truth"] for each in case["loo_i"]], atol=0.05)
