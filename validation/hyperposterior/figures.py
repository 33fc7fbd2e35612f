"""The figures of the study: marginal densities over each other, and probabilities against the reference."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import gaussian_kde, norm

from bayesgp_mf.plots import plot_agreement
from bayesgp_mf.plots._axes import apart
from bayesgp_mf.types import Array
from validation.hyperposterior.comparison import JointComparison
from validation.reporting.drawing import FIRST, QUIET, SECOND, THIRD
from validation.tables.crabs_and_pima import PRIOR_MEAN, PRIOR_SD

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {"tap": "NUTS on TAP's evidence", "laplace": "NUTS on Laplace's evidence"}
LINES = {"tap": (SECOND, "-"), "laplace": (THIRD, "--")}
TAIL = 0.003
"""Share of the draws beyond either end of an axis."""


def plot_marginals(run: JointComparison) -> Axes:
    """Draw the density of each log parameter, one panel each: joint sample, TAP, Laplace, prior."""
    names = run.reference.names
    columns = 2
    rows = -(-len(names) // columns)
    figure = Figure(figsize=(6.2, 1.75 * rows + 0.5), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False)
    reference = run.reference.log_parameters
    for i, (name, ax) in enumerate(zip(names, panels.flat, strict=False)):
        low, high = np.quantile(reference[..., i], [TAIL, 1.0 - TAIL])
        x = np.linspace(low, high, 300)
        ax.fill_between(x, _density(reference[..., i], x), color=FIRST, alpha=0.25, linewidth=0, label="joint NUTS")
        for method, sampled in run.sampled.items():
            color, line = LINES[method]
            density = _density(sampled.log_parameters[..., i], x)
            ax.plot(x, density, color=color, linestyle=line, linewidth=1.3, label=LABELS[method])
        ax.plot(x, norm.pdf(x, PRIOR_MEAN, PRIOR_SD), color=QUIET, linewidth=0.8, linestyle=":", label="prior")
        ax.set_xlim(low, high)
        ax.set_ylim(bottom=0.0)
        ax.set_xlabel(_axis_label(name), fontsize=8)
        ax.tick_params(labelsize=7)
        if i % columns == 0:
            ax.set_ylabel("density", fontsize=8)
    for ax in panels.flat[len(names) :]:
        ax.remove()
    handles, labels = panels.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2, frameon=False, fontsize=8)
    first: Axes = panels.flat[0]
    return first


@apart()
def plot_probabilities(run: JointComparison, method: str, *, difference: bool) -> Axes:
    """Draw the probabilities of the test cases by a method against those of the joint sample."""
    reference = run.reference.probabilities
    return plot_agreement(
        reference.mean,
        run.sampled[method].probabilities.mean,
        reference_error=reference.mean_error,
        quantity="probability of diabetes",
        names=("joint", {"tap": "TAP", "laplace": "Laplace"}[method]),
        tolerance=run.tolerances.probability_max,
        difference=difference,
    )


def _density(draws: Array, x: Array) -> Array:
    return np.asarray(gaussian_kde(draws.ravel())(x))


def _axis_label(name: str) -> str:
    """Return a name of a log parameter with its unit."""
    if name == "log v0":
        return "log $v_0$ ($v_0$ in squared latent units)"
    return f"log $w$ of {name.removeprefix('log w ')} ($w$ in 1/sd$^2$)"
