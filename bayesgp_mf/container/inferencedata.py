"""Posterior <-> ArviZ container: the only file that builds or reads one.

ArviZ before 1 has ``InferenceData``, ArviZ from 1 on has ``xarray.DataTree``: whatever ``pm.sample`` returns
where it is installed. A container holds everything needed to predict again, as numbers and JSON.
"""

from __future__ import annotations

import importlib.metadata
import json
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf import kernels, likelihoods
from bayesgp_mf.arviz_version import arviz_major
from bayesgp_mf.errors import Status, UndefinedQuantityError
from bayesgp_mf.inference.assembly import kernel_entries
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Evidence, Info, Solution
from bayesgp_mf.inference.undefined import UndefinedCorrection, UndefinedEvidence
from bayesgp_mf.inputs import as_kernel
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.matrices.dense import Correction, DenseCorrection, SiteCorrection
from bayesgp_mf.matrices.low_rank import Gram, LowRankCorrection, LowRankGram, rank_of, site_correction
from bayesgp_mf.matrices.memory import check_draws
from bayesgp_mf.matrices.pivoting import at_pivots
from bayesgp_mf.methods import get_method
from bayesgp_mf.multiclass.correction import SoftmaxCorrection
from bayesgp_mf.processes.mixture import Mixture
from bayesgp_mf.processes.paths import blocks
from bayesgp_mf.processes.several_classes import Process, make_process
from bayesgp_mf.processes.single import Marginals
from bayesgp_mf.types import Array

if TYPE_CHECKING:
    Container: TypeAlias = Any  # InferenceData or DataTree, by the ArviZ that is installed

FORMAT = 1
"""Raised when a container of an older version can no longer be read."""
SAMPLE_DIMS = ("chain", "draw")
DRAWN_AT_ONCE = 2**22
"""Values of training or new cases that are drawn at once, with all that is computed on the way: 32 MiB each."""
TAKEN = {
    *("alpha", "site_variance", "correction", "latent_mean", "latent_sd", "cavity_mean", "cavity_sd", "loo_i", "f"),
    *("log_evidence", "log_evidence_se", "n_iterations", "residual", "node_weight", "node", "chain", "draw", "obs_id"),
    *("pivot", "rank", "obs_id_other", "feature", "hyper", "start", "iteration", "point", "class", "site_weight"),
    *("training", "batch"),
}
"""Names of variables and dimensions, which parameters of a kernel must not have."""


def make_container(groups: dict[str, xr.Dataset]) -> Container:
    """Wrap data sets by group name into what the installed ArviZ uses."""
    if arviz_major() < 1:
        from arviz import InferenceData

        return InferenceData(**groups)
    return xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})


def group_names(idata: Container) -> list[str]:
    """Return the names of the groups of a container."""
    groups = idata.groups
    return list(groups()) if callable(groups) else [name.lstrip("/") for name in groups if name != "/"]


def get_group(idata: Container, name: str) -> xr.Dataset:
    """Return a group of a container as a data set."""
    group = idata[name]
    return group if isinstance(group, xr.Dataset) else group.to_dataset()


def set_group(idata: Container, name: str, dataset: xr.Dataset) -> None:
    """Put a group into a container, in place of one of that name."""
    if arviz_major() < 1:
        if name in group_names(idata):
            delattr(idata, name)
        idata.add_groups({name: dataset}, warn_on_custom_groups=False)
    else:
        idata[name] = xr.DataTree(dataset=dataset)


