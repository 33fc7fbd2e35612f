"""What a fit on inducing cases draws, predicts and saves."""

from __future__ import annotations

from dataclasses import replace

import arviz as az
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.container.groups import get_group, set_group
from bayesgp_mf.inference.assembly import assemble_inducing
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import METHODS
from bayesgp_mf.processes import single
from bayesgp_mf.processes.single import Posterior
from tests.processes.known import UnitNormals, linear_map

RNG = np.random.default_rng(0)
N = 80
X = RNG.uniform(-1, 1, (N, 2))
T = np.where(X[:, 0] + X[:, 1] ** 2 + 0.3 * RNG.standard_normal(N) > 0.3, 1.0, -1.0)
X_NEW = RNG.uniform(-1.5, 1.5, (30, 2))
Z = RNG.uniform(-1, 1, (9, 2))
KERNEL = kernels.Matern32(1.0, 2.0) + kernels.Bias() + kernels.White(0.2)
FEW = {"draws": 10, "chains": 2, "random_seed": 0, "progress": False}


def posterior_of(likelihood=bgp.Probit(), t=T, method="tap"):
    problem = assemble_inducing(KERNEL, X, t, likelihood, inducing=Z)
    return Posterior(KERNEL, X, problem, METHODS[method].solve(problem), METHODS[method])


def fitted(**options):
    return bgp.fit(X, T, KERNEL, **{**FEW, "inducing": Z, **options})


def explained(A, B):
    """Return what the inducing cases say of the covariances."""
    return KERNEL.cross(A, Z) @ np.linalg.solve(KERNEL.cross(Z, Z), KERNEL.cross(Z, B))


def of_the_posterior(process, prior):
    """Return the posterior covariance of new cases from their prior covariance ``(m, m)``."""
    cross = explained(X, X_NEW)
    return prior - cross.T @ process.solution.correction.dense() @ cross


def test_few_new_cases_are_drawn_with_their_own_covariances():
    process = posterior_of()
    mean, rows = linear_map(process, X_NEW)
    np.testing.assert_allclose(mean, process.latent_mean(X_NEW), atol=1e-9)
    np.testing.assert_allclose(rows.T @ rows, of_the_posterior(process, KERNEL.gram(X_NEW)), atol=1e-8)


def test_of_very_many_what_no_inducing_case_explains_is_drawn_for_each(monkeypatch):
    monkeypatch.setattr(single, "LARGEST_JOINT", 20)
    monkeypatch.setattr("bayesgp_mf.matrices.factors.BLOCK", 16)
    process, prior = posterior_of(), explained(X_NEW, X_NEW)
    np.fill_diagonal(prior, KERNEL.diag(X_NEW))
    mean, rows = linear_map(process, X_NEW)
    np.testing.assert_allclose(mean, process.latent_mean(X_NEW), atol=1e-9)
    np.testing.assert_allclose(rows.T @ rows, of_the_posterior(process, prior), atol=1e-8)
    np.testing.assert_allclose(np.sum(rows**2, axis=0), process.latent(X_NEW)[1], atol=1e-8)


def test_more_than_five_thousand_new_cases_have_the_moments_of_the_posterior():
    many = np.repeat(X_NEW, 200, axis=0)
    assert many.shape[0] > single.LARGEST_JOINT
    process, draws = posterior_of(), 200
    f = process.draw_new(many, draws, np.random.default_rng(3)).reshape(draws, len(X_NEW), 200)
    mean, variance = process.latent(X_NEW)
    shared = variance - (KERNEL.diag(X_NEW) - np.diag(explained(X_NEW, X_NEW)))
    # repeated cases share what the inducing cases say, and differ in the rest
    assert np.max(np.abs(f.mean(axis=(0, 2)) - mean) / np.sqrt(shared / draws + variance / (200 * draws))) < 5.0
    assert np.max(np.abs(f.mean(axis=2).var(axis=0) - shared) / (np.sqrt(2.0 / draws) * variance)) < 5.0
    assert np.max(np.abs(f.var(axis=2).mean(axis=0) / (variance - shared) - 1.0)) < 0.05


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Probit(flip=0.1)], ids=repr)
def test_draws_at_the_training_cases_have_the_covariance_of_the_posterior(likelihood, monkeypatch):
    monkeypatch.setattr("bayesgp_mf.matrices.factors.BLOCK", 200)  # all draws are one block
    t = T.copy()
    t[np.argmax(X[:, 0])] = -1.0  # a case that flips explain has a negative site
    process = posterior_of(likelihood, t)
    K, R = process.problem.matrix.dense(), process.solution.correction.dense()
    f = process.draw(N + len(Z) + 1, UnitNormals()).f
    rows = f[:-1] - f[-1]
    np.testing.assert_allclose(f[-1], K @ process.solution.alpha, atol=1e-9)
    np.testing.assert_allclose(rows.T @ rows, K - K @ R @ K, atol=1e-9)


