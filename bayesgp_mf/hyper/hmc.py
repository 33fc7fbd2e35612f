"""An average over hyperparameters: hybrid Monte Carlo on evidence times prior (Barber & Williams)."""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from bayesgp_mf.errors import ConvergenceWarning, warn
from bayesgp_mf.hyper.leapfrog import Dynamics, Moved, Points, one_by_one, walk
from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.optimise import START_SPREAD, no_solution
from bayesgp_mf.hyper.result import Advance, HyperResult, Record
from bayesgp_mf.hyper.scores import EvidenceScore
from bayesgp_mf.hyper.strategy import Strategy
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.options import check_positive_integers
from bayesgp_mf.methods import MethodName
from bayesgp_mf.types import Array

FEW_ACCEPTED = 0.3
"""A chain that accepts fewer of its proposals than this is warned about."""
STARTS_TRIED = 10
"""Random starting points tried for a further chain."""


@dataclass(frozen=True, slots=True, eq=False)
class HybridMonteCarlo(Strategy):
    r"""Draw the hyperparameters from evidence times prior, by hybrid Monte Carlo on their logarithms [1]_.

    The defaults are those of [1]_ (section 2.3), where predicted probabilities are averaged over the draws (eq. 9). The
    paper's parameters are log w_l = -2 log lengthscale, in which a step of 0.1 is one of 0.05 for the length scale:
    ``HybridMonteCarlo(step_size={"lengthscale": 0.05, "variance": 0.1})`` with the priors
    ``{"lengthscale": LogNormal(power=-2), "variance": LogNormal()}``, started at lengthscale e and variance 1.

    Parameters
    ----------
    iterations : int
        Number of trajectories of each chain. Each takes ``leapfrog_steps`` solutions with their gradients.
    leapfrog_steps : int
        Number of steps of a trajectory.
    step_size : float or mapping of str to float
        In the logarithm; one number for all, or one for each tuned parameter by name. Take it as large as possible with
        few rejections.
    dropped : float
        Share of the iterations that is dropped at the beginning of each chain.
    chains : int
        Number of chains. The first starts at the kernel, the others at random around it.
    method : str or Solver, optional
        The method whose evidence counts, if not that of the fit.

    Raises
    ------
    ValueError
        If an option is out of its range; on use, if ``step_size`` does not name the tuned parameters, or the method
        has no evidence.

    Notes
    -----
    A trajectory is rejected, and counted, if the equations have no solution on it. If the likelihood is not
    log-concave, the equations may have several solutions, and every point is solved from the prior, which takes longer:
    otherwise the evidence would depend on the path. A parameter without a prior has a uniform one in its logarithm
    between its bounds, where trajectories are reflected.

    References
    ----------
    .. [1] Barber, D., & Williams, C. K. I. (1996). Gaussian processes for Bayesian classification via hybrid
       Monte Carlo. NIPS 9.
    """

    name = "hmc"
    averages: ClassVar[bool] = True
    records: ClassVar[tuple[str, ...]] = ("iteration",)
    iterations: int = 200
    leapfrog_steps: int = 20
    step_size: float | Mapping[str, float] = 0.1
    dropped: float = 1.0 / 3.0
    chains: int = 1
    method: MethodName | Solver | None = None

    def __post_init__(self) -> None:
        check_positive_integers(iterations=self.iterations, leapfrog_steps=self.leapfrog_steps, chains=self.chains)
        if not isinstance(self.dropped, numbers.Real) or not 0 <= self.dropped < 1:
            raise ValueError(f"dropped must be a share of the iterations, 0 <= dropped < 1, got {self.dropped!r}.")
        sizes = self.step_size.values() if isinstance(self.step_size, Mapping) else [self.step_size]
        for size in sizes:
            if not isinstance(size, numbers.Real) or not 0 < size < np.inf:
                raise ValueError(f"step_size must be a finite number > 0, or map names to such, got {size!r}.")

    def solutions(self, target: Target) -> int:
        """Return how many solutions it will take."""
        return self.chains * self.iterations * self.leapfrog_steps

    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Run the chains.

        Raises
        ------
        ConvergenceError
            If the inner solver found no solution at a start.

        Warns
        -----
        ConvergenceWarning
            If trajectories failed or diverged, or few proposals were accepted.
        """
        objective = Objective(target, EvidenceScore())
        dynamics = Dynamics(one_by_one(objective), self._step_sizes(target), target.lower, target.upper)
        walks, starts, counts = [], [], []
        for chain in range(self.chains):
            objective.forget()
            before = objective.n_evaluations, objective.n_failures
            start = _start(dynamics, objective, chain, rng)
            walks.append(walk(dynamics, start, self.leapfrog_steps, self.iterations, rng, advance))
            starts.append(start.x[0])
            counts.append((objective.n_evaluations - before[0], objective.n_failures - before[1]))
        kept = slice(int(self.iterations * self.dropped), None)
        _warn(walks, kept)
        draws = np.concatenate([w.points.x[kept] for w in walks])
        path = {
            "lp": np.array([w.points.value for w in walks]),
            "accepted": np.array([w.accepted for w in walks]),
            "acceptance_rate": np.array([w.acceptance_rate for w in walks]),
            "diverging": np.array([w.diverging for w in walks]),
            "energy_error": np.array([w.energy_error for w in walks]),
        }
        stats = {name: values[:, kept].ravel() for name, values in path.items()}
        each = ("chain", "iteration")
        record: Record = {  # the full chains, with what was dropped
            "hyper_start": (("chain", "hyper"), np.array(starts)),
            "hyper_path": ((*each, "hyper"), np.array([w.points.x for w in walks])),
            **{f"hyper_path_{name}": (each, path[name]) for name in ("lp", "accepted", "diverging", "energy_error")},
            "hyper_path_failed": (each, np.array([w.failed for w in walks])),
            "hyper_n_evaluations": (("chain",), np.array(counts)[:, 0]),
            "hyper_n_failures": (("chain",), np.array(counts)[:, 1]),
        }
        return HyperResult.average(
            target, draws, stats["lp"], chains=self.chains, sampled=True, stats=stats, record=record
        )

    def _step_sizes(self, target: Target) -> Array:
        if not isinstance(self.step_size, Mapping):
            return np.full(target.start.size, float(self.step_size))
        free, given = sorted(set(target.owners.tolist())), sorted(self.step_size)
        if free != given:
            raise ValueError(f"step_size must be one number, or name each tuned parameter, {free}; it names {given}.")
        return np.array([float(self.step_size[name]) for name in target.owners])


def _start(dynamics: Dynamics, objective: Objective, chain: int, rng: np.random.Generator) -> Points:
    target = objective.target
    for _ in range(1 if chain == 0 else STARTS_TRIED):
        x = target.start if chain == 0 else target.start + START_SPREAD * rng.standard_normal(target.start.size)
        start = dynamics.points(np.clip(x, target.lower, target.upper)[None])
        if np.isfinite(start.value[0]):
            return start
    raise no_solution(objective, "the starting point" if chain == 0 else f"any of {STARTS_TRIED} starting points")


def _warn(walks: list[Moved], kept: slice) -> None:
    failed = sum(int(np.sum(w.failed)) for w in walks)
    diverged = sum(int(np.sum(w.diverging & ~w.failed)) for w in walks)
    total = sum(w.accepted.size for w in walks)
    if failed or diverged:
        warn(
            f"of {total} trajectories {failed} came to a point where the equations had no solution, and {diverged} "
            "diverged; they were rejected. Draws from nearby are missing: use a smaller step_size, bounds or priors, "
            "or allow noise in the likelihood.",
            ConvergenceWarning,
        )
    rate = float(np.mean([w.accepted[kept] for w in walks]))
    if rate < FEW_ACCEPTED:
        warn(
            f"only {rate:.0%} of the proposals were accepted, so that the draws are few different ones. Use a smaller "
            "step_size.",
            ConvergenceWarning,
        )
