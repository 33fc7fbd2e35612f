"""Ordered levels: tails in many digits, the probit as two of them, the door from a Categorical to P(level), files."""

from __future__ import annotations

import arviz as az
import mpmath
import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods import Ordinal, Probit, from_dict

X = np.random.default_rng(1).uniform(-2.0, 2.0, (50, 1))
F = 1.5 * X[:, 0]
LIKELIHOOD = Ordinal([-1.0, 1.0], 0.5)
Y = LIKELIHOOD.sample(F, np.random.default_rng(2))
NAMES = ["mild", "moderate", "severe"]
KERNEL = bgp.kernels.Gaussian(1.5, 2.0)
NEW = np.array([[-1.8], [0.0], [1.5]])


def truth(likelihood, level: int, mean: float, variance: float) -> list[float]:
    """Log Z and its first four derivatives by the recurrence of moments, with 70 digits."""
    with mpmath.workdps(70):
        cuts = [-mpmath.inf, *map(mpmath.mpf, likelihood.cuts), mpmath.inf]
        scale = mpmath.sqrt(mpmath.mpf(likelihood.noise_variance) + mpmath.mpf(variance))
        a, b = ((cut - mpmath.mpf(mean)) / scale for cut in cuts[level : level + 2])
        sign = 1
        if a + b < 0:
            a, b, sign = -b, -a, -1
        mass = mpmath.ncdf(-a) - mpmath.ncdf(-b)
        ends = [(x, mpmath.npdf(x) / mass) for x in (a, b)]
        m = [mpmath.mpf(1)]
        for k in range(1, 5):
            low, high = (x ** (k - 1) * density if mpmath.isfinite(x) else 0 for x, density in ends)
            m.append((k - 1) * (m[k - 2] if k > 1 else 0) + low - high)
        third = m[3] - 3 * m[2] * m[1] + 2 * m[1] ** 3
        fourth = m[4] - 4 * m[3] * m[1] - 3 * m[2] ** 2 + 12 * m[2] * m[1] ** 2 - 6 * m[1] ** 4
        cumulants = [sign * m[1], m[2] - m[1] ** 2 - 1, sign * third, fourth]
        return [float(mpmath.log(mass)), *(float(c / scale**k) for k, c in enumerate(cumulants, 1))]


@pytest.mark.parametrize(
    "likelihood", [Ordinal([-1.0, 0.5, 2.0], 0.7), Ordinal([0.0, 1e-7, 1e-3], 1e-2), Ordinal([-30.0, 0.0, 40.0])]
)
@pytest.mark.parametrize("mean", [-200.0, -9.0, -1.3, 0.0, 1e-9, 0.4, 15.0, 300.0])
@pytest.mark.parametrize("variance", [0.0, 0.3, 50.0])
def test_tails_are_exact(likelihood, mean, variance):
    levels, at, spread = np.arange(4.0), np.full(4, mean), np.full(4, variance)
    expected = np.array([truth(likelihood, k, mean, variance) for k in range(4)]).T
    derivs = likelihood.log_partition(levels, at, spread)
    scale = np.sqrt(likelihood.noise_variance + variance)
    for got, known in zip(derivs[:2], expected, strict=False):
        np.testing.assert_allclose(got, known, rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(derivs.d2 * scale**2, expected[2] * scale**2, rtol=1e-12, atol=1e-14)
    third, fourth = likelihood.higher_derivatives(levels, at, spread, derivs)
    np.testing.assert_allclose(third * scale**3, expected[3] * scale**3, atol=1e-13)
    np.testing.assert_allclose(fourth * scale**4, expected[4] * scale**4, atol=1e-13)


def test_two_levels_are_the_probit():
    mean, variance = np.linspace(-40.0, 40.0, 41), np.linspace(0.0, 9.0, 41)
    ordinal, probit = Ordinal([0.0], 0.5), Probit(0.5)
    for level, label in ((0.0, -1.0), (1.0, 1.0)):
        here = ordinal.log_partition(np.full(41, level), mean, variance)
        there = probit.log_partition(np.full(41, label), mean, variance)
        for got, known in zip(here, there, strict=True):
            np.testing.assert_allclose(got, known, rtol=1e-11, atol=1e-15)
    np.testing.assert_allclose(
        ordinal.level_probabilities(mean, variance)[:, 1], probit.predict_proba(mean, variance), rtol=1e-12
    )


def test_levels_share_one_and_mirrored_they_are_exchanged():
    mean, variance = np.linspace(-30.0, 30.0, 61), np.linspace(0.0, 50.0, 61)
    p = Ordinal([-2.0, 0.3, 0.31, 4.0]).level_probabilities(mean, variance)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-13)
    mirrored = Ordinal([-4.0, -0.31, -0.3, 2.0]).level_probabilities(-mean, variance)
    np.testing.assert_allclose(mirrored[:, ::-1], p, rtol=1e-12)