def test_log_densities_are_those_of_the_draws():
    # under a Gaussian likelihood TAP is exact, and p(t, f) / p(f|t) is the evidence wherever it is asked for
    process = posterior_of(Gaussian(0.3), X[:, 0])
    drawn = process.draw(30, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.log_p - drawn.log_q, process.log_evidence, atol=1e-8)


def test_importance_weights_know_the_evidence_of_the_exact_posterior():
    """On one inducing case the exact evidence is an integral over one value."""
    kernel, z = kernels.Gaussian(1.0, 3.0), np.zeros((1, 2))
    problem = assemble_inducing(kernel, X, T, bgp.Probit(0.5), inducing=z)
    process = Posterior(kernel, X, problem, METHODS["tap"].solve(problem), METHODS["tap"])
    drawn = process.draw(4000, np.random.default_rng(1))
    ratio = drawn.log_p - drawn.log_q
    log_evidence = np.log(np.mean(np.exp(ratio - ratio.max()))) + ratio.max()
    error = np.std(np.exp(ratio - log_evidence)) / np.sqrt(4000)
    u = np.linspace(-9.0, 9.0, 4001)
    slope = kernel.cross(X, z)[:, 0] / np.sqrt(3.0)
    own = kernel.diag(X) - slope**2
    values = [
        bgp.Probit(0.5).log_partition(T, slope * at, own).value.sum() - 0.5 * at**2 - 0.5 * np.log(2 * np.pi)
        for at in u
    ]
    truth = np.log(np.trapezoid(np.exp(np.array(values) - max(values)), u)) + max(values)
    assert error < 0.3
    assert abs(log_evidence - truth) < 4.0 * error
    assert process.log_evidence == pytest.approx(truth, abs=0.2)


def test_tilted_marginals_are_refused():
    with pytest.raises(bgp.NotPositiveDefiniteError, match="tilted marginals"):
        posterior_of().draw(3, np.random.default_rng(0), "tilted")


LOADER = """
import sys, warnings
warnings.simplefilter("ignore")
import arviz as az
import numpy as np
import bayesgp_mf as bgp
idata, new, found = az.from_netcdf(sys.argv[1]), np.load(sys.argv[2]), {}
for times in (1, 200):
    bgp.predict(idata, np.tile(new, (times, 1)), random_seed=2)
    for name in ("p", "latent_mean", "latent_sd", "f", "y"):
        found[f"{name}_{times}"] = idata["predictions"][name].values
process = bgp.posterior(idata)
np.savez(sys.argv[3], **found, loo=float(bgp.loo(idata)["se"]), draw=process.draw(3, np.random.default_rng(1)).f)
"""


def test_a_file_predicts_the_same_numbers_in_a_new_process(new_process, tmp_path):
    idata, file, inputs, out = fitted(), tmp_path / "fit.nc", tmp_path / "new.npy", tmp_path / "out.npz"
    idata.to_netcdf(str(file))
    np.save(inputs, X_NEW)
    run = new_process.run(LOADER, file, inputs, out)
    assert run.returncode == 0, run.stderr
    with np.load(out) as again:
        for times in (1, 200):  # of which more than 5000 are drawn otherwise
            bgp.predict(idata, np.tile(X_NEW, (times, 1)), random_seed=2)
            for name in ("p", "latent_mean", "latent_sd", "f", "y"):
                np.testing.assert_array_equal(again[f"{name}_{times}"], idata["predictions"][name].values, err_msg=name)
        assert float(again["loo"]) == float(bgp.loo(idata)["se"])
        np.testing.assert_array_equal(again["draw"], bgp.posterior(idata).draw(3, np.random.default_rng(1)).f)


