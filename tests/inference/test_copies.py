"""A solution of every method goes to another process and back, and can be copied, what it has not included."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.matrices.low_rank import LowRankGram
from bayesgp_mf.methods import METHODS, MULTICLASS, get_method
from bayesgp_mf.multiclass.class_gram import class_correction

X = np.random.default_rng(0).standard_normal((14, 2))
GRAM = bgp.kernels.Gaussian(1.0, 4.0).gram(X)
LABELS = np.where(X[:, 0] > 0, 1.0, -1.0)
CODES = np.digitize(X[:, 0], [-0.5, 0.5]).astype(float)
COPIES = [lambda thing: pickle.loads(pickle.dumps(thing)), copy.copy, copy.deepcopy]


def same(one: Solution, other: Solution) -> None:
    assert one.method == other.method
    assert one.info == other.info
    assert one.has_variance == other.has_variance
    np.testing.assert_array_equal(one.alpha, other.alpha)
    if one.has_variance:
        assert one.evidence == other.evidence
    assert repr(one.evidence) == repr(other.evidence)
    assert (one.cavity is None) == (other.cavity is None)
    if one.cavity is not None:
        np.testing.assert_array_equal(np.asarray(one.cavity.mean), np.asarray(other.cavity.mean))


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("method", METHODS)
def test_with_two_classes(method, copied):
    problem = bgp.Problem(GRAM, LABELS, bgp.Step() if method == "svm" else bgp.Probit())
    solver = METHODS[method]
    solution = solver.solve(problem)
    again = copied(solution)
    same(solution, again)
    others, others_again = solver.leave_one_out(problem, solution), copied(solver.leave_one_out(problem, again))
    np.testing.assert_array_equal(others.mean, others_again.mean)
    if method == "svm":
        for ask in (
            lambda: again.evidence.value,
            lambda: again.correction.quadratic(GRAM),
            lambda: others_again.variance,
            lambda: others_again.log_density,
        ):
            with pytest.raises(bgp.UndefinedQuantityError, match="method 'svm' has no"):
                ask()
        return
    np.testing.assert_array_equal(solution.correction.quadratic(GRAM), again.correction.quadratic(GRAM))
    np.testing.assert_array_equal(others.log_density, others_again.log_density)


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("method", MULTICLASS)
def test_with_several_classes(method, copied):
    problem = bgp.Problem(GRAM, CODES, bgp.Softmax())
    solver = get_method(method, problem.likelihood)
    solution = solver.solve(problem)
    again = copied(solution)
    same(solution, again)
    np.testing.assert_array_equal(*(class_correction(each).dense() for each in (solution, again)))
    np.testing.assert_array_equal(*(solver.leave_one_out(problem, each).probability for each in (solution, again)))


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("method", ["tap", "naive", "laplace"])
def test_with_a_gram_matrix_of_low_rank(method, copied):
    rows = np.random.default_rng(1).uniform(-2.0, 2.0, (1100, 1))
    kernel = bgp.kernels.Gaussian(1.0)
    idata = bgp.fit(rows, rows[:, 0] > 0, kernel, method=method, draws=1, chains=1, random_seed=1)
    process = bgp.posterior(idata)
    assert isinstance(process.problem.gram, LowRankGram)
    again = bgp.Posterior(kernel, process.X, copied(process.problem), copied(process.solution))
    same(process.solution, again.solution)
    np.testing.assert_array_equal(process.latent(rows[:5]), again.latent(rows[:5]))


@pytest.mark.parametrize("copied", COPIES, ids=["pickle", "copy", "deepcopy"])
@pytest.mark.parametrize("method", ["tap", "naive", "laplace"])
def test_with_a_gram_matrix_on_inducing_cases(method, copied):
    kernel = bgp.kernels.Gaussian(1.0)
    idata = bgp.fit(X, LABELS > 0, kernel, method=method, inducing=5, draws=1, chains=1, random_seed=1)
    process = bgp.posterior(idata)
    again = bgp.Posterior(kernel, process.X, copied(process.problem), copied(process.solution))
    same(process.solution, again.solution)
    np.testing.assert_array_equal(process.latent(X[:5] + 0.1), again.latent(X[:5] + 0.1))
    np.testing.assert_array_equal(process.problem.matrix.root, again.problem.matrix.root)
