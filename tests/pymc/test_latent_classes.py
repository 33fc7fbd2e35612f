"""The exact model with several classes: its densities are those of the likelihoods, and NUTS on it finds the record."""

from __future__ import annotations

from functools import partial

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.pymc import latent_conditional, latent_model, observe
from tests.pymc.conftest import INTERPRETED
from validation.multinomial.density import probabilities

NAMES = ("a", "b", "c", "d", "e", "f")


def latent_values(n_classes):
    """Return latent values of some cases, of near and of hopeless labels too."""
    f = 3.0 * np.random.default_rng(1).standard_normal((7, n_classes))
    f[0], f[1, 0], f[2, -1] = 0.0, 25.0, -40.0
    return f, np.arange(7) % n_classes


@pytest.mark.parametrize("n_classes", [2, 3, 6])
@pytest.mark.parametrize("kind", [bgp.Softmax, bgp.MultinomialProbit, partial(bgp.MultinomialProbit, flip=0.1)])
def test_labels_given_latent_values(kind, n_classes):
    (f, t), likelihood = latent_values(n_classes), kind(NAMES[:n_classes])
    values = pytensor.shared(f)
    with pm.Model() as model:
        y = observe("y", values, t, likelihood)
    (log_prob,) = model.logp(model.observed_RVs, sum=False)
    value, slope = pytensor.function([], [log_prob, pt.grad(log_prob.sum(), values)], mode=INTERPRETED)()
    expected = likelihood.log_prob(t, f)
    np.testing.assert_allclose(value, expected.value, rtol=1e-7, atol=1e-12)
    np.testing.assert_allclose(slope, expected.d1, rtol=1e-5, atol=1e-8)
    drawn = pm.draw(y, 2000, random_seed=1, mode=INTERPRETED)
    assert drawn.dtype == np.int64
    share = np.mean(drawn[..., None] == np.arange(n_classes), axis=0)
    each = np.stack([np.exp(likelihood.log_density(np.full(7, c), f)) for c in range(n_classes)], axis=1)
    np.testing.assert_allclose(share, each, atol=4.0 * 0.5 / np.sqrt(2000))


def test_noise_of_another_variance_is_another_scale():
    f, t = latent_values(3)
    density = {}
    for noise, scale in ((1.0, 1.0), (4.0, 2.0), (4.0, 1.0)):
        with pm.Model() as model:
            observe("y", pt.as_tensor(scale * f), t, bgp.MultinomialProbit(NAMES[:3], noise))
        density[noise, scale] = model.logp(model.observed_RVs, sum=False)[0].eval(mode=INTERPRETED)
    np.testing.assert_allclose(density[4.0, 2.0], density[1.0, 1.0], rtol=1e-12)
    assert np.abs(density[4.0, 1.0] - density[1.0, 1.0]).max() > 0.1
    own = np.exp(density[1.0, 1.0][3:])
    np.testing.assert_allclose(own, probabilities(f)[np.arange(3, 7), t[3:]], rtol=1e-6)


def test_flips_may_be_random_and_a_step_is_refused():
    (f, t), names = latent_values(3), NAMES[:3]
    with pm.Model() as model:
        observe("y", pt.as_tensor(f), t, bgp.MultinomialProbit(names), flip=pytensor.shared(0.2))
    at = model.logp(model.observed_RVs, sum=False)[0].eval(mode=INTERPRETED)
    np.testing.assert_allclose(at, bgp.MultinomialProbit(names, 1.0, 0.2).log_density(t, f), rtol=1e-7)
    with pm.Model(), pytest.raises(UndefinedQuantityError, match=r"without noise the likelihood jumps.*=1.0"):
        observe("y", pt.as_tensor(f), t, bgp.MultinomialProbit(names, 0.0, 0.1))


def test_the_model_is_the_one_approximated():
    rng = np.random.default_rng(2)
    X, y = rng.standard_normal((6, 2)), np.array(["x", "y", "z", "x", "y", "z"])
    model = latent_model(X, y, bgp.kernels.Gaussian(1.2, 5.0), bgp.MultinomialProbit())
    assert model.coords["class"] == ("x", "y", "z")
    assert model.named_vars_to_dims["f"] == ("obs_id", "class")
    white = rng.standard_normal((4000, 6, 3))
    f = np.linalg.cholesky(bgp.kernels.Gaussian(1.2, 5.0).gram(X) + 1e-6 * np.eye(6)) @ white
    of_prior = bgp.MultinomialProbit(("x", "y", "z")).log_density(np.array([0, 1, 2, 0, 1, 2]), f).sum(axis=1)
    density = model.compile_logp(vars=model.observed_RVs, mode=INTERPRETED)
    some = [density({"f_rotated_": each}) for each in white[:5]]
    np.testing.assert_allclose(some, of_prior[:5], rtol=1e-7)
    assert np.all(np.isfinite(model.compile_dlogp(mode=INTERPRETED)({"f_rotated_": white[0]})))
    likely = np.exp(of_prior)
    evidence = bgp.solve(
        bgp.kernels.Gaussian(1.2, 5.0).gram(X), np.array([0.0, 1, 2, 0, 1, 2]), bgp.MultinomialProbit(("x", "y", "z"))
    ).evidence.value
    error = likely.std() / likely.mean() / np.sqrt(likely.size)
    assert np.log(likely.mean()) == pytest.approx(evidence, abs=4.0 * error + 0.02)


def test_new_inputs_continue_the_latent_values_of_each_class():
    rng = np.random.default_rng(3)
    X, kernel = rng.standard_normal((8, 2)), bgp.kernels.Matern32(0.7, 2.0)
    inputs = np.concatenate([X[:2], X[:2] + 0.4])
    with latent_model(X, np.arange(8) % 3, kernel, bgp.Softmax()) as model:
        f_new = latent_conditional("f_new", inputs)
    white = next(v for v in model.free_RVs if v.name == "f_new_rotated_")
    moments = pytensor.function([model["f"], white], f_new, mode=INTERPRETED, on_unused_input="ignore")
    f, gram = rng.standard_normal((8, 3)), kernel.gram(X) + 1e-6 * np.eye(8)
    mean = moments(f, np.zeros((4, 3)))
    np.testing.assert_allclose(mean, kernel.cross(X, inputs).T @ np.linalg.solve(gram, f), atol=1e-8)
    np.testing.assert_allclose(mean[:2], f[:2], atol=1e-4)
    root = np.stack([(moments(f, np.repeat(row[:, None], 3, axis=1)) - mean)[:, 0] for row in np.eye(4)], axis=1)
    left = kernel.gram(inputs) - kernel.cross(X, inputs).T @ np.linalg.solve(gram, kernel.cross(X, inputs))
    np.testing.assert_allclose(root @ root.T, left + 1e-6 * np.eye(4), atol=1e-8)


def test_mistakes_are_named():
    X, y, kernel = np.zeros((4, 1)), np.arange(4) % 3, bgp.kernels.Gaussian(1.0, 1.0)
    with pytest.raises(ValueError, match="mean_func must be None with several classes"):
        latent_model(X, y, kernel, bgp.Softmax(), mean_func=lambda X: X[:, 0])
    with pytest.raises(ValueError, match="unknown parameter 'scale'"):
        latent_model(X, y, kernel, bgp.MultinomialProbit(), scale=1.0)
    with pytest.raises(ValueError, match=r"one for each class. .*pymc.latent_model"):
        bgp.pymc.Marginal(cov_func=kernel, likelihood=bgp.Softmax())
