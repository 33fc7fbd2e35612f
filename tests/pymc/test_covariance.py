"""Kernels of this package in models of PyMC: the same numbers and gradients as PyMC's own, in every linker."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.likelihoods import Gaussian, NegativeBinomial, StudentT
from bayesgp_mf.pymc import Marginal, kernel_from_pymc, kernel_to_pymc
from tests.pymc.conftest import INTERPRETED

X = np.random.default_rng(1).normal(size=(8, 2))
OTHER = np.random.default_rng(2).normal(size=(5, 2))
KERNEL = kernels.Gaussian([0.7, 1.5], 2.0) * kernels.Linear() + kernels.Matern52(1.2)
VALUES = {"gaussian_lengthscale": [0.9, 1.1], "linear_weight": 0.4, "matern52_variance": 1.7}
CALLS = {
    "gram": (lambda cov, A, B: cov(A), lambda kernel: kernel.gram(X)),
    "cross": (lambda cov, A, B: cov(A, B), lambda kernel: kernel.cross(X, OTHER)),
    "diag": (lambda cov, A, B: cov(A, diag=True), lambda kernel: kernel.diag(X)),
}


def made_of(values):
    """Tensors by name, and their covariance function."""
    tensors = {name: pt.tensor(name, dtype="float64", shape=np.shape(value)) for name, value in values.items()}
    return tensors, kernel_to_pymc(KERNEL, **tensors)


@pytest.mark.parametrize("call", CALLS)
def test_covariances_and_their_gradients_are_those_of_the_kernel(call):
    tensors, cov_func = made_of(VALUES)
    A, B = pt.dmatrix("A"), pt.dmatrix("B")
    value = CALLS[call][0](cov_func, A, B)
    weight = np.random.default_rng(3).normal(size=CALLS[call][1](KERNEL).shape)  # of a Gram matrix, not symmetric
    bar = pt.sum(value * weight)
    moved = [A, B] if call == "cross" else [A]
    inputs = [A, B, *tensors.values()]
    run = pytensor.function(
        inputs,
        [value, bar, *pytensor.grad(bar, [*moved, *tensors.values()])],
        mode=INTERPRETED,
        on_unused_input="ignore",
    )
    at = [X, OTHER, *(np.asarray(value) for value in VALUES.values())]
    found, _, *slopes = run(*at)
    np.testing.assert_array_equal(found, CALLS[call][1](KERNEL.replace(**VALUES)))
    for slope, position in zip(slopes, [*range(len(moved)), *range(2, len(at))], strict=True):
        assert slope.shape == at[position].shape
        direction = np.random.default_rng(4).normal(size=slope.shape)
        ends = [run(*at[:position], at[position] + h * direction, *at[position + 1 :])[1] for h in (1e-5, -1e-5)]
        assert np.sum(slope * direction) == pytest.approx((ends[0] - ends[1]) / 2e-5, rel=1e-6)


def test_a_sum_with_a_covariance_function_of_pymc():
    ours, theirs = kernel_to_pymc(kernels.Gaussian(1.5)), pm.gp.cov.Constant(0.5)
    expected = kernels.Gaussian(1.5, 2.0) + kernels.Bias(0.5)
    for total in (2.0 * ours + theirs, np.array(2.0) * ours + 0.5, 0.5 + pt.constant(2.0) * ours):
        assert isinstance(total, pm.gp.cov.BaseCovariance)
        for value, wanted in (
            (total(X), expected.gram(X)),
            (total(X, OTHER), expected.cross(X, OTHER)),
            (total(X, diag=True), expected.diag(X)),
        ):
            np.testing.assert_allclose(value.eval(mode=INTERPRETED), wanted, rtol=1e-14)
    linear = pm.gp.cov.Linear(2, c=0.0)
    product = (kernels.Gaussian(1.5) * kernels.Linear()).gram(X)
    for both in (ours * linear, linear * ours):
        np.testing.assert_allclose(both(X).eval(mode=INTERPRETED), product, rtol=1e-12)
    with pytest.raises(ValueError, match="another one or one number, got one with 1 dimensions"):
        ours * np.ones(8)
    again = kernel_from_pymc(kernel_to_pymc(kernels.Gaussian(), lengthscale=pt.dscalar("ls")), ls=1.5)
    np.testing.assert_array_equal(again.gram(X), kernels.Gaussian(1.5).gram(X))
    bar = np.random.default_rng(1).normal(size=(8, 5))
    np.testing.assert_allclose(
        again.inputs_vjp(X, OTHER, bar), kernels.Gaussian(1.5).inputs_vjp(X, OTHER, bar), rtol=1e-12
    )


@pytest.fixture(scope="module")
def regressions():
    """The same regression by PyMC's own process and by ours, as compiled densities with gradients, and processes."""
    y, models = np.sin(2.0 * X[:, 0]), []
    for ours in (True, False):
        with pm.Model() as model:
            ls, variance = pm.LogNormal("ls", shape=2), pm.LogNormal("variance")
            noise = pm.LogNormal("noise")
            if ours:
                gp = Marginal(
                    kernel_to_pymc(kernels.Matern52(), lengthscale=ls, variance=variance),
                    Gaussian(),
                    mean_func=pm.gp.mean.Constant(0.3),
                    noise_variance=noise,
                )
                gp.marginal_likelihood("y", X, y)
            else:
                gp = pm.gp.Marginal(
                    mean_func=pm.gp.mean.Constant(0.3), cov_func=variance * pm.gp.cov.Matern52(2, ls=ls)
                )
                gp.marginal_likelihood("y", X=X, y=y, sigma=pt.sqrt(noise), jitter=0.0)
        models.append((model, gp))
    return models


