r"""An average over hyperparameters: draws from a surrogate of evidence times prior, weighted by one solution each.

The log of evidence times prior is learned as a Gaussian process (`process`), along a search for the mode
and then at draws from itself. Draws from what was learned cost next to nothing; the exact density at each of them, over
that of the surrogate, is its weight.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.errors import ConvergenceWarning, warn
from bayesgp_mf.hyper.hmc import Dynamics, LogDensities, reflect
from bayesgp_mf.hyper.integrate import warn_dropped
from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.optimise import descend, no_solution, usual_solutions
from bayesgp_mf.hyper.pareto import FEWEST_WEIGHTS, LARGEST_K, largest_k, smooth
from bayesgp_mf.hyper.scores import KNOWN, EvidenceScore, Score, score_of_evidence
from bayesgp_mf.hyper.strategy import Advance, HyperResult, Strategy
from bayesgp_mf.hyper.surrogate.process import fit_process
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.methods import MethodName
from bayesgp_mf.parallel import Backend, Serial
from bayesgp_mf.types import Array

WALKERS = 64
"""Chains on the surrogate; they say where it is high, and how wide."""
FIRST_SD, FIRST_STEP = 1.0, 0.2
"""Standard deviation of a logarithm before anything is known of it; step size in units of it."""
DEEP = 10.0
"""A point of the search that is lower than its end by more nats than this and one for each parameter is of no use."""
SHARE, FEWEST_NEW = 1.0 / 3.0, 8
"""New points each time, by those that are there; at least."""
ROUNDS, EACH_ROUND = 4, 5
"""Of the walkers on each surrogate: rounds, after which the step size is mended, and trajectories in each."""
ACCEPTED = 0.8
"""Share of the trajectories that the step size aims at."""
LEAPFROG_STEPS = (5, 15)
"""Fewest and most of a trajectory, drawn for each: of one length it might come back to where it began."""
FURTHER_TO_LEARN, FURTHER_TO_SAMPLE = 0.7, 1.0 / 3.0
"""Standard deviations by which draws are further out than those of the density. A place where the surrogate is far too
low has a large weight; so it learns beyond where the density is, and nodes are drawn a little beyond."""


def power(further: float, p: int) -> float:
    """Return the power of a normal density in p dimensions whose draws are by so much further out than sqrt(p)."""
    return float((1.0 + further / np.sqrt(p)) ** -2)


def raised(log_densities: LogDensities, power: float) -> LogDensities:
    """Return log densities and gradients of a density raised to a power, below one of which it is wider."""

    def log_densities_raised(x: Array) -> tuple[Array, Array]:
        value, gradient = log_densities(x)
        return power * value, power * gradient

    return log_densities_raised


def walk_on(dynamics: Dynamics, x: Array, trajectories: int, rng: np.random.Generator) -> tuple[Array, Array, float]:
    """Return where chains at x ``(c, p)`` are after so many trajectories each, accepted or not.

    With the log densities there ``(c,)``, and the share of trajectories accepted. Each trajectory is reversible under
    the density, and so are several, of lengths that do not depend on where the chain is.
    """
    here, acceptance = dynamics.points(x), 0.0
    with np.errstate(over="ignore", invalid="ignore"):  # of a trajectory that runs away
        for _ in range(trajectories):
            steps = int(rng.integers(LEAPFROG_STEPS[0], LEAPFROG_STEPS[1] + 1))
            moved = dynamics.move(here, steps, rng)
            here, acceptance = moved.points, acceptance + float(np.mean(moved.acceptance_rate))
    return here.x, here.value, acceptance / trajectories


@dataclass(frozen=True, slots=True, eq=False)
class Learned:
    """The surrogate, and how it came about.

    Attributes
    ----------
    dynamics : Dynamics
        On the surrogate, for proposals.
    walkers : (w, p) array
        Draws from a wider density.
    x, value : (n, p) and (n,) array
        Points that it was learned from, with the log of evidence times prior.
    errors : (k,) array
        Standard deviation of the error at each batch of new points, before these were learned from, in nats.
    n_evaluations, n_failures : int
        Points asked for, and those without a solution.
    """

    dynamics: Dynamics
    walkers: Array
    x: Array
    value: Array
    errors: Array
    n_evaluations: int
    n_failures: int


def learn(
    target: Target,
    training: int,
    rng: np.random.Generator,
    advance: Advance,
    workers: Backend = Serial(),
    score: Score = EvidenceScore(KNOWN),
) -> Learned:
    """Learn the surrogate of a log evidence plus log prior, from at most ``training`` solutions with gradient."""
    objective = Objective(target, score)
    mode = descend(objective, target.start, advance)
    if not np.isfinite(mode.value):
        raise no_solution(objective, "the starting point")
    by_height = sorted(range(len(mode.seen)), key=lambda k: -mode.seen[k][1])[:training]
    lowest = mode.value - DEEP - mode.end.size
    seen = [mode.seen[k] for k in sorted(by_height) if mode.seen[k][1] >= lowest]
    centre, sd, step = mode.end, np.minimum(FIRST_SD, (target.upper - target.lower) / 4.0), FIRST_STEP
    spread = 0.5 * sd * rng.standard_normal((WALKERS, centre.size))
    walkers, _ = reflect(centre + spread, spread, target.lower, target.upper)
    errors: list[float] = []
    left = training - len(seen)
    wide, wider = (power(further, centre.size) for further in (FURTHER_TO_SAMPLE, FURTHER_TO_LEARN))

    def dynamics(power: float) -> Dynamics:
        return Dynamics(raised(surrogate, power), step * power**-0.5 * sd, target.lower, target.upper)

    while True:
        x, value, gradient = (np.array(each) for each in zip(*seen, strict=True))
        surrogate = fit_process(x, value, gradient, centre, sd)
        for _ in range(ROUNDS):
            walkers, _, acceptance = walk_on(dynamics(wider), walkers, EACH_ROUND, rng)
            step *= float(np.exp(acceptance - ACCEPTED))
        n_new = min(max(FEWEST_NEW, int(SHARE * value.size)), WALKERS, left)
        if n_new == 0:
            counts = objective.n_evaluations, objective.n_failures
            return Learned(dynamics(wide), walkers, x, value, np.array(errors), *counts)
        centre, sd = walkers.mean(axis=0), walkers.std(axis=0) * wider**0.5
        left -= n_new  # with a solution or without
        objective.forget()  # the last one is far away, the prior is nearer
        answers = objective.with_gradients(walkers[:n_new], workers)
        new = [(point, *answer) for point, answer in zip(walkers, answers, strict=False) if answer is not None]
        seen += new
        if new:
            points, exact, _ = (np.array(each) for each in zip(*new, strict=True))
            errors.append(float(np.std(exact - surrogate(points)[0])))
            advance(f"surrogate of {value.size} points off by {errors[-1]:.2f} nats")
        elif n_new >= FEWEST_NEW:  # the last batch may be of fewer, which may fail by chance
            raise no_solution(objective, f"any of {n_new} points around the most probable value")


PER_PARAMETER, FEWEST = 25, 60
"""Points to learn from, by default."""
USUAL_ROWS, MOST_ROWS = 4000, 12000
"""Of the surrogate's matrix, a row for each value and each entry of a gradient: by default, and at all."""
KNOWN_FOR_WEIGHTS = 1e-3
"""To how many nats the log evidence is known at the nodes: what this does to weights is far below their own spread."""
FEW_EFFECTIVE = 0.2
"""A smaller share of the nodes is warned about."""
FIRST_TRAJECTORIES, TRAJECTORIES = 20, 10
"""On the surrogate, from the wider density to the first nodes, and between nodes of the same walker."""


