"""The base class of likelihoods: what each must answer, in words and integrals, and defaults of all else.

A solver asks one question: the log of a likelihood averaged over a Gaussian, with two derivatives.
Labels are -1/+1 in here (``t``); the names of the classes stay at the user's door. What a likelihood knows of its cases
is one number for all of them, or one for each.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, ClassVar, Literal, NamedTuple, Self, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods.class_names import checked_classes
from bayesgp_mf.likelihoods.star import MatrixSites, StarSites
from bayesgp_mf.names import NamingAbsent
from bayesgp_mf.notebook import as_html, in_words
from bayesgp_mf.types import Array, Derivs

Targets: TypeAlias = Literal["binary", "real", "classes"]
"""Labels -1/+1, real numbers, or codes 0 to C - 1 of several classes."""
LARGEST_WEIGHT = 1e12
"""More than the digits of anything that is weighed."""
PLAIN = (bool, int, float, str, type(None))
"""What a file can hold as it is."""


class Tunable(NamedTuple):
    """How a parameter > 0 of a likelihood may be chosen together with those of the kernel.

    Attributes
    ----------
    by_default : bool
        Whether it is tuned where nothing is said of it; else only if it has a prior or bounds.
    below : float
        What it must stay below.
    at_lower, at_upper : str
        What it says of the data if a search ends at its lowest or highest value, for a warning.
    """

    by_default: bool = True
    below: float = math.inf
    at_lower: str = ""
    at_upper: str = ""


NOISE = Tunable(
    at_lower="the kernel explains the targets without noise", at_upper="the kernel explains little of the targets"
)
FLIP = Tunable(below=0.5, at_lower="no label looks wrong", at_upper="the labels hardly depend on the inputs")


class LatentNoise(NamedTuple):
    """The Gaussian noise in which a latent value is seen.

    Attributes
    ----------
    variance : float or (n,) array
        In squared latent units: of every case or, of real targets, of each.
    flip : float
        Probability that a sign is recorded as the other one.
    """

    variance: float | Array
    flip: float = 0.0


class Powers(NamedTuple):
    """Powers of a likelihood, case by case, as another likelihood times constants.

    Attributes
    ----------
    form : Likelihood
        The other one.
    constant : float or (k,) array
        Logarithms of the constants.
    slopes : function or None
        The `Likelihood.parameter_derivative` of the powers, in the parameters of the first; None where it has to be
        integrated.
    """

    form: Likelihood
    constant: float | Array
    slopes: Callable[..., Derivs] | None = None


class Likelihood(NamingAbsent, ABC):
    """A likelihood p(t | f) of one target given one latent value: what yours derives from.

    `targets`, `forbids`, `log_concave` (class variables will do) and three methods are required. The rest has defaults,
    which hold for any likelihood; override what yours knows better.

    Attributes
    ----------
    targets : {"binary", "real", "classes"}
        Whether ``t`` holds labels -1/+1, real numbers, or codes 0 to C - 1 of several classes. With several classes
        each case has a latent value for each of them, along a last axis: where a case has one number below, it has a
        vector ``(C,)`` of means and of first derivatives, and a matrix ``(C, C)`` of covariances and of second ones.
    """

    __slots__ = ()

    @property
    @abstractmethod
    def targets(self) -> Targets:
        """Whether ``t`` holds labels -1/+1, real numbers, or codes of classes."""

    @property
    @abstractmethod
    def forbids(self) -> bool:
        """Whether some latent values have likelihood zero, so that data can contradict the model."""

    @property
    @abstractmethod
    def log_concave(self) -> bool:
        """Whether log p(t|f) is concave in f, which makes every site precision non-negative."""

    @abstractmethod
    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return log p(t|f) and its derivatives in f; ``t`` and ``f`` broadcast."""

    @abstractmethod
    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t|f) N(f | mean, variance) df, and its derivatives in mean."""

    def predict_proba(self, mean: Array, variance: Array) -> Array:
        """Return the integral of p(t=+1|f) N(f | mean, variance) df, elementwise.

        Raises
        ------
        UndefinedQuantityError
            If the targets are no labels -1/+1.
        """
        if self.is_binary:
            return np.asarray(np.exp(self.log_partition(np.asarray(1.0), mean, variance).value))
        what = "counts as targets" if self.whole_targets else f"{self.targets} targets"
        if self.n_levels is not None:
            what = "levels, of which level_probabilities says more,"
        raise UndefinedQuantityError(
            f"the {type(self).__name__} likelihood has {what} and so no class probabilities. Use "
            "posterior.latent(X_new) for the predictive mean and variance."
        )

    @abstractmethod
    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw a target for each latent value; same shape as ``f``."""

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, of which `likelihoods.from_dict` makes a likelihood of this package again.

        By default the name and, of a dataclass, the fields that are plain, or tuples. Raise an UndefinedQuantityError
        where the likelihood cannot be saved at all.
        """
        each: Any = self
        given = {field.name: getattr(each, field.name) for field in (fields(each) if is_dataclass(each) else ())}
        plain = {k: list(v) if isinstance(v, tuple) else v for k, v in given.items() if isinstance(v, (*PLAIN, tuple))}
        return {"likelihood": type(self).__name__} | plain

    @property
    def undrawn(self) -> str | None:
        """Why `sample` cannot draw targets, and what to do; None where it can. `fit` asks before any work is done."""
        return None

    # Targets

    def check_targets(self, name: str, t: Array) -> None:  # all finite numbers are targets
        """Raise a ValueError if real targets are none of this likelihood, as -1 is no count.

        ``name`` is that of the argument. By default all finite numbers are targets.
        """

    @property
    def is_binary(self) -> bool:
        """Whether targets are labels -1/+1."""
        return self.targets == "binary"

    @property
    def is_real(self) -> bool:
        """Whether targets are numbers: measurements, counts or levels; else they are labels."""
        return self.targets == "real"

    @property
    def has_classes(self) -> bool:
        """Whether a case has a latent value for each of several classes, and its target is the code of one."""
        return self.targets == "classes"

    @property
    def whole_targets(self) -> bool:
        """Whether real targets are whole numbers >= 0."""
        return False

    def link(self, mean: Array) -> Array:
        """Return means of real targets, or the targets themselves, on the scale of latent values."""
        return mean

    @property
    def of_times(self) -> bool:
        """Whether real targets are times > 0."""
        return False

    @property
    def takes_limits(self) -> bool:
        """Whether a target may be known by limits: then it has a field ``other_limit``, which is made of targets."""
        return False

    @property
    def all_seen(self) -> bool:
        """Whether all targets of these cases are what they stand for, and no limits."""
        return True

    @property
    def n_levels(self) -> int | None:
        """How many ordered levels real targets number, from 0; None where they are no levels."""
        return None

    @property
    def is_discrete(self) -> bool:
        """Whether targets have probabilities, as labels, counts and levels; else they have a density."""
        return not self.is_real or self.whole_targets or self.n_levels is not None

    def level_probabilities(self, mean: Array, variance: Array) -> Array | None:
        """Return the probability of each level ``(m, K)`` of latent values N(mean, variance), if it has levels."""
        return None

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array] | None:
        """Return mean and variance ``(m,)`` of real targets whose latent values are N(mean, variance), where known."""
        return None

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array | None:
        """Return how likely real targets whose latent values are N(mean, variance) are to be at most t, where known.

        ``t (m,)`` or ``(q, m)`` are numbers of any kind, and ``mean`` and ``variance`` are ``(m,)``; the result has
        the shape of ``t``.
        """
        return None

    @property
    def n_classes(self) -> int | None:
        """Number of classes with a latent value each; None where there is one latent value, or the labels decide."""
        return None

    @property
    def classes(self) -> tuple[Any, ...] | None:
        """All classes there are, in order; None where the labels decide."""
        return None

    def with_classes(self, classes: tuple[Any, ...]) -> Likelihood:
        """Return the likelihood with its classes named, where it has a latent value for each."""
        return self

    @property
    def site_shape(self) -> Literal["star", "matrix"] | None:
        """Which sites labels of several classes make for TAP: those of `star_sites`, of `matrix_sites`, or none."""
        return None

    # What is known beyond the two derivatives

    @property
    def latent_noise(self) -> LatentNoise | None:
        """The noise if the target is the latent value with Gaussian noise (the sign of that where it is binary)."""
        return None

    @property
    def is_flat(self) -> bool:
        """Whether p(t|f) is constant in f but for jumps, as a step is."""
        return False

    def known_sites(self, t: Array, noise: float) -> tuple[Array, Array] | None:
        """Return precision W and shift b ``(n,)`` of sites that are the same at every cavity, as a Gaussian's are.

        They would be found by taking differences otherwise, which cancel where the cavity is wide. ``noise`` is a
        variance that adds to that of the latent value.
        """
        return None

    def tilted_share(self, t: Array, mean: Array, variance: Array) -> Array | None:
        """Return which part ``(n,)`` of the variances is left in likelihood times Gaussian, to all digits.

        It is 1 + variance d2 with d2 of `log_partition`, a difference that cancels where a target says much more than
        the Gaussian. Variances are above zero.
        """
        return None

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition`, which is ``derivs``, where they have a form."""
        return None

    def curved_at(self, t: Array) -> Array:
        """Return the latent values ``(n,)`` near which log p(t|f) bends most: by default zero."""
        return np.zeros_like(t)

    def tilted_values(self, t: Array, mean: Array, variance: Array, scores: Array) -> tuple[Array, Array] | None:
        """Return what `processes.tilted.tilted_values` does, where it has a closed form."""
        return None

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array | None:
        """Return what `cumulants.tilted_cumulants` does for variances above zero, where it has a closed form."""
        return None

    def mode_bracket(self, t: Array, mean: Array, variance: Array) -> tuple[Array, Array] | None:
        """Return bounds ``(n,)`` between which a log-concave p(t|f) N(f | mean, variance) is largest, where known.

        Of one that is not log-concave, but has one mode: bounds of the mode and of the mean.
        """
        return None

    # Parameters

    @property
    def parameters(self) -> Mapping[str, float]:
        """The parameters > 0 by name, to be tuned, or random in a model of PyMC; by default those of `tunable`."""
        return {name: getattr(self, name) for name in self.tunable}

    def _repr_html_(self) -> str:
        """Return the kind of targets and the parameters as HTML, which a notebook shows."""
        rows = [("targets", _TARGETS[self.targets])]
        rows += [(name.replace("_", " "), in_words(value)) for name, value in self.parameters.items()]
        return as_html(f"{self.display_name} likelihood", [*rows, ("as code", repr(self))])

    @property
    def tunable(self) -> Mapping[str, Tunable]:
        """How `parameters` may be tuned; one that is not here is tuned only if it has a prior or bounds."""
        return {}

    @property
    def tunables(self) -> Mapping[str, Tunable]:
        """How each of the `parameters` may be tuned."""
        stated = self.tunable
        return {name: stated.get(name, Tunable(by_default=False)) for name in self.parameters}

    def with_parameters(self, **values: Any) -> Self:
        """Return the likelihood with some of its `parameters` replaced; ValueError if it refuses a value."""
        each: Any = self
        self.check_names(values)
        return replace(each, **values) if values else self

    def check_names(self, values: Mapping[str, Any]) -> None:
        """Raise a ValueError if one of the names is none of `parameters`."""
        if unknown := sorted(values.keys() - self.parameters.keys()):
            raise ValueError(f"{type(self).__name__} has no parameters {unknown}; it has {list(self.parameters)}.")

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the `parameters`, as scikit-learn asks for those of a part of an estimator."""
        return dict(self.parameters)

    def set_params(self, **params: Any) -> Self:
        """Return another likelihood, `with_parameters`: this one stays as it is, unlike scikit-learn's."""
        return self.with_parameters(**params)

    def __sklearn_clone__(self) -> Self:
        """Return itself to scikit-learn's ``clone``: nothing ever changes a likelihood."""
        return self

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the derivative of `log_partition` in one of the `parameters`: of its value and both derivatives."""
        raise NotImplementedError(f"{type(self).__name__} has no parameter_derivative of {name!r}.")

    def log_prob_graph(self, functions: Any, t: Any, f: Any, *args: Any, **values: Any) -> Any | None:
        """Return log p(t|f) written with functions (`pymc.latent` has them), for labels -1/+1 or real targets.

        `parameters` that are not among the ``values`` have the likelihood's own numbers. None where it is not known.
        """
        return None

    # Cases that differ

    def of_cases(self, which: NDArray[np.intp]) -> Likelihood:
        """Return the likelihood of the cases with the given numbers, where it is not the same for all."""
        return self

    @property
    def new_case_facts(self) -> tuple[str, ...]:
        """The names of what may be given of each new case: ``offset``, ``trials``."""
        return ()

    def of_new_cases(self, *args: Any, **facts: Any) -> Likelihood:
        """Return the likelihood of cases that are not those of the fit, where it is not the same for all.

        It takes those of `new_case_facts` that are given, and raises a ValueError if one is missing.
        """
        return self

    @property
    def made_of(self) -> tuple[Likelihood, ...]:
        """The likelihoods that this one is made of."""
        return ()

    @property
    def of_one_case(self) -> Likelihood:
        """The likelihood without what it has of each case: prior means, offsets and weights."""
        return self

    @property
    def stored_by_case(self) -> dict[str, Array]:
        """What a container holds of each case beside `of_one_case`: ``offset`` and ``weights``, where there are any."""
        return {}

    @property
    def display_name(self) -> str:
        """The name for a message: that of the class, and what it has of each case."""
        by_case = self.stored_by_case
        return type(self.of_one_case).__name__ + (f" with {' and '.join(by_case)}" if by_case else "")

    @property
    def unshifted(self) -> Likelihood:
        """The likelihood of the latent values themselves where this is one of deviations from a prior mean."""
        return self

    @property
    def some_target(self) -> float:
        """A target that a case may have; it stands where none is known and the answer does not count."""
        return 1.0

    @property
    def largest_offset(self) -> float:
        """How large an offset may be, in absolute value: beyond, a latent value of order one would have few digits."""
        return 1e9

    def powers(self, weights: Array) -> Powers | None:
        """Return p(t_i|f_i)^weight_i of k cases as one likelihood, where they are; weights ``(k,)`` above zero.

        Where it is None of different weights, it is called with those that are the same.
        """
        return None

    def weighted(self, weights: Array) -> Likelihood | None:
        """Return p(t_i|f_i)^weight_i of all cases where it is not left to `by_case`, which None says."""
        return None

    @property
    def unbounded_if_weighted(self) -> tuple[str, ...]:
        """The parameters in which the evidence of cases that count for more than one has no bound.

        As they near zero, or infinity, the density of a target that is met exactly grows without end.
        """
        return ()

    @property
    def allows_noise(self) -> str | None:
        """What of the likelihood allows more noise where targets contradict each other, for a message."""
        return None

    @property
    def ways_to_noise(self) -> str:
        """What allows more noise, for a message; a White kernel always does."""
        own = self.of_one_case.allows_noise
        return "kernels.White(...)" if own is None else f"{own} or kernels.White(...)"


@dataclass(frozen=True, slots=True)
class ClassLikelihood(Likelihood):
    """A likelihood of several latent values, one for each class, whose form the methods for several classes use.

    Attributes
    ----------
    classes : tuple or None
        All classes there are, in order; None where the labels decide.
    """

    classes: tuple[Any, ...] | None = None
    targets: ClassVar[Literal["classes"]] = "classes"

    def __post_init__(self) -> None:
        if self.classes is not None:
            object.__setattr__(self, "classes", checked_classes(self.classes))

    @property
    def n_classes(self) -> int | None:
        """Number of classes C, or None where the labels decide."""
        return None if self.classes is None else len(self.classes)

    def with_classes(self, classes: tuple[str, ...]) -> Self:
        """Return the likelihood with its classes named."""
        return replace(self, classes=classes)

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the numbers, and the names of the classes where they are known."""
        given = Likelihood.to_dict(self)  # super() does not know a class that was made anew for its slots
        del given["classes"]
        return given | ({} if self.classes is None else {"classes": [str(label) for label in self.classes]})

    @property
    def largest_wins(self) -> tuple[float, float] | None:
        """Where the largest latent value with noise names the label: the variance of that, and how likely a flip is."""
        return None

    @property
    def case_weights(self) -> float | Array:
        """How often each case counts, above zero: one number for all, or ``(n,)``."""
        return 1.0

    def weighted(self, weights: Array) -> Likelihood:
        """Return p(t_i|f_i)^weight_i of all cases, or raise an UndefinedQuantityError."""
        raise UndefinedQuantityError(
            f"weights of several classes go with Softmax() and method='laplace', and this is {type(self).__name__}. "
            "Use those, or leave the weights out."
        )

    @abstractmethod
    def predict_proba(self, mean: Array, covariance: Array) -> Array:
        """Return E p(t=c|f) ``(m, C)`` for f ~ N(mean, covariance), ``mean (m, C)``, ``covariance (m, C, C)``."""

    @abstractmethod
    def log_density(self, t: Array, f: Array) -> Array:
        """Return the value of `log_prob` without its derivatives."""

    @abstractmethod
    def predictions(self, t: Array, mean: Array, covariance: Array) -> tuple[Array, Array]:
        """Return the value of `log_partition` ``(m,)``, without derivatives, and `predict_proba` ``(m, C)``."""

    def star_points(self, n_classes: int) -> int | None:
        """Return the nodes for each variable of an integral by quadrature, None where there is no such integral.

        There is a ValueError if that is not done for so many classes.
        """
        return None

    def star_sites(self, t: Array, mean: Array, covariance: Array, points: int | None = None) -> StarSites:
        """Return the sites of cases with classes ``t (n,)`` at Gaussians ``(n, C)`` and ``(n, C, C)``.

        One that has an inner loop (`StarSites.inner`) takes ``start``, where it begins, as well.
        """
        raise NotImplementedError(f"{type(self).__name__} has no star_sites.")

    def matrix_sites(self, t: Array, mean: Array, covariance: Array) -> MatrixSites:
        """Return the sites of such cases where they are of no star form."""
        raise NotImplementedError(f"{type(self).__name__} has no matrix_sites.")

    def star_predictions(
        self, t: Array, mean: Array, covariance: Array, points: int | None = None
    ) -> tuple[Array, Array]:
        """Return the log densities ``(n,)`` of targets and the probabilities ``(n, C)`` of the classes there."""
        return self.predictions(t, mean, covariance)

    def opposed_at_most(self, mean: Array, covariance: Array) -> Array:
        """Return what the probability ``(r,)`` that one case has label a, and another one label b, cannot exceed.

        From Gaussians ``(r, 2)`` and ``(r, 2, 2)`` of the differences f_a - f_b at both cases, of labels without flips.
        """
        return np.ones(mean.shape[0])


