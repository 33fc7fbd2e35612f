"""The hyperparameters of a fit by the names of its inputs, with how sure they are and what the prior said."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from scipy.special import ndtri

from bayesgp_mf.container.groups import Container, get_group, group_names
from bayesgp_mf.container.layout import MODELS, is_parameter
from bayesgp_mf.container.read import fit_group, has_random_kernels
from bayesgp_mf.container.stored import not_stored
from bayesgp_mf.kernels import from_dict, leaves
from bayesgp_mf.notebook import shown_as_table
from bayesgp_mf.types import Array

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)


def _title(found: Any) -> str:
    chosen = "as they were chosen" if np.any(found.tuned) else "as they were given"
    return f"Hyperparameters {chosen if found.kind == 'chosen' else f'by {len(found.weights)} {found.kind}'}:"


@shown_as_table(_title)
class Hyperparameters(NamedTuple):
    """Hyperparameters, an entry of a vector each; it prints the table that `to_frame` returns.

    Attributes
    ----------
    names : tuple of str
        Such as ``lengthscale[age]``.
    quantiles : (5, p) array
        5, 25, 50, 75 and 95 % quantiles in the units of the parameters; the value five times, if there is one. Of
        nodes, those of a log-normal density with their mean and variance, which are all that a rule knows.
    prior : (5, p) array
        The same of the prior; NaN without one.
    values, weights : (k, p) and (k,) array
        The settings themselves: draws, nodes of a rule, or the one that was chosen.
    kind : {"draws", "nodes", "chosen"}
        Which of these.
    tuned : (p,) bool array
        Whether it was chosen or averaged over; else it is as it was given.
    bound : (p,) array
        1 if a search ended at its upper bound, -1 if at its lower one, else 0: the data do not determine it there.
    """

    names: tuple[str, ...]
    quantiles: Array
    prior: Array
    values: Array
    weights: Array
    kind: str
    tuned: NDArray[np.bool_]
    bound: Array

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each: quantiles, or the ``value`` if there is one; those of priors; ``tuned``, ``bound``."""
        columns: dict[str, Any] = {f"{level:.0%}": self.quantiles[k] for k, level in enumerate(LEVELS)}
        if self.kind == "chosen":
            columns = {"value": self.quantiles[0]}
        if not np.all(np.isnan(self.prior)):
            columns |= {f"prior {level:.0%}": self.prior[k] for k, level in enumerate(LEVELS)}
        return pd.DataFrame(columns | {"tuned": self.tuned, "bound": self.bound.astype(int)}, index=list(self.names))


def hyperparameters(idata: Container) -> Hyperparameters:
    """Return the hyperparameters of a fit, as draws, as nodes with weights, or as they were chosen.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned, or the same loaded from a file.

    Returns
    -------
    Hyperparameters
        With those of the kernel and of the likelihood that were tuned, and those of the kernel that were kept.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit of this package, or has no parameters.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> X, priors = np.linspace(-2, 2, 20)[:, None], {"lengthscale": bgp.hyper.LogNormal(0.0, 1.0)}
    >>> options = {"hyper": "evidence", "priors": priors, "fixed": ["variance"], "draws": 5, "random_seed": 1}
    >>> idata = bgp.fit(X, X[:, 0] > 0, bgp.kernels.Gaussian(), **options)
    >>> found = bgp.diagnostics.hyperparameters(idata)
    >>> found.names, found.prior[2].round(2)
    (('lengthscale', 'variance'), array([ 1., nan]))
    """
    fit = fit_group(idata)
    random, dims, entries = _parameters(idata, fit)
    tuned = [str(name) for name in fit["hyper"].values] if "hyper" in fit.coords else []
    columns, keys = {label: each for _, label, each in entries}, {label: key for key, label, _ in entries}
    if not columns:
        one = "one of the fits that were combined" if MODELS in fit.attrs else "what bayesgp_mf.fit returned"
        raise ValueError(f"this container has no parameters of one kernel. Pass {one}.")
    names, values = tuple(columns), np.stack(list(columns.values()), axis=1)
    weights = fit["node_weight"].values if dims == ("node",) else np.full(len(values), 1.0 / len(values))
    levels = np.array(LEVELS)
    quantiles = np.quantile(values, levels, axis=0) if random else _log_normal_quantiles(values, weights, levels)
    prior, bound = np.full(quantiles.shape, np.nan), np.zeros(len(names))
    kind = "draws" if random else "nodes" if dims else "chosen"
    searched = [(k, tuned.index(keys[name])) for k, name in enumerate(names) if keys[name] in tuned]
    for k, place in searched:
        if "hyper_prior_quantile" in fit:
            prior[:, k] = np.exp(fit["hyper_prior_quantile"].values[:, place])
        if "hyper_bound" in fit and kind == "chosen":
            bound[k] = fit["hyper_bound"].values[place]
    was_tuned = np.isin(np.arange(len(names)), [k for k, _ in searched])
    return Hyperparameters(names, quantiles, prior, values, weights, kind, was_tuned, bound)


