"""One container of C classifiers, each of one class against the rest, and the container of each of them in it.

Side by side they are exactly what they were each by itself: `classifier` cuts the fit of a class out again. A variable
of which all classes have an array of one shape stands in the container once, with a dimension ``class``. Where shapes
differ (kernels of other kinds, other numbers of nodes, other ranks), each class has one of its own under the name that
`kernels.PerClass` gives parameters, such as ``class0_lengthscale``.

Beside them is what they say together: probabilities that were divided by their sum.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from bayesgp_mf.container.checks import check_fits_memory, check_shapes
from bayesgp_mf.container.checksums import ATTRIBUTE, GROUPS, check_unchanged, is_sealed, sealed, with_checksums
from bayesgp_mf.container.groups import get_group, group_names, make_container
from bayesgp_mf.container.layout import CLASSIFIERS, LOO_OMITTED, SAMPLE_DIMS, Layout, common_attrs
from bayesgp_mf.container.quality import QualityOfEach, quality_of_fit
from bayesgp_mf.container.read import fit_group, from_container, is_one_vs_rest
from bayesgp_mf.container.stored import DAMAGED, refused_as
from bayesgp_mf.errors import Status
from bayesgp_mf.inputs import kernels_of_classes
from bayesgp_mf.likelihoods.one_vs_rest import OneVsRest
from bayesgp_mf.matrices.memory import check_memory
from bayesgp_mf.processes.one_vs_rest import OneVsRestPosterior, draw_codes
from bayesgp_mf.processes.process import Process

if TYPE_CHECKING:
    from bayesgp_mf.container.groups import Container

_SHARED = (*SAMPLE_DIMS, "obs_id", "feature")
"""Dimensions that are the same for all classifiers."""
_OF_EACH = ("fit", "posterior", "sample_stats")
"""Groups that each classifier has its part in."""
_LOO, _LOO_OF_EACH = "loo_i", "binary_loo_i"
"""Leave-one-out densities of the labels, by all classifiers together, and what each has of its own side."""
_LOG_LIKELIHOOD_OMITTED = (
    "One class against the rest has no joint likelihood, of which az.loo could weigh draws. bayesgp_mf.loo needs none."
)
_EVIDENCE_OMITTED = (
    "One class against the rest has no joint evidence: log_evidence has that of each classifier, a model of its own."
)
DRAWN_BY_CASE = "p of each case by itself: one class against the rest has no joint model of labels and f"
"""What labels that are drawn come from, as an attribute of their group says."""


def side_by_side(each: Sequence[Container], posterior: OneVsRestPosterior, rng: np.random.Generator) -> Container:
    """Return the container of all classifiers, from that of each.

    Parameters
    ----------
    each : sequence of InferenceData or DataTree
        Of each class, in the order of the classes: a fit of labels that are class 1 where they are that class.
    posterior : OneVsRestPosterior
        What was read from them.
    rng : numpy.random.Generator
        Source of the labels that are drawn.
    """
    names = posterior.class_names
    fits = [get_group(one, "fit") for one in each]
    constant = get_group(each[0], "constant_data")
    groups = {name: _together([get_group(one, name) for one in each], names) for name in _OF_EACH}
    groups["fit"] = groups["fit"].rename({name: _LOO_OF_EACH for name in groups["fit"] if name == _LOO})
    groups["sample_stats"] = _sealed_nodes(groups["sample_stats"])
    sizes = tuple(groups["posterior"].sizes[dim] for dim in SAMPLE_DIMS)
    layout = Layout(len(posterior.codes), constant["feature"].values, names, sizes, constant["obs_id"].values)
    drawn = draw_codes(posterior.proba_at_training, sizes, rng)
    predictive = xr.Dataset({"y": layout.targets(drawn, SAMPLE_DIMS)}, attrs={"y_drawn_from": DRAWN_BY_CASE})
    groups["posterior_predictive"] = predictive
    groups["observed_data"] = xr.Dataset({"y": layout.targets(posterior.codes)})
    groups["constant_data"] = constant
    if not any(LOO_OMITTED in fit.attrs for fit in fits):
        groups["fit"][_LOO] = layout.variable(_LOO, posterior.loo.log_density)
    groups["fit"] = groups["fit"].assign_attrs(_attributes(fits, names))
    groups = with_checksums(groups)
    return make_container({name: dataset.assign_attrs(common_attrs()) for name, dataset in groups.items()})


def classifier(idata: Container, name: Any) -> Container:
    """Return the fit of one class against the rest, out of a fit with `OneVsRest`.

    Parameters
    ----------
    idata : InferenceData or DataTree
        What `fit` returned for ``likelihood=OneVsRest(...)``, or the same loaded from a file.
    name : label
        The class.

    Returns
    -------
    InferenceData or DataTree
        What `fit` returns for two classes, where 1 is the class and 0 the rest. Everything for two classes works on it:
        its evidence, `compare`, `diagnostics.importance`. It has no drawn labels, no log likelihood of draws, and no
        predictions.

    Raises
    ------
    ValueError
        If ``idata`` is not a fit with `OneVsRest`, has no such class, or was changed since it was written.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> glass = bgp.datasets.load_forensic_glass(fold=1)
    >>> kernel = bgp.kernels.Gaussian(2.0, variance=30.0)
    >>> idata = bgp.fit(glass.X, glass.y, kernel, bgp.OneVsRest(bgp.Probit()), draws=50, random_seed=1)
    >>> of_one = bgp.classifier(idata, glass.y[0])
    >>> bool(of_one["fit"]["log_evidence"] == idata["fit"]["log_evidence"].sel({"class": glass.y[0]}))
    True
    """
    fit = fit_group(idata)
    if not is_one_vs_rest(fit):
        raise ValueError(
            "this fit has one model, and no classifier for each class. Fit with likelihood=bgp.OneVsRest(...) for such."
        )
    with refused_as(DAMAGED):
        names = list(json.loads(fit.attrs["class_names"]))
    if str(name) not in names:
        raise ValueError(f"name must be one of the classes {names}, got {name!r}.")
    return classifiers(idata)[names.index(str(name))]


def classifiers(idata: Container) -> list[Container]:
    """Return the container of each class of a fit of one class against the rest, or a ValueError if it is damaged."""
    with refused_as(DAMAGED):
        lacking = [name for name in (*GROUPS, *_OF_EACH) if name not in group_names(idata)]
        if lacking:
            raise ValueError(f"the group {lacking[0]} is missing")
        groups = {name: get_group(idata, name) for name in dict.fromkeys((*GROUPS, *_OF_EACH))}
        names = json.loads(groups["fit"].attrs["class_names"])
        for c in range(len(names)):  # before anything is read
            check_shapes({name: _of_class(groups[name], c) for name in GROUPS})
        check_fits_memory([variable for name in GROUPS for variable in groups[name].data_vars.values()])
        groups |= {name: groups[name].compute() for name in GROUPS}
        if not check_unchanged({name: groups[name] for name in GROUPS}):
            raise ValueError("it has no checksums")
        stats = groups["sample_stats"]
        if "node" in stats and not is_sealed(stats["node"]):
            raise ValueError("node in the group sample_stats was changed since it was written")
        return [_cut_out(groups, c, name) for c, name in enumerate(names)]


def posterior_of(
    idata: Container, kernel: Any = None, likelihood: Any = None, method: Any = None
) -> Process | OneVsRestPosterior:
    """Rebuild the posterior from a container, as `from_container` does, or that of each class.

    Kernel and likelihood are given as `fit` was: one for all classes, or one for each.
    """
    if not is_one_vs_rest(fit_group(idata)):
        return from_container(idata, kernel, likelihood, method)
    each = classifiers(idata)
    check_fit_together([get_group(one, "fit") for one in each])
    names = tuple(json.loads(get_group(idata, "fit").attrs["class_names"]))
    kernels = [None] * len(each) if kernel is None else kernels_of_classes(kernel, len(each))
    likelihoods = likelihood.of_each_class(len(each)) if isinstance(likelihood, OneVsRest) else [likelihood] * len(each)
    given = zip(each, _if_required(each, "kernel", kernels), _if_required(each, "likelihood", likelihoods), strict=True)
    return OneVsRestPosterior(names, tuple(from_container(*one, method) for one in given))


def check_fit_together(fits: Sequence[xr.Dataset], times: int = 1) -> None:
    """Raise a MemoryError if the posteriors of fits, so many times, would not fit into this machine together."""
    if any("inducing" in fit.sizes for fit in fits):  # whose roots are kept only where they fit
        return
    settings = sum(fit.sizes["node"] if "node_weight" in fit else 1 for fit in fits)
    ranks = [fit.sizes.get("rank") for fit in fits]
    largest = None if None in ranks else max(rank for rank in ranks if rank is not None)
    check_memory(fits[0].sizes["obs_id"], times * settings, largest)


def _if_required(each: Sequence[Container], what: str, given: Sequence[Any]) -> Sequence[Any]:
    """Return what was given of each class, but for those whose container holds it, if others do not."""
    asks = ["program" in json.loads(get_group(one, "fit").attrs[what]) for one in each]
    return [one if required else None for one, required in zip(given, asks, strict=True)] if any(asks) else given


def _cut_out(groups: dict[str, xr.Dataset], c: int, name: str) -> Container:
    """Return the container of one class, by its number and name."""
    found = {group: _contiguous(_of_class(groups[group], c)) for group in _OF_EACH}
    differing: dict[str, Any] = json.loads(groups["fit"].attrs[CLASSIFIERS])[c]
    attrs = {**groups["fit"].attrs, **differing}
    kept = {key: value for key, value in attrs.items() if value is not None and key not in (CLASSIFIERS, ATTRIBUTE)}
    fit = found["fit"].drop_vars(_LOO, errors="ignore")
    found["fit"] = fit.rename({name: _LOO for name in fit if name == _LOO_OF_EACH})
    found["fit"].attrs = kept
    observed = groups["observed_data"]["y"]
    y = (observed == c).astype(observed.dtype).assign_attrs(class_names=kept["class_names"])
    found |= {"observed_data": xr.Dataset({"y": y}), "constant_data": groups["constant_data"]}
    found = with_checksums(found)
    return make_container({group: dataset.assign_attrs(common_attrs()) for group, dataset in found.items()})


def _together(each: Sequence[xr.Dataset], names: Sequence[str]) -> xr.Dataset:
    """Return the variables of all classifiers side by side."""
    found: dict[str, xr.DataArray] = {}
    for name in dict.fromkeys(str(name) for one in each for name in one.data_vars):
        arrays = [one.get(name) for one in each]
        first = arrays[0]
        if first is not None and all(other is not None and _are_alike(first, other) for other in arrays):
            position = _position(first.dims)
            stacked = np.stack([array.values for array in arrays if array is not None], axis=position)
            dims = [*first.dims[:position], "class", *first.dims[position:]]
            found[name] = xr.DataArray(stacked, dims=dims, coords={**first.coords, "class": list(names)})
            continue
        for c, array in enumerate(arrays):
            if array is not None:
                found[_own(name, c)] = array.rename({dim: _own(dim, c) for dim in array.dims if dim not in _SHARED})
    return xr.Dataset(found)


def _of_class(dataset: xr.Dataset, c: int) -> xr.Dataset:
    """Return what one class has in a group: the inverse of `_together`."""
    prefix = _own("", c)
    own = {str(name) for name in (*dataset.variables, *dataset.dims) if str(name).startswith(prefix)}
    others = [name for name in dataset.data_vars if _is_own(str(name)) and name not in own]
    found = dataset.drop_vars(others)
    if "class" in found.dims:
        found = found.isel({"class": c}, drop=True)
    there = {name for name in own if name in found.variables or name in found.dims}
    unused = [name for name in found.coords if _is_own(str(name)) and name not in own]
    return found.drop_vars(unused).rename({name: name.removeprefix(prefix) for name in there})


def _contiguous(dataset: xr.Dataset) -> xr.Dataset:
    """Return the same with arrays as they were before they stood side by side: of others BLAS sums in another order."""
    return dataset.copy(data={name: np.array(dataset.variables[name].values, order="C") for name in dataset.data_vars})


def _are_alike(first: xr.DataArray, other: xr.DataArray) -> bool:
    """Tell whether two arrays have one shape, one kind of entries, and the same coordinates."""
    same = first.dims == other.dims and first.shape == other.shape and first.dtype == other.dtype
    return same and all(np.array_equal(first[dim].values, other[dim].values) for dim in first.dims)


def _position(dims: Sequence[Any]) -> int:
    """Return where ``class`` goes: last where there is a value for each case, else first, but for chain and draw."""
    if dims and dims[-1] == "obs_id":
        return len(dims)
    return sum(dim in SAMPLE_DIMS for dim in dims)


def _own(name: Any, c: int) -> str:
    """Return what something is called that only the class of this number has in this shape."""
    return f"class{c}_{name}"


def _is_own(name: str) -> bool:
    digits, underscore, _ = name.removeprefix("class").partition("_")
    return name.startswith("class") and digits.isdigit() and bool(underscore)


def _sealed_nodes(stats: xr.Dataset) -> xr.Dataset:
    """Return the statistics of draws with a checksum of which setting each draw is of, where that is said."""
    for name in [name for name in stats if name == "node" or str(name).endswith("_node")]:
        stats[name].attrs = sealed(stats[name].values)
    return stats


def _attributes(fits: Sequence[xr.Dataset], names: Sequence[str]) -> dict[str, Any]:
    """Return the attributes of the group ``fit``; one of them says what differs from class to class."""
    common = {
        key: value
        for key, value in fits[0].attrs.items()
        if key != ATTRIBUTE and all(fit.attrs.get(key) == value for fit in fits)
    }
    unsolved = [fit for fit in fits if fit.attrs["status"] != Status.CONVERGED.name] or fits
    lacking = {name: fit.attrs[LOO_OMITTED] for name, fit in zip(names, fits, strict=True) if LOO_OMITTED in fit.attrs}
    each = [json.loads(fit.attrs["likelihood"]) for fit in fits]
    joint = {
        "class_names": json.dumps(list(names)),
        "kernel": json.dumps({"kernel": "PerClass", "terms": [json.loads(fit.attrs["kernel"]) for fit in fits]}),
        "likelihood": json.dumps({"likelihood": "OneVsRest", "of": each, "classes": list(names)}),
        "status": unsolved[0].attrs["status"],
        "status_message": unsolved[0].attrs["status_message"],
        "log_likelihood_omitted": _LOG_LIKELIHOOD_OMITTED,
        "joint_evidence_omitted": _EVIDENCE_OMITTED,
        "quality": QualityOfEach(
            {name: quality_of_fit(fit, fit.sizes["obs_id"]) for name, fit in zip(names, fits, strict=True)}
        ).sentence,
        **({LOO_OMITTED: "; ".join(f"class {name!r}: {why}" for name, why in lacking.items())} if lacking else {}),
    }
    attrs = common | joint
    differing = []
    for name, fit in zip(names, fits, strict=True):
        own = fit.attrs | {"class_names": json.dumps([f"not {name}", name])}
        keys = [key for key in (*attrs, *own) if key != ATTRIBUTE and attrs.get(key) != own.get(key)]
        differing.append({key: own.get(key) for key in dict.fromkeys(keys)})
    for one in differing:  # said of all together, and of none alone
        one["log_likelihood_omitted"] = _LOG_LIKELIHOOD_OMITTED
    return attrs | {CLASSIFIERS: json.dumps(differing)}
