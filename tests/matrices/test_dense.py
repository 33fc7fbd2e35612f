"""The Cholesky factor, the root of a singular matrix, and the correction R against dense algebra."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.matrices.factors import cholesky, is_positive_semidefinite, psd_root, triangular_inverse
from bayesgp_mf.matrices.matrix import DenseCorrection
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.solvers.newton import gmres


def random_gram(seed: int, n: int, rank: int) -> np.ndarray:
    root = np.random.default_rng(seed).standard_normal((n, rank))
    return root @ root.T


def test_cholesky_rebuilds_the_matrix_and_refuses_an_indefinite_one():
    matrix = random_gram(0, 5, 8)
    factor = cholesky(matrix)
    np.testing.assert_allclose(factor @ factor.T, matrix, rtol=1e-13)
    assert np.all(np.triu(factor, 1) == 0)
    np.testing.assert_array_equal(cholesky(np.tril(matrix), is_lower=True), factor)
    np.testing.assert_allclose(triangular_inverse(factor) @ factor, np.eye(5), atol=1e-13)
    with pytest.raises(NotPositiveDefiniteError, match="5 x 5"):
        cholesky(matrix - 100 * np.eye(5))


@given(seed=st.integers(0, 1000), n=st.integers(1, 12), rank=st.integers(1, 12))
@settings(deadline=None, max_examples=50)
def test_root_of_a_singular_matrix(seed, n, rank):
    gram = random_gram(seed, n, rank)
    root = psd_root(gram)
    # entries of the matrix are rounded, which may add a column of that size
    assert np.sum(np.sum(root**2, axis=0) > 1e-13 * np.trace(gram)) <= min(n, rank)
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
    left, right = vector, vector[::-1] ** 2
    gradient = 0.5 * (np.outer(left, right) + np.outer(right, left) - expected)
    np.testing.assert_allclose(correction.gradient(left, right), gradient, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(correction.gradient(left, right), correction.gradient(left, right).T)
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


def test_a_site_that_says_next_to_nothing_beside_another_keeps_the_digits_of_its_variances():
    """Its own precision times the posterior variance is 1e-9: a difference of 1/W would leave seven digits fewer."""
    prior, weak = 1e7, 1e-9
    sites = SiteCorrection(np.full((2, 2), prior), np.array([1.0, weak]))
    exact = prior / (1.0 + prior)
    assert sites.cavity_variance()[1] == pytest.approx(exact, rel=1e-8)
    assert sites.covariance_diagonal()[1] == pytest.approx(exact / (1.0 + weak * exact), rel=1e-8)


def test_variances_of_weak_sites_do_not_cancel():
    # sites of precision 1e-12: 1/R_ii - omega_i would keep four digits
    gram = random_gram(6, 6, 6)
    correction = SiteCorrection(gram, np.full(6, 1e-12))
    np.testing.assert_allclose(correction.cavity_variance(), np.diag(gram), rtol=1e-10)
    np.testing.assert_allclose(correction.covariance_diagonal(), np.diag(gram), rtol=1e-10)


@pytest.mark.parametrize("negative", [0, 2])
@pytest.mark.parametrize("weak", [False, True])
def test_diagonal_of_the_posterior_covariance(negative, weak):
    n = 8
    gram = random_gram(4, n, 5)
    precision = site_precisions(5, n, gram, negative)
    if not weak:
        precision[:6] = np.abs(precision[:6]) + 0.1
    expected = np.diag(np.linalg.solve(np.eye(n) + gram * precision, gram))
    np.testing.assert_allclose(SiteCorrection(gram, precision).covariance_diagonal(), expected, rtol=1e-9)


@pytest.mark.parametrize("negative", [0, 2])
@pytest.mark.parametrize("weak", [False, True])
@pytest.mark.parametrize(
    "which", [np.arange(8), np.array([1, 4, 7]), np.array([6, 2])], ids=["all", "some", "unsorted"]
)
def test_covariances_with_some_cases(negative, weak, which):
    n = 8
    gram = random_gram(4, n, 8)
    precision = site_precisions(5, n, gram, negative)
    if not weak:
        precision[:6] = np.abs(precision[:6]) + 0.1
    expected = np.linalg.solve(np.eye(n) + gram * precision, gram)[:, which]
    found = np.full((n, which.size), np.nan)
    for block, rows in SiteCorrection(gram, precision).covariance_with(which):
        found[block] = rows
    np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-10)


def test_sites_that_leave_no_posterior_are_refused():
    gram = np.array([[1.0, 0.5], [0.5, 1.0]])
    correction = SiteCorrection(gram, np.array([0.0, -1.5]))  # not asked for anything yet
    with pytest.raises(NotPositiveDefiniteError):
        correction.multiply(np.ones(2))


@pytest.mark.parametrize("n", [1, 2, 50, 51, 101, 200])
def test_triangular_inverse_of_any_size(n):
    lower = np.tril(np.random.default_rng(n).standard_normal((n, n)) / n) + np.eye(n)
    inverse = triangular_inverse(lower)
    np.testing.assert_allclose(inverse @ lower, np.eye(n), atol=1e-12)
    assert np.all(np.triu(inverse, 1) == 0)


@pytest.mark.parametrize("n", [3, 120])
def test_a_singular_triangle_has_no_inverse(n):
    lower = np.eye(n)
    lower[n - 1, n - 1] = 0.0
    with pytest.raises(NotPositiveDefiniteError, match="zero"):
        triangular_inverse(lower)


def test_gmres_is_as_accurate_as_asked():
    rng = np.random.default_rng(0)
    matrix, right = np.eye(60) + 0.05 * rng.standard_normal((60, 60)), rng.standard_normal(60)
    for accuracy in (1e-1, 1e-3, 1e-9):
        x = gmres(lambda v: matrix @ v, right, accuracy, 60)
        assert np.linalg.norm(matrix @ x - right) <= 1.0001 * accuracy * np.linalg.norm(right)
    np.testing.assert_array_equal(gmres(lambda v: matrix @ v, np.zeros(60), 0.1, 60), 0.0)
    np.testing.assert_allclose(gmres(lambda v: 3.0 * v, right, 1e-12, 60), right / 3.0)  # found at once
    assert np.all(np.isnan(gmres(lambda v: np.full_like(v, np.inf), right, 0.1, 60)))


def test_gmres_ends_with_the_products_it_may_use():
    matrix, right = np.diag(np.arange(1.0, 31.0)), np.ones(30)
    few, calls = gmres(lambda v: matrix @ v, right, 1e-12, 5), []
    gmres(lambda v: (calls.append(None), matrix @ v)[1], right, 1e-12, 5)
    assert len(calls) == 5
    assert 1e-12 < np.linalg.norm(matrix @ few - right) < np.linalg.norm(right)


@pytest.mark.parametrize("n", [70, 1100])  # squares are kept, or not
@pytest.mark.parametrize("negative", [0, 2])
def test_products_with_the_posterior_covariance(n, negative):
    gram, rng = random_gram(4, n, n + 20), np.random.default_rng(1)
    precision, vector = rng.uniform(1e-4, 10.0, n), rng.standard_normal(n)
    precision[[3, n // 2][:negative]] = -1e-2
    correction = SiteCorrection(gram, precision)
    expected = gram - correction.quadratic(gram)
    found = correction.covariance(correction.cavity_variance(), lambda: 0.0)
    np.testing.assert_allclose(found.times(vector), expected @ vector, atol=1e-8)
    squared = expected**2
    np.fill_diagonal(squared, 0.0)
    np.testing.assert_allclose(found.squared_times(vector), squared @ vector, atol=1e-8)
    assert found.is_whole


def test_rows_are_those_of_the_dense_matrix():
    gram, precision = random_gram(4, 30, 40), np.random.default_rng(1).uniform(1e-4, 10.0, 30)
    precision[3] = -1e-3  # as a label that looks flipped has
    correction = SiteCorrection(gram, precision)
    np.testing.assert_allclose(correction.rows(np.array([3, 7])), correction.dense()[[3, 7]], atol=1e-12)
