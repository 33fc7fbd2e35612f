"""The exact model: its densities are those of the likelihoods, and its evidence is the one approximated."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import (
    Beta,
    Binomial,
    Censored,
    Exponential,
    Gamma,
    Gaussian,
    Hurdle,
    LogLogistic,
    LogNormal,
    NegativeBinomial,
    Poisson,
    Quadrature,
    StudentT,
    Truncated,
    Weibull,
    ZeroInflated,
)
from bayesgp_mf.pymc import LogEvidence, kernel_to_pymc, latent_conditional, latent_model, observe
from bayesgp_mf.pymc.latent import log_prob
from bayesgp_mf.types import Derivs
from tests.pymc.conftest import INTERPRETED

F = np.array([-30.0, -5.0, -0.3, 0.0, 1.0, 8.0])
T = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])


REAL = [
    (Poisson(), {}),
    (NegativeBinomial(1.5), {}),
    (NegativeBinomial(1.5), {"dispersion": 0.4}),
    (Binomial(9), {}),
    (Binomial([3, 4, 5, 6, 7, 8]), {}),
    (StudentT(0.5, 3.0), {}),
    (StudentT(0.5, 3.0), {"scale": 2.0}),
    (StudentT(0.5, 3.0), {"df": 7.0}),
    (ZeroInflated(Poisson(), 0.3), {"probability": 0.5}),
    (Hurdle(NegativeBinomial(1.5), 0.3), {"dispersion": 0.4}),
    (Truncated(Poisson()), {}),
    (Gamma(2.0), {"shape": 5.0}),
    (Beta(5.0), {"precision": 3.0}),
]


def pointwise(model):
    (log_prob,) = model.logp(model.observed_RVs, sum=False)
    return log_prob.eval(mode="FAST_COMPILE")


@pytest.mark.parametrize(
    ("likelihood", "parameters"),
    [
        (bgp.Probit(0.5), {}),
        (bgp.Probit(), {"noise_variance": 0.5, "flip": 0.1}),
        (bgp.Probit(0.5, 0.1), {}),
        (bgp.Logit(), {}),
        (Gaussian(0.3), {}),
    ],
    ids=str,
)
def test_labels_given_latent_values(likelihood, parameters):
    with pm.Model() as model:
        y = observe("y", np.asarray(F), T, likelihood, **parameters)
    expected = bgp.Probit(**parameters) if parameters else likelihood
    np.testing.assert_allclose(pointwise(model), expected.log_prob(T, F).value, rtol=3e-6)
    drawn = pm.draw(y, 200, random_seed=1, mode=INTERPRETED)
    if expected.targets == "binary":
        assert set(np.unique(drawn)) == {0, 1}
        error = np.sqrt(0.25 / 200)
        np.testing.assert_allclose(drawn.mean(axis=0), expected.predict_proba(F, 0.0 * F), atol=4 * error)


@pytest.mark.parametrize(("likelihood", "parameters"), REAL, ids=str)
@pytest.mark.parametrize("random", [False, True], ids=["numbers", "variables"])
def test_counts_and_outliers_given_latent_values(likelihood, parameters, random):
    t = np.array([0.0, 3.0, 1.0, 2.0, 5.0, 1.0])
    t = (
        t + 1.0
        if isinstance(likelihood, Truncated | Gamma)
        else (t + 1.0) / 10.0
        if isinstance(likelihood, Beta)
        else t
    )
    with pm.Model() as model:
        f = np.array([-4.0, 2.0, -0.3, 0.0, 1.0, 3.0])
        given = {name: pt.as_tensor_variable(value) for name, value in parameters.items()} if random else parameters
        y = observe("y", f, t, likelihood, **given)
    expected = likelihood.with_parameters(**parameters)
    wanted = expected.log_prob(t, f).value
    np.testing.assert_allclose(pointwise(model), wanted, rtol=1e-12)
    if parameters:
        assert np.max(np.abs(likelihood.log_prob(t, f).value - wanted)) > 0.01  # they are no longer its own
    mean, variance = expected.predictive_moments(f, np.zeros(6))
    error = np.sqrt(variance / 400)
    drawn = pm.draw(y, 400, random_seed=1, mode=INTERPRETED)
    assert np.all(np.abs(drawn.mean(axis=0) - mean) < 5 * error)


def test_a_model_of_counts_is_the_one_approximated(data):
    # the density of f and y in the exact model is what the solver integrates: Laplace's mode is its mode
    counts = np.round(np.exp(data.X[:, 0]))
    with pm.Model() as model:
        dispersion = pm.LogNormal("dispersion")
        cov_func = kernel_to_pymc(bgp.kernels.Matern32(1.3), variance=pm.LogNormal("variance"))
        latent_model(data.X, counts, cov_func, NegativeBinomial(1.0), dispersion=dispersion)
    gram = bgp.kernels.Matern32(1.3, 2.0).gram(data.X) + 1e-6 * np.eye(20)
    solution = bgp.solve(gram, counts, NegativeBinomial(1.5), method="laplace")
    z = np.linalg.solve(np.linalg.cholesky(gram), gram @ solution.alpha)
    point = {"dispersion_log__": np.log(1.5), "variance_log__": np.log(2.0), "f_rotated_": z}
    slope = model.compile_dlogp(vars=[model["f_rotated_"]], mode=INTERPRETED)
    np.testing.assert_allclose(slope(point), 0.0, atol=1e-5)
    assert np.max(np.abs(slope({**point, "dispersion_log__": 0.0}))) > 1e-2


class Own(bgp.likelihoods.Likelihood):
    """A likelihood of a user's own, a sigmoid of f/s, with a parameter that may be random."""

    targets, forbids, log_concave = "binary", False, True

    def __init__(self, scale):
        self.scale = scale

    @property
    def parameters(self):
        return {"scale": self.scale}

    def with_parameters(self, scale):
        return Own(scale)

    def log_prob(self, t, f):
        scale = self.parameters["scale"]
        value, d1, d2 = bgp.Logit().log_prob(t, f / scale)
        return Derivs(value, d1 / scale, d2 / scale**2)

    def log_partition(self, t, mean, variance):
        scale = self.parameters["scale"]
        value, d1, d2 = bgp.Logit().log_partition(t, mean / scale, variance / scale**2)
        return Derivs(value, d1 / scale, d2 / scale**2)

    def parameter_derivative(self, name, t, mean, variance):
        _, d1, d2 = self.log_partition(t, mean, variance)
        value = -(mean * d1 + variance * (d2 + d1**2)) / self.parameters["scale"]
        return Derivs(value, np.full_like(value, np.nan), np.full_like(value, np.nan))  # which nobody asks for here

    def predict_proba(self, mean, variance):
        return np.exp(self.log_partition(np.ones_like(mean), mean, variance).value)

    def sample(self, f, rng):
        return bgp.Logit().sample(f / self.parameters["scale"], rng)

    def log_prob_graph(self, functions, t, f, scale=None):
        return -functions.softplus(-t * f / (self.parameters["scale"] if scale is None else scale))


