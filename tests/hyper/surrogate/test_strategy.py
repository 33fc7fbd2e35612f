"""Averages over draws from a surrogate: against quadrature of the same target, errors, records, what is refused."""

from __future__ import annotations

import re
import warnings
from dataclasses import dataclass, replace
from typing import ClassVar

import arviz as az
import numpy as np
import pytest
from scipy.stats import norm, truncnorm

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.hyper import EvidenceScore, Integrate, LogNormal, Objective, Surrogate, Target, get_strategy
from bayesgp_mf.hyper.hmc import Dynamics, Points
from bayesgp_mf.hyper.pareto import largest_k
from bayesgp_mf.hyper.surrogate.strategy import (
    FURTHER_TO_LEARN,
    FURTHER_TO_SAMPLE,
    WALKERS,
    draw,
    learn,
    power,
)
from bayesgp_mf.methods import METHODS
from tests.hyper.known import MEAN, PRECISION, Quadratic, StartsOfTap, ignore, known_target, published_pima

TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=8, random_seed=5)
LABELS = 2.0 * TOY.y - 1.0
PRIORS = {"lengthscale": LogNormal(0.0, 1.0), "variance": LogNormal(1.0, 1.0)}
KERNEL = bgp.kernels.Gaussian(1.0, 4.0)
BROAD = {"bias_variance": LogNormal(0.0, 3.0), "white_variance": LogNormal(0.0, 3.0)}
KNOWN_PRECISION = PRECISION + np.eye(2) / 9.0
KNOWN_COVARIANCE = np.linalg.inv(KNOWN_PRECISION)
KNOWN_MEAN = KNOWN_COVARIANCE @ PRECISION @ MEAN


def target_of(method="laplace", likelihood=bgp.Logit(), kernel=KERNEL, **options) -> Target:
    return Target(TOY.X, LABELS, likelihood, kernel, METHODS[method], **options)


def choose(target, seed=0, **options):
    return Surrogate(**{"nodes": 200, **options}).choose(target, np.random.default_rng(seed), ignore)


def nodes_of(target, result):
    return np.array([target.free_logarithms(model) for model in result.models])


def moments_and_errors(x, weights):
    """Return means and standard deviations ``(2, p)`` with weights that sum to one, and their Monte-Carlo errors."""
    mean = weights @ x
    apart = x - mean
    variance = weights @ apart**2
    error_of_variance = np.sqrt(weights**2 @ (apart**2 - variance) ** 2)
    errors = np.sqrt(weights**2 @ apart**2), error_of_variance / (2.0 * np.sqrt(variance))
    return np.array([mean, np.sqrt(variance)]), np.array(errors)


def by_quadrature(target, lower, upper, points):
    """Return means and standard deviations ``(2, p)`` of the target between limits, by a product of Gauss's rules."""
    rule, rule_weights = np.polynomial.legendre.leggauss(points)
    axes = [0.5 * (high - low) * rule + 0.5 * (low + high) for low, high in zip(lower, upper, strict=True)]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(axes))
    weights = (
        np.stack(np.meshgrid(*[rule_weights] * len(axes), indexing="ij"), axis=-1).reshape(grid.shape).prod(axis=1)
    )
    objective = Objective(target, EvidenceScore(1e-6), from_prior=True)
    values = np.array([objective.value(x) for x in grid])
    weights *= np.exp(values - values.max())
    return moments_and_errors(grid, weights / weights.sum())[0]


def agree(target, result, exact, width=4.0):
    found, errors = moments_and_errors(nodes_of(target, result), result.weights)
    return bool(np.all(np.abs(found - exact) < width * errors))


@pytest.mark.parametrize(
    ("method", "likelihood", "fixed"),
    [
        ("tap", bgp.Probit(), {"variance"}),
        ("tap", bgp.Logit(), set()),
        ("laplace", bgp.Probit(), set()),
        ("laplace", bgp.Logit(), {"variance"}),
    ],
)
def test_averages_are_those_of_evidence_times_prior(method, likelihood, fixed):
    priors = {name: prior for name, prior in PRIORS.items() if name not in fixed}
    target = target_of(method, likelihood, priors=priors, fixed=fixed)
    result = choose(target, nodes=128)
    about, errors = moments_and_errors(nodes_of(target, result), result.weights)
    exact = by_quadrature(target, about[0] - 4.5 * about[1], about[0] + 4.5 * about[1], points=15)
    assert agree(target, result, exact)
    assert np.all(errors < 0.15 * exact[1])
    assert not agree(target, result, exact + 0.7 * exact[1])  # the control
    assert float(result.record["hyper_ess"][1]) > 100


