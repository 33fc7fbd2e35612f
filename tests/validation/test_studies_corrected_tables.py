"""The study of corrected evidences on tables, made small."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.reports.page import Figures, Table
from validation.studies.__main__ import STUDIES
from validation.studies.corrected.tables import CASES, DRAWS, MANY_DRAWS, STUDY, VARIANCES, data, evidences


def made_up(left=0.03, stated=0.05, off=0.2, error=1e-4):
    """Return results in which the correction leaves some part of every error, and says how much."""
    row = {"n": 9, "exact": -5.0, "error": error, "tap": -5.0 - off, "importance": -5.02, "importance_error": 0.02}
    row |= {"correction": (1.0 - left) * off, "remaining": stated * off, "laplace": -7.0, "pareto_k": 0.4}
    return {task.name: row | {"likelihood": task.arguments["likelihood"]} for task in STUDY.tasks}


def failed(results):
    return {check.name.split(",")[0] for check in STUDY.conclude(results).checks if not check.passed}


def test_it_is_one_of_the_studies_and_covers_every_table_and_likelihood():
    assert STUDY in STUDIES
    assert {(task.arguments["name"], task.arguments["likelihood"]) for task in STUDY.tasks} == {
        (name, likelihood) for name in CASES for likelihood in VARIANCES
    }


@pytest.mark.parametrize("likelihood", ["probit", "step", "logit"])
@pytest.mark.parametrize("name", ["toy", "crabs"])
def test_a_small_part_of_a_table_gets_nearer(name, likelihood):
    found = evidences(name, likelihood, 2.0, 10.0, n=12, draws=20_000)
    off = found["exact"] - found["tap"]
    error = np.hypot(found["error"], found["importance_error"])
    assert abs(off - found["correction"]) < abs(off) / 3 + 3 * found["error"]
    assert abs(found["importance"] - found["exact"]) <= 5 * error
    assert (found["laplace"] is None) == (likelihood == "step")
    assert (found["importance"] == found["exact"]) == (likelihood == "logit")
    assert found == evidences(name, likelihood, 2.0, 10.0, n=12, draws=20_000)


def test_what_is_fitted_are_cases_of_the_table():
    for name, n in CASES.items():
        X, t = data(name, n)
        assert len(X) == n
        assert set(t) == {-1.0, 1.0}
    assert DRAWS < MANY_DRAWS


def test_a_correction_that_helps_passes():
    assert failed(made_up()) == set()


@pytest.mark.parametrize(
    ("results", "names"),
    [
        (made_up(left=0.15, stated=0.2), {"Median fall of those"}),
        (made_up(stated=0.01, left=0.09, off=0.4), {"Share of errors left below 1.5 times what is stated"}),
        (made_up(off=4.0, left=0.05, stated=0.06), {"Largest error after the correction"}),
        (made_up(off=0.05), {"Control: largest error of TAP"}),
    ],
    ids=["little", "says too little", "too much is left", "nothing to correct"],
)
def test_each_check_can_fail(results, names):
    assert names <= failed(results)


def test_what_is_not_certain_is_shown_named_and_held_against_nothing():
    results = made_up()
    names = [task.name for task in STUDY.tasks]
    for name in names[:2]:
        results[name] |= {"error": 0.03, "tap": -99.0}
    logit = next(name for name in names if "logit" in name)
    results[logit]["pareto_k"] = 0.9
    findings = STUDY.conclude(results)
    assert all(check.passed for check in findings.checks)
    assert findings.checks[0].value == len(names) - 3
    text, table, _, figures = findings.blocks
    assert all(name in text for name in (*names[:2], logit))
    assert isinstance(table, Table)
    assert len(table.rows) == len(names)
    assert all(len(row) == len(table.header) for row in table.rows)
    assert isinstance(figures, Figures)
