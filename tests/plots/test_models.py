"""What several models predict of a case, a row for each."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.plots import plot_models

X = np.linspace(-2.0, 2.0, 20)[:, None]
KERNELS = {"smooth": bgp.kernels.Gaussian(), "rough": bgp.kernels.Matern12(), "flat": bgp.kernels.Bias()}


@pytest.fixture(scope="module")
def fits():
    return {name: bgp.fit(X, X[:, 0] > 0, kernel, draws=5, random_seed=1) for name, kernel in KERNELS.items()}


def test_rows_are_predictions_the_best_first(fits):
    ax = plot_models(fits, [[0.3]])
    names = [text.get_text() for text in ax.get_yticklabels()]
    assert names == sorted(fits, key=lambda name: -float(fits[name]["fit"]["loo_i"].sum()))
    expected = [bgp.predict(fits[name], [[0.3]], draws=False)["predictions"]["p"].values[0] for name in names]
    np.testing.assert_allclose(ax.lines[0].get_xdata(), expected)


def test_counts_have_means():
    y = np.random.default_rng(0).poisson(2.0, 20)
    fits = {"one": bgp.fit(X, y, bgp.kernels.Gaussian(), bgp.Poisson(), draws=5, random_seed=1)}
    expected = bgp.predict(fits["one"], [[0.3]], draws=False)["predictions"]["y_mean"].values
    np.testing.assert_allclose(plot_models(fits, [[0.3]]).lines[0].get_xdata(), expected)


def test_more_than_there_is_room_for_is_stated(fits):
    assert "2 more are not drawn" in plot_models(fits, [[0.3]], most=1).get_ylabel()


def test_wrong_arguments_are_named(fits):
    with pytest.raises(ValueError, match="models must be"):
        plot_models(fits["smooth"], [[0.3]])
    with pytest.raises(ValueError, match="one case, got 2"):
        plot_models(fits, [[0.3], [0.4]])
    counts = bgp.fit(X, np.arange(20), bgp.kernels.Gaussian(), bgp.Poisson(), draws=5, random_seed=1)
    with pytest.raises(ValueError, match="of one kind"):
        plot_models({**fits, "counts": counts}, [[0.3]])
