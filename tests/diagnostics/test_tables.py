"""Predictions against what came: counts of them obey what they are counts of."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import mannwhitneyu, norm, poisson

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import confusion_table, count_table, pit_curve, predicted, roc_curve
from tests.plots.fits import MAKERS, ONE, SMALL, TRIALS, X1, X2, F, Z, made


def millions():
    kernel = bgp.kernels.Gaussian(1.0, 4.0) + bgp.kernels.Bias(400.0)
    return bgp.fit(X1, np.round(2e7 * np.exp(0.1 * F)), kernel, bgp.Poisson(), **SMALL)


def test_the_area_under_the_curve_is_mann_and_whitneys():
    rng = np.random.default_rng(1)
    labels, scores = rng.random(60) < 0.4, np.round(rng.standard_normal(60), 1)  # with ties
    curve = roc_curve(labels, scores)
    u = mannwhitneyu(scores[labels], scores[~labels]).statistic
    np.testing.assert_allclose(curve.area, u / (labels.sum() * (~labels).sum()))
    np.testing.assert_allclose(roc_curve(labels, -scores).area, 1.0 - curve.area)
    for k, threshold in enumerate(curve.threshold):
        assert curve.true_positive[k] == np.mean(scores[labels] >= threshold)
        assert curve.false_positive[k] == np.mean(scores[~labels] >= threshold)


@pytest.mark.parametrize(
    ("labels", "scores", "message"),
    [
        ([0, 1], [0.1], "labels and scores must be"),
        ([0, 2], [0.1, 0.2], "labels must be 0/1"),
        ([0, 1], [0.1, np.nan], "scores finite"),
        ([1, 1], [0.1, 0.2], "cases of both classes"),
    ],
)
def test_no_curve_without_two_classes(labels, scores, message):
    with pytest.raises(ValueError, match=message):
        roc_curve(labels, scores)


@pytest.mark.parametrize("kind", ["binary", "classes", "inducing", "nodes", "draws"])
def test_the_probability_of_the_own_label_is_the_leave_one_out_density(kind):
    found = predicted(made(kind))
    np.testing.assert_allclose(found.probability.sum(axis=1), 1.0)
    own = found.probability[np.arange(24), found.targets]
    np.testing.assert_allclose(np.log(own), made(kind)["fit"]["loo_i"].values, rtol=1e-6)


def test_levels_have_the_probability_of_their_leave_one_out_density():
    found = predicted(made("levels"))
    np.testing.assert_allclose(found.probability.sum(axis=1), 1.0)
    own = found.probability[np.arange(24), found.targets]
    np.testing.assert_allclose(np.log(own), made("levels")["fit"]["loo_i"].values, rtol=1e-6)


def test_weights_do_not_change_what_a_case_would_be_predicted_as():
    """The leave-one-out density of a weighted case is of a power; its probability is of the label."""
    found = predicted(made("weighted"))
    loo = bgp.posterior(made("weighted")).loo
    np.testing.assert_allclose(found.score, bgp.Probit().predict_proba(loo.mean, loo.variance))
    np.testing.assert_allclose(found.probability.sum(axis=1), 1.0)


@pytest.mark.parametrize("kind", ["binary", "classes"])
def test_what_is_off_the_diagonal_are_the_errors(kind):
    table, loo = confusion_table(predicted(made(kind))), bgp.posterior(made(kind)).loo
    y = made(kind)["observed_data"]["y"].values
    assert table.sum() - np.trace(table) == loo.error_count(y if kind == "classes" else 2.0 * y - 1.0)
    np.testing.assert_array_equal(table.sum(axis=1), np.bincount(y))


def test_new_cases_are_counted_by_their_predictions():
    idata = bgp.predict(bgp.fit(X2, Z > 0, bgp.kernels.Gaussian(1.0, 4.0), draws=5, random_seed=1), X2, random_seed=2)
    p = idata["predictions"]["p"].values
    found = predicted(idata, Z > 0)
    assert not found.left_out
    np.testing.assert_array_equal(found.score, p)
    table = confusion_table(found)
    assert np.trace(table) == 24 - bgp.diagnostics.error_count(Z > 0, p)


def test_counts_and_what_is_expected_beyond_are_all_cases():
    for kind in ("counts", "proportions", "groups"):
        table = count_table(predicted(made(kind)))
        np.testing.assert_allclose(table.expected.sum() + table.beyond, 24.0)
        assert table.observed.sum() == 24
    assert count_table(predicted(made("proportions"))).counts[-1] <= TRIALS.max()


@pytest.mark.parametrize("kind", ["counts", "proportions", "groups", "far apart"])
def test_each_case_is_looked_at_where_its_counts_are(kind):
    """As the sum over all cases of each count is, at less work where these are far apart."""
    far = np.repeat([3.0, 90.0], 12)
    idata = made(kind) if kind in MAKERS else bgp.fit(X1, far, ONE, bgp.Poisson(), offset=np.log(far), **SMALL)
    found, asked = predicted(idata), 0
    total = [found.below(np.full(24, float(k))).sum() for k in range(int(found.targets.max()) + 1)]

    class Counting(type(found)):
        def below(self, t, cases=None):
            nonlocal asked
            asked += np.size(t)
            return super().below(t, cases)

    table = count_table(Counting(**{name: getattr(found, name) for name in found.__dataclass_fields__}))
    np.testing.assert_allclose(np.cumsum(table.expected), total, rtol=0.0, atol=24 * 2e-13)
    assert asked < 24 * len(total) * (0.7 if kind not in MAKERS else 1.01)


@pytest.mark.parametrize("kind", ["counts", "groups", "proportions", "regression", "student"])
def test_what_is_predicted_below_a_target_steps_by_its_leave_one_out_density(kind):
    """At the offset and the trials of the case itself."""
    found, loo = predicted(made(kind)), made(kind)["fit"]["loo_i"].values
    t = found.targets.astype(float)
    if found.is_whole:
        density = found.below(t) - found.below(t - 1.0)
    else:
        density = (found.below(t + 1e-5) - found.below(t - 1e-5)) / 2e-5
    np.testing.assert_allclose(np.log(density), loo, rtol=1e-4, atol=1e-6)


def test_expected_counts_of_new_cases_are_those_of_their_distribution():
    y = np.round(np.exp(0.5 * F))
    idata = bgp.fit(X1, y, bgp.kernels.Gaussian(1.0, 1e-8), bgp.Poisson(), draws=5, random_seed=1)  # f is zero
    idata = bgp.predict(idata, X1, random_seed=1)
    table = count_table(predicted(idata, y))
    np.testing.assert_allclose(table.expected, 24.0 * poisson.pmf(table.counts, 1.0), rtol=1e-5)


def test_levels_of_quantiles_of_new_measurements_are_those_of_the_gaussian():
    idata = bgp.predict(made("regression"), X1, random_seed=1)
    y = np.linspace(-2.0, 2.0, 24)
    predictions = idata["predictions"]
    u = norm.cdf(y, predictions["y_mean"].values, predictions["y_sd"].values)
    levels = np.linspace(0.05, 0.95, 7)
    found = pit_curve(predicted(idata, y), levels)
    np.testing.assert_allclose(found.observed, np.mean(u[:, None] <= levels, axis=0))


def test_targets_drawn_from_the_prediction_are_calibrated_also_whole_numbers():
    """The randomised transform of counts is uniform; averaged over ties its mean is, without Monte-Carlo error."""
    rng = np.random.default_rng(2)
    X = np.linspace(0.0, 1.0, 4000)[:, None]
    idata = bgp.fit(X[::400], np.ones(10), bgp.kernels.Gaussian(1.0, 1e-8), bgp.Poisson(), draws=5, random_seed=1)
    idata = bgp.predict(idata, X, draws=False)
    levels = np.linspace(0.1, 0.9, 9)
    found = pit_curve(predicted(idata, rng.poisson(1.0, 4000)), levels)
    np.testing.assert_allclose(found.observed, levels, atol=4.0 * 0.5 / np.sqrt(4000))
    off = pit_curve(predicted(idata, rng.poisson(2.0, 4000)), levels)
    assert np.max(np.abs(off.observed - levels)) > 0.1


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: count_table(predicted(made("regression"))), "whole numbers, as under Poisson"),
        (lambda: count_table(predicted(made("levels"))), "whole numbers, as under Poisson"),
        (lambda: count_table(predicted(millions())), r"up to 1000, and the largest of this fit is \d{8}\."),
        (lambda: confusion_table(predicted(made("counts"))), "neither right nor wrong"),
        (lambda: pit_curve(predicted(made("binary")), [0.5]), "labels, which have no quantiles"),
        (lambda: predicted(made("binary"), [0, 1]), "there are none. First predict"),
    ],
)
def test_what_is_not_there_is_said(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_as_many_targets_as_predictions():
    idata = bgp.predict(made("regression"), X1, draws=False)
    with pytest.raises(ValueError, match="y_new"):
        predicted(idata, [0.0, 1.0])


def test_a_console_shows_the_first_and_the_last_cases():
    for kind in ("classes", "counts", "nodes"):
        found = predicted(made(kind))
        assert len(repr(found).splitlines()) < 20
        table = found.to_frame()
        assert len(table) == 24
        if kind == "counts":
            loo = bgp.posterior(made(kind)).loo
            offset = made(kind)["constant_data"]["offset"].values
            np.testing.assert_allclose(table["predictor_mean"], loo.mean + offset)
            np.testing.assert_allclose(table["predictor_sd"], np.sqrt(loo.variance))
        else:
            assert list(table["target"]) == [found.classes[code] for code in found.targets]
            np.testing.assert_array_equal(table[found.classes[1]], found.probability[:, 1])


def test_the_spread_in_the_table_counts_that_between_settings():
    counts = np.array([0, 1, 0, 2, 1, 4, 3, 1, 0, 1])
    options = {"hyper": bgp.hyper.Integrate(starts=1), "draws": 5, "random_seed": 1, "progress": False}
    priors = {"lengthscale": bgp.hyper.LogNormal(0.7, 0.5), "variance": bgp.hyper.LogNormal(0.0, 0.5)}
    idata = bgp.fit(
        np.arange(10.0)[:, None], counts, bgp.kernels.Gaussian(2.0), bgp.Poisson(), priors=priors, **options
    )
    table, process = predicted(idata).to_frame(), bgp.posterior(idata)
    parts, weights = [part.loo for part in process.parts], process.loo_weights
    mean = sum(weight * part.mean for weight, part in zip(weights, parts, strict=True))
    square = sum(weight * (part.variance + part.mean**2) for weight, part in zip(weights, parts, strict=True))
    np.testing.assert_allclose(table["predictor_mean"], mean)
    np.testing.assert_allclose(table["predictor_sd"], np.sqrt(square - mean**2))
