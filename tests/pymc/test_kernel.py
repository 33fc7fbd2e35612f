"""Covariance functions of PyMC as kernels: the same numbers, with the gradients that the hyperparameters need."""

from __future__ import annotations

import pickle
from importlib import import_module
from importlib.util import find_spec

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import EvidenceScore, Objective, Target
from bayesgp_mf.methods import METHODS
from bayesgp_mf.pymc import Marginal, kernel_from_pymc, latent_model
from bayesgp_mf.pymc.covariance import as_cov_func
from bayesgp_mf.pymc.kernel import PymcCovariance
from tests.kernels.differences import check_gradient, check_moves

cov, s, v = pm.gp.cov, pt.dscalar, pt.dvector
X = np.random.default_rng(1).normal(size=(8, 3))
OTHER = np.random.default_rng(2).normal(size=(4, 3))
CASES = {
    "scaled": (s("eta") ** 2 * cov.ExpQuad(3, ls=v("ls")), {"eta": 1.3, "ls": [1.0, 2.0, 0.7]}),
    "rough": (cov.Exponential(3, ls=s("ls")), {"ls": 1.3}),
    "noise": (cov.Matern52(3, ls=s("ls")) + cov.WhiteNoise(s("sd")), {"ls": 1.3, "sd": 0.3}),
    "product": (cov.RatQuad(3, ls=s("ls"), alpha=s("a")) * cov.Linear(3, c=s("c")), {"ls": 1.3, "a": 0.8, "c": 0.4}),
    "one input": (cov.Periodic(3, period=s("p"), ls=s("ls"), active_dims=[1]), {"p": 0.8, "ls": 1.3}),
    "polynomial": (
        cov.Polynomial(3, c=s("c"), d=2, offset=s("o")) + cov.Constant(s("b")),
        {"c": 1.3, "o": 0.8, "b": 2},
    ),
    "numbers": (2.0 * cov.ExpQuad(3, ls=1.0), {}),
}


@pytest.mark.parametrize("case", CASES)
def test_covariances(case):
    cov_func, values = CASES[case]
    kernel = kernel_from_pymc(cov_func, **values)
    assert set(kernel.params) == set(values)
    gram = kernel.gram(X)
    np.testing.assert_array_equal(gram, gram.T)
    np.testing.assert_array_equal(np.diag(gram), kernel.diag(X))
    np.testing.assert_allclose(kernel.gram(np.vstack([X, OTHER]))[:8, 8:], kernel.cross(X, OTHER), atol=1e-12)
    given = {variable: np.asarray(values[name]) for name, variable in PymcCovariance(cov_func).parameters.items()}
    np.testing.assert_allclose(gram, cov_func(X).eval(given, mode="FAST_COMPILE"), atol=1e-6)


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][1]])
def test_gradients(case):
    cov_func, values = CASES[case]
    kernel = kernel_from_pymc(cov_func, **values)
    bar = np.random.default_rng(3).normal(size=(8, 8))
    bar = bar + bar.T
    gradient = kernel.gram_vjp(X, bar)
    for name, value in kernel.params.items():
        assert gradient[name].shape == value.shape
        for i in np.ndindex(value.shape):
            step = np.zeros(value.shape)
            step[i] = 1e-5
            up, down = (np.sum(bar * kernel.replace(**{name: value + d}).gram(X)) for d in (step, -step))
            difference = (up - down) / 2e-5
            assert gradient[name][i] == pytest.approx(difference, rel=1e-6, abs=1e-6)
            assert 2.0 * gradient[name][i] != pytest.approx(difference, rel=1e-2)


