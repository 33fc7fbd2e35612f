"""Hybrid Monte Carlo on a surrogate: many chains in step, since one more costs next to nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from bayesgp_mf.hyper.leapfrog import Dynamics, LogDensities
from bayesgp_mf.types import Array

LEAPFROG_STEPS = (5, 15)
"""Fewest and most of a trajectory, drawn for each: of one length it might come back to where it began."""


class Walked(NamedTuple):
    """Where chains came, ``(c, p)``, the log densities there ``(c,)``, and the share of trajectories accepted."""

    x: Array
    value: Array
    acceptance: float


@dataclass(frozen=True, slots=True, eq=False)
class SurrogateWalk:
    """How chains go on: `leapfrog` has the equations.

    Parameters
    ----------
    surrogate : callable
        Log densities and gradients at points.
    power : float
        To which the density is raised; below one, it is wider.
    step_size : (p,) array
        Of each coordinate.
    lower, upper : (p,) array
        Walls; infinite where there is none.
    """

    surrogate: LogDensities
    power: float
    step_size: Array
    lower: Array
    upper: Array

    def log_density(self, x: Array) -> tuple[Array, Array]:
        """Return log densities ``(c,)`` and gradients ``(c, p)`` at points ``(c, p)``, with the power."""
        value, gradient = self.surrogate(x)
        return self.power * value, self.power * gradient

    def __call__(self, x: Array, trajectories: int, rng: np.random.Generator) -> Walked:
        """Return where chains at x ``(c, p)`` are after so many trajectories each, accepted or not.

        Each is reversible under the density, and so are several, of lengths that do not depend on where the chain is.
        """
        dynamics, acceptance = Dynamics(self.log_density, self.step_size, self.lower, self.upper), 0.0
        here = dynamics.points(x)
        with np.errstate(over="ignore", invalid="ignore"):  # of a trajectory that runs away
            for _ in range(trajectories):
                steps = int(rng.integers(LEAPFROG_STEPS[0], LEAPFROG_STEPS[1] + 1))
                moved = dynamics.move(here, steps, rng)
                here, acceptance = moved.points, acceptance + float(np.mean(moved.acceptance_rate))
        return Walked(here.x, here.value, acceptance / trajectories)
