"""The exact model: its densities are those of the likelihoods, and its evidence is the one approximated."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian, Quadrature
from bayesgp_mf.pymc import LogEvidence, latent_model, observe
from bayesgp_mf.types import Derivs
from tests.pymc.conftest import INTERPRETED

F = np.array([-30.0, -5.0, -0.3, 0.0, 1.0, 8.0])
T = np.array([1.0, -1.0, 1.0, -1.0, 1.0, -1.0])


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


class Own:
    """A likelihood of a user's own, a sigmoid of f/s, with a parameter that may be random."""

    targets, forbids, log_concave = "binary", False, True

    def __init__(self, scale):
        self.parameters = {"scale": scale}

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
        latent_model(data.X, data.y, bgp.kernels.Gaussian())
