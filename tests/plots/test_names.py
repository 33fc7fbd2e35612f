"""Names that users gave: every figure draws them, as formulas only where they are such."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

import bayesgp_mf as bgp
from bayesgp_mf import plots
from bayesgp_mf.plots._axes import ROWS, as_drawn, legend_above
from tests.plots.fits import ONE, SMALL, X2, Z

NASTY = {
    "formulas": ["$x_1$", "$x_", "% \\frac{$y^{"],
    "no formulas": ["$\\frac{1}$", "$\\foo$", "$$"],
    "underscores": ["_a", "_b_", "__"],
    "nothing to see": ["", "a\tb\n", "e\x07f"],
    "long": ["word " * 100, "a_" * 250, "Mixed conifer forest on northern slopes above 2000 m"],
}
FIGURES = {
    "plot_latent": lambda fit: plots.plot_latent(fit, feature=0, points=5),
    "plot_latent of targets": lambda fit: plots.plot_latent(fit, feature=0, points=5, scale="target"),
    "plot_surface": lambda fit: plots.plot_surface(fit, features=(0, 1), points=4),
    "plot_partial_dependence": lambda fit: plots.plot_partial_dependence(fit, points=3)[0],
    "plot_relevance": plots.plot_relevance,
    "plot_hyperparameters": plots.plot_hyperparameters,
    "plot_calibration": plots.plot_calibration,
    "plot_roc": plots.plot_roc,
    "plot_loo": plots.plot_loo,
    "plot_confusion": plots.plot_confusion,
}


@pytest.fixture(scope="module")
def fits():
    return [of_names(names) for names in NASTY.values()]


def of_names(names):
    X = pd.DataFrame(X2.to_numpy(), columns=names)
    kernel = bgp.kernels.Gaussian([1.0, 1.0, 500.0], 4.0)
    labels = np.array([f"{name}{k}" for k, name in enumerate(names)])
    return [
        bgp.fit(X, labels[np.digitize(Z, ends)], kernel, likelihood, **SMALL)
        for ends, likelihood in (([0.0], bgp.Probit()), ([-0.7, 0.7], bgp.Softmax()))
    ]


@pytest.mark.parametrize("number", range(len(FIGURES)), ids=FIGURES)
def test_a_figure_of_any_names_is_drawn(number, fits):
    figure = [*FIGURES.values()][number]
    for k, each in enumerate(fits):
        ax = figure(each[(k + number) % 2])  # of two classes and of three in turn
        ax.figure.draw_without_rendering()  # a warning of matplotlib is an error here
        assert "\\$" not in plots.alt_text(ax)


def drawn_by_matplotlib(text):
    """Return what is drawn of a text, and whether as a formula."""
    return text._preprocess_math(text.get_text())  # noqa: SLF001


def test_a_name_is_a_formula_only_where_matplotlib_can_draw_it():
    def drawn(name):
        figure = Figure()
        text = figure.text(0.0, 0.5, as_drawn(name))
        return drawn_by_matplotlib(text)

    assert drawn("$x_1$") == ("$x_1$", True)
    for name in ("5 $", "$5 to $9", "$5 or$9", "$$", "$\\foo$", "100 %", "a & b"):
        assert drawn(name) == (name, False)


def test_names_side_by_side_make_no_formula():
    figure = Figure()
    text = figure.text(0.0, 0.5, f"{as_drawn('a$')} and {as_drawn('b$')}")
    assert drawn_by_matplotlib(text) == ("a$ and b$", False)


def test_a_class_whose_name_begins_with_an_underscore_has_its_entry():
    labels = np.array(["_a", "b", "c"])[np.digitize(Z, [-0.7, 0.7])]
    fit = bgp.fit(X2[["age"]], labels, ONE, bgp.Softmax(), **SMALL)
    for ax in (plots.plot_roc(fit), plots.plot_latent(fit, scale="target", points=5)):
        entries = [text.get_text().strip() for text in ax.get_legend().get_texts()]
        assert any(entry.startswith("_a") for entry in entries)


def test_a_legend_of_many_entries_states_how_many_there_are_more():
    for name, entries in (("c{}", 2 * ROWS), ("a class of a rather long name, {}", ROWS)):
        ax = Figure(figsize=(4.3, 3.9), layout="constrained").subplots()
        for k in range(26):
            ax.plot([0, 1], [k, k], label=name.format(k))
        legend_above(ax)
        ax.figure.draw_without_rendering()
        texts = [text.get_text() for text in ax.get_legend().get_texts()]
        assert texts == [*(name.format(k) for k in range(entries - 1)), f"and {26 - entries + 1} more"]
