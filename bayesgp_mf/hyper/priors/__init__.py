"""Prior densities of hyperparameters, and suggestions of such from the inputs and from what a user knows."""

from __future__ import annotations

from bayesgp_mf.hyper.priors.densities import Exponential, LogNormal, Prior
from bayesgp_mf.hyper.priors.suggest import Suggestion, suggest

__all__ = ["Exponential", "LogNormal", "Prior", "Suggestion", "suggest"]
