"""What a container holds of kernel, likelihood and method.

What is built in it holds as JSON, options and all. Of anything else it holds what it is called and its parameters, and
asks for it by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar

import numpy as np
import xarray as xr

from bayesgp_mf import kernels, likelihoods
from bayesgp_mf.inference.problem import check_likelihood
from bayesgp_mf.inputs import as_kernel
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.methods import Solver, get_method

T = TypeVar("T")
DAMAGED = "this container is damaged or was edited: {}. Load a fresh copy of the file, or fit again."


@contextmanager
def refused_as(message: str) -> Iterator[None]:
    """Turn what goes wrong where a container is read into a ValueError with a message, which has a place for it."""
    try:
        yield
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(message.format(f"{type(error).__name__}, {error}")) from error


def describe_kernel(kernel: Kernel) -> dict[str, Any]:
    """Return what is said of a kernel as JSON: all of it, or what it is called and which parameters it has."""
    return kernel.to_dict() if kernels.is_built_in(kernel) else _not_held(kernel, list(kernel.params))


def describe_likelihood(likelihood: Likelihood) -> dict[str, Any]:
    """Return what is said of a likelihood as JSON: all of it, or what it is called and its parameters.

    Raises
    ------
    UndefinedQuantityError
        If it says itself that it cannot be saved: then nothing could tell it from another.
    ValueError
        If its ``to_dict`` returns what JSON does not know.
    """
    described = likelihood.to_dict()
    try:
        described = _as_json(described)
    except TypeError as error:
        raise ValueError(
            f"to_dict of the likelihood must return numbers, strings and lists, which can be saved: {error}."
        ) from error
    return described if likelihoods.is_built_in(likelihood) else _not_held(likelihood, described)


def describe_method(solver: Solver, likelihood: Likelihood) -> dict[str, Any]:
    """Return what is said of a method as JSON: the options in which it is not the one of its name, or what it is."""
    options: dict[str, Any] = {}
    if is_dataclass(solver):
        options = {field.name: getattr(solver, field.name) for field in fields(solver)}
    plain = _plain(options)
    try:
        named = get_method(solver.name, likelihood)
    except ValueError:
        return _not_held(solver, plain)
    if type(named) is type(solver):
        changed = [name for name, value in options.items() if value != getattr(named, name)]
        if all(name in plain for name in changed):
            return {"options": {name: plain[name] for name in changed}}
    return _not_held(solver, plain)


def kernel_of(fit: xr.Dataset, given: Any) -> Kernel:
    """Return the kernel of a fit, held or given, with the parameters of the container (of the first node, if several).

    Raises
    ------
    ValueError
        If it is missing, not wanted, or another one; or if the container is damaged. The next two do the same.
    """
    with refused_as(DAMAGED):
        said = json.loads(fit.attrs["kernel"])
        held = None if "program" in said else kernels.from_dict(said)
        names = [] if held else [str(name) for name in said["parameters"]]
    _check_given("kernel", held, given, said, "holds the parameters of its kernel, but not the kernel itself")
    if held is not None:
        return held
    first = fit.isel(node=0) if "node" in fit.dims else fit
    found = as_kernel(given, {name: first[name].values for name in names})
    if list(found.params) != names:
        raise ValueError(
            f"kernel has the parameters {list(found.params)}, but that of this container, {said['program']}, "
            f"has {names}. Pass what fit was given."
        )
    return found


def likelihood_of(fit: xr.Dataset, given: Any) -> Likelihood:
    """Return the likelihood of a fit, held or given."""
    with refused_as(DAMAGED):
        said = json.loads(fit.attrs["likelihood"])
        held = None if "program" in said else likelihoods.from_dict(said)
    _check_given("likelihood", held, given, said)
    if held is not None:
        return held
    check_likelihood(given)
    likelihood: Likelihood = given
    return _same("likelihood", likelihood, said, describe_likelihood(likelihood))


def method_of(fit: xr.Dataset, likelihood: Likelihood, given: Any) -> Solver:
    """Return the solver of a fit with a likelihood, held or given."""
    with refused_as(DAMAGED):
        said = json.loads(fit.attrs.get("solver", "{}"))  # which containers of version 0.1.0 do not have
        held = None if "program" in said else _configured(get_method(fit.attrs["method"], likelihood), said)
    _check_given("method", held, given, said)
    if held is not None:
        return held
    solver = get_method(given, likelihood)
    return _same("method", solver, said, describe_method(solver, likelihood))


def _configured(solver: Any, said: dict[str, Any]) -> Solver:
    """Return a solver with the options that are said to be other than its own."""
    options = {
        name: tuple(value) if isinstance(value, list) else value for name, value in said.get("options", {}).items()
    }
    made: Solver = replace(solver, **options) if options else solver
    return made


def _check_given(what: str, held: object, given: object, said: dict[str, Any], lacks: str | None = None) -> None:
    """Raise a ValueError if something is held, and was given all the same, or if it is not, and was not given."""
    if held is not None and given is not None:
        raise ValueError(f"this container holds its {what}, {_called(held)}. Leave {what} out.")
    if held is None and given is None:
        raise ValueError(
            f"this container {lacks or f'does not hold its {what}'}, {said['program']}, which is a program. Pass what "
            f"fit was given: {what}=..."
        )


def _same(what: str, given: T, said: dict[str, Any], described: dict[str, Any]) -> T:
    """Return what was given again, or raise a ValueError if it is not what is said to have been fitted."""
    if any(described.get(key) != said.get(key) for key in ("class", "parameters")):
        raise ValueError(
            f"{what} is not the one that was fitted, {said['program']} with {said.get('parameters')}, but "
            f"{_called(given)}. Pass that one."
        )
    return given


def _not_held(thing: object, parameters: Any) -> dict[str, Any]:
    return {"program": _called(thing), "class": type(thing).__name__, "parameters": parameters}


def _called(thing: object) -> str:
    """Return what something prints as, or the name of its class if that would be an address in memory."""
    return type(thing).__name__ if type(thing).__repr__ is object.__repr__ else repr(thing)


def _plain(options: dict[str, Any]) -> dict[str, Any]:
    """Return those options that JSON knows, as it reads them again."""
    plain = {}
    for name, value in options.items():
        try:
            plain[name] = _as_json(value)
        except TypeError:
            continue
    return plain


def _as_json(value: Any) -> Any:
    """Return a value as JSON reads it again, or raise a TypeError if it does not know it."""
    return json.loads(json.dumps(value, default=_number))


def _number(value: Any) -> Any:
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"{type(value).__name__} is neither number, string nor list")
