"""``python -m validation.hyperposterior.record_joint``: sample the joint posterior, and keep what is compared with it.

The chains run one after the other, and each is written when it ends; a chain that is there already is not run again, so
that a command that was interrupted goes on where it was. The last part reads all of them and writes one small file, the
recorded reference.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr
from threadpoolctl import ThreadpoolController

import bayesgp_mf as bgp
from bayesgp_mf.container.inferencedata import SAMPLE_DIMS, get_group
from bayesgp_mf.types import Array
from validation.hyperposterior.joint import joint_model, probabilities, sites_at
from validation.hyperposterior.recorded_joint import PATH
from validation.hyperposterior.setting import LIKELIHOOD, load, log_parameters_of, parameter_names
from validation.reporting.versions import versions_of
from validation.sampling.arviz_calls import convergence
from validation.sampling.chain import Settings, run_chain
from validation.sampling.chain_files import all_chains, sampling_attributes, to_dataset
from validation.sampling.latent import default_sampler
from validation.sampling.statistics import statistics
from validation.tables.crabs_and_pima import PRIORS, laplace_start
from validation.tables.selection import Split

PACKAGES = ("bayesgp-mf", "numpy", "scipy", "arviz", "pymc", "pytensor", "numba", "nutpie")


def sample_chain(split: Split, settings: Settings, chain: int) -> xr.Dataset:
    """Run one chain, and return log parameters and h, with the counts of steps and the times as attributes."""
    sites = sites_at(split.X, split.t, most_probable(split)) if settings.sites else None
    model = joint_model(split.X, split.t, sites)
    samples = run_chain(model, settings, settings.seed + chain)
    kept = {name: (("draw", f"{name}_dim"), samples.posterior[name].values[0]) for name in ("log_parameters", "h")}
    return to_dataset(samples, settings, kept)


def most_probable(split: Split) -> Array:
    """Return the most probable log parameters ``(d + 1,)`` by TAP's evidence; where the sites are taken from."""
    idata = bgp.fit(
        split.X,
        split.t,
        laplace_start(split),
        LIKELIHOOD,
        hyper="evidence",
        priors=PRIORS,
        draws=1,
        random_seed=0,
        progress=False,
    )
    fit = get_group(idata, "fit")
    return log_parameters_of(fit["lengthscale"].values, fit["variance"].values)


def summarise(split: Split, chains: Sequence[xr.Dataset], thin: int) -> xr.Dataset:
    """Return what is recorded of all chains.

    Parameters
    ----------
    split : Split
        The data.
    chains : sequence of Dataset
        What `sample_chain` returned, of equal settings.
    thin : int
        Every how many draws one of the log parameters is kept; all other numbers are from all draws.
    """
    names = parameter_names()
    draws = xr.concat([chain["log_parameters"] for chain in chains], "chain").transpose(*SAMPLE_DIMS, ...)
    draws = draws.rename(log_parameters_dim="parameter").assign_coords(parameter=names)
    latent = xr.concat([chain["h"] for chain in chains], "chain").transpose(*SAMPLE_DIMS, ...)
    pairs = zip(draws.values.reshape(-1, len(names)), latent.values.reshape(-1, latent.shape[-1]), strict=True)
    each = np.array([probabilities(split.X, split.X_test, *pair) for pair in pairs])
    found = {"parameter": statistics(draws.values), "p": statistics(each.reshape(*draws.shape[:2], -1))}
    recorded = {
        f"{prefix}_{name}": (dim, values)
        for (prefix, all_values), dim in zip(found.items(), ("parameter", "case"), strict=True)
        for name, values in all_values._asdict().items()
    }
    kept = draws.isel(draw=slice(None, None, thin)).astype(np.float32)
    return xr.Dataset(
        recorded | {"log_parameters": kept},
        attrs={
            "model": "Pima; Gaussian kernel, log w_l and log v_0 ~ N(-3, 3^2); probit likelihood, noise variance 1",
            **sampling_attributes(chains, convergence(latent)),
            "thin": thin,
            "seconds_with_compilation": [float(chain.attrs["seconds_with_compilation"]) for chain in chains],
            "versions": json.dumps(versions_of(PACKAGES)),
        },
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chains that are missing, and write the record."""
    options = _parse(arguments)
    settings = Settings(
        sampler=options.sampler,
        draws=options.draws,
        tune=options.tune,
        chains=options.chains,
        seed=options.seed,
        sites=not options.prior_white,
    )
    split = load()
    # once, out here: more threads would only wait for each other
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        chains = all_chains(options.chain_files, settings, partial(sample_chain, split, settings), _say)
        record = summarise(split, chains, options.thin)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    record.to_netcdf(options.output, engine="h5netcdf", encoding={name: {"zlib": True} for name in record.data_vars})
    for name in ("parameter_mean", "parameter_sd", "parameter_r_hat", "parameter_ess_bulk"):
        _say(f"{name:20} {record[name].values.round(3)}")
    _say(f"Wrote {options.output}: {options.output.stat().st_size / 1024:.0f} KiB")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m validation.hyperposterior.record_joint", description=(__doc__ or "").partition(": ")[2]
    )
    parser.add_argument("--sampler", choices=("nutpie", "pymc"), default=default_sampler())
    parser.add_argument("--draws", type=int, default=2500, help="of each chain (default: 2500)")
    parser.add_argument("--tune", type=int, default=500, help="tuning steps of each chain (default: 500)")
    parser.add_argument("--chains", type=int, default=4, help="default: 4")
    parser.add_argument("--seed", type=int, default=1, help="of the first chain (default: 1)")
    parser.add_argument("--prior-white", action="store_true", help="latent values white in the prior, without sites")
    parser.add_argument("--thin", type=int, default=5, help="keep one draw of the parameters in so many (default: 5)")
    folder = Path("reports/hyperposterior/chains")
    parser.add_argument("--chain-files", type=Path, default=folder, help=f"folder of the chains (default: {folder})")
    parser.add_argument("--output", type=Path, default=PATH, help="the record")
    return parser.parse_args(arguments)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
