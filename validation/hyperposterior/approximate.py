"""The same posterior with the latent values integrated out by an approximation: NUTS on evidence times prior."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

import bayesgp_mf as bgp
from bayesgp_mf.hyper import HyperResult, Strategy, Target
from bayesgp_mf.methods import get_method
from bayesgp_mf.pymc import Nuts
from bayesgp_mf.types import Array
from validation.hyperposterior.setting import LIKELIHOOD, log_parameters_at
from validation.sampling.statistics import Statistics, statistics
from validation.tables.crabs_and_pima import PRIORS, laplace_start
from validation.tables.selection import Split


@dataclass(frozen=True, slots=True, eq=False)
class Sampled:
    """Draws of the log parameters by one method's evidence.

    Attributes
    ----------
    method : str
        Whose evidence.
    log_parameters : (chain, draw, p) array
        log w_l and log v_0.
    parameters, probabilities : Statistics
        Of the log parameters ``(p,)``, and of the probabilities of class +1 at the test cases ``(m,)``.
    seconds : float
        Of tuning and draws of all chains, one after the other.
    n_evaluations : int
        Solutions with gradient, tuning included.
    divergences : int
        Of all draws.
    """

    method: str
    log_parameters: Array
    parameters: Statistics
    probabilities: Statistics
    seconds: float
    n_evaluations: int
    divergences: int

    @property
    def ess_per_second(self) -> float:
        """The least bulk effective sample size of a log parameter, by second of tuning and draws."""
        return float(self.parameters.ess_bulk.min()) / self.seconds


def sample(split: Split, method: str, nuts: Nuts, seed: int, advance: Callable[[str], None]) -> Sampled:
    """Draw hyperparameters as ``fit(..., hyper="nuts")`` does, and predict the test cases at each draw.

    Parameters
    ----------
    split : Split
        The data.
    method : str
        Whose evidence is sampled and who predicts.
    nuts : Nuts
        Length and number of the chains.
    seed : int
        Of the sampler.
    advance : callable
        Is told of each solution.
    """
    chosen = choose(split, method, nuts, seed, advance)
    found = chosen.result
    by_chain = (found.chains, len(found.kernels) // found.chains)
    log_parameters = log_parameters_at(found.kernels).reshape(*by_chain, -1)
    return Sampled(
        method,
        log_parameters,
        statistics(log_parameters),
        statistics(chosen.probabilities.reshape(*by_chain, -1)),
        chosen.seconds,
        int(found.record["hyper_n_evaluations"][1]),
        int(np.sum(found.stats["diverging"])),
    )


class Chosen(NamedTuple):
    """What a strategy returned, the seconds it took, and p of class +1 of each kernel at the test cases, ``(k, m)``."""

    result: HyperResult
    seconds: float
    probabilities: Array


def choose(split: Split, method: str, strategy: Strategy, seed: int, advance: Callable[[str], None]) -> Chosen:
    """Choose hyperparameters as ``fit`` does with a strategy, and predict the test cases at each of them."""
    solver = get_method(method)
    target = Target(split.X, split.t, LIKELIHOOD, laplace_start(split), solver, priors=PRIORS)
    started = time.perf_counter()
    found = strategy.choose(target, np.random.default_rng(seed), advance)
    seconds = time.perf_counter() - started
    each_p: list[Array] = []
    for model in found.models:
        problem = target.problem_at(model)
        each_p.append(bgp.Posterior(model.kernel, split.X, problem, solver.solve(problem)).predict_proba(split.X_test))
        advance(f"{method}: predictions")
    return Chosen(found, seconds, np.array(each_p))
