"""One class against the rest: C fits of two classes, exactly as they are each by itself, and what they say together."""

from __future__ import annotations

import json
from dataclasses import dataclass

import arviz as az
import numpy as np
import pandas as pd
import pytest
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, group_names
from bayesgp_mf.container.layout import SAMPLE_DIMS
from bayesgp_mf.hyper import Evidence, LogNormal

KERNEL = bgp.kernels.Gaussian(1.0, 3.0)
PRIORS = {"lengthscale": LogNormal(0.0, 1.0), "variance": LogNormal(1.0, 1.0)}
NAMES = ("p", "q", "r")
NEW = np.random.default_rng(1).standard_normal((7, 2))
METHODS = ("tap", "naive", "variational", "laplace", "online")


def three_classes(n=30, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    return X, np.array(NAMES)[(X @ np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])).argmax(axis=1)]


X, Y = three_classes()


def fit(X=X, y=Y, kernel=KERNEL, likelihood=bgp.OneVsRest(), **options):
    return bgp.fit(X, y, kernel, likelihood, **{"draws": 20, "random_seed": 1, "progress": False} | options)


def p_of(idata, **options):
    return bgp.predict(idata, NEW, draws=False, **options)["predictions"]["p"]


@dataclass(frozen=True)
class OwnProbit(bgp.likelihoods.Likelihood):
    """A likelihood that no container holds."""

    noise_variance: float = 1.0
    targets, forbids, log_concave = "binary", False, True

    def log_prob(self, t, f):
        return bgp.Probit(self.noise_variance).log_prob(t, f)

    def log_partition(self, t, mean, variance):
        return bgp.Probit(self.noise_variance).log_partition(t, mean, variance)

    def predict_proba(self, mean, variance):
        return bgp.Probit(self.noise_variance).predict_proba(mean, variance)

    def sample(self, f, rng):
        return bgp.Probit(self.noise_variance).sample(f, rng)


def estimate_of(idata, **options):
    """Return elpd and p of either generation of ArviZ."""
    found = bgp.loo(idata, **options)
    return (found.elpd, found.p) if hasattr(found, "elpd") else (found["elpd_loo"], found["p_loo"])


def same_numbers(first, second, names, **tolerance):
    for name in names:
        np.testing.assert_allclose(first[name].values, second[name].values, err_msg=str(name), **tolerance)


@pytest.mark.parametrize(
    ("method", "likelihood"),
    [*((method, bgp.Logit()) for method in METHODS), ("tap", bgp.Probit(0.5)), ("tap", bgp.Probit(flip=0.1))],
    ids=repr,
)
def test_a_classifier_is_the_fit_of_two_classes(method, likelihood):
    idata = fit(likelihood=bgp.OneVsRest(likelihood), method=method)
    for name in NAMES:
        one, alone = bgp.classifier(idata, name), fit(y=name == Y, likelihood=likelihood, method=method)
        assert set(one["fit"].data_vars) == set(alone["fit"].data_vars)
        for variable, expected in alone["fit"].data_vars.items():
            xr.testing.assert_identical(one["fit"][variable].drop_attrs(), expected.drop_attrs())
        apart = {"class_names", "checksums", "log_likelihood_omitted"}
        expected = {key: value for key, value in alone["fit"].attrs.items() if key not in apart}
        assert expected == {key: one["fit"].attrs[key] for key in expected}
        assert json.loads(one["fit"].attrs["class_names"]) == [f"not {name}", name]
        np.testing.assert_array_equal(p_of(one), p_of(alone))
        assert estimate_of(one) == estimate_of(alone)


@pytest.mark.parametrize("method", METHODS)
def test_probabilities_are_those_of_the_classifiers_divided_by_their_sum(method):
    idata = fit(method=method)
    p = p_of(idata)
    assert p.dims == ("obs_id", "class")
    assert tuple(p["class"].values) == NAMES
    each = np.stack([p_of(bgp.classifier(idata, name)) for name in NAMES], axis=1)
    assert np.abs(each.sum(axis=1) - 1.0).max() > 0.01  # they were not made for it
    np.testing.assert_allclose(p, each / each.sum(axis=1, keepdims=True), rtol=1e-12)
    np.testing.assert_array_equal(p, bgp.posterior(idata).predict_proba(NEW))


