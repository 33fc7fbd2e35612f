"""The study of functions that rise: its truths, and what its checks refuse."""

from __future__ import annotations

import numpy as np

from validation.studies.__main__ import STUDIES
from validation.studies.monotone import STUDY, compare, truth

GOOD = {
    "wrong": 0.0,
    "falls": [0.3, 0.0],
    "scores": [-0.5, -0.4],
    "places": 8,
    "verdict": "good",
    "seconds": [0.1, 0.3],
}


def failed(**changed):
    results = {}
    for task in STUDY.tasks:
        told = 1.0 if task.arguments["rises"] else -1.0
        results[task.name] = GOOD | {"evidence": [0.0, told]} | changed
    return {check.name.split(": ")[1] for check in STUDY.conclude(results).checks if not check.passed}


def test_each_check_refuses_what_is_wrong():
    assert STUDY in STUDIES
    assert failed() == set()
    assert failed(wrong=0.02) == {"share of inputs with a wrong slope"}
    assert failed(scores=[-0.4, -0.5]) == {"gain in log score"}
    assert failed(evidence=[0.0, 1.0]) == {"share of truths that the evidence tells"}


def test_truths_are_what_they_are_said_to_be():
    x = np.linspace(0.0, 10.0, 400)
    for seed in range(20):
        assert np.all(np.diff(truth(np.random.default_rng(seed), True)(x)) > 0)
        assert np.diff(truth(np.random.default_rng(seed), False)(x)).min() < -0.003


def test_a_comparison_is_of_two_fits_to_one_table():
    found = compare("labels", 30, 0, True)
    assert found["wrong"] == 0.0
    assert found["falls"][1] == 0.0
    assert np.all(np.isfinite(found["scores"] + found["evidence"]))
