"""From a container, in memory or from a file, to the posterior that it was made of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.arguments import as_mapping
from bayesgp_mf.container import stored
from bayesgp_mf.container.checks import GROUPS, check_mean, check_shapes, check_unchanged, check_values
from bayesgp_mf.container.groups import Container, get_group, group_names, is_stream
from bayesgp_mf.container.layout import BY_CASE, FORMAT, LOO_OMITTED, MODELS, stored_parameters
from bayesgp_mf.container.write import is_in_parts, posterior_in_parts
from bayesgp_mf.hyper.target import Model, all_names, check_known
from bayesgp_mf.inference.assembly import kernel_entries
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Cavity, Solution
from bayesgp_mf.inference.solver import Solver, traits_of
from bayesgp_mf.kernels import Kernel, is_built_in
from bayesgp_mf.kernels.given_slopes import GivenSlopes, SlopeSites
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.likelihoods.by_case import by_case
from bayesgp_mf.matrices.blas import one_thread_if_small
from bayesgp_mf.matrices.inducing import inducing_gram
from bayesgp_mf.matrices.low_rank import at_pivots
from bayesgp_mf.matrices.matrix import Correction, DenseCorrection, Matrix
from bayesgp_mf.matrices.memory import check_memory, keeps_root
from bayesgp_mf.matrices.precision import PrecisionGram
from bayesgp_mf.multiclass.class_gram import class_gram
from bayesgp_mf.multiclass.site_form import MatrixForm, StarForm
from bayesgp_mf.processes.process import Ensemble, Part, Process
from bayesgp_mf.processes.several_classes import make_process
from bayesgp_mf.types import Array

SLOPES = ("column", "shift", "precision")


def fit_group(idata: Container) -> xr.Dataset:
    """Return the group ``fit`` of a container made by `to_container`, or raise a ValueError if it was not."""
    advice = (
        "Pass what bayesgp_mf.fit returned, what bgp.load or az.from_netcdf read from a file saved from it, or idata_ "
        "of an estimator, pipe[-1].idata_ of a pipeline."
    )
    if not hasattr(idata, "groups"):
        raise ValueError(f"expected an ArviZ container, got {type(idata).__name__}. {advice}")
    names = group_names(idata)
    if "fit" not in names or "bayesgp_mf_format" not in get_group(idata, "fit").attrs:
        if is_stream(idata):
            raise ValueError(
                "this is the container of a stream, which has draws at its basis inputs and no more. Predict with the "
                "stream itself, stream.predict_proba(X_new) or stream.latent(X_new), and keep it by stream.save(path)."
            )
        if "posterior" in names:
            advice += (
                " Of draws of PyMC bgp.loo needs what bgp.pymc.sample_latent adds: call sample_latent first. All else "
                "is asked of fits, such as fit(..., hyper='nuts')."
            )
        raise ValueError(f"this container was not made by bayesgp_mf (its groups: {names}). {advice}")
    fit = get_group(idata, "fit")
    if str(fit.attrs["bayesgp_mf_format"]) != str(FORMAT):
        raise ValueError(
            f"this container has format {fit.attrs['bayesgp_mf_format']}, but this version of bayesgp_mf reads "
            f"format {FORMAT}. Fit again, or install the version named in its attributes: {fit.attrs.get('versions')}."
        )
    if fit.attrs.get("evidence_kind") == "none":
        raise ValueError(
            f"this container is of method {fit.attrs.get('method')!r}, a limit in which the posterior is a single "
            "function, and fits and containers no longer have such. Solve for it by bgp.solve(kernel.gram(X), t, "
            "likelihood, method='svm'), or fit with method='tap'."
        )
    if "classifiers" in fit.attrs:
        raise ValueError(
            "this container has a classifier of each class against the rest: a version 0.2 of bayesgp_mf that had "
            "OneVsRest wrote it, and this one does not read it. Fit again, by likelihood=bgp.MultinomialProbit() or "
            "sklearn.multiclass.OneVsRestClassifier(bgp.sklearn.GPClassifier()); or install the version named in its "
            f"attributes: {fit.attrs.get('versions')}."
        )
    return fit


def has_random_kernels(fit: xr.Dataset) -> bool:
    """Return whether the group ``fit`` is of an average over random hyperparameters, not over the nodes of a rule."""
    return "node_weight" in fit and "hyperparameters_omitted" not in fit.attrs


def check_priors(given: Any, part: Part) -> None:
    """Raise a ValueError if priors beside a container name a parameter that its model does not have."""
    check_known("priors", as_mapping("priors", given), all_names(part.kernel, part.problem.likelihood))


def checked_groups(idata: Container) -> dict[str, xr.Dataset]:
    """Return the groups that a posterior is made of, in memory, or raise an error if they are not what was written."""
    in_parts = is_in_parts(fit_group(idata))
    names = [name for name in GROUPS if name != "observed_data" or not in_parts]
    with stored.refused_as(stored.DAMAGED):
        if missing := [name for name in names if name not in group_names(idata)]:
            raise ValueError(f"the group {missing[0]} is missing")
        groups = {name: get_group(idata, name) for name in names}
        check_shapes(groups)
        groups = {name: group.compute() for name, group in groups.items()}  # a file is read once, not entry by entry
        if not check_unchanged(groups) and in_parts:
            raise ValueError("it has no checksums")
    return groups


def from_container(
    idata: Container, kernel: Any = None, likelihood: Likelihood | None = None, method: str | Solver | None = None
) -> Process:
    """Rebuild the posterior from a container made by `to_container`, in memory or from a file.

    Kernel, likelihood and method are given if and only if the container does not hold them; the parameters of the
    kernel are those of the container. There is a ValueError if one is missing, not wanted, or another one.
    """
    groups = checked_groups(idata)
    fit = groups["fit"]
    in_parts = is_in_parts(fit)
    found = stored.kernel_of(fit, kernel, stored.names_of(groups["constant_data"]["feature"].values))
    known = stored.likelihood_of(fit, likelihood, found)
    solver = stored.method_of(fit, known, method)
    other = "kernel is not the one that was fitted: {}. Pass that one.", ValueError
    with (
        stored.refused_as(stored.DAMAGED) if kernel is None else stored.refused_as(*other),
        one_thread_if_small(fit.sizes["inducing" if in_parts else "obs_id"]),
    ):
        model = Model(found, known, stored_parameters(fit, found, known))
        check_values(groups, model)
        if in_parts:
            return _read_parts(groups, model, solver)
        posterior = _read(groups, model, solver)
        check_mean(posterior, fit)
    return posterior


def _read_parts(groups: Mapping[str, xr.Dataset], model: Model, solver: Solver) -> Process:
    """Return the posterior of a fit to a table in parts."""
    fit, names = groups["fit"], stored.names_of(groups["constant_data"]["feature"].values)
    points, weights = _unpadded(fit["inducing_input"].values, "inducing_input"), fit["inducing_weight"].values
    if not np.all(np.isfinite(weights)):
        raise ValueError("inducing_weight must hold finite numbers")
    on_inducing = points, weights, _inverse_factor(fit, len(points))
    info = stored.info_of(fit, fit.attrs, len(points))
    return posterior_in_parts(
        model.kernel, model.likelihood, on_inducing, stored.evidence_of_fit(fit), info, names, solver
    )


def _read(groups: Mapping[str, xr.Dataset], model: Model, solver: Solver) -> Process:
    """Return the posterior of a model: at its one setting of the hyperparameters, or at each along ``node``."""
    fit = groups["fit"]
    X = np.ascontiguousarray(groups["constant_data"]["X"].values, dtype=np.float64)
    y = groups["observed_data"]["y"].values.astype(np.float64)
    t = 2.0 * y - 1.0 if model.likelihood.is_binary else y
    names = stored.names_of(groups["constant_data"]["feature"].values)
    facts = _by_case(groups["constant_data"])
    model = replace(model, likelihood=by_case(model.likelihood, **facts))

    def part(node: xr.Dataset, model: Model, solver: Solver = solver, attrs: dict[str, Any] = fit.attrs) -> Part:
        alpha, kernel, likelihood = node["alpha"].values, model.kernel, model.likelihood
        known = is_built_in(kernel)
        if "slope_input" in node:
            kernel = GivenSlopes(kernel, _read_slopes(node))
            likelihood = by_case(likelihood, prior_mean=kernel.mean(X))
        problem = Problem(_read_gram(node, kernel, X, alpha), t, likelihood, covariance=known)
        evidence, info = stored.evidence_of_fit(node, attrs), stored.info_of(node, attrs, problem.matrix.rank)
        correction, cavity = _read_correction(node, problem), _read_cavity(node, fit.attrs, solver)
        solution = Solution(solver.name, alpha, correction, evidence, cavity, info)
        return make_process(kernel, X, problem, solution, solver, names)

    if "node_weight" not in fit:  # the record of an average has nodes too, where it ends with one
        return part(fit, model)
    nodes = [fit.isel(node=k) for k in range(fit.sizes["node"])]
    if MODELS in fit.attrs:
        stated, each = json.loads(fit.attrs[MODELS]), list[Part]()
        for node, attrs in zip(nodes, stated["each"], strict=True):
            own = _own(node).assign_attrs(attrs)
            kernel = stored.kernel_of(own, None, names)
            likelihood = stored.likelihood_of(own, None, kernel)
            there = Model(kernel, by_case(likelihood, **facts), {})
            each.append(part(own, there, stored.method_of(own, likelihood, None), own.attrs))
        member = np.array(stated["member"], dtype=np.intp)
        return Ensemble(tuple(each), fit["node_weight"].values, member, tuple(stated["names"]), stated["posterior"])
    parts = (part(node, model.replace(**{name: node[name].values for name in model.params})) for node in nodes)
    return Process(tuple(parts), fit["node_weight"].values)


def _own(node: xr.Dataset) -> xr.Dataset:
    """Return what a node of an average of models has itself: no NaN stands there for what others have."""
    numbers = {name: values for name, values in node.data_vars.items() if values.dtype.kind == "f"}
    lacking = [name for name, values in numbers.items() if values.size and np.all(np.isnan(values.values))]
    return node.drop_vars([*lacking, "node_weight"])


def _by_case(data: xr.Dataset) -> dict[str, Array]:
    """Return the offsets and weights of a fit that has such, or raise a ValueError."""
    found = {name: np.array(data[name].values, dtype=np.float64) for name in BY_CASE if name in data}
    if "weights" in found and (np.any(found["weights"] < 0) or not np.any(found["weights"])):
        raise ValueError("weights must hold numbers >= 0, of which some are above zero")
    return found


def _read_gram(node: xr.Dataset, kernel: Kernel, X: Array, alpha: Array) -> Array | Matrix:
    """Return the Gram matrix of a fit: on inducing inputs or of low rank, where the fit worked with such a one."""
    if "inducing_input" in node:
        points = _unpadded(node["inducing_input"].values, "inducing_input")
        known = None
        if "inducing_weight" in node:
            known = alpha, node["inducing_weight"].values[: points.shape[0]]
        keep = keeps_root(X.shape[0], points.shape[0])
        return inducing_gram(kernel, X, points, keep_root=keep, known=known)
    if "nodes" in node:
        field = kernel.field(X)
        if field is None:
            raise ValueError("nodes are of a sparse precision, which this kernel has not")
        return PrecisionGram(field)
    pivots: NDArray[Any] = node["pivot"].values if "pivot" in node else np.empty(0, dtype=np.intp)
    pivots = pivots[pivots >= 0].astype(np.intp)
    if not pivots.size:
        check_memory(X.shape[0])
        return kernel.gram(X)
    if pivots.max() >= X.shape[0] or np.unique(pivots).size < pivots.size:
        raise ValueError("pivot does not number different cases")
    return at_pivots(kernel_entries(kernel, X), kernel.diag(X), pivots)


def _read_slopes(node: xr.Dataset) -> SlopeSites:
    """Return what is known of slopes at places, or raise a ValueError."""
    inputs = _unpadded(node["slope_input"].values, "slope_input")
    column, shift, precision = (node[f"slope_{name}"].values[: len(inputs)] for name in SLOPES)
    places = np.column_stack([inputs, column])
    sites = SlopeSites(places, shift, precision)
    columns = np.abs(places[:, -1])
    if not all(np.isfinite(part).all() for part in sites) or not np.isin(columns, np.arange(1, places.shape[1])).all():
        raise ValueError("slopes must hold finite numbers, and be those in columns of the inputs")
    return sites


def _unpadded(values: Array, name: str) -> Array:
    """Return the first rows, those that are there, of an array that was padded, or raise a ValueError."""
    there: NDArray[np.bool_] = np.all(np.isfinite(values), axis=1)
    rows = int(np.count_nonzero(there))
    if not rows or not there[:rows].all() or not np.isnan(values[rows:]).all():
        raise ValueError(f"{name} must hold finite numbers")
    return np.ascontiguousarray(values[:rows])


def _read_cavity(node: xr.Dataset, attrs: dict[str, Any], solver: Solver) -> Cavity | None:
    """Return TAP's cavities, which are its leave-one-out predictions; of an average no file has those of each part."""
    if (
        attrs["evidence_kind"] != "ep"
        or not traits_of(solver).cavities
        or "node_weight" in node
        or "class" in node.dims
        or LOO_OMITTED in attrs
    ):
        return None
    return Cavity(node["cavity_mean"].values, node["cavity_sd"].values ** 2)


