"""What a container says, held against itself: shapes and memory before any work, moments and evidence after it.

What changed since it was written is known by `checksums`. These are for a container of before there were any, and for
one that was made to look whole.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.container.checksums import is_sealed
from bayesgp_mf.container.layout import BY_CASE, LOO_OMITTED, stored_parameters, variable_dims
from bayesgp_mf.errors import ConvergenceError, NotPositiveDefiniteError, Status
from bayesgp_mf.hyper.model import Model
from bayesgp_mf.inference.solution import Control
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.memory import available_bytes, check_memory
from bayesgp_mf.processes.mixture import Mixture
from bayesgp_mf.processes.several_classes import Process
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.solvers.second_order import second_order

TOLERANCE = 1e-6
"""Relative, of means and variances that are computed again, with the prior's standard deviation as their scale."""
MOST_MEANS = 2000
"""Cases whose means are computed again, at most: those of all take a product with the matrix."""
LOO_TOLERANCE = 1e-5
"""The same of leave-one-out predictions, in which more cancels."""
EVIDENCE_TOLERANCE = 1e-6
"""In nats for each nat of an evidence, and of each case."""
CORRECTION_TOLERANCE = 1e-3
"""Of the correction of an evidence, in which pairs are taken or not, and of what is left; and of a probability's."""
_OF_ALL_SETTINGS = ("latent_mean", "latent_sd", "cavity_mean", "cavity_sd", "loo_i")
_FINITE = {"fit": ("alpha", "node_weight"), "observed_data": ("y",), "constant_data": ("X", *BY_CASE)}


def check_shapes(groups: Mapping[str, xr.Dataset]) -> None:
    """Raise a ValueError if a variable has another shape, or another kind of entries, than it must have.

    Nothing is read for it. There is a MemoryError if a fit of as many cases would not fit into this machine.
    """
    fit, data = groups["fit"], {"y": groups["observed_data"]["y"], "X": groups["constant_data"]["X"]}
    data |= {name: groups["constant_data"][name] for name in BY_CASE if name in groups["constant_data"]}
    n, several_classes = fit.sizes["obs_id"], "class" in fit.sizes
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
        sizes = {"obs_id": n, "obs_id_other": n}
        expected = tuple(sizes.get(dim, variable.sizes.get(dim)) for dim in dims)
        if variable.dims != dims or variable.shape != expected:
            raise ValueError(
                f"{name} has the dimensions {_shape(variable.dims, variable.shape)}, and must have "
                f"{_shape(dims, expected)}"
            )
    if "inducing" not in fit.sizes:  # on inducing inputs nothing grows as n but what is held
        check_memory(n, fit.sizes.get("node", 1) if lead else 1, fit.sizes.get("rank"), fit.sizes.get("class", 1))
    check_fits_memory([variable for _, variable, _ in variables])


def check_fits_memory(variables: Iterable[xr.DataArray]) -> None:
    """Raise a MemoryError if what a container holds would not fit into this machine."""
    if sum(variable.nbytes for variable in variables) > available_bytes():
        raise MemoryError("this container holds more than the memory of this machine. Open it on a larger one.")


def check_values(groups: Mapping[str, xr.Dataset], model: Model) -> None:
    """Raise a ValueError if numbers are not finite, classes not those of labels, or a parameter is said to be two."""
    fit = groups["fit"]
    for group, names in _FINITE.items():
        for name in names:
            if name in groups[group] and not np.all(np.isfinite(groups[group][name].values)):
                raise ValueError(f"{name} in the group {group} must be finite")
    _check_classes(groups, model.likelihood)
    statuses = [status.name for status in Status]
    if fit.attrs["status"] not in statuses:
        raise ValueError(f"status must be one of {statuses}, and is {fit.attrs['status']!r}")
    if (fit.attrs["evidence_kind"] == "none") == ("log_evidence" in fit):
        raise ValueError(f"evidence_kind is {fit.attrs['evidence_kind']!r}, which does not go with log_evidence")
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


def check_mean(posterior: Process | Mixture, fit: xr.Dataset) -> None:
    """Raise a ValueError if the mean, at `MOST_MEANS` cases at most, is not that of kernel, inputs and weights."""
    which = np.unique(np.linspace(0, fit.sizes["obs_id"] - 1, MOST_MEANS).astype(np.intp))
    stored, computed = fit["latent_mean"].values[which], posterior.mean_at_some(which)
    rest = "kernel, X, pivot and alpha" if "pivot" in fit else "kernel, X and alpha"
    _check_same("latent_mean", stored, computed, TOLERANCE, _prior_sd(posterior), rest)


