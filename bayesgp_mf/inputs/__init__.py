"""The boundary between what users give and ours: the only place that checks it."""

from __future__ import annotations

from bayesgp_mf.inputs.labels import (
    as_inputs,
    as_kernel,
    as_new_inputs,
    check_positive_integers,
    check_same_features,
    encode_labels,
    encode_targets,
    feature_names,
)

__all__ = [
    "as_inputs",
    "as_kernel",
    "as_new_inputs",
    "check_positive_integers",
    "check_same_features",
    "encode_labels",
    "encode_targets",
    "feature_names",
]
