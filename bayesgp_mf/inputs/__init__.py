"""The boundary between what users give and ours: the only place that checks tables, labels and options."""

from __future__ import annotations

from bayesgp_mf.inputs.by_case import as_offset, as_trials, as_weights
from bayesgp_mf.inputs.frames import as_pandas, kind_of, row_labels
from bayesgp_mf.inputs.groups import as_inputs_of, as_new_inputs, holds_text, levels_of
from bayesgp_mf.inputs.inducing import as_inducing, warn_of_groups
from bayesgp_mf.inputs.labels import as_real_targets, check_no_missing, encode_labels, encode_targets
from bayesgp_mf.inputs.options import (
    FORMER,
    as_kernel,
    as_likelihood,
    as_names,
    as_probabilities,
    check_flags,
    check_positive_integers,
    naming_absent,
)
from bayesgp_mf.inputs.scales import warn_of_scale
from bayesgp_mf.inputs.tables import (
    as_inputs,
    as_values_of_cases,
    check_all_same_cases,
    check_here,
    check_same_cases,
    check_same_features,
    feature_names,
)

__all__ = [
    "FORMER",
    "as_inducing",
    "as_inputs",
    "as_inputs_of",
    "as_kernel",
    "as_likelihood",
    "as_names",
    "as_new_inputs",
    "as_offset",
    "as_pandas",
    "as_probabilities",
    "as_real_targets",
    "as_trials",
    "as_values_of_cases",
    "as_weights",
    "check_all_same_cases",
    "check_flags",
    "check_here",
    "check_no_missing",
    "check_positive_integers",
    "check_same_cases",
    "check_same_features",
    "encode_labels",
    "encode_targets",
    "feature_names",
    "holds_text",
    "kind_of",
    "levels_of",
    "naming_absent",
    "row_labels",
    "warn_of_groups",
    "warn_of_scale",
]
