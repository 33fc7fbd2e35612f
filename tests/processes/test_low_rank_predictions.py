"""What a fit with a Gram matrix of low rank draws, predicts and saves."""

from __future__ import annotations

from dataclasses import replace

import arviz as az
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import hyper, kernels
from bayesgp_mf.container.groups import get_group, set_group
from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference import assembly
from bayesgp_mf.inference.assembly import assemble
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.methods import get_method
from bayesgp_mf.processes import paths
from bayesgp_mf.processes.single import Posterior
from tests.processes.known import UnitNormals, linear_map

RNG = np.random.default_rng(0)
X = RNG.uniform(-1, 1, (120, 2))
T = np.where(X[:, 0] + X[:, 1] ** 2 + 0.3 * RNG.standard_normal(120) > 0.3, 1.0, -1.0)
X_NEW = RNG.uniform(-1.5, 1.5, (40, 2))
KERNEL = kernels.Gaussian(2.0, 2.0) + kernels.Bias()
LOW_RANK, DENSE = bgp.Control(gram="low_rank"), bgp.Control(gram="dense")


def posterior_of(control, likelihood=bgp.Probit(), t=T, method="tap"):
    problem = assemble(KERNEL, X, t, likelihood, solver=get_method(method), control=control)
    return Posterior(KERNEL, X, problem, get_method(method).solve(problem, control))


def fitted(control=LOW_RANK, **options):
    return bgp.fit(X, T, KERNEL, control=control, **{"draws": 20, "chains": 2, "random_seed": 0, **options})


@pytest.mark.parametrize(
    ("likelihood", "method"),
    [(bgp.Probit(), "tap"), (bgp.Logit(), "laplace"), (bgp.Logit(), "naive"), (bgp.Probit(flip=0.1), "tap")],
    ids=str,
)
def test_predictions_are_those_of_the_dense_matrix(likelihood, method):
    t = T.copy()
    t[np.argmax(X[:, 0])] = -1.0  # a case that flips explain has a negative site
    low, dense = (posterior_of(control, likelihood, t, method) for control in (LOW_RANK, DENSE))
    assert low.problem.gram.rank < 40
    for one, other in zip(low.predictive(X_NEW), dense.predictive(X_NEW), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)
    np.testing.assert_array_equal(low.latent_mean(X_NEW), low.latent(X_NEW)[0])
    # the training cases are cases like others, to what the root leaves out of them
    for one, other in zip(low.latent(X), low.at_training, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Probit(flip=0.1)], ids=repr)