@pytest.mark.parametrize("method", METHODS)
def test_two_classes_are_the_binary_fit(method):
    kept = Y != "r"
    idata, alone = fit(X[kept], Y[kept], method=method), fit(X[kept], Y[kept], likelihood=bgp.Logit(), method=method)
    np.testing.assert_allclose(p_of(idata)[:, 1], p_of(alone), atol=1e-6)
    np.testing.assert_allclose(idata["fit"]["loo_i"], alone["fit"]["loo_i"], atol=1e-6)
    np.testing.assert_allclose(idata["fit"]["latent_mean"][:, 0], -idata["fit"]["latent_mean"][:, 1], atol=1e-6)


def test_permuted_classes_are_permuted():
    order = [2, 0, 1]
    one, other = fit(), fit(likelihood=bgp.OneVsRest(classes=[NAMES[c] for c in order]))
    assert tuple(other["fit"]["class"].values) == ("r", "p", "q")
    same_numbers(one["fit"].isel({"class": order}), other["fit"], ["alpha", "latent_sd", "log_evidence", "lengthscale"])
    same_numbers(one["fit"], other["fit"], ["loo_i"], rtol=1e-12)
    np.testing.assert_allclose(p_of(one)[:, order], p_of(other), rtol=1e-12)


def test_leave_one_out_is_that_of_the_cavities_divided_by_the_sum():
    idata = fit()
    loo = bgp.posterior(idata).loo
    np.testing.assert_allclose(loo.probability.sum(axis=1), 1.0)
    np.testing.assert_allclose(idata["fit"]["loo_i"], loo.log_density)
    codes = idata["observed_data"]["y"].values
    np.testing.assert_allclose(np.exp(loo.log_density), loo.probability[np.arange(30), codes])
    i, others = 4, np.arange(30) != 4
    refit = bgp.predict(fit(X[others], Y[others]), X[i : i + 1], draws=False)["predictions"]["p"][0]
    np.testing.assert_allclose(loo.probability[i], refit, atol=0.02)
    assert np.abs(loo.probability[i] - bgp.posterior(idata).predict_proba(X[i : i + 1])[0]).max() > 0.02
    elpd, p = estimate_of(idata)
    assert elpd == pytest.approx(float(idata["fit"]["loo_i"].sum()))
    assert 0.0 < p < 30.0


def test_a_case_of_weight_two_is_there_twice():
    weights = np.where(np.arange(30) % 3, 1.0, 2.0)
    twice = np.repeat(np.arange(30), weights.astype(int))
    # each of two sites on one latent value has a cavity of its own by TAP, and Laplace's method has none
    weighed, copied = fit(weights=weights, method="laplace"), fit(X[twice], Y[twice], method="laplace")
    np.testing.assert_allclose(p_of(weighed), p_of(copied), atol=1e-6)
    np.testing.assert_allclose(
        bgp.posterior(weighed).proba_at_training[twice], bgp.posterior(copied).proba_at_training, atol=1e-6
    )
    plain = fit()
    assert np.abs(p_of(weighed) - p_of(fit(method="laplace"))).max() > 1e-3
    loo = bgp.posterior(weighed).loo
    own = loo.probability[np.arange(30), plain["observed_data"]["y"].values]
    np.testing.assert_allclose(weighed["fit"]["loo_i"], weights * np.log(own))
    np.testing.assert_allclose(  # the way of weights, where all are the same
        bgp.posterior(fit(weights=np.full(30, 1.0 + 1e-12))).loo.probability,
        bgp.posterior(plain).loo.probability,
        atol=1e-9,
    )
    with pytest.raises(bgp.UndefinedQuantityError, match="without weights"):
        bgp.loo(fit(weights=weights), corrected=True)


