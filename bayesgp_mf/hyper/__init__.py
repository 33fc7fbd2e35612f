"""Choosing hyperparameters: point estimates, and averages over what the data leave open."""

from __future__ import annotations

from bayesgp_mf.hyper.hmc import HybridMonteCarlo
from bayesgp_mf.hyper.integrate import Integrate
from bayesgp_mf.hyper.model import Model
from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.optimise import Run
from bayesgp_mf.hyper.priors import LogNormal, Prior
from bayesgp_mf.hyper.registry import HYPER, get_strategy
from bayesgp_mf.hyper.result import HyperResult
from bayesgp_mf.hyper.scan import Scan
from bayesgp_mf.hyper.scores import EvidenceScore, LooScore
from bayesgp_mf.hyper.search import Evidence, LeaveOneOut
from bayesgp_mf.hyper.strategy import Strategy
from bayesgp_mf.hyper.surrogate.strategy import Surrogate
from bayesgp_mf.hyper.target import Target

__all__ = [
    "HYPER",
    "Evidence",
    "EvidenceScore",
    "HybridMonteCarlo",
    "HyperResult",
    "Integrate",
    "LeaveOneOut",
    "LogNormal",
    "LooScore",
    "Model",
    "Objective",
    "Prior",
    "Run",
    "Scan",
    "Strategy",
    "Surrogate",
    "Target",
    "get_strategy",
]
