"""Labels of any kind as -1/+1, or as the codes of several classes."""

from __future__ import annotations

import math
import numbers
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.errors import warn
from bayesgp_mf.inference.problem import check_finite, check_likelihood, check_scale
from bayesgp_mf.inputs.frames import as_pandas, check_text
from bayesgp_mf.inputs.tables import DROP, as_numbers, place
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array

NAME_ALL = "Correct the labels, drop those cases, or name all classes at the fit: classes=... of the likelihood."
FEW = 20
"""So many cases may well have a class each, as in an example."""
MOST_REAL = 10
"""Real numbers that may still be names of classes; of more it is said that they are measurements."""


def encode_targets(y: ArrayLike, n: int, likelihood: Likelihood, positive: Any = None) -> tuple[Array, tuple[str, ...]]:
    """Return targets as a solver wants them, and the class names as text.

    Parameters
    ----------
    y : (n,) array_like
        Labels. Of two the larger (or later in the alphabet) becomes +1, or the later one of a pandas Categorical, whose
        categories without a case are left out. For a likelihood with real targets, real numbers; for one of levels an
        ordered Categorical, or their numbers from 0. For several classes
        any labels: in sorted order, in that of a Categorical, or in that of ``likelihood.classes``; the last two may
        have classes without a case.
    n : int
        Number of cases.
    likelihood : Likelihood
        Decides whether targets are labels.
    positive : label, optional
        Which of two labels becomes +1.

    Returns
    -------
    t : (n,) array
        Labels -1/+1, the real targets, or codes 0 to C - 1.
    class_names : tuple of str
        The names of -1 and +1, of the codes, or of levels; empty for other real targets.

    Raises
    ------
    ValueError
        If the shape is wrong, something is missing, there are not exactly two classes (or fewer than two, where several
        are allowed), a label is no label or none of the classes that were given, or ``positive`` is none of two.
    """
    check_likelihood(likelihood)
    y = as_pandas("y", y)
    labels = _as_sequence(y, n)
    if positive is not None and not likelihood.is_binary:
        what = "real targets" if likelihood.is_real else "a probability for every class"
        raise ValueError(
            f"positive says which of two classes is the positive one, and {type(likelihood).__name__} has {what}. "
            "Leave it out."
        )
    if (levels := likelihood.n_levels) is not None:
        return _levels(y, labels, levels, likelihood)
    if likelihood.is_real:
        targets = as_real_targets(y)
        check_scale("y", targets)
        likelihood.check_targets("y", targets)
        return targets, ()
    classes, codes = _classes(y, labels, likelihood.classes)
    if likelihood.has_classes:
        _check_some_classes(classes, codes, likelihood)
    else:
        classes, codes = _two_classes(classes, codes, likelihood, positive)
    return codes, tuple(str(label) for label in classes)


def _classes(y: Any, labels: NDArray[Any], named: Sequence[Any] | None) -> tuple[Sequence[Any], Array]:
    """Return the classes that are named beforehand or occur, and the codes ``(n,)`` of labels."""
    # asked of y itself: an array made of a list with None or NaN among its labels holds text
    check_no_missing(y)
    # those that a categorical type of pandas, or a Series of one, names beforehand
    categories = named if named is not None else getattr(getattr(y, "dtype", None), "categories", None)
    known = tuple(categories) if isinstance(categories, Iterable) else None
    classes, codes = _occurring(labels, y) if known is None else (known, encode_labels(y, known))
    _check_labels(classes)
    return classes, codes


def as_real_targets(y: ArrayLike) -> Array:
    """Return targets that are real numbers, in their shape, or raise a ValueError that says which is none."""
    y = as_pandas("y", y)
    targets = as_numbers("y", y, copy=True)
    check_finite("y", targets, DROP, partial(place, y))
    return targets


def encode_labels(y: ArrayLike, classes: Sequence[Any], what: str = "the classes", advice: str = NAME_ALL) -> Array:
    """Return the codes ``(n,)`` of labels, their positions in ``classes``; as text where none matches as it is.

    Raises
    ------
    ValueError
        If a label is none of them (the message lists those), or no label at all.
    """
    given = np.asarray(as_pandas("y", y), dtype=object)
    if given.ndim != 1:
        raise ValueError(f"y must be a sequence of labels, one for each case, got shape {given.shape}.")
    labels, position = given.tolist(), {label: k for k, label in enumerate(classes)}
    _check_hashable(labels)
    if not any(label in position for label in labels):  # classes are saved as text, and are told apart as text
        labels, position = [str(label) for label in labels], {str(label): k for k, label in enumerate(classes)}
    unknown = sorted({str(label) for label in labels if label not in position})
    if unknown:
        raise ValueError(
            f"y has labels that are none of {what} {[str(label) for label in classes]}: {unknown[:5]}. {advice}"
        )
    return np.array([position[label] for label in labels], dtype=np.float64)


