"""The marginal model in PyMC: densities, gradients, prior, optimum, samplers, conditionals, refusals."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pytensor.graph.traversal import applys_between

import bayesgp_mf as bgp
from bayesgp_mf.hyper import EvidenceScore, Objective, Target
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS
from bayesgp_mf.pymc import Marginal, kernel_from_pymc, latent_model
from tests.pymc.conftest import INTERPRETED

POINT = {"ls": 0.8, "noise": 0.6}


def build(data, likelihood=bgp.Probit(), **options):
    with pm.Model(coords={"case": range(20)}) as model:
        ls, noise = pm.LogNormal("ls", 0.0, 0.5), pm.LogNormal("noise", 0.0, 0.5)
        gp = Marginal(4.0 * pm.gp.cov.ExpQuad(2, ls=ls), likelihood, noise_variance=noise, **options)
        gp.marginal_likelihood("y", data.X, data.y, dims="case")
    return model, gp


def test_the_density_is_the_evidence_and_its_gradient_is_exact(data):
    model, _ = build(data)
    function = model.logp_dlogp_function(ravel_inputs=True, mode=INTERPRETED)
    function.set_extra_values({})
    log_values = np.log([0.8, 0.6])
    value, gradient = function(log_values)
    evidence = bgp.solve(bgp.kernels.Gaussian(0.8, 4.0).gram(data.X), data.t, bgp.Probit(0.6)).evidence.value
    prior = -0.5 * np.sum((log_values / 0.5) ** 2) - 2.0 * np.log(0.5 * np.sqrt(2.0 * np.pi))
    assert value == pytest.approx(evidence + prior, rel=1e-8)  # PyMC's own constants
    for i in range(2):
        step = 1e-4 * np.eye(2)[i]
        difference = (function(log_values + step)[0] - function(log_values - step)[0]) / 2e-4
        assert gradient[i] == pytest.approx(difference, rel=1e-6)
        assert gradient[i] - log_values[i] / 0.25 != pytest.approx(difference, rel=1e-2)  # the prior counted twice


def test_other_labels_have_another_density(data):
    model, _ = build(data)
    (y,) = model.observed_RVs
    ls, noise = (model[name] for name in ("ls", "noise"))
    value = pt.lvector("value")
    log_prob = pytensor.function([value, ls, noise], pm.logp(y, value), mode=INTERPRETED)
    gram = bgp.kernels.Gaussian(0.8, 4.0).gram(data.X)
    other = np.roll(data.y, 1).astype(int)
    expected = bgp.solve(gram, 2 * other - 1, bgp.Probit(0.6)).evidence.value
    assert float(log_prob(other, 0.8, 0.6)) == pytest.approx(expected, rel=1e-12)
    assert float(log_prob(data.y.astype(int), 0.8, 0.6)) != pytest.approx(expected, rel=1e-3)


def test_regression_is_that_of_pymc(data):
    y = np.sin(data.X[:, 0])
    values = []
    for ours in (True, False):
        with pm.Model() as model:
            cov_func, noise = pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls")), pm.LogNormal("noise")
            if ours:
                Marginal(cov_func, Gaussian(), noise_variance=noise).marginal_likelihood("y", data.X, y)
            else:
                gp = pm.gp.Marginal(cov_func=cov_func)
                gp.marginal_likelihood("y", X=data.X, y=y, sigma=pt.sqrt(noise), jitter=0.0)
        values.append(float(model.compile_logp(mode="FAST_COMPILE")({"ls_log__": -0.2, "noise_log__": -1.0})))
    assert values[0] == pytest.approx(values[1], rel=1e-10)


def test_labels_from_the_prior(data):
    model, _ = build(data)
    with model:
        drawn = pm.sample_prior_predictive(400, random_seed=1, compile_kwargs={"mode": INTERPRETED})
    y = drawn["prior_predictive"]["y"]
    assert y.dims == ("chain", "draw", "case")
    assert set(np.unique(y)) == {0, 1}
    signs = 2.0 * y.values[0] - 1.0
    assert abs(signs.mean()) < 0.1
    nearest = np.argmax(bgp.kernels.Gaussian(1.0).gram(data.X) - np.eye(20), axis=0)
    assert np.mean(signs * signs[:, nearest]) > 0.2  # neighbours agree: the labels are those of a function


@pytest.mark.filterwarnings("ignore:.find_MAP. will:FutureWarning")  # PyMC 6
def test_the_optimum_under_a_flat_prior_is_the_highest_evidence(data):
    with pm.Model():
        ls = pt.exp(pm.Flat("log_ls"))
        gp = Marginal(4.0 * pm.gp.cov.ExpQuad(2, ls=ls))
        gp.marginal_likelihood("y", data.X, data.y)
        with pytensor.config.change_flags(mode="FAST_COMPILE"):
            point = pm.find_MAP(progressbar=False)
    kernel = kernel_from_pymc(4.0 * pm.gp.cov.ExpQuad(2, ls=pt.dscalar("ls")), ls=float(np.exp(point["log_ls"])))
    objective = Objective(Target(data.X, data.t, bgp.Probit(), kernel, METHODS["tap"], bgp.Control()), EvidenceScore())
    value, slope = objective(bgp.kernels.log_vector(kernel))
    assert abs(slope[0]) < 1e-3
    assert gp.posterior(point).log_evidence == pytest.approx(value, rel=1e-12)
    assert objective(bgp.kernels.log_vector(kernel) + 0.3)[0] < value


def sample(model, sampler, draws=50):
    options = {"compile_kwargs": {"mode": INTERPRETED}} if sampler == "pymc" else {}
    with model:
        return pm.sample(
            draws, tune=50, chains=1, cores=1, random_seed=1, progressbar=False, nuts_sampler=sampler,
            compute_convergence_checks=False, **options,
        )  # fmt: skip


def test_sampling_the_hyperparameters(data):
    model, _ = build(data)
    idata = sample(model, "pymc", draws=60)
    assert idata["observed_data"]["y"].dims == ("case",)
    assert int(idata["sample_stats"]["diverging"].sum()) == 0
    # the posterior on a grid: what the draws must agree with
    grid = np.linspace(-1.5, 1.5, 13)
    log_p = np.array([
        [
            bgp.solve(bgp.kernels.Gaussian(np.exp(a), 4.0).gram(data.X), data.t, bgp.Probit(np.exp(b))).evidence.value
            - 2.0 * (a**2 + b**2)
            for b in grid
        ]
        for a in grid
    ])  # fmt: skip
    weight = np.exp(log_p - log_p.max())
    mean = weight.sum(axis=1) @ grid / weight.sum()
    sd = np.sqrt(weight.sum(axis=1) @ (grid - mean) ** 2 / weight.sum())
    found = float(np.log(idata["posterior"]["ls"]).mean())
    assert found == pytest.approx(mean, abs=4 * sd / np.sqrt(20))  # 60 draws of NUTS count for some 20 at least
    assert found != pytest.approx(0.0, abs=1e-3)


def negative_variances_have_no_density(data):
    with pm.Model() as model:
        variance = pm.Normal("variance", 1.0, 2.0)
        Marginal(variance * pm.gp.cov.ExpQuad(2, ls=1.0)).marginal_likelihood("y", data.X, data.y)
    return model


def test_a_failure_is_a_divergence_and_never_a_draw(data):
    idata = sample(negative_variances_have_no_density(data), "pymc")
    assert float(idata["posterior"]["variance"].min()) > 0.0
    assert int(idata["sample_stats"]["diverging"].sum()) > 0


def test_a_failure_can_be_shown(data):
    for action in ("reject", "raise"):
        with pm.Model() as model:
            variance = pm.Normal("variance", 1.0, 2.0)
            gp = Marginal(variance * pm.gp.cov.ExpQuad(2, ls=1.0), on_failure=action)
            gp.marginal_likelihood("y", data.X, data.y)
        log_prob = model.compile_logp(mode=INTERPRETED)
        assert np.isfinite(log_prob({"variance": 2.0}))
        if action == "reject":
            assert log_prob({"variance": -2.0}) == -np.inf
        else:
            with pytest.raises(bgp.NotPositiveDefiniteError, match="prior variances"):
                log_prob({"variance": -2.0})


def test_nutpie(data):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of its own; ours, about numba, would come at compiling
        warnings.filterwarnings("error", message="Numba will use object mode")
        idata = sample(negative_variances_have_no_density(data), "nutpie")
    assert float(idata["posterior"]["variance"].min()) > 0.0
    assert int(idata["sample_stats"]["diverging"].sum()) > 0


def test_predictions_at_a_point_are_those_of_the_solution(data):
    _, gp = build(data, method="naive")
    X_new = data.X[:4] + 0.3
    kernel = bgp.kernels.Gaussian(0.8, 4.0)
    problem = bgp.Problem(kernel.gram(data.X), data.t, bgp.Probit(0.6))
    solution = bgp.solve(problem.gram, problem.t, problem.likelihood, method="naive")
    expected = bgp.Posterior(kernel, data.X, problem, solution)
    mean, variance = expected.latent(X_new)
    for found, wanted in zip(gp.predict(X_new, POINT, diag=True), (mean, variance), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-9)
    joint_mean, covariance = gp.predict(X_new, {**POINT, "ls_log__": np.log(0.8)})
    np.testing.assert_allclose(joint_mean, mean, rtol=1e-9)
    np.testing.assert_allclose(np.diag(covariance), variance, rtol=1e-9)
    np.testing.assert_allclose(gp.posterior(POINT).predict_proba(X_new), expected.predict_proba(X_new), rtol=1e-9)


def test_the_conditional_is_the_prediction(data):
    model, gp = build(data)
    with model:
        f_new = gp.conditional("f_new", data.X[:4] + 0.3, jitter=0.0)
    mean, covariance = pytensor.function(
        [model["ls"], model["noise"]], f_new.owner.op.dist_params(f_new.owner), mode="FAST_COMPILE"
    )(*POINT.values())
    expected_mean, expected_covariance = gp.predict(data.X[:4] + 0.3, POINT)
    np.testing.assert_allclose(mean, expected_mean, rtol=1e-9)
    np.testing.assert_allclose(covariance, expected_covariance, atol=1e-10)
    with pytest.raises(NotImplementedError, match="cannot be differentiated"):
        model.compile_dlogp()


def test_a_conditional_leaves_a_sampler_nothing_to_compile_and_follows_the_data(data):
    """Of the covariance function, which takes PyTensor up to a minute: mean and covariance are one operation."""
    model, gp = build(data)
    with model:
        X_new = pm.Data("X_new", data.X[:4] + 0.3)
        f_new = gp.conditional("f_new", X_new, jitter=0.0)
    parameters = f_new.owner.op.dist_params(f_new.owner)
    assert len(list(applys_between([model["ls"], model["noise"], X_new], parameters))) < 8
    moments = pytensor.function([model["ls"], model["noise"]], parameters, mode=INTERPRETED)
    for inputs in (data.X[:4] + 0.3, data.X[5:7]):
        X_new.set_value(inputs)
        for found, expected in zip(moments(*POINT.values()), gp.predict(inputs, POINT), strict=True):
            np.testing.assert_allclose(found, expected, atol=1e-9)


def test_data_containers_can_be_exchanged(data):
    with pm.Model() as model:
        ls = pm.LogNormal("ls")
        X, y = pm.Data("X", data.X), pm.Data("labels", data.y.astype(int))
        gp = Marginal(pm.gp.cov.ExpQuad(2, ls=ls))
        gp.marginal_likelihood("y", X, y)
    log_prob = model.compile_logp(mode=INTERPRETED)
    values = {}
    for n in (20, 12):
        with model:
            pm.set_data({"X": data.X[:n], "labels": data.y[:n].astype(int)})
        gram = bgp.kernels.Gaussian(0.8).gram(data.X[:n])
        prior = -0.5 * np.log(0.8) ** 2 - 0.5 * np.log(2.0 * np.pi)
        values[n] = bgp.solve(gram, data.t[:n], bgp.Probit()).evidence.value
        assert log_prob({"ls_log__": np.log(0.8)}) == pytest.approx(values[n] + prior, rel=1e-8)
        assert gp.posterior({"ls": 0.8}).log_evidence == pytest.approx(values[n], rel=1e-12)
    assert values[20] != values[12]


def test_any_two_labels_and_a_number_for_a_parameter(data):
    cov_func = pm.gp.cov.ExpQuad(2, ls=0.8)
    evidence = []
    for labels in (data.y, np.where(data.y == 1, "yes", "no")):
        with pm.Model():
            gp = Marginal(cov_func, noise_variance=0.3)
            gp.marginal_likelihood("y", data.X, labels)
        evidence.append(gp.posterior({}).log_evidence)
    gram = bgp.kernels.Gaussian(0.8).gram(data.X)
    assert evidence[0] == evidence[1] == pytest.approx(bgp.solve(gram, data.t, bgp.Probit(0.3)).evidence.value)
    assert gp.observed.class_names == ("no", "yes")


def test_a_likelihood_by_word(data):
    counts = np.round(np.exp(data.X[:, 0]))
    evidence = []
    for likelihood in ("poisson", bgp.Poisson()):
        with pm.Model():
            gp = Marginal(pm.gp.cov.ExpQuad(2, ls=0.8), likelihood)
            gp.marginal_likelihood("y", data.X, counts)
        evidence.append(gp.posterior({}).log_evidence)
    assert evidence[0] == evidence[1]
    model = latent_model(data.X, counts, pm.gp.cov.ExpQuad(2, ls=0.8), "poisson")
    assert np.isfinite(model.compile_logp()(model.initial_point()))
    with pytest.raises(ValueError, match="poisson"):
        Marginal(pm.gp.cov.ExpQuad(2, ls=0.8), "poison")


def test_mistakes_are_named(data):
    cov_func = pm.gp.cov.ExpQuad(2, ls=1.0)
    with pytest.raises(ValueError, match="unknown parameter 'sigma'"):
        Marginal(cov_func, sigma=1.0)
    with pytest.raises(ValueError, match="noise_variance of Probit must be one number for all cases"):
        Marginal(cov_func, noise_variance=pt.dvector())
    with pytest.raises(ValueError, match="noise_variance must be"):
        Marginal(cov_func, noise_variance=-1.0)
    with pytest.raises(ValueError, match="covariance function such as"):
        Marginal("gaussian")
    with pytest.raises(ValueError, match="must be an instance"):
        Marginal(cov_func, bgp.Probit)
    with pytest.raises(ValueError, match="call marginal_likelihood"):
        Marginal(cov_func).posterior({})
    with pytest.raises(ValueError, match="exactly two classes"), pm.Model():
        Marginal(cov_func).marginal_likelihood("y", data.X, np.arange(20))
    with pytest.raises(ValueError, match="point has no value of 'noise'"):
        build(data)[1].posterior({"ls": 1.0})
    with pytest.raises(bgp.UndefinedQuantityError, match="only the covariance may be random"):
        build(data, method="laplace")
