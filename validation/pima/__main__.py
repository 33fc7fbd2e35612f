"""The main job, ``make report``: fit the Pima data, hold the fit against PyMC, write the report.

It writes ``pima.html``, ``pima.json``, ``pima_tap.nc`` and ``pima_nuts.nc`` and exits with 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from bayesgp_mf.datasets import load_pima
from validation.pima.pima_page import lead, sections, summary
from validation.pima.run import Run, Settings, run
from validation.reporting.page import render

TITLE = "Pima: TAP approximation against PyMC"


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the report and return the exit status: 0 if every check passed, 1 if not."""
    options = _parse(arguments)
    given = {name: getattr(options, name) for name in ("sampler", "draws", "tune", "cores")}
    settings = Settings(**{name: value for name, value in given.items() if value is not None})
    outcome = run(load_pima(), settings, _say)
    paths = write(outcome, options.output)
    for line in [*lead(outcome), *_verdict_lines(outcome), *(f"Wrote {path}" for path in paths)]:
        _say(line)
    return 0 if outcome.comparison.passed else 1


def write(outcome: Run, folder: Path) -> list[Path]:
    """Write page, numbers and containers, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    page, numbers, tap, nuts = (folder / name for name in ("pima.html", "pima.json", "pima_tap.nc", "pima_nuts.nc"))
    page.write_text(render(TITLE, lead(outcome), summary(outcome), sections(outcome)), encoding="utf-8")
    numbers.write_text(json.dumps(outcome.to_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    for container, path in ((outcome.tap, tap), (outcome.nuts, nuts)):
        container.to_netcdf(str(path), engine="h5netcdf")
    return [page, numbers, tap, nuts]


def _verdict_lines(outcome: Run) -> list[str]:
    checks = outcome.comparison.checks
    width = max(len(check.name) for check in checks)
    return [
        f"  {check.verdict}  {check.name:<{width}}  {check.shown:>7} {check.allowed} {check.unit}" for check in checks
    ]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m validation.pima", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("reports"), help="folder to write to (default: reports)")
    parser.add_argument("--sampler", choices=("nutpie", "pymc"), help="default: nutpie where it is installed")
    parser.add_argument("--draws", type=int, help="draws of each chain")
    parser.add_argument("--tune", type=int, help="tuning steps of each chain")
    parser.add_argument("--cores", type=int, help="chains that run at once")
    return parser.parse_args(arguments)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