def test_a_normal_target_has_its_moments():
    target = known_target(priors=BROAD)
    result = choose(target, nodes=1000)
    x = nodes_of(target, result)
    assert agree(target, result, [KNOWN_MEAN, np.sqrt(np.diag(KNOWN_COVARIANCE))])
    # chi^2 with two degrees of freedom
    distance = np.einsum("ij,jk,ik->i", x - KNOWN_MEAN, KNOWN_PRECISION, x - KNOWN_MEAN)
    error = np.sqrt(4.0 / 1000)
    assert abs(result.weights @ distance - 2.0) < 4.0 * error
    assert distance.mean() - 2.0 > 4.0 * error  # the control: without weights, nodes are spread wider,
    # as the density to that power is
    raised = power(FURTHER_TO_SAMPLE, 2)
    assert abs(distance.mean() - 2.0 / raised) < 4.0 * error / raised
    product = (x - KNOWN_MEAN)[:, 0] * (x - KNOWN_MEAN)[:, 1]
    assert abs(result.weights @ product - KNOWN_COVARIANCE[0, 1]) < 4.0 * product.std() / np.sqrt(1000)
    designed = Integrate(starts=1).choose(target, np.random.default_rng(0), ignore)  # exact here
    by_design, _ = moments_and_errors(nodes_of(target, designed), designed.weights)
    assert agree(target, result, by_design)


def test_weights_mend_a_surrogate_that_has_learned_next_to_nothing():
    target = known_target(priors=BROAD)
    with pytest.warns(bgp.ConvergenceWarning, match="effective nodes"):
        result = choose(target, nodes=600, training=1)
    exact = np.array([KNOWN_MEAN, np.sqrt(np.diag(KNOWN_COVARIANCE))])
    assert result.record["hyper_training"][1].shape == (1, 2)
    assert float(result.record["hyper_ess"][1]) < 300
    assert agree(target, result, exact)
    alike, errors = moments_and_errors(nodes_of(target, result), np.full(600, 1.0 / 600))
    assert np.max(np.abs(alike - exact) / errors) > 10.0  # the control


def test_the_errors_of_the_averages_are_as_large_as_the_weights_say():
    """Of ten averages, each with the error that its own weights give it."""
    target = target_of(priors=PRIORS)
    exact, squares = by_quadrature(target, [-4.0, -3.5], [4.0, 5.5], points=18), []
    for seed in range(10):
        result = choose(target, seed, nodes=120, training=30)
        found, errors = moments_and_errors(nodes_of(target, result), result.weights)
        squares.append(((found - exact) / errors) ** 2)
    assert 0.5 < np.mean(squares, axis=0)[0].mean() < 2.0  # of the means
    assert 0.4 < np.mean(squares, axis=0)[1].mean() < 2.5  # and of the standard deviations


def test_between_bounds_without_a_prior_it_is_uniform_in_the_logarithm():
    bounds = {"lengthscale": (0.2, 3.0), "variance": (2.0, 9.0)}
    target = target_of(bounds=bounds)
    result = choose(target, nodes=400)
    assert agree(target, result, by_quadrature(target, target.lower, target.upper, points=16))
    elsewhere = target_of(priors={"lengthscale": LogNormal(-0.7, 0.3), "variance": LogNormal(2.0, 0.3)}, bounds=bounds)
    exact_elsewhere = by_quadrature(elsewhere, target.lower, target.upper, points=16)
    assert not agree(target, result, exact_elsewhere)  # the control: it is 20 errors away
    x = nodes_of(target, result)
    assert np.all((x >= target.lower) & (x <= target.upper))
    assert not result.record["hyper_default_prior"][1].any()
    np.testing.assert_allclose(result.stats["lp"], lp_of(target_of(bounds=bounds), x), atol=2e-3)  # no prior in it


def lp_of(target, x):
    objective = Objective(target, EvidenceScore(), from_prior=True)
    return np.array([objective.value(one) for one in x])


