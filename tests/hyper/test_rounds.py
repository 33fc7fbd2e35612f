"""Rounds of a search on inducing cases: which strategy sees what, and which answer is taken."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

import bayesgp_mf as bgp
from bayesgp_mf.hyper import Target
from bayesgp_mf.hyper.rounds import choose_on_inducing
from bayesgp_mf.hyper.strategy import HyperResult
from bayesgp_mf.kernels import Gaussian
from bayesgp_mf.methods import METHODS

N = 90
X = np.random.default_rng(0).standard_normal((N, 2))
T = np.where(X[:, 0] > 0, 1.0, -1.0)
TARGET = Target(X, T, bgp.Probit(), Gaussian(1.0, 1.0), METHODS["tap"])


@dataclass
class Told(bgp.hyper.Strategy):
    """A strategy that adds one to the length scale, and is told its scores."""

    scores: list[float]
    starts: int = 1
    averages: bool = False
    name: str = "told"
    seen: list[Target] = field(default_factory=list)

    def choose(self, target, rng, advance):
        score = self.scores[len(self.seen)]
        self.seen.append(target)
        advance("one")
        model = target.model.replace(lengthscale=target.kernel.params["lengthscale"] + 1.0, variance=abs(score))
        return HyperResult((model,), np.ones(1), stats={"lp": np.array([score])}, record={})


def chosen(strategy, inducing):
    texts = []
    result, points = choose_on_inducing(TARGET, strategy, inducing, np.random.default_rng(1), texts.append)
    return result, points, texts


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr("bayesgp_mf.hyper.rounds.FEWEST", 10)


def test_each_round_starts_where_the_last_one_ended_on_twice_the_cases():
    strategy = Told([-9.0, -8.0, -7.0])
    result, points, texts = chosen(strategy, bgp.Inducing(20, search=7, rows=80))
    assert [target.t.size for target in strategy.seen] == [20, 40, 80]
    assert [target.inducing.shape for target in strategy.seen] == [(4, 2), (4, 2), (7, 2)]  # before the last, half
    assert [float(target.kernel.params["lengthscale"]) for target in strategy.seen] == [1.0, 2.0, 3.0]
    assert float(result.kernels[0].params["lengthscale"]) == 4.0
    assert points.shape == (20, 2)
    assert [text.partition(",")[0] for text in texts] == [f"round {k} of 3" for k in (1, 2, 3)]
    np.testing.assert_allclose(result.record["hyper_round_score"][1], [-9.0 / 20, -8.0 / 40, -7.0 / 80])
    ends = np.exp(result.record["hyper_round_end"][1])
    np.testing.assert_allclose(ends, [[2.0, 9.0], [3.0, 8.0], [4.0, 7.0]])
    assert result.log_evidence is None
    # other cases and other inducing cases each time, which are some of all
    assert not np.array_equal(strategy.seen[0].inducing, strategy.seen[1].inducing)
    for target in strategy.seen:
        rows = [int(np.flatnonzero((row == X).all(axis=1))[0]) for row in target.X]
        np.testing.assert_array_equal(target.t, T[rows])
        assert abs(np.mean(target.t) - np.mean(T)) < 2.0 / target.t.size


def test_of_several_draws_in_the_first_round_the_best_goes_on():
    strategy = Told([-9.0, -5.0, -7.0, -8.0], starts=3)
    result, _, _ = chosen(strategy, bgp.Inducing(20, search=7, rounds=2))
    assert [float(target.kernel.params["variance"]) for target in strategy.seen] == [1.0, 1.0, 1.0, 5.0]
    assert [target.t.size for target in strategy.seen] == [N // 2] * 3 + [N]
    assert float(result.kernels[0].params["variance"]) == 8.0


def test_given_inputs_stay_and_are_one_round():
    strategy = Told([-9.0], starts=3)
    _, points, _ = chosen(strategy, bgp.Inducing(3, inputs=X[:3]))
    assert len(strategy.seen) == 1
    np.testing.assert_array_equal(strategy.seen[0].inducing, X[:3])
    np.testing.assert_array_equal(points, X[:3])
    np.testing.assert_array_equal(strategy.seen[0].X, X)


def test_an_average_is_over_what_all_cases_say():
    strategy = Told([-9.0], averages=True)
    result, points, texts = chosen(strategy, bgp.Inducing(20, search=7, rows=40))
    (target,) = strategy.seen
    np.testing.assert_array_equal(target.X, X)
    np.testing.assert_array_equal(target.inducing, points)
    assert points.shape == (20, 2)
    assert "hyper_round_end" not in result.record
    assert texts == ["one"]
