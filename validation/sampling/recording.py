"""Recording a sample: chains in files of their own, and one small file with what is kept of all of them.

Chains run one after the other, and each is written when it ends, with a checksum; one that is there already and whole
is not run again, so that a recording that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bayesgp_mf.container.checks import checksum
from bayesgp_mf.container.layout import SAMPLE_DIMS
from bayesgp_mf.types import Array
from validation.command import say, written
from validation.reporting.files import write_netcdf
from validation.reporting.versions import versions_of
from validation.sampling.arviz_calls import convergence
from validation.sampling.chain import Chain, NutsSettings
from validation.sampling.statistics import statistics

PACKAGES = ("bayesgp-mf", "numpy", "scipy", "arviz", "pymc", "pytensor", "numba", "nutpie")


def to_dataset(chain: Chain, settings: NutsSettings, kept: Mapping[str, Any]) -> xr.Dataset:
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


def all_chains(folder: Path, settings: NutsSettings, sample: Callable[[int], xr.Dataset]) -> list[xr.Dataset]:
    """Return all chains, those that are not whole in the folder yet by ``sample``, which is given the number of each.

    Raises
    ------
    ValueError
        If a file holds a chain that was drawn with other settings.
    """
    return [_chain(folder / f"chain_{chain}.nc", chain, settings, sample) for chain in range(settings.chains)]


def write_chain(path: Path, chain: xr.Dataset) -> None:
    """Write a chain with a checksum, by which `all_chains` knows that it is whole."""
    write_netcdf(path, chain.assign_attrs(checksum=_checksum(chain)))


def _chain(path: Path, number: int, settings: NutsSettings, sample: Callable[[int], xr.Dataset]) -> xr.Dataset:
    found = _read(path)
    if found is None:
        if path.exists():
            say(f"{path} is not what was written: it is drawn again.")
        say(f"Chain {number + 1} of {settings.chains} ...")
        found = sample(number)
        write_chain(path, found)
        say(f"  {found.attrs['seconds']:.0f} s, {int(found['n_steps'].sum())} leapfrog steps")
        return found
    say(f"{path} is there already.")
    drawn_with = json.loads(found.attrs["settings"])
    if drawn_with != asdict(settings):
        raise ValueError(f"{path} was drawn with {drawn_with}, not with {asdict(settings)}: remove it, or give those.")
    return found


def _read(path: Path) -> xr.Dataset | None:
    """Return the chain in a file, or None if there is none that is whole."""
    try:
        found = xr.load_dataset(path, engine="h5netcdf")
    except Exception:  # whatever the reader makes of a damaged file
        return None
    return found if found.attrs.get("checksum") == _checksum(found) else None


def _checksum(chain: xr.Dataset) -> str:
    fields = {str(name): checksum(variable.values) for name, variable in chain.variables.items()}
    fields |= {name: str(value) for name, value in chain.attrs.items() if name != "checksum"}
    return checksum(np.array(json.dumps(fields, sort_keys=True)))


def joined(chains: Sequence[xr.Dataset], name: str) -> xr.DataArray:
    """Return the draws of a variable in all chains, ``(chain, draw, ...)``."""
    return xr.concat([chain[name] for chain in chains], "chain").transpose(*SAMPLE_DIMS, ...)


def recorded_statistics(draws: Array, prefix: str, dims: Sequence[str]) -> dict[str, Any]:
    """Return the statistics of draws ``(chain, draw, ...)`` as variables whose names begin with ``prefix``."""
    found = statistics(draws.reshape(*draws.shape[:2], -1))
    return {f"{prefix}_{name}": (dims, value.reshape(draws.shape[2:])) for name, value in found._asdict().items()}


def sampling_attributes(chains: Sequence[xr.Dataset], latent: Array) -> dict[str, Any]:
    """Return how some chains were drawn, by what, and how well, given their latent values ``(chain, draw, ...)``."""
    flat = latent.reshape(*latent.shape[:2], -1)
    r_hat, bulk, tail = convergence(xr.DataArray(flat, dims=(*SAMPLE_DIMS, "quantity")))
    return {
        "settings": chains[0].attrs["settings"],
        "seconds": [float(chain.attrs["seconds"]) for chain in chains],
        "leapfrog_steps": [int(chain["n_steps"].sum()) for chain in chains],
        "divergences": int(sum(chain["diverging"].sum() for chain in chains)),
        "latent_r_hat_max": float(r_hat.max()),
        "latent_ess_bulk_min": float(bulk.min()),
        "latent_ess_tail_min": float(tail.min()),
        "versions": json.dumps(versions_of(PACKAGES)),
    }


def keep(record: xr.Dataset, path: Path) -> int:
    """Write a record, say how good the sample is, and return the exit status, 0."""
    write_netcdf(path, record, encoding={name: {"zlib": True} for name in record.data_vars})
    for ends, word, worst in ((("_error", "_r_hat"), "largest", np.max), (("_bulk", "_tail"), "least", np.min)):
        say(*(f"{word:8}{name:22}{worst(record[name].values):.5g}" for name in record if str(name).endswith(ends)))
    say(*written(path), f"  {path.stat().st_size / 1024:.0f} KiB")
    return 0
