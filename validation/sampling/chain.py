"""One chain of NUTS on a PyMC model, with the time that it takes."""

from __future__ import annotations

import importlib.util
import sys
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple

import pymc as pm
import xarray as xr
from pytensor import config

from bayesgp_mf.container.groups import get_group


def default_sampler() -> str:
    """Return "nutpie" where it is installed, else "pymc"."""
    return "pymc" if importlib.util.find_spec("nutpie") is None else "nutpie"


@contextmanager
def fast_sampling() -> Iterator[None]:
    """Compile what PyMC samples to fast code, with whatever compiler there is; filters of warnings end with it."""
    # the older PyTensor compiles to C, and without a C compiler falls back to loops in Python, hundreds of times
    # slower; numba needs no compiler
    mode = config.mode if config.cxx else "NUMBA"
    with config.change_flags(mode=mode), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="PyTensor could not link to a BLAS installation")  # about speed
        yield


@dataclass(frozen=True, slots=True)
class NutsSettings:
    """How a joint posterior is sampled.

    Attributes
    ----------
    sampler : {"nutpie", "pymc"}
        Whose NUTS.
    draws, tune, chains : int
        Kept draws and tuning steps of each chain; chains.
    target_accept : float
        Acceptance rate aimed at.
    seed : int
        Of the first chain; the next have the numbers after it.
    sites : bool
        Whether the latent values are white in the posterior under TAP's sites, or in the prior.
    """

    sampler: str
    draws: int = 2500
    tune: int = 500
    chains: int = 4
    target_accept: float = 0.9
    seed: int = 1
    sites: bool = True


class Chain(NamedTuple):
    """What one chain gave.

    Attributes
    ----------
    posterior, stats : Dataset
        The groups ``posterior`` and ``sample_stats``, (chain, draw, ...) with one chain.
    seconds : float
        Of tuning and draws.
    seconds_with_compilation : float
        Of everything.
    """

    posterior: xr.Dataset
    stats: xr.Dataset
    seconds: float
    seconds_with_compilation: float


def run_chain(model: pm.Model, settings: NutsSettings, seed: int) -> Chain:
    """Run one chain in this process; only ``sampler``, ``draws``, ``tune`` and ``target_accept`` are used."""
    started = time.perf_counter()
    with model, fast_sampling():
        samples = pm.sample(
            settings.draws,
            tune=settings.tune,
            chains=1,
            cores=1,
            target_accept=settings.target_accept,
            random_seed=seed,
            nuts_sampler=settings.sampler,
            progressbar=sys.stderr.isatty(),
            compute_convergence_checks=False,  # one chain alone has no r-hat
        )
    total = time.perf_counter() - started
    posterior = get_group(samples, "posterior")
    return Chain(posterior, get_group(samples, "sample_stats"), float(posterior.attrs["sampling_time"]), total)