def _levels(y: Any, labels: NDArray[Any], levels: int, likelihood: Likelihood) -> tuple[Array, tuple[str, ...]]:
    """Return the numbers 0, 1, ... of ordered levels, and their names: of a pandas Categorical, or those numbers."""
    check_no_missing(y)
    dtype = getattr(y, "dtype", None)
    categories = getattr(dtype, "categories", None)
    if isinstance(categories, Iterable):
        names = tuple(categories)
        if not getattr(dtype, "ordered", False):
            raise ValueError(
                f"y is a Categorical whose categories {[str(name) for name in names]!r:.80} have no order. Pass "
                "pd.Categorical(y, [...], ordered=True) with the categories from the lowest to the highest."
            )
        if len(names) != levels:
            raise ValueError(
                f"y has {len(names)} categories, and the likelihood {levels} levels: {type(likelihood).__name__} has "
                "one cut fewer than there are levels. Give as many cuts, or drop categories."
            )
        _check_labels(names)
        return encode_labels(y, names), tuple(str(name) for name in names)
    if labels.dtype.kind not in "biuf" and any(isinstance(label, str) for label in np.asarray(y, dtype=object)):
        raise ValueError(
            f"y holds text such as {str(labels[0])!r}, whose order is not known. Pass pd.Categorical(y, [...], "
            "ordered=True) with the categories from the lowest to the highest, or the numbers of levels from 0."
        )
    targets = as_numbers("y", y, copy=True)
    likelihood.check_targets("y", targets)
    return targets, tuple(str(level) for level in range(levels))


def _as_sequence(y: Any, n: int) -> NDArray[Any]:
    """Return labels as an array ``(n,)``, or raise a ValueError that says what came and what to pass."""
    if hasattr(y, "toarray"):
        raise ValueError("y is sparse, and every label is needed. Pass y.toarray().ravel().")
    try:
        labels = np.asarray(y)
    except ValueError as error:
        raise ValueError(
            f"y must hold one label for each of the {n} rows of X, got sequences of different lengths."
        ) from error
    if labels.shape == ():
        raise ValueError(f"y must be a sequence of {n} labels, one for each row of X, got {type(y).__name__}.")
    if labels.shape != (n,):
        raise ValueError(f"y must have shape ({n},) to match X with {n} rows, got {labels.shape}.{_hint(y, labels, n)}")
    return labels


def _hint(y: Any, labels: NDArray[Any], n: int) -> str:
    columns = getattr(y, "columns", None)
    if columns is not None and labels.shape[0] == n:
        one = f"y[{next(iter(columns))!r}]"
        return f" Pass its column, {one}." if labels.shape[1] == 1 else f" Pass one of its columns, such as {one}."
    if labels.shape in ((n, 1), (1, n)):
        return " Pass y.ravel()." if isinstance(y, np.ndarray) else " Pass numpy.ravel(y)."
    return ""


def _occurring(labels: NDArray[Any], y: Any) -> tuple[tuple[Any, ...], Array]:
    """Return the classes that occur, in sorted order, and the codes ``(n,)`` of labels."""
    if labels.dtype.kind not in "OU":  # numbers, dates
        classes, codes = np.unique(labels, return_inverse=True)
        return tuple(classes), codes.astype(np.float64)
    entries = np.asarray(y, dtype=object)  # of a list of text and numbers the array is all text
    _check_hashable(entries.tolist())
    distinct = set(entries.tolist())
    try:
        ordered = tuple(sorted(distinct))
    except TypeError:  # labels of different types have no order, but their names do
        ordered = tuple(sorted(distinct, key=str))
    return ordered, encode_labels(entries, ordered)


def _two_classes(
    classes: Sequence[Any], codes: Array, likelihood: Likelihood, positive: Any
) -> tuple[tuple[Any, Any], Array]:
    """Return the two classes that occur, the positive one last, and labels -1/+1 ``(n,)``."""
    occurring = tuple(int(code) for code in np.unique(codes))
    if len(occurring) != 2:
        raise ValueError(_not_two_classes([classes[code] for code in occurring], likelihood))
    first, second = occurring
    if positive is not None and _place(positive, (classes[first], classes[second])) == 0:
        first, second = second, first
    return (classes[first], classes[second]), np.where(codes == second, 1.0, -1.0)


def _place(positive: Any, classes: tuple[Any, Any]) -> int:
    """Return which of two classes a label is, as text if none as it is."""
    names = tuple(str(label) for label in classes)
    for choices, wanted in ((classes, positive), (names, str(positive))):
        try:
            return {label: k for k, label in enumerate(choices)}[wanted]
        except (KeyError, TypeError):
            continue
    raise ValueError(f"positive must be one of the two labels {list(names)}, got {positive!r}.")


