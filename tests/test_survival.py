"""Survival curves, medians, hazards and their scores: against integrals, formulas, lifelines and scikit-survival."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad

import bayesgp_mf as bgp
from bayesgp_mf import survival
from bayesgp_mf.likelihoods import Censored, Exponential, Gaussian, LogLogistic, LogNormal, Weibull

RNG = np.random.default_rng(7)
X = RNG.uniform(-2.0, 2.0, (60, 1))
LIFE, END = Weibull(1.5).sample(np.sin(X[:, 0]) + 1.0, RNG), RNG.exponential(6.0, 60)
Y = pd.DataFrame({"time": np.minimum(LIFE, END), "event": LIFE <= END})
NEW, AT = np.array([[-1.0], [0.5]]), np.array([0.5, 2.0, 6.0])
KERNEL = bgp.kernels.Gaussian(1.0, 1.0) + bgp.kernels.Bias(2.0)
LIKELIHOODS = {"weibull": Weibull(1.5), "log-normal": LogNormal(0.5), "log-logistic": LogLogistic(2.0)}


def fitted(likelihood=LIKELIHOODS["weibull"], **options):
    return bgp.fit(X, Y, KERNEL, Censored(likelihood), draws=20, random_seed=1, progress=False, **options)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_curves_are_integrals_over_the_posterior(name):
    likelihood = LIKELIHOODS[name]
    idata = fitted(likelihood)
    found = survival.survival_function(idata, NEW, AT)
    rate = survival.hazard(idata, NEW, AT)
    assert found["mean"].dims == ("obs_id", "time")
    mean, variance = bgp.posterior(idata).latent(NEW)
    for case in range(2):
        m, s = mean[case], np.sqrt(variance[case])

        def average(of, m=m, s=s):
            density = lambda f: np.exp(-0.5 * ((f - m) / s) ** 2) / s / np.sqrt(2.0 * np.pi)  # noqa: E731
            return quad(lambda f: of(f) * density(f), m - 10 * s, m + 10 * s, epsabs=1e-12)[0]

        for k, t in enumerate(AT):
            above = average(
                lambda f, t=t: np.exp(Censored(likelihood, [np.inf]).log_prob(np.array([t]), np.array([f])).value[0])
            )
            density = average(lambda f, t=t: np.exp(likelihood.log_prob(np.array([t]), np.array([f])).value[0]))
            np.testing.assert_allclose(found["mean"][case, k], above, rtol=1e-8)
            np.testing.assert_allclose(rate["mean"][case, k], density / above, rtol=1e-8)
            ends = np.array([t, t]), m + np.array([-1.0, 1.0]) * 1.6449 * s, np.zeros(2)
            band = 1.0 - likelihood.predictive_below(*ends)
            np.testing.assert_allclose([found["lower"][case, k], found["upper"][case, k]], band, atol=5e-3)


def test_the_median_is_where_half_are_left():
    idata = fitted()
    found = survival.median_time(idata, NEW, level=0.5)
    for case in range(2):
        at = float(found["median"][case])
        left = survival.survival_function(idata, NEW[[case]], [at])["mean"].item()
        np.testing.assert_allclose(left, 0.5, atol=1e-9)
    mean, variance = bgp.posterior(idata).latent(NEW)
    factor = np.log(2.0) ** (1.0 / 1.5)
    for name, sign in (("lower", -1.0), ("upper", 1.0)):
        np.testing.assert_allclose(found[name], factor * np.exp(mean + sign * 0.6745 * np.sqrt(variance)), rtol=5e-3)


def test_curves_are_averaged_over_hyperparameters_and_shifted_by_offsets():
    priors = {"gaussian_lengthscale": bgp.hyper.LogNormal(0.0, 0.5), "shape": bgp.hyper.LogNormal(0.4, 0.5)}
    fixed = ["gaussian_variance", "bias_variance"]
    strategy = bgp.hyper.Integrate(starts=1, points=3)
    idata = fitted(hyper=strategy, priors=priors, fixed=fixed, offset=np.full(60, 0.3))
    found = survival.survival_function(idata, NEW, AT, offset=[0.3, 1.0])
    process = bgp.posterior(idata)
    assert len(process.parts) > 1
    expected = np.zeros((2, 3))
    for part, weight in zip(process.parts, process.weights, strict=True):
        mean, variance = part.latent_at(NEW)
        seen = part.problem.likelihood.of_one_case.likelihood
        for k, t in enumerate(AT):
            below = seen.predictive_below(np.full(2, t), mean + np.array([0.3, 1.0]), variance)
            expected[:, k] += weight * (1.0 - below)
    np.testing.assert_allclose(found["mean"], expected, rtol=1e-10)
    assert np.all((found["lower"] <= found["mean"]) & (found["mean"] <= found["upper"]))
    with pytest.raises(ValueError, match="offset is missing"):
        survival.median_time(idata, NEW)


def test_a_hazard_keeps_its_digits_where_hardly_one_is_left():
    """Of constant ones it is the rate of those with the longest times, and a late one that of the integral by logs."""
    idata = fitted(LIKELIHOODS["weibull"], offset=np.zeros(60))
    late = survival.hazard(idata, NEW, [60.0, 300.0], offset=0.0)
    assert np.all(np.isfinite(late.to_array()))
    mean, variance = bgp.posterior(idata).latent(NEW)
    f = mean[0] + np.sqrt(variance[0]) * np.linspace(-30.0, 30.0, 200001)
    log_p = -0.5 * (f - mean[0]) ** 2 / variance[0]
    for k, t in enumerate([60.0, 300.0]):
        w = 1.5 * (np.log(t) - f)
        rate, log_above = np.exp(w) * 1.5 / t, log_p - np.exp(w)
        weight = np.exp(log_above - log_above.max())
        np.testing.assert_allclose(late["mean"][0, k], np.average(rate, weights=weight), rtol=1e-6)
    with pytest.raises(ValueError, match="times must be > 0"):
        survival.hazard(idata, NEW, [0.0], offset=0.0)


def test_a_search_with_a_shape_does_not_begin_at_its_bound():
    """Its slope at a shape of one leads there, where the times have no spread and no integral."""
    rng = np.random.default_rng(5)
    X = rng.normal(60.0, 10.0, (140, 1)).round()
    life, end = np.exp(3.0 - 0.02 * (X[:, 0] - 60.0)) * rng.weibull(1.4, 140), rng.uniform(2.0, 60.0, 140)
    y = np.column_stack([np.minimum(life, end), life <= end])
    kernel = bgp.kernels.Gaussian(20.0) + bgp.kernels.Bias(4.0)
    for likelihood in (Weibull(1.0), LogLogistic(1.0)):
        idata = bgp.fit(X, y, kernel, Censored(likelihood), hyper="evidence", draws=5, random_seed=1, progress=False)
        assert 0.8 < float(idata["fit"]["shape"]) < 3.0


def test_measurements_have_them_too_and_labels_have_none():
    y = np.column_stack([np.log(Y["time"]), Y["event"]])
    idata = bgp.fit(X, y, KERNEL, Censored(Gaussian(0.3)), draws=5, random_seed=1)
    mean, _ = bgp.posterior(idata).latent(NEW)
    np.testing.assert_allclose(survival.median_time(idata, NEW)["median"], mean, atol=1e-8)
    labels = bgp.fit(X, Y["event"], KERNEL, draws=5, random_seed=1)
    with pytest.raises(bgp.UndefinedQuantityError, match="does not know how likely"):
        survival.survival_function(labels, NEW, AT)
    with pytest.raises(ValueError, match="times must be finite"):
        survival.survival_function(idata, NEW, [np.nan])


def reference():
    rng = np.random.default_rng(11)
    time = np.round(rng.exponential(5, 40), 0) + 1.0
    event = rng.random(40) < 0.6
    score = np.round(time * 0.5 + rng.normal(0, 3, 40), 0)
    at = np.array([2.0, 4.0, 7.0])
    return np.column_stack([time, event]), score, at, np.exp(-at / (np.maximum(score, 1.0)[:, None] + 1.0))


def test_scores_are_those_of_lifelines_and_scikit_survival():
    """Of lifelines 0.30 and scikit-survival 0.25, with ties of times and of scores."""
    y, score, at, p = reference()
    assert survival.concordance_index(y, score) == pytest.approx(0.7357142857142858, abs=1e-14)
    np.testing.assert_allclose(survival.brier_curve(y, p, at), [0.17052216, 0.27923397, 0.19639035], atol=1e-8)
    split = survival.brier_curve(y[::2], p[::2], at, y_fit=y[1::2])
    np.testing.assert_allclose(split, [0.15661623, 0.18585149, 0.18510944], atol=1e-8)
    expected = [0.925, 0.84791667, 0.78943966, 0.65786638, 0.55399274, 0.48474365, 0.4101677]
    np.testing.assert_allclose(survival.kaplan_meier(y)[1][:7], expected, atol=1e-8)


def test_cases_that_are_left_with_the_last_event_do_not_matter_before_it():
    y, p = [[1.0, 1], [2.0, 0], [3.0, 1], [3.0, 0]], [[0.2], [0.9], [0.7], [0.8]]
    sooner = [[1.0, 1], [2.0, 0], [3.0, 1], [4.0, 0]]
    np.testing.assert_allclose(survival.brier_curve(y, p, [1.5]), survival.brier_curve(sooner, p, [1.5]), rtol=1e-14)


def test_without_censoring_scores_are_plain():
    time = RNG.exponential(size=30)
    assert survival.concordance_index(time, time) == 1.0
    assert survival.concordance_index(time, -time) == 0.0
    assert survival.concordance_index(time, np.zeros(30)) == 0.5
    p = RNG.random((30, 2))
    at = np.quantile(time, [0.3, 0.7])
    expected = np.mean((p - (time[:, None] > at)) ** 2, axis=0)
    np.testing.assert_allclose(survival.brier_curve(time, p, at), expected, rtol=1e-12)


def test_what_cannot_be_scored_is_refused_in_words():
    y, score, at, p = reference()
    with pytest.raises(ValueError, match="no two cases of which it is known"):
        survival.concordance_index([[2.0, 1], [1.0, 0]], [1.0, 2.0])
    with pytest.raises(ValueError, match="a finite number for each of 40 cases"):
        survival.concordance_index(y, score[:-1])
    with pytest.raises(ValueError, match="censored from the right"):
        survival.concordance_index([[0.5, 2.0], [1.0, 3.0]], [1.0, 2.0])
    with pytest.raises(ValueError, match="must hold probabilities"):
        survival.brier_curve(y, p + 1.0, at)
    with pytest.raises(ValueError, match="from which on no case was observed"):
        survival.brier_curve([[1.0, 1], [2.0, 0]], [[0.5], [0.5]], [3.0])


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("seen", [Gaussian(0.5), Weibull(1.5), LogNormal(0.4), LogLogistic(2.0), Exponential()])
def test_the_evidence_is_the_integral_for_few_cases(n, seen):
    """By the trapezoidal rule in white variables: TAP at once for one, corrected for more; Laplace is farther off."""
    likelihood = Censored(seen, [np.inf, np.nan, 2.0][:n])
    t, at, kernel = np.array([1.6, 0.7, 0.9])[:n], np.array([[0.0], [0.7], [1.5]])[:n], bgp.kernels.Gaussian(1.0, 1.5)
    z = np.linspace(-9.0, 9.0, {1: 2001, 2: 401, 3: 91}[n])
    white = np.stack(np.meshgrid(*[z] * n, indexing="ij"), axis=-1).reshape(-1, n)
    f = white @ np.linalg.cholesky(kernel.gram(at)).T
    log_density = likelihood.log_prob(t, f).value.sum(axis=1) - 0.5 * np.sum(white**2, axis=1)
    exact = np.log(np.sum(np.exp(log_density))) + n * (np.log(z[1] - z[0]) - 0.5 * np.log(2.0 * np.pi))
    fit = bgp.fit(at, t, kernel, likelihood, draws=1, chains=1, random_seed=1)["fit"]
    tap, corrected = float(fit["log_evidence"]), float(fit["log_evidence"] + fit["log_evidence_correction"])
    np.testing.assert_allclose(tap, exact, atol=1e-12 if n == 1 else 6e-3)
    np.testing.assert_allclose(corrected, exact, atol=1e-12 if n == 1 else 3e-4)
    laplace = bgp.solve(kernel.gram(at), t, likelihood, method="laplace").evidence.value
    assert abs(laplace - exact) > 10.0 * abs(corrected - exact)


def test_calibration_draws_times_that_are_seen_and_refuses_limits():
    kernel, few = bgp.kernels.Gaussian(1.0), X[:12]
    options = {"replicas": 4, "draws": 20, "random_seed": 1, "progress": False}
    with pytest.raises(ValueError, match="drawn as they are when all are seen"):
        bgp.calibrate(few, kernel, Censored(Weibull(1.5), np.full(12, np.inf)), **options)
    assert bgp.calibrate(few, kernel, Censored(Weibull(1.5)), **options) is not None


def test_curves_are_drawn_beside_what_became_of_all(tmp_path):
    idata = fitted()
    ax = bgp.plots.plot_survival(idata, random_seed=1)
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names == ["Kaplan-Meier", "all cases, expected"]
    mean = survival.population_survival(idata, AT, random_seed=1)
    each = survival.survival_function(idata, X, AT)["mean"].values
    np.testing.assert_allclose(mean["mean"], each.mean(axis=0), rtol=1e-10)
    assert np.all((mean["lower"] < mean["mean"]) & (mean["mean"] < mean["upper"]))
    frame = pd.DataFrame(NEW, index=["young", "old"])
    ax = bgp.plots.plot_survival(idata, frame)
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["young", "old"]
    limits = bgp.fit(
        X[:3], [[1.0, 2.0], [2.0, 3.0], [0.0, 4.0]], KERNEL, Censored(Weibull(1.5)), draws=5, random_seed=1
    )
    ax = bgp.plots.plot_survival(limits, random_seed=1)  # of which there is no Kaplan-Meier curve
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["all cases, expected"]
    bgp.report(idata, tmp_path / "page.html")
    assert "Kaplan and Meier" in (tmp_path / "page.html").read_text()


def test_priors_of_times_are_of_their_logarithms():
    X, kernel = np.linspace(0.0, 1.0, 5)[:, None], bgp.kernels.Gaussian()
    of_times, of_amounts = (
        bgp.priors.suggest(X, kernel, likelihood, between=(1.0, 20.0))["variance"]
        for likelihood in (bgp.likelihoods.Weibull(1.5), bgp.likelihoods.Gamma(2.0))
    )
    assert of_times == of_amounts


def test_new_targets_may_be_limits_and_are_scored_as_what_they_say(tmp_path):
    idata = fitted()
    new, life, end = X[:6] + 0.1, LIFE[:6], END[:6]
    frame = pd.DataFrame({"time": np.minimum(life, end), "event": life <= end})
    fields = np.array(list(zip(frame["event"], frame["time"], strict=True)), dtype=[("seen", bool), ("time", float)])
    assert frame["event"].nunique() == 2
    found = bgp.diagnostics.log_predictive_density(idata, new, frame)
    np.testing.assert_array_equal(bgp.diagnostics.log_predictive_density(idata, new, fields), found)
    mean, variance = bgp.posterior(idata).latent(new)
    for i, (time, event) in enumerate(frame.itertuples(index=False)):
        likelihood = Censored(LIKELIHOODS["weibull"], [np.nan if event else np.inf])
        expected = likelihood.log_partition(np.array([time]), mean[i : i + 1], variance[i : i + 1]).value
        np.testing.assert_allclose(found[i], expected[0], rtol=1e-12)
    shifted = bgp.fit(X, Y, KERNEL, Censored(Weibull(1.5)), offset=0.5, draws=20, random_seed=1, progress=False)
    moved = bgp.diagnostics.log_predictive_density(shifted, new, frame, offset=0.5)
    np.testing.assert_allclose(
        bgp.diagnostics.log_predictive_density(shifted, new, frame * [np.exp(0.2), 1], offset=0.7),
        moved - 0.2 * frame["event"],  # a density has a unit, a probability none
        rtol=1e-9,
    )
    for name, y_test in (("frame", frame), ("fields", fields)):
        page = bgp.report(idata, tmp_path / f"{name}.html", X_test=new, y_test=y_test).read_text(encoding="utf-8")
        assert f"{found.mean():.4f}" in page
    with pytest.raises(ValueError, match="y_test must have a target for each of the 6 new cases"):
        bgp.report(idata, tmp_path / "bad.html", X_test=new, y_test=np.ones((5, 2)))
    with pytest.raises(bgp.UndefinedQuantityError, match="some targets are limits"):
        bgp.plots.plot_calibration(idata)


def test_a_report_scores_limits_of_cases_of_a_group_that_is_new(tmp_path):
    table = pd.DataFrame({"a": X[:, 0], "g": np.where(np.arange(60) % 3, "u", "v")})
    idata = bgp.fit(table, Y, likelihood=Censored(Weibull(1.5)), draws=20, random_seed=1, progress=False)
    new = pd.DataFrame({"a": [0.0, 1.0], "g": ["u", "elsewhere"]})
    found = bgp.diagnostics.log_predictive_density(idata, new, Y[:2])
    predicted = bgp.predict(idata, new, random_seed=1)
    page = bgp.report(predicted, tmp_path / "new.html", y_test=Y[:2]).read_text(encoding="utf-8")
    assert f"{found.mean():.4f}" in page
    np.testing.assert_allclose(bgp.diagnostics.predicted(predicted, Y[:2]).log_density, found, rtol=1e-9)
