"""Coefficients of the linear part: those of ridge regression, of the function itself, and of averages."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import coefficients
from tests.plots.fits import SMALL, made

RNG = np.random.default_rng(2)
X = pd.DataFrame(RNG.standard_normal((40, 3)), columns=["plan", "age", "idle"])
Y = 1.0 + 2.0 * X["plan"] - 0.5 * X["age"] + 0.3 * RNG.standard_normal(40)
NOISE = bgp.likelihoods.Gaussian(0.09)
WHOLE = bgp.kernels.Linear([2.0, 0.5, 1.0]) + bgp.kernels.Bias(4.0) + bgp.kernels.Gaussian(2.0, 0.3)


def test_of_linear_terms_alone_they_are_those_of_a_ridge_regression():
    kernel = bgp.kernels.Linear(2.0) + bgp.kernels.Bias(4.0)
    found = coefficients(bgp.fit(X, Y, kernel, NOISE, **SMALL))
    A = np.column_stack([X, np.ones(40)])
    precision = A.T @ A / 0.09 + np.diag([0.5, 0.5, 0.5, 0.25])
    np.testing.assert_allclose(found["mean"], np.linalg.solve(precision, A.T @ Y / 0.09), rtol=1e-8)
    np.testing.assert_allclose(found["sd"], np.sqrt(np.diag(np.linalg.inv(precision))), rtol=1e-8)
    assert list(found.index) == ["plan", "age", "idle", "intercept"]


def test_beside_other_terms_they_are_their_own_part_of_the_posterior():
    found = coefficients(bgp.fit(X, Y, WHOLE, NOISE, **SMALL))
    weight = np.array([2.0, 0.5, 1.0])
    C = np.vstack([weight[:, None] * X.to_numpy().T, np.full(40, 4.0)])
    inverse = np.linalg.inv(WHOLE.gram(X.to_numpy()) + 0.09 * np.eye(40))
    np.testing.assert_allclose(found["mean"], C @ inverse @ Y, rtol=1e-8)
    variance = [*weight, 4.0] - np.einsum("ij,jk,ik->i", C, inverse, C)
    np.testing.assert_allclose(found["sd"], np.sqrt(variance), rtol=1e-8)


def test_a_term_of_some_columns_has_these():
    kernel = bgp.kernels.Linear(columns=["age", "plan"]) + bgp.kernels.Gaussian(1.0, columns="idle")
    assert list(coefficients(bgp.fit(X, Y > 1, kernel, **SMALL)).index) == ["age", "plan"]


def test_an_average_has_the_moments_of_its_settings():
    kernel = bgp.kernels.Linear() + bgp.kernels.Bias()
    priors = {"linear_weight": bgp.hyper.LogNormal(0.0, 1.0)}
    idata = bgp.fit(X, Y > 1, kernel, hyper="integrate", priors=priors, fixed=["bias_variance"], **SMALL)
    found, process = coefficients(idata), bgp.posterior(idata)
    ends = np.vstack([np.eye(3), np.zeros((1, 3))])
    mean = process.latent(ends)[0]  # the whole function is linear
    np.testing.assert_allclose(found["mean"], np.append(mean[:3] - mean[3], mean[3]), rtol=1e-8)
    np.testing.assert_allclose(found.loc["intercept", "sd"], np.sqrt(process.latent(ends)[1][3]), rtol=1e-8)


def test_where_there_is_no_linear_part_it_says_so():
    with pytest.raises(ValueError, match="no Linear term: Gaussian"):
        coefficients(made("binary"))
    with pytest.raises(ValueError, match="no Linear term"):
        coefficients(bgp.fit(X, Y, bgp.kernels.Linear() * bgp.kernels.Gaussian(), NOISE, **SMALL))
    with pytest.raises(bgp.UndefinedQuantityError, match="latent function of its own"):
        coefficients(made("classes"))