def test_what_has_neither_bounds_nor_prior_gets_a_prior_around_its_start():
    kernel = bgp.kernels.Gaussian([0.5, 3.0], 4.0)
    target = target_of(kernel=kernel, bounds={"variance": (0.1, 100.0)})
    result = choose(target, nodes=150)
    np.testing.assert_array_equal(result.record["hyper_default_prior"][1], [True, True, False])
    x = nodes_of(target, result)
    added = norm(np.log([0.5, 3.0]), 1.5).logpdf(x[:, :2]).sum(axis=1)
    np.testing.assert_allclose(result.stats["lp"], lp_of(target, x) + added, atol=2e-3)
    single = target_of(fixed={"lengthscale"}, priors={"variance": LogNormal(np.log(4.0), 1.5)})
    own, default = choose(single, nodes=60), choose(target_of(fixed={"lengthscale"}), nodes=60)
    np.testing.assert_array_equal(own.stats["lp"], default.stats["lp"])  # as `hyper="nuts"` has it
    assert (own.record["hyper_default_prior"][1], default.record["hyper_default_prior"][1]) == ([False], [True])


def test_the_seed_decides():
    first, again, other = (choose(known_target(priors=BROAD), seed, nodes=100) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first.stats["lp"], again.stats["lp"])
    np.testing.assert_array_equal(first.weights, again.weights)
    assert np.all(first.stats["lp"] != other.stats["lp"])


class Watched(Quadratic):
    """A solver that keeps which log parameters it was asked for."""

    def __init__(self):
        self.logs = []

    def solve(self, problem, control=bgp.Control(), start=None):
        self.logs.append(self.log_variances(problem))
        return super().solve(problem, control, start)


def test_the_record_says_how_it_went():
    solver, notes = Watched(), []
    target = known_target(solver=solver, priors={"bias_variance": LogNormal(0.0, 1.0)})
    result = Surrogate(nodes=70, training=30).choose(target, np.random.default_rng(0), notes.append)
    record, asked = result.record, np.array(solver.logs)
    dims = {name: dims for name, (dims, _) in record.items()}
    assert dims == {
        "hyper_start": ("hyper",),
        "hyper_default_prior": ("hyper",),
        "hyper_training": ("training", "hyper"),
        "hyper_training_lp": ("training",),
        "hyper_surrogate_error": ("batch",),
        "hyper_node": ("node", "hyper"),
        "hyper_node_weight": ("node",),
        **dict.fromkeys(
            ("hyper_pareto_k", "hyper_ess", "hyper_n_evaluations", "hyper_n_failures", "hyper_n_nodes_failed"), ()
        ),
    }
    values = {name: values for name, (_, values) in record.items()}
    np.testing.assert_array_equal(values["hyper_start"], target.start)
    np.testing.assert_array_equal(values["hyper_default_prior"], [False, True])
    learned, errors = values["hyper_training"], values["hyper_surrogate_error"]
    assert learned.shape[0] <= 30
    full = np.array([Objective(target, EvidenceScore()).value(x) for x in learned])
    default = norm(target.start[1], 1.5).logpdf(learned[:, 1])
    np.testing.assert_allclose(values["hyper_training_lp"], full + default, atol=1e-9)
    # a batch has at least eight points, but for the last one
    assert 1 <= errors.size <= 1 + learned.shape[0] // 8
    np.testing.assert_allclose(values["hyper_node"], nodes_of(target, result), atol=1e-12)
    np.testing.assert_allclose(values["hyper_node"], asked[-70:], atol=1e-9)
    np.testing.assert_array_equal(values["hyper_node_weight"], result.weights)
    assert result.weights.shape == result.stats["lp"].shape == (70,)
    assert result.weights.sum() == pytest.approx(1.0, abs=1e-12)
    assert result.sampled
    assert result.chains is None
    assert values["hyper_ess"] == pytest.approx(1.0 / np.sum(result.weights**2))
    assert values["hyper_pareto_k"] < largest_k(70)
    assert values["hyper_n_evaluations"] == len(asked)
    assert values["hyper_n_failures"] == values["hyper_n_nodes_failed"] == 0
    assert notes[-1] == "node 70 of 70"
    assert any("surrogate of" in note and "off by" in note for note in notes)


