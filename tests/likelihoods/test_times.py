"""Times to an event and censored targets, against formulas in many digits, integrals and central differences."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from scipy.special import logsumexp

import bayesgp_mf as bgp
from bayesgp_mf import likelihoods
from bayesgp_mf.hyper import Evidence
from bayesgp_mf.likelihoods import Censored, Exponential, Gaussian, LogLogistic, LogNormal, Weibull, from_dict
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.likelihoods.cumulants import higher_derivatives

SEEN = {
    "gaussian": Gaussian(0.3),
    "log-normal": LogNormal(0.5),
    "weibull": Weibull(1.7),
    "weibull, falling": Weibull(0.6),
    "exponential": Exponential(),
    "log-logistic": LogLogistic(2.5),
}
OTHER = [np.nan, np.inf, -np.inf, 2.6, 1.3001, 0.2]
"""Other limits of targets of 1.3: seen, above, below, between, hardly between, and from below."""
CASES = {name: Censored(likelihood, OTHER) for name, likelihood in SEEN.items()}
T = np.full(6, 1.3)
each = pytest.mark.parametrize("name", CASES)


def tails(likelihood, t, f):
    """Return density, survival and distribution function as numbers of mpmath: the formulas, written out."""
    t, f = mpmath.mpf(float(t)), mpmath.mpf(float(f))
    if isinstance(likelihood, Gaussian | LogNormal):
        s = mpmath.sqrt(likelihood.noise_variance)
        x, slope = (t, 1) if isinstance(likelihood, Gaussian) else (mpmath.log(t), 1 / t)
        z = (x - f) / s
        root = mpmath.sqrt(2)
        return mpmath.npdf(z) / s * slope, mpmath.erfc(z / root) / 2, mpmath.erfc(-z / root) / 2
    k = mpmath.mpf(likelihood.shape)
    ratio = (t * mpmath.exp(-f)) ** k
    if isinstance(likelihood, LogLogistic):
        return k * ratio / t / (1 + ratio) ** 2, 1 / (1 + ratio), ratio / (1 + ratio)
    return k * ratio / t * mpmath.exp(-ratio), mpmath.exp(-ratio), -mpmath.expm1(-ratio)


def truth(likelihood, t, other, f):
    with mpmath.workdps(450):
        if np.isnan(other):
            return float(mpmath.log(tails(likelihood, t, f)[0]))
        if np.isinf(other):
            return float(mpmath.log(tails(likelihood, t, f)[1 if other > 0 else 2]))
        low, high = sorted([t, other])
        return float(mpmath.log(tails(likelihood, low, f)[1] - tails(likelihood, high, f)[1]))


def integral(case, t, mean, variance):
    """Return log of the average over a Gaussian, by a dense grid about the largest value."""
    sd = np.sqrt(variance)
    f = mean + np.linspace(-40.0 * sd, 40.0 * sd, 4001)
    for _ in range(3):
        density = case.log_prob(t, f[:, None]).value[:, 0] - 0.5 * (f - mean) ** 2 / variance
        there = f[density > density.max() - 60.0]
        f = np.linspace(there[0] - (f[1] - f[0]), there[-1] + (f[1] - f[0]), 20001)
    density = case.log_prob(t, f[:, None]).value[:, 0] - 0.5 * (f - mean) ** 2 / variance
    return logsumexp(density) + np.log(f[1] - f[0]) - 0.5 * np.log(2.0 * np.pi * variance)


@each
@pytest.mark.parametrize("f", [-30.0, -3.0, 0.2, 4.0, 30.0])
def test_what_is_known_has_its_probability(name, f):
    if "gaussian" in name:
        f = f / 3.0
    got = CASES[name].log_prob(T, np.full(6, f)).value
    expected = [truth(SEEN[name], 1.3, other, f) for other in OTHER]
    np.testing.assert_allclose(got, expected, rtol=2e-12, atol=1e-300)


@each
@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.7), (-3.0, 2.0), (6.0, 0.1), (1.0, 30.0), (-5.0, 0.01)])
def test_log_partition_is_the_integral_it_says(name, mean, variance):
    got = CASES[name].log_partition(T, np.full(6, mean), np.full(6, variance)).value
    for k in range(6):
        case = CASES[name].of_cases(np.array([k]))
        np.testing.assert_allclose(got[k], integral(case, T[:1], mean, variance), rtol=1e-10, atol=1e-10)


def slopes_of(case, mean, variance, **changed):
    case = case.with_parameters(**changed)
    return case.log_partition(T, np.full(6, mean), np.full(6, variance))


@each
@pytest.mark.parametrize(("mean", "variance"), [(0.3, 0.7), (-2.0, 2.0), (3.0, 0.1), (0.1, 0.0)])
def test_derivatives_pass_central_differences(name, mean, variance):
    case, step, sd = CASES[name], 1e-4, max(np.sqrt(variance), 0.1)
    at = (T, np.full(6, mean), np.full(6, variance))
    d = case.log_partition(*at)
    up, down = (slopes_of(case, mean + sign * step * sd, variance) for sign in (1, -1))
    numeric = [(a - b) / (2.0 * step * sd) for a, b in zip(up, down, strict=True)]
    np.testing.assert_allclose(numeric[0], d.d1, rtol=1e-6, atol=1e-6 / sd)
    np.testing.assert_allclose(numeric[1], d.d2, rtol=1e-6, atol=1e-6 / sd**2)
    assert np.any(np.abs(numeric[1] - 1.001 * d.d2) > 1e-5 * np.abs(d.d2))  # the control
    higher = case.higher_derivatives(*at, d)
    if higher is not None:
        np.testing.assert_allclose(numeric[2], higher[0], rtol=1e-5, atol=1e-6 / sd**3)
    for parameter, value in case.parameters.items():
        derivative = case.parameter_derivative(parameter, *at)
        ends = [slopes_of(case, mean, variance, **{parameter: value * (1 + sign * step)}) for sign in (1, -1)]
        for got, a, b in zip(derivative, *ends, strict=True):
            np.testing.assert_allclose(got, (a - b) / (2.0 * step * value), rtol=1e-5, atol=1e-5)


@each
def test_every_case_is_log_concave_and_its_variance_adds_by_the_heat_equation(name):
    f = np.linspace(-12.0, 12.0, 97)[:, None] + np.zeros(6)
    assert np.all(CASES[name].log_prob(T, f).d2 <= 0)
    d = slopes_of(CASES[name], 0.4, 0.8)
    up, down = (slopes_of(CASES[name], 0.4, 0.8 + h).value for h in (1e-5, -1e-5))
    np.testing.assert_allclose((up - down) / 2e-5, 0.5 * (d.d2 + d.d1**2), rtol=1e-5, atol=1e-7)


@each
def test_all_that_may_be_has_probability_one(name):
    limits = Censored(SEEN[name], [-np.inf, 2.0, np.inf])
    found = limits.log_partition(np.array([0.7, 0.7, 2.0]), np.full(3, 0.2), np.full(3, 1.5)).value
    np.testing.assert_allclose(np.exp(found).sum(), 1.0, rtol=1e-12)
    below = SEEN[name].predictive_below(np.array([-np.inf, 0.7, 2.0, np.inf]), np.full(4, 0.2), np.full(4, 1.5))
    expected = [0.0, np.exp(found[0]), 1.0 - np.exp(found[2]), 1.0]
    np.testing.assert_allclose(below, expected, rtol=1e-12)


@each
def test_targets_are_drawn_as_they_are_predicted(name):
    likelihood, rng = SEEN[name], np.random.default_rng(3)
    f = rng.normal(0.2, 0.3, 200_000)
    drawn = likelihood.sample(f, rng)
    at = np.array([0.5, 1.0, 2.5])
    expected = likelihood.predictive_below(at, np.full(3, 0.2), np.full(3, 0.09))
    np.testing.assert_allclose((drawn[:, None] <= at).mean(axis=0), expected, atol=5e-3)
    mean, variance = likelihood.predictive_moments(np.array([0.2]), np.array([0.09]))
    np.testing.assert_allclose(drawn.mean(), mean[0], rtol=0.02)
    if name != "log-logistic":  # whose fourth moment is infinite
        np.testing.assert_allclose(drawn.var(), variance[0], rtol=0.1)


def test_a_mean_or_variance_that_is_not_there_is_infinite():
    at = np.zeros(1), np.ones(1)
    assert np.isinf(LogLogistic(0.9).predictive_moments(*at)[0])
    mean, variance = LogLogistic(1.5).predictive_moments(*at)
    assert np.isfinite(mean)
    assert np.isinf(variance)


@each
def test_powers_are_integrated(name):
    weights = np.array([0.5, 2.0, 1.7, 3.0, 1.0, 0.0])
    case = by_case(CASES[name], weights=weights)
    got = case.log_partition(T, np.full(6, 0.4), np.full(6, 0.9)).value
    f = np.linspace(-14.0, 14.0, 40001)
    for k, weight in enumerate(weights):
        once = CASES[name].of_cases(np.array([k])).log_prob(T[:1], f[:, None]).value[:, 0]
        density = weight * once - 0.5 * (f - 0.4) ** 2 / 0.9 - 0.5 * np.log(2.0 * np.pi * 0.9)
        np.testing.assert_allclose(got[k], logsumexp(density) + np.log(f[1] - f[0]), atol=1e-9)


@each
def test_a_dict_makes_the_same_likelihood_again(name):
    for likelihood in (SEEN[name], CASES[name], Censored(SEEN[name])):
        again = from_dict(likelihood.to_dict())
        assert again == likelihood
        assert repr(again) == repr(likelihood)


def test_what_is_wrong_is_refused_in_words():
    with pytest.raises(ValueError, match="Censored must be Gaussian, LogNormal"):
        Censored(likelihoods.Poisson())
    with pytest.raises(ValueError, match=r"Censored must be .*such as Weibull\(1.0\), got <class"):
        Censored(Weibull)
    with pytest.raises(ValueError, match=r"counts must be Poisson\(\) or .*got <class"):
        likelihoods.Truncated(likelihoods.Poisson)
    with pytest.raises(ValueError, match="one number for each case"):
        Censored(Weibull(1.0), [[1.0]])
    with pytest.raises(ValueError, match="other limits of 2 cases"):
        Censored(Weibull(1.0), [1.0, np.inf]).check_targets("y", np.ones(3))
    for likelihood in (Weibull(1.0), Censored(Exponential()), LogNormal(), LogLogistic(2.0)):
        with pytest.raises(ValueError, match=r"y must hold times > 0 .* got 0 at index 1"):
            likelihood.check_targets("y", np.array([1.0, 0.0]))
    for make in (Weibull, LogLogistic, LogNormal):
        with pytest.raises(ValueError, match="must be a finite number > 0"):
            make(0.0)


def test_far_limits_say_what_they_say_and_nothing_breaks():
    """A time that is certainly later, or earlier, says nothing; one that is not says the more the farther it is."""
    for likelihood in (Weibull(1.5), LogLogistic(1.5), LogNormal(0.4), Exponential()):
        case = Censored(likelihood, [np.inf, -np.inf])
        sure = case.log_partition(np.ones(2), np.array([60.0, -60.0]), np.ones(2))
        np.testing.assert_allclose(np.concatenate(sure), 0.0, atol=1e-20)
        unlikely = case.log_partition(np.ones(2), np.array([-60.0, 60.0]), np.ones(2))
        assert np.all(np.isfinite(np.concatenate(unlikely)))
        assert unlikely.d1[0] >= 1.0
        assert unlikely.d1[1] <= -1.0


@pytest.mark.parametrize("scale", [1e-8, 1e-3, 1e4, 1e8])
@pytest.mark.parametrize("name", [name for name in SEEN if name != "gaussian"])
def test_derivatives_are_those_of_times_in_another_unit(name, scale):
    """A unit moves the latent value by its logarithm."""
    mean, variance = np.linspace(-1.0, 1.5, 6), np.full(6, 0.4)
    for likelihood in (SEEN[name], Censored(SEEN[name], OTHER), by_case(SEEN[name], weights=np.full(6, 1.5))):
        other = Censored(SEEN[name], scale * np.array(OTHER)) if isinstance(likelihood, Censored) else likelihood
        found, expected = (
            higher_derivatives(each, t, at, variance, each.log_partition(t, at, variance))
            for each, t, at in ((other, scale * T, mean + np.log(scale)), (likelihood, T, mean))
        )
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize(
    ("likelihood", "scale"),
    [(Weibull(2.0), 1e-8), (Weibull(2.0), 1e8), (LogLogistic(2.0), 1e-8), (LogLogistic(2.0), 1e8)],
)
def test_laplace_tunes_times_of_any_unit_alike(likelihood, scale):
    """The kernel has a constant, which takes up the unit."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 1))
    t = np.exp(2.0 * np.sin(2.0 * x[:, 0]) + 0.3 * rng.normal(size=40))
    kernel = bgp.kernels.Gaussian(1.0, 1.0) + bgp.kernels.Bias(400.0)
    options = {"hyper": Evidence(starts=1), "fixed": ["bias_variance"], "draws": 1, "chains": 1, "random_seed": 1}
    for method in ("laplace", "tap"):
        one, other = (bgp.fit(x, s * t, kernel, likelihood, method=method, **options)["fit"] for s in (1.0, scale))
        for parameter in ("gaussian_lengthscale", "gaussian_variance", "shape"):
            np.testing.assert_allclose(other[parameter], one[parameter], rtol=0.05)


