"""Scores of the probabilities of several classes."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.diagnostics import class_scores

P = np.array([[0.5, 0.3, 0.2], [0.6, 0.2, 0.2], [0.1, 0.1, 0.8]])


def test_by_hand():
    scores = class_scores(["a", "c", "c"], P, ["a", "b", "c"])
    assert scores[:2] == (3, 1)
    np.testing.assert_allclose(scores.log_score, np.mean(np.log([0.5, 0.2, 0.8])))
    np.testing.assert_allclose(scores.brier_score, (0.38 + 1.04 + 0.06) / 3)
    assert class_scores([0], [[0.0, 1.0]], [0, 1]).log_score == -np.inf


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
