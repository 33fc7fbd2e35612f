"""Offsets and weights of cases in a model of PyMC: the same density as a fit's evidence, with its gradient."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, make_container
from bayesgp_mf.pymc import Marginal, sample_latent

RNG = np.random.default_rng(0)
X = RNG.normal(size=(10, 1))
OFFSET, WEIGHTS = RNG.normal(size=10), np.array([1.0, 2.0, 0.0, 0.5, 1.0, 3.0, 1.0, 1.5, 1.0, 2.0])
Y = X[:, 0] + RNG.normal(size=10) > 0
POINT = {"lengthscale": np.array(0.8), "noise": np.array(0.5)}


@pytest.fixture(scope="module")
def model_and_gp():
    with pm.Model() as model:
        lengthscale, noise = pm.LogNormal("lengthscale"), pm.LogNormal("noise")
        gp = Marginal(pm.gp.cov.ExpQuad(1, ls=lengthscale), noise_variance=noise)
        gp.marginal_likelihood("y", X, Y, offset=OFFSET, weights=WEIGHTS)
    return model, gp


def test_the_density_is_the_evidence_and_its_gradient_that_of_differences(model_and_gp):
    model, gp = model_and_gp
    asked = [
        model.logp(vars=model.observed_RVs, jacobian=False),
        model.logp(jacobian=False),
        model.dlogp(jacobian=False),
    ]
    ask = model.compile_fn(asked, mode="FAST_COMPILE")
    point = {"lengthscale_log__": np.log(POINT["lengthscale"]), "noise_log__": np.log(POINT["noise"])}
    fit = bgp.fit(X, Y, bgp.kernels.Gaussian(0.8), bgp.Probit(0.5), offset=OFFSET, weights=WEIGHTS, draws=2)["fit"]
    log_p, _, slope = ask(point)
    np.testing.assert_allclose(log_p, fit["log_evidence"], atol=1e-7)
    np.testing.assert_allclose(gp.posterior(POINT).log_evidence, fit["log_evidence"], atol=1e-7)
    plain = bgp.fit(X, Y, bgp.kernels.Gaussian(0.8), bgp.Probit(0.5), draws=2)["fit"]
    assert abs(float(plain["log_evidence"]) - log_p) > 0.1  # a control
    for name, got in zip(point, slope, strict=True):
        above, below = (ask({**point, name: point[name] + h})[1] for h in (1e-4, -1e-4))
        np.testing.assert_allclose(got, (above - below) / 2e-4, atol=1e-5)


def test_new_labels_are_at_their_own_offsets(model_and_gp):
    _, gp = model_and_gp
    draws = {name: (("chain", "draw"), np.full((1, 2), value)) for name, value in POINT.items()}
    groups = {"posterior": xr.Dataset(draws), "observed_data": xr.Dataset({"y": ("y_dim_0", Y.astype(int))})}
    idata = sample_latent(make_container(groups), gp, X[:2], offset=OFFSET[:2], random_seed=1, progress=False)
    mean, variance = gp.posterior(POINT).latent(X[:2])
    expected = bgp.Probit(0.5).predict_proba(mean + OFFSET[:2], variance)
    predictions = get_group(idata, "predictions")
    np.testing.assert_allclose(predictions["p"].values[0, 0], expected)
    np.testing.assert_array_equal(get_group(idata, "predictions_constant_data")["offset"], OFFSET[:2])
    with pytest.raises(ValueError, match="offset is missing"):
        sample_latent(idata, gp, X[:2], progress=False)
    plain, weighed = (
        bgp.fit(X, Y, bgp.kernels.Gaussian(0.8), bgp.Probit(0.5), offset=OFFSET, weights=given, draws=2)
        for given in (None, WEIGHTS)
    )
    with pytest.raises(ValueError, match="draws was fitted with other weights than plain"):
        bgp.compare({"plain": plain, "draws": idata})
    elpd = bgp.compare({"weighed": weighed, "draws": idata}).table["elpd"]
    assert elpd["draws"] == pytest.approx(float(weighed["fit"]["loo_i"].sum()), abs=1e-6)
    assert elpd["weighed"] == pytest.approx(elpd["draws"], abs=0.1)  # that is corrected
    density = bgp.fit(X, Y.astype(float), bgp.kernels.Gaussian(), bgp.likelihoods.Gaussian(), weights=WEIGHTS, draws=2)
    with pytest.raises(ValueError, match="draws has probabilities"):
        bgp.compare({"density": density, "draws": idata})


def test_malformed_weights_are_refused_where_the_data_come_in():
    with pm.Model():
        gp = Marginal(pm.gp.cov.ExpQuad(1, ls=1.0))
        with pytest.raises(ValueError, match="weights must be >= 0"):
            gp.marginal_likelihood("y", X, Y, weights=-WEIGHTS)
