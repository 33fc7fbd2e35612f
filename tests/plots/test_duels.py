"""Figures of duels: items in order, probabilities and shares in their fields, few items and many; and in a report."""

from __future__ import annotations

import itertools
import re
from functools import cache

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

import bayesgp_mf as bgp
from bayesgp_mf.duels import Duels
from tests.plots.fits import ONE, SMALL, X2, Z
from tests.reports.page_parser import check_self_contained

FIGURES = (bgp.plots.plot_utility, bgp.plots.plot_duels)


@cache
def season(items, matches=None, name="team {}"):
    """Return duels of so many items, the first the best, and their fit."""
    rng = np.random.default_rng(items)
    matches = matches or 8 * items
    a = rng.integers(0, items, matches)
    b = (a + rng.integers(1, items, matches)) % items
    won = np.linspace(2.0, -2.0, items)[a] - np.linspace(2.0, -2.0, items)[b] + rng.standard_normal(matches) > 0
    names = np.array([name.format(k) for k in range(items)])
    duels = Duels(names[np.where(won, a, b)], names[np.where(won, b, a)])
    return duels, bgp.fit(duels.X, duels.y, duels.kernel(), bgp.Probit(), **SMALL)


@pytest.mark.parametrize("plot", FIGURES)
@pytest.mark.parametrize("items", [2, 5, 60])
def test_few_items_and_many_are_readable(plot, items):
    before = dict(mpl.rcParams)
    duels, idata = season(items)
    ax = plot(idata, duels, random_seed=1)
    figure = ax.figure
    figure.draw_without_rendering()
    assert ax.get_xlabel()
    assert ax.get_ylabel() == "Item (best first)"
    assert ax.get_window_extent().width > 0.45 * figure.bbox.width
    labels = [each for each in ax.get_yticklabels() if each.get_text()]
    assert labels[0].get_text() == duels.utility(idata, random_seed=1).index[0]
    boxes = [each.get_window_extent() for each in labels]
    assert not any(one.overlaps(other) for one, other in itertools.pairwise(boxes))
    words = [ax.xaxis.label, ax.yaxis.label, *labels, *(t for t in ax.get_children() if isinstance(t, Text))]
    for text in (each for each in words if re.search("[a-z]", each.get_text())):
        box = text.get_window_extent()
        assert min(box.x0, box.y0) >= -1, text
        assert box.x1 <= figure.bbox.x1 + 1, text
        assert box.y1 <= figure.bbox.y1 + 1, text
    assert dict(mpl.rcParams) == before
    assert plt.get_fignums() == [figure.number]


@pytest.mark.parametrize("plot", FIGURES)
def test_they_are_drawn_into_given_axes_with_names_of_any_kind(plot):
    left, right = Figure().subplots(1, 2)
    duels, idata = season(4, name="$_{} {{ of a rather long name that goes on")
    size = tuple(right.figure.get_size_inches())
    assert plot(idata, duels, ax=right, random_seed=1) is right
    right.figure.draw_without_rendering()
    assert tuple(right.figure.get_size_inches()) == size
    assert not left.has_data()


def test_utilities_are_those_of_the_table():
    duels, idata = season(5)
    ax = bgp.plots.plot_utility(idata, duels, random_seed=1)
    table = duels.utility(idata, random_seed=1)
    (points,) = [line for line in ax.lines if line.get_label() == "mean"]
    np.testing.assert_array_equal(points.get_xdata(), table["mean"])
    (bars,) = ax.collections
    np.testing.assert_array_equal([segment[:, 0] for segment in bars.get_segments()], table[["5%", "95%"]])


def test_fields_of_few_items_have_the_probability_and_the_duels_that_were():
    duels, idata = season(5)
    ax = bgp.plots.plot_duels(idata, duels, random_seed=1)
    order = list(duels.utility(idata, random_seed=1).index)
    (image,) = ax.images
    p = image.get_array()
    np.testing.assert_allclose((p + p.T)[~np.eye(5, dtype=bool)], 1.0)
    assert (p[np.triu_indices(5, 1)] > 0.5).all()
    texts = {tuple(map(int, text.get_position())): text.get_text() for text in ax.texts}
    winner = np.where(duels.y, duels.X["item"], duels.X["item of second"])
    loser = np.where(duels.y, duels.X["item of second"], duels.X["item"])
    won, lost = (int(np.sum((winner == a) & (loser == b))) for a, b in (order[:2], order[1::-1]))
    assert texts[1, 0] == f"{p[0, 1]:.2f}\n{won} of {won + lost}"
    assert texts[0, 1] == f"{p[1, 0]:.2f}\n{lost} of {won + lost}"


def test_discs_of_many_items_have_the_observed_shares():
    duels, idata = season(60)
    ax = bgp.plots.plot_duels(idata, duels, random_seed=1)
    (discs,) = ax.collections
    won, met = duels.record()
    assert len(discs.get_offsets()) == np.count_nonzero(met)
    order = duels.utility(idata, random_seed=1).index
    for (column, row), share in list(zip(discs.get_offsets().astype(int), discs.get_array(), strict=True))[:50]:
        a, b = order[row], order[column]
        assert share == won.loc[a, b] / met.loc[a, b]


def test_of_items_that_are_not_drawn_the_number_is_stated():
    duels, idata = season(5)
    for plot in FIGURES:
        ax = plot(idata, duels, most=3, random_seed=1)
        assert ax.get_ylabel() == "Item (best first, 2 not shown)"
        assert len(ax.get_yticklabels()) == 3
    with pytest.raises(ValueError, match="two or more items"):
        bgp.plots.plot_duels(idata, duels, most=1)


def test_a_report_of_duels_says_who_is_best_and_that_of_others_does_not(tmp_path):
    duels, _ = season(5)
    judges = np.resize(["Uma", "Val", "Uma"], len(duels.X))
    taste = bgp.kernels.Categorical(1.0, columns="item") * (1.0 + bgp.kernels.Categorical(0.3, columns="judge"))
    idata = bgp.fit(duels.X.assign(judge=judges), duels.y, duels.kernel(taste), bgp.Probit(), **SMALL)
    page = check_self_contained(bgp.report(idata, tmp_path / "fit.html").read_text(encoding="utf-8"))
    assert "Who is best" in page.text
    assert "Both figures are for judge = Uma." in page.text
    assert "Not shown" not in page.text.split("Who is best")[-1].split("Predicting each case")[0]
    other = bgp.fit(X2, Z > 0, ONE, **SMALL)
    assert "Who is best" not in bgp.report(other, tmp_path / "other.html").read_text(encoding="utf-8")
