"""Ten thousand random problems, and as many that change every day: none is wrong, not finite, slow or an odd error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from datetime import date
from typing import Any

import numpy as np

from bayesgp_mf.reports.page import Block, Table
from validation.reporting.checks import Check
from validation.stress.check import ALLOWED, Outcome, examine
from validation.stress.kinds import draw_kind
from validation.stress.models import draw_model
from validation.studies.study import Findings, Study, Task

SEED = 1
"""The problems that everyone gets."""
PROBLEMS = 10_000
"""Of each seed ..."""
PART = 500
"""... in tasks of so many."""
MODELS, PART_OF_MODELS = 1000, 100
"""Problems of counts, outliers and levels of each seed, whose truth is integrated: it takes a second."""
MOST_REFUSED = 0.2
"""A method that refuses everything is never wrong."""
FORBIDDEN: tuple[tuple[Outcome, str], ...] = (
    ("wrong", "solved and wrong"),
    ("no truth", "solved, but by nothing near it"),
    ("not finite", "solved and not finite"),
    ("foreign", "ended in an error of no kind of ours"),
    ("slow", "took more than 20 seconds"),
)
SHOWN = 40
"""Failures in the table."""


def stress(seed: int, first: int, count: int, models: bool = False) -> dict[str, Any]:
    """Examine some problems and return how often each method came to each outcome, the largest errors, and failures.

    ``models`` are problems of counts, outliers and levels, with offsets and weights.
    """
    outcomes: Counter[str] = Counter()
    mean, evidence, failures = 0.0, 0.0, []
    for number in range(first, first + count):
        drawn = draw_model(seed, number) if models else draw_kind(seed, number)
        verdict = examine(drawn)
        outcomes[f"{drawn.method}/{verdict.outcome}"] += 1
        if verdict.outcome == "right":
            mean = float(np.fmax(mean, verdict.mean_error))
            evidence = float(np.fmax(evidence, verdict.evidence_error))
        elif verdict.outcome not in ALLOWED:
            failures.append(str(verdict))
    return {"outcomes": dict(outcomes), "mean": mean, "evidence": evidence, "failures": failures}


def conclude(results: Mapping[str, Any]) -> Findings:
    """Count what may not happen; none of it may."""
    outcomes: Counter[str] = Counter()
    for result in results.values():
        outcomes.update(result["outcomes"])
    of_all: Counter[str] = Counter()
    for name, count in outcomes.items():
        of_all[name.partition("/")[2]] += count
    total = sum(of_all.values())
    checks = [Check(f"problems {what}", float(of_all[outcome]), "at most", 0.0, "") for outcome, what in FORBIDDEN]
    checks.append(Check("share of problems refused", of_all["refused"] / total, "at most", MOST_REFUSED, ""))
    methods = sorted({name.partition("/")[0] for name in outcomes})
    shown: tuple[Outcome, ...] = (*ALLOWED, *(outcome for outcome, _ in FORBIDDEN))
    failures = [line for result in results.values() for line in result["failures"]]
    worst = {name: max(result[name] for result in results.values()) for name in ("mean", "evidence")}
    blocks: list[Block] = [
        f"{total} problems were drawn: kernels, their sums and products, and matrices made by hand; length scales and "
        "variances over many decades; cases that occur twice, collinear and constant columns; every likelihood, noise "
        "from 1e-12 up, every method, several classes; counts, levels, outliers and noise of each case, with offsets "
        "and weights; planes of an intercept and a slope, groups whose rows repeat, flipped labels, and inducing "
        "inputs from a tenth to 1e-12 of the length scale apart, a tenth of the problems each. Each solution was held "
        " against the same equations in 320 bits, "
        "solved by other code from where it was returned. It is right where means agree to 1e-4 posterior standard "
        "deviations and the log evidence to 1e-6 nats, beyond what rounding of the Gram matrix does to it; where "
        "rounding decides, a method has to say so. 'Stated' is an evidence that is off by no more than three times "
        "what is stated of inducing inputs that were moved or left out; 'far' is by more, where more than 0.1 nats "
        "were stated: that it is another model is known, and not how far. 'Finite' is where nothing more is checked.",
        f"Of the right ones the largest error of a mean was {worst['mean']:.1e} standard deviations, of an evidence "
        f"{worst['evidence']:.1e} nats.",
        Table(
            "What became of them.",
            ("Method", *(outcome.capitalize() for outcome in shown)),
            [(method, *(f"{outcomes[f'{method}/{outcome}']}" for outcome in shown)) for method in methods],
        ),
    ]
    if failures:
        blocks.append(Table("What may not happen.", ("Problem",), [(line,) for line in failures[:SHOWN]]))
    return Findings(tuple(checks), tuple(blocks))


def _tasks() -> list[Task]:
    fresh = 10**6 + date.today().toordinal()  # far from the seeds that people choose
    seeds = (("fixed", SEED), ("today's", fresh))
    return [
        *(
            Task(f"{name} seed, from {first}", stress, {"seed": seed, "first": first, "count": PART}, cost=PART / 10)
            for name, seed in seeds
            for first in range(0, PROBLEMS, PART)
        ),
        *(
            Task(
                f"counts, outliers and levels, {name} seed, from {first}",
                stress,
                {"seed": seed, "first": first, "count": PART_OF_MODELS, "models": True},
                cost=PART_OF_MODELS,
            )
            for name, seed in seeds
            for first in range(0, MODELS, PART_OF_MODELS)
        ),
    ]


STUDY = Study("stress", "Random problems over many decades", _tasks(), conclude)
