"""The density of one variable times a sigmoid, on a grid."""

from __future__ import annotations

import numpy as np
import pytest

from bayesgp_mf.likelihoods.logistic_normal import COARSE, GridRule, by_rule, discretise


@pytest.mark.parametrize("slope", [1e5, 3e5, 1e7, 1e10, 1e16, 1e20])
def test_coarse_rules_are_as_good_as_fine_ones_under_any_slope(slope):
    ((rule, _),) = by_rule(np.array([slope]), COARSE)
    c, variance = slope * np.array([-6.0, -1.0, -0.1, 0.0, 0.1, 3.0]), np.full(6, slope**2)
    found, fine = (discretise(c, variance, one) for one in (rule, GridRule(6000, 9.5, 4.0)))
    np.testing.assert_allclose(found.log_integral, fine.log_integral, atol=1e-6)
    means = (np.sum(one.weight * one.x, axis=-1) for one in (found, fine))
    np.testing.assert_allclose(*means, atol=1e-6)
