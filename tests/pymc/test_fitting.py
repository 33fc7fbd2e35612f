"""Covariance functions of PyMC in `fit`: the same numbers as our kernels, and what a container can and cannot hold."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import LogNormal
from bayesgp_mf.kernels import Bias, Gaussian
from bayesgp_mf.pymc import kernel_from_pymc

ExpQuad = pm.gp.cov.ExpQuad
PLAIN = ExpQuad(2, ls=0.8) * 4.0


def fit(data, kernel, **options):
    return bgp.fit(data.X, data.y, kernel, **{"draws": 20, "chains": 2, "random_seed": 0, "progress": False, **options})


def with_random_scales(shape=()):
    with pm.Model():
        eta, ls = pm.Gamma("eta", 2.0, 1.0), pm.InverseGamma("ls", 5.0, 5.0, shape=shape)
        return eta**2 * ExpQuad(2, ls=ls)


def test_it_is_the_kernel_of_the_same_name(data):
    ours, theirs = fit(data, Gaussian(0.8, 4.0)), fit(data, PLAIN)
    for group, names in (("posterior", ["f"]), ("fit", ["alpha", "loo_i", "latent_sd", "log_evidence"])):
        for name in names:
            np.testing.assert_allclose(theirs[group][name], ours[group][name], rtol=1e-6, atol=1e-8)
    X_new = data.X[:4] + 0.3
    bgp.predict(ours, X_new, random_seed=1)
    bgp.predict(theirs, X_new, kernel=PLAIN, random_seed=1)
    for name in ("p", "latent_sd", "f"):
        np.testing.assert_allclose(theirs["predictions"][name], ours["predictions"][name], rtol=1e-6, atol=1e-8)
    assert float(bgp.loo(theirs, kernel=PLAIN)["se"]) == pytest.approx(float(bgp.loo(ours)["se"]), rel=1e-8)


def test_a_sum_with_one_of_ours_and_named_tensors_are_tuned(data):
    cov_func = pt.dscalar("eta") ** 2 * ExpQuad(2, ls=pt.dvector("ls"))
    theirs = kernel_from_pymc(cov_func, eta=2.0, ls=[1.0, 1.0]) + Bias(1.0)
    scales = LogNormal(0.0, 0.5)
    found = [
        fit(data, kernel, hyper=bgp.hyper.Evidence(starts=1), fixed={"bias_variance"}, priors=priors)["fit"]
        for kernel, priors in (
            (
                Gaussian([1.0, 1.0], 4.0) + Bias(1.0),
                {"gaussian_lengthscale": scales, "gaussian_variance": LogNormal(1.4, 0.5)},
            ),
            (theirs, {"pymckernel_ls": scales, "pymckernel_eta": LogNormal(0.7, 0.25)}),
        )
    ]
    np.testing.assert_allclose(found[1]["pymckernel_ls"], found[0]["gaussian_lengthscale"], rtol=1e-3)
    assert float(found[1]["pymckernel_eta"]) ** 2 == pytest.approx(float(found[0]["gaussian_variance"]), rel=2e-3)
    assert float(found[1]["bias_variance"]) == 1.0


@pytest.mark.parametrize("shape", [(), (2,)], ids=["one", "two"])
def test_random_variables_bring_their_priors(data, shape):
    cov_func = with_random_scales(shape)
    idata = fit(data, cov_func, hyper=bgp.hyper.Evidence(starts=1))
    given = {"eta": pm.Gamma.dist(2.0, 1.0), "ls": pm.InverseGamma.dist(5.0, 5.0)}
    named = pt.dscalar("eta") ** 2 * ExpQuad(2, ls=pt.dvector("ls") if shape else pt.dscalar("ls"))
    start = kernel_from_pymc(named, eta=2.0, ls=np.full(shape, 1.25))  # where PyMC starts these: at their means
    expected = fit(data, start, hyper=bgp.hyper.Evidence(starts=1), priors=given)
    for name in ("eta", "ls", "hyper_start", "hyper_log_prior"):
        np.testing.assert_allclose(idata["fit"][name], expected["fit"][name], rtol=1e-6)
    other = fit(data, cov_func, hyper=bgp.hyper.Evidence(starts=1), priors={"ls": LogNormal(-1.0, 0.1)}, fixed={"eta"})
    assert np.all(other["fit"]["ls"].values < 0.6 * idata["fit"]["ls"].values)
    assert float(other["fit"]["eta"]) == 2.0


def test_an_average_keeps_its_parameters_and_predicts_with_the_covariance_function(data, tmp_path):
    cov_func = with_random_scales()
    idata = fit(data, cov_func, hyper="integrate")
    assert idata["fit"]["ls"].dims == ("node",)
    X_new = data.X[:3] + 0.2
    bgp.predict(idata, X_new, kernel=cov_func, random_seed=1)
    idata.to_netcdf(str(tmp_path / "a.nc"))
    loaded = az.from_netcdf(str(tmp_path / "a.nc"))
    bgp.predict(loaded, X_new, kernel=with_random_scales(), random_seed=1)
    np.testing.assert_array_equal(loaded["predictions"]["p"].values, idata["predictions"]["p"].values)
    assert len(bgp.posterior(loaded, kernel=cov_func).parts) == idata["fit"].sizes["node"] > 20


def test_a_vector_that_is_not_one_for_each_input_has_a_dimension_of_its_own(data):
    weights = pt.dvector("weights")
    cov_func = weights[0] * ExpQuad(2, ls=1.0) + weights[1] * ExpQuad(2, ls=0.3) + weights[2] * ExpQuad(2, ls=3.0)
    kernel = kernel_from_pymc(cov_func, weights=[1.0, 2.0, 3.0])
    idata = fit(data, kernel)
    assert get_group(idata, "fit")["weights"].dims == ("weights_dim_0",)
    assert bgp.posterior(idata, kernel=kernel).log_evidence == float(idata["fit"]["log_evidence"])
    priors = {"weights": LogNormal(0.0, 1.0)}
    averaged = fit(data, kernel, hyper="integrate", priors=priors)
    assert averaged["fit"]["weights"].dims == ("node", "weights_dim_0")


def test_a_container_without_its_kernel_says_what_to_pass(data):
    idata = fit(data, PLAIN)
    for verb in (bgp.posterior, bgp.loo, lambda idata, **options: bgp.predict(idata, data.X[:1], **options)):
        with pytest.raises(ValueError, match=r"not the kernel itself, PymcKernel\(Prod\).* kernel=\.\.\."):
            verb(idata)
        with pytest.raises(ValueError, match=r"kernel is not the one that was fitted.* Pass that one"):
            verb(idata, kernel=ExpQuad(2, ls=0.9) * 4.0)
        with pytest.raises(ValueError, match=r"kernel has the parameters .*, but the one that was saved"):
            verb(idata, kernel=Gaussian())
        with pytest.raises(ValueError, match=r"kernel must be one of bayesgp_mf\.kernels.* got str"):
            verb(idata, kernel="ExpQuad")
    held = fit(data, Gaussian())
    with pytest.raises(ValueError, match=r"this container or file holds its kernel, Gaussian.* Leave kernel out"):
        bgp.predict(held, data.X[:1], kernel=Gaussian())
    parameter = kernel_from_pymc(ExpQuad(2, ls=pt.dscalar("ls")), ls=0.5)
    with pytest.raises(ValueError, match="unknown parameter 'ls'"):
        bgp.predict(fit(data, parameter), data.X[:1], kernel=PLAIN)


def test_mistakes_are_named(data):
    with pytest.raises(ValueError, match="the class ExpQuad"):
        fit(data, ExpQuad)
    with pytest.raises(ValueError, match=r"or of pm\.gp\.cov, got float"):
        fit(data, 1.0)
    with pytest.raises(ValueError, match=r"or of pm\.gp\.cov, got .*Zero"):
        fit(data, pm.gp.mean.Zero())
    for hyper in (None, "evidence"):
        with pytest.raises(ValueError, match=r"depends on 'ls': give it a value, ls=\.\.\., by pymc.kernel_from_pymc"):
            fit(data, ExpQuad(2, ls=pt.dscalar("ls")), hyper=hyper)
    with pytest.raises(ValueError, match="depends on 'ls': give it a value"):
        fit(data, with_random_scales())
    with pytest.raises(ValueError, match="no parameter to tune"):
        fit(data, PLAIN, hyper="evidence")
    with pytest.raises(ValueError, match="made for 3 columns, but X has 2"):
        fit(data, ExpQuad(3, ls=1.0))
    with pytest.warns(UserWarning, match="uses only 1 of the 2 columns"):
        fit(data, ExpQuad(1, ls=1.0))
    with pytest.raises(ValueError, match="called 'alpha', which is taken in the container"):
        fit(data, kernel_from_pymc(pm.gp.cov.RatQuad(2, ls=1.0, alpha=pt.dscalar("alpha")), alpha=1.0))
    with pm.Model():
        raw, scale = pm.Normal("raw", 1.0, 1.0), pm.HalfNormal("scale")
        below, ordered = pm.Gamma("below", 2.0, scale), pm.Gamma("apart", [1.0, 2.0], 1.0)
    for variable, message in (
        (raw, "may be negative"),
        (below, "must be numbers"),
        (ordered, "one distribution of numbers for all"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(data, ExpQuad(2, ls=variable), hyper="evidence")


def test_a_kernel_given_again_brings_the_priors_that_the_container_cannot_hold(data):
    kernel = with_random_scales()
    idata = fit(data, kernel, hyper="evidence")
    drawn = bgp.prior_predictive(idata, kernel, draws=50, random_seed=1)["prior"]
    assert drawn["eta"].std() > 0
    assert drawn["ls"].std() > 0
    given = {"ls": LogNormal(0.0, 1e-6)}
    replaced = bgp.prior_predictive(idata, kernel, priors=given, draws=50, random_seed=1)["prior"]
    np.testing.assert_allclose(replaced["ls"], 1.0, rtol=1e-4)
    np.testing.assert_array_equal(replaced["eta"], drawn["eta"])
    bgp.diagnostics.sensitivity(fit(data, kernel, hyper="integrate"), kernel=kernel, progress=False)


def test_further_cases_are_planned_under_the_priors_of_a_kernel_given_again(data):
    kernel = with_random_scales()
    idata = fit(data, kernel, hyper="evidence")
    planned = bgp.plan(idata, [30], kernel=kernel, hyper="evidence", replicas=2, random_seed=1, progress=False)
    assert np.all(np.isfinite(planned.values))
