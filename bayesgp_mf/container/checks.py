"""A container is checked against itself: shapes and memory before any work, then parameters, numbers and the mean.

What changed since it was written is known by checksums of what it says of a fit, and named. Nothing is solved again: a
container of before there were any, whose evidence or variances were edited, is not found out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.layout import BY_CASE, MODELS, SAMPLE_DIMS, has_a_meaning, stored_parameters, variable_dims
from bayesgp_mf.errors import Status
from bayesgp_mf.hyper.target import Model
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.memory import available_bytes, check_memory
from bayesgp_mf.processes.process import Process

GROUPS = ("fit", "observed_data", "constant_data")
"""Those that a posterior is made of; draws in the others may be thinned, and derived numbers added."""
ATTRIBUTE = "checksums"
"""Of the group ``fit``: their JSON."""
_ALL = "all"  # of the others: it tells a checksum that was changed from a field that was


def checksum(values: NDArray[Any]) -> str:
    """Return a checksum of the shape and the entries of an array, whatever the width of its numbers."""
    found = blake2b(repr(values.shape).encode(), digest_size=8)
    if values.dtype.kind in "biuf":
        wide = np.float64 if values.dtype.kind == "f" else np.int64
        found.update(values.astype(np.dtype(wide).newbyteorder("<")).tobytes())
    else:
        found.update(json.dumps(values.tolist(), default=str).encode())
    return found.hexdigest()


def sealed(values: NDArray[Any]) -> dict[str, str]:
    """Return attributes by which `is_sealed` knows values along draws, as long as none of the draws is left out."""
    return {"shape": repr(values.shape), "checksum": checksum(values)}


def is_sealed(variable: xr.DataArray) -> bool:
    """Return whether a variable holds what it was written with, or fewer draws, which nothing is known of."""
    values, attrs = variable.values, variable.attrs
    return attrs.get("shape") != repr(values.shape) or attrs.get("checksum") == checksum(values)


def with_checksums(groups: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Return the groups of a container with a checksum of each field, in an attribute of ``fit``."""
    found = {name: checksum(values) for name, (values, _) in _fields(groups).items()}
    found[_ALL] = _of_all(found)
    return {**groups, "fit": groups["fit"].assign_attrs({ATTRIBUTE: json.dumps(found)})}


def check_unchanged(groups: Mapping[str, xr.Dataset]) -> bool:
    """Raise a ValueError that names what was changed, and return whether there was anything to tell it by.

    So is what was added, if it would be taken for part of the fit. Containers of version 0.1.0 have no checksums.
    """
    written = groups["fit"].attrs.get(ATTRIBUTE)
    if written is None:
        return False
    saved = _parsed(written)
    now = _fields(groups)
    if missing := [name for name in saved if name not in now]:
        raise ValueError(f"{_listed(missing)} is missing")
    if changed := [name for name in saved if checksum(now[name][0]) != saved[name]]:
        raise ValueError(f"{_listed(changed)} was changed since it was written")
    if added := [name for name, (_, has_meaning) in now.items() if has_meaning and name not in saved]:
        raise ValueError(f"{_listed(added)} was added since it was written, under a name that means something here")
    return True


def _parsed(written: object) -> dict[str, Any]:
    """Return the checksums of the fields, or raise a ValueError if they are no longer what was written."""
    try:
        saved = json.loads(str(written))
        if saved.pop(_ALL) == _of_all(saved):
            return dict(saved)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        pass  # said below
    raise ValueError(f"the attribute {ATTRIBUTE} of the group fit was changed since it was written")


