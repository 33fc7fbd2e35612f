"""Several classes through the user's door: fit, predict, loo, the container, all hyperparameter modes."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.container.groups import get_group, group_names, make_container
from bayesgp_mf.hyper import HybridMonteCarlo, Integrate, LogNormal
from bayesgp_mf.kernels import Gaussian, Matern32, PerClass
from bayesgp_mf.matrices.memory import check_memory
from bayesgp_mf.processes.several_classes import MulticlassPosterior

KERNEL = Gaussian(1.0, 4.0)
NAMES = ("ash", "birch", "cedar")


def data(n: int = 24, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 2))
    scores = np.stack([X[:, 0], X[:, 1], -X.sum(axis=1)], axis=1) + 0.3 * rng.standard_normal((n, 3))
    return X, np.array(NAMES)[np.argmax(scores, axis=1)]


X, Y = data()
X_NEW = np.array([[1.5, 0.0], [0.0, 1.5], [-1.5, -1.5], [30.0, 30.0]])


def fit(X=X, y=Y, kernel=KERNEL, likelihood=bgp.Softmax(), **options):
    options = {"method": "laplace", "draws": 40, "chains": 2, "random_seed": 1, "progress": False} | options
    return bgp.fit(X, y, kernel, likelihood, **options)


@pytest.fixture(scope="module")
def idata():
    return bgp.predict(fit(), X_NEW, random_seed=2)


def test_the_container_has_a_dimension_for_classes(idata):
    sizes = {
        ("posterior", "f"): {"chain": 2, "draw": 40, "obs_id": 24, "class": 3},
        ("posterior_predictive", "y"): {"chain": 2, "draw": 40, "obs_id": 24},
        ("log_likelihood", "y"): {"chain": 2, "draw": 40, "obs_id": 24},
        ("fit", "alpha"): {"obs_id": 24, "class": 3},
        ("fit", "latent_mean"): {"obs_id": 24, "class": 3},
        ("fit", "latent_sd"): {"obs_id": 24, "class": 3},
        ("fit", "cavity_mean"): {"obs_id": 24, "class": 3},
        ("fit", "site_weight"): {"obs_id": 24, "class": 3},
        ("fit", "loo_i"): {"obs_id": 24},
        ("predictions", "p"): {"obs_id": 4, "class": 3},
        ("predictions", "f"): {"chain": 2, "draw": 40, "obs_id": 4, "class": 3},
        ("predictions", "y"): {"chain": 2, "draw": 40, "obs_id": 4},
    }
    for (group, name), expected in sizes.items():
        array = get_group(idata, group)[name]
        assert dict(zip(array.dims, array.shape, strict=True)) == expected, (group, name)
        if "class" in expected:
            assert array["class"].values.tolist() == list(NAMES)
    observed = get_group(idata, "observed_data")["y"]
    assert json.loads(observed.attrs["class_names"]) == list(NAMES)
    assert np.array(NAMES)[observed.values].tolist() == Y.tolist()


def test_predictions_are_sensible(idata):
    p = idata["predictions"]["p"].values
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-12)
    assert np.argmax(p[:3], axis=1).tolist() == [0, 1, 2]
    assert p[:3].max(axis=1).min() > 0.5
    np.testing.assert_allclose(p[3], 1 / 3, atol=1e-3)  # far away, from the prior
    drawn = bgp.predict(fit(draws=2000), X_NEW, random_seed=2)["predictions"]
    share = np.stack([(drawn["y"].values == c).mean(axis=(0, 1)) for c in range(3)], axis=1)
    np.testing.assert_allclose(share, p, atol=0.035)


def test_draws_have_the_moments_of_the_posterior():
    container = bgp.predict(fit(draws=4000), X_NEW, random_seed=2)
    posterior = bgp.posterior(container)
    assert isinstance(posterior, MulticlassPosterior)
    for group, (mean, covariance) in {
        "posterior": posterior.latent_covariance(X),
        "predictions": posterior.latent_covariance(X_NEW),
    }.items():
        f = container[group]["f"].values.reshape(8000, -1, 3)
        sd = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
        np.testing.assert_allclose((f.mean(axis=0) - mean) / sd, 0.0, atol=4.5 / np.sqrt(8000))
        found = np.einsum("kic,kid->icd", f - mean, f - mean) / 8000
        scale = sd[:, :, None] * sd[:, None, :]
        np.testing.assert_allclose((found - covariance) / scale, 0.0, atol=7.0 / np.sqrt(8000))
    stats = container["sample_stats"]
    # with q the approximation itself, the mean of p/q is the ratio of true to Laplace evidence
    log_ratio = (stats["log_p"] - stats["log_q"]).values.ravel()
    exact = np.logaddexp.reduce(log_ratio) - np.log(log_ratio.size)
    assert abs(exact - float(container["fit"]["log_evidence"])) < 1.0


def test_draws_and_densities_are_those_of_dense_linear_algebra():
    """log q of a draw, from the posterior covariance as one matrix."""
    from scipy.linalg import block_diag
    from scipy.stats import multivariate_normal

    X, y = data(8, seed=3)
    kernel = Gaussian(1.0, 4.0) + bgp.kernels.White(0.1)
    posterior = bgp.posterior(fit(X, y, kernel, bgp.Softmax(NAMES)))
    draws = posterior.draw(5, np.random.default_rng(0))
    gram, r = block_diag(*[posterior.problem.gram] * 3), posterior.solution.correction.dense().reshape(24, 24)
    flat, mean = (np.swapaxes(a, -1, -2).reshape(-1, 24) for a in (draws.f, posterior.mean_at_training))
    log_prior = multivariate_normal(np.zeros(24), gram).logpdf(flat)
    log_q = multivariate_normal(mean[0], gram - gram @ r @ gram).logpdf(flat)
    np.testing.assert_allclose(draws.log_p - draws.log_q, draws.log_likelihood.value.sum(axis=1) + log_prior - log_q)


def test_two_classes_are_those_of_logit():
    y = X[:, 0] > 0
    options = {"draws": 2, "chains": 1}
    one = bgp.predict(fit(y=y, **options), X_NEW, draws=False)
    other = bgp.predict(fit(y=y, kernel=Gaussian(1.0, 8.0), likelihood=bgp.Logit(), **options), X_NEW, draws=False)
    np.testing.assert_allclose(one["fit"]["log_evidence"], other["fit"]["log_evidence"], rtol=1e-9)
    np.testing.assert_allclose(one["fit"]["loo_i"], other["fit"]["loo_i"], atol=1e-8)
    np.testing.assert_allclose(one["predictions"]["p"].values[:, 1], other["predictions"]["p"], atol=1e-8)


def test_leave_one_out_is_arviz_s(idata):
    loo = bgp.loo(idata)
    total = float(idata["fit"]["loo_i"].sum())
    np.testing.assert_allclose(loo["elpd_loo"] if arviz_major() < 1 else loo.elpd, total)
    assert -24 * np.log(3.0) < total < 0


@pytest.mark.parametrize("kernel", [KERNEL, PerClass(Gaussian(1.0, 4.0), Gaussian([1.0, 2.0]), Matern32(2.0))])
def test_a_saved_file_is_enough(tmp_path, kernel):
    idata = bgp.predict(fit(kernel=kernel), X_NEW, draws=False)
    idata.to_netcdf(tmp_path / "fit.nc")
    if arviz_major() < 1:
        import arviz

        loaded = arviz.from_netcdf(tmp_path / "fit.nc")
    else:
        import xarray

        loaded = xarray.open_datatree(tmp_path / "fit.nc")
    assert set(group_names(loaded)) == set(group_names(idata))
    again = bgp.predict(loaded, X_NEW, draws=False)
    np.testing.assert_allclose(again["predictions"]["p"], idata["predictions"]["p"], atol=1e-12)
    assert bgp.posterior(loaded).kernel == kernel
    bgp.loo(loaded)
    if hasattr(loaded, "close"):
        loaded.close()


PRIORS = {"lengthscale": LogNormal(0.0, 1.0), "variance": LogNormal(1.0, 1.0)}


@pytest.mark.filterwarnings("ignore::bayesgp_mf.ConvergenceWarning")
@pytest.mark.parametrize(
    "hyper",
    ["evidence", "loo", HybridMonteCarlo(iterations=9, leapfrog_steps=3), Integrate(starts=1, points=3), "scan"],
)
def test_every_mode_of_the_hyperparameters(hyper):
    options = {"fixed": {"variance"}} if hyper != "scan" else {}
    if hyper != "scan":
        options["priors"] = {"lengthscale": PRIORS["lengthscale"]}
    idata = bgp.predict(fit(hyper=hyper, **options), X_NEW, random_seed=1)
    p = idata["predictions"]["p"].values
    assert p.shape == (4, 3)
    np.testing.assert_allclose(p.sum(axis=1), 1.0, atol=1e-9)
    assert np.argmax(p[:3], axis=1).tolist() == [0, 1, 2]
    assert idata["predictions"]["f"].shape[-2:] == (4, 3)
    again = bgp.posterior(idata)
    np.testing.assert_allclose(again.predict_proba(X_NEW), p, atol=1e-9)
    loo = again.loo
    assert loo.probability.shape == (24, 3)
    np.testing.assert_allclose(loo.log_density, idata["fit"]["loo_i"], atol=1e-9)
    assert loo.error_count(again.problem.t) < 12
    bgp.loo(idata)
    if len(again.parts) > 1:
        means = [weight * part.mean_at_training for weight, part in zip(again.weights, again.parts, strict=True)]
        np.testing.assert_allclose(idata["fit"]["latent_mean"], sum(means), atol=1e-12)
        assert np.max(np.abs(means[0] / again.weights[0] - sum(means))) > 1e-3


@pytest.mark.filterwarnings("ignore::bayesgp_mf.ConvergenceWarning")
def test_nuts():
    from bayesgp_mf.pymc import Nuts

    sampler = Nuts(draws=5, tune=5, chains=1, cores=1)
    idata = fit(hyper=sampler, priors={"lengthscale": LogNormal(0.0, 0.3)}, fixed={"variance"})
    assert idata["posterior"]["f"].sizes == {"chain": 1, "draw": 5, "obs_id": 24, "class": 3}
    assert idata["posterior"]["lengthscale"].sizes == {"chain": 1, "draw": 5}


@pytest.mark.filterwarnings("ignore::bayesgp_mf.BoundWarning")
def test_evidence_finds_a_kernel_for_each_class():
    kernel = PerClass(*[Gaussian(1.0, 2.0)] * 3)
    shared = fit(hyper="evidence", kernel=Gaussian(1.0, 2.0), priors=PRIORS)
    own = {f"class{c}_{name}": prior for c in range(3) for name, prior in PRIORS.items()}
    separate = fit(hyper="evidence", kernel=kernel, priors=own)
    best = float(shared["fit"]["log_evidence"])
    assert float(separate["fit"]["log_evidence"]) > best - 2.0
    scales = [float(separate["fit"][f"class{c}_lengthscale"]) for c in range(3)]
    assert len({round(s, 3) for s in scales}) == 3


def test_classes_in_the_order_of_a_categorical_and_unused_ones():
    y = pd.Categorical(Y, categories=["cedar", "oak", "ash", "birch"])
    for labels in (y, pd.Series(y)):
        idata = bgp.predict(fit(y=labels), X_NEW, draws=False)
        p = idata["predictions"]["p"]
        assert p["class"].values.tolist() == ["cedar", "oak", "ash", "birch"]
        assert np.all(p.values[:3, 1] < 0.2)  # never seen where others were
        np.testing.assert_allclose(p.values[3], 0.25, atol=1e-3)
    named = bgp.predict(fit(likelihood=bgp.Softmax(("cedar", "oak", "ash", "birch"))), X_NEW, draws=False)
    np.testing.assert_allclose(named["predictions"]["p"].values, p.values)


def test_labels_of_any_type():
    for labels in (np.searchsorted(NAMES, Y), [int(k) + 5 for k in np.searchsorted(NAMES, Y)], pd.Series(Y)):
        p = bgp.predict(fit(y=labels), X_NEW, draws=False)["predictions"]["p"].values
        assert np.argmax(p[:3], axis=1).tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": np.repeat("ash", 24)}, r"two or more classes, got only \['ash'\].*classes=\.\.\."),
        ({"y": X[:, 0]}, "24 distinct real numbers"),
        ({"y": [None, *Y[1:]]}, "1 of 24 are missing"),
        ({"y": Y[:-1]}, r"y must have shape \(24,\)"),
        ({"likelihood": bgp.Softmax(("ash", "birch"))}, r"none of the classes \['ash', 'birch'\]: \['cedar'\]"),
        ({"method": "naive"}, r"method 'naive' has one latent value .* Use 'laplace' or 'tap'"),
        ({"method": "laplas"}, "method must be one of"),
        ({"likelihood": bgp.Probit(), "method": "tap"}, r"exactly two classes .*likelihood=bgp.MultinomialProbit\(\)"),
        ({"likelihood": bgp.Softmax}, r"write it with \(\)"),
        ({"marginals": "tilted"}, "method 'laplace' has none"),
        ({"kernel": PerClass(KERNEL, KERNEL)}, r"a kernel for each of the 3 classes, in the order"),
        (
            {"kernel": PerClass(KERNEL, KERNEL), "likelihood": bgp.Logit(), "y": X[:, 0] > 0},
            r"PerClass has a kernel for each class, and Logit one latent value",
        ),
    ],
)
def test_bad_input_gets_clear_answers(arguments, message):
    with pytest.raises(ValueError, match=message):
        fit(**arguments)


def test_importance_weights_find_the_exact_evidence():
    """One case of three classes, whose evidence is one third; Laplace's is not, and the weights say by how much."""
    found = fit([[0.0]], ["a"], Gaussian(1.0, 4.0), bgp.Softmax(("a", "b", "c")), draws=4000)
    weighed = bgp.diagnostics.importance(found)
    assert weighed.trusted
    assert abs(weighed.log_evidence - np.log(1 / 3)) < 4 * weighed.log_evidence_error < 0.03
    assert abs(float(found["fit"]["log_evidence"]) - np.log(1 / 3)) > 0.03
    assert weighed.mean.shape == (1, 3)
    np.testing.assert_allclose(weighed.mean[0, 1], weighed.mean[0, 2], atol=5 * weighed.mean_error[0, 1])
    assert dict(weighed.to_dataset().sizes) == {"obs_id": 1, "class": 3}


