r"""An average over hyperparameters: hybrid Monte Carlo on evidence times prior (Barber & Williams).

`Dynamics` is that of any smooth log density, with walls, of one chain or of many in step. The energy is
:math:`H = -\log p(x) + \tfrac12 \pi^T \pi`, momenta :math:`\pi \sim N(0, I)`, and a leapfrog step is

.. math:: \pi \leftarrow \pi + \tfrac12 \epsilon \nabla \log p, \quad x \leftarrow x + \epsilon \pi, \quad
          \pi \leftarrow \pi + \tfrac12 \epsilon \nabla \log p

with a step size for each coordinate, which is the same as one step size in rescaled coordinates. Where the density ends
at a wall, x is reflected and its momentum turned round ([2]_, section 5.5.1.5). Each step can be retraced and
preserves volume, so that Metropolis's rule on the change of energy leaves the density invariant [1]_.

References
----------
.. [1] Duane, S., Kennedy, A. D., Pendleton, B. J., & Roweth, D. (1987). Hybrid Monte Carlo. Physics Letters B 195,
   216-222. https://doi.org/10.1016/0370-2693(87)91197-X
.. [2] Neal, R. M. (2011). MCMC using Hamiltonian dynamics. Handbook of Markov Chain Monte Carlo, chapter 5.
   https://doi.org/10.1201/b10905-6
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.errors import ConvergenceWarning, warn
from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.optimise import START_SPREAD, no_solution
from bayesgp_mf.hyper.scores import EvidenceScore
from bayesgp_mf.hyper.strategy import Advance, HyperResult, Record, Strategy
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.methods import MethodName
from bayesgp_mf.types import Array

LogDensities: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Log densities ``(c,)`` and gradients ``(c, p)`` at points ``(c, p)``; not finite where there is no density."""

LARGEST_ENERGY_ERROR = 1000.0
"""Above this the trajectory has left every place where the steps make sense."""


class Points(NamedTuple):
    """Positions of chains ``(c, p)``, with the log densities ``(c,)`` and their gradients ``(c, p)`` there."""

    x: Array
    value: Array
    gradient: Array


class Moved(NamedTuple):
    """What became of one trajectory each of c chains, or of c trajectories of one.

    Attributes
    ----------
    points : Points
        Where the chain stood after it.
    energy_error : (c,) array
        By which the energy of the proposal exceeds that at the start of its trajectory; inf if there was none.
    accepted : (c,) array of bool
        Whether the proposal was taken.
    """

    points: Points
    energy_error: Array
    accepted: NDArray[np.bool_]

    @property
    def failed(self) -> NDArray[np.bool_]:
        """Whether there was no proposal, since the trajectory came where there is no density."""
        return np.isposinf(self.energy_error)

    @property
    def diverging(self) -> NDArray[np.bool_]:
        """Whether the energy error of each proposal is above 1000, or there was none."""
        return np.asarray(self.energy_error > LARGEST_ENERGY_ERROR)

    @property
    def acceptance_rate(self) -> Array:
        """The probability of each proposal to be accepted."""
        return np.exp(-np.maximum(self.energy_error, 0.0))


