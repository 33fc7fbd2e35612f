"""Reading what is recorded of long chains of NUTS."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from validation.sampling.statistics import Statistics

FOLDER = Path(__file__).parents[1] / "recorded"
"""The records that are part of the repository."""


def load_record(path: Path) -> xr.Dataset:
    """Return what a file holds.

    Raises
    ------
    ValueError
        If a number is not finite.
    """
    found = xr.load_dataset(path, engine="h5netcdf")
    for name in found.data_vars:
        if not np.all(np.isfinite(found[name].values)):
            raise ValueError(f"{name} in {path} must be finite; record it again.")
    return found


def statistics_in(found: xr.Dataset, prefix: str) -> Statistics:
    """Return the statistics of the quantities whose names begin so."""
    return Statistics(*(np.asarray(found[f"{prefix}_{name}"].values, dtype=np.float64) for name in Statistics._fields))


def provenance(found: xr.Dataset) -> dict[str, Any]:
    """Return settings, seconds of tuning and draws of all chains, divergences and versions, by these names."""
    return {
        "settings": json.loads(found.attrs["settings"]),
        "seconds": float(np.sum(found.attrs["seconds"])),
        "divergences": int(found.attrs["divergences"]),
        "versions": json.loads(found.attrs["versions"]),
    }
