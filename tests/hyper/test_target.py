"""Priors, bounds and fixed names: what is free, where, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

import bayesgp_mf as bgp
from bayesgp_mf.hyper import EvidenceScore, LogNormal, Objective, Target
from bayesgp_mf.methods import METHODS

X = np.random.default_rng(0).standard_normal((12, 2))
T = np.where(X[:, 0] > 0, 1.0, -1.0)
KERNEL = bgp.kernels.Polynomial(weight=[1.0, 3.0], offset=0.0, variance=1.7, degree=2)


def target(**options):
    return Target(X, T, bgp.Probit(), KERNEL, METHODS["tap"], **options)


@pytest.mark.parametrize("power", [1.0, -2.0, 0.5])
def test_log_normal_is_the_density_of_the_logarithm(power):
    prior, x = LogNormal(-3.0, 2.0, power), np.linspace(-4.0, 6.0, 9)
    value, slope = prior.log_density(x)
    np.testing.assert_allclose(value, norm(-3.0 / power, 2.0 / abs(power)).logpdf(x), rtol=1e-12)
    ahead, behind = prior.log_density(x + 1e-5)[0], prior.log_density(x - 1e-5)[0]
    np.testing.assert_allclose(slope, (ahead - behind) / 2e-5, atol=1e-8)


def test_the_papers_prior_on_widths_is_one_on_length_scales():
    x = np.array([0.2, 1.0])
    np.testing.assert_allclose(LogNormal(power=-2.0).log_density(x), LogNormal(1.5, 1.5).log_density(x))


def test_what_is_zero_or_fixed_stays_to_the_last_digit():
    free = target(fixed={"variance"})
    assert free.names == ("weight[0]", "weight[1]")
    moved = free.model_at([0.5, -0.5]).kernel
    assert moved.params["variance"] == KERNEL.params["variance"]
    assert moved.params["offset"] == 0.0
    np.testing.assert_allclose(moved.params["weight"], np.exp([0.5, -0.5]))
    np.testing.assert_array_equal(free.free_logarithms(moved), np.log(moved.params["weight"]))


def test_bounds_hold_where_given_and_otherwise_only_without_a_prior():
    free = target(bounds={"weight": (0.5, 20.0)}, priors={"variance": LogNormal()})
    np.testing.assert_allclose(np.exp(free.lower), [0.5, 0.5, 0.0])
    np.testing.assert_allclose(free.upper, [np.log(20.0), np.log(20.0), np.inf])
    np.testing.assert_allclose(target().upper - target().start, np.log(1e4))


def test_gradient_holds_with_fixed_names_and_priors_and_not_without_the_priors():
    priors = {"weight": LogNormal(0.3, 0.7, power=-2.0)}
    free = target(priors=priors, fixed={"variance"}, control=bgp.Control(tolerance=1e-11))
    evaluate, at, step = Objective(free, EvidenceScore()), free.start, 1e-4
    _, gradient = evaluate(at)
    numeric = [(evaluate.value(at + step * e) - evaluate.value(at - step * e)) / (2 * step) for e in np.eye(2)]
    np.testing.assert_allclose(gradient, numeric, rtol=1e-6, atol=1e-7)
    without = gradient - free.log_prior(at)[1]
    assert np.all(np.abs(without - numeric) > 0.1)  # the control: the same comparison refuses it


def test_a_point_beyond_numbers_has_no_value():
    evaluate = Objective(target(), EvidenceScore())
    assert evaluate(np.full(3, 800.0)) is None
    assert evaluate(np.array([-140.0, 0.0, 0.0])) is not None  # far, but a covariance like any other
    assert evaluate(np.array([np.nan, 0.0, 0.0])) is None
    assert evaluate.n_failures == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"fixed": "variance"}, "fixed must be a collection of parameter names, got 'variance'"),
        (
            {"fixed": {"width"}},
            "fixed names 'width', which this model does not have; it has .*'variance', 'noise_variance', 'flip'",
        ),
        ({"fixed": {"weight", "variance"}}, "no parameter to tune: all are fixed or zero"),
        ({"priors": {"width": LogNormal()}}, "priors names 'width', which this model does not have; it has"),
        ({"priors": {"offset": LogNormal()}}, "priors names 'offset', which stays as it is"),
        ({"priors": {"variance": 3.0}}, r"priors\['variance'\] must be a prior .* got 3.0"),
        ({"priors": {"variance": LogNormal}}, r"must be a prior such as LogNormal\(-3.0, 3.0\), got <class"),
        ({"priors": [LogNormal()]}, "priors must map names of parameters"),
        ({"bounds": {"width": (1, 2)}}, "bounds names 'width'"),
        ({"bounds": {"variance": (2.0, 1.0)}}, r"must be 0 < low < high.*got \(2, 1\)"),
        ({"bounds": {"variance": (0.0, 2.0)}}, r"must be 0 < low < high.*got \(0, 2\)"),
        ({"bounds": {"variance": 2.0}}, r"must be two numbers, \(low, high\), got 2.0"),
        ({"bounds": {"variance": (0.1, float("nan"))}}, "must be 0 < low < high"),
        (
            {"bounds": {"weight": (0.5, 2.0)}},
            r"does not hold where weight starts, \[1.0, 3.0\]",
        ),
    ],
)
def test_bad_input_is_told_what_there_is(options, message):
    with pytest.raises(ValueError, match=message):
        target(**options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sd": 0.0}, "sd must be > 0"),
        ({"power": 0.0}, "power must not be 0"),
        ({"mean": float("inf")}, "mean must be a finite number"),
        ({"mean": "broad"}, "mean must be a finite number, got 'broad'"),
    ],
)
def test_bad_priors_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        LogNormal(**options)