def test_errors_of_the_surrogate_are_those_at_points_that_were_still_to_be_learned():
    target = known_target(priors=BROAD)
    learned = learn(target, 40, np.random.default_rng(0), ignore)
    high = learned.value > learned.value.max() - 6.0
    assert high.sum() > 10
    np.testing.assert_allclose(
        learned.dynamics.log_densities(learned.x[high])[0] / power(FURTHER_TO_SAMPLE, 2), learned.value[high], atol=0.2
    )
    assert learned.errors[0] > 1.0  # after the search
    assert learned.errors[-1] < 0.1 * learned.errors[0]
    spread = learned.walkers.std(axis=0) / np.sqrt(np.diag(KNOWN_COVARIANCE))
    assert np.all(np.abs(spread * power(FURTHER_TO_LEARN, 2) ** 0.5 - 1.0) < 0.3)  # 64 draws of that density
    assert np.all(spread > 1.1)


@pytest.mark.parametrize("flip", [0.0, 0.2])
def test_nodes_are_solved_from_the_prior(flip):
    solver = StartsOfTap()
    target = Target(TOY.X, LABELS, bgp.Probit(0.1, flip), KERNEL, solver, priors=PRIORS)
    choose(target, nodes=40, training=12)
    assert all(start is None for start in solver.starts[-40:])
    assert any(start is not None for start in solver.starts)  # those of the search are not


@pytest.mark.parametrize("likelihood", [bgp.Step(), bgp.Probit(0.5, 0.1)], ids=["step", "flip"])
def test_steps_and_flips_have_averages_too(likelihood):
    target = target_of("tap", likelihood, priors=PRIORS, fixed={"flip"})
    result = choose(target, nodes=40, training=20)
    found, errors = moments_and_errors(nodes_of(target, result), result.weights)
    designed = Integrate(starts=1).choose(target, np.random.default_rng(0), ignore)
    expected, _ = moments_and_errors(nodes_of(target, designed), designed.weights)
    assert np.all(np.abs(found - expected) < 4.0 * errors)


LARGEST_LOG_BIAS = 0.4


class Unsolvable(Quadratic):
    """A solver without a solution where the bias is large; it counts."""

    def __init__(self):
        self.calls = self.failures = 0

    def solve(self, problem, control=bgp.Control(), start=None):
        self.calls += 1
        if self.log_variances(problem)[0] > LARGEST_LOG_BIAS:
            self.failures += 1
            raise bgp.ConvergenceError("there is none", bgp.Status.NO_VALID_STEP)
        return super().solve(problem, control, start)


def test_nodes_without_a_solution_are_dropped_counted_and_warned_of():
    solver = Unsolvable()
    target = known_target(solver=solver, priors=BROAD)
    with pytest.warns(bgp.ConvergenceWarning, match=r"at \d+ of 400 nodes the equations had no solution"):
        result = choose(target, nodes=400)
    dropped = int(result.record["hyper_n_nodes_failed"][1])
    assert 0 < dropped == 400 - len(result.kernels)
    assert result.record["hyper_node"][1].shape == (400 - dropped, 2)
    assert int(result.record["hyper_n_failures"][1]) == solver.failures >= dropped
    assert int(result.record["hyper_n_evaluations"][1]) == solver.calls
    assert np.all(np.isfinite(result.stats["lp"]))
    assert result.weights.sum() == pytest.approx(1.0)
    # what is left is the target cut off there
    (low, other), sd = KNOWN_MEAN, np.sqrt(KNOWN_COVARIANCE[0, 0])
    cut = truncnorm(-np.inf, (LARGEST_LOG_BIAS - low) / sd, loc=low, scale=sd)
    mean = np.array([cut.mean(), other + KNOWN_COVARIANCE[0, 1] / sd**2 * (cut.mean() - low)])
    found, errors = moments_and_errors(nodes_of(target, result), result.weights)
    assert np.all(np.abs(found[0] - mean) < 4.0 * errors[0])
    assert np.any(np.abs(found[0] - KNOWN_MEAN) > 4.0 * errors[0])  # the control


class Sometimes(Quadratic):
    """A solver that after so many calls solves one of every so many only, or none."""

    def __init__(self, after, every=0):
        self.after, self.every, self.calls, self.solved = after, every, 0, 0

    def solve(self, problem, control=bgp.Control(), start=None):
        self.calls += 1
        if self.calls > self.after and not (self.every and self.calls % self.every == 0):
            raise bgp.ConvergenceError("not any more", bgp.Status.STALLED)
        self.solved += 1
        return super().solve(problem, control, start)


