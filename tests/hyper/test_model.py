"""Kernel and likelihood as one thing with parameters, and what a search is told of those of a likelihood."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import LogNormal, Model, Target
from bayesgp_mf.kernels import log_vector, log_vector_names, with_log_vector
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS

X, T = np.array([[0.0], [1.0], [2.0]]), np.array([1.0, -1.0, 1.0])
KERNEL = bgp.kernels.Gaussian(2.0) + bgp.kernels.Bias(0.5)


def target(likelihood, kernel=KERNEL, **options):
    return Target(X, T, likelihood, kernel, METHODS["tap"], **options)


class Scaled(bgp.kernels.Bias):
    """A kernel with a parameter that a likelihood has too."""

    parameter_names = ("scale",)

    def __init__(self, scale=2.0):
        object.__setattr__(self, "scale", np.asarray(float(scale)))

    def replace(self, **params):
        return Scaled(**{**self.params, **params})


@pytest.mark.parametrize(
    ("likelihood", "tuned"),
    [
        (Gaussian(0.3), ["noise_variance"]),
        (bgp.StudentT(0.3, 5.0), ["scale"]),
        (bgp.NegativeBinomial(2.0), ["dispersion"]),
        (bgp.Probit(), []),
        (bgp.Probit(0.5, 0.1), ["flip"]),
        (bgp.Step(0.1), ["flip"]),
        (bgp.Logit(), []),
        (bgp.Poisson(), []),
    ],
    ids=repr,
)
def test_what_is_tuned_where_nothing_is_said(likelihood, tuned):
    model = Model.of(KERNEL, likelihood)
    assert list(model.params) == [*KERNEL.params, *tuned]
    assert target(likelihood).names == (*log_vector_names(KERNEL), *tuned)
    same = with_log_vector(model, log_vector(model))
    for name, value in model.params.items():
        np.testing.assert_allclose(same.params[name], value, rtol=1e-15)
    doubled = model.replace(**{name: 2.0 * value for name, value in model.params.items()})
    assert doubled.kernel == KERNEL.replace(**{name: 2.0 * value for name, value in KERNEL.params.items()})
    for name in tuned:
        assert doubled.likelihood.parameters[name] == 2.0 * likelihood.parameters[name]
    if not tuned:
        assert doubled.likelihood is likelihood


@pytest.mark.parametrize(
    "said", [{"priors": {"noise_variance": LogNormal()}}, {"bounds": {"noise_variance": (0.1, 2)}}]
)
def test_a_prior_or_bounds_free_what_is_kept_otherwise(said):
    free = target(bgp.Probit(0.5), **said)
    assert free.names[-1] == "noise_variance"
    moved = free.model_at(free.start + np.log(2.0))
    assert moved.likelihood.noise_variance == pytest.approx(1.0)
    fixed = target(Gaussian(0.3), fixed={"noise_variance"})
    assert fixed.names == tuple(log_vector_names(KERNEL))
    assert fixed.model_at(fixed.start + 1.0).likelihood == Gaussian(0.3)
    assert target(bgp.Probit(), fixed={"noise_variance", "flip"}).names == fixed.names


def test_a_name_that_the_kernel_has_too_is_prefixed():
    model = Model.of(Scaled(2.0), bgp.StudentT(0.3))
    assert {name: float(value) for name, value in model.params.items()} == {"scale": 2.0, "likelihood_scale": 0.3}
    moved = model.replace(likelihood_scale=0.5)
    assert (float(moved.kernel.scale), moved.likelihood.scale) == (2.0, 0.5)
    free = target(bgp.StudentT(0.3), Scaled(2.0), fixed={"scale"})
    assert free.names == ("likelihood_scale",)
    assert free.free_of_likelihood == {"likelihood_scale": "scale"}


def test_flips_stay_below_one_half():
    for said in ({}, {"priors": {"flip": LogNormal()}}, {"bounds": {"flip": (0.01, 0.5)}}):
        free = target(bgp.Probit(0.5, 0.1), **said)
        assert free.model_at(free.upper).likelihood.flip == pytest.approx(0.5, rel=2e-6)  # a likelihood refuses more
        assert np.all(np.isfinite([free.lower[-1], free.upper[-1]]))  # samplers want walls in pairs
        assert free.allows(free.upper)
        assert not free.allows(free.upper + 1e-5)


@pytest.mark.parametrize(
    ("likelihood", "options", "message"),
    [
        (
            Gaussian(0.3),
            {"fixed": {"noise_variance"}, "priors": {"noise_variance": LogNormal()}},
            "priors names 'noise_variance', which stays as it is, since fixed has it too",
        ),
        (
            Gaussian(0.3),
            {"fixed": {"noise_variance"}, "bounds": {"noise_variance": (0.1, 1.0)}},
            "bounds names 'noise_variance', which stays as it is, since fixed has it too",
        ),
        (bgp.Probit(), {"priors": {"flip": LogNormal()}}, "priors names 'flip', which .* it is zero.* start it above"),
        (bgp.Step(0.1), {"priors": {"noise_variance": LogNormal()}}, "priors names 'noise_variance', .* it is zero"),
        (bgp.Step(0.1), {"bounds": {"flip": (0.01, 0.6)}}, "go beyond 0.5, below which flip must stay"),
        (bgp.Logit(), {"priors": {"flip": LogNormal()}}, "priors names 'flip', which this model does not have"),
    ],
)
def test_what_cannot_be_is_refused_in_words(likelihood, options, message):
    with pytest.raises(ValueError, match=message):
        target(likelihood, **options)


def test_a_search_that_goes_on_keeps_its_limits():
    first = target(Gaussian(0.3))
    here = first.model_at(first.start + 1.0)
    then = first.going_on_from(here)
    np.testing.assert_allclose(then.start, first.start + 1.0)
    np.testing.assert_array_equal(then.lower, first.lower)
    again = then.going_on_from(then.model_at(then.start + 1.0))
    np.testing.assert_array_equal(again.upper, first.upper)
    assert again.likelihood.noise_variance == pytest.approx(0.3 * np.exp(2.0))


def test_a_flip_that_ends_at_its_limit_is_told_so():
    labels = np.random.default_rng(0).poisson(3.0, 12) > 2
    with pytest.warns((bgp.BoundWarning, bgp.ConvergenceWarning)) as said:
        idata = bgp.fit(
            np.linspace(0.0, 5.0, 12)[:, None],
            labels,
            bgp.kernels.Gaussian(1.0, 1.0),
            bgp.Probit(flip=0.4999999),
            hyper=bgp.hyper.Evidence(starts=1),
            draws=2,
            random_seed=1,
        )
    assert 0.0 < float(idata["fit"]["flip"]) < 0.5
    assert any("flip = 0.5 (upper)" in str(each.message) for each in said)
    assert any("flip there means that the labels hardly depend on the inputs" in str(each.message) for each in said)


def test_a_dispersion_at_its_upper_bound_is_a_poisson_distribution():
    X = np.linspace(0.0, 5.0, 40)[:, None]
    counts = np.random.default_rng(1).binomial(20, 0.4, 40)  # which vary less than Poisson's
    with pytest.warns(
        bgp.BoundWarning, match=r"dispersion = .* \(upper\).* vary no more than under Poisson\(\)"
    ) as said:
        bgp.fit(
            X,
            counts,
            bgp.kernels.Gaussian(2.0) + bgp.kernels.Bias(4.0),
            bgp.NegativeBinomial(5.0),
            hyper=bgp.hyper.Evidence(starts=1),
            fixed={"gaussian_lengthscale", "gaussian_variance", "bias_variance"},
            draws=2,
            random_seed=1,
        )
    assert "explains little" not in str(said[0].message)
    assert "fixed=['dispersion']" in str(said[0].message)
