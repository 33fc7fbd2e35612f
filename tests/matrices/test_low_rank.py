"""Gram matrices of low rank: what is left out is stated, and everything else is as with the dense matrix."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayesgp_mf as bgp
from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.assembly import kernel_entries
from bayesgp_mf.kernels import Bias, Gaussian, Linear, White
from bayesgp_mf.matrices.dense import DenseGram
from bayesgp_mf.matrices.low_rank import LowRankGram, at_pivots, pivoted_cholesky
from bayesgp_mf.matrices.root import RootGradient
from bayesgp_mf.matrices.root_gram import RootCorrection
from bayesgp_mf.matrices.sites import SiteCorrection

N = 300


def inputs(d=2, n=N, seed=0):
    return np.random.default_rng(seed).uniform(-2.0, 2.0, (n, d))


def low_rank(kernel, X, tolerance=1e-9, most=None, first=None):
    return pivoted_cholesky(kernel_entries(kernel, X), kernel.diag(X), tolerance, most or X.shape[0], first)


class TestPivotedCholesky:
    @pytest.mark.parametrize("tolerance", [1e-2, 1e-6, 1e-10])
    def test_what_is_left_out_is_stated_and_small_enough(self, tolerance):
        X, kernel = inputs(), Gaussian(1.0, 3.0)
        gram, dense = low_rank(kernel, X, tolerance), kernel.gram(X)
        rest = dense - gram.dense()
        assert np.trace(rest) == pytest.approx(gram.left_out, abs=1e-12)
        assert gram.left_out <= tolerance
        assert np.linalg.eigvalsh(rest).min() > -1e-12  # nothing but a covariance is left out
        # and hardly more columns than the best matrix of that trace has
        best = np.cumsum(np.linalg.eigvalsh(dense)[::-1])
        assert gram.rank < 2.5 * (1 + np.argmax(np.trace(dense) - best < tolerance))

    def test_a_looser_tolerance_takes_fewer_columns(self):
        X, kernel = inputs(), Gaussian(1.0, 3.0)
        assert low_rank(kernel, X, 1e-2).rank < low_rank(kernel, X, 1e-6).rank < N / 2

    def test_values_of_the_pivots_are_exact(self):
        X, kernel = inputs(), Gaussian(1.0, 3.0)
        gram = low_rank(kernel, X, 1e-3)
        np.testing.assert_allclose(gram.rows(gram.pivots), kernel.gram(X)[gram.pivots], atol=1e-12)
        assert np.unique(gram.pivots).size == gram.rank
        np.testing.assert_allclose(np.triu(gram.root[gram.pivots], 1), 0.0, atol=1e-10)

    def test_rank_of_a_linear_kernel_is_that_of_its_inputs(self):
        X = inputs(d=4)
        assert low_rank(Linear(), X).rank == 4
        assert low_rank(Linear() + Bias(), X).rank == 5
        X[:, 3] = X[:, 0] - 2.0 * X[:, 1]
        assert low_rank(Linear(), X).rank == 3

    @pytest.mark.parametrize("first", [None, np.arange(50)])
    @pytest.mark.parametrize(
        "kernel",
        [
            Linear() + White(1e-4),
            Bias() + White(1e-6),
            Gaussian() + White(1e-8),
            Gaussian() + White(1e-9),
            Gaussian(1.0, 1e6) + White(0.5),
        ],
        ids=repr,
    )
    def test_noise_that_no_column_has_ends_it_after_some_columns(self, kernel, first):
        X, asked = inputs(n=1200), []

        def entries(rows, columns):
            asked.append(columns.size)
            return kernel.cross(X[rows], X[columns])

        assert pivoted_cholesky(entries, kernel.diag(X), 1e-7, 1200, first) is None
        assert len(asked) < 60  # it used to go on for ever, or to take a few columns at a time

    def test_a_first_part_that_says_nothing_is_no_noise(self):
        X = inputs(n=1200)
        X[:50] = 0.0
        assert low_rank(Linear(), X, first=np.arange(50)).rank == 2
        X[:] = 0.0
        X[1] = [1.0, 2.0]  # not among the cases at which it looks first, of 2400
        assert low_rank(Linear(), np.concatenate([X, 0.0 * X])).rank == 1

    def test_repeated_inputs_add_no_columns(self):
        X, kernel = inputs(n=40), Gaussian()
        assert low_rank(kernel, np.repeat(X, 5, axis=0)).rank == low_rank(kernel, X).rank

    def test_more_columns_than_allowed_are_none(self):
        X, kernel = inputs(), Gaussian(0.05)
        rank = low_rank(kernel, X).rank
        assert low_rank(kernel, X, most=rank - 1) is None
        assert low_rank(kernel, X, most=rank) is not None

    def test_many_cases_are_searched_in_parts(self, monkeypatch):
        monkeypatch.setattr("bayesgp_mf.matrices.low_rank.CANDIDATES", 20)
        monkeypatch.setattr("bayesgp_mf.matrices.factors.BLOCK", 32)
        monkeypatch.setattr("bayesgp_mf.matrices.low_rank.PANEL", 8)
        X, kernel = inputs(), Gaussian(0.7, 2.0)
        gram = low_rank(kernel, X, 1e-7)
        assert np.trace(kernel.gram(X) - gram.dense()) < 1e-7
        far = np.concatenate([X, [[30.0, 30.0], [-30.0, 5.0]]])  # which no regular choice would find
        gram = low_rank(kernel, far, 1e-7)
        assert {N, N + 1} <= set(gram.pivots.tolist())

    def test_pivots_of_a_kernel_nearby_serve(self):
        X = inputs()
        near = low_rank(Gaussian(1.0), X)
        gram = low_rank(Gaussian(1.1), X, first=near.pivots)
        assert gram.left_out <= 1e-9
        assert np.isin(gram.pivots, near.pivots).mean() > 0.9
        shorter = low_rank(Gaussian(0.7), X, first=near.pivots)  # of which they are not enough
        assert shorter.left_out <= 1e-9
        assert shorter.rank > near.rank

    def test_given_pivots_give_the_same_matrix(self):
        X, kernel = inputs(), Gaussian(1.0, 3.0)
        gram = low_rank(kernel, X)
        again = at_pivots(kernel_entries(kernel, X), kernel.diag(X), gram.pivots)
        np.testing.assert_allclose(again.dense(), gram.dense(), atol=1e-10)
        assert again.left_out == pytest.approx(gram.left_out, abs=1e-11)

    def test_a_matrix_that_is_no_covariance_is_refused(self):
        matrix = np.ones((N, N)) + 0.5 * np.diag(np.arange(N) == 3)
        matrix[3, 5] = matrix[5, 3] = 1.4
        with pytest.raises(NotPositiveDefiniteError, match="no covariance matrix"):
            pivoted_cholesky(lambda r, c: matrix[r][:, c], np.diag(matrix), 1e-9, N)

    def test_a_kernel_that_is_zero_has_no_columns(self):
        gram = low_rank(Linear(), np.zeros((10, 1)))
        assert gram.rank == 0
        assert gram.left_out == 0.0
        assert np.array_equal(gram @ np.ones(10), np.zeros(10))


class TestLowRankGram:
    def test_stands_where_the_dense_matrix_stands(self):
        X, kernel = inputs(), Gaussian(1.0, 3.0)
        gram, dense = low_rank(kernel, X), kernel.gram(X)
        vector, matrix = np.random.default_rng(1).standard_normal((2, N, 3))[0][:, 0], np.ones((N, 2))
        np.testing.assert_allclose(gram @ vector, dense @ vector, atol=1e-8)
        np.testing.assert_allclose(gram @ matrix, dense @ matrix, atol=1e-7)
        np.testing.assert_allclose(gram.diagonal(), dense.diagonal(), atol=1e-9)
        assert gram.shape == dense.shape
        assert np.array_equal(gram.dense(), gram.dense().T)

    def test_features_give_covariances_with_new_cases(self):
        X, kernel, new = inputs(), Gaussian(1.0, 3.0), inputs(n=20, seed=1)
        gram = low_rank(kernel, X)
        features = gram.features(kernel, X, new)
        np.testing.assert_allclose(gram.root @ features, kernel.cross(X, new), atol=1e-5)

    def test_leading_columns_are_the_matrix_of_the_first_pivots(self):
        X, kernel = inputs(), Gaussian(1.0, 3.0)
        gram = low_rank(kernel, X)
        rank = gram.leading_rank(0.5)
        first, rest = gram.leading(rank), kernel.gram(X).trace() - gram.leading(rank).diagonal().sum()
        assert first.left_out == pytest.approx(rest, abs=1e-10)
        assert first.left_out <= 0.5 < gram.leading(rank - 1).left_out
        again = at_pivots(kernel_entries(kernel, X), kernel.diag(X), gram.pivots[:rank])
        np.testing.assert_allclose(first.dense(), again.dense(), atol=1e-10)


def corrections(seed=0, negative=0):
    """Return the same sites on both forms of one matrix."""
    X, kernel = inputs(), Gaussian(1.0, 3.0)
    gram = low_rank(kernel, X)
    precision = np.random.default_rng(seed).exponential(size=N)
    precision[:negative] *= -0.01
    return gram, RootCorrection(gram, precision), SiteCorrection(gram.dense(), precision)


class TestRootCorrection:
    @pytest.mark.parametrize("negative", [0, 20])
    def test_has_the_answers_of_the_dense_one(self, negative):
        _, sparse, dense = corrections(negative=negative)
        vector = np.random.default_rng(1).standard_normal(N)
        some = np.array([3, 17, 200])
        assert sparse.log_det == pytest.approx(dense.log_det, abs=1e-9)
        for name, arguments in [
            ("weights", (vector,)),
            ("multiply", (vector,)),
            ("diagonal", ()),
            ("covariance_diagonal", ()),
            ("cavity_variance", ()),
            ("rows", (some,)),
            ("dense", ()),
        ]:
            expected = getattr(dense, name)(*arguments)
            np.testing.assert_allclose(getattr(sparse, name)(*arguments), expected, atol=1e-9, rtol=1e-9, err_msg=name)

    def test_features_of_new_cases_do_without_the_old_ones(self):
        gram, sparse, dense = corrections()
        features = np.random.default_rng(2).standard_normal((gram.rank, 4))
        np.testing.assert_allclose(sparse.quadratic(features), dense.quadratic(gram.root @ features), atol=1e-9)
        np.testing.assert_allclose(
            sparse.quadratic_diagonal(features), dense.quadratic_diagonal(gram.root @ features), atol=1e-9
        )

    def test_products_with_the_covariance_are_those_of_the_dense_one(self):
        _, sparse, dense = corrections()
        vector, variance = np.random.default_rng(1).standard_normal(N), dense.cavity_variance()
        expected = dense.covariance(variance, lambda: 0.0)
        for left_out, is_whole, tolerance in ((0.0, True, 1e-8), (1e-3, False, 1e-2)):
            found = sparse.covariance(variance, lambda left_out=left_out: left_out)
            assert found.is_whole is is_whole
            np.testing.assert_allclose(found.times(vector), expected.times(vector), atol=tolerance)
            np.testing.assert_allclose(found.squared_times(vector), expected.squared_times(vector), atol=tolerance)

    @pytest.mark.parametrize("negative", [0, 20])
    @pytest.mark.parametrize("which", [np.arange(N), np.array([3, 17, 200])], ids=["all", "some"])
    def test_covariances_are_those_of_the_dense_one(self, negative, which):
        _, sparse, dense = corrections(negative=negative)
        ours, expected = (np.concatenate([rows for _, rows in each.covariance_with(which)]) for each in (sparse, dense))
        assert ours.shape == (N, which.size)
        np.testing.assert_allclose(ours, expected, atol=1e-8)
        np.testing.assert_allclose(ours[which, np.arange(which.size)], dense.covariance_diagonal()[which], atol=1e-8)

    def test_sites_that_leave_no_posterior_are_refused(self):
        gram, _, _ = corrections()
        with pytest.raises(NotPositiveDefiniteError):
            _ = RootCorrection(gram, np.full(N, -1.0)).log_det

    def test_sites_that_say_nothing_leave_the_prior(self):
        gram, _, _ = corrections()
        nothing = RootCorrection(gram, np.zeros(N))
        assert nothing.log_det == 0.0
        np.testing.assert_allclose(nothing.cavity_variance(), gram.diagonal())
        np.testing.assert_allclose(nothing.covariance_diagonal(), gram.diagonal())

    def test_the_form_of_the_gram_matrix_decides(self):
        gram, sparse, dense = corrections()
        assert gram.sites(sparse.site_precision).form == gram.form == "low_rank"
        assert DenseGram(gram.dense()).sites(dense.site_precision).form == DenseGram.form == "dense"


def test_newtons_equations_at_fixed_variance_are_those_of_the_dense_matrix():
    gram, _, _ = corrections()
    rng = np.random.default_rng(4)
    variance, right = gram.diagonal(), rng.standard_normal(N)
    root = np.sqrt(rng.uniform(0.0, 0.9, N) / variance)
    root[:5] = 0.0  # a likelihood that is flat there
    own = 1.0 - root * variance * root
    expected = DenseGram(gram.dense()).solve_scaled(root, own, right)
    np.testing.assert_allclose(gram.solve_scaled(root, own, right), expected, rtol=1e-8, atol=1e-10)
    with pytest.raises(NotPositiveDefiniteError, match="too strong"):
        gram.solve_scaled(1.5 / np.sqrt(variance), np.full(N, -1.25), right)


@given(seed=st.integers(0, 2**32 - 1), scale=st.floats(1e-3, 1e3))
def test_cavities_hold_for_sites_of_all_strengths(seed, scale):
    """lambda_i is the variance of case i without its own site, whatever the strengths."""
    rng = np.random.default_rng(seed)
    X, kernel = rng.uniform(-1, 1, (12, 2)), Gaussian(1.0, 2.0)
    gram = low_rank(kernel, X, tolerance=1e-12)
    precision = scale * rng.exponential(size=12)
    cavity, i = RootCorrection(gram, precision).cavity_variance(), int(rng.integers(12))
    precision[i] = 0.0
    assert cavity[i] == pytest.approx(RootCorrection(gram, precision).covariance_diagonal()[i], rel=1e-6)


class TestRootGradient:
    def gradient(self, gram):
        """Return G = (l r' + r l' - R) / 2 + diag(w), and the same as a gradient."""
        rng = np.random.default_rng(3)
        left, right, weights = rng.standard_normal((3, N))
        correction = gram.sites(rng.exponential(size=N))
        dense = 0.5 * (np.outer(left, right) + np.outer(right, left) - correction.dense()) + np.diag(weights)
        return dense, RootGradient(gram, left, right, correction, weights)

    @pytest.mark.parametrize("kernel", [Gaussian([0.9, 1.4], 3.0), Linear([0.5, 2.0]) + Bias(0.7)], ids=repr)
    def test_pulls_back_the_change_of_the_matrix_at_fixed_pivots(self, kernel):
        """Against central differences of the matrix itself, and not of the one that is not cut off."""
        X = inputs()
        gram = low_rank(kernel, X, 1e-2)  # so rough that the two differ
        dense, gradient = self.gradient(gram)
        answer = kernel.cross_vjp(X, X[gram.pivots], gradient.columns())
        for name, value in kernel.params.items():
            for index in np.ndindex(value.shape):
                moved, step = [], np.zeros(value.shape)
                step[index] = 1e-5 * value[index]
                for sign in (1.0, -1.0):
                    near = kernel.replace(**{name: value + sign * step})
                    moved.append(at_pivots(kernel_entries(near, X), near.diag(X), gram.pivots).dense())
                slope = float(np.sum(dense * (moved[0] - moved[1]))) / (2.0 * step[index])
                assert answer[name][index] == pytest.approx(slope, rel=1e-5)
        if isinstance(kernel, Gaussian):
            uncut = kernel.gram_vjp(X, dense)
            assert abs(uncut["lengthscale"][0] - answer["lengthscale"][0]) > 1e-5 * abs(answer["lengthscale"][0])


class TestCavities:
    @pytest.mark.parametrize("decades", [0, 4, 8, 12, 16, 20])
    def test_a_site_that_says_nearly_all_leaves_what_the_others_say(self, decades):
        """Known as 1/R_ii - omega_i by the dense matrix, which takes no difference of numbers near one."""
        root = np.linalg.cholesky(Gaussian(0.7, 2.0).gram(inputs(n=12)) + 0.1 * np.eye(12))
        precision = 10.0 ** (decades - 2.0 * np.random.default_rng(0).random(12))
        gram = LowRankGram(root, np.arange(12), 0.0)
        dense = SiteCorrection(gram.dense(), precision).cavity_variance()
        np.testing.assert_allclose(gram.sites(precision).cavity_variance(), dense, rtol=1e-10)

    def test_negative_sites_beside_it_count(self):
        root = np.linalg.cholesky(Gaussian(0.7, 2.0).gram(inputs(n=5)) + 0.1 * np.eye(5))
        gram = LowRankGram(root, np.arange(5), 0.0)
        precision = np.array([1e9, -0.05, 1e7, -0.02, 3.0])
        dense = SiteCorrection(gram.dense(), precision).cavity_variance()
        np.testing.assert_allclose(gram.sites(precision).cavity_variance(), dense, rtol=1e-10)

    def test_what_is_lost_all_the_same_is_refused(self):
        gram = LowRankGram(np.eye(2), np.arange(2), 0.0)
        with pytest.raises(NotPositiveDefiniteError, match="lost in rounding"):
            gram.sites(np.full(2, 1e30)).cavity_variance()


@pytest.mark.parametrize("size", [1e2, 1e4])
def test_a_root_is_as_right_for_large_counts(size):
    X = np.linspace(0.0, 10.0, 400)[:, None]
    counts = np.random.default_rng(0).poisson(size * np.exp(np.sin(X[:, 0])))
    kernel = bgp.kernels.Gaussian(1.2) + bgp.kernels.Bias(200.0)
    options = {"draws": 1, "chains": 1, "random_seed": 1, "progress": False}
    on_root, whole = (
        bgp.fit(X, counts, kernel, bgp.Poisson(), control=bgp.Control(gram=gram), **options)["fit"]["log_evidence"]
        for gram in ("low_rank", "dense")
    )
    assert float(on_root) == pytest.approx(float(whole), abs=2e-6)
