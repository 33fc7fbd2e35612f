"""Third and fourth derivatives of log Z against differences of the second, and where they are known."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods.higher import higher_derivatives, rough_higher_derivatives

MEAN, VARIANCE = np.array([-6.0, -1.0, 0.0, 0.3, 4.0]), np.array([0.1, 2.0, 1.0, 30.0, 1e-3])
T = np.array([1.0, 1.0, -1.0, 1.0, 1.0])


def exact(mean, variance, order):
    """Return the derivative of log Phi(m / sqrt(variance + 1)) of an order, in 40 digits."""
    with mpmath.workdps(40):
        return float(mpmath.diff(lambda m: mpmath.log(mpmath.ncdf(m / mpmath.sqrt(variance + 1.0))), mean, order))


@pytest.mark.parametrize(("function", "tolerance"), [(higher_derivatives, 1e-9), (rough_higher_derivatives, 2e-4)])
def test_derivatives_of_a_probit(function, tolerance):
    d2 = bgp.Probit().log_partition(T, MEAN, VARIANCE).d2
    d3, d4 = function(bgp.Probit(), T, MEAN, VARIANCE, d2)
    np.testing.assert_allclose(
        d3, [t * exact(t * m, v, 3) for t, m, v in zip(T, MEAN, VARIANCE, strict=True)], rtol=tolerance, atol=tolerance
    )
    np.testing.assert_allclose(
        d4, [exact(t * m, v, 4) for t, m, v in zip(T, MEAN, VARIANCE, strict=True)], rtol=tolerance, atol=tolerance
    )


@pytest.mark.parametrize("function", [higher_derivatives, rough_higher_derivatives])
def test_a_parabola_has_none(function):
    likelihood = bgp.likelihoods.Gaussian(0.5)
    d2 = likelihood.log_partition(T, MEAN, VARIANCE).d2
    for derivative in function(likelihood, T, MEAN, VARIANCE, d2):
        np.testing.assert_array_equal(derivative, 0.0)
