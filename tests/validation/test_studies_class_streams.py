"""The study of streams of ten classes: its tasks learn, and its checks fail where streams are worse."""

from __future__ import annotations

import numpy as np
import pytest

from validation.studies.class_streams import STUDY, at_once, each, together


@pytest.mark.parametrize("task", [together, each])
def test_a_stream_learns(task):
    assert task(10, 1, n=200)["score"] > np.log(0.1) + 0.7


def test_all_cases_at_once_are_learned():
    assert at_once(10, n=200)["score"] > np.log(0.1) + 0.7


def test_what_is_as_claimed_passes_and_what_is_not_fails():
    def failed(**worse):
        results = {task.name: {"score": -0.17, "errors": 0.03, "prequential": -0.5} for task in STUDY.tasks}
        for name, score in worse.items():
            results[f"{name[1:4]} inputs, order 2"]["score"] = score
        return [check.name for check in STUDY.conclude(results).checks if not check.passed]

    assert failed() == []
    assert failed(_100=-0.2) == ["100 inputs, worst order above all at once", "100 inputs, range over orders"]
    assert failed(_200=-0.14) == ["200 inputs, range over orders"]
