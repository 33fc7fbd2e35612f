"""Offsets and weights of cases through the door: laws, exact integrals, files, messages."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy.special import logsumexp

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Target
from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.scores import EvidenceScore
from bayesgp_mf.likelihoods import Binomial, Gaussian, NegativeBinomial, Poisson, StudentT
from bayesgp_mf.likelihoods.by_case import Powered, by_case
from bayesgp_mf.methods import get_method

RNG = np.random.default_rng(3)
X = RNG.uniform(-2.0, 2.0, (9, 1))
OFFSET, WEIGHTS = RNG.normal(0.0, 0.7, 9), np.array([1.0, 2.0, 0.5, 0.0, 3.0, 1.0, 1.3, 1.0, 2.0])
NEW, NEW_OFFSET = np.array([[-1.0], [0.3], [3.0]]), np.array([0.5, -1.0, 0.0])
LABELS, COUNTS, REAL = X[:, 0] + OFFSET > 0, RNG.poisson(np.exp(X[:, 0] + OFFSET)), X[:, 0] + 0.3 * OFFSET
KERNEL = bgp.kernels.Gaussian(1.0, 2.0) + bgp.kernels.Bias(0.5)
EXACT = bgp.Control(tolerance=1e-12)
TARGETS = {
    "probit": (bgp.Probit(0.5), LABELS),
    "logit": (bgp.Logit(), LABELS),
    "poisson": (Poisson(), COUNTS),
    "negative binomial": (NegativeBinomial(2.0), COUNTS),
    "binomial": (Binomial(np.arange(9) + 9), COUNTS),
    "gaussian": (Gaussian(0.3), REAL),
}


def quick(y, likelihood, inputs=X, **options):
    return bgp.fit(inputs, y, KERNEL, likelihood, **{"draws": 10, "chains": 1, "random_seed": 0, **options})


def said(idata, **options):
    return bgp.predict(idata, NEW, random_seed=1, **options)["predictions"]


@pytest.mark.parametrize("name", TARGETS)
@pytest.mark.parametrize("method", ["laplace", "tap"])
def test_weight_two_is_the_case_twice(name, method):
    """By Laplace under any likelihood, and under Gaussian noise by TAP, which is exact there."""
    likelihood, y = TARGETS[name]
    counted = np.array([1, 2, 1, 3, 1, 2, 1, 1, 1])
    once = quick(y, likelihood, method=method, weights=counted, control=EXACT)
    rows = np.repeat(np.arange(9), counted)
    many = Binomial((np.arange(9) + 9)[rows]) if name == "binomial" else likelihood
    twice = quick(np.asarray(y)[rows], many, X[rows], method=method, control=EXACT)
    first, second = (float(one["fit"]["log_evidence"]) for one in (once, twice))
    means = [said(one, draws=False)["latent_mean"].values for one in (once, twice)]
    sds = [said(one, draws=False)["latent_sd"].values for one in (once, twice)]
    if method == "laplace" or name == "gaussian":
        np.testing.assert_allclose(first, second, atol=1e-8)
        np.testing.assert_allclose(means[0], means[1], atol=1e-8)
        np.testing.assert_allclose(sds[0], sds[1], atol=1e-8)
        plain = quick(y, likelihood, method=method, control=EXACT)
        assert abs(float(plain["fit"]["log_evidence"]) - first) > 0.1  # a control: without weights
    else:  # one site for both, in place of two of which each sees the other's through a Gaussian
        assert 1e-7 < abs(first - second) < 0.1


def test_weight_zero_is_to_leave_the_case_out():
    left = np.flatnonzero(WEIGHTS)
    zero = quick(LABELS, bgp.Probit(), weights=np.sign(WEIGHTS), control=EXACT)
    without = quick(LABELS[left], bgp.Probit(), X[left], control=EXACT)
    np.testing.assert_allclose(zero["fit"]["log_evidence"], without["fit"]["log_evidence"], atol=1e-9)
    np.testing.assert_allclose(said(zero)["p"], said(without)["p"], atol=1e-9)
    assert zero["fit"]["loo_i"].values[3] == 0.0
    np.testing.assert_allclose(zero["fit"]["loo_i"].values[left], without["fit"]["loo_i"].values, atol=1e-9)


def test_weights_of_a_gaussian_are_the_noise_of_each_case():
    idata = quick(REAL, Gaussian(0.3), weights=WEIGHTS, offset=OFFSET, control=EXACT)
    there = np.flatnonzero(WEIGHTS)
    gram = KERNEL.gram(X[there]) + np.diag(0.3 / WEIGHTS[there])
    cross, y = KERNEL.cross(X[there], NEW), (REAL - OFFSET)[there]
    np.testing.assert_allclose(said(idata, offset=NEW_OFFSET)["latent_mean"], cross.T @ np.linalg.solve(gram, y))
    np.testing.assert_allclose(
        said(idata, offset=NEW_OFFSET)["latent_sd"].values ** 2,
        KERNEL.diag(NEW) - np.sum(cross * np.linalg.solve(gram, cross), axis=0),
    )
    np.testing.assert_allclose(
        said(idata, offset=NEW_OFFSET)["y_mean"], said(idata, offset=NEW_OFFSET)["latent_mean"] + NEW_OFFSET
    )
    assert float(idata["fit"]["log_evidence_correction"]) == 0.0  # nothing is left out


@pytest.mark.parametrize("method", ["tap", "laplace", "variational"])
def test_an_offset_under_gaussian_noise_moves_the_targets(method):
    added = quick(REAL, Gaussian(0.3), offset=OFFSET, method=method, control=EXACT)
    moved = quick(REAL - OFFSET, Gaussian(0.3), method=method, control=EXACT)
    np.testing.assert_allclose(added["fit"]["log_evidence"], moved["fit"]["log_evidence"], atol=1e-9)
    np.testing.assert_allclose(added["fit"]["latent_mean"], moved["fit"]["latent_mean"], atol=1e-9)
    np.testing.assert_allclose(added["fit"]["loo_i"], moved["fit"]["loo_i"], atol=1e-8)


@pytest.mark.parametrize("name", TARGETS)
def test_one_offset_for_all_is_a_prior_mean(name):
    likelihood, y = TARGETS[name]
    idata = quick(y, likelihood, offset=np.full(9, 0.7), control=EXACT)
    t = 2.0 * y - 1.0 if likelihood.targets == "binary" else np.asarray(y, dtype=float)
    problem = bgp.Problem(KERNEL.gram(X), t, by_case(likelihood, prior_mean=np.full(9, 0.7)))
    solution = bgp.solve(problem.gram, t, problem.likelihood, control=EXACT)
    prior = bgp.Posterior(KERNEL, X, problem, solution, mean=lambda inputs: np.full(len(inputs), 0.7))
    np.testing.assert_allclose(idata["fit"]["log_evidence"], prior.log_evidence, atol=1e-9)
    np.testing.assert_allclose(said(idata, offset=np.full(3, 0.7))["latent_mean"] + 0.7, prior.latent_mean(NEW))
    np.testing.assert_allclose(idata["fit"]["loo_i"], prior.loo.log_density, atol=1e-9)
    if likelihood.targets == "binary":
        np.testing.assert_allclose(said(idata, offset=np.full(3, 0.7))["p"], prior.predict_proba(NEW))


def on_a_grid(likelihood, t, offset, weights, gram):
    """Return log evidence, and the mean of f, of three cases by a product rule of many nodes in whitened values."""
    nodes, mass = np.polynomial.hermite_e.hermegauss(70)
    u = np.stack([axis.ravel() for axis in np.meshgrid(nodes, nodes, nodes)])
    f = np.linalg.cholesky(gram) @ u
    log_mass = np.log(mass[:, None, None] * mass[:, None] * mass / (2.0 * np.pi) ** 1.5).ravel()
    each = np.array([weights[i] * likelihood.log_prob(t[i], f[i] + offset[i]).value for i in range(3)])
    total = log_mass + each.sum(axis=0)
    log_z = logsumexp(total)
    return log_z, np.exp(total - log_z) @ f.T


@pytest.mark.parametrize(
    ("likelihood", "t", "weights"),
    [
        (Poisson(), np.array([2.0, 0.0, 5.0]), np.ones(3)),
        (Poisson(), np.array([2.0, 0.0, 5.0]), np.array([2.0, 0.4, 1.0])),
        (bgp.Logit(), np.array([1.0, -1.0, 1.0]), np.array([2.0, 0.4, 3.0])),
        (bgp.Probit(0.5), np.array([1.0, -1.0, 1.0]), np.array([2.0, 0.4, 3.0])),
    ],
)
def test_evidence_and_means_against_exact_integrals(likelihood, t, weights):
    exposure, gram = np.array([1.0, 0.5, 4.0]), KERNEL.gram(X[:3])
    exact, mean = on_a_grid(likelihood, t, np.log(exposure), weights, gram)
    y = t > 0 if likelihood.targets == "binary" else t
    idata = quick(y, likelihood, X[:3], offset=np.log(exposure), weights=weights)
    fit = idata["fit"]
    evidence, correction = float(fit["log_evidence"]), float(fit["log_evidence_correction"])
    off = abs(evidence - exact)
    assert abs(evidence + correction - exact) < 2.0 * float(fit["log_evidence_remaining"]) < 2e-3
    assert off < 1e-3 or abs(evidence + correction - exact) < 0.2 * off
    np.testing.assert_allclose(fit["latent_mean"], mean, atol=0.02)
    without = on_a_grid(likelihood, t, np.zeros(3), np.ones(3), gram)[0]
    assert abs(without - exact) > 0.1  # a control


def test_corrected_probabilities_are_ratios_of_exact_evidences():
    """A new label counts once, at its own offset."""
    likelihood, gram = bgp.Probit(0.5), KERNEL.gram(X[:3])
    offset, weights = np.array([0.4, -0.6, 1.1]), np.array([2.0, 0.6, 1.0])
    idata = bgp.fit(X[:2], [True, False], KERNEL, likelihood, offset=offset[:2], weights=weights[:2], draws=2)
    evidence = [on_a_grid(likelihood, np.array([1.0, -1.0, sign]), offset, weights, gram)[0] for sign in (1.0, -1.0)]
    exact = 1.0 / (1.0 + np.exp(evidence[1] - evidence[0]))
    p = bgp.predict(idata, X[2:3], offset=offset[2:])["predictions"]["p"].values[0]
    corrected = bgp.predict(idata, X[2:3], offset=offset[2:], corrected=True)["predictions"]["p"].values[0]
    assert abs(corrected - exact) < 0.3 * abs(p - exact) or abs(corrected - exact) < 1e-6
    assert abs(p - exact) < 0.01
    missed = bgp.predict(idata, X[2:3], offset=[0.0], corrected=True)["predictions"]["p"].values[0]
    assert abs(missed - exact) > 0.05  # a control


@pytest.mark.parametrize("name", ["probit", "poisson"])
@pytest.mark.parametrize("method", ["tap", "laplace"])
def test_gradients_of_the_evidence_with_offset_and_weights(name, method):
    likelihood, y = TARGETS[name]
    t = 2.0 * y - 1.0 if likelihood.targets == "binary" else np.asarray(y, dtype=float)
    target = Target(X, t, by_case(likelihood, OFFSET, WEIGHTS), KERNEL, get_method(method), EXACT)
    objective = Objective(target, EvidenceScore())
    gradient = objective(target.start)[1]
    for i, direction in enumerate(np.eye(target.start.size) * 1e-4):
        above, below = (objective.value(target.start + s * direction) for s in (1.0, -1.0))
        np.testing.assert_allclose(gradient[i], (above - below) / 2e-4, atol=1e-6)
    plain = Objective(Target(X, t, likelihood, KERNEL, get_method(method), EXACT), EvidenceScore())
    assert np.abs(plain(target.start)[1] - gradient).max() > 1e-2  # a control


@pytest.mark.parametrize("name", ["probit", "poisson", "gaussian"])
def test_other_forms_of_the_gram_matrix_give_the_dense_fit(name):
    """Inducing cases at all inputs, and a root of low rank of a smooth prior."""
    likelihood, rng = TARGETS[name][0], np.random.default_rng(1)
    inputs, offset, weights = np.linspace(-2.0, 2.0, 40)[:, None], rng.normal(0.0, 0.5, 40), rng.integers(0, 3, 40)
    t = likelihood.sample(inputs[:, 0] + offset, rng)
    y = t > 0 if likelihood.targets == "binary" else t
    given = {"draws": 2, "chains": 1, "offset": offset, "weights": weights}

    def solved(**options):
        return bgp.fit(inputs, y, bgp.kernels.Gaussian(3.0, 2.0), likelihood, **given, **options)

    dense = solved(control=bgp.Control(gram="dense"))
    for other in (solved(inducing=inputs[::3]), solved(control=bgp.Control(gram="low_rank"))):
        np.testing.assert_allclose(other["fit"]["log_evidence"], dense["fit"]["log_evidence"], atol=1e-4)
        np.testing.assert_allclose(
            said(other, offset=NEW_OFFSET)["latent_mean"], said(dense, offset=NEW_OFFSET)["latent_mean"], atol=1e-3
        )


def test_a_search_on_some_cases_takes_their_own_offsets_and_weights():
    target = Target(X, COUNTS.astype(float), by_case(Poisson(), OFFSET, WEIGHTS), KERNEL, get_method("tap"))
    rows = np.array([7, 2, 4])
    part = target.of_cases(rows)
    some = part.problem_at(part.model)
    alone = bgp.solve(some.gram, COUNTS[rows].astype(float), by_case(Poisson(), OFFSET[rows], WEIGHTS[rows]))
    assert alone.evidence.value == bgp.solve(some.gram, some.t, some.likelihood).evidence.value


def test_a_changed_weight_is_noticed():
    idata = quick(COUNTS, Poisson(), offset=OFFSET, weights=WEIGHTS)
    idata["constant_data"]["weights"].values[1] = 1.0
    with pytest.raises(ValueError, match="weights in the group constant_data was changed"):
        bgp.predict(idata, NEW, offset=NEW_OFFSET)


def test_pointwise_log_likelihoods_and_leave_one_out_are_those_of_the_power():
    idata = quick(COUNTS, Poisson(), offset=OFFSET, weights=WEIGHTS, control=EXACT)
    f = idata["posterior"]["f"].values
    once = Poisson().log_prob(COUNTS.astype(float), f + OFFSET).value
    np.testing.assert_allclose(idata["log_likelihood"]["y"], WEIGHTS * once)
    process = bgp.posterior(idata)
    refitted = bgp.diagnostics.exact_loo(process.problem, control=EXACT)
    fit, power = idata["fit"], by_case(Poisson(), OFFSET, WEIGHTS)
    left_out = power.log_partition(COUNTS.astype(float), fit["cavity_mean"].values, fit["cavity_sd"].values ** 2)
    np.testing.assert_allclose(fit["loo_i"], left_out.value, atol=1e-10)
    np.testing.assert_allclose(process.loo.log_density, fit["loo_i"], atol=1e-10)
    left = np.delete(np.arange(9), 4)
    others = quick(COUNTS[left], Poisson(), X[left], offset=OFFSET[left], weights=WEIGHTS[left], control=EXACT)
    mean, variance = bgp.posterior(others).latent(X[4:5])
    expected = by_case(Poisson(), OFFSET[4:5], WEIGHTS[4:5]).log_partition(np.array([float(COUNTS[4])]), mean, variance)
    np.testing.assert_allclose(refitted.log_density[4], expected.value[0], atol=1e-9)


def test_new_counts_are_at_their_own_exposure_and_count_once():
    idata = quick(COUNTS, Poisson(), offset=OFFSET, weights=WEIGHTS, draws=4000)
    one, other = (said(idata, offset=NEW_OFFSET + shift) for shift in (0.0, np.log(3.0)))
    np.testing.assert_allclose(other["y_mean"], 3.0 * one["y_mean"])
    np.testing.assert_array_equal(one["latent_mean"], other["latent_mean"])
    drawn = one["y"].values[0]
    np.testing.assert_allclose(drawn.mean(axis=0), one["y_mean"], atol=5.0 * drawn.std(axis=0).max() / 60.0)


def test_new_cases_have_their_own_trials():
    idata = quick(COUNTS, Binomial(np.arange(9) + 9), draws=500, offset=OFFSET)
    once, many = said(idata, offset=NEW_OFFSET), said(idata, offset=NEW_OFFSET, trials=[2, 5, 10])
    np.testing.assert_allclose(many["y_mean"], once["y_mean"] * [2.0, 5.0, 10.0])
    assert many["y"].values[..., 0].max() <= 2.0 < many["y"].values[..., 2].max()
    same = said(idata, offset=NEW_OFFSET, trials=5)["y_mean"].values
    np.testing.assert_allclose(same[1], many["y_mean"].values[1])


def test_an_average_over_hyperparameters_has_offsets_and_weights():
    idata = quick(
        LABELS,
        bgp.Probit(),
        offset=OFFSET,
        weights=WEIGHTS,
        hyper="integrate",
        fixed=["gaussian_variance", "bias_variance"],
        priors={"gaussian_lengthscale": bgp.hyper.LogNormal(0.0, 0.3)},
    )
    parts = bgp.posterior(idata).parts
    assert len(parts) > 1
    expected = np.zeros(3)
    for part, weight in zip(parts, bgp.posterior(idata).weights, strict=True):
        mean, variance = part.latent(NEW)
        expected += weight * bgp.Probit().predict_proba(mean + NEW_OFFSET, variance)
    np.testing.assert_allclose(said(idata, offset=NEW_OFFSET)["p"], expected)


with np.errstate(divide="ignore"):
    NO_EXPOSURE = np.log(np.r_[1.0, 0.0, np.ones(7)])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": -WEIGHTS}, "weights must be >= 0, got -1 at index 0"),
        ({"weights": 0.0 * WEIGHTS}, "weights must not all be zero"),
        ({"weights": WEIGHTS[:4]}, r"weights must have shape \(9,\).*got \(4,\)"),
        ({"weights": np.r_[np.nan, WEIGHTS[1:]]}, "weights must be finite"),
        ({"weights": 2.0}, r"np\.full\(9, weights\)"),
        ({"offset": OFFSET[:, None]}, r"offset must have shape \(9,\)"),
        ({"offset": NO_EXPOSURE}, "offset is -inf at index 1.*exposure 0"),
        ({"offset": np.r_[np.inf, OFFSET[1:]]}, "offset must be finite"),
        ({"offset": ["a"] * 9}, "offset must hold numbers"),
        ({"offset": OFFSET, "likelihood": bgp.Step()}, "an offset goes with a likelihood that forbids no"),
        ({"weights": WEIGHTS, "likelihood": bgp.Step()}, "step without flips"),
        ({"weights": WEIGHTS, "likelihood": bgp.Softmax()}, "weights of several classes go with"),
        ({"offset": OFFSET, "weights": WEIGHTS, "method": "exact"}, "got Probit with weights and offset"),
    ],
)
def test_what_is_malformed_is_said(options, message):
    with pytest.raises((ValueError, bgp.UndefinedQuantityError), match=message):
        quick(LABELS, **{"likelihood": bgp.Probit(), **options})


def test_a_series_of_other_cases_is_refused():
    frame = pd.DataFrame(X, index=list("abcdefghi"))
    with pytest.raises(
        ValueError, match=r"X and weights have the same index in another order.*weights\.loc\[X\.index\]"
    ):
        quick(LABELS, bgp.Probit(), frame, weights=pd.Series(WEIGHTS, index=list("ihgfedcba")))
    with pytest.raises(ValueError, match=r"X and offset are of different cases"):
        quick(LABELS, bgp.Probit(), frame, offset=pd.Series(OFFSET, index=list("cdefghijk")))


def test_what_is_missing_or_not_wanted_of_new_cases_is_said():
    plain, with_offset = quick(COUNTS, Poisson()), quick(COUNTS, Poisson(), offset=OFFSET)
    with pytest.raises(ValueError, match=r"offset is missing.*a number for each row of X_new"):
        bgp.predict(with_offset, NEW)
    with pytest.raises(ValueError, match=r"offset must have shape \(3,\), a number for each row of X_new"):
        bgp.predict(with_offset, NEW, offset=OFFSET)
    one, each = (bgp.predict(with_offset, NEW, offset=b, random_seed=1)["predictions"] for b in (0.5, [0.5] * 3))
    assert one.equals(each)
    with pytest.raises(ValueError, match="this fit has no offset"):
        bgp.predict(plain, NEW, offset=NEW_OFFSET)
    with pytest.raises(ValueError, match=r"likelihoods\.Binomial"):
        bgp.predict(plain, NEW, trials=3)
    binomial = quick(COUNTS, Binomial(20))
    with pytest.raises(ValueError, match="whole number"):
        bgp.predict(binomial, NEW, trials=[1.5, 2, 2])


def test_student_noise_takes_weights():
    """Its powers are Student's t again: weight 2 twice the case by Laplace's method, too."""
    idata = quick(REAL, StudentT(0.5, 4.0), weights=np.full(9, 2.0), method="laplace", control=EXACT)
    twice = quick(np.tile(REAL, 2), StudentT(0.5, 4.0), np.tile(X, (2, 1)), method="laplace", control=EXACT)
    np.testing.assert_allclose(idata["fit"]["log_evidence"], twice["fit"]["log_evidence"], atol=1e-8)


def test_a_process_prints_what_it_has_of_cases():
    idata = quick(LABELS, bgp.Probit(), offset=OFFSET, weights=WEIGHTS)
    assert "Probit(noise_variance=1.0, flip=0.0) with weights and offset" in repr(bgp.posterior(idata))


def test_weights_of_each_case_are_those_of_one_weight_at_a_time():
    """Different weights at once: each case says what it says with that weight alone, and so do its derivatives."""
    likelihood, weights = Gaussian(0.3), np.array([0.5, 1.0, 2.0, 0.0, 3.5, 2.0, 1.0, 0.25, 1e3])
    mean, variance = 0.1 * REAL, np.linspace(0.0, 2.0, 9)
    together = by_case(likelihood, weights=weights)
    numeric = Powered(likelihood, np.maximum(weights, 1e-3))
    some = weights > 0
    found = together.log_partition(REAL, mean, variance)
    for value, expected in zip(found, numeric.log_partition(REAL, mean, variance), strict=True):
        np.testing.assert_allclose(value[some], expected[some], rtol=1e-9)
        assert value[3] == 0.0
    at = "noise_variance", REAL, mean, variance
    for value, expected in zip(together.parameter_derivative(*at), numeric.parameter_derivative(*at), strict=True):
        np.testing.assert_allclose(value[some], expected[some], rtol=1e-8)
    one_by_one = [by_case(likelihood, weights=weights[k : k + 1]) for k in range(9)]
    np.testing.assert_allclose(
        found.value,
        [
            one.log_partition(*(a[k : k + 1] for a in (REAL, mean, variance))).value[0]
            for k, one in enumerate(one_by_one)
        ],
    )
    precision, shift = together.known_sites(REAL, 0.0)
    np.testing.assert_allclose([precision, shift], [weights / 0.3, weights * REAL / 0.3])


@pytest.mark.parametrize("likelihood", [Gaussian(0.3), StudentT(0.4, 4.0)], ids=["gaussian", "student"])
def test_noise_has_a_best_value_of_none_where_cases_count_for_more_than_one(likelihood):
    """Of one case of weight w the evidence rises as s^(1 - w) when its noise of standard deviation s vanishes."""
    (name,) = likelihood.of_one_case.unbounded_if_weighted
    for weight in (1.0, 3.0):
        at = []
        for s in (1e-3, 1e-4):
            narrow = likelihood.with_parameters(**{name: s**2 if name == "noise_variance" else s})
            weighed = by_case(narrow, weights=np.array([weight]))
            at.append(bgp.solve([[1.0]], [0.5], weighed).evidence.value)
        assert at[1] - at[0] == pytest.approx((weight - 1.0) * np.log(10.0), abs=1e-3)


def test_noise_that_is_tuned_under_weights_is_warned_of():
    kept = {"hyper": "evidence", "fixed": ["gaussian_lengthscale", "gaussian_variance", "bias_variance"]}
    with pytest.warns(bgp.BoundWarning, match="noise_variance is tuned: copies of one target") as said:
        quick(REAL, Gaussian(0.3), weights=np.full(9, 2.0), **kept)
    assert "Divide the weights by their mean" in str(said[0].message)
    for given in ({"priors": {"noise_variance": bgp.hyper.LogNormal(-1.0, 1.0)}}, {"weights": np.ones(9)}):
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="(?!.*copies of one target)")  # those that are meant are errors
            quick(REAL, Gaussian(0.3), **{"weights": np.full(9, 2.0), **kept, **given})


@pytest.mark.parametrize("likelihood", [lambda s: bgp.Probit(0.3 * s, 0.05), lambda s: bgp.Step(0.05)])
def test_weights_of_flips_do_not_ask_for_the_unit_of_latent_values(likelihood):
    """Their powers are integrated, at any width; of a step the integral of one case is known."""

    def fitted(unit):
        options = {"weights": WEIGHTS, "control": EXACT, "draws": 1, "chains": 1, "random_seed": 0}
        return bgp.fit(X, LABELS, bgp.kernels.Matern32(1.0, unit), likelihood(unit), **options)["fit"]

    one = fitted(1.0)
    for unit in (1e-5, 1e-7, 1e-12, 1e8):
        other = fitted(unit)
        assert float(other["log_evidence"]) == pytest.approx(float(one["log_evidence"]), abs=1e-6)
        np.testing.assert_allclose(other["latent_mean"] / np.sqrt(unit), one["latent_mean"], atol=1e-6)


@pytest.mark.parametrize("variance", [1e-8, 1e-5, 1.0])
def test_a_step_that_weighs_much_halves_the_gaussian(variance):
    kernel = bgp.kernels.White(variance)
    idata = bgp.fit([[0.0], [1.0]], [1, 0], kernel, bgp.Step(0.05), weights=[1000.0, 1.0], draws=1, chains=1)
    assert float(idata["fit"]["latent_mean"][0]) == pytest.approx(np.sqrt(2.0 * variance / np.pi), rel=1e-9)


def test_binomial_counts_of_many_trials_and_large_weights_have_their_width():
    likelihood = bgp.Binomial(10**6)
    idata = bgp.fit([[0.0]], [5 * 10**5], bgp.kernels.White(1e-8), likelihood, weights=[1e6], draws=1, chains=1)
    precision = 1e8 + 0.25e12
    assert float(idata["fit"]["latent_sd"][0]) == pytest.approx(precision**-0.5, rel=1e-6)
