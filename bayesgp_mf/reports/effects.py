"""What inputs do to what a fit says."""

from __future__ import annotations

from functools import partial

import numpy as np

from bayesgp_mf.container.groups import Container
from bayesgp_mf.diagnostics.fitted import Fitted, fitted
from bayesgp_mf.diagnostics.relevance import relevance
from bayesgp_mf.plots import plot_latent, plot_partial_dependence, plot_relevance, plot_surface
from bayesgp_mf.plots.surface import grid_of_classes
from bayesgp_mf.reports.page import Block, Figures, Section
from bayesgp_mf.reports.subject import Subject, or_words

MOST_MODELS = 6
"""Models of one class against the rest whose effects are drawn: the others look alike, and a page has an end."""
MOST_INPUTS, CLASS_POINTS = 4, 25
"""Of fits to several classes: how many inputs are drawn, and at how many values of each."""
NAMED = 30
"""Inputs without effect that are named."""


def effects(about: Subject) -> Section:
    """Return the section on the inputs."""
    blocks: list[Block] = []
    for name, model in list(about.models.items())[:MOST_MODELS]:
        fit = fitted(model, **about.given)
        prefix = f"{name}, against the rest: " if name else ""
        blocks += or_words(
            partial(_unused, model, fit, prefix, about),
            partial(_curves, model, fit, prefix, about),
            partial(_relevance, model, fit, prefix, about),
        )
    if len(about.models) > MOST_MODELS:
        blocks.append(
            f"{len(about.models) - MOST_MODELS} more classes are not drawn: bgp.classifier(idata, name) has them."
        )
    return Section("What the inputs do", blocks)


def _curves(model: Container, fit: Fitted, prefix: str, about: Subject) -> Block:
    several = fit.likelihood.has_classes
    if len(fit.names) == 1:
        text = f"{prefix}what is predicted along the input, with the cases."
        drawn = [(plot_latent(model, scale="target", **about.given), text)]
        phrase = "the latent function, with bands that hold it with 50 and 90 % probability."
        drawn.append((plot_latent(model, **about.given), prefix + phrase))
        return Figures([(ax, _sentence(text)) for ax, text in drawn])
    if len(fit.names) == 2 and not fit.levels:
        text = f"{prefix}what is predicted over the two inputs, with the cases."
        points = grid_of_classes(CLASS_POINTS, len(fit.classes)) if several else None
        return Figures([(plot_surface(model, points=points, **about.given), _sentence(text))])
    if several:  # an average over cases takes minutes where there is an integral for each class
        order = np.argsort(-relevance(model, **about.given).effect, kind="stable")[:MOST_INPUTS]
        text = f"{prefix}what is predicted along an input, the others at their medians."
        options = {"scale": "target", "points": CLASS_POINTS, **about.given}
        each = [(fit.names[column], plot_latent(model, feature=int(column), **options)) for column in order]
        return Figures([(ax, f"{name}: {text}") for name, ax in each])
    axes = plot_partial_dependence(model, **about.given)
    left = len(fit.names) - len(axes)
    some = f" of the {len(axes)} that do most" if left else ""
    text = (
        f"{prefix}what is predicted along each input{some}, averaged over the cases, with a band that holds the "
        "average with 90 % probability. A flat curve is an input that does nothing by itself."
    )
    return Figures([(axes, _sentence(text))])


def _unused(model: Container, fit: Fitted, prefix: str, about: Subject) -> list[Block]:
    if len(fit.names) == 1:
        return []
    found = relevance(model, **about.given)
    unused = [name for name, is_unused in zip(found.features, found.unused, strict=True) if is_unused]
    if not unused:
        phrase = "Each input does something to the prediction."
    else:
        more = f" and {len(unused) - NAMED} more" if len(unused) > NAMED else ""
        phrase = (
            f"{len(unused)} of {len(found.features)} inputs do nothing (exchanging their values between cases changes "
            f"the prediction by less than 1 % of its variance): {', '.join(unused[:NAMED])}{more}."
        )
    return [prefix + phrase]


def _relevance(model: Container, fit: Fitted, prefix: str, about: Subject) -> list[Block]:
    if len(fit.names) == 1:
        return []
    text = f"{prefix}how much each input does to the prediction, alone and together with others."
    return [Figures([(plot_relevance(model, **about.given), _sentence(text))])]


def _sentence(text: str) -> str:
    """Return text with a capital at the beginning, unless it begins with a name that the user gave."""
    return text if ", against the rest" in text else text[0].upper() + text[1:]
