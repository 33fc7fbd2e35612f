"""Figures of errors of probabilities before and after the correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from validation.reporting.drawing import FIRST, QUIET, SECOND, THIRD, axes_or_new, legend_above

COLORS = {"probit": FIRST, "step": SECOND, "logit": THIRD, "flip": QUIET}
LABELS = {"probit": "probit", "step": "step", "logit": "logit", "flip": "with flips"}


def falls(kinds: Mapping[str, Sequence[tuple[float, float]]], promised: float) -> tuple[Any, str]:
    """Draw the largest error of each problem after the correction against that before, a colour for each kind."""
    ax = axes_or_new(None)
    errors = np.concatenate([np.array(pairs) for pairs in kinds.values()])
    ends = np.array([errors[:, 0].min() / 1.5, errors[:, 0].max() * 1.5])
    ax.plot(ends, ends, color=QUIET, linewidth=0.8, zorder=1, label="no better")
    ax.plot(ends, ends / promised, "--", color=QUIET, linewidth=0.8, zorder=1, label=f"{promised:g} times smaller")
    for kind, pairs in kinds.items():
        before, after = np.array(pairs).T
        marker = "x" if kind == "flip" else "o"
        ax.plot(before, after, marker, color=COLORS[kind], markersize=5, label=LABELS[kind])
    ax.set(xscale="log", yscale="log", xlabel="largest error of a probability, TAP", ylabel="the same, corrected")
    legend_above(ax)
    return ax, "Largest error of a probability in each small problem, before and after; both axes are logarithmic."


def on_tables(tables: Mapping[tuple[str, str], Mapping[str, Any]]) -> tuple[Any, str]:
    """Draw the error of each case against the exact probability: a panel for each table, test cases above."""
    names, parts = (list(dict.fromkeys(keys)) for keys in zip(*tables, strict=True))
    figure = Figure(figsize=(2.9 * len(names), 2.6 * len(parts)), layout="constrained")
    axes = figure.subplots(len(parts), len(names), squeeze=False, sharex=True)
    for column, name in enumerate(names):
        for row, part in enumerate(parts):
            ax, found = axes[row, column], tables[name, part]
            ax.plot(found["truth"], found["before"], ".", color=SECOND, markersize=4, label="TAP")
            ax.plot(found["truth"], found["after"], ".", color=FIRST, markersize=3, label="TAP, corrected")
            ax.axhline(0.0, color=QUIET, linewidth=0.6, zorder=1)
            if row == 0:
                ax.set_title(name, loc="left", fontsize=10)
        axes[-1, column].set_xlabel("exact probability", fontsize=9)
    for row, part in enumerate(parts):
        axes[row, 0].set_ylabel(f"error, {part} cases", fontsize=9)
    axes[0, 0].legend(frameon=False, fontsize=8)
    return axes[0, 0], (
        "Errors of probabilities on the tables (length scale, variance), each panel with its own scale. Where both "
        "colours scatter alike, it is the truth that scatters."
    )
