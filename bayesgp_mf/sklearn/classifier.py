"""Gaussian-process classification with scikit-learn's face."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_class_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d

from bayesgp_mf.inputs.labels import check_no_missing
from bayesgp_mf.likelihoods import MultinomialProbit, Probit, Softmax
from bayesgp_mf.methods import get_method
from bayesgp_mf.names import naming_absent
from bayesgp_mf.sklearn.estimator import GPEstimator, where_streamed
from bayesgp_mf.types import Array


@dataclass(eq=False, repr=False)
class GPClassifier(ClassifierMixin, GPEstimator):  # type: ignore[misc]  # scikit-learn has no types
    r"""Gaussian-process classifier for scikit-learn: Pipeline, GridSearchCV, cross_val_score.

    It calls `bayesgp_mf.fit`; the result is in ``idata_``.

    Parameters
    ----------
    kernel : Kernel or pymc.gp.cov.BaseCovariance, optional
        Prior covariance. By default that of `hyper.default_model`, with its priors: inputs need no scaling, and columns
        of text are groups.
    likelihood : Likelihood or str, optional
        By default `Probit` for two classes, and `MultinomialProbit` for more. `Softmax`, a joint model too, is the
        default for more than two where they have weights, or ``method`` is "laplace".
    method : str or Solver, optional
        As for `fit`; "tap" by default, and "laplace" where cases of more than two classes have weights, exact there.
    hyper, priors, bounds, fixed, inducing, monotone, control : optional
        As for `fit`, except that a search has one start by default, as in scikit-learn. ``hyper=None`` keeps the
        kernel.
    class_weight : "balanced" or dict, optional
        How much more frequent each class is, by label, in the population that predictions are for; "balanced" makes
        all classes equally frequent there. The fit stays as it is, and so do ``idata_``, ``posterior_``, ``loo_`` and
        `sample_y`: `predict_proba` and `predict` apply Bayes' rule with these shares. Where errors have different
        costs, calibrated probabilities and another threshold than a half do the same.
    budget : int or None
        Largest number of basis inputs of the stream that `partial_fit` updates.
    draws : int
        Draws of ``idata_`` for each of its four chains.
    random_state : int, numpy.random.RandomState or None
        Seed of random starts and of draws.

    Attributes
    ----------
    classes_ : (C,) array
        The labels, sorted.
    n_features_in_, feature_names_in_
        Number of the inputs, and their names if they have names.
    posterior_ : Process or Stream
        The posterior process.
    kernel_ : Kernel
        The kernel with the parameters that were chosen.
    log_evidence_ : float
        In nats. For an average see ``posterior_``.
    idata_ : InferenceData or DataTree
        The fit for ArviZ.
    loo_ : ELPDData
        Its leave-one-out estimate. A stream has none.

    Notes
    -----
    One class against the rest is scikit-learn's ``sklearn.multiclass.OneVsRestClassifier(GPClassifier())``.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> pima = bgp.datasets.load_pima()
    >>> model = bgp.sklearn.GPClassifier(random_state=1).fit(pima.X, pima.y)
    >>> model.predict_proba(pima.X_test[:2]).round(2)
    array([[0.23, 0.77],
           [0.95, 0.05]])
    """

    class_weight: Mapping[Any, float] | str | None = field(default=None, kw_only=True)

    classes_: NDArray[Any] = field(init=False)
    _of_class: Array | None = field(init=False)

    @naming_absent()
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to labelled cases.

        Parameters
        ----------
        X : (n, d) array_like
            Inputs, finite: an array or a data frame, whose columns of text go to `Categorical` kernels.
        y : (n,) array_like
            Labels of two classes or more.
        sample_weight : (n,) array_like, optional
            How often each case counts, as a power of its likelihood (`fit`, ``weights``); one of weight 0 is left out.

        Raises
        ------
        ValueError
            If an argument or a parameter is invalid, or there are fewer than two classes.
        """
        X, y, weights = self._cases(X, y, sample_weight)
        check_classification_targets(y)
        given = self._given_likelihood
        self.classes_ = _all_classes(y, None if given is None else given.classes)
        if self.classes_.size < 2:
            raise ValueError(
                f"y must hold two or more classes, got one class, {self.classes_.tolist()}, among the cases whose "
                "weight is not 0. There is nothing to tell apart."
            )
        self._of_class = self._weights_of_classes(y, weights)
        likelihood = self._likelihood(weighted=weights is not None)
        options = {"positive": self.classes_[1]} if likelihood.is_binary else {}
        self._keep(self._solved(X, y, likelihood, weights, **options))
        return self

    @where_streamed
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more cases, which are then forgotten: a `streams.Stream`, of at most ``budget`` basis inputs.

        After `fit` it goes on from there, under the kernel that was chosen. Without a `fit` before it, it learns 2000
        cases under the kernel as it was given, and then chooses its parameters by ``hyper``. Several classes have
        no weights there.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : (C,) array_like, optional
            All labels there will be; the first call needs them.
        """
        known = vars(self).get("_fitted")
        X, y, weights = self._cases(X, y, sample_weight, reset=known is None)
        check_classification_targets(y)
        if known is None:
            if classes is None:
                raise ValueError("classes must be given at the first call of partial_fit: all labels there will be.")
            self.classes_ = np.unique(column_or_1d(classes))
            if self.classes_.size < 2:
                raise ValueError(f"classes must be two or more, got one class, {self.classes_.tolist()}.")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the first call, {self.classes_.tolist()}, got {list(classes)}.")
        _check_known(y, self.classes_.tolist())
        if self.class_weight == "balanced":
            raise ValueError("class_weight='balanced' needs all cases at once. Give a dict of weights by label.")
        self._of_class = self._weights_of_classes(y, weights)
        likelihood = self._likelihood()
        labels = y == self.classes_[1] if likelihood.is_binary else y
        self._keep(self._streamed(known, X, labels, weights, likelihood))
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities ``(m, C)`` of the classes at new cases, in the order of ``classes_``."""
        proba = self._learned("predict_proba").predict_proba(self._new(X))
        proba = proba if proba.ndim == 2 else np.column_stack([1.0 - proba, proba])
        if self._of_class is not None:  # Bayes' rule: other shares of the classes, the same inputs within each
            proba = proba * self._of_class
            proba /= proba.sum(axis=1, keepdims=True)
        return proba

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba`, ``(m, C)``."""
        with np.errstate(divide="ignore"):  # a probability may be zero
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label ``(m,)`` of each new case."""
        return self._as_given(np.argmax(self.predict_proba(X), axis=1))

    def _as_given(self, targets: NDArray[Any]) -> NDArray[Any]:
        labels: NDArray[Any] = self.classes_[targets.astype(np.intp)]
        return labels

    def _weights_of_classes(self, y: NDArray[Any], weights: Array | None) -> Array | None:
        """Return the weights ``(C,)`` of the classes; one that has no case is as frequent as the fit says."""
        if self.class_weight is None:
            return None
        if self.class_weight == "balanced":
            counted = np.bincount(np.searchsorted(self.classes_, y), weights, self.classes_.size)
            equal: Array = np.divide(
                counted.sum() / counted.size, counted, out=np.ones(counted.size), where=counted > 0
            )
            return equal
        given: Array = compute_class_weight(self.class_weight, classes=self.classes_, y=y)
        if not np.all((given > 0.0) & np.isfinite(given)):
            raise ValueError(f"class_weight must be positive numbers, got {self.class_weight!r}.")
        return given

    def _check_targets(self, y: Any) -> None:
        check_no_missing(y)

    def _likelihood(self, *, weighted: bool = False) -> Any:
        """Return the likelihood, of several classes with their names in order."""
        likelihood: Any = self._given_likelihood or self._default_likelihood(weighted)
        if likelihood.is_real:
            levels = likelihood.n_levels is not None
            has = "levels" if levels else "counts or measurements"
            advice = (
                ", which predicts their mean; bgp.fit and bgp.predict have the probability of each" if levels else ""
            )
            raise ValueError(f"GPClassifier is for labels, and {likelihood!r} has {has}. Use GPRegressor{advice}.")
        if likelihood.has_classes:
            return _named(likelihood, self.classes_)
        if self.classes_.size > 2:
            raise ValueError(
                f"y has {self.classes_.size} classes, and {likelihood!r} is a likelihood of two. Use "
                "likelihood=MultinomialProbit() or Softmax(), or tell one class from the rest by "
                f"sklearn.multiclass.OneVsRestClassifier(GPClassifier(likelihood={likelihood!r}))."
            )
        return likelihood

    def _default_likelihood(self, weighted: bool) -> Any:
        if self.classes_.size == 2:
            return Probit()
        by_laplace = weighted or (self.method is not None and get_method(self.method).name == "laplace")
        return Softmax() if by_laplace else MultinomialProbit()


def _check_known(y: NDArray[Any], classes: list[Any]) -> None:
    if unknown := sorted({str(label) for label in y} - {str(label) for label in classes}):
        raise ValueError(f"y has labels that are none of the classes {classes}: {unknown[:5]}.")


def _all_classes(y: NDArray[Any], named: Sequence[Any] | None) -> NDArray[Any]:
    """Return the labels that occur, or those that a likelihood names and that have to be all, sorted."""
    found = np.unique(y)
    if named is None:
        return found
    _check_known(found, list(named))
    known = {str(label) for label in found}
    more = [label for label in named if str(label) not in known]
    return np.unique(np.array([*found.tolist(), *more])) if more else found


def _named(likelihood: Any, classes: NDArray[Any]) -> Any:
    """Return a likelihood that names its classes in the order of ``classes_``, which must have them all."""
    named = likelihood.classes
    if missing := sorted({str(label) for label in named or ()} - {str(label) for label in classes}):
        raise ValueError(f"classes must have all those of {likelihood!r}, and {missing[:5]} are missing.")
    return likelihood.with_classes(tuple(classes.tolist()))
