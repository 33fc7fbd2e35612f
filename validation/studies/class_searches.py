"""Searches for the hyperparameters of a multinomial probit end, wherever they begin: random starts on four tables."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.reports.page import Block, Table
from validation.multinomial.tables import TABLES, Split
from validation.reporting.checks import Check, at_most
from validation.studies.study import Findings, Study, Task

STARTS = 20
SEED = 5
WITHIN = {"lengthscale": (0.1, 10.0), "variance": (0.025, 25.0)}
"""Of a random start over that of the table, log uniform."""
MOST = 200
"""Cases to learn from: of the digits as many of the first ones, which hold each class."""


def found_from(table: str, start: int) -> dict[str, Any]:
    """Return where a search from a random start ended, or what it raised."""
    split = first(next(TABLES[table]()))
    rng = np.random.default_rng([SEED, start])
    factors = {name: np.exp(rng.uniform(*np.log(bounds))) for name, bounds in WITHIN.items()}
    kernel = split.start.replace(**{name: float(split.start.params[name] * factors[name]) for name in factors})
    try:
        with warnings.catch_warnings():
            for kind in (bgp.BoundWarning, bgp.ConvergenceWarning):  # a search that met points without a solution
                warnings.simplefilter("ignore", kind)
            idata = bgp.fit(
                split.X,
                split.codes,
                kernel,
                bgp.MultinomialProbit(),
                method="tap",
                hyper=bgp.hyper.Evidence(starts=1),
                draws=1,
                chains=1,
                random_seed=1,
                progress=False,
            )
    except Exception as reason:  # whatever it is: that there is none is what is asked
        return {"raised": f"{type(reason).__name__}: {reason}", "log_evidence": None}
    return {"raised": "", "log_evidence": float(idata["fit"]["log_evidence"])}


def first(split: Split) -> Split:
    """Return a part of a table with fewer cases to learn from, where there are many."""
    return split._replace(X=split.X[:MOST], codes=split.codes[:MOST])


def conclude(results: Mapping[str, Any]) -> Findings:
    """Count what was raised, and say how far apart the ends are."""
    found = {table: [results[named(table, start)] for start in range(STARTS)] for table in TABLES}
    blocks: tuple[Block, ...] = (
        f"One Gaussian kernel with one length scale for all classes, tuned by the evidence of TAP from {STARTS} random "
        f"starts on the first part of each table, {MOST} cases at most: length scales from a tenth to ten times the "
        "median distance of two cases, variances from 0.1 to 100.",
        Table(
            "Searches that raised, that ended within 0.01 nats of the highest log evidence; the highest, the lowest.",
            ("Table", "Raised", "At the highest", "Highest", "Lowest"),
            [_row(table, ends) for table, ends in found.items()],
        ),
        *(
            f"{table}, start {start}: {end['raised']}"
            for table, ends in found.items()
            for start, end in enumerate(ends)
            if end["raised"]
        ),
    )
    return Findings(checks_of(found), blocks)


def checks_of(found: Mapping[str, list[Mapping[str, Any]]]) -> tuple[Check, ...]:
    """Return the checks: on no table a search raised."""
    return tuple(
        at_most(f"{table}: searches that raised, of {len(ends)}", float(sum(bool(end["raised"]) for end in ends)), 0.0)
        for table, ends in found.items()
    )


def _row(table: str, ends: list[Mapping[str, Any]]) -> tuple[str, ...]:
    reached = np.array([end["log_evidence"] for end in ends if not end["raised"]])
    if reached.size == 0:
        return table, f"{len(ends)}", "-", "-", "-"
    at_highest = int(np.sum(reached > reached.max() - 0.01))
    return table, f"{len(ends) - reached.size}", f"{at_highest}", f"{reached.max():.3f}", f"{reached.min():.3f}"


def named(table: str, start: int) -> str:
    """Return the name of a task."""
    return f"{table}, start {start}"


STUDY = Study(
    "class_searches",
    "Searches with several classes, from random starts",
    [
        Task(named(table, start), found_from, {"table": table, "start": start}, 10.0 if table == "digits" else 1.0)
        for table in TABLES
        for start in range(STARTS)
    ],
    conclude,
)
