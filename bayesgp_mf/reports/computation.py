"""How good the approximation is, and how it was computed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np

from bayesgp_mf.container.groups import Container
from bayesgp_mf.container.quality import Quality
from bayesgp_mf.diagnostics.agreement import Agreement, Compared, agreement
from bayesgp_mf.plots import plot_agreement, plot_search
from bayesgp_mf.plots.agreement import as_drawn
from bayesgp_mf.reports.page import Block, Figures, Section, Table
from bayesgp_mf.reports.subject import Subject, number, or_words

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MEANS = {
    "exact": "nothing is approximated",
    "good": "the log evidence is within 0.1 nats of the truth, and probabilities within 0.02",
    "fair": "between good and off",
    "off": "the log evidence is off by more than 0.25 nats, probabilities by more than 0.05, or the equations are not "
    "solved well",
    "unsolved": "the equations were not solved",
    "unknown": "this method, or this kind of fit, cannot tell",
}


def quality(found: Quality) -> Section:
    """Return the section with the numbers behind the verdict."""
    text = f"The verdict {found.verdict!r} means: {MEANS[found.verdict]}. These are estimates, and no bounds."
    table = Table("The numbers behind the verdict.", ("Number", "Value", ""), list(found.rows()))
    return Section("How good the approximation is", [text, table])


def computed(about: Subject) -> Section:
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
        blocks += or_words(lambda: _search(about.idata))
    return Section("How it was computed", blocks)


def _search(idata: Container) -> Block:
    return Figures([(plot_search(idata), "The search for hyperparameters.")])


def reference(about: Subject, other: Container) -> Section:
    """Return the section that holds the fit against another posterior of the same model, such as NUTS."""
    found = agreement(about.idata, other)
    rows = [_row(name, compared) for name, compared in _pairs(found)]
    rows.append(
        ("Wasserstein distance", number(np.max(found.w1)), number(np.mean(found.w1)), number(found.w1_error.max()))
    )
    head = ("Difference of", "Largest", "Mean", "Largest Monte-Carlo error")
    drawn = [
        (_against(compared, quantity), f"{text} of both; each point is a case.")
        for compared, quantity, text in (
            (found.mean, "mean", "Posterior means"),
            (found.sd, "sd", "Posterior standard deviations"),
        )
    ]
    if found.probability is not None:
        drawn.append((_against(found.probability, "probability"), "Predicted probabilities of both."))
    table = Table("Absolute differences between the fit and the reference, in latent units.", head, rows)
    return Section("Against the reference", [str(found), table, Figures(drawn)])


def _against(compared: Compared, quantity: str) -> Axes:
    """Draw what was compared, as of the two containers, from whose draws all would be computed again."""
    return plot_agreement(**as_drawn(compared, quantity), quantity=quantity, names=("reference", "this fit"))


def _pairs(found: Agreement) -> list[tuple[str, Compared]]:
    pairs = [("Means", found.mean), ("Standard deviations", found.sd), ("Quantiles", found.quantiles)]
    if found.probability is not None:
        pairs.append(("Probabilities", found.probability))
    return pairs


def _row(name: str, compared: Compared) -> tuple[str, str, str, str]:
    off = np.abs(compared.difference)
    return name, number(off.max()), number(off.mean()), number(compared.error.max())