def test_corrected_probabilities_are_those_of_the_classifiers():
    idata = fit()
    p = p_of(idata, corrected=True)
    each = np.stack([p_of(bgp.classifier(idata, name), corrected=True) for name in NAMES], axis=1)
    np.testing.assert_allclose(p, each / each.sum(axis=1, keepdims=True), rtol=1e-12)
    assert np.abs(p - p_of(idata)).max() > 1e-5
    own = [bgp.posterior(bgp.classifier(idata, name)).corrected_loo for name in NAMES]
    q = np.where(Y[:, None] == NAMES, np.exp(np.transpose(own)), 1.0 - np.exp(np.transpose(own)))
    elpd, _ = estimate_of(idata, corrected=True)
    assert elpd == pytest.approx(np.sum(np.log((q / q.sum(axis=1, keepdims=True))[Y[:, None] == NAMES])))


def test_draws_come_from_what_is_said():
    idata = bgp.predict(fit(draws=2000), NEW, random_seed=2)
    for group, p in (("predictions", p_of(idata)), ("posterior_predictive", bgp.posterior(idata).proba_at_training)):
        y = (bgp.predict(idata, NEW, random_seed=2) if group == "predictions" else idata)[group]["y"].values
        share = np.mean(y[..., None] == np.arange(3), axis=(0, 1))
        error = np.sqrt(np.asarray(p) * (1.0 - np.asarray(p)) / 8000)
        assert np.all(np.abs(share - p) < 4.5 * error + 1e-3)
    idata = bgp.predict(idata, NEW, random_seed=2)
    f = idata["predictions"]["f"]
    assert f.dims == (*SAMPLE_DIMS, "obs_id", "class")
    sd = idata["predictions"]["latent_sd"]
    assert np.all(np.abs(f.mean(SAMPLE_DIMS) - idata["predictions"]["latent_mean"]) < 4.5 * sd / np.sqrt(8000))
    between = np.corrcoef(f.values[..., 0, :].reshape(-1, 3).T)
    assert np.abs(between - np.eye(3)).max() < 4.5 / np.sqrt(8000)  # the classifiers know nothing of each other
    at_training, sd = idata["posterior"]["f"], idata["fit"]["latent_sd"]
    assert np.all(np.abs(at_training.mean(SAMPLE_DIMS) - idata["fit"]["latent_mean"]) < 4.5 * sd / np.sqrt(8000))


def test_each_class_finds_its_own_hyperparameters():
    options = {"hyper": Evidence(1), "priors": PRIORS}
    idata, kept = fit(**options), fit()
    found = idata["fit"]
    for name in NAMES:
        alone = fit(y=name == Y, likelihood=bgp.Logit(), **options)["fit"]
        own = found.sel({"class": name})
        same_numbers(own, alone, ["lengthscale", "variance", "log_evidence"], rtol=1e-12)
        before = kept["fit"].sel({"class": name})
        prior = [sum(PRIORS[k].log_density(np.log(at[k].values))[0] for k in PRIORS) for at in (own, before)]
        assert own["log_evidence"] + prior[0] > before["log_evidence"] + prior[1]
    assert len(set(found["variance"].values.tolist())) == 3
    kernel = bgp.posterior(idata).kernel
    assert isinstance(kernel, bgp.kernels.PerClass)
    assert bgp.kernels.from_dict(json.loads(found.attrs["kernel"])) == kernel
    np.testing.assert_array_equal([part.params["variance"] for part in kernel.parts], found["variance"])


def test_a_parameter_of_the_likelihood_is_tuned_for_each_class():
    y = np.where(np.arange(30) % 9, Y, "p")  # some of them are wrong
    options = {"fixed": {"lengthscale", "variance"}, "priors": {"flip": LogNormal(-3.0, 1.0)}}
    found = fit(y=y, likelihood=bgp.OneVsRest(bgp.Step(flip=0.05)), hyper=Evidence(1), **options)
    flips = found["fit"]["flip"]
    assert flips.dims == ("class",)
    assert len(set(flips.values.tolist())) == 3
    likelihoods = [part.problem.likelihood for part in bgp.posterior(found).classifiers]
    np.testing.assert_array_equal(flips, [likelihood.flip for likelihood in likelihoods])


