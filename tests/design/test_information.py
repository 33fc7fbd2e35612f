"""Information against brute-force integrals, nested Monte Carlo, and what is known of limits."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import entr, ndtr
from scipy.stats import multivariate_normal, norm

import bayesgp_mf as bgp
from bayesgp_mf.design import batch, information, look_ahead
from bayesgp_mf.design.beliefs import Belief, outcomes_of
from bayesgp_mf.design.information import Question
from bayesgp_mf.errors import UndefinedQuantityError

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (40, 2))
Y = X[:, 0] + X[:, 1] + RNG.standard_normal(40) > 0
NEW = RNG.uniform(-3.0, 3.0, (4, 2))
AT = RNG.uniform(-3.0, 3.0, (3, 2))
KERNEL = bgp.kernels.Gaussian(1.0, 9.0) + bgp.kernels.Bias()
FEW = {"draws": 2, "chains": 1, "random_seed": 1}
BINARY = [bgp.Probit(), bgp.Probit(flip=0.03), bgp.Probit(0.05), bgp.Step(flip=0.1), bgp.Logit()]


def fitted(likelihood, kernel=KERNEL, y=Y, **options):
    return bgp.fit(X, y, kernel, likelihood, **FEW, **options)


def targets_of(likelihood):
    rng = np.random.default_rng(1)
    if likelihood.is_binary:
        return Y
    return rng.integers(0, 3, 40) if likelihood.n_levels else rng.poisson(1.0, 40)


def two(p):
    return entr(p) + entr(1.0 - p)


@pytest.mark.parametrize("likelihood", BINARY, ids=repr)
def test_labels_tell_what_adaptive_quadrature_says(likelihood):
    idata = fitted(likelihood)
    mean, variance = bgp.posterior(idata).latent(NEW)
    before = two(likelihood.predict_proba(mean, variance))
    left = []
    for m, s in zip(mean, np.sqrt(variance), strict=True):

        def given(f, m=m, s=s):
            return two(likelihood.predict_proba(np.array([f]), np.zeros(1))[0]) * norm.pdf(f, m, s)

        ends = sorted({m - 12 * s, min(max(0.0, m - 12 * s), m + 12 * s), m + 12 * s})  # a step jumps at zero
        left.append(sum(quad(given, a, b, epsabs=1e-13, limit=400)[0] for a, b in itertools.pairwise(ends)))
    assert information(idata, NEW) == pytest.approx(before - left, abs=1e-9)


@pytest.mark.parametrize("likelihood", [bgp.Poisson(), bgp.Ordinal([-1.0, 1.0])], ids=repr)
def test_counts_and_levels_tell_what_draws_say(likelihood):
    idata = fitted(likelihood, bgp.kernels.Gaussian(1.0, 0.5), targets_of(likelihood))
    mean, variance = bgp.posterior(idata).latent(NEW)
    t = np.arange(40.0 if likelihood.whole_targets else 3.0)[:, None]
    rng = np.random.default_rng(2)
    for m, v, found in zip(mean, variance, information(idata, NEW), strict=True):
        f = m + np.sqrt(v) * rng.standard_normal(20_000)
        p = np.exp(likelihood.log_prob(t, f[None]).value)
        each = entr(p).sum(axis=0)
        assert found == pytest.approx(entr(p.mean(axis=1)).sum() - each.mean(), abs=0.01)


def test_measurements_tell_half_a_logarithm():
    noise = bgp.likelihoods.Gaussian(0.1)
    idata = fitted(noise, y=X[:, 0])
    variance = bgp.posterior(idata).latent(NEW)[1]
    assert information(idata, NEW) == pytest.approx(0.5 * np.log1p(variance / 0.1), abs=1e-12)


def test_offsets_and_averages_count():
    counts = targets_of(bgp.Poisson())
    idata = bgp.fit(X, counts, bgp.kernels.Gaussian(1.0, 0.5), bgp.Poisson(), offset=np.zeros(40), **FEW)
    low, high = (information(idata, NEW, offset=offset) for offset in (0.0, 2.0))
    assert np.all(high > low)  # a longer exposure tells more
    averaged = fitted(bgp.Probit(), hyper="integrate")
    parts = bgp.posterior(averaged)
    known = np.sum([w * information(part, NEW) for w, part in zip(parts.weights, parts.parts, strict=True)], axis=0)
    assert np.all(information(averaged, NEW) > known)  # beside the function it tells of the hyperparameters


@pytest.mark.parametrize(("likelihood", "tolerance"), [(bgp.Probit(flip=0.03), 1e-5), (bgp.Logit(), 2e-3)], ids=repr)
def test_a_level_is_told_of_as_an_integral_says(likelihood, tolerance):
    idata = fitted(likelihood)
    mean, covariance = bgp.posterior(idata).joint_at(np.concatenate([NEW, AT]))
    level = brentq(lambda f: likelihood.predict_proba(np.array([f]), np.zeros(1))[0] - 0.75, 0.0, 9.0)
    expected = np.zeros(4)
    for i in range(4):
        sd = np.sqrt(covariance[i, i])
        f = mean[i] + sd * np.linspace(-9, 9, 2001)
        weight = norm.pdf(f, mean[i], sd) * (f[1] - f[0])
        p = likelihood.predict_proba(f, np.zeros_like(f))
        for j in range(4, 7):
            slope = covariance[i, j] / covariance[i, i]
            left = np.sqrt(covariance[j, j] - slope * covariance[i, j])
            above = ndtr((mean[j] + slope * (f - mean[i]) - level) / left)
            cells = [np.sum(weight * a * b) for a in (p, 1 - p) for b in (above, 1 - above)]
            expected[i] += two(np.sum(weight * p)) + two(np.sum(weight * above)) - entr(cells).sum()
    assert information(idata, NEW, "level", level=0.75, at=AT) == pytest.approx(expected / 3, abs=tolerance)


@pytest.mark.parametrize("likelihood", [bgp.likelihoods.Gaussian(0.5), bgp.Probit(flip=0.03), bgp.Poisson()], ids=repr)
def test_candidates_tell_of_a_level_what_each_tells_alone(likelihood):
    y, offset = (Y, np.zeros(30)) if likelihood.is_binary else (targets_of(likelihood), np.linspace(-0.5, 0.5, 30))
    idata = fitted(likelihood, KERNEL.replace(gaussian_variance=1.0), y, offset=np.zeros(40))
    many, at = RNG.uniform(-2.0, 2.0, (30, 2)), RNG.uniform(-2.0, 2.0, (1200, 2))  # several blocks
    goal = {"about": "level", "level": 0.6, "at": at}
    alone = [information(idata, many[[k]], **goal, offset=offset[[k]]) for k in range(30)]
    assert information(idata, many, **goal, offset=offset) == pytest.approx(np.ravel(alone), rel=1e-6, abs=1e-12)


def test_two_signs_have_the_probability_of_a_quadrant():
    from bayesgp_mf.design.information import _both_positive

    rng = np.random.default_rng(1)
    h, k, rho = *rng.normal(size=(2, 12)), np.tanh(rng.normal(size=12))
    h[:2], k[1:3] = 0.0, 0.0
    exact = [multivariate_normal([0, 0], [[1, r], [r, 1]]).cdf([a, b]) for a, b, r in zip(h, k, rho, strict=True)]
    assert _both_positive(h, k, rho) == pytest.approx(exact, abs=1e-12)
    assert _both_positive(np.array([0.3]), np.array([0.3]), np.ones(1)) == pytest.approx(ndtr(0.3))  # one value twice


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Ordinal([-1.0, 1.0])], ids=repr)
def test_the_maximum_is_told_of_as_nested_draws_say(likelihood):
    idata = fitted(likelihood, y=targets_of(likelihood))
    mean, covariance = bgp.posterior(idata).joint_at(NEW)
    f = np.random.default_rng(3).multivariate_normal(mean, covariance, size=100_000)
    place = f.argmax(axis=1)
    outcomes = [-1.0, 1.0] if likelihood.is_binary else [0.0, 1.0, 2.0]
    p = np.exp([likelihood.log_prob(np.full_like(f, t), f).value for t in outcomes])
    expected = entr(p.mean(axis=1)).sum(axis=0)
    for z in np.unique(place):
        expected -= np.mean(place == z) * entr(p[:, place == z].mean(axis=1)).sum(axis=0)
    found = np.array([information(idata, NEW, "maximum", draws=500, random_seed=seed) for seed in range(40)])
    error = found.std(axis=0) / np.sqrt(40)
    assert np.all(np.abs(found.mean(axis=0) - expected) < 4 * error + 2e-3)
    assert np.all(np.abs(information(idata, NEW, "maximum", at=NEW, random_seed=1) - expected) < 0.02)


def test_few_draws_say_no_more_about_the_maximum_than_many():
    """Without the correction of the bias they say 0.016 nats more."""
    idata, some = fitted(bgp.Probit()), np.random.default_rng(5).uniform(-3.0, 3.0, (12, 2))
    few = [information(idata, some, "maximum", draws=100, random_seed=seed) for seed in range(60)]
    assert np.mean(few) == pytest.approx(
        np.mean(information(idata, some, "maximum", draws=50_000, random_seed=1)), abs=0.005
    )


def test_which_model_holds():
    straight = bgp.kernels.Linear() + bgp.kernels.Bias()
    fits = {"smooth": fitted(bgp.Probit()), "straight": fitted(bgp.Probit(), straight)}
    both = bgp.combine(fits, weights=[0.3, 0.7], random_seed=1)
    a, b = (bgp.posterior(idata).predict_proba(NEW) for idata in fits.values())
    expected = two(0.3 * a + 0.7 * b) - 0.3 * two(a) - 0.7 * two(b)
    assert information(both, NEW, "models") == pytest.approx(expected, abs=1e-12)
    with pytest.raises(UndefinedQuantityError, match=r"this is one\. Pass bgp\.combine"):
        information(fits["smooth"], NEW, "models")


def test_batches_spread_and_take_the_best_first():
    idata = fitted(bgp.Probit())
    crowd = np.concatenate([np.full((3, 2), 6.0) + 0.01 * RNG.standard_normal((3, 2)), [[-6.0, -6.0]], NEW])
    chosen = batch(idata, crowd, 2)
    assert chosen[0] == np.argmax(information(idata, crowd))
    assert (chosen[1] == 3) == (chosen[0] < 3)  # the far side, and not the neighbour of the first
    exact = fitted(bgp.likelihoods.Gaussian(0.1), y=X[:, 0])
    first = batch(exact, crowd, 2)
    grown = bgp.fit(
        np.concatenate([X, crowd[first[:1]]]), np.append(X[:, 0], 0.0), KERNEL, bgp.likelihoods.Gaussian(0.1), **FEW
    )
    assert first[1] == np.argmax(information(grown, crowd))  # where a measurement's value does not matter


def test_duels_are_candidates():
    duels = bgp.duels.Duels(["Ann", "Ann", "Bob"], ["Bob", "Cy", "Cy"])
    idata = bgp.fit(duels.X, duels.y, duels.kernel(), **FEW)
    cases = duels.cases(["Ann", "Ann", "Dan"], ["Bob", "Cy", "Eve"])
    found = information(idata, cases)
    assert np.argmax(found) == 2  # of both nothing is known
    items = cases.drop_duplicates("item").assign(kind="item")
    assert information(idata, cases, "maximum", at=items, random_seed=1).shape == (3,)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"about": "label"}, "about must be 'labels', 'maximum', 'level' or 'models', got 'label'"),
        ({"about": "level"}, "level is what about='level' asks for"),
        ({"level": 0.5}, "level is what about='level' asks for"),
        ({"about": "level", "level": 0.01}, r"Probit can have, between 0\.03 and 0\.97, got 0\.01"),
        ({"about": "level", "level": "high"}, "level must be a number, got 'high'"),
        ({"at": AT}, "at says where a level or a maximum is looked for, and about='labels' has none"),
        ({"draws": 0}, "draws must be a positive integer"),
        ({"candidates": NEW[:, :1]}, "candidates has 1 columns"),
        ({"about": "maximum", "at": AT[:, :1]}, "at has 1 columns"),
        ({"about": "maximum", "at": np.zeros((5000, 2))}, "at most 5000 rows together"),
        ({"offset": 1.0}, "this fit has no offset"),
    ],
)
def test_bad_arguments_are_named(options, message):
    idata = fitted(bgp.Probit(flip=0.03))
    with pytest.raises(ValueError, match=message):
        information(idata, **{"candidates": NEW, **options})


def test_what_has_no_information_says_so():
    with pytest.raises(UndefinedQuantityError, match="with Gaussian noise, and the likelihood is StudentT"):
        information(fitted(bgp.StudentT(4.0, 1.0), y=X[:, 0]), NEW)
    with pytest.raises(UndefinedQuantityError, match="several classes"):
        information(fitted(bgp.Softmax(), y=np.arange(40) % 3), NEW)
    loud = bgp.fit(X, targets_of(bgp.Poisson()), KERNEL, bgp.Poisson(), offset=np.zeros(40), **FEW)
    with pytest.raises(UndefinedQuantityError, match="counts of candidates may be as large as"):
        information(loud, NEW, offset=9.0)


def test_tables_are_candidates():
    frame = pd.DataFrame(X, columns=["a", "b"])
    idata = bgp.fit(frame, Y, KERNEL, **FEW)
    new = pd.DataFrame(NEW, columns=["a", "b"], index=list("pqrs"))
    assert information(idata, new) == pytest.approx(information(fitted(bgp.Probit()), NEW))
    with pytest.raises(ValueError, match="candidates has columns"):
        information(idata, new.rename(columns={"a": "A"}))


@pytest.mark.parametrize("flip", [0.0, 0.03])
@pytest.mark.parametrize("sd", [1e-3, 1.0, 40.0, 1000.0])
def test_labels_tell_the_same_however_wide_the_prior_is(sd, flip):
    likelihood, means = bgp.Probit(flip=flip), sd * np.array([0.0, 0.09375, 0.5, 2.0])  # 0.09375: once a node fell at 0
    given = []
    for m in means:
        low, high = m - 9 * sd, m + 9 * sd
        ends = np.unique(np.clip(np.r_[np.linspace(-10, 10, 21), np.linspace(low, high, 19)], low, high))
        left = [
            quad(lambda f, m=m: two(flip + (1 - 2 * flip) * ndtr(f)) * norm.pdf(f, m, sd), a, b, epsabs=1e-14)[0]
            for a, b in itertools.pairwise(ends)
        ]
        given.append(two(flip + (1 - 2 * flip) * ndtr(m / np.sqrt(sd**2 + 1))) - sum(left))
    belief = Belief(likelihood, means, np.full(4, sd**2))
    assert Question.of("labels", None, 1, 0, likelihood).score([belief], outcomes_of([belief], 4)) == pytest.approx(
        np.array(given), abs=1e-12
    )


def test_measurements_of_the_maximum_have_no_bias_of_few_draws_and_no_origin():
    x, likelihood = np.linspace(0.0, 1.0, 300), bgp.likelihoods.Gaussian(0.1)
    covariance = 4.0 * np.exp(-0.5 * ((x[:, None] - x) / 0.02) ** 2)

    def found(mean, draws):
        belief = Belief(likelihood, np.full(300, mean), covariance.diagonal(), covariance)
        return Question.of("maximum", None, draws, 1, likelihood).score([belief], outcomes_of([belief], 300))

    few = found(0.0, 2000)  # about seven for each place
    assert few.mean() == pytest.approx(found(0.0, 60_000).mean(), abs=0.02)
    assert found(1e8, 2000) == pytest.approx(few, abs=1e-4)


def test_candidates_have_trials_of_their_own():
    likelihood = bgp.Binomial(np.full(40, 5))
    idata = fitted(likelihood, y=np.random.default_rng(1).binomial(5, 0.5, 40))
    several = information(idata, NEW, trials=[5, 7, 5, 1])
    for j, trials in enumerate((5, 7, 5, 1)):
        assert several[j] == pytest.approx(information(idata, NEW[[j]], trials=[trials])[0], abs=1e-9)
    level = {"about": "level", "level": 0.0, "at": AT}
    assert np.isfinite(information(idata, NEW, trials=[5, 7, 5, 1], **level)).all()
    ahead = look_ahead(idata, NEW, AT, trials=[5, 7, 5, 1])
    assert ahead.probability.sum(axis=0) == pytest.approx(np.ones(4))
    assert ahead.probability[2:, 3].tolist() == [0.0] * 6
    assert np.isfinite(ahead.mean).all()
