r"""Two moves in an orthant that leave a Gaussian cut to it invariant, both along ellipses and without rejection.

From a state y > 0, with covariance C in the prior, take w ~ N(0, C) and the ellipse
:math:`y(\theta) = y \cos\theta + w \sin\theta`, on which the prior density of y and w together is constant. With
:math:`\varphi_i = \operatorname{atan2}(w_i, y_i)`, y_i is positive for :math:`|\theta - \varphi_i| < \pi/2`.

*Slice*: linear elliptical slice sampling [1]_. Each of these arcs holds :math:`\theta = 0`, so that what they have in
common is a single one, :math:`(\max \varphi - \pi/2, \min \varphi + \pi/2)`; the next state is drawn from it uniformly.
The arc has a length of the order of 1/n, and an independent state takes of the order of n^2 moves.

*Reflect*: exact Hamiltonian Monte Carlo [2]_. The ellipse is the path of a particle with velocity w. It is followed
over a quarter turn, and where y_i becomes zero, the velocity is reflected in the metric of C:
:math:`\dot y \leftarrow \dot y - 2\, (\dot y_i / C_{ii})\, C_{\cdot i}`. A move takes O(n) for each reflection
and brings a state that is nearly independent.

References
----------
.. [1] Gessner, A., Kanjilal, O., & Hennig, P. (2020). Integrals over Gaussians under linear domain constraints.
   AISTATS, PMLR 108, 2764-2774. https://proceedings.mlr.press/v108/gessner20a.html
.. [2] Pakman, A., & Paninski, L. (2014). Exact Hamiltonian Monte Carlo for truncated multivariate Gaussians. Journal of
   Computational and Graphical Statistics 23, 518-542. https://doi.org/10.1080/10618600.2013.788448
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeAlias

import numpy as np

from bayesgp_mf.errors import ConvergenceError, Status
from bayesgp_mf.types import Array

Move: TypeAlias = Callable[[Array, Array, Array, np.random.Generator], Array]
"""From a state y ``(n,)``, a draw w ``(n,)`` from the prior and the covariance ``(n, n)`` to the next state."""
MOST_REFLECTIONS = 1000
"""For each variable, in one move; it takes less than one."""


def slice_move(y: Array, w: Array, covariance: Array, rng: np.random.Generator) -> Array:
    """Return a state drawn uniformly from the allowed arc of the ellipse through ``y`` and ``w``."""
    angle = np.arctan2(w, y)
    low, high = np.max(angle) - 0.5 * np.pi, np.min(angle) + 0.5 * np.pi
    theta = low + (high - low) * rng.random()
    return _unless_rounded_out(y * np.cos(theta) + w * np.sin(theta), y)


def reflect_move(y: Array, w: Array, covariance: Array, rng: np.random.Generator) -> Array:
    """Return the state a quarter turn from ``y`` with the velocity ``w``, reflected at each boundary in between.

    Where there is no end to that, as in the corner of a covariance singular but for rounding, raise a ConvergenceError.
    """
    start, left = y, 0.5 * np.pi
    for _ in range(MOST_REFLECTIONS * y.size):
        # at which each variable becomes zero; one just reflected does so after half a turn
        angles = np.arctan2(w, y) + 0.5 * np.pi
        i = int(np.argmin(angles))
        turn = min(float(angles[i]), left)
        cosine, sine = np.cos(turn), np.sin(turn)
        y, w = y * cosine + w * sine, w * cosine - y * sine
        left -= turn
        if left <= 0.0:
            return _unless_rounded_out(y, start)
        w = w - (2.0 * w[i] / covariance[i, i]) * covariance[:, i]
        y[i] = 0.0
    raise ConvergenceError(
        f"a path in an orthant of {y.size} variables was reflected {MOST_REFLECTIONS * y.size} times without reaching "
        "its end: the covariance is close to singular. Add noise to its diagonal.",
        Status.MAX_ITERATIONS,
    )


def _unless_rounded_out(moved: Array, y: Array) -> Array:
    """Return the new state, or the old one if the new lies on a boundary, where only rounding can put it."""
    return moved if np.all(moved > 0) else y


MoveName: TypeAlias = Literal["reflect", "slice"]
"""The keys of `MOVES`, for editors and type checkers."""

MOVES: dict[str, Move] = {"reflect": reflect_move, "slice": slice_move}


def get_move(name: str) -> Move:
    """Return a move by name, or raise a ValueError."""
    if not isinstance(name, str) or name not in MOVES:
        raise ValueError(f"move must be one of {sorted(MOVES)}, got {name!r}.")
    return MOVES[name]