def _check_labels(classes: Sequence[Any]) -> None:
    """Raise a ValueError if a label could not tell one class from another, or two of them have one name."""
    names: dict[str, Any] = {}
    for label in classes:
        if isinstance(label, numbers.Complex) and not isinstance(label, numbers.Real):
            raise ValueError(f"y must hold labels such as text or numbers, got a complex number, {label}.")
        if isinstance(label, float | np.floating) and math.isinf(label):
            raise ValueError(f"y must hold labels such as text or finite numbers, got {label}. Drop or correct those.")
        kind: Any = type(label)
        if callable(label) or (kind.__str__ is object.__str__ and kind.__repr__ is object.__repr__):
            raise ValueError(
                f"y must hold labels such as text or numbers, got {label!r}, whose name would be an address. Pass "
                "names instead."
            )
        name = str(label)
        check_text("y has the label", [name])
        if name in names:
            raise ValueError(
                f"y has two labels of one name, {names[name]!r} and {label!r}, and classes are told apart by name. "
                "Make them one, or rename one."
            )
        names[name] = label


def _check_some_classes(classes: Sequence[Any], codes: Array, likelihood: Likelihood) -> None:
    """Raise a ValueError if there are not several classes, and warn if most of them have one case."""
    if len(classes) < 2:
        raise ValueError(
            f"y must hold two or more classes, got only {[str(c) for c in classes]}. There is nothing to tell apart; "
            "if others may come, name them: classes=... of a likelihood such as MultinomialProbit."
        )
    if len(classes) > MOST_REAL and _are_real(classes):
        raise ValueError(
            f"y must hold classes for {type(likelihood).__name__}, got {len(classes)} distinct real numbers. Bin them "
            "into classes, or regress on them with likelihood=bgp.likelihoods.Gaussian(noise_variance)."
        )
    occurring = np.unique(codes).size
    if codes.size > FEW and 2 * occurring > codes.size:
        warn(
            f"y has {occurring} classes among {codes.size} cases, so that most classes have one case, from which "
            "little is learnt; and the time grows with their number, faster than its square. If y names the cases and "
            "not their classes, pass another column; else merge rare classes into one."
        )


def _are_real(classes: Sequence[Any]) -> bool:
    """Tell whether labels are numbers with a fractional part, as classes are not."""
    numeric = all(isinstance(label, float | np.floating) for label in classes)
    return numeric and any(label != math.floor(label) for label in classes)


def _check_hashable(labels: Iterable[Any]) -> None:
    for label in labels:
        try:
            hash(label)
        except TypeError as error:
            raise ValueError(f"y must hold labels such as text or numbers, got {label!r} ({error}).") from error


def check_no_missing(y: ArrayLike) -> None:
    """Raise a ValueError if some label is missing, or masked."""
    y = as_pandas("y", y)
    labels = y if isinstance(y, np.ma.MaskedArray) else np.asarray(y, dtype=object)
    missing = np.asarray(pd.isna(labels)) | np.ma.getmaskarray(labels)
    if missing.any():
        raise ValueError(
            f"y must hold a label for every case, but {int(missing.sum())} of {labels.size} are missing "
            f"(the first {place(y, tuple(int(k) for k in np.argwhere(missing)[0]))}). Drop those cases."
        )


def _not_two_classes(classes: Sequence[Any], likelihood: Likelihood) -> str:
    name = type(likelihood).__name__
    shown = [str(c) for c in classes[:5]] + ["..."] * (len(classes) > 5)
    if len(classes) == 1:
        return (
            f"y must hold exactly two classes for {name}, got only {shown}. There is nothing to tell apart. "
            "Where each case names its winner first, use bgp.duels.Duels."
        )
    if len(classes) > MOST_REAL and all(isinstance(label, float | np.floating) for label in classes):
        return (
            f"y must hold exactly two classes for {name}, got {len(classes)} distinct real numbers. Threshold "
            "them into two classes, or regress on them with likelihood=bgp.likelihoods.Gaussian(noise_variance)."
        )
    counts = all(isinstance(label, int | np.integer) and label >= 0 for label in classes)
    of_counts = "likelihood='poisson' if they are counts, " if counts else ""
    first = classes[0].item() if isinstance(classes[0], np.generic) else classes[0]
    return (
        f"y must hold exactly two classes for {name}, got {len(classes)}: {shown}. Use {of_counts}"
        f"likelihood=bgp.MultinomialProbit(), or bgp.Ordinal(cuts) if they have an order, or tell one from the rest: "
        f"y == {first!r}."
    )
