"""Scores of predicted probabilities against the labels that occurred: arrays in, numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from bayesgp_mf.inference.problem import as_float_array, check_finite
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.labels import encode_labels
from bayesgp_mf.inputs.tables import check_same_cases
from bayesgp_mf.types import Array


class CalibrationTable(NamedTuple):
    """Predicted probabilities in bins that hold cases, each with what was observed; all arrays are ``(b,)``.

    Attributes
    ----------
    lower, upper : (b,) array
        Edges of each bin. A bin holds its lower edge; the last one also holds its upper edge.
    cases : (b,) int array
        How many cases are in each bin.
    predicted : (b,) array
        Mean predicted probability of class 1.
    observed : (b,) array
        Share of cases of class 1.
    interval_low, interval_high : (b,) array
        Clopper-Pearson interval of the probability of class 1 in each bin.
    """

    lower: Array
    upper: Array
    cases: NDArray[np.int64]
    predicted: Array
    observed: Array
    interval_low: Array
    interval_high: Array


def error_count(labels: ArrayLike, probabilities: ArrayLike) -> int:
    """Count the cases whose label is not the predicted one.

    Class 1 is predicted where its probability exceeds 1/2; at exactly 1/2 class 0 is.

    Parameters
    ----------
    labels : (m,) array_like
        Labels that occurred, 0/1 or booleans.
    probabilities : (m,) array_like
        Predicted probability of class 1.

    Returns
    -------
    int
        Number of wrong predictions, between 0 and m.

    Raises
    ------
    ValueError
        If there are no cases, the shapes differ, a label is not 0/1, or a probability is outside [0, 1].

    Examples
    --------
    >>> from bayesgp_mf.diagnostics import error_count
    >>> error_count([0, 1, 1], [0.2, 0.9, 0.4])
    1
    """
    is_one, p = _check(labels, probabilities)
    return int(np.count_nonzero((p > 0.5) != is_one))


def mean_log_score(labels: ArrayLike, probabilities: ArrayLike) -> float:
    r"""Return the mean log probability of the labels that occurred.

    .. math:: \frac1m \sum_{i=1}^m \log p(y_i)

    It is at most 0, and higher is better; predicting 1/2 throughout scores -log 2 = -0.693. Its expectation is
    largest for the true probabilities (it is a proper score [1]_).

    Parameters
    ----------
    labels, probabilities : (m,) array_like
        As for `error_count`.

    Returns
    -------
    float
        In nats for each case; -inf if a label occurred that was given probability zero.

    Raises
    ------
    ValueError
        As for `error_count`.

    References
    ----------
    .. [1] Gneiting, T., & Raftery, A. E. (2007). Strictly proper scoring rules, prediction, and estimation.
       Journal of the American Statistical Association 102, 359-378. https://doi.org/10.1198/016214506000001437

    Examples
    --------
    >>> from bayesgp_mf.diagnostics import mean_log_score
    >>> round(mean_log_score([0, 1], [0.5, 0.25]), 4)
    -1.0397
    >>> mean_log_score([1, 1], [0.0, 1.0])
    -inf
    """
    is_one, p = _check(labels, probabilities)
    with np.errstate(divide="ignore"):  # log 0 = -inf is the answer, not an accident
        return float(np.mean(np.where(is_one, np.log(p), np.log1p(-p))))


def calibration_table(
    labels: ArrayLike, probabilities: ArrayLike, *, bins: int | ArrayLike = 10, level: float = 0.95
) -> CalibrationTable:
    """Compare predicted probabilities with observed frequencies, bin by bin.

    If the predictions are calibrated, the mean prediction of a bin lies in its interval about as often as
    ``level`` says.

    Parameters
    ----------
    labels, probabilities : (m,) array_like
        As for `error_count`.
    bins : int or (b + 1,) array_like
        Number of bins of equal width, or their edges from 0 to 1.
    level : float
        Coverage of the intervals, between 0 and 1.

    Returns
    -------
    CalibrationTable
        Edges, number of cases, mean prediction, observed share, and the exact binomial (Clopper-Pearson [1]_) interval
        of the share for each bin. Bins without cases are left out.

    Raises
    ------
    ValueError
        As for `error_count`, or if the bins do not cover [0, 1] in increasing order, or ``level`` is not in (0, 1).

    References
    ----------
    .. [1] Clopper, C. J., & Pearson, E. S. (1934). The use of confidence or fiducial limits illustrated in
       the case of the binomial. Biometrika 26, 404-413. https://doi.org/10.1093/biomet/26.4.404

    Examples
    --------
    >>> from bayesgp_mf.diagnostics import calibration_table
    >>> table = calibration_table([0, 0, 1, 1], [0.1, 0.2, 0.4, 0.9], bins=2)
    >>> table.cases
    array([3, 1])
    >>> table.observed.round(3)
    array([0.333, 1.   ])
    >>> table.interval_low.round(3), table.interval_high.round(3)
    (array([0.008, 0.025]), array([0.906, 1.   ]))
    """
    is_one, p = _check(labels, probabilities)
    edges = _edges(bins)
    if not 0.0 < level < 1.0:
        raise ValueError(f"level must be between 0 and 1, got {level!r}. Pass level=0.95 for 95 % intervals.")
    where = np.minimum(np.searchsorted(edges, p, side="right") - 1, edges.size - 2)
    occupied, where = np.unique(where, return_inverse=True)
    cases = np.bincount(where)
    ones, total = np.bincount(where, weights=is_one), np.bincount(where, weights=p)
    tail = 0.5 * (1.0 - level)
    # the limits are quantiles of beta distributions, which degenerate at 0 and count successes
    low = np.where(ones > 0, betaincinv(np.maximum(ones, 1), cases - ones + 1, tail), 0.0)
    high = np.where(ones < cases, betaincinv(ones + 1, np.maximum(cases - ones, 1), 1.0 - tail), 1.0)
    lower, upper = edges[occupied], edges[occupied + 1]
    return CalibrationTable(lower, upper, cases.astype(np.int64), total / cases, ones / cases, low, high)


def _check(labels: ArrayLike, probabilities: ArrayLike) -> tuple[NDArray[np.bool_], Array]:
    """Return labels as booleans and probabilities as floats, or raise a ValueError."""
    labels, probabilities = as_pandas("labels", labels), as_pandas("probabilities", probabilities)
    check_same_cases(labels, probabilities, "labels", "probabilities")
    occurred = np.asarray(labels)
    if occurred.ndim != 1 or occurred.size == 0:
        raise ValueError(f"labels must be one array with a label for each case, got shape {occurred.shape}.")
    numbers = occurred if occurred.dtype.kind in "biufO" else np.full(occurred.shape, -1)  # text is no label 0/1
    is_one = np.asarray(numbers == 1, dtype=bool)
    known = is_one | np.asarray(numbers == 0, dtype=bool)
    if not np.all(known):
        shown = np.unique(occurred[~known].astype(str))[:3].tolist()
        raise ValueError(
            f"labels must be 0/1 or booleans, got also {', '.join(shown)}. "
            "Pass y == name, with the name of the class that the probabilities are of."
        )
    p = as_float_array("probabilities", probabilities)
    if p.shape != occurred.shape:
        raise ValueError(
            f"probabilities must have the shape of labels {occurred.shape}, got {p.shape}. "
            "Pass one probability of class 1 for each label."
        )
    outside = ~((p >= 0.0) & (p <= 1.0))  # catches NaN too
    if outside.any():
        first = int(np.argmax(outside))
        raise ValueError(
            f"probabilities must be between 0 and 1, but {int(outside.sum())} of {p.size} are not (the first at "
            f"index {first}: {p[first]:g}). Pass probabilities of class 1, not latent values or their logarithms."
        )
    return is_one, p


def _edges(bins: int | ArrayLike) -> Array:
    advice = "Pass the number of bins, or increasing edges from 0 to 1."
    if isinstance(bins, int | np.integer) and not isinstance(bins, bool):
        if bins < 1:
            raise ValueError(f"bins must be at least 1, got {bins}. {advice}")
        return np.linspace(0.0, 1.0, int(bins) + 1)
    try:
        edges = np.asarray(bins, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"bins must be a number or edges, got {bins!r}. {advice}") from error
    if edges.ndim != 1 or edges.size < 2 or edges[0] != 0.0 or edges[-1] != 1.0 or not np.all(np.diff(edges) > 0):
        raise ValueError(f"bins must be increasing edges from 0 to 1, got {bins!r}. {advice}")
    return edges


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
        Mean over cases of the squared differences between probabilities and what came, summed over classes; of two
        classes the half, the mean squared error of the second's probability, as in scikit-learn. Lower is better.
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
    >>> from bayesgp_mf.diagnostics import scores
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
    summed = float(np.mean(np.sum((p - came) ** 2, axis=1)))
    return ClassScores(codes.size, errors, log_score, summed / 2.0 if names.size == 2 else summed)


class RocCurve(NamedTuple):
    """How well scores separate class 1 from class 0.

    Attributes
    ----------
    false_positive, true_positive : (k,) array
        Share of the cases of class 0, and of class 1, whose score is at least the threshold; from 0 to 1.
    threshold : (k,) array
        Scores, falling; infinite at the first.
    area : float
        Under the curve: how often a case of class 1 scores above one of class 0, ties as a half.
    """

    false_positive: Array
    true_positive: Array
    threshold: Array
    area: float


def roc_curve(labels: ArrayLike, scores: ArrayLike) -> RocCurve:
    """Return the receiver operating characteristic of scores, which rank class 1 above class 0.

    Parameters
    ----------
    labels : (m,) array_like
        0/1 or booleans.
    scores : (m,) array_like
        Probabilities of class 1, or anything that rises with them.

    Raises
    ------
    ValueError
        If the shapes differ, a score is not finite, a label not 0/1, or there is no case of one class.

    Examples
    --------
    >>> from bayesgp_mf.diagnostics import roc_curve
    >>> roc_curve([0, 1, 0, 1], [0.1, 0.4, 0.6, 0.9]).area
    0.75
    """
    is_one, score = np.asarray(labels), np.asarray(scores, dtype=np.float64)
    if is_one.ndim != 1 or is_one.shape != score.shape:
        raise ValueError(f"labels and scores must be (m,), one for each case, got {is_one.shape} and {score.shape}.")
    if not np.all(np.isin(is_one, (0, 1))) or not np.all(np.isfinite(score)):
        raise ValueError("labels must be 0/1 or booleans, and scores finite numbers. Pass y == name, and p.")
    is_one = is_one.astype(bool)
    if is_one.all() or not is_one.any():
        raise ValueError("a ROC curve needs cases of both classes, and labels has those of one. Pass more cases.")
    order = np.argsort(-score, kind="stable")
    ones, last = np.cumsum(is_one[order]), np.append(np.diff(score[order]) != 0, True)
    true = np.append(0.0, ones[last] / ones[-1])
    zeros = np.cumsum(~is_one[order])
    false = np.append(0.0, zeros[last] / zeros[-1])
    area = float(np.sum(np.diff(false) * 0.5 * (true[1:] + true[:-1])))
    return RocCurve(false, true, np.append(np.inf, score[order][last]), area)