def test_an_average_over_kernels_of_several_numbers_of_inducing_cases_survives_a_file(tmp_path):
    kernel = kernels.Gaussian(1.0, 2.0) + kernels.Bias()
    priors = {"gaussian_lengthscale": bgp.hyper.LogNormal(0.0, 1.0)}  # of the long ones fewer are told apart
    options = {"priors": priors, "fixed": ["gaussian_variance", "bias_variance"]}
    idata = bgp.fit(X, T, kernel, inducing=60, hyper="integrate", **options, **FEW)
    ranks = [part.problem.matrix.rank for part in bgp.posterior(idata).parts]
    assert len(set(ranks)) > 1
    assert idata["fit"].sizes["inducing"] == max(ranks)
    idata.to_netcdf(tmp_path / "fit.nc")
    loaded = az.from_netcdf(tmp_path / "fit.nc")
    assert [part.problem.matrix.rank for part in bgp.posterior(loaded).parts] == ranks
    for one in (idata, loaded):
        bgp.predict(one, X_NEW, random_seed=1)
    for name in ("p", "latent_mean", "latent_sd", "f"):
        np.testing.assert_array_equal(idata["predictions"][name], loaded["predictions"][name])
    dense = bgp.predict(bgp.fit(X, T, kernel, hyper="integrate", **options, **FEW), X_NEW, draws=False)
    np.testing.assert_allclose(loaded["predictions"]["p"], dense["predictions"]["p"], atol=0.01)


def test_a_file_holds_nothing_that_grows_as_n_but_results_of_cases():
    fit = get_group(fitted(), "fit")
    assert {name for name, variable in fit.data_vars.items() if "inducing" in variable.dims} == {
        "inducing_input",
        "inducing_weight",
        "inducing_factor",
    }
    for variable in fit.data_vars.values():
        assert variable.dims.count("obs_id") == 0 or variable.ndim == 1


def test_new_cases_need_the_covariances_with_the_inducing_cases_alone(tmp_path, monkeypatch):
    fitted().to_netcdf(tmp_path / "fit.nc")
    process, asked = bgp.posterior(az.from_netcdf(tmp_path / "fit.nc")), []

    class Watched(kernels.Matern32):
        def cross(self, A, B):
            asked.append((len(A), len(B)))
            return super().cross(A, B)

    watched = replace(process, kernel=Watched(1.0, 2.0) + kernels.Bias() + kernels.White(0.2))
    watched.predictive(X_NEW)
    assert asked == [(len(X_NEW), len(Z))]


def test_where_memory_is_short_predictions_are_the_same(tmp_path, monkeypatch):
    idata = bgp.predict(fitted(), X_NEW, random_seed=1)
    idata.to_netcdf(tmp_path / "fit.nc")
    asked = {name: idata["predictions"][name].values for name in ("p", "latent_sd", "f")}
    f, loo_i = idata["posterior"]["f"].values, idata["fit"]["loo_i"].values
    for where in ("inference.assembly", "container.read"):
        monkeypatch.setattr(f"bayesgp_mf.{where}.keeps_root", lambda n, rank: False)
    loaded = bgp.predict(az.from_netcdf(tmp_path / "fit.nc"), X_NEW, random_seed=1)
    for name, values in asked.items():
        np.testing.assert_array_equal(loaded["predictions"][name], values)
    again = fitted()
    np.testing.assert_allclose(again["posterior"]["f"], f, atol=1e-9)
    np.testing.assert_allclose(again["fit"]["loo_i"], loo_i, atol=1e-9)


@pytest.mark.parametrize("change", [lambda points: points[:-1], lambda points: np.where(points > 0.5, np.nan, points)])
def test_damaged_inducing_inputs_are_refused_without_checksums_too(change):
    idata = fitted()
    fit = get_group(idata, "fit").copy(deep=True)
    changed = change(fit["inducing_input"].values)
    dims = ("inducing" if changed.shape == Z.shape else "fewer", "feature")
    fit = fit.drop_vars("inducing_input").assign(inducing_input=(dims, changed))
    del fit.attrs["checksums"]
    set_group(idata, "fit", fit)
    with pytest.raises(ValueError, match=r"damaged or was edited.*inducing_input"):
        bgp.predict(idata, X_NEW)
