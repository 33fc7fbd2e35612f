"""What each case does to a fit, held against refits without it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp

RNG = np.random.default_rng(0)
X, X_NEW = RNG.normal(size=(30, 2)), RNG.normal(size=(4, 2))
F = 1.5 * np.sin(1.5 * X[:, 0]) + X[:, 1]
KERNEL = bgp.kernels.Gaussian(1.5, 2.0)
PRIORS = {"lengthscale": bgp.hyper.LogNormal(0.4, 0.5), "variance": bgp.hyper.LogNormal(0.5, 1.0)}
MODELS = {
    "gaussian": (bgp.likelihoods.Gaussian(0.3), F + 0.5 * RNG.normal(size=30), "exact"),
    "probit": (bgp.Probit(), (F + RNG.normal(size=30) > 0).astype(int), "tap"),
    "poisson": (bgp.Poisson(), RNG.poisson(np.exp(0.7 * F)), "tap"),
}


def without(k, kernel, likelihood, y, method, **options):
    keep = np.arange(30) != k
    return bgp.posterior(bgp.fit(X[keep], y[keep], kernel, likelihood, method=method, draws=2, chains=1, **options))


@pytest.mark.parametrize("name", MODELS)
def test_evidence_and_predictions_move_as_they_do_in_refits(name):
    likelihood, y, method = MODELS[name]
    idata = bgp.fit(X, y, KERNEL, likelihood, method=method, draws=2, chains=1)
    found, whole = bgp.diagnostics.influence(idata, X_NEW), bgp.posterior(idata)
    refits = [without(k, KERNEL, likelihood, y, method) for k in range(30)]
    means = np.array([refit.latent_mean(X_NEW) - whole.latent_mean(X_NEW) for refit in refits])
    evidence = np.array([whole.log_evidence - refit.log_evidence for refit in refits])
    if name == "gaussian":  # there is no other site to move
        np.testing.assert_allclose(found.latent_mean, means, atol=1e-9)
        np.testing.assert_allclose(found.log_evidence, evidence, atol=1e-8)
    assert np.corrcoef(found.latent_mean.ravel(), means.ravel())[0, 1] > 0.99
    assert np.corrcoef(found.log_evidence, evidence)[0, 1] > 0.999
    assert found.hyperparameters is None
    if name == "probit":
        p = np.array([refit.predict_proba(X_NEW) - whole.predict_proba(X_NEW) for refit in refits])
        assert np.corrcoef(found.probability.ravel(), p.ravel())[0, 1] > 0.99


@pytest.mark.parametrize("name", ["gaussian", "probit"])
def test_hyperparameters_and_what_they_do_move_as_in_searches_without_a_case(name):
    likelihood, y, method = MODELS[name]
    options = {"hyper": bgp.hyper.Evidence(starts=1), "priors": PRIORS, "progress": False}
    if name == "gaussian":
        options["fixed"] = ["noise_variance"]
    idata = bgp.fit(X, y, KERNEL, likelihood, method=method, draws=2, chains=1, **options)
    found, whole = bgp.diagnostics.influence(idata, X_NEW), bgp.posterior(idata)
    assert found.names == ("lengthscale", "variance")
    refits = [without(k, whole.kernel, likelihood, y, method, **options) for k in range(30)]
    moved = [[np.log(refit.kernel.params[n] / whole.kernel.params[n]) for n in found.names] for refit in refits]
    for column in range(2):
        assert np.corrcoef(found.hyperparameters[:, column], np.array(moved)[:, column])[0, 1] > 0.99
    means = np.array([refit.latent_mean(X_NEW) - whole.latent_mean(X_NEW) for refit in refits])
    assert np.corrcoef(found.latent_mean.ravel(), means.ravel())[0, 1] > 0.995
    if name == "probit":  # 0.982 if only the means knew of hyperparameters that move
        p = np.array([refit.predict_proba(X_NEW) - whole.predict_proba(X_NEW) for refit in refits])
        assert np.corrcoef(found.probability.ravel(), p.ravel())[0, 1] > 0.995


def test_a_label_that_the_others_contradict_is_found():
    labels = (X[:, 0] > 0).astype(int)
    wrong = [int(np.argmin(X[:, 0])), int(np.argmax(X[:, 0]))]
    labels[wrong] = 1 - labels[wrong]
    idata = bgp.fit(X, labels, KERNEL, draws=2, chains=1)
    found = bgp.diagnostics.influence(idata)
    assert set(found.to_frame().index[:2]) == set(wrong)
    assert set(wrong) <= set(found.suspects(odds=1.0).index)
    np.testing.assert_allclose(found.odds, np.exp(-found.log_evidence) - 1.0)
    assert found.latent_mean is None
    named = bgp.fit(X, np.array(["well", "ill"])[labels], KERNEL, draws=2, chains=1)
    assert set(bgp.diagnostics.influence(named).to_frame()["target"]) == {"well", "ill"}


def test_what_cannot_be_told_is_refused_or_left_out():
    y = np.arange(30) % 3
    idata = bgp.fit(X, y, KERNEL, bgp.Softmax(), draws=2, chains=1)
    assert bgp.diagnostics.influence(idata).odds.shape == (30,)
    with pytest.raises(ValueError, match="X_new is for fits of one latent value"):
        bgp.diagnostics.influence(idata, X_NEW)
    counts = bgp.fit(X, y, KERNEL, bgp.Poisson(), draws=2, chains=1)
    with pytest.raises(ValueError, match="targets are numbers"):
        bgp.diagnostics.influence(counts).suspects()
    with pytest.raises(ValueError, match="X_new has 3 columns"):
        bgp.diagnostics.influence(counts, np.zeros((2, 3)))


def test_cases_that_move_much_are_followed_to_the_summit_without_them():
    y = np.sin(2.0 * X[:, 0]) + 0.2 * np.random.default_rng(1).normal(size=30)
    y[0] += 6.0
    kernel, likelihood = bgp.kernels.Gaussian(), bgp.likelihoods.Gaussian(0.1)
    options = {
        "hyper": bgp.hyper.Evidence(starts=1),
        "priors": bgp.priors.suggest(X, kernel, likelihood, between=(-2, 2)),
        "progress": False,
    }
    idata = bgp.fit(X, y, kernel, likelihood, draws=2, chains=1, **options)
    found = bgp.diagnostics.influence(idata, X_NEW)
    whole, refit = bgp.posterior(idata), without(0, kernel, likelihood, y, "tap", **options)
    moved = [np.log(refit.kernel.params[n] / whole.kernel.params[n]) for n in ("lengthscale", "variance")]
    moved.append(np.log(refit.problem.likelihood.noise_variance / whole.problem.likelihood.noise_variance))
    assert np.abs(moved).max() > 1.0  # farther than a step knows
    np.testing.assert_allclose(found.hyperparameters[0], moved, atol=0.05)
    np.testing.assert_allclose(found.latent_mean[0], refit.latent_mean(X_NEW) - whole.latent_mean(X_NEW), atol=0.02)


def test_steps_stay_sane_where_a_case_holds_what_is_known_of_a_parameter():
    """Of a tuned share of flips single labels know so much that nothing is left of its curvature without one."""
    pima = bgp.datasets.load_pima()
    label = (np.asarray(pima.y) == "Yes").astype(int)
    wrong = np.random.default_rng(2).choice(200, 10, replace=False)
    label[wrong] = 1 - label[wrong]
    options = {"hyper": bgp.hyper.Evidence(starts=1), "progress": False, "draws": 2, "chains": 1}
    idata = bgp.fit(pima.X, label, bgp.kernels.Gaussian(3.0, 4.0), bgp.Probit(flip=0.05), **options)
    found = bgp.diagnostics.influence(idata)
    assert "flip" in found.names
    assert np.abs(found.hyperparameters).max() < 5.0  # 286 by the curvature that is left


def test_offsets_of_new_cases_are_those_of_their_probabilities():
    y, offset, new = MODELS["probit"][1], X[:, 1], np.array([1.0, 0.0, -1.0, 0.5])
    idata = bgp.fit(X, y, KERNEL, offset=offset, draws=2, chains=1)
    found = bgp.diagnostics.influence(idata, X_NEW, offset=new)
    before = bgp.predict(idata, X_NEW, offset=new, draws=False)["predictions"]["p"].values
    keep = np.arange(30) != 7
    refit = bgp.fit(X[keep], y[keep], KERNEL, offset=offset[keep], draws=2, chains=1)
    after = bgp.predict(refit, X_NEW, offset=new, draws=False)["predictions"]["p"].values
    np.testing.assert_allclose(found.probability[7], after - before, atol=3e-3)
    counts = bgp.fit(X, np.arange(30) % 4, KERNEL, bgp.Poisson(), offset=np.ones(30), draws=2, chains=1)
    assert bgp.diagnostics.influence(counts, X_NEW).latent_mean.shape == (30, 4)


def test_what_does_not_go_together_is_refused():
    several = bgp.fit(X, np.arange(30) % 3, KERNEL, bgp.Softmax(), draws=2, chains=1)
    with pytest.raises(bgp.UndefinedQuantityError, match=r"X_new is for fits of one latent value"):
        bgp.diagnostics.influence(several, X_NEW)
    with_offset = bgp.fit(X, MODELS["probit"][1], KERNEL, offset=np.ones(30), draws=2, chains=1)
    with pytest.raises(ValueError, match="offset is missing"):
        bgp.diagnostics.influence(with_offset, X_NEW)
    likelihood, y, _ = MODELS["probit"]
    options = {"hyper": bgp.hyper.Evidence(starts=1), "priors": PRIORS, "progress": False}
    idata = bgp.fit(X, y, KERNEL, likelihood, draws=2, chains=1, **options)
    with pytest.raises(ValueError, match="priors must map names"):
        bgp.diagnostics.influence(idata, priors=3)
    with pytest.raises(ValueError, match=r"priors names 'nonsense', .*it has \['lengthscale', 'variance', 'noise_var"):
        bgp.diagnostics.influence(idata, priors={"nonsense": bgp.hyper.LogNormal(0.0, 1.0)})
    with pytest.raises(ValueError, match="offset is of new cases, and there is no X_new"):
        bgp.diagnostics.influence(with_offset, offset=np.ones(30))


def test_odds_are_those_against_the_label_whatever_its_weight():
    X = np.linspace(-2.0, 2.0, 30)[:, None]
    y = (X[:, 0] > 0).astype(int)
    y[3] = 1
    idata = bgp.fit(X, y, bgp.kernels.Gaussian(1.0, 4.0), weights=1.0 + 2.0 * (np.arange(30) == 3), draws=10)
    others = bgp.diagnostics.predicted(idata).probability[3]
    found = bgp.diagnostics.influence(idata)
    assert found.odds[3] == pytest.approx(others[0] / others[1], rel=1e-10)
    assert "30 cases, the strangest first" in repr(found)
    assert len(repr(found).splitlines()) < 17  # and not all 30


@pytest.mark.parametrize("weights", [None, np.full(30, 2.0)])
def test_odds_beyond_all_numbers_are_infinite(weights):
    steep, offset = bgp.Probit(noise_variance=0.01), np.where(np.arange(30) == 3, -60.0, 0.0)
    labels = np.where(np.arange(30) == 3, 1, X[:, 0] > 0).astype(int)
    idata = bgp.fit(X, labels, bgp.kernels.Gaussian(), steep, offset=offset, weights=weights, draws=2, chains=1)
    found = bgp.diagnostics.influence(idata)
    assert np.isinf(found.odds[3])
    assert 3 in found.suspects(odds=1e300).index


def test_length_scales_have_the_names_of_their_columns():
    frame = pd.DataFrame({"dose": np.linspace(-2.0, 2.0, 30), "age": np.tile([0.0, 1.0, 2.0], 10)})
    options = {"hyper": bgp.hyper.Evidence(starts=1), "draws": 1, "chains": 1, "random_seed": 1}
    idata = bgp.fit(frame, frame["dose"] > 0, bgp.kernels.Gaussian([1.0, 1.0], 4.0), priors=PRIORS, **options)
    assert bgp.diagnostics.influence(idata).names == ("lengthscale[dose]", "lengthscale[age]", "variance")