@pytest.mark.parametrize("parameters", [{}, {"scale": 0.5}])
def test_a_likelihood_of_ones_own_writes_its_density(parameters):
    own = Own(2.0)
    with pm.Model() as model:
        observe("y", np.asarray(F), T, own, **parameters)
    np.testing.assert_allclose(pointwise(model), Own(**({"scale": 2.0} | parameters)).log_prob(T, F).value, rtol=1e-6)


def test_a_likelihood_of_ones_own_may_have_random_parameters(data):
    with pm.Model() as model:
        scale = pm.LogNormal("scale")
        observe("y", data.X[:, 0], data.t, Own(2.0), scale=scale)
    found = model.compile_logp(vars=model.observed_RVs, mode="FAST_COMPILE")({"scale_log__": 0.3})
    assert found == pytest.approx(Own(np.exp(0.3)).log_prob(data.t, data.X[:, 0]).value.sum())
    gram, step = bgp.kernels.Gaussian().gram(data.X), 1e-4
    outputs = LogEvidence(Own(2.0), parameters=["scale"])(gram, data.t, 1.5)
    slope = np.diff([bgp.solve(gram, data.t, Own(1.5 + h)).evidence.value for h in (-step, step)]) / (2.0 * step)
    np.testing.assert_allclose(outputs[2].eval(mode="FAST_COMPILE"), slope[0], rtol=1e-5)


def test_the_exact_evidence_is_the_one_approximated(data):
    # E[p(y | f)] over f from the prior of the model is p(y): by Monte Carlo for six cases
    X, y, t = data.X[:6], data.y[:6], data.t[:6]
    model = latent_model(X, y, 4.0 * pm.gp.cov.ExpQuad(2, ls=1.0))
    assert pm.Model.get_context(error_if_none=False) is None
    f = pm.draw(model["f"], 4000, random_seed=1, mode=INTERPRETED)
    probability = np.exp(bgp.Probit().log_prob(t, f).value.sum(axis=1))
    error = probability.std() / np.sqrt(4000) / probability.mean()
    gram = bgp.kernels.Gaussian(1.0, 4.0).gram(X)
    approximate = bgp.solve(gram, t, bgp.Probit()).evidence.value
    assert np.log(probability.mean()) == pytest.approx(approximate, abs=0.02 + 4 * error)
    assert np.log(probability.mean()) != pytest.approx(bgp.solve(gram, np.abs(t), bgp.Probit()).evidence.value, abs=0.5)


def test_it_joins_the_model_in_context(data):
    with pm.Model() as model:
        noise, flip = pm.LogNormal("noise"), pm.Uniform("flip", 0.0, 0.5)
        cov_func = pm.gp.cov.ExpQuad(2, ls=pm.LogNormal("ls"))
        assert latent_model(data.X, data.y, cov_func, noise_variance=noise, flip=flip) is model
    assert [variable.name for variable in model.free_RVs] == ["noise", "flip", "ls", "f_rotated_"]
    z = np.random.default_rng(1).normal(size=20)
    point = {"noise_log__": -0.3, "flip_interval__": 0.2, "ls_log__": 0.1, "f_rotated_": z}
    found = model.compile_logp(vars=model.observed_RVs, mode="FAST_COMPILE")(point)
    root = np.linalg.cholesky(bgp.kernels.Gaussian(np.exp(0.1)).gram(data.X) + 1e-6 * np.eye(20))
    likelihood = bgp.Probit(np.exp(-0.3), 0.5 / (1.0 + np.exp(-0.2)))
    assert found == pytest.approx(likelihood.log_prob(data.t, root @ z).value.sum(), rel=1e-6)
    assert np.all(np.isfinite(model.compile_dlogp(mode="FAST_COMPILE")(point)))


