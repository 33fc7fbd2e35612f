"""How a fit came about: its hyperparameters, how good the approximation is, and how it was computed."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache

import numpy as np

from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.quality import Quality
from bayesgp_mf.diagnostics.agreement import Compared, agreement
from bayesgp_mf.diagnostics.fitted import Fitted
from bayesgp_mf.diagnostics.hyperparameters import Hyperparameters
from bayesgp_mf.diagnostics.hyperparameters import hyperparameters as values_of
from bayesgp_mf.plots import plot_agreement, plot_hyperparameters, plot_search
from bayesgp_mf.plots.cases import arguments_of
from bayesgp_mf.reports.page import Block, Figures, Section, Table, number, or_words

MEANS = {
    "exact": "nothing is approximated",
    "good": "the log evidence is within 0.1 nats of the truth, and probabilities within 0.02",
    "fair": "between good and off",
    "off": "the log evidence is off by more than 0.25 nats, probabilities by more than 0.05, or the equations are not "
    "solved well",
    "unsolved": "the equations were not solved",
    "unknown": "this method, or this kind of fit, cannot tell",
}

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


def hyperparameters(about: Fitted) -> Section:
    """Return the section on the hyperparameters."""
    found = cache(lambda: values_of(about.idata))
    blocks = or_words(
        lambda: [*_meanings(found().names), _table(found())],
        lambda: Figures([(plot_hyperparameters(about.idata), _caption(found()))]),
    )
    return Section("Hyperparameters", blocks)


def _caption(found: Hyperparameters) -> str:
    """Return what the figure shows: a fit that chose its hyperparameters does not say how sure they are."""
    text = "Hyperparameters as they were chosen" if found.kind == "chosen" else "Hyperparameters with how sure they are"
    return text + (", and what the prior said." if np.isfinite(found.prior).any() else ".")


def _meanings(names: Sequence[str]) -> list[Block]:
    """Return a sentence for each kind of hyperparameter that is there."""
    plain = [re.sub(r"\[.*\]$", "", name, flags=re.DOTALL) for name in names]
    longest = sorted(MEANINGS, key=len, reverse=True)
    found = {next((key for key in longest if each == key or each.endswith("_" + key)), None) for each in plain}
    return [f"{key}: {meaning}." for key, meaning in MEANINGS.items() if key in found]


def _table(found: Hyperparameters) -> Table:
    if found.kind == "chosen":
        values, head, caption = found.values[:1], ["Value"], "Values of the hyperparameters."
    else:
        values, head = found.quantiles[[2, 0, 4]], ["Median", "5 %", "95 %"]
        caption = f"Hyperparameters, averaged over {len(found.values)} {found.kind}."
    if len(found.names) > MOST:
        caption += f" {len(found.names) - MOST} more are not listed."
    rows = [
        (name, *(number(value) for value in values[:, k]), _how(found, k), _prior(found, k))
        for k, name in enumerate(found.names[:MOST])
    ]
    return Table(caption, ("Hyperparameter", *head, "How", "Prior, 5 to 95 %"), rows)


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


def quality(found: Quality) -> Section:
    """Return the section with the numbers behind the verdict."""
    text = f"The verdict {found.verdict!r} means: {MEANS[found.verdict]}. These are estimates, and no bounds."
    table = Table("The numbers behind the verdict.", ("Number", "Value", ""), list(found.rows()))
    return Section("How good the approximation is", [text, table])


def computed(about: Fitted) -> Section:
    """Return the section on how the fit was computed."""
    attrs, fit = about.fit.attrs, about.fit
    rows = [
        ("Method", str(attrs["method"])),
        ("Status", str(attrs["status_message"])),
        ("Hyperparameters", f"hyper={str(attrs.get('hyper', 'none'))!r}"),
    ]
    for name, text in (("n_iterations", "Iterations"), ("residual", "Residual of the equations")):
        if name in fit:
            largest = float(fit[name].max())
            several = ", the most of all solutions" if fit[name].size > 1 else ""
            rows.append((text, f"{largest:.3g}{several}"))
    rows += [(f"Version of {name}", str(version)) for name, version in json.loads(attrs["versions"]).items()]
    blocks: list[Block] = [Table("How this fit was computed.", ("", "Value"), rows)]
    if str(attrs.get("hyper", "none")) != "none":
        blocks += or_words(lambda: Figures([(plot_search(about.idata), "The search for hyperparameters.")]))
    return Section("How it was computed", blocks)


def reference(about: Fitted, other: Container) -> Section:
    """Return the section that holds the fit against another posterior of the same model, such as NUTS."""
    found = agreement(about.idata, other)
    each = "of both; each point is a case."
    compared: list[tuple[str, Compared | None, str, str]] = [
        ("Means", found.mean, "mean", f"Posterior means {each}"),
        ("Standard deviations", found.sd, "sd", f"Posterior standard deviations {each}"),
        ("Quantiles", found.quantiles, "", ""),
        ("Probabilities", found.probability, "probability", "Predicted probabilities of both."),
    ]
    rows, drawn = [], []
    for name, one, quantity, text in compared:
        if one is not None:
            off = np.abs(one.difference)
            rows.append((name, number(off.max()), number(off.mean()), number(one.error.max())))
        if one is not None and quantity:  # as of the two containers, from whose draws all would be computed again
            ax = plot_agreement(**arguments_of(one, quantity), quantity=quantity, names=("reference", "this fit"))
            drawn.append((ax, text))
    rows.append(
        ("Wasserstein distance", number(np.max(found.w1)), number(np.mean(found.w1)), number(found.w1_error.max()))
    )
    head = ("Difference of", "Largest", "Mean", "Largest Monte-Carlo error")
    table = Table("Absolute differences between the fit and the reference, in latent units.", head, rows)
    return Section("Against the reference", [str(found), table, Figures(drawn)])
