"""Figures of predictions and comparisons, in matplotlib: one function and one file for each."""

from __future__ import annotations

from bayesgp_mf.plots.agreement import plot_agreement
from bayesgp_mf.plots.calibration import plot_calibration
from bayesgp_mf.plots.latent import plot_latent
from bayesgp_mf.plots.loo import plot_loo
from bayesgp_mf.plots.partial_dependence import plot_partial_dependence
from bayesgp_mf.plots.relevance import plot_relevance
from bayesgp_mf.plots.surface import plot_surface

__all__ = [
    "plot_agreement",
    "plot_calibration",
    "plot_latent",
    "plot_loo",
    "plot_partial_dependence",
    "plot_relevance",
    "plot_surface",
]
