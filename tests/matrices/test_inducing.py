"""Gram matrices on inducing cases: everything is as with the dense matrix Q + diag(d)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal, norm

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.kernels import Bias, Gaussian, Linear, Matern32, Matern52, White
from bayesgp_mf.matrices.dense import DenseGram
from bayesgp_mf.matrices.inducing import independent_points, inducing_gram
from bayesgp_mf.matrices.sites import SiteCorrection
from tests.kernels.differences import check_gradient, check_moves

RNG = np.random.default_rng(0)
N = 70
X = RNG.uniform(-2.0, 2.0, (N, 2))
Z = np.concatenate([X[:6], RNG.uniform(-2.0, 2.0, (5, 2))])  # some cases, and some that are none
KERNEL = Gaussian([1.0, 1.5], 3.0) + White(0.2)
KERNELS = {
    "with noise": KERNEL,
    "without": Matern32(1.0, 2.0),
    "sum and product": Matern32([0.8, 1.4], 2.0) * Bias(0.7) + Linear([0.5, 1.0]) + Bias(0.4) + White(0.1),
}
of_all_kernels = pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)


@pytest.fixture
def few_at_once(monkeypatch):
    """Let rows be worked on 16 at a time, so that all cases are several blocks."""
    monkeypatch.setattr("bayesgp_mf.matrices.factors.BLOCK", 16)


def explained(kernel, points=Z, inputs=X):
    """Return Q = K_nm K_mm^-1 K_mn ``(n, n)``, by other code."""
    cross = kernel.cross(inputs, points)
    return cross @ np.linalg.solve(kernel.cross(points, points), cross.T)


def whole(kernel, points=Z, inputs=X):
    """Return Q + diag(d): the covariances that are explained, and the variances as they are."""
    result = explained(kernel, points, inputs)
    np.fill_diagonal(result, kernel.diag(inputs))
    return result


@of_all_kernels
@pytest.mark.parametrize("keep_root", [True, False])
class TestGram:
    def test_is_the_matrix_that_it_stands_for(self, kernel, keep_root, few_at_once):
        gram, dense = inducing_gram(kernel, X, Z, keep_root=keep_root), whole(kernel)
        vector, columns, some = RNG.standard_normal(N), RNG.standard_normal((N, 3)), np.array([40, 3, 17])
        np.testing.assert_allclose(gram @ vector, dense @ vector, atol=1e-11)
        np.testing.assert_allclose(gram @ columns, dense @ columns, atol=1e-11)
        np.testing.assert_allclose(gram.rows(some), dense[some], atol=1e-12)
        np.testing.assert_allclose(gram.dense(), dense, atol=1e-12)
        np.testing.assert_array_equal(gram.dense(), gram.dense().T)
        np.testing.assert_array_equal(gram.diagonal(), kernel.diag(X))
        np.testing.assert_allclose(gram.own, kernel.diag(X) - np.diag(explained(kernel)), atol=1e-12)
        assert gram.shape == (N, N)
        assert gram.rank == gram.width == len(Z)

    def test_says_which_part_of_the_variances_is_of_single_cases(self, kernel, keep_root, few_at_once):
        gram = inducing_gram(kernel, X, Z, keep_root=keep_root)
        share = np.mean((kernel.diag(X) - np.diag(explained(kernel))) / kernel.diag(X))
        assert gram.stated["rank"] == len(Z)
        assert gram.stated["independent"] == pytest.approx(share, abs=1e-12)

    def test_its_first_columns_are_the_matrix_on_the_first_inducing_cases(self, kernel, keep_root, few_at_once):
        first = inducing_gram(kernel, X, Z, keep_root=keep_root).leading(4)
        assert first.rank == 4
        np.testing.assert_allclose(first.dense(), whole(kernel, Z[:4]), atol=1e-12)

    def test_a_quarter_of_many_inducing_cases_is_a_start(self, kernel, keep_root, few_at_once):
        points = np.random.default_rng(6).uniform(-2.0, 2.0, (108, 2))
        gram = inducing_gram(kernel, X, points, keep_root=keep_root)
        np.testing.assert_array_equal(gram.coarser(lambda: 0.0, 0.5, started=False).points, points[:27])
        assert gram.coarser(lambda: 0.0, 0.5, started=True) is None
        assert gram.leading(99).coarser(lambda: 0.0, 0.5, started=False) is None

    def test_single_precision_keeps_what_is_a_cases_own(self, kernel, keep_root, few_at_once):
        gram, precision, shift = inducing_gram(kernel, X, Z, keep_root=keep_root), np.arange(N) / N, np.ones(N)
        single = gram.in_single_precision()
        if not keep_root:
            assert single is None
            return
        assert single.root.dtype == np.float32
        np.testing.assert_array_equal(single.own, gram.own)
        np.testing.assert_array_equal(single.diagonal(), gram.diagonal())
        for name, arguments in (("cavity_variance", ()), ("weights", (shift,)), ("covariance_diagonal", ())):
            short, whole = (getattr(each.sites(precision), name)(*arguments) for each in (single, gram))
            np.testing.assert_allclose(short, whole, atol=2e-5)
            assert not np.array_equal(short, whole)

    def test_features_are_those_of_the_inducing_cases(self, kernel, keep_root, few_at_once):
        gram, new = inducing_gram(kernel, X, Z, keep_root=keep_root), RNG.uniform(-3.0, 3.0, (9, 2))
        features, (points, factor) = gram.features(kernel, X, new), gram.basis(X)
        expected = kernel.cross(X, Z) @ np.linalg.solve(kernel.cross(Z, Z), kernel.cross(Z, new))
        np.testing.assert_allclose(gram.root @ features, expected, atol=1e-11)
        np.testing.assert_allclose(factor @ features, kernel.cross(points, new), atol=1e-12)
        weights = RNG.standard_normal((2, N))
        np.testing.assert_allclose(gram.in_features(weights) @ features, weights @ expected, atol=1e-10)
        np.testing.assert_allclose(gram.in_features(weights[0]) @ features, weights[0] @ expected, atol=1e-10)

    def test_sites_on_it_are_those_on_the_dense_matrix(self, kernel, keep_root, few_at_once):
        for negative in (0, 9):
            gram, precision = inducing_gram(kernel, X, Z, keep_root=keep_root), RNG.exponential(size=N)
            precision[:negative] *= -0.01
            precision[-1] = 0.0
            ours, dense = gram.sites(precision), SiteCorrection(gram.dense(), precision)
            shift, some = RNG.standard_normal(N), np.array([3, 17, 69])
            np.testing.assert_allclose(ours.posterior(shift)[1], dense.posterior(shift)[1], atol=1e-10)
            np.testing.assert_allclose(ours.posterior(shift)[0], ours.weights(shift), rtol=1e-12)
            assert ours.log_det == pytest.approx(dense.log_det, abs=1e-10)
            for name, arguments in [
                ("weights", (shift,)),
                ("multiply", (shift,)),
                ("diagonal", ()),
                ("covariance_diagonal", ()),
                ("cavity_variance", ()),
                ("rows", (some,)),
                ("dense", ()),
            ]:
                expected = getattr(dense, name)(*arguments)
                np.testing.assert_allclose(getattr(ours, name)(*arguments), expected, atol=1e-10, err_msg=name)
            for which in (np.arange(N), some, some[::-1]):
                found, expected = np.full((2, N, which.size), np.nan)
                for each, into in ((ours, found), (dense, expected)):
                    for block, rows in each.covariance_with(which):
                        into[block] = rows
                np.testing.assert_allclose(found, expected, atol=1e-9)
            np.testing.assert_array_equal(ours.dense(), ours.dense().T)
            features = gram.features(kernel, X, RNG.uniform(-3.0, 3.0, (9, 2)))
            cross = gram.root @ features
            np.testing.assert_allclose(ours.quadratic(features), dense.quadratic(cross), atol=1e-10)
            np.testing.assert_allclose(ours.quadratic_diagonal(features), dense.quadratic_diagonal(cross), atol=1e-10)
            variance = dense.cavity_variance()
            alpha, latent = dense.posterior(shift)
            np.testing.assert_allclose(
                gram.field_of_others(alpha, variance, ours), latent - variance * alpha, atol=1e-10
            )
            # the posterior of the weights of the features is that of linear regression on them, with noise d + omega
            root, told = gram.root @ np.eye(gram.rank), precision / (1.0 + precision * gram.own)
            covariance = np.linalg.inv(np.eye(gram.rank) + root.T @ (told[:, None] * root))
            factor = gram.posterior_factor(ours)
            np.testing.assert_allclose(factor @ factor.T, covariance, atol=1e-12)
            np.testing.assert_allclose(gram.posterior_variance(ours), dense.covariance_diagonal(), atol=1e-10)

    def test_newtons_equations_at_fixed_variance_are_those_of_the_dense_matrix(self, kernel, keep_root, few_at_once):
        gram, right = inducing_gram(kernel, X, Z, keep_root=keep_root), RNG.standard_normal(N)
        root = np.sqrt(RNG.uniform(0.0, 0.9, N) / gram.diagonal())
        root[:5] = 0.0  # a likelihood that is flat there
        own = 1.0 - root * gram.diagonal() * root
        expected = DenseGram(gram.dense()).solve_scaled(root, own, right)
        np.testing.assert_allclose(gram.solve_scaled(root, own, right), expected, rtol=1e-8, atol=1e-10)


class TestSites:
    def test_those_that_leave_no_posterior_are_refused(self):
        gram = inducing_gram(KERNEL, X, Z)
        for precision in (np.full(N, -1e-1), np.full(N, -10.0)):  # of the shared part; of a case's own
            with pytest.raises(NotPositiveDefiniteError):
                _ = gram.sites(precision).log_det
            with pytest.raises(NotPositiveDefiniteError):
                gram.sites(precision).posterior(np.ones(N))

    def test_a_negative_one_is_refused_exactly_where_it_leaves_no_posterior(self):
        gram = inducing_gram(KERNEL, X, Z)
        limit = 1.0 / gram.diagonal()[0]  # the others say nothing
        for share, leaves in ((0.999, True), (1.001, False)):
            precision = np.zeros(N)
            precision[0] = -share * limit
            if leaves:
                sd = gram.sites(precision).covariance_diagonal()[0] ** 0.5
                assert sd == pytest.approx((gram.diagonal()[0] / (1.0 - share)) ** 0.5, rel=1e-9)
            else:
                with pytest.raises(NotPositiveDefiniteError):
                    gram.sites(precision).covariance_diagonal()

    def test_those_that_say_nothing_leave_the_prior(self):
        gram = inducing_gram(KERNEL, X, Z)
        nothing = gram.sites(np.zeros(N))
        assert nothing.log_det == 0.0
        np.testing.assert_array_equal(nothing.cavity_variance(), gram.diagonal())
        np.testing.assert_allclose(nothing.covariance_diagonal(), gram.diagonal(), rtol=1e-12)

    @given(seed=st.integers(0, 2**32 - 1), scale=st.floats(1e-3, 1e6))
    def test_cavities_hold_for_sites_of_all_strengths(self, seed, scale):
        """lambda_i is the variance of case i without its own site, whatever the strengths."""
        rng = np.random.default_rng(seed)
        gram = inducing_gram(Gaussian(1.0, 2.0), rng.uniform(-1, 1, (12, 2)), rng.uniform(-1, 1, (3, 2)))
        precision, i = scale * rng.exponential(size=12), int(rng.integers(12))
        cavity = gram.sites(precision).cavity_variance()[i]
        precision[i] = 0.0
        assert cavity == pytest.approx(gram.sites(precision).covariance_diagonal()[i], rel=1e-6)

    def test_their_form_is_that_of_the_matrix(self):
        gram = inducing_gram(KERNEL, X, Z)
        assert gram.sites(np.ones(N)).form == gram.form == "inducing"


def test_a_root_that_is_not_kept_is_the_kept_one_to_the_last_bit(few_at_once):
    kept, computed = (inducing_gram(KERNEL, X, Z, keep_root=keep) for keep in (True, False))
    np.testing.assert_array_equal(computed.root @ np.eye(len(Z)), kept.root)
    np.testing.assert_allclose(computed.leading(3).root @ np.eye(3), kept.root[:, :3], atol=1e-14)
    np.testing.assert_array_equal(computed.own, kept.own)
    assert computed.root.shape == kept.root.shape
    precision, shift = RNG.exponential(size=N), RNG.standard_normal(N)
    one, other = (gram.sites(precision) for gram in (kept, computed))
    assert one.log_det == other.log_det
    np.testing.assert_array_equal(one.cavity_variance(), other.cavity_variance())
    np.testing.assert_allclose(one.weights(shift), other.weights(shift), rtol=1e-12, atol=1e-12)


def test_covariances_of_no_process_are_refused():
    class Wrong(Gaussian):
        def diag(self, X):
            return np.where(np.arange(X.shape[0]) == 4, 0.1, super().diag(X))

    with pytest.raises(NotPositiveDefiniteError, match="covariances of case 4 with the inducing cases are larger"):
        _ = inducing_gram(Wrong(1.0), X, Z).own


class TestIndependentPoints:
    def test_repeated_ones_are_left_out_and_the_others_keep_their_order(self):
        np.testing.assert_array_equal(independent_points(KERNEL, Z), np.arange(len(Z)))
        twice = np.concatenate([Z[[4, 2]], Z])
        kept = independent_points(KERNEL, twice)
        np.testing.assert_array_equal(kept, np.sort(kept))
        np.testing.assert_array_equal(np.unique(twice[kept], axis=0), np.unique(Z, axis=0))
        assert kept.size == len(Z)

    def test_minus_zero_is_zero(self):
        points = np.array([[0.0, 1.0], [-0.0, 1.0], [0.5, -0.0], [0.5, 0.0]])
        np.testing.assert_array_equal(np.sort(independent_points(KERNEL, points) // 2), [0, 1])

    @pytest.mark.parametrize("kernel", [Bias(2.0), Bias(2.0) + White(0.1), Gaussian(1e9)], ids=repr)
    def test_a_kernel_without_differences_keeps_one(self, kernel):
        assert independent_points(kernel, Z).size == 1

    def test_a_linear_kernel_keeps_as_many_as_there_are_columns(self):
        points = np.concatenate([np.zeros((1, 2)), Z])
        kept = independent_points(Linear(), points)
        assert kept.size == 2
        assert 0 not in kept
        gram = inducing_gram(Linear() + White(0.3), X, points[kept])
        np.testing.assert_allclose(gram.dense(), (Linear() + White(0.3)).gram(X), atol=1e-9)

    def test_the_scale_of_a_kernel_does_not_count(self):
        points = np.concatenate([Z, Z + 1e-7])  # which add 1e-14 of their variance
        for scale in (1e-12, 1.0, 1e12):
            assert independent_points(Gaussian(1.0, scale), points).size == len(Z)
        assert independent_points(Gaussian(1.0), np.concatenate([Z, Z + 1e-3])).size > len(Z)

    def test_prior_variances_that_are_no_use_are_refused(self):
        with pytest.raises(NotPositiveDefiniteError, match=r"at the inducing inputs, .* are all zero"):
            independent_points(Linear(), np.zeros((3, 2)))
        with (
            pytest.raises(NotPositiveDefiniteError, match=r"at the inducing inputs, .* overflow"),
            np.errstate(all="ignore"),
        ):
            independent_points(Linear(), np.full((3, 2), 1e200))


class TestSampler:
    """Draws of f = g + e under sites; one case is an inducing case, and has nothing of its own."""

    KERNEL = Matern52(1.0, 2.0)

    def posterior(self, negative=0, points=Z):
        rng = np.random.default_rng(3)
        gram, precision = inducing_gram(self.KERNEL, X, points), rng.exponential(size=N)
        precision[6 : 6 + negative] *= -0.01
        precision[-1] = 0.0
        correction, shift = gram.sites(precision), rng.standard_normal(N)
        alpha, mean = correction.posterior(shift)
        covariance = gram.dense() - gram.dense() @ correction.dense() @ gram.dense()
        return gram, gram.sampler(alpha, correction), mean, covariance

    @pytest.mark.parametrize("negative", [0, 9])
    def test_many_draws_have_the_moments_of_the_posterior(self, negative, few_at_once):
        _, sampler, mean, covariance = self.posterior(negative)
        draws = 8000
        f = sampler.draw(draws, np.random.default_rng(1)).f
        variance = np.diag(covariance)
        error = 5.0 * np.sqrt(variance / draws)
        assert np.max(np.abs(f.mean(axis=0) - mean) / error) < 1.0
        allowed = 5.0 * np.sqrt((np.multiply.outer(variance, variance) + covariance**2) / draws)
        assert np.max(np.abs(np.cov(f.T) - covariance) / allowed) < 1.0
        # the control: without the covariance between cases, or with a mean that is not theirs, that would be seen
        assert np.max(np.abs(np.cov(f.T) - np.diag(variance)) / allowed) > 3.0
        assert np.max(np.abs(f.mean(axis=0) - 0.9 * mean) / error) > 3.0

    def test_its_densities_are_those_of_the_prior_and_of_the_draws(self, few_at_once):
        """Of u and e given f, prior and posterior are the same: the ratio of the densities is that of f alone."""
        away = RNG.uniform(-2.0, 2.0, (7, 2))
        gram, sampler, mean, covariance = self.posterior(points=away)
        assert np.all(gram.own > 0)
        drawn = sampler.draw(40, np.random.default_rng(2))
        # all of f and the whitened u, e are one Gaussian: f = L u + D^1/2 e under the prior
        prior = multivariate_normal(np.zeros(N), gram.dense(), allow_singular=False).logpdf(drawn.f)
        density = multivariate_normal(mean, (covariance + covariance.T) / 2).logpdf(drawn.f)
        np.testing.assert_allclose(drawn.log_prior - drawn.log_density, prior - density, atol=1e-7)

    def test_draws_of_the_prior_have_the_density_of_standard_normals(self, few_at_once):
        z = X[[3]]  # a case whose root is exactly two, so that nothing of its variance is its own
        gram = inducing_gram(Gaussian(1.0, 4.0), X, z)
        assert gram.own[3] == 0.0
        assert np.count_nonzero(gram.own) == N - 1
        drawn = gram.sampler(np.zeros(N), gram.sites(np.zeros(N))).draw(30, np.random.default_rng(2))
        u = drawn.f[:, [3]] / 2.0
        own = np.delete((drawn.f - u * gram.root[:, 0]), 3, axis=1) / np.sqrt(np.delete(gram.own, 3))
        expected = norm.logpdf(np.hstack([u, own])).sum(axis=1)
        np.testing.assert_allclose(drawn.log_prior, expected, rtol=1e-10)
        np.testing.assert_allclose(drawn.log_density, expected, rtol=1e-10)

    def test_a_certain_case_is_drawn_without_noise_of_its_own(self):
        gram, sampler, _, _ = self.posterior()
        certain = np.flatnonzero(gram.own < 1e-12)
        assert set(certain) == set(range(6))
        drawn = sampler.draw(5, np.random.default_rng(2))
        assert np.all(np.isfinite(drawn.log_prior - drawn.log_density))
        # what the six are determines the rest of u up to five dimensions: f there is L u
        assert np.linalg.matrix_rank(drawn.f[:, certain] - drawn.f[0, certain]) == 4

    def test_values_do_not_say_what_is_their_own(self):
        _, sampler, mean, _ = self.posterior()
        with pytest.raises(NotPositiveDefiniteError, match="tilted marginals need the dense Gram matrix"):
            sampler.log_prior(mean[None])


def score_and_gradient(kernel, points):
    """Return tr(G K) with a G as that of an evidence, and as a function of kernel and points."""
    rng = np.random.default_rng(5)
    left, right, weights = rng.standard_normal((3, N))
    gram = inducing_gram(kernel, X, points)
    correction = gram.sites(rng.exponential(size=N))
    rest = np.zeros(N)
    dense = 0.5 * (np.outer(left, right) + np.outer(right, left) - correction.dense())
    of_alpha = 0.5 * np.outer(left, left) + np.diag(weights)

    def contracted(bar):
        return lambda kernel, points: float(np.sum(bar * inducing_gram(kernel, X, points).dense()))

    return gram, [
        (correction.gradient(left, right), contracted(dense + np.diag(rest))),
        (gram.gradient(left, weights), contracted(of_alpha)),
    ]


@pytest.mark.parametrize("keep_root", [True, False])
@of_all_kernels
class TestGradient:
    def test_in_the_parameters_passes_central_differences(self, kernel, keep_root, few_at_once):
        _, scores = score_and_gradient(kernel, Z)
        gram = inducing_gram(kernel, X, Z, keep_root=keep_root)
        for gradient, contracted in scores:
            found = gram.pull_back(gradient, kernel, X)
            check_gradient(kernel, found, lambda moved, contracted=contracted: contracted(moved, Z))
            wrong = {name: value * 1.001 for name, value in found.items()}
            with pytest.raises(AssertionError):
                check_gradient(kernel, wrong, lambda moved, contracted=contracted: contracted(moved, Z))

    def test_in_the_inducing_inputs_passes_central_differences(self, kernel, keep_root, few_at_once):
        gram, scores = score_and_gradient(kernel, Z)
        for gradient, contracted in scores:
            found = gram.pull_back_inputs(gradient, kernel, X)
            check_moves(Z, found, lambda points, contracted=contracted: contracted(kernel, points))
            with pytest.raises(AssertionError):
                check_moves(Z, 1.001 * found, lambda points, contracted=contracted: contracted(kernel, points))
