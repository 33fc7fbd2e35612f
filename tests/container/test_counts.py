"""Counts, robust regression and functions of the user's own through the door: fitted, predicted, saved, loaded."""

from __future__ import annotations

import json
import sys

import arviz as az
import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import likelihoods
from bayesgp_mf.container.draws import draw_targets
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.likelihoods import Gaussian, Quadrature, from_dict
from tests.container import own_functions
from tests.container.own_functions import draw_poisson, log_poisson

RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(-2.0, 2.0, 40))[:, None]
F = np.sin(2.0 * X[:, 0]) + 0.5
TRIALS = RNG.integers(2, 15, 40)
NEW = np.array([[-1.5], [0.3], [1.0]])
KERNEL = bgp.kernels.Gaussian(0.7)
MODULE = "tests.container.own_functions"
CASES = {
    "poisson": bgp.Poisson(),
    "negative binomial": bgp.NegativeBinomial(3.0),
    "binomial": bgp.Binomial(9),
    "binomial with trials of each": bgp.Binomial(TRIALS),
    "zero-inflated": likelihoods.ZeroInflated(bgp.NegativeBinomial(3.0), 0.2),
    "hurdle": likelihoods.Hurdle(bgp.Poisson(), 0.2),
    "truncated": likelihoods.Truncated(bgp.Poisson()),
    "gamma": likelihoods.Gamma(3.0),
    "beta": likelihoods.Beta(6.0),
    "student": bgp.StudentT(0.3, 4.0),
    "ordinal": bgp.Ordinal([-0.5, 0.5, 1.0], 0.1),
    "gaussian with noise of each": Gaussian(0.01 * TRIALS),
}
GROUPS = pd.DataFrame({"clinic": RNG.choice(["north", "east", "west"], 40), "dose": X[:, 0]})
NEW_GROUPS = pd.DataFrame({"clinic": ["east", "another", "west"], "dose": NEW[:, 0]})
LOADER = """
import sys, json, arviz as az, pandas as pd, bayesgp_mf as bgp
said = []
for path in sys.argv[1:]:
    idata = az.from_netcdf(path)
    new = [[-1.5], [0.3], [1.0]]
    if "clinic" in idata["constant_data"]["feature"].values:
        new = pd.DataFrame({"clinic": ["east", "another", "west"], "dose": [-1.5, 0.3, 1.0]})
    given = {"offset": [0.5, -1.0, 0.0]} if "offset" in idata["constant_data"] else {}
    bgp.predict(idata, new, random_seed=2, **given)
    p = idata["predictions"]
    said.append({name: p[name].values.tolist() for name in ("latent_mean", "latent_sd", "y_mean", "y_sd", "y")})
print(json.dumps(said))
"""


def targets(likelihood) -> np.ndarray:
    return likelihood.sample(F, np.random.default_rng(7))


def fitted(likelihood, **options):
    options = {"draws": 60, "chains": 2, "random_seed": 1, "progress": False, **options}
    return bgp.fit(X, targets(likelihood), KERNEL, likelihood, **options)


@pytest.mark.parametrize("case", CASES)
def test_they_are_tuned_and_judged(case):
    likelihood, method = CASES[case], ("tap", "laplace")[[*CASES].index(case) % 2]  # in turn
    kept = {"scale"} if isinstance(likelihood, bgp.StudentT) else set()  # few cases, and none of them an outlier
    idata = fitted(likelihood, method=method, hyper="evidence", fixed=kept)
    fit = get_group(idata, "fit")
    assert fit.attrs["status"] == "CONVERGED"
    assert "quality" in fit.attrs
    assert 0 < float(bgp.loo(idata)["se"]) < 40
    error = np.abs(fit["latent_mean"].values - F) / fit["latent_sd"].values
    assert np.mean(error < 2.0) > 0.8  # the function that made the targets


def test_saved_they_predict_the_same_in_a_new_process(new_process, tmp_path):
    fits = [(fitted(likelihood), NEW) for likelihood in CASES.values()]
    kernel = bgp.kernels.Categorical(columns="clinic") * bgp.kernels.Linear(columns="dose") + 1.0
    fits.append((bgp.fit(GROUPS, F, kernel, Gaussian(0.1), draws=60, random_seed=1, progress=False), NEW_GROUPS))
    paths, said = [tmp_path / f"{k}.nc" for k in range(len(fits))], []
    for path, (idata, new) in zip(paths, fits, strict=True):
        idata.to_netcdf(str(path))
        said.append(get_group(bgp.predict(idata, new, random_seed=2), "predictions"))
    paths.append(tmp_path / "offset_and_weights.nc")
    idata = fitted(bgp.Poisson(), offset=F, weights=np.arange(40) % 3)
    idata.to_netcdf(str(paths[-1]))
    said.append(get_group(bgp.predict(idata, NEW, offset=[0.5, -1.0, 0.0], random_seed=2), "predictions"))
    run = new_process.run(LOADER, *paths)
    assert run.returncode == 0, run.stderr
    for here, there in zip(said, json.loads(run.stdout), strict=True):
        for name, values in there.items():
            np.testing.assert_array_equal(here[name].values, values)