def _fields(groups: Mapping[str, xr.Dataset]) -> dict[str, tuple[NDArray[Any], bool]]:
    """Return fields by name, and whether each would be taken for part of a fit; those along draws are left out."""
    found = dict[str, tuple[NDArray[Any], bool]]()
    for group in (name for name in GROUPS if name in groups):  # without cases there are no targets
        for name, variable in groups[group].data_vars.items():
            if not set(SAMPLE_DIMS) & set(variable.dims):
                found[f"{name} in the group {group}"] = variable.values, has_a_meaning(group, str(name))
    if "feature" in groups["constant_data"].coords:
        found["feature in the group constant_data"] = groups["constant_data"]["feature"].values, False
    for name, value in groups["fit"].attrs.items():
        if name != ATTRIBUTE:
            has_meaning = has_a_meaning("fit", str(name), is_attribute=True)
            found[f"the attribute {name} of the group fit"] = np.array(str(value)), has_meaning
    return found


def _of_all(checksums: Mapping[str, str]) -> str:
    return checksum(np.array(json.dumps(checksums, sort_keys=True)))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


TOLERANCE = 1e-6
"""Relative, of means that are computed again, with the prior's standard deviation as their scale."""
MOST_MEANS = 2000
"""Cases whose means are computed again, at most: those of all take a product with the matrix."""
_OF_ALL_SETTINGS = ("latent_mean", "latent_sd", "cavity_mean", "cavity_sd", "loo_i")
_FINITE = {
    "fit": ("alpha", "latent_sd", "log_evidence", "node_weight"),
    "observed_data": ("y",),
    "constant_data": ("X", *BY_CASE),
}


def check_shapes(groups: Mapping[str, xr.Dataset]) -> None:
    """Raise a ValueError if a variable has another shape, or another kind of entries, than it must have.

    Nothing is read for it. There is a MemoryError if a fit of as many cases would not fit into this machine.
    """
    fit, data = groups["fit"], dict[str, xr.DataArray]()
    if "observed_data" in groups:  # else of a table in parts, whose cases are elsewhere
        data = {"y": groups["observed_data"]["y"], "X": groups["constant_data"]["X"]}
        data |= {name: groups["constant_data"][name] for name in BY_CASE if name in groups["constant_data"]}
    n, several_classes = fit.sizes["obs_id"] if data else 0, "class" in fit.sizes
    with_node = [name for name in ("alpha", "n_iterations", "residual") if name in fit and "node" in fit[name].dims]
    lead = ("node",) if len(with_node) > 1 else ()  # most decide, so that the one that was changed is named
    if lead and "node_weight" not in fit:
        raise ValueError("node_weight is missing")
    ours = [(str(name), variable, True) for name, variable in fit.data_vars.items()]
    variables = [*ours, *((name, variable, False) for name, variable in data.items())]
    for name, variable, in_fit in variables:
        dims = variable_dims(name, several_classes=several_classes, in_fit=in_fit)
        if dims is None:
            continue
        if variable.dtype.kind not in "biuf":
            raise ValueError(f"{name} must hold numbers, and has the type {variable.dtype}")
        dims = dims if name in _OF_ALL_SETTINGS or not in_fit else (*lead, *dims)
        sizes = {"obs_id": n, "obs_id_other": n, "inducing_other": fit.sizes.get("inducing")}
        expected = tuple(sizes.get(dim, variable.sizes.get(dim)) for dim in dims)
        if variable.dims != dims or variable.shape != expected:
            raise ValueError(
                f"{name} has the dimensions {_shape(variable.dims, variable.shape)}, and must have "
                f"{_shape(dims, expected)}"
            )
    if "inducing" not in fit.sizes and "nodes" not in fit:  # else nothing grows as n but what is held
        check_memory(n, fit.sizes.get("node", 1) if lead else 1, fit.sizes.get("rank"), fit.sizes.get("class", 1))
    if sum(variable.nbytes for _, variable, _ in variables) > available_bytes():
        raise MemoryError("this container holds more than the memory of this machine. Open it on a larger one.")


