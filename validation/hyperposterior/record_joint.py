"""``python -m validation.hyperposterior.record_joint``: sample the joint posterior, and keep what is compared with it.

The last part of the work reads all chains and writes one small file, the recorded reference.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import xarray as xr

import bayesgp_mf as bgp
from bayesgp_mf.container.groups import get_group
from bayesgp_mf.types import Array
from validation.command import Command, made_from
from validation.hyperposterior.joint import joint_model, probabilities, sites_at
from validation.hyperposterior.recorded_joint import PATH
from validation.hyperposterior.setting import LIKELIHOOD, load, log_parameters_of, parameter_names
from validation.sampling.chain import NutsSettings, default_sampler, run_chain
from validation.sampling.recording import all_chains, joined, keep, recorded_statistics, sampling_attributes, to_dataset
from validation.tables.crabs_and_pima import PRIORS, laplace_start
from validation.tables.selection import Split

COMMAND = Command(
    "validation.hyperposterior.record_joint",
    "Sample hyperparameters and latent values of Pima together, and keep what is compared with it.",
    PATH,
    {
        "sampler": default_sampler(),
        "draws": 2500,
        "tune": 500,
        "chains": 4,
        "seed": 1,
        "prior_white": False,
        "thin": 5,
        "chain_files": Path("reports/hyperposterior/chains"),
    },
)


def sample_chain(split: Split, settings: NutsSettings, chain: int) -> xr.Dataset:
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
    draws, latent = joined(chains, "log_parameters"), joined(chains, "h")
    draws = draws.rename(log_parameters_dim="parameter").assign_coords(parameter=names)
    pairs = zip(draws.values.reshape(-1, len(names)), latent.values.reshape(-1, latent.shape[-1]), strict=True)
    each = np.array([probabilities(split.X, split.X_test, *pair) for pair in pairs])
    recorded = recorded_statistics(draws.values, "parameter", ["parameter"])
    recorded |= recorded_statistics(each.reshape(*draws.shape[:2], -1), "p", ["case"])
    kept = draws.isel(draw=slice(None, None, thin)).astype(np.float32)
    return xr.Dataset(
        recorded | {"log_parameters": kept},
        attrs={
            "model": "Pima; Gaussian kernel, log w_l and log v_0 ~ N(-3, 3^2); probit likelihood, noise variance 1",
            **sampling_attributes(chains, latent.values),
            "thin": thin,
            "seconds_with_compilation": [float(chain.attrs["seconds_with_compilation"]) for chain in chains],
        },
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chains that are missing, and write the record."""
    return COMMAND.run(_record, arguments)


def _record(options: Namespace) -> int:
    settings, split = made_from(NutsSettings, options, sites=not options.prior_white), load()
    chains = all_chains(options.chain_files, settings, partial(sample_chain, split, settings))
    return keep(summarise(split, chains, options.thin), options.output)


if __name__ == "__main__":
    sys.exit(main())
