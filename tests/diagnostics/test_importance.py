"""Importance weights: exact answers by quadrature and in regression, and approximations that must be found out."""

from __future__ import annotations

import math

import arviz as az
import numpy as np
import pytest
from scipy.stats import multivariate_normal

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group, group_names, make_container
from bayesgp_mf.diagnostics import importance
from bayesgp_mf.diagnostics.importance import weigh
from bayesgp_mf.kernels import Matern32
from bayesgp_mf.likelihoods import Gaussian as Regression
from bayesgp_mf.processes.single import Posterior

X20 = np.linspace(-2.0, 2.0, 20)[:, None]
KERNEL = Matern32(variance=4.0)


def exact_moments(gram, t, likelihood):
    """Mean and sd of f, and the log evidence, by the trapezoidal rule on a grid (n = 1 or 2)."""
    n = len(t)
    axis = np.linspace(-9.0, 9.0, 901) * np.sqrt(gram[0, 0])
    f = np.stack(np.meshgrid(*[axis] * n, indexing="ij"), axis=-1).reshape(-1, n)
    density = multivariate_normal(np.zeros(n), gram).pdf(f) * np.exp(likelihood.log_prob(t, f).value.sum(axis=1))
    weights = density * (axis[1] - axis[0]) ** n
    mean = weights @ f / weights.sum()
    return mean, np.sqrt(weights @ (f - mean) ** 2 / weights.sum()), math.log(weights.sum())


def weighed(problem, solved=None, marginals="gaussian"):
    """Weights under one problem of draws from the solution of another one (default: of the same)."""
    solved = solved or problem
    solution = bgp.solve(solved.gram, solved.t, solved.likelihood)
    drawn = Posterior(KERNEL, X20[: solved.n], solved, solution).draw(4000, np.random.default_rng(1), marginals)
    prior = multivariate_normal(np.zeros(problem.n), problem.gram).logpdf(drawn.f)
    log_p = prior + problem.likelihood.log_prob(problem.t, drawn.f).value.sum(axis=1)
    log_q = drawn.log_q - 0.5 * np.linalg.slogdet(solved.gram)[1]  # from the density of u to that of f = A u
    return weigh(drawn.f, log_p - log_q)


@pytest.mark.parametrize("marginals", ["gaussian", "tilted"])
@pytest.mark.parametrize("n", [1, 2])
def test_corrected_numbers_are_exact(n, marginals):
    gram, t, likelihood = KERNEL.gram(X20[:n]), np.array([1.0, -1.0])[:n], bgp.Probit(0.3)
    mean, sd, log_evidence = exact_moments(gram, t, likelihood)
    problem = bgp.Problem(gram, t, likelihood)
    found = weighed(problem, marginals=marginals)
    assert np.all(np.abs(found.mean - mean) < 4.0 * found.mean_error)
    assert np.all(np.abs(found.sd - sd) < 4.0 * found.sd_error)
    assert abs(found.log_evidence - log_evidence) < 4.0 * found.log_evidence_error + 1e-5
    assert np.all(found.mean_error < 0.1)
    assert found.log_evidence_error < 0.05
    if n == 1 and marginals == "tilted":  # the exact posterior: weights are equal but for the interpolation
        assert found.pareto_k < 0.3
        assert found.ess > found.n_draws - 1e-3
        assert found.log_evidence == pytest.approx(log_evidence, abs=1e-5)


def test_regression_has_equal_weights():
    t = np.sin(X20[:, 0])
    idata = bgp.fit(X20, t, KERNEL, Regression(0.1), random_seed=0)
    found = importance(idata)
    assert found.trusted
    assert found.pareto_k == -math.inf
    assert found.ess == pytest.approx(4000.0)
    np.testing.assert_allclose(found.log_evidence, float(idata["fit"]["log_evidence"]), atol=1e-9)
    f = idata["posterior"]["f"].values.reshape(-1, 20)
    np.testing.assert_allclose(found.mean, f.mean(axis=0))
    np.testing.assert_allclose(found.mean_error, f.std(axis=0) / np.sqrt(4000), rtol=1e-6)


def test_errors_are_those_of_repeated_draws():
    """Of 60 estimates of everything, the scatter is what each says of itself."""
    rng = np.random.default_rng(0)
    idata = bgp.fit(X20, X20[:, 0] > 0, KERNEL, random_seed=0, draws=5)
    process = Posterior(
        KERNEL, X20, bgp.posterior(idata).problem, bgp.solve(KERNEL.gram(X20), np.sign(X20[:, 0]), bgp.Probit())
    )
    found = []
    for _ in range(60):
        drawn = process.draw(1000, rng)
        found.append(weigh(drawn.f, drawn.log_p - drawn.log_q))
    for name in ("mean", "sd", "log_evidence"):
        values, errors = (np.array([getattr(one, n) for one in found]) for n in (name, f"{name}_error"))
        ratio = np.mean(values.std(axis=0) / errors.mean(axis=0))
        assert 0.75 < ratio < 1.3, name


