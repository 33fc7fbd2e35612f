r"""``python -m validation.glass.record_softmax``: sample the softmax process with NUTS, and keep what is compared.

The model is :math:`f_c = A z_c` for each class c, with A A' = K by the pivoted Cholesky factorisation and z white, so
that K may be singular; labels are categorical with the softmax of f. The cases that are predicted are part of f, and no
part of the likelihood: their probabilities are averages like the others.

The chains run one after the other, and each is written when it ends; a chain that is there already is not run again.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
import xarray as xr
from scipy.special import softmax
from threadpoolctl import ThreadpoolController

from bayesgp_mf.container.inferencedata import SAMPLE_DIMS
from bayesgp_mf.matrices.dense import psd_root
from validation.glass.recorded_softmax import PATH
from validation.glass.setting import Setting, load
from validation.reporting.versions import versions_of
from validation.sampling.arviz_calls import convergence
from validation.sampling.chain import Settings, run_chain
from validation.sampling.chain_files import all_chains, sampling_attributes, to_dataset
from validation.sampling.latent import default_sampler
from validation.sampling.statistics import statistics

PACKAGES = ("bayesgp-mf", "numpy", "scipy", "arviz", "pymc", "pytensor", "numba", "nutpie")
CHAIN_FILES = Path("reports/glass/chains")


def softmax_model(setting: Setting) -> pm.Model:
    """Return the PyMC model: white z ``(rank, C)``, f = A z ``(n, C)``, labels of the observed cases."""
    root = psd_root(setting.gram)
    n_classes = len(setting.class_names)
    with pm.Model() as model:
        z = pm.Normal("z", shape=(root.shape[1], n_classes))
        f = pm.Deterministic("f", root @ z)
        observed = setting.codes[: setting.observed]
        pm.Categorical("y", logit_p=f[: setting.observed], observed=observed)
    return model


def sample_chain(setting: Setting, settings: Settings, chain: int) -> xr.Dataset:
    """Run one chain, and return the latent values less their mean over the classes, with times as attributes."""
    samples = run_chain(softmax_model(setting), settings, settings.seed + chain)
    f = samples.posterior["f"].values[0]
    f -= f.mean(axis=-1, keepdims=True)
    return to_dataset(samples, settings, {"f": (("draw", "case", "class"), f.astype(np.float32))})


def summarise(setting: Setting, chains: Sequence[xr.Dataset]) -> xr.Dataset:
    """Return means, standard deviations and their Monte-Carlo errors, of probabilities and centred latent values."""
    f = xr.concat([chain["f"] for chain in chains], "chain").transpose(*SAMPLE_DIMS, ...).values.astype(np.float64)
    shape = f.shape[2:]
    dims = ("case", "class")
    recorded = {}
    for name, draws in {"p": softmax(f, axis=-1), "f": f}.items():
        found = statistics(draws.reshape(*draws.shape[:2], -1))
        recorded |= {f"{name}_{key}": (dims, value.reshape(shape)) for key, value in found._asdict().items()}
    latent = convergence(xr.DataArray(f.reshape(*f.shape[:2], -1), dims=(*SAMPLE_DIMS, "quantity")))
    return xr.Dataset(
        recorded,
        coords={"class": list(setting.class_names)},
        attrs={
            "model": "forensic glass; softmax of six processes with the kernel of validation.glass.setting",
            "observed": setting.observed,
            **sampling_attributes(chains, latent),
            "versions": json.dumps(versions_of(PACKAGES)),
        },
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chains that are missing, and write the record."""
    options = _parse(arguments)
    settings = Settings(
        options.sampler, options.draws, options.tune, options.chains, options.target_accept, options.seed, sites=False
    )
    setting = load()
    # once, out here: more threads would only wait for each other
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        chains = all_chains(options.chain_files, settings, partial(sample_chain, setting, settings), _say)
        record = summarise(setting, chains)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    encoding = {name: {"zlib": True, "dtype": "float32"} for name in record.data_vars}
    record.to_netcdf(options.output, engine="h5netcdf", encoding=encoding)
    for name in ("p_mean_error", "p_r_hat", "f_r_hat"):
        _say(f"largest {name:14} {float(record[name].max()):.5f}")
    for name in ("p_ess_bulk", "f_ess_bulk", "f_ess_tail"):
        _say(f"least   {name:14} {float(record[name].min()):.0f}")
    _say(f"Wrote {options.output}: {options.output.stat().st_size / 1024:.0f} KiB")
    return 0


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m validation.glass.record_softmax",
        description=(__doc__ or "").partition(": ")[2].partition("\n")[0],
    )
    parser.add_argument("--sampler", choices=("nutpie", "pymc"), default=default_sampler())
    parser.add_argument("--draws", type=int, default=1000, help="of each chain (default: 1000)")
    parser.add_argument("--tune", type=int, default=500, help="tuning steps of each chain (default: 500)")
    parser.add_argument("--chains", type=int, default=4, help="default: 4")
    parser.add_argument("--target-accept", type=float, default=0.8, help="acceptance rate (default: 0.8)")
    parser.add_argument("--seed", type=int, default=1, help="of the first chain (default: 1)")
    parser.add_argument("--chain-files", type=Path, default=CHAIN_FILES, help=f"default: {CHAIN_FILES}")
    parser.add_argument("--output", type=Path, default=PATH, help="the record")
    return parser.parse_args(arguments)


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    sys.exit(main())