def calls_of_the_search():
    return learn(known_target(priors=BROAD), 1, np.random.default_rng(0), ignore).n_evaluations


def test_where_nothing_is_solved_any_more_it_is_an_error():
    search = calls_of_the_search()
    for after, options, where in (
        (0, {}, "the starting point"),
        (search, {}, "any of 8 points around the most probable value"),
        (search, {"training": 1}, "any of 30 draws from the surrogate"),
    ):
        target = known_target(solver=Sometimes(after), priors=BROAD)
        with pytest.raises(bgp.ConvergenceError, match=f"no solution at {where} .* The last reason: not any more"):
            choose(target, nodes=30, **options)


def test_a_batch_of_which_one_point_was_solved_does_not_end_the_learning():
    solver = Sometimes(calls_of_the_search(), every=8)
    learned = learn(known_target(solver=solver, priors=BROAD), 40, np.random.default_rng(0), ignore)
    assert learned.errors[0] == 0.0  # one point has no spread
    assert learned.errors.size > 1
    assert learned.n_evaluations == solver.calls
    assert learned.n_failures == solver.calls - solver.solved > 20


def test_the_last_few_points_may_all_fail():
    search = calls_of_the_search()
    for training in (search + 1, search + 7):
        solver = Sometimes(search)
        learned = learn(known_target(solver=solver, priors=BROAD), training, np.random.default_rng(0), ignore)
        assert learned.value.size == search
        assert learned.n_failures == training - search == solver.calls - search
        assert learned.errors.size == 0


def test_an_interruption_is_not_swallowed():
    class Interrupted(Quadratic):
        def solve(self, problem, control=bgp.Control(), start=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        choose(known_target(solver=Interrupted()))


def test_a_surrogate_that_is_too_rough_is_warned_of():
    message = r"weights of 60 nodes may not average out: Pareto k-hat \d\.\d\d, \d+ effective nodes.* hyper='nuts'"
    with pytest.warns(bgp.ConvergenceWarning, match=message):
        result = choose(published_pima(), nodes=60, training=1)
    assert float(result.record["hyper_pareto_k"][1]) > largest_k(60)


class Rough(Quadratic):
    """A solver whose log evidence is off, after so many calls, by what makes a Pareto tail of weights, with k = 1/2."""

    def __init__(self, after):
        self.left = after

    def solve(self, problem, control=bgp.Control(), start=None):
        solution, self.left = super().solve(problem, control, start), self.left - 1
        if self.left >= 0:
            return solution
        rng = np.random.default_rng(self.log_variances(problem).view(np.uint64))
        value = solution.evidence.value + 0.5 * rng.standard_exponential()
        return replace(solution, evidence=replace(solution.evidence, value=value))


def test_the_warning_says_what_to_do():
    remedies = {
        "fine": None,
        "few": r"So few nodes bear a k-hat of 0\.44 only\. Take more, Surrogate\(nodes=",
        "rough": r"The surrogate is too rough\. Let it learn from more points, .* or use hyper='nuts'",
    }
    seen = set()
    for seed in range(20):  # three are enough, as a rule
        learned = learn(known_target(priors=BROAD), 20, np.random.default_rng(seed), ignore)
        target = known_target(solver=Rough(learned.n_evaluations), priors=BROAD)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            result = choose(target, seed, nodes=60, training=20)
        k_hat, ess = (float(result.record[name][1]) for name in ("hyper_pareto_k", "hyper_ess"))
        kind = "rough" if k_hat > 0.7 or ess < 12.0 else "few" if k_hat > largest_k(60) else "fine"
        said = [str(warning.message) for warning in caught]
        assert len(said) == (kind != "fine")
        for sentence in said:
            expected = (
                rf"the weights of 60 nodes may .* k-hat {k_hat:.2f}, {ess:.0f} effective nodes\. {remedies[kind]}"
            )
            assert re.match(expected, sentence)
        seen.add((kind, ess < 12.0))
        if {("fine", False), ("few", False), ("rough", False)} <= seen:
            return
    raise AssertionError(f"only {seen}")


def test_fewer_nodes_than_weights_need_are_rough():
    with (
        pytest.warns(bgp.ConvergenceWarning, match=r"k-hat inf, .* The surrogate is too rough"),
        pytest.warns(bgp.ConvergenceWarning, match="of 30 nodes the equations had no solution"),
    ):
        choose(known_target(solver=Unsolvable(), priors=BROAD), nodes=30)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nodes": 0}, "nodes must be a positive integer, got 0"),
        ({"nodes": 2.5}, "nodes must be a positive integer, got 2.5"),
        ({"nodes": 29}, "nodes must be at least 30, .* got 29"),
        ({"training": 0}, "training must be a positive integer, got 0"),
        ({"training": True}, "training must be a positive integer, got True"),
    ],
)
def test_bad_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Surrogate(**options)
    assert Surrogate(nodes=30, training=1) == Surrogate(30, 1)


