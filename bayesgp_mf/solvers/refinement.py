r"""How well the equations hold for weights as they are returned, and better weights where they do not.

An iteration that stands still may stand still at a number of rounding. What does not lie is the solution itself: with
f = K alpha and the site of each case, its mean-field equation :math:`\alpha_i = d_{1,i}(m_i, \lambda_i)` holds or does
not, and what is missing is felt in units of the posterior. Case by case, a site that was put right would move its mean
by :math:`\lambda_i |d_{1,i} - \alpha_i|`; all together, Newton's step at fixed cavity variances moves the weights by

.. math:: \delta\alpha = (I + W K)^{-1}\, (1 + W \lambda) \odot (d_1 - \alpha), \qquad \delta f = K\, \delta\alpha .

The larger of the two, in posterior standard deviations, is how well the means are known. Weights of size alpha are
known to eps alpha only, which moves the means too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from bayesgp_mf.inference.solution import Info
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.corrections import Sites
from bayesgp_mf.matrices.matrix import Matrix
from bayesgp_mf.types import Array

AT_TOLERANCE = 1e-8
"""Change of the site parameters to which the following is meant; where a coarser one was asked for, in proportion."""
NEGLIGIBLE = 1e-7
"""Of a mean, in posterior standard deviations: an error that nothing need be done about."""
MOST_REFINEMENTS = 3
HALVES = 0.5
"""A refinement that does not make the error smaller than this part of it is the last."""
EPS = float(np.finfo(np.float64).eps)
MOST_ROWS = 20_000
"""Cases up to which all rows of the Gram matrix are gone through; above, a bound has to do."""
SPREAD = 0.2
"""Standard deviation of the rounding of a number, in units of eps times it: 1/sqrt(12) of the last place, averaged."""


class Weighted(Protocol):
    """Weights under the sites that they belong to."""

    @property
    def alpha(self) -> Array:
        """Weights ``(n,)``."""

    @property
    def correction(self) -> Sites:
        """R of their sites."""


P = TypeVar("P", bound=Weighted)


class Gap(NamedTuple):
    """What the equations lack.

    Attributes
    ----------
    own : (n,) array
        By how much each site, put right on its own, would move the mean of its case, in latent units.
    drive : (n,) array
        The shift of the sites to which Newton's step at fixed variances is the answer.
    """

    own: Array
    drive: Array


def refined(
    matrix: Matrix,
    first: P,
    gap: Callable[[P], Gap],
    moved: Callable[[P, Array], P],
    sd: Array,
    info: Info,
    negligible: float = NEGLIGIBLE,
) -> tuple[P, float]:
    """Return the state whose equations hold best, and the largest error of its means, in posterior standard deviations.

    Parameters
    ----------
    matrix : Matrix
        K.
    first : state
        Weights and R of their sites.
    gap : callable
        Returns what the equations lack at a state.
    moved : callable
        Returns a state with other weights ``(n,)``.
    sd : (n,) array
        Posterior standard deviations, in latent units; zero for a value that is certain.
    info : Info
        How the iteration ended: what was left on purpose is not refined.
    negligible : float
        An error that nothing need be done about, in posterior standard deviations.

    Notes
    -----
    O(n) where nothing need be done, and O(n^2) for each refinement.
    """
    best, smallest, here = first, float("inf"), first
    negligible *= coarseness(info.residual)
    for _ in range(1 + MOST_REFINEMENTS):
        own, drive = gap(here)
        error, step = in_deviations(own, sd), None
        if not error <= negligible:
            step = here.correction.weights(drive)
            error = max(error, in_deviations(matrix @ step, sd))
        if not error < smallest:
            break
        is_last = step is None or error > HALVES * smallest
        best, smallest = here, error
        if step is None or is_last:
            break
        here = moved(here, here.alpha + step)
    return best, max(smallest, rounding_of_weights(matrix, best, sd))


def in_deviations(moved: Array, sd: Array) -> float:
    """Return the largest of some differences of means ``(n,)``, in posterior standard deviations."""
    with np.errstate(all="ignore"):
        ratio = np.where(sd > 0, np.abs(moved) / sd, 0.0)
    return float(ratio.max())  # NaN stays


def rounding_of_weights(matrix: Matrix, state: Weighted, sd: Array) -> float:
    """Return by how much the rounding of weights moves the means, in posterior standard deviations."""
    most = most_rounding_of_weights(matrix, state)
    if most <= NEGLIGIBLE or sd.size > MOST_ROWS:
        return most
    with np.errstate(over="ignore"):
        rows = (np.arange(sd.size)[block] for block in blocks(sd.size))
        moved = np.sqrt(np.concatenate([matrix.rows(some) ** 2 @ state.alpha**2 for some in rows]))
    return min(most, SPREAD * EPS * in_deviations(moved, sd))


def most_rounding_of_weights(matrix: Matrix, state: Weighted) -> float:
    """Return what `rounding_of_weights` does not exceed, in O(n)."""
    prior = matrix.diagonal()
    with np.errstate(all="ignore"):
        # a posterior variance is at least K_ii / (1 + sum_j W_j K_jj), as if all cases had measured the same value
        information = float(prior @ np.maximum(state.correction.site_precision, 0.0))
        return rounding_of_sums(information, float(prior @ state.alpha**2))


def rounding_of_sums(information: float, weight: float) -> float:
    """Return the same from the sums over cases of K_ii times the positive sites, and of K_ii alpha_i^2."""
    return SPREAD * EPS * float(np.sqrt((1.0 + information) * weight))


def coarseness(tolerance: float) -> float:
    """Return by how much more is left on purpose at a tolerance than at the default one."""
    return max(1.0, tolerance / AT_TOLERANCE)