def test_samples_have_the_probabilities_of_levels():
    f = np.full(100_000, 0.4)
    drawn = LIKELIHOOD.sample(f, np.random.default_rng(0))
    p = LIKELIHOOD.level_probabilities(np.array([0.4]), np.zeros(1))[0]
    assert np.all(np.abs(np.bincount(drawn.astype(int), minlength=3) / f.size - p) < 5 * np.sqrt(p * (1 - p) / f.size))
    mean, variance = LIKELIHOOD.predictive_moments(np.array([0.4]), np.zeros(1))
    assert abs(drawn.mean() - mean[0]) < 5 * np.sqrt(variance[0] / f.size)
    assert drawn.var() == pytest.approx(variance[0], rel=0.03)


def test_the_noise_is_a_parameter():
    t, mean, variance = np.array([0.0, 1.0, 2.0]), np.array([0.3, -0.2, 5.0]), np.array([0.1, 1.0, 2.0])

    def at(noise: float) -> np.ndarray:
        return LIKELIHOOD.with_parameters(noise_variance=noise).log_partition(t, mean, variance).value

    slope = LIKELIHOOD.parameter_derivative("noise_variance", t, mean, variance).value
    np.testing.assert_allclose(slope, (at(0.5001) - at(0.4999)) / 2e-4, rtol=1e-6)
    assert LIKELIHOOD.parameters == {"noise_variance": 0.5, "gap1": 2.0}


def test_gaps_move_the_cuts_above_them():
    likelihood = Ordinal([-1.0, 0.0, 0.5, 2.0], 0.3)
    assert list(likelihood.parameters) == ["noise_variance", "gap1", "gap2", "gap3"]
    moved = likelihood.with_parameters(gap2=1.25, noise_variance=0.7)
    assert moved == Ordinal([-1.0, 0.0, 1.25, 2.75], 0.7)
    rough = Ordinal(np.cumsum([0.1, 0.2, 0.7]))
    assert rough.with_parameters(**rough.parameters) == rough
    with pytest.raises(ValueError, match="gap1 must be a finite number > 0"):
        likelihood.with_parameters(gap1=-0.5)


def test_gaps_are_tuned_where_they_are_bounded():
    rng = np.random.default_rng(3)
    X = rng.uniform(-2.0, 2.0, (150, 1))
    y = np.digitize(1.5 * X[:, 0] + rng.normal(size=150), [-1.0, 0.2, 1.5])
    asked = {"hyper": bgp.hyper.Evidence(starts=1), "bounds": {"gap1": (0.01, 10.0), "gap2": (0.01, 10.0)}}
    options = {"fixed": {"bias_variance"}, "draws": 10, "random_seed": 1, "progress": False}
    idata = bgp.fit(X, y, bgp.kernels.Linear() + bgp.kernels.Bias(1.0), Ordinal([-1.0, 0.0, 1.0]), **asked, **options)
    fit = get_group(idata, "fit")
    cuts = bgp.posterior(idata).problem.likelihood.cuts
    np.testing.assert_allclose(np.diff(cuts), [float(fit["gap1"]), float(fit["gap2"])], rtol=1e-12)
    np.testing.assert_allclose(np.diff(cuts), [1.2, 1.3], atol=0.4)


def fitted(y=Y, **options):
    options = {"draws": 300, "chains": 2, "random_seed": 1, "progress": False, **options}
    return bgp.fit(X, y, KERNEL, LIKELIHOOD, **options)


