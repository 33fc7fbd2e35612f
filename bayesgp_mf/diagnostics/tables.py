"""Predictions against what came, counted: ROC curves, confusion, counts, and how sure predictions should have been."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.diagnostics.predicted import Predicted
from bayesgp_mf.types import Array

MOST_COUNTS = 1000
"""Largest count of a table that has a row for each: a figure has no room for more."""


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


class PitCurve(NamedTuple):
    """How often targets fell below the quantiles that were predicted for them.

    Attributes
    ----------
    level : (k,) array
        Probabilities of the quantiles.
    observed : (k,) array
        Share of the targets below; of whole numbers in the mean over a randomised tie (Czado et al. 2009,
        Biometrics 65).
    cases : int
        How many targets there were.
    """

    level: Array
    observed: Array
    cases: int


class CountTable(NamedTuple):
    """How many cases had each count, and how many were expected to.

    Attributes
    ----------
    counts : (k,) array
        Whole numbers from 0.
    observed, expected : (k,) array
        Cases with this count; the sum of the probabilities of it.
    beyond : float
        How many cases were expected above the last.
    """

    counts: NDArray[np.int64]
    observed: NDArray[np.int64]
    expected: Array
    beyond: float


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


def confusion_table(found: Predicted) -> NDArray[np.int64]:
    """Return how many cases of each class ``(C, C)`` were predicted to be of each: rows came, columns were predicted.

    The prediction is the most probable class, the first of several.

    Raises
    ------
    ValueError
        If targets are neither labels nor levels.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> X = [[0.0], [1.0], [2.0], [3.0]]
    >>> idata = bgp.fit(X, ["no", "no", "yes", "yes"], bgp.kernels.Gaussian(1.0, 4.0), draws=10, random_seed=1)
    >>> bgp.diagnostics.confusion_table(bgp.diagnostics.predicted(idata))
    array([[2, 0],
           [0, 2]])
    """
    check_has_classes(found)
    assert found.probability is not None  # as of all classes
    guess, size = np.argmax(found.probability, axis=1), len(found.classes)
    table = np.bincount(found.targets.astype(np.int64) * size + guess, minlength=size * size)
    return table.reshape(size, size).astype(np.int64)


def check_has_classes(found: Predicted) -> None:
    """Raise a ValueError if targets are neither labels nor ordered levels."""
    if not found.classes:
        raise ValueError(
            "the targets of this fit are numbers, which are neither right nor wrong. Use plot_calibration, plot_loo, "
            "or plot_counts of whole numbers."
        )


def pit_curve(found: Predicted, levels: ArrayLike) -> PitCurve:
    """Return how often targets fell below predicted quantiles: the distribution of the probability integral transform.

    If predictions are calibrated, ``observed`` equals ``level`` up to chance.

    Raises
    ------
    ValueError
        If targets are labels.
    UndefinedQuantityError
        If the likelihood does not say how likely a target is to be below a number.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> x = np.linspace(0.0, 6.0, 40)[:, None]
    >>> y = np.sin(x[:, 0]) + 0.1 * np.cos(40.0 * x[:, 0])
    >>> noise = bgp.likelihoods.Gaussian(0.01)
    >>> idata = bgp.fit(x, y, bgp.kernels.Gaussian(1.5), noise, method="exact", draws=10, random_seed=1)
    >>> curve = bgp.diagnostics.pit_curve(bgp.diagnostics.predicted(idata), [0.1, 0.5, 0.9])
    >>> curve.observed.round(2)
    array([0. , 0.5, 1. ])
    """
    if not found.settings:
        raise ValueError("targets of this fit are labels, which have no quantiles.")
    u = np.asarray(levels, dtype=np.float64)
    t = np.asarray(found.targets, dtype=np.float64)
    upper = found.below(t)
    lower = found.below(t - 1.0) if found.is_whole else upper
    width = upper - lower
    inside = (u[:, None] - lower) / np.where(width > 0, width, 1.0)
    each = np.where(width > 0, np.clip(inside, 0.0, 1.0), u[:, None] >= upper)
    return PitCurve(u, each.mean(axis=1), t.size)


def count_table(found: Predicted) -> CountTable:
    """Return how many cases had each count, and how many were expected to: the numbers of a rootogram.

    Raises
    ------
    ValueError
        If targets are not whole numbers, or one of them is above 1000.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> week, accidents = np.arange(8.0)[:, None], [1, 2, 1, 3, 6, 4, 2, 1]
    >>> kernel = bgp.kernels.Gaussian(2.0) + bgp.kernels.Bias()
    >>> idata = bgp.fit(week, accidents, kernel, bgp.Poisson(), draws=10, random_seed=1)
    >>> table = bgp.diagnostics.count_table(bgp.diagnostics.predicted(idata))
    >>> table.counts[:4], table.observed[:4], table.expected[:4].round(1)
    (array([0, 1, 2, 3]), array([0, 3, 2, 1]), array([1.3, 1.7, 1.6, 1.2]))
    """
    if not found.is_whole or found.classes:
        raise ValueError(
            "counts are targets that are whole numbers, as under Poisson, NegativeBinomial and Binomial. Use "
            "plot_calibration or plot_confusion."
        )
    t = found.targets.astype(np.int64)
    largest = int(t.max())
    if largest > MOST_COUNTS:
        raise ValueError(
            f"there is a row for each count, up to {MOST_COUNTS}, and the largest of this fit is {largest}. Use "
            "plot_calibration."
        )
    count = np.arange(largest + 1)
    total = np.array([np.sum(found.below(np.full(t.size, float(k)))) for k in count])
    return CountTable(count, np.bincount(t, minlength=largest + 1), np.diff(total, prepend=0.0), t.size - total[-1])
