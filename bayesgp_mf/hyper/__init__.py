"""Choosing hyperparameters: the evidence as an objective, and its maximisation."""

from __future__ import annotations

from bayesgp_mf.hyper.objective import EvidenceObjective
from bayesgp_mf.hyper.optimise import Run, maximise_evidence

__all__ = ["EvidenceObjective", "Run", "maximise_evidence"]
