"""What inputs do to what a fit says."""

from __future__ import annotations

from functools import partial

import numpy as np

from bayesgp_mf.diagnostics.curves import relevance
from bayesgp_mf.diagnostics.fitted import Fitted
from bayesgp_mf.plots import plot_latent, plot_partial_dependence, plot_relevance, plot_surface
from bayesgp_mf.plots.surface import grid_of_classes
from bayesgp_mf.reports.page import Block, Figures, Section
from bayesgp_mf.reports.subject import Subject, or_words

MOST_INPUTS, CLASS_POINTS = 4, 25
"""Of fits to several classes: how many inputs are drawn, and at how many values of each."""
NAMED = 30
"""Inputs without effect that are named."""


def effects(about: Subject) -> Section:
    """Return the section on the inputs."""
    each = (_unused, _curves, _relevance)
    return Section("What the inputs do", or_words(*(partial(make, about, about.first) for make in each)))


def _curves(about: Subject, fit: Fitted) -> Block:
    idata, several = about.idata, fit.likelihood.has_classes
    if len(fit.names) == 1:
        text = "What is predicted along the input, with the cases."
        drawn = [(plot_latent(idata, scale="target", **about.given), text)]
        text = "The latent function, with bands that hold it with 50 and 90 % probability."
        return Figures([*drawn, (plot_latent(idata, **about.given), text)])
    if len(fit.names) == 2 and not fit.levels:
        text = "What is predicted over the two inputs, with the cases."
        points = grid_of_classes(CLASS_POINTS, len(fit.classes)) if several else None
        return Figures([(plot_surface(idata, points=points, **about.given), text)])
    if several:  # an average over cases takes minutes where there is an integral for each class
        order = np.argsort(-relevance(idata, **about.given).effect, kind="stable")[:MOST_INPUTS]
        text = "what is predicted along an input, the others at their medians."
        options = {"scale": "target", "points": CLASS_POINTS, **about.given}
        each = [(fit.names[column], plot_latent(idata, feature=int(column), **options)) for column in order]
        return Figures([(ax, f"{name}: {text}") for name, ax in each])
    axes = plot_partial_dependence(idata, **about.given)
    left = len(fit.names) - len(axes)
    some = f" of the {len(axes)} that do most" if left else ""
    text = (
        f"What is predicted along each input{some}, averaged over the cases, with a band that holds the "
        "average with 90 % probability. A flat curve is an input that does nothing by itself."
    )
    return Figures([(axes, text)])


def _unused(about: Subject, fit: Fitted) -> list[Block]:
    if len(fit.names) == 1:
        return []
    found = relevance(about.idata, **about.given)
    unused = [name for name, is_unused in zip(found.features, found.unused, strict=True) if is_unused]
    if not unused:
        phrase = "Each input does something to the prediction."
    else:
        more = f" and {len(unused) - NAMED} more" if len(unused) > NAMED else ""
        phrase = (
            f"{len(unused)} of {len(found.features)} inputs do nothing (exchanging their values between cases changes "
            f"the prediction by less than 1 % of its variance): {', '.join(unused[:NAMED])}{more}."
        )
    return [phrase]


def _relevance(about: Subject, fit: Fitted) -> list[Block]:
    if len(fit.names) == 1:
        return []
    text = "How much each input does to the prediction, alone and together with others."
    return [Figures([(plot_relevance(about.idata, **about.given), text)])]