def _read_correction(node: xr.Dataset, problem: Problem) -> Correction:
    """Return the correction of a fit."""
    if "site_weight" in node:
        site_weight = node["site_weight"].values
        if site_weight.shape != problem.latent_shape or not np.all(site_weight >= 0):  # also false if one is NaN
            raise ValueError("site_weight is not a number >= 0 for each case and class")
        return class_gram(problem).correction(StarForm(site_weight))  # type: ignore[no-any-return]
    if "site_matrix" in node:
        precision = node["site_matrix"].values
        shape = (*problem.latent_shape, problem.n_classes)
        if precision.shape != shape or not np.all(np.isfinite(precision)):
            raise ValueError("site_matrix is not a number for each case and pair of classes")
        return class_gram(problem).correction(MatrixForm(precision))  # type: ignore[no-any-return]
    if "site_variance" in node:
        site_variance = node["site_variance"].values
        if np.any(np.isnan(site_variance)) or site_variance.shape != problem.t.shape:
            raise ValueError("site_variance is not one number for each case")
        matrix: Any = problem.matrix
        if "inducing_factor" not in node:
            return matrix.sites(1.0 / site_variance)  # type: ignore[no-any-return]
        return matrix.sites(1.0 / site_variance, _inverse_factor(node, matrix.rank))  # type: ignore[no-any-return]
    return DenseCorrection(node["correction"].values)


def _inverse_factor(node: xr.Dataset, rank: int) -> Array:
    """Return T (M, M), lower triangular, with T'T the posterior covariance of the weights of features."""
    factor = np.asfortranarray(node["inducing_factor"].values[:rank, :rank])
    if not np.all(np.isfinite(factor)) or np.any(np.diag(factor) <= 0):
        raise ValueError("inducing_factor must hold finite numbers, on its diagonal positive ones")
    return factor
