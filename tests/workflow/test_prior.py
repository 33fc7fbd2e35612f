"""What a model says before there are data, and priors that are suggested."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.integrate import quad
from scipy.special import expit, logit
from scipy.stats import gumbel_l, gumbel_r, kstest, norm

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Exponential, LogNormal

X = np.random.default_rng(1).normal(size=(25, 2))
KERNEL = bgp.kernels.Gaussian(1.0, 2.0)
LIKELIHOODS = {
    "probit": (bgp.Probit(), {0, 1}),
    "step": (bgp.Step(), {0, 1}),
    "poisson": (bgp.Poisson(), None),
    "binomial": (bgp.Binomial(np.arange(1, 26)), None),
    "ordinal": (bgp.Ordinal([-1.0, 1.0]), {0, 1, 2}),
    "student": (bgp.StudentT(), None),
    "softmax": (bgp.Softmax(classes=("a", "b", "c")), {0, 1, 2}),
    "multinomial": (bgp.MultinomialProbit(classes=("a", "b", "c")), {0, 1, 2}),
}


@dataclass(frozen=True)
class Density:
    """A prior of one's own."""

    of: Any

    def log_density(self, log_value):
        return self.of.log_density(log_value)


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_every_likelihood_draws_targets_of_its_own_kind(name):
    likelihood, levels = LIKELIHOODS[name]
    prior = bgp.prior_predictive(X, KERNEL, likelihood, draws=40, random_seed=1)
    y, f = prior["prior_predictive"]["y"], prior["prior"]["f"]
    assert y.dims == ("chain", "draw", "obs_id")
    assert y.shape == (1, 40, 25)
    assert f.shape == ((1, 40, 25, 3) if likelihood.has_classes else (1, 40, 25))
    assert np.isfinite(y.values).all()
    assert levels is None or set(np.unique(y.values)) == levels
    assert name != "binomial" or (y.values <= np.arange(1, 26)).all()


def test_latent_values_have_the_covariance_of_the_kernel_and_of_their_own_hyperparameters():
    f = bgp.prior_predictive(X, KERNEL, draws=20_000, random_seed=1)["prior"]["f"].values[0]
    np.testing.assert_allclose(np.cov(f.T), KERNEL.gram(X), atol=6 * 2.0 * np.sqrt(2.0 / 20_000))
    prior = bgp.prior_predictive(X, KERNEL, priors={"variance": LogNormal(0.0, 2.0)}, draws=4000, random_seed=1)[
        "prior"
    ]
    scaled = prior["f"].values[0, :, 0] / np.sqrt(prior["variance"].values[0])
    assert kstest(scaled, norm.cdf).pvalue > 1e-3
    assert kstest(prior["f"].values[0, :, 0], norm.cdf).pvalue < 1e-6  # of any one variance


@pytest.mark.parametrize("form", ["prior", "bounds"])
def test_hyperparameters_come_from_their_priors(form):
    given = {"priors": {"lengthscale": Exponential(0.7, -1.0)}} if form == "prior" else {}
    given["bounds"] = {"lengthscale": (0.2, 5.0)}
    drawn = bgp.prior_predictive(X, KERNEL, draws=4000, random_seed=2, **given)["prior"]
    assert set(drawn.data_vars) == {"lengthscale", "f"}
    below = (lambda x: np.exp(-0.7 / x)) if form == "prior" else np.log  # of 1 / length scale, exponential
    low, high = below(0.2), below(5.0)
    values = (below(drawn["lengthscale"].values.ravel()) - low) / (high - low)
    assert kstest(values, "uniform").pvalue > 1e-3