@pytest.mark.parametrize("likelihood", [*CASES.values(), Gaussian(0.2)], ids=[*CASES, "gaussian"])
def test_moments_of_predictions_are_those_of_their_draws(likelihood):
    idata = bgp.predict(fitted(likelihood, draws=4000, chains=1), NEW, random_seed=3)
    said = get_group(idata, "predictions")
    y, sd = said["y"].values[0], said["y_sd"].values
    assert np.all(np.abs(y.mean(axis=0) - said["y_mean"].values) < 5.0 * sd / np.sqrt(len(y)))
    if likelihood != CASES["student"]:  # the sample variance of heavy tails has no variance itself
        np.testing.assert_allclose(y.std(axis=0), sd, rtol=0.15)


def test_moments_are_averaged_over_settings_of_the_hyperparameters():
    idata = bgp.predict(
        fitted(
            bgp.Poisson(),
            hyper="integrate",
            draws=4000,
            chains=1,
            priors={"lengthscale": bgp.hyper.LogNormal(0.0, 0.5)},
        ),
        NEW,
        random_seed=3,
    )
    said = get_group(idata, "predictions")
    assert get_group(idata, "fit").sizes["node"] > 1
    y, sd = said["y"].values[0], said["y_sd"].values
    assert np.all(np.abs(y.mean(axis=0) - said["y_mean"].values) < 5.0 * sd / np.sqrt(len(y)))
    np.testing.assert_allclose(y.std(axis=0), sd, rtol=0.1)


def test_new_cases_have_one_trial_where_the_trials_are_those_of_each():
    idata = bgp.predict(fitted(CASES["binomial with trials of each"]), NEW, random_seed=3)
    said = get_group(idata, "predictions")
    assert set(np.unique(said["y"].values)) <= {0.0, 1.0}
    mean, variance = bgp.posterior(idata).latent(NEW)
    np.testing.assert_allclose(said["y_mean"].values, bgp.Logit().predict_proba(mean, variance), rtol=1e-12)


@pytest.mark.parametrize("method", ["tap", "laplace", "naive", "online"])
def test_trials_of_each_case_are_those_of_its_row(method):
    """Cases with their trials in another order have the same posterior, by every method but for rounding."""
    y, order = targets(CASES["binomial with trials of each"]), RNG.permutation(40)
    one = bgp.solve(KERNEL.gram(X), y, bgp.Binomial(TRIALS), method=method)
    likelihood = bgp.Binomial(TRIALS).of_cases(order)
    other = bgp.solve(KERNEL.gram(X[order]), y[order], likelihood, method=method)
    tolerance = 0.2 if method == "online" else 1e-5  # which depends on the order itself
    np.testing.assert_allclose(other.alpha, one.alpha[order], atol=tolerance * np.abs(one.alpha).max())
    wrong = bgp.solve(KERNEL.gram(X[order]), np.minimum(y[order], TRIALS), bgp.Binomial(TRIALS), method=method)
    assert np.max(np.abs(wrong.alpha - one.alpha[order])) > 0.4 * np.abs(one.alpha).max()


def test_a_search_on_a_part_of_the_cases_takes_their_trials_along():
    """With the trials of others some would have more successes than trials, which is refused."""
    options = {"inducing": bgp.Inducing(8, rows=20), "hyper": "evidence"}
    assert np.isfinite(fitted(CASES["binomial with trials of each"], **options)["fit"]["lengthscale"].values)
    one, same = (fitted(likelihood, **options)["fit"] for likelihood in (bgp.Binomial(9), bgp.Binomial([9] * 40)))
    for name in ("lengthscale", "latent_mean", "log_evidence"):
        np.testing.assert_array_equal(one[name].values, same[name].values)


def test_a_case_left_out_takes_its_trials_with_it():
    y = targets(CASES["binomial with trials of each"])
    problem = bgp.Problem(KERNEL.gram(X), y, bgp.Binomial(TRIALS))
    assert problem.without(3).likelihood == bgp.Binomial(np.delete(TRIALS, 3))
    loo = bgp.diagnostics.exact_loo(problem, progress=False)
    np.testing.assert_allclose(loo.log_density, bgp.posterior(fitted(problem.likelihood)).loo.log_density, atol=0.05)