def of_added_variance(derivs: Derivs, d3: Array, d4: Array) -> Derivs:
    """Return the derivatives of a log partition function in a variance that adds to the Gaussian's.

    Of its value and both derivatives in mean, from four derivatives in mean. Z solves the heat equation: that of the
    value is :math:`(d_2 + d_1^2)/2`.
    """
    _, d1, d2 = derivs
    return Derivs(0.5 * (d2 + d1**2), 0.5 * d3 + d1 * d2, 0.5 * d4 + d2**2 + d1 * d3)


def check_flip(flip: float) -> float:
    """Return the probability of a flipped label as a float, or raise a ValueError if it is not one in [0, 1/2)."""
    number = float(flip) if isinstance(flip, int | float | np.number) and abs(flip) < 1 else np.nan
    if not 0.0 <= number < 0.5:
        raise ValueError(
            f"flip must be a probability in [0, 0.5), got {flip!r}. From one half on most labels would be "
            "wrong: correct them instead, such as by exchanging those of two classes."
        )
    return number


def check_largest(weights: Array) -> None:
    """Raise a ValueError if the weight of a case is so large that rounding would decide."""
    largest = float(np.max(weights, initial=0.0))
    if largest > LARGEST_WEIGHT:
        raise ValueError(
            f"weights must be at most {LARGEST_WEIGHT:g}, got {largest:g} at index {int(np.argmax(weights))}: "
            "rounding would decide. A case of weight 2 counts as it does twice; divide all of them by one number "
            "if they are of another scale."
        )


