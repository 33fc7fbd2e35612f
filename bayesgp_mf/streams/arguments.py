"""What a user of a stream gives, checked.

The targets of a batch: real ones, or labels of the classes of the stream.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.hyper import Strategy, Target, get_strategy
from bayesgp_mf.hyper.target import public_names
from bayesgp_mf.inference.solver import traits_of
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.labels import check_no_missing, encode_labels, encode_targets
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.class_names import checked_classes
from bayesgp_mf.methods import get_method
from bayesgp_mf.streams.values import check_rows
from bayesgp_mf.types import Array

LARGEST_INPUT = 1e150
"""Squared distances of larger inputs overflow."""


def as_rows(X: Any) -> Any:
    """Return one case as a table of one row, anything else as an array or a pandas object."""
    X = as_pandas("X", X)
    if hasattr(X, "to_frame") and np.ndim(X) == 1:  # a row of a data frame
        return X.to_frame().T
    return np.asarray(X)[None, :] if isinstance(X, np.ndarray | list | tuple) and np.ndim(X) == 1 else X


def as_new_rows(X_new: Any, columns: int) -> Any:
    """Return one new case with so many inputs as a table of one row, a table as it is, or raise a ValueError."""
    X_new = as_pandas("X_new", X_new)
    if np.ndim(X_new) == 1 and np.size(X_new) != columns:
        of_one = ". If that is the one input of all of them, pass np.asarray(X_new)[:, None]" * (columns == 1)
        raise ValueError(
            f"X_new must have two dimensions (cases, inputs), or be one case with its {columns} inputs, got shape "
            f"{np.shape(X_new)}{of_one}."
        )
    return as_rows(X_new)


def as_table(X: Any, y: Any) -> tuple[Any, Any]:
    """Return one case with its label as a table of one row with one label, anything else with arrays or in pandas."""
    X, y = as_pandas("X", X), as_pandas("y", y)
    is_label = np.ndim(y) == 0 and not isinstance(y, list | tuple)
    if is_label or (np.ndim(X) == 1 and np.shape(y) == (1,)):
        row = isinstance(y, np.void)  # of a structured array
        return as_rows(X), np.array([y]) if row else [y] if is_label else np.asarray(y)
    return X, y


def as_list(value: Any) -> Any:
    """Return what is known of one case as a list of one entry, anything else as it is."""
    value = as_pandas("offset", value)
    return [value] if value is not None and np.ndim(value) == 0 else value


def in_range(name: str, X: Array) -> Array:
    """Return inputs whose squared distances are finite, or raise a ValueError."""
    if np.max(np.abs(X), initial=0.0) > LARGEST_INPUT:
        row = int(np.argmax(np.max(np.abs(X), axis=1)))
        raise ValueError(
            f"{name} has inputs beyond {LARGEST_INPUT:.0e} in row {row}, whose squares overflow. Scale them."
        )
    return X


def as_half_life(forget: Any) -> float | None:
    """Return a half-life in cases, or None, or raise a ValueError."""
    is_number = isinstance(forget, numbers.Real) and not isinstance(forget, bool)
    if forget is not None and not (is_number and 0.0 < forget < math.inf):
        raise ValueError(f"forget must be a half-life in cases, a number above 0, or None, got {forget!r}.")
    return None if forget is None else float(forget)


def plain(label: Any) -> Any:
    """Return a label as a file can hold it: as it is, or as text."""
    label = label.item() if isinstance(label, np.generic) else label
    return label if isinstance(label, str | bool | int | float) else str(label)


def as_budget(budget: Any, classes: tuple[Any, ...] | None) -> int | None:
    """Return a number of basis inputs, or None, or raise a ValueError; of classes that are known not too many."""
    if budget is None:
        return None
    check_integers(1, budget=budget)
    if classes is not None:
        check_rows(int(budget), len(classes) - 1)
    return int(budget)


def as_classes(classes: Any, likelihood: Likelihood) -> tuple[Any, ...] | None:
    """Return the classes that are named, or None, or raise a ValueError."""
    named = likelihood.classes
    if classes is None:
        return named
    if likelihood.has_classes:
        given = checked_classes(classes)
        if named is not None and [str(label) for label in given] != [str(label) for label in named]:
            raise ValueError(f"classes are {list(given)}, and those of {likelihood!r} are others. Name them once.")
        return given
    if not likelihood.is_binary:
        raise ValueError(f"classes names two classes, and {type(likelihood).__name__} has real targets. Leave it out.")
    two = list(classes) if isinstance(classes, Sequence | np.ndarray) and not isinstance(classes, str) else []
    if len(two) != 2 or str(two[0]) == str(two[1]) or any(pd.isna(label) for label in two):
        raise ValueError(f"classes must be two different labels, the positive one last, got {classes!r}.")
    return two[0], two[1]


def check_streamed(kernel: Kernel, likelihood: Likelihood) -> None:
    """Raise a ValueError if a stream cannot have this kernel or likelihood."""
    if kernel.per_class:
        raise ValueError("a stream needs one kernel for all classes, and kernels.PerClass has one for each. Give one.")
    if likelihood.forbids:
        raise ValueError(
            f"a stream needs some noise in the likelihood, and {likelihood!r} has none: it is a step. Use "
            f"{likelihood.allows_noise or 'Probit(noise_variance=1.0) or Step(flip=0.05)'}."
        )
    known: Any = likelihood
    if not likelihood.takes_limits or known.other_limit is not None:  # limits come with the targets
        check_any_cases("a stream", likelihood)
    check = traits_of(get_method("tap", likelihood)).check
    if check is not None:
        check(likelihood)


def check_any_cases(where: str, likelihood: Likelihood) -> None:
    """Raise a ValueError if a likelihood has numbers of certain cases, where cases come in parts."""
    if likelihood.of_cases(np.zeros(1, dtype=np.intp)) is not likelihood:
        limits = "limits of certain cases. Use"
        of_each = limits if likelihood.takes_limits else "a number for each of certain cases. Give one for all, or use"
        raise ValueError(
            f"{where} takes cases in parts, and {type(likelihood).__name__} has {of_each} fit(X, y, ...) with all "
            "cases at once."
        )


def check_hyper(hyper: str | Strategy) -> None:
    """Raise a ValueError if a strategy does not choose one kernel."""
    strategy = get_strategy(hyper)
    if strategy.averages:
        raise ValueError(
            f"hyper={strategy.name!r} averages over kernels, and a stream has one. Use 'evidence' or 'loo'."
        )


def check_choice(hyper: str, kernel: Kernel, likelihood: Likelihood) -> None:
    """Raise a ValueError if a strategy cannot choose the parameters of this kernel, before any case is there."""
    solver, fixed = get_method("tap", likelihood), tuple(public_names(kernel, likelihood))
    target = Target(np.empty((0, 0)), np.empty(0), likelihood, kernel, solver, fixed=fixed)
    get_strategy(hyper).check(target)


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
