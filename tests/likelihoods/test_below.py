"""How likely a target is to be at most a number, against sums and slopes of what a likelihood says of each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import betainc, expit, ndtr, ndtri

from bayesgp_mf.likelihoods import (
    Beta,
    Binomial,
    Gamma,
    Gaussian,
    Hurdle,
    NegativeBinomial,
    Ordinal,
    Poisson,
    StudentT,
    Truncated,
    ZeroInflated,
)
from bayesgp_mf.likelihoods import below as below_module
from bayesgp_mf.likelihoods.below import count_below, quantiles
from bayesgp_mf.likelihoods.by_case import by_case

MEAN, VARIANCE = (grid.ravel() for grid in np.meshgrid([-2.0, 0.4, 3.0], [0.0, 1e-3, 0.3, 2.0, 30.0]))
WHOLE = {
    "poisson": Poisson(),
    "negative binomial": NegativeBinomial(2.5),
    "hardly a negative binomial": NegativeBinomial(1e9),
    "many zeros": NegativeBinomial(0.02),
    "binomial": Binomial(7),
    "one trial": Binomial(1),
    "zero-inflated": ZeroInflated(Poisson(), 0.2),
    "hurdle": Hurdle(NegativeBinomial(2.5), 0.2),
    "truncated": Truncated(NegativeBinomial(0.4)),
    "ordinal": Ordinal([-0.5, 0.2, 3.0], 0.3),
}
REAL = {
    "gaussian": Gaussian(0.4),
    "cauchy": StudentT(0.5, 1.0),
    "student": StudentT(0.5, 4.0),
    "nearly gaussian": StudentT(0.7, 1e7),
}
LEVELS = np.array([0.001, 0.05, 0.5, 0.95])


def last(likelihood):
    return {Binomial: 7 if likelihood != Binomial(1) else 1, Ordinal: 3}.get(type(likelihood), 60)


@pytest.mark.parametrize("likelihood", WHOLE.values(), ids=WHOLE)
def test_whole_numbers_up_to_one_add_up(likelihood):
    t = np.arange(float(last(likelihood) + 1))[:, None]
    each = np.exp(likelihood.log_partition(np.broadcast_to(t, (t.size, MEAN.size)), MEAN, VARIANCE).value)
    below = likelihood.predictive_below(t, MEAN, VARIANCE)
    np.testing.assert_allclose(below, np.cumsum(each, axis=0), atol=2e-12)
    np.testing.assert_array_equal(likelihood.predictive_below(t + 0.7, MEAN, VARIANCE), below)
    np.testing.assert_array_equal(likelihood.predictive_below(-0.1 - t, MEAN, VARIANCE), 0.0)
    if last(likelihood) < 60:
        np.testing.assert_array_equal(likelihood.predictive_below(t + t.size, MEAN, VARIANCE), 1.0)


@pytest.mark.parametrize("likelihood", REAL.values(), ids=REAL)
def test_its_slope_is_the_density(likelihood):
    t, h = np.array([-30.0, -2.5, 0.1, 0.4, 3.3])[:, None], 1e-4
    up, at, down = (likelihood.predictive_below(t + k * h, MEAN, VARIANCE) for k in (1, 0, -1))
    density = np.exp(likelihood.log_partition(np.broadcast_to(t, at.shape), MEAN, VARIANCE).value)
    np.testing.assert_allclose((up - down) / (2.0 * h), density, rtol=1e-5, atol=1e-11)
    mirrored = likelihood.predictive_below(2.0 * MEAN - t, MEAN, VARIANCE)
    np.testing.assert_allclose(at + mirrored, 1.0, rtol=1e-12)


@pytest.mark.parametrize("likelihood", [Gamma(0.3), Gamma(20.0), Beta(0.5), Beta(300.0)], ids=str)
def test_that_of_amounts_and_proportions_has_the_density_as_its_slope(likelihood):
    t, h = np.array([0.02, 0.3, 0.9])[:, None], 1e-5
    up, down = (likelihood.predictive_below(t + k * h, MEAN, VARIANCE) for k in (1, -1))
    density = np.exp(likelihood.log_partition(np.broadcast_to(t, up.shape), MEAN, VARIANCE).value)
    np.testing.assert_allclose((up - down) / (2.0 * h), density, rtol=1e-3, atol=1e-9)
    np.testing.assert_array_equal(likelihood.predictive_below(-t, MEAN, VARIANCE), 0.0)
    if isinstance(likelihood, Beta):
        np.testing.assert_array_equal(likelihood.predictive_below(1.0 + t, MEAN, VARIANCE), 1.0)


def test_gaussian_noise_has_a_closed_form():
    np.testing.assert_allclose(
        StudentT(np.sqrt(0.4), 1e13).predictive_below(np.array([[1.0]]), MEAN, VARIANCE),
        Gaussian(0.4).predictive_below(np.array([[1.0]]), MEAN, VARIANCE),
        rtol=1e-9,
    )


def test_large_counts_are_those_of_a_gaussian_of_their_logarithm():
    t = np.array([1e10, 1e14])
    for variance in (0.0, 1.0 / t, 1e-3, 4.0):
        sd = np.sqrt(variance + 1.0 / t)
        for score in (-2.0, 0.7):
            found = count_below(t + 1.0, np.inf, 0.0, np.log(t) + score * sd, variance + np.zeros(2))
            np.testing.assert_allclose(found, ndtr(-score), atol=1e-5)


@pytest.mark.parametrize(("a", "b"), [(5.0, 0.01), (1e8, 0.3), (40.0, 40.0)])
def test_flanks_that_are_steep_on_one_side_alone(a, b):
    """The average over V is that over the latent value, on a grid as fine as the steepest flank asks for."""
    z = np.linspace(-9.0, 9.0, 8001)
    weight = np.exp(-0.5 * z**2)
    centre = np.log(a / b) + 0.4
    for sd in (0.02, 0.3, 1.0, 30.0, 100.0):
        known = betainc(b, a, expit(-centre - sd * z)) @ weight / weight.sum()
        found = count_below(np.array([a]), b, 0.0, np.array([centre]), np.array([sd**2]))
        np.testing.assert_allclose(found, [known], rtol=2e-9)


def test_fewer_nodes_of_what_is_narrower_are_as_good(monkeypatch):
    a, b = (grid.ravel()[:, None] for grid in np.meshgrid([1.0, 2.0, 30.0, 1e4], [1e-3, 0.3, 3.0, 30.0, np.inf]))
    bend = np.where(np.isinf(b), a, a / (1.0 + a / b))
    peak = np.log(a) - np.where(np.isinf(b), 0.0, np.log(b))
    mean = peak + np.linspace(-6.0, 6.0, 13) / np.sqrt(bend)
    found = []
    for narrower in (below_module.NARROWER, 0.0):
        monkeypatch.setattr(below_module, "NARROWER", narrower)
        found.append([count_below(a, b, 0.0, mean, share / (1.0 + bend)) for share in (0.01, 0.1, 0.249)])
    np.testing.assert_allclose(*found, rtol=1e-13, atol=1e-15)


def test_offsets_are_added_first():
    offset = np.array([1.0, -2.0, 0.3])
    likelihood, mean = by_case(Poisson(), offset=offset), np.zeros(3)
    t, variance = np.arange(4.0)[:, None] + np.zeros(3), np.full(3, 0.5)
    found = likelihood.predictive_below(t, mean, variance)
    np.testing.assert_array_equal(found, Poisson().predictive_below(t, offset, variance))
    assert likelihood.whole_targets
    assert not by_case(Gaussian(), prior_mean=offset).whole_targets


@pytest.mark.parametrize("likelihood", REAL.values(), ids=REAL)
def test_quantiles_are_where_so_much_is_below(likelihood):
    def below(t):
        return np.asarray(likelihood.predictive_below(t, MEAN, VARIANCE))

    found = quantiles(below, LEVELS, MEAN, np.sqrt(VARIANCE) + 1.0, whole=False)
    np.testing.assert_allclose(below(found), np.broadcast_to(LEVELS[:, None], found.shape), rtol=1e-12)
    if likelihood == REAL["gaussian"]:
        np.testing.assert_allclose(found, MEAN + np.sqrt(VARIANCE + 0.4) * ndtri(LEVELS)[:, None], rtol=1e-13)


def test_quantiles_of_whole_numbers_are_the_first_with_enough_below():
    for likelihood in WHOLE.values():

        def below(t, likelihood=likelihood):
            return np.asarray(likelihood.predictive_below(t, MEAN, VARIANCE))

        found = quantiles(below, LEVELS, MEAN, np.ones(MEAN.size), whole=True)
        np.testing.assert_array_equal(found, np.floor(found))
        enough = below(found) >= LEVELS[:, None]
        assert enough.all()
        assert (below(found - 1.0) < LEVELS[:, None]).all()
    assert found.max() == 3  # of four levels


def test_a_rate_that_overflows_has_infinite_quantiles():
    with np.errstate(over="ignore"):
        found = quantiles(
            lambda t: Poisson().predictive_below(t, np.array([900.0]), np.array([0.1])),
            LEVELS,
            np.zeros(1),
            np.ones(1),
            whole=True,
        )
    assert np.isposinf(found).all()


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(1e-6)], ids=str)
def test_huge_counts_are_as_their_rates(likelihood):
    """The log of a count's rate is all there is to it, where its own spread is small beside that of the rate."""
    t = np.array([1e6, 1e12, 1e40, 1e200, 1e299])
    at = np.log(t) + 1.0
    below = Poisson().predictive_below(t, at, np.full(5, 4.0))
    np.testing.assert_allclose(below, ndtr(-0.5), rtol=1e-5)
    np.testing.assert_allclose(below[1:], ndtr(-0.5), rtol=1e-10)
    assert likelihood.predictive_below(np.array([np.inf]), np.zeros(1), np.full(1, 1e10)) == 1.0