@pytest.mark.parametrize("method", ["tap", "laplace", "naive", "online"])
def test_from_a_categorical_to_the_probability_of_each_level(method):
    severity = pd.Categorical.from_codes(Y.astype(int), NAMES, ordered=True)
    idata = fitted(severity, method=method)
    said = get_group(bgp.predict(idata, NEW, random_seed=2), "predictions")
    assert said["p"].dims == ("obs_id", "class")
    assert list(said["class"].values) == NAMES
    mean, variance = said["latent_mean"].values, said["latent_sd"].values ** 2
    np.testing.assert_allclose(said["p"].values, LIKELIHOOD.level_probabilities(mean, variance), rtol=1e-9)
    np.testing.assert_allclose(said["y_mean"].values, said["p"].values @ np.arange(3.0), rtol=1e-9)
    assert list(said["p"].values.argmax(axis=1)) == [0, 1, 2]
    drawn = said["y"].values.reshape(-1, 3)
    shares = [(drawn == level).mean(axis=0) for level in range(3)]
    np.testing.assert_allclose(np.transpose(shares), said["p"].values, atol=5 * 0.5 / np.sqrt(600))
    assert said["y"].attrs["class_names"] == '["mild", "moderate", "severe"]'
    numbers = fitted(Y, method=method, draws=2)
    assert float(numbers["fit"]["log_evidence"]) == float(idata["fit"]["log_evidence"])


def test_averaged_over_hyperparameters_and_from_a_file(tmp_path):
    idata = fitted(hyper="integrate", fixed=["variance"], method="laplace", draws=50)
    said = get_group(bgp.predict(idata, NEW, random_seed=2), "predictions")
    known = bgp.posterior(idata)
    each = [LIKELIHOOD.level_probabilities(*part.latent(NEW)) for part in known.parts]
    np.testing.assert_allclose(said["p"].values, np.tensordot(known.weights, each, 1), rtol=1e-9)
    path = str(tmp_path / "fit.nc")
    idata.to_netcdf(path)
    loaded = get_group(bgp.predict(az.from_netcdf(path), NEW, random_seed=2), "predictions")
    for name in ("p", "y", "y_sd"):
        np.testing.assert_array_equal(loaded[name].values, said[name].values)
    assert from_dict(LIKELIHOOD.to_dict()) == LIKELIHOOD


@pytest.mark.parametrize(
    ("y", "said"),
    [
        (
            pd.Categorical.from_codes(Y.astype(int), NAMES),
            r"y is a Categorical whose categories .* have no order\. Pass",
        ),
        (
            pd.Categorical.from_codes(Y.astype(int), [*NAMES, "fatal"], ordered=True),
            "y has 4 categories, and the likelihood 3 levels: Ordinal has one cut fewer",
        ),
        (
            np.array(NAMES)[Y.astype(int)],
            r"y holds text such as '\w+', whose order is not known\. Pass pd\.Categorical",
        ),
        (Y + 1, r"y must hold levels 0 to 2 for Ordinal with 2 cuts, got 3 at index \d+ \(\d+ such cases\)\. Number"),
        (Y + 0.5, "y must hold levels 0 to 2"),
        (np.where(X[:, 0] > 1.9, np.nan, Y), "y must hold a label for every case, but . of 50 are missing"),
    ],
)
def test_what_is_no_level_is_refused_in_words(y, said):
    with pytest.raises(ValueError, match=said):
        fitted(y)


@pytest.mark.parametrize("cuts", [[], [1.0, 1.0], [1.0, 0.0], [np.inf], [[0.0]], "ab", 0.0])
def test_cuts_that_are_none_are_refused(cuts):
    with pytest.raises(ValueError, match="cuts must be rising finite numbers, one fewer than there are levels"):
        Ordinal(cuts)


def test_it_has_no_two_classes():
    with pytest.raises(UndefinedQuantityError, match="has levels"):
        LIKELIHOOD.predict_proba(np.zeros(1), np.ones(1))
    with pytest.raises(UndefinedQuantityError, match="method 'exact' handles Gaussian and Probit"):
        fitted(method="exact")
    corrected = bgp.predict(fitted(draws=2), NEW, draws=False, corrected=True)["predictions"]["p"].values
    np.testing.assert_allclose(corrected.sum(axis=1), 1.0)


def test_between_two_cuts_a_wide_gaussian_is_uniform_however_small_the_noise():
    variance = 10.0 ** np.linspace(8.0, 20.0, 100)  # the noise is lost in its rounding, in either direction
    found = Ordinal([-1.0, 1.0], 1e-14).tilted_cumulants(np.ones(100), np.zeros(100), variance, 4)
    np.testing.assert_allclose(found, np.array([[0.0], [-1.2]]) * np.ones(100), atol=1e-6)