@pytest.mark.parametrize(
    ("likelihood", "y", "message"),
    [
        (bgp.Poisson(), [1.5, 2.0, 0.0], r"y must hold counts.*got 1\.5 at index 0"),
        (bgp.NegativeBinomial(1.0), [1.0, -2.0, 0.0], "y must hold counts.*got -2 at index 1"),
        (bgp.Binomial(4), [1.0, 2.0, 5.0], "no more successes than there are trials, got 5 of 4 at index 2"),
        (bgp.Binomial([4, 4]), [1.0, 2.0, 3.0], "trials of 2 cases"),
        (bgp.Poisson(), [1.0, np.nan, 0.0], "y must be finite"),
    ],
)
def test_targets_that_are_none_are_refused_in_words(likelihood, y, message):
    with pytest.raises(ValueError, match=message):
        bgp.fit([[0.0], [1.0], [2.0]], y, KERNEL, likelihood)


def test_no_file_names_a_function_and_the_likelihood_is_asked_for_again(tmp_path):
    likelihood = Quadrature(log_poisson, "real", draw_poisson)
    idata = fitted(likelihood)
    assert MODULE not in idata["fit"].attrs["likelihood"]
    file = tmp_path / "fit.nc"
    idata.to_netcdf(str(file))
    for container in (idata, az.from_netcdf(str(file))):
        with pytest.raises(
            ValueError, match=r"does not hold its likelihood, Quadrature\(log_poisson.*likelihood=\.\.\."
        ):
            bgp.predict(container, NEW)
    bgp.predict(idata, NEW, likelihood=likelihood, random_seed=2)
    again = bgp.predict(az.from_netcdf(str(file)), NEW, likelihood=likelihood, random_seed=2)
    np.testing.assert_array_equal(again["predictions"]["y"].values, idata["predictions"]["y"].values)
    poisson = bgp.predict(fitted(bgp.Poisson()), NEW)["predictions"]["latent_mean"].values
    np.testing.assert_allclose(idata["predictions"]["latent_mean"].values, poisson, atol=1e-6)
    for other in (
        Quadrature(log_poisson, "real", draw_poisson, step=0.1),
        Quadrature(own_functions.another, "real", draw_poisson),
    ):
        with pytest.raises(ValueError, match=r"likelihood is not the one that was fitted"):
            bgp.predict(az.from_netcdf(str(file)), NEW, likelihood=other)


@pytest.mark.parametrize("path", [f"{MODULE}:log_poisson", "os:system", f"{MODULE}:called", "antigravity:fly"])
def test_a_function_that_a_file_of_before_names_is_neither_imported_nor_called(path):
    """Version 0.2 wrote paths of functions, and took those of modules that were imported."""
    likelihood = Quadrature(log_poisson, "real", draw_poisson)
    idata = fitted(likelihood)
    del idata["fit"].attrs["checksums"]
    idata["fit"].attrs["likelihood"] = json.dumps(
        likelihood.to_dict() | {"log_density": path, "sampler": f"{MODULE}:draw_poisson"}
    )
    modules = set(sys.modules)
    with pytest.raises(ValueError, match=r"does not hold its likelihood, Quadrature.*likelihood=\.\.\."):
        bgp.predict(idata, NEW)
    with pytest.raises(ValueError, match="unknown likelihood 'Quadrature'"):
        from_dict(json.loads(idata["fit"].attrs["likelihood"]))
    assert set(sys.modules) == modules
    if path.endswith("log_poisson"):
        bgp.predict(idata, NEW, likelihood=likelihood, draws=False)
    else:
        with pytest.raises(ValueError, match="not the one that was fitted"):
            bgp.predict(idata, NEW, likelihood=likelihood, draws=False)


@pytest.mark.parametrize("case", CASES)
def test_counts_are_integers_and_measurements_are_not(case, tmp_path):
    idata = bgp.prior_predictive(bgp.predict(fitted(CASES[case]), NEW, random_seed=1), draws=5, random_seed=1)
    kind = "f" if case in ("student", "gaussian with noise of each", "gamma", "beta") else "i"
    groups = ("observed_data", "posterior_predictive", "predictions", "prior_predictive")
    for each in (idata, bgp.load(bgp.save(idata, tmp_path / "fit.nc"))):
        assert [get_group(each, group)["y"].dtype.kind for group in groups] == [kind] * 4
    np.testing.assert_array_equal(get_group(idata, "observed_data")["y"], targets(CASES[case]))
    left_out = bgp.diagnostics.loo_predictive(idata, draws=5, chains=1, random_seed=1)
    assert get_group(left_out, "posterior_predictive")["y"].dtype.kind == kind
    if hasattr(az, "plot_ppc_rootogram") and kind == "i" and case != "ordinal":
        az.plot_ppc_rootogram(idata, backend="none")


def test_counts_beyond_what_is_known_to_the_last_one_stay_doubles():
    f = np.array([1.0, 60.0])[None, :, None] * np.ones((1, 2, 3))
    few, many = (draw_targets(bgp.Poisson(), each, np.random.default_rng(1)) for each in (f[:, :1], f))
    assert few.dtype == np.int64
    assert many.dtype == np.float64
    assert np.all(few > 0)
    assert np.all(many[0, 1] > 2.0**53)
    assert np.all(many[0, 0] < 100.0)
