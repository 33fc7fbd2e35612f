"""Designs that are exact for a Gaussian, and averages over hyperparameters with them."""

from __future__ import annotations

from functools import reduce
from itertools import combinations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import EvidenceScore, Integrate, LogNormal, Objective, Target
from bayesgp_mf.hyper.integrate import central_composite, central_composite_size, factorial, product_rule
from bayesgp_mf.methods import METHODS
from bayesgp_mf.solvers.second_order import second_order
from tests.hyper.known import MEAN, PRECISION, Quadratic, ignore, known_target, pima_test_errors, published_pima

NO_MATTER = LogNormal(0.0, 1e7)
"""A prior that says nothing, in place of the one that a parameter gets where none is given."""
FLAT = {"bias_variance": NO_MATTER, "white_variance": NO_MATTER}


def moments(points, weights):
    mean = weights @ points
    return mean, ((points - mean).T * weights) @ (points - mean)


@pytest.mark.parametrize("p", [1, 2, 3, 5, 8, 11])
def test_designs_have_the_moments_of_a_standard_normal(p):
    designs = [central_composite(p, 1.1), central_composite(p, 1.5)] + ([product_rule(p, 5)] if p < 4 else [])
    for design in designs:
        mean, covariance = moments(*design)
        np.testing.assert_allclose(design.weights.sum(), 1.0, atol=1e-14)
        np.testing.assert_allclose(mean, 0.0, atol=1e-14)
        np.testing.assert_allclose(covariance, np.eye(p), atol=1e-13)
    assert central_composite_size(p) == len(designs[0].points)


@pytest.mark.parametrize(("p", "runs"), [(3, 8), (5, 16), (6, 32), (8, 64), (11, 128), (17, 256)])
def test_factorial_hides_no_interaction_behind_another(p, runs):
    columns = factorial(p).T
    assert columns.shape == (p, runs)
    products = [reduce(np.multiply, some) for size in (1, 2) for some in combinations(columns, size)]
    effects = np.array([np.ones(runs), *products])
    np.testing.assert_array_equal(effects @ effects.T, runs * np.eye(effects.shape[0]))


def average(target, result):
    return moments(np.array([target.free_logarithms(kernel) for kernel in result.kernels]), result.weights)


def test_two_parameters_exact_where_the_target_is_gaussian():
    target = known_target(priors=FLAT)
    result = Integrate(starts=1).choose(target, np.random.default_rng(0), ignore)
    mean, covariance = average(target, result)
    assert len(result.kernels) == 49
    np.testing.assert_allclose(mean, MEAN, atol=1e-8)
    np.testing.assert_allclose(covariance, np.linalg.inv(PRECISION), atol=1e-8)
    alike = np.full(49, 1.0 / 49)  # the control
    assert np.max(np.abs(moments(result.record["hyper_node"][1], alike)[1] - covariance)) > 0.1


def test_four_parameters_exact_where_the_target_is_gaussian():
    target = known_target(priors=FLAT | {"gaussian_lengthscale": LogNormal(0.5, 0.8)}, with_scales=True)
    result = Integrate(starts=1).choose(target, np.random.default_rng(0), ignore)
    mean, covariance = average(target, result)
    assert len(result.kernels) == 1 + 2 * 4 + 16
    np.testing.assert_allclose(mean, [0.5, 0.5, *MEAN], atol=1e-6)
    expected = np.zeros((4, 4))
    expected[:2, :2], expected[2:, 2:] = 0.8**2 * np.eye(2), np.linalg.inv(PRECISION)
    np.testing.assert_allclose(covariance, expected, atol=1e-6)
    np.testing.assert_allclose(result.stats["lp"].max(), result.record["hyper_trace"][1].max(), atol=1e-9)


def test_two_parameters_of_a_real_evidence_agree_with_a_fine_grid():
    toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=25, random_seed=3)
    priors = {"lengthscale": LogNormal(0.5, 1.0), "variance": LogNormal(1.0, 1.0)}
    target = Target(
        toy.X, 2.0 * toy.y - 1.0, bgp.Probit(), bgp.kernels.Gaussian(1.0, 2.0), METHODS["tap"], priors=priors
    )
    mean, covariance = average(target, Integrate().choose(target, np.random.default_rng(0), ignore))
    evaluate = Objective(target, EvidenceScore())
    axes = np.linspace(-3.5, 3.5, 22)
    grid = np.array([mean + np.sqrt(np.diag(covariance)) * [a, b] for a in axes for b in axes])
    density = np.array([evaluate.value(x) for x in grid])
    weights = np.exp(density - density.max())
    fine_mean, fine_covariance = moments(grid, weights / weights.sum())
    sd = np.sqrt(np.diag(fine_covariance))
    np.testing.assert_allclose(mean / sd, fine_mean / sd, atol=0.02)
    np.testing.assert_allclose(covariance / np.outer(sd, sd), fine_covariance / np.outer(sd, sd), atol=0.05)


