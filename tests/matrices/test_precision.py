"""The sparse precision as a form of Gram matrix: the same numbers as the dense one, from a factor to a file."""

from __future__ import annotations

import pickle

import arviz as az
import numpy as np
import pytest
from scipy.sparse import csc_array, csr_array, diags_array, eye_array, kron

import bayesgp_mf as bgp
from bayesgp_mf.inference import assembly
from bayesgp_mf.kernels import Areal, Bias, Gaussian
from bayesgp_mf.matrices.precision import PrecisionGram
from bayesgp_mf.matrices.sparse import SparseFactor
from bayesgp_mf.methods import get_method

SIDE = 7
LINE = diags_array([np.ones(SIDE - 1)] * 2, offsets=[-1, 1], shape=(SIDE, SIDE))
W = csr_array(kron(LINE, eye_array(SIDE)) + kron(eye_array(SIDE), LINE))
RNG = np.random.default_rng(3)
X = RNG.integers(0, SIDE**2, (40, 1)).astype(float)  # several cases of some areas, none of others
Y = RNG.poisson(2.0, 40)
EVERY = np.arange(float(SIDE**2))[:, None]
KERNELS = {
    "leroux": Areal(W, "leroux", 0.7, 3.0),
    "car": Areal(W, "car", 0.7, 9.0) + Bias(2.0),
    "two": Areal(W, "leroux", 0.7, 9.0) + Areal(W, "car", 0.2, 0.5) + Bias(2.0),
}
QUIET = {"random_seed": 1, "progress": False}


def laplacian(n, rng):
    pairs = rng.integers(0, n, (2 * n, 2))
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    beside = csc_array((rng.uniform(0.1, 1.0, len(pairs)), pairs.T), shape=(n, n))
    beside = beside + beside.T
    return csc_array(diags_array(np.asarray(beside.sum(axis=0)) + rng.uniform(0.01, 1.0, n)) - beside)


@pytest.mark.parametrize("n", [1, 2, 5, 60, 200])
def test_a_sparse_factor_against_dense_algebra(n):
    rng = np.random.default_rng(n)
    matrix = laplacian(n, rng)
    factor, inverse = SparseFactor(matrix), np.linalg.inv(matrix.toarray())
    every = np.indices((n, n)).reshape(2, -1)
    known = factor.entries_of_inverse(*every).reshape(n, n)
    there = np.isfinite(known)
    assert there[matrix.toarray() != 0.0].all()
    np.testing.assert_allclose(known[there], inverse[there], rtol=1e-10)
    np.testing.assert_array_equal(factor.diagonal_of_inverse, known.diagonal())
    assert factor.log_det == pytest.approx(np.linalg.slogdet(matrix.toarray())[1], abs=1e-9)
    assert factor.trace_with(matrix) == pytest.approx(n)
    root = factor.root_solve(np.eye(n))
    np.testing.assert_allclose(root @ root.T, inverse, atol=1e-12 * inverse.max())
    again = pickle.loads(pickle.dumps(factor))
    np.testing.assert_array_equal(again.solve(np.ones(n)), factor.solve(np.ones(n)))


def test_entries_that_cancel_or_fall_below_all_numbers_are_zeros_of_the_factor():
    # each value given two before it: what the last one says of these two cancels their own fill
    root = np.eye(40) + np.diag(np.full(39, -0.5), -1) + np.diag(np.full(37, 0.25), -3)
    far = eye_array(400) + 1e-30 * csc_array(laplacian(400, np.random.default_rng(1)))
    for matrix in (csc_array(root.T @ root), csc_array(far)):
        inverse = np.linalg.inv(matrix.toarray())
        np.testing.assert_allclose(SparseFactor(matrix).diagonal_of_inverse, inverse.diagonal(), rtol=1e-9)


@pytest.mark.parametrize("matrix", [[[1.0, 2.0], [2.0, 1.0]], [[1.0, 1.0], [1.0, 1.0]]])
def test_what_is_not_positive_definite_has_no_factor(matrix):
    with pytest.raises(bgp.NotPositiveDefiniteError, match="a sparse precision is"):
        SparseFactor(csc_array(matrix))