def to_container(
    posterior: Process | Mixture,
    *,
    class_names: tuple[str, ...],
    feature_names: list[str] | None,
    node: NDArray[np.intp],
    rng: np.random.Generator,
    sampler_stats: dict[str, NDArray[Any]],
    fit_extras: dict[str, xr.DataArray],
    attrs: dict[str, str],
    marginals: Marginals = "gaussian",
) -> Container:
    """Draw from a posterior and lay everything out in the groups of ArviZ.

    Parameters
    ----------
    posterior : Posterior, MulticlassPosterior or Mixture
        What to convert.
    class_names : tuple of str
        Names of the labels -1 and +1, or of the codes of several classes; empty for real targets.
    feature_names : list of str or None
        Names of the inputs; numbered if None.
    node : (chains, draws) array of int
        Which part of the posterior each draw comes from; all zero where there is one.
    rng : numpy.random.Generator
        Source of randomness.
    sampler_stats : dict
        What the sampler of the hyperparameters says of each draw, ``(chains, draws)``.
    fit_extras : dict
        More variables for the group ``fit``.
    attrs : dict
        More attributes, strings, for the group ``fit``.
    marginals : {"gaussian", "tilted"}
        What single latent values are drawn from; `Posterior.draw` says more.
    """
    first, problem = posterior.parts[0], posterior.problem
    coords: dict[str, Any] = {
        "obs_id": np.arange(problem.n),
        "feature": feature_names or np.arange(first.X.shape[1]),
        "class": list(class_names),
    }
    groups = {
        "observed_data": xr.Dataset({"y": _targets(problem.t, class_names, ("obs_id",), coords)}),
        "constant_data": xr.Dataset({"X": _array(first.X, ("obs_id", "feature"), coords)}),
    }
    if first.solution.has_variance:
        groups = _drawn_groups(posterior, class_names, node, sampler_stats, rng, coords, marginals) | groups
        if "log_likelihood" not in groups:
            attrs = attrs | {
                "log_likelihood_omitted": "Under a likelihood that is piecewise constant in f, as a step is, "
                "importance weights take two values only, and az.loo is undefined. bayesgp_mf.loo needs no draws."
            }

    infos = [part.solution.info for part in posterior.parts]
    status = next((info.status for info in infos if info.status is not Status.CONVERGED), Status.CONVERGED)
    groups["fit"] = xr.Dataset(
        {
            **_summary_variables(posterior, coords),
            **_node_variables(posterior, coords),
            **fit_extras,
        },
        attrs={
            "bayesgp_mf_format": FORMAT,
            "method": first.solution.method,
            "status": status.name,
            "status_message": status.for_classes(first.solution.method)
            if first.problem.likelihood.targets == "classes"
            else status.value,
            "evidence_kind": first.solution.evidence.kind,
            "evidence_bound": first.solution.evidence.bound or "none",
            "marginals": marginals,
            "kernel": json.dumps(_describe(first.kernel)),
            "likelihood": json.dumps(problem.likelihood.to_dict()),
            "class_names": json.dumps(class_names),
            "versions": json.dumps(_versions()),
            **attrs,
        },
    )
    return make_container({name: dataset.assign_attrs(_common_attrs()) for name, dataset in groups.items()})