def test_what_cannot_be_done_is_refused_before_anything_is_solved(set_memory):
    target = known_target(solver=Sometimes(0))
    with pytest.raises(ValueError, match=r"training = 4001 points.* 2 derivatives.* 12003 numbers.* training <= 4000"):
        choose(target, training=4001)
    with pytest.raises(bgp.UndefinedQuantityError, match="method 'svm' has no evidence"):
        choose(target_of("svm", bgp.Step()))
    with pytest.raises(bgp.UndefinedQuantityError, match=r"'laplace' needs a likelihood .* Use method='tap', or noise"):
        choose(target_of("laplace", bgp.Step()))
    with pytest.raises(ValueError, match=r"got the class Surrogate: write it with \(\)"):
        get_strategy(Surrogate)
    set_memory(4096)
    with pytest.raises(MemoryError, match="2 training cases at 200 settings"):
        choose(target)


@pytest.mark.parametrize(
    ("with_scales", "options", "rows", "training"),
    [
        (False, {}, 4000, 60),
        (True, {}, 4000, 100),  # 25 for each of four parameters
        (True, {}, 240, 48),  # at most so many values and derivatives
        (True, {"training": 70}, 240, 70),
    ],
)
def test_by_default_it_learns_from_more_points_the_more_parameters(with_scales, options, rows, training, monkeypatch):
    monkeypatch.setattr("bayesgp_mf.hyper.surrogate.strategy.USUAL_ROWS", rows)
    result = choose(known_target(with_scales=with_scales, **({} if with_scales else {"priors": BROAD})), **options)
    assert len(result.record["hyper_training_lp"][1]) == training


def fitted(**options):
    options = {"hyper": Surrogate(nodes=60), "priors": PRIORS, "draws": 150, "chains": 2, **options}
    return bgp.fit(TOY.X, TOY.y, KERNEL, bgp.Logit(), method="laplace", random_seed=1, progress=False, **options)


def test_a_fit_predicts_is_scored_and_saved(tmp_path):
    idata = fitted()
    fit, drawn = get_group(idata, "fit"), get_group(idata, "posterior")
    assert fit.attrs["hyper"] == "surrogate"
    assert drawn["f"].shape == (2, 150, 8)
    posterior, weights = bgp.posterior(idata), fit["node_weight"].values
    np.testing.assert_allclose(weights.sum(), 1.0)
    node = get_group(idata, "sample_stats")["node"].values
    share = np.bincount(node.ravel(), minlength=60) / 300
    assert np.all(np.abs(share - weights) < 5.0 * np.sqrt(weights / 300) + 1e-9)
    scales = np.array([float(part.kernel.params["lengthscale"]) for part in posterior.parts])
    np.testing.assert_allclose(drawn["lengthscale"].values, scales[node])
    np.testing.assert_allclose(scales, np.exp(fit["hyper_node"].values[:, 0]))
    expected = sum(w * part.predict_proba(TOY.X_test) for w, part in zip(weights, posterior.parts, strict=True))
    p = bgp.predict(idata, TOY.X_test, random_seed=2)["predictions"]["p"].values
    np.testing.assert_allclose(p, expected, rtol=1e-6)
    assert np.isfinite(float(bgp.loo(idata)["se"]))
    idata.to_netcdf(str(tmp_path / "a.nc"))
    again = az.from_netcdf(str(tmp_path / "a.nc"))
    np.testing.assert_array_equal(bgp.posterior(again).predict_proba(TOY.X_test), posterior.predict_proba(TOY.X_test))
    for name in ("hyper_training", "hyper_surrogate_error", "hyper_pareto_k"):
        np.testing.assert_array_equal(get_group(again, "fit")[name].values, fit[name].values)


