r"""What a problem knows of each case beside its target: a prior mean, an offset of the latent value, and a weight.

A likelihood with such facts is one again, and solvers need not know of them. With :math:`g \sim N(0, K)` for what a
solver calls latent values, a case says

.. math:: p(t_i|\mu_i + o_i + g_i)^{w_i}.

A prior mean :math:`\mu` is one of the function: what a posterior calls latent values are :math:`\mu + g`. An offset,
such as the log of an exposure, is known for each case and belongs to its target. Evidence and all that is pointwise
(log-likelihood, leave-one-out density) are those of the power; what is said of targets (`sample`, `predict_proba`,
`predictive_moments`) is said of one, which counts once.

A weight is a power of the likelihood, averaged over Gaussians: :math:`\int p(t|f)^w\, N(f | m, v)\, df`. Where p is
log-concave so is its power, and the average is the self-checking rule of `likelihoods.centred`; else it is the
adaptive one of `likelihoods.quadrature`. The mode of :math:`w \log p(t|f) - (f - m)^2/(2v)` is that of log p with the
variance w v in place of v.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from operator import attrgetter, methodcaller
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.likelihoods.base import Likelihood, Powers, check_largest
from bayesgp_mf.likelihoods.centred import Bracket, Centred, Curve
from bayesgp_mf.likelihoods.cumulants import tilted_cumulants
from bayesgp_mf.types import Array, Derivs


def trait(name: str, field: str = "likelihood") -> Any:
    """Return a property that is that of the likelihood that something is made of, its ``field``."""
    return property(attrgetter(f"{field}.{name}"), doc=f"That of ``{field}``.")


@dataclass(frozen=True, slots=True, eq=False)
class Powered(Centred):
    """Powers of the likelihood of some cases, by quadrature.

    Parameters
    ----------
    likelihood : Likelihood
        p(t | f) of these cases.
    weights : (k,) array
        The exponents, above zero.
    """

    likelihood: Likelihood
    weights: Array

    targets = trait("targets")
    log_concave = trait("log_concave")
    is_flat = trait("is_flat")

    def sample(self, f: Array, rng: np.random.Generator) -> Array:
        """Draw one target for each latent value."""
        return self.likelihood.sample(f, rng)

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return w log p(t|f) and its derivatives in f, ``(..., k)``."""
        with np.errstate(over="ignore"):  # far out: minus infinity is the answer
            return Derivs(*(self.weights * part for part in self.likelihood.log_prob(t, f)))

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> tuple[Array, Array] | None:
        """Return the third and fourth derivative of `log_partition` at variance zero, if the likelihood has them."""
        if np.any(variance):
            return None
        once = self.likelihood.log_partition(t, mean, variance)
        found = self.likelihood.higher_derivatives(t, mean, variance, once)
        return None if found is None else (self.weights * found[0], self.weights * found[1])

    def _of_targets(self, t: Array) -> tuple[Curve, Bracket]:
        case = np.broadcast_to(np.arange(self.weights.size), t.shape).ravel()
        flat, weights = t.ravel(), self.weights[case]

        def bracket(rows: Any, mean: Array, variance: Array) -> tuple[Array, Array]:
            some, spread = self.likelihood.of_cases(case[rows]), variance * weights[rows]
            known = some.mode_bracket(flat[rows], mean, spread)
            if known is not None:
                return known
            if not self.log_concave:
                return np.full_like(mean, -np.inf), np.full_like(mean, np.inf)
            with np.errstate(over="ignore", invalid="ignore"):
                # the slope of log p falls along f, so that the mode is no farther than that at the mean says
                end = mean + spread * some.log_prob(flat[rows], mean).d1
            return np.minimum(mean, end), np.maximum(mean, end)

        return self._powers_of(case, flat, lambda some, t, f: some.log_prob(t, f)), bracket

    def _slope_of_targets(self, name: str, t: Array) -> Curve:
        def slope(some: Likelihood, t: Array, f: Array) -> Derivs:
            return some.parameter_derivative(name, np.broadcast_to(t, f.shape), f, np.zeros(f.shape))

        case = np.broadcast_to(np.arange(self.weights.size), t.shape).ravel()
        return self._powers_of(case, t.ravel(), slope)

    def _powers_of(self, case: NDArray[np.intp], t: Array, once: Callable[[Likelihood, Array, Array], Derivs]) -> Curve:
        """Return the weights times what a function finds of the likelihood of some cases and their targets."""

        def curve(rows: Any, f: Array) -> Derivs:
            which = np.ravel(rows)
            some = case[which]
            found, weights = once(self.likelihood.of_cases(some), t[which], f.T), self.weights[some]
            return Derivs(*((weights * part).T for part in found))  # the last axis was that of cases

        return curve


