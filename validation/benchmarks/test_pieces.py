"""The small pieces of a solution, timed by pytest-benchmark: ``make bench ARGS=pieces``.

Not collected by ``make test``, where the plugin is off. Each function also checks what it timed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.factors import cholesky, triangular_inverse
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.methods import get_method

N, D = 500, 5
LIKELIHOODS = [bgp.Probit(), bgp.Probit(flip=0.1), bgp.Logit(), bgp.Step()]

RNG = np.random.default_rng(1)
X = RNG.standard_normal((N, D))
KERNEL = bgp.kernels.Gaussian(np.full(D, 2.0), 4.0)
GRAM = KERNEL.gram(X)
T = np.where(X[:, 0] > 0, 1.0, -1.0)

Timer = Callable[..., Any]


def test_gram(benchmark: Timer) -> None:
    gram = benchmark(KERNEL.gram, X)
    assert np.array_equal(gram, gram.T)


def test_gram_vjp(benchmark: Timer) -> None:
    slopes = benchmark(KERNEL.gram_vjp, X, GRAM)
    assert slopes["lengthscale"].shape == (D,)


def test_cholesky(benchmark: Timer) -> None:
    lower = benchmark(cholesky, GRAM + np.eye(N))
    assert np.allclose(lower @ lower.T, GRAM + np.eye(N))


def test_triangular_inverse(benchmark: Timer) -> None:
    lower = cholesky(GRAM + np.eye(N))
    inverse = benchmark(triangular_inverse, lower)
    assert np.allclose(inverse @ lower, np.eye(N))


def test_cavity_variances(benchmark: Timer) -> None:
    variance = benchmark(lambda: SiteCorrection(GRAM, np.full(N, 0.5)).cavity_variance())
    assert np.all((variance > 0) & (variance < 4.0))


@pytest.mark.parametrize("likelihood", LIKELIHOODS, ids=repr)
def test_log_partition(benchmark: Timer, likelihood: Likelihood) -> None:
    mean, variance = np.linspace(-3.0, 3.0, N), np.full(N, 2.0)
    derivs = benchmark(likelihood.log_partition, T, mean, variance)
    assert np.all(derivs.value < 0)


@pytest.mark.parametrize("method", ["tap", "laplace"])
def test_gram_gradient(benchmark: Timer, method: str) -> None:
    solver, problem = get_method(method), bgp.Problem(GRAM, T, bgp.Probit())
    gradient = benchmark(solver.gram_gradient, problem, solver.solve(problem))
    assert np.allclose(gradient, gradient.T)