def _log_normal_quantiles(values: Array, weights: Array, levels: Array) -> Array:
    """Return quantiles ``(k, p)`` of log-normal densities with the moments of weighted ``values (n, p)``."""
    quantiles = np.repeat(values[:1], levels.size, axis=0)
    varies = np.ptp(values, axis=0) > 0  # one that does not vary may be zero
    logs = np.log(values[:, varies])
    mean = weights @ logs
    quantiles[:, varies] = np.exp(mean + ndtri(levels)[:, None] * np.sqrt(weights @ (logs - mean) ** 2))
    return quantiles


def for_readers(idata: Container, names: Iterable[str]) -> tuple[str, ...]:
    """Return names of hyperparameters, such as ``lengthscale[0]``, with those of their inputs."""
    known = {key: label for key, label, _ in _parameters(idata, fit_group(idata))[2]}
    return tuple(known.get(name, name) for name in names)


def _parameters(idata: Container, fit: xr.Dataset) -> tuple[bool, tuple[str, ...], list[tuple[str, str, Array]]]:
    """Return whether parameters are drawn, their dimensions, and `_entries` of them all."""
    random = has_random_kernels(fit) and "posterior" in group_names(idata)
    source, inputs = get_group(idata, "posterior") if random else fit, _inputs_of(idata, fit)
    dims = ("chain", "draw") if random else ("node",) if "node_weight" in fit else ()
    names = [name for name in map(str, fit.data_vars) if is_parameter(name) and name in source]
    return random, dims, [each for name in names for each in _entries(name, source[name], dims, inputs.get(name))]


def _inputs_of(idata: Container, fit: xr.Dataset) -> dict[str, list[str]]:
    """Return the inputs of kernels that look at some of them alone, by the name of each of their parameters."""
    if not_stored(fit, {"kernel": None}):
        return {}  # what it looks at is not in the container
    kernel, features = from_dict(json.loads(fit.attrs["kernel"])), get_group(idata, "constant_data")["feature"].values
    whose: list[Any] = [leaf for leaf in leaves(kernel) for _ in leaf.params]
    looks_at = {name: getattr(leaf, "columns", None) for name, leaf in zip(kernel.params, whose, strict=True)}
    return {name: [str(features[j]) for j in columns] for name, columns in looks_at.items() if columns is not None}


def _entries(
    name: str, variable: xr.DataArray, dims: tuple[str, ...], inputs: list[str] | None
) -> list[tuple[str, str, Array]]:
    """Return each entry of a parameter: its name among hyperparameters, its name for a reader, its values ``(k,)``."""
    own = [dim for dim in variable.dims if dim not in dims]
    flat = variable.transpose(*dims, *own).values.reshape(-1, *(variable.sizes[dim] for dim in own))
    if not own:
        return [(name, name, flat)]
    labels: Iterable[Any] = variable[own[0]].values if own[0] in variable.coords else range(flat.shape[1])
    if inputs is not None and len(inputs) == flat.shape[1]:
        labels = inputs
    return [(f"{name}[{k}]", f"{name}[{label}]", flat[:, k]) for k, label in enumerate(labels)]
