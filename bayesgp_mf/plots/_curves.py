"""Curves with bands, and the words on their axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from bayesgp_mf.diagnostics.curves import Curve, Scale
from bayesgp_mf.diagnostics.fitted import Fitted
from bayesgp_mf.plots._axes import POINT, as_drawn, at_tick, colour, in_legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINES = ("-", "--", "-.", ":")


def band_levels(levels: Sequence[float]) -> list[float]:
    """Return which quantiles are the ends of central bands with given probabilities, or raise a ValueError."""
    for level in levels:
        if not 0.0 < level < 1.0:
            raise ValueError(f"levels must be between 0 and 1, as 0.9 for a band of 90 %, got {level!r}.")
    return [side for level in levels for side in (0.5 - 0.5 * level, 0.5 + 0.5 * level)]


def draw_curve(
    ax: Axes, curve: Curve, levels: Sequence[float], classes: Sequence[str] = (), *, inside: str = "", label: str = ""
) -> None:
    """Draw a curve with its bands; of several classes one for each, of groups a point with bars for each."""
    for code in range(len(classes) or 1):
        several = len(classes) > 0
        mean = curve.mean[:, code] if several else curve.mean
        sides = curve.quantiles[..., code] if several else curve.quantiles
        shade, name = (colour(code), in_legend(classes[code])) if several else (POINT, label or "mean")
        order = np.argsort(levels)[::-1]  # the widest band first, below the others
        for place, k in enumerate(order if len(sides) else ()):
            low, high = sides[2 * k], sides[2 * k + 1]
            text = "" if several else f"{100 * levels[k]:g} %{' of ' * bool(inside)}{inside}"
            if curve.levels:
                ax.vlines(
                    curve.x + 0.12 * code, low, high, color=shade, linewidth=2 + 3 * place, alpha=0.45, label=text
                )
            else:
                alpha = 0.15 if several else 0.18 + 0.14 * place
                ax.fill_between(curve.x, low, high, color=shade, alpha=alpha, linewidth=0, label=text, zorder=1)
        style = "o" if curve.levels else LINES[code % len(LINES)]
        ax.plot(curve.x + (0.12 * code if curve.levels else 0.0), mean, style, color=shade, label=name, zorder=3)


def name_groups(ax: Axes, curve: Curve) -> None:
    """Put the names of groups on the horizontal axis, if it is an input that tells groups apart."""
    if curve.levels:
        names = [at_tick(level) for level in curve.levels[: curve.x.size]]
        ax.set_xticks(curve.x, names, rotation=30 if len(curve.levels) > 4 else 0)
        ax.margins(x=0.15)


def name_levels(ax: Axes, fit: Fitted) -> None:
    """Put the names of ordered levels on the vertical axis, if targets are such."""
    number = fit.likelihood.of_one_case.n_levels
    if number is not None:
        ax.set_yticks(np.arange(number), [at_tick(level) for level in fit.classes or range(number)])


def other_inputs(fit: Fitted, shown: int) -> str:
    """Return a line that says where the inputs are that are not on an axis, if there are some."""
    others = len(fit.names) - shown
    return f"\n({others} other input{'s' * (others > 1)} at the median)" if others else ""


def target_label(fit: Fitted, scale: Scale) -> str:
    """Return what stands on the axis of a latent value, a probability, or the mean of a target."""
    likelihood = fit.likelihood
    if scale == "latent":
        return "Latent function f of each class" if likelihood.has_classes else "Latent function f"
    if likelihood.has_classes:
        return "Probability of each class"
    if likelihood.is_binary:
        return as_drawn(f"Probability of {as_drawn(fit.classes[1])}")
    if likelihood.of_one_case.n_levels is not None:
        return "Mean level"
    if fit.is_share:
        return "Probability of success"
    return "Mean count, exposure 1" if np.any(fit.offset) and fit.is_rate else "Mean of the target"