def test_regression_has_the_density_gradient_and_predictions_of_pymc(regressions):
    point = np.array([-0.2, 0.4, 0.3, -1.0])  # logarithms
    found = []
    for model, _ in regressions:
        function = model.logp_dlogp_function(ravel_inputs=True, mode=INTERPRETED)
        function.set_extra_values({})
        found.append(function(point))
    assert found[0][0] == pytest.approx(found[1][0], rel=1e-8)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-8, atol=1e-8)
    (_, ours), (model, theirs) = regressions
    values = {"ls": np.exp(point[:2]), "variance": np.exp(point[2]), "noise": np.exp(point[3])}
    mean, covariance = ours.predict(OTHER, values)
    with model:
        mu, cov = theirs._predict_at(OTHER, jitter=0.0)  # noqa: SLF001  (predict would compile)
    wanted = pytensor.function([model[name] for name in values], [mu, cov], mode=INTERPRETED)(*values.values())
    np.testing.assert_allclose(mean, wanted[0], atol=1e-8)
    np.testing.assert_allclose(covariance, wanted[1], atol=1e-8)
    assert np.max(np.abs(mean - ours.predict(OTHER, values | {"noise": 0.5})[0])) > 1e-3


@pytest.mark.parametrize(
    ("likelihood", "names"), [(NegativeBinomial(1.0), ["dispersion"]), (StudentT(), ["scale", "df"])], ids=str
)
def test_parameters_of_newer_likelihoods_are_random_with_exact_gradients(likelihood, names):
    y = np.array([0.0, 3.0, 1.0, 7.0, 0.0, 2.0, 1.0, 4.0])
    with pm.Model() as model:
        given = {name: pm.LogNormal(name, 0.0, 0.5) for name in names}
        gp = Marginal(kernels.Matern32(1.2), likelihood, control=bgp.Control(tolerance=1e-10), **given)
        gp.marginal_likelihood("y", X, y)
    function = model.logp_dlogp_function(ravel_inputs=True, mode=INTERPRETED)
    function.set_extra_values({})
    at = np.log([1.5, 4.0][: len(names)])
    value, slope = function(at)
    evidence = gp.posterior(dict(zip(names, np.exp(at), strict=True))).log_evidence
    prior = np.sum(-0.5 * (at / 0.5) ** 2 - np.log(0.5 * np.sqrt(2.0 * np.pi)))
    assert value == pytest.approx(evidence + prior, rel=1e-8)
    for i in range(len(names)):
        step = 1e-4 * np.eye(len(names))[i]
        assert slope[i] == pytest.approx((function(at + step)[0] - function(at - step)[0]) / 2e-4, rel=1e-5)