def test_draws_have_the_covariance_of_the_posterior(likelihood):
    process = posterior_of(LOW_RANK, likelihood)
    gram, correction = process.problem.gram, process.solution.correction
    features = gram.features(KERNEL, X, X_NEW)
    covariance = KERNEL.gram(X_NEW) - correction.quadratic(features)
    mean, rows = linear_map(process, X_NEW)
    np.testing.assert_allclose(mean, process.latent_mean(X_NEW), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(rows.T @ rows, covariance, atol=4 * paths.TOLERANCE * 3.0)
    np.testing.assert_allclose(np.sum(rows**2, axis=0), process.latent(X_NEW)[1], atol=4 * paths.TOLERANCE * 3.0)


def test_draws_at_the_training_cases_have_the_covariance_of_the_posterior():
    process = posterior_of(LOW_RANK)
    K, R = process.problem.gram.dense(), process.solution.correction.dense()
    f = process.draw(process.problem.gram.rank + 1, UnitNormals()).f
    rows = f[:-1] - f[-1]
    np.testing.assert_allclose(f[-1], K @ process.solution.alpha, atol=1e-9)
    np.testing.assert_allclose(rows.T @ rows, K - K @ R @ K, atol=1e-9)


def test_log_densities_are_those_of_the_draws():
    # under a Gaussian likelihood TAP is exact, and p(t, f) / p(f|t) is the evidence wherever it is asked for
    process = posterior_of(LOW_RANK, Gaussian(0.3), X[:, 0])
    drawn = process.draw(30, np.random.default_rng(0))
    np.testing.assert_allclose(drawn.log_p - drawn.log_q, process.log_evidence, atol=1e-6)


def test_tilted_marginals_are_given_the_dense_matrix_or_refused():
    process = posterior_of(LOW_RANK)
    with pytest.raises(NotPositiveDefiniteError, match="this one of 120 cases has rank"):
        process.draw(3, np.random.default_rng(0), "tilted")


def saved_and_loaded(idata, path):
    idata.to_netcdf(path)
    return az.from_netcdf(path)


def test_a_file_predicts_the_same_numbers(tmp_path):
    idata = fitted()
    loaded = saved_and_loaded(idata, tmp_path / "fit.nc")
    process, again = bgp.posterior(idata), bgp.posterior(loaded)
    assert process.solution.info.rank == again.solution.info.rank == idata["fit"].sizes["rank"] < 40
    np.testing.assert_array_equal(process.problem.gram.pivots, again.problem.gram.pivots)
    for one in (idata, loaded):
        bgp.predict(one, X_NEW, random_seed=1)
    for name in ("p", "latent_mean", "latent_sd", "f", "y"):
        np.testing.assert_array_equal(idata["predictions"][name], loaded["predictions"][name])
    assert idata["predictions"]["f"].shape == (2, 20, 40)
    np.testing.assert_allclose(process.loo.log_density, again.loo.log_density)
    dense = bgp.predict(fitted(DENSE), X_NEW, draws=False)
    assert "pivot" not in dense["fit"]
    np.testing.assert_allclose(loaded["predictions"]["p"], dense["predictions"]["p"], atol=1e-5)


def test_an_average_over_kernels_of_several_ranks_survives_a_file(tmp_path):
    priors = {"gaussian_lengthscale": hyper.LogNormal(0.9, 0.25)}
    bounds = {"gaussian_lengthscale": (1.2, 10.0)}  # within which all kernels have a low rank
    options = {"priors": priors, "bounds": bounds, "fixed": ["gaussian_variance", "bias_variance"]}
    idata = fitted(hyper="integrate", **options)
    ranks = [part.problem.gram.rank for part in bgp.posterior(idata).parts]
    assert len(set(ranks)) > 1
    assert idata["fit"].sizes["rank"] == max(ranks)
    loaded = saved_and_loaded(idata, tmp_path / "fit.nc")
    assert [part.problem.gram.rank for part in bgp.posterior(loaded).parts] == ranks
    for one in (idata, loaded):
        bgp.predict(one, X_NEW, random_seed=1)
    for name in ("p", "latent_sd", "f"):
        np.testing.assert_array_equal(idata["predictions"][name], loaded["predictions"][name])


def test_an_average_may_have_dense_matrices_too(monkeypatch):
    monkeypatch.setattr(assembly, "SMALLEST", 100)
    priors = {"gaussian_lengthscale": hyper.LogNormal(0.0, 0.5)}  # below 1.2 the root would have too many columns
    options = {"hyper": "integrate", "priors": priors, "fixed": ["gaussian_variance", "bias_variance"]}
    idata = fitted(bgp.Control(), **options)
    ranks = [part.solution.info.rank for part in bgp.posterior(idata).parts]
    assert None in ranks
    assert len(set(ranks)) > 1
    bgp.predict(idata, X_NEW, random_seed=1)
    dense = bgp.predict(fitted(DENSE, **options), X_NEW, draws=False)
    np.testing.assert_allclose(idata["predictions"]["p"], dense["predictions"]["p"], atol=1e-4)


@pytest.mark.parametrize("wrong", [120, 1], ids=["none", "twice"])
def test_damaged_pivots_are_refused(wrong):
    idata = fitted()
    fit = get_group(idata, "fit").copy(deep=True)
    fit["pivot"][0] = wrong if wrong == 120 else int(fit["pivot"][wrong])
    del fit.attrs["checksums"]
    set_group(idata, "fit", fit)
    with pytest.raises(ValueError, match=r"damaged or was edited.*pivot does not number different cases"):
        bgp.predict(idata, X_NEW)


def test_pivots_of_another_fit_are_noticed():
    idata = fitted()
    fit = get_group(idata, "fit").copy(deep=True)
    del fit.attrs["checksums"]
    set_group(idata, "fit", fit.isel(rank=slice(0, 3)))
    with pytest.raises(ValueError, match="latent_mean is not that of kernel, X, pivot and alpha"):
        bgp.predict(idata, X_NEW)


def test_new_cases_need_the_covariances_with_the_pivots_alone():
    process = posterior_of(LOW_RANK)
    asked = []

    class Watched(kernels.Gaussian):
        def cross(self, A, B):
            asked.append((len(A), len(B)))
            return super().cross(A, B)

    watched = replace(process, kernel=Watched(2.0, 2.0) + kernels.Bias())
    watched.predictive(X_NEW)
    assert asked == [(len(X_NEW), process.problem.gram.rank)]
