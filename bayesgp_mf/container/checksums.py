"""Checksums of what a container says of a fit, by which a field that was changed since is known and named."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesgp_mf.container.layout import SAMPLE_DIMS, has_a_meaning

GROUPS = ("fit", "observed_data", "constant_data")
"""Those that a posterior is made of; draws in the others may be thinned, and derived numbers added."""
ATTRIBUTE = "checksums"
"""Of the group ``fit``: their JSON."""
_ALL = "all"  # of the others: it tells a checksum that was changed from a field that was


def checksum(values: NDArray[Any]) -> str:
    """Return a checksum of the shape and the entries of an array, whatever the width of its numbers."""
    found = blake2b(repr(values.shape).encode(), digest_size=8)
    if values.dtype.kind in "biuf":
        wide = np.float64 if values.dtype.kind == "f" else np.int64
        found.update(values.astype(np.dtype(wide).newbyteorder("<")).tobytes())
    else:
        found.update(json.dumps(values.tolist(), default=str).encode())
    return found.hexdigest()


def sealed(values: NDArray[Any]) -> dict[str, str]:
    """Return attributes by which `is_sealed` knows values along draws, as long as none of the draws is left out."""
    return {"shape": repr(values.shape), "checksum": checksum(values)}


def is_sealed(variable: xr.DataArray) -> bool:
    """Return whether a variable holds what it was written with, or fewer draws, which nothing is known of."""
    values, attrs = variable.values, variable.attrs
    return attrs.get("shape") != repr(values.shape) or attrs.get("checksum") == checksum(values)


def with_checksums(groups: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Return the groups of a container with a checksum of each field, in an attribute of ``fit``."""
    found = {name: checksum(values) for name, (values, _) in _fields(groups).items()}
    found[_ALL] = _of_all(found)
    return {**groups, "fit": groups["fit"].assign_attrs({ATTRIBUTE: json.dumps(found)})}


def check_unchanged(groups: Mapping[str, xr.Dataset]) -> bool:
    """Raise a ValueError that names what was changed, and return whether there was anything to tell it by.

    So is what was added, if it would be taken for part of the fit. Containers of version 0.1.0 have no checksums.
    """
    written = groups["fit"].attrs.get(ATTRIBUTE)
    if written is None:
        return False
    saved = _parsed(written)
    now = _fields(groups)
    if missing := [name for name in saved if name not in now]:
        raise ValueError(f"{_listed(missing)} is missing")
    if changed := [name for name in saved if checksum(now[name][0]) != saved[name]]:
        raise ValueError(f"{_listed(changed)} was changed since it was written")
    if added := [name for name, (_, has_meaning) in now.items() if has_meaning and name not in saved]:
        raise ValueError(f"{_listed(added)} was added since it was written, under a name that means something here")
    return True


def _parsed(written: object) -> dict[str, Any]:
    """Return the checksums of the fields, or raise a ValueError if they are no longer what was written."""
    try:
        saved = json.loads(str(written))
        if saved.pop(_ALL) == _of_all(saved):
            return dict(saved)
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError):
        pass  # said below
    raise ValueError(f"the attribute {ATTRIBUTE} of the group fit was changed since it was written")


def _fields(groups: Mapping[str, xr.Dataset]) -> dict[str, tuple[NDArray[Any], bool]]:
    """Return fields by name, and whether each would be taken for part of a fit; those along draws are left out."""
    found = dict[str, tuple[NDArray[Any], bool]]()
    for group in (name for name in GROUPS if name in groups):  # without cases there are no targets
        for name, variable in groups[group].data_vars.items():
            if not set(SAMPLE_DIMS) & set(variable.dims):
                found[f"{name} in the group {group}"] = variable.values, has_a_meaning(group, str(name))
    if "feature" in groups["constant_data"].coords:
        found["feature in the group constant_data"] = groups["constant_data"]["feature"].values, False
    for name, value in groups["fit"].attrs.items():
        if name != ATTRIBUTE:
            has_meaning = has_a_meaning("fit", str(name), is_attribute=True)
            found[f"the attribute {name} of the group fit"] = np.array(str(value)), has_meaning
    return found


def _of_all(checksums: Mapping[str, str]) -> str:
    return checksum(np.array(json.dumps(checksums, sort_keys=True)))


def _listed(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")
