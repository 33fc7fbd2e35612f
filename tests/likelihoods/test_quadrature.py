"""Likelihoods given as functions, against the analytic ones, scipy's quad and closed forms."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit, gammaln, log_expit, log_ndtr
from scipy.stats import t as student_t

import bayesgp_mf as bgp
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods import Gaussian, Likelihood, Logit, Probit, Quadrature, Step, from_dict
from bayesgp_mf.likelihoods.by_case import by_case


def poisson(t, f):
    return t * f - np.exp(f) - gammaln(t + 1)


def student(t, f):
    return student_t.logpdf(t, 4.0, loc=f, scale=0.3)


PAIRS = {
    "probit": (Probit(), Quadrature(lambda t, f: log_ndtr(t * f))),
    "probit with flips": (Probit(1.0, 0.1), Quadrature(lambda t, f: np.log(0.1 + 0.8 * np.exp(log_ndtr(t * f))))),
    "logit": (Logit(), Quadrature(lambda t, f: log_expit(t * f))),
    "gaussian": (
        Gaussian(0.3),
        Quadrature(lambda t, f: -0.5 * (t - f) ** 2 / 0.3 - 0.5 * np.log(2 * np.pi * 0.3), "real"),
    ),
    "narrow gaussian": (
        Gaussian(1e-6),
        Quadrature(lambda t, f: -0.5 * (t - f) ** 2 / 1e-6 - 0.5 * np.log(2 * np.pi * 1e-6), "real"),
    ),
}
every_pair = pytest.mark.parametrize(("analytic", "numeric"), PAIRS.values(), ids=PAIRS)


@every_pair
@pytest.mark.parametrize("variance", [0.01, 0.5, 1.0, 30.0, 1e4])
def test_functions_reproduce_the_analytic_likelihoods(analytic, numeric, variance):
    rng = np.random.default_rng(0)
    m, t = 6 * rng.standard_normal(100), rng.choice([-1.0, 1.0], 100)
    v = np.full(100, variance)
    for got, expected in zip(numeric.log_partition(t, m, v), analytic.log_partition(t, m, v), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-10)
    if numeric.targets == "binary":
        np.testing.assert_allclose(numeric.predict_proba(m, v), analytic.predict_proba(m, v), rtol=1e-9, atol=1e-11)


@every_pair
@pytest.mark.parametrize("variance", [0.0, 1e-12, 1e-6])
def test_small_variances_lose_no_more_than_the_stated_digits(analytic, numeric, variance):
    m, t = np.linspace(-3, 3, 25), np.ones(25)
    v = np.full(25, variance)
    got, expected = numeric.log_partition(t, m, v), analytic.log_partition(t, m, v)
    size = 1.0 + np.abs(expected.value)  # rounding is that of the function itself
    assert np.all(np.abs(got.value - expected.value) <= 1e-12 * size)
    sharpness = 1.0 + np.sqrt(np.abs(expected.d2))
    assert np.all(np.abs(got.d1 - expected.d1) <= 1e-12 * size * sharpness + 1e-9 * np.abs(expected.d1))
    assert np.all(np.abs(got.d2 - expected.d2) <= 2e-10 * size + 1e-9 * np.abs(expected.d2))


@pytest.mark.parametrize("function", [poisson, student])
@pytest.mark.parametrize(
    ("t", "mean", "variance"), [(3.0, 0.0, 1.0), (0.0, 2.0, 5.0), (40.0, 0.5, 0.7), (7.0, -4.0, 2.0)]
)
def test_counts_and_heavy_tails_agree_with_quad(function, t, mean, variance):
    spread = np.sqrt(variance)

    def moment(power: int, about: float = 0.0) -> float:
        def integrand(f: float) -> float:
            gaussian = np.exp(-0.5 * (f - mean) ** 2 / variance) / np.sqrt(2 * np.pi * variance)
            return float((f - about) ** power * np.exp(function(t, f) - shift) * gaussian)

        cuts = [c for c in (np.log(t + 0.5), t, mean, mean + 8.0) if low < c < high]
        return quad(integrand, low, high, points=cuts, epsabs=0, epsrel=1e-12, limit=1000)[0]

    low, high = mean - 14 * spread, mean + 14 * spread
    grid = np.linspace(low, high, 4001)
    shift = np.max(function(t, grid) - 0.5 * (grid - mean) ** 2 / variance)
    mass = moment(0)
    centre = mean + moment(1, mean) / mass
    width = moment(2, centre) / mass
    got = Quadrature(function, "real").log_partition(np.array([t]), np.array([mean]), np.array([variance]))
    np.testing.assert_allclose(got.value[0], np.log(mass) + shift, rtol=1e-10)
    np.testing.assert_allclose(got.d1[0], (centre - mean) / variance, rtol=1e-9)
    np.testing.assert_allclose(got.d2[0], (width - variance) / variance**2, rtol=1e-8, atol=1e-10)


def test_both_modes_of_an_outlier_count():
    # a sharp heavy-tailed measurement 5.1 prior standard deviations out: two separate modes
    def sharp(t, f):
        return student_t.logpdf(t, 2.0, loc=f, scale=0.01)

    got = Quadrature(sharp, "real").log_partition(np.array([5.1]), np.array([0.0]), np.array([1.0]))

    def integrand(f: float) -> float:
        return float(np.exp(sharp(5.1, f) - 0.5 * f**2) / np.sqrt(2 * np.pi))

    cuts = [-12.0, -1.0, 1.0, 2.5, 4.0, 4.9, 5.05, 5.1, 5.15, 5.3, 6.5, 14.0]
    expected = sum(quad(integrand, a, b, epsabs=0, epsrel=1e-12)[0] for a, b in itertools.pairwise(cuts))
    np.testing.assert_allclose(got.value[0], np.log(expected), rtol=1e-10)
    assert got.d2[0] > 0  # two modes are wider than the prior


def test_edges_are_found_too():
    m, v, t = np.linspace(-2, 2, 21), np.full(21, 1.5), np.ones(21)
    edge = Quadrature(lambda t, f: np.where(t * f > 0, 0.0, -np.inf))
    for got, expected in zip(edge.log_partition(t, m, v), Step().log_partition(t, m, v), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-7)


def test_large_counts_far_from_the_prior():
    # t log-rate counts at t = 1e6 pin f to log t within 1e-3, ten prior standard deviations away
    t, v = 1e6, 1.9
    got = Quadrature(poisson, "real").log_partition(np.array([t]), np.array([0.0]), np.array([v]))
    mode = np.log(t) - np.log(t) / v / t
    laplace = poisson(t, mode) - 0.5 * mode**2 / v - 0.5 * np.log(1 + v * np.exp(mode))
    np.testing.assert_allclose(got.value[0], laplace, atol=1e-6)
    np.testing.assert_allclose(got.d1[0], mode / v, rtol=1e-5)


def test_differences_have_the_stated_error():
    f = np.linspace(-3, 3, 31)
    got = PAIRS["logit"][1].log_prob(np.ones(31), f)
    expected = Logit().log_prob(np.ones(31), f)
    np.testing.assert_array_equal(got.value, expected.value)
    np.testing.assert_allclose(got.d1, expected.d1, atol=1e-12)
    np.testing.assert_allclose(got.d2, expected.d2, atol=5e-10)
    coarse = Quadrature(lambda t, f: log_expit(t * f), step=0.5).log_prob(np.ones(31), f)
    assert 1e-6 < np.max(np.abs(coarse.d2 - expected.d2)) < 1e-3


def test_heat_equation():
    model, step = Quadrature(student, "real"), 1e-5
    t, m = np.array([2.0]), np.array([0.5])
    up, down, d = (model.log_partition(t, m, np.array([v])) for v in (1.0 + step, 1.0 - step, 1.0))
    np.testing.assert_allclose((up.value - down.value) / (2 * step), 0.5 * (d.d2 + d.d1**2), rtol=1e-7)


def test_shapes_blocks_and_the_rest_of_the_face():
    model = Quadrature(lambda t, f: log_expit(t * f))
    assert isinstance(model, Likelihood)
    assert not model.forbids
    assert model.log_partition(np.array(1.0), np.zeros((2, 1)), np.ones(3)).d1.shape == (2, 3)
    assert model.log_prob(np.ones((2, 1)), np.zeros(3)).d2.shape == (2, 3)
    m = np.linspace(-5, 5, 2100)
    together = model.log_partition(np.array(-1.0), m, np.array(2.0))
    alone = model.log_partition(np.array(-1.0), m[2070:2071], np.array(2.0))
    np.testing.assert_allclose(together.d2[2070], alone.d2[0], rtol=1e-12)
    drawn = model.sample(np.full((400, 500), 0.7), np.random.default_rng(1))
    p = expit(0.7)
    assert abs((drawn > 0).mean() - p) < 5 * np.sqrt(p * (1 - p) / drawn.size)
    counts = Quadrature(poisson, "real", sampler=lambda f, rng: rng.poisson(np.exp(f)))
    assert abs(counts.sample(np.zeros(10_000), np.random.default_rng(2)).mean() - 1.0) < 0.05


def test_probabilities_are_normalised_over_the_labels():
    unnormalised = Quadrature(lambda t, f: log_expit(t * f) + 3.0)
    m, v = np.linspace(-3, 3, 7), np.full(7, 2.0)
    np.testing.assert_allclose(unnormalised.predict_proba(m, v), Logit().predict_proba(m, v), rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Quadrature(3.0), r"log_density must be a function of \(t, f\), got float"),
        (lambda: Quadrature(poisson, "count"), "targets must be 'binary' or 'real', got 'count'"),
        (lambda: Quadrature(poisson, "real", sampler=1), r"sampler must be a function of \(f, rng\), got int"),
        (lambda: Quadrature(poisson, "real", step=0.0), r"step must be a finite number > 0, got 0\.0"),
        (lambda: Quadrature(poisson, "real", step=None), "step must be a finite number > 0, got None"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda t, f: np.where(f > 0, np.nan, 0.0), "must be finite, or -inf .* but it is nan at t = 1, f = "),
        (lambda t, f: np.full_like(f, np.inf), "but it is inf at t = 1"),
        (lambda t, f: 0.0, r"must return one value for each entry of f, shape \(\d+,\), got \(\)"),
        (lambda t, f: f[:-1], r"must return one value for each entry of f"),
        (lambda t, f: f.astype(str), "must return real numbers"),
        (lambda t, f: np.full_like(f, -np.inf), "it is -inf everywhere, or outgrows the Gaussian"),
        (lambda t, f: f**2, "it is -inf everywhere, or outgrows the Gaussian"),
    ],
)
def test_bad_functions_are_told_what_was_expected(function, message):
    with pytest.raises(ValueError, match=message):
        Quadrature(function).log_partition(np.ones(2), np.zeros(2), np.ones(2))


@pytest.mark.parametrize("offset", [None, np.full(6, 0.5)], ids=["plain", "offset"])
def test_fit_refuses_what_cannot_draw_before_the_search(offset):
    values = []

    def density(t, f):
        values.append(f)
        return poisson(t, f)

    X, y = np.linspace(-1, 1, 6)[:, None], np.array([0.0, 1.0, 1.0, 2.0, 1.0, 0.0])
    likelihood = Quadrature(density, "real")
    values.clear()  # of the checks of the likelihood itself
    with pytest.raises(UndefinedQuantityError, match="sampler="):
        bgp.fit(X, y, bgp.kernels.Gaussian(), likelihood, hyper="evidence", offset=offset, progress=False)
    assert not values
    for sampler, message in (
        (lambda f, rng: np.zeros(3), r"must return shape \(1, 6\), the shape of f, got \(3,\)"),
        (
            lambda f, rng: np.full(f.shape, np.nan),
            "sample.* of Quadrature must return a target .* NaN for some",
        ),
    ):
        wrong = Quadrature(density, "real", sampler=sampler)
        with pytest.raises(ValueError, match=message):
            bgp.fit(X, y, bgp.kernels.Gaussian(), wrong, hyper="evidence", offset=offset, progress=False)
        assert not values
    drawn = Quadrature(poisson, "real", sampler=lambda f, rng: rng.poisson(np.exp(f)))
    idata = bgp.fit(X, y, bgp.kernels.Gaussian(), drawn, offset=offset, draws=5, random_seed=1)
    assert idata["posterior_predictive"]["y"].shape == (4, 5, 6)


def test_what_is_not_defined_is_an_error():
    real = Quadrature(poisson, "real")
    with pytest.raises(UndefinedQuantityError, match="no class probabilities"):
        real.predict_proba(np.zeros(1), np.ones(1))
    with pytest.raises(UndefinedQuantityError, match="sampler="):
        real.sample(np.zeros(1), np.random.default_rng(0))
    with pytest.raises(ValueError, match="unknown likelihood 'Quadrature'"):
        from_dict(Quadrature(lambda t, f: -f).to_dict())
    edge = Quadrature(lambda t, f: np.where(t * f > 0, 0.0, -np.inf))
    with pytest.raises(ValueError, match="no derivative at t = 1, f = 0"):
        edge.log_partition(np.ones(1), np.zeros(1), np.zeros(1))
    value, *slopes = edge.log_prob(np.ones(2), np.array([0.0, 1e-3]))
    np.testing.assert_array_equal(value, [-np.inf, 0.0])
    assert np.all(np.isnan(slopes))
    with pytest.raises(UndefinedQuantityError, match="'laplace' starts at f = 0, where Quadrature has no derivative"):
        bgp.solve(np.eye(1), np.ones(1), edge, method="laplace")
    short = Quadrature(poisson, "real", sampler=lambda f, rng: np.zeros(3))
    with pytest.raises(ValueError, match=r"must return shape \(2,\), the shape of f, got \(3,\)"):
        short.sample(np.zeros(2), np.random.default_rng(0))


def test_a_power_of_a_density_that_overflows_far_out_is_that_of_counts():
    """At prior variances that a search may try, exp(f) overflows within what is integrated: p is zero there."""
    t, mean, variance, weights = np.array([6.0, 0.0]), np.zeros(2), np.full(2, 2e4), np.array([0.4, 1.3])
    own, known = (by_case(each, weights=weights) for each in (Quadrature(poisson, "real"), bgp.Poisson()))
    found, expected = (each.log_partition(t, mean, variance) for each in (own, known))
    np.testing.assert_allclose(found, expected, rtol=1e-8)
