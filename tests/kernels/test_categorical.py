"""Random effects: what a group's offset, slope and function are, against closed forms."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.inference.assembly import assemble
from bayesgp_mf.kernels import Bias, Categorical, Gaussian, Linear
from bayesgp_mf.likelihoods import Gaussian as GaussianLikelihood
from bayesgp_mf.methods import get_method
from tests.kernels.differences import check_gradient

SIZES = np.array([1, 2, 3, 5, 8, 13])
GROUP = np.repeat(np.arange(6.0), SIZES)
OWN = np.equal.outer(np.arange(6.0), GROUP)
DOSE = np.random.default_rng(1).standard_normal(GROUP.size)
X = np.column_stack([GROUP, DOSE])
Y = np.random.default_rng(2).standard_normal(GROUP.size) + 0.4 * GROUP + 0.5 * DOSE
NOISE, VARIANCE = 0.5, 2.0
SLOPES = Categorical(0.7, columns=0) * Linear(1.5, columns=1)
ROWS = np.random.default_rng(3).permutation(GROUP.size)


def latent(kernel, X_new, X=X, y=Y, **options):
    idata = bgp.fit(
        X, y, kernel, GaussianLikelihood(NOISE), method="exact", draws=2, random_seed=1, progress=False, **options
    )
    return bgp.posterior(idata).latent(X_new)


@pytest.mark.parametrize("kernel", [Categorical(VARIANCE, columns=0), SLOPES, (Categorical(columns=0) + Bias()) ** 2])
def test_gradients_pass_central_differences(kernel):
    raw = np.random.default_rng(4).standard_normal((GROUP.size, GROUP.size))
    bar = raw + raw.T
    check_gradient(kernel, kernel.gram_vjp(X, bar), lambda k: float(np.sum(k.gram(X) * bar)))
    check_gradient(kernel, kernel.cross_vjp(X, X[ROWS], raw), lambda k: float(np.sum(k.cross(X, X[ROWS]) * raw)))
    check_gradient(kernel, kernel.diag_vjp(X, raw[0]), lambda k: float(k.diag(X) @ raw[0]))
    broken = {name: 1.0001 * value for name, value in kernel.gram_vjp(X, bar).items()}
    with pytest.raises(AssertionError):
        check_gradient(kernel, broken, lambda k: float(np.sum(k.gram(X) * bar)))


def test_it_is_the_covariance_of_indicators():
    indicators = OWN.T.astype(float)
    np.testing.assert_array_equal(Categorical(VARIANCE, columns=0).gram(X), VARIANCE * indicators @ indicators.T)
    np.testing.assert_allclose(
        SLOPES.gram(X), 0.7 * 1.5 * (indicators * DOSE[:, None]) @ (indicators * DOSE[:, None]).T
    )


def test_of_several_columns_all_must_be_equal():
    pairs = np.random.default_rng(5).integers(0, 2, (9, 3)).astype(float)
    expected = (pairs[:, None] == pairs[None]).all(axis=2)
    np.testing.assert_array_equal(Categorical().gram(pairs), expected)
    crossed = Categorical(columns=0) * Categorical(columns=1) * Categorical(columns=2)
    np.testing.assert_array_equal(crossed.gram(pairs), expected)


def test_means_of_groups_are_shrunk_by_the_closed_form():
    mean, variance = latent(Categorical(VARIANCE, columns=0), np.column_stack([np.arange(6.0), np.zeros(6)]))
    weight = SIZES * VARIANCE / (SIZES * VARIANCE + NOISE)
    means = np.array([np.mean(Y, where=own) for own in OWN])
    np.testing.assert_allclose(mean, weight * means, rtol=1e-10)
    np.testing.assert_allclose(variance, (1.0 - weight) * VARIANCE, rtol=1e-10)
    assert np.abs(mean - means).max() > 0.05  # without shrinking


def test_a_slope_for_each_group_is_its_own_ridge_regression():
    mean, variance = latent(SLOPES, np.column_stack([np.arange(6.0), np.ones(6)]))
    prior = 0.7 * 1.5
    squares, products = OWN @ DOSE**2, OWN @ (DOSE * Y)
    np.testing.assert_allclose(mean, products / (squares + NOISE / prior), rtol=1e-10)
    np.testing.assert_allclose(variance, NOISE / (squares + NOISE / prior), rtol=1e-10)


def test_a_new_group_is_predicted_from_the_prior():
    kernel = Categorical(VARIANCE, columns=0) + 0.5 * Linear(columns=1)
    (with_new, without), (variance, common) = latent(kernel, [[77.0, 0.0], [0.0, 0.0]])
    assert (with_new, variance) == pytest.approx((0.0, VARIANCE), abs=1e-12)
    assert common < 0.5 * VARIANCE
    assert abs(without) > 0.01


def test_names_of_groups_do_not_matter_nor_does_their_order():
    codes = np.array([3.0, -1.0, 1e6, 0.5, 0.0, 17.0])
    renamed, at = np.column_stack([codes[GROUP.astype(int)], DOSE])[ROWS], [[4.0, 0.3], [0.0, 1.0]]
    moved = [[codes[4], 0.3], [codes[0], 1.0]]
    kernel = Categorical(VARIANCE, columns=0) * Gaussian(columns=1) + 1.0
    np.testing.assert_allclose(latent(kernel, moved, renamed, Y[ROWS]), latent(kernel, at), rtol=1e-9)


class TestForms:
    TABLE = np.column_stack([np.arange(400.0) % 12, np.random.default_rng(6).standard_normal(400)])
    LABELS = np.where(
        np.sin(TABLE[:, 0]) + TABLE[:, 1] + np.random.default_rng(7).standard_normal(400) > 0.3, 1.0, -1.0
    )
    KERNEL = Categorical(VARIANCE, columns=0) + Linear(columns=1)

    def solved(self, form):
        solver = get_method("tap", bgp.Probit())
        problem = assemble(
            self.KERNEL, self.TABLE, self.LABELS, bgp.Probit(), solver=solver, control=bgp.Control(gram=form)
        )
        return problem, solver.solve(problem)

    def test_its_gram_matrix_is_of_low_rank(self):
        (problem, low), (_, dense) = self.solved("low_rank"), self.solved("dense")
        assert problem.matrix.rank == 13  # of 12 groups and a slope
        np.testing.assert_allclose(low.evidence.value, dense.evidence.value, rtol=1e-7)

    def test_gradients_of_the_evidence_at_low_rank_are_those_of_the_dense_matrix(self):
        gradients = []
        for form in ("low_rank", "dense"):
            problem, solution = self.solved(form)
            bar = get_method("tap", bgp.Probit()).gram_gradient(problem, solution)
            gradients.append(problem.matrix.pull_back(bar, self.KERNEL, self.TABLE))
        for name, value in gradients[0].items():
            np.testing.assert_allclose(value, gradients[1][name], rtol=1e-4)

    def test_inducing_cases(self):
        points = np.array([[g, d] for g in range(12) for d in (0.0, 1.0)])
        options = {"draws": 2, "random_seed": 1, "progress": False}
        on_points = bgp.fit(self.TABLE, self.LABELS, self.KERNEL, inducing=points, **options)
        whole = bgp.fit(self.TABLE, self.LABELS, self.KERNEL, **options)
        p = [bgp.predict(i, self.TABLE[:30], draws=False)["predictions"]["p"].values for i in (on_points, whole)]
        np.testing.assert_allclose(*p, atol=1e-5)
        tuned = bgp.fit(
            self.TABLE, self.LABELS, self.KERNEL, inducing=40, hyper=bgp.hyper.Evidence(starts=1), **options
        )
        assert float(tuned["fit"]["log_evidence"]) > float(whole["fit"]["log_evidence"]) - 1e-6

    def test_means_of_cases_are_of_no_group(self):
        with pytest.raises(ValueError, match="takes means of cases, which are of no group, and the kernel tells gr"):
            bgp.fit(self.TABLE, self.LABELS, self.KERNEL, inducing=bgp.Inducing(20, choose="kmeans"), progress=False)
        inducing = bgp.Inducing(20, move=True)
        with pytest.raises(ValueError, match=r"Categorical has no inputs_vjp\. Use move=False"):
            bgp.fit(self.TABLE, self.LABELS, self.KERNEL, inducing=inducing, hyper="evidence", progress=False)