@pytest.mark.parametrize("case", [case for case in CASES if CASES[case][1]])
def test_gradients_of_covariances_with_other_cases(case):
    cov_func, values = CASES[case]
    kernel = kernel_from_pymc(cov_func, **values)
    bar = np.random.default_rng(3).normal(size=(8, OTHER.shape[0]))
    gradient = kernel.cross_vjp(X, OTHER, bar)
    for name, value in kernel.params.items():
        assert gradient[name].shape == value.shape
        for i in np.ndindex(value.shape):
            step = np.zeros(value.shape)
            step[i] = 1e-5
            up, down = (np.sum(bar * kernel.replace(**{name: value + d}).cross(X, OTHER)) for d in (step, -step))
            assert gradient[name][i] == pytest.approx((up - down) / 2e-5, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_gradients_of_the_diagonal_and_in_the_inputs(case):
    cov_func, values = CASES[case]
    kernel = kernel_from_pymc(cov_func, **values)
    bar = np.random.default_rng(3).normal(size=(8, OTHER.shape[0]))
    check_moves(OTHER, kernel.inputs_vjp(X, OTHER, bar), lambda B: float(np.sum(kernel.cross(X, B) * bar)))
    gradient = kernel.diag_vjp(X, bar[:, 0])
    assert gradient.keys() == values.keys()
    if values:
        check_gradient(kernel, gradient, lambda k: float(k.diag(X) @ bar[:, 0]))


def test_it_is_our_kernel_of_the_same_name():
    ours = bgp.kernels.Gaussian([1.0, 2.0, 0.7], 1.69)
    theirs = kernel_from_pymc(CASES["scaled"][0], **CASES["scaled"][1])
    np.testing.assert_allclose(theirs.gram(X), ours.gram(X), atol=1e-14)
    t = np.where(X[:, 0] + X[:, 1] > 0, 1.0, -1.0)
    sums = {}
    for kernel in (ours + bgp.kernels.Bias(2.0), theirs + kernel_from_pymc(cov.Constant(s("b")), b=2.0)):
        objective = Objective(Target(X, t, bgp.Probit(), kernel, METHODS["tap"], bgp.Control()), EvidenceScore())
        value, gradient = objective(bgp.kernels.log_vector(kernel))
        names = bgp.kernels.log_vector_names(kernel)
        sums[kernel] = value, sorted(np.abs(gradient[[i for i, name in enumerate(names) if "[" in name]]))
    np.testing.assert_allclose(*[value for value, _ in sums.values()], rtol=1e-10)
    np.testing.assert_allclose(*[slopes for _, slopes in sums.values()], rtol=1e-8)


def test_random_variables_are_parameters_and_what_they_depend_on_is_not():
    with pm.Model():
        raw = pm.Normal("raw", mu=pm.Normal("mu"))
        cov_func = cov.ExpQuad(3, ls=pm.Deterministic("ls", pt.exp(raw)))
    assert list(kernel_from_pymc(cov_func, raw=0.5).params) == ["raw"]
    np.testing.assert_allclose(
        kernel_from_pymc(cov_func, raw=0.5).gram(X), bgp.kernels.Gaussian(np.exp(0.5)).gram(X), atol=1e-14
    )


def test_data_in_a_covariance_stays_data():
    shared = pytensor.shared(1.5, name="ls")
    kernel = kernel_from_pymc(cov.ExpQuad(3, ls=shared))
    assert kernel.params == {}
    np.testing.assert_allclose(kernel.gram(X), bgp.kernels.Gaussian(1.5).gram(X), atol=1e-14)


class Foreign:
    """A kernel with the interface of those of ptgp: no class of PyMC, and no keyword ``diag`` where it is called."""

    def __init__(self, ls):
        self.ls = ls

    def __call__(self, X, Y=None):
        moved = (X[:, None, :] - (X if Y is None else Y)[None, :, :]) / self.ls
        value = pt.exp(-0.5 * pt.sum(pt.square(moved), axis=-1))
        if Y is not None or find_spec("pytensor.assumptions") is None:
            return value
        return import_module("pytensor.assumptions").assume(value, symmetric=True, positive_definite=True)

    def diag(self, X):
        return pt.ones(X.shape[0])


def test_kernels_of_other_packages_with_that_interface_are_taken():
    theirs, values = Foreign(v("ls")), {"ls": [1.0, 2.0, 0.7]}
    ours, kernel = bgp.kernels.Gaussian(values["ls"]), kernel_from_pymc(theirs, **values)
    assert repr(kernel) == "PymcKernel(Foreign, ls=[1.0, 2.0, 0.7])"
    np.testing.assert_allclose(kernel.gram(X), ours.gram(X), atol=1e-14)
    np.testing.assert_allclose(kernel.cross(X, OTHER), ours.cross(X, OTHER), atol=1e-14)
    np.testing.assert_allclose(kernel.diag(X), ours.diag(X))
    bar = np.random.default_rng(3).normal(size=(8, 8))
    bar += bar.T
    np.testing.assert_allclose(kernel.gram_vjp(X, bar)["ls"], ours.gram_vjp(X, bar)["lengthscale"], rtol=1e-10)
    y, point = X[:, 0] > 0, {"scale": 0.7}
    with pm.Model():
        ls = pm.LogNormal("scale")
        gp = Marginal(2.0 * as_cov_func(Foreign(ls))) + Marginal(Foreign(2.0 * ls))
        gp.marginal_likelihood("labels", X, y)
        latent_model(X, y, Foreign(ls))
    both = bgp.kernels.Gaussian(0.7, 2.0) + bgp.kernels.Gaussian(1.4)
    evidence = bgp.solve(both.gram(X), 2.0 * y - 1.0, bgp.Probit()).evidence.value
    assert gp.posterior(point).log_evidence == pytest.approx(evidence, rel=1e-10)
    idata = bgp.fit(X, y, Foreign(1.5), draws=5, random_seed=1, progress=False)
    assert bgp.predict(idata, OTHER, kernel=Foreign(1.5), draws=False)["predictions"]["p"].shape == (4,)


def test_kernels_that_only_look_like_that_are_refused():
    class OfArrays(Foreign):  # as those of scikit-learn are
        def __call__(self, X, Y=None):
            return np.linalg.norm(np.asarray(X, dtype=float), axis=1)

    with pytest.raises(ValueError, match=r"kernel must be one of .*, got .*OfArrays"):
        bgp.fit(X, X[:, 0] > 0, OfArrays(1.0))
    with pytest.raises(ValueError, match=r"such as pm\.gp\.cov\.ExpQuad.*, got OfArrays"):
        Marginal(OfArrays(1.0))


def test_mistakes_are_named():
    scaled, values = CASES["scaled"]
    with pytest.raises(ValueError, match="covariance function such as"):
        kernel_from_pymc(pm.gp.cov.ExpQuad)
    with pytest.raises(ValueError, match="is a kernel of this package already"):
        kernel_from_pymc(bgp.kernels.Gaussian())
    with pytest.raises(ValueError, match="depends on 'eta'"):
        kernel_from_pymc(scaled, ls=np.ones(3))
    with pytest.raises(ValueError, match=r"unknown parameter 'variance'"):
        kernel_from_pymc(scaled, variance=1.0, **values)
    with pytest.raises(ValueError, match="eta must be finite and > 0"):
        kernel_from_pymc(scaled, eta=-1.0, ls=np.ones(3))
    with pytest.raises(ValueError, match="ls must have 1 dimensions"):
        kernel_from_pymc(scaled, eta=1.0, ls=1.0)
    with pytest.raises(ValueError, match="has no name"):
        kernel_from_pymc(cov.ExpQuad(3, ls=pt.dscalar()))
    with pytest.raises(ValueError, match="two variables have the name 'ls'"):
        kernel_from_pymc(cov.ExpQuad(3, ls=s("ls")) + cov.ExpQuad(3, ls=s("ls")), ls=1.0)
    with pytest.raises(bgp.UndefinedQuantityError, match="cannot be saved"):
        kernel_from_pymc(scaled, **values).to_dict()


def test_random_variables_of_a_model_go_to_other_processes():
    with pm.Model():
        cov_func = pm.gp.cov.ExpQuad(1, ls=pm.InverseGamma("ls", 3.0, 3.0))
    kernel, X = kernel_from_pymc(cov_func, ls=2.0), np.array([[0.0], [1.0]])
    again = pickle.loads(pickle.dumps(kernel))
    np.testing.assert_array_equal(again.gram(X), kernel.gram(X))