def check_recomputed(posterior: Process | Mixture, fit: xr.Dataset) -> None:
    """Raise a ValueError if variances, leave-one-out predictions or evidences are not what the rest says.

    Of a method without sites, whose every leave-one-out prediction is an integral, only the variances.
    """
    sd, has_variance = _prior_sd(posterior), posterior.parts[0].solution.has_variance
    for part in posterior.parts:
        matrix, solution = part.problem.matrix, part.solution
        again = matrix.anew()
        if again is matrix:
            continue
        precision: Any = solution.correction
        anew = again.stored(solution.alpha, again.sites(precision.site_precision))
        for name, value in matrix.stored(solution.alpha, solution.correction).items():
            scale = float(np.max(np.abs(anew[name])))
            _check_same(name, value, anew[name], TOLERANCE, scale, "kernel, X, alpha and site_variance")
    sites = next((name for name in ("site_variance", "site_weight", "site_matrix") if name in fit), None)
    if has_variance:
        stored, computed = fit["latent_sd"].values ** 2, posterior.at_training[1]
        _check_same("latent_sd", stored, computed, TOLERANCE, sd**2, f"kernel, X and {sites or 'correction'}")
        if sites is None:
            return
    if LOO_OMITTED not in fit.attrs:
        others, rest = posterior.loo, f"kernel, X, y, alpha, likelihood and {sites}"
        _check_same("cavity_mean", fit["cavity_mean"].values, others.mean, LOO_TOLERANCE, sd, rest)
        if has_variance:
            _check_same("cavity_sd", fit["cavity_sd"].values ** 2, others.variance, LOO_TOLERANCE, sd**2, rest)
            _check_same("loo_i", fit["loo_i"].values, others.log_density, LOO_TOLERANCE, 1.0, rest)
    if has_variance:
        _check_evidences(posterior.parts)


def _check_evidences(parts: Iterable[Process]) -> None:
    """Solve again from each solution, which is a step where it is one, and hold the evidences against each other."""
    for part in parts:
        stored, problem = part.solution, part.problem
        if stored.info.status is not Status.CONVERGED:
            continue
        try:
            solved = part.method.solve(problem, Control(throw=False), stored)
        except (ConvergenceError, NotPositiveDefiniteError):  # what is not computed now is held against nothing
            continue
        again = solved.evidence
        for name, stated, found in (
            ("evidence_kind", stored.evidence.kind, again.kind),
            ("evidence_bound", stored.evidence.bound, again.bound),
        ):
            if stated != found and (stated, found) != ("laplace", "exact"):  # as it was called under Gaussian noise
                raise ValueError(f"{name} is {stated!r}, and of the method {part.method.name!r} {found!r}")
        scale, rest = max(float(problem.n), abs(again.value)), "y, X, kernel, likelihood and method"
        _check_same("log_evidence", stored.evidence.value, again.value, EVIDENCE_TOLERANCE, scale, rest)
        error = stored.evidence.standard_error, again.standard_error
        _check_same("log_evidence_se", *error, EVIDENCE_TOLERANCE, 1.0, rest)
        if stored.evidence.correction is not None:
            known = second_order(problem, solved)
            for name in ("correction", "remaining"):
                value, now = getattr(stored.evidence, name), np.nan if known is None else getattr(known, name)
                _check_same(f"log_evidence_{name}", value, now, CORRECTION_TOLERANCE, 1.0, rest)
        if stored.info.probability_shift is not None and isinstance(part, Posterior):
            now = replace(part, solution=solved).probability_shift
            shift = stored.info.probability_shift
            _check_same("probability_shift", shift, np.nan if now is None else now, CORRECTION_TOLERANCE, 1.0, rest)


def nodes_of_draws(recorded: xr.DataArray, posterior: Mixture, drawn: xr.Dataset) -> NDArray[np.intp]:
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


def _prior_sd(posterior: Process | Mixture) -> float:
    return float(np.max(np.sqrt(posterior.problem.matrix.diagonal())))


def _check_same(name: str, stored: ArrayLike, computed: ArrayLike, tolerance: float, scale: float, rest: str) -> None:
    if not np.allclose(stored, computed, rtol=tolerance, atol=tolerance * scale):  # also false if anything is NaN
        off = np.max(np.abs(np.asarray(stored) - np.asarray(computed)))
        raise ValueError(f"{name} is not that of {rest}: they differ by {off:.3g}")


def _shape(dims: Iterable[Any], sizes: Iterable[int | None]) -> str:
    return "(" + ", ".join(f"{dim}: {size}" for dim, size in zip(dims, sizes, strict=False)) + ")"
