"""The study of verdicts, made small, and what its checks refuse."""

from __future__ import annotations

import pytest

from bayesgp_mf.reports.page import Figures, Table
from validation.studies.__main__ import STUDIES
from validation.studies.corrected.small_problems import Setting
from validation.studies.corrected.verdicts import SETTINGS, STUDY, judged, random_setting


def made_up(small=None, large=None):
    """Return results in which half of the errors are small, half large, and all are what they are said to be."""
    good = {
        "n": 20, "new": 0.003, "training": 0.005, "uncertain": 1e-3, "stated": 0.008, "estimated": 0.05,
        "left_out": 0.01, "verdict": "good",
    }  # fmt: skip
    bad = good | {"training": 0.1, "stated": 0.13, "verdict": "off"}
    return {name: good | (small or {}) if k % 2 else bad | (large or {}) for k, name in enumerate(SETTINGS)}


def failed(results):
    return {check.name for check in STUDY.conclude(results).checks if not check.passed}


@pytest.mark.parametrize("setting", [Setting("step", 5, 1.0, 4.0), Setting("probit", 6, 2.0, 1.0, 1.0)])
def test_a_small_problem_is_judged_rightly_and_the_same_each_time(setting):
    found = judged(list(setting), 3, 10, 2)
    assert found == judged(list(setting), 3, 10, 2)
    assert 0.3 * found["stated"] < max(found["new"], found["training"]) < found["stated"] != found["estimated"]
    assert found["verdict"] == ("off" if setting.kind == "step" else "good")


def test_a_problem_of_one_label_is_drawn_again():
    assert judged(list(Setting("probit", 2, 5.0, 100.0, 0.03)), 0, 8, 2)["n"] == 2


def test_random_settings_are_those_of_their_numbers():
    assert STUDY in STUDIES
    assert random_setting("step", 4) == random_setting("step", 4) != random_setting("step", 5)
    for name, setting in SETTINGS.items():
        assert 3 <= setting.n <= (12 if setting.kind == "flip" else 39), name
        assert (setting.noise > 0) == (setting.kind in ("probit", "flip"))


def test_verdicts_that_are_right_pass_whatever_they_are_with_flips():
    results = made_up()
    wrong = {name: row | {"verdict": "off", "training": 0.5} for name, row in results.items() if "flip" in name}
    for each in (results, results | wrong):
        findings = STUDY.conclude(each)
        assert all(check.passed for check in findings.checks)
    kinds, problems = (block for block in findings.blocks if isinstance(block, Table))
    assert (len(kinds.rows), len(problems.rows)) == (4, len(SETTINGS))
    assert all(len(row) == len(each.header) for each in (kinds, problems) for row in each.rows)
    (figures,) = (block for block in findings.blocks if isinstance(block, Figures))
    assert len(figures.figures) == 1


@pytest.mark.parametrize(
    ("small", "large", "names"),
    [
        ({"verdict": "off"}, {}, {"small error that are called off"}),
        ({}, {"verdict": "fair"}, {"large error that are called off"}),
        ({"stated": 0.004}, {}, {"within what is stated", "Control"}),
        ({"stated": 0.04}, {"stated": 0.9}, {"Stated over true", "Control"}),
        ({"training": 0.02, "stated": 0.03}, {}, {"Problems with a small error", "small error that are called off"}),
        ({"uncertain": 0.01}, {}, {"truth is known", "Problems with a small error", "small error that are called off"}),
    ],
    ids=["cries", "silent", "too little", "far too much", "nothing small", "uncertain"],
)
def test_each_check_can_fail(small, large, names):
    found = failed(made_up(small, large))
    assert found
    assert all(any(name in check for name in names) for check in found), found
