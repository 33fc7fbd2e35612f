"""Names, dimensions and coordinates of what a container holds: what is not named here cannot be written."""

from __future__ import annotations

import importlib.metadata
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.groups import Container, get_group
from bayesgp_mf.hyper.target import public_names
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.likelihoods import Likelihood
from bayesgp_mf.types import Array

FORMAT = 1
"""Raised when a container of an older version can no longer be read."""
SAMPLE_DIMS = ("chain", "draw")
DOUBT = "doubt"
"""Attribute of the group ``posterior`` of samples that says why no fit should be measured by them, if so."""
LOO_OMITTED = "loo_omitted"
"""Attribute of the group ``fit`` that says why it has no leave-one-out predictions."""
TABLE = "table"
"""Attribute that says which library the table was of that a group was made of, for `to_frame`."""
MANY = 10**7
"""Drawn values from which on they are held in single precision, and labels in a byte: a file is half as large, and a
rounding of 1e-7 is nothing beside the error of a draw."""
FEW_CLASSES = 100
_EACH = ("obs_id", "class")  # one value for each case; of several classes, where they have their own, one for each

_BESIDE_PARAMETERS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("f", "alpha", "latent_mean", "latent_sd", "cavity_mean", "cavity_sd", "site_weight"), _EACH),
    **dict.fromkeys(("site_variance", "loo_i"), ("obs_id",)),
    "correction": ("obs_id", "obs_id_other"),
    "site_matrix": (*_EACH, "class_other"),
    "pivot": ("rank",),
    "nodes": (),
    "inducing_input": ("inducing", "feature"),
    "inducing_weight": ("inducing",),
    "inducing_factor": ("inducing", "inducing_other"),
    **dict.fromkeys(("log_evidence", "log_evidence_se", "node_weight"), ()),
    **dict.fromkeys(("log_evidence_correction", "log_evidence_remaining"), ()),
    **dict.fromkeys(("n_iterations", "residual", "mean_error", "rounding", "probability_shift", "independent"), ()),
    "inducing_error": (),
    "slope_input": ("place", "feature"),
    **dict.fromkeys(("slope_column", "slope_shift", "slope_precision"), ("place",)),
    "log_evidence_of_slopes": (),
}
"""Variables of the groups that parameters of kernel and likelihood are written to as well, and the dimensions of each.

Draws have those of `SAMPLE_DIMS` before them, and what there is of each of several settings has ``node``.
"""
BY_CASE = ("offset", "weights")
"""What the group ``constant_data`` may have of each case beside its inputs."""
CASES = "n_cases"
"""Attribute of the group ``fit`` of a table in parts, and of no other: how many cases there were."""
PRIORS = "priors"
"""Attribute of the group ``fit`` with priors and bounds of hyperparameters, and the names of those that were kept."""
MODELS = "models"
"""Attribute of the group ``fit`` of an average of several models: what they are, for each node ..."""
OF_MODEL = ("kernel", "likelihood", "method", "solver", "status", "evidence_kind", "evidence_bound")
"""... by these of the attributes that a fit of one model has for all of its nodes."""
_OPTIONAL_ATTRIBUTES = (
    MODELS,
    LOO_OMITTED,
    "log_likelihood_omitted",
    "hyperparameters_omitted",
    "hyper_score",
    PRIORS,
    CASES,
)
"""Of the group ``fit``, which some fits have."""
_ELSEWHERE = {
    "X": ("obs_id", "feature"),
    **dict.fromkeys((*BY_CASE, "trials"), ("obs_id",)),
    **dict.fromkeys(("y", "p"), _EACH),
    "y_mean": ("obs_id",),
    "y_sd": ("obs_id",),
    "y_quantile": ("obs_id", "quantile"),
}

_DIMS = _BESIDE_PARAMETERS | _ELSEWHERE


def check_parameter_names(names: Iterable[str], records: Iterable[str] = ()) -> None:
    """Raise a ValueError if a parameter of a kernel or likelihood has a name that means something else in a container.

    ``records`` are the dimensions of what is recorded of a choice of hyperparameters.
    """
    for name in names:
        if not is_parameter(name) or name in records:
            raise ValueError(
                f"a parameter of the kernel or the likelihood is called {name!r}, which is taken in the container. "
                "Rename it."
            )


def stored_parameters(fit: xr.Dataset, kernel: Kernel, likelihood: Likelihood) -> dict[str, str]:
    """Return which parameters of a likelihood a group ``fit`` has by name: the likelihood's own name of each, by that.

    A file of an earlier version has none of them.
    """
    names = public_names(kernel, likelihood).items()
    return {name: own for name, own in names if name in fit and is_parameter(name)}


def is_parameter(name: str) -> bool:
    """Return whether a variable of the group ``fit`` can only be a parameter of the kernel or the likelihood."""
    dims = {dim for dims in _BESIDE_PARAMETERS.values() for dim in dims}
    taken = {*_BESIDE_PARAMETERS, *dims, *SAMPLE_DIMS, "node", "feature", "hyper"}
    return name not in taken and not name.startswith("hyper_")