@pytest.mark.parametrize("wrong", [Matern32(variance=0.2), Matern32(4.0, 4.0)], ids=["variance", "lengthscale"])
def test_a_wrong_kernel_is_found_out(wrong):
    t = np.sign(X20[:, 0])
    right = bgp.Problem(KERNEL.gram(X20), t, bgp.Probit())
    good, bad = weighed(right), weighed(right, bgp.Problem(wrong.gram(X20), t, bgp.Probit()))
    assert good.trusted
    assert bad.pareto_k > 0.7
    assert not bad.trusted
    assert "do not trust these numbers, since k-hat is above 0.7" in str(bad)


def test_few_effective_draws_are_not_trusted():
    rng = np.random.default_rng(0)
    f, log_weights = rng.standard_normal((60, 1)), 0.5 * rng.standard_normal(60)
    found = weigh(f, log_weights)
    assert found.pareto_k < found.largest_k < 0.7
    assert not found.trusted
    assert "fewer than 100 draws are effective" in str(found)
    few = weigh(np.zeros((60, 1)), -0.55 * np.log(np.linspace(0.01, 1.0, 60)))
    assert few.largest_k < few.pareto_k < 0.7
    assert "so few draws bear a k-hat of 0.44 only. Take more draws." in str(few)


def test_heavy_tails_have_the_known_shape():
    """Weights with P(w > x) = x^(-1/k) have the shape k."""
    rng = np.random.default_rng(0)
    for k in (0.2, 0.5, 1.0):
        log_weights = -k * np.log(rng.random(100_000))
        found = weigh(np.zeros((100_000, 1)), log_weights)
        assert found.pareto_k == pytest.approx(k, abs=0.1)
        assert found.trusted is (k < 0.7)


def test_draws_without_weight_count():
    f = np.concatenate([np.ones((400, 1)), np.full((600, 1), 50.0)])
    log_weights = np.concatenate([np.full(400, 2.0), np.full(600, -np.inf)])
    found = weigh(f, log_weights)
    assert found.mean[0] == pytest.approx(1.0)
    assert found.log_evidence == pytest.approx(2.0 + math.log(0.4))
    assert found.log_evidence_error == pytest.approx(math.sqrt(0.6 / 0.4 / 1000), rel=2e-3)
    assert found.ess == pytest.approx(400.0)
    assert weigh(f, np.where(np.arange(1000) < 10, np.arange(1000.0), -np.inf)).pareto_k == math.inf


def test_a_file_and_a_data_set(tmp_path):
    idata = bgp.fit(X20, X20[:, 0] > 0, KERNEL, random_seed=0, draws=100)
    found = importance(idata)
    idata.to_netcdf(str(tmp_path / "a.nc"), engine="h5netcdf")
    again = importance(az.from_netcdf(str(tmp_path / "a.nc"), engine="h5netcdf")).to_dataset()
    assert dict(again.sizes) == {"obs_id": 20}
    np.testing.assert_array_equal(again["mean"].values, found.mean)
    assert float(again["pareto_k"]) == found.pareto_k
    assert again.attrs["summary"] == str(found)


def test_an_average_over_hyperparameters_has_no_evidence():
    priors = {"lengthscale": bgp.hyper.LogNormal(0.0, 1.0), "variance": bgp.hyper.LogNormal(0.0, 1.0)}
    idata = bgp.fit(X20, X20[:, 0] > 0, KERNEL, hyper="integrate", priors=priors, random_seed=0, progress=False)
    found = importance(idata)
    assert found.log_evidence is None
    assert "log_evidence" not in found.to_dataset()
    assert np.all(np.isfinite(found.mean))


def test_what_cannot_be_weighed_is_refused():
    few = bgp.fit(X20, X20[:, 0] > 0, KERNEL, draws=6, random_seed=0)
    bare = {name: get_group(few, name) for name in group_names(few) if name != "sample_stats"}
    with pytest.raises(ValueError, match="'tap' has no draws to weigh: the group sample_stats is missing"):
        importance(make_container(bare))
    with pytest.raises(ValueError, match="at least 30 draws, got 24"):
        importance(few)
    with pytest.raises(ValueError, match="expected an ArviZ container"):
        importance({})
    with pytest.raises(ValueError, match=r"none of 30 draws is possible .* marginals='tilted'"):
        weigh(np.zeros((30, 1)), np.full(30, -np.inf))
    idata = bgp.fit(X20, X20[:, 0] > 0, KERNEL, draws=10, random_seed=0)
    groups = {name: get_group(idata, name).copy(deep=True) for name in group_names(idata)}
    groups["sample_stats"]["log_q"].values[0, 0] = np.nan
    with pytest.raises(ValueError, match="NaN or infinite"):
        importance(make_container(groups))
