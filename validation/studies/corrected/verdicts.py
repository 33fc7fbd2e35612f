"""Whether a fit is right about itself: the error of probabilities that it states against the true one.

Small problems of all kinds, whose exact probabilities are integrated, at new inputs and at all training inputs. A
verdict that cries where TAP is good is as wrong as one that is silent where it is not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.container.quality import FAIR_PROBABILITY
from bayesgp_mf.reports.page import Figures, Table
from validation.reporting.checks import Check, at_least, at_most
from validation.reporting.drawing import FIRST, QUIET, SECOND, axes_or_new, legend_above
from validation.studies.corrected.small_problems import Setting, problem_of
from validation.studies.corrected.truth import true_probabilities
from validation.studies.study import Findings, Study, Task

SEED = 181
PROBLEMS = {"probit": 36, "step": 16, "logit": 12, "flip": 6}
"""How many of each kind; "flip" is a probit with labels that may be flipped."""
PROMISED = ("probit", "step", "logit")
"""The log-concave ones: with flips the correction itself can be worse than none."""
SMALL = 0.01
"""True errors below this are none to cry about."""
WRONGLY_OFF, WITHIN, FOUND = 0.05, 0.95, 0.95
"""Shares: of problems with such an error that are called off; of errors that are within what is stated; of those too
large for a fair fit that are called off."""
TIMES_MEDIAN = 2.0
"""What is stated is so many times the error in the median, at most: a bound that is far away would be none."""
CERTAIN, KNOWN = 5e-3, 0.9
"""Largest standard error of a true probability, and the share of problems in which it is smaller."""


def random_setting(kind: str, number: int) -> Setting:
    """Return a small problem at random, from almost no data to many cases for a length scale."""
    rng = np.random.default_rng([SEED, number])
    n = int(rng.integers(3, 13 if kind == "flip" else 40))
    lengthscale, variance = (float(np.exp(rng.uniform(*np.log(ends)))) for ends in ((0.5, 3.0), (0.3, 100.0)))
    noise = float(np.exp(rng.uniform(*np.log((0.03, 3.0))))) if kind in ("probit", "flip") else 0.0
    return Setting(kind, n, lengthscale, variance, noise, 0.05 if kind == "flip" else 0.0)


def judged(setting: Sequence[Any], seed: int, log2_points: int = 12, repeats: int = 3) -> dict[str, Any]:
    """Return what a fit says of itself, and what is true.

    Returns
    -------
    dict
        ``n``; ``new`` and ``training``, the largest true errors of probabilities at inputs of both kinds, and the
        largest standard error of the truth, ``uncertain``; ``stated``, and what would be ``estimated`` had it not been
        measured; ``left_out``, nats; ``verdict``.
    """
    problem, X_new = problem_of(Setting(*setting), seed)
    while np.ptp(problem.problem.t) == 0.0:  # of one label alone there is no fit
        seed += len(SETTINGS)
        problem, X_new = problem_of(Setting(*setting), seed)
    idata = bgp.fit(
        problem.X, problem.problem.t, problem.kernel, problem.problem.likelihood,
        draws=1, chains=1, random_seed=0, progress=False,
    )  # fmt: skip
    said, posterior = bgp.diagnostics.quality(idata), bgp.posterior(idata)
    X = np.vstack([X_new, problem.X])
    truth = true_probabilities(problem, X, log2_points, repeats)
    off = np.abs(posterior.predict_proba(X) - truth.p)
    return {
        "n": said.n,
        "new": float(off[: len(X_new)].max()),
        "training": float(off[len(X_new) :].max()),
        "uncertain": float(truth.error.max()),
        "stated": said.probability_error,
        "estimated": replace(said, probability_shift=None).probability_error,
        "left_out": said.left_out,
        "verdict": said.verdict,
    }


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold what is stated against what is true, and count verdicts that are wrong either way."""
    rows = {name: results[name] for name in SETTINGS if results[name]["uncertain"] < CERTAIN}
    promised = [row for name, row in rows.items() if SETTINGS[name].kind in PROMISED]
    kinds = {kind: [row for name, row in rows.items() if SETTINGS[name].kind == kind] for kind in PROBLEMS}
    return Findings(
        (at_least("Share of problems whose truth is known", len(rows) / len(SETTINGS), KNOWN), *_checks(promised)),
        (
            f"{', '.join(f'{count} {kind}' for kind, count in PROBLEMS.items())}: 3 to 39 cases in two dimensions "
            "(with flips to 12), Gaussian kernels with length scales from 0.5 to 3 and variances from 0.3 to 100, "
            "probit noise of variance 0.03 to 3, labels drawn from the model. The truth is integrated at 12 new inputs "
            f"and at all training inputs; {len(SETTINGS) - len(rows)} problems in which a probability is less certain "
            f"than {CERTAIN:g} are left out. With flips nothing is measured and nothing promised.",
            Table(
                "Largest true errors of probabilities against what the fits state of themselves. Small: problems with "
                f"errors below {SMALL:g}; large: above {FAIR_PROBABILITY:g}. Estimated is what the evidence alone "
                "would say.",
                (
                    *("", "Problems", "Within what is stated", "Stated / true, median", "Small", "of these off"),
                    *("Large", "of these off", "Within what is estimated"),
                ),
                [(kind, *_row(found)) for kind, found in kinds.items()],
            ),
            Table(
                "Each problem.",
                ("", "Cases", "Error, new", "Error, training", "Stated", "Estimated", "Nats left out", "Verdict"),
                [(name, *_each(row)) for name, row in rows.items()],
            ),
            Figures([_figure(promised)]),
        ),
    )


