"""How good an approximation and its predictions are, and how far from the truth.

Against another posterior of the same model (`agreement`), against the exact one by importance weights (`importance`),
exact probabilities and draws for models whose labels are signs; and from arrays: leave-one-out by refits, error counts,
log scores and calibration. `quality` says it all in a sentence. Figures and pages look inside.
"""

from __future__ import annotations

from bayesgp_mf.container.quality import Quality
from bayesgp_mf.diagnostics.agreement import Agreement, Compared, agreement
from bayesgp_mf.diagnostics.coefficients import coefficients
from bayesgp_mf.diagnostics.compare import ModelComparison
from bayesgp_mf.diagnostics.curves import Curve, Relevance, partial_dependence, relevance
from bayesgp_mf.diagnostics.hyperparameters import Hyperparameters, hyperparameters
from bayesgp_mf.diagnostics.importance import Importance, importance, quality
from bayesgp_mf.diagnostics.inducing import InducingCheck, inducing
from bayesgp_mf.diagnostics.influence import Influence, influence
from bayesgp_mf.diagnostics.loo import exact_loo, loo_predictive
from bayesgp_mf.diagnostics.misfit import Misfit, misfit
from bayesgp_mf.diagnostics.orthant import (
    LogProbability,
    log_orthant_probability,
    sample_orthant,
    sample_orthant_chains,
)
from bayesgp_mf.diagnostics.predicted import (
    CountTable,
    PitCurve,
    Predicted,
    confusion_table,
    count_table,
    log_predictive_density,
    pit_curve,
    predicted,
)
from bayesgp_mf.diagnostics.scores import (
    CalibrationTable,
    ClassScores,
    RocCurve,
    calibration_table,
    class_scores,
    error_count,
    mean_log_score,
    roc_curve,
)
from bayesgp_mf.diagnostics.sensitivity import Sensitivity, sensitivity
from bayesgp_mf.diagnostics.uniformity import UniformRanks

__all__ = [
    "Agreement",
    "CalibrationTable",
    "ClassScores",
    "Compared",
    "CountTable",
    "Curve",
    "Hyperparameters",
    "Importance",
    "InducingCheck",
    "Influence",
    "LogProbability",
    "Misfit",
    "ModelComparison",
    "PitCurve",
    "Predicted",
    "Quality",
    "Relevance",
    "RocCurve",
    "Sensitivity",
    "UniformRanks",
    "agreement",
    "calibration_table",
    "class_scores",
    "coefficients",
    "confusion_table",
    "count_table",
    "error_count",
    "exact_loo",
    "hyperparameters",
    "importance",
    "inducing",
    "influence",
    "log_orthant_probability",
    "log_predictive_density",
    "loo_predictive",
    "mean_log_score",
    "misfit",
    "partial_dependence",
    "pit_curve",
    "predicted",
    "quality",
    "relevance",
    "roc_curve",
    "sample_orthant",
    "sample_orthant_chains",
    "sensitivity",
]
