"""Likelihoods of counts and of measurements with outliers: against quadrature, many digits, SciPy and their limits."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb
from scipy import stats
from scipy.special import digamma, expit, gammaln, logit, polygamma

from bayesgp_mf.errors import NotPositiveDefiniteError, UndefinedQuantityError
from bayesgp_mf.likelihoods import (
    Beta,
    Binomial,
    Gamma,
    Gaussian,
    Hurdle,
    Logit,
    NegativeBinomial,
    Ordinal,
    Poisson,
    Quadrature,
    StudentT,
    Truncated,
    ZeroInflated,
    from_dict,
)
from bayesgp_mf.likelihoods.cumulants import higher_derivatives, tilted_cumulants
from tests.integrals import over_gaussian

N = 60
TRIALS = np.random.default_rng(5).integers(1, 40, N)
CASES = {
    "poisson": Poisson(),
    "negative binomial": NegativeBinomial(2.0),
    "negative binomial near Poisson": NegativeBinomial(1e4),
    "binomial": Binomial(7),
    "binomial with trials of each": Binomial(TRIALS),
    "ordinal": Ordinal([-1.0, 0.2, 2.5], 0.3),
    "ordinal with narrow levels": Ordinal([0.0, 0.01, 0.3]),
    "zero-inflated": ZeroInflated(Poisson(), 0.3),
    "zero-inflated binomial": ZeroInflated(Binomial(TRIALS), 0.3),
    "hurdle": Hurdle(NegativeBinomial(2.0), 0.3),
    "truncated": Truncated(Poisson()),
    "truncated, not log-concave": Truncated(NegativeBinomial(0.3)),
    "gamma": Gamma(2.0),
    "gamma of heavy tails": Gamma(0.3),
    "beta": Beta(5.0),
    "beta of nearly zeros and ones": Beta(0.5),
    "beta near its mean": Beta(1e4),
    "student": StudentT(0.5, 4.0),
    "student with heavy tails": StudentT(1.0, 0.7),
    "student near Gaussian": StudentT(0.3, 200.0),
}
COUNTS = {name: case for name, case in CASES.items() if not name.startswith(("student", "ordinal", "gamma", "beta"))}
every_case = pytest.mark.parametrize("likelihood", CASES.values(), ids=CASES)


def some_cases(likelihood, seed: int = 0):
    """Targets that fit, and that do not fit, Gaussians narrow and wide."""
    rng = np.random.default_rng(seed)
    mean, variance = rng.normal(0.0, 2.0, N), 10.0 ** rng.uniform(-2.0, 2.0, N)
    return likelihood.sample(rng.normal(0.0, 2.0, N), rng), mean, variance


def by_quadrature(likelihood, t):
    """The same likelihood as a function of the number of a case, since the trials may be those of each case."""

    def log_density(i, f):
        which = i.astype(int)
        own = likelihood.of_cases(which) if hasattr(likelihood, "of_cases") else likelihood
        return own.log_prob(t[which], f).value

    return Quadrature(log_density, targets="real"), np.arange(float(t.size))


@every_case
@pytest.mark.parametrize("seed", [0, 1])
def test_log_partition_and_cumulants_are_those_of_adaptive_quadrature(likelihood, seed):
    t, mean, variance = some_cases(likelihood, seed)
    rule, which = by_quadrature(likelihood, t)
    got, expected = likelihood.log_partition(t, mean, variance), rule.log_partition(which, mean, variance)
    np.testing.assert_allclose(got.value, expected.value, rtol=1e-11, atol=1e-11)
    # moments of f: relative to what the derivatives are without a target
    np.testing.assert_allclose(got.d1 * np.sqrt(variance), expected.d1 * np.sqrt(variance), rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(got.d2 * variance, expected.d2 * variance, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(
        tilted_cumulants(likelihood, t, mean, variance, 5),
        rule.tilted_cumulants(which, mean, variance, 5),
        rtol=1e-7,
        atol=1e-8,
    )


@every_case
def test_derivatives_pass_central_differences_and_the_heat_equation(likelihood):
    t, mean, variance = some_cases(likelihood, 2)
    at, step = likelihood.log_partition(t, mean, variance), 1e-3 * np.sqrt(variance)
    above, below = (likelihood.log_partition(t, mean + sign * step, variance) for sign in (1.0, -1.0))
    scale = np.maximum(1.0 / np.sqrt(variance), np.abs(at.d1))
    np.testing.assert_allclose((above.value - below.value) / (2 * step) / scale, at.d1 / scale, atol=1e-5)
    np.testing.assert_allclose((above.d1 - below.d1) / (2 * step) / scale**2, at.d2 / scale**2, atol=1e-5)
    wide, narrow = (likelihood.log_partition(t, mean, variance * factor).value for factor in (1.0001, 0.9999))
    np.testing.assert_allclose(
        (wide - narrow) / 2e-4,
        0.5 * variance * (at.d2 + at.d1**2),
        rtol=1e-5,
        atol=1e-6 * (1.0 + np.abs(at.value).max()),
    )
    # and third and fourth ones, at variance zero in closed form
    for spread in (variance, np.zeros(N)):
        now = likelihood.log_partition(t, mean, spread)
        third, fourth = higher_derivatives(likelihood, t, mean, spread, now)
        h = 1e-3 * np.where(spread > 0, np.sqrt(spread), 1.0)
        up, down = (likelihood.log_partition(t, mean + sign * h, spread).d2 for sign in (1.0, -1.0))
        size = 1.0 + np.abs(now.d2)
        np.testing.assert_allclose((up - down) / (2 * h) / size, third / size, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose((up - 2 * now.d2 + down) / h**2 / size, fourth / size, rtol=2e-3, atol=2e-3)


@every_case
def test_at_variance_zero_it_is_log_prob_and_near_zero_almost(likelihood):
    t, mean, _ = some_cases(likelihood, 3)
    certain = likelihood.log_prob(t, mean)
    for got, expected in zip(likelihood.log_partition(t, mean, np.zeros(N)), certain, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-13, atol=1e-13)
    for got, expected in zip(likelihood.log_partition(t, mean, np.full(N, 1e-13)), certain, strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-7)


def test_ordinary_cases_are_settled_by_the_first_rule():
    """Else all are asked for again, with four times as many nodes: the same numbers, in three times the time."""
    rng = np.random.default_rng(1)
    mean, variance = rng.normal(0.0, 1.0, 200), 10.0 ** rng.uniform(-2.0, 0.0, 200)
    t = rng.poisson(np.exp(mean)).astype(float)
    rules = []

    class Recorded(Poisson):
        def _of_targets(self, t):
            curve, bracket = super()._of_targets(t)

            def recorded(rows, f):
                if f.ndim == 2:
                    rules.append(f.shape)
                return curve(rows, f)

            return recorded, bracket

    Recorded().log_partition(t, mean, variance)
    assert sum(cases for cases, _ in rules) == 200
    assert {points for _, points in rules} == {64}


def test_log_prob_is_that_of_scipy():
    t, f = np.arange(8.0), np.linspace(-3.0, 3.0, 8)
    rate = np.exp(f)
    np.testing.assert_allclose(Poisson().log_prob(t, f).value, stats.poisson.logpmf(t, rate), rtol=1e-12)
    for r in (0.3, 5.0, 60.0):
        expected = stats.nbinom.logpmf(t, r, r / (r + rate))
        np.testing.assert_allclose(NegativeBinomial(r).log_prob(t, f).value, expected, rtol=1e-11)
    np.testing.assert_allclose(
        Binomial(9).log_prob(t, f).value, stats.binom.logpmf(t, 9, rate / (1.0 + rate)), rtol=1e-11
    )
    np.testing.assert_allclose(
        StudentT(0.4, 3.0).log_prob(t, f).value, stats.t.logpdf(t, 3.0, loc=f, scale=0.4), rtol=1e-12
    )


def largest_difference(one, other, t, mean, variance) -> float:
    pairs = zip(one.log_partition(t, mean, variance), other.log_partition(t, mean, variance), strict=True)
    return max(float(np.max(np.abs(a - b))) for a, b in pairs)


def test_limits():
    t, mean, variance = np.arange(6.0), np.linspace(-2.0, 1.0, 6), np.linspace(0.1, 3.0, 6)
    for size, bound in ((1e4, 1e-2), (1e8, 1e-6)):  # the difference falls as 1/size
        assert largest_difference(NegativeBinomial(size), Poisson(), t, mean, variance) < bound
        assert largest_difference(StudentT(0.7, size), Gaussian(0.49), t, mean, variance) < bound
        many = Binomial(size).log_partition(t, mean - np.log(size), variance)  # a rate of exp(mean)
        for got, expected in zip(many, Poisson().log_partition(t, mean, variance), strict=True):
            np.testing.assert_allclose(got, expected, atol=bound)
    assert largest_difference(NegativeBinomial(1e2), Poisson(), t, mean, variance) > 1e-3  # a control
    assert largest_difference(StudentT(0.7, 5.0), Gaussian(0.49), t, mean, variance) > 1e-3


def test_one_trial_is_the_logit_and_exchanging_successes_mirrors():
    mean, variance = np.linspace(-9.0, 9.0, 30), np.linspace(0.0, 20.0, 30)
    for label, success in ((1.0, 1.0), (-1.0, 0.0)):
        got = Binomial(1).log_partition(np.full(30, success), mean, variance)
        for a, b in zip(got, Logit().log_partition(np.full(30, label), mean, variance), strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-13)
    one, other = (
        Binomial(8).log_partition(t, m, variance) for t, m in ((np.full(30, 3.0), mean), (np.full(30, 5.0), -mean))
    )
    for sign, a, b in zip((1.0, -1.0, 1.0), one, other, strict=True):
        np.testing.assert_allclose(a, sign * b, rtol=1e-11, atol=1e-13)


def test_probabilities_of_all_counts_sum_to_one():
    mean, variance = np.array([-1.0, 0.5, 1.0])[:, None], np.array([0.2, 0.4, 0.3])[:, None]
    for likelihood, most in ((Binomial(12), 12), (Poisson(), 400), (NegativeBinomial(3.0), 2000)):
        counts = np.arange(most + 1.0)
        p = np.exp(likelihood.log_partition(counts, mean, variance).value)
        np.testing.assert_allclose(p.sum(axis=1), 1.0, rtol=1e-8)
        first, second = likelihood.predictive_moments(mean[:, 0], variance[:, 0])
        np.testing.assert_allclose(p @ counts, first, rtol=1e-6)
        np.testing.assert_allclose(p @ counts**2 - first**2, second, rtol=1e-3 if most == 2000 else 1e-6)


def many_digits(prob, mean, variance, *around, log_scale=0.0):
    """Return log Z and its derivatives by 30 digits, integrated between the given places and some beside them; of a
    density that was divided by the exponential of log_scale."""
    cuts = [place + width * k for place, width in around for k in (-16, -8, -4, -2, -1, 0, 1, 2, 4, 8, 16)]
    z, first, second = (
        over_gaussian(lambda f, analytic, k=k: (f - mean) ** k * prob(f, analytic), mean, variance, cuts, sds=300)
        for k in range(3)
    )
    first, second = first / z, second / z
    return [
        float(x) for x in (log_scale + z.log(), first / variance, (second - first**2 - variance) / arb(variance) ** 2)
    ]


@pytest.mark.parametrize(
    ("t", "mean", "variance", "mode"),
    [
        (0, 50.0, 4.0, 2.4694),
        (0, 5.0, 1.0, 1.3267),
        (1000, -20.0, 0.5, 6.85),
        (5, 30.0, 0.01, 7.71),
        (0, -30.0, 25.0, -30.0),
    ],
)
def test_tails_of_poisson_are_exact(t, mean, variance, mode):
    width = 1.0 / np.sqrt(1.0 / variance + np.exp(mode))
    peak = t * mode - np.exp(mode) - gammaln(t + 1.0) - (mode - mean) ** 2 / (2.0 * variance)

    def prob(f, analytic):
        return (t * f - f.exp() - arb(t + 1).lgamma() - peak).exp()

    expected = many_digits(prob, mean, variance, (mode, width), (mean, np.sqrt(variance)), (0.0, 0.3), log_scale=peak)
    got = Poisson().log_partition(np.array([float(t)]), np.array([mean]), np.array([variance]))
    np.testing.assert_allclose(np.ravel(got), expected, rtol=1e-10, atol=1e-15)


@pytest.mark.parametrize(
    ("t", "variance", "scale", "df"),
    [(50.0, 1.0, 1.0, 4.0), (10.0, 1.0, 0.01, 4.0), (40.0, 100.0, 1.0, 30.0), (12.0, 9.0, 0.5, 0.5)],
)
def test_tails_of_student_are_exact_with_two_modes_as_well(t, variance, scale, df):
    half = (arb(df) + 1) / 2
    constant = half.lgamma() - (half - 0.5).lgamma() - (arb.pi() * df).log() / 2 - arb(scale).log()

    def prob(f, analytic):
        return (constant - half * (1 + ((t - f) / scale) ** 2 / df).log(analytic=analytic)).exp()

    middle = t * variance / (variance + scale**2)
    expected = many_digits(prob, 0.0, variance, (0.0, np.sqrt(variance)), (t, scale), (middle, 0.5 * np.sqrt(variance)))
    got = StudentT(scale, df).log_partition(np.array([t]), np.array([0.0]), np.array([variance]))
    np.testing.assert_allclose(np.ravel(got), expected, rtol=1e-9)


def test_far_beyond_every_tail_nothing_breaks():
    plain = (Poisson(), NegativeBinomial(2.0), NegativeBinomial(1e9), Binomial(20), StudentT(0.1, 3.0))
    others = (ZeroInflated(Poisson(), 0.1), Hurdle(NegativeBinomial(0.3), 0.1), Gamma(0.3), Beta(0.1), Beta(1e6))
    for likelihood in (*plain, *others):
        t = np.array([1e-10, 0.3, 0.999]) if isinstance(likelihood, Gamma | Beta) else np.array([0.0, 1.0, 20.0])
        for mean in (-600.0, -40.0, 40.0, 600.0):
            for variance in (1e-8, 1.0, 1e3, 1e8):
                d = likelihood.log_partition(t, np.full(3, mean), np.full(3, variance))
                assert np.all(np.isfinite(d)), (likelihood, mean, variance)
                if likelihood.log_concave:
                    assert np.all(d.d2 <= 1e-12 / variance), (likelihood, mean, variance)


@every_case
def test_samples_have_the_moments_that_are_predicted(likelihood):
    rng, size = np.random.default_rng(1), 4000
    mean, variance = rng.normal(0.0, 0.5, N), np.full(N, 0.2)
    drawn = likelihood.sample(mean + np.sqrt(variance) * rng.standard_normal((size, N)), rng)
    first, second = likelihood.predictive_moments(mean, variance)
    if likelihood == StudentT(1.0, 0.7):
        assert np.all(np.isnan(first))
        assert np.all(np.isinf(second))
        return
    assert np.all(np.abs(drawn.mean(axis=0) - first) < 5 * np.sqrt(second / size))
    if likelihood != StudentT(0.5, 4.0):  # whose fourth moment is infinite
        np.testing.assert_allclose(np.median(drawn.var(axis=0) / second), 1.0, atol=0.05)
    if likelihood in COUNTS.values():
        likelihood.check_targets("y", drawn[0])


@every_case
def test_descriptions_make_the_same_likelihood_again(likelihood):
    assert from_dict(likelihood.to_dict()) == likelihood
    with pytest.raises(UndefinedQuantityError, match="no class probabilities"):
        likelihood.predict_proba(np.zeros(N), np.ones(N))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NegativeBinomial(0.0), "dispersion must be a finite number > 0"),
        (lambda: NegativeBinomial("much"), "dispersion must be a finite number > 0, got 'much'"),
        (lambda: StudentT(-1.0), "scale must be"),
        (lambda: StudentT(1.0, np.inf), "df must be"),
        (lambda: Binomial(0), "trials must be a whole number >= 1"),
        (lambda: Binomial(2.5), r"got 2\.5"),
        (lambda: Binomial([3, np.nan]), "got nan"),
        (lambda: Binomial([[3]]), "shape"),
        (lambda: Binomial([]), "shape"),
        (lambda: Binomial("ten"), "trials must be a whole number"),
        (lambda: Poisson().check_targets("y", np.array([1.0, -1.0])), "counts.*got -1 at index 1"),
        (lambda: NegativeBinomial(1.0).check_targets("y", np.array([0.5])), r"counts.*got 0\.5 at index 0"),
        (lambda: Binomial(3).check_targets("y", np.array([3.0, 4.0])), "got 4 of 3 at index 1"),
        (lambda: Binomial([3, 4]).check_targets("y", np.array([3.0])), "trials of 2 cases"),
        (lambda: Binomial([3, 4]).sample(np.zeros(3), np.random.default_rng(0)), "trials of 2 cases"),
        (lambda: Poisson().log_partition(np.zeros(1), np.zeros(1), -np.ones(1)), "variance must be >= 0"),
        (lambda: StudentT().log_partition(np.zeros(1), np.zeros(1), -np.ones(1)), "variance must be >= 0"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_new_likelihoods_are_those_of_scipy():
    t, f = np.array([0.2, 0.5, 0.9]), np.array([-3.0, 0.3, 2.0])
    mu, p = np.exp(f), 1.0 / (1.0 + np.exp(-f))
    np.testing.assert_allclose(Gamma(2.5).log_prob(t, f).value, stats.gamma.logpdf(t, 2.5, scale=mu / 2.5), rtol=1e-12)
    np.testing.assert_allclose(Beta(4.0).log_prob(t, f).value, stats.beta.logpdf(t, 4 * p, 4 * (1 - p)), rtol=1e-12)
    k = np.array([0.0, 1.0, 4.0])
    q = stats.nbinom.pmf(k, 2.0, 2.0 / (2.0 + mu))
    inflated = 0.3 * (k == 0) + 0.7 * q
    from_one = np.where(k > 0, q, 0.0) / (1.0 - stats.nbinom.pmf(0, 2.0, 2.0 / (2.0 + mu)))
    for likelihood, expected in (
        (ZeroInflated(NegativeBinomial(2.0), 0.3), inflated),
        (Hurdle(NegativeBinomial(2.0), 0.3), np.where(k == 0, 0.3, 0.7 * from_one)),
        (Truncated(NegativeBinomial(2.0)), from_one),
    ):
        np.testing.assert_allclose(np.exp(likelihood.log_prob(k, f).value), expected, rtol=1e-12)


@pytest.mark.parametrize(("t", "mean", "variance"), [(1, -40.0, 1e-2), (1, -3.0, 30.0), (3, 8.0, 0.5), (2, -30.0, 1.0)])
def test_tails_of_truncated_counts_are_exact(t, mean, variance):
    def prob(f, analytic):
        rate = f.exp()
        return (t * f - rate - arb(t + 1).lgamma()).exp() / -(-rate).expm1()

    sd = np.sqrt(variance)
    slope = t - 1.0 - 0.5 * np.exp(mean) if mean < 0 else t - np.exp(mean)
    mode = mean + variance * slope if mean < 0 else np.log(t) + 2.0
    expected = many_digits(prob, mean, variance, (mean, sd), (mode, sd), (0.0, 0.5))
    got = Truncated(Poisson()).log_partition(np.array([float(t)]), np.array([mean]), np.array([variance]))
    np.testing.assert_allclose(np.ravel(got), expected, rtol=1e-8, atol=1e-14)


def test_the_bend_of_a_proportion_has_its_digits_for_any_precision():
    """Its trigammas are a series of this package's, for time: those of SciPy are slow."""
    f = np.linspace(-40.0, 40.0, 81)
    for precision in (1e-3, 0.5, 3.0, 20.0, 1e4, 1e8):
        a, b = precision * expit(f), precision * expit(-f)
        bend = polygamma(1, 1.0 + a) + polygamma(1, 1.0 + b)
        slope = logit(0.3) - digamma(1.0 + a) + digamma(1.0 + b)
        both = expit(f) * expit(-f)
        wanted = both * (precision * (expit(-f) - expit(f)) * slope - 2.0 - precision**2 * both * bend)
        np.testing.assert_allclose(Beta(precision).log_prob(np.array(0.3), f).d2, wanted, rtol=1e-13)


