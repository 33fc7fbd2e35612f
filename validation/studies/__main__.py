"""``make validate``: run all studies, or go on where they were stopped, and write one HTML page and one JSON file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from bayesgp_mf.progress import progress_bar
from validation.checks import HEADER, Check
from validation.page import Section, Table, render
from validation.stress import study as stress
from validation.studies import calibration, evidence_map, exact_posterior, leave_one_out, perceptron
from validation.studies.running import run_missing
from validation.studies.store import Store, code_digest, versions
from validation.studies.study import Findings, Study

STUDIES: tuple[Study, ...] = (
    exact_posterior.STUDY,
    evidence_map.STUDY,
    leave_one_out.STUDY,
    calibration.STUDY,
    perceptron.STUDY,
    stress.STUDY,
)
"""In the order of the page; a new one is added here."""
OUTPUT = Path("reports/validation")
TITLE = "Approximations against exact truths"
INTERRUPTED = 130
"""The exit status of a command that Ctrl-C ended."""


def main(arguments: Sequence[str] | None = None, studies: Sequence[Study] = STUDIES) -> int:
    """Run the studies, or those named, and return 0, or 1 if a check or a task failed."""
    options = _parse(arguments, [study.name for study in studies])
    chosen = [study for study in studies if study.name in (options.names or [study.name])]
    code = code_digest()
    store = Store(options.output / "results", code)
    total = sum(not store.holds(task) for study in chosen for task in study.tasks)
    known = sum(len(study.tasks) for study in chosen)
    print(f"{known - total} of {known} results are there from before; {total} to compute.", flush=True)
    try:
        with progress_bar("studies", total=total) as advance:
            failures = run_missing(chosen, store, options.processes, advance)
    except KeyboardInterrupt:
        print("Stopped. What was computed is kept: the same command goes on from here.", file=sys.stderr, flush=True)
        return INTERRUPTED
    print("\n".join(failures), end="\n" if failures else "", file=sys.stderr, flush=True)

    found: list[tuple[Study, Findings]] = []
    for study in chosen:
        if all(store.holds(task) for task in study.tasks):
            found.append((study, study.conclude({task.name: store.load(task) for task in study.tasks})))
    for study, findings in found:
        print("\n".join([study.title, *(_line(check) for check in findings.checks), ""]), flush=True)
    page, numbers = options.output / "validation.html", options.output / "validation.json"
    page.write_text(_page(found, failures, len(chosen), code), encoding="utf-8")
    numbers.write_text(json.dumps(_to_dict(found, store, code), indent=1, allow_nan=False) + "\n", encoding="utf-8")
    print(f"Wrote {page}\nWrote {numbers}", flush=True)
    passed = all(check.passed for _, findings in found for check in findings.checks)
    return 0 if passed and not failures else 1


def _parse(arguments: Sequence[str] | None, names: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m validation.studies", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which to run (default: all): {', '.join(names)}")
    parser.add_argument("--output", type=Path, default=OUTPUT, help=f"folder to write to (default: {OUTPUT})")
    parser.add_argument("--processes", type=int, default=2, help="tasks at the same time (default: 2)")
    options = parser.parse_args(arguments)
    unknown = [name for name in options.names if name not in names]
    if unknown:
        parser.error(f"there is no study {', '.join(unknown)}; choose from {', '.join(names)}")
    if options.processes < 1:
        parser.error(f"--processes must be at least 1, got {options.processes}")
    return options


def _line(check: Check) -> str:
    bound = f"{check.allowed} {check.unit}".rstrip()
    return f"  {check.verdict}  {check.name}: {check.shown} ({bound})"


def _page(found: Sequence[tuple[Study, Findings]], failures: Sequence[str], known: int, code: str) -> str:
    checks = [(study, check) for study, findings in found for check in findings.checks]
    failed = [f"{study.title}: {check.name}" for study, check in checks if not check.passed]
    verdict = f"{len(failed)} of {len(checks)} checks failed: {'; '.join(failed)}." if failed else ""
    lead = [verdict or f"All {len(checks)} checks passed.", f"{len(found)} of {known} studies are on this page."]
    if failures:
        lead.append(f"{len(failures)} tasks raised an error; what hangs on them is missing.")
    summary = Table(
        "The studies, and how many of their numbers keep their tolerance.",
        ("Study", "Verdict", "Checks", "Passed"),
        [_summary_row(study, findings) for study, findings in found],
    )
    made = Section(
        "How this page was made",
        [
            "Versions: "
            + ", ".join(f"{name} {number}" for name, number in versions().items())
            + f". Code {code[:12]}.",
            "All random numbers come from seeds, which stand among the arguments of the tasks in the JSON file beside "
            "this page, with every result.",
        ],
    )
    sections = [Section(study.title, (_table(findings.checks), *findings.blocks)) for study, findings in found]
    return render(TITLE, lead, summary, [*sections, made])


def _summary_row(study: Study, findings: Findings) -> tuple[str, ...]:
    passed = sum(check.passed for check in findings.checks)
    verdict = "PASS" if passed == len(findings.checks) else "FAIL"
    return study.title, verdict, f"{len(findings.checks)}", f"{passed}"


def _table(checks: Sequence[Check]) -> Table:
    return Table(
        "Every number of this study that has a tolerance, and the verdict on it.",
        HEADER,
        [check.cells() for check in checks],
    )


def _to_dict(found: Sequence[tuple[Study, Findings]], store: Store, code: str) -> dict[str, Any]:
    """Return what is written as JSON: no times, so that a run that was stopped and went on ends with the same."""
    return {
        "versions": versions(),
        "code": code,
        "studies": [
            {
                "name": study.name,
                "title": study.title,
                "checks": [asdict(check) | {"passed": check.passed} for check in findings.checks],
                "tasks": [
                    {"name": task.name, "arguments": dict(task.arguments), "result": store.load(task)}
                    for task in study.tasks
                ],
            }
            for study, findings in found
        ],
    }


if __name__ == "__main__":
    sys.exit(main())
