"""The targets of a batch: real ones, or labels of the two classes of the stream."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesgp_mf.inputs import check_no_missing, encode_labels, encode_targets
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array


def as_targets(
    y: Any, m: int, likelihood: Likelihood, classes: tuple[Any, Any] | None
) -> tuple[Array, tuple[Any, Any] | None]:
    """Return targets ``(m,)``, and the classes, which the first update may name."""
    if likelihood.targets == "real":
        return encode_targets(y, m, likelihood)[0], None
    if classes is not None:
        if len(np.asarray(y, dtype=object)) != m:
            raise ValueError(f"y must have one label for each of the {m} rows of X, got {len(np.asarray(y))}.")
        check_no_missing(y)
        what, advice = "the classes of this stream", "Correct the labels, or drop those cases."
        return 2.0 * encode_labels(y, classes, what, advice) - 1.0, classes
    labels = np.asarray(y, dtype=object)
    distinct = {str(label) for label in labels} if labels.ndim == 1 else set()
    if len(distinct) == 1:
        raise ValueError(
            f"y of the first update has a single class, {distinct.pop()!r}, so that the other is not known. Name "
            "both when you make the stream, the positive one last: Stream(kernel, classes=('no', 'yes'))."
        )
    if len(distinct) > 2:
        raise ValueError(
            f"y must have two classes, got {sorted(distinct)[:5]}{', ...' * (len(distinct) > 5)}. For more, make a "
            "stream for each class against the rest; for real targets use likelihoods.Gaussian(...)."
        )
    t, names = encode_targets(y, m, likelihood)
    by_name = {str(label): label for label in labels}
    first, second = (by_name.get(name, name) for name in names)
    return t, (first, second)
