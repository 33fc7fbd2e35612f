"""How the surrogate of evidence times prior is learned: along a search for the mode, then at draws from itself."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bayesgp_mf.hyper.leapfrog import Dynamics, LogDensities, reflect
from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.optimise import descend, no_solution
from bayesgp_mf.hyper.result import Advance
from bayesgp_mf.hyper.scores import KNOWN, EvidenceScore, Score
from bayesgp_mf.hyper.surrogate.process import fit_process
from bayesgp_mf.hyper.target import Target
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
ROUNDS, TRAJECTORIES = 4, 5
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
            walkers, _, acceptance = walk_on(dynamics(wider), walkers, TRAJECTORIES, rng)
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
