r"""``python -m validation.multinomial.record NAME``: sample multinomial probits with NUTS, and keep what is compared.

The model is :math:`f_c = A z_c` for each class c, with A A' = K by the pivoted Cholesky factorisation and z white, so
that K may be singular; and for each observed case the noise u of its own class, with

.. math:: p(t, u|f) = \varphi(u) \prod_{d \ne t} \Phi(u + f_t - f_d) .

The cases that are predicted are part of f, and no part of the likelihood: their probabilities are averages like the
others. Each draw's probabilities are integrated over u anew (`density`).
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr

from bayesgp_mf.matrices.factors import psd_root
from validation.command import Command, each, made_from
from validation.multinomial.density import probabilities
from validation.multinomial.recorded import path_of
from validation.multinomial.settings import SETTINGS, Setting
from validation.sampling.chain import NutsSettings, default_sampler, run_chain
from validation.sampling.recorded import FOLDER
from validation.sampling.recording import all_chains, joined, keep, recorded_statistics, sampling_attributes, to_dataset

COMMAND = Command(
    "validation.multinomial.record",
    "Sample multinomial probits with NUTS, and keep what is compared.",
    FOLDER,
    {
        "sampler": default_sampler(),
        "draws": 8000,
        "tune": 1000,
        "chains": 4,
        "target_accept": 0.8,
        "seed": 1,
        "chain_files": Path("reports/multinomial/chains"),
    },
    SETTINGS,
    "setting",
)


def probit_model(setting: Setting) -> pm.Model:
    """Return the PyMC model: white z ``(rank, C)``, f = A z ``(n, C)``, noise u of the labels that are observed."""
    root = psd_root(setting.gram)
    n, n_classes = setting.observed, len(setting.class_names)
    codes = setting.codes[:n]
    others = np.array([[d for d in range(n_classes) if d != code] for code in codes])
    rows = np.arange(n)
    with pm.Model() as model:
        z = pm.Normal("z", shape=(root.shape[1], n_classes))
        u = pm.Normal("u", shape=n)
        f = pm.Deterministic("f", root @ z)
        ahead = (u + f[rows, codes])[:, None] - f[rows[:, None], others]
        pm.Potential("labels", pt.sum(pm.logcdf(pm.Normal.dist(), ahead)))
    return model


def sample_chain(setting: Setting, settings: NutsSettings, chain: int) -> xr.Dataset:
    """Run one chain; return probabilities, and latent values less their mean over the classes, with times."""
    samples = run_chain(probit_model(setting), settings, settings.seed + chain)
    f = samples.posterior["f"].values[0]
    dims = ("draw", "case", "class")
    kept = {
        "p": (dims, probabilities(f).astype(np.float32)),
        "f": (dims, (f - f.mean(axis=-1, keepdims=True)).astype(np.float32)),
    }
    return to_dataset(samples, settings, kept)


def summarise(name: str, setting: Setting, chains: Sequence[xr.Dataset]) -> xr.Dataset:
    """Return means, standard deviations and their Monte-Carlo errors, of probabilities and centred latent values."""
    p, f = (joined(chains, quantity).values.astype(np.float64) for quantity in ("p", "f"))
    dims = ["case", "class"]
    recorded = xr.Dataset(recorded_statistics(p, "p", dims) | recorded_statistics(f, "f", dims))
    return (
        recorded.astype(np.float32)
        .assign_coords({"class": list(setting.class_names)})
        .assign_attrs(
            model=f"{name}; multinomial probit of processes with the kernel {setting.kernel}",
            observed=setting.observed,
            **sampling_attributes(chains, f),
        )
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the chains that are missing, and write the records."""
    return COMMAND.run(_record, arguments)


def _record(options: Namespace) -> int:
    settings = made_from(NutsSettings, options, sites=False)

    def one(name: str) -> None:
        setting = SETTINGS[name]()
        sample = partial(sample_chain, setting, settings)
        chains = all_chains(options.chain_files / name, settings, sample)
        keep(summarise(name, setting, chains), path_of(name, options.output))

    return each(options.names or SETTINGS, "setting", one)[1]


if __name__ == "__main__":
    sys.exit(main())
