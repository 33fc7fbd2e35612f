"""Hybrid Monte Carlo over hyperparameters: known posteriors, what is recorded, what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import EvidenceScore, HybridMonteCarlo, LogNormal, Objective, Target
from bayesgp_mf.methods import METHODS
from tests.hyper.known import (
    MEAN,
    PRECISION,
    PUBLISHED_STEP,
    Quadratic,
    StartsOfTap,
    ignore,
    known_target,
    published_pima,
    within_monte_carlo_error,
)

TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=25, random_seed=3)
LABELS = 2.0 * TOY.y - 1.0


def log_draws(target, result):
    return np.array([target.free_logarithms(kernel) for kernel in result.kernels])


def test_draws_are_from_evidence_times_prior():
    prior = LogNormal(1.0, 0.5)
    target = known_target(priors={"bias_variance": prior})
    strategy = HybridMonteCarlo(700, 6, {"bias_variance": 0.15, "white_variance": 0.25}, dropped=0.1)
    result = strategy.choose(target, np.random.default_rng(0), ignore)
    precision = PRECISION + np.diag([1.0 / 0.5**2, 0.0])
    mean = np.linalg.solve(precision, PRECISION @ MEAN + np.array([1.0 / 0.5**2, 0.0]))
    draws = log_draws(target, result)
    apart, covariance = draws - mean, np.linalg.inv(precision)
    seen = np.column_stack([draws, apart**2, apart[:, 0] * apart[:, 1]])
    assert within_monte_carlo_error(seen, [*mean, *np.diag(covariance), covariance[0, 1]], batches=20)
    assert not within_monte_carlo_error(draws, MEAN, batches=20)  # the control: without the prior
    np.testing.assert_allclose(result.weights, 1.0 / 630)
    value = [Objective(target, EvidenceScore()).value(x) for x in draws[:5]]
    np.testing.assert_allclose(result.stats["lp"][:5], value, atol=1e-12)


def test_chains_and_the_whole_path_are_kept():
    target = known_target()
    result = HybridMonteCarlo(iterations=9, leapfrog_steps=3, chains=2).choose(target, np.random.default_rng(0), ignore)
    assert len(result.kernels) == 12
    assert result.chains == 2
    dims, path = result.record["hyper_path"]
    assert dims == ("chain", "iteration", "hyper")
    assert path.shape == (2, 9, 2)
    np.testing.assert_allclose(log_draws(target, result), path[:, 3:].reshape(12, 2), atol=1e-15)
    starts = result.record["hyper_start"][1]
    np.testing.assert_array_equal(starts[0], target.start)
    assert np.all(starts[1] != target.start)
    np.testing.assert_array_equal(result.record["hyper_n_evaluations"][1], 9 * 3 + 1)
    assert {"accepted", "acceptance_rate", "diverging", "energy_error", "lp"} == set(result.stats)


def test_the_published_run_on_pima_keeps_its_energy():
    """A few of the published iterations; all 200 take half a minute."""
    strategy = HybridMonteCarlo(iterations=3, step_size=PUBLISHED_STEP, dropped=0.0)
    result = strategy.choose(published_pima(), np.random.default_rng(0), ignore)
    assert result.stats["accepted"].all()  # published: fewer than 5 % rejected
    assert np.all(np.abs(result.stats["energy_error"]) < 0.1)
    assert np.all(np.diff(result.record["hyper_path_lp"][1][0]) != 0)


@pytest.mark.parametrize(
    ("method", "likelihood"), [("laplace", bgp.Logit()), ("tap", bgp.Probit()), ("tap", bgp.Probit(0.5, 0.1))]
)
def test_energy_error_falls_with_the_square_of_the_step_on_evidences(method, likelihood):
    priors = {"lengthscale": LogNormal(power=-2.0), "variance": LogNormal()}
    kernel, control = bgp.kernels.Gaussian([1.0, 1.0], 2.0), bgp.Control(tolerance=1e-11)
    target = Target(TOY.X, LABELS, likelihood, kernel, METHODS[method], control, priors)
    errors = []
    for halvings in (0, 1, 2):  # trajectories of one length, from the same momenta
        strategy = HybridMonteCarlo(1, 4 * 2**halvings, 0.1 / 2**halvings, dropped=0.0)
        results = [strategy.choose(target, np.random.default_rng(seed), ignore) for seed in range(4)]
        errors.append(np.sqrt(np.mean([result.stats["energy_error"] ** 2 for result in results])))
    np.testing.assert_allclose(np.divide(errors[:-1], errors[1:]), 4.0, atol=0.4)


def test_with_flips_the_evidence_does_not_depend_on_the_way_there():
    kernel = bgp.kernels.Gaussian(1.0, 9.0)
    target = Target(TOY.X, LABELS, bgp.Probit(0.1, 0.2), kernel, METHODS["tap"])
    solver = StartsOfTap()
    flips = Target(target.X, target.t, target.likelihood, kernel, solver, fixed={"flip"})
    HybridMonteCarlo(1, 3).choose(flips, np.random.default_rng(0), ignore)
    assert solver.starts == [None] * 4
    solver.starts.clear()
    none = Target(target.X, target.t, bgp.Probit(), kernel, solver)
    HybridMonteCarlo(1, 3).choose(none, np.random.default_rng(0), ignore)
    assert [start is None for start in solver.starts] == [True, False, False, False]


class Moody(Quadratic):
    """A solver that fails where the bias is large."""

    def solve(self, problem, control=bgp.Control(), start=None):
        if problem.gram[0, 1] > 1.5:
            raise bgp.ConvergenceError("a bad place", bgp.Status.STALLED)
        return super().solve(problem, control, start)


def test_failures_are_rejections_and_are_counted():
    target = known_target(solver=Moody())
    with pytest.warns(bgp.ConvergenceWarning, match=r"of 60 trajectories \d+ came to a point where the equations had"):
        result = HybridMonteCarlo(60, 4, 0.3).choose(target, np.random.default_rng(0), ignore)
    failed = result.record["hyper_path_failed"][1][0]
    assert 0 < failed.sum() < 60
    assert result.record["hyper_n_failures"][1][0] == failed.sum()
    assert result.stats["diverging"].sum() == failed[20:].sum()
    assert max(float(kernel.params["bias_variance"]) for kernel in result.kernels) <= 1.5


def test_few_accepted_proposals_are_warned_about():
    with pytest.warns(bgp.ConvergenceWarning, match=r"only \d+% of the proposals were accepted"):
        HybridMonteCarlo(20, 3, 0.95).choose(known_target(), np.random.default_rng(0), ignore)


def test_a_start_without_a_solution_is_an_error():
    class Never(Quadratic):
        def solve(self, problem, control=bgp.Control(), start=None):
            raise bgp.ConvergenceError("never", bgp.Status.STALLED)

    with pytest.raises(bgp.ConvergenceError, match=r"no solution at the starting point.* The last reason: never"):
        HybridMonteCarlo().choose(known_target(solver=Never()), np.random.default_rng(0), ignore)


def test_interruption_is_not_swallowed():
    class Interrupted(Quadratic):
        def solve(self, problem, control=bgp.Control(), start=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        HybridMonteCarlo().choose(known_target(solver=Interrupted()), np.random.default_rng(0), ignore)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"iterations": 0}, "iterations must be a positive integer, got 0"),
        ({"leapfrog_steps": 2.5}, "leapfrog_steps must be a positive integer, got 2.5"),
        ({"chains": True}, "chains must be a positive integer, got True"),
        ({"dropped": 1.0}, "dropped must be a share of the iterations, 0 <= dropped < 1, got 1.0"),
        ({"step_size": 0.0}, "step_size must be a finite number > 0"),
        ({"step_size": {"variance": -1.0}}, "step_size must be a finite number > 0"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        HybridMonteCarlo(**options)


def test_step_sizes_must_name_what_is_tuned():
    with pytest.raises(ValueError, match=r"name each tuned parameter, \['bias_variance', 'white_variance'\]; it names"):
        HybridMonteCarlo(step_size={"bias_variance": 0.1}).choose(known_target(), np.random.default_rng(0), ignore)
