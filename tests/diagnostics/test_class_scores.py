"""Scores of the probabilities of several classes."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from bayesgp_mf.diagnostics import class_scores

P = np.array([[0.5, 0.3, 0.2], [0.6, 0.2, 0.2], [0.1, 0.1, 0.8]])


def test_by_hand():
    scores = class_scores(["a", "c", "c"], P, ["a", "b", "c"])
    assert scores[:2] == (3, 1)
    np.testing.assert_allclose(scores.log_score, np.mean(np.log([0.5, 0.2, 0.8])))
    np.testing.assert_allclose(scores.brier_score, (0.38 + 1.04 + 0.06) / 3)
    assert class_scores([0], [[0.0, 1.0]], [0, 1]).log_score == -np.inf
    two = class_scores([0, 1], [[0.9, 0.1], [0.4, 0.6]], [0, 1])
    np.testing.assert_allclose(two.brier_score, (0.1**2 + 0.4**2) / 2)  # as scikit-learn has it


@pytest.mark.parametrize(
    ("labels", "probabilities", "message"),
    [
        (["a", "d", "c"], P, r"none of the classes of the fit \['a', 'b', 'c'\]: \['d'\]"),
        (["a", "c"], P, r"a row for each of 2 labels and a column for each of 3 classes, got shape \(3, 3\)"),
        (["a", "c", "c"], P[:, :2], r"got shape \(3, 2\)"),
        (["a", "c", "c"], 2 * P, "sum to one"),
        (["a", "c", "c"], P * np.nan, "must be finite"),
    ],
)
def test_bad_input(labels, probabilities, message):
    with pytest.raises(ValueError, match=message):
        class_scores(labels, probabilities, ["a", "b", "c"])


@pytest.mark.parametrize(
    ("labels", "names"), [([0, 1], "01"), ([False, True], ["False", "True"]), ([0.5, 1.5], ["0.5", "1.5"])]
)
def test_names_are_those_of_a_container_as_text(labels, names):
    p = [[0.9, 0.1], [0.2, 0.8]]
    named = xr.DataArray(list(names), dims="class")
    assert class_scores(labels, p, named) == class_scores(["a", "b"], p, ["a", "b"])
    assert class_scores(labels[::-1], p, named.values).errors == 2


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        (["a"], ["a", "a"], "names that differ"),
        (["1"], [1, "1"], "names that differ"),
        ([["a"]], ["a", "b"], r"one for each case, got shape \(1, 1\)"),
        ([{"a": 1}], ["a", "b"], "text or numbers"),
        ([None], ["a", "b"], "none of the classes"),
        (["a"], "ab", "class_names must be a sequence"),
    ],
)
def test_labels_and_names_that_are_none(labels, names, message):
    with pytest.raises(ValueError, match=message):
        class_scores(labels, [[0.3, 0.7]], names)
