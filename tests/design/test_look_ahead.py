"""Looking ahead, against fits with one case more."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.design import look_ahead

RNG = np.random.default_rng(0)
X = RNG.uniform(-2.0, 2.0, (40, 2))
Y = X[:, 0] + X[:, 1] + RNG.standard_normal(40) > 0
NEW, AT = RNG.uniform(-3.0, 3.0, (4, 2)), RNG.uniform(-3.0, 3.0, (3, 2))
KERNEL = bgp.kernels.Gaussian(1.0, 9.0) + bgp.kernels.Bias()
FEW = {"draws": 2, "chains": 1, "random_seed": 1}


LIKELIHOODS = {
    "gaussian": (bgp.likelihoods.Gaussian(0.1), X[:, 0]),
    "probit": (bgp.Probit(), Y),
    "lapses": (bgp.Probit(flip=0.03), Y),
    "logit": (bgp.Logit(), Y),
    "ordinal": (bgp.Ordinal([-1.0, 1.0]), np.arange(40) % 3),
    "counts": (bgp.Poisson(), np.arange(40) % 3),
}


@pytest.mark.parametrize("name", LIKELIHOODS)
def test_it_is_what_a_fit_with_that_case_says(name):
    likelihood, y = LIKELIHOODS[name]
    kernel = bgp.kernels.Gaussian(1.0, 0.5) if name == "counts" else KERNEL
    before = bgp.fit(X, y, kernel, likelihood, **FEW)
    found, plain = (look_ahead(before, NEW, AT, answering=answering) for answering in (64, 0))
    assert found.probability.sum(axis=0) == pytest.approx(np.ones(4), abs=1e-8)
    off = []
    for k in (0, 20, 63) if name == "gaussian" else range(min(len(found.outcome), 3)):
        for i in range(4):
            target = found.outcome[k, i] > 0 if likelihood.is_binary else found.outcome[k, i]
            idata = bgp.fit(np.concatenate([X, NEW[i : i + 1]]), np.append(y, target), kernel, likelihood, **FEW)
            mean, variance = bgp.posterior(idata).latent(AT)
            assert found.mean[k, i] == pytest.approx(mean, abs=1e-4 * np.sqrt(variance).max())
            assert found.variance[k, i] == pytest.approx(variance, rel=1e-4)
            off.append(np.abs(plain.mean[k, i] - mean) / np.sqrt(variance))
    assert (np.max(off) < 1e-10) == (name == "gaussian")  # the control: sites that stay are not enough
    assert np.max(off) < 0.35


def test_an_average_is_weighed_anew():
    idata = bgp.fit(X, Y, KERNEL, hyper="integrate", **FEW)
    found, parts = look_ahead(idata, NEW), bgp.posterior(idata)
    each = [look_ahead(part, NEW) for part in parts.parts]
    weight = np.array([w * one.probability[1, 0] for w, one in zip(parts.weights, each, strict=True)])
    mean = (weight / weight.sum()) @ [one.mean[1, 0] for one in each]
    assert found.mean[1, 0] == pytest.approx(mean)
    variance = (weight / weight.sum()) @ [one.variance[1, 0] + (one.mean[1, 0] - mean) ** 2 for one in each]
    assert found.variance[1, 0] == pytest.approx(variance)
    assert found.mean.shape == (2, 4, 4)
