"""The Cholesky factor, the root of a singular matrix, and the correction R against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.linalg import (
    DenseCorrection,
    SiteCorrection,
    cholesky,
    is_positive_semidefinite,
    psd_root,
    triangular_inverse,
)


def random_gram(seed: int, n: int, rank: int) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((n, rank))
    return root @ root.T


def test_cholesky_rebuilds_the_matrix_and_refuses_an_indefinite_one():
    matrix = random_gram(0, 5, 8)
    factor = cholesky(matrix)
    np.testing.assert_allclose(factor @ factor.T, matrix, rtol=1e-13)
    assert np.all(np.triu(factor, 1) == 0)
    np.testing.assert_allclose(triangular_inverse(factor) @ factor, np.eye(5), atol=1e-13)
    with pytest.raises(NotPositiveDefiniteError, match="5 x 5"):
        cholesky(matrix - 100 * np.eye(5))


@given(seed=st.integers(0, 1000), n=st.integers(1, 12), rank=st.integers(1, 12))
@settings(deadline=None, max_examples=50)
def test_root_of_a_singular_matrix(seed, n, rank):
    gram = random_gram(seed, n, rank)
    root = psd_root(gram)
    assert root.shape[1] <= min(n, rank)
    np.testing.assert_allclose(root @ root.T, gram, atol=1e-12 * np.trace(gram))


@pytest.mark.parametrize(("lowest", "expected"), [(0.0, True), (-1e-12, True), (-1e-5, False), (-1.0, False)])
def test_positive_semidefinite_up_to_rounding(lowest, expected):
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((4, 4)))[0]
    gram = rotation @ np.diag([lowest, 0.5, 1.0, 2.0]) @ rotation.T
    before = gram.copy()
    assert is_positive_semidefinite(gram) is expected
    np.testing.assert_array_equal(gram, before)


def site_precisions(seed: int, n: int, gram: np.ndarray, negative: int) -> np.ndarray:
    """Precisions over many orders of magnitude, zero among them; a few negative but still valid."""
    rng = np.random.default_rng(seed)
    precision = 10.0 ** rng.uniform(-9, 3, n)
    precision[0] = 0.0
    if negative:
        precision[-negative:] = -0.2 / np.trace(gram)
    return precision


@pytest.mark.parametrize("rank", [3, 9])
@pytest.mark.parametrize("negative", [0, 2])
def test_site_correction_is_the_inverse_of_gram_plus_site_variance(rank, negative):
    n = 7
    gram = random_gram(1, n, rank)
    precision = site_precisions(2, n, gram, negative)
    correction = SiteCorrection(gram, precision)
    # R = W (I + K W)^-1 needs no inverse of K or W
    expected = np.linalg.solve((np.eye(n) + gram * precision).T, np.diag(precision)).T
    np.testing.assert_allclose(correction.dense(), expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(correction.diagonal(), np.diag(expected), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(correction.log_det, np.linalg.slogdet(np.eye(n) + gram * precision)[1], rtol=1e-10)
    vector = np.arange(1.0, n + 1)
    np.testing.assert_allclose(correction.multiply(vector), expected @ vector, rtol=1e-8, atol=1e-10)
    cross = np.random.default_rng(3).standard_normal((n, 4))
    quadratic = cross.T @ expected @ cross
    np.testing.assert_allclose(correction.quadratic(cross), quadratic, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(correction.quadratic_diagonal(cross), np.diag(quadratic), rtol=1e-8, atol=1e-10)
    dense = DenseCorrection(expected)
    np.testing.assert_allclose(dense.quadratic(cross), quadratic, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(dense.quadratic_diagonal(cross), np.diag(quadratic), rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("negative", [0, 2])
def test_cavity_variance_is_what_is_left_without_the_own_site(negative):
    n = 8
    gram = random_gram(4, n, 5)
    precision = site_precisions(5, n, gram, negative)
    cavity = SiteCorrection(gram, precision).cavity_variance()
    for i in range(n):
        others = precision.copy()
        others[i] = 0.0
        covariance = np.linalg.solve(np.eye(n) + gram * others, gram)
        np.testing.assert_allclose(cavity[i], covariance[i, i], rtol=1e-9)


def test_cavity_variance_of_weak_sites_does_not_cancel():
    # sites of precision 1e-12: 1/R_ii - omega_i would keep four digits
    gram = random_gram(6, 6, 6)
    cavity = SiteCorrection(gram, np.full(6, 1e-12)).cavity_variance()
    np.testing.assert_allclose(cavity, np.diag(gram), rtol=1e-10)


def test_sites_that_leave_no_posterior_are_refused():
    gram = np.array([[1.0, 0.5], [0.5, 1.0]])
    correction = SiteCorrection(gram, np.array([0.0, -1.5]))  # not asked for anything yet
    with pytest.raises(NotPositiveDefiniteError):
        correction.multiply(np.ones(2))
