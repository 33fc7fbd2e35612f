"""Parameters of a likelihood in a container: by name, at every node, in every draw, and read back."""

from __future__ import annotations

import warnings

import arviz as az
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import HybridMonteCarlo, Integrate, LogNormal, Surrogate
from bayesgp_mf.likelihoods import Gaussian

RNG = np.random.default_rng(3)
X = RNG.uniform(-2.0, 2.0, size=(24, 1))
F = np.sin(2.0 * X[:, 0])
Y, COUNTS = F + 0.4 * RNG.normal(size=24), RNG.poisson(np.exp(1.0 + F) * RNG.gamma(2.0, size=24) / 2.0).astype(float)
LABELS = np.where(RNG.random(24) < 0.1, F < 0, F > 0)
KERNEL = bgp.kernels.Gaussian(0.7)
NEW = np.linspace(-2.0, 2.0, 5)[:, None]
PRIORS = {"noise_variance": LogNormal(-2.0, 1.0), "dispersion": LogNormal(1.0, 1.0), "flip": LogNormal(-2.0, 0.5)}
STRATEGIES = {
    "integrate": Integrate(starts=1, points=3),
    "hmc": HybridMonteCarlo(iterations=12, leapfrog_steps=5, step_size=0.1),
    "surrogate": Surrogate(nodes=30, training=15),
}
MODELS = {"noise_variance": (Gaussian(0.3), Y), "dispersion": (bgp.NegativeBinomial(3.0), COUNTS)}


def averaged(name, strategy, likelihood=None, y=None, **options):
    if likelihood is None:
        likelihood, y = MODELS[name]
    options = {"fixed": {"variance"}, "draws": 4, "chains": 2, "random_seed": 1, "progress": False} | options
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", bgp.ConvergenceWarning)  # a few draws
        return bgp.fit(X, y, KERNEL, likelihood, hyper=strategy, **{"priors": {name: PRIORS[name]}} | options)


def saved_and_loaded(idata, path):
    idata.to_netcdf(str(path))
    return az.from_netcdf(str(path))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_an_average_has_a_likelihood_at_every_node(strategy, tmp_path):
    name = "noise_variance"
    idata = averaged(name, STRATEGIES[strategy])
    fit, posterior = get_group(idata, "fit"), bgp.posterior(idata)
    values = np.array([part.problem.likelihood.noise_variance for part in posterior.parts])
    np.testing.assert_array_equal(fit[name].values, values)
    assert fit[name].dims == ("node",)
    assert np.unique(values).size > 1
    assert name in fit["hyper"].values
    if strategy == "integrate":  # the nodes of a rule are no draws
        assert name not in get_group(idata, "posterior")
    else:
        node = get_group(idata, "sample_stats")["node"].values
        np.testing.assert_array_equal(get_group(idata, "posterior")[name].values, values[node])
    assert "likelihood noise_variance: " in repr(posterior)
    # predictions have each node's own noise: the law of total variance, written out
    bgp.predict(idata, NEW, random_seed=2)
    said = get_group(idata, "predictions")
    moments = [part.latent(NEW) for part in posterior.parts]
    means = np.array([mean for mean, _ in moments])
    mean = posterior.weights @ means
    inner = np.array([variance + noise for (_, variance), noise in zip(moments, values, strict=True)])
    np.testing.assert_allclose(said["y_sd"].values ** 2, posterior.weights @ (inner + (means - mean) ** 2), rtol=1e-10)
    of_first = inner - values[:, None] + values[0]  # the control: the noise of one node for all
    assert np.max(np.abs(posterior.weights @ (of_first - inner))) > 1e-3
    loaded = saved_and_loaded(idata, tmp_path / "fit.nc")
    assert [part.problem.likelihood for part in bgp.posterior(loaded).parts] == [
        part.problem.likelihood for part in posterior.parts
    ]
    again = get_group(bgp.predict(loaded, NEW, random_seed=2), "predictions")
    for variable in ("y_mean", "y_sd", "f", "y"):
        np.testing.assert_array_equal(again[variable].values, said[variable].values)


def test_draws_of_targets_are_of_the_likelihood_of_their_node():
    """Of a noise that is hardly known, half the nodes have much and half have little; so do their draws."""
    bounds = {"noise_variance": (1e-3, 30.0)}
    idata = averaged("noise_variance", Integrate(starts=1, points=3), draws=3000, chains=1, bounds=bounds)
    posterior, node = get_group(idata, "posterior"), get_group(idata, "sample_stats")["node"].values
    noise = get_group(idata, "fit")["noise_variance"].values
    apart = get_group(idata, "posterior_predictive")["y"].values - posterior["f"].values
    bgp.predict(idata, NEW, random_seed=5)
    new = get_group(idata, "predictions")
    for deviations in (apart, new["y"].values - new["f"].values):
        for k in np.unique(node):
            found = deviations[node == k].ravel()
            if found.size > 2000:
                assert np.var(found) == pytest.approx(noise[k], rel=6.0 * np.sqrt(2.0 / found.size))
    assert noise.max() > 1.5 * noise.min()


def test_counts_and_flips_are_averaged_over_too(tmp_path):
    idata = averaged("dispersion", STRATEGIES["integrate"], method="laplace")
    assert get_group(idata, "fit")["dispersion"].dims == ("node",)
    idata = averaged("flip", STRATEGIES["integrate"], bgp.Probit(0.3, 0.1), LABELS)
    posterior = bgp.posterior(idata)
    p = posterior.weights @ np.array([part.predict_proba(NEW) for part in posterior.parts])
    loaded = saved_and_loaded(idata, tmp_path / "fit.nc")
    said = get_group(bgp.predict(loaded, NEW, random_seed=2), "predictions")["p"].values
    np.testing.assert_allclose(said, p, rtol=1e-12)


def test_one_setting_has_it_by_name_and_in_the_likelihood(tmp_path):
    idata = bgp.fit(X, Y, KERNEL, Gaussian(0.3), hyper="evidence", draws=2, chains=1, random_seed=1)
    value = float(get_group(idata, "fit")["noise_variance"])
    loaded = saved_and_loaded(idata, tmp_path / "fit.nc")
    assert bgp.posterior(loaded).problem.likelihood == Gaussian(value)
    assert value != 0.3
    kept = bgp.fit(X, Y, KERNEL, Gaussian(0.3), draws=2, chains=1, random_seed=1)
    assert float(get_group(kept, "fit")["noise_variance"]) == 0.3
    labels = averaged("flip", bgp.hyper.Evidence(starts=1), bgp.Probit(), LABELS, priors={})
    assert not {"noise_variance", "flip"} & set(get_group(labels, "fit").data_vars)


class Own(Gaussian):
    """A likelihood that a container cannot hold."""


def test_a_likelihood_of_ones_own_has_the_parameters_of_the_container():
    idata = bgp.fit(X, Y, KERNEL, Own(0.3), hyper="evidence", draws=2, chains=1, random_seed=1)
    value = float(get_group(idata, "fit")["noise_variance"])
    assert bgp.posterior(idata, likelihood=Own(0.3)).problem.likelihood == Own(value)
    with pytest.raises(ValueError, match="likelihood is not the one that was fitted"):
        bgp.posterior(idata, likelihood=bgp.StudentT(0.3))


def test_an_edited_parameter_is_seen():
    idata = bgp.fit(X, Y, KERNEL, Gaussian(0.3), hyper="evidence", draws=2, chains=1, random_seed=1)
    get_group(idata, "fit")["noise_variance"].values[()] = 0.7
    with pytest.raises(ValueError, match="damaged or was edited"):
        bgp.posterior(idata)
