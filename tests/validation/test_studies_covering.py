"""The study of combinations of options: what its check refuses."""

from __future__ import annotations

from validation.studies import covering
from validation.studies.__main__ import STUDIES
from validation.studies.covering import STUDY


def made_up(**wrong):
    return {task.name: {"works": 20, "refused": 2, "failed": [], **wrong} for task in STUDY.tasks}


def failed(results):
    return {check.name for check in STUDY.conclude(results).checks if not check.passed}


def test_the_check_fails_for_one_cell_that_does():
    assert STUDY in STUDIES
    assert not failed(made_up())
    first = STUDY.tasks[0].name
    one = made_up() | {first: {"works": 20, "refused": 2, "failed": [["probit", "KeyError: 'x'"]]}}
    assert failed(one) == {"Cells that fail"}
    (table,) = STUDY.conclude(one).blocks[1:]
    assert table.rows == [(first, "probit", "KeyError: 'x'")]
    assert failed(made_up(works=0)) == {"Cells that work"}


def test_a_cell_that_breaks_a_law_is_told(monkeypatch):
    cell = dict(covering.cells("triples", covering.SEED)[0])
    monkeypatch.setattr(covering, "cells", lambda kind, seed: [cell, {**cell, "kernel": "no such kernel"}])
    monkeypatch.setitem(covering.PARTS, "triples", 1)
    found = covering.tried("triples", 0, covering.SEED)
    assert found["works"] + found["refused"] == 1
    assert len(found["failed"]) == 1
