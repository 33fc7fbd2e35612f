"""Scores against values worked out by hand, and what bad input is told."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

from bayesgp_mf.diagnostics import calibration_table, error_count, mean_log_score

SCORES = (error_count, mean_log_score, calibration_table)


def test_errors_are_counted_on_both_sides():
    assert error_count([0, 0, 1, 1], [0.1, 0.9, 0.2, 0.8]) == 2


def test_one_half_predicts_class_0():
    assert error_count([0, 1], [0.5, 0.5]) == 1
    assert error_count([1], [np.nextafter(0.5, 1.0)]) == 0


def test_log_score_is_the_mean_log_probability_in_nats():
    expected = (math.log(0.75) + math.log(0.5) + math.log(0.9)) / 3
    assert mean_log_score([0, 0, 1], [0.25, 0.5, 0.9]) == pytest.approx(expected, rel=1e-14)


@pytest.mark.parametrize(("label", "p"), [(1, 0.0), (0, 1.0)])
def test_an_impossible_label_scores_minus_infinity(label, p):
    assert mean_log_score([label, 1], [p, 0.5]) == -math.inf


def test_a_certain_right_label_costs_nothing():
    assert mean_log_score([1, 0], [1.0, 0.0]) == 0.0


def test_small_probabilities_are_not_clipped():
    assert mean_log_score([1], [1e-300]) == pytest.approx(-300 * math.log(10))
    assert mean_log_score([0], [1e-18]) == pytest.approx(-1e-18, rel=1e-12, abs=0.0)


@pytest.mark.parametrize("kind", [bool, int, float, object])
def test_labels_may_be_of_any_kind_of_0_and_1(kind):
    labels = np.array([0, 1, 1]).astype(kind)
    assert error_count(labels, [0.9, 0.9, 0.9]) == 1
    assert mean_log_score(labels, [0.5, 0.25, 1.0]) == pytest.approx(math.log(0.125) / 3)


def test_calibration_by_hand():
    table = calibration_table([0, 1, 0, 1, 1], [0.0, 0.25, 0.5, 0.75, 1.0], bins=2)
    np.testing.assert_array_equal(table.lower, [0.0, 0.5])
    np.testing.assert_array_equal(table.upper, [0.5, 1.0])
    np.testing.assert_array_equal(table.cases, [2, 3])  # a lower edge belongs to its bin, and so does 1
    np.testing.assert_allclose(table.predicted, [0.125, 0.75])
    np.testing.assert_allclose(table.observed, [0.5, 2 / 3])


@pytest.mark.parametrize(("ones", "n"), [(1, 3), (0, 4), (4, 4), (7, 20)])
def test_interval_is_clopper_and_pearsons(ones, n):
    labels = np.arange(n) < ones
    table = calibration_table(labels, np.full(n, 0.3), bins=1, level=0.9)
    low, high = table.interval_low[0], table.interval_high[0]
    # each limit is the probability under which what was seen, or more extreme, has probability 5 %
    assert low == 0.0 if ones == 0 else binom.sf(ones - 1, n, low) == pytest.approx(0.05)
    assert high == 1.0 if ones == n else binom.cdf(ones, n, high) == pytest.approx(0.05)


def test_empty_bins_are_left_out():
    table = calibration_table([1, 0], [0.95, 0.3], bins=[0.0, 0.25, 0.5, 0.75, 1.0])
    np.testing.assert_array_equal(table.lower, [0.25, 0.75])
    np.testing.assert_array_equal(table.upper, [0.5, 1.0])
    np.testing.assert_array_equal(table.cases, [1, 1])
    np.testing.assert_array_equal(table.observed, [0.0, 1.0])


def test_true_probabilities_lie_in_their_intervals_and_wrong_ones_do_not():
    rng = np.random.default_rng(5)
    p = rng.random(20_000)
    labels = rng.random(p.size) < p

    def covered(predicted):
        table = calibration_table(labels, predicted, bins=10, level=0.999)
        return np.sum((table.interval_low <= table.predicted) & (table.predicted <= table.interval_high))

    assert covered(p) == 10
    assert covered(p**1.3) < 5


@pytest.mark.parametrize("score", SCORES)
@pytest.mark.parametrize(
    ("labels", "p", "message"),
    [
        ([-1, 1], [0.5, 0.5], r"0/1 or booleans, got also -1"),
        (["No", "Yes"], [0.5, 0.5], r"0/1 or booleans, got also No, Yes.*y == name"),
        ([0.5], [0.5], "got also 0.5"),
        ([np.nan, 1], [0.5, 0.5], "got also nan"),
        ([0, 1], [0.5], r"shape of labels \(2,\), got \(1,\)"),
        ([[0, 1]], [[0.5, 0.5]], r"got shape \(1, 2\)"),
        ([], [], r"got shape \(0,\)"),
        ([0, 1], [0.5, 1.5], r"1 of 2 are not \(the first at index 1: 1.5\)"),
        ([0, 1], [0.5, -1e-9], "index 1"),
        ([0, 1], [np.nan, 0.5], "index 0: nan"),
        ([0, 1], ["a", "b"], "must hold numbers"),
    ],
)
def test_bad_input_is_told_what_was_expected(score, labels, p, message):
    with pytest.raises(ValueError, match=message):
        score(labels, p)


@pytest.mark.parametrize("bins", [0, -3, True, "ten", [0.0, 0.6], [0.1, 1.0], [0.0, 0.7, 0.3, 1.0], [0.0], 2.5])
def test_bad_bins_are_told_what_was_expected(bins):
    with pytest.raises(ValueError, match="number of bins, or increasing edges from 0 to 1"):
        calibration_table([0, 1], [0.5, 0.5], bins=bins)


@pytest.mark.parametrize("level", [0.0, 1.0, 95, float("nan")])
def test_bad_level_is_told_what_was_expected(level):
    with pytest.raises(ValueError, match="level must be between 0 and 1"):
        calibration_table([0, 1], [0.5, 0.5], level=level)