def test_a_fit_without_a_batch_is_saved_as_well(tmp_path):
    easy = {name: LogNormal(float(np.log(value)), 1.0) for name, value in (("lengthscale", 1.0), ("variance", 4.0))}
    idata = fitted(hyper=Surrogate(nodes=100, training=1), priors=easy)
    assert get_group(idata, "fit")["hyper_surrogate_error"].shape == (0,)
    idata.to_netcdf(str(tmp_path / "a.nc"))
    assert bgp.posterior(az.from_netcdf(str(tmp_path / "a.nc"))).parts[0].kernel == bgp.posterior(idata).parts[0].kernel


def test_one_method_judges_and_another_predicts():
    own, other = fitted(), fitted(hyper=Surrogate(nodes=60, method="tap"))
    hybrid = get_group(other, "fit")
    assert (hybrid.attrs["method"], hybrid.attrs["hyper_judged_by"]) == ("laplace", "tap")
    node_evidence = target_of("tap", priors=PRIORS)
    np.testing.assert_allclose(
        get_group(other, "sample_stats")["lp"].values[0, :3],
        lp_of(node_evidence, hybrid["hyper_node"].values[get_group(other, "sample_stats")["node"].values[0, :3]]),
        atol=2e-3,
    )
    assert np.max(np.abs(hybrid["hyper_node"].values - get_group(own, "fit")["hyper_node"].values)) > 0.1


def test_its_dimensions_are_no_names_of_parameters():
    @dataclass(frozen=True, repr=False, eq=False)
    class Offset(bgp.kernels.Bias):
        parameter_names: ClassVar[tuple[str, ...]] = ("batch",)
        batch: float = 1.0

    with pytest.raises(ValueError, match="called 'batch', which is taken in the container"):
        bgp.fit(TOY.X, TOY.y, Offset(), hyper="surrogate")


class Reluctant(Dynamics):
    """Dynamics in which every third walker stays where it is."""

    def move(self, here, steps, rng):
        moved = super().move(here, steps, rng)
        stays = np.arange(len(here.x)) % 3 == 0
        parts = zip(here, moved.points, strict=True)
        points = Points(*(np.where(stays[:, None] if a.ndim == 2 else stays, a, b) for a, b in parts))
        return moved._replace(points=points)


def test_a_walker_that_stayed_is_one_node_of_several_draws():
    target = known_target(priors=BROAD)
    learned = learn(target, 30, np.random.default_rng(0), ignore)
    known = learned.dynamics
    dynamics = Reluctant(known.log_densities, known.step_size, known.lower, known.upper)
    nodes, log_density, times = draw(replace(learned, dynamics=dynamics), 5 * WALKERS, np.random.default_rng(1))
    stay = (WALKERS + 2) // 3
    assert (nodes.shape[0], times.sum()) == (5 * WALKERS - 4 * stay, 5 * WALKERS)
    assert sorted(set(times.tolist())) == [1, 5]
    np.testing.assert_allclose(log_density, known.log_densities(nodes)[0])


def test_weights_count_how_often_a_node_was_drawn(monkeypatch):
    # after a single trajectory some walkers are where they were
    monkeypatch.setattr("bayesgp_mf.hyper.surrogate.strategy.TRAJECTORIES", 1)
    target, rng = known_target(priors=BROAD), np.random.default_rng(0)
    learned = learn(target, 30, rng, ignore)
    nodes, log_density, times = draw(learned, 5 * WALKERS, rng)
    assert set(times.tolist()) > {1, 2}
    result = choose(target, nodes=5 * WALKERS, training=30)
    np.testing.assert_array_equal(result.record["hyper_node"][1], nodes)
    log_ratios = result.stats["lp"] - log_density
    counted = np.log(result.weights) - log_ratios - np.log(times)
    low = np.argsort(log_ratios)[: len(nodes) // 2]  # the tail is smoothed
    np.testing.assert_allclose(np.ptp(counted[low]), 0.0, atol=1e-9)
    assert float(result.record["hyper_ess"][1]) == pytest.approx(1.0 / np.sum(result.weights**2))  # a node counts once
