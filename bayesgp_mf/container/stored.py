"""What a container holds of kernel, likelihood, method, evidence, and of how the equations were solved.

What is built in it holds as JSON, options and all. Of anything else it holds what it is called and its parameters, and
asks for it by name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass, replace
from math import inf
from typing import Any, TypeAlias, TypeVar

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf import kernels, likelihoods
from bayesgp_mf.arguments import as_mapping
from bayesgp_mf.container.layout import FORMAT, MODELS, PRIORS, stored_parameters, versions
from bayesgp_mf.errors import DamagedFileError, Status
from bayesgp_mf.hyper.priors import Prior, describe, from_description
from bayesgp_mf.inference.problem import check_likelihood, status_in_words
from bayesgp_mf.inference.solution import Evidence, Info
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.options import as_kernel
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import get_method

T = TypeVar("T")
Attrs: TypeAlias = dict[str, Any]
DAMAGED = "this container is damaged or was edited: {}. Load a fresh copy of the file, or fit again."
STATED = ("mean_error", "rounding", "independent", "probability_shift", "inducing_error")
"""What some solutions know of how well they are known."""
NO_JSON = (AttributeError, TypeError, ValueError)  # what `_as_json` raises where there is none


WRONG = (ArithmeticError, AttributeError, LookupError, OSError, RecursionError, TypeError, ValueError)
"""What is raised where numbers or text of a container are not what they were. A lack of memory is none of it."""


@contextmanager
def refused_as(message: str, category: type[Exception] = DamagedFileError) -> Iterator[None]:
    """Turn what goes wrong where something saved is read into an error with this message, which has a place for it."""
    try:
        yield
    except WRONG as error:
        stated = str(error).rstrip(".") if isinstance(error, ValueError) else f"{type(error).__name__}, {error}"
        raise category(message.replace("{}", stated)) from error  # a path may have braces of its own


def describe_kernel(kernel: Kernel) -> dict[str, Any]:
    """Return what is said of a kernel as JSON: all of it, or what it is called and which parameters it has."""
    if kernels.is_built_in(kernel):
        return kernel.to_dict()
    levels = kernel.levels_of_columns()
    stated = {} if not levels else {"levels": {str(column): list(texts) for column, texts in levels.items()}}
    return {**_not_stored(kernel, list(kernel.params)), **stated}


def describe_likelihood(likelihood: Likelihood) -> dict[str, Any]:
    """Return what is said of a likelihood as JSON: all of it, or what it is called and its parameters.

    One that says itself that it cannot be saved is refused: nothing could tell it from another.
    """
    described = likelihood.to_dict()
    try:
        described = _as_json(described)
    except NO_JSON as error:
        raise ValueError(
            f"to_dict of the likelihood must return numbers, strings and lists, which can be saved: {error}."
        ) from error
    return described if likelihoods.is_built_in(likelihood) else _not_stored(likelihood, described)


def describe_method(solver: Solver, likelihood: Likelihood) -> dict[str, Any]:
    """Return what is said of a method as JSON: the options in which it is not the one of its name, or what it is."""
    names = [field.name for field in fields(solver)] if is_dataclass(solver) else list[str]()
    plain = dict[str, Any]()
    for name in names:
        with suppress(*NO_JSON):
            plain[name] = _as_json(getattr(solver, name))
    with suppress(ValueError):  # there may be no method of this name
        named = get_method(solver.name, likelihood)
        changed = [name for name in names if getattr(solver, name) != getattr(named, name, None)]
        if type(named) is type(solver) and all(name in plain for name in changed):
            return {"options": {name: plain[name] for name in changed}}
    return _not_stored(solver, plain)


def model_attrs(kernel: Kernel, likelihood: Likelihood, solver: Solver, evidence: Evidence, status: Status) -> Attrs:
    """Return the attributes of the group ``fit``: what was fitted, by which method, and how that went."""
    return {
        "bayesgp_mf_format": FORMAT,
        "method": solver.name,
        "solver": json.dumps(describe_method(solver, likelihood)),
        "status": status.name,
        "status_message": status_in_words(status, likelihood, solver.name),
        "evidence_kind": evidence.kind,
        "evidence_bound": evidence.bound or "none",
        "kernel": json.dumps(describe_kernel(kernel.before_slopes)),
        "likelihood": json.dumps(describe_likelihood(likelihood.of_one_case)),
        "versions": json.dumps(versions()),
    }


def describe_priors(
    priors: Mapping[str, Prior], bounds: Mapping[str, tuple[float, float]], fixed: Iterable[str]
) -> dict[str, str]:
    """Return the attribute that says under which priors and bounds hyperparameters were chosen."""
    limits = {name: [float(low), float(high)] for name, (low, high) in bounds.items()}
    each = {name: describe(prior) for name, prior in priors.items()}
    return {PRIORS: json.dumps({"priors": each, "bounds": limits, "fixed": sorted(fixed)})}


def priors_of(fit: xr.Dataset, given: Mapping[str, Prior] | None, kernel: Kernel) -> dict[str, Any]:
    """Return ``priors``, ``bounds`` and ``fixed`` of a fit.

    The priors that a container cannot hold are ``given``, or a kernel of PyMC's random variables has them. There is a
    ValueError if one is missing, or there are those of several models.
    """
    if MODELS in fit.attrs:
        raise ValueError("an average of models has no prior of its own. Ask each of the fits that were combined.")
    with refused_as(DAMAGED):
        stated = json.loads(fit.attrs.get(PRIORS, '{"priors": {}, "bounds": {}, "fixed": []}'))
        known = {name: from_description(each) for name, each in stated["priors"].items()}
        bounds = {name: (float(low), float(high)) for name, (low, high) in stated["bounds"].items()}
    found = {name: kernel.priors.get(name) if prior is None else prior for name, prior in known.items()}
    found |= as_mapping("priors", given)
    if missing := [name for name, prior in found.items() if prior is None]:
        raise ValueError(
            f"this container does not hold the prior of {missing[0]}, {stated['priors'][missing[0]]['program']}, which "
            f"is a program. Pass it again: priors={{{missing[0]!r}: ...}}."
        )
    return {"priors": found, "bounds": bounds, "fixed": frozenset(stated["fixed"])}


def stored_solution(info: Info, evidence: Evidence) -> dict[str, NDArray[Any]]:
    """Return how the equations were solved and the log evidence, as arrays by name; status and rank are elsewhere."""
    known = {name: getattr(info, name) for name in ("n_iterations", "residual", *STATED)}
    known |= {
        "log_evidence": evidence.value,
        "log_evidence_se": evidence.standard_error,
        "log_evidence_correction": evidence.correction,
        "log_evidence_remaining": evidence.remaining,
    }
    return {name: np.array(value) for name, value in known.items() if value is not None}


def info_of(fit: xr.Dataset, attrs: Mapping[str, Any], rank: int | None) -> Info:
    """Return how the equations were solved; ``attrs`` are those of the whole group ``fit``."""
    stated = {name: float(fit[name]) if name in fit else None for name in STATED}
    shift = stated["probability_shift"]
    if shift is not None and not 0.0 <= shift <= 1.0:  # also true if it is NaN
        raise ValueError(f"probability_shift must be between 0 and 1, and is {shift}")
    return Info(Status[attrs["status"]], int(fit["n_iterations"]), float(fit["residual"]), rank=rank, **stated)


def evidence_of_fit(fit: xr.Dataset, attrs: Mapping[str, Any] | None = None) -> Evidence:
    """Return the log evidence of the group ``fit`` at one setting of the hyperparameters, with what is known of it.

    ``attrs`` are those of the whole group, where ``fit`` is one setting of several, and has none.

    Raises
    ------
    ValueError
        If its correction and the size of what is left do not belong together.
    """
    names = ("log_evidence_correction", "log_evidence_remaining")
    correction, remaining = (float(fit[name]) if name in fit else None for name in names)
    if (correction is None) != (remaining is None) or not 0.0 <= (remaining or 0.0) < inf:
        raise ValueError(f"log_evidence_correction and log_evidence_remaining are {correction} and {remaining}")
    attrs = fit.attrs if attrs is None else attrs
    kind, bound = attrs["evidence_kind"], attrs["evidence_bound"]
    error = float(fit["log_evidence_se"]) if "log_evidence_se" in fit else 0.0
    return Evidence(float(fit["log_evidence"]), kind, None if bound == "none" else bound, error, correction, remaining)


def not_stored(fit: xr.Dataset, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a container asks for again, of the ``kernel``, ``likelihood`` and ``method`` that a fit was given."""
    return {name: each for name, each in given.items() if "program" in _stated(fit, name)}


