"""The studies: results are kept by content, a stopped run goes on, and a wrong number fails its check."""

from __future__ import annotations

import json

import numpy as np
import pytest

from bayesgp_mf.reports.page import Table
from tests.reports.page_parser import check_self_contained
from validation.reporting.checks import Check
from validation.studies import perceptron
from validation.studies.__main__ import main
from validation.studies.store import Store, code_digest
from validation.studies.study import Findings, Study, Task


def square(x, log):
    """Return the square, and note on disk that it was computed."""
    with open(log, "a") as file:
        file.write(f"{x}\n")
    if x < 0:
        raise ArithmeticError(f"no square of {x}")
    return {"square": x**2}


def study_of(log, xs, name="squares"):
    """Return a study that adds up squares and allows 20."""

    def conclude(results):
        total = sum(result["square"] for result in results.values())
        return Findings((Check("sum", total, "at most", 20.0, ""),), (Table("Squares.", ("x",), [("1",)]),))

    tasks = [Task(f"x = {x}", square, {"x": x, "log": str(log)}, cost=x) for x in xs]
    return Study(name, f"The {name}", tasks, conclude)


def run(tmp_path, *studies, names=()):
    return main([*names, "--output", str(tmp_path / "out"), "--processes", "1"], studies)


def computed(log):
    return [int(line) for line in log.read_text().split()] if log.exists() else []


def test_nothing_is_computed_twice_and_the_numbers_are_the_same(tmp_path, capsys):
    log = tmp_path / "log"
    assert run(tmp_path, study_of(log, [1, 2, 3])) == 0
    first = (tmp_path / "out" / "validation.json").read_bytes()
    assert computed(log) == [3, 2, 1]  # the longest first
    assert run(tmp_path, study_of(log, [1, 2, 3])) == 0
    assert computed(log) == [3, 2, 1]
    assert (tmp_path / "out" / "validation.json").read_bytes() == first
    assert "3 of 3 results are there from before" in capsys.readouterr().out
    found = json.loads(first)["studies"][0]
    assert [task["result"]["square"] for task in found["tasks"]] == [1, 4, 9]
    assert found["checks"][0]["passed"] is True


def test_a_run_that_was_stopped_goes_on(tmp_path):
    log, whole = tmp_path / "log", study_of(tmp_path / "log", [1, 2, 3])
    store = Store(tmp_path / "out" / "results", code_digest())
    store.run(whole.tasks[1])
    (tmp_path / "out" / "results" / "half.part").write_text("{")  # what a kill leaves behind
    assert run(tmp_path, whole) == 0
    assert sorted(computed(log)) == [1, 2, 3]
    stopped = (tmp_path / "out" / "validation.json").read_bytes()
    main(["--output", str(tmp_path / "other"), "--processes", "1"], [whole])
    assert (tmp_path / "other" / "validation.json").read_bytes() == stopped


def spoilt(good, other):
    """Return what may have become of a result: nothing, a half, another task's, or one digit of it."""
    changed = good.replace(b"4}", b"5}")
    assert changed != good
    return [b"", good[:20], good[:-1], b"\xff\xfe", b"{}", other, changed, good.replace(b"a", b"b", 1), good + b" "]


def test_a_result_that_is_not_what_was_written_is_computed_again(tmp_path):
    log, whole = tmp_path / "log", study_of(tmp_path / "log", [1, 2, 3])
    assert run(tmp_path, whole) == 0
    results = {path.read_bytes(): path for path in (tmp_path / "out" / "results").iterdir()}
    first = (tmp_path / "out" / "validation.json").read_bytes()
    good = next(content for content in results if content.endswith(b'{"square": 4}'))
    other = next(content for content in results if content != good)
    for content in spoilt(good, other):
        results[good].write_bytes(content)
        log.unlink()
        assert run(tmp_path, whole) == 0
        assert computed(log) == [2]
        assert results[good].read_bytes() == good
        assert (tmp_path / "out" / "validation.json").read_bytes() == first
    store = Store(tmp_path / "out" / "results", "other code")
    with pytest.raises(ValueError, match="no whole result of the task 'x = 2'"):
        store.load(whole.tasks[1])


