from __future__ import annotations

import numpy as np
import pytest

from validation.multinomial.tables import TABLES
from validation.studies import class_searches


def test_a_search_from_a_random_start_ends():
    found = class_searches.found_from("wine", 0)
    assert found["raised"] == ""
    assert -200.0 < found["log_evidence"] < 0.0


def test_what_is_raised_is_kept_and_counted(monkeypatch):
    def broken(*given, **options):
        raise np.linalg.LinAlgError("Singular matrix")

    monkeypatch.setattr(class_searches.bgp, "fit", broken, raising=False)
    assert class_searches.found_from("wine", 1) == {"raised": "LinAlgError: Singular matrix", "log_evidence": None}


def test_the_check_fails_where_one_search_raised():
    good, bad = {"raised": "", "log_evidence": -10.0}, {"raised": "LinAlgError: Singular matrix", "log_evidence": None}
    results = {task.name: good for task in class_searches.STUDY.tasks}
    assert [check.passed for check in class_searches.STUDY.conclude(results).checks] == [True] * 4
    found = class_searches.STUDY.conclude(results | {class_searches.named("wine", 3): bad})
    assert [check.passed for check in found.checks] == [False, True, True, True]
    assert found.blocks[1].rows[0] == ("wine", "1", "19", "-10.000", "-10.000")
    assert "wine, start 3: LinAlgError" in found.blocks[-1]


@pytest.mark.parametrize("table", TABLES)
def test_the_cases_of_a_search_hold_each_class(table):
    split = next(TABLES[table]())
    assert set(class_searches.first(split).codes) == set(split.codes)
