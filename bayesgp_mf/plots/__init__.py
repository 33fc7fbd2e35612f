"""Figures of fits, predictions and comparisons, in matplotlib: a function for each.

matplotlib is imported when a figure is drawn. `reports` looks inside.
"""

from __future__ import annotations

from bayesgp_mf.plots._axes import alt_text
from bayesgp_mf.plots.cases import plot_agreement, plot_loo
from bayesgp_mf.plots.curves import plot_latent, plot_partial_dependence
from bayesgp_mf.plots.duels import plot_duels, plot_utility
from bayesgp_mf.plots.maps import plot_map
from bayesgp_mf.plots.predictions import plot_calibration, plot_confusion, plot_counts, plot_roc
from bayesgp_mf.plots.rows import plot_hyperparameters, plot_models, plot_relevance
from bayesgp_mf.plots.search import plot_search, plot_stream
from bayesgp_mf.plots.surface import plot_surface
from bayesgp_mf.plots.survival import plot_survival

__all__ = [
    "alt_text",
    "plot_agreement",
    "plot_calibration",
    "plot_confusion",
    "plot_counts",
    "plot_duels",
    "plot_hyperparameters",
    "plot_latent",
    "plot_loo",
    "plot_map",
    "plot_models",
    "plot_partial_dependence",
    "plot_relevance",
    "plot_roc",
    "plot_search",
    "plot_stream",
    "plot_surface",
    "plot_survival",
    "plot_utility",
]
