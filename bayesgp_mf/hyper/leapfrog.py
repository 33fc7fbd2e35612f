r"""Hybrid (Hamiltonian) Monte Carlo on any smooth log density, with walls.

The energy is :math:`H = -\log p(x) + \tfrac12 \pi^T \pi`, momenta :math:`\pi \sim N(0, I)`, and a leapfrog step is

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

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.types import Array

LogDensity: TypeAlias = Callable[[Array], tuple[float, Array] | None]
"""Log density and gradient at a point ``(p,)``, or None where it cannot be computed."""

LARGEST_ENERGY_ERROR = 1000.0
"""Above this the trajectory has left every place where the steps make sense."""


class Point(NamedTuple):
    """A position ``(p,)``, with the log density and its gradient there."""

    x: Array
    value: float
    gradient: Array


@dataclass(frozen=True, slots=True, eq=False)
class Dynamics:
    """How trajectories are made.

    Parameters
    ----------
    log_density : callable
        Log density and gradient at a point, or None.
    step_size : (p,) array
        Of each coordinate.
    steps : int
        Leapfrog steps of a trajectory.
    lower, upper : (p,) array
        Walls; infinite where there is none.
    """

    log_density: LogDensity
    step_size: Array
    steps: int
    lower: Array
    upper: Array

    def point(self, x: Array) -> Point | None:
        """Return the point at a position, or None where the density cannot be computed."""
        answer = self.log_density(x)
        return None if answer is None else Point(x, *answer)

    def trajectory(self, point: Point, momentum: Array) -> tuple[Point, Array] | None:
        """Return where a trajectory ends, and with which momentum, or None if it came where there is no density."""
        for _ in range(self.steps):
            momentum = momentum + 0.5 * self.step_size * point.gradient
            x, momentum = reflect(point.x + self.step_size * momentum, momentum, self.lower, self.upper)
            there = self.point(x)
            if there is None:
                return None
            point, momentum = there, momentum + 0.5 * self.step_size * there.gradient
        return point, momentum


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


@dataclass(frozen=True, slots=True, eq=False)
class Walk:
    """All iterations of a chain, also those to be thrown away.

    Attributes
    ----------
    path : (iterations, p) array
        Where the chain stood after each iteration.
    log_density : (iterations,) array
        There.
    energy_error : (iterations,) array
        By which the energy of the proposal exceeds that at the start of its trajectory; inf if there was none.
    accepted, failed : (iterations,) array of bool
        Whether the proposal was taken; whether there was none, since the trajectory came where there is no density.
    """

    path: Array
    log_density: Array
    energy_error: Array
    accepted: NDArray[np.bool_]
    failed: NDArray[np.bool_]

    @property
    def diverging(self) -> NDArray[np.bool_]:
        """Whether the energy error of each proposal is above 1000, or there was none."""
        return np.asarray(self.energy_error > LARGEST_ENERGY_ERROR)

    @property
    def acceptance_rate(self) -> Array:
        """The probability of each proposal to be accepted."""
        return np.exp(-np.maximum(self.energy_error, 0.0))


def walk(
    dynamics: Dynamics, start: Point, iterations: int, rng: np.random.Generator, advance: Callable[[str], None]
) -> Walk:
    """Run a chain: each iteration draws new momenta, follows a trajectory, and accepts its end or stays.

    Parameters
    ----------
    dynamics : Dynamics
        How trajectories are made.
    start : Point
        Where the chain starts.
    iterations : int
        How many.
    rng : numpy.random.Generator
        Source of momenta and of the decisions.
    advance : callable
        Called after each iteration.
    """
    here = start
    path, values = np.empty((iterations, here.x.size)), np.empty(iterations)
    error, accepted = np.full(iterations, np.inf), np.zeros(iterations, dtype=np.bool_)
    failed = np.zeros(iterations, dtype=np.bool_)
    for i in range(iterations):
        momentum = rng.standard_normal(here.x.size)
        threshold = np.log1p(-rng.random())  # of a number in (0, 1]
        end = dynamics.trajectory(here, momentum)
        if end is None:
            failed[i] = True
        else:
            there, final = end
            change = (here.value - there.value) + 0.5 * float(final @ final - momentum @ momentum)
            error[i] = change if np.isfinite(change) else np.inf
            accepted[i] = threshold < -error[i]
            if accepted[i]:
                here = there
        path[i], values[i] = here.x, here.value
        advance(f"log density {here.value:.2f}, {np.mean(accepted[: i + 1]):.0%} accepted")
    return Walk(path, values, error, accepted, failed)
