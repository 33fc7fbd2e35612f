"""Whether fits to differences and slopes are right, and right about themselves, also where faces crowd.

Expectation propagation can be arbitrarily wrong on polyhedra with crowded, contradictory or duplicated faces [1]_.

References
----------
.. [1] Cunningham, J. P., Hennig, P., & Lacoste-Julien, S. (2011). Gaussian probabilities and expectation propagation.
   arXiv:1111.6832.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.container.quality import GOOD_PROBABILITY
from bayesgp_mf.reports.page import Table
from validation.reporting.checks import Check, at_least, at_most
from validation.studies.corrected.truth import true_probabilities
from validation.studies.functional_problems import KINDS, TABLES, Duels, Problem, random_set
from validation.studies.functional_records import Draws, recorded
from validation.studies.study import Findings, Study, Task

CERTAIN, KNOWN = 5e-3, 0.95
"""Largest standard error of a true probability, and the share of sets in which it is smaller."""
WITHIN = 0.95
"""Share of sets whose largest error is within what is stated."""
SMALL, WRONGLY_OFF = 0.01, 0.05
"""Of sets with errors below the first at most this share is called off."""
TAP, CORRECTED, LAPLACE = 0.07, 0.02, 0.03
"""Largest errors on the tables of theory: allowed to TAP and to corrected probabilities, beside three standard errors
of the draws; and what Laplace's method, the control, is off by at least in the median."""
OPTIONS: dict[str, Any] = {"draws": 1, "chains": 1, "random_seed": 0, "progress": False}


def judged(kind: str, number: int, log2_points: int = 12, repeats: int = 3) -> dict[str, Any]:
    """Return what a fit of a random set says of itself, and what is true.

    Returns
    -------
    dict
        ``n``; ``off`` and ``corrected``, the largest true errors of probabilities, over new cases and those that are
        there, and the largest standard error of the truth, ``uncertain``; ``stated``; ``verdict``.
    """
    given = random_set(kind, number)
    X = np.vstack([given.X_new, given.X])
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "probabilities of these new cases may be off")  # which is what is looked at
        idata = bgp.predict(_fitted(given), X, draws=False)
    said, posterior = bgp.diagnostics.quality(idata), bgp.posterior(idata)
    truth = true_probabilities(posterior, X, log2_points, repeats)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the corrected probabilities of the two labels")
        better = posterior.predict_proba(X, corrected=True)
    return {
        "n": given.t.size,
        "off": float(np.max(np.abs(posterior.predict_proba(X) - truth.p))),
        "corrected": float(np.max(np.abs(better - truth.p))),
        "uncertain": float(truth.error.max()),
        "stated": max(said.probability_error or 0.0, said.new_probability_error or 0.0),
        "verdict": said.verdict,
    }


def against_draws(name: str) -> dict[str, Any]:
    """Return the largest errors on a table of theory, by Laplace's method, by TAP and corrected, against its draws."""
    given, draws = TABLES[name].problem(), recorded(name)
    idata = _fitted(given)
    found = {
        "laplace": bgp.posterior(_fitted(given, method="laplace")).predict_proba(given.X_new),
        "tap": bgp.posterior(idata).predict_proba(given.X_new),
        "corrected": bgp.posterior(idata).predict_proba(given.X_new, corrected=True),
    }
    return {"error": max(draws.error), **{how: _largest(p, draws) for how, p in found.items()}}


def _largest(p: Any, draws: Draws) -> float:
    return float(np.max(np.abs(p - np.array(draws.p))))