def test_a_tilted_density_of_two_modes_is_integrated_whole():
    """Under a precise proportion far from what the others say, which is not log-concave."""
    for precision, mean, variance in ((10.0, -3.5, 0.127), (100.0, -8.5, 0.357), (1000.0, -7.0, 1e-3)):
        likelihood, at = Beta(precision), (np.array([0.9995]), np.array([mean]), np.array([variance]))
        rule, which = by_quadrature(likelihood, at[0])
        for got, wanted in zip(likelihood.log_partition(*at), rule.log_partition(which, *at[1:]), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-8)


def test_zeros_are_no_amounts_and_the_words_say_what_to_do():
    for likelihood, t, words in (
        (Gamma(1.0), [1.0, 0.0], "amounts > 0 for Gamma, got 0 at index 1.*Logit"),
        (Beta(1.0), [0.5, 1.0], "proportions > 0 and < 1 for Beta, got 1 at index 1.*Binomial"),
        (Truncated(Poisson()), [0.0, 2.0], "at least 1 for Truncated, got 0 at index 0.*Hurdle"),
        (Hurdle(Poisson(), 0.1), [0.5], "counts"),
    ):
        with pytest.raises(ValueError, match=words):
            likelihood.check_targets("y", np.array(t))
    for make, words in (
        (lambda: ZeroInflated(Gaussian(1.0), 0.2), "counts must be a likelihood of counts"),
        (lambda: ZeroInflated(Poisson(), 1.0), "probability must be a finite number > 0 and < 1"),
        (lambda: Hurdle(Binomial(3), 0.2).rest, "counts must be Poisson"),
        (lambda: Gamma(0.0), "shape must be"),
        (lambda: Beta(-1.0), "precision must be"),
    ):
        with pytest.raises(ValueError, match=words):
            make()


