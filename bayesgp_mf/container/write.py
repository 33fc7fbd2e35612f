"""From a posterior to a container, which holds everything needed to predict again, as numbers and JSON.

Of a fit to a table in parts it holds what the posterior says of the inducing inputs, and nothing of each case: the
cases are where their parts are. Predictions need no more than the weights of the features of the inducing inputs
and their covariance, which stand in the group ``fit`` as those of a fit with ``inducing`` do; kernel, likelihood, and
how well the solution is known, too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.checks import sealed, with_checksums
from bayesgp_mf.container.draws import as_stored, draw_training
from bayesgp_mf.container.groups import Container, make_container
from bayesgp_mf.container.layout import (
    CASES,
    LOO_OMITTED,
    MODELS,
    OF_MODEL,
    SAMPLE_DIMS,
    Layout,
    common_attrs,
)
from bayesgp_mf.container.quality import quality_of_fit
from bayesgp_mf.container.stored import model_attrs, stored_solution
from bayesgp_mf.errors import Status, UndefinedQuantityError
from bayesgp_mf.hyper.target import Model
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Evidence, Info, LeaveOneOut, Solution
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inference.undefined import without_cases
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.inducing import inducing_gram
from bayesgp_mf.processes.process import Ensemble, Marginals, Part, Process, Tuned
from bayesgp_mf.processes.single import Posterior
from bayesgp_mf.solvers.meanfield import tap
from bayesgp_mf.types import Array

LOG_LIKELIHOOD_OMITTED = (
    "Under a likelihood that is piecewise constant in f, as a step is, importance weights take two values only, and "
    "az.loo is undefined. bayesgp_mf.loo needs no draws."
)
HYPERPARAMETERS_OMITTED = (
    "The hyperparameters are the nodes of a deterministic rule, which has no Monte-Carlo error and says nothing of "
    "quantiles. They stand in this group along node, with node_weight; sample_stats has the node of each draw of f."
)


def to_container(
    found: Tuned,
    *,
    class_names: tuple[str, ...],
    feature_names: list[str] | None,
    labels: NDArray[Any] | None = None,
    rng: np.random.Generator,
    attrs: dict[str, str],
    marginals: Marginals = "gaussian",
) -> Container:
    """Draw from the posterior that was found and lay everything out in the groups of ArviZ.

    Its record and ``attrs`` go to the group ``fit``. Names are as in `Layout`, ``marginals`` as in `Posterior.draw`.
    Hyperparameters that were sampled are in the group ``posterior``.
    """
    posterior, node = found.posterior, found.node
    first, problem = posterior.parts[0], posterior.problem
    features = feature_names or np.arange(first.X.shape[1])
    layout = Layout(problem.n, features, class_names, node.shape, labels)
    models = [Model.of(part.kernel, part.problem.likelihood, found.names) for part in posterior.parts]
    params = [model.params for model in models]
    if isinstance(posterior, Ensemble):  # whose parameters are not the same ones
        attrs, params = attrs | {MODELS: _described(posterior)}, [{} for _ in models]
    drawn = draw_training(posterior, node, rng, marginals, found.node_evidence)
    groups = drawn_groups(found, drawn, layout, params)
    if "log_likelihood" not in drawn:
        attrs = attrs | {"log_likelihood_omitted": LOG_LIKELIHOOD_OMITTED}
    loo, lacking = _leave_one_out(posterior)
    if lacking:
        attrs = attrs | {LOO_OMITTED: lacking}
    if posterior.averaged and not found.sampled:
        attrs = attrs | {"hyperparameters_omitted": HYPERPARAMETERS_OMITTED}
    groups["observed_data"] = xr.Dataset({"y": layout.targets(as_stored(problem.likelihood, problem.t))})
    given = {"X": first.X, **problem.likelihood.stored_by_case}
    groups["constant_data"] = xr.Dataset({name: layout.variable(name, values) for name, values in given.items()})
    recorded = {
        name: xr.DataArray(values, dims=dims, coords={"hyper": list(found.names)} if "hyper" in dims else None)
        for name, (dims, values) in found.record.items()
    }
    statuses = [part.solution.info.status for part in posterior.parts]
    status = next((status for status in statuses if status is not Status.CONVERGED), Status.CONVERGED)
    groups["fit"] = xr.Dataset(
        {**_summary(posterior, loo, layout), **_settings(posterior, layout, params), **recorded},
        attrs=model_attrs(first.kernel, problem.likelihood, first.method, first.solution.evidence, status)
        | {"marginals": marginals, "class_names": json.dumps(class_names), **attrs},
    )
    groups["fit"] = groups["fit"].assign_attrs(quality=quality_of_fit(groups["fit"], problem.n).sentence)
    return sealed_container(groups)


def _described(ensemble: Ensemble) -> str:
    """Return the attribute that says which models an average is of, with the parameters of each node."""
    each = []
    for part in ensemble.parts:
        evidence, info = part.solution.evidence, part.solution.info
        stated = model_attrs(part.kernel, part.problem.likelihood, part.method, evidence, info.status)
        each.append({name: stated[name] for name in OF_MODEL})
    return json.dumps(
        {
            "names": ensemble.names,
            "member": ensemble.member.tolist(),
            "posterior": bool(ensemble.posterior),
            "each": each,
        }
    )


def sealed_container(groups: dict[str, xr.Dataset]) -> Container:
    """Return the container of groups, with checksums and with the attributes of every group."""
    groups = with_checksums(groups)
    return make_container({name: dataset.assign_attrs(common_attrs()) for name, dataset in groups.items()})


def drawn_groups(
    found: Tuned, drawn: dict[str, NDArray[Any]], layout: Layout, params: Sequence[Mapping[str, Array]] = ()
) -> dict[str, xr.Dataset]:
    """Lay out draws, with the hyperparameters of each where they are drawn too: ``params`` of each part."""
    posterior, node = found.posterior, found.node
    infos = [part.solution.info for part in posterior.parts]
    stats = {
        "log_p": drawn["log_p"],
        "log_q": drawn["log_q"],
        "converged": np.array([info.status is Status.CONVERGED for info in infos])[node],
        "n_iterations": np.array([info.n_iterations for info in infos])[node],
        **found.stats,
    }
    variables = {}
    if found.sampled:
        for name in params[0]:
            values = np.array([each[name] for each in params])
            variables[name] = layout.parameter(name, values[node], SAMPLE_DIMS)
    groups = {
        "posterior": xr.Dataset({**variables, "f": layout.variable("f", drawn["f"], SAMPLE_DIMS)}),
        "posterior_predictive": xr.Dataset({"y": layout.targets(drawn["y"], SAMPLE_DIMS)}),
        "sample_stats": xr.Dataset({name: layout.along(SAMPLE_DIMS, values) for name, values in stats.items()}),
    }
    if posterior.averaged:
        groups["sample_stats"]["node"] = layout.along(SAMPLE_DIMS, node).assign_attrs(sealed(node))
    if "log_likelihood" in drawn:
        groups["log_likelihood"] = xr.Dataset({"y": layout.variable("y", drawn["log_likelihood"], SAMPLE_DIMS)})
        # the prior of what is drawn at the top of the model: of hyperparameters, or, where these are not drawn, of f
        log_prior = found.log_prior.items() if found.sampled else ()
        each = {name: layout.parameter(name, values[node], SAMPLE_DIMS) for name, values in log_prior}
        groups["log_prior"] = xr.Dataset(each or {"f": layout.along(SAMPLE_DIMS, drawn["log_prior"])})
    return groups


def _leave_one_out(posterior: Process) -> tuple[LeaveOneOut | None, str]:
    """Return the leave-one-out predictions, or None and why there are none."""
    try:
        return posterior.loo, ""
    except UndefinedQuantityError as error:  # without some case the others have no posterior; all else is there
        return None, str(error)


def _summary(posterior: Process, loo: LeaveOneOut | None, layout: Layout) -> dict[str, xr.DataArray]:
    """What a fit says of each training case, averaged over the hyperparameters if there are several settings."""
    values = {"latent_mean": posterior.mean_at_training, "latent_sd": np.sqrt(posterior.at_training[1])}
    if loo is not None:
        values |= {"cavity_mean": loo.mean, "cavity_sd": np.sqrt(loo.variance), "loo_i": loo.log_density}
    return {name: layout.variable(name, value) for name, value in values.items()}


def _settings(posterior: Process, layout: Layout, params: Sequence[Mapping[str, Array]]) -> dict[str, xr.DataArray]:
    """What is needed to predict again: of the one setting of the hyperparameters, or of each along ``node``."""
    settings = _padded([_setting(part) for part in posterior.parts])
    lead = ("node",) if posterior.averaged else ()

    def stacked(each: Sequence[Mapping[str, NDArray[Any]]]) -> dict[str, NDArray[Any]]:
        return {name: np.array([one[name] for one in each]) if lead else np.asarray(each[0][name]) for name in each[0]}

    found = {name: layout.variable(name, values, lead) for name, values in stacked(settings).items()}
    found |= {name: layout.parameter(name, values, lead) for name, values in stacked(params).items()}
    if posterior.averaged:
        found["node_weight"] = layout.variable("node_weight", posterior.weights, lead)
    return found


def _padded(settings: list[dict[str, NDArray[Any]]]) -> list[dict[str, NDArray[Any]]]:
    """Return arrays of the same shapes for all settings: -1, or NaN, stands where the matrix of one has no more."""
    for name in {name for arrays in settings for name in arrays}:
        found = [arrays.get(name) for arrays in settings]
        known = next(values for values in found if values is not None)
        empty = np.empty((0, *known.shape[1:]), dtype=known.dtype) if known.ndim else np.array(np.nan)
        present = [empty if values is None else values for values in found]
        shape = np.max([values.shape for values in present], axis=0)
        nothing = -1 if known.dtype.kind == "i" else np.nan
        for arrays, values in zip(settings, present, strict=True):
            lacking = [(0, int(more)) for more in shape - np.array(values.shape, dtype=int)]
            arrays[name] = np.pad(values, lacking, constant_values=nothing) if any(lacking) else values
    return settings


def _setting(part: Part) -> dict[str, NDArray[Any]]:
    """Return the arrays of one setting."""
    solution = part.solution
    arrays = {"alpha": solution.alpha, **part.problem.matrix.stored(solution.alpha, solution.correction)}
    arrays |= part.stored()
    return arrays | solution.correction.stored() | stored_solution(solution.info, solution.evidence)


def gradient_name(name: str) -> str:
    """Return what the derivative of the log evidence in a parameter of the kernel is called."""
    return f"hyper_gradient_{name}"  # no parameter may begin like this


def posterior_in_parts(
    kernel: Kernel,
    likelihood: Likelihood,
    on_inducing: Sequence[Array],
    evidence: Evidence,
    info: Info,
    features: Sequence[str] | None,
    solver: Solver = tap,
) -> Posterior:
    """Return a posterior of no cases, of which what all cases say is known.

    ``on_inducing`` are the inducing inputs ``(M, d)``, the posterior mean ``(M,)`` of the weights of their features,
    and T ``(M, M)``, lower triangular, with T'T the posterior covariance of the weights.
    """
    points, weights, inverse_factor = map(np.ascontiguousarray, on_inducing)
    X, nothing = np.empty((0, points.shape[1])), np.empty(0)
    gram = inducing_gram(kernel, X, points, known=(nothing, weights))
    correction = gram.sites(nothing, np.asfortranarray(inverse_factor))
    solution = Solution(tap.name, nothing, correction, evidence, None, info)
    return Posterior(kernel, X, Problem(gram, nothing, likelihood), solution, solver, features)


def parts_container(
    posterior: Posterior, n_cases: int, f: Array, gradient: Mapping[str, Array], class_names: tuple[str, ...]
) -> Container:
    """Return the container of a fit to a table in parts, of which the posterior is known.

    Parameters
    ----------
    posterior : Posterior
        As `posterior_in_parts` makes it.
    n_cases : int
        Cases of all parts.
    f : (chains, draws, M) array
        Draws of the latent values at the inducing inputs.
    gradient : dict of str to array
        Derivatives of the log evidence in the parameters of the kernel.
    class_names : tuple of str
        Of the two classes, the positive one last; empty for real targets.
    """
    kernel, likelihood, solution = posterior.kernel, posterior.problem.likelihood, posterior.solution
    values = posterior.problem.matrix.stored(solution.alpha, solution.correction)
    values |= stored_solution(solution.info, solution.evidence)
    points = values["inducing_input"]
    layout = Layout(0, posterior.feature_names or np.arange(points.shape[1]), class_names, f.shape[:2])
    variables = {name: layout.variable(name, value) for name, value in values.items()}
    variables |= {name: layout.parameter(name, value) for name, value in kernel.params.items()}
    for name, value in gradient.items():
        variables[gradient_name(name)] = layout.parameter(name, np.asarray(value)).rename(gradient_name(name))
    attrs = model_attrs(kernel, likelihood, posterior.method, solution.evidence, solution.info.status)
    attrs |= {"class_names": json.dumps(class_names), CASES: n_cases}
    fit = xr.Dataset(variables, attrs=attrs)
    fit = fit.assign_attrs(quality=quality_of_fit(fit, n_cases, in_parts=True).sentence)
    return sealed_container(
        {
            "posterior": xr.Dataset({"f": layout.along((*SAMPLE_DIMS, "inducing"), f)}),
            "constant_data": xr.Dataset({"X": layout.along(("inducing", "feature"), points)}),
            "fit": fit,
        }
    )


def is_in_parts(fit: xr.Dataset) -> bool:
    """Tell whether the group ``fit`` is of a fit to a table in parts."""
    return CASES in fit.attrs


def check_has_cases(fit: xr.Dataset, what: str) -> None:
    """Raise an UndefinedQuantityError if a container has nothing of each case, which ``what`` is of."""
    if is_in_parts(fit):
        raise without_cases(what)
