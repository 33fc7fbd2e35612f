"""``make validate``: run all studies, or go on where they were stopped, and write one HTML page and one JSON file."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import Any

from bayesgp_mf.progress import progress_bar
from bayesgp_mf.reports.page import Section, Table, render
from validation.command import INTERRUPTED, Command, complain, say, written
from validation.reporting.checks import count, passed, verdict, verdict_table
from validation.reporting.files import write_json, write_text
from validation.stress import study as stress
from validation.studies import (
    areas,
    averages,
    calibration,
    class_searches,
    class_streams,
    covering,
    evidence_map,
    exact_posterior,
    flips,
    functionals,
    leave_one_out,
    many_models,
    monotone,
    perceptron,
    planar,
    starts,
    streams,
    thresholds,
)
from validation.studies.corrected import evidence as corrected_evidence
from validation.studies.corrected import predictions as corrected_predictions
from validation.studies.corrected import tables as corrected_tables
from validation.studies.corrected import verdicts as corrected_verdicts
from validation.studies.models import against_nuts, robust
from validation.studies.running import run_missing
from validation.studies.store import Store, code_digest, versions
from validation.studies.study import Findings, Study

STUDIES: tuple[Study, ...] = (
    exact_posterior.STUDY,
    evidence_map.STUDY,
    corrected_evidence.STUDY,
    corrected_tables.STUDY,
    corrected_predictions.STUDY,
    corrected_verdicts.STUDY,
    functionals.STUDY,
    areas.STUDY,
    planar.STUDY,
    leave_one_out.STUDY,
    calibration.STUDY,
    averages.STUDY,
    flips.STUDY,
    perceptron.STUDY,
    streams.STUDY,
    against_nuts.STUDY,
    robust.STUDY,
    starts.STUDY,
    class_searches.STUDY,
    class_streams.STUDY,
    stress.STUDY,
    many_models.STUDY,
    monotone.STUDY,
    covering.STUDY,
    thresholds.STUDY,
)
"""In the order of the page; a new one is added here."""
OUTPUT = Path("reports/validation")
TITLE = "Approximations against exact truths"
ABOUT = "Hold the approximations against exact truths, or go on where that was stopped."


def main(arguments: Sequence[str] | None = None, studies: Sequence[Study] = STUDIES) -> int:
    """Run the studies, or those named, and return 0, or 1 if a check or a task failed."""
    names = [study.name for study in studies]
    command = Command("validation.studies", ABOUT, OUTPUT, {"processes": 2, "client": ""}, names, "study")
    return command.run(partial(_run, studies), arguments)


def _run(studies: Sequence[Study], options: Namespace) -> int:
    chosen = [study for study in studies if study.name in (options.names or [study.name])]
    code = code_digest()
    store = Store(options.output / "results", code)
    total = sum(not store.holds(task) for study in chosen for task in study.tasks)
    known = sum(len(study.tasks) for study in chosen)
    say(f"{known - total} of {known} results are there from before; {total} to compute.")
    try:
        with _cluster(options.client) as client, progress_bar("studies", total=total) as advance:
            failures = run_missing(chosen, store, options.processes, advance, client)
    except KeyboardInterrupt:
        complain("Stopped. What was computed is kept: the same command goes on from here.")
        return INTERRUPTED
    if failures:
        complain(*failures)

    found: list[tuple[Study, Findings]] = []
    for study in chosen:
        if all(store.holds(task) for task in study.tasks):
            found.append((study, study.conclude({task.name: store.load(task) for task in study.tasks})))
    for study, findings in found:
        say(study.title, *(check.line for check in findings.checks), "")
    page = write_text(options.output / "validation.html", _page(found, failures, len(chosen), code))
    say(*written(page, write_json(options.output / "validation.json", _to_dict(found, chosen, store, code))))
    return 0 if not failures and all(passed(findings.checks) for _, findings in found) else 1


def _cluster(address: str) -> AbstractContextManager[Any]:
    """Return a client of the cluster at an address; of none if there is no address."""
    if not address:
        return nullcontext()
    from distributed import Client

    client: AbstractContextManager[Any] = Client(address)
    return client


def _page(found: Sequence[tuple[Study, Findings]], failures: Sequence[str], known: int, code: str) -> str:
    checks = [replace(c, name=f"{study.title}: {c.name}") for study, findings in found for c in findings.checks]
    lead = [count(checks), f"{len(found)} of {known} studies are on this page."]
    if failures:
        lead.append(f"{len(failures)} tasks raised an error; the studies that hang on them are missing.")
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
    sections = [Section(study.title, (verdict_table(findings.checks), *findings.blocks)) for study, findings in found]
    return render(TITLE, lead, summary, [*sections, made])


def _summary_row(study: Study, findings: Findings) -> tuple[str, ...]:
    kept = sum(bool(check.passed) for check in findings.checks)
    return study.title, verdict(findings.checks), f"{len(findings.checks)}", f"{kept}"


def _to_dict(
    found: Sequence[tuple[Study, Findings]], chosen: Sequence[Study], store: Store, code: str
) -> dict[str, Any]:
    """Return what is written as JSON: no times, so that a run that was stopped and went on ends with the same."""
    missing = [study.name for study in chosen if study not in [known for known, _ in found]]
    return {
        **({"note": f"Tasks failed, and these studies are missing: {', '.join(missing)}."} if missing else {}),
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
