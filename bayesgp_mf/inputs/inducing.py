"""What stands for all cases: a number of them, inputs, or both with options."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bayesgp_mf.errors import warn
from bayesgp_mf.inference.inducing import Inducing
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.groups import with_codes
from bayesgp_mf.inputs.tables import as_inputs, check_same_features
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.types import Array

NAMED = 5
"""Groups without an inducing case that a warning names: the largest of them."""
EXPECTED = "inducing must be a number of cases, inducing inputs (M, d), or bgp.Inducing(...) with options"


def as_inducing(inducing: Any, X: Array, features: Sequence[str] | None, kernel: Kernel) -> Inducing | None:
    """Return what a user gave as an `Inducing` that fits the training inputs ``X (n, d)``, or None for None.

    Parameters
    ----------
    inducing : None, int, array_like or Inducing
        What the user gave.
    X : (n, d) array
        The training inputs.
    features : sequence of str or None
        Their names, if they have names.
    kernel : Kernel
        Which knows the texts of the training inputs: inducing inputs have these, or their codes.

    Raises
    ------
    ValueError
        If it is none of those, if there are more inducing cases than cases, or inputs with other columns.

    Warns
    -----
    UserWarning
        If inducing inputs repeat each other.
    """
    inducing = as_pandas("inducing", inducing)
    if inducing is None:
        return None
    if isinstance(inducing, Inducing):
        found = inducing
    elif isinstance(inducing, type) or (not isinstance(inducing, list) and np.ndim(inducing) == 0):
        if not isinstance(inducing, int | np.integer) or isinstance(inducing, bool):
            raise ValueError(f"{EXPECTED}; got {inducing!r}.")
        if inducing < 1:
            raise ValueError(f"inducing must be at least 1, got {inducing!r}. Some hundred are a good start.")
        found = Inducing(int(inducing))
    else:
        found = Inducing(inputs=inducing)
    if found.inputs is not None:
        inputs = _checked(found.inputs, X, features, kernel)
        if found.number not in (None, inputs.shape[0]):
            raise ValueError(
                f"Inducing: number is {found.number}, and there are {inputs.shape[0]} inputs. Leave number out."
            )
        return replace(found, number=inputs.shape[0], inputs=inputs)
    if found.number > X.shape[0]:
        raise ValueError(
            f"inducing asks for {found.number} inducing cases, and there are {X.shape[0]} cases. Ask for fewer, or "
            "leave it out: then the Gram matrix of all cases is worked with."
        )
    return found


def warn_of_groups(kernel: Kernel, X: Array, points: Array, features: Sequence[str] | None) -> None:
    """Warn if cases are of groups that have no inducing case: nothing is learnt of these.

    Parameters
    ----------
    kernel : Kernel
        Its `groupings` say which groups there are.
    X : (n, d) array
        Inputs of the cases.
    points : (M, d) array
        Inducing inputs.
    features : sequence of str or None
        Names of the inputs, if they have names.
    """
    texts = kernel.levels_of_columns()
    for columns in kernel.groupings(X.shape[1]):
        there = {tuple(row) for row in points[:, list(columns)] + 0.0}
        groups, cases = np.unique(X[:, list(columns)] + 0.0, axis=0, return_counts=True)
        without = np.array([tuple(row) not in there for row in groups])
        if not without.any():
            continue
        largest = np.flatnonzero(without)[np.argsort(-cases[without], kind="stable")][:NAMED]
        shown = [
            ", ".join(texts[j][int(code)] if j in texts else f"{code:g}" for j, code in zip(columns, row, strict=True))
            for row in groups[largest]
        ]
        many = len(columns) > 1
        names = ", ".join(repr(j if features is None else features[j]) for j in columns)
        such = "; ".join(map(repr, shown)) + ", ..." * bool(without.sum() > NAMED)
        warn(
            f"{without.sum()} of the {without.size} groups that column{'s' * many} {names} "
            f"tell{'s' * (not many)} have no inducing case, with {cases[without].sum()} of {len(X)} cases: "
            f"{such}. What they have of their own counts as noise, and predictions for them come from the prior. Take "
            "more inducing cases than there are groups, or inputs of each.",
            UserWarning,
        )


def _checked(given: Any, X: Array, features: Sequence[str] | None, kernel: Kernel) -> Array:
    """Return inducing inputs that fit the training inputs."""
    check_same_features(features, given, "inducing", "X has")
    inputs = as_inputs("inducing", with_codes("inducing", given, kernel))
    if inputs.shape[1] != X.shape[1]:
        raise ValueError(
            f"inducing has {inputs.shape[1]} columns, but X has {X.shape[1]}. Inducing inputs are inputs like X; for a "
            "number of them pass an int."
        )
    distinct = np.unique(inputs + 0.0, axis=0).shape[0]  # -0 is 0
    if distinct < inputs.shape[0]:
        warn(
            f"{inputs.shape[0] - distinct} of the {inputs.shape[0]} inducing inputs repeat others; they add nothing "
            "and are left out.",
            UserWarning,
        )
    return inputs