@dataclass(frozen=True, slots=True)
class Surrogate(Strategy):
    r"""Average over weighted draws from a Gaussian process that has learned the log of evidence times prior.

    Let :math:`\pi` be evidence times prior. A Gaussian process learns its logarithm, from values and gradients along a
    search for the mode, then at draws from what it has learned so far [1]_. Hybrid Monte Carlo on this surrogate
    :math:`\pi^*` costs next to nothing, and draws the nodes. One solution at each node gives its importance weight
    :math:`\pi/\pi^*`, Pareto-smoothed [2]_. So the averages are those under :math:`\pi`, even if :math:`\pi^*` is
    rough; a better one only makes more of the nodes effective.

    Parameters
    ----------
    nodes : int
        Number of nodes, at least 30.
    training : int, optional
        Largest number of solutions with gradient to learn from. By default 25 for each parameter, but at least 60, and
        at most as many as make 4000 values and derivatives.
    corrected : bool
        Weight by TAP's log evidence with its second-order correction (`solvers.second_order`), on a dense matrix.
    processes : int
        Number of nodes, or of points of a batch to learn from, solved at the same time, each in its own process with
        one BLAS thread. Starting processes takes some seconds, so this pays for thousands of cases.
    client : distributed.Client, optional
        A Dask cluster whose workers solve them instead. Up to 1000 cases the result is identical wherever it is
        computed; beyond, one process has more BLAS threads than a worker, and may round differently.
    method : str or Solver, optional
        The method whose evidence counts, if not that of the fit.

    Raises
    ------
    ValueError
        If an option is out of its range; on use, if the method has no evidence.

    Notes
    -----
    Use it for up to about ten parameters; with more the surrogate is rough, and few nodes are effective.
    ``hyper_pareto_k`` and ``hyper_ess`` in the group ``fit`` say how good it is. A warning comes if k-hat is above 0.7,
    or less than a fifth of the nodes are effective. Then use ``hyper="nuts"``, which needs tens of solutions for an
    effective draw, but no surrogate. With fewer than 2200 nodes the limit of k-hat is lower, 0.63 for the usual 500,
    and the warning asks for more nodes. Neither method finds a distant second mode.

    Priors are those of ``hyper="nuts"``: parameters stay within bounds, with a uniform prior in the logarithm between
    them if no other is given. A parameter with neither gets a log-normal prior around the kernel's own value, with
    standard deviation 1.5 in the logarithm. Nodes are solved from the prior, so that the density is a function of the
    hyperparameters alone. Nodes without a solution are dropped and counted (``hyper_n_nodes_failed``).

    References
    ----------
    .. [1] Rasmussen, C. E. (2003). Gaussian processes to speed up hybrid Monte Carlo for expensive Bayesian integrals.
       Bayesian Statistics 7, 651-659.
    .. [2] Vehtari, A., Simpson, D., Gelman, A., Yao, Y., & Gabry, J. (2024). Pareto smoothed importance sampling.
       Journal of Machine Learning Research 25(72), 1-58.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.hyper import LogNormal, Surrogate
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=20, random_seed=4)
    >>> idata = bgp.fit(toy.X, toy.y, bgp.kernels.Gaussian(1.0, 4.0), hyper=Surrogate(nodes=300), random_seed=1,
    ...     priors={"lengthscale": LogNormal(0.0, 1.0), "variance": LogNormal(1.0, 1.0)}, progress=False)
    >>> bool(idata["fit"]["hyper_pareto_k"] < 0.5), bool(idata["fit"]["hyper_ess"] > 150)
    (True, True)
    """

    name = "surrogate"
    averages: ClassVar[bool] = True
    records: ClassVar[tuple[str, ...]] = ("training", "batch")
    nodes: int = 500
    training: int | None = None
    corrected: bool = False
    processes: int = 1
    client: Any = field(default=None, repr=False, compare=False)
    method: MethodName | Solver | None = None

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)  # not by super(): slots make this another class
        check_integers(1, nodes=self.nodes)
        if self.nodes < FEWEST_WEIGHTS:
            raise ValueError(
                f"nodes must be at least {FEWEST_WEIGHTS}, from whose weights one can tell whether they average out, "
                f"got {self.nodes}."
            )
        if self.training is not None:
            check_integers(1, training=self.training)

    def solutions(self, target: Target) -> int:
        """Return how many solutions it will take, about: the search, the points to learn from, nodes, posteriors."""
        p = target.start.size
        return usual_solutions(p, 1) + self._training(p) + 2 * self.nodes

    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Learn, draw nodes, and weigh them.

        Raises
        ------
        ValueError
            If the surrogate would have to learn from too many numbers.
        MemoryError
            If the solutions at all nodes would not fit into this machine's memory.
        ConvergenceError
            If the inner solver found no solution at the start, at any point of a batch of eight or more to learn
            from, or at any node.

        Warns
        -----
        ConvergenceWarning
            If nodes were dropped, or the weights do not average out.
        """
        training = self._training(target.start.size)
        target.check_memory(self.nodes)
        target, by_default = target.with_default_priors()
        with closing(self.workers()) as pool:
            score = score_of_evidence(KNOWN, corrected=self.corrected)
            learned = learn(target, training, rng, advance, pool, score)
            nodes, log_density, times = draw(learned, self.nodes, rng)
            score = score_of_evidence(KNOWN_FOR_WEIGHTS, corrected=self.corrected)
            objective = Objective(target, score, from_prior=True)
            values = objective.at_nodes(nodes, advance, pool)
        kept = np.isfinite(values)
        if not kept.any():
            raise no_solution(objective, f"any of {len(nodes)} draws from the surrogate")
        of_draw = np.repeat(np.arange(int(kept.sum())), times[kept])
        log_weights, k_hat = smooth((values - log_density)[kept][of_draw])
        of_draws = np.exp(log_weights - logsumexp(log_weights))
        weights = np.bincount(of_draw, weights=of_draws).astype(np.float64)
        ess = 1.0 / float(weights @ weights)
        if of_draw.size < self.nodes:
            warn_dropped(self.nodes - of_draw.size, self.nodes)
        _warn_of_weights(of_draw.size, k_hat, ess)
        record = {
            "hyper_start": (("hyper",), target.start),
            "hyper_default_prior": (("hyper",), by_default),
            "hyper_training": (("training", "hyper"), learned.x),
            "hyper_training_lp": (("training",), learned.value),
            "hyper_surrogate_error": (("batch",), learned.errors),
            "hyper_node": (("node", "hyper"), nodes[kept]),
            "hyper_node_weight": (("node",), weights),
            "hyper_pareto_k": ((), np.array(k_hat)),
            "hyper_ess": ((), np.array(ess)),
            "hyper_n_evaluations": ((), np.array(learned.n_evaluations + objective.n_evaluations)),
            "hyper_n_failures": ((), np.array(learned.n_failures + objective.n_failures)),
            "hyper_n_nodes_failed": ((), np.array(np.sum(~kept))),
        }
        return HyperResult.average(
            target,
            nodes[kept],
            values[kept],
            weights,
            sampled=True,
            record=record,
            priors=target.priors,
            solutions=objective.solutions_at(nodes[kept]),
        )

    def _training(self, p: int) -> int:
        usual = max(1, min(max(FEWEST, PER_PARAMETER * p), USUAL_ROWS // (p + 1)))
        training = usual if self.training is None else self.training
        if training * (p + 1) > MOST_ROWS:
            raise ValueError(
                f"training = {training} points, each with a value and {p} derivatives, make a surrogate of "
                f"{training * (p + 1)} numbers, and {MOST_ROWS} is the most. Use training <= {MOST_ROWS // (p + 1)}."
            )
        return training


def draw(learned: Learned, n: int, rng: np.random.Generator) -> tuple[Array, Array, NDArray[np.intp]]:
    """Return the distinct ones among n draws from the surrogate, their log densities, and how often each was drawn.

    Those of a walker follow one another; one none of whose trajectories was accepted is where it was before.
    """
    walkers, _, _ = walk_on(learned.dynamics, learned.walkers, FIRST_TRAJECTORIES, rng)
    draws, values = [], []
    for _ in range(0, n, len(walkers)):
        walkers, value, _ = walk_on(learned.dynamics, walkers, TRAJECTORIES, rng)
        draws.append(walkers)
        values.append(value)
    by_walker = np.arange(len(draws) * len(walkers)).reshape(len(draws), -1).T.ravel()
    by_walker = by_walker[by_walker < n]
    x, value = np.concatenate(draws)[by_walker], np.concatenate(values)[by_walker]
    _, first, times = np.unique(x, axis=0, return_index=True, return_counts=True)
    order = np.argsort(first)
    return x[first[order]], value[first[order]], times[order]


def _warn_of_weights(n_kept: int, k_hat: float, ess: float) -> None:
    largest = largest_k(max(n_kept, FEWEST_WEIGHTS))
    if k_hat > LARGEST_K or ess < FEW_EFFECTIVE * n_kept:
        remedy = (
            "The surrogate is too rough. Let it learn from more points, Surrogate(training=...), fix parameters, or "
            "use hyper='nuts'."
        )
    elif k_hat > largest:
        remedy = f"So few nodes bear a k-hat of {largest:.2f} only. Take more, Surrogate(nodes=...)."
    else:
        return
    warn(
        f"the weights of {n_kept} nodes may not average out: Pareto k-hat {k_hat:.2f}, {ess:.0f} effective nodes. "
        f"{remedy}",
        ConvergenceWarning,
    )
