"""How good predictions are, and how far from the truth.

Leave-one-out by refits, error counts, log scores and calibration, from arrays; exact probabilities and draws for models
whose labels are signs.
"""

from __future__ import annotations

from bayesgp_mf.diagnostics.orthant import LogProbability, log_orthant_probability, sample_orthant
from bayesgp_mf.diagnostics.orthant_chains import sample_orthant_chains
from bayesgp_mf.diagnostics.refits import exact_loo
from bayesgp_mf.diagnostics.scores import CalibrationTable, calibration_table, error_count, mean_log_score

__all__ = [
    "CalibrationTable",
    "LogProbability",
    "calibration_table",
    "error_count",
    "exact_loo",
    "log_orthant_probability",
    "mean_log_score",
    "sample_orthant",
    "sample_orthant_chains",
]
