"""How good an approximation and its predictions are.

Against another posterior of the same model (`agreement`), against the exact one by importance weights (`importance`),
and from arrays: leave-one-out by refits, error counts, log scores and calibration.
"""

from __future__ import annotations

from bayesgp_mf.diagnostics.agreement import Agreement, Compared, agreement
from bayesgp_mf.diagnostics.importance import Importance, importance
from bayesgp_mf.diagnostics.refits import exact_loo
from bayesgp_mf.diagnostics.scores import CalibrationTable, calibration_table, error_count, mean_log_score

__all__ = [
    "Agreement",
    "CalibrationTable",
    "Compared",
    "Importance",
    "agreement",
    "calibration_table",
    "error_count",
    "exact_loo",
    "importance",
    "mean_log_score",
]