def _fitted(given: Problem, **options: Any) -> Any:
    return bgp.fit(given.X, given.t, given.kernel, bgp.Probit(1.0), **OPTIONS, **options)


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold what is stated against what is true, and the tables of theory against their draws."""
    tables = {name: results[name] for name in TABLES}
    every = {kind: [results[f"{kind}, {k}"] for k in range(count)] for kind, count in KINDS.items()}
    known = {kind: [row for row in rows if row["uncertain"] < CERTAIN] for kind, rows in every.items()}
    sets = [row for rows in known.values() for row in rows]
    return Findings(
        (
            at_least("Share of sets whose truth is known", len(sets) / sum(KINDS.values()), KNOWN),
            *_checks_of_sets(sets),
            *_checks_of_tables(list(tables.values())),
        ),
        (
            f"{sum(KINDS.values())} random sets of 8 to 110 cases under a probit: duels of items with features, few "
            "duels many times, cycles in which each beats the next, orders in which the earlier always wins, labels "
            "and rising slopes on a line, and 60 slopes on a short one, with noise variances down to 0.0001. The truth "
            f"is integrated at all cases and at new ones; {sum(KINDS.values()) - len(sets)} sets in which a "
            f"probability is less certain than {CERTAIN:g} are left out.",
            Table(
                "Random sets: largest errors of probabilities, and what the fits say of themselves.",
                (
                    *("", "Sets", "Median error", "Largest", "Largest, corrected", "Within what is stated"),
                    *("Stated / true, median", "good", "fair", "off"),
                ),
                [(kind, *_row(rows)) for kind, rows in known.items()],
            ),
            Table(
                "Tables of theory: items, duels, noise variance, seed; or labels, places of slopes, noise variance, "
                "seed. Largest error of a probability at 40 new duels or 25 new labels, against recorded exact draws.",
                ("", "Laplace", "TAP", "Corrected", "Largest se of the draws"),
                [(name, *_of_table(row)) for name, row in tables.items()],
            ),
        ),
    )


def _checks_of_sets(rows: Sequence[Mapping[str, Any]]) -> tuple[Check, ...]:
    small = [row["verdict"] == "off" for row in rows if row["off"] < SMALL]
    wrongly = sum(row["verdict"] == "good" and row["off"] > GOOD_PROBABILITY for row in rows)
    good = sum(row["verdict"] == "good" for row in rows)
    return (
        at_least("Share of errors within what is stated", _within(rows, 1.0), WITHIN),
        at_least("Sets that are called good", good, 50),
        at_most(f"Sets with an error above {GOOD_PROBABILITY:g} that are called good", wrongly, 0),
        at_most("Share of those with a small error that are called off", float(np.mean(small)), WRONGLY_OFF),
        at_most("Control: share within a third of what is stated", _within(rows, 1.0 / 3.0), 0.5),
    )


def _checks_of_tables(rows: Sequence[Mapping[str, Any]]) -> tuple[Check, ...]:
    laplace = [row["laplace"] for row in rows]
    certain = [{how: row[how] - 3.0 * row["error"] for how in ("tap", "corrected")} for row in rows]
    return (
        at_most("Tables of theory: TAP's largest error", max(row["tap"] for row in certain), TAP),
        at_most("Tables of theory: largest error, corrected", max(row["corrected"] for row in certain), CORRECTED),
        at_least("Control: Laplace's largest error, median", float(np.median(laplace)), LAPLACE),
    )


def _of_table(row: Mapping[str, Any]) -> tuple[str, ...]:
    return tuple(f"{row[key]:.4f}" for key in ("laplace", "tap", "corrected", "error"))


def _within(rows: Sequence[Mapping[str, Any]], part: float) -> float:
    return float(np.mean([row["off"] <= part * row["stated"] for row in rows]))


def _row(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    off = [row["off"] for row in rows]
    words = [row["verdict"] for row in rows]
    return (
        f"{len(rows)}",
        *(f"{value:.4f}" for value in (np.median(off), max(off), max(row["corrected"] for row in rows))),
        f"{_within(rows, 1.0):.0%}",
        f"{np.median([row['stated'] / row['off'] for row in rows]):.1f}",
        *(f"{words.count(word)}" for word in ("good", "fair", "off")),
    )


STUDY = Study(
    "functionals",
    "Differences and slopes, crowded and contradictory",
    [
        *(
            Task(f"{kind}, {k}", judged, {"kind": kind, "number": k})
            for kind, count in KINDS.items()
            for k in range(count)
        ),
        *(
            Task(name, against_draws, {"name": name}, cost=50.0 if isinstance(each, Duels) else 1.0)
            for name, each in TABLES.items()
        ),
    ],
    conclude,
)
