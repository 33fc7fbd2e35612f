"""Targets that say far more than the prior: variances are right, or it is said that rounding decides."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.likelihoods import StudentT

GRAM = bgp.kernels.Gaussian().gram(np.array([[0.0], [1.0], [2.0]]))
Y = np.array([0.3, -0.2, 0.9])


@pytest.mark.parametrize("df", [4.0, 30.0])
@pytest.mark.parametrize("n", [1, 2, 3])
def test_under_a_narrow_student_the_posterior_is_the_noise_about_the_targets(n, df):
    """The prior has the same density wherever the likelihood has any, but for a part of the order of the scale."""
    scale = 1e-8
    solution = bgp.solve(GRAM[:n, :n], Y[:n], StudentT(scale, df))
    sd = np.sqrt(solution.correction.covariance_diagonal())
    np.testing.assert_allclose(sd, scale * np.sqrt(df / (df - 2.0)), rtol=1e-6)
    np.testing.assert_allclose(GRAM[:n, :n] @ solution.alpha, Y[:n], rtol=1e-12)
    prior = -0.5 * (Y[:n] @ np.linalg.solve(GRAM[:n, :n], Y[:n]) + np.linalg.slogdet(2 * np.pi * GRAM[:n, :n])[1])
    assert abs(solution.evidence.value - prior) < 1e-6
    assert solution.info.mean_error < 1e-6


class Nothing(StudentT):
    """One whose variances are known by a difference only."""

    def tilted_share(self, t, mean, variance):
        return None


def test_variances_of_which_rounding_left_nothing_are_refused():
    with pytest.raises(NotPositiveDefiniteError, match="rounding decides"):
        bgp.solve(GRAM[:1, :1], Y[:1], Nothing(1e-8, 4.0))
    known = bgp.solve(GRAM[:1, :1], Y[:1], Nothing(1e-4, 4.0))
    assert known.info.mean_error > 1e-10
