"""The groups of a container: ``InferenceData`` before ArviZ 1, ``xarray.DataTree`` from then on.

That is whatever ``pm.sample`` returns where it is installed.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, TypeAlias

import xarray as xr

from bayesgp_mf.arviz_version import arviz_major

if TYPE_CHECKING:
    # a type checker knows the version of Python and not that of ArviZ: ArviZ 1 needs 3.12, and pip installs it there
    if sys.version_info >= (3, 12):
        from arviz_stats.utils import ELPDData

        Container: TypeAlias = xr.DataTree
    else:
        from arviz.data.inference_data import InferenceData
        from arviz.stats.stats_utils import ELPDData

        Container: TypeAlias = InferenceData
    LooEstimate: TypeAlias = ELPDData
else:
    Container = LooEstimate = Any


def make_container(groups: dict[str, xr.Dataset]) -> Container:
    """Wrap data sets by group name into what the installed ArviZ uses."""
    made: Any  # which of the two a type checker cannot tell
    if arviz_major() < 1:
        from arviz import InferenceData

        made = InferenceData(**groups)
    else:
        made = xr.DataTree.from_dict({f"/{name}": dataset for name, dataset in groups.items()})
    container: Container = made
    return container


def group_names(idata: Container) -> list[str]:
    """Return the names of the groups of a container."""
    groups: Any = idata.groups
    return list(groups()) if callable(groups) else [name.lstrip("/") for name in groups if name != "/"]


def get_group(idata: Container, name: str) -> xr.Dataset:
    """Return a group of a container as a data set."""
    group: Any = idata[name]
    return group if isinstance(group, xr.Dataset) else group.to_dataset()


def group_or_empty(idata: Container, name: str) -> xr.Dataset:
    """Return a group of a container, without variables where there is none of that name."""
    return get_group(idata, name) if name in group_names(idata) else xr.Dataset()


def copied(idata: Container) -> Container:
    """Return a container of the same groups, into which others can be put."""
    return make_container({name: get_group(idata, name) for name in group_names(idata)})


def is_stream(idata: object) -> bool:
    """Tell whether something is the container of a stream."""
    either: Any = idata
    if not hasattr(either, "groups") or "fit" not in group_names(either):
        return False
    return bool(get_group(either, "fit").attrs.get("method") == "stream")


def set_group(idata: Container, name: str, dataset: xr.Dataset) -> None:
    """Put a group into a container, in place of one of that name."""
    either: Any = idata
    if arviz_major() < 1:
        if name in group_names(idata):
            delattr(idata, name)
        either.add_groups({name: dataset}, warn_on_custom_groups=False)
    else:
        either[name] = xr.DataTree(dataset=dataset)


def drop_group(idata: Container, name: str) -> None:
    """Take a group out of a container."""
    either: Any = idata
    if arviz_major() < 1:
        delattr(either, name)
    else:
        del either[name]
