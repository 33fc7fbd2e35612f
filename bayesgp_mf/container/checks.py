"""A container is checked against itself: shapes and memory before any work, then parameters, numbers and the mean.

What changed since it was written is known by `checksums`. Nothing is solved again: a container of before there were
any, whose evidence or variances were edited, is not found out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.checksums import is_sealed
from bayesgp_mf.container.layout import BY_CASE, stored_parameters, variable_dims
from bayesgp_mf.errors import Status
from bayesgp_mf.hyper.model import Model
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.memory import available_bytes, check_memory
from bayesgp_mf.processes.process import Process

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
    if "inducing" not in fit.sizes:  # on inducing inputs nothing grows as n but what is held
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
    for name, value in model.params.items():
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
    for name in each[0]:
        of_node = np.array([params[name] for params in each])
        if name in drawn and not np.array_equal(of_node[node], drawn[name].values):
            raise ValueError(f"node in the group sample_stats and {name} in the group posterior say different things")
    if not is_sealed(recorded):
        raise ValueError("node in the group sample_stats was changed since it was written")
    return node.astype(np.intp)


def _shape(dims: Iterable[Any], sizes: Iterable[int | None]) -> str:
    return "(" + ", ".join(f"{dim}: {size}" for dim, size in zip(dims, sizes, strict=False)) + ")"
