"""The recorded sample of the softmax process: what it holds, and reading it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesgp_mf.types import Array
from validation.sampling.statistics import Statistics

PATH = Path(__file__).parents[1] / "recorded" / "glass_softmax_nuts.nc"
"""The record that is part of the repository."""


@dataclass(frozen=True, slots=True, eq=False)
class Recorded:
    """What is kept of a long run of NUTS on the latent values of six classes.

    Attributes
    ----------
    probabilities, latent : Statistics
        Of the softmax probabilities, and of the latent values less their mean over the classes; ``(214, 6)`` each.
    observed : int
        How many of the first cases were observed; the others are predicted.
    settings : dict
        Sampler, draws, tuning steps, chains, seed.
    seconds : float
        Of tuning and draws of all chains, one after the other, without compilation.
    divergences : int
        Of all draws.
    versions : dict
        Of what sampled.
    """

    probabilities: Statistics
    latent: Statistics
    observed: int
    settings: dict[str, Any]
    seconds: float
    divergences: int
    versions: dict[str, str]


def read(path: Path = PATH) -> Recorded:
    """Read a record that `record_softmax.main` wrote.

    Raises
    ------
    ValueError
        If a number is not finite, or the probabilities of a case do not sum to one.
    """
    found = xr.load_dataset(path, engine="h5netcdf")
    for name in found.data_vars:
        if not np.all(np.isfinite(found[name].values)):
            raise ValueError(f"{name} in {path} must be finite; record it again.")
    recorded = Recorded(
        probabilities=_statistics(found, "p"),
        latent=_statistics(found, "f"),
        observed=int(found.attrs["observed"]),
        settings=json.loads(found.attrs["settings"]),
        seconds=float(np.sum(found.attrs["seconds"])),
        divergences=int(found.attrs["divergences"]),
        versions=json.loads(found.attrs["versions"]),
    )
    off: Array = np.abs(recorded.probabilities.mean.sum(axis=1) - 1.0)
    if np.any(off > 1e-5):
        raise ValueError(f"the probabilities of case {int(np.argmax(off))} in {path} do not sum to one.")
    return recorded


def _statistics(found: xr.Dataset, prefix: str) -> Statistics:
    return Statistics(*(np.asarray(found[f"{prefix}_{name}"].values, dtype=np.float64) for name in Statistics._fields))
