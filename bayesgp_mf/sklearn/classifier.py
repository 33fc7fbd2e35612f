"""Gaussian-process classification with scikit-learn's face."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d

from bayesgp_mf.hyper import Prior, Strategy
from bayesgp_mf.hyper.registry import HyperName
from bayesgp_mf.inference.inducing import Inducing
from bayesgp_mf.inference.problem import check_likelihood
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs import check_no_missing, with_former_arguments
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood, Probit, Softmax
from bayesgp_mf.likelihoods.one_vs_rest import OneVsRest, is_of_each_class
from bayesgp_mf.methods import MethodName
from bayesgp_mf.processes.one_vs_rest import OneVsRestPosterior
from bayesgp_mf.sklearn.defaults import VARIANCE, default_kernel
from bayesgp_mf.sklearn.estimator import GPEstimator, rows, where_streamed
from bayesgp_mf.sklearn.fitted import EachClass, Streamed, Whole, each_class
from bayesgp_mf.types import Array

MultiClass: TypeAlias = Literal["one_vs_rest", "softmax"]
ONE_VS_REST: Final = "one_vs_rest"
SOFTMAX: Final = "softmax"


class GPClassifier(ClassifierMixin, GPEstimator):  # type: ignore[misc]  # scikit-learn has no types
    r"""Gaussian-process classifier for scikit-learn: Pipeline, GridSearchCV, cross_val_score.

    It calls `bayesgp_mf.fit`; the result is in ``idata_``.

    Parameters
    ----------
    kernel : Kernel or pymc.gp.cov.BaseCovariance, optional
        Prior covariance. By default a `Gaussian` kernel with a length scale for each input, which suits standardised
        inputs, and log-normal priors of its parameters.
    likelihood : Likelihood, optional
        A likelihood of two classes, by default `Probit`; or of several, `MultinomialProbit` or `Softmax`, which is the
        default if ``multi_class="softmax"``. `OneVsRest` has a classifier for each class, even for two.
    multi_class : {"one_vs_rest", "softmax"}
        How to classify more than two classes, if the likelihood does not decide it. "one_vs_rest" has a classifier for
        each class, and divides the probabilities by their sum: not a joint model. "softmax" is a joint model with an
        evidence; `MultinomialProbit` as likelihood is one that takes less time.
    method : str or Solver, optional
        As for `fit`; "tap" by default.
    hyper, priors, bounds, fixed, inducing, control : optional
        As for `fit`, except that a search has one start by default, as in scikit-learn. ``hyper=None`` keeps the
        kernel.
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
    posterior_ : Process, OneVsRestPosterior or Stream
        The posterior process.
    kernel_ : Kernel
        The kernel with the parameters that were chosen; a `PerClass` for one class against the rest.
    log_evidence_ : float
        In nats. One class against the rest has none; for an average see ``posterior_``.
    idata_ : InferenceData or DataTree
        The fit for ArviZ.
    loo_ : ELPDData
        Its leave-one-out estimate. A stream has none.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> pima = bgp.datasets.load_pima()
    >>> model = bgp.sklearn.GPClassifier(random_state=1).fit(pima.X, pima.y)
    >>> model.predict_proba(pima.X_test[:2]).round(2)
    array([[0.24, 0.76],
           [0.95, 0.05]])
    """

    classes_: NDArray[Any]

    @with_former_arguments
    def __init__(
        self,
        kernel: Any = None,
        likelihood: Likelihood | OneVsRest | None = None,
        *,
        multi_class: MultiClass = ONE_VS_REST,
        method: MethodName | Solver | None = None,
        hyper: HyperName | Strategy | None = "evidence",
        priors: Mapping[str, Prior] | None = None,
        bounds: Mapping[str, tuple[float, float]] | None = None,
        fixed: Collection[str] = (),
        inducing: int | ArrayLike | Inducing | None = None,
        control: Control | None = None,
        budget: int | None = 200,
        draws: int = 250,
        random_state: Any = None,
    ) -> None:
        super().__init__(
            kernel,
            likelihood,
            method=method,
            hyper=hyper,
            priors=priors,
            bounds=bounds,
            fixed=fixed,
            inducing=inducing,
            control=control,
            budget=budget,
            draws=draws,
            random_state=random_state,
        )
        self.multi_class = multi_class

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
        self._check_likelihood()
        X, y = self._checked(X, y, sample_weight)
        check_classification_targets(y)
        some, weights = self._begin(X, sample_weight)
        X, y = rows(X, some), y[some]
        self.classes_ = _all_classes(y, None if self.likelihood is None else self.likelihood.classes)
        if self.classes_.size < 2:
            raise ValueError(
                f"y must hold two or more classes, got one class, {self.classes_.tolist()}, among the cases whose "
                "weight is not 0. There is nothing to tell apart."
            )
        likelihood = self._likelihood()
        one_each = is_of_each_class(likelihood)
        binary = not one_each and likelihood.is_binary
        options = {"positive": self.classes_[1]} if self.classes_.size == 2 and binary else {}
        found = self._solved(X, y, likelihood, weights, **options)
        self._keep(each_class(found) if one_each else found)
        return self

    @where_streamed
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Learn from more cases, which are then forgotten: a `streams.Stream`, of at most ``budget`` basis inputs.

        After `fit` it goes on from there, under the kernel that was chosen. Without a `fit` before it, it learns 2000
        cases under the kernel as it was given, and then chooses its parameters by ``hyper``. Of several classes each is
        learned against the rest, whatever ``multi_class`` says; with a ``likelihood`` of several classes, such as
        `MultinomialProbit`, they are learned together.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`.
        classes : (C,) array_like, optional
            All labels there will be; the first call needs them.
        """
        self._check_likelihood()
        known = vars(self).get("_fitted")
        X, y = self._checked(X, y, sample_weight, reset=known is None)
        check_classification_targets(y)
        some, weights = self._begin(X, sample_weight)
        if known is None:
            if classes is None:
                raise ValueError("classes must be given at the first call of partial_fit: all labels there will be.")
            self.classes_ = np.unique(column_or_1d(classes))
            if self.classes_.size < 2:
                raise ValueError(f"classes must be two or more, got one class, {self.classes_.tolist()}.")
        elif classes is not None and not np.array_equal(np.unique(classes), self.classes_):
            raise ValueError(f"classes must be those of the first call, {self.classes_.tolist()}, got {list(classes)}.")
        _check_known(y, self.classes_.tolist())
        X, y = rows(X, some), y[some]
        joint: Any = None if is_of_each_class(self.likelihood) else self.likelihood
        if joint is not None and joint.has_classes:
            if isinstance(known, EachClass):
                raise ValueError(
                    "likelihood is one of several classes, and what was learned so far tells one from the rest. Use "
                    "the likelihood that it began with, or begin anew with another estimator."
                )
            self._keep(self._streamed(known, X, y, weights, _named(self.likelihood, self.classes_)))
            return self
        binary = self.classes_.size == 2 and not is_of_each_class(self.likelihood)
        if isinstance(known, Whole) and not binary:
            raise ValueError(
                "partial_fit tells several classes apart one against the rest, and this fit is of all of them "
                "together. Use multi_class='one_vs_rest', likelihood=MultinomialProbit(), or begin with partial_fit."
            )
        positives = self.classes_[1:] if binary else self.classes_
        before = known.each if isinstance(known, EachClass) else (known,) * len(positives)
        given: Any = Probit() if self.likelihood is None else self.likelihood
        several = given.of_each_class(len(positives)) if is_of_each_class(given) else (given,) * len(positives)
        each = tuple(
            self._streamed(one, X, y == label, weights, likelihood)
            for one, label, likelihood in zip(before, positives, several, strict=True)
        )
        self._keep(each[0] if binary else self._together(each))
        return self

    def predict_proba(self, X: Any) -> Array:
        """Return the probabilities ``(m, C)`` of the classes at new cases, in the order of ``classes_``."""
        check_is_fitted(self)
        proba = self._learned("predict_proba").predict_proba(self._new(X))
        return proba if proba.ndim == 2 else np.column_stack([1.0 - proba, proba])

    def predict_log_proba(self, X: Any) -> Array:
        """Return the logarithms of `predict_proba`, ``(m, C)``."""
        with np.errstate(divide="ignore"):  # a probability may be zero
            return np.log(self.predict_proba(X))

    def predict(self, X: Any) -> NDArray[Any]:
        """Return the most probable label ``(m,)`` of each new case."""
        check_is_fitted(self)
        labels: NDArray[Any] = self.classes_[np.argmax(self.predict_proba(X), axis=1)]
        return labels

    def _as_given(self, targets: NDArray[Any]) -> NDArray[Any]:
        labels: NDArray[Any] = self.classes_[targets.astype(np.intp)]
        return labels

    def _check_targets(self, y: Any) -> None:
        check_no_missing(y)

    def _check_likelihood(self) -> None:
        if self.likelihood is not None and not is_of_each_class(self.likelihood):
            check_likelihood(self.likelihood)

    def _default_kernel(self) -> Kernel:
        return default_kernel(self.n_features_in_, self.bounds, VARIANCE)

    def _likelihood(self) -> Any:
        """Return the likelihood, or what has one for each class."""
        if self.multi_class not in (ONE_VS_REST, SOFTMAX):
            raise ValueError(
                f"multi_class must be {ONE_VS_REST!r} or {SOFTMAX!r}, got {self.multi_class!r}. Other joint models are "
                "likelihoods: likelihood=MultinomialProbit()."
            )
        given: Any = self.likelihood
        joint = self.classes_.size == 2 or self.multi_class == SOFTMAX
        if given is None and joint:
            return Probit() if self.classes_.size == 2 else Softmax()
        targets = getattr(given, "targets", "binary")
        if targets == "real":
            raise ValueError(
                f"GPClassifier is for labels, and {given!r} has counts, levels or measurements. Use GPRegressor."
            )
        if targets == "classes" or is_of_each_class(given):
            return _in_order(given, self.classes_)
        if joint:
            return given
        return OneVsRest(Probit() if given is None else given)

    def _together(self, each: tuple[Streamed, ...]) -> EachClass:
        posteriors: tuple[Any, ...] = tuple(one.posterior for one in each)
        return EachClass(OneVsRestPosterior(tuple(str(label) for label in self.classes_), posteriors), each)


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


def _in_order(likelihood: Any, classes: NDArray[Any]) -> Any:
    """Return a likelihood of several classes that names them in the order of ``classes_``, if it names any."""
    if likelihood.classes is None:
        return likelihood
    ordered = replace(likelihood, classes=tuple(classes.tolist()))
    if is_of_each_class(likelihood) and isinstance(likelihood.likelihood, tuple):  # one for each class
        each = likelihood.likelihood
        place = {str(label): c for c, label in enumerate(likelihood.classes)}
        ordered = replace(ordered, likelihood=tuple(each[place[str(label)]] for label in classes))
    return ordered
