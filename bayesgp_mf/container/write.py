"""From a posterior to a container, which holds everything needed to predict again, as numbers and JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.checksums import sealed, with_checksums
from bayesgp_mf.container.draws import draw_training
from bayesgp_mf.container.groups import Container, make_container
from bayesgp_mf.container.layout import LOO_OMITTED, SAMPLE_DIMS, Layout, common_attrs
from bayesgp_mf.container.quality import quality_of_fit
from bayesgp_mf.container.stored import model_attrs, stored_solution
from bayesgp_mf.errors import Status, UndefinedQuantityError
from bayesgp_mf.hyper.model import Model
from bayesgp_mf.inference.solution import LeaveOneOut
from bayesgp_mf.processes.process import Marginals, Part, Process, Tuned
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
    drawn = draw_training(posterior, node, rng, marginals, found.node_evidence)
    groups = drawn_groups(found, drawn, layout, params)
    if "log_likelihood" not in drawn:
        attrs = attrs | {"log_likelihood_omitted": LOG_LIKELIHOOD_OMITTED}
    loo, lacking = _leave_one_out(posterior)
    if lacking:
        attrs = attrs | {LOO_OMITTED: lacking}
    if posterior.averaged and not found.sampled:
        attrs = attrs | {"hyperparameters_omitted": HYPERPARAMETERS_OMITTED}
    groups["observed_data"] = xr.Dataset({"y": layout.targets(problem.t)})
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
    if posterior.averaged:
        stats["node"] = node
    if found.sampled:
        for name in params[0]:
            values = np.array([each[name] for each in params])
            variables[name] = layout.parameter(name, values[node], SAMPLE_DIMS)
    groups = {
        "posterior": xr.Dataset({**variables, "f": layout.variable("f", drawn["f"], SAMPLE_DIMS)}),
        "posterior_predictive": xr.Dataset({"y": layout.targets(drawn["y"], SAMPLE_DIMS)}),
        "sample_stats": xr.Dataset({name: layout.along(SAMPLE_DIMS, values) for name, values in stats.items()}),
    }
    if "node" in stats:
        groups["sample_stats"]["node"].attrs.update(sealed(stats["node"]))
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
    values = {"latent_mean": posterior.mean_at_training}
    if loo is not None:
        values["cavity_mean"] = loo.mean
    values["latent_sd"] = np.sqrt(posterior.at_training[1])
    if loo is not None:
        values |= {"cavity_sd": np.sqrt(loo.variance), "loo_i": loo.log_density}
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
        empty = np.empty((0, *known.shape[1:]), dtype=known.dtype)
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
    return arrays | solution.correction.stored() | stored_solution(solution.info, solution.evidence)