def test_times_beyond_doubles_are_refused():
    likelihoods_of_times = [each for name, each in SEEN.items() if name != "gaussian"]
    for likelihood in likelihoods_of_times:
        for ask in (
            lambda: likelihood.predictive_moments(np.array([1.0, 800.0]), np.ones(2)),  # noqa: B023
            lambda: likelihood.sample(np.array([1.0, 1e4]), np.random.default_rng(0)),  # noqa: B023
        ):
            with pytest.raises(bgp.UndefinedQuantityError, match="largest double in 1 of 2 cases"):
                ask()


def test_a_tail_without_a_variance_is_no_overflow():
    mean, variance = LogLogistic(1.5).predictive_moments(np.zeros(1), np.ones(1))
    assert np.isfinite(mean).all()
    assert np.isinf(variance).all()


@pytest.mark.parametrize(
    "likelihood", [Weibull(5.0), Exponential(), Censored(Weibull(2.0))], ids=lambda each: repr(each)
)
@pytest.mark.parametrize("scale", [1e4, 1e8, 1e12])
def test_laplace_climbs_from_zero_to_times_of_any_unit(likelihood, scale):
    """At f = 0 their sites are far stronger than at the mode; a constant whose prior variance is large is no matter."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 1))
    t = scale * np.exp(np.sin(2.0 * x[:, 0]) + 0.3 * rng.normal(size=30))
    kernel = bgp.kernels.Gaussian(1.0, 1.0) + bgp.kernels.Bias(900.0)
    options = {"draws": 1, "chains": 1, "random_seed": 1}
    tap, found, on_root, on_all = (
        float(bgp.fit(x, t, kernel, likelihood, method=method, **options, **how)["fit"]["log_evidence"])
        for method, how in (
            ("tap", {}),
            ("laplace", {}),
            ("laplace", {"control": bgp.Control(gram="low_rank")}),
            ("laplace", {"inducing": 30}),
        )
    )
    np.testing.assert_allclose(found, tap, atol=0.2)
    np.testing.assert_allclose([on_root, on_all], found, atol=1e-5)
