"""Targets that are not all seen, as people have them: times and events, or limits, of which the likelihood is told."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesgp_mf.errors import warn
from bayesgp_mf.inference.problem import check_finite
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.tables import DROP, as_numbers, place
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array

WAYS = (
    "a structured array with a boolean field (was it seen?) and a field of times; two columns, time and event (0 or 1, "
    "or booleans), or lower and upper limit (equal where it was seen, else np.inf and -np.inf where there is none)"
)


def with_limits(y: Any, likelihood: Likelihood, *, whole: bool = True) -> tuple[Any, Likelihood]:
    """Return targets ``(n,)``, and the likelihood told of those that are limits, where it takes such.

    Parameters
    ----------
    y : array_like
        As a user gave it: `WAYS` says of what form it may be. One column is of targets that were all seen, or of such
        as the likelihood knows already.
    likelihood : Likelihood
        Of the targets.
    whole : bool
        Whether they are all that there are; else others may bound what these do not.

    Raises
    ------
    ValueError
        If ``y`` has none of these forms, a limit is missing or below the other one, a case says nothing, or the
        likelihood does not take limits.

    Warns
    -----
    UserWarning
        If no target is bounded from above, or none from below: then the targets may be anything beyond the limits.
    """
    y = as_pandas("y", y)
    fields = getattr(getattr(y, "dtype", None), "names", None)
    if not likelihood.takes_limits:
        two = getattr(y, "shape", ())[1:] == (2,)
        if fields is not None or (two and (likelihood.of_times or sum(map(_is_boolean, _columns(y))) == 1)):
            what = "two columns" if fields is None else f"a structured array with the fields {list(fields)}"
            raise ValueError(
                f"y is {what}, as survival analysis has times and events, which {type(likelihood).__name__} does not "
                "take. Wrap it: likelihood=likelihoods.Censored(likelihoods.Weibull(1.0))."
            )
        return y, likelihood
    known: Any = likelihood
    if fields is None and np.ndim(y) == 1:
        return y, likelihood
    if fields is None and np.shape(y)[1:] != (2,):
        raise ValueError(f"y must be {WAYS}; or one column, if all were seen. Got shape {np.shape(y)}.")
    if known.other_limit is not None:
        raise ValueError("y has limits, and so has the likelihood, its other_limit. Leave that out.")
    t, other = _of_events(*_time_and_event(y, fields)) if _are_events(y, fields) else _of_limits(y, likelihood)
    if whole:
        _warn_of_one_side(t, other, likelihood)
    of_rows = pd.Series(t, y.index) if isinstance(y, pd.DataFrame) else t
    return of_rows, with_other_limit(likelihood, other)


def with_other_limit(likelihood: Likelihood, other: Array | None) -> Likelihood:
    """Return a likelihood that knows the other limits ``(n,)`` of targets, or none, where it takes such."""
    known: Any = likelihood
    return replace(known, other_limit=other) if likelihood.takes_limits else likelihood


def as_limits(t: Array, likelihood: Likelihood) -> Array:
    """Return targets ``(n,)`` as they are where all were seen, else the limits ``(n, 2)`` that a likelihood knows."""
    known: Any = likelihood
    if not likelihood.takes_limits or known.all_seen:
        return t
    other = np.asarray(known.other_limit)
    return np.column_stack([np.fmin(t, other), np.fmax(t, other)])


def have_two_parts(y: Any) -> bool:
    """Tell whether targets have two columns or fields, as those that may be limits."""
    return np.ndim(y) == 2 or getattr(getattr(y, "dtype", None), "names", None) is not None


def _columns(y: Any) -> list[Any]:
    """Return the two columns of a table."""
    return [y.iloc[:, j] for j in range(2)] if isinstance(y, pd.DataFrame) else list(np.asarray(y).T)


def _is_boolean(column: Any) -> bool:
    return bool(pd.api.types.is_bool_dtype(column.dtype))


def _are_events(y: Any, fields: tuple[str, ...] | None) -> bool:
    """Tell whether targets are times and events: a column of booleans, or the second one of zeros and ones alone."""
    if fields is not None:
        return True
    first, second = _columns(y)
    if _is_boolean(first) or _is_boolean(second):
        return True
    text = next((each for column in (first, second) for each in column if isinstance(each, str)), None)
    if text is not None:
        raise ValueError(
            f"y must be {WAYS}; got entries such as {text!r}. Pass the event as booleans, status == {text!r}."
        )
    numbers = as_numbers("y", y)
    if not np.isfinite(numbers).all():
        return False
    zeros_and_ones = [bool(np.isin(column, (0.0, 1.0)).all()) for column in numbers.T]
    if zeros_and_ones[0] and not zeros_and_ones[1] and np.unique(numbers[:, 0]).size == 2:
        raise ValueError(
            "y has only 0 and 1 in its first column. If that is the event, pass the time first, or the event as "
            "booleans; if it is a limit, give the targets in another unit."
        )
    # as of few cases, such as a batch of a stream; (1, 1) is a target that was seen, by either reading
    if zeros_and_ones[1] and np.all(numbers[:, 0] <= numbers[:, 1]) and np.any(numbers != 1.0):
        raise ValueError(
            "y may be times and events, or limits: it has only 0 and 1 in its second column, and none of the first is "
            "above it. Pass events as booleans, targets that were seen as one column, or limits in another unit."
        )
    return zeros_and_ones[1]


def _time_and_event(y: Any, fields: tuple[str, ...] | None) -> tuple[Array, NDArray[np.bool_]]:
    """Return the column of times, and whether each is that of the event."""
    if fields is not None and len(fields) != 2:
        raise ValueError(f"y must have two fields, a boolean one and one of times, got {list(fields)}.")
    columns = _columns(y) if fields is None else [np.asarray(y)[name] for name in fields]
    booleans = [_is_boolean(column) for column in columns]
    if (fields is not None and sum(booleans) != 1) or all(booleans):
        raise ValueError(
            f"y must have one boolean {'field' if fields else 'column'}, the event, got the types "
            f"{[str(column.dtype) for column in columns]}."
        )
    time, event = columns[::-1] if booleans[0] else columns
    times = as_numbers("y", time, copy=True)
    check_finite("y", times, DROP, partial(place, time))
    if pd.isna(event).any():
        raise ValueError(f"y has an event that is missing, at index {int(np.argmax(pd.isna(event)))}. {DROP}")
    return times, np.asarray(event).astype(bool)


def _of_events(times: Array, event: NDArray[np.bool_]) -> tuple[Array, Array]:
    return times, np.where(event, np.nan, np.inf)


def _of_limits(y: Any, likelihood: Likelihood) -> tuple[Array, Array]:
    """Return the limits ``(n,)`` that are finite, and the others, NaN where both are one."""
    lower, upper = as_numbers("y", y, copy=True).T
    for name, limits in (("lower", lower), ("upper", upper)):
        if np.isnan(limits).any():
            raise ValueError(
                f"y must hold numbers, but its {name} limit, or an event, is missing at index "
                f"{int(np.argmax(np.isnan(limits)))}. Where there is no limit pass np.inf, or -np.inf."
            )
    nothing_below = np.isneginf(lower) | (likelihood.of_times & (lower == 0.0) & (upper > 0.0))
    _refuse(
        lower > upper,
        "has a lower limit above the upper one",
        "Limits are (lower, upper); of times and a status of 1 and 2 pass (time, status == 2)",
    )
    _refuse(nothing_below & np.isposinf(upper), "says nothing of a target", "Drop it")
    _refuse(np.isposinf(lower) | np.isneginf(upper), "has a target that is infinite", "Correct or drop it")
    t = np.where(nothing_below, upper, lower)
    other = np.where(nothing_below, -np.inf, upper)
    return t, np.where(lower == upper, np.nan, other)


def _refuse(wrong: NDArray[np.bool_], what: str, advice: str) -> None:
    if wrong.any():
        raise ValueError(f"y {what} at index {int(np.argmax(wrong))} ({int(wrong.sum())} such cases). {advice}.")


def _warn_of_one_side(t: Array, other: Array, likelihood: Likelihood) -> None:
    """Warn if all targets are above their limits, or all below."""
    for side, infinite, which in (("above", np.inf, "lower"), ("below", -np.inf, "upper")):
        if other.size and (other == infinite).all():
            tuned = " and ".join(likelihood.parameters)
            warn(
                f"y has no target that was seen: all are {side} their {which} limits, so that they may be any distance "
                f"from them. What is said of them, and of {tuned or 'the level of the function'}, is what the priors "
                "say. Observe for longer, or give both limits."
            )
