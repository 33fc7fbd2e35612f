"""Searches begin at what the distances in the data span, and say where their starts do not agree."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Evidence, Integrate, LeaveOneOut
from bayesgp_mf.kernels import Bias, Gaussian, Kernel, Matern32, PerClass, Periodic
from tests.kernels.cases import CASES

QUIET = {"draws": 2, "chains": 1, "random_seed": 0, "progress": False}
RNG = np.random.default_rng(5)
X = RNG.integers(0, 4, (48, 3)).astype(float)
X = (X - X.mean(axis=0)) / X.std(axis=0)
EXPOSURE = np.exp(RNG.uniform(2.0, 6.0, 48))
CLAIMS = RNG.poisson(EXPOSURE * np.exp(-2.0 + 0.4 * X[:, 0] + 0.3 * X[:, 1]))
INPUTS = RNG.standard_normal((40, 3)) * [1.0, 20.0, 0.3]
APART = "more than a nat lower, where predictions differ"


def tuned(first, hyper, **options):
    """Return a fit of claims whose search begins at a length scale, and what it said of its starts."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        kernel = Gaussian(first) + Bias()
        idata = bgp.fit(X, CLAIMS, kernel, bgp.Poisson(), offset=np.log(EXPOSURE), hyper=hyper, **QUIET, **options)
    return idata["fit"], [str(each.message) for each in found if APART in str(each.message)]


@pytest.mark.parametrize("first", [0.03, 300.0])
def test_a_search_from_far_away_finds_what_one_from_near_finds(first):
    near, _ = tuned(5.0, Evidence(starts=1))
    far, _ = tuned(first, "evidence")
    assert float(far["log_evidence"]) == pytest.approx(float(near["log_evidence"]), abs=0.01)


def test_one_start_is_the_kernel_and_is_stuck_where_it_is_far_away():
    """The control: there are two maxima, and a search from one start hangs on no random number."""
    near, _ = tuned(5.0, Evidence(starts=1))
    far, said = tuned(0.03, Evidence(starts=1))
    assert float(far["log_evidence"]) < float(near["log_evidence"]) - 5.0
    assert not said
    again = bgp.fit(
        X, CLAIMS, Gaussian(0.03) + Bias(), bgp.Poisson(), offset=np.log(EXPOSURE), hyper=Evidence(starts=1),
        **{**QUIET, "random_seed": 9},
    )  # fmt: skip
    assert float(again["fit"]["log_evidence"]) == float(far["log_evidence"])


@pytest.mark.parametrize("hyper", [Evidence(), LeaveOneOut(), Integrate(points=2)])
def test_starts_that_disagree_are_said_and_recorded(hyper):
    fit, said = tuned(0.03, hyper)
    apart = fit["hyper_end_apart"].values
    ends = fit["hyper_loo" if hyper.name == "loo" else "hyper_log_evidence"].values
    assert len(said) == 1
    assert "hyper.Evidence(starts=10)" in said[0]
    assert apart[0] > 0.1
    assert ends[0] < ends.max() - 1.0
    assert np.all(apart[ends > ends.max() - 1.0] == 0.0)


@pytest.mark.parametrize("seed", [26, 190])
def test_a_summit_at_the_edge_of_where_cases_stand_alone_is_found(seed):
    """Both starts end where each case stands alone, and the noise explains all; within bounds there it stays."""
    rng = np.random.default_rng(seed)
    inputs = rng.normal(size=(50, 3))
    y = 0.5 * np.sin(3.0 * inputs[:, 0]) + rng.normal(size=50)

    def fitted(**options):
        kernel, likelihood = Matern32(0.03) + bgp.kernels.White(0.1), bgp.likelihoods.Gaussian(0.1)
        return bgp.fit(
            inputs, y, kernel, likelihood, fixed=["noise_variance"], **{**QUIET, "random_seed": 1}, **options
        )

    with pytest.warns(bgp.ConvergenceWarning, match=APART):
        found = fitted(hyper=Evidence(starts=2))["fit"]
    ends = found["hyper_log_evidence"].values
    assert ends.shape == (3,)
    assert ends[2] == float(found["hyper_log_evidence"].max()) > ends[:2].max() + 1.0
    bounds = {"matern32_lengthscale": (0.01, 0.05)}
    with pytest.warns(bgp.BoundWarning):
        assert fitted(hyper=Evidence(starts=2), bounds=bounds)["fit"]["hyper_log_evidence"].shape == (2,)


def test_starts_that_agree_are_silent():
    fit, said = tuned(3.0, Evidence(starts=2), bounds={"gaussian_lengthscale": (2.0, 20.0)})
    assert not said
    assert np.all(fit["hyper_end_apart"] == 0.0)


@pytest.mark.parametrize("name", sorted(CASES))
def test_length_scales_span_the_distances(name):
    """They go with the units of the inputs, lie between a tenth of the usual distance and the largest, in order."""
    kernel = CASES[name]
    spans = kernel.spans(INPUTS)
    assert {own for own in kernel.params if "lengthscale" in own} == set(spans)
    for own, (short, long) in spans.items():
        assert short.shape == long.shape == kernel.params[own].shape
        assert np.all((short > 0) & (short < long))
    if not any(word in name for word in ("periodic", "warped", "places")):  # which have units of their own
        for own, ends in kernel.spans(1000.0 * INPUTS).items():
            np.testing.assert_allclose(ends, 1000.0 * np.array(spans[own]), rtol=1e-9)


def test_only_the_columns_that_a_kernel_sees_count():
    of_first = Gaussian(columns=[0]).spans(INPUTS)["lengthscale"]
    distances = np.abs(np.subtract.outer(INPUTS[:, 0], INPUTS[:, 0]))[np.triu_indices(40, 1)]
    np.testing.assert_allclose(of_first, (0.1 * np.median(distances), distances.max()))
    each = Gaussian([1.0, 1.0, 1.0]).spans(INPUTS)["lengthscale"][0]
    np.testing.assert_allclose(each / each[0], INPUTS.std(axis=0) / INPUTS[:, 0].std())


def test_inputs_that_do_not_differ_leave_a_length_scale_where_it_is():
    constant = np.column_stack([INPUTS[:, 0], np.ones(40)])
    short, long = Matern32([0.7, 0.9]).spans(constant)["lengthscale"]
    assert short[0] < long[0]
    assert short[1] == long[1] == 0.9
    assert Matern32(0.7).spans(np.ones((5, 2)))["lengthscale"] == (0.7, 0.7)
    huge = Gaussian().spans(1e200 * INPUTS)["lengthscale"]
    assert np.all(np.isfinite(huge))


def test_kernels_of_classes_and_of_ones_own():
    assert list(PerClass(Gaussian(), Periodic()).spans(INPUTS)) == ["class0_lengthscale", "class1_lengthscale"]
    assert Kernel.spans(Bias(), INPUTS) == {}