def test_a_kernel_for_each_class_and_what_is_said_of_one_class():
    kernels = (bgp.kernels.Gaussian(1.0, 3.0), bgp.kernels.Matern32([1.0, 2.0], 2.0), KERNEL + bgp.kernels.Bias(2.0))
    options = {
        "hyper": Evidence(1),
        "bounds": {"class0_lengthscale": (0.9, 1.1)},
        "priors": {"class1_variance": LogNormal(0.0, 0.1)},
        "fixed": {"class2_bias_variance"},
    }
    with pytest.warns(bgp.BoundWarning):
        idata = fit(kernel=bgp.kernels.PerClass(*kernels), **options)
    own = [{"bounds": {"lengthscale": (0.9, 1.1)}}, {"priors": {"variance": LogNormal(0.0, 0.1)}}]
    own += [{"fixed": {"bias_variance"}}]
    for c, name in enumerate(NAMES):
        given = {"hyper": Evidence(1)} | own[c]
        if c == 0:
            with pytest.warns(bgp.BoundWarning):
                alone = fit(y=name == Y, kernel=kernels[c], likelihood=bgp.Logit(), **given)
        else:
            alone = fit(y=name == Y, kernel=kernels[c], likelihood=bgp.Logit(), **given)
        one = bgp.classifier(idata, name)
        assert bgp.posterior(one).kernel == bgp.posterior(alone).kernel
        assert set(one["fit"].data_vars) == set(alone["fit"].data_vars)
        same_numbers(one["fit"], alone["fit"], [n for n, v in alone["fit"].items() if v.dtype.kind in "fi"])
        np.testing.assert_allclose(p_of(one), p_of(alone), rtol=1e-12)
    assert idata["fit"]["class1_lengthscale"].dims == ("feature",)  # shapes differ, and each has its own name
    assert float(idata["fit"]["class2_bias_variance"]) == 2.0


def test_what_is_said_of_one_class_comes_before_what_is_said_of_all():
    bounds = {"class1_lengthscale": (0.999, 1.001), "lengthscale": (0.2, 5.0)}
    with pytest.warns(bgp.BoundWarning, match="lengthscale"):
        idata = fit(hyper=Evidence(1), priors=PRIORS, bounds=bounds, fixed={"class2_variance"})
    is_near = np.abs(idata["fit"]["lengthscale"] - 1.0) < 0.0011
    assert is_near.values.tolist() == [False, True, False]
    assert (idata["fit"]["variance"] == 3.0).values.tolist() == [False, False, True]


@pytest.mark.parametrize("hyper", ["integrate", "hmc"])
def test_averages_over_hyperparameters_of_each_class(hyper, tmp_path):
    priors = {"lengthscale": PRIORS["lengthscale"]}
    options = {"hyper": hyper, "priors": priors, "fixed": {"variance"}, "draws": 10, "chains": 2}
    if hyper == "hmc":
        options["hyper"] = bgp.hyper.HybridMonteCarlo(iterations=16, leapfrog_steps=3, chains=2)
    idata = bgp.predict(fit(**options), NEW, random_seed=3)
    parts = [len(classifier.parts) for classifier in bgp.posterior(idata).classifiers]
    assert min(parts) > 1
    each = np.stack([p_of(bgp.classifier(idata, name)) for name in NAMES], axis=1)
    np.testing.assert_allclose(
        bgp.predict(idata, NEW)["predictions"]["p"], each / each.sum(axis=1, keepdims=True), rtol=1e-12
    )
    assert idata["predictions"]["f"].sizes["class"] == 3
    np.testing.assert_allclose(idata["fit"]["loo_i"], bgp.posterior(idata).loo.log_density, rtol=1e-12)
    if hyper == "hmc":
        assert idata["posterior"]["lengthscale"].dims == (*SAMPLE_DIMS, "class")
    with pytest.raises(bgp.UndefinedQuantityError, match="averages over hyperparameters"):
        _ = bgp.posterior(idata).kernel
    first = bgp.classifier(idata, "p")
    alone = fit(y=Y == "p", likelihood=bgp.Logit(), **options)  # the first begins with the same random numbers
    np.testing.assert_allclose(p_of(first), p_of(alone), rtol=1e-12)
    idata.to_netcdf(tmp_path / "fit.nc")
    again = az.from_netcdf(tmp_path / "fit.nc")
    np.testing.assert_array_equal(p_of(again), p_of(idata))
    again["sample_stats"]["node"].load()
    node = again["sample_stats"]["node"].values
    node[0, 0, 1] = (node[0, 0, 1] + 1) % parts[1]
    with pytest.raises(ValueError, match="node in the group sample_stats was changed"):
        bgp.predict(again, NEW)


