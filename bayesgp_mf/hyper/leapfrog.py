r"""Hybrid (Hamiltonian) Monte Carlo on any smooth log density, with walls, of one chain or of many in step.

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

from bayesgp_mf.hyper.result import Advance
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
