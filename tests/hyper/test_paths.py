"""A search sees a function: its value at a point does not depend on the way there, and the best point is never lost."""

from __future__ import annotations

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import (
    HYPER,
    EvidenceScore,
    HyperResult,
    LogNormal,
    LooScore,
    Objective,
    Scan,
    Surrogate,
    Target,
)
from bayesgp_mf.hyper.optimise import descend, maximise
from bayesgp_mf.hyper.scores import KNOWN_IN_SEARCH
from bayesgp_mf.likelihoods.softmax_tilted import tilted
from bayesgp_mf.likelihoods.star import star_weights
from bayesgp_mf.methods import METHODS
from bayesgp_mf.multiclass.star_tap import StarTap
from bayesgp_mf.tuning import tune
from tests.hyper.known import Quadratic, ignore, known_target

TOY = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=15, random_seed=1)
LABELS = 2.0 * TOY.y - 1.0
THREE = bgp.Softmax(("a", "b", "c"))
QUICK = StarTap(points=3)
"""TAP for several classes, with integrals that are rough, but smooth."""


def separable(n=9, d=3, seed=0):
    """Return inputs, and codes of three classes that lie far apart."""
    rng = np.random.default_rng(seed)
    codes = np.arange(n) % 3
    X = 3.0 * rng.standard_normal((3, d))[codes] + 0.5 * rng.standard_normal((n, d))
    return (X - X.mean(axis=0)) / X.std(axis=0), codes.astype(float)


def binary(method, likelihood):
    return Target(TOY.X, LABELS, likelihood, bgp.kernels.Gaussian(1.0, 2.0), METHODS[method])


def three_classes(method):
    return Target(*separable(), THREE, bgp.kernels.Gaussian(3.0, 4.0), method)


@pytest.mark.parametrize(
    ("target", "score"),
    [
        (binary("tap", bgp.Probit()), EvidenceScore(KNOWN_IN_SEARCH)),
        (binary("tap", bgp.Logit()), EvidenceScore(KNOWN_IN_SEARCH)),
        (binary("tap", bgp.Probit()), LooScore()),
        (binary("naive", bgp.Step()), EvidenceScore(KNOWN_IN_SEARCH)),
        (binary("laplace", bgp.Probit()), LooScore()),
        (binary("variational", bgp.Step(flip=0.05)), EvidenceScore(KNOWN_IN_SEARCH)),
        (three_classes(QUICK), EvidenceScore(KNOWN_IN_SEARCH)),
    ],
    ids=lambda each: f"{each.solver.name}-{each.likelihood!r}"[:40] if isinstance(each, Target) else each.noun,
)
def test_ten_paths_lead_to_one_value(target, score):
    rng, at = np.random.default_rng(0), target.start + np.array([0.5, 1.0, -0.3])[: target.start.size]
    values = []
    for path in range(10):
        objective = Objective(target, score)
        for _ in range(path % 3):
            objective.value(at + (0.1, 0.5, 1.5)[path % 3] * rng.standard_normal(at.size))
        values.append(objective.value(at))
    assert None not in values
    assert max(values) - min(values) < 1e-6