def _stated(fit: xr.Dataset, what: str) -> dict[str, Any]:
    """Return what a container says of its ``kernel``, ``likelihood`` or ``method``, or raise a ValueError."""
    with refused_as(DAMAGED):
        # version 0.1.0 knew methods by name alone, which is still the attribute `method`
        text = fit.attrs.get("solver", "{}") if what == "method" else fit.attrs[what]
        try:
            stated: dict[str, Any] = json.loads(text)
        except (RecursionError, ValueError) as error:
            raise ValueError(f"what it says of its {what} cannot be read: {error}") from error
        if "log_density" not in stated:
            return stated
        # version 0.2 had paths of functions, module:name, here, of which only the names are compared
        plain = {name: value.rpartition(":")[2] for name, value in stated.items() if isinstance(value, str)}
        return {"program": f"Quadrature({plain['log_density']})", "class": "Quadrature", "parameters": stated | plain}


def names_of(features: NDArray[Any]) -> list[str] | None:
    """Return the names of the inputs of a fit: numbers where they had none."""
    return None if features.dtype.kind in "iu" else list(features.tolist())


def kernel_of(fit: xr.Dataset, given: Any, names_of_inputs: Sequence[str] | None) -> Kernel:
    """Return the kernel of a fit, held or given, with the parameters of the container (of the first node, if several).

    There is a ValueError if it is missing, not wanted, or another one, or if the container is damaged; also below.
    """
    first = fit.isel(node=0) if "node_weight" in fit else fit
    return stated_kernel(_stated(fit, "kernel"), lambda name: first[name].values, given, names_of_inputs)


