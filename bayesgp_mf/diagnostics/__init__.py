"""How good predictions are: error counts, log scores and calibration, from arrays."""

from __future__ import annotations

from bayesgp_mf.diagnostics.scores import CalibrationTable, calibration_table, error_count, mean_log_score

__all__ = ["CalibrationTable", "calibration_table", "error_count", "mean_log_score"]
