"""What an effective draw of hyperparameters costs on Pima: by an evidence, and with the latent values sampled too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pymc as pm
import pytensor.tensor as pt

from bayesgp_mf.hyper import Surrogate
from bayesgp_mf.pymc import Nuts, latent_model
from bayesgp_mf.types import Array
from validation.benchmarks.goals import Goals
from validation.benchmarks.listing import Result
from validation.benchmarks.timing import Benchmark, Row
from validation.hyperposterior.approximate import sample
from validation.hyperposterior.averaged import average
from validation.hyperposterior.joint import joint_model, sites_at
from validation.hyperposterior.record_joint import most_probable
from validation.hyperposterior.recorded_joint import read
from validation.hyperposterior.setting import LIKELIHOOD, load
from validation.reporting.checks import at_least
from validation.sampling.chain import NutsSettings, default_sampler, run_chain
from validation.sampling.statistics import statistics
from validation.tables.crabs_and_pima import PRIOR_MEAN, PRIOR_SD
from validation.tables.selection import Split

NUTS = Nuts(draws=500, tune=300, chains=1)
SURROGATE = Surrogate(nodes=1000)
JOINT = NutsSettings(default_sampler(), draws=1000, tune=300, chains=1, target_accept=NUTS.target_accept)
SEED = 1
METHODS = ("tap", "laplace")
USUAL = "joint, as PyMC has it (latent_model)"


def benchmarks(advance: Callable[[str], None]) -> Iterator[Result]:
    """Time samplers of one posterior, each once."""
    split = load()
    rows = [surrogate_row(split, method, advance) for method in METHODS]
    rows += [evidence_row(split, method, advance) for method in METHODS]
    sites = sites_at(split.X, split.t, most_probable(split))
    models = {
        USUAL: usual_model(split),
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
        "Pima: 8 hyperparameters, time for one effective draw",
        tuple(rows),
        (
            "Seconds on the wall, of learning or tuning and of draws, over the least effective sample size (ESS) of a "
            "log parameter, one run each, one thread, without compilation; the model is that of make hyperposterior. "
            f"Surrogate: {SURROGATE.nodes} nodes, ESS as the weights have it. NUTS on the evidence: {NUTS.draws} draws "
            f"after {NUTS.tune} of tuning by PyMC's. Joint: {JOINT.draws} draws after {JOINT.tune} by {JOINT.sampler}; "
            "200 latent values beside the hyperparameters, nothing integrated out. Bulk ESS of chains, which in so "
            "short ones is uncertain by a fifth or so. All NUTS aim at the same acceptance rate, "
            f"{NUTS.target_accept:g}.",
        ),
    )
    seconds = {row.name: row.median for row in rows}
    ratios = {method: seconds[USUAL] / seconds[f"{method}, surrogate"] for method in METHODS}
    yield Goals(
        "What an effective draw was to cost",
        [
            at_least(f"effective draws by second, {method} by surrogate over {USUAL}", ratio, 100.0, "times")
            for method, ratio in ratios.items()
        ],
    )


def surrogate_row(split: Split, method: str, advance: Callable[[str], None]) -> Row:
    """Time the weighted average over draws from a surrogate."""
    found = average(split, method, SURROGATE, SEED, advance)
    each = 1e3 * found.seconds / found.n_evaluations
    note = (
        f"ESS {found.ess.min():.0f} in {found.seconds:.1f} s, {found.n_evaluations} solutions, {each:.1f} ms each, "
        f"k-hat {found.pareto_k:.2f}"
    )
    return Row(f"{method}, surrogate", (1.0 / found.ess_per_second,), note)


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