def _drawn_groups(
    posterior: Process | Mixture,
    class_names: tuple[str, ...],
    node: NDArray[np.intp],
    sampler_stats: dict[str, NDArray[Any]],
    rng: np.random.Generator,
    coords: dict[str, Any],
    marginals: Marginals,
) -> dict[str, xr.Dataset]:
    """Draw from a posterior and lay out what depends on the draws."""
    problem = posterior.problem
    chains, draws = node.shape
    coords = coords | {"chain": np.arange(chains), "draw": np.arange(draws)}
    check_draws(node.size, int(np.prod(problem.latent_shape)), "training", "Fit again with fewer draws.")
    f, log_likelihood = np.empty((node.size, *problem.latent_shape)), np.empty((node.size, problem.n))
    log_p, log_q, smooth = np.empty(node.size), np.empty(node.size), False
    size = max(1, DRAWN_AT_ONCE // problem.n)
    for k, part in enumerate(posterior.parts):
        (here,) = np.nonzero(node.ravel() == k)
        for drawn in part.draw_in_blocks(here.size, size, rng, marginals) if here.size else ():
            these, here = here[: len(drawn.f)], here[len(drawn.f) :]
            f[these], (log_likelihood[these], slope, _), log_p[these], log_q[these] = drawn
            smooth |= bool(np.any(slope))
            if isinstance(posterior, Mixture):  # the weights of the settings have their evidence in them
                log_q[these] += part.log_evidence
    f = f.reshape(chains, draws, *problem.latent_shape)
    y_drawn = draw_targets(problem.likelihood, f, rng)
    infos = [part.solution.info for part in posterior.parts]
    stats = {
        "log_p": log_p.reshape(chains, draws),
        "log_q": log_q.reshape(chains, draws),
        "converged": np.array([info.status is Status.CONVERGED for info in infos])[node],
        "n_iterations": np.array([info.n_iterations for info in infos])[node],
        **sampler_stats,
    }
    hyperparameters = {}
    if isinstance(posterior, Mixture):
        stats["node"] = node
        hyperparameters = {
            name: _parameter(name, values[node], SAMPLE_DIMS, coords) for name, values in _parameters(posterior).items()
        }
    dims = (*SAMPLE_DIMS, "obs_id", "class")
    groups = {
        "posterior": xr.Dataset({**hyperparameters, "f": _array(f, dims, coords)}),
        "posterior_predictive": xr.Dataset({"y": _targets(y_drawn, class_names, dims, coords)}),
        "sample_stats": xr.Dataset({name: _array(values, dims, coords) for name, values in stats.items()}),
    }
    if smooth:  # a step takes two values, of which nothing can be learnt about leaving cases out
        groups["log_likelihood"] = xr.Dataset({"y": _array(log_likelihood.reshape(chains, draws, -1), dims, coords)})
    return groups


def draw_targets(likelihood: Likelihood, f: Array, rng: np.random.Generator) -> NDArray[Any]:
    """Draw targets ``(chains, draws, m)`` given latent values, some draws at a time; labels as small integers."""
    rows = f.reshape(-1, *f.shape[2:])
    result = np.empty(rows.shape[:2], dtype=np.float64 if likelihood.targets == "real" else np.int16)
    for block in blocks(rows.shape[0], max(1, DRAWN_AT_ONCE // rows[0].size)):
        result[block] = likelihood.sample(rows[block], rng)
    return result.reshape(f.shape[:3])


def _summary_variables(posterior: Process | Mixture, coords: dict[str, Any]) -> dict[str, xr.DataArray]:
    """What a fit says of each training case, averaged over the hyperparameters if there are several settings."""
    loo = posterior.loo
    values = {"latent_mean": posterior.mean_at_training, "cavity_mean": loo.mean}
    if posterior.parts[0].solution.has_variance:
        _, latent_variance = posterior.at_training
        values |= {
            "latent_sd": np.sqrt(latent_variance),
            "cavity_sd": np.sqrt(loo.variance),
            "loo_i": loo.log_density,
        }
    return {name: _array(value, ("obs_id", "class"), coords) for name, value in values.items()}


def _node_variables(posterior: Process | Mixture, coords: dict[str, Any]) -> dict[str, xr.DataArray]:
    """What is needed to predict again: of the one setting of the hyperparameters, or of each along ``node``."""
    ranks = [rank_of(part.problem.gram) or 0 for part in posterior.parts]
    parts = [_part_variables(part, max(ranks), coords) for part in posterior.parts]
    if not isinstance(posterior, Mixture):
        return parts[0]
    stacked = {
        name: xr.DataArray(
            np.stack([part[name].values for part in parts]), dims=("node", *array.dims), coords=array.coords
        )
        for name, array in parts[0].items()
    }
    return {**stacked, "node_weight": xr.DataArray(posterior.weights, dims=("node",))}


def _part_variables(part: Process, most: int, coords: dict[str, Any]) -> dict[str, xr.DataArray]:
    """Lay out one setting of the hyperparameters; ``most`` is the largest rank of a Gram matrix of any, 0 for dense."""
    solution, gram = part.solution, part.problem.gram
    variables = {
        "alpha": _array(solution.alpha, ("obs_id", "class"), coords),
        "n_iterations": xr.DataArray(solution.info.n_iterations),
        "residual": xr.DataArray(solution.info.residual),
        **{name: _parameter(name, np.array(value), (), coords) for name, value in part.kernel.params.items()},
    }
    if most > 0:  # the Gram matrix of low rank again is that of its pivots; -1 where there are fewer
        pivots = gram.pivots if isinstance(gram, LowRankGram) else np.empty(0, dtype=np.intp)
        padded = np.pad(pivots, (0, most - pivots.size), constant_values=-1)
        variables["pivot"] = xr.DataArray(padded.astype(np.int64), dims=("rank",))
    if not solution.has_variance:
        return variables
    return {
        **variables,
        **_correction_variables(solution.correction, coords),
        "log_evidence": xr.DataArray(solution.evidence.value),
        "log_evidence_se": xr.DataArray(solution.evidence.standard_error),
    }


def _parameters(posterior: Mixture) -> dict[str, Array]:
    """Return the hyperparameters by name, ``(k,)`` or ``(k, d)``."""
    each = [part.kernel.params for part in posterior.parts]
    return {name: np.array([params[name] for params in each]) for name in each[0]}


def check_parameter_names(kernel: Kernel) -> None:
    """Raise a ValueError if a parameter of a kernel has a name that means something else in a container."""
    for name in kernel.params:
        if name in TAKEN or name.startswith("hyper_"):
            raise ValueError(
                f"a parameter of the kernel is called {name!r}, which is taken in the container. Rename it."
            )


def _describe(kernel: Kernel) -> dict[str, Any]:
    """Return what is said of a kernel as JSON: all of it, or what it is called and which parameters it has."""
    try:
        return kernel.to_dict()
    except UndefinedQuantityError:  # it has a program in it
        return {"program": repr(kernel), "parameters": list(kernel.params)}


def from_container(idata: Container, kernel: Any = None) -> Process | Mixture:
    """Rebuild the posterior from a container made by `to_container`, in memory or from a file.

    Parameters
    ----------
    idata : InferenceData or DataTree
        The container.
    kernel : Kernel or pymc.gp.cov.BaseCovariance, optional
        The kernel, if and only if the container does not hold it; its parameters are those of the container.

    Raises
    ------
    ValueError
        If the container was not made by this package, or by an incompatible version of it; if ``kernel`` is missing,
        not wanted, or another one.
    """
    fit = fit_group(idata)
    damaged = "this container is damaged or was edited: {}. Load a fresh copy of the file, or fit again."
    try:
        held = _read_kernel(fit)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(damaged.format(f"{type(error).__name__}, {error}")) from error
    if kernel is not None:
        if isinstance(held, Kernel):
            raise ValueError(f"this container holds its kernel, {held!r}. Leave kernel out.")
        held, damaged = _given_kernel(kernel, held, fit), "kernel is not the one that was fitted: {}. Pass that one."
    if not isinstance(held, Kernel):
        raise ValueError(
            "this container holds the parameters of its kernel, but not the kernel itself, "
            f"{held['program']}, which is a program. Pass what fit was given: kernel=..."
        )
    try:
        posterior = _read(idata, fit, held)
    except (KeyError, TypeError, ValueError) as error:
        raise ValueError(damaged.format(f"{type(error).__name__}, {error}")) from error
    stored, computed = fit["latent_mean"].values, posterior.mean_at_training
    gram = posterior.problem.gram
    diagonal = np.diagonal(gram, axis1=-2, axis2=-1) if isinstance(gram, np.ndarray) else gram.diagonal()
    scale = float(np.max(np.sqrt(diagonal)))
    if not np.allclose(stored, computed, rtol=1e-6, atol=1e-6 * scale):  # also false if anything is NaN
        raise ValueError(damaged.format("its posterior mean is not that of its kernel, inputs and weights"))
    return posterior


def _read_kernel(fit: xr.Dataset) -> Kernel | dict[str, Any]:
    """Return the kernel, or what is said of one that is not held."""
    description: dict[str, Any] = json.loads(fit.attrs["kernel"])
    if "program" in description:
        description["parameters"] = [str(name) for name in description["parameters"]]
        return description
    return kernels.from_dict(description)


def _given_kernel(kernel: Any, description: dict[str, Any], fit: xr.Dataset) -> Kernel:
    """Return a kernel that was passed again, with the parameters of the container (of the first node, if several)."""
    first = fit.isel(node=0) if "node" in fit.dims else fit
    found = as_kernel(kernel, {name: first[name].values for name in description["parameters"]})
    if list(found.params) != description["parameters"]:
        raise ValueError(
            f"kernel has the parameters {list(found.params)}, but that of this container, {description['program']}, "
            f"has {description['parameters']}. Pass what fit was given."
        )
    return found


def _read(idata: Container, fit: xr.Dataset, kernel: Kernel) -> Process | Mixture:
    attrs = fit.attrs
    likelihood = likelihoods.from_dict(json.loads(attrs["likelihood"]))
    X = np.ascontiguousarray(get_group(idata, "constant_data")["X"].values, dtype=np.float64)
    y = get_group(idata, "observed_data")["y"].values.astype(np.float64)
    t = 2.0 * y - 1.0 if likelihood.targets == "binary" else y
    names = get_group(idata, "constant_data")["feature"].values
    features = None if names.dtype.kind in "iu" else tuple(names.tolist())  # numbered where they had no names

    def part(node: xr.Dataset, kernel: Kernel) -> Process:
        problem = Problem(_read_gram(node, kernel, X), t, likelihood)
        return make_process(kernel, X, problem, _read_solution(node, problem, attrs), features)

    if "node" not in fit.dims:
        return part(fit, kernel)
    nodes = [fit.isel(node=k) for k in range(fit.sizes["node"])]
    parts = (part(node, kernel.replace(**{name: node[name].values for name in kernel.params})) for node in nodes)
    return Mixture(tuple(parts), fit["node_weight"].values)


def _read_gram(node: xr.Dataset, kernel: Kernel, X: Array) -> Gram:
    """Return the Gram matrix of a fit: of low rank, from its pivots, where the fit worked with such a one."""
    if "pivot" not in node or not np.any(node["pivot"].values >= 0):
        return kernel.gram(X)
    pivots = node["pivot"].values
    pivots = np.asarray(pivots[pivots >= 0], dtype=np.intp)
    if pivots.max() >= X.shape[0] or np.unique(pivots).size < pivots.size:
        raise ValueError("pivot does not number different cases")
    return at_pivots(kernel_entries(kernel, X), kernel.diag(X), pivots)


def _read_solution(node: xr.Dataset, problem: Problem, attrs: dict[str, Any]) -> Solution:
    method = get_method(attrs["method"], problem.likelihood).name
    bound = attrs["evidence_bound"]
    correction: Correction
    evidence: Evidence
    if attrs["evidence_kind"] == "none":
        correction, evidence = UndefinedCorrection(method), UndefinedEvidence(method)
    else:
        correction = _read_correction(node, problem)
        evidence = Evidence(
            float(node["log_evidence"]),
            attrs["evidence_kind"],
            None if bound == "none" else bound,
            float(node["log_evidence_se"]),
        )
    return Solution(
        method=method,
        alpha=node["alpha"].values,
        correction=correction,
        evidence=evidence,
        cavity=None,
        info=Info(
            Status[attrs["status"]], int(node["n_iterations"]), float(node["residual"]), rank=rank_of(problem.gram)
        ),
    )


def _read_correction(node: xr.Dataset, problem: Problem) -> Correction:
    if "site_weight" in node:
        site_weight = node["site_weight"].values
        if site_weight.shape != problem.latent_shape or not np.all(site_weight >= 0):  # also false if one is NaN
            raise ValueError("site_weight is not a number >= 0 for each case and class")
        return SoftmaxCorrection(problem.dense_gram, site_weight)
    if "site_variance" in node:
        site_variance = node["site_variance"].values
        if np.any(np.isnan(site_variance)) or site_variance.shape != problem.t.shape:
            raise ValueError("site_variance is not one number for each case")
        return site_correction(problem.gram, 1.0 / site_variance)
    return DenseCorrection(node["correction"].values)


def predictions_datasets(
    X_new: Array,
    feature_names: NDArray[Any],
    values: dict[str, NDArray[Any]],
    draws: dict[str, NDArray[Any]],
    class_names: tuple[str, ...],
) -> dict[str, xr.Dataset]:
    """Lay predictions out in the groups ``predictions`` and ``predictions_constant_data``.

    ``values`` are ``(m,)``; ``draws`` are ``(chains, draws, m)``, with targets under the names ``y``
    and ``decision``; ``class_names`` are those of 0 and 1, empty for real targets. What there is of each of several
    classes has them along a last axis.
    """
    coords: dict[str, Any] = {"obs_id": np.arange(X_new.shape[0]), "feature": feature_names, "class": list(class_names)}
    for value in draws.values():
        coords = coords | {"chain": np.arange(value.shape[0]), "draw": np.arange(value.shape[1])}
    variables = {}
    for name, value in (values | draws).items():
        dims = (*SAMPLE_DIMS, "obs_id", "class") if name in draws else ("obs_id", "class")
        is_target = name in ("y", "decision")
        variables[name] = _targets(value, class_names, dims, coords) if is_target else _array(value, dims, coords)
    return {
        "predictions": xr.Dataset(variables, attrs=_common_attrs()),
        "predictions_constant_data": xr.Dataset(
            {"X": _array(X_new, ("obs_id", "feature"), coords)}, attrs=_common_attrs()
        ),
    }


def fit_group(idata: Container) -> xr.Dataset:
    """Return the group ``fit`` of a container made by `to_container`, or raise a ValueError if it was not."""
    advice = "Pass what bayesgp_mf.fit returned, or what az.from_netcdf read from a file saved from it."
    if not hasattr(idata, "groups"):
        raise ValueError(f"expected an ArviZ container, got {type(idata).__name__}. {advice}")
    names = group_names(idata)
    if "fit" not in names or "bayesgp_mf_format" not in get_group(idata, "fit").attrs:
        raise ValueError(f"this container was not made by bayesgp_mf (its groups: {names}). {advice}")
    fit = get_group(idata, "fit")
    if str(fit.attrs["bayesgp_mf_format"]) != str(FORMAT):
        raise ValueError(
            f"this container has format {fit.attrs['bayesgp_mf_format']}, but this version of bayesgp_mf reads "
            f"format {FORMAT}. Fit again, or install the version named in its attributes: {fit.attrs.get('versions')}."
        )
    return fit


def _array(values: NDArray[Any] | Array, dims: tuple[str, ...], coords: dict[str, Any]) -> xr.DataArray:
    dims = dims[: values.ndim]
    return xr.DataArray(values, dims=dims, coords={name: coords[name] for name in dims})


def _targets(
    t: NDArray[Any], class_names: tuple[str, ...], dims: tuple[str, ...], coords: dict[str, Any]
) -> xr.DataArray:
    """Labels as integers from 0, which ArviZ can count, with their names; real targets as they are."""
    if not class_names:
        return _array(t, dims, coords)
    return _array(np.maximum(t, 0).astype(np.int64), dims, coords).assign_attrs(class_names=json.dumps(class_names))


def _parameter(name: str, values: Array, dims: tuple[str, ...], coords: dict[str, Any]) -> xr.DataArray:
    """Lay out a parameter of the kernel, which may have an entry for each input, or for something of its own."""
    if values.ndim > len(dims) and values.shape[-1] != len(coords["feature"]):
        own = f"{name}_dim_0"  # ArviZ's name for a dimension without one
        return _array(values, (*dims, own), {**coords, own: np.arange(values.shape[-1])})
    return _array(values, (*dims, "feature"), coords)


def _correction_variables(correction: Correction, coords: dict[str, Any]) -> dict[str, xr.DataArray]:
    if isinstance(correction, SoftmaxCorrection):
        return {"site_weight": _array(correction.site_weight, ("obs_id", "class"), coords)}
    if isinstance(correction, SiteCorrection | LowRankCorrection):
        with np.errstate(divide="ignore"):  # a site that says nothing has infinite variance
            return {"site_variance": _array(1.0 / correction.site_precision, ("obs_id",), coords)}
    return {"correction": xr.DataArray(correction.dense(), dims=("obs_id", "obs_id_other"))}


def _common_attrs() -> dict[str, str]:
    return {"inference_library": "bayesgp_mf", "inference_library_version": _version("bayesgp-mf")}


def _versions() -> dict[str, str]:
    return {name: _version(name) for name in ("bayesgp-mf", "numpy", "scipy", "xarray", "arviz")}


@cache
def _version(distribution: str) -> str:
    return importlib.metadata.version(distribution)
