"""Figures: labelled axes, as many points as cases, and nothing left behind."""

from __future__ import annotations

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.figure import Figure

import bayesgp_mf as bgp
from bayesgp_mf.plots import plot_agreement, plot_calibration, plot_loo

LABELS = np.array([0, 0, 1, 0, 1, 1, 1])
P = np.array([0.05, 0.12, 0.31, 0.35, 0.72, 0.78, 0.97])
LOO = np.log(np.where(LABELS == 1, P, 1 - P))

PLOTS = {
    "calibration": lambda **k: plot_calibration(LABELS, P, **k),
    "agreement": lambda **k: plot_agreement(P, P + 0.01, reference_error=0.1 * P, tolerance=0.02, **k),
    "difference": lambda **k: plot_agreement(P, P + 0.01, reference_error=0.1 * P, difference=True, **k),
    "loo": lambda **k: plot_loo(LOO, **k),
    "loo against": lambda **k: plot_loo(LOO, LOO + 0.1, **k),
}


def drawn(ax, label):
    """Coordinates of the line or points with a label."""
    (line,) = [line for line in ax.lines if line.get_label() == label]
    return np.asarray(line.get_xdata()), np.asarray(line.get_ydata())


@pytest.fixture(params=PLOTS, name="plot")
def each_plot(request):
    return PLOTS[request.param]


def test_axes_have_labels_and_the_figure_can_be_drawn(plot):
    ax = plot()
    assert ax.get_xlabel()
    assert ax.get_ylabel()
    assert ax.get_legend() is not None
    ax.figure.canvas.draw()


def test_draws_into_given_axes_and_returns_them(plot):
    left, right = Figure().subplots(1, 2)
    assert plot(ax=right) is right
    assert right.lines
    assert not left.lines


def test_leaves_no_global_state(plot):
    before = dict(mpl.rcParams)
    plot(ax=Figure().subplots())
    assert dict(mpl.rcParams) == before
    assert not plt.get_fignums()  # given axes are the user's


def test_a_new_figure_is_the_current_one_of_pyplot(plot, tmp_path):
    ax = plot()
    assert plt.gca() is ax
    plt.savefig(tmp_path / "drawn.png")
    assert np.ptp(plt.imread(tmp_path / "drawn.png")[..., :3]) > 0.5  # and not an empty page
    assert plt.get_fignums() == [ax.figure.number]


def test_calibration_has_a_point_for_each_bin_that_has_cases():
    ax = plot_calibration(LABELS, P, bins=10, class_name="diabetes")
    (bars,) = ax.containers
    points, _, _ = bars
    np.testing.assert_allclose(points.get_xdata(), [0.05, 0.12, 0.33, 0.75, 0.97])
    np.testing.assert_allclose(points.get_ydata(), [0, 0, 0.5, 1, 1])
    assert [text.get_text() for text in ax.texts] == ["1", "1", "2", "2", "1"]
    assert ax.get_ylabel() == "Observed frequency of diabetes"


def test_agreement_draws_each_case_once():
    ax = plot_agreement(P, P + 0.01, quantity="mean", unit="nats", names=("A", "B"))
    np.testing.assert_array_equal(drawn(ax, "one case"), [P, P + 0.01])
    np.testing.assert_array_equal(*drawn(ax, "equal"))  # the diagonal
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("A: mean (nats)", "B: mean (nats)")


def test_agreement_draws_the_difference_upwards():
    ax = plot_agreement(P, P + 0.01, quantity="mean", names=("A", "B"), difference=True)
    np.testing.assert_allclose(drawn(ax, "one case"), [P, np.full(7, 0.01)])
    np.testing.assert_array_equal(drawn(ax, "equal")[1], 0.0)
    assert ax.get_ylabel() == "B minus A: mean"


@pytest.mark.parametrize(("difference", "axis"), [(False, 0), (True, 1)])
def test_agreement_error_bars_are_two_standard_errors_to_either_side(difference, axis):
    error = 0.01 * np.arange(1, 8)
    ax = plot_agreement(P, P, reference_error=error, difference=difference)
    (bars,) = ax.containers
    lengths = [np.ptp(segment[:, axis]) for segment in bars[2][0].get_segments()]
    np.testing.assert_allclose(lengths, 4 * error)


def test_loo_names_the_cases_that_are_predicted_worst():
    ax = plot_loo([-0.1, -3.0, -0.2, -5.0], case_names=["a", "b", "c", "d"], worst=2)
    assert [text.get_text() for text in ax.texts] == ["d", "b"]
    np.testing.assert_array_equal(drawn(ax, "predicted worst"), [[3, 1], [-5.0, -3.0]])
    np.testing.assert_array_equal(drawn(ax, "one case"), [[0, 2], [-0.1, -0.2]])


def test_loo_against_a_reference_puts_it_across():
    ax = plot_loo([-0.1, -3.0], [-0.2, -2.5], worst=0, names=("PSIS", "TAP"))
    np.testing.assert_array_equal(drawn(ax, "one case"), [[-0.2, -2.5], [-0.1, -3.0]])
    assert ax.get_xlabel() == "PSIS: log predictive density (nats)"
    assert not ax.texts


def test_loo_takes_a_fit():
    X = np.linspace(-2, 2, 9)[:, None]
    idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), draws=5, chains=1, random_seed=1)
    ax = plot_loo(idata, worst=0)
    np.testing.assert_array_equal(drawn(ax, "one case"), [np.arange(9), bgp.posterior(idata).loo.log_density])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: plot_agreement([0.1, 0.2], [0.1]), "values must have 2 values, one for each case, got 1"),
        (
            lambda: plot_agreement([0.1], [np.nan]),
            r"values must be finite, but 1 of its 1 .*\(0,\)\)\. Leave out",
        ),
        (lambda: plot_agreement([], []), r"got shape \(0,\)"),
        (lambda: plot_agreement(["a"], [1.0]), "reference must hold numbers"),
        (lambda: plot_agreement([0.1], [0.1], reference_error=[[0.1]]), "reference_error must be one array"),
        (
            lambda: plot_loo([-0.1, -np.inf]),
            r"loo_i must be finite, but 1 of its 2 .*\(1,\)\)\. Leave out",
        ),
        (lambda: plot_loo([-0.1], case_names=["a", "b"]), "case_names must have 1 names, one for each case, got 2"),
        (lambda: plot_loo([-0.1], worst=-1), "worst must be an integer of at least 0, got -1"),
        (lambda: plot_calibration([0, 2], [0.1, 0.2]), "0/1 or booleans"),
    ],
)
def test_bad_input_is_told_what_was_expected(call, message):
    with pytest.raises(ValueError, match=message):
        call()