def test_an_average_that_ends_with_one_kernel_stands_beside_one_of_several():
    """Nodes of one class only: arrays of other shapes have names of their own."""

    @dataclass(frozen=True)
    class Some(bgp.hyper.Strategy):
        """Averages where there are few cases of class 1."""

        name = "some"
        averages = True

        def choose(self, target, rng, advance):
            if np.sum(target.t > 0) > 10:
                models = (target.model,)
            else:
                models = tuple(target.model.replace(lengthscale=scale) for scale in (0.5, 1.0))
            return bgp.hyper.HyperResult(models, np.full(len(models), 1.0 / len(models)))

    counts = [int(np.sum(name == Y)) for name in NAMES]
    assert min(counts) <= 10 < max(counts)
    idata = fit(hyper=Some())
    for name in NAMES:
        alone = fit(y=name == Y, likelihood=bgp.Logit(), hyper=Some())
        np.testing.assert_allclose(p_of(bgp.classifier(idata, name)), p_of(alone), rtol=1e-12)
    assert bgp.predict(idata, NEW, random_seed=2)["predictions"]["f"].sizes["class"] == 3


def test_inducing_cases_and_low_rank():
    rng = np.random.default_rng(3)
    wide = rng.uniform(-2, 2, (400, 2))
    y = np.array(NAMES)[(wide @ np.array([[1.0, -1.0, 0.0], [0.5, 0.5, -1.0]])).argmax(axis=1)]
    kernel = bgp.kernels.Gaussian(2.0, 4.0)
    for options in ({"inducing": 30}, {"control": bgp.Control(gram="low_rank")}):
        idata = fit(wide, y, kernel, draws=5, **options)
        q = [p_of(fit(wide, y == name, kernel, bgp.Logit(), draws=5)) for name in NAMES]
        np.testing.assert_allclose(p_of(idata), np.transpose(q / np.sum(q, axis=0)), atol=0.02)
    points = wide[:25]
    alone = fit(wide, y == "q", kernel, bgp.Logit(), inducing=points)
    np.testing.assert_allclose(
        p_of(bgp.classifier(fit(wide, y, kernel, inducing=points), "q")), p_of(alone), rtol=1e-12
    )


def test_a_file_gives_the_same_bytes(tmp_path):
    idata = bgp.predict(fit(hyper=Evidence(1), priors=PRIORS), NEW, random_seed=2)
    path = tmp_path / "fit.nc"
    idata.to_netcdf(path)
    again = az.from_netcdf(path)
    for group in group_names(idata):
        xr.testing.assert_identical(get_group(again, group).load(), get_group(idata, group))
    bgp.predict(again, NEW, random_seed=2)
    xr.testing.assert_identical(get_group(again, "predictions"), get_group(idata, "predictions"))
    assert estimate_of(again) == estimate_of(idata)
    assert bgp.diagnostics.quality(again) == bgp.diagnostics.quality(idata)
    twice = fit(hyper=Evidence(1), priors=PRIORS)
    for group in ("fit", "posterior", "posterior_predictive", "sample_stats"):
        xr.testing.assert_identical(get_group(twice, group), get_group(idata, group))


@pytest.mark.parametrize("variable", ["alpha", "site_variance", "loo_i", "lengthscale", "y", "classifiers"])
def test_what_was_edited_is_named(variable):
    idata = fit()
    if variable == "classifiers":
        idata["fit"].attrs[variable] = idata["fit"].attrs[variable].replace("Gaussian", "Matern32")
    else:
        group = "observed_data" if variable == "y" else "fit"
        values = idata[group][variable].values
        values[0] = 1 - values[0] if variable == "y" else values[0] * 1.01
    for read in (bgp.posterior, bgp.loo, lambda one: bgp.classifier(one, "p"), lambda one: bgp.predict(one, NEW)):
        with pytest.raises(ValueError, match=rf"damaged or was edited: .*{variable}"):
            read(idata)