def test_mistakes_are_named(data):
    with pytest.raises(bgp.UndefinedQuantityError, match="the step likelihood jumps"):
        latent_model(data.X, data.y, pm.gp.cov.ExpQuad(2, ls=1.0), bgp.Step())
    with pytest.raises(bgp.UndefinedQuantityError, match="not known in terms of PyTensor"):
        latent_model(data.X, data.y, pm.gp.cov.ExpQuad(2, ls=1.0), Quadrature(lambda t, f: -((t - f) ** 2)))
    with pytest.raises(ValueError, match="unknown parameter 'sigma'"):
        latent_model(data.X, data.y, pm.gp.cov.ExpQuad(2, ls=1.0), sigma=1.0)
    with pytest.raises(ValueError, match="covariance function such as"):
        latent_model(data.X, data.y, "gaussian")


def test_new_inputs_continue_the_latent_values(data):
    """Mean and covariance are those of the prior given f; at inputs of the training cases they are f again."""
    inputs, mean = data.X[:3] + 0.4, lambda X: X @ np.array([0.5, -1.0])
    with pm.Model() as model:
        ls = pm.LogNormal("ls")
        latent_model(data.X, data.y, 2.0 * pm.gp.cov.Matern32(2, ls=ls), mean_func=mean)
        X_new = pm.Data("X_new", inputs)
        f_new = latent_conditional("f_new", X_new)
    moments = pytensor.function(
        [model["ls"], model["f"]], f_new.owner.op.dist_params(f_new.owner), mode=INTERPRETED, on_unused_input="ignore"
    )
    f, kernel = np.random.default_rng(3).normal(size=20), bgp.kernels.Matern32(0.7, 2.0)
    gram, cross = kernel.gram(data.X) + 1e-6 * np.eye(20), kernel.cross(data.X, inputs)
    found_mean, covariance = moments(0.7, f)
    expected = mean(inputs) + cross.T @ np.linalg.solve(gram, f - mean(data.X))
    np.testing.assert_allclose(found_mean, expected, atol=1e-8)
    left = kernel.gram(inputs) - cross.T @ np.linalg.solve(gram, cross)
    np.testing.assert_allclose(covariance, left + 1e-6 * np.eye(3), atol=1e-8)
    X_new.set_value(data.X[4:6])
    np.testing.assert_allclose(moments(0.7, f)[0], f[4:6], atol=1e-4)
    with pm.Model(), pytest.raises(ValueError, match="no latent process that could be continued"):
        latent_conditional("f_new", inputs)


@pytest.mark.parametrize("name", ["noise_variance", "shape"])
@pytest.mark.parametrize(
    "seen", [Gaussian(0.3), LogNormal(0.4), Weibull(1.5), LogLogistic(2.0), Exponential()], ids=str
)
def test_what_is_known_of_censored_targets_given_latent_values(seen, name):
    """Their densities, and the slopes in the latent values, with a parameter that is given as a tensor too."""
    likelihood = Censored(seen, [np.nan, np.inf, -np.inf, 2.0, 1.001, np.inf])
    parameters = {name: pt.as_tensor_variable(0.9)} if name in likelihood.parameters else {}
    t, f = np.ones(6), np.array([0.5, -2.0, 3.0, 0.2, 0.0, 4.0])
    values = pt.dvector("f")
    graph = log_prob(likelihood, pt.as_tensor_variable(t), values, parameters)
    slope = pytensor.grad(graph.sum(), values)
    found, d1 = pytensor.function([values], [graph, slope], mode="FAST_COMPILE")(f)
    expected = likelihood.with_parameters(**{name: 0.9} if parameters else {}).log_prob(t, f)
    np.testing.assert_allclose(found, expected.value, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(d1, expected.d1, rtol=1e-5, atol=1e-7)


def test_the_exact_model_takes_times_and_events():
    X, y = np.linspace(0.0, 2.0, 6)[:, None], np.column_stack([np.linspace(1.0, 3.0, 6), [1, 0, 1, 1, 0, 1]])
    with pm.Model() as model:
        latent_model(X, y, pm.gp.cov.ExpQuad(1, ls=1.0), Censored(Weibull(1.0)))
    known = Censored(Weibull(1.0), np.where(y[:, 1] == 1, np.nan, np.inf))
    values = {"f_rotated_": np.zeros(6)}
    logp = model.compile_logp(vars=model.observed_RVs, mode="FAST_COMPILE")(values)
    np.testing.assert_allclose(logp, known.log_prob(y[:, 0], np.zeros(6)).value.sum(), rtol=1e-9)