def _checks(rows: Sequence[Mapping[str, Any]]) -> tuple[Check, ...]:
    small = [row for row in rows if _true(row) < SMALL]
    large = [row for row in rows if _true(row) > FAIR_PROBABILITY]
    halved = [row | {"stated": 0.5 * row["stated"]} for row in rows]
    return (
        at_least("Problems with a small error", len(small), 10),
        at_least("Problems with a large error", len(large), 10),
        at_most("Share of those with a small error that are called off", _share_off(small), WRONGLY_OFF),
        at_least("Share of those with a large error that are called off", _share_off(large), FOUND),
        at_least("Share of errors within what is stated", _share_within(rows), WITHIN),
        at_most("Stated over true, median", _times(rows), TIMES_MEDIAN),
        at_most("Control: share within half of what is stated", _share_within(halved), 0.5),
    )


def _true(row: Mapping[str, Any]) -> float:
    return float(max(row["new"], row["training"]))


def _share_off(rows: Sequence[Mapping[str, Any]]) -> float:
    return float(np.mean([row["verdict"] == "off" for row in rows])) if rows else np.nan  # which fails its check


def _share_within(rows: Sequence[Mapping[str, Any]], what: str = "stated") -> float:
    return float(np.mean([_true(row) <= row[what] for row in rows]))


def _times(rows: Sequence[Mapping[str, Any]]) -> float:
    return float(np.median([row["stated"] / _true(row) for row in rows]))


def _row(rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
    small = [row["verdict"] == "off" for row in rows if _true(row) < SMALL]
    large = [row["verdict"] == "off" for row in rows if _true(row) > FAIR_PROBABILITY]
    counts = [f"{len(rows)}", f"{_share_within(rows):.0%}", f"{_times(rows):.1f}"]
    counts += [f"{n}" for found in (small, large) for n in (len(found), sum(found))]
    return (*counts, f"{_share_within(rows, 'estimated'):.0%}")


def _each(row: Mapping[str, Any]) -> tuple[str, ...]:
    numbers = (f"{row[name]:.4f}" for name in ("new", "training", "stated", "estimated"))
    return (f"{row['n']}", *numbers, f"{row['left_out']:.3f}", row["verdict"])


def _figure(rows: Sequence[Mapping[str, Any]]) -> tuple[Any, str]:
    """Draw true errors against what is stated, and against what would be estimated."""
    ax = axes_or_new(None)
    true = np.array([_true(row) for row in rows])
    ends = np.array([0.002, 0.5])
    ax.plot(ends, ends, color=QUIET, zorder=1, label="as stated")
    for what, color in (("estimated", SECOND), ("stated", FIRST)):
        ax.plot([row[what] for row in rows], np.maximum(true, 1e-5), "o", color=color, markersize=4, label=what)
    ax.set(xscale="log", yscale="log", xlabel="stated error of a probability", ylabel="largest true error")
    legend_above(ax)
    return (
        ax,
        "The largest true error of a probability against what is stated, measured, and what was estimated.",
    )


SETTINGS: Mapping[str, Setting] = {
    f"{kind}, {k + 1}": random_setting(kind, 100 * number + k)
    for number, (kind, count) in enumerate(PROBLEMS.items())
    for k in range(count)
}
STUDY = Study(
    "corrected_quality",
    "Whether a fit is right about its own quality",
    [Task(name, judged, {"setting": list(s), "seed": 1000 + k}) for k, (name, s) in enumerate(SETTINGS.items())],
    conclude,
)
