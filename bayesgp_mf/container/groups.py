"""The groups of a container: ``InferenceData`` before ArviZ 1, ``xarray.DataTree`` from then on.

That is whatever ``pm.sample`` returns where it is installed.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import xarray as xr

from bayesgp_mf.arviz_version import arviz_major

Container: TypeAlias = Any  # InferenceData or DataTree, by the ArviZ that is installed


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


def drop_group(idata: Container, name: str) -> None:
    """Take a group out of a container."""
    if arviz_major() < 1:
        delattr(idata, name)
    else:
        del idata[name]
