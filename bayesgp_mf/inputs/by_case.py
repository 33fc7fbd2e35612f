"""Numbers that users give of each case beside its inputs and its target: offset, weights, trials."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from bayesgp_mf.inference.problem import check_finite
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.tables import as_numbers, check_all_same_cases, check_same_cases, place
from bayesgp_mf.types import Array


def as_offset(offset: Any, X: Any, n: int, rows: str = "X") -> Array | None:
    """Return offsets ``(n,)`` of the cases of X, or None, or raise a ValueError that says what is wrong.

    ``rows`` is the name of the argument that X is.
    """
    if offset is None:
        return None
    values, where = _of_cases("offset", offset, X, n, rows)
    (none,) = np.nonzero(np.isneginf(values))
    if none.size:
        raise ValueError(
            f"offset is -inf {where((int(none[0]),))} ({none.size} such cases), as the log of an exposure 0 is. A case "
            "without exposure says nothing: drop it."
        )
    check_finite("offset", values, "An exposure must be above zero; drop or impute those cases.", where)
    return values


def as_weights(weights: Any, X: Any, n: int, name: str = "weights") -> Array | None:
    """Return weights ``(n,)`` of the cases of X, or None, or raise a ValueError that says what is wrong.

    ``name`` is that of the argument.
    """
    if weights is None:
        return None
    values, where = _of_cases(name, weights, X, n, "X")
    check_finite(name, values, "Give a weight of 0 to a case that is to say nothing.", where)
    (negative,) = np.nonzero(values < 0)
    if negative.size:
        first = int(negative[0])
        raise ValueError(
            f"{name} must be >= 0, got {values[first]:g} {where((first,))} ({negative.size} such cases). A weight of "
            "0 leaves a case out."
        )
    if not values.any():
        raise ValueError(
            f"{name} must not all be zero: then no case says anything. Give at least one case a weight above 0."
        )
    return values


def facts_of_new_cases(X_new: Any, m: int, offset: Any, trials: Any) -> dict[str, Array]:
    """Return what was given of m new cases, ``(m,)`` by name; the likelihood says which numbers are trials.

    Raises
    ------
    ValueError
        If one of them is not of these cases.
    """
    check_all_same_cases(X_new=X_new, offset=offset, trials=trials)
    found: dict[str, Any] = {} if offset is None else {"offset": as_offset(offset, X_new, m, "X_new")}
    if trials is not None:
        each = np.full(m, trials) if np.ndim(trials) == 0 else trials
        found["trials"] = _of_cases("trials", each, X_new, m, "X_new")[0]
    return found


def _of_cases(name: str, given: Any, X: Any, n: int, rows: str) -> tuple[Array, Callable[[tuple[int, ...]], str]]:
    """Return numbers ``(n,)`` of the cases of X, and what says where one of them stands."""
    X, given = as_pandas(rows, X), as_pandas(name, given)
    check_same_cases(X, given, rows, name)
    values = as_numbers(name, given, copy=True)  # a container keeps them
    if values.shape != (n,):
        hint = f" Pass np.full({n}, {name}) for the same in all cases." if values.ndim == 0 else ""
        raise ValueError(f"{name} must have shape ({n},), a number for each row of {rows}, got {values.shape}.{hint}")
    return values, partial(place, X if hasattr(X, "columns") else given)