def test_a_frame_keeps_its_names_and_a_fit_its_priors_through_a_file(tmp_path):
    frame = pd.DataFrame(X, columns=["dose", "age"], index=[f"case {k}" for k in range(25)])
    y = (X[:, 0] > 0).astype(int)
    priors = {"lengthscale": Exponential(1.0, -1.0), "variance": LogNormal(0.0, 1.0)}
    idata = bgp.fit(frame, y, KERNEL, hyper="evidence", priors=priors, bounds={"variance": (0.01, 100.0)},
                    draws=20, random_seed=1, progress=False)  # fmt: skip
    bgp.save(idata, tmp_path / "fit.nc")
    again = bgp.prior_predictive(bgp.load(tmp_path / "fit.nc"), draws=30, random_seed=3)
    assert bgp.prior_predictive(idata, draws=30, random_seed=3) is idata
    for group, name in (("prior", "f"), ("prior_predictive", "y")):
        np.testing.assert_array_equal(again[group][name], idata[group][name])
    assert list(idata["prior"]["obs_id"].values) == list(frame.index)
    assert float(np.max(idata["prior"]["variance"])) <= 100.0
    apart = bgp.prior_predictive(frame, KERNEL, priors=priors, draws=5, random_seed=1)
    assert list(apart["constant_data"]["feature"].values) == ["dose", "age"]


def test_a_prior_that_no_file_holds_is_asked_for_again():
    pm = pytest.importorskip("pymc")
    given = {"variance": pm.Gamma.dist(2.0, 1.0)}
    idata = bgp.fit(X, X[:, 0] > 0, KERNEL, hyper="evidence", priors=given, draws=20, random_seed=1, progress=False)
    with pytest.raises(ValueError, match=r"does not hold the prior of variance.*priors=\{'variance'"):
        bgp.prior_predictive(idata)
    drawn = bgp.prior_predictive(idata, priors=given, draws=20, random_seed=1)
    assert "variance" in drawn["prior"]


def test_what_cannot_be_drawn_is_refused_in_words():
    with pytest.raises(ValueError, match=r"Softmax does not know its classes.*classes=\("):
        bgp.prior_predictive(X, KERNEL, bgp.Softmax())
    with pytest.raises(ValueError, match="draws must be a positive integer"):
        bgp.prior_predictive(X, KERNEL, draws=0)
    with pytest.raises(ValueError, match=r"priors names 'length', which this model does not have"):
        bgp.prior_predictive(X, KERNEL, priors={"length": LogNormal()})
    idata = bgp.fit(X, X[:, 0] > 0, KERNEL, draws=20, random_seed=1)
    with pytest.raises(ValueError, match="offset is that of the fit"):
        bgp.prior_predictive(idata, offset=np.zeros(25))
    with pytest.raises(ValueError, match="fixed must be a collection"):
        bgp.prior_predictive(idata, fixed=5)
    with pytest.raises(ValueError, match="The kernel overflows at these inputs"):
        bgp.prior_predictive(1e200 * X, bgp.kernels.Linear())
    with pytest.raises(ValueError, match="prior variance of the cases in X must be finite"):
        bgp.priors.suggest(1e200 * X, bgp.kernels.Linear())
    with pytest.raises(ValueError, match="priors of variance draw values beyond"):
        bgp.prior_predictive(X, KERNEL, priors={"variance": LogNormal(0.0, 500.0)}, random_seed=1)
    with pytest.raises(ValueError, match="offset must be between -700 and 700"):
        bgp.priors.suggest(X, KERNEL, bgp.NegativeBinomial(1.0), between=(1, 20), offset=1000.0)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'dispersion'"):
        bgp.NegativeBinomial()


