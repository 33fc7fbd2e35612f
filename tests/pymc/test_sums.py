"""Processes that are added: the labels belong to the sum, and each part has its own conditional."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest

import bayesgp_mf as bgp
from bayesgp_mf import kernels
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.pymc import Marginal, kernel_to_pymc
from tests.pymc.conftest import INTERPRETED

NEW = np.random.default_rng(3).normal(size=(4, 2))
POINT = {"ls": 0.8, "noise": 0.3, "slope": [0.5, -1.0]}


@pytest.fixture(scope="module")
def sums(data):
    """A regression on a sum of two processes with a mean each, by ours and by PyMC's."""
    y, found = np.sin(2.0 * data.X[:, 0]) + 0.2 * data.X[:, 1], []
    for ours in (True, False):
        with pm.Model() as model:
            ls, noise = pm.LogNormal("ls"), pm.LogNormal("noise")
            mean = pm.gp.mean.Linear(pm.Normal("slope", shape=2)), pm.gp.mean.Constant(0.3)
            if ours:
                rough = kernel_to_pymc(kernels.Gaussian(), lengthscale=ls)
                one = Marginal(rough, Gaussian(), mean_func=mean[0], noise_variance=noise)
                two = Marginal(kernels.Matern52(2.0, 0.5), Gaussian(), mean_func=mean[1], noise_variance=noise)
                (one + two).marginal_likelihood("other", data.X, y)  # any number of sums
                total = one + two
                total.marginal_likelihood("y", data.X, y)
            else:
                one = pm.gp.Marginal(mean_func=mean[0], cov_func=pm.gp.cov.ExpQuad(2, ls=ls))
                two = pm.gp.Marginal(mean_func=mean[1], cov_func=0.5 * pm.gp.cov.Matern52(2, ls=2.0))
                total = one + two
                total.marginal_likelihood("y", X=data.X, y=y, sigma=pt.sqrt(noise), jitter=0.0)
        found.append((model, one, two, total))
    return found


def test_the_density_of_a_sum_is_that_of_pymc(sums):
    point = {"ls_log__": np.log(0.8), "noise_log__": np.log(0.3), "slope": [0.5, -1.0]}
    values = [
        float(model.compile_logp(vars=[model["y"]], mode=INTERPRETED)(point)) for model in (sums[0][0], sums[1][0])
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_the_conditionals_of_parts_and_sum_are_those_of_pymc(sums):
    (model, *ours, total), (other, *theirs, their_total) = sums
    found, wanted = [], []
    with model:
        for i, part in enumerate((*ours, total)):
            f = part.conditional(f"f{i}", NEW, given={"gp": total}, jitter=0.0)
            found += f.owner.op.dist_params(f.owner)
    with other:
        for part in (*theirs, their_total):
            wanted += part._predict_at(NEW, given={"gp": their_total, **given_of(their_total)}, jitter=0.0)  # noqa: SLF001
    sides = [
        pytensor.function([where[name] for name in POINT], outputs, mode=INTERPRETED)(*POINT.values())
        for where, outputs in ((model, found), (other, wanted))
    ]
    for got, expected in zip(*sides, strict=True):
        np.testing.assert_allclose(got, expected, atol=1e-8)
    parts = [part.predict(NEW, POINT, given={"gp": total}) for part in (*ours, total)]
    for (mean, covariance), k in zip(parts, range(0, 6, 2), strict=True):
        np.testing.assert_allclose(mean, sides[0][k], atol=1e-10)
        np.testing.assert_allclose(covariance, sides[0][k + 1], atol=1e-10)
    np.testing.assert_allclose(parts[0][0] + parts[1][0], parts[2][0], atol=1e-10)
    assert np.max(np.abs(parts[0][0] - parts[1][0])) > 0.1  # and they are not one another


def given_of(gp):
    return {"X": gp.X, "y": gp.y, "sigma": gp.sigma}


def test_a_sum_of_labels_is_one_process_with_the_sum_of_the_kernels(data):
    flip = pt.constant(0.1)
    one, two = (Marginal(kernel, flip=flip) for kernel in (kernels.Gaussian(0.8, 3.0), kernels.Bias(2.0)))
    three = Marginal(pm.gp.cov.WhiteNoise(0.5), flip=flip)
    total = one + two + three  # PyMC itself adds no constant to white noise
    with pm.Model():
        total.marginal_likelihood("y", data.X, data.y)
    kernel = kernels.Gaussian(0.8, 3.0) + kernels.Bias(2.0) + kernels.White(0.25)
    expected = bgp.solve(kernel.gram(data.X), data.t, bgp.Probit(flip=0.1))
    assert total.posterior({}).log_evidence == pytest.approx(expected.evidence.value, rel=1e-12)
    mean, variance = (one + two).predict(NEW, {}, diag=True, given={"gp": total})
    cross = kernels.Gaussian(0.8, 3.0).cross(data.X, NEW) + 2.0
    np.testing.assert_allclose(mean, cross.T @ expected.alpha, rtol=1e-10)
    np.testing.assert_allclose(variance, 5.0 - np.diag(expected.correction.quadratic(cross)), rtol=1e-10)


def test_mistakes_are_named(data):
    one = Marginal(kernels.Gaussian())
    with pytest.raises(TypeError):
        one + kernels.Gaussian()
    with pytest.raises(ValueError, match="differ in likelihood, method"):
        one + Marginal(kernels.Gaussian(), bgp.Logit(), method="naive")
    with pytest.raises(ValueError, match="differ in noise_variance"):
        one + Marginal(kernels.Gaussian(), noise_variance=pt.constant(1.0))
    two = Marginal(kernels.Matern32())
    total = one + two
    with pm.Model():
        total.marginal_likelihood("y", data.X, data.y)
    with pytest.raises(ValueError, match="call marginal_likelihood"):
        one.predict(NEW, {})
    with pytest.raises(ValueError, match=r"given must be .*, got the keys \['X', 'gp'\]"):
        one.predict(NEW, {}, given={"X": data.X, "gp": total})
    with pytest.raises(ValueError, match=r"given must be .*, got Marginal"):
        one.predict(NEW, {}, given=total)
    with pytest.raises(ValueError, match="no sum of which this process is a part"):
        Marginal(kernels.Matern32()).conditional("f", NEW, given={"gp": total})
