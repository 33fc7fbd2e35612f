"""Latent values after the hyperparameters: groups for ArviZ, and numbers that agree with the solutions."""

from __future__ import annotations

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pymc as pm
import pytest
from pymc.stats import compute_log_prior

import bayesgp_mf as bgp
from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.container.groups import get_group, group_names
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.processes.process import Process
from bayesgp_mf.pymc import Marginal, sample_latent
from tests.pymc.conftest import CASES, drawn


def build(data, likelihood=bgp.Probit(), y=None, **parameters):
    with pm.Model(coords={"case": CASES}):
        gp = Marginal(4.0 * pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls")), likelihood, **parameters)
        gp.marginal_likelihood("y", data.X, data.y if y is None else y, dims="case")
    return gp


@pytest.fixture(scope="module")
def solution(data):
    kernel = bgp.kernels.Gaussian(0.8, 4.0)
    problem = bgp.Problem(kernel.gram(data.X), data.t, bgp.Probit())
    return bgp.Posterior(kernel, data.X, problem, bgp.solve(problem.gram, problem.t, problem.likelihood))


def test_draws_are_those_of_the_solution(data, solution):
    idata = drawn(data, np.full((2, 150), 0.8))
    X_new = data.X[:3] + 0.2
    assert sample_latent(idata, build(data), X_new, pointwise="latent", random_seed=1, progress=False) is idata
    f = idata["posterior"]["f"]
    assert f.dims == ("chain", "draw", "case")
    assert list(f["case"].values) == CASES
    values = f.values.reshape(300, 20)
    mean, variance = solution.at_training
    np.testing.assert_allclose(values.mean(axis=0), mean, atol=5 * np.sqrt(variance.max() / 300))
    np.testing.assert_allclose(values.var(axis=0), variance, rtol=5 * np.sqrt(2 / 300))
    log_likelihood = idata["log_likelihood"]["y"]
    assert log_likelihood.dims == f.dims
    np.testing.assert_allclose(log_likelihood.values, bgp.Probit().log_prob(data.t, f.values).value)
    y = idata["posterior_predictive"]["y"].values.reshape(300, 20)
    expected = bgp.Probit().predict_proba(mean, variance)
    np.testing.assert_allclose(y.mean(axis=0), expected, atol=5 * np.sqrt(0.25 / 300))
    predictions = get_group(idata, "predictions")
    new_mean, new_variance = solution.latent(X_new)
    np.testing.assert_allclose(predictions["p"].values[1, 3], solution.predict_proba(X_new), rtol=1e-8)
    new = predictions["f"].values.reshape(300, 3)
    np.testing.assert_allclose(new.mean(axis=0), new_mean, atol=5 * np.sqrt(new_variance.max() / 300))


def test_each_draw_has_its_own_hyperparameters_and_seeds_repeat(data):
    gp = build(data)
    results = [sample_latent(drawn(data, [[0.1, 10.0], [10.0, 0.1]]), gp, random_seed=seed) for seed in (1, 1, 2)]
    first, again, other = (idata["posterior"]["f"].values for idata in results)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    roughness = np.array([[np.std(f - f.mean()) for f in chain] for chain in first])
    assert min(roughness[0, 0], roughness[1, 1]) > max(roughness[0, 1], roughness[1, 0])


def test_leave_one_out_that_integrates_the_latent_values(data, solution):
    gp = build(data)
    idata = drawn(data, 0.8 * np.exp(0.01 * np.random.default_rng(1).normal(size=(2, 50))))
    sample_latent(idata, gp, pointwise="leave_one_out", random_seed=1)
    log_density = idata["log_likelihood"]["y"].values
    np.testing.assert_allclose(
        log_density[1, 7], gp.posterior({"ls": idata["posterior"]["ls"].values[1, 7]}).loo.log_density
    )
    # hyperparameters that hardly vary leave az.loo nothing to weigh: it must find the method's own leave-one-out
    assert elpd_of(az.loo(idata)) == pytest.approx(solution.loo.log_density.sum(), abs=0.02)
    latent = sample_latent(idata, gp, random_seed=1)["log_likelihood"]["y"].values
    assert log_density.std(axis=(0, 1)).max() < 0.1 < latent.std(axis=(0, 1)).min()


def elpd_of(elpd):
    return float(elpd.elpd_loo if hasattr(elpd, "elpd_loo") else elpd.elpd)


def p_of(elpd):
    return float(elpd.p_loo if hasattr(elpd, "p_loo") else elpd.p)


@pytest.fixture
def figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def averages(data):
    """Return draws of the length scale, twice, with all that is added to them, and the same average made by hand."""
    ls = np.exp(0.3 * np.random.default_rng(2).normal(size=(2, 40)))
    with pm.Model(coords={"case": CASES}):
        gp = Marginal(4.0 * pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls", 0.0, 0.5)))
        gp.marginal_likelihood("y", data.X, data.y, dims="case")
        idata = compute_log_prior(drawn(data, ls), progressbar=False, compile_kwargs={"mode": "FAST_COMPILE"})
    alone = sample_latent(drawn(data, ls), gp, pointwise="leave_one_out", random_seed=1, progress=False)
    parts = tuple(gp.posterior({"ls": value}) for value in ls.ravel())
    return sample_latent(idata, gp, random_seed=1, progress=False), alone, Process(parts, np.full(80, 1.0 / 80.0))


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")  # so few draws bear little
def test_leave_one_out_is_that_of_other_averages(averages):
    """By `bgp.loo`: its densities, and the parameters it counts, latent ones too."""
    idata, alone, mixture = averages
    found = bgp.loo(idata)
    np.testing.assert_allclose(found["loo_i"] if arviz_major() < 1 else found.elpd_i, mixture.loo.log_density)
    p = np.sum(mixture.log_density_at_training - mixture.loo.log_density)
    assert p_of(found) == p_of(bgp.loo(alone)) == pytest.approx(p)
    assert p_of(az.loo(alone)) < 0.5 * p  # of length scales only, which is why az.loo is not given these by default
    with pytest.raises(ValueError, match="corrected is for what fit returned"):
        bgp.loo(idata, corrected=True)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")  # so few draws bear little
@pytest.mark.filterwarnings("ignore:The inplace keyword")  # ArviZ 0.2x under pandas 3
@pytest.mark.filterwarnings("ignore:Passing a dict or None as alias_mapping")  # ArviZ 0.2x under Matplotlib 3.11
def test_what_arviz_asks_for_is_there(averages, data, figures):
    idata, _, mixture = averages
    ours = bgp.fit(data.X, data.y, bgp.kernels.Gaussian(0.8, 4.0), draws=40, chains=2, random_seed=1)
    compared = bgp.compare({"pymc": idata, "fit": ours})
    assert "not known of pymc, averaged" in compared.sentence
    assert compared.table.loc["pymc", "elpd"] == pytest.approx(mixture.loo.log_density.sum())
    assert set(az.compare({"pymc": bgp.loo(idata), "fit": bgp.loo(ours)}).index) == {"pymc", "fit"}
    assert az.plot_khat(bgp.loo(idata)) is not None
    pit = az.loo_pit(idata, y="y") if arviz_major() < 1 else az.loo_pit(idata)["y"].values
    assert np.all((pit >= 0.0) & (pit <= 1.0))
    stats = get_group(idata, "sample_stats")
    weights = np.exp(stats["log_p"] - stats["log_q"]).values  # of the posterior against its approximation
    assert np.mean(weights) == pytest.approx(1.0, abs=4.0 * np.std(weights) / np.sqrt(80))
    if arviz_major() < 1:
        return
    assert np.isfinite(az.loo_approximate_posterior(idata, log_p=stats["log_p"], log_q=stats["log_q"]).elpd)
    assert np.isfinite(az.psense_summary(idata, var_names=["ls"])[["prior", "likelihood"]].to_numpy()).all()
    assert az.plot_loo_pava(idata) is not None


def test_regression_has_targets_and_no_probabilities(data):
    y = np.sin(data.X[:, 0])
    with pm.Model(coords={"case": CASES}):
        noise = pm.LogNormal("noise")
        gp = Marginal(pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls")), Gaussian(), noise_variance=noise**2)
        gp.marginal_likelihood("y", data.X, y, dims="case")
    assert set(gp.hyperparameters) == {"ls", "noise"}
    assert gp.posterior({"ls": 1.0, "noise": 0.5}).problem.likelihood == Gaussian(0.25)
    idata = drawn(data, np.ones((2, 3)))
    with pytest.raises(ValueError, match="depends on 'noise'"):
        sample_latent(idata, gp)
    gp = build(data, Gaussian(0.01), y)
    idata = sample_latent(drawn(data, np.ones((2, 3))), gp, data.X[:2], random_seed=1)
    assert "p" not in get_group(idata, "predictions")
    np.testing.assert_allclose(idata["posterior_predictive"]["y"].values[0, 0], y, atol=0.6)


def test_counts_are_integers_which_arviz_counts(data):
    with pm.Model(coords={"case": CASES}):
        gp = Marginal(pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls")), bgp.Poisson())
        gp.marginal_likelihood("y", data.X, np.arange(len(data.X)) % 4, dims="case")
        idata = pm.sample(4, tune=4, chains=1, random_seed=1, progressbar=False, compute_convergence_checks=False)
    idata = sample_latent(idata, gp, data.X[:2], random_seed=1)
    for group, name in (("posterior_predictive", "y"), ("observed_data", "y"), ("predictions", "y")):
        assert get_group(idata, group)[name].dtype == np.int64, group
    assert get_group(idata, "observed_data")["y"].values.tolist() == (np.arange(len(data.X)) % 4).tolist()


def test_mistakes_are_named(data):
    idata = drawn(data, np.ones((2, 2)))
    with pytest.raises(ValueError, match="pointwise must be"):
        sample_latent(idata, build(data), pointwise="joint")
    with pytest.raises(bgp.UndefinedQuantityError, match="takes two values only"):
        sample_latent(idata, build(data, bgp.Step(0.1)), pointwise="latent")
    with pytest.raises(bgp.ConvergenceError, match="chain 0, draw 1"):
        sample_latent(drawn(data, [[1.0, np.nan], [1.0, 1.0]]), build(data))
    step = sample_latent(idata, build(data, bgp.Step(0.1)), random_seed=1)
    assert "log_likelihood" not in group_names(step)  # PyMC's joint one neither
    assert np.all(step["leave_one_out"]["log_density"].values > np.log(0.1) - 1e-9)
    assert np.isfinite(p_of(bgp.loo(step)))
