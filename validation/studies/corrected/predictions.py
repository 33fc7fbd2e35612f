"""How much nearer to the truth probabilities come as ratios of corrected evidences, of new and of left-out cases.

Three questions: small problems of all kinds against exact integration; leave-one-out of thirty cases against exact
refits; and the tables of the papers, where the error is held against that of a Monte-Carlo average.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

import bayesgp_mf as bgp
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.reports.page import Figures, Table
from bayesgp_mf.types import Array
from validation.reporting.checks import Check, at_least, at_most
from validation.studies.corrected import prediction_figures
from validation.studies.corrected.small_problems import FIXED, NEW, Setting, problem_of, random_setting, solved
from validation.studies.corrected.truth import true_leave_one_out, true_probabilities
from validation.studies.leave_one_out import KERNELS, cases
from validation.studies.study import Findings, Study, Task

RANDOM = {"probit": 8, "step": 6, "logit": 6, "flip": 6}
"""How many at random of each kind; "flip" is a probit with labels that may be flipped."""
PROMISED = ("probit", "step", "logit")
"""The log-concave ones: with flips the correction can be worse than none, which is shown and not promised."""
LEFT_OUT = {
    "noise 0.1": Setting("probit", 30, 1.0, 4.0, 0.1),
    "noise 1": Setting("probit", 30, 2.0, 25.0, 1.0),
    "step": Setting("step", 30, 1.0, 1.0),
}
"""Small problems of which each case is left out; and as many cases of each table."""
TABLES: Mapping[str, tuple[str, Kernel]] = {
    "crabs, 4, 100": ("crabs", KERNELS["crabs"]),
    "sonar, 6.5, 100": ("sonar", KERNELS["sonar"]),
    "Pima, 6.4, 3.9": ("Pima", KERNELS["Pima"]),
    "Pima, 1.5, 25": ("Pima", bgp.kernels.Gaussian(1.5, 25.0)),
}
"""All training cases of a table, with length scale and variance: near the highest evidence, and a rougher one."""
DRAWS = 10_000
"""Independent draws whose Monte-Carlo error is the unit on the tables."""
FALL, GROWTH = 4.0, 5e-4
"""The largest error of a probability falls so many times in the median, and nowhere grows by more."""
KNOWN = 1e-3
"""Largest standard error of a true probability."""


def small(setting: Sequence[Any], seed: int, log2_points: int = 15, repeats: int = 8) -> dict[str, Any]:
    """Return the errors of `against_truth` at the new cases of a small problem."""
    posterior, X_new = problem_of(Setting(*setting), seed)
    return against_truth(posterior, X_new, log2_points, repeats)


def table(name: str, n: int | None = None, log2_points: int = 13, repeats: int = 8) -> dict[str, dict[str, Any]]:
    """Return the same at ``test`` and at ``training`` cases of a table, where a new label is asked for."""
    data, kernel = TABLES[name]
    split = cases(data, n)
    posterior = solved(kernel, split.X, split.t, bgp.Probit(1.0))
    inputs = {"test": split.X_test, "training": split.X}
    return {part: against_truth(posterior, X, log2_points, repeats) for part, X in inputs.items()}


def left_out(name: str, n: int = 30, log2_points: int = 14, repeats: int = 4) -> dict[str, Any]:
    """Return the same of the probability of each label given the others, without ``sd``."""
    if name in LEFT_OUT:
        posterior, _ = problem_of(LEFT_OUT[name]._replace(n=n), seed=n)
    else:
        split = cases(name, n)
        posterior = solved(KERNELS[name], split.X, split.t, bgp.Probit(1.0))
    truth, error = true_leave_one_out(posterior, log2_points, repeats)
    tap, corrected = np.exp(posterior.loo.log_density), np.exp(posterior.corrected_loo)
    return _lists(truth=truth, error=error, before=tap - truth, after=corrected - truth)


def against_truth(posterior: Posterior, X_new: Array, log2_points: int, repeats: int) -> dict[str, Any]:
    """Hold probabilities of class +1 against the exact ones.

    Returns
    -------
    dict
        Of each new case ``truth`` and its standard error ``error``; ``before`` and ``after`` the correction the error
        of TAP; ``sd`` over the posterior; ``corrected``, the part of the cases that are; and ``sum_error``, by how much
        the probabilities of the two labels miss one, at most, before they are made one.
    """
    truth = true_probabilities(posterior, X_new, log2_points, repeats)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the likelihood is not log-concave")  # which is what is looked at
        found = posterior.corrected_at(X_new)
    before, after = posterior.predict_proba(X_new) - truth.p, found.p - truth.p
    lists = _lists(truth=truth.p, error=truth.error, before=before, after=after, sd=truth.sd)
    return lists | {"corrected": float(np.mean(found.settled)), "sum_error": found.largest_sum_error}


def _lists(**values: Array) -> dict[str, Any]:
    return {name: value.tolist() for name, value in values.items()}


def largest(values: ArrayLike) -> float:
    """Return the largest size of some errors."""
    return float(np.max(np.abs(values)))


def rms(values: ArrayLike) -> float:
    """Return the root of the mean square."""
    return float(np.sqrt(np.mean(np.square(values))))


def conclude(results: Mapping[str, Any]) -> Findings:
    """Hold errors before and after the correction against each other, and on the tables against Monte Carlo."""
    settings = {name: results[name] for name in SETTINGS}
    promised = [found for name, found in settings.items() if SETTINGS[name].kind in PROMISED]
    flipped = [found for name, found in settings.items() if SETTINGS[name].kind not in PROMISED]
    without = {name: results[f"left out, {name}"] for name in (*LEFT_OUT, *KERNELS)}
    tables = {(name, part): found for name in TABLES for part, found in results[f"table, {name}"].items()}
    worse = sum(largest(found["after"]) > largest(found["before"]) for found in flipped)
    return Findings(
        checks_of(promised, list(without.values()), list(tables.values())),
        (
            f"Small problems: {len(FIXED)} on which the correction was first tried and {len(settings) - len(FIXED)} at "
            f"random, 8 to 30 cases in two dimensions, labels drawn from the model, {NEW} new cases. The truth is "
            "integrated: by minimax tilting, and for Logit by weighing points of a wider Gaussian. Where labels may be "
            "flipped (one in twenty, 8 to 12 cases) the likelihood is not log-concave, and nothing is promised: "
            f"the largest error grew in {worse} of {len(flipped)}, and fell {_fall(flipped):.1f} times in the median.",
            Table(
                "Largest error of a probability of a new label, over the new cases of a problem; last, by how much the "
                "probabilities of the two labels miss one before they are made one.",
                (
                    "",
                    "Cases",
                    "Length scale",
                    "Variance",
                    "Noise",
                    "TAP",
                    "Corrected",
                    "Fall, times",
                    "Se of the truth",
                    "Sum off one",
                ),
                [_small_row(name, found) for name, found in settings.items()],
            ),
            "Leave-one-out: the probability of each label given the others, against exact refits.",
            Table(
                "Largest and rms error of a leave-one-out probability, 30 cases.",
                ("", "TAP", "Corrected", "Fall, times", "TAP, rms", "Corrected, rms", "Se of the truth"),
                [_loo_row(name, found) for name, found in without.items()],
            ),
            f"The tables, all training cases, probit of noise variance 1. An average over {DRAWS} independent draws of "
            "the exact posterior has a Monte-Carlo error too, which is the unit of the last two columns: below one, a "
            "sample of that size would not have found the error. Training cases are asked for a new label at their "
            "inputs.",
            Table(
                "Errors of probabilities on the tables (length scale, variance).",
                (
                    "",
                    "Cases",
                    "TAP, largest",
                    "Corrected",
                    "TAP, rms",
                    "Corrected",
                    "Se of the truth",
                    "TAP",
                    "Corrected",
                ),
                [_table_row(f"{name}, {part}", found) for (name, part), found in tables.items()],
            ),
            Figures(
                [
                    prediction_figures.falls(_by_kind(settings), FALL),
                    prediction_figures.on_tables(tables),
                ]
            ),
        ),
    )


def checks_of(
    small: Sequence[Mapping[str, Any]], without: Sequence[Mapping[str, Any]], tables: Sequence[Mapping[str, Any]]
) -> tuple[Check, ...]:
    """Return the checks of the small problems that are promised, of leave-one-out, and of the tables."""
    opposite = [largest(2.0 * np.array(f["before"]) - f["after"]) / largest(f["before"]) for f in (*small, *without)]
    return (
        at_least("Small problems: median fall of the largest error, times", _fall(small), FALL),
        at_most("Small problems: largest growth of the largest error", _growth(small), GROWTH),
        at_least("Leave-one-out: median fall of the largest error, times", _fall(without), FALL),
        at_most("Leave-one-out: largest growth of the largest error", _growth(without), GROWTH),
        at_most("Largest rms standard error of the true probabilities", _uncertain((*small, *without)), KNOWN),
        at_most(f"Tables: rms error corrected, in errors of {DRAWS} draws", max(_units(f)[1] for f in tables), 1.0),
        at_least("Tables: the same of TAP, where it is largest", max(_units(f)[0] for f in tables), 1.0),
        at_least("Cases of all that are corrected, share", min(f["corrected"] for f in (*small, *tables)), 1.0),
        at_least("Control: the other sign, error over that of TAP, median", np.median(opposite), 1.5),
    )


def _fall(found: Sequence[Mapping[str, Any]]) -> float:
    return float(np.median([largest(each["before"]) / largest(each["after"]) for each in found]))


def _growth(found: Sequence[Mapping[str, Any]]) -> float:
    return max(largest(each["after"]) - largest(each["before"]) for each in found)


def _uncertain(found: Sequence[Mapping[str, Any]]) -> float:
    return max(rms(each["error"]) for each in found)


def _units(found: Mapping[str, Any]) -> tuple[float, float]:
    """Return the rms errors before and after in Monte-Carlo errors of so many draws."""
    unit = rms(found["sd"]) / np.sqrt(DRAWS)
    return rms(found["before"]) / unit, rms(found["after"]) / unit


def _by_kind(settings: Mapping[str, Mapping[str, Any]]) -> dict[str, list[tuple[float, float]]]:
    kinds: dict[str, list[tuple[float, float]]] = {}
    for name, found in settings.items():
        kinds.setdefault(SETTINGS[name].kind, []).append((largest(found["before"]), largest(found["after"])))
    return kinds


def _falls(found: Mapping[str, Any]) -> tuple[str, str, str]:
    before, after = largest(found["before"]), largest(found["after"])
    return f"{before:.4f}", f"{after:.4f}", f"{before / after:.1f}"


def _small_row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    setting = SETTINGS[name]
    kernel = (f"{setting.lengthscale:.2f}", f"{setting.variance:.3g}")
    noise = "" if setting.kind == "logit" else f"{setting.noise:.2g}"
    return (
        name,
        f"{setting.n}",
        *kernel,
        noise,
        *_falls(found),
        f"{largest(found['error']):.4f}",
        f"{found['sum_error']:.4f}",
    )


def _loo_row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    errors = (rms(found["before"]), rms(found["after"]), largest(found["error"]))
    return (name, *_falls(found), *(f"{error:.4f}" for error in errors))


def _table_row(name: str, found: Mapping[str, Any]) -> tuple[str, ...]:
    before, after = found["before"], found["after"]
    errors = (largest(before), largest(after), rms(before), rms(after), rms(found["error"]))
    return (name, f"{len(before)}", *(f"{e:.4f}" for e in errors), *(f"{unit:.2f}" for unit in _units(found)))


SETTINGS: Mapping[str, Setting] = {
    **{f"tried first, {k + 1}": setting for k, setting in enumerate(FIXED)},
    **{
        f"{kind}, {k + 1}": random_setting(kind, 100 * list(RANDOM).index(kind) + k)
        for kind, count in RANDOM.items()
        for k in range(count)
    },
}
STUDY = Study(
    "corrected_predictions",
    "Probabilities as ratios of corrected evidences",
    [
        *(Task(name, small, {"setting": list(s), "seed": k}) for k, (name, s) in enumerate(SETTINGS.items())),
        *(Task(f"left out, {name}", left_out, {"name": name}, cost=4.0) for name in (*LEFT_OUT, *KERNELS)),
        *(Task(f"table, {name}", table, {"name": name}, cost=10.0) for name in TABLES),
    ],
    conclude,
)
