"""A fit to a table in parts as a container: what its posterior says of the inducing inputs, and nothing of each case.

The cases are where their parts are. Predictions need no more than the weights of the features of the inducing inputs
and their covariance, which stand in the group ``fit`` as those of a fit with ``inducing`` do; kernel, likelihood, and
how well the solution is known, too.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.checksums import check_unchanged, with_checksums
from bayesgp_mf.container.groups import get_group, group_names, make_container
from bayesgp_mf.container.layout import (
    CASES,
    FORMAT,
    SAMPLE_DIMS,
    Layout,
    check_parameter_names,
    common_attrs,
    variable_dims,
    versions,
)
from bayesgp_mf.container.quality import evidence_of_fit, quality_of_fit
from bayesgp_mf.container.stored import (
    DAMAGED,
    describe_kernel,
    describe_likelihood,
    kernel_of,
    likelihood_of,
    method_of,
    names_of,
    refused_as,
)
from bayesgp_mf.errors import Status
from bayesgp_mf.inference.problem import Problem, status_in_words
from bayesgp_mf.inference.solution import Info, Solution
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inference.undefined import without_cases
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.inducing import inducing_gram
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.solvers.meanfield import tap
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container

_READ = ("fit", "constant_data")


class InParts(NamedTuple):
    """What is known of a fit to a table in parts.

    Attributes
    ----------
    n_cases : int
        Cases of all parts.
    kernel, likelihood : Kernel, Likelihood
        Prior covariance, and p(t | f).
    points : (M, d) array
        Inducing inputs.
    weights : (M,) array
        Posterior mean of the weights of their features.
    inverse_factor : (M, M) array
        Lower triangular T, with T'T the posterior covariance of the weights.
    f : (chains, draws, M) array
        Draws of the latent values at the inducing inputs.
    log_evidence : float
        In nats.
    gradient : dict of str to array
        Derivatives of the log evidence in the parameters of the kernel.
    info : Info
        How the iteration went, and how well the numbers are known.
    class_names : tuple of str
        Of the two classes, the positive one last; empty for real targets.
    features : sequence of str or None
        Names of the inputs.
    """

    n_cases: int
    kernel: Kernel
    likelihood: Likelihood
    points: Array
    weights: Array
    inverse_factor: Array
    f: Array
    log_evidence: float
    gradient: dict[str, Array]
    info: Info
    class_names: tuple[str, ...]
    features: Sequence[str] | None


def gradient_name(name: str) -> str:
    """Return what the derivative of the log evidence in a parameter of the kernel is called."""
    return f"hyper_gradient_{name}"  # no parameter may begin like this


def check_storable_in_parts(kernel: Kernel, likelihood: Likelihood) -> None:
    """Raise a ValueError if a container could not have this kernel or this likelihood, before any work is done."""
    describe_likelihood(likelihood)
    check_parameter_names(kernel.params)


def parts_container(found: InParts) -> Container:
    """Return the container of a fit to a table in parts."""
    features = found.features or np.arange(found.points.shape[1])
    layout = Layout(0, features, found.class_names, found.f.shape[:2])
    posterior = layout.along((*SAMPLE_DIMS, "inducing"), found.f)
    info = found.info
    values = {
        "inducing_input": found.points,
        "inducing_weight": found.weights,
        "inducing_factor": np.tril(found.inverse_factor),
        "log_evidence": np.array(found.log_evidence),
        "log_evidence_se": np.array(0.0),
        "n_iterations": np.array(info.n_iterations),
        "residual": np.array(info.residual),
    }
    if found.likelihood.known_sites(np.zeros(1), 0.0) is not None:  # of Gaussian noise nothing is approximated
        values |= {"log_evidence_correction": np.array(0.0), "log_evidence_remaining": np.array(0.0)}
    stated = {"independent": info.independent, "mean_error": info.mean_error, "rounding": info.rounding}
    values |= {name: np.array(value) for name, value in stated.items() if value is not None}
    variables = {name: layout.variable(name, value) for name, value in values.items()}
    variables |= {name: layout.parameter(name, value) for name, value in found.kernel.params.items()}
    for name, value in found.gradient.items():
        variables[gradient_name(name)] = layout.parameter(name, np.asarray(value)).rename(gradient_name(name))
    attrs = {
        "bayesgp_mf_format": FORMAT,
        "method": tap.name,
        "solver": json.dumps({"options": {}}),
        "status": info.status.name,
        "status_message": status_in_words(info.status, found.likelihood, tap.name),
        "evidence_kind": tap.rule.kind,
        "evidence_bound": tap.rule.bound or "none",
        "kernel": json.dumps(describe_kernel(found.kernel)),
        "likelihood": json.dumps(describe_likelihood(found.likelihood)),
        "versions": json.dumps(versions()),
        "class_names": json.dumps(found.class_names),
        CASES: found.n_cases,
    }
    groups = {
        "posterior": xr.Dataset({"f": posterior}),
        "constant_data": xr.Dataset({"X": layout.along(("inducing", "feature"), found.points)}),
        "fit": xr.Dataset(variables, attrs=attrs),
    }
    quality = quality_of_fit(groups["fit"], found.n_cases, in_parts=True).sentence
    groups["fit"] = groups["fit"].assign_attrs(quality=quality)
    groups = with_checksums(groups)
    return make_container({name: dataset.assign_attrs(common_attrs()) for name, dataset in groups.items()})


def is_in_parts(fit: xr.Dataset) -> bool:
    """Tell whether the group ``fit`` is of a fit to a table in parts."""
    return CASES in fit.attrs


def check_has_cases(fit: xr.Dataset, what: str) -> None:
    """Raise an UndefinedQuantityError if a container has nothing of each case, which ``what`` is of."""
    if is_in_parts(fit):
        raise without_cases(what)


def read_parts(idata: Container, fit: xr.Dataset, kernel: Any, likelihood: Likelihood | None, method: Any) -> Posterior:
    """Return the posterior of a container of a fit to a table in parts; see `read.from_container`."""
    with refused_as(DAMAGED):
        if missing := [name for name in _READ if name not in group_names(idata)]:
            raise ValueError(f"the group {missing[0]} is missing")
        groups = {name: get_group(idata, name).compute() for name in _READ}
        if not check_unchanged(groups):
            raise ValueError("it has no checksums")
        _check_shapes(groups["fit"])
    fit = groups["fit"]
    found = kernel_of(fit, kernel, names_of(groups["constant_data"]["feature"].values))
    known = likelihood_of(fit, likelihood, found)
    solver = method_of(fit, known, method)
    with refused_as(DAMAGED if kernel is None else "kernel is not the one that was fitted: {}. Pass that one."):
        for name, value in found.params.items():
            if not np.array_equal(fit[name].values, value):
                raise ValueError(f"{name} is {fit[name].values.tolist()}, and of the kernel {value.tolist()}")
        return _posterior(fit, groups["constant_data"]["feature"].values, found, known, solver)


def _check_shapes(fit: xr.Dataset) -> None:
    """Raise a ValueError if what predictions need has another shape than it must have, or is not finite."""
    rank = fit.sizes["inducing"]
    for name in ("inducing_input", "inducing_weight", "inducing_factor"):
        values = fit[name]
        if values.dims != variable_dims(name, several_classes=False) or set(values.shape[:2]) - {
            rank,
            fit.sizes["feature"],
        }:
            raise ValueError(f"{name} has the dimensions {dict(values.sizes)}")
        if values.dtype.kind != "f" or not np.all(np.isfinite(values.values)):
            raise ValueError(f"{name} must hold finite numbers")
    if fit["inducing_factor"].shape != (rank, rank) or np.any(np.diag(fit["inducing_factor"].values) <= 0):
        raise ValueError("inducing_factor must be square, and on its diagonal positive")
    if fit.attrs["status"] not in [status.name for status in Status]:
        raise ValueError(f"status is {fit.attrs['status']!r}")


def _posterior(
    fit: xr.Dataset, features: NDArray[Any], kernel: Kernel, likelihood: Likelihood, solver: Solver
) -> Posterior:
    """Return a posterior of no cases, of which what all cases say is known."""
    points = np.ascontiguousarray(fit["inducing_input"].values)
    X, nothing = np.empty((0, points.shape[1])), np.empty(0)
    gram = inducing_gram(kernel, X, points, known=(nothing, fit["inducing_weight"].values))
    correction = gram.sites(nothing, np.asfortranarray(fit["inducing_factor"].values))
    stated = {name: float(fit[name]) if name in fit else None for name in ("independent", "mean_error", "rounding")}
    status, steps, residual = Status[fit.attrs["status"]], int(fit["n_iterations"]), float(fit["residual"])
    info = Info(status, steps, residual, rank=points.shape[0], **stated)
    solution = Solution(tap.name, nothing, correction, evidence_of_fit(fit), None, info)
    names = names_of(features)
    problem = Problem(gram, nothing, likelihood)
    return Posterior(kernel, X, problem, solution, solver, feature_names=names)