def check_number(name: str, value: float, *, zero_allowed: bool = False, what: str = "") -> float:
    """Return ``value`` as a float if it is finite and > 0 (or >= 0), else raise a ValueError with ``what`` it is."""
    try:
        number = math.nan if isinstance(value, str | bool | np.bool_) else float(value)
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero_allowed):
        raise ValueError(f"{name} must be a finite number {'>= 0' if zero_allowed else '> 0'}{what}, got {value!r}.")
    return number


def check_noise_variance(value: float, *, zero_allowed: bool) -> float:
    """Return ``value`` as a float if it is a usable variance, else raise ValueError."""
    what = " (a variance, not a standard deviation)"
    return check_number("noise_variance", value, zero_allowed=zero_allowed, what=what)


def check_gaussian_variance(variance: Array) -> None:
    """Raise a ValueError if the variance of a Gaussian to integrate against is negative or NaN."""
    if not (np.asarray(variance) >= 0).all():
        raise ValueError(f"variance must be >= 0, got {float(np.min(variance)):.3g}.")


_TARGETS = {"binary": "labels of two classes", "real": "numbers", "classes": "labels of several classes"}


def each_in_words(values: Any) -> str:
    """Return one number as it is, and one for each case as their range: the repr of a likelihood stays short."""
    if np.ndim(values) == 0:
        return repr(values)
    array = np.asarray(values, dtype=np.float64)
    return f"<{array.size} values, {array.min():.4g} to {array.max():.4g}>"


