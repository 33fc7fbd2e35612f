"""``make hyperposterior``: draw hyperparameters by two evidences, hold them against the record, write the page.

It writes ``hyperposterior.html``, ``hyperposterior.json`` and the figures, and exits with 1 if a check failed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from threadpoolctl import ThreadpoolController

from bayesgp_mf.progress import progress_bar
from bayesgp_mf.pymc import Nuts
from validation.hyperposterior.comparison import JointComparison, run
from validation.hyperposterior.joint_page import TITLE, lead, sections, summary
from validation.hyperposterior.recorded_joint import PATH, read
from validation.reporting.page import Figures, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OUTPUT = Path("reports/hyperposterior")


def main(arguments: Sequence[str] | None = None) -> int:
    """Make the study and return the exit status: 0 if every check passed, 1 if not."""
    options = _parse(arguments)
    nuts = Nuts(draws=options.draws, tune=options.tune, chains=options.chains)
    # more threads would only wait for each other
    with ThreadpoolController().limit(limits=1, user_api="blas"), progress_bar("hyperposterior") as advance:
        comparison = run(read(options.reference), nuts, options.seed, advance)
    paths = write(comparison, options.output)
    for check in comparison.checks:
        print(f"  {check.verdict}  {check.name}: {check.shown} ({check.allowed}) {check.unit}")
    print("\n".join([*lead(comparison), *(f"Wrote {path}" for path in paths)]), flush=True)
    return 0 if comparison.passed else 1


def write(comparison: JointComparison, folder: Path) -> list[Path]:
    """Write page, numbers and figures, and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    body = sections(comparison)
    page, numbers = folder / "hyperposterior.html", folder / "hyperposterior.json"
    page.write_text(render(TITLE, lead(comparison), summary(comparison), body), encoding="utf-8")
    numbers.write_text(json.dumps(comparison.to_dict(), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    drawn = [ax for part in body for block in part.blocks if isinstance(block, Figures) for ax, _ in block.figures]
    images = [folder / f"hyperposterior_{number}.png" for number in range(1, len(drawn) + 1)]
    for ax, path in zip(drawn, images, strict=True):
        cast("Figure", ax.figure).savefig(path, dpi=150)
    return [page, numbers, *images]


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m validation.hyperposterior", description=__doc__)
    parser.add_argument("--draws", type=int, default=400, help="of each chain (default: 400)")
    parser.add_argument("--tune", type=int, default=250, help="tuning steps of each chain (default: 250)")
    parser.add_argument("--chains", type=int, default=4, help="one after the other (default: 4)")
    parser.add_argument("--seed", type=int, default=1, help="default: 1")
    parser.add_argument("--reference", type=Path, default=PATH, help="the record to compare with")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder to write to (default: {OUTPUT})")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