def test_pima_as_good_as_the_published_average():
    with pytest.warns(bgp.ConvergenceWarning, match="not like a normal density"):  # one length scale is skewed
        result = Integrate(starts=1).choose(published_pima(), np.random.default_rng(0), ignore)
    assert len(result.kernels) == 81
    assert abs(pima_test_errors(result) - 68) <= 3  # 1996, table 1, by hybrid Monte Carlo


def test_a_parameter_without_prior_gets_one_around_its_own_value():
    default = Integrate(starts=1).choose(known_target(), np.random.default_rng(0), ignore)
    given = {name: LogNormal(0.0, 1.5) for name in FLAT}
    stated = Integrate(starts=1).choose(known_target(priors=given), np.random.default_rng(0), ignore)
    np.testing.assert_allclose(average(known_target(), default)[0], average(known_target(), stated)[0], atol=1e-9)
    assert {name: prior.sd for name, prior in default.priors.items()} == dict.fromkeys(FLAT, 1.5)
    assert [r.record["hyper_default_prior"][1].tolist() for r in (default, stated)] == [[True] * 2, [False] * 2]


class Skewed(Quadratic):
    """A log evidence that falls off steeply to one side of its first logarithm, and slowly to the other."""

    def __init__(self, steepness):
        self.steepness = steepness

    def solve(self, problem, control=bgp.Control(), start=None):
        solution = super().solve(problem, control, start)
        apart = self.log_variances(problem)[0] - MEAN[0]
        fall = (np.expm1(self.steepness * apart) / self.steepness - apart) / self.steepness
        object.__setattr__(solution, "evidence", type(solution.evidence)(solution.evidence.value - 3.0 * fall, "exact"))
        return solution

    def gram_gradient(self, problem, solution):
        log_bias = self.log_variances(problem)[0]
        added = -3.0 * np.expm1(self.steepness * (log_bias - MEAN[0])) / self.steepness / np.exp(log_bias)
        return super().gram_gradient(problem, solution) + 0.5 * np.array([[0.0, added], [added, 0.0]])


@pytest.mark.parametrize(("steepness", "is_far"), [(1e-3, False), (1.0, False), (20.0, True)])
def test_nodes_that_are_not_like_a_normal_density_are_told(steepness, is_far, recwarn):
    priors = FLAT | {"gaussian_lengthscale": LogNormal(0.5, 0.8)}
    target = known_target(solver=Skewed(steepness), priors=priors, with_scales=True)
    result = Integrate(starts=1).choose(target, np.random.default_rng(0), ignore)
    departure = float(result.record["hyper_departure"][1])
    assert (departure > 0.4) == is_far == any("not like a normal density" in str(w.message) for w in recwarn)
    assert (departure < 1e-3) == (steepness == 1e-3)


def test_nodes_without_a_solution_are_dropped_and_counted():
    class Moody(Quadratic):
        def solve(self, problem, control=bgp.Control(), start=None):
            if problem.gram[0, 1] > 3.0:
                raise bgp.ConvergenceError("a bad place", bgp.Status.STALLED)
            return super().solve(problem, control, start)

    with pytest.warns(bgp.ConvergenceWarning, match=r"at \d+ of 49 nodes the equations had no solution"):
        result = Integrate(starts=1).choose(known_target(solver=Moody()), np.random.default_rng(0), ignore)
    n_failed = int(result.record["hyper_n_nodes_failed"][1])
    assert n_failed > 0
    assert len(result.kernels) == 49 - n_failed
    np.testing.assert_allclose(result.weights.sum(), 1.0)


def test_nodes_outside_the_bounds_have_no_weight():
    bounds = {"bias_variance": (0.5, 2.0)}
    result = Integrate(starts=1).choose(known_target(bounds=bounds), np.random.default_rng(0), ignore)
    np.testing.assert_array_equal(result.record["hyper_node"][1][0], result.record["hyper_end"][1][0])  # the mode
    narrow = known_target(bounds={"bias_variance": (0.99, 1.01)})
    words = r"\d+% of the nodes, by weight, are outside the bounds. .* or give priors of white_variance, which have"
    with pytest.warns(bgp.ConvergenceWarning, match=words), pytest.warns(bgp.BoundWarning):
        Integrate(starts=1).choose(narrow, np.random.default_rng(0), ignore)
    assert int(result.record["hyper_n_nodes_outside"][1]) == 49 - len(result.kernels) > 0
    assert all(0.5 <= kernel.params["bias_variance"] <= 2.0 for kernel in result.kernels)


def test_a_direction_without_a_summit_is_told():
    class Silent(Quadratic):
        def solve(self, problem, control=bgp.Control(), start=None):
            solution = super().solve(problem, control, start)
            object.__setattr__(solution, "evidence", type(solution.evidence)(0.0, "exact"))
            return solution

        def gram_gradient(self, problem, solution):
            return np.zeros((2, 2))

    target = known_target(solver=Silent(), priors=FLAT | {"bias_variance": LogNormal(0.0, 1.0)})
    no_summit = "in 1 of 2 directions evidence times prior has no clear summit"
    with pytest.warns(bgp.ConvergenceWarning, match=no_summit), pytest.warns(match="not like a normal density"):
        result = Integrate(starts=1).choose(target, np.random.default_rng(0), ignore)
    mean, covariance = average(target, result)
    np.testing.assert_allclose(mean[0], 0.0, atol=1e-8)
    np.testing.assert_allclose(covariance[0], [1.0, 0.0], atol=1e-8)


