"""``make bench``: time solving, tuning and sampling, print the tables, write JSON."""

from __future__ import annotations

import argparse
import json
import platform
import sys
from collections.abc import Callable, Iterable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import TypeAlias

from threadpoolctl import ThreadpoolController

from bayesgp_mf.progress import progress_bar
from validation.benchmarks import hyperparameters, hyperposterior, inla, solving
from validation.benchmarks.timing import Benchmark

Suite: TypeAlias = Callable[[Callable[[str], None]], Iterable[Benchmark]]
SUITES: tuple[Suite, ...] = (
    solving.benchmarks,
    hyperparameters.benchmarks,
    inla.benchmarks,
    hyperposterior.benchmarks,
)
OUTPUT = Path("reports/bench.json")


def main(arguments: Sequence[str] | None = None, suites: Sequence[Suite] = SUITES) -> int:
    """Time everything, print it and write it."""
    parser = argparse.ArgumentParser(prog="python -m validation.benchmarks", description=__doc__)
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"file to write (default: {OUTPUT})")
    output: Path = parser.parse_args(arguments).output
    made: list[Benchmark] = []
    # more threads would be timed as they wait for each other
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        for suite in suites:
            with progress_bar("timing") as advance:
                made += suite(advance)
    for benchmark in made:
        print("\n".join([*benchmark.lines(), ""]))
    output.parent.mkdir(parents=True, exist_ok=True)
    output.write_text(json.dumps(to_dict(made), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print(f"Wrote {output}")
    return 0


def to_dict(made: Iterable[Benchmark]) -> dict[str, object]:
    """Return what is written, with the versions that the times belong to."""
    versions = {name: version(name) for name in ("bayesgp_mf", "numpy", "scipy")}
    return {
        "python": platform.python_version(),
        "versions": versions,
        "blas_threads": 1,
        "benchmarks": [benchmark.to_dict() for benchmark in made],
    }


if __name__ == "__main__":
    sys.exit(main())