def test_what_has_no_joint_model_says_so():
    idata = fit(draws=100)
    with pytest.raises(bgp.UndefinedQuantityError, match="no joint evidence"):
        _ = bgp.posterior(idata).log_evidence
    assert "no joint evidence" in idata["fit"].attrs["joint_evidence_omitted"]
    assert "log_likelihood" not in group_names(idata)
    assert "no joint likelihood" in idata["fit"].attrs["log_likelihood_omitted"]
    of_a_joint_model = (
        bgp.diagnostics.importance,
        bgp.diagnostics.loo_predictive,
        bgp.diagnostics.inducing,
        lambda one: bgp.diagnostics.log_predictive_density(one, NEW, np.zeros(7)),
    )
    for ask in of_a_joint_model:
        with pytest.raises(bgp.UndefinedQuantityError, match=r"no joint model.*bgp\.classifier\(idata, 'p'\)"):
            ask(idata)
    with pytest.raises(ValueError, match="several classes"):
        bgp.diagnostics.agreement(idata, idata)
    with pytest.raises(bgp.UndefinedQuantityError, match="quantiles are those of numbers"):
        bgp.predict(idata, NEW, quantiles=[0.5])
    assert bgp.diagnostics.importance(bgp.classifier(idata, "q")).pareto_k < 1.0


def test_it_is_compared_by_leave_one_out_alone():
    softmax = fit(likelihood=bgp.Softmax(), method="laplace")
    found = bgp.compare({"each": fit(), "joint": softmax})
    assert found.table["evidence_kind"].to_dict() == {"each": "none", "joint": "laplace"}
    assert "There is no evidence of each" in found.sentence
    assert np.isnan(found.table["log_evidence"]["each"])
    assert found.table["elpd"]["each"] == pytest.approx(float(fit()["fit"]["loo_i"].sum()))


def test_the_quality_is_that_of_each_and_of_the_worst():
    idata = fit(kernel=bgp.kernels.PerClass(KERNEL, bgp.kernels.Gaussian(0.2, 100.0), KERNEL), draws=200)
    found = bgp.diagnostics.quality(idata)
    each = {name: bgp.diagnostics.quality(bgp.classifier(idata, name)) for name in NAMES}
    assert found.each == each
    assert found.worst == "q"
    assert found.verdict == each["q"].verdict
    assert each["p"].verdict != each["q"].verdict
    assert found.sentence == idata["fit"].attrs["quality"]
    assert found.sentence.startswith(f"{found.verdict}: of 3 classifiers that of 'q' is the worst")
    assert all(name in str(found) for name in NAMES)
    assert found.to_dict()["each"]["p"]["verdict"] == each["p"].verdict


def test_one_that_was_not_solved_is_the_status_of_all():
    idata = fit(control=bgp.Control(max_iterations=4, throw=False))
    statuses = [bgp.classifier(idata, name)["fit"].attrs["status"] for name in NAMES]
    assert idata["fit"].attrs["status"] == next(status for status in statuses if status != "CONVERGED")
    assert bgp.diagnostics.quality(idata).verdict == "unsolved"


def test_glass_and_wine():
    glass = bgp.datasets.load_forensic_glass(fold=1)
    idata = fit(glass.X, glass.y, bgp.kernels.Gaussian(2.0, 30.0))
    predicted = bgp.predict(idata, glass.X_test, draws=False)["predictions"]["p"]
    assert bgp.diagnostics.class_scores(glass.y_test, predicted, predicted["class"]).errors <= 7  # of 16
    datasets = pytest.importorskip("sklearn.datasets")
    wine = datasets.load_wine()
    inputs = (wine.data - wine.data.mean(axis=0)) / wine.data.std(axis=0)
    train = np.arange(178) % 4 != 0
    idata = fit(inputs[train], wine.target[train], bgp.kernels.Gaussian(4.0, 5.0), hyper=Evidence(1), priors=PRIORS)
    p = bgp.predict(idata, inputs[~train], draws=False)["predictions"]["p"]
    scores = bgp.diagnostics.class_scores(wine.target[~train], p, p["class"])
    assert scores.errors <= 2
    assert scores.log_score > -0.15


