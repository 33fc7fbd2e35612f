"""Chains of one sample in files of their own, so that a recording that was interrupted goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from validation.sampling.chain import Chain, Settings


def to_dataset(chain: Chain, settings: Settings, kept: Mapping[str, Any]) -> xr.Dataset:
    """Return what is kept of a chain, with its counts of steps, and settings and times as attributes."""
    counts = {name: ("draw", chain.stats[name].values[0].astype(np.int64)) for name in ("n_steps", "diverging")}
    return xr.Dataset(
        {**kept, **counts},
        attrs={
            "settings": json.dumps(asdict(settings)),
            "seconds_with_compilation": chain.seconds_with_compilation,
            "seconds": chain.seconds,
        },
    )


def all_chains(
    folder: Path, settings: Settings, sample: Callable[[int], xr.Dataset], say: Callable[[str], None]
) -> list[xr.Dataset]:
    """Return all chains, those that are not in the folder yet by ``sample``, which is given the number of each.

    Raises
    ------
    ValueError
        If a file holds a chain that was drawn with other settings.
    """
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"chain_{chain}.nc" for chain in range(settings.chains)]
    for chain, path in enumerate(paths):
        if path.exists():
            say(f"{path} is there already.")
            continue
        say(f"Chain {chain + 1} of {settings.chains} ...")
        found = sample(chain)
        found.to_netcdf(path, engine="h5netcdf")
        say(f"  {found.attrs['seconds']:.0f} s, {int(found['n_steps'].sum())} leapfrog steps")
    chains = [xr.load_dataset(path, engine="h5netcdf") for path in paths]
    for found, path in zip(chains, paths, strict=True):
        drawn_with = json.loads(found.attrs["settings"])
        if drawn_with != asdict(settings):
            raise ValueError(
                f"{path} was drawn with {drawn_with}, not with {asdict(settings)}: remove it, or give those."
            )
    return chains


def sampling_attributes(chains: Sequence[xr.Dataset], latent: tuple[Any, Any, Any]) -> dict[str, Any]:
    """Return how some chains were drawn, and how well, given `convergence` of their latent values."""
    r_hat, bulk, tail = latent
    return {
        "settings": chains[0].attrs["settings"],
        "seconds": [float(chain.attrs["seconds"]) for chain in chains],
        "leapfrog_steps": [int(chain["n_steps"].sum()) for chain in chains],
        "divergences": int(sum(chain["diverging"].sum() for chain in chains)),
        "latent_r_hat_max": float(r_hat.max()),
        "latent_ess_bulk_min": float(bulk.min()),
        "latent_ess_tail_min": float(tail.min()),
    }
