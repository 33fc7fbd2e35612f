"""``make hyperposterior``: draw hyperparameters by two evidences, hold them against the record, write the page.

It writes ``hyperposterior.html``, ``hyperposterior.json`` and the figures, and exits with 1 if a check failed.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from pathlib import Path

from bayesgp_mf.progress import progress_bar
from bayesgp_mf.pymc import Nuts
from bayesgp_mf.reports.page import Figures
from validation.command import Command, conclude, made_from
from validation.hyperposterior.comparison import JointComparison, run
from validation.hyperposterior.joint_page import joint_page, lead, sections
from validation.hyperposterior.recorded_joint import PATH, read
from validation.reporting.files import write_figure, write_json, write_text

COMMAND = Command(
    "validation.hyperposterior",
    "Draw the hyperparameters of Pima by two evidences, hold them against the record, and write the page.",
    Path("reports/hyperposterior"),
    {"draws": 400, "tune": 250, "chains": 4, "seed": 1, "reference": PATH},
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare and return the exit status: 0 if every check passed, 1 if not."""
    return COMMAND.run(_make, arguments)


def _make(options: Namespace) -> int:
    with progress_bar("hyperposterior") as advance:
        comparison = run(read(options.reference), made_from(Nuts, options), options.seed, advance)
    return conclude(comparison.checks, lead(comparison), write(comparison, options.output))


def write(comparison: JointComparison, folder: Path) -> list[Path]:
    """Write page, numbers, times and figures, and return their paths; only the times differ from run to run."""
    body = sections(comparison)
    page = write_text(folder / "hyperposterior.html", joint_page(comparison, body))
    numbers = write_json(folder / "hyperposterior.json", comparison.to_dict())
    times = write_json(folder / "hyperposterior_times.json", comparison.times())
    drawn = [ax for part in body for block in part.blocks if isinstance(block, Figures) for ax, _ in block.figures]
    images = [write_figure(folder / f"hyperposterior_{k}.png", ax) for k, ax in enumerate(drawn, start=1)]
    return [page, numbers, times, *images]


if __name__ == "__main__":
    sys.exit(main())
