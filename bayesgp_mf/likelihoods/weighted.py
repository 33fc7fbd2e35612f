r"""Weights of cases: powers of a likelihood, handed to solvers as a likelihood."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods.base import Likelihood, Tunable, check_largest
from bayesgp_mf.likelihoods.powered import Powered
from bayesgp_mf.types import Array, Derivs

LARGEST_POWER = 1e6
"""The same of powers that have no form of their own, and are integrated."""


class _Part(NamedTuple):
    """Cases whose powers are of one form.

    Attributes
    ----------
    rows : (k,) array of int
        Their numbers.
    form : Any
        What has their powers, or those less a constant: a likelihood, or `Powered`.
    constant : float or (k,) array
        In nats, to be added to the logarithm of ``form``.
    slopes : Any
        What has the derivatives in parameters of the likelihood.
    """

    rows: NDArray[np.intp]
    form: Any
    constant: float | Array
    slopes: Any


@dataclass(frozen=True, slots=True, eq=False)
class Weighted(Likelihood):
    r"""The likelihood of cases that count for more than one, or for less: :math:`p(t_i|f_i)^{w_i}`.

    The evidence, and all that is pointwise (log-likelihood, leave-one-out density), is that of the power. What is said
    of targets (`sample`, `predict_proba`, `predictive_moments`) is said of one, which counts once.

    Parameters
    ----------
    likelihood : Likelihood
        p(t | f) of one case.
    weights : (n,) array
        Finite, >= 0, one for each case, in the order of the targets. A case of weight zero says nothing, and one of
        weight 1 exactly what it says without weights.

    Raises
    ------
    ValueError
        If a weight is above 1e12, or above 1e6 under a likelihood whose powers are integrated.
    UndefinedQuantityError
        If the likelihood forbids latent values (a step without flips), whose powers are all the same.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.likelihoods.weighted import Weighted
    >>> likelihood = Weighted(bgp.Probit(), np.array([2.0, 0.0]))
    >>> solution = bgp.solve([[2.0, 1.0], [1.0, 2.0]], [1, -1], likelihood)
    >>> solution.alpha.round(4)  # the second label says nothing
    array([0.6291, 0.    ])
    """

    likelihood: Likelihood
    weights: Array
    _parts: tuple[_Part, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        check_largest(self.weights)
        if self.likelihood.forbids:
            raise UndefinedQuantityError(
                "weights go with a likelihood that forbids no latent value: that of a step without flips is zero or "
                "one, and so is its every power. Give it noise: Probit(noise_variance=1.0) or Step(flip=0.05)."
            )
        object.__setattr__(self, "_parts", tuple(_in_parts(self.likelihood, self.weights)))

    @property
    def targets(self) -> Literal["binary", "real", "classes"]:
        """Those of the likelihood."""
        return self.likelihood.targets

    @property
    def forbids(self) -> bool:
        """No: a likelihood that does is refused."""
        return False

    @property
    def log_concave(self) -> bool:
        """Whether the likelihood is: then so are its powers."""
        return self.likelihood.log_concave

    @property
    def of_one_case(self) -> Likelihood:
        """The likelihood without weights."""
        return self.likelihood.of_one_case

    @property
    def stored_by_case(self) -> dict[str, Array]:
        """What a container holds of each case."""
        return self.likelihood.stored_by_case | {"weights": self.weights}

    @property
    def largest_offset(self) -> float:
        """As the likelihood says."""
        return self.likelihood.largest_offset

    @property
    def is_flat(self) -> bool:
        """Whether the likelihood is."""
        return self.likelihood.is_flat

    @property
    def parameters(self) -> Mapping[str, float]:
        """Those of the likelihood."""
        return self.likelihood.parameters

    def with_parameters(self, **values: float) -> Weighted:
        """Return the likelihood with other parameters and the same weights."""
        return Weighted(self.likelihood.with_parameters(**values), self.weights)

    @property
    def tunable(self) -> Mapping[str, Tunable]:
        """As the likelihood says."""
        return self.likelihood.tunables

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the derivative of `log_partition` in one of the parameters, and its two derivatives in mean."""

        def ask(part: _Part, *at: Array) -> Array:
            return np.array(np.broadcast_arrays(*part.slopes.parameter_derivative(name, *at)))

        return Derivs(*self._each(ask, t, mean, variance, lead=(3,)))

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return w log p(t | f), and its derivatives in f, ``(..., n)`` each."""

        def ask(part: _Part, t: Array, f: Array) -> Array:
            value, d1, d2 = part.form.log_prob(t, f)
            return np.array(np.broadcast_arrays(value + part.constant, d1, d2))

        return Derivs(*self._each(ask, t, f, lead=(3,)))

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t | f)^w N(f | mean, variance), and its derivatives in mean."""

        def ask(part: _Part, t: Array, mean: Array, variance: Array) -> Array:
            value, d1, d2 = part.form.log_partition(t, mean, variance)
            return np.array(np.broadcast_arrays(value + part.constant, d1, d2))

        return Derivs(*self._each(ask, t, mean, variance, lead=(3,)))

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition`, where the likelihood has a form of them."""
        known = True

        def ask(part: _Part, t: Array, mean: Array, variance: Array, *derivs: Array) -> Array:
            nonlocal known
            less = Derivs(derivs[0] - part.constant, *derivs[1:])
            found = part.form.higher_derivatives(t, mean, variance, less)
            known &= found is not None
            return np.zeros((2, *mean.shape)) if found is None else np.array(found)

        third, fourth = self._each(ask, t, mean, variance, *derivs, lead=(2,))
        return (third, fourth) if known else None

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Array | None:
        """Return what `cumulants.tilted_cumulants` does, where the likelihood has a form of it."""
        known = True

        def ask(part: _Part, t: Array, mean: Array, variance: Array) -> Array:
            nonlocal known
            found = part.form.tilted_cumulants(t, mean, variance, order)
            known &= found is not None
            return np.zeros((order - 2, *mean.shape)) if found is None else found

        found = self._each(ask, t, mean, variance, lead=(order - 2,))
        return found if known else None

    def tilted_share(self, t: Array, mean: Array, variance: Array) -> Array | None:
        """Return what `Likelihood.tilted_share` does, where the powers know it; all is left at a weight of zero."""
        known = True

        def ask(part: _Part, t: Array, mean: Array, variance: Array) -> Array:
            nonlocal known
            found = part.form.tilted_share(t, mean, variance)
            known &= found is not None
            # what is found is taken from 1, so that a case of weight zero has 1
            return np.zeros_like(mean) if found is None else found - 1.0

        found = self._each(ask, t, mean, variance)
        return found + 1.0 if known else None

    def known_sites(self, t: Array, noise: float) -> tuple[Array, Array] | None:
        """Return precisions and shifts of sites that are the same at every cavity, where the likelihood has such."""
        known = True

        def ask(part: _Part, t: Array) -> Array:
            nonlocal known
            found = part.form.known_sites(t, noise)
            known &= found is not None
            return np.zeros((2, *t.shape)) if found is None else np.array(found)

        precision, shift = self._each(ask, t, lead=(2,))
        return (precision, shift) if known else None

    def check_targets(self, name: str, t: Array) -> None:
        """Raise a ValueError if the targets are none of the likelihood."""
        self.likelihood.check_targets(name, t)

    def of_cases(self, which: NDArray[np.intp]) -> Weighted:
        """Return the likelihood of some cases with their weights."""
        return Weighted(self.likelihood.of_cases(which), self.weights[which])

    @property
    def new_case_facts(self) -> tuple[str, ...]:
        """What may be given of each new case: what the likelihood takes."""
        return self.likelihood.new_case_facts

    def of_new_cases(self, **given: Array) -> Likelihood:
        """Return the likelihood of cases that are not those of the fit: each of them counts once."""
        return self.likelihood.of_new_cases(**given)

    def predictive_moments(self, mean: Array, variance: Array) -> tuple[Array, Array] | None:
        """Return mean and variance of one target of each case whose latent value is N(mean, variance)."""
        return self.likelihood.predictive_moments(mean, variance)

    @property
    def n_levels(self) -> int | None:
        """Of ordered levels, how many there are."""
        return self.likelihood.n_levels

    def predict_proba(self, mean: Array, variance: Array) -> Array:
        """Return P(t = +1) of one label of each case when f ~ N(mean, variance)."""
        return self.likelihood.predict_proba(mean, variance)

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw one target for each latent value."""
        return self.likelihood.sample(f, rng)

    def to_dict(self) -> dict[str, Any]:
        """Raise: the weights are those of certain cases, and say nothing about others."""
        raise UndefinedQuantityError("weights are those of certain cases: fit(X, y, kernel, likelihood, weights=...).")

    def _each(self, ask: Callable[..., Array], *arrays: Any, lead: tuple[int, ...] = ()) -> Array:
        """Return what a function of a part and of arrays of its cases says of all; zero where the weight is zero."""
        shape = np.broadcast_shapes(*(np.shape(array) for array in arrays))
        if shape[-1:] != self.weights.shape:
            raise ValueError(
                f"this likelihood has the weights of {self.weights.size} cases, all of which must be asked for at once "
                f"and in order, got shape {shape}."
            )
        arrays = np.broadcast_arrays(*arrays)
        found = np.zeros((*lead, *arrays[0].shape))
        for part in self._parts:
            found[..., part.rows] = ask(part, *(array[..., part.rows] for array in arrays))
        return found


def _in_parts(likelihood: Likelihood, weights: Array) -> list[_Part]:
    """Return cases by what their powers are: the likelihood itself, another one, or an integral."""
    found, rest = list[_Part](), [np.empty(0, dtype=np.intp)]
    (once,) = np.nonzero(weights == 1.0)
    if once.size:
        some = likelihood.of_cases(once)
        found.append(_Part(once, some, 0.0, some))
    (more,) = np.nonzero((weights > 0) & (weights != 1.0))
    together = _of_one_form(likelihood, weights, more)
    if together is not None:
        return [*found, together]
    for weight in np.unique(weights[more]):
        (rows,) = np.nonzero(weights == weight)
        part = _of_one_form(likelihood, weights, rows)
        if part is not None:
            found.append(part)
        elif weight <= LARGEST_POWER:
            rest.append(rows)
        else:
            raise ValueError(
                f"weights must be at most {LARGEST_POWER:g} under {likelihood.display_name}, whose powers are "
                f"integrated, got {weight:g} at index {int(rows[0])}. Divide all of them by one number."
            )
    others = np.sort(np.concatenate(rest))
    if others.size:
        powered = Powered(likelihood.of_cases(others), weights[others])
        found.append(_Part(others, powered, 0.0, powered))
    return found


def _of_one_form(likelihood: Likelihood, weights: Array, rows: NDArray[np.intp]) -> _Part | None:
    """Return cases whose powers are those of another likelihood, or None if they are not."""
    if not rows.size:
        return None
    some = likelihood.of_cases(rows)
    powers = some.powers(weights[rows])
    if powers is None:
        return None
    slopes = Powered(some, weights[rows]) if powers.slopes is None else powers.slopes
    return _Part(rows, powers.form, powers.constant, slopes)