def check_values(groups: Mapping[str, xr.Dataset], model: Model) -> None:
    """Raise a ValueError if numbers are not finite, classes not those of labels, or a parameter is said to be two."""
    fit = groups["fit"]
    for group, dataset in groups.items():
        for name in _FINITE[group]:
            if name in dataset and not np.all(np.isfinite(dataset[name].values)):
                raise ValueError(f"{name} in the group {group} must be finite")
    if "observed_data" in groups:
        _check_classes(groups, model.likelihood)
    statuses = [status.name for status in Status]
    if fit.attrs["status"] not in statuses:
        raise ValueError(f"status must be one of {statuses}, and is {fit.attrs['status']!r}")
    first = fit
    if "node_weight" in fit:
        weight, first = fit["node_weight"].values, fit.isel(node=0)
        if np.any(weight < 0) or not np.isclose(weight.sum(), 1.0):
            raise ValueError("node_weight must hold numbers >= 0 that sum to one")
    for name, value in model.params.items() if MODELS not in fit.attrs else ():
        if not np.array_equal(first[name].values, value):
            where = "likelihood" if name in model.named else "kernel"
            raise ValueError(f"{name} is {first[name].values.tolist()}, and in the attribute {where} {value.tolist()}")


def _check_classes(groups: Mapping[str, xr.Dataset], likelihood: Likelihood) -> None:
    names, y = json.loads(groups["fit"].attrs["class_names"]), groups["observed_data"]["y"]
    of_classes = likelihood.n_classes
    expected = {"binary": 2, "real": likelihood.n_levels or 0}.get(likelihood.targets, of_classes)
    distinct = isinstance(names, list) and len({str(name) for name in names}) == len(names)
    if not distinct or (expected is not None and len(names) != expected):
        raise ValueError(f"class_names is {names!r}, and must hold {expected} different names for this likelihood")
    if y.attrs.get("class_names", json.dumps(names)) != json.dumps(names):
        raise ValueError(f"class_names is {names}, and of y {y.attrs['class_names']}")
    if names and not np.all(np.isin(y.values, np.arange(len(names)))):
        raise ValueError(f"y must hold positions 0 to {len(names) - 1} in class_names")


def check_mean(posterior: Process, fit: xr.Dataset) -> None:
    """Raise a ValueError if the mean, at `MOST_MEANS` cases at most, is not that of kernel, inputs and weights."""
    which = np.unique(np.linspace(0, fit.sizes["obs_id"] - 1, MOST_MEANS).astype(np.intp))
    stored, computed = fit["latent_mean"].values[which], posterior.mean_at_some(which)
    scale = float(np.max(np.sqrt(posterior.problem.matrix.diagonal())))
    if not np.allclose(stored, computed, rtol=TOLERANCE, atol=TOLERANCE * scale):  # also false if anything is NaN
        rest = "kernel, X, pivot and alpha" if "pivot" in fit else "kernel, X and alpha"
        off = np.max(np.abs(stored - computed))
        raise ValueError(f"latent_mean is not that of {rest}: they differ by {off:.3g}")


def nodes_of_draws(recorded: xr.DataArray, posterior: Process, drawn: xr.Dataset) -> NDArray[np.intp]:
    """Return which setting each draw is of, or raise a ValueError if that was changed, as the parameters beside say."""
    node: NDArray[Any] = recorded.values
    if node.dtype.kind not in "iu" or np.any(node < 0) or np.any(node >= len(posterior.parts)):
        raise ValueError(f"node in the group sample_stats must number the {len(posterior.parts)} settings from 0")
    first = posterior.parts[0]
    named = stored_parameters(drawn, first.kernel, first.problem.likelihood)
    each = [Model(part.kernel, part.problem.likelihood, named).params for part in posterior.parts]
    for name in each[0].keys() & set(drawn.data_vars):
        of_node = np.array([params[name] for params in each])
        if not np.array_equal(of_node[node], drawn[name].values):
            raise ValueError(f"node in the group sample_stats and {name} in the group posterior say different things")
    if not is_sealed(recorded):
        raise ValueError("node in the group sample_stats was changed since it was written")
    return node.astype(np.intp)


def _shape(dims: Iterable[Any], sizes: Iterable[int | None]) -> str:
    return "(" + ", ".join(f"{dim}: {size}" for dim, size in zip(dims, sizes, strict=False)) + ")"