def has_a_meaning(group: str, name: str, *, is_attribute: bool = False) -> bool:
    """Return whether what is called so in a group would be taken for part of a fit, of which not all fits have it."""
    if group == "fit":
        return name in (_OPTIONAL_ATTRIBUTES if is_attribute else _BESIDE_PARAMETERS)
    return group == "constant_data" and name in BY_CASE and not is_attribute


def variable_dims(name: str, *, several_classes: bool, in_fit: bool = False) -> tuple[str, ...] | None:
    """Return the dimensions of a variable, without those before its own; None if it is not one that all fits have.

    ``in_fit`` says that it is one of the group ``fit``, where a parameter may have a name that is taken elsewhere.
    """
    dims = (_BESIDE_PARAMETERS if in_fit else _DIMS).get(name)
    if name == "y" or (dims == _EACH and not several_classes):
        return _EACH[:1]
    return dims


@dataclass(frozen=True, eq=False)
class Layout:
    """The coordinates of a container, and arrays laid out along them.

    Parameters
    ----------
    n : int
        Cases.
    features : sequence of str or of int
        Names of the inputs.
    class_names : tuple of str
        Names of the labels -1 and +1, or of the codes of several classes; empty for real targets.
    sizes : (int, int)
        Chains, and draws of each.
    labels : (n,) array, optional
        Of the cases; numbers from 0 where they have none.
    """

    n: int
    features: Sequence[Any] | NDArray[Any]
    class_names: tuple[str, ...]
    sizes: tuple[int, ...] = (0, 0)
    labels: NDArray[Any] | None = None
    _made: dict[tuple[str, ...], xr.Coordinates] = field(default_factory=dict, init=False, repr=False, compare=False)

    @classmethod
    def of(cls, idata: Container, sizes: tuple[int, ...] = (0, 0)) -> Layout:
        """Return that of the cases of a fit, for so many draws."""
        cases = get_group(idata, "constant_data")["X"]
        names = class_names_of(get_group(idata, "fit"))
        return cls(len(cases), cases["feature"].values, names, sizes, cases[cases.dims[0]].values)

    def along(self, dims: tuple[str, ...], values: NDArray[Any]) -> xr.DataArray:
        """Lay out values along dimensions, by those coordinates that there are."""
        if dims not in self._made:  # an index takes longer to make than all else
            known = {dim: self._values_of[dim] for dim in dims if dim in self._values_of}
            self._made[dims] = xr.Coordinates(known)
        return xr.DataArray(values, dims=dims, coords=self._made[dims])

    @cached_property
    def _values_of(self) -> dict[str, Any]:
        """The coordinates by their dimensions."""
        return {
            "obs_id": np.arange(self.n) if self.labels is None else self.labels,
            "feature": self.features,
            "class": list(self.class_names),
            **{dim: np.arange(size) for dim, size in zip(SAMPLE_DIMS, self.sizes, strict=True)},
        }

    def variable(self, name: str, values: NDArray[Any], lead: tuple[str, ...] = ()) -> xr.DataArray:
        """Lay out a variable, along ``lead`` before its own dimensions."""
        return self.along((*lead, *_DIMS[name])[: values.ndim], values)

    def targets(self, t: NDArray[Any], lead: tuple[str, ...] = ()) -> xr.DataArray:
        """Lay out labels as integers from 0, which ArviZ can count, with their names; real targets as they are."""
        if not self.class_names:
            return self.variable("y", t, lead)
        wide = np.int64 if t.size < MANY or len(self.class_names) > FEW_CLASSES else np.int8
        labels = self.variable("y", np.maximum(t, 0).astype(wide), lead)
        return labels.assign_attrs(class_names=json.dumps(self.class_names))

    def parameter(self, name: str, values: Array, lead: tuple[str, ...] = ()) -> xr.DataArray:
        """Lay out a parameter, which may have an entry for each input, or for something of its own."""
        if values.ndim > len(lead) and values.shape[-1] != len(self.features):
            own = f"{name}_dim_0"  # ArviZ's name for a dimension without one
            return self.along((*lead, own), values).assign_coords({own: np.arange(values.shape[-1])})
        return self.along((*lead, "feature")[: values.ndim], values)


def class_names_of(fit: xr.Dataset) -> tuple[str, ...]:
    """Return the names of the classes of a fit, given its group ``fit``; none of real targets."""
    return tuple(json.loads(fit.attrs["class_names"]))


def common_attrs() -> dict[str, str]:
    """Return the attributes of every group."""
    return {"inference_library": "bayesgp_mf", "inference_library_version": _version("bayesgp-mf")}


def versions() -> dict[str, str]:
    """Return the versions of the packages that a container depends on."""
    return {name: _version(name) for name in ("bayesgp-mf", "numpy", "scipy", "xarray", "arviz")}


@cache
def _version(distribution: str) -> str:
    return importlib.metadata.version(distribution)
