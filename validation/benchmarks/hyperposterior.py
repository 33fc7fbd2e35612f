"""What an effective draw of the hyperparameters costs on Pima: NUTS on an evidence, and on the latent values too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pymc as pm
import pytensor.tensor as pt

from bayesgp_mf.pymc import Nuts, latent_model
from bayesgp_mf.types import Array
from validation.benchmarks.timing import Benchmark, Row
from validation.hyperposterior.approximate import sample
from validation.hyperposterior.joint import joint_model, sites_at
from validation.hyperposterior.record import most_probable
from validation.hyperposterior.recorded import read
from validation.hyperposterior.sampling import Settings, run_chain
from validation.hyperposterior.setting import LIKELIHOOD, load
from validation.hyperposterior.statistics import statistics
from validation.reference import default_sampler
from validation.tables.crabs_and_pima import PRIOR_MEAN, PRIOR_SD
from validation.tables.selection import Split

NUTS = Nuts(draws=200, tune=200, chains=1)
JOINT = Settings(default_sampler(), draws=500, tune=300, chains=1)
SEED = 1


def benchmarks(advance: Callable[[str], None]) -> Iterator[Benchmark]:
    """Time samplers of one posterior, each once."""
    split = load()
    rows = [evidence_row(split, method, advance) for method in ("tap", "laplace")]
    sites = sites_at(split.X, split.t, most_probable(split))
    models = {
        "joint, as PyMC has it (latent_model)": usual_model(split),
        "joint, white in the prior": joint_model(split.X, split.t, None),
        "joint, white under TAP's sites": joint_model(split.X, split.t, sites),
    }
    for name, model in models.items():
        rows.append(joint_row(name, model, advance))
    recorded = read()
    rows.append(
        Row(
            "joint, white under TAP's sites, as recorded",
            (1.0 / recorded.ess_per_second,),
            f"ESS {recorded.parameters.ess_bulk.min():.0f} in {recorded.seconds:.0f} s, on another day",
        )
    )
    yield Benchmark(
        "Pima: NUTS on 8 hyperparameters, time for one effective draw",
        tuple(rows),
        (
            "Seconds of tuning and draws over the least bulk effective sample size (ESS) of a log parameter, one run "
            "each, one thread, without compilation; the model is that of make hyperposterior. ESS of so short runs is "
            f"uncertain by a fifth or so. Evidence: {NUTS.draws} draws after {NUTS.tune} of tuning by PyMC's NUTS. "
            f"Joint: {JOINT.draws} draws after {JOINT.tune} by {JOINT.sampler}; 200 latent values beside the "
            "hyperparameters, nothing integrated out.",
        ),
    )


def evidence_row(split: Split, method: str, advance: Callable[[str], None]) -> Row:
    """Time NUTS on the evidence of a method."""
    found = sample(split, method, NUTS, SEED, advance)
    ess = float(found.parameters.ess_bulk.min())
    each = 1e3 * found.seconds / found.n_evaluations
    note = f"ESS {ess:.0f} in {found.seconds:.0f} s, {found.n_evaluations} gradients, {each:.1f} ms each"
    return Row(f"{method}, NUTS on the evidence", (found.seconds / ess,), note)


def joint_row(name: str, model: pm.Model, advance: Callable[[str], None]) -> Row:
    """Time NUTS on a model of log parameters and latent values."""
    chain = run_chain(model, JOINT, SEED)
    draws: Array = chain.posterior["log_parameters"].values
    ess = float(statistics(draws).ess_bulk.min())
    steps, diverging = (int(chain.stats[stat].values.sum()) for stat in ("n_steps", "diverging"))
    note = f"ESS {ess:.0f} in {chain.seconds:.0f} s, {steps} gradients after tuning, {diverging} divergences"
    advance(name)
    return Row(name, (chain.seconds / ess,), note)


def usual_model(split: Split) -> pm.Model:
    """Return the joint model as anyone would write it: ``pm.gp``, its whitening, its jitter."""
    with pm.Model() as model:
        log_parameters = pm.Normal("log_parameters", PRIOR_MEAN, PRIOR_SD, shape=split.X.shape[1] + 1)
        lengthscales = pt.exp(-0.5 * log_parameters[:-1])
        cov_func = pt.exp(log_parameters[-1]) * pm.gp.cov.ExpQuad(split.X.shape[1], ls=lengthscales)
        latent_model(split.X, split.t, cov_func, LIKELIHOOD)
    return model
