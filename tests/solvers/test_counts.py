"""Evidences of counts and of measurements with outliers, beside quadrature over one, two and three latent values."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from scipy.optimize import minimize

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Binomial, NegativeBinomial, Poisson, StudentT
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.solvers.second_order import second_order

X = np.array([[0.0], [0.7], [1.5]])
GRAM = bgp.kernels.Gaussian(1.0, 1.0).gram(X)
EXPOSURE = np.array([0.5, 1.0, 4.0])
CASES = {
    "poisson": (Poisson(), [0.0, 3.0, 9.0]),
    "poisson with exposure": (by_case(Poisson(), prior_mean=np.log(EXPOSURE)), [0.0, 3.0, 14.0]),
    "negative binomial": (NegativeBinomial(2.0), [0.0, 4.0, 12.0]),
    "binomial": (Binomial(9), [0.0, 4.0, 8.0]),
    "binomial with trials of each": (Binomial([1, 5, 20]), [1.0, 2.0, 17.0]),
    "student": (StudentT(0.4, 4.0), [-0.3, 0.6, 2.5]),
}
every_case = pytest.mark.parametrize("name", CASES)
every_size = pytest.mark.parametrize("n", [1, 2, 3])


def first(name, n):
    """Return Gram matrix, targets and likelihood of the first cases."""
    likelihood, y = CASES[name]
    return GRAM[:n, :n], np.array(y[:n]), likelihood.of_cases(np.arange(n))


def integrated(gram, y, likelihood, points):
    """Return the log evidence by the trapezoidal rule in white variables, to rounding for what is smooth."""
    n, z = y.size, np.linspace(-7.5, 7.5, points)
    white = np.stack(np.meshgrid(*[z] * n, indexing="ij"), axis=-1).reshape(-1, n)
    log_prior = -0.5 * np.sum(white**2, axis=1) + n * np.log((z[1] - z[0]) / np.sqrt(2.0 * np.pi))
    log_density = likelihood.log_prob(y, white @ np.linalg.cholesky(gram).T).value.sum(axis=1)
    return float(np.logaddexp.reduce(log_prior + log_density))


@cache
def exact(name, n):
    return integrated(*first(name, n), {1: 1201, 2: 161, 3: 37}[n])


@every_case
@every_size
def test_the_evidence_of_tap_is_the_integral_but_for_thousandths(name, n):
    gram, y, likelihood = first(name, n)
    truth, solution = exact(name, n), bgp.solve(gram, y, likelihood)
    assert abs(solution.evidence.value - truth) < (1e-9 if n == 1 else 2e-3)
    if n > 1:
        known = second_order(bgp.Problem(gram, y, likelihood), solution)
        if likelihood.log_concave:
            assert abs(solution.evidence.value + known.correction - truth) < 5e-5
        else:  # the correction is no better than none, and the size of what it leaves says so
            assert abs(solution.evidence.value - truth) < abs(known.correction) + known.remaining
        wrong = np.array([*y[:-1], y[-1] + 1.0])
        assert abs(bgp.solve(gram, wrong, likelihood).evidence.value - truth) > 0.05


@every_case
@every_size
def test_the_evidence_of_laplace_is_its_formula_at_the_mode(name, n):
    """Found by another search, and as near the integral as a Gaussian about the mode is."""
    gram, y, likelihood = first(name, n)
    precision = np.linalg.inv(gram)

    def minus_log_joint(f):
        derivs = likelihood.log_prob(y, f)
        return 0.5 * f @ precision @ f - derivs.value.sum(), precision @ f - derivs.d1

    found = minimize(minus_log_joint, np.zeros(n), jac=True, method="BFGS", options={"gtol": 1e-10, "xrtol": 1e-12})
    curvature = np.eye(n) - gram * likelihood.log_prob(y, found.x).d2
    formula = -found.fun - 0.5 * np.linalg.slogdet(curvature)[1]
    value = bgp.solve(gram, y, likelihood, method="laplace").evidence.value
    assert value == pytest.approx(formula, abs=1e-7)
    assert 5e-4 < abs(value - exact(name, n)) < (0.03 if likelihood.log_concave else 0.3)


@every_case
def test_independent_cases_have_the_product_of_their_integrals(name):
    _, y, likelihood = first(name, 3)
    gram = np.diag([0.5, 1.0, 2.0])
    assert bgp.solve(gram, y, likelihood).evidence.value == pytest.approx(
        likelihood.log_partition(y, np.zeros(3), np.diagonal(gram)).value.sum(), abs=1e-9
    )