def test_data_frames_keep_their_names():
    frame = pd.DataFrame(X, columns=["dose", "age"], index=[f"case {i}" for i in range(30)])
    idata = fit(frame, pd.Categorical(Y, ["r", "q", "p"]), bgp.kernels.Gaussian([1.0, 2.0], 3.0))
    assert tuple(idata["fit"]["class"].values) == ("r", "q", "p")
    assert idata["fit"]["lengthscale"].dims == ("class", "feature")
    assert idata["fit"]["lengthscale"]["feature"].values.tolist() == ["dose", "age"]
    table = bgp.to_frame(bgp.predict(idata, frame.iloc[:2], draws=False))
    assert table.index.tolist() == ["case 0", "case 1"]
    assert {"p[p]", "p[q]", "p[r]"} <= set(table.columns)
    assert bgp.to_frame(idata, "fit").index.tolist() == frame.index.tolist()
    with pytest.raises(ValueError, match="dose"):
        bgp.predict(idata, frame[["age", "dose"]])
    with pytest.raises(ValueError, match="label"):
        fit(frame, pd.Series(Y, index=[f"other {i}" for i in range(30)]))


def test_what_no_container_holds_is_asked_for_again():
    class Own(bgp.kernels.Gaussian):
        """A kernel of one's own."""

    kernel, likelihood = Own(1.0, 3.0), bgp.OneVsRest(OwnProbit())
    idata, plain = fit(kernel=kernel, likelihood=likelihood), fit(likelihood=bgp.OneVsRest(bgp.Probit()))
    with pytest.raises(ValueError, match="kernel"):
        bgp.predict(idata, NEW)
    given = {"kernel": kernel, "likelihood": likelihood}
    np.testing.assert_allclose(p_of(idata, **given), p_of(plain), rtol=1e-9)
    one_own = bgp.kernels.PerClass(KERNEL, kernel, KERNEL)
    mixed = fit(kernel=one_own, likelihood=bgp.OneVsRest(bgp.Probit()))
    np.testing.assert_allclose(p_of(mixed, kernel=one_own), p_of(plain), rtol=1e-9)
    with pytest.raises(ValueError, match="holds its kernel"):
        bgp.predict(plain, NEW, kernel=KERNEL)


def test_a_likelihood_for_each_class():
    likelihoods = (bgp.Logit(), bgp.Probit(), bgp.Probit(0.3))
    idata = fit(likelihood=bgp.OneVsRest(likelihoods))
    assert tuple(part.problem.likelihood for part in bgp.posterior(idata).classifiers) == likelihoods
    with pytest.raises(ValueError, match="2 likelihoods, and there are 3 classes"):
        fit(likelihood=bgp.OneVsRest(likelihoods[:2]))
    with pytest.raises(ValueError, match="3 likelihoods, and there are 2 classes"):
        bgp.OneVsRest(likelihoods, classes=("a", "b"))


