"""Figures of fits, predictions and comparisons, in matplotlib: a function for each.

matplotlib is imported when a figure is drawn.
"""

from __future__ import annotations

from bayesgp_mf.plots._axes import alt_text
from bayesgp_mf.plots.agreement import plot_agreement
from bayesgp_mf.plots.effects import plot_partial_dependence, plot_relevance
from bayesgp_mf.plots.hyperparameters import plot_hyperparameters
from bayesgp_mf.plots.latent import plot_latent
from bayesgp_mf.plots.loo import plot_loo
from bayesgp_mf.plots.predictions import plot_calibration, plot_confusion, plot_counts, plot_roc
from bayesgp_mf.plots.search import plot_search, plot_stream
from bayesgp_mf.plots.surface import plot_surface

__all__ = [
    "alt_text",
    "plot_agreement",
    "plot_calibration",
    "plot_confusion",
    "plot_counts",
    "plot_hyperparameters",
    "plot_latent",
    "plot_loo",
    "plot_partial_dependence",
    "plot_relevance",
    "plot_roc",
    "plot_search",
    "plot_stream",
    "plot_surface",
]
