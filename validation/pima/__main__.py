"""The main job, ``make report``: fit the Pima data, hold the fit against PyMC, write the report.

It writes ``pima.html``, ``pima.json``, ``pima_times.json``, ``pima_tap.nc`` and ``pima_nuts.nc``, and exits with 1 if a
check failed.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

from bayesgp_mf.datasets import load_pima
from validation.command import Command, conclude, made_from, say
from validation.pima.pima_page import lead, pima_page
from validation.pima.run import Run, Settings, run
from validation.reporting.files import write_json, write_netcdf, write_text

DEFAULTS = Settings()
COMMAND = Command(
    "validation.pima",
    "Fit the Pima data by TAP, hold the fit against NUTS, and write the report.",
    Path("reports"),
    {name: getattr(DEFAULTS, name) for name in ("sampler", "draws", "tune", "cores")},
)


def main(arguments: Sequence[str] | None = None, work: Callable[..., Run] = run) -> int:
    """Make the report and return the exit status: 0 if every check passed, 1 if not."""
    return COMMAND.run(partial(_make, work), arguments)


def _make(work: Callable[..., Run], options: Namespace) -> int:
    outcome = work(load_pima(), made_from(Settings, options), say)
    return conclude(outcome.comparison.checks, lead(outcome), write(outcome, options.output))


def write(outcome: Run, folder: Path) -> list[Path]:
    """Write page, numbers, times and containers, and return their paths; only the times differ from run to run."""
    page = write_text(folder / "pima.html", pima_page(outcome))
    numbers = write_json(folder / "pima.json", outcome.to_dict())
    times = write_json(folder / "pima_times.json", outcome.seconds)
    tap, nuts = (write_netcdf(folder / f"pima_{name}.nc", getattr(outcome, name)) for name in ("tap", "nuts"))
    return [page, numbers, times, tap, nuts]


if __name__ == "__main__":
    sys.exit(main())
