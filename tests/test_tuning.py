"""Hyperparameters through the user's door: what each strategy leaves in the container."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import Evidence, HybridMonteCarlo, Integrate, LeaveOneOut, LogNormal, Scan
from bayesgp_mf.methods import METHODS

TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian(0.8, 4.0), n=25, random_seed=4)
PRIORS = {"lengthscale": LogNormal(0.0, 1.0), "variance": LogNormal(1.0, 1.0)}


def quick(**options):
    options = {"draws": 20, "chains": 2, "random_seed": 1, "progress": False} | options
    return bgp.fit(TOY.X, TOY.y, bgp.kernels.Gaussian(1.0, 2.0), bgp.Probit(), **options)


def test_hmc_leaves_one_draw_of_f_for_each_draw_of_the_hyperparameters():
    idata = quick(hyper=HybridMonteCarlo(iterations=30, leapfrog_steps=5), priors=PRIORS)
    drawn, fit = get_group(idata, "posterior"), get_group(idata, "fit")
    assert drawn["f"].sizes["draw"] == drawn["lengthscale"].sizes["draw"] == 20  # a third of 30 is dropped
    assert len(np.unique(drawn["lengthscale"].values)) > 3
    assert fit.attrs["hyper"] == "hmc"
    posterior = bgp.posterior(idata)
    assert posterior.averaged
    np.testing.assert_allclose(fit["node_weight"].values.sum(), 1.0)
    # draws of f are at the hyperparameters beside them
    stats = get_group(idata, "sample_stats")
    node = stats["node"].values
    for k, part in enumerate(posterior.parts):
        np.testing.assert_allclose(drawn["lengthscale"].values[node == k], part.kernel.params["lengthscale"])
    assert "diverging" in stats


def test_integrate_draws_settings_by_their_weights():
    idata = quick(hyper=Integrate(), priors=PRIORS, draws=2000, chains=1)
    fit = get_group(idata, "fit")
    share = np.bincount(get_group(idata, "sample_stats")["node"].values.ravel(), minlength=fit.sizes["node"]) / 2000
    np.testing.assert_allclose(share, fit["node_weight"].values, atol=5 * np.sqrt(0.25 / 2000))
    p = bgp.predict(idata, TOY.X_test, draws=False)["predictions"]["p"].values
    parts, weights = bgp.posterior(idata).parts, fit["node_weight"].values
    expected = sum(w * part.predict_proba(TOY.X_test) for w, part in zip(weights, parts, strict=True))
    np.testing.assert_allclose(p, expected, rtol=1e-6)
    assert np.isfinite(float(bgp.loo(idata)["se"]))


def test_one_method_judges_and_another_predicts():
    by_naive = quick(hyper="evidence", method="naive", priors=PRIORS)
    hybrid = quick(hyper=Evidence(method="naive"), method="tap", priors=PRIORS)
    mine, other = get_group(hybrid, "fit"), get_group(by_naive, "fit")
    np.testing.assert_allclose(mine["lengthscale"].values, other["lengthscale"].values, rtol=1e-6)
    assert (mine.attrs["method"], mine.attrs["hyper_judged_by"]) == ("tap", "naive")
    own = quick(hyper="evidence", method="tap", priors=PRIORS)
    assert abs(float(get_group(own, "fit")["lengthscale"]) - float(mine["lengthscale"])) > 1e-3


def test_leave_one_out_finds_better_leave_one_out_than_evidence_does():
    by_loo, by_evidence = (
        quick(hyper=hyper, fixed=["variance"]) for hyper in (LeaveOneOut(starts=1), Evidence(starts=1))
    )
    assert float(get_group(by_loo, "fit")["loo_i"].sum()) >= float(get_group(by_evidence, "fit")["loo_i"].sum())


def test_scan_takes_the_fewest_errors():
    idata = quick(hyper=Scan(grid={"lengthscale": [0.01, 0.8, 50.0]}))
    fit = get_group(idata, "fit")
    errors = fit["hyper_loo_errors"].values
    chosen = float(fit["lengthscale"])
    assert errors[[0.01, 0.8, 50.0].index(chosen)] == errors.min()
    t = np.where(TOY.y == 1, 1.0, -1.0)
    assert int(np.count_nonzero(t * fit["cavity_mean"].values < 0)) == errors.min()


def test_fixed_and_bounded_parameters_stay_where_they_must():
    fit = get_group(quick(hyper=Evidence(starts=1), fixed=["variance"]), "fit")
    assert float(fit["variance"]) == 2.0
    with pytest.warns(bgp.BoundWarning, match="lengthscale"):
        bounded = get_group(quick(hyper="evidence", bounds={"lengthscale": (0.9, 1.02)}), "fit")
    assert 0.9 <= float(bounded["lengthscale"]) <= 1.02


class Lame:
    """TAP that comes nowhere from the prior but at the kernel where searches begin, and nowhere from far away."""

    name, gram_gradient = "lame", METHODS["tap"].gram_gradient
    traits = METHODS["tap"].traits
    leave_one_out = METHODS["tap"].leave_one_out

    def __init__(self, begin):
        self.begin, self.starts = begin, []

    def solve(self, problem, control=bgp.Control(), start=None):
        if start is None and not np.allclose(problem.matrix.dense(), self.begin):
            raise bgp.ConvergenceError("too far from the prior", bgp.Status.STALLED)
        self.starts.append(start)
        return METHODS["tap"].solve(problem, control, start)


def test_what_a_search_has_solved_is_solved_from_there():
    """It was solved from the prior, or by steps from the first kernel, which could fail where the search had not."""
    lame = Lame(bgp.kernels.Gaussian(1.0, 2.0).gram(TOY.X))
    fit = quick(hyper=Evidence(starts=1), method=lame, priors=PRIORS)["fit"]
    assert float(fit["lengthscale"]) != 1.0
    np.testing.assert_allclose(lame.starts[-1].alpha, fit["alpha"].values, atol=1e-5)
    assert float(fit["log_evidence"]) == pytest.approx(
        float(quick(hyper=Evidence(starts=1), priors=PRIORS)["fit"]["log_evidence"])
    )
