"""Regression with a noise variance for each case: against the closed form, by every method and form of Gram matrix."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest
from scipy import stats

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import exact_loo
from bayesgp_mf.inference.assembly import assemble, assemble_inducing
from bayesgp_mf.kernels import Gaussian as Kernel
from bayesgp_mf.kernels import Linear
from bayesgp_mf.likelihoods import Gaussian, from_dict
from bayesgp_mf.methods import get_method
from bayesgp_mf.solvers.second_order import second_order

RNG = np.random.default_rng(4)
X = RNG.standard_normal((40, 2))
NOISE = 10.0 ** RNG.uniform(-1.5, 1.0, 40)
Y = X[:, 0] + np.sqrt(NOISE) * RNG.standard_normal(40)
KERNEL = Linear(1.5) + 0.5  # of rank three, so that each form of the Gram matrix is exact
NEW = np.array([[0.0, 1.0], [2.0, -1.0]])
METHODS = ("exact", "tap", "laplace", "naive", "online")


def closed_form(noise=NOISE, kernel=KERNEL):
    """The log evidence, mean and covariance at the cases, and mean and variance at new ones."""
    gram, cross = kernel.gram(X), kernel.cross(X, NEW)
    total = gram + np.diag(np.broadcast_to(noise, 40))
    evidence = stats.multivariate_normal(np.zeros(40), total).logpdf(Y)
    gain = np.linalg.solve(total, cross)
    return evidence, gram @ np.linalg.solve(total, Y), gain.T @ Y, kernel.diag(NEW) - np.sum(cross * gain, axis=0)


def solved(method, form="dense", likelihood=Gaussian(NOISE), kernel=KERNEL):
    solver = get_method(method, likelihood)
    if form == "inducing":
        problem = assemble_inducing(kernel, X, Y, likelihood, inducing=X[:5])
    else:
        problem = assemble(kernel, X, Y, likelihood, solver=solver, control=bgp.Control(gram=form))
    return problem, solver, solver.solve(problem, bgp.Control(tolerance=1e-12))


@pytest.mark.parametrize(
    ("method", "form"),
    [
        *((m, "dense") for m in METHODS),
        *((m, "low_rank") for m in ("tap", "laplace")),
        *((m, "inducing") for m in ("exact", "tap", "laplace")),
    ],
)
def test_evidence_and_mean_are_those_of_the_closed_form(method, form):
    problem, _, solution = solved(method, form)
    evidence, mean, *_ = closed_form()
    assert (problem.matrix.rank is None) == (form == "dense")
    np.testing.assert_allclose(problem.matrix @ solution.alpha, mean, rtol=1e-10, atol=1e-10)
    if method not in ("naive", "online"):  # whose evidence is another one
        assert solution.evidence.value == pytest.approx(evidence, abs=1e-10 * 40)
    assert abs(closed_form(NOISE[::-1])[0] - evidence) > 1.0  # the noise of other cases


@pytest.mark.parametrize("method", ["exact", "tap", "laplace"])
def test_predictions_leave_one_out_and_gradients_are_exact(method):
    kernel = Kernel(0.8)
    problem, solver, solution = solved(method, kernel=kernel)
    _, _, mean, variance = closed_form(kernel=kernel)
    posterior = bgp.Posterior(kernel, X, problem, solution)
    np.testing.assert_allclose(posterior.latent(NEW), (mean, variance), rtol=1e-10)
    loo = solver.leave_one_out(problem, solution)
    inverse = np.linalg.inv(problem.gram + np.diag(NOISE))
    sd = np.sqrt(1.0 / np.diag(inverse))
    expected = stats.norm(Y - (inverse @ Y) * sd**2, sd).logpdf(Y)
    np.testing.assert_allclose(loo.log_density, expected, rtol=1e-8, atol=1e-9)
    total = 0.5 * (np.outer(inverse @ Y, inverse @ Y) - inverse)
    np.testing.assert_allclose(solver.gram_gradient(problem, solution), total, atol=1e-8)


def test_equal_variances_are_one_number():
    each, one = (solved("tap", likelihood=Gaussian(noise))[2] for noise in (np.full(40, 0.3), 0.3))
    np.testing.assert_array_equal(each.alpha, one.alpha)
    assert each.evidence.value == one.evidence.value


def test_nothing_is_corrected():
    problem, _, solution = solved("tap")
    assert second_order(problem, solution).correction == 0.0


def test_through_the_door_and_a_file(tmp_path):
    idata = bgp.fit(
        X,
        Y,
        Kernel(1.5),
        Gaussian(NOISE),
        hyper=bgp.hyper.Evidence(starts=1),
        draws=400,
        chains=2,
        random_seed=1,
        progress=False,
    )
    kernel = bgp.posterior(idata).kernel
    assert float(idata["fit"]["log_evidence"]) == pytest.approx(closed_form(kernel=kernel)[0], abs=1e-8)
    for factor in (0.98, 1.02):  # it is a maximum
        other = kernel.replace(lengthscale=factor * kernel.params["lengthscale"])
        assert closed_form(kernel=other)[0] < closed_form(kernel=kernel)[0]
    said = bgp.predict(idata, NEW, random_seed=2)["predictions"]
    _, _, mean, variance = closed_form(kernel=kernel)
    np.testing.assert_allclose(said["y_mean"].values, mean, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(said["y_sd"].values ** 2, variance + NOISE.mean(), rtol=1e-8)
    spread = (idata["posterior_predictive"]["y"] - idata["posterior"]["f"]).values.std(axis=(0, 1))
    np.testing.assert_allclose(spread, np.sqrt(NOISE), rtol=0.15)
    exact = exact_loo(bgp.posterior(idata).problem, "tap")
    np.testing.assert_allclose(exact.log_density, idata["fit"]["loo_i"].values, atol=1e-6)
    path = str(tmp_path / "fit.nc")
    idata.to_netcdf(path)
    loaded = az.from_netcdf(path)
    assert bgp.posterior(loaded).problem.likelihood == Gaussian(NOISE) == from_dict(Gaussian(NOISE).to_dict())
    np.testing.assert_array_equal(bgp.predict(loaded, NEW, random_seed=2)["predictions"]["y"], said["y"])


def test_only_one_number_is_a_parameter():
    assert Gaussian(0.5).parameters == {"noise_variance": 0.5}
    assert Gaussian(NOISE).parameters == {}


@pytest.mark.parametrize(
    ("noise", "said"),
    [
        ([1.0, 0.0], r"noise_variance must be a finite number > 0 .* or one such number for each case, got 0\. A case"),
        ([1.0, np.nan], "got nan"),
        ([], r"got shape \(0,\)"),
        ([[1.0]], r"got shape \(1, 1\)"),
        ("much", "got 'much'"),
    ],
)
def test_what_is_no_variance_is_refused(noise, said):
    with pytest.raises(ValueError, match=said):
        Gaussian(noise)


def test_variances_of_other_cases_are_refused():
    with pytest.raises(
        ValueError, match=r"Gaussian has the noise variances of 3 cases, all of .*got shape \(40,\)\. Give"
    ):
        bgp.fit(X, Y, KERNEL, Gaussian([1.0, 2.0, 3.0]), progress=False)
