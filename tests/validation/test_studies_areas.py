"""The study of areas: its tables, the draws it is held against, and what it concludes."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from validation.studies.areas import INLA, OF_INLA, R_HAT, STUDY, compare, compare_inla
from validation.studies.areas_records import TABLES, Table, recorded, sampled, table


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_whole_and_draws_are_of_them(name):
    given, found = table(name), recorded(name)
    assert len(given.neighbours) == len(given.cases) == len(found.mean) == (167 if "auckland" in name else 100)
    assert given.expected.sum() == pytest.approx(given.cases.sum())
    assert found.r_hat < R_HAT
    assert np.mean(given.cases <= 3) > (0.8 if "thinned" in name else 0.0)


def test_draws_of_a_small_table_are_near_its_counts():
    given = Table({"a": ["b"], "b": ["a"], "isle": []}, np.array([90, 80, 200]), np.array([100.0, 100.0, 170.0]))
    found = sampled(given, draws=500, tune=500, chains=2, seed=1)
    assert found.mean == pytest.approx(np.log(given.cases / given.expected), abs=0.06)
    assert found.divergences < 50


def test_a_thinned_table_is_held_against_its_draws():
    found = compare("north carolina, thinned")
    assert found["laplace"]["risk"] > 0.05 > found["tap"]["risk"]


def test_means_are_those_of_another_package():
    found = compare_inla()
    assert found["tap"]["risk"] < OF_INLA
    assert found["tap"]["slope"] < 0.05
    assert found["tap"]["precision"][0] == pytest.approx(found["tap"]["precision"][1], rel=0.03)
    assert found["tap"]["mixing"][0] == pytest.approx(found["tap"]["mixing"][1], abs=0.02)


@pytest.mark.parametrize(("key", "value"), [("risk", 0.06), ("sd", 0.09), ("scale", 0.11), ("mixing", 0.11)])
def test_a_wrong_number_fails(key, value):
    good = {"tap": dict.fromkeys(("risk", "sd", "scale", "mixing"), 0.01), "r_hat": 1.0, "divergences": 0}
    rows = {name: copy.deepcopy({**good, "laplace": {**good["tap"], "risk": 0.2}}) for name in TABLES}
    other = {"risk": 0.05, "slope": 0.0, "precision": [5.0, 5.0], "mixing": [0.9, 0.9]}
    rows[INLA] = {"tap": dict(other), "laplace": dict(other)}
    assert all(check.passed for check in STUDY.conclude(rows).checks)
    rows["auckland"]["tap"][key] = value
    assert [check.passed for check in STUDY.conclude(rows).checks].count(False) == 1
    rows[INLA]["tap"]["risk"] = 2.0 * OF_INLA
    assert [check.passed for check in STUDY.conclude(rows).checks].count(False) == 2