def interrupt(x, log):
    """Do as Ctrl-C does."""
    raise KeyboardInterrupt


def test_an_interrupt_keeps_what_is_there(tmp_path, capsys):
    whole = study_of(tmp_path / "log", [1, 2, 3])
    tasks = [whole.tasks[2], Task("stop", interrupt, {"x": 0, "log": ""}, cost=0.5)]
    assert run(tmp_path, Study(whole.name, whole.title, tasks, whole.conclude)) == 130
    assert "the same command goes on" in capsys.readouterr().err
    assert not (tmp_path / "out" / "validation.json").exists()
    assert run(tmp_path, whole) == 0
    assert computed(tmp_path / "log") == [3, 2, 1]


def test_a_task_that_fails_is_named_and_does_not_take_the_others_along(tmp_path, capsys):
    log = tmp_path / "log"
    assert run(tmp_path, study_of(log, [-1, 2], "bad"), study_of(log, [3], "good")) == 1
    said = capsys.readouterr()
    assert "bad: x = -1 failed." in said.err
    assert "no square of -1" in said.err
    assert "PASS  sum: 9.0000" in said.out
    page = (tmp_path / "out" / "validation.html").read_text()
    assert "1 of 2 studies are on this page." in check_self_contained(page).text
    assert "1 tasks raised an error" in page


def test_a_number_beyond_its_tolerance_fails(tmp_path, capsys):
    assert run(tmp_path, study_of(tmp_path / "log", [4, 3])) == 1
    assert "FAIL  sum: 25.0000 (at most 20)" in capsys.readouterr().out
    page = (tmp_path / "out" / "validation.html").read_text()
    assert "1 of 1 checks failed: The squares: sum." in page


def test_only_what_is_named_runs(tmp_path, capsys):
    log = tmp_path / "log"
    assert run(tmp_path, study_of(log, [1], "one"), study_of(log, [2], "two"), names=["two"]) == 0
    assert computed(log) == [2]
    with pytest.raises(SystemExit):
        run(tmp_path, study_of(log, [1], "one"), names=["three"])
    assert "there is no study three; choose from one" in capsys.readouterr().err


def test_other_arguments_or_other_code_are_another_result(tmp_path):
    task = Task("x", square, {"x": 1})
    assert task.digest("code") == Task("y", square, {"x": 1}, cost=9.0).digest("code")
    assert len({task.digest("code"), task.digest("other"), Task("x", square, {"x": 2}).digest("code")}) == 3


def test_two_tasks_of_one_name_are_refused():
    with pytest.raises(ValueError, match="two tasks of one name"):
        study_of("log", [1, 1])


class TestPerceptron:
    """The curve, one small data set, and the verdict."""

    def test_curve_is_the_published_one(self):
        """Györgyi & Tishby's numbers, as they stand in the literature to four digits."""
        known = [0.3224, 0.2544, 0.1745, 0.1299, 0.1023, 0.0839, 0.0541, 0.0436]
        np.testing.assert_allclose([perceptron.replica_error(a) for a in perceptron.RATIOS], known, atol=6e-5)
        assert 100.0 * perceptron.replica_error(100.0) == pytest.approx(0.442, abs=2e-3)  # its asymptote

    def test_errors_of_one_data_set(self):
        few, many = perceptron.errors(30, 0.5, 0), perceptron.errors(30, 3.0, 0)
        assert many == perceptron.errors(30, 3.0, 0)
        assert 0.05 < many["tap"] < few["tap"] < 0.5
        assert few["variational"] is not None
        assert many["variational"] is None  # its Gram matrix is singular

    @pytest.mark.parametrize(("off", "verdict"), [(0.0, True), (0.02, False)])
    def test_verdict(self, off, verdict):
        results = {}
        for task in perceptron.STUDY.tasks:
            error = perceptron.replica_error(task.arguments["ratio"]) + off + 1e-3 * (-1) ** task.arguments["seed"]
            results[task.name] = dict.fromkeys(perceptron.METHODS, error)
        findings = perceptron.STUDY.conclude(results)
        assert all(check.passed is verdict for check in findings.checks)
        assert len(findings.checks) == len(perceptron.RATIOS)