@pytest.mark.parametrize(
    ("prior", "of_log"),
    [
        (LogNormal(60.0, 0.5), norm(60.0, 0.5)),
        (LogNormal(-90.0, 2.0, power=-2.0), norm(45.0, 1.0)),
        (LogNormal(0.5, 1e-4), norm(0.5, 1e-4)),
        (LogNormal(1.0, 3.0, common=4.0), norm(1.0, 5.0)),
        (Exponential(1e-20, 0.5), gumbel_l(2.0 * np.log(1e20), 2.0)),
        (Exponential(1e-20, -0.5), gumbel_r(-2.0 * np.log(1e20), 2.0)),
    ],
)
@pytest.mark.parametrize("cut", [False, True])
@pytest.mark.parametrize("own", [False, True])
def test_draws_follow_a_prior_wherever_the_kernel_starts(prior, of_log, cut, own):
    if own:  # of which a density is known, and no more
        prior = Density(prior) if not getattr(prior, "common", 0.0) else Density(LogNormal(1.0, 5.0))
    low, high = of_log.ppf([0.3, 0.9] if cut else [0.0, 1.0])
    kernel, bounds = KERNEL, None
    if cut:  # bounds hold where a kernel starts
        kernel, bounds = KERNEL.replace(variance=np.exp(of_log.ppf(0.4))), {"variance": (np.exp(low), np.exp(high))}
    prior = bgp.prior_predictive(X[:2], kernel, priors={"variance": prior}, bounds=bounds, draws=2000, random_seed=1)
    drawn = np.log(prior["prior"]["variance"].values[0])
    share = (of_log.cdf(drawn) - of_log.cdf(low)) / (of_log.cdf(high) - of_log.cdf(low))
    assert kstest(share, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(
    "prior", [Exponential(0.7, 0.5), Exponential((0.7, 2.0), -1.5), LogNormal((0.0, 1.0), (1.0, 2.0))]
)
def test_densities_integrate_to_one_and_have_their_slopes(prior):
    at = np.array([0.3, -0.4])
    slope = (prior.log_density(at + 1e-5)[0] - prior.log_density(at - 1e-5)[0]) / 2e-5
    np.testing.assert_allclose(prior.log_density(at)[1], slope, atol=1e-8)
    for k in range(2):
        total = quad(
            lambda x, k=k: float(np.exp(np.broadcast_to(prior.log_density(np.full(2, x))[0], 2)[k])), -30, 30, limit=400
        )[0]
        assert total == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("form", ["log-normal", "penalised complexity"])
def test_suggested_priors_mean_what_they_say(form):
    kernel = bgp.kernels.Gaussian([1.0, 1.0]) + bgp.kernels.Linear()
    wide = X * [1.0, 100.0]
    priors = bgp.priors.suggest(wide, kernel, form=form)
    assert set(priors) == {"gaussian_lengthscale", "gaussian_variance", "linear_weight"}
    drawn = bgp.prior_predictive(wide, kernel, priors=priors, draws=1500, random_seed=1)["prior"]
    short, long = kernel.spans(wide)["gaussian_lengthscale"]
    below = (drawn["gaussian_lengthscale"].values[0] < short).mean(axis=0)
    np.testing.assert_allclose(below, 0.05, atol=0.022)
    if form == "log-normal":
        np.testing.assert_allclose((drawn["gaussian_lengthscale"].values[0] > long).mean(axis=0), 0.05, atol=0.022)
    median = kernel.replace(**{name: np.median(drawn[name].values) for name in ("gaussian_variance", "linear_weight")})
    sd = np.sqrt(np.mean(median.diag(wide)))  # of both terms, which have half of its square each
    assert norm.cdf(1.645 * sd) == pytest.approx(0.95, abs=0.015)
    assert median.params["gaussian_variance"] == pytest.approx(sd**2 / 2, rel=0.2)


@pytest.mark.parametrize("flip", [0.03, 0.05, 0.2])
def test_flips_leave_the_priors_of_labels_before_they_are_flipped(flip):
    kernel = bgp.kernels.Gaussian()
    flipped, plain = (bgp.priors.suggest(X, kernel, bgp.Probit(flip=share)) for share in (flip, 0.0))
    assert flipped["variance"] == plain["variance"]
    low = flip + (1.0 - 2.0 * flip) * 0.05
    assert f"probabilities lie between {low:g} and {1.0 - low:g}" in flipped.sentences["variance"]
    bgp.design.Experiment(kernel, bgp.Probit(flip=flip), candidates=X, hyper="evidence", random_seed=1)


def test_factors_of_a_product_share_its_variance():
    product = bgp.kernels.Gaussian(columns=[0], variance=3.0) * bgp.kernels.Gaussian(columns=[1], variance=0.2)
    priors = bgp.priors.suggest(X, product)
    assert sum(priors[name].mean for name in priors if "variance" in name) == pytest.approx(0.0, abs=1e-3)


@pytest.mark.parametrize("form", ["log-normal", "penalised complexity"])
def test_sums_of_products_have_the_variance_that_was_asked_for(form):
    a, b, c = bgp.kernels.Gaussian(variance=3.0), bgp.kernels.Linear(), bgp.kernels.Bias(0.2)
    for kernel in (a * b + c, (a + b) * c, (a * b + c) * bgp.kernels.Matern32(), a * a + c):
        priors = bgp.priors.suggest(X, kernel, bgp.Poisson(), between=(1.0, 20.0), form=form)
        medians = {}
        for name in priors.keys() & kernel.params.keys():
            if "lengthscale" not in name:
                own = priors[name]
                medians[name] = np.exp(own.mean) if form == "log-normal" else (np.log(2.0) / own.rate) ** 2
        sd = np.sqrt(np.mean(kernel.replace(**medians).diag(X)))
        assert 1.645 * sd == pytest.approx(0.5 * np.log(20.0), rel=1e-3)


def test_what_targets_do_is_asked_where_nothing_tells_it():
    for likelihood in (bgp.Poisson(), bgp.likelihoods.Gaussian()):
        with pytest.raises(ValueError, match="between is missing: say where nine in ten"):
            bgp.priors.suggest(X, KERNEL, likelihood)
    assert "noise_variance" in bgp.priors.suggest(X, KERNEL, bgp.likelihoods.Gaussian(), between=(10.0, 30.0))
    for wrong in ((0.9, 0.1), (0.0, 0.5), 3.0, ("a", "b")):
        with pytest.raises(ValueError, match="between must be two"):
            bgp.priors.suggest(X, KERNEL, between=wrong)
    with pytest.raises(ValueError, match="form must be '"):
        bgp.priors.suggest(X, KERNEL, form="pc")


def test_a_kernel_for_each_class_must_be_of_the_same_classes():
    two = bgp.kernels.PerClass(KERNEL, bgp.kernels.Gaussian(2.0))
    with pytest.raises(ValueError, match="must have a kernel for each of the 3 classes"):
        bgp.prior_predictive(X, two, bgp.Softmax(classes=("a", "b", "c")))
    with pytest.raises(ValueError, match="Probit one latent value for each case"):
        bgp.prior_predictive(X, two)


def test_a_column_of_equal_values_gets_the_middle_of_the_others():
    flat = np.column_stack([X, np.ones(25)])
    priors = bgp.priors.suggest(flat, bgp.kernels.Gaussian([1.0, 1.0, 1.0]))
    mean = priors["lengthscale"].mean
    assert mean[2] == pytest.approx((mean[0] + mean[1]) / 2, abs=1e-3)
    assert "lengthscale" not in bgp.priors.suggest(np.ones((5, 2)), KERNEL)


@pytest.mark.parametrize(
    ("likelihood", "between", "offset"),
    [
        (bgp.Poisson(), (5, 40), np.log(np.sqrt(200.0))),
        (bgp.likelihoods.Gaussian(), (10.0, 30.0), 20.0),
        (bgp.Logit(), (0.01, 0.2), np.mean(logit([0.01, 0.2]))),
        (bgp.Binomial(5), (0.01, 0.2), np.mean(logit([0.01, 0.2]))),
    ],
)
def test_targets_lie_where_they_were_said_to_with_the_offset_that_the_sentence_names(likelihood, between, offset):
    inputs, kernel = np.linspace(0.0, 10.0, 30)[:, None], bgp.kernels.Gaussian()
    priors = bgp.priors.suggest(inputs, kernel, likelihood, between=between)
    named = re.search(r"if (log)?\(?(-?[0-9.]+)", priors.sentences["variance"])
    value = np.log(float(named[2])) if named[1] else float(named[2])
    assert value == pytest.approx(offset, rel=0.01)
    fixed = {name: prior for name, prior in priors.items() if name != "variance"}
    median = bgp.kernels.Gaussian(variance=float(np.exp(priors["variance"].mean)))
    options = {"priors": fixed, "fixed": ["variance"], "draws": 2000, "random_seed": 1}
    drawn = bgp.prior_predictive(inputs, median, likelihood, offset=np.full(30, value), **options)["prior"]["f"] + value
    target, level = {5: (np.exp, (1 / 3, 3)), 10.0: (np.asarray, (-5.0, 5.0)), 0.01: (expit, (0.1, 0.9))}[between[0]]
    expected = target(drawn.values)
    assert np.mean((expected > between[0]) & (expected < between[1])) == pytest.approx(0.9, abs=0.02)
    without = re.search(r"and between ([0-9.]+) and ([0-9.]+) if not", priors.sentences["variance"])
    if target is expit:
        assert np.mean(target(drawn.values - value) < float(without[1])) == pytest.approx(0.05, abs=0.01)
        assert np.mean(target(drawn.values - value) > float(without[2])) == pytest.approx(0.05, abs=0.01)
    assert "offset" not in bgp.priors.suggest(inputs, kernel, likelihood, between=level).sentences["variance"]


def test_of_several_classes_the_range_is_that_without_an_offset_which_they_do_not_take():
    sentences = [
        bgp.priors.suggest(X, KERNEL, likelihood, between=(0.01, 0.2)).sentences["variance"]
        for likelihood in (bgp.Softmax(), bgp.Probit())
    ]
    ends = re.search(r"and (between [0-9.]+ and [0-9.]+) if not", sentences[1])[1]
    assert sentences[0].endswith(f"nine in ten probabilities lie {ends}")


def test_counts_of_exposures_are_suggested_for_by_their_rates():
    exposure = np.linspace(100.0, 900.0, len(X))
    counts = bgp.NegativeBinomial(2.0)
    by_rate = bgp.priors.suggest(X, KERNEL, counts, between=(0.01, 0.04), offset=np.log(exposure))
    middle = np.exp(np.mean(np.log(0.02 * exposure)))
    by_count = bgp.priors.suggest(X, KERNEL, counts, between=(0.5 * middle, 2.0 * middle))
    assert by_rate["variance"] == by_count["variance"]
    assert by_rate["dispersion"].mean == pytest.approx(by_count["dispersion"].mean, abs=2e-4)
    assert (
        "at an offset of zero nine in ten expected counts lie within a factor of 4, around 0.02 if log(0.02) is"
        in (by_rate.sentences["variance"])
    )
    exposed = f"a count of mean {middle:.3g}, 0.02 times an exposure of {middle / 0.02:.3g}, is"
    assert exposed in by_rate.sentences["dispersion"]
    assert f"a count of mean {middle:.3g} is" in by_count.sentences["dispersion"]
    assert "is added to the offset of each case (of fit, not of suggest)" in by_rate.sentences["variance"]
    with pytest.raises(ValueError, match=f"offset.*{len(X)}"):
        bgp.priors.suggest(X, KERNEL, counts, between=(0.01, 0.04), offset=np.zeros(len(X) + 1))


@pytest.mark.parametrize("scale", [1e-200, 1e-4, 1.0, 1e200])
@pytest.mark.parametrize("form", ["log-normal", "penalised complexity"])
def test_suggested_length_scales_scale_with_the_inputs(scale, form):
    X = np.random.default_rng(0).normal(size=(16, 1))
    one, other = (bgp.priors.suggest(k * X, bgp.kernels.Gaussian(), form=form)["lengthscale"] for k in (1.0, scale))
    if form == "log-normal":
        assert other.mean == pytest.approx(one.mean + np.log(scale), abs=2e-4)
        assert other.sd == one.sd
    else:  # of its square root, which the rate divides
        assert other.rate == pytest.approx(one.rate * np.sqrt(scale), rel=1e-3)


def test_binomial_counts_move_by_the_probabilities_of_a_trial():
    X = np.random.default_rng(0).normal(size=(16, 1))
    labels, trials = (bgp.priors.suggest(X, bgp.kernels.Gaussian(), each) for each in (bgp.Logit(), bgp.Binomial(5)))
    assert labels["variance"] == trials["variance"]
    with pytest.raises(ValueError, match="between must be two probabilities"):
        bgp.priors.suggest(X, bgp.kernels.Gaussian(), bgp.Binomial(5), between=(1, 4))


def test_measurements_must_be_apart_by_a_number_that_can_be_squared():
    X = np.random.default_rng(0).normal(size=(16, 1))
    for between in ((-1e160, 1e160), (0.0, 1e-200)):
        with pytest.raises(ValueError, match=r"between must be .* apart"):
            bgp.priors.suggest(X, bgp.kernels.Gaussian(), bgp.likelihoods.Gaussian(), between=between)


@pytest.mark.parametrize(
    ("likelihood", "between", "name", "ends"),
    [
        (bgp.NegativeBinomial(2.0), (2, 8), "dispersion", (1.0, 40.0)),  # of mean 4, variances 4.4 to 20
        (bgp.Ordinal([-1.0, 1.0, 5.0]), None, "gap2", (1.0, 16.0)),
        (bgp.Probit(flip=0.2), (0.3, 0.7), "flip", (0.05, 0.5)),  # never beyond a half
    ],
)
def test_parameters_of_a_likelihood_have_priors_that_hold_what_they_say(likelihood, between, name, ends):
    priors = bgp.priors.suggest(X, KERNEL, likelihood, between=between)
    ends_found = np.exp(priors[name].mean + priors[name].sd * norm.ppf([0.05, 0.95]))
    np.testing.assert_allclose(ends_found, ends, rtol=1e-3)
    said = [float(number) for number in re.findall(r"[0-9.]*[0-9]", priors.sentences[name].replace("90 %", ""))]
    if name == "dispersion":
        mean, *ratios = said
        np.testing.assert_allclose(1.0 + mean / ends_found[::-1], ratios, rtol=1e-3)
    else:
        np.testing.assert_allclose(said[:2], ends)
        np.testing.assert_allclose(said[2], likelihood.parameters[name])
    options = {"hyper": "integrate", "replicas": 1, "draws": 20, "random_seed": 1, "progress": False}
    assert bgp.calibrate(X, KERNEL, likelihood, priors=priors, **options).replicas == 1  # which needs one for each


def test_what_is_tuned_only_with_a_prior_gets_none():
    assert "df" not in bgp.priors.suggest(X, KERNEL, bgp.StudentT(), between=(-5.0, 5.0))
    assert "noise_variance" not in bgp.priors.suggest(X, KERNEL)


def test_ends_that_are_equal_are_said_once():
    standardised = (X - X.mean(axis=0)) / X.std(axis=0)
    same, other = (
        bgp.priors.suggest(inputs, bgp.kernels.Gaussian([1.0, 1.0])).sentences["lengthscale"]
        for inputs in (standardised, standardised * [1.0, 3.0])
    )
    assert " to " not in same
    assert other.count(" to ") == 2


@pytest.mark.parametrize(("form", "wider", "inside"), [("log-normal", 1.5, 0.81), ("penalised complexity", 1.8, 0.78)])
def test_latent_values_are_as_much_wider_as_the_page_says(form, wider, inside):
    log_variance = np.linspace(-40.0, 15.0, 4001)
    density = np.exp(bgp.priors.suggest(X, bgp.kernels.Gaussian(), form=form)["variance"].log_density(log_variance)[0])

    def within(limit):
        return np.sum(density * (2.0 * norm.cdf(limit / np.exp(0.5 * log_variance)) - 1.0)) * np.diff(log_variance)[0]

    assert within(norm.ppf(0.95)) == pytest.approx(inside, abs=0.005)
    assert within(wider * norm.ppf(0.95)) == pytest.approx(0.9, abs=0.003)
