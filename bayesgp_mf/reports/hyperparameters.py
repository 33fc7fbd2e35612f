"""The hyperparameters of a fit, and what they mean."""

from __future__ import annotations

import re

import numpy as np

from bayesgp_mf.container.groups import Container
from bayesgp_mf.diagnostics.hyperparameters import Hyperparameters
from bayesgp_mf.diagnostics.hyperparameters import hyperparameters as values_of
from bayesgp_mf.plots import plot_hyperparameters
from bayesgp_mf.reports.page import Block, Figures, Section, Table
from bayesgp_mf.reports.subject import Subject, number, or_words

MEANINGS = {
    "lengthscale": "the distance, in the unit of the input, over which the function changes much; where it is far "
    "longer than the range of the input, that input does nothing",
    "variance": "how large the function is, in squared latent units",
    "noise_variance": "the variance of the noise on each target, in squared latent units",
    "flip": "the probability that a label was recorded as another one",
    "period": "the distance, in the unit of the input, after which the function repeats",
    "shape": "how many scales of length the function has: a small one mixes many, a large one is the Gaussian kernel",
    "scale": "the scale of the noise on each target, in the unit of the target",
    "df": "degrees of freedom of the noise: a small number allows targets that are far off",
    "dispersion": "how much more counts vary than Poisson's: the smaller it is, the more",
    "bias": "how large the constant input is, which moves the thresholds of a network",
    "offset": "the constant that is added to the products of the inputs",
    "weight": "how much a linear input, or an input of a network, does: zero is nothing",
}
"""By the last part of a name: a term of a sum puts its own name before it."""
MOST = 200
"""Hyperparameters that are listed."""


def hyperparameters(about: Subject) -> Section:
    """Return the section on the hyperparameters."""
    blocks: list[Block] = []
    names: list[str] = []
    blocks += or_words(
        lambda: _table(about.idata, names), lambda: Figures([(plot_hyperparameters(about.idata), _caption(about))])
    )
    return Section("Hyperparameters", [*_meanings(names), *blocks])


def _caption(about: Subject) -> str:
    """Return what the figure shows: a fit that chose its hyperparameters does not say how sure they are."""
    found = values_of(about.idata)
    text = "Hyperparameters as they were chosen" if found.kind == "chosen" else "Hyperparameters with how sure they are"
    return text + (", and what the prior said." if np.isfinite(found.prior).any() else ".")


def _meanings(names: list[str]) -> list[Block]:
    """Return a sentence for each kind of hyperparameter that is there."""
    plain = [re.sub(r"\[.*\]$", "", name, flags=re.DOTALL) for name in names]
    longest = sorted(MEANINGS, key=len, reverse=True)
    found = {next((key for key in longest if each == key or each.endswith("_" + key)), None) for each in plain}
    return [f"{key}: {meaning}." for key, meaning in MEANINGS.items() if key in found]


def _table(idata: Container, names: list[str]) -> list[Block]:
    found = values_of(idata)
    names.extend(found.names)
    shown = range(min(MOST, len(found.names)))
    left = len(found.names) - len(shown)
    more = f" {left} more are not listed." if left else ""
    rows: list[tuple[str, ...]]
    if found.kind == "chosen":
        rows = [(found.names[k], number(found.values[0, k]), _how(found, k), _prior(found, k)) for k in shown]
        caption = f"Values of the hyperparameters.{more}"
        return [Table(caption, ("Hyperparameter", "Value", "How", "Prior, 5 to 95 %"), rows)]
    rows = [
        (
            found.names[k],
            *(number(value) for value in found.quantiles[[2, 0, 4], k]),
            _how(found, k),
            _prior(found, k),
        )
        for k in shown
    ]
    caption = f"Hyperparameters, averaged over {len(found.values)} {found.kind}.{more}"
    head = ("Hyperparameter", "Median", "5 %", "95 %", "How", "Prior, 5 to 95 %")
    return [Table(caption, head, rows)]


def _how(found: Hyperparameters, k: int) -> str:
    if not found.tuned[k]:
        return "as given"
    if found.bound[k]:
        return f"tuned, at its {'upper' if found.bound[k] > 0 else 'lower'} bound: the data do not determine it"
    return "tuned" if found.kind == "chosen" else "averaged"


def _prior(found: Hyperparameters, k: int) -> str:
    if not np.isfinite(found.prior[2, k]):
        return "none"
    return f"{number(found.prior[0, k])} to {number(found.prior[4, k])}"
