"""The study of adaptive thresholds, on few trials of one observer."""

from __future__ import annotations

import numpy as np
import pytest

from validation.studies import thresholds
from validation.studies.thresholds import OBSERVERS, STUDY, TRIALS, WAYS, Observer


def test_an_observer_answers_as_the_function_says():
    observer = Observer(1)
    threshold = float(observer.threshold(np.asarray(0.3)))
    share = np.mean([observer.answers(threshold, 0.3) for _ in range(4000)])
    assert share == pytest.approx(0.75, abs=4 * (0.75 * 0.25 / 4000) ** 0.5)


def test_every_way_finds_a_threshold(monkeypatch):
    monkeypatch.setattr(thresholds, "TRIALS", (12, 25))
    found = thresholds.errors_of(3, 1)
    assert set(found) == set(WAYS)
    assert all(np.shape(errors) == (1, 2) for errors in found.values())
    assert all(errors[0][-1] < 0.25 for errors in found.values())


def test_worse_than_random_is_not_let_through():
    assert sum(task.arguments["count"] for task in STUDY.tasks) == OBSERVERS == 200
    errors = {way: [[0.05, 0.03, 0.03 if "random" in way else 0.02]] for way in WAYS}
    results = {task.name: errors for task in STUDY.tasks}
    assert all(check.passed for check in STUDY.conclude(results).checks)
    for way in WAYS[:1] + WAYS[2:3]:
        wrong = {task.name: errors | {way: [[0.05, 0.03, 0.04]]} for task in STUDY.tasks}
        assert not all(check.passed for check in STUDY.conclude(wrong).checks)
    assert len(TRIALS) == 3