def test_outside_of_the_domain_the_density_is_zero_and_so_is_its_gradient():
    with pm.Model() as model:
        variance, ls = pm.Normal("variance", 1.0, 2.0), pm.Normal("ls", 1.0, 1.0)
        gp = Marginal(kernel_to_pymc(kernels.Matern32(), variance=variance, lengthscale=ls))
        gp.marginal_likelihood("y", X, X[:, 0] > 0)
    function = model.logp_dlogp_function(ravel_inputs=True, mode=INTERPRETED)
    function.set_extra_values({})
    assert np.isfinite(function(np.array([1.0, 1.0]))[0])
    for outside in ([-1.0, 1.0], [1.0, -1.0], [1.0, 0.0]):
        value, slope = function(np.array(outside))
        assert value == -np.inf
        np.testing.assert_allclose(slope, [-(outside[0] - 1.0) / 4.0, -(outside[1] - 1.0)])  # the prior's alone


@pytest.mark.parametrize("mode", ["FAST_RUN", "NUMBA"])
def test_every_linker_gives_the_same_without_a_warning(mode):
    ls = pt.dscalar("ls")
    total = pt.sum(kernel_to_pymc(kernels.Matern32(), lengthscale=ls)(X) ** 2)
    outputs = [total, pytensor.grad(total, ls)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS")
        found = pytensor.function([ls], outputs, mode=mode)(0.8)
    np.testing.assert_allclose(found, pytensor.function([ls], outputs, mode=INTERPRETED)(0.8), rtol=1e-13)


def test_mistakes_are_named():
    with pytest.raises(ValueError, match=r"kernel must be one of bayesgp_mf\.kernels"):
        kernel_to_pymc(pm.gp.cov.ExpQuad(1, ls=1.0))
    with pytest.raises(ValueError, match=r"unknown parameter 'ls' of the kernel; it has .'lengthscale', 'variance'"):
        kernel_to_pymc(kernels.Matern32(), ls=1.0)
    with pytest.raises(ValueError, match="lengthscale must be finite and > 0"):
        kernel_to_pymc(kernels.Matern32(), lengthscale=-1.0)
    with pytest.raises(ValueError, match="variance must be one number"):
        kernel_to_pymc(kernels.Matern32(), variance=pm.LogNormal.dist(shape=2))
    with pytest.raises(ValueError, match=r"lengthscale must be one number, or a vector .* got 2 dimensions"):
        kernel_to_pymc(kernels.Matern32(), lengthscale=pt.dmatrix())
    with pytest.raises(ValueError, match="this kernel is one for each class"):
        kernel_to_pymc(kernels.PerClass(kernels.Matern32(), kernels.Matern32()))
    with pytest.raises(ValueError, match=r"got the class Gaussian: write it with \(\)"):
        Marginal(kernels.Gaussian)
    with pytest.raises(ValueError, match=r"got the class Gaussian\."):
        kernel_to_pymc(kernels.Gaussian)
    with pytest.raises(ValueError, match=r"X must be a matrix .* of all cases, pass X\[:, None\]"):
        kernel_to_pymc(kernels.Matern32())(X[:, 0])
    three = kernel_to_pymc(kernels.Matern32(), lengthscale=pt.as_tensor_variable(np.ones(3)))
    with pytest.raises(ValueError, match="lengthscale has 3 entries, but X has 2 columns"):
        three(X).eval(mode=INTERPRETED)
    long = pt.dvector("long")  # whose length is not known before
    with pytest.raises(ValueError, match="variance must be one number"):
        kernel_to_pymc(kernels.Matern32(), variance=long)(X).eval({long: np.ones(2)}, mode=INTERPRETED)
