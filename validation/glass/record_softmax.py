r"""``python -m validation.glass.record_softmax``: sample the softmax process with NUTS, and keep what is compared.

The model is :math:`f_c = A z_c` for each class c, with A A' = K by the pivoted Cholesky factorisation and z white, so
that K may be singular; labels are categorical with the softmax of f. The cases that are predicted are part of f, and no
part of the likelihood: their probabilities are averages like the others.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
import xarray as xr
from scipy.special import softmax

from bayesgp_mf.matrices.factors import psd_root
from validation.command import Command, made_from
from validation.glass.setting import RECORD, Setting, load
from validation.sampling.chain import NutsSettings, default_sampler, run_chain
from validation.sampling.recording import all_chains, joined, keep, recorded_statistics, sampling_attributes, to_dataset

COMMAND = Command(
    "validation.glass.record_softmax",
    "Sample the softmax process of forensic glass with NUTS, and keep what is compared.",
    RECORD,
    {
        "sampler": default_sampler(),
        "draws": 1000,
        "tune": 500,
        "chains": 4,
        "target_accept": 0.8,
        "seed": 1,
        "chain_files": Path("reports/glass/chains"),
    },
)


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


def sample_chain(setting: Setting, settings: NutsSettings, chain: int) -> xr.Dataset:
    """Run one chain, and return the latent values less their mean over the classes, with times as attributes."""
    samples = run_chain(softmax_model(setting), settings, settings.seed + chain)
    f = samples.posterior["f"].values[0]
    f -= f.mean(axis=-1, keepdims=True)
    return to_dataset(samples, settings, {"f": (("draw", "case", "class"), f.astype(np.float32))})


def summarise(setting: Setting, chains: Sequence[xr.Dataset]) -> xr.Dataset:
    """Return means, standard deviations and their Monte-Carlo errors, of probabilities and centred latent values."""
    f = joined(chains, "f").values.astype(np.float64)
    dims = ["case", "class"]
    recorded = xr.Dataset(recorded_statistics(softmax(f, axis=-1), "p", dims) | recorded_statistics(f, "f", dims))
    return (
        recorded.astype(np.float32)
        .assign_coords({"class": list(setting.class_names)})
        .assign_attrs(
            model="forensic glass; softmax of six processes with the kernel of validation.glass.setting",
            observed=setting.observed,
            **sampling_attributes(chains, f),
        )
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chains that are missing, and write the record."""
    return COMMAND.run(_record, arguments)


def _record(options: Namespace) -> int:
    settings, setting = made_from(NutsSettings, options, sites=False), load()
    chains = all_chains(options.chain_files, settings, partial(sample_chain, setting, settings))
    return keep(summarise(setting, chains), options.output)


if __name__ == "__main__":
    sys.exit(main())
