"""The study of corrected evidences, made small."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.reports.page import Figures, Table
from validation.studies.__main__ import STUDIES
from validation.studies.corrected.evidence import STUDY, checks_of, errors_of, evidences, random_problem


def made_up(left=0.05, stated=0.06, off=0.1, error=1e-5):
    """Return results in which the correction leaves some part of every error, and says how much."""
    row = {"n": 9, "noise": 0.1, "exact": -5.0, "error": error, "tap": -5.0 - off, "laplace": -7.0}
    row |= {"correction": (1.0 - left) * off, "remaining": stated * off}
    return {task.name: dict(row) for task in STUDY.tasks}


def failed(results):
    return {
        check.name.split(",")[0]
        for check in checks_of(*errors_of(list(results.values())), len(results))
        if not check.passed
    }


def test_it_is_one_of_the_studies():
    assert STUDY in STUDIES
    assert len(STUDY.tasks) == 45


@pytest.mark.parametrize("number", [1, 3])
def test_a_small_problem_is_the_same_each_time_and_gets_nearer(number):
    found = evidences("small", number)
    assert found == evidences("small", number)
    off = found["exact"] - found["tap"]
    assert found["error"] < 1e-3
    assert abs(off - found["correction"]) < abs(off) / 3
    assert abs(found["exact"] - found["laplace"]) > abs(off)


def test_random_problems_are_those_of_their_numbers():
    sizes = {random_problem(number)[1].size for number in range(12)}
    assert len(sizes) > 6
    assert min(sizes) >= 5
    assert max(sizes) <= 60
    gram, t, _ = random_problem(7)
    np.testing.assert_array_equal(gram, random_problem(7)[0])
    assert gram.shape == (t.size, t.size)


def test_a_correction_that_helps_passes():
    assert failed(made_up()) == set()


@pytest.mark.parametrize(
    ("results", "names"),
    [
        (made_up(left=0.15, stated=0.2), {"Median fall of those"}),
        (made_up(left=0.5, stated=0.6), {"Least fall of an error above 0.01 nats", "Median fall of those"}),
        (made_up(stated=0.01), {"Share of errors left below 1.5 times what is stated"}),
    ],
    ids=["little", "less", "says too little"],
)
def test_each_check_can_fail(results, names):
    assert failed(results) == names


def test_a_correction_of_the_wrong_sign_fails_them():
    assert {"Largest growth of an error", "Least fall of an error above 0.01 nats"} <= failed(made_up(left=2.0))


def test_what_is_not_certain_is_left_out_and_counted():
    results = made_up()
    uncertain = [task.name for task in STUDY.tasks][:12]
    for name in uncertain:
        results[name]["error"] = 0.01
    findings = STUDY.conclude(results)
    assert [check.name for check in findings.checks if not check.passed] == ["Problems whose truth is known"]
    text, table, figures = findings.blocks
    assert "12 problems whose truth" in text
    assert isinstance(table, Table)
    assert len(table.rows) == 33
    assert isinstance(figures, Figures)
