"""Figures of predictions and comparisons, in matplotlib: one function and one file for each."""

from __future__ import annotations

from bayesgp_mf.plots.agreement import plot_agreement
from bayesgp_mf.plots.calibration import plot_calibration
from bayesgp_mf.plots.loo import plot_loo

__all__ = ["plot_agreement", "plot_calibration", "plot_loo"]
