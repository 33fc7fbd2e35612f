"""Online learning over a Gram matrix: exactness, fixed points, what depends on the order and what does not."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import bayesgp_mf as bgp
from bayesgp_mf.likelihoods import Gaussian
from bayesgp_mf.matrices.sites import SiteCorrection
from bayesgp_mf.methods import METHODS
from bayesgp_mf.online import Online, finish, init, update
from tests.online.conftest import KERNEL, every_likelihood, make_inputs, make_problem


def assert_same_posterior(one, other, atol):
    np.testing.assert_allclose(one.alpha, other.alpha, atol=atol)
    np.testing.assert_allclose(one.correction.dense(), other.correction.dense(), atol=atol)
    np.testing.assert_allclose(one.evidence.value, other.evidence.value, atol=atol)


def mixed(n: int, seed: int = 0) -> tuple[int, ...]:
    return tuple(np.random.default_rng(seed).permutation(n).tolist())


@pytest.mark.parametrize("order", [None, mixed(25), tuple(reversed(range(25)))])
@pytest.mark.parametrize("sweeps", [1, None])
def test_regression_is_exact_in_any_order(order, sweeps):
    problem = make_problem(Gaussian(0.5))
    exact = METHODS["exact"].solve(problem)
    assert_same_posterior(Online(sweeps=sweeps, order=order).solve(problem), exact, 1e-10)


@settings(max_examples=30, deadline=None)
@given(st.permutations(list(range(6))), st.integers(0, 50), st.floats(0.01, 10.0))
def test_regression_does_not_depend_on_the_order(order, seed, noise):
    X, t = make_inputs(6, seed=2)
    t = t + np.random.default_rng(seed).standard_normal(6)
    problem = bgp.Problem(KERNEL.gram(X), t, Gaussian(noise))
    given_order, other = Online().solve(problem), Online(order=order).solve(problem)
    np.testing.assert_allclose(given_order.alpha, other.alpha, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(given_order.evidence.value, other.evidence.value, rtol=1e-9)
    state = init()
    for i in order:
        state = update(state, KERNEL, X[i], t[i], Gaussian(noise))
    np.testing.assert_allclose(finish(state).alpha, given_order.alpha[list(order)], rtol=1e-7, atol=1e-9)


def test_classification_does_depend_on_the_order_of_one_sweep():
    problem = make_problem(bgp.Probit())
    one, other = Online().solve(problem), Online(order=mixed(25)).solve(problem)
    assert np.max(np.abs(one.alpha - other.alpha)) > 1e-3


@pytest.mark.parametrize("sweeps", [1, None])
@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Probit(0.5, 0.1), bgp.Step(0.1)])
def test_a_single_case_is_exact(sweeps, likelihood):
    problem = bgp.Problem(np.array([[1.7]]), np.array([-1.0]), likelihood)
    # with flips it is integrated without tilting, to some 1e-5
    assert_same_posterior(Online(sweeps=sweeps).solve(problem), METHODS["exact"].solve(problem), 5e-5)
    tap = METHODS["tap"].solve(problem)  # exact too, without an integration error
    assert_same_posterior(Online(sweeps=sweeps).solve(problem), tap, 1e-12)


@every_likelihood
@pytest.mark.parametrize("order", [None, mixed(25)])
def test_sweeps_that_replace_arrive_at_tap(likelihood, order):
    problem = make_problem(likelihood)
    solution, tap = Online(sweeps=None, order=order).solve(problem), METHODS["tap"].solve(problem)
    assert_same_posterior(solution, tap, 1e-7)
    np.testing.assert_allclose(solution.cavity, tap.cavity, atol=1e-7)
    assert (solution.method, solution.evidence.kind) == ("online", "ep")
    assert solution.info.status is bgp.Status.CONVERGED


@pytest.mark.parametrize("likelihood", [bgp.Probit(), bgp.Step(), bgp.Step(0.1)])
def test_one_sweep_is_not_tap(likelihood):
    problem = make_problem(likelihood)
    assert np.max(np.abs(Online().solve(problem).alpha - METHODS["tap"].solve(problem).alpha)) > 1e-3


def test_labels_sorted_by_class_do_not_lead_the_fixed_point_astray():
    sonar = bgp.datasets.load_sonar()  # rocks first, then mines
    t = np.where(sonar.y == "M", 1.0, -1.0)
    assert np.count_nonzero(np.diff(t)) == 1
    problem = bgp.Problem(bgp.kernels.Gaussian(100.0).gram(sonar.X), t, bgp.Step(0.05))
    solution, tap = Online(sweeps=None).solve(problem), METHODS["tap"].solve(problem)
    np.testing.assert_allclose(solution.evidence.value, tap.evidence.value, atol=1e-7)


def test_using_cases_as_new_counts_them_twice():
    """Two measurements with noise v and the same outcome are one with noise v/2."""
    problem = make_problem(Gaussian(0.5))
    twice = Online(sweeps=2, reuse="as_new").solve(problem)
    doubled = METHODS["exact"].solve(bgp.Problem(problem.gram, problem.t, Gaussian(0.25)))
    np.testing.assert_allclose(twice.alpha, doubled.alpha, atol=1e-10)
    np.testing.assert_allclose(twice.correction.dense(), doubled.correction.dense(), atol=1e-10)
    assert twice.info.n_iterations == 2
    # the evidence does not: it stays that of the first sweep
    np.testing.assert_allclose(twice.evidence.value, METHODS["exact"].solve(problem).evidence.value, atol=1e-10)


def test_a_warm_start_saves_sweeps_and_a_wrong_one_is_refused():
    problem = make_problem(bgp.Probit())
    cold = Online(sweeps=None).solve(problem)
    warm = Online(sweeps=None).solve(problem, start=METHODS["tap"].solve(problem))
    assert warm.info.n_iterations == 1 < cold.info.n_iterations
    with pytest.raises(ValueError, match="start has 3 cases, but the problem has 25"):
        Online(sweeps=None).solve(problem, start=Online().solve(make_problem(bgp.Probit(), 3)))


def test_a_start_that_leads_nowhere_is_given_up():
    problem = make_problem(bgp.Probit())
    cold = Online(sweeps=None).solve(problem)
    elsewhere = SiteCorrection(1e-3 * problem.gram, np.full(25, -1.0))  # no posterior under this problem's prior
    led = Online(sweeps=None).solve(problem, start=dataclasses.replace(cold, correction=elsewhere))
    np.testing.assert_allclose(led.alpha, cold.alpha, atol=1e-7)


def test_sweeps_that_are_not_enough_are_told():
    problem, short = make_problem(bgp.Step()), Online(sweeps=None)
    with pytest.raises(bgp.ConvergenceError, match=r"online: The largest number .* after 2 steps") as caught:
        short.solve(problem, bgp.Control(max_iterations=2))
    assert caught.value.status is bgp.Status.MAX_ITERATIONS
    unsolved = short.solve(problem, bgp.Control(max_iterations=2, throw=False))
    assert unsolved.info.status is bgp.Status.MAX_ITERATIONS
    assert unsolved.info.residual > 1e-8


def test_a_case_left_without_a_cavity_is_no_result():
    # one of four similar cases has another label, which is nearly certain; after a few sweeps its site is too negative
    problem = bgp.Problem(
        bgp.kernels.Gaussian(2.0).gram(np.linspace(-1.0, 1.0, 4)[:, None]),
        np.array([1.0, 1.0, -1.0, 1.0]),
        bgp.Probit(0.01, flip=0.01),
    )
    with pytest.raises(bgp.ConvergenceError, match=r"No step.*\(a cavity variance is not positive") as caught:
        Online(sweeps=None).solve(problem, bgp.Control(max_iterations=4, throw=False))
    assert caught.value.status is bgp.Status.NO_VALID_STEP


def test_labels_without_a_solution_are_told_by_the_fixed_point_only():
    gram = bgp.kernels.Linear().gram(np.array([[1.0], [2.0], [-1.0], [3.0]]))
    with pytest.raises(bgp.InconsistentDataError):
        bgp.Problem(gram, np.array([1.0, -1.0, 1.0, 1.0]), bgp.Step())
    X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    problem = bgp.Problem(bgp.kernels.Linear().gram(X), np.array([1.0, 1.0, -1.0]), bgp.Step())
    with pytest.raises(bgp.InconsistentDataError, match="not separable"):
        Online(sweeps=None).solve(problem)
    assert np.isfinite(Online().solve(problem).evidence.value)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"sweeps": 0}, "sweeps must be a positive integer or None, got 0"),
        ({"sweeps": 1.5}, "sweeps must be a positive integer or None, got 1.5"),
        ({"reuse": "twice"}, "reuse must be 'replace' or 'as_new', got 'twice'"),
        ({"sweeps": 3}, "sweeps must be 1, or None for as many as needed, with reuse='replace', got 3"),
        ({"sweeps": None, "reuse": "as_new"}, "sweeps must be an integer with reuse='as_new', got None"),
    ],
)
def test_settings_that_make_no_sense_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        Online(**arguments)


@pytest.mark.parametrize("order", [(0, 1), (0, 1, 1), (1, 2, 3)])
def test_an_order_is_a_permutation(order):
    with pytest.raises(ValueError, match="order must hold each of the numbers 0 to 2 once, for the 3 cases"):
        Online(order=order).solve(make_problem(bgp.Probit(), 3))


@every_likelihood
def test_leave_one_out_at_the_fixed_point_is_the_cavity(likelihood):
    problem, solver = make_problem(likelihood), Online(sweeps=None)
    loo, tap = solver.leave_one_out(problem, solver.solve(problem)), METHODS["tap"].solve(problem)
    np.testing.assert_allclose(loo.mean, tap.cavity.mean, atol=1e-7)
    np.testing.assert_allclose(loo.variance, tap.cavity.variance, atol=1e-7)


def test_leave_one_out_after_one_sweep():
    regression = make_problem(Gaussian(0.5))
    ours = Online().leave_one_out(regression, Online().solve(regression))
    exact = METHODS["exact"].leave_one_out(regression, METHODS["exact"].solve(regression))
    for name in ("mean", "variance", "log_density"):
        np.testing.assert_allclose(getattr(ours, name), getattr(exact, name), atol=1e-9)
    problem = make_problem(bgp.Probit())
    loo = Online().leave_one_out(problem, Online().solve(problem))
    # nothing has seen the last case but its own factor
    others = bgp.Problem(problem.gram[:-1, :-1], problem.t[:-1], problem.likelihood)
    without = Online().solve(others)
    np.testing.assert_allclose(loo.mean[-1], problem.gram[-1, :-1] @ without.alpha, atol=1e-10)
    np.testing.assert_allclose(
        loo.log_density[-1], Online().solve(problem).evidence.value - without.evidence.value, atol=1e-10
    )


def test_a_stream_has_no_leave_one_out():
    X, t = make_inputs(3)
    state = init()
    for x, label in zip(X, t, strict=True):
        state = update(state, KERNEL, x, label, bgp.Probit())
    with pytest.raises(bgp.UndefinedQuantityError, match="a stream keeps none"):
        Online().leave_one_out(make_problem(bgp.Probit(), 3), finish(state))


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [1e-6, 1e-4])
def test_the_running_evidence_of_targets_far_out_is_known_to_the_last_digits(seed, noise):
    """Of a case that comes again little variance is left, with few digits; its targets are thousands of sd away."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal(24)[rng.integers(0, 24, 36)][:, None]
    t = 4.0 * np.sqrt(1e6 * noise) * rng.standard_normal(36)
    problem = bgp.Problem(bgp.kernels.Gaussian(0.15, 3000.0 * noise).gram(X), t, Gaussian(noise))
    expected = METHODS["exact"].solve(problem).evidence.value
    assert expected < -1e7
    for order in (None, mixed(36), tuple(reversed(range(36)))):
        assert Online(order=order).solve(problem).evidence.value == pytest.approx(expected, abs=3e-7)


@pytest.mark.parametrize("decades", range(20, 60, 10))
def test_means_that_are_huge_beside_a_tiny_noise_are_refused(decades):
    """Of K over noise so large nothing is left of a posterior variance; that is rounding, and no certainty."""
    problem = bgp.Problem(np.array([[10.0**decades]]), np.array([10.0 ** (decades / 2)]), Gaussian(1e-10))
    for solver in (Online(), METHODS["tap"]):
        with pytest.raises(bgp.NotPositiveDefiniteError, match="rounding decides"):
            solver.solve(problem)


def test_latent_values_that_are_known_beforehand_learn_nothing():
    X, y = np.zeros((6, 1)), np.array([0, 1, 1, 0, 1, 1])  # each prior variance is zero
    options = {"method": "online", "random_seed": 1, "progress": False}
    fit = bgp.fit(X, y, bgp.kernels.Linear() * bgp.kernels.White(), bgp.Probit(), **options)["fit"]
    np.testing.assert_array_equal(fit["latent_sd"], 0.0)
    np.testing.assert_array_equal(fit["latent_mean"], 0.0)
    np.testing.assert_allclose(float(fit["log_evidence"]), 6.0 * np.log(0.5), rtol=1e-12)