def test_enormous_rates_are_drawn():
    drawn = Poisson().sample(np.array([0.0, 40.0, 60.0]), np.random.default_rng(0))
    np.testing.assert_allclose(drawn[1:], np.exp([40.0, 60.0]), rtol=1e-6)


@pytest.mark.parametrize("likelihood", [Poisson(), NegativeBinomial(2.0)], ids=repr)
def test_counts_beyond_doubles_are_refused_and_those_near_zero_are_not(likelihood):
    for mean, variance in ((-1e5, 2000.0), (400.0, 0.0) if likelihood == Poisson() else (-400.0, 0.0), (-700.0, 900.0)):
        moments = likelihood.predictive_moments(np.array([mean]), np.array([variance]))
        assert np.all(np.isfinite(moments)), (mean, variance)
    with pytest.raises(UndefinedQuantityError, match=r"largest double in 1 of 2 cases.*is 517 ± 183"):
        likelihood.predictive_moments(np.array([0.0, 517.0]), np.array([1.0, 183.0**2]))
    with pytest.raises(UndefinedQuantityError, match="largest double"):
        Truncated(likelihood).predictive_moments(np.array([-130.0]), np.array([55.0**2]))
    with pytest.raises(UndefinedQuantityError, match="largest double"):
        likelihood.sample(np.array([0.0, 1725.0]), np.random.default_rng(1))


def test_a_gaussian_whose_width_is_lost_in_its_mean_is_no_valid_state():
    """A solver takes such a step back: the counts are not to blame."""
    for mean, sd in ((99.6493, 1.02e-13), (41.5116, 2.03e-10)):
        with pytest.raises(NotPositiveDefiniteError, match="a width that is lost in the rounding of its mean"):
            Poisson().log_partition(np.array([0.0]), np.array([mean]), np.array([sd**2]))


def test_a_dispersion_must_be_given():
    with pytest.raises(TypeError, match="dispersion"):
        NegativeBinomial()