@pytest.mark.parametrize("method", ["tap", "laplace"])
@pytest.mark.parametrize("kernel", KERNELS.values(), ids=KERNELS)
class TestSolutions:
    def test_are_those_of_the_dense_matrix(self, kernel, method):
        solver, dense = get_method(method), kernel.gram(X)
        gram = PrecisionGram(kernel.field(X))
        np.testing.assert_allclose(gram.dense(), dense, rtol=1e-10)
        np.testing.assert_allclose(gram.diagonal(), np.diag(dense), rtol=1e-10)
        problems = [bgp.Problem(each, Y, bgp.Poisson()) for each in (gram, dense)]
        sparse, whole = (solver.solve(problem) for problem in problems)
        assert sparse.evidence.value == pytest.approx(whole.evidence.value, abs=1e-7)
        np.testing.assert_allclose(sparse.alpha, whole.alpha, atol=1e-6)
        slopes = [
            problem.matrix.pull_back(solver.gram_gradient(problem, solution), kernel, X)
            for problem, solution in zip(problems, (sparse, whole), strict=True)
        ]
        assert slopes[0].keys() == slopes[1].keys() == kernel.params.keys()
        for name, value in slopes[0].items():
            assert value == pytest.approx(slopes[1][name], abs=1e-6)
        others = [solver.leave_one_out(problem, each) for problem, each in zip(problems, (sparse, whole), strict=True)]
        for name in ("mean", "variance", "log_density"):
            np.testing.assert_allclose(getattr(others[0], name), getattr(others[1], name), atol=1e-6)

    def test_fits_predictions_draws_and_files_are_the_same(self, kernel, method, monkeypatch, tmp_path):
        dense = bgp.fit(X, Y, kernel, bgp.Poisson(), method=method, draws=4000, **QUIET)
        monkeypatch.setattr(assembly, "SMALLEST", 30)
        sparse = bgp.fit(X, Y, kernel, bgp.Poisson(), method=method, draws=4000, **QUIET)
        assert int(sparse["fit"]["nodes"]) == kernel.field(X).at.shape[1]
        assert "nodes" not in dense["fit"]
        predicted = [bgp.predict(each, EVERY, random_seed=2)["predictions"] for each in (dense, sparse)]
        for name in ("latent_mean", "latent_sd"):
            np.testing.assert_allclose(*(each[name].values for each in predicted), atol=1e-6)
        f = sparse["posterior"]["f"].values.reshape(-1, 40)
        mean, sd = (sparse["fit"][name].values for name in ("latent_mean", "latent_sd"))
        assert np.abs(f.mean(axis=0) - mean).max() < 5.0 * (sd / np.sqrt(len(f))).max()
        np.testing.assert_allclose(f.std(axis=0), sd, rtol=0.06)
        # draws say how far the density that they come from is from the posterior: as those of the dense matrix
        k = [float(bgp.diagnostics.importance(each).pareto_k) for each in (dense, sparse)]
        assert k[0] == pytest.approx(k[1], abs=0.3)
        sparse.to_netcdf(tmp_path / "fit.nc")
        again = bgp.predict(az.from_netcdf(tmp_path / "fit.nc"), EVERY, draws=False)["predictions"]
        np.testing.assert_allclose(again["latent_sd"].values, predicted[1]["latent_sd"].values, rtol=1e-12)


def test_joint_draws_at_all_nodes_have_the_posterior_covariance(monkeypatch):
    monkeypatch.setattr(assembly, "SMALLEST", 30)
    posterior = bgp.posterior(bgp.fit(X, Y, KERNELS["car"], bgp.Poisson(), **QUIET))
    mean, covariance = posterior.joint_at(EVERY)
    f = posterior.draw_at(EVERY, 20_000, np.random.default_rng(4))
    np.testing.assert_allclose(f.mean(axis=0), mean, atol=0.04)
    np.testing.assert_allclose(np.cov(f.T), covariance, atol=0.04)


def test_tuned_fits_are_the_same(monkeypatch):
    kernel = KERNELS["car"]
    priors = bgp.priors.suggest(X, kernel, bgp.Poisson(), between=(1.0, 9.0), form="penalised complexity")
    options = {"hyper": bgp.hyper.Evidence(starts=1), "priors": priors, **QUIET}
    found = [bgp.fit(X, Y, kernel, bgp.Poisson(), **options)]
    monkeypatch.setattr(assembly, "SMALLEST", 30)
    found.append(bgp.fit(X, Y, kernel, bgp.Poisson(), **options))
    for name in kernel.params:
        np.testing.assert_allclose(*(each["fit"].attrs.get(name, 0.0) for each in found), rtol=1e-3)
    np.testing.assert_allclose(*(float(each["fit"]["log_evidence"]) for each in found), atol=1e-5)


def test_a_product_has_no_sparse_precision_and_others_stay_as_they_were(monkeypatch):
    monkeypatch.setattr(assembly, "SMALLEST", 30)
    product = Areal(W, columns=0) * Gaussian(1.0, columns=0)
    assert product.field(X) is None is (Areal(W, "bym2") + Bias()).field(X)
    for kernel, options in ((KERNELS["leroux"], {"control": bgp.Control(gram="dense")}), (Areal(W, "bym2"), {})):
        assert "nodes" not in bgp.fit(X, Y, kernel, bgp.Poisson(), **options, **QUIET)["fit"]


def test_areas_without_a_case_share_a_level_that_is_known(monkeypatch):
    """Where the sites say nothing of an area, the pair of its node and that of the level is not on the pattern."""
    monkeypatch.setattr(assembly, "SMALLEST", 2)
    monkeypatch.setattr("bayesgp_mf.matrices.precision.AT_ONCE", 3)
    kernel = Areal(W, "leroux", 0.7, 3.0) + Bias(2.0)
    few = X[:5], Y[:5]
    sparse = bgp.fit(*few, kernel, bgp.Poisson(), **QUIET)
    dense = bgp.fit(*few, kernel, bgp.Poisson(), control=bgp.Control(gram="dense"), **QUIET)
    found = [bgp.predict(each, EVERY, draws=False)["predictions"]["latent_sd"].values for each in (sparse, dense)]
    np.testing.assert_allclose(*found, rtol=1e-7)
