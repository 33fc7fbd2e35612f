"""What a notebook shows of a likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np

from bayesgp_mf.notebook import as_html, in_words

_TARGETS = {"binary": "labels of two classes", "real": "numbers", "classes": "labels of several classes"}


def likelihood_html(likelihood: Any) -> str:
    """Return the kind of targets and the parameters of a likelihood as HTML."""
    name = type(likelihood).__name__
    rows = [("targets", _TARGETS[likelihood.targets])]
    rows += [(each.replace("_", " "), in_words(value)) for each, value in likelihood.parameters.items()]
    return as_html(f"{name} likelihood", [*rows, ("as code", repr(likelihood))])


def each_in_words(values: Any) -> str:
    """Return one number as it is, and one for each case as their range: the repr of a likelihood stays short."""
    if np.ndim(values) == 0:
        return repr(values)
    array = np.asarray(values, dtype=np.float64)
    return f"<{array.size} values, {array.min():.4g} to {array.max():.4g}>"
