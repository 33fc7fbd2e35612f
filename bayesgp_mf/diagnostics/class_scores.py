"""How good probabilities of several classes are, once the labels are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.inference.problem import as_float_array, check_finite
from bayesgp_mf.inputs import as_pandas, check_same_cases, encode_labels

SUM_TOLERANCE = 1e-6


class ClassScores(NamedTuple):
    """What probabilities of several classes are worth.

    Attributes
    ----------
    cases : int
        How many there are.
    errors : int
        Those whose label is not the most probable class.
    log_score : float
        Mean log probability of the labels, in nats; higher is better.
    brier_score : float
        Mean over cases of the summed squared differences between probabilities and what came; lower is better.
    """

    cases: int
    errors: int
    log_score: float
    brier_score: float


def class_scores(labels: ArrayLike, probabilities: ArrayLike, class_names: Sequence[Any] | ArrayLike) -> ClassScores:
    """Score the probabilities of several classes.

    Parameters
    ----------
    labels : (m,) array_like
        The observed labels: for each case one of ``class_names``, or a value whose text is one of them.
    probabilities : (m, C) array_like
        Probability of each class, in the order of ``class_names``, such as ``p`` of the group ``predictions``.
    class_names : sequence or DataArray
        The classes, such as the coordinate ``class`` of ``p``.

    Raises
    ------
    ValueError
        If a label is not one of the classes, two classes have the same name, shapes differ, or rows are not
        probabilities.

    Examples
    --------
    >>> from bayesgp_mf.diagnostics import class_scores
    >>> class_scores(["a", "c"], [[0.5, 0.3, 0.2], [0.6, 0.2, 0.2]], ["a", "b", "c"]).errors
    1
    """
    labels, probabilities = as_pandas("labels", labels), as_pandas("probabilities", probabilities)
    check_same_cases(labels, probabilities, "labels", "probabilities")
    p = as_float_array("probabilities", probabilities)
    names = np.asarray(class_names, dtype=object)  # of a DataArray, too
    if names.ndim != 1 or len({str(name) for name in names.tolist()}) < names.size:
        raise ValueError(f"class_names must be a sequence of names that differ, got {names.tolist()!r}.")
    codes = encode_labels(labels, names.tolist(), "the classes of the fit").astype(np.intp)
    if codes.size == 0 or p.shape != (codes.size, names.size):
        raise ValueError(
            f"probabilities must have a row for each of {codes.size} labels and a column for each of "
            f"{names.size} classes, got shape {p.shape}."
        )
    check_finite("probabilities", p)
    if np.any(p < 0) or np.max(np.abs(p.sum(axis=1) - 1.0)) > SUM_TOLERANCE:
        raise ValueError("each row of probabilities must hold numbers >= 0 that sum to one. Pass those of all classes.")
    own = p[np.arange(codes.size), codes]
    with np.errstate(divide="ignore"):  # a label that was given no chance scores minus infinity
        log_score = float(np.mean(np.log(own)))
    came = np.arange(p.shape[1]) == codes[:, None]
    errors = int(np.count_nonzero(own < p.max(axis=1)))
    return ClassScores(codes.size, errors, log_score, float(np.mean(np.sum((p - came) ** 2, axis=1))))
