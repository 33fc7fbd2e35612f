"""Words in figures: long names fit, and labels stand apart."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pandas as pd
import pytest
from matplotlib.text import Text

import bayesgp_mf as bgp
from bayesgp_mf.plots._axes import in_lines
from tests.plots.fits import SMALL, X2, Z

NAMES = ["diastolic blood pressure (mm Hg)", "LSTAT_percent_of_lower_status", "distance to the next employment centre"]
LONG = pd.DataFrame(X2.to_numpy(), columns=NAMES)


@pytest.fixture(scope="module")
def fit():
    kernel = bgp.kernels.Gaussian([1.0, 1.0, 500.0], 4.0) + bgp.kernels.Bias()
    return bgp.fit(LONG, np.where(Z > 0, "did respond", "did not respond"), kernel, **SMALL)


@pytest.mark.parametrize("name", [*NAMES, f"gaussian_lengthscale[{NAMES[0]}]", "x" * 70, "[", "a_[b_c]"])
@pytest.mark.parametrize("letters", [8, 22])
def test_a_name_in_lines_is_the_name(name, letters):
    lines = in_lines(name, letters).split("\n")
    assert max(map(len, lines)) <= letters
    assert re.sub(r"\s", "", "".join(lines)) == re.sub(r"\s", "", name)


def test_a_short_name_stays_and_a_bracket_begins_a_line():
    assert in_lines("lengthscale[age]", 16) == "lengthscale[age]"
    assert in_lines("gaussian_lengthscale[age]", 22) == "gaussian_lengthscale\n[age]"


@pytest.mark.parametrize(
    "plot",
    [
        bgp.plots.plot_partial_dependence,
        bgp.plots.plot_relevance,
        bgp.plots.plot_hyperparameters,
        bgp.plots.plot_confusion,
        bgp.plots.plot_loo,
    ],
)
def test_no_word_leaves_the_figure(plot, fit):
    axes = np.ravel(np.asarray(plot(fit), dtype=object))
    figure = axes[0].figure
    figure.draw_without_rendering()
    for ax in axes:
        words = [ax.xaxis.label, ax.yaxis.label, *ax.get_xticklabels(), *ax.get_yticklabels()]
        words += [each for each in ax.get_children() if isinstance(each, Text)]
        for text in (each for each in words if re.search("[a-z]", each.get_text())):
            box = text.get_window_extent()
            assert box.x0 >= figure.bbox.x0 - 1, text
            assert box.y0 >= figure.bbox.y0 - 1, text
            assert box.x1 <= figure.bbox.x1 + 1, text
            assert box.y1 <= figure.bbox.y1 + 1, text
        assert ax.get_window_extent().width > 0.25 * figure.bbox.width  # names leave room for what is drawn


def test_the_numbers_of_a_search_are_whole():
    options = {**SMALL, "hyper": bgp.hyper.Evidence(starts=1), "fixed": ["variance"]}
    idata = bgp.fit(X2[["age"]], Z > 0, bgp.kernels.Gaussian(3.0, 4.0), **options)
    trace = idata["fit"]["hyper_trace"].values
    trace[:] = np.linspace(-2660.9, -2660.1, trace.size)  # of many cases
    idata["fit"]["hyper_log_evidence"].values[:] = trace[-1]
    ax = bgp.plots.plot_search(idata)
    ax.figure.draw_without_rendering()
    assert ax.yaxis.get_offset_text().get_text() == ""
    assert "\N{MINUS SIGN}2660.5" in [text.get_text() for text in ax.get_yticklabels()]


@pytest.mark.parametrize(("start", "first"), [("2024-03-01", "2024-03-01"), ("2024-03-01 06:30", "2024-03-01T06:30")])
def test_dates_of_rows_have_no_digits_that_say_nothing(start, first):
    X = X2[["age"]].set_axis(pd.date_range(start, periods=len(X2)))
    idata = bgp.fit(X, np.arange(len(X2)) == 0, bgp.kernels.Bias(), **SMALL)
    ax = bgp.plots.plot_loo(idata, worst=1)
    assert [text.get_text() for text in ax.texts] == [first]
    assert ax.get_title(loc="left").startswith(f"{first}: True; ")


@pytest.mark.parametrize("at", [(3, 4), (10, 12), (28, 29)])
def test_labels_of_worst_cases_side_by_side_stand_apart(at):
    values = np.linspace(-0.1, -0.5, 30)
    values[list(at)] = -2.0
    ax = bgp.plots.plot_loo(values, worst=2, case_names=[f"2021-{k:02d}" for k in range(30)])
    ax.figure.draw_without_rendering()
    boxes = [text.get_window_extent() for text in ax.texts]
    assert len(boxes) == 2
    assert not any(one.overlaps(other) for one, other in itertools.combinations(boxes, 2))


def test_a_function_that_repeats_is_seen_to():
    X = pd.DataFrame({"month": np.arange(60.0), "idle": np.arange(60.0) % 7})
    kernel = bgp.kernels.Periodic(1.0, 4.0, 12.0, columns=["month"]) + bgp.kernels.Bias()
    fit = bgp.fit(X, np.sin(X["month"] * np.pi / 6.0) > 0, kernel, **SMALL)
    axes = bgp.plots.plot_partial_dependence(fit, features=["month"], scale="latent")
    (curve,) = [line for line in axes[0].lines if line.get_label() == "average"]
    values = curve.get_ydata()
    turns = np.sum(np.diff(np.sign(values - values.mean())) != 0)
    assert turns in (9, 10)  # five periods
    assert len(values) == 49


def test_several_classes_are_drawn_as_they_are_left_out():
    y = np.array(["a", "b", "c"])[np.argsort(np.argsort(Z)) // 8]
    idata = bgp.fit(X2, y, bgp.kernels.Gaussian(1.0, 4.0), bgp.MultinomialProbit(), **SMALL)
    ax = bgp.plots.plot_loo(idata, feature="age", worst=2, inputs=1)
    drawn = {(x, value) for line in ax.lines[1:] for x, value in zip(*line.get_data(), strict=True)}
    assert drawn == set(zip(X2["age"], idata["fit"]["loo_i"].values, strict=True))
    assert ax.lines[0].get_label() == "log(1/3), guessing"
    said = np.array(["a", "b", "c"])[np.argmax(bgp.posterior(idata).loo.probability, axis=1)]
    counts = [int(text.get_text()) for text in bgp.plots.plot_confusion(idata).texts]
    assert counts == [int(np.sum((y == row) & (said == column))) for row in "abc" for column in "abc"]
