"""Exact leave-one-out by refits."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.diagnostics import exact_loo
from bayesgp_mf.inference.solution import LeaveOneOut
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.methods import METHODS

FIELDS = ("mean", "variance", "log_density")


def make_problem(likelihood=bgp.Probit(0.5), n=20) -> bgp.Problem:
    kernel = bgp.kernels.Gaussian(1.0, 2.0)
    toy = bgp.datasets.make_toy(kernel, bgp.Probit(0.5), n=n, random_seed=2)
    return bgp.Problem(kernel.gram(toy.X), 2.0 * toy.y - 1.0, likelihood)


@pytest.mark.parametrize("method", [name for name in METHODS if name not in ("svm", "exact")])
def test_estimates_are_exact_for_regression(method):
    problem = make_problem(Gaussian(0.3))
    estimate = METHODS[method].leave_one_out(problem, METHODS[method].solve(problem))
    exact = exact_loo(problem, method)
    for name in FIELDS:
        np.testing.assert_allclose(getattr(estimate, name), getattr(exact, name), atol=1e-8)


def test_the_estimate_of_tap_is_close_for_classification_but_not_the_same():
    problem = make_problem()
    estimate, exact = METHODS["tap"].leave_one_out(problem, METHODS["tap"].solve(problem)), exact_loo(problem)
    difference = np.abs(estimate.log_density - exact.log_density)
    assert 1e-6 < np.median(difference) < 0.02  # a label that the others contradict is further off


def test_one_case_leaves_the_prior():
    problem = bgp.Problem([[2.0]], [1.0], bgp.Probit(1.0))
    loo = exact_loo(problem)
    np.testing.assert_allclose([loo.mean[0], loo.variance[0], loo.log_density[0]], [0.0, 2.0, np.log(0.5)])
    with pytest.raises(bgp.UndefinedQuantityError, match="method 'svm' has no predictive density"):
        exact_loo(problem, "svm").log_density  # noqa: B018


def test_a_refit_that_fails_names_its_case():
    with pytest.raises(bgp.ConvergenceError, match=r"without case \d: tap: .*largest number") as caught:
        exact_loo(make_problem(n=6), control=bgp.Control(max_iterations=2))
    assert caught.value.status is bgp.Status.MAX_ITERATIONS


def test_a_convergence_error_survives_pickling():
    error = pickle.loads(pickle.dumps(bgp.ConvergenceError("no", bgp.Status.STALLED)))
    assert (str(error), error.status) == ("no", bgp.Status.STALLED)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "ep"}, "method must be one of"),
        ({"processes": 0}, "processes must be a positive integer, got 0"),
        ({"processes": 1.5}, "processes must be a positive integer, got 1.5"),
    ],
)
def test_malformed_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        exact_loo(make_problem(n=3), **arguments)


def test_errors_are_counted_where_the_field_has_the_wrong_sign():
    loo = LeaveOneOut(np.array([0.5, -0.1, 0.0]), np.ones(3), np.zeros(3))
    assert loo.error_count(np.array([1.0, 1.0, -1.0])) == 1


def test_a_container_is_no_problem():
    X = np.linspace(-2.0, 2.0, 10)[:, None]
    idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), draws=1, chains=1, progress=False)
    with pytest.raises(ValueError, match=r"must be a Problem.*bgp.posterior\(idata\).problem"):
        exact_loo(idata)


def test_prior_means_go_with_their_cases():
    rng = np.random.default_rng(7)
    X, kernel = rng.normal(size=(12, 2)), bgp.kernels.Gaussian(1.0, 2.0)
    mean, gram = X @ [1.0, -0.5], kernel.gram(X)
    t = np.where(mean + rng.normal(size=12) > 0, 1.0, -1.0)
    found = exact_loo(bgp.Problem(gram, t, by_case(bgp.Probit(), prior_mean=mean)))
    for i in (0, 5):
        others = np.arange(12) != i
        solution = bgp.solve(gram[np.ix_(others, others)], t[others], by_case(bgp.Probit(), prior_mean=mean[others]))
        cross = gram[others, i]
        variance = gram[i, i] - solution.correction.quadratic_diagonal(cross[:, None])
        value = bgp.Probit().log_partition(t[[i]], mean[[i]] + cross @ solution.alpha, variance).value
        assert found.log_density[i] == pytest.approx(value[0], abs=1e-6)