def test_marginals_that_are_tilted():
    idata = fit(marginals="tilted", draws=500)
    alone = fit(y=Y == "p", likelihood=bgp.Logit(), marginals="tilted", draws=500)
    np.testing.assert_array_equal(idata["posterior"]["f"].sel({"class": "p"}), alone["posterior"]["f"])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"method": "svm"}, "probabilities, which method 'svm' does not have"),
        ({"likelihood": bgp.OneVsRest(classes=("p", "q", "r", "s"))}, r"none of \['s'\]"),
        ({"likelihood": bgp.OneVsRest(classes=("p", "q"))}, "none of the classes"),
        ({"kernel": bgp.kernels.PerClass(KERNEL, KERNEL)}, "PerClass with 2 kernels, and there are 3 classes"),
        ({"priors": PRIORS}, "priors says how hyperparameters are chosen"),
        ({"positive": "p"}, "positive says which of two classes"),
        ({"offset": np.zeros(30)}, "an offset goes with one latent value"),
        ({"hyper": "evidence", "bounds": {"class3_lengthscale": (0.1, 2.0)}}, "last is class2_lengthscale"),
        ({"hyper": "evidence", "priors": {"class0_length": LogNormal(0.0, 1.0)}}, "length"),
        ({"hyper": "evidence", "fixed": "lengthscale"}, "fixed must be a collection"),
        ({"hyper": 3}, "hyper must be None, one of"),
        ({"y": np.zeros(30)}, "two or more classes"),
        ({"y": Y[:20]}, "20"),
        ({"y": "p"}, "name of a column"),
        ({"draws": 0}, "draws must be a positive integer"),
        ({"progress": "no"}, "progress must be True or False"),
        ({"X": X[:, 0]}, "X"),
    ],
)
def test_what_it_refuses(options, said):
    with pytest.raises(ValueError, match=said):
        fit(**options)


@pytest.mark.parametrize("likelihood", [bgp.Softmax(), bgp.Poisson(), bgp.Probit, "probit", (bgp.Probit(), 3)])
def test_likelihoods_that_are_none_of_two_classes_are_refused(likelihood):
    with pytest.raises(ValueError, match="likelihood must be one of two classes"):
        bgp.OneVsRest(likelihood)


def test_who_takes_one_model_refuses_it_in_words():
    several = bgp.OneVsRest()
    takers = (
        lambda: bgp.solve(np.eye(2), [0, 1], several),
        lambda: bgp.Problem(np.eye(2), [0, 1], several),
        lambda: bgp.streams.Stream(KERNEL, several, classes=("a", "b")),
        lambda: bgp.fit(bgp.sharded.from_arrays([(X, Y == "p")]), None, KERNEL, several, inducing=5),
    )
    for take in takers:
        with pytest.raises(ValueError, match=r"OneVsRest, which has a model for each class: bgp\.fit takes it"):
            take()
    with pytest.raises(ValueError, match="this fit has one model"):
        bgp.classifier(fit(y=Y == "p", likelihood=bgp.Probit()), "p")
    with pytest.raises(ValueError, match=r"one of the classes \['p', 'q', 'r'\], got 's'"):
        bgp.classifier(fit(), "s")


def test_an_error_says_in_which_class_it_was():
    with pytest.raises(bgp.InconsistentDataError) as caught:
        fit(np.vstack([X, X[:1]]), [*Y, "q" if Y[0] != "q" else "r"], likelihood=bgp.OneVsRest(bgp.Step()))
    assert any("class 'p' against the rest" in note or "class 'q'" in note for note in caught.value.__notes__)


def test_an_interrupt_ends_all():
    class Interrupted(bgp.kernels.Gaussian):
        """Ctrl-C while the second classifier is fitted."""

        def gram(self, X):
            calls.append(1)
            if len(calls) > 3:
                raise KeyboardInterrupt
            return super().gram(X)

    calls: list[int] = []
    with pytest.raises(KeyboardInterrupt):
        fit(kernel=Interrupted(1.0, 3.0))
    assert len(calls) == 4


def test_the_old_way_says_what_is_the_new_one():
    with pytest.raises(ImportError, match=r"fit_one_vs_rest is gone: use bayesgp_mf\.fit\(.*OneVsRest"):
        from bayesgp_mf.one_vs_rest import fit_one_vs_rest  # noqa: F401


def test_hyperparameters_are_drawn_of_one_classifier():
    idata = bgp.fit(X, Y, KERNEL, bgp.OneVsRest(), draws=2, random_seed=1, progress=False)
    with pytest.raises(bgp.UndefinedQuantityError, match=r"a classifier for each class.*bgp\.classifier"):
        bgp.plots.plot_hyperparameters(idata)
    one = bgp.classifier(idata, str(np.unique(Y)[0]))
    assert len(bgp.plots.plot_hyperparameters(one).get_yticklabels()) == 2
