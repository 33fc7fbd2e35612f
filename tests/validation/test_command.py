"""What all commands share: options, names, one thread, failures, verdicts; and what they write with."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from validation.command import Command, conclude, each, made_from
from validation.reporting.checks import Check, count, verdict, verdict_table
from validation.reporting.files import plain, write_json

OPTIONS = {"draws": 5, "thin": 2, "prior_white": False}
COMMAND = Command("validation.some", "Do something.", Path("out"), OPTIONS, ("one", "two"), "part")
GOOD, BAD = Check("good", 1.0, "at most", 1.0, "nats"), Check("bad", 2.0, "at most", 1.0, "")


@dataclass
class Settings:
    draws: int
    tune: int = 7


def test_options_have_their_defaults_and_their_types():
    options = COMMAND.parse([])
    assert (options.names, options.draws, options.prior_white, options.output) == ([], 5, False, Path("out"))
    options = COMMAND.parse(["two", "one", "two", "--draws", "9", "--prior-white", "--output", "elsewhere"])
    assert (options.names, options.draws, options.prior_white) == (["two", "one"], 9, True)
    assert options.output == Path("elsewhere")
    assert made_from(Settings, options, tune=3) == Settings(9, 3)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["three"], "there is no part three; choose from one, two"),
        (["--draws", "0"], "--draws must be at least 1, got 0"),
        (["--draws", "few"], "invalid int value: 'few'"),
    ],
)
def test_what_cannot_be_done_is_an_error(capsys, arguments, said):
    with pytest.raises(SystemExit) as raised:
        COMMAND.run(lambda options: pytest.fail("it was done"), arguments)
    assert raised.value.code == 2
    assert said in capsys.readouterr().err


def test_a_sampler_is_one_of_two(capsys):
    with pytest.raises(SystemExit):
        Command("validation.some", "", Path("out"), {"sampler": "pymc"}).parse(["--sampler", "stan"])
    assert "invalid choice: 'stan'" in capsys.readouterr().err


def test_help_names_the_command_its_parts_and_its_defaults(capsys):
    with pytest.raises(SystemExit):
        COMMAND.parse(["--help"])
    said = " ".join(capsys.readouterr().out.split())
    for words in ("python -m validation.some", "one, two", "of each chain (default: 5)", "(default: out)"):
        assert words in said


def test_work_has_one_blas_thread():
    def threads(options):
        return max(info["num_threads"] for info in threadpool_info() if info["user_api"] == "blas")

    with threadpool_limits(2, user_api="blas"):
        assert threads(None) == 2
        assert COMMAND.run(threads, []) == 1


def test_what_fails_takes_no_other_along(capsys):
    done = []

    def work(name):
        if name == "two":
            raise ArithmeticError("no solution here")
        done.append(name)

    assert each(["one", "two", "three"], "part", work) == (["two"], 1)
    assert done == ["one", "three"]
    said = capsys.readouterr().err
    assert "The part two failed:" in said
    assert "no solution here" in said
    assert each(["one"], "part", work) == ([], 0)


def test_ctrl_c_ends_the_work(capsys):
    done = []

    def work(name):
        done.append(name)
        raise KeyboardInterrupt

    assert each(["one", "two"], "part", work) == ([], 130)
    assert done == ["one"]
    assert "Stopped in part one" in capsys.readouterr().err


def test_verdicts_are_printed_and_are_the_exit_status(capsys):
    assert conclude([GOOD], ["Found."], [Path("page.html")]) == 0
    assert capsys.readouterr().out == "  PASS  good: 1.0000 (at most 1 nats)\nFound.\nWrote page.html\n"
    assert conclude([GOOD, BAD], [], []) == 1
    assert "  FAIL  bad: 2.0000 (at most 1)\n" in capsys.readouterr().out


def test_verdicts_in_a_sentence_and_a_table():
    assert (verdict([GOOD]), verdict([GOOD, BAD])) == ("PASS", "FAIL")
    assert count([GOOD]) == "All 1 checks passed."
    assert count([GOOD, BAD, BAD]) == "2 of 3 checks failed: bad; bad."
    assert verdict_table([BAD], " More.").caption.endswith("the verdict on it. More.")
    assert verdict_table([BAD]).rows == [("bad", "FAIL", "2.0000", "at most 1", "")]


def test_a_number_that_is_not_one_fails():
    for bound in ("at most", "at least"):
        assert Check("x", math.nan, bound, 1.0, "").verdict == "FAIL"


def test_bounds_include_their_tolerance():
    assert Check("x", 1.0, "at most", 1.0, "").passed
    assert Check("x", 1.0, "at least", 1.0, "").passed
    assert not Check("x", 1.1, "at most", 1.0, "").passed
    assert not Check("x", 0.9, "at least", 1.0, "").passed


def test_what_goes_to_json_is_plain():
    assert plain({"a": np.array([1.0, math.inf]), "b": (np.int64(3), None, True)}) == {
        "a": [1.0, None],
        "b": [3, None, True],
    }


def test_numbers_that_json_has_not_are_not_written(tmp_path):
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(tmp_path / "numbers.json", {"a": math.nan})
    assert not (tmp_path / "numbers.json").exists()
    assert write_json(tmp_path / "new" / "numbers.json", {"a": "é"}).read_text(encoding="utf-8") == '{\n "a": "é"\n}\n'
