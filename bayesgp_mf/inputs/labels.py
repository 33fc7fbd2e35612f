"""The boundary between what users give and ours: inputs, labels of any kind as -1/+1, kernels, counts."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.inference.problem import as_float_array, check_finite, check_likelihood
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array


def as_inputs(name: str, X: ArrayLike) -> Array:
    """Return inputs as a finite float64 array ``(n, d)``, or raise a ValueError that says what is wrong."""
    array = as_float_array(name, X)
    if array.ndim != 2:
        hint = f" For a single feature, reshape to ({array.shape[0]}, 1)." if array.ndim == 1 else ""
        raise ValueError(f"{name} must have two dimensions (cases, inputs), got shape {array.shape}.{hint}")
    if array.shape[0] == 0 or array.shape[1] == 0:
        raise ValueError(f"{name} is empty: shape {array.shape}. At least one case and one input are needed.")
    check_finite(name, array)
    return array


def check_positive_integers(**options: object) -> None:
    """Raise a ValueError that names the first option that is not a positive integer."""
    for name, value in options.items():
        if not isinstance(value, int | np.integer) or isinstance(value, bool) or value < 1:
            raise ValueError(f"{name} must be a positive integer, got {value!r}.")


def as_new_inputs(X_new: ArrayLike, X: Array) -> Array:
    """Return new inputs as a finite array ``(m, d)`` with the d of the training inputs ``X``, or raise a ValueError."""
    new = as_inputs("X_new", X_new)
    if new.shape[1] != X.shape[1]:
        raise ValueError(
            f"X_new has {new.shape[1]} columns, but the model was fitted to {X.shape[1]}. "
            "Pass the same inputs in the same order and scale."
        )
    return new


def feature_names(name: str, X: Any) -> list[str] | None:
    """Return the column names of a data frame, or None for anything else.

    Raises
    ------
    ValueError
        If two columns have one name.
    """
    columns = getattr(X, "columns", None)
    if columns is None:
        return None
    names = [str(column) for column in columns]
    if len(set(names)) < len(names):
        raise ValueError(f"{name} has two columns of one name: {names}. Rename or drop one.")
    return names


def check_same_features(expected: list[str], X_new: Any) -> None:
    """Raise a ValueError if a data frame of new cases has other columns, or another order, than the training one."""
    names = feature_names("X_new", X_new)
    if names is not None and names != expected:
        raise ValueError(f"X_new has columns {names}, but the model was fitted to {expected}. Pass X_new[{expected}].")


def as_kernel(kernel: Any, values: Mapping[str, ArrayLike] | None = None, *, tuned: bool = False) -> Kernel:
    """Return a kernel from one, or from a covariance function of PyMC.

    Parameters
    ----------
    kernel : Kernel or pymc.gp.cov.BaseCovariance
        What a user gave.
    values : mapping, optional
        Values of its parameters, in place of its own.
    tuned : bool
        Whether its parameters will be tuned: then random variables may have no value, and start where PyMC starts them.

    Raises
    ------
    ValueError
        If it is neither, or a parameter has no value.
    """
    if isinstance(kernel, type):
        raise ValueError(f"kernel must be an instance, got the class {kernel.__name__}: write it with ().")
    if isinstance(kernel, Kernel):
        return kernel if values is None else kernel.replace(**values)
    if any(base.__module__.partition(".")[0] == "pymc" for base in type(kernel).__mro__):
        # `bayesgp_mf.pymc` lies above this layer; who has such an object has imported PyMC already
        module = importlib.import_module("bayesgp_mf.pymc.kernel")
        made: Kernel = module.start_from_pymc(kernel) if tuned else module.kernel_from_pymc(kernel, **(values or {}))
        return made
    raise ValueError(
        "kernel must be one of bayesgp_mf.kernels, such as Gaussian(lengthscale=1.0), or of pm.gp.cov, got "
        f"{type(kernel).__name__}."
    )


def encode_targets(y: ArrayLike, n: int, likelihood: Likelihood) -> tuple[Array, tuple[str, ...]]:
    """Return targets as a solver wants them, and the class names as text.

    Parameters
    ----------
    y : (n,) array_like
        Labels: any two distinct values, of which the larger (or later in the alphabet) becomes +1. For a
        likelihood with real targets, real numbers. For several classes any labels: in sorted order, in that of a pandas
        Categorical, or in that of ``likelihood.classes``, which may have classes without a case.
    n : int
        Number of cases.
    likelihood : Likelihood
        Decides whether targets are labels.

    Returns
    -------
    t : (n,) array
        Labels -1/+1, the real targets, or codes 0 to C - 1.
    class_names : tuple of str
        The names of -1 and +1, or of the codes; empty for real targets.

    Raises
    ------
    ValueError
        If the shape is wrong, something is missing, there are not exactly two classes (or fewer than two, where several
        are allowed), or a label is none of the classes that were given.
    """
    check_likelihood(likelihood)
    labels = np.asarray(y)
    if labels.shape != (n,):
        hint = " Pass y.ravel()." if labels.shape in ((n, 1), (1, n)) else ""
        raise ValueError(f"y must have shape ({n},) to match X with {n} rows, got {labels.shape}.{hint}")
    if likelihood.targets == "real":
        targets = as_float_array("y", labels)
        check_finite("y", targets)
        return targets, ()
    # asked of y itself: an array made of a list with None or NaN among its labels holds text
    _check_no_missing(y)
    known = _known_classes(y, likelihood)
    if known is not None:
        return encode_labels(y, known), tuple(str(label) for label in known)
    try:
        classes, codes = np.unique(labels, return_inverse=True)
    except TypeError:  # labels of different types have no order, but their names do
        classes, codes = np.unique(labels.astype(str), return_inverse=True)
    if likelihood.targets == "classes":
        _check_some_classes(classes)
        return codes.astype(np.float64), tuple(str(name) for name in classes)
    if classes.size != 2:
        raise ValueError(_not_two_classes(classes, likelihood))
    return np.where(codes == 1, 1.0, -1.0), tuple(str(name) for name in classes)


def encode_labels(y: ArrayLike, classes: Sequence[Any], what: str = "the classes") -> Array:
    """Return the codes ``(n,)`` of labels, their positions in ``classes``; as text where none matches as it is.

    Raises
    ------
    ValueError
        If a label is none of them (the message lists those), or no label at all.
    """
    given = np.asarray(y, dtype=object)
    if given.ndim != 1:
        raise ValueError(f"y must be a sequence of labels, one for each case, got shape {given.shape}.")
    labels, position = given.tolist(), {label: k for k, label in enumerate(classes)}
    try:
        known = [label in position for label in labels]
    except TypeError as error:
        raise ValueError(f"y must hold labels such as text or numbers ({error}).") from error
    if not any(known):  # classes are saved as text, and are told apart as text
        labels, position = [str(label) for label in labels], {str(label): k for k, label in enumerate(classes)}
    unknown = sorted({str(label) for label in labels if label not in position})
    if unknown:
        raise ValueError(
            f"y has labels that are none of {what} {[str(label) for label in classes]}: {unknown[:5]}. Correct the "
            "labels, drop those cases, or name all classes at the fit: Softmax(classes=...)."
        )
    return np.array([position[label] for label in labels], dtype=np.float64)


def _known_classes(y: Any, likelihood: Likelihood) -> tuple[Any, ...] | None:
    """Return the classes that are named beforehand, by the likelihood or by a categorical type, or None."""
    if likelihood.targets != "classes":
        return None
    named: tuple[Any, ...] | None = getattr(likelihood, "classes", None)
    categories = getattr(getattr(y, "dtype", None), "categories", None)  # of a pandas Categorical, or a Series of one
    if named is not None or categories is None:
        return named
    _check_some_classes(np.asarray(categories))
    return tuple(categories.tolist())


def _check_some_classes(classes: NDArray[Any]) -> None:
    if classes.size < 2:
        raise ValueError(
            f"y must hold two or more classes, got only {[str(c) for c in classes]}. There is nothing to tell apart; "
            "if others may come, name them: Softmax(classes=...)."
        )
    if np.issubdtype(classes.dtype, np.floating) and classes.size > 10 and np.any(classes != np.floor(classes)):
        raise ValueError(
            f"y must hold classes for Softmax, got {classes.size} distinct real numbers. Bin them into classes, or "
            "regress on them with likelihood=bgp.likelihoods.Gaussian(noise_variance)."
        )


def _check_no_missing(y: ArrayLike) -> None:
    labels = y if isinstance(y, np.ma.MaskedArray) else np.asarray(y, dtype=object)
    missing = np.asarray(pd.isna(labels)) | np.ma.getmaskarray(labels)
    if missing.any():
        raise ValueError(
            f"y must hold a label for every case, but {int(missing.sum())} of {labels.size} are missing "
            f"(the first at index {int(np.argmax(missing))}). Drop those cases."
        )


def _not_two_classes(classes: NDArray[Any], likelihood: Likelihood) -> str:
    name = type(likelihood).__name__
    shown = [str(c) for c in classes[:5]] + ["..."] * (classes.size > 5)
    if classes.size == 1:
        return f"y must hold exactly two classes for {name}, got only {shown}. There is nothing to tell apart."
    if np.issubdtype(classes.dtype, np.floating) and classes.size > 10:
        return (
            f"y must hold exactly two classes for {name}, got {classes.size} distinct real numbers. Threshold "
            "them into two classes, or regress on them with likelihood=bgp.likelihoods.Gaussian(noise_variance)."
        )
    return (
        f"y must hold exactly two classes for {name}, got {classes.size}: {shown}. Use "
        f"likelihood=bgp.Softmax(), or tell one from the rest: y == {classes.tolist()[0]!r}."
    )