def test_a_design_that_is_too_large_is_refused_before_anything_is_solved(set_memory):
    class Never(Quadratic):
        def solve(self, problem, control=bgp.Control(), start=None):
            raise AssertionError("solved")

    sonar = bgp.datasets.load_sonar()
    t = np.where(sonar.y == sonar.y[0], 1.0, -1.0)
    target = Target(sonar.X, t, bgp.Probit(), bgp.kernels.Gaussian(np.ones(60)), Never())
    with pytest.raises(ValueError, match=r"would place 8315 nodes for 61 parameters.* 2500 at most.* fixed, or share"):
        Integrate().choose(target, np.random.default_rng(0), ignore)
    with pytest.raises(ValueError, match=r"would place 2601 nodes for 2 parameters.* Take fewer points"):
        Integrate(points=51).choose(known_target(solver=Never()), np.random.default_rng(0), ignore)
    set_memory(4096)
    with pytest.raises(MemoryError, match="2 training cases at 49 settings"):
        Integrate().choose(known_target(solver=Never()), np.random.default_rng(0), ignore)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"starts": 0}, "starts must be a positive integer, got 0"),
        ({"points": 0}, "points must be a positive integer, got 0"),
        ({"reach": 1.0}, "reach must be a number > 1 that can be squared, got 1.0"),
        ({"reach": 1e300}, "reach must be a number > 1 that can be squared"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Integrate(**options)


@pytest.mark.parametrize("options", [{"corrected": False}, {"corrected": True}], ids=["as it is", "corrected"])
def test_draws_are_weighed_against_the_evidence_that_weighed_their_node(options):
    """Draws of the exact posterior at a node are off by what the evidence that weighed the node is off by."""
    X = np.random.default_rng(3).normal(size=(6, 2))
    priors = {"lengthscale": LogNormal(0.0, 0.3), "variance": LogNormal(2.0, 0.3)}
    kernel, strategy = bgp.kernels.Gaussian(1.0, 8.0), Integrate(points=3, method="tap", **options)
    how = {"method": "exact", "hyper": strategy, "priors": priors, "progress": False}
    idata = bgp.fit(X, X[:, 0] > 0, kernel, bgp.Probit(0.1), draws=60, chains=1, random_seed=1, **how)
    stats, parts = idata["sample_stats"], bgp.posterior(idata).parts
    off = []
    for part in parts:
        tap = bgp.solve(part.problem.gram, part.problem.t, bgp.Probit(0.1))
        correction = second_order(part.problem, tap).correction if strategy.corrected else 0.0
        off.append(part.log_evidence - tap.evidence.value - correction)
    found = (stats["log_p"] - stats["log_q"]).values
    np.testing.assert_allclose(found, np.array(off)[stats["node"].values], atol=1e-5)
    assert np.all(np.abs(found) < 0.005) == strategy.corrected


PLACES = np.linspace(-2.0, 2.0, 40)[:, None]
LABELS = np.sin(2.0 * PLACES[:, 0]) + 0.4 * np.cos(17.0 * np.arange(40.0))
OF_EACH_KIND = {
    "labels": (LABELS > 0, bgp.Probit()),
    "labels that may be flipped": (LABELS > 0, bgp.Probit(0.5, 0.05)),
    "outliers": (LABELS, bgp.StudentT(0.3, 4.0)),
    "classes": (np.digitize(LABELS, [-0.5, 0.5]), bgp.Softmax()),
}


@pytest.mark.parametrize("kind", OF_EACH_KIND)
def test_the_posterior_at_a_node_is_that_of_a_fit_there_a_step_from_what_was_found(kind):
    """Whether there may be several solutions or not: what was found took the same way from the prior."""
    y, likelihood = OF_EACH_KIND[kind]
    options = {"draws": 4, "chains": 1, "random_seed": 0, "progress": False}
    fixed = {"labels that may be flipped": ["flip"], "outliers": ["scale"]}.get(kind, [])
    priors = dict.fromkeys(["lengthscale", "variance"], LogNormal(0.2, 0.5))
    kernel, average = bgp.kernels.Matern32(1.0, 1.5), Integrate(points=3)
    idata = bgp.fit(PLACES, y, kernel, likelihood, hyper=average, fixed=fixed, priors=priors, **options)
    for part in bgp.posterior(idata).parts[::3]:
        alone = bgp.posterior(bgp.fit(PLACES, y, part.kernel, part.problem.likelihood, **options)).solution
        assert part.solution.info.n_iterations <= 2 < alone.info.n_iterations
        np.testing.assert_allclose(part.solution.alpha, alone.alpha, atol=1e-6)
        np.testing.assert_allclose(part.solution.evidence.value, alone.evidence.value, atol=1e-8)