def test_an_edited_container_is_noticed():
    idata = fit()
    idata["fit"]["site_weight"][:] = -1.0
    del idata["fit"].attrs["checksums"]
    with pytest.raises(ValueError, match="site_weight is not a number >= 0"):
        bgp.posterior(idata)


def test_pymc_models_say_what_they_do_not_take():
    pm = pytest.importorskip("pymc")
    from bayesgp_mf.pymc import Marginal

    covariance = pm.gp.cov.ExpQuad(2, ls=1.0)
    with pytest.raises(ValueError, match="one latent value for each case, and Softmax has one for each"):
        Marginal(covariance, bgp.Softmax(), method="laplace")


def test_memory_counts_classes():
    check_memory(2000, classes=6)
    n = 8000
    while True:  # the largest binary problem that fits
        try:
            check_memory(2 * n)
        except MemoryError:
            break
        n *= 2
    with pytest.raises(MemoryError, match="training cases need about"):
        check_memory(2 * n, classes=1000)
    with pytest.raises(MemoryError):
        check_memory(n, classes=1000)


def test_labels_may_be_told_as_text():
    codes = np.unique(Y, return_inverse=True)[1]
    idata = bgp.predict(fit(y=codes), X[:5], draws=False)
    p = get_group(idata, "predictions")["p"]
    assert bgp.diagnostics.class_scores(codes[:5], p.values, p["class"].values).cases == 5
    again = fit(y=codes, likelihood=bgp.posterior(idata).problem.likelihood)
    np.testing.assert_array_equal(get_group(again, "fit")["alpha"].values, get_group(idata, "fit")["alpha"].values)


