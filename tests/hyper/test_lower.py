"""A search whose highest point cannot be solved as closely as a fit is, and what is said of points without solution."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper.optimise import Run, lower_points

ONE = {"draws": 1, "chains": 1, "random_seed": 1, "progress": False}
X = np.linspace(0.0, 6.0, 40)[:, None]
F = np.sin(X[:, 0])


def outlying(noise):
    y = F + noise * np.random.default_rng(4).standard_normal(F.size)
    y[[5, 20, 33]] += [3.0, -4.0, 5.0]
    return y


def test_each_lower_point_is_twice_as_far_below_the_end_as_the_last():
    def run(*values):
        seen = [(np.array([value, k]), value, np.zeros(2)) for k, value in enumerate(values)]
        return Run(seen[0][0], seen[-1][0], max(values), np.empty(0), len(values), 0, "", True, seen)

    runs = [run(-100.0, -9.0, -0.5, 0.0), run(-3.0, -2.5, -1.5)]
    assert [value for value, _ in lower_points(runs[0], runs)] == [-1.5, -3.0, -9.0, -100.0]
    assert lower_points(runs[0], [run(0.0, -0.9)]) == []
    assert len(lower_points(runs[0], [run(-4.0, -4.0), run(-4.0)])) == 1  # as high as each other, at different points


def test_outliers_without_other_noise_are_fitted_where_the_equations_can_be_solved():
    """And nobody is told to raise what the search limits by itself."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        idata = bgp.fit(X, outlying(0.0), likelihood="studentt", **ONE)
    texts = [str(each.message) for each in caught if each.category is bgp.ConvergenceWarning]
    assert any("Hyperparameters are those of the highest point where they can" in text for text in texts)
    assert any("points of the search the equations had no solution" in text for text in texts)
    assert not any("max_iterations" in text for text in texts)
    predicted = bgp.predict(idata, X, draws=False)["predictions"]["latent_mean"].values
    np.testing.assert_allclose(predicted, F, atol=2e-3)
    assert 0.0 < float(idata["fit"]["scale"]) < 1e-2


def test_a_few_points_without_a_solution_are_no_warning_but_counted():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        idata = bgp.fit(X, outlying(0.1), likelihood=bgp.StudentT(0.1, 0.8), **ONE)
    points, failed = (int(idata["fit"][f"hyper_{name}"].sum()) for name in ("n_evaluations", "n_failures"))
    assert failed <= 0.1 * points


def test_a_bound_that_was_given_says_nothing_of_the_data():
    with pytest.warns(bgp.BoundWarning, match=r"scale = 0.2 \(lower\)") as caught:
        bgp.fit(X, outlying(0.1), likelihood=bgp.StudentT(0.3), bounds={"scale": (0.2, 0.5)}, **ONE)
    assert not any("without noise" in str(each.message) for each in caught)
