"""``python -m validation.studies.functional_records``: draw from the exact posteriors of the tables of theory.

Of each problem the cases with their noise are a Gaussian vector cut to the signs of the labels, which exact Hamiltonian
Monte Carlo draws; probabilities of new cases, and their standard errors by batches, are kept.
"""

from __future__ import annotations

import hashlib
import json
import sys
from argparse import Namespace
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.special import ndtr

from bayesgp_mf.diagnostics import sample_orthant_chains
from validation.command import Command, say
from validation.reporting.files import write_json
from validation.sampling.recorded import FOLDER
from validation.studies.functional_problems import TABLES, Problem

FILE = "functionals.json"
DIGITS = 6
"""Decimals that are kept: far below the Monte-Carlo error."""
BATCHES = 20
"""Of the draws of each chain, whose means tell the standard error."""
COMMAND = Command(
    "validation.studies.functional_records",
    "Draw from exact posteriors of duels and slopes, and keep probabilities of new cases.",
    FOLDER,
    {"draws": 1500, "tune": 100, "chains": 2, "seed": 1},
)


class Draws(NamedTuple):
    """What is kept: probabilities of new cases, their standard errors, and a hash of the problem."""

    p: Sequence[float]
    error: Sequence[float]
    problem: str


def recorded(name: str) -> Draws:
    """Return what was kept of a problem.

    Raises
    ------
    ValueError
        If it was of another problem.
    """
    found = Draws(**json.loads((FOLDER / FILE).read_text())[name])
    if found.problem != digest_of(TABLES[name].problem()):
        raise ValueError(f"draws of {name} are of another problem: python -m validation.studies.functional_records.")
    return found


def digest_of(problem: Problem) -> str:
    """Return a hash of a problem, as far as numbers of all machines agree."""
    gram = np.round(problem.kernel.gram(np.vstack([problem.X, problem.X_new])), 6) + 0.0
    return hashlib.sha256(gram.tobytes() + problem.t.tobytes()).hexdigest()[:16]


def sampled(problem: Problem, draws: int, tune: int, chains: int, seed: int) -> Draws:
    """Return probabilities of the new cases of a problem over exact draws."""
    covariance = problem.kernel.gram(problem.X) + np.eye(problem.t.size)
    z = sample_orthant_chains(covariance, problem.t, draws=draws, tune=tune, chains=chains, random_seed=seed)
    cross = problem.kernel.cross(problem.X, problem.X_new)
    weights = cho_solve(cho_factor(covariance), cross)
    sd = np.sqrt(1.0 + problem.kernel.diag(problem.X_new) - np.sum(cross * weights, axis=0))
    p = ndtr((z @ weights) / sd)
    means = p.reshape(chains * BATCHES, draws // BATCHES, -1).mean(axis=1)
    error = means.std(axis=0, ddof=1) / np.sqrt(len(means))
    kept = (each.round(DIGITS).tolist() for each in (means.mean(axis=0), error))
    return Draws(*kept, digest_of(problem))


def main(arguments: Sequence[str] | None = None) -> int:
    """Draw what is not recorded, and write it."""
    return COMMAND.run(_record, arguments)


def _record(options: Namespace) -> int:
    path = options.output / FILE
    kept = json.loads(path.read_text()) if path.exists() else {}
    for name, setting in TABLES.items():
        problem = setting.problem()
        if name in kept and kept[name]["problem"] == digest_of(problem):
            say(f"{name} is there already.")
            continue
        found = sampled(problem, options.draws, options.tune, options.chains, options.seed)
        kept[name] = found._asdict()
        write_json(path, kept)
        say(f"{name}: largest standard error {max(found.error):.4f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
