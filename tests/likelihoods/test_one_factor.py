"""Normal variables with one common factor: all positive, with and without logarithms."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import log_ndtr, logsumexp

from bayesgp_mf.likelihoods import one_factor
from bayesgp_mf.likelihoods.one_factor import each_rule, log_all_positive


def rows(shift: float):
    rng = np.random.default_rng(0)
    return rng.normal(size=(40, 4)) * 3.0 + shift, np.full((40, 4), np.sqrt(0.5))


@pytest.mark.parametrize("shift", [0.0, -15.0, -60.0])
def test_a_sum_of_products_is_the_sum_of_their_logarithms(shift):
    """To the last digits, from ordinary probabilities to those of which no float64 is left."""
    mean, loading = rows(shift)
    (nodes,) = each_rule(mean, loading)
    wanted = logsumexp(nodes.log_term, axis=1)
    np.testing.assert_allclose(log_all_positive(mean, loading), wanted, rtol=2e-13, atol=2e-13)
    assert np.any(wanted < -800) == (shift == -60.0)


def test_one_variable_is_positive_with_its_normal_probability():
    mean = np.linspace(-45.0, 9.0, 60)[:, None]
    np.testing.assert_allclose(
        log_all_positive(mean, np.full((60, 1), 0.5)), log_ndtr(mean[:, 0]), rtol=1e-12, atol=1e-15
    )


def test_logarithms_of_factors_are_taken_where_they_are_needed_only(monkeypatch):
    """They are most of the time of draws of several classes, and of curves of their probabilities."""

    def refuse(x):
        raise AssertionError("log_ndtr was asked")

    monkeypatch.setattr(one_factor, "log_ndtr", refuse)
    assert np.all(log_all_positive(*rows(0.0)) < 0.0)
    with pytest.raises(AssertionError, match="log_ndtr was asked"):
        log_all_positive(*rows(-60.0))
