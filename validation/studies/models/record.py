"""``python -m validation.studies.models.record``: sample the models of `problems` with NUTS, and keep means and sds.

The latent values are f = A z with A A' the Gram matrix and z white, and the likelihoods are PyMC's, which owe nothing
to ours. A set that is recorded already is not sampled again unless its data or its model have changed.
"""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
import pymc as pm

from bayesgp_mf.matrices.factors import psd_root
from validation.command import Command, made_from, say
from validation.reporting.files import write_json
from validation.reporting.versions import versions_of
from validation.sampling.chain import NutsSettings, default_sampler, run_chain
from validation.sampling.recording import PACKAGES
from validation.sampling.statistics import statistics
from validation.studies.models.problems import LIKELIHOODS, NAMES, Model, model_of
from validation.studies.models.recorded import FOLDER, is_of, path_of, read, written_model

DIGITS = 6
"""Decimals that are kept: far below the Monte-Carlo error."""
COMMAND = Command(
    "validation.studies.models.record",
    "Sample counts, proportions and measurements with outliers with NUTS, and keep means and standard deviations.",
    FOLDER,
    {"sampler": default_sampler(), "draws": 10_000, "tune": 1000, "chains": 4, "target_accept": 0.8, "seed": 1},
)


def latent_model(model: Model) -> pm.Model:
    """Return the PyMC model: white z, f = A z ``(n,)``, and the targets observed at offset + f."""
    root = psd_root(model.kernel.gram(model.X))
    with pm.Model() as made:
        f = pm.Deterministic("f", root @ pm.Normal("z", shape=root.shape[1]))
        _observe(model, model.offset + f)
    return made


def _observe(model: Model, value: Any) -> None:
    known: Any = model.likelihood
    match type(known).__name__:
        case "Poisson":
            pm.Poisson("y", pm.math.exp(value), observed=model.y)
        case "NegativeBinomial":
            pm.NegativeBinomial("y", mu=pm.math.exp(value), alpha=known.dispersion, observed=model.y)
        case "Binomial":
            pm.Binomial("y", n=np.asarray(known.trials, dtype=np.int64), logit_p=value, observed=model.y)
        case "Ordinal":
            sd = np.sqrt(known.noise_variance)  # PyMC's own sigma does not divide the cuts
            cuts, levels = np.asarray(known.cuts) / sd, model.y.astype(np.int64)
            pm.OrderedProbit("y", eta=value / sd, cutpoints=cuts, compute_p=False, observed=levels)
        case "StudentT":
            pm.StudentT("y", nu=known.df, mu=value, sigma=known.scale, observed=model.y)
        case "Censored":
            seen, other = known.likelihood, np.asarray(known.other_limit)
            below, above = np.isneginf(other), np.isposinf(other)
            of_times = type(seen).__name__ == "Weibull"
            target = (
                pm.Weibull.dist(alpha=seen.shape, beta=pm.math.exp(value))
                if of_times
                else pm.Normal.dist(mu=value, sigma=np.sqrt(seen.noise_variance))
            )
            lower, upper = np.where(below, model.y, -np.inf), np.where(above, model.y, np.inf)
            pm.Censored("y", target, lower=lower, upper=upper, observed=model.y)
        case other:
            raise ValueError(f"the likelihood must be one of {', '.join(LIKELIHOODS)}, got {other}.")


def sampled(model: Model, settings: NutsSettings) -> dict[str, Any]:
    """Return what is kept of all chains of a model."""
    chains = [run_chain(latent_model(model), settings, settings.seed + chain) for chain in range(settings.chains)]
    found = statistics(np.concatenate([chain.posterior["f"].values for chain in chains]))
    return {
        "settings": asdict(settings),
        "versions": versions_of(PACKAGES),
        "divergences": int(sum(chain.stats["diverging"].values.sum() for chain in chains)),
        "r_hat": float(found.r_hat.max()),
        "ess_bulk": float(found.ess_bulk.min()),
        "ess_tail": float(found.ess_tail.min()),
        **{name: getattr(found, name).round(DIGITS).tolist() for name in ("mean", "mean_error", "sd", "sd_error")},
    }


def main(arguments: Sequence[str] | None = None) -> int:
    """Sample what is not recorded, and write a file for each."""
    return COMMAND.run(_record, arguments)


def _record(options: Namespace) -> int:
    settings = made_from(NutsSettings, options, sites=False)
    for likelihood in LIKELIHOODS:
        for name in NAMES[likelihood]:
            model, path = model_of(likelihood, name), path_of(likelihood, name, options.output)
            if path.exists() and is_of(model, read(path).model):
                say(f"{path} is there already.")
                continue
            found = sampled(model, settings)
            write_json(path, {"name": name, **written_model(model), **found})
            error = max(e / s for e, s in zip(found["mean_error"], found["sd"], strict=True))
            say(
                f"{likelihood}, {name}: r-hat {found['r_hat']:.4f}, effective draws {found['ess_bulk']:.0f}, "
                f"{found['divergences']} divergences, largest error of a mean {error:.4f} sd"
            )
    return 0


if __name__ == "__main__":
    sys.exit(main())