def test_a_label_that_is_certain_still_makes_a_site():
    mean, covariance = np.array([[80.0, 40.0]]), 10.0 * np.eye(2)[None]
    likely = [tilted(np.array([t]), mean, covariance).log_partition[0] for t in (0.0, 1.0, 2.0)]
    found = tilted(np.array([float(np.argmax(likely))]), mean, covariance)
    assert max(likely) > -1e-12
    assert np.all(np.linalg.eigvalsh(found.precision) > 0)
    assert np.all(
        np.isfinite(star_weights(np.array([np.append(np.diag(found.precision[0]), found.precision[0, 0, 0])])))
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_classes_that_separate_are_told_so(seed):
    X, codes = separable(seed=seed)
    kernel, bounds = bgp.kernels.Gaussian(3.0, 4.0), {"variance": (0.4, 40.0)}
    with pytest.warns(bgp.BoundWarning, match=r"variance = 40 \(upper\).* The classes separate: .*hyper='surrogate'"):
        idata = bgp.fit(
            X, np.array(["a", "b", "c"])[codes.astype(int)], kernel, bgp.Softmax(), method=QUICK,
            hyper=bgp.hyper.Evidence(starts=1), bounds=bounds, fixed={"lengthscale"}, draws=5, random_seed=1,
            progress=False,
        )  # fmt: skip
    np.testing.assert_allclose(idata["fit"]["hyper_log_evidence"], idata["fit"]["log_evidence"], atol=1e-6)


def test_a_bound_that_has_nothing_to_do_with_the_labels_is_told_as_ever():
    with pytest.warns(bgp.BoundWarning, match="the data do not limit it; give it a prior") as said:
        maximise(
            Objective(known_target(bounds={"bias_variance": (0.5, 1.2)}), EvidenceScore()),
            starts=1,
            rng=np.random.default_rng(0),
            advance=ignore,
        )
    assert "separate" not in str(said[0].message)


class Forgetful(Quadratic):
    """Solves nothing any more after some solutions."""

    name = "forgetful"

    def __init__(self, solutions):
        self.left = solutions

    def solve(self, problem, control=bgp.Control(), start=None):
        self.left -= 1
        if self.left < 0:
            raise bgp.NotPositiveDefiniteError("rounding decides")
        return super().solve(problem, control, start)


@pytest.mark.parametrize("solutions", range(1, 5))
def test_the_best_point_is_kept_whatever_fails_after_it(solutions):
    seen = []

    class Seen(Objective):
        def __call__(self, log_free):
            answer = super().__call__(log_free)
            if answer is not None:
                seen.append(answer[0])
            return answer

    objective = Seen(known_target(solver=Forgetful(solutions)), EvidenceScore())
    with pytest.warns(bgp.ConvergenceWarning) as said:
        best, runs = maximise(objective, starts=3, rng=np.random.default_rng(0), advance=ignore)
    assert best.value == max(seen)
    assert objective.value(best.end) is None  # and nothing is solved any more
    assert len(runs) == 3
    text = " ".join(str(each.message) for each in said)
    assert "at 2 of 3 starts of the search the equations had no solution" in text
    assert "The last reason: rounding decides" in text


def test_other_starts_go_on():
    class Moody(Quadratic):
        def solve(self, problem, control=bgp.Control(), start=None):
            if np.all(np.abs(self.log_variances(problem)) < 0.1):  # as at the first start
                raise bgp.ConvergenceError("a bad day", bgp.Status.STALLED)
            return super().solve(problem, control, start)

    target = known_target(solver=Moody())
    with pytest.warns(bgp.ConvergenceWarning, match="at 1 of 3 starts of the search the equations had no solution"):
        best, _ = maximise(Objective(target, EvidenceScore()), starts=3, rng=np.random.default_rng(1), advance=ignore)
    assert best.value > -1e-6


def test_a_failed_warm_start_is_followed_by_a_cold_one():
    class NeverWarm(Quadratic):
        def solve(self, problem, control=bgp.Control(), start=None):
            if start is not None:
                raise bgp.ConvergenceError("not from there", bgp.Status.STALLED)
            return super().solve(problem, control, start)

    objective = Objective(known_target(solver=NeverWarm()), EvidenceScore())
    assert descend(objective, objective.target.start, ignore).value > -1e-6
    assert objective.n_failures == 0


def test_what_a_search_found_is_solved_by_the_way_it_came():
    target, calls = binary("tap", bgp.Probit()), []
    tap = target.solver

    class NotFromFar:
        name = "tap"
        gram_gradient, leave_one_out = tap.gram_gradient, tap.leave_one_out

        def solve(self, problem, control=bgp.Control(), start=None):
            calls.append(start)
            if start is None and problem.gram[0, 0] > 2.5:
                raise bgp.ConvergenceError("too far from the prior", bgp.Status.STALLED)
            return tap.solve(problem, control, start)

    class Further(bgp.hyper.Strategy):
        name = "further"

        def choose(self, target, rng, advance):
            return HyperResult((target.model_at(target.start + 1.0),), np.ones(1))

    control, rng = bgp.Control(), np.random.default_rng(0)
    found = tune(target, Further(), NotFromFar(), control=control, draws=1, chains=1, rng=rng, progress=False)
    expected = tap.solve(target.problem_at(target.model_at(target.start + 1.0)))
    np.testing.assert_allclose(found.posterior.solution.evidence.value, expected.evidence.value, atol=1e-9)
    assert calls[0] is calls[1] is None
    assert None not in calls[2:]


class NotANumber:
    """A prior with a mistake in it."""

    def __init__(self, value=np.nan, slope=0.0, above=-np.inf):
        self.value, self.slope, self.above = value, slope, above

    def log_density(self, log_value):
        inside = log_value > self.above
        return np.where(inside, self.value, 0.0), np.where(inside, self.slope, 0.0)


@pytest.mark.parametrize("strategy", [*HYPER.values(), Surrogate(nodes=30)], ids=lambda strategy: strategy.name)
@pytest.mark.parametrize(
    "prior", [NotANumber(), NotANumber(np.inf), NotANumber(0.0, np.nan)], ids=["nan", "inf", "slope"]
)
def test_a_prior_without_a_density_is_refused_by_every_strategy(strategy, prior):
    target = Target(
        TOY.X, LABELS, bgp.Probit(), bgp.kernels.Gaussian(1.0, 2.0), METHODS["tap"], priors={"variance": prior}
    )
    with pytest.raises(ValueError, match=r"priors\['variance'\] must have a finite log density .* variance = 2 the"):
        strategy.choose(target, np.random.default_rng(0), ignore)


def test_a_prior_that_is_nan_at_some_points_of_a_grid_is_refused():
    priors = {"lengthscale": NotANumber(above=0.5)}
    target = Target(TOY.X, LABELS, bgp.Probit(), bgp.kernels.Gaussian(1.0, 2.0), METHODS["tap"], priors=priors)
    with pytest.raises(ValueError, match=r"priors\['lengthscale'\]"):
        Scan({"lengthscale": [0.5, 1.0, 2.0]}).choose(target, np.random.default_rng(0), ignore)


def test_a_prior_that_excludes_the_start_is_no_failure_of_the_solver():
    target = known_target(priors={"bias_variance": NotANumber(-np.inf)})
    with pytest.raises(bgp.ConvergenceError, match="The last reason: the priors exclude these hyperparameters"):
        HYPER["evidence"].choose(target, np.random.default_rng(0), ignore)


class Counting(Quadratic):
    """Counts its solutions."""

    def __init__(self):
        self.solutions = 0

    def solve(self, problem, control=bgp.Control(), start=None):
        self.solutions += 1
        return super().solve(problem, control, start)


@pytest.mark.parametrize("name", ["evidence", "integrate"])
def test_strategies_say_how_many_solutions_they_take(name):
    priors = {"bias_variance": LogNormal(0.0, 1.0), "white_variance": LogNormal(0.0, 1.0)}
    target = known_target(solver=Counting(), priors=priors)
    HYPER[name].choose(target, np.random.default_rng(0), ignore)
    assert 0.3 < target.solver.solutions / HYPER[name].solutions(target) < 3.0
