"""``make bench``: measure times, memory and scores beside other packages; print and write the tables.

``make bench ARGS="scaling ard"`` runs some sections. Ctrl-C ends the run; what was measured stays printed and written.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

from bayesgp_mf.progress import progress_bar
from validation.benchmarks import (
    ard,
    areas,
    classes,
    counts,
    defaults,
    duels,
    estimators,
    evidences,
    groups,
    hyperparameters,
    hyperposterior,
    inducing,
    inla,
    large,
    league,
    machine,
    memory,
    pieces,
    rough,
    scaling,
    shards,
    solving,
    times,
)
from validation.benchmarks.goals import Goals
from validation.benchmarks.growth import Growth
from validation.benchmarks.listing import Result
from validation.benchmarks.peers import PEERS
from validation.command import Command, each, say, written
from validation.reporting.files import write_figure, write_json, write_text

Section: TypeAlias = Callable[[Callable[[str], None]], Iterable[Result]]
SECTIONS: dict[str, Section] = {
    "scaling": scaling.benchmarks,
    "memory": memory.benchmarks,
    "ard": ard.benchmarks,
    "counts": counts.benchmarks,
    "large": large.benchmarks,
    "solving": solving.benchmarks,
    "evidences": evidences.benchmarks,
    "hyperparameters": hyperparameters.benchmarks,
    "pieces": pieces.benchmarks,
    "inla": inla.benchmarks,
    "hyperposterior": hyperposterior.benchmarks,
    "inducing": inducing.benchmarks,
    "sklearn": estimators.benchmarks,
    "classes": classes.benchmarks,
    "duels": duels.benchmarks,
    "league": league.benchmarks,
    "shards": shards.benchmarks,
    "areas": areas.benchmarks,
    "groups": groups.benchmarks,
    "times": times.benchmarks,
    "rough": rough.benchmarks,
    "defaults": defaults.benchmarks,
    "defaults_800": partial(defaults.benchmarks, most=800),
}
ON_REQUEST = (
    "areas",
    "rough",
    "inla",
    "groups",
    "hyperposterior",
    "inducing",
    "sklearn",
    "classes",
    "duels",
    "league",
    "shards",
    "defaults",
    "defaults_800",
)
"""Run when they are named: models in PyMC, most of whose time is sampling and compilation; an hour of peers; many
tables."""
OUTPUT = Path("reports/bench.json")
ABOUT = "Measure times, memory and scores beside other packages."


def main(arguments: Sequence[str] | None = None, sections: Mapping[str, Section] = SECTIONS) -> int:
    """Measure, print and write; return 0, 1 if a section failed, or 130 after Ctrl-C."""
    command = Command("validation.benchmarks", ABOUT, OUTPUT, {}, sections, "section")
    return command.run(partial(_measure, sections), arguments)


def _measure(sections: Mapping[str, Section], options: Namespace) -> int:
    machinery = machine.describe([peer.distribution for peer in PEERS])
    say(*machine.sentences(machinery), "")
    made: dict[str, list[Result]] = {}

    def one(name: str) -> None:
        made[name] = []
        for result in _with_progress(name, sections[name]):
            say(*result.lines(), "")
            made[name].append(result)
            _write(options.output, machinery, made)  # after each: the next may be stopped

    usual = [name for name in sections if name not in ON_REQUEST]
    _, status = each(options.names or usual, "section", one)
    say(*written(*_write(options.output, machinery, made)))
    return status


def _with_progress(name: str, section: Section) -> Iterator[Result]:
    """Yield the results of a section, each made under a progress bar that is gone when it is printed."""
    bars: list[Callable[[str], None]] = []
    results = iter(section(lambda note: bars[-1](note)))
    while True:
        with progress_bar(name) as advance:
            bars.append(advance)
            result = next(results, None)
        if result is None:
            return
        yield result


def _write(output: Path, machinery: dict[str, Any], made: Mapping[str, Sequence[Result]]) -> list[Path]:
    """Write everything so far, and return where."""
    numbers = {
        "machine": machinery,
        "sections": {name: [result.to_dict() for result in results] for name, results in made.items()},
    }
    page = write_text(output.with_suffix(".md"), "\n".join(_markdown(machinery, made)) + "\n")
    figures = [
        write_figure(output.with_name(f"{output.stem}_{name}.png"), result.draw())
        for name, results in made.items()
        for result in results
        if isinstance(result, Growth)
    ]
    return [write_json(output, numbers), page, *figures]


def _markdown(machinery: dict[str, Any], made: Mapping[str, Sequence[Result]]) -> list[str]:
    """Return a page: the machine, all goals, then the tables."""
    results = [result for results in made.values() for result in results]
    goals = [goal for result in results if isinstance(result, Goals) for goal in result.goals]
    blocks = [["<!-- Written by make bench. -->"], machine.sentences(machinery)]
    if goals:
        blocks.append(["## What was asked", "", *Goals("All goals", goals).markdown()[2:]])
    blocks.append(["## What was measured"])
    blocks += [result.markdown() for result in results if not isinstance(result, Goals)]
    return [line for block in blocks for line in (*block, "")][:-1]


if __name__ == "__main__":
    sys.exit(main())
