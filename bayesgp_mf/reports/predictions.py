"""What a fit predicts: along its inputs, for its own cases, each left out, and for new ones."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, partial
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf import plots
from bayesgp_mf.container.groups import Container, get_group, group_or_empty
from bayesgp_mf.container.loo import log_densities
from bayesgp_mf.diagnostics.compare import compare
from bayesgp_mf.diagnostics.curves import relevance
from bayesgp_mf.diagnostics.fitted import Fitted
from bayesgp_mf.diagnostics.loo import worst_cases
from bayesgp_mf.diagnostics.misfit import misfit_of
from bayesgp_mf.diagnostics.predicted import log_predictive_density, predicted
from bayesgp_mf.diagnostics.scores import class_scores
from bayesgp_mf.duels import Duels
from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.inputs.limits import have_two_parts
from bayesgp_mf.plots.surface import grid_of_classes
from bayesgp_mf.reports.page import Block, Figures, Section, Table, number, or_words

OWN = "this fit"
"""What the fit of the page is called beside others."""
WORST, INPUTS = 10, 6
"""Cases that are listed, and inputs that are stated of each."""
MOST_CLASSES = 6
"""Classes whose calibration is drawn."""

MOST_INPUTS, CLASS_POINTS = 4, 25
"""Of fits to several classes: how many inputs are drawn, and at how many values of each."""
NAMED = 30
"""Inputs without effect that are named."""
SEED = 1
"""Of draws of utilities: a page is the same each time."""


def duels(about: Fitted) -> Section:
    """Return the section on the items of duels."""
    found = cache(lambda: Duels.from_fit(about.idata))
    utility = "Items by their utility, of which only differences are known."
    beats = "Who beats whom: the probability that the item of the row wins, and what was."
    drawn = or_words(
        lambda: Figures([(plots.plot_utility(about.idata, found(), random_seed=SEED), utility)]),
        lambda: Figures([(plots.plot_duels(about.idata, found(), random_seed=SEED), beats)]),
        lambda: _common(found().common),
    )
    return Section("Who is best", drawn)


def _common(common: Mapping[str, Any]) -> list[Block]:
    """Return at which values of what both sides have in common utilities are shown, if there is any."""
    at = [f"{name} = {value if isinstance(value, str) else number(value)}" for name, value in common.items()]
    return [f"Both figures are for {', '.join(at)}."] if at else []


def effects(about: Fitted) -> Section:
    """Return the section on the inputs."""
    makes = [_curves] if len(about.names) == 1 else [_unused, _curves, _relevance]
    return Section("What the inputs do", or_words(*(partial(make, about) for make in makes)))


def _curves(fit: Fitted) -> Block:
    idata, several, given, scale = fit.idata, fit.likelihood.has_classes, fit.given, _scale(fit)
    what = "What is predicted" if scale == "target" else "The latent function, as a target has no finite mean,"
    if len(fit.names) == 1:
        text = "What is predicted along the input, with the cases."
        drawn = [(plots.plot_latent(idata, scale=scale, **given), text)] if scale == "target" else []
        text = "The latent function, with bands that hold it with 50 and 90 % probability."
        return Figures([*drawn, (plots.plot_latent(idata, **given), text)])
    if len(fit.names) == len(fit.stated) == 2 and not fit.levels:
        text = f"{what} over the two inputs, with the cases."
        points = grid_of_classes(CLASS_POINTS, len(fit.classes)) if several else None
        return Figures([(plots.plot_surface(idata, scale=scale, points=points, **given), text)])
    if several:  # an average over cases takes minutes where there is an integral for each class
        order = np.argsort(-relevance(idata, **given).effect, kind="stable")[:MOST_INPUTS]
        text = "what is predicted along an input, the others at their medians."
        draw = partial(plots.plot_latent, idata, scale="target", points=CLASS_POINTS, **given)
        return Figures([(draw(feature=int(column)), f"{fit.names[column]}: {text}") for column in order])
    axes = plots.plot_partial_dependence(idata, scale=scale, **given)
    left = len(fit.stated) - len(axes)
    some = f" of the {len(axes)} that do most" if left > 0 else ""
    text = (
        f"{what} along each input{some}, averaged over the cases, with a band that holds the "
        "average with 90 % probability. A flat curve is an input that does nothing by itself."
    )
    return Figures([(axes, text)])


def _scale(fit: Fitted) -> Literal["latent", "target"]:
    """Return on which scale to draw: that of the target, if it has a mean."""
    try:
        fit.expected(fit.X[:1])
    except ValueError:
        return "latent"
    return "target"


def _unused(fit: Fitted) -> Block:
    found = relevance(fit.idata, **fit.given)
    unused = [name for name, is_unused in zip(found.features, found.unused, strict=True) if is_unused]
    if not unused:
        return "Each input does something to the prediction."
    more = f" and {len(unused) - NAMED} more" if len(unused) > NAMED else ""
    return (
        f"{len(unused)} of {len(found.features)} inputs do nothing (exchanging their values between cases changes "
        f"the prediction by less than 1 % of its variance): {', '.join(unused[:NAMED])}{more}."
    )


def _relevance(fit: Fitted) -> Block:
    text = "How much each input does to the prediction, alone and together with others."
    return Figures([(plots.plot_relevance(fit.idata, **fit.given), text)])


def calibration(about: Fitted) -> Section:
    """Return the section on predictions of the cases of the fit, each from the others."""
    how = "at the hyperparameters that were given."
    if about.process.averaged:
        how = "by an average of settings whose weights leave the case out, too."
    elif about.fit.attrs.get("hyper", "none") != "none":
        how = (
            "at the same hyperparameters. These were chosen with the case among them, so that new cases may be "
            "predicted somewhat worse."
        )
    blocks = [*or_words(lambda: _score(about)), *or_words(lambda: _model(about)), *_figures(about)]
    return Section(
        "Predicting each case from the others", [f"Each case of the fit is predicted from all others, {how}", *blocks]
    )


def misfits(about: Fitted) -> list[str]:
    """Return what is wrong with the model, a sentence, or nothing."""
    try:
        sentence = misfit_of(about.idata, about.left_out).sentence
    except UndefinedQuantityError:  # which the section on predictions says
        return []
    return [sentence] if sentence else []


def _model(about: Fitted) -> str:
    found = misfit_of(about.idata, about.left_out)
    beside = "" if found.constant is None else f"A constant scores {found.constant:.4f} nats a case."
    coverage = "" if found.coverage is None else f" The central 90 % intervals hold {found.coverage:.0%} of the cases."
    return f"{beside}{coverage} {found.sentence or 'Nothing here speaks against the model.'}".strip()


def _score(about: Fitted) -> str:
    each = log_densities(about.idata).values
    text = f"Mean log predictive density: {np.mean(each):.4f} nats a case, {np.sum(each):.2f} in all."
    if not about.classes:
        return text
    return f"{text} Guessing among {len(about.classes)} classes scores {-np.log(len(about.classes)):.4f}."


def _figures(about: Fitted, y_new: ArrayLike | None = None) -> list[Block]:
    """Return the figures that suit the targets; a fit that has none of what they show says so."""
    found = cache(lambda: about.left_out if y_new is None else predicted(about.idata, y_new, **about.given))
    drawn: list[tuple[Any, str]] = []
    if about.classes:
        drawn.append((plots.plot_confusion, "Which classes are taken for which."))
    if len(about.classes) == 2:
        drawn.append((plots.plot_roc, "How well the two classes are told apart."))
    if not about.classes and (about.is_rate or about.is_share):
        drawn.append((plots.plot_counts, _COUNTS))
    if y_new is None and about.likelihood.is_real and about.likelihood.of_one_case.of_times:
        drawn.append((lambda _: plots.plot_survival(about.idata, random_seed=SEED, **about.given), _SURVIVAL))
    if len(about.classes) > 2:
        for name in about.classes[:MOST_CLASSES]:
            drawn.append((partial(plots.plot_calibration, class_name=name), f"{name}: what{_CALIBRATION}"))
    else:
        drawn.append((plots.plot_calibration, f"What{_CALIBRATION}"))
    return or_words(*(lambda draw=draw, text=text: Figures([(draw(found()), text)]) for draw, text in drawn))


_CALIBRATION = (
    " was observed against what was predicted. If the fit is calibrated, the points or the line are near the diagonal."
)
_SURVIVAL = "The share of all cases without the event, as expected and as it was (Kaplan and Meier)."
_COUNTS = (
    "How many cases have each count, hanging from how many were expected to. Bars that end within the band are within "
    "two standard errors."
)


def worst(about: Fitted) -> Section:
    """Return the section on the cases that are predicted worst."""
    drawn = or_words(
        lambda: _worst_table(about), lambda: Figures([(plots.plot_loo(about.idata, inputs=0, **about.given), _LOO)])
    )
    return Section("Worst cases", drawn)


_LOO = "What the other cases predict for each case, with the labels of those that are predicted worst."


def _worst_table(about: Fitted) -> Block:
    found = worst_cases(about.idata, WORST, inputs=INPUTS, **about.given)
    columns = zip(found.labels, found.targets, found.log_density, found.values, strict=True)
    rows = [(label, target, f"{density:.3f}", *values) for label, target, density, values in columns]
    caption = (
        "The cases that the others predict worst: look for mistakes in the data, and for what the model does not know."
    )
    if len(found.features) < len(about.stated):
        caption += f" The {len(found.features)} inputs that do most are stated, of {len(about.names)}."
    return Table(caption, ("Case", "Target", "Log density (nats)", *found.features), rows)


def compared(about: Fitted, others: Mapping[str, Container]) -> Section:
    """Return the section on other models of the same cases."""
    if not isinstance(others, Mapping) or hasattr(others, "groups") or not others or OWN in others:  # as containers are
        raise ValueError(f"others must be fits by name, such as {{'rough': idata}}, none of them {OWN!r}.")
    found = compare({OWN: about.idata, **others}, **{key: {OWN: value} for key, value in about.given.items()})
    columns = ["elpd", "elpd_difference", "dse", "log_evidence", "weight"]
    rows = [(str(name), *map(number, row)) for name, *row in found.table[columns].round(2).itertuples()]
    head = ("Model", "Log density", "Behind the first", "Standard error", "Log evidence", "Weight")
    caption = (
        "Models of the same cases: the log density of all, each predicted from the others, in nats, and the weight in "
        "stacking."
    )
    return Section("Other models", [found.sentence, Table(caption, head, rows)])


def new_cases(about: Fitted, y_test: ArrayLike | None, X_test: ArrayLike | None) -> Section:
    """Return the section on the new cases in the group ``predictions``; ``y_test`` are their targets."""
    predictions = get_group(about.idata, "predictions")
    m = predictions.sizes["obs_id"] if "obs_id" in predictions.sizes else len(predictions["latent_mean"])
    blocks: list[Block] = [f"{m} cases{_of_fit(about)}"]
    if y_test is None:
        blocks += or_words(lambda: _predicted_table(about))
        blocks.append("Their targets were not given: with y_test they would be scored here.")
        return Section("New cases", blocks)
    limits = about.likelihood.takes_limits and have_two_parts(y_test)
    if np.shape(y_test)[:1] != (m,) or (np.ndim(y_test) > 1 and not limits):
        raise ValueError(f"y_test must have a target for each of the {m} new cases, got shape {np.shape(y_test)}.")
    # a target that is none of this fit's is a mistake of the call, and not something that the fit does not have
    figures = [] if limits else _figures(about, y_test)  # which compare targets that were seen
    return Section("New cases", [*blocks, _new_score(about, y_test, X_test), *figures])


def _of_fit(about: Fitted) -> str:
    """Return how many of the new cases have inputs of cases of the fit, in words."""
    new, known = (group_or_empty(about.idata, name).get("X") for name in ("predictions_constant_data", "constant_data"))
    rows = set() if known is None else {row.tobytes() for row in known.values + 0.0}
    shared = 0 if new is None else sum(row.tobytes() in rows for row in new.values + 0.0)
    if not shared:
        return " that the fit has not seen."
    return (
        f", {shared} of them with the inputs of cases of the fit. Where they are these cases, the fit knows their "
        "targets: leave-one-out says how well such are predicted."
    )


def _predicted_table(about: Fitted) -> Block:
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


def _new_score(about: Fitted, y_test: ArrayLike, X_test: ArrayLike | None) -> Block:
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
    if X_test is None:
        each = predicted(about.idata, y_test, **about.given).log_density
    else:
        data = get_group(about.idata, "predictions_constant_data")
        facts: dict[str, Any] = {name: data[name].values for name in about.likelihood.new_case_facts if name in data}
        each = log_predictive_density(about.idata, X_test, y_test, **about.given, **facts)
    rows = [
        ("Cases", f"{len(each)}", ""),
        ("Mean log predictive density", f"{np.mean(each):.4f}", "nats a case; higher is better"),
        ("Of the worst case", f"{np.min(each):.4f}", "nats"),
    ]
    if "y_mean" in predictions and not have_two_parts(y_test):
        off = np.asarray(y_test, dtype=np.float64) - predictions["y_mean"].values
        rows.append(("Root mean square error", number(np.sqrt(np.mean(off**2))), "in the units of the target"))
    return Table("Scores of the predicted targets.", ("Score", "Value", ""), rows)