@pytest.mark.parametrize("classes", [{"a", "b"}, ("a", None), (1.0, float("nan")), (["a"], ["b"])])
def test_classes_without_order_or_missing_are_refused(classes):
    with pytest.raises(ValueError, match="classes must be"):
        bgp.Softmax(classes)


class NeverAsked(bgp.hyper.Strategy):
    name = "never asked"

    def choose(self, target, rng, advance):
        raise AssertionError("a search was begun")


def test_tilted_marginals_are_refused_before_any_search():
    with pytest.raises(ValueError, match=r"there is one for each class\. Use marginals='gaussian'"):
        fit(method="tap", hyper=NeverAsked(), marginals="tilted")
    with pytest.raises(AssertionError, match="a search was begun"):  # the control
        fit(method="tap", hyper=NeverAsked())


def test_draws_of_new_cases_are_counted_for_every_class(idata, monkeypatch):
    monkeypatch.setattr("bayesgp_mf.matrices.memory.available_bytes", lambda: 16 * 80 * 1000 * 2)
    with pytest.raises(MemoryError, match="80 draws of 3000"):
        bgp.predict(idata, np.zeros((1000, 2)))


def test_agreement_compares_several_classes(idata):
    found = bgp.diagnostics.agreement(idata, idata)
    assert found.mean.first.shape == found.w1.shape == get_group(idata, "posterior")["f"].shape[2:]
    assert found.to_dataset()["quantile_value_first"].dims == ("quantile", "obs_id", "class")
    assert not np.any(found.mean.difference)
    moved = found.mean.first.copy()
    moved[0, 1] += found.sd.first[0, 1]
    groups = {name: get_group(idata, name) for name in group_names(idata)}
    groups["fit"] = groups["fit"].assign(latent_mean=(groups["fit"]["latent_mean"].dims, moved))
    other = bgp.diagnostics.agreement(idata, make_container(groups))
    assert other.verdict == "differ"
    assert np.flatnonzero(other.mean.difference).tolist() == [1]


