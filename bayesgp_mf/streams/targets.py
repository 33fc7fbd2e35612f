"""The targets of a batch: real ones, or labels of the classes of the stream."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.inputs import check_no_missing, encode_labels, encode_targets
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array


def as_targets(
    y: Any, m: int, likelihood: Likelihood, classes: tuple[Any, ...] | None
) -> tuple[Array, tuple[Any, ...] | None]:
    """Return targets ``(m,)``, and the classes, which the first update may name."""
    two = likelihood.is_binary
    if likelihood.is_real:
        return encode_targets(y, m, likelihood)[0], None
    if classes is not None:
        if len(np.asarray(y, dtype=object)) != m:
            raise ValueError(f"y must have one label for each of the {m} rows of X, got {len(np.asarray(y))}.")
        check_no_missing(y)
        what, advice = "the classes of this stream", "Correct the labels, or drop those cases."
        if not two:
            advice += f" Classes that come later are named beforehand: {type(likelihood).__name__}(classes=[...])."
        codes = encode_labels(y, classes, what, advice)
        return 2.0 * codes - 1.0 if two else codes, classes
    labels = np.asarray(y, dtype=object)
    if two:
        _check_two(labels)
    t, names = encode_targets(y, m, likelihood)
    by_name = {str(label): label for label in labels}
    return t, tuple(by_name.get(name, name) for name in names)


def _check_two(labels: NDArray[Any]) -> None:
    """Raise a ValueError if the labels of the first update are not those of two classes."""
    distinct = {str(label) for label in labels} if labels.ndim == 1 else set()
    if len(distinct) == 1:
        raise ValueError(
            f"y of the first update has a single class, {distinct.pop()!r}, so that the other is not known. Name "
            "both when you make the stream, the positive one last: Stream(kernel, classes=('no', 'yes'))."
        )
    if len(distinct) > 2:
        raise ValueError(
            f"y must have two classes, got {sorted(distinct)[:5]}{', ...' * (len(distinct) > 5)}. For more, use "
            "likelihood=bgp.MultinomialProbit(); for real targets likelihoods.Gaussian(...)."
        )
