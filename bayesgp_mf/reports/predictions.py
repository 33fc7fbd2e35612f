"""How well targets are predicted: those of the fit, each left out, and those of new cases."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.container.groups import get_group
from bayesgp_mf.diagnostics.predicted import log_predictive_density, predicted
from bayesgp_mf.diagnostics.scores import class_scores
from bayesgp_mf.diagnostics.worst_cases import log_densities, worst_cases
from bayesgp_mf.plots import plot_calibration, plot_confusion, plot_counts, plot_loo, plot_roc
from bayesgp_mf.reports.page import Block, Figures, Section, Table
from bayesgp_mf.reports.subject import Subject, number, or_words

WORST, INPUTS = 10, 6
"""Cases that are listed, and inputs that are stated of each."""
MOST_CLASSES = 6
"""Classes whose calibration is drawn."""


def calibration(about: Subject) -> Section:
    """Return the section on predictions of the cases of the fit, each from the others."""
    intro = (
        "Each case of the fit is predicted from all others, at the same hyperparameters. These were chosen with the "
        "case among them, so that new cases may be predicted somewhat worse."
    )
    return Section("Predicting each case from the others", [intro, *or_words(lambda: _score(about)), *_figures(about)])


def _score(about: Subject) -> str:
    each = log_densities(about.idata).values
    text = f"Mean log predictive density: {np.mean(each):.4f} nats a case, {np.sum(each):.2f} in all."
    if not about.classes:
        return text
    return f"{text} Guessing among {len(about.classes)} classes scores {-np.log(len(about.classes)):.4f}."


def _figures(about: Subject, y_new: ArrayLike | None = None) -> list[Block]:
    """Return the figures that suit the targets; a fit that has none of what they show says so."""
    found = cache(
        lambda: predicted(about.idata, y_new, **about.given)
    )  # of an average over many settings it takes long
    drawn: list[Any] = []
    if about.classes:
        drawn.append(lambda: (plot_confusion(found()), "Which classes are taken for which."))
    if len(about.classes) == 2:
        drawn.append(lambda: (plot_roc(found()), "How well the two classes are told apart."))
    if not about.classes and (about.first.is_rate or about.first.is_share):
        drawn.append(lambda: (plot_counts(found()), _COUNTS))
    several = len(about.classes) > 2
    names: Sequence[str | None] = about.classes[:MOST_CLASSES] if several else [None]
    for name in names:
        text = f"{name}: {_CALIBRATION[0].lower()}{_CALIBRATION[1:]}" if name else _CALIBRATION
        drawn.append(lambda c=name, s=text: (plot_calibration(found(), class_name=c), s))
    return or_words(*(lambda make=make: Figures([make()]) for make in drawn))


_CALIBRATION = (
    "What was observed against what was predicted. If the fit is calibrated, the points or the line are near the "
    "diagonal."
)
_COUNTS = (
    "How many cases have each count, hanging from how many were expected to. Bars that end within the band are within "
    "two standard errors."
)


def worst(about: Subject) -> Section:
    """Return the section on the cases that are predicted worst."""
    drawn = or_words(
        lambda: _worst_table(about), lambda: Figures([(plot_loo(about.idata, inputs=0, **about.given), _LOO)])
    )
    return Section("Worst cases", drawn)


_LOO = "What the other cases predict for each case, with the labels of those that are predicted worst."


def _worst_table(about: Subject) -> Block:
    found = worst_cases(about.idata, WORST, inputs=INPUTS, **about.given)
    rows = [
        (label, target, f"{density:.3f}", *values)
        for label, target, density, values in zip(
            found.labels, found.targets, found.log_density, found.values, strict=True
        )
    ]
    left = len(about.first.names) - len(found.features)
    more = (
        f" The {len(found.features)} inputs that do most are stated, of {left + len(found.features)}." if left else ""
    )
    caption = (
        "The cases that the others predict worst: look for mistakes in the data, and for what the model does not know."
        f"{more}"
    )
    return Table(caption, ("Case", "Target", "Log density (nats)", *found.features), rows)


def new_cases(about: Subject, y_test: ArrayLike | None, X_test: ArrayLike | None) -> Section:
    """Return the section on the new cases in the group ``predictions``; ``y_test`` are their targets."""
    predictions = get_group(about.idata, "predictions")
    m = predictions.sizes["obs_id"] if "obs_id" in predictions.sizes else len(predictions["latent_mean"])
    blocks: list[Block] = [f"{m} cases that the fit has not seen."]
    if y_test is None:
        blocks += or_words(lambda: _predicted_table(about))
        blocks.append("Their targets were not given: with y_test they would be scored here.")
        return Section("New cases", blocks)
    if np.shape(y_test) != (m,):
        raise ValueError(f"y_test must have a target for each of the {m} new cases, got shape {np.shape(y_test)}.")
    # a target that is none of this fit's is a mistake of the call, and not something that the fit does not have
    return Section("New cases", [*blocks, _new_score(about, y_test, X_test), *_figures(about, y_test)])


def _predicted_table(about: Subject) -> Block:
    """Return how predictions are spread over the new cases."""
    predictions = get_group(about.idata, "predictions")
    name, text = next(
        (each for each in (("p", "Probability"), ("y_mean", "Mean of the target")) if each[0] in predictions),
        ("latent_mean", "Latent value"),
    )
    values = predictions[name].values
    classes = about.classes if values.ndim > 1 else about.classes[1:2] or ("target",)
    rows = [
        (one, *(number(value) for value in np.quantile(column, [0.0, 0.25, 0.5, 0.75, 1.0])))
        for one, column in zip(classes, np.atleast_2d(values.T), strict=True)
    ]
    head = ("", "Smallest", "25 %", "Median", "75 %", "Largest")
    return Table(f"{text}, as predicted for the new cases.", head, rows)


def _new_score(about: Subject, y_test: ArrayLike, X_test: ArrayLike | None) -> Block:
    predictions = get_group(about.idata, "predictions")
    if "p" in predictions:
        p = predictions["p"].values
        both = np.stack([1.0 - p, p], axis=1) if p.ndim == 1 else p
        found = class_scores(y_test, both, about.classes)
        rows = [
            ("Cases", f"{found.cases}", ""),
            ("Errors", f"{found.errors}", f"{found.errors / found.cases:.1%} of the cases"),
            ("Mean log score", f"{found.log_score:.4f}", "nats a case; higher is better"),
            ("Guessing", f"{-np.log(len(about.classes)):.4f}", "nats a case"),
            ("Brier score", f"{found.brier_score:.4f}", "lower is better"),
        ]
        return Table("Scores of the predicted probabilities.", ("Score", "Value", ""), rows)
    data = get_group(about.idata, "predictions_constant_data")
    facts: dict[str, Any] = {name: data[name].values for name in about.first.likelihood.new_case_facts if name in data}
    X = data["X"].values if X_test is None else X_test
    each = log_predictive_density(about.idata, X, y_test, **about.given, **facts)
    rows = [
        ("Cases", f"{len(each)}", ""),
        ("Mean log predictive density", f"{np.mean(each):.4f}", "nats a case; higher is better"),
        ("Of the worst case", f"{np.min(each):.4f}", "nats"),
    ]
    if "y_mean" in predictions:
        off = np.asarray(y_test, dtype=np.float64) - predictions["y_mean"].values
        rows.append(("Root mean square error", number(np.sqrt(np.mean(off**2))), "in the units of the target"))
    return Table("Scores of the predicted targets.", ("Score", "Value", ""), rows)
