"""The step method for latent values under a step likelihood."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.stats import kstest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.diagnostics import sample_orthant
from bayesgp_mf.pymc import LinearEllipticalSlice, OrthantStep

QUIET = {"progressbar": False, "quiet": True, "compute_convergence_checks": False, "cores": 1, "random_seed": 1}


def latent(name, covariance, t, **options):
    """Put latent values and their labels, seen through a step, into the model in context."""
    f = pm.MvNormal(name, mu=np.zeros(t.size), cov=covariance, initval=0.5 * t, **options)
    pm.Bernoulli(f"{name}_label", p=pm.math.switch(f > 0, 1.0, 0.0), observed=(t > 0).astype(int))
    return f


@pytest.fixture(scope="module")
def five():
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=5, random_seed=4)
    return bgp.kernels.Gaussian(1.0, 4.0).gram(toy.X) + 0.1 * np.eye(5), np.array([1.0, -1.0, 1.0, 1.0, -1.0])


@pytest.mark.parametrize(("method", "draws"), [(OrthantStep, 2000), (LinearEllipticalSlice, 10_000)])
def test_draws_are_those_of_the_cut_prior(five, method, draws):
    gram, t = five
    with pm.Model():
        f = latent("f", gram, t)
        idata = pm.sample(draws, tune=50, chains=2, step=method(f, t), **QUIET)
    drawn = get_group(idata, "posterior")["f"].values
    assert drawn.shape == (2, draws, 5)
    assert np.all(drawn * t > 0)
    assert not np.array_equal(drawn[0], drawn[1])
    exact = sample_orthant(gram, t, draws=20_000, random_seed=2)
    thinned = drawn[:, :: draws // 250].reshape(-1, 5)
    assert min(kstest(thinned[:, k], exact[:, k]).pvalue for k in range(5)) > 1e-3
    moved = get_group(idata, "sample_stats")["moved"].values
    assert np.all(moved > 0)


def test_a_covariance_that_is_sampled_too():
    t = np.array([1.0, -1.0])
    with pm.Model():
        rho = pm.Uniform("rho", -0.9, 0.9)
        covariance = pm.math.stack([pm.math.stack([1.0, rho]), pm.math.stack([rho, 1.0])])
        f = latent("f", covariance, t)
        steps = [OrthantStep([f], t), pm.Metropolis([rho])]
        idata = pm.sample(2500, tune=300, chains=2, step=steps, **QUIET)
    drawn = get_group(idata, "posterior")["rho"].values
    # p(rho | t) is proportional to the probability of two different signs
    grid = np.linspace(-0.9, 0.9, 2001)
    density = 0.25 - np.arcsin(grid) / (2 * np.pi)
    expected = np.sum(grid * density) / np.sum(density)
    batches = drawn.reshape(40, -1).mean(axis=1)
    error = batches.std(ddof=1) / np.sqrt(40)
    assert abs(drawn.mean() - expected) < 4 * error
    assert abs(expected) > 5 * error  # what it would be if the labels said nothing about it


def test_what_is_refused_and_how(five):
    gram, t = five
    with pm.Model():
        f = latent("f", gram, t)
        other = pm.Normal("other", shape=5)
        centred = pm.MvNormal("centred", mu=np.ones(5), cov=gram, initval=0.5 * t)
        with pytest.raises(ValueError, match=r"t must hold labels -1 and \+1, one for each of the 5"):
            OrthantStep(f, t[:4])
        with pytest.raises(ValueError, match="t must hold labels"):
            OrthantStep(f, 0.5 * t)
        with pytest.raises(ValueError, match="move must be 'reflect' or 'slice'"):
            OrthantStep(f, t, move="gibbs")
        with pytest.raises(ValueError, match="vars must be one variable, got 2"):
            OrthantStep([f, other], t)
        with pytest.raises(ValueError, match="blocked must be True"):
            OrthantStep(f, t, blocked=False)
        with pytest.raises(bgp.UndefinedQuantityError, match=r"'other' is something else.*reparameterize=False"):
            OrthantStep(other, t)
        point = {"f": -t, "other": t, "centred": 0.5 * t}
        with pytest.raises(ValueError, match=r"'f' must start with the signs of its labels, but 5 of 5 differ"):
            OrthantStep(f, t).step(point)
        with pytest.raises(bgp.UndefinedQuantityError, match="needs a prior mean of zero"):
            OrthantStep(centred, t).step(point)