def as_each(name: str, given: ArrayLike, *, least: float, whole: bool, expected: str, advice: str) -> Any:
    """Return one number as a float, or one for each case as a tuple of them; ValueError if one is none of those.

    Numbers are finite, at least ``least`` (above it, if they need not be ``whole``), as ``expected`` says in words.
    """
    try:
        values = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{name} must be {expected}, or one such number for each case, got {given!r:.80}.") from error
    good = np.isfinite(values) & ((values >= least) & (values == np.floor(values)) if whole else values > least)
    if values.ndim > 1 or not values.size or not np.all(good):
        found = f"shape {values.shape}" if values.ndim > 1 or not values.size else f"{values[~good].flat[0]:g}"
        raise ValueError(f"{name} must be {expected}, or one such number for each case, got {found}. {advice}")
    return float(values) if values.ndim == 0 else tuple(values.tolist())


def of_each(who: str, what: str, values: Any, f: ArrayLike) -> Array:
    """Return what is known of the cases along the last axis of an array, in its shape, or raise a ValueError."""
    known = np.asarray(values, dtype=np.float64)
    if known.ndim and np.shape(f)[-1:] != known.shape:
        raise ValueError(
            f"{who} has the {what} of {known.size} cases, all of which must be there and in order, got shape "
            f"{np.shape(f)}. Give one number where all have the same."
        )
    return np.broadcast_to(known, np.shape(f))