def test_quantiles_of_counts_with_any_number_of_digits():
    mean, variance, levels = np.array([-3.0, 2.0, 20.0, 0.0]), np.array([0.1, 1.0, 4.0, 1e4]), np.array([0.1, 0.5, 0.9])

    def below(t):
        return Poisson().predictive_below(t, mean, variance)

    found = quantiles(below, levels, mean, variance, whole=True)
    inside = found < 2.0**52  # where one count less is another number
    assert np.all(below(found) >= levels[:, None])
    assert np.all((below(found - 1.0) < levels[:, None])[inside])
    np.testing.assert_allclose(found[:, 3][found[:, 3] > 100], np.exp(100.0 * ndtri(0.9)), rtol=1e-6)


@pytest.mark.parametrize("variance", [1.2, 30.0, 1e4, 1e8])
def test_a_long_tail_is_integrated_by_panels_as_by_equal_steps(variance, monkeypatch):
    a, mean = np.array([1.0, 2.0, 50.0, 1e6, 1e40]), np.array([1.0, -3.0, 6.0, 14.0, 95.0])
    given = a, np.full(5, 0.02), np.full(5, 0.3), mean, np.full(5, variance)
    by_panels = count_below(*given)
    monkeypatch.setattr(below_module, "LONG", 0.0)
    np.testing.assert_allclose(by_panels, count_below(*given), rtol=0, atol=1e-13)


def test_quantiles_above_zero_have_their_digits_in_any_unit():
    levels, spread = np.array([0.05, 0.5, 0.95]), np.array([2.0])
    for scale in (1.0, 1e-6, 1e-18, 1e-290):

        def below(t, scale=scale):
            return -np.expm1(-np.maximum(t, 0.0) / scale)

        found = quantiles(below, levels, np.log([scale]), spread, whole=False)[:, 0]
        np.testing.assert_allclose(found / scale, -np.log1p(-levels), rtol=1e-14)