_Part: TypeAlias = tuple[slice | NDArray[np.intp], Powers]
LARGEST_POWER = 1e6
"""More than the digits of powers that have no form of their own, and are integrated."""


def by_case(
    likelihood: Likelihood, offset: Array | None = None, weights: Array | None = None, prior_mean: Array | None = None
) -> Likelihood:
    r"""Return :math:`p(t_i | \mu_i + o_i + g_i)^{w_i}` of n cases, with what is given of them.

    Parameters
    ----------
    likelihood : Likelihood
        p(t | f) of one case; not one that forbids latent values, since data that contradict it are looked for around
        zero, and its powers are all the same.
    offset : (n,) array, optional
        What is added to latent values and belongs to the target, in latent units and in the order of the targets.
    weights : (n,) array, optional
        Finite, >= 0. A case of weight zero says nothing, and one of weight 1 exactly what it says without weights.
    prior_mean : (n,) array, optional
        Prior means of latent values.

    Raises
    ------
    ValueError
        If a weight is above 1e12, or above 1e6 under a likelihood whose powers are integrated; or an offset is beyond
        what the likelihood takes.
    UndefinedQuantityError
        If the likelihood forbids latent values (a step without flips), or is one of several classes: a `Softmax` takes
        weights.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.likelihoods.by_case import by_case
    >>> gram = [[2.0, 1.0], [1.0, 2.0]]
    >>> weighted = by_case(bgp.Probit(), weights=np.array([2.0, 0.0]))
    >>> bgp.solve(gram, [1, -1], weighted).alpha.round(4)  # the second label says nothing
    array([0.6291, 0.    ])
    >>> with_mean = by_case(bgp.Probit(), prior_mean=np.array([0.5, -1.0]))
    >>> bgp.solve(gram, [1, -1], with_mean).alpha.round(4)  # what the labels add to the prior mean
    array([ 0.423 , -0.3403])
    """
    if weights is not None and (own := likelihood.weighted(weights)) is not None:
        return by_case(own, offset, prior_mean=prior_mean)
    facts = {"prior_mean": prior_mean, "offset": offset, "weights": weights}
    given: dict[str, Any] = {name: values for name, values in facts.items() if values is not None}
    if not given:
        return likelihood
    return replace(likelihood, **given) if isinstance(likelihood, _OfCases) else _OfCases(likelihood, **given)


def _of_target(name: str) -> Any:
    """Return a method of one target: that of the likelihood, with what is added to the first argument."""

    def member(self: _OfCases, f: Array, *others: Any) -> Any:
        return methodcaller(name, self.added(f), *others)(self.likelihood)

    return member