def test_very_many_new_cases_are_drawn_in_blocks():
    few = fit(draws=1, chains=1)
    with pytest.warns(UserWarning, match="5002 new cases are too many to be drawn jointly: several classes,"):
        bgp.predict(few, np.zeros((5002, 2)), random_seed=1)
    f = few["predictions"]["f"].values[0, 0]
    assert f.shape == (5002, 3)
    np.testing.assert_allclose(f[[0, 2501]], f[[2500, 5001]], atol=1e-5)
    assert np.all(np.abs(f[0] - f[2501]) > 1e-3)


def test_the_verdict_advises_what_takes_several_classes():
    advice = bgp.diagnostics.quality(fit()).sentence
    assert "latent_model" in advice
    assert "exact" not in advice
    assert "tilted" not in advice


def test_only_the_first_of_the_named_classes_is_there():
    X = np.random.default_rng(0).normal(size=(8, 1))
    named = bgp.MultinomialProbit(("a", "b", "c"))
    options = {"hyper": bgp.hyper.Evidence(starts=1), "draws": 1, "chains": 1, "random_seed": 0, "progress": False}
    with pytest.warns(bgp.BoundWarning, match="classes separate"):
        idata = bgp.fit(X, ["a"] * 8, bgp.kernels.Gaussian(), named, **options)
    assert np.isfinite(float(idata["fit"]["log_evidence"]))


def test_a_softmax_of_latent_values_that_are_too_wide_is_refused():
    X = np.random.default_rng(0).normal(size=(9, 1))
    with pytest.raises(bgp.ConvergenceError, match=r"standard deviation of .* Use a kernel of less variance"):
        bgp.fit(X, np.resize(list("abc"), 9), bgp.kernels.Matern52(1.0, 1e60), bgp.Softmax(), draws=1, chains=1)
