"""How long a choice of hyperparameters takes is said while there is time, once, and by processor time."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Evidence, HybridMonteCarlo
from bayesgp_mf.methods import METHODS

RNG = np.random.default_rng(3)
EVERY = RNG.standard_normal((60, 2))
KERNEL = bgp.kernels.Matern32(1.0) + bgp.kernels.White(0.1)
QUIET = {"draws": 2, "chains": 1, "random_seed": 0, "progress": False}


@pytest.fixture
def impatient(monkeypatch):
    """Return a function that sets what counts as long; nothing was said before."""

    def lower(**named):
        monkeypatch.setattr("bayesgp_mf.hyper.forecast.SAID", {})
        for name, value in named.items():
            monkeypatch.setattr(f"bayesgp_mf.hyper.forecast.{name}", value)

    return lower


def said_of(*args, **options):
    """Return what a fit says of the time it takes."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        bgp.fit(*args, **QUIET, **options)
    return [str(each.message) for each in found if "will take about" in str(each.message)]


OF_EACH_CASE = {
    "offset": (bgp.Poisson(), {"offset": EVERY[:, 1]}),
    "weights": (bgp.Poisson(), {"weights": np.arange(60) % 3 + 0.5}),
    "both": (bgp.NegativeBinomial(2.0), {"offset": EVERY[:, 1], "weights": np.arange(60) % 3 + 0.5}),
    "noise": (bgp.likelihoods.Gaussian(np.linspace(0.1, 1.0, 60)), {}),
    "trials": (bgp.Binomial(np.arange(60) % 4 + 3), {}),
}


@pytest.mark.parametrize(
    ("fact", "hyper"),
    [*((fact, "evidence") for fact in OF_EACH_CASE), *(("both", name) for name in ("loo", "integrate", "hmc"))],
)
def test_a_long_search_is_said_to_be_one(impatient, fact, hyper):
    """Whatever the facts of single cases, and on both sides of what counts as long."""
    likelihood, facts = OF_EACH_CASE[fact]
    options = {"evidence": Evidence(starts=1), "hmc": HybridMonteCarlo(iterations=6, leapfrog_steps=2)}
    facts = facts | {"hyper": options.get(hyper, hyper), "fixed": ["white_variance"]}
    facts["bounds"] = {"matern32_lengthscale": (0.5, 2.0), "matern32_variance": (0.5, 2.0)}
    impatient(LONG_SECONDS=0.0, FEWEST_SEEN=1, INDUCING=50)
    said = said_of(EVERY, np.arange(60) % 3, KERNEL, likelihood, **facts)
    assert len(said) == 1
    assert said[0].startswith("n = 60: ")
    assert "inducing=50 works" in said[0]
    impatient(LONG_SECONDS=1e6)
    assert said_of(EVERY, np.arange(60) % 3, KERNEL, likelihood, **facts) == []


def test_an_average_on_inducing_cases_is_said_to_be_long(impatient):
    """Each of its solutions is of all cases; a search, whose solutions are of a part of them, is not spoken of."""
    impatient(LONG_SECONDS=0.0)
    given = EVERY, EVERY[:, 0] > 0, KERNEL
    average = HybridMonteCarlo(iterations=6, leapfrog_steps=2)
    (said,) = said_of(*given, hyper=average, inducing=10, fixed=["white_variance"])
    assert "Fewer inducing cases take less" in said
    assert said_of(*given, hyper="evidence", inducing=10) == []


class Many(Evidence):
    """The same search, which says that it goes on for very long."""

    __slots__ = ()

    def solutions(self, target):
        return 100 * super().solutions(target)


def test_it_is_said_once_of_searches_alike(impatient):
    """Such as the folds of a cross-validation; one that takes much longer is another."""
    impatient(LONG_SECONDS=0.0)
    y = EVERY[:, 0] > 0
    said = [said_of(EVERY[fold:], y[fold:], KERNEL, hyper=Evidence(starts=2)) for fold in range(3)]
    assert [len(each) for each in said] == [1, 0, 0]
    assert len(said_of(EVERY, y, KERNEL, hyper=Many())) == 1


class Waiting:
    """TAP on a machine that is busy with other work at each solution."""

    name, gram_gradient, leave_one_out = "tap", METHODS["tap"].gram_gradient, METHODS["tap"].leave_one_out
    traits = METHODS["tap"].traits

    def solve(self, problem, control=bgp.Control(), start=None):
        time.sleep(0.1)
        return METHODS["tap"].solve(problem, control, start)


def test_time_that_other_work_takes_does_not_count(impatient):
    """Ten solutions and more on 15 cases wait for a second, and compute for some hundredths of it."""
    impatient(LONG_SECONDS=0.8)
    assert said_of(EVERY[:15], EVERY[:15, 0] > 0, KERNEL, method=Waiting(), hyper=Evidence(starts=1)) == []


class Working(Waiting):
    """TAP that computes for a tenth of a second more, at its first solution or at each."""

    def __init__(self, *, at_each):
        self.at_each, self.solved = at_each, 0

    def solve(self, problem, control=bgp.Control(), start=None):
        end = time.thread_time() + 0.1 * (self.at_each or self.solved == 0)
        self.solved += 1
        while time.thread_time() < end:
            pass
        return METHODS["tap"].solve(problem, control, start)


@pytest.mark.parametrize("at_each", [False, True])
def test_a_first_solution_that_takes_long_says_nothing_of_the_others(impatient, at_each):
    impatient(LONG_SECONDS=0.6, ENOUGH_SECONDS=0.05)
    given = EVERY[:15], EVERY[:15, 0] > 0, KERNEL
    assert bool(said_of(*given, method=Working(at_each=at_each), hyper=Evidence(starts=1))) == at_each


class Never:
    """A method that must not be come to."""

    name, gram_gradient, leave_one_out = "tap", METHODS["tap"].gram_gradient, METHODS["tap"].leave_one_out
    traits = METHODS["tap"].traits

    def solve(self, problem, control=bgp.Control(), start=None):
        raise AssertionError("solved")


@pytest.mark.parametrize("hyper", [None, "evidence"])
@pytest.mark.parametrize("kernel", [KERNEL, bgp.kernels.Gaussian(3.0)])
def test_very_many_cases_are_warned_of_before_any_work(impatient, hyper, kernel):
    """With what it takes in memory, and the remedy; below the number of cases, work begins."""
    X = np.random.default_rng(0).standard_normal((300, 1))
    impatient(FROM=300, ENOUGH_SECONDS=1e-9, LONG_SECONDS=1e-9, INDUCING=50)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(
            UserWarning, match=r"n = 300 without inducing .* GiB .* will take about .*inducing=50 works"
        ):
            bgp.fit(X, X[:, 0] > 0, kernel, method=Never(), hyper=hyper)
        with pytest.raises(AssertionError, match="solved"):
            bgp.fit(X[1:], X[1:, 0] > 0, kernel, method=Never(), hyper=hyper)


def test_fewer_cases_than_inducing_ones_are_not_told_to_take_those(impatient):
    impatient(LONG_SECONDS=0.0, FEWEST_SEEN=1)
    (said,) = said_of(EVERY, np.arange(60) % 3, KERNEL, bgp.likelihoods.Poisson(), hyper="evidence")
    assert "inducing=" not in said
