"""``python -m validation.studies.areas_records``: sample models of areas by NUTS in PyMC, and keep the moments.

Tables of CC0 data, as the R package spData 2.2.1 has them (Bivand, Nowosad & Lovelace), beside it in ``recorded``:
sudden infant deaths in North Carolina 1974-78 and births, with the neighbours of Cressie & Chan (1989), of which two
counties have none; deaths of infants in Auckland 1977-85 and persons below 5 years, whose neighbours touch. Each whole,
and with counts thinned until few are above 3. The model is BYM2 of `pymc.ICAR`; an island has an effect of its own.
Auckland whole is recorded with ``--seed 5``: of the chains from seed 1 one did not mix (r-hat 1.03).
"""

from __future__ import annotations

import csv
import hashlib
import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bayesgp_mf.kernels import Areal
from bayesgp_mf.types import Array
from validation.command import Command, say
from validation.reporting.files import write_json
from validation.sampling.recorded import FOLDER

FILE, DIGITS = "areas.json", 6
TABLES = {"north carolina": 1.0, "auckland": 1.0, "north carolina, thinned": 0.15, "auckland, thinned": 0.2}
"""The share of the cases that is kept."""
RATE, ODDS_SD, LEVEL = 2.0, 1.5, 10.0
"""Of the priors: of the standard deviation, exponential; of the log odds of the mixing; the variance of the level."""
COMMAND = Command(
    "validation.studies.areas_records",
    "Sample models of areas by NUTS, and keep means and standard deviations.",
    FOLDER,
    {"draws": 4000, "tune": 2000, "chains": 4, "seed": 1},
)


class Table(NamedTuple):
    """Cases, and those expected at the rate of all, of areas with their neighbours."""

    neighbours: dict[str, list[str]]
    cases: Array
    expected: Array


def table(name: str) -> Table:
    """Return a table by its name in `TABLES`."""
    path = FOLDER / f"areas_{name.partition(',')[0].replace(' ', '_')}.csv"
    with path.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    cases, exposure = (np.array([int(row[key]) for row in rows]) for key in ("cases", "exposure"))
    if TABLES[name] < 1.0:
        cases = np.random.default_rng(7).binomial(cases, TABLES[name])
    neighbours = {row["area"]: row["neighbours"].split() for row in rows}
    return Table(neighbours, cases, exposure * cases.sum() / exposure.sum())


class Moments(NamedTuple):
    """Means, standard deviations and Monte-Carlo errors of log relative risks, and of standard deviation and mixing."""

    mean: Sequence[float]
    sd: Sequence[float]
    error: Sequence[float]
    of_parameters: Sequence[Sequence[float]]
    r_hat: float
    divergences: int
    problem: str
    seed: int


def digest_of(given: Table) -> str:
    """Return a hash of a table."""
    return hashlib.sha256(json.dumps([given.neighbours, given.cases.tolist()]).encode()).hexdigest()[:16]


def recorded(name: str) -> Moments:
    """Return what was kept of a table; ValueError if it was of another one."""
    found = Moments(**json.loads((FOLDER / FILE).read_text())[name])
    if found.problem != digest_of(table(name)):
        raise ValueError(f"draws of {name} are of another table: python -m validation.studies.areas_records.")
    return found


def sampled(given: Table, draws: int, tune: int, chains: int, seed: int) -> Moments:
    """Return the moments of a table over draws of NUTS."""
    import arviz as az
    import pymc as pm

    graph = Areal(given.neighbours, "bym2").graph
    (joined,) = np.nonzero(graph.degrees)
    beside = graph.neighbours.toarray()[np.ix_(joined, joined)]
    with pm.Model():
        sd = pm.Exponential("sd", RATE)
        log_odds = pm.Normal("log_odds", 0.0, ODDS_SD)
        mixing = pm.math.sigmoid(log_odds)
        level = pm.Normal("level", 0.0, np.sqrt(LEVEL))
        own = pm.Normal("own", shape=len(given.cases))
        shared = pm.ICAR("shared", W=beside)  # of precision D - W, so that the scale's root divides
        alone = pm.Normal("alone", shape=len(given.cases) - joined.size)
        rest = np.setdiff1d(np.arange(len(given.cases)), joined)
        effect = pm.math.concatenate([shared / np.sqrt(graph.scale[joined]), alone])[np.argsort(np.r_[joined, rest])]
        risk = level + sd * (pm.math.sqrt(1.0 - mixing) * own + pm.math.sqrt(mixing) * effect)
        pm.Deterministic("risk", risk)
        pm.Poisson("cases", given.expected * pm.math.exp(risk), observed=given.cases)
        sample: Any = pm.sample(
            draws,
            tune=tune,
            chains=chains,
            cores=1,
            random_seed=seed,
            target_accept=0.95,
            nuts_sampler="nutpie",
            progressbar=False,
        )
    posterior = sample.posterior.assign(mixing=1.0 / (1.0 + np.exp(-sample.posterior["log_odds"])))
    wanted = posterior[["risk", "sd", "mixing"]]
    error, r_hat = az.mcse(wanted), az.rhat(wanted)
    mean, deviation = wanted.mean(("chain", "draw")), wanted.std(("chain", "draw"))

    def kept(name: str) -> list[Any]:
        return [np.round(each[name].values, DIGITS).tolist() for each in (mean, deviation, error)]

    largest = max(float(r_hat[name].max()) for name in wanted)
    diverging = int(sample.sample_stats["diverging"].sum())
    return Moments(*kept("risk"), [kept("sd"), kept("mixing")], largest, diverging, digest_of(given), seed)


def main(arguments: Sequence[str] | None = None) -> int:
    """Sample what is not recorded, and write it."""
    return COMMAND.run(_record, arguments)


def _record(options: Namespace) -> int:
    path = options.output / FILE
    kept = json.loads(path.read_text()) if path.exists() else {}
    for name in TABLES:
        given = table(name)
        if name in kept and kept[name]["problem"] == digest_of(given):
            say(f"{name} is there already.")
            continue
        found = sampled(given, options.draws, options.tune, options.chains, options.seed)
        kept[name] = found._asdict()
        write_json(path, kept)
        say(f"{name}: largest standard error {max(found.error):.4f}, r-hat {found.r_hat:.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
