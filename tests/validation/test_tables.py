"""The machinery of the papers' tables: lines, files, page, and what happens when one fails. No table is made here."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from tests.reports.page_parser import check_self_contained
from validation import tables as package
from validation.reporting.drawing import axes_or_new
from validation.tables import making
from validation.tables.__main__ import TABLES, main, name_of
from validation.tables.paper_table import HEADER, Entry, PaperTable


def drawn():
    ax = axes_or_new(None)
    ax.plot([0.0, 1.0], [1.0, 0.0])
    return ax


def small(name, figures=0):
    """A table with all that one can have; its title is its name in capitals."""
    return PaperTable(
        name,
        f"TITLE OF {name.upper()}",
        "2000, table 9",
        (
            Entry("errors", 63.0, np.int64(66), f"why {name} differs"),
            Entry("a rate with a long name", 0.077, 8 / 104),
            Entry("no published number", None, -99.475),
        ),
        (f"Remark on {name}. " * 20,),
        tuple((f"{name}_{i}", drawn(), f"Caption {i} of {name}.") for i in range(figures)),
    )


def script(name, make):
    module = ModuleType(f"validation.tables.{name}")
    module.make = make
    return module


def working(name, figures=0):
    def make(advance):
        advance("halfway")
        return small(name, figures)

    return script(name, make)


def failing(name):
    def make(advance):
        raise ArithmeticError("no solution here")

    return script(name, make)


@pytest.mark.parametrize(
    ("paper", "ours", "shown"),
    [
        (63.0, 66, ("63", "66", "+3")),
        (63.0, 63, ("63", "63", "0")),
        (63.0, 66.5, ("63", "66.50", "+3.50")),
        (0.077, 8 / 104, ("0.077", "0.0769", "-0.0001")),
        (0.25, 0.0, ("0.25", "0", "-0.2500")),
        (-99.0, -99.475, ("-99", "-99.47", "-0.47")),
        (None, 2.5e-7, ("", "2.5e-07", "")),
        (None, -3, ("", "-3", "")),
    ],
)
def test_numbers_are_shown_with_the_decimals_that_ours_asks_for(paper, ours, shown):
    assert Entry("quantity", paper, ours).cells()[1:4] == shown


def test_difference_is_ours_less_the_papers():
    assert Entry("quantity", 0.25, 0.125).difference == -0.125
    assert Entry("quantity", None, 0.125).difference is None


@pytest.mark.parametrize(("paper", "ours"), [(float("nan"), 1.0), (1.0, float("nan")), (None, np.inf)])
def test_a_number_that_is_not_finite_is_no_entry(paper, ours):
    with pytest.raises(ValueError, match="'quantity'"):
        Entry("quantity", paper, ours)


def test_lines_are_aligned():
    title, empty, header, *rows = small("alpha").lines()[:6]
    assert (title, empty) == ("TITLE OF ALPHA", "")
    assert header.split() == list(HEADER)
    ends = [header.index(word) + len(word) for word in HEADER[1:4]]
    for row, entry in zip(rows, small("alpha").entries, strict=True):
        assert row.startswith(entry.quantity)
        for end, cell in zip(ends, entry.cells()[1:4], strict=True):
            assert row.ljust(end)[:end].endswith(f" {cell}" if cell else "  ")
    assert rows[0].index("why") == header.index("Note")
    assert not any(line.endswith(" ") for line in [header, *rows])


def test_remarks_are_wrapped_and_kept_whole():
    table = small("alpha")
    wrapped = table.lines()[7:]
    assert len(wrapped) > 1
    assert all(len(line) <= 120 for line in wrapped)
    assert " ".join(wrapped).split() == table.remarks[0].split()


def test_files_hold_the_same_numbers(tmp_path):
    table = small("alpha", figures=2)
    paths = table.write(tmp_path / "new" / "folder")
    assert [path.name for path in paths] == ["alpha.json", "alpha_0.png", "alpha_1.png"]
    read = json.loads(paths[0].read_text(encoding="utf-8"))
    assert read == table.to_dict()
    assert read["entries"][0] == {
        "quantity": "errors",
        "paper": 63.0,
        "ours": 66.0,
        "difference": 3.0,
        "note": "why alpha differs",
    }
    assert read["entries"][2]["paper"] is None
    assert read["entries"][2]["difference"] is None
    assert read["figures"][1] == {"file": "alpha_1.png", "caption": "Caption 1 of alpha."}
    assert all(path.read_bytes().startswith(b"\x89PNG") for path in paths[1:])


def test_one_script_by_itself_prints_and_writes_its_table(tmp_path, capsys):
    assert making.main(working("alpha", figures=1).make, ["--output", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert "\n".join(small("alpha").lines()) in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alpha.json", "alpha_0.png"]


def test_all_tables_are_printed_written_and_on_the_page(tmp_path, capsys):
    names = ("alpha", "beta")
    assert main(["--output", str(tmp_path)], [working(name, figures=1) for name in names]) == 0
    printed = capsys.readouterr().out
    page = check_self_contained((tmp_path / "tables.html").read_text(encoding="utf-8"))
    assert len(page.sources) == 2
    for name in names:
        table = small(name, figures=1)
        assert "\n".join(table.lines()) in printed
        assert (tmp_path / f"{name}.json").is_file()
        assert (tmp_path / f"{name}_0.png").is_file()
        for text in (table.title, table.entries[0].note, table.remarks[0], table.figures[0][2]):
            assert text in page.text
    assert page.text.count("-0.0001") == 2
    assert "2 of the 2" in page.text


def test_only_named_tables_are_made_and_each_once(tmp_path, capsys):
    scripts = [working("alpha"), failing("beta"), working("gamma")]
    assert main(["gamma", "gamma", "--output", str(tmp_path)], scripts) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["gamma.json", "tables.html"]
    assert capsys.readouterr().out.count("TITLE OF GAMMA") == 1
    assert "1 of the 3" in (tmp_path / "tables.html").read_text(encoding="utf-8")


def test_an_unknown_name_is_an_error_that_lists_those_there_are(tmp_path, capsys):
    with pytest.raises(SystemExit) as raised:
        main(["alpha", "gama", "--output", str(tmp_path / "none")], [working("alpha"), working("gamma")])
    assert raised.value.code == 2
    assert "there is no table gama; choose from alpha, gamma" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


def test_a_table_that_fails_is_named_and_does_not_lose_the_others(tmp_path, capsys):
    scripts = [working("alpha"), failing("beta"), working("gamma")]
    assert main(["--output", str(tmp_path)], scripts) == 1
    said = capsys.readouterr()
    assert "TITLE OF ALPHA" in said.out
    assert "TITLE OF GAMMA" in said.out
    assert "ArithmeticError: no solution here" in said.err
    assert "Failed, see above: beta" in said.err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["alpha.json", "gamma.json", "tables.html"]
    page = check_self_contained((tmp_path / "tables.html").read_text(encoding="utf-8"))
    assert "raised an error and are missing: beta." in page.text
    assert "2 of the 3" in page.text


def test_a_page_is_left_even_if_all_fail(tmp_path, capsys):
    assert main(["--output", str(tmp_path)], [failing("alpha")]) == 1
    assert "missing: alpha." in (tmp_path / "tables.html").read_text(encoding="utf-8")
    assert "Failed, see above: alpha" in capsys.readouterr().err


def test_a_table_under_another_name_than_its_script_overwrites_nothing(tmp_path, capsys):
    impostor = script("beta", working("alpha").make)
    assert main(["--output", str(tmp_path)], [impostor]) == 1
    assert "must have that name too, got 'alpha'" in capsys.readouterr().err
    assert not (tmp_path / "alpha.json").exists()


def test_registered_scripts_have_a_make_and_names_of_their_own():
    names = [name_of(module) for module in TABLES]
    assert len(set(names)) == len(names)
    for module in TABLES:
        assert callable(module.make)
        assert module.__doc__
        # each is a command of its own
        assert module.main is making.main
        assert "raise SystemExit(main(make))" in Path(module.__file__).read_text(encoding="utf-8")


def test_no_script_is_left_out_of_the_registry():
    folder = Path(package.__file__).parent
    scripts = {path.stem for path in folder.glob("*.py") if "\ndef make(" in path.read_text(encoding="utf-8")}
    assert scripts == {name_of(module) for module in TABLES}