@dataclass(frozen=True, slots=True, eq=False)
class Dynamics:
    """How trajectories are made.

    Parameters
    ----------
    log_densities : callable
        Log densities and gradients at points; `one_by_one` makes it of one that knows single points.
    step_size : (p,) array
        Of each coordinate.
    lower, upper : (p,) array
        Walls; infinite where there is none.
    """

    log_densities: LogDensities
    step_size: Array
    lower: Array
    upper: Array

    def points(self, x: Array) -> Points:
        """Return the points at positions ``(c, p)``."""
        return Points(x, *self.log_densities(x))

    def trajectories(self, points: Points, momentum: Array, steps: int) -> tuple[Points, Array]:
        """Return where trajectories end, and with which momenta; one that came where there is no density has no value.

        They end as soon as all have come there.
        """
        momentum = momentum + 0.5 * self.step_size * points.gradient
        exists = np.ones(points.value.size, dtype=np.bool_)
        for step in range(steps):
            x, momentum = reflect(points.x + self.step_size * momentum, momentum, self.lower, self.upper)
            points = self.points(x)
            exists &= np.isfinite(points.value)
            if not exists.any():
                break
            # the half step that ends this one and the half that begins the next are one
            momentum = momentum + (1.0 if step < steps - 1 else 0.5) * self.step_size * points.gradient
        return points._replace(value=np.where(exists, points.value, np.nan)), momentum

    def move(self, here: Points, steps: int, rng: np.random.Generator) -> Moved:
        """Draw new momenta, follow the trajectories, and let each chain accept the end of its own or stay."""
        momentum = rng.standard_normal(here.x.shape)
        threshold = np.log1p(-rng.random(here.value.size))  # of numbers in (0, 1]
        there, final = self.trajectories(here, momentum, steps)
        with np.errstate(over="ignore", invalid="ignore"):  # a trajectory that runs away is not accepted
            error = here.value - there.value + 0.5 * np.sum(final**2 - momentum**2, axis=1)
        error[~np.isfinite(error)] = np.inf
        taken = threshold < -error
        moved = Points(
            np.where(taken[:, None], there.x, here.x),
            np.where(taken, there.value, here.value),
            np.where(taken[:, None], there.gradient, here.gradient),
        )
        return Moved(moved, error, taken)


def one_by_one(log_density: Callable[[Array], tuple[float, Array] | None]) -> LogDensities:
    """Return at many points a log density that knows single ones, and says None of those where there is none."""

    def log_densities(x: Array) -> tuple[Array, Array]:
        answers = [log_density(point) or (np.nan, np.full(point.size, np.nan)) for point in x]
        return np.array([value for value, _ in answers]), np.array([gradient for _, gradient in answers])

    return log_densities


def reflect(x: Array, momentum: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Return where positions ``(..., p)`` that went through walls are, reflected from these, and the momenta.

    What is not finite stays as it is; the density says that there is none.
    """
    outside = np.isfinite(x) & ((x > upper) | (x < lower))
    if not outside.any():
        return x, momentum
    between_two = np.isfinite(upper - lower)
    width = np.where(between_two, upper - lower, 1.0)
    beyond = np.where(outside & between_two, x, 0.0) - np.where(between_two, lower, 0.0)
    along = np.mod(beyond, 2.0 * width)  # there and back
    back = along > width
    folded = np.minimum(np.where(between_two, lower, 0.0) + np.where(back, 2.0 * width - along, along), upper)
    with np.errstate(invalid="ignore"):  # where x and a wall are both infinite, and nothing is taken from here
        one_wall = np.where(x > upper, 2.0 * upper - x, 2.0 * lower - x)
    turned = outside & (back | ~between_two)
    return np.where(outside, np.where(between_two, folded, one_wall), x), np.where(turned, -momentum, momentum)


def walk(
    dynamics: Dynamics, start: Points, steps: int, iterations: int, rng: np.random.Generator, advance: Advance
) -> Moved:
    """Run one chain from one point, and return all its iterations, also those to be thrown away.

    Each is a trajectory of as many ``steps``; ``advance`` is called after it.
    """
    here, moves, n_accepted = start, list[Moved](), 0
    for i in range(iterations):
        moves.append(dynamics.move(here, steps, rng))
        here, n_accepted = moves[-1].points, n_accepted + int(moves[-1].accepted[0])
        advance(f"log density {here.value[0]:.2f}, {n_accepted / (i + 1):.0%} accepted")
    points, error, accepted = zip(*moves, strict=True)
    path = (np.concatenate(each) for each in zip(*points, strict=True))
    return Moved(Points(*path), np.concatenate(error), np.concatenate(accepted))


FEW_ACCEPTED = 0.3
"""A chain that accepts fewer of its proposals than this is warned about."""
STARTS_TRIED = 10
"""Random starting points tried for a further chain."""


@dataclass(frozen=True, slots=True, eq=False)
class HybridMonteCarlo(Strategy):
    r"""Draw the hyperparameters from evidence times prior, by hybrid Monte Carlo on their logarithms.

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
        check_integers(1, iterations=self.iterations, leapfrog_steps=self.leapfrog_steps, chains=self.chains)
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
        known = ("accepted", "acceptance_rate", "diverging", "energy_error")
        path = {"lp": np.array([w.points.value for w in walks])}
        path |= {name: np.array([getattr(w, name) for w in walks]) for name in known}
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
