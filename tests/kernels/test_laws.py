"""Kernels that are equal to others in another form: `Matern12`, `Periodic`."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from bayesgp_mf.kernels import Gaussian, Matern12, Matern32, Periodic
from tests.kernels.cases import ARD
from tests.kernels.differences import check_gradient

X = np.random.default_rng(0).standard_normal((9, 3))


def test_matern12_is_the_exponential_of_the_distance():
    expected = 2.0 * np.exp(-cdist(X / ARD, X[:4] / ARD))
    np.testing.assert_allclose(Matern12(ARD, 2.0).cross(X, X[:4]), expected, rtol=1e-14)


def test_on_a_line_matern12_is_markov():
    # an Ornstein-Uhlenbeck process: given its neighbours a value is independent of all others
    times = np.sort(np.random.default_rng(3).uniform(0.0, 5.0, 12))[:, None]
    precision = np.linalg.inv(Matern12(1.3).gram(times))
    beyond = np.abs(np.subtract.outer(np.arange(12), np.arange(12))) > 1
    assert np.abs(precision[beyond]).max() < 1e-10 * np.abs(precision).max()
    assert np.abs(np.linalg.inv(Matern32(1.3).gram(times))[beyond]).max() > 1e-3  # no other one is


@pytest.mark.parametrize("apart", [0.0, 1e-16, 1e-12, 1e-6])
@pytest.mark.parametrize("scale", [1.0, ARD])
def test_the_gradient_of_matern12_is_right_where_cases_nearly_coincide(apart, scale):
    rows = 3.0 + np.vstack([X, X * (1.0 + apart)])
    gram_bar = 1.0 + np.random.default_rng(1).random((18, 18))
    gram_bar += gram_bar.T
    differences = (rows[:, None] - rows[None]) / np.broadcast_to(scale, 3)
    r = np.sqrt(np.sum(differences**2, axis=2, keepdims=True))
    by_each = np.exp(-r) * np.divide(differences**2, r, out=np.zeros_like(differences), where=r > 0)
    expected = np.einsum("ij,ijl->l", gram_bar, by_each) / np.broadcast_to(scale, 3)
    expected = expected if np.ndim(scale) else expected.sum()
    kernel = Matern12(scale)
    np.testing.assert_allclose(kernel.gram_vjp(rows, gram_bar)["lengthscale"], expected, rtol=1e-12)
    np.testing.assert_allclose(kernel.cross_vjp(rows, rows, gram_bar)["lengthscale"], expected, rtol=1e-12)


@pytest.mark.parametrize("period", [1.7, [1.5, 2.0, 3.1]])
@pytest.mark.parametrize("lengthscale", [0.8, ARD])
def test_periodic_is_the_gaussian_kernel_on_circles(lengthscale, period):
    angle = 2 * np.pi * X / period
    circles = np.hstack([np.cos(angle), np.sin(angle)])
    twice = lengthscale if np.ndim(lengthscale) == 0 else np.tile(lengthscale, 2)
    np.testing.assert_allclose(
        Periodic(lengthscale, 2.0, period).gram(X), Gaussian(twice, 2.0).gram(circles), rtol=1e-12
    )


def test_periodic_is_its_formula_and_repeats_itself():
    kernel, z = Periodic(0.8, 2.0, 1.7), X[:4]
    sines = np.sin(np.pi * (X[:, None] - z[None]) / 1.7)
    np.testing.assert_allclose(
        kernel.cross(X, z), 2.0 * np.exp(-2 * np.sum(sines**2, axis=2) / 0.8**2), rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(kernel.cross(X + np.array([1.7, -3.4, 0.0]), z), kernel.cross(X, z), rtol=1e-12)
    assert np.abs(kernel.cross(X + 0.85, z) - kernel.cross(X, z)).max() > 0.1


def test_periodic_is_that_of_pymc_at_half_the_length_scale():
    pm = pytest.importorskip("pymc")
    line = X[:, :1]
    theirs = pm.gp.cov.Periodic(1, period=1.7, ls=0.4)(line).eval()
    np.testing.assert_allclose(Periodic(0.8, period=1.7).gram(line), theirs, rtol=1e-10)


def test_the_gradient_in_the_period_does_not_depend_on_where_the_inputs_are():
    kernel, rows = Periodic(0.8, period=2.0), np.round(X * 2**10) / 2**10
    bar = np.random.default_rng(1).standard_normal((9, 9))
    near = kernel.gram_vjp(rows, bar + bar.T)["period"]
    np.testing.assert_allclose(kernel.gram_vjp(rows + 2.0**20, bar + bar.T)["period"], near, rtol=1e-8)
    check_gradient(kernel, kernel.gram_vjp(rows, bar + bar.T), lambda k: float(np.sum(k.gram(rows) * (bar + bar.T))))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Periodic(period=0.0), r"period must be finite and > 0, got 0\.0"),
        (lambda: Periodic(period=[1.0, 2.0]).gram(X), "period has 2 entries, but X has 3 columns"),
        (lambda: Periodic([1.0, 2.0]).cross(X, X), "lengthscale has 2 entries, but X has 3 columns"),
        (lambda: Periodic(period=[1.0, 2.0], columns=0), r"period has 2 entries, but columns has 1: \[0\]"),
        (lambda: Matern12(-1.0), "lengthscale must be finite and > 0"),
    ],
)
def test_bad_parameters_are_named(make, message):
    with pytest.raises(ValueError, match=message):
        make()
