"""``make bench``: measure times, memory and scores beside other packages; print and write the tables.

``make bench ARGS="scaling ard"`` runs some sections. Ctrl-C ends the run; what was measured stays printed and written.
"""

from __future__ import annotations

import argparse
import json
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from threadpoolctl import ThreadpoolController

from bayesgp_mf.progress import progress_bar
from validation.benchmarks import (
    ard,
    hyperparameters,
    hyperposterior,
    inla,
    large,
    machine,
    memory,
    pieces,
    scaling,
    solving,
)
from validation.benchmarks.goals import Goals
from validation.benchmarks.growth import Growth
from validation.benchmarks.listing import Result
from validation.benchmarks.peers import PEERS

Section: TypeAlias = Callable[[Callable[[str], None]], Iterable[Result]]
SECTIONS: dict[str, Section] = {
    "scaling": scaling.benchmarks,
    "memory": memory.benchmarks,
    "ard": ard.benchmarks,
    "large": large.benchmarks,
    "solving": solving.benchmarks,
    "hyperparameters": hyperparameters.benchmarks,
    "pieces": pieces.benchmarks,
    "inla": inla.benchmarks,
    "hyperposterior": hyperposterior.benchmarks,
}
ON_REQUEST = ("inla", "hyperposterior")
"""Run when they are named: models in PyMC, most of whose time is sampling and compilation."""
OUTPUT = Path("reports/bench.json")
INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None, sections: Mapping[str, Section] = SECTIONS) -> int:
    """Measure, print and write; return 0, 1 if a section failed, or 130 after Ctrl-C."""
    options = _parse(arguments, sections)
    machinery = machine.describe([peer.distribution for peer in PEERS])
    print("\n".join([*machine.sentences(machinery), ""]), flush=True)
    made: dict[str, list[Result]] = {}
    status = 0
    # more threads would be timed as they wait for each other
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        for name in options.names:
            made[name] = []
            try:
                for result in _with_progress(name, sections[name]):
                    print("\n".join([*result.lines(), ""]), flush=True)
                    made[name].append(result)
                    _write(options.output, machinery, made)  # after each: the next may be stopped
            except KeyboardInterrupt:
                print(f"Stopped in section {name}. What is above is written.", file=sys.stderr, flush=True)
                status = INTERRUPTED
                break
            except Exception:  # the other sections are still worth running
                print(f"Section {name} failed:\n{traceback.format_exc()}", file=sys.stderr, flush=True)
                status = 1
    for path in _write(options.output, machinery, made):
        print(f"Wrote {path}")
    return status


def _parse(arguments: Sequence[str] | None, sections: Mapping[str, Section]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m validation.benchmarks", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="SECTION", help=f"which to run: {', '.join(sections)}")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"JSON file to write (default: {OUTPUT})")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in sections]
    if unknown:
        parser.error(f"there is no section {', '.join(unknown)}; choose from {', '.join(sections)}")
    options.names = options.names or [name for name in sections if name not in ON_REQUEST]
    return options


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
    output.parent.mkdir(parents=True, exist_ok=True)
    numbers = {
        "machine": machinery,
        "sections": {name: [result.to_dict() for result in results] for name, results in made.items()},
    }
    output.write_text(json.dumps(numbers, indent=1, allow_nan=False) + "\n", encoding="utf-8")
    page = output.with_suffix(".md")
    page.write_text("\n".join(_markdown(machinery, made)) + "\n", encoding="utf-8")
    paths = [output, page]
    for name, results in made.items():
        for result in results:
            if isinstance(result, Growth):
                figure = output.with_name(f"{output.stem}_{name}.png")
                result.draw().figure.savefig(figure, dpi=120)
                paths.append(figure)
    return paths


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
