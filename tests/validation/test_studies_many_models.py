"""The study of growth, stacking and plans: its tables, and what its checks refuse."""

from __future__ import annotations

import numpy as np
import pytest

from validation.studies.__main__ import STUDIES
from validation.studies.many_models import STUDY, TABLES, labelled, standardised

GOOD = {
    "grow": {"found": "bend + wave", "is_right": True, "fits": 27},
    "stack": {"best": "line", "of_best": -0.5, "error": 0.02, "stacked": -0.51},
    "plan": {"lower": -0.5, "mean": -0.4, "upper": -0.3, "measured": -0.35},
}
BAD = {
    "grow": {"found": "bend * wave", "is_right": False},
    "stack": {"stacked": -0.53},
    "plan": {"measured": -0.6},
}


def made_up(kind=None):
    """Return results that are as they should be, but for two of three of one kind."""
    kinds = {task.name: task.name.split()[0] for task in STUDY.tasks}
    return {
        name: GOOD[each] | (BAD[each] if each == kind and k % 3 else {}) for k, (name, each) in enumerate(kinds.items())
    }


def failed(results):
    return [check.name.split(":")[0] for check in STUDY.conclude(results).checks if not check.passed]


def test_each_check_refuses_what_is_wrong_in_most_of_its_tasks():
    assert STUDY in STUDIES
    assert failed(made_up()) == []
    assert [failed(made_up(kind)) for kind in GOOD] == [["grow"], ["stacking"], ["plan"]]


@pytest.mark.parametrize("name", TABLES)
def test_tables_have_two_labels_and_orders_of_their_own(name):
    X, y = labelled(name, 0)
    assert sorted(set(y.tolist())) == [0, 1]  # which is what log_scores asks of them
    assert len(y) > 500
    other, _ = labelled(name, 1)
    assert not np.array_equal(X, other)
    scaled = standardised(X, 100)
    np.testing.assert_allclose(scaled[:100].mean(axis=0), 0.0, atol=1e-9)
    assert np.all(np.isfinite(scaled))
