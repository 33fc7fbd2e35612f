"""The benchmarks of duels: ratings against published numbers, probabilities, tables, and peers that are absent."""

from __future__ import annotations

import numpy as np
import pytest

from validation.benchmarks import duels, league
from validation.benchmarks.peers import BOTORCH, CHOIX


def test_trueskill_of_two_new_players_is_the_published_one():
    unit = np.sqrt(2.0) * 25.0 / 6.0  # the standard deviation of the difference of two performances
    rating = league.TrueSkill((25.0 / 3.0 / unit) ** 2, 0.0, 0.0)
    rating.learn("a", "b", True, 0.0)
    (mean, variance, _), (other, _, _) = rating.known["a"], rating.known["b"]
    np.testing.assert_allclose([25 + unit * mean, 25 + unit * other], [29.205, 20.795], atol=1e-3)
    np.testing.assert_allclose(unit * np.sqrt(variance), 7.194, atol=1e-3)


def test_glicko_of_one_match_is_that_of_its_author():
    unit = 400.0 / np.log(10.0)
    rating = league.Glicko((200.0 / unit) ** 2, 0.0, 0.0)
    rating.known["b"] = (-100.0 / unit, (30.0 / unit) ** 2, 0.0)  # 1400, 30 against 1500, 200
    rating.learn("a", "b", True, 0.0)
    mean, variance, _ = rating.known["a"]
    q, expected = np.log(10.0) / 400.0, 0.639
    step = 1.0 / (1.0 / 200.0**2 + (q * 0.9955) ** 2 * expected * (1 - expected))
    np.testing.assert_allclose(unit * mean, q * step * 0.9955 * (1 - expected), rtol=5e-3)
    np.testing.assert_allclose(unit**2 * variance, step, rtol=5e-3)


@pytest.mark.parametrize(
    "rating", [league.Elo(24.0, 50.0), league.TrueSkill(0.5, 0.1, 0.2), league.Glicko(1.0, 0.1, 0.3)]
)
def test_ratings_learn_who_wins(rating):
    before = rating.predict("a", "b", 0.0)
    assert before > 0.5  # at home
    for k in range(10):
        rating.learn("a", "b", False, 0.1 * k)
        rating.learn("b", "a", True, 0.1 * k)
    assert rating.predict("a", "b", 1.0) < 0.5 < rating.predict("b", "a", 1.0)


@pytest.mark.filterwarnings("ignore::bayesgp_mf.errors.BoundWarning")  # of the home side in so few matches
def test_a_small_league_has_a_table_and_the_truth_is_best():
    (table, *_) = list(league.benchmarks(lambda _: None, players=12, years=6))[:1]
    scores = {row["name"]: row["log score"] for row in table.numbers}
    assert max(scores, key=scores.get) == "the truth"
    assert all(-1.0 < score < -0.3 for score in scores.values())


def test_duels_have_tables_and_absent_peers_are_named():
    results = list(duels.benchmarks(lambda _: None, items=20, duels=80, held_out=60))
    table = results[0]
    scores = {row["name"]: row["log score"] for row in table.numbers}
    assert scores[duels.OURS] > np.log(0.5)
    for peer, name in ((BOTORCH, duels.BOTORCHS), (CHOIX, "choix")):
        assert (name in scores) == peer.installed
        assert peer.installed or any(peer.name in remark for remark in table.remarks)
