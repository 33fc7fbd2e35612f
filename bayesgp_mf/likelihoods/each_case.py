"""What a likelihood knows of its cases: one number for all of them, or one for each."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.types import Array


def as_each(name: str, given: ArrayLike, *, least: float, whole: bool, expected: str, advice: str) -> Any:
    """Return one number as a float, or one for each case as a tuple of them; ValueError if one is none of those.

    Numbers are finite, at least ``least`` (above it, if they need not be ``whole``), as ``expected`` says in words.
    """
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be {expected}, or one such number for each case, got {given!r:.80}.") from error
    good = np.isfinite(values) & ((values >= least) & (values == np.floor(values)) if whole else values > least)
    if values.ndim > 1 or not values.size or not np.all(good):
        found = f"shape {values.shape}" if values.ndim > 1 or not values.size else f"{values[~good].flat[0]:g}"
        raise ValueError(f"{name} must be {expected}, or one such number for each case, got {found}. {advice}")
    return float(values) if values.ndim == 0 else tuple(values.tolist())


def of_each(who: str, what: str, values: Any, f: ArrayLike) -> Array:
    """Return what is known of the cases along the last axis of an array, in its shape, or raise a ValueError."""
    known = np.asarray(values, dtype=np.float64)
    if known.ndim and np.shape(f)[-1:] != known.shape:
        raise ValueError(
            f"{who} has the {what} of {known.size} cases, all of which must be there and in order, got shape "
            f"{np.shape(f)}. Give one number where all have the same."
        )
    return np.broadcast_to(known, np.shape(f))
