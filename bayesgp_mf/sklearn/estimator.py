"""What classifier and regressor share: parameters, the model that they make, and what a fit has."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Self, TypeVar, cast

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import validate_data

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.container.groups import Container, LooEstimate, get_group
from bayesgp_mf.container.stored import not_stored
from bayesgp_mf.fitting import fit, posterior
from bayesgp_mf.hyper import SEARCHES, HyperName, Prior, Strategy, default_model, get_strategy
from bayesgp_mf.inference.inducing import Inducing
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.frames import as_pandas
from bayesgp_mf.inputs.groups import as_inputs_of, columns_of_groups, holds_more_than_numbers
from bayesgp_mf.inputs.limits import as_limits, with_limits, with_other_limit
from bayesgp_mf.inputs.options import as_kernel, as_likelihood
from bayesgp_mf.inputs.tables import as_inputs, as_weights, check_all_same_cases, feature_names
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import MethodName, get_method
from bayesgp_mf.names import NamingAbsent
from bayesgp_mf.sklearn.fitted import CHAINS, Known, Learned, Streamed, Whole
from bayesgp_mf.streams import Stream
from bayesgp_mf.types import Array

LARGEST_SEED = 2**31 - 1
NOISE = 0.1
"""Noise variance of a target of variance 1, at the start."""
LEARNS_TEXT = "bgp.Stream().update(X, y) learns from text, and of groups that come later."
"""What to do with text that comes in batches."""

PARTS = {"kernel": "kernel=bgp.kernels.Gaussian(1.0)", "likelihood": "likelihood=bgp.Probit(flip=0.05)"}
"""What has parameters with names of their own, and an example of it."""

M = TypeVar("M", bound=Callable[..., Any])


@dataclass(eq=False, repr=False)
class GPEstimator(NamingAbsent, BaseEstimator, abc.ABC):  # type: ignore[misc]  # scikit-learn has no types
    """A Gaussian process with scikit-learn's face; `GPClassifier` and `GPRegressor` are the two there are."""

    kernel: Any = None
    likelihood: str | Likelihood | None = None
    _: KW_ONLY
    method: MethodName | Solver | None = None
    hyper: HyperName | Strategy | None = "evidence"
    priors: Mapping[str, Prior] | None = None
    bounds: Mapping[str, tuple[float, float]] | None = None
    fixed: Collection[str] = ()
    inducing: int | ArrayLike | Inducing | None = None
    monotone: Mapping[Any, int] | None = None
    control: Control | None = None
    budget: int | None = 200
    draws: int = 250
    random_state: Any = None

    _idata: Container | None = field(init=False)

    def set_params(self, **params: Any) -> Self:
        """Set parameters, those of kernel and likelihood too: ``kernel__lengthscale=2.0``, ``likelihood__flip=0.1``.

        Both are immutable: the estimator has another one then, and one that it was given stays as it is.
        """
        inner: dict[str, dict[str, Any]] = {part: {} for part in PARTS}
        for name in list(params):
            part, nested, below = name.partition("__")
            if part in PARTS and nested:
                inner[part][below] = params.pop(name)
        super().set_params(**params)
        for part, values in inner.items():
            mine = getattr(self, part)
            if values and (isinstance(mine, type) or not hasattr(mine, "set_params")):
                raise ValueError(
                    f"{part}__{next(iter(values))} is a parameter of a {part} of this package, and {part} is {mine!r}. "
                    f"Give one first, such as {PARTS[part]}."
                )
            if values:
                setattr(self, part, mine.set_params(**values))
        return self

    @property
    def posterior_(self) -> Learned:
        """The posterior process; after ``partial_fit`` the stream."""
        return self._learned("posterior_").posterior

    @property
    def kernel_(self) -> Kernel:
        """The kernel with the parameters that were chosen."""
        return self._learned("kernel_").kernel

    @property
    def log_evidence_(self) -> float:
        """Log evidence, in nats."""
        return self._learned("log_evidence_").log_evidence

    @property
    def loo_(self) -> LooEstimate:
        """Leave-one-out log predictive density, as ArviZ's ``ELPDData``: see `bayesgp_mf.loo`."""
        return self._learned("loo_").loo()

    @property
    def idata_(self) -> Container:
        """What `bayesgp_mf.fit` returns, for ArviZ; its draws are made when it is first asked for."""
        found = self._learned("idata_")
        if self._idata is None:
            check_integers(1, draws=self.draws)
            self._idata = found.container(self.draws, self._seed)
        return self._idata

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the draws of ``idata_``, which are made again, the same, when they are asked for."""
        return {**super().__getstate__(), "_idata": None} if "_fitted" in vars(self) else super().__getstate__()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return "_fitted" in vars(self)

    def sample_y(self, X: Any, n_samples: int = 1, random_state: Any = 0) -> NDArray[Any]:
        """Draw targets at new cases jointly from the posterior, noise and all.

        Parameters
        ----------
        X : (m, d) array_like
            Inputs.
        n_samples : int
            How many of each case.
        random_state : int, numpy.random.RandomState or None
            Source of the draws.

        Returns
        -------
        (m, n_samples) array
            Targets, or labels.
        """
        fitted, X = self._learned("sample_y"), self._new(X)
        check_integers(1, n_samples=n_samples)
        rng = np.random.default_rng(_seed(random_state))
        return self._as_given(fitted.sample(X, int(n_samples), rng).T)

    @abc.abstractmethod
    def _as_given(self, targets: NDArray[Any]) -> NDArray[Any]:
        """Return targets in the units, or with the labels, that ``fit`` was given."""

    @abc.abstractmethod
    def _check_targets(self, y: Any) -> None:
        """Raise a ValueError that names the row of a target that is missing, or none of this estimator.

        scikit-learn compares and converts some of them before it looks, and says what Python says of that.
        """

    @property
    def _given_likelihood(self) -> Likelihood | None:
        return None if self.likelihood is None else as_likelihood(self.likelihood)

    def _learned(self, name: str) -> Known:
        if "_fitted" not in vars(self):
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit before {name}.")
        return self._fitted

    def _keep(self, fitted: Known) -> None:
        self._fitted = fitted
        self._idata = None  # draws of an earlier fit are none of this one

    def _new(self, X: Any) -> Array:
        """Return new inputs as numbers ``(m, d)``, checked against those of the fit."""
        table = as_pandas("X", X)
        if isinstance(table, pd.DataFrame):
            table = pd.DataFrame(self._fitted.new_inputs(table), columns=table.columns)
        elif holds_more_than_numbers(table):
            table = self._fitted.new_inputs(table)
        else:  # numbers are codes where groups are called by text
            numbers = validate_data(self, table, reset=False, dtype=np.float64, ensure_all_finite=False)
            return self._fitted.new_inputs(numbers)
        return np.asarray(validate_data(self, table, reset=False, dtype=np.float64))

    def _cases(
        self, X: Any, y: Any, sample_weight: Any, *, reset: bool = True, **options: Any
    ) -> tuple[Any, Any, Array | None]:
        """Return inputs, targets and weights of the cases that count at all; as weights None if all are 1."""
        likelihood = self._given_likelihood  # which raises if it is none
        X, y = self._checked(X, y, sample_weight, reset=reset, **options)
        self._seed = _seed(self.random_state)
        if sample_weight is None:
            return X, y, None
        given = np.full(len(X), sample_weight) if np.isscalar(sample_weight) else sample_weight
        weights: Any = as_weights(given, X, len(X), "sample_weight")
        some = weights > 0
        if likelihood is not None and likelihood.takes_limits:  # which has all cases, in order
            some = np.ones(len(X), dtype=bool)
        X = X.iloc[some] if isinstance(X, pd.DataFrame) else X[some]
        return X, y[some], None if np.all(weights[some] == 1.0) else weights[some]

    def _checked(self, X: Any, y: Any, sample_weight: Any, *, reset: bool, **options: Any) -> tuple[Any, Any]:
        """Return inputs and targets as scikit-learn wants them, the inputs as a data frame if their columns have names.

        One that holds text stays as it is, for the kernels that tell groups; a stream refuses what they read, since a
        group that comes later has no code. Of weights the labels of rows are compared. Further options are those of
        scikit-learn's ``validate_data``.
        """
        table, y = as_pandas("X", X), as_pandas("y", y)
        check_all_same_cases(X=table, y=y, sample_weight=sample_weight)
        is_frame, has_more = isinstance(table, pd.DataFrame), holds_more_than_numbers(table)
        if is_frame:
            numbers = pd.DataFrame(self._coded(table) if has_more else as_inputs("X", table))
            numbers = numbers.set_axis(table.columns, axis=1)
        else:
            table = np.asarray(table, dtype=object) if has_more else table
            numbers = self._coded(table) if has_more else table
            options |= {"dtype": np.float64, "ensure_all_finite": False}  # of which there are better words below
        if y is not None:  # scikit-learn says that one is needed
            self._check_targets(y)
        checked, y = validate_data(self, numbers, y, reset=reset, **options)
        if has_more:
            return table, y
        if not is_frame:
            return as_inputs("X", checked), y
        return self._named(np.asarray(checked), table.index), y

    def _coded(self, table: pd.DataFrame | NDArray[Any]) -> Array:
        """Return inputs as numbers, columns of text as codes, or raise an error that names one no kernel can read."""
        given = self.kernel is not None
        kernel = as_kernel(self.kernel, tuned=self.hyper is not None) if given else default_model(table).kernel
        return as_inputs_of(kernel.with_column_names(feature_names("X", table)), table)[0]

    def _solved(self, X: Any, y: Any, likelihood: Likelihood, weights: Array | None, **options: Any) -> Whole:
        """Return what all cases say, at the hyperparameters that they speak for."""
        kernel = self._start(X, y, likelihood, weights)
        strategy = None if self.hyper is None else get_strategy(self.hyper)
        if strategy is not None and isinstance(self.hyper, str):
            strategy = strategy.with_starts(1)
        many = strategy is not None and strategy.averages
        weighted_classes = likelihood.has_classes and weights is not None
        method = ("laplace" if weighted_classes else "tap") if self.method is None else self.method
        idata = fit(
            X,
            y,
            kernel,
            likelihood,
            method=method,
            hyper=strategy,
            priors=self.priors,
            bounds=self.bounds,
            fixed=self.fixed,
            random_seed=self._seed,
            inducing=self.inducing,
            monotone=self.monotone,
            control=Control() if self.control is None else self.control,
            draws=self.draws if many else 1,
            chains=CHAINS if many else 1,
            weights=weights,
            progress=False,
            **options,
        )
        known = {"kernel": kernel, "likelihood": likelihood, "method": method}
        given = not_stored(get_group(idata, "fit"), known)
        learned: Any = posterior(idata, **given)
        return Whole(idata, learned, given, weights)

    def _start(self, X: Any, y: Any, likelihood: Likelihood, weights: Array | None) -> Any:
        """Return the kernel that is given, the default one if it is to be kept, or None if it is to be chosen."""
        if self.kernel is not None or self.hyper is not None:
            return self.kernel
        return default_model(X, y, likelihood, weights=weights).kernel

    def _streamed(self, known: Known | None, X: Any, y: Any, weights: Array | None, likelihood: Likelihood) -> Streamed:
        """Return what a batch adds to what is known: nothing, a stream, or all cases of ``fit``, under its kernel."""
        options: dict[str, Any] = {
            "classes": (False, True) if likelihood.is_binary else None,
            "random_seed": self._seed,
        }
        _check_numbers(known, X)
        if isinstance(known, Streamed):
            stream = known.posterior
        elif known is None:
            hyper: Any = self.hyper  # `is_streamed` has refused all that a stream does not have
            targets, known_limits = with_limits(y if likelihood.is_real else None, likelihood, whole=False)
            kernel = self._start(X, targets, known_limits, weights)
            stream = Stream(kernel, likelihood, self.budget, hyper=hyper, **options)
        else:
            one = known.posterior.parts[0]
            if known.weights is not None and likelihood.has_classes:
                raise ValueError(
                    "sample_weight: fit was given weights of several classes, which partial_fit does not take. Fit "
                    "again to all cases, or leave the weights out."
                )
            past = one.problem.likelihood.of_one_case  # with the limits of its cases
            new = with_other_limit(past, None) if past.takes_limits else one.new_likelihood
            stream = Stream(known.kernel, new, self.budget, **options)
            t = as_limits(self._labels_of(one.problem.t, likelihood), past)
            stream.update(self._named(one.X), t, weights=known.weights, progress=False)
        return Streamed(stream.update(X, y, weights=weights, progress=False))

    def _labels_of(self, t: Array, likelihood: Likelihood) -> NDArray[Any]:
        """Return the targets of a fit as a stream takes them: labels of several classes, True for the second of two."""
        if likelihood.has_classes:
            return self._as_given(t)
        return t > 0 if likelihood.is_binary else t

    def _named(self, X: Array, index: Any = None) -> Any:
        """Return inputs under the names of their columns, if they have names: kernels of some columns ask for them."""
        names = getattr(self, "feature_names_in_", None)
        return X if names is None else pd.DataFrame(X, index, names)


def _check_numbers(known: Known | None, X: Any) -> None:
    """Raise a ValueError if text tells groups, of the fit before or in a batch: codes of them are not kept here."""
    levels = known.posterior.parts[0].kernel.levels_of_columns() if isinstance(known, Whole) else {}
    if levels:
        raise ValueError(
            f"partial_fit takes numbers, and at the fit text such as {next(iter(levels.values()))[0]!r} told groups. "
            f"Fit to numbers for groups from the first, or fit again to all cases. {LEARNS_TEXT}"
        )
    if holds_more_than_numbers(X):
        text = pd.DataFrame(X).iloc[0, columns_of_groups(X)[0]]
        raise ValueError(
            f"partial_fit takes numbers, and X has text such as {text!r}. Encode it as numbers, such as 0 and 1 for "
            f"each of its values. {LEARNS_TEXT}"
        )


def is_streamed(model: GPEstimator) -> bool:
    """Tell whether there is a ``partial_fit``, or raise an AttributeError that says which parameter it is not for."""
    solver = None if model.method is None else get_method(model.method)
    if solver is not None and solver.name != "tap":
        raise AttributeError(f"partial_fit learns by method 'tap', got method={solver.name!r}. Leave it out.")
    if model.hyper is not None and model.hyper not in SEARCHES:
        raise AttributeError(
            f"partial_fit keeps one kernel: hyper must be None or one of {list(SEARCHES)}, got {model.hyper!r}."
        )
    if model.inducing is not None:
        raise AttributeError("partial_fit keeps as many inputs as budget says. Leave out inducing.")
    if model.monotone is not None:
        raise AttributeError("partial_fit holds no slopes to their signs. Leave out monotone, or fit to all cases.")
    return True


def where_streamed(method: M) -> M:
    """Make a method be there only where the parameters are those of a stream."""
    return cast(M, available_if(is_streamed)(method))


def _seed(random_state: Any) -> int:
    return int(check_random_state(random_state).randint(LARGEST_SEED))
