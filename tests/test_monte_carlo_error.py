"""What ArviZ makes of the draws of an average: as sure as its random kernels, whatever the number of draws of f."""

from __future__ import annotations

from itertools import pairwise

import arviz as az
import numpy as np
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, group_names, make_container
from bayesgp_mf.diagnostics import agreement, importance
from bayesgp_mf.hyper import HybridMonteCarlo, HyperResult, LogNormal, Surrogate

X, LABELS = np.array([[-1.0], [-0.3], [0.4], [1.0]]), np.array([0, 1, 0, 1])
PRIORS = {"lengthscale": LogNormal(0.0, 1.0)}
NODES = 800


class Weighted(bgp.hyper.Strategy):
    """An importance sample of the length scale: log-normal draws with weights that make them another log-normal."""

    name = "weighted"
    averages = True

    def __init__(self, nodes=NODES):
        self.nodes = nodes

    def choose(self, target, rng, advance):
        logs = rng.normal(0.0, 0.5, self.nodes)
        log_weights = -0.5 * ((logs - 0.3) / 0.4) ** 2 + 0.5 * (logs / 0.5) ** 2
        weights = np.exp(log_weights)
        models = tuple(target.model.replace(lengthscale=scale) for scale in np.exp(logs))
        return HyperResult(models, weights / weights.sum(), sampled=True)


def fitted(hyper, **options):
    kernel = bgp.kernels.Gaussian(1.0, 2.0)
    options = {"priors": PRIORS, "fixed": {"variance"}, "random_seed": 1, "progress": False, **options}
    return bgp.fit(X, LABELS, kernel, hyper=hyper, method="laplace", **options)


def claimed(values):
    """Return the standard error of a mean as ArviZ has it, and r-hat."""
    data = xr.Dataset({"x": (("chain", "draw"), values)})
    return float(az.mcse(data, method="mean")["x"]), float(az.rhat(data)["x"])


@pytest.fixture(scope="module")
def weighted():
    return fitted(Weighted())


@pytest.mark.parametrize("function", [np.log, np.square], ids=["log", "square"])
def test_arviz_sees_the_error_of_weighted_draws(weighted, function):
    fit = get_group(weighted, "fit")
    values, weights = function(fit["lengthscale"].values), fit["node_weight"].values
    drawn = function(get_group(weighted, "posterior")["lengthscale"].values)
    mean = weights @ values
    error = np.sqrt(weights**2 @ (values - mean) ** 2)  # of a self-normalised mean
    assert drawn.mean() == pytest.approx(mean, abs=0.1 * error)  # spreading draws over nodes adds next to nothing
    found, r_hat = claimed(drawn)
    assert 0.8 < found / error < 1.25
    assert r_hat < 1.03
    shuffled = np.random.default_rng(0).permuted(drawn.ravel()).reshape(drawn.shape)
    assert claimed(shuffled)[0] / error < 0.6  # the control: in another order they look like so many draws


def test_each_chain_has_kernels_of_its_own(weighted):
    node = get_group(weighted, "sample_stats")["node"].values
    for first, second in pairwise(node):
        assert np.intersect1d(first, second).size <= 1
    weights = get_group(weighted, "fit")["node_weight"].values
    assert np.max(np.abs(np.bincount(node.ravel(), minlength=NODES) - node.size * weights)) < 1.0


def test_fewer_draws_than_kernels_are_one_of_each():
    idata = fitted(Weighted(200), draws=10, chains=2)
    node = get_group(idata, "sample_stats")["node"].values
    assert np.unique(node).size == node.size == 20


def test_a_surrogate_is_worth_its_effective_nodes():
    idata = fitted(Surrogate(nodes=300, training=12))
    effective = float(get_group(idata, "fit")["hyper_ess"])
    logs = np.log(get_group(idata, "posterior")["lengthscale"].values)
    assert 0.6 < (logs.std() / claimed(logs)[0]) ** 2 / effective < 1.6


def test_hybrid_monte_carlo_keeps_chains_and_their_order():
    idata = fitted(HybridMonteCarlo(iterations=30, leapfrog_steps=3, chains=3))
    path = get_group(idata, "fit")["hyper_path"].values[:, 10:, 0]
    np.testing.assert_allclose(np.log(get_group(idata, "posterior")["lengthscale"].values), path, rtol=1e-12)
    assert path.shape == (3, 20)


@pytest.mark.filterwarnings("ignore:evidence times prior is not like")  # no draws hang on how good the rule is
def test_a_rule_has_nodes_with_weights_and_no_draws_of_them():
    idata = fitted("integrate")
    posterior, fit = get_group(idata, "posterior"), get_group(idata, "fit")
    assert set(posterior.data_vars) == {"f"}
    assert "no Monte-Carlo error" in fit.attrs["hyperparameters_omitted"]
    assert fit["lengthscale"].dims == fit["node_weight"].dims == ("node",)
    other = get_group(fitted("integrate", random_seed=2), "fit")  # whose search has other starts
    np.testing.assert_allclose(other["lengthscale"].values, fit["lengthscale"].values, rtol=1e-3)
    np.testing.assert_allclose(other["node_weight"].values, fit["node_weight"].values, atol=1e-3)
    # given the nodes, draws of f are independent, and their error is what ArviZ says
    f = posterior["f"].values[..., 0]
    assert claimed(f)[0] == pytest.approx(f.std() / np.sqrt(f.size), rel=0.1)
    for averaged in (fitted(Weighted(5), draws=10), fitted(HybridMonteCarlo(iterations=6, leapfrog_steps=2))):
        assert "lengthscale" in get_group(averaged, "posterior")
        assert "hyperparameters_omitted" not in get_group(averaged, "fit").attrs


class Amplitudes(Weighted):
    """Few draws of the variance, over which the latent values differ much."""

    def choose(self, target, rng, advance):
        models = tuple(target.model.replace(variance=variance) for variance in np.exp(rng.normal(0.0, 2.0, 40)))
        return HyperResult(models, np.full(40, 1 / 40), sampled=True)


def test_what_is_weighed_and_compared_has_the_error_of_few_kernels():
    kernel = bgp.kernels.Gaussian(3.0, 1.0)
    options = {"method": "laplace", "draws": 200, "random_seed": 1, "progress": False}
    few = bgp.fit(X, np.array([0, 1, 1, 1]), kernel, hyper=Amplitudes(), **options)
    f = get_group(few, "posterior")["f"].values
    found = importance(few)
    independent = importance(shuffled(few))
    np.testing.assert_allclose(found.mean, independent.mean, rtol=1e-9)
    assert np.all(found.mean_error > 1.1 * independent.mean_error)
    assert np.max(found.mean_error / independent.mean_error) > 2.0
    assert found.ess < 0.5 * independent.ess
    assert np.all(agreement(few, few).mean.error > 0.05 * f.std(axis=(0, 1)))
    rule = bgp.fit(X, np.array([0, 1, 1, 1]), kernel, hyper="integrate", priors=PRIORS, fixed={"variance"}, **options)
    np.testing.assert_array_equal(agreement(rule, rule).mean.error, 0.0)


def shuffled(idata):
    """Return a container with the draws of another in random order."""
    order = np.random.default_rng(0).permutation(800)

    def moved(variable):
        if "draw" not in variable.dims:
            return variable
        return variable.copy(data=variable.values.reshape(800, *variable.shape[2:])[order].reshape(variable.shape))

    return make_container({name: get_group(idata, name).map(moved, keep_attrs=True) for name in group_names(idata)})