def stated_kernel(
    stated: Attrs, value: Callable[[str], Any], given: Any, names_of_inputs: Sequence[str] | None
) -> Kernel:
    """Return the kernel of which `describe_kernel` said so, held or given; ``value`` has its parameters by name."""
    stored = _stored("kernel", stated, given, kernels.from_dict)
    if stored is not None:
        return stored
    with refused_as(DAMAGED):
        names = stated["parameters"]
        values = {name: value(name) for name in names}
        levels = {int(column): texts for column, texts in stated.get("levels", {}).items()}
    found = as_kernel(given, values).with_column_names(names_of_inputs).with_levels(levels)
    if list(found.params) != names:
        raise ValueError(
            f"kernel has the parameters {list(found.params)}, but the one that was saved, {stated['program']}, "
            f"has {names}. Pass that one."
        )
    return found


def likelihood_of(fit: xr.Dataset, given: Any, kernel: Kernel) -> Likelihood:
    """Return the likelihood of a fit, held or given; with the parameters that the container has by name.

    They are those of the first node, if there are several.
    """
    if given is not None:
        check_likelihood(given)
        first = fit.isel(node=0) if "node_weight" in fit else fit
        named = stored_parameters(fit, kernel, given).items()
        given = given.with_parameters(**{own: float(first[name]) for name, own in named})
    return stated_likelihood(_stated(fit, "likelihood"), given)


def stated_likelihood(stated: Attrs, given: Any) -> Likelihood:
    """Return the likelihood of which `describe_likelihood` said so, held or given."""
    stored = _stored("likelihood", stated, given, likelihoods.from_dict)
    if stored is not None:
        return stored
    _check_same("likelihood", given, stated, describe_likelihood(given))
    return given  # type: ignore[no-any-return]


def method_of(fit: xr.Dataset, likelihood: Likelihood, given: Any) -> Solver:
    """Return the solver of a fit with a likelihood, held or given."""

    def configured(stated: dict[str, Any]) -> Any:
        solver: Any = get_method(fit.attrs["method"], likelihood)
        changed = stated.get("options", {}).items()
        options = {name: tuple(value) if isinstance(value, list) else value for name, value in changed}
        return replace(solver, **options) if options else solver

    stated = _stated(fit, "method")
    stored = _stored("method", stated, given, configured)
    if stored is not None:
        return stored  # type: ignore[no-any-return]
    solver = get_method(given, likelihood)
    _check_same("method", solver, stated, describe_method(solver, likelihood))
    return solver


def _stored(what: str, stated: Attrs, given: object, rebuild: Callable[[dict[str, Any]], T]) -> T | None:
    """Return what is held, of which so much is stated: None if it is not held, and was given."""
    with refused_as(DAMAGED):
        stored = None if "program" in stated else rebuild(stated)
    if stored is not None and given is not None:
        raise ValueError(f"this container or file holds its {what}, {_called(stored)}. Leave {what} out.")
    if stored is None and given is None:
        of_kernel = "holds the parameters of its kernel, but not the kernel itself"
        missing = of_kernel if what == "kernel" else f"does not hold its {what}"
        raise ValueError(
            f"this container or file {missing}, {stated['program']}, which is a program. Pass the one that was fitted: "
            f"{what}=..."
        )
    return stored


def _check_same(what: str, given: object, stated: dict[str, Any], described: dict[str, Any]) -> None:
    """Raise a ValueError if what was given again is not what is said to have been fitted."""
    if any(described.get(key) != stated.get(key) for key in ("class", "parameters")):
        raise ValueError(
            f"{what} is not the one that was fitted, {stated['program']} with {stated.get('parameters')}, but "
            f"{_called(given)}. Pass that one."
        )


def _not_stored(thing: object, parameters: Any) -> dict[str, Any]:
    return {"program": _called(thing), "class": type(thing).__name__, "parameters": parameters}


def _called(thing: object) -> str:
    """Return what something prints as, or the name of its class if that would be an address in memory."""
    return type(thing).__name__ if type(thing).__repr__ is object.__repr__ else repr(thing)


def _as_json(value: Any) -> Any:
    """Return a value as JSON reads it again; numbers of NumPy are numbers."""
    return json.loads(json.dumps(value, default=lambda number: number.item()))
