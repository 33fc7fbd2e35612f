"""How good predictions are: leave-one-out by refits, error counts, log scores and calibration, from arrays."""

from __future__ import annotations

from bayesgp_mf.diagnostics.refits import exact_loo
from bayesgp_mf.diagnostics.scores import CalibrationTable, calibration_table, error_count, mean_log_score

__all__ = ["CalibrationTable", "calibration_table", "error_count", "exact_loo", "mean_log_score"]
