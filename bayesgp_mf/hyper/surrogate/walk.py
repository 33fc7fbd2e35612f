"""Hybrid Monte Carlo on a surrogate: many chains in step, since one more costs next to nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import numpy as np

from bayesgp_mf.hyper.leapfrog import reflect
from bayesgp_mf.types import Array

LogDensities: TypeAlias = Callable[[Array], tuple[Array, Array]]
"""Log densities ``(c,)`` and gradients ``(c, p)`` at points ``(c, p)``."""

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
        value, gradient = self.log_density(x)
        accepted = 0.0
        for _ in range(trajectories):
            steps = int(rng.integers(LEAPFROG_STEPS[0], LEAPFROG_STEPS[1] + 1))
            momentum = rng.standard_normal(x.shape)
            threshold = np.log1p(-rng.random(x.shape[0]))  # of numbers in (0, 1]
            with np.errstate(over="ignore", invalid="ignore"):  # a trajectory that runs away is not accepted
                there, at, slope, final = self._trajectory(x, gradient, momentum, steps)
                gain = at - value + 0.5 * np.sum(momentum**2 - final**2, axis=1)
            gain[~np.isfinite(gain)] = -np.inf
            take = threshold < gain
            accepted += float(np.mean(np.exp(np.minimum(gain, 0.0))))
            x = np.where(take[:, None], there, x)
            value, gradient = np.where(take, at, value), np.where(take[:, None], slope, gradient)
        return Walked(x, value, accepted / trajectories)

    def _trajectory(self, x: Array, slope: Array, momentum: Array, steps: int) -> tuple[Array, Array, Array, Array]:
        momentum = momentum + 0.5 * self.step_size * slope
        value = np.empty(0)
        for step in range(steps):
            x, momentum = reflect(x + self.step_size * momentum, momentum, self.lower, self.upper)
            value, slope = self.log_density(x)
            momentum = momentum + (1.0 if step < steps - 1 else 0.5) * self.step_size * slope
        return x, value, slope, momentum