@dataclass(frozen=True, slots=True, eq=False)
class _OfCases(Likelihood):
    """What `by_case` returns."""

    likelihood: Likelihood
    prior_mean: Array | None = None
    offset: Array | None = None
    weights: Array | None = None
    _parts: tuple[_Part, ...] = field(init=False, repr=False)  # cases whose powers are of one form, and these

    targets = trait("targets")
    forbids = False
    log_concave = trait("log_concave")
    is_flat = trait("is_flat")
    whole_targets = trait("whole_targets")
    some_target = trait("some_target")
    n_levels = trait("n_levels")
    parameters = trait("parameters")
    tunable = trait("tunables")
    of_one_case = trait("of_one_case")
    of_times = trait("of_times")
    check_targets = trait("check_targets")

    predict_proba = _of_target("predict_proba")
    sample = _of_target("sample")
    predictive_moments = _of_target("predictive_moments")
    level_probabilities = _of_target("level_probabilities")

    def __repr__(self) -> str:
        return f"{self.likelihood!r} with {' and '.join(self.stored_by_case) or 'a prior mean'}"

    def __post_init__(self) -> None:
        _check(self.likelihood, self.prior_mean, self.offset, self.weights)
        whole = [(slice(None), Powers(self.likelihood, 0.0, self.likelihood.parameter_derivative))]
        parts = whole if self.weights is None else _in_parts(self.likelihood, self.weights)
        object.__setattr__(self, "_parts", tuple(parts))

    @property
    def stored_by_case(self) -> dict[str, Array]:
        """What a container holds of each case; nothing of a prior mean, which is a function of the inputs."""
        facts = {"weights": self.weights, "offset": self.offset}
        return {name: values for name, values in facts.items() if values is not None}

    @property
    def unshifted(self) -> Likelihood:
        """The likelihood of what a posterior calls latent values."""
        return self if self.prior_mean is None else by_case(self.likelihood, self.offset, self.weights)

    @property
    def new_case_facts(self) -> tuple[str, ...]:
        """What may be given of each new case: its offset, and what the likelihood takes."""
        return (*(() if self.offset is None else ("offset",)), *self.likelihood.new_case_facts)

    def of_new_cases(self, offset: Array | None = None, **given: Array) -> Likelihood:
        """Return the likelihood of new cases, each of which counts once; a ValueError if their offsets are missing."""
        if self.offset is not None and offset is None:
            raise ValueError(
                "offset is missing: this fit has an offset for each case, so that targets of new cases depend on "
                "theirs. Give offset=..., a number for each row of X_new, such as np.log(exposure); "
                "zeros for an exposure of 1."
            )
        return by_case(self.likelihood.of_new_cases(**given), offset)

    def of_cases(self, which: NDArray[np.intp]) -> Likelihood:
        """Return the likelihood of some cases, with what is known of them."""
        some = {} if self.prior_mean is None else {"prior_mean": self.prior_mean[which]}
        stored = {name: values[which] for name, values in self.stored_by_case.items()}
        return by_case(self.likelihood.of_cases(which), **stored, **some)

    def with_parameters(self, **values: float) -> _OfCases:
        """Return the likelihood with other parameters, of the same cases."""
        return replace(self, likelihood=self.likelihood.with_parameters(**values))

    def log_prob(self, t: Array, f: Array) -> Derivs:
        """Return w log p(t | f), and its derivatives in f, ``(..., n)`` each."""
        return self._derivs("log_prob", t, f)

    def log_partition(self, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return log of the integral of p(t | f)^w N(f | mean, variance), and its derivatives in mean."""
        return self._derivs("log_partition", t, mean, variance)

    def parameter_derivative(self, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
        """Return the derivative of `log_partition` in one of the parameters, and its two derivatives in mean."""
        slopes = self._each(lambda part, *at: part.slopes(name, *at), (3,), t, mean, variance)
        return Derivs(*slopes)

    def higher_derivatives(self, t: Array, mean: Array, variance: Array, derivs: Derivs) -> Any:
        """Return the third and fourth derivative of `log_partition`, where the likelihood has a form of them."""

        def query(part: Powers, t: Array, mean: Array, variance: Array, value: Array, d1: Array, d2: Array) -> Any:
            return part.form.higher_derivatives(t, mean, variance, Derivs(value - part.constant, d1, d2))

        return self._each(query, (2,), t, mean, variance, *derivs)

    def tilted_cumulants(self, t: Array, mean: Array, variance: Array, order: int) -> Any:
        """Return what `cumulants.tilted_cumulants` does for the likelihood of one case, and for its powers."""

        def query(part: Powers, t: Array, mean: Array, variance: Array) -> Array:
            return tilted_cumulants(part.form, t, mean, variance, order)

        return self._each(query, (order - 2,), t, mean, variance)

    def tilted_share(self, t: Array, mean: Array, variance: Array) -> Any:
        """Return what `Likelihood.tilted_share` does, where the powers know it; all is left at a weight of zero."""
        return self._each(lambda part, *at: part.form.tilted_share(*at), (), t, mean, variance, without=1.0)

    def curved_at(self, t: Array) -> Array:
        """Return the latent values near which log p(t|f) bends most."""
        return np.asarray(self.likelihood.curved_at(t) - self._shift)

    def known_sites(self, t: Array, noise: float) -> Any:
        """Return precisions and shifts of sites that are the same at every cavity, where the likelihood has such."""

        def query(part: Powers, t: Array, shift: Array) -> Any:
            found = part.form.known_sites(t, noise)
            return None if found is None else (found[0], found[1] - found[0] * shift)

        return self._each(query, (2,), t, np.zeros(np.shape(t)))

    def tilted_values(self, t: Array, mean: Array, variance: Array, scores: Array) -> Any:
        """Return what `processes.tilted.tilted_values` does, where the likelihood has a form of it."""
        known = self._each(lambda part, *at: part.form.tilted_values(*at), (2,), t, mean, variance, scores)
        if known is None:
            return None
        values, log_slopes = known
        if self.weights is not None:  # what says nothing leaves the Gaussian as it is
            without, sd = self.weights == 0, np.sqrt(variance)
            values[..., without] = (self.added(mean) + sd * scores)[..., without]
            log_slopes[..., without] = np.log(sd)[without]
        return values - self._shift, log_slopes

    def predictive_below(self, t: Array, mean: Array, variance: Array) -> Array | None:
        """Return the probability that targets of the cases are at most t, where all of them count once."""
        return None if self.weights is not None else self.likelihood.predictive_below(t, self.added(mean), variance)

    def to_dict(self) -> dict[str, Any]:
        """Raise: what is known of certain cases says nothing about others."""
        raise UndefinedQuantityError(
            "offsets, weights and prior means are those of certain cases: fit(X, y, kernel, likelihood, offset=..., "
            "weights=...), and a mean_func in pymc.Marginal."
        )

    @property
    def _shift(self) -> Any:
        """All that is added to the values of a solver, in latent units."""
        return sum(values for values in (self.prior_mean, self.offset) if values is not None)

    def added(self, f: Array) -> Array:
        """Return the latent values ``(..., n)`` of the likelihood of one case, from those of a solver."""
        shift = np.asarray(self._shift)
        if shift.ndim and np.shape(f)[-1:] != shift.shape:
            raise self._not_all("prior means" if self.offset is None else "offsets", shift, np.shape(f))
        return np.asarray(f + shift) if shift.ndim else f

    def _derivs(self, name: str, *at: Array) -> Derivs:
        def query(part: Powers, *at: Array) -> Derivs:
            value, d1, d2 = getattr(part.form, name)(*at)
            return Derivs(value + part.constant, d1, d2)

        return Derivs(*self._each(query, (3,), *at))

    def _each(
        self, query: Callable[..., Any], lead: tuple[int, ...], t: Array, f: Array, *others: Array, without: float = 0.0
    ) -> Any:
        """Return what a function of a part and of arrays of its cases finds for all, ``(*lead, ..., n)``.

        It is ``without`` where the weight is zero, and None if nothing is found for some part.
        """
        at = t, self.added(f), *others
        if self.weights is None:
            return query(self._parts[0][1], *at)
        arrays = np.broadcast_arrays(*at)
        shape = arrays[0].shape
        if shape[-1:] != self.weights.shape:
            raise self._not_all("weights", self.weights, shape)
        result = np.full((*lead, *shape), without)
        for rows, part in self._parts:
            found = query(part, *(array[..., rows] for array in arrays))
            if found is None:
                return None
            result[..., rows] = np.array(np.broadcast_arrays(*found)) if lead else found
        return result

    @staticmethod
    def _not_all(what: str, known: Array, shape: tuple[int, ...]) -> ValueError:
        return ValueError(
            f"this likelihood has the {what} of {len(known)} cases, all of which must be asked for at once and in "
            f"order, got shape {shape}."
        )


def _check(likelihood: Likelihood, prior_mean: Array | None, offset: Array | None, weights: Array | None) -> None:
    """Raise an error if a likelihood does not go with what is given of cases."""
    if weights is not None:
        check_largest(weights)
    if offset is not None:
        size = np.abs(offset)
        if np.any(size > likelihood.largest_offset):
            raise ValueError(
                f"offset must be between -{likelihood.largest_offset:g} and {likelihood.largest_offset:g} for "
                f"{type(likelihood.of_one_case).__name__}, got {offset[np.argmax(size)]:g} at index "
                f"{int(np.argmax(size))}. It is added to the latent value: of an exposure pass the logarithm."
            )
    if likelihood.forbids:
        if weights is not None:
            why = "weights go with a likelihood that forbids no latent value: that of a step without flips is zero or "
            why += "one, and so is its every power"
        else:
            why = f"{'a prior mean' if offset is None else 'an offset'} goes with a likelihood that forbids no latent "
            why += "value, and a step without flips does"
        raise UndefinedQuantityError(f"{why}. Give it noise: Probit(noise_variance=1.0) or Step(flip=0.05).")
    if likelihood.has_classes:
        raise UndefinedQuantityError(
            "an offset goes with one latent value for each case, and there is one for each class. Leave it out."
        )


def _in_parts(likelihood: Likelihood, weights: Array) -> list[_Part]:
    """Return cases by what their powers are: the likelihood itself, another one, or an integral."""
    found, rest = list[_Part](), [np.empty(0, dtype=np.intp)]
    (once,) = np.nonzero(weights == 1.0)
    if once.size:
        some = likelihood.of_cases(once)
        found.append((once, Powers(some, 0.0, some.parameter_derivative)))
    (more,) = np.nonzero((weights > 0) & (weights != 1.0))
    together = _of_one_form(likelihood, weights, more)
    if together is not None:
        return [*found, (more, together)]
    for weight in np.unique(weights[more]):
        (rows,) = np.nonzero(weights == weight)
        powers = _of_one_form(likelihood, weights, rows)
        if powers is not None:
            found.append((rows, powers))
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
        found.append((others, Powers(powered, 0.0, powered.parameter_derivative)))
    return found


def _of_one_form(likelihood: Likelihood, weights: Array, rows: NDArray[np.intp]) -> Powers | None:
    """Return the powers of cases as those of another likelihood, or None if they are not."""
    if not rows.size:
        return None
    some = likelihood.of_cases(rows)
    powers = some.powers(weights[rows])
    if powers is None or powers.slopes is not None:
        return powers
    return powers._replace(slopes=Powered(some, weights[rows]).parameter_derivative)
