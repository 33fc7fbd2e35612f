"""What a likelihood may say beyond the protocol: a function for each such member, which knows what holds without it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.likelihoods.base import Likelihood
from bayesgp_mf.types import Array, Derivs

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


def to_dict(likelihood: Likelihood) -> dict[str, Any]:
    """Return plain numbers and strings, of which `likelihoods.from_dict` makes a likelihood of this package again.

    The method ``to_dict()``; without it the name and, of a dataclass, the fields that are plain. Where the method
    raises an UndefinedQuantityError the likelihood cannot be saved at all.
    """
    ask = getattr(likelihood, "to_dict", None)
    if ask is not None:
        description: dict[str, Any] = ask()
        return description
    each: Any = likelihood
    given = {field.name: getattr(each, field.name) for field in (fields(each) if is_dataclass(each) else ())}
    return {"likelihood": type(likelihood).__name__} | {k: v for k, v in given.items() if isinstance(v, PLAIN)}


def is_of_each_class(likelihood: object) -> bool:
    """Tell whether this is none itself, but says which likelihoods classifiers of one class against the rest have.

    The method ``of_each_class(n_classes)``, as `OneVsRest` has it.
    """
    return hasattr(likelihood, "of_each_class") and not isinstance(likelihood, type)


def latent_noise(likelihood: Likelihood) -> LatentNoise | None:
    """Return the noise if the target is the latent value with Gaussian noise (the sign of that where it is binary).

    The attribute ``latent_noise``; None without it.
    """
    found: LatentNoise | None = getattr(likelihood, "latent_noise", None)
    return found


def known_sites(likelihood: Likelihood, t: Array, noise: float) -> tuple[Array, Array] | None:
    """Return precision W and shift b ``(n,)`` of sites that are the same at every cavity, as a Gaussian's are.

    They would be found by taking differences otherwise, which cancel where the cavity is wide. The method
    ``known_sites(t, noise)``, with a variance that adds to that of the latent value; None without it.
    """
    ask = getattr(likelihood, "known_sites", None)
    return None if ask is None else ask(t, noise)


def tilted_share(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> Array | None:
    """Return which part ``(n,)`` of the variances is left in likelihood times Gaussian, with the digits of a small one.

    It is 1 + variance d2 with d2 of `log_partition`, a difference that cancels where a target says much more than the
    Gaussian. The method ``tilted_share(t, mean, variance)``, for variances above zero, which may return None as well;
    None without it.
    """
    ask = getattr(likelihood, "tilted_share", None)
    return None if ask is None else ask(t, mean, variance)


def is_flat(likelihood: Likelihood) -> bool:
    """Tell whether p(t|f) is constant in f but for jumps, as a step is: the attribute ``is_flat``; False without it."""
    return bool(getattr(likelihood, "is_flat", False))


def closed_higher_derivatives(
    likelihood: Likelihood, t: Array, mean: Array, variance: Array, derivs: Derivs
) -> tuple[Array, Array] | None:
    """Return the third and fourth derivative of `log_partition`, whose answer is ``derivs``, where they have a form.

    The method ``higher_derivatives(t, mean, variance, derivs)``, which may return None as well; None without it.
    """
    ask = getattr(likelihood, "higher_derivatives", None)
    return None if ask is None else ask(t, mean, variance, derivs)


def closed_tilted_values(
    likelihood: Likelihood, t: Array, mean: Array, variance: Array, scores: Array
) -> tuple[Array, Array] | None:
    """Return what `processes.tilted.tilted_values` does, where it has a closed form.

    The method ``tilted_values(t, mean, variance, scores)``, which may return None as well; None without it.
    """
    ask = getattr(likelihood, "tilted_values", None)
    return None if ask is None else ask(t, mean, variance, scores)


def closed_cumulants(likelihood: Likelihood, t: Array, mean: Array, variance: Array, order: int) -> Array | None:
    """Return what `cumulants.tilted_cumulants` does for variances above zero, where it has a closed form.

    The method ``tilted_cumulants(t, mean, variance, order)``, which may return None as well; None without it.
    """
    ask = getattr(likelihood, "tilted_cumulants", None)
    return None if ask is None else ask(t, mean, variance, order)


def of_cases(likelihood: Likelihood, which: NDArray[np.intp]) -> Likelihood:
    """Return the likelihood of some cases, where it is not the same for all.

    The method ``of_cases(which)``, with the numbers of the cases; without it, it is the likelihood itself.
    """
    ask = getattr(likelihood, "of_cases", None)
    found: Likelihood = likelihood if ask is None else ask(which)
    return found


def parameters(likelihood: Likelihood) -> Mapping[str, float]:
    """Return the parameters by name: those that may be tuned, or random in a model of PyMC.

    The attribute ``parameters``; without it there are none. With it go the methods ``with_parameters(**values)``, which
    returns the likelihood with others, and ``parameter_derivative(name, t, mean, variance)``, that of `log_partition`
    and of its two derivatives in the mean.
    """
    found: Mapping[str, float] = getattr(likelihood, "parameters", {})
    return found


def tunable(likelihood: Likelihood) -> Mapping[str, Tunable]:
    """Return for each of the `parameters` how it may be tuned.

    The attribute ``tunable``; one that it does not name is any number > 0, and tuned only if it has a prior or bounds.
    """
    said: Mapping[str, Tunable] = getattr(likelihood, "tunable", {})
    return {name: said.get(name, Tunable(by_default=False)) for name in parameters(likelihood)}


def with_parameters(likelihood: Likelihood, values: Mapping[str, Any]) -> Likelihood:
    """Return a likelihood with some of its `parameters` replaced; ValueError if it refuses a value."""
    changed: Likelihood = likelihood.with_parameters(**values) if values else likelihood  # type: ignore[attr-defined]
    return changed


def parameter_derivative(likelihood: Likelihood, name: str, t: Array, mean: Array, variance: Array) -> Derivs:
    """Return the derivative of `log_partition` in one of the `parameters`: of its value, and of both derivatives."""
    found: Derivs = likelihood.parameter_derivative(name, t, mean, variance)  # type: ignore[attr-defined]
    return found


def log_prob_graph(likelihood: Likelihood, functions: Any, t: Any, f: Any, values: Mapping[str, Any]) -> Any | None:
    """Return log p(t|f) written with functions (`pymc.latent` has them), for labels -1/+1 or real targets.

    The method ``log_prob_graph(functions, t, f, **values)``, which has numbers of its own for `parameters` that are not
    among the values; None without it.
    """
    write = getattr(likelihood, "log_prob_graph", None)
    return None if write is None else write(functions, t, f, **values)


class Powers(NamedTuple):
    """Powers of a likelihood, case by case, as another likelihood times constants.

    Attributes
    ----------
    form : Likelihood
        The other one.
    constant : float or (k,) array
        Logarithms of the constants.
    slopes : object or None
        Whose ``parameter_derivative(name, t, mean, variance)`` is that of the powers in the parameters of the first;
        None where it has to be integrated.
    """

    form: Likelihood
    constant: float | Array
    slopes: Any = None


def powers(likelihood: Likelihood, weights: Array) -> Powers | None:
    """Return p(t_i|f_i)^weight_i of k cases as one likelihood, where they are; weights ``(k,)`` above zero.

    The method ``powers(weights)``, which may return None as well; None without it. Where it is None of different
    weights, it is asked of those that are the same.
    """
    ask = getattr(likelihood, "powers", None)
    return None if ask is None else ask(weights)


def unbounded_if_weighed(likelihood: Likelihood) -> tuple[str, ...]:
    """Return the parameters in which the evidence of cases that count for more than one has no bound.

    The attribute ``unbounded_if_weighed``: as they near zero, the density of a target that is met exactly grows without
    end. Without it there are none.
    """
    found: tuple[str, ...] = getattr(of_one_case(likelihood), "unbounded_if_weighed", ())
    return found


def mode_bracket(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> tuple[Array, Array] | None:
    """Return bounds ``(n,)`` between which p(t|f) N(f | mean, variance) is largest, for a log-concave likelihood.

    The method ``mode_bracket(t, mean, variance)``; None without it.
    """
    ask = getattr(likelihood, "mode_bracket", None)
    return None if ask is None else ask(t, mean, variance)


def of_one_case(likelihood: Likelihood) -> Likelihood:
    """Return the likelihood without what it has of each case: prior means, offsets and weights.

    The attribute ``of_one_case``; without it, it is the likelihood itself.
    """
    found: Likelihood = getattr(likelihood, "of_one_case", likelihood)
    return found


def stored_by_case(likelihood: Likelihood) -> dict[str, Array]:
    """Return what a container holds of each case beside `of_one_case`: ``offset`` and ``weights``, where there are any.

    The attribute ``stored_by_case``; without it there is nothing.
    """
    found: dict[str, Array] = getattr(likelihood, "stored_by_case", {})
    return dict(found)


def called(likelihood: Likelihood) -> str:
    """Return the name of a likelihood for a message: its class, and what it has of each case."""
    by_case = stored_by_case(likelihood)
    return type(of_one_case(likelihood)).__name__ + (f" with {' and '.join(by_case)}" if by_case else "")


def largest_offset(likelihood: Likelihood) -> float:
    """Return how large an offset may be, in absolute value.

    The attribute ``largest_offset``; 1e9 without it, beyond which a latent value of order one would have few digits.
    """
    return float(getattr(likelihood, "largest_offset", 1e9))


def unshifted(likelihood: Likelihood) -> Likelihood:
    """Return the likelihood of the latent values themselves where this is one of deviations from a prior mean.

    The attribute ``unshifted``; without it, it is the likelihood itself.
    """
    found: Likelihood = getattr(likelihood, "unshifted", likelihood)
    return found


def ways_to_noise(likelihood: Likelihood) -> str:
    """Return, for an error message, what allows more noise where targets contradict each other.

    A White kernel does. The attribute ``allows_noise`` says what of the likelihood does too; without it nothing.
    """
    own: str | None = getattr(of_one_case(likelihood), "allows_noise", None)
    return "kernels.White(...)" if own is None else f"{own} or kernels.White(...)"


def unsaved(likelihood: Likelihood) -> str | None:
    """Return why a file cannot hold a likelihood of this package, and what to do; None where it can.

    The attribute ``unsaved``; None without it.
    """
    found: str | None = getattr(likelihood, "unsaved", None)
    return found


def holds_functions(likelihood: Likelihood) -> bool:
    """Tell whether ``to_dict`` has paths of functions, which a process may have to import before it can make it again.

    The attribute ``holds_functions``; False without it.
    """
    return bool(getattr(likelihood, "holds_functions", False))


def check_targets(likelihood: Likelihood, name: str, t: Array) -> None:
    """Raise a ValueError if real targets are none of this likelihood, as -1 is no count; ``name`` is the argument's.

    The method ``check_targets(name, t)``; without it all finite numbers are targets.
    """
    ask = getattr(likelihood, "check_targets", None)
    if ask is not None:
        ask(name, t)


def predictive_moments(likelihood: Likelihood, mean: Array, variance: Array) -> tuple[Array, Array] | None:
    """Return mean and variance ``(m,)`` of real targets whose latent values are N(mean, variance).

    The method ``predictive_moments(mean, variance)``; None without it.
    """
    ask = getattr(likelihood, "predictive_moments", None)
    return None if ask is None else ask(mean, variance)


def predictive_below(likelihood: Likelihood, t: Array, mean: Array, variance: Array) -> Array | None:
    """Return how likely real targets whose latent values are N(mean, variance) are to be at most t, in its shape.

    ``t (m,)`` or ``(q, m)`` are numbers of any kind, and ``mean`` and ``variance`` are ``(m,)``. The method
    ``predictive_below(t, mean, variance)``; None without it.
    """
    ask = getattr(likelihood, "predictive_below", None)
    return None if ask is None else ask(t, mean, variance)


def whole_targets(likelihood: Likelihood) -> bool:
    """Tell whether real targets are whole numbers >= 0: the attribute ``whole_targets``; False without it."""
    return bool(getattr(likelihood, "whole_targets", False))


def is_discrete(likelihood: Likelihood) -> bool:
    """Tell whether targets have probabilities, as labels, counts and levels; else they have a density."""
    return likelihood.targets != "real" or whole_targets(likelihood) or n_levels(likelihood) is not None


def n_levels(likelihood: Likelihood) -> int | None:
    """Return how many ordered levels real targets number, from 0.

    The attribute ``n_levels``, with which goes the method ``level_probabilities(mean, variance)``; None without it.
    """
    found: int | None = getattr(likelihood, "n_levels", None)
    return found


def level_probabilities(likelihood: Likelihood, mean: Array, variance: Array) -> Array | None:
    """Return the probability of each level ``(m, K)`` where latent values are N(mean, variance).

    The method ``level_probabilities(mean, variance)``; None without it.
    """
    ask = getattr(likelihood, "level_probabilities", None)
    return None if ask is None else ask(mean, variance)


def asked_of_new_cases(likelihood: Likelihood) -> tuple[str, ...]:
    """Return the names of what may be given of each new case: ``offset``, ``trials``.

    The attribute ``asked_of_new_cases``; without it there is nothing.
    """
    found: tuple[str, ...] = getattr(likelihood, "asked_of_new_cases", ())
    return found


def of_new_cases(likelihood: Likelihood, **given: Array) -> Likelihood:
    """Return the likelihood of cases that are not those of the fit, where it is not the same for all.

    The method ``of_new_cases()``; without it, it is the likelihood itself. It takes those of `asked_of_new_cases`
    that are given, and raises a ValueError if it lacks one.
    """
    ask = getattr(likelihood, "of_new_cases", None)
    found: Likelihood = likelihood if ask is None else ask(**given)
    return found
