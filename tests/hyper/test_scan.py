"""The scan over a grid: least count of leave-one-out errors, and the rule among ties."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import LogNormal, Scan, Target
from bayesgp_mf.inference.solution import LeaveOneOut
from bayesgp_mf.methods import METHODS
from tests.hyper.known import Quadratic, ignore, known_target

TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=3)
LABELS = 2.0 * TOY.y - 1.0
GRID = {"gaussian_lengthscale": [0.1, 0.5, 1.0, 3.0, 10.0], "gaussian_variance": [0.3, 3.0]}
KERNEL = bgp.kernels.Gaussian([1.0, 1.0], 2.0) + bgp.kernels.Bias(0.4)


def target(method="tap", likelihood=bgp.Probit(), kernel=KERNEL, **options):
    return Target(TOY.X, LABELS, likelihood, kernel, METHODS[method], **options)


def choose(strategy, at):
    return strategy.choose(at, np.random.default_rng(0), ignore)


@pytest.mark.parametrize("method", ["tap", "naive", "laplace"])
def test_the_least_count_is_chosen(method):
    at = target(method)
    result = choose(Scan(GRID), at)
    points, errors = result.record["hyper_scan"][1], result.record["hyper_loo_errors"][1]
    assert points.shape == (10, 4)
    assert errors.shape == (10,)
    (kernel,) = result.kernels
    problem = at.problem_at(result.models[0])
    count = at.solver.leave_one_out(problem, at.solver.solve(problem)).error_count(problem.t)
    assert count == errors.min() == result.stats["loo_errors"][0] < errors.max()
    assert kernel.params["bias_variance"] == 0.4
    assert float(kernel.params["gaussian_variance"]) in GRID["gaussian_variance"]
    tied = errors == errors.min()
    chosen = np.all(np.isclose(points, at.free_logarithms(kernel)), axis=1)
    assert result.record["hyper_loo"][1][chosen] == result.record["hyper_loo"][1][tied].max()


def told(t, wrong, log_density=0.0):
    """Return leave-one-out predictions of the two cases of a known target, so many of them wrong."""
    mean = np.where(np.arange(2) < wrong, -t, t)
    return LeaveOneOut(mean, np.ones(2), np.array([log_density, 0.0]))


class Told(Quadratic):
    """A solver whose errors and log densities at a bias of 1, 2, 3 are given."""

    def leave_one_out(self, problem, solution):
        at = round(float(np.exp(self.log_variances(problem)[0]))) - 1
        return told(problem.t, *((0, -10.0), (0, -10.5), (1, -1.0))[at])


def test_a_prior_decides_among_ties_that_densities_leave_open():
    grid = Scan({"bias_variance": [1.0, 2.0, 3.0]})
    for priors, best in (({}, 1.0), ({"bias_variance": LogNormal(np.log(2.0), 0.5)}, 2.0)):
        result = choose(grid, known_target(solver=Told(), priors=priors))
        assert result.record["hyper_loo_errors"][1].tolist() == [0, 0, 1]
        np.testing.assert_allclose(result.record["hyper_loo"][1], [-10.0, -10.5, -1.0])
        assert result.kernels[0].params["bias_variance"] == best


def test_without_a_grid_all_length_scales_move_together():
    kernel = bgp.kernels.Gaussian([1.0, 2.0], 2.0)
    result = choose(Scan(), target(kernel=kernel))
    scales = np.exp(result.record["hyper_scan"][1])
    assert scales.shape == (13, 3)
    np.testing.assert_allclose(scales[:, 1] / scales[:, 0], 2.0)
    np.testing.assert_allclose(scales[[0, -1], 0], [0.1, 10.0])
    np.testing.assert_allclose(scales[:, 2], 2.0)


def test_points_without_a_solution_are_left_out_and_counted():
    # without noise a linear kernel separates nothing here
    kernel = bgp.kernels.Gaussian(1.0, 1.0) + bgp.kernels.White(1e-12)
    grid = {"gaussian_lengthscale": [1.0, 1e5]}
    result = choose(Scan(grid), target("tap", bgp.Step(), kernel, control=bgp.Control(max_iterations=60)))
    assert int(result.record["hyper_n_failures"][1]) == 1
    assert result.record["hyper_scan"][1].shape == (1, 3)
    with pytest.raises(bgp.ConvergenceError, match=r"no solution at any of 1 points of the grid.*The last reason"):
        choose(Scan({"gaussian_lengthscale": [1e5]}), target("tap", bgp.Step(), kernel))


def test_real_targets_are_refused():
    at = Target(TOY.X, LABELS, bgp.likelihoods.Gaussian(0.1), KERNEL, METHODS["exact"])
    with pytest.raises(ValueError, match=r"counts wrong labels, and Gaussian has none; use hyper='loo'"):
        choose(Scan(), at)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ({}, "grid must map names of parameters to values"),
        ([1.0], "grid must map names of parameters to values"),
        ({"variance": []}, r"grid\['variance'\] must be a sequence of finite numbers > 0"),
        ({"variance": [0.0]}, "must be a sequence of finite numbers > 0"),
        ({"variance": ["a"]}, r"grid\['variance'\] must be a sequence of numbers, got \['a'\]"),
    ],
)
def test_bad_grids_are_refused(grid, message):
    with pytest.raises(ValueError, match=message):
        Scan(grid)


@pytest.mark.parametrize(
    ("grid", "options", "message"),
    [
        ({"width": [1.0]}, {}, r"grid names 'width', which is not tuned; those that are: \['bias_variance', 'gauss"),
        ({"bias_variance": [1.0]}, {"fixed": {"bias_variance"}}, "grid names 'bias_variance', which is not tuned"),
        ({"bias_variance": [9.0]}, {"bounds": {"bias_variance": (0.1, 1.0)}}, r"bias_variance = 9.0 is outside bounds"),
        (None, {"fixed": {"gaussian_lengthscale"}}, "no length scale to scan; give values for some of"),
    ],
)
def test_grids_that_do_not_fit_are_refused(grid, options, message):
    with pytest.raises(ValueError, match=message):
        choose(Scan(grid), target(priors={"gaussian_variance": LogNormal()}, **options))
