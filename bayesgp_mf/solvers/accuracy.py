r"""The last word before a solution is called solved: whether its numbers are finite, and known.

A Gram matrix is known to eps sqrt(K_ii K_jj), whatever made it, which moves the log evidence by way of its
derivative.

There is a log evidence in extended precision, where its sum in floats would lose digits.

.. math:: \sum_i \log Z_i(m_i, \lambda_i) - \tfrac12 \alpha^T f + \tfrac12 \sum_i \lambda_i \alpha_i^2
          - \tfrac12 \log\det(I + K W) + \tfrac12 \sum_i \log(1 + W_i \lambda_i), \qquad f = K\alpha,\;
          m = f - \lambda\odot\alpha

is TAP's, and with :math:`\lambda = 0` that of a Gaussian at the mode. It is stationary in what the iteration leaves
unsettled; but where K is nearly singular and the noise small, its terms are large and nearly cancel. The Gram matrix is
taken as it is: what its own rounding does is another matter (`assessed`).

Here is also how well the equations hold for weights as they are returned, and better weights where they do not.

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
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.errors import ConvergenceError, NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Info, Solution
from bayesgp_mf.inference.solver import GramGradient
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.matrices.matrix import Matrix, Sites
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
LARGEST_MEAN_ERROR = 2.5e-5
"""In posterior standard deviations; means that are not known to this are no answer (measured: the true error is at most
four times what `refined` finds, so that means are right to 1e-4)."""
LARGEST_ROUNDING = 5e-4
"""In nats; a log evidence that rounding in the Gram matrix moves by more than this is no answer ..."""
VISIBLE_ROUNDING = 1e-7
"""... and from here on the last digits of its sum are lost, too."""
NO_FACTOR = "the matrix of the sites, I + K W, is no longer positive definite"
"""What rounding may do, too."""
MOST_CASES = 300
"""A factor in extended precision is made without BLAS: half a second for so many cases."""
Extended = NDArray[np.longdouble]


def assessed(
    solution: Solution,
    matrix: Matrix,
    mean_error: float,
    spread: Array,
    gradient: Callable[[Solution], GramGradient],
    precisely: Callable[[], float | None] | None = None,
    lost: float = 0.0,
) -> Solution:
    """Return a solution that says how well its numbers are known.

    Parameters
    ----------
    solution : Solution
        As it would be returned.
    matrix : Matrix
        K.
    mean_error : float
        How far the means are off, in posterior standard deviations.
    spread : (n,) or (n, C) array
        Of the derivative (alpha alpha' - S)/2 of the log evidence, where S has no larger trace with K than this has.
    gradient : callable
        Returns that derivative, which is asked for only where the bound does not settle it.
    precisely : callable, optional
        Returns the log evidence with more digits, or None.
    lost : float
        What its sum has lost by cancellation (`lost_in_sum`), in nats: a root of low rank has no entries whose rounding
        would tell of that; or what rounding does to the density of a case given the others.
    """
    alpha, evidence = solution.alpha, solution.evidence
    with np.errstate(over="ignore"):
        # the errors of K taken as independent, and at most
        rounding = 0.5 * EPS * float(np.sum(matrix.diagonal() * (alpha**2 + np.abs(spread)).T))
    if rounding > LARGEST_ROUNDING:
        rounding = matrix.rounding(gradient(solution))
    if precisely is not None and VISIBLE_ROUNDING < rounding <= LARGEST_ROUNDING:
        value = precisely()
        evidence = evidence if value is None else replace(evidence, value=value)
    rounding = float(np.maximum(rounding, lost))  # NaN stays
    return replace(solution, evidence=evidence, info=replace(solution.info, mean_error=mean_error, rounding=rounding))


def lost_in_sum(total: float, *terms: Array) -> float:
    """Return by how much rounding of some terms moves their sum, beyond what rounding of the sum itself does."""
    with np.errstate(over="ignore", invalid="ignore"):
        length = np.sqrt(sum(np.vdot(part, part) for part in terms))
        return EPS * float(np.maximum(length - abs(total), 0.0))  # NaN stays


def require_accurate(solution: Solution) -> Solution:
    """Return a solution whose numbers are finite and, if it is called solved, known.

    Raises
    ------
    ConvergenceError
        If some number is not finite, whatever `Control.throw`.
    NotPositiveDefiniteError
        If rounding decides the posterior means or the log evidence.
    """
    if not _is_finite(solution):
        raise ConvergenceError(
            f"{solution.method}: numbers overflow on the way to the solution, so that it is not finite. Bring the "
            "targets and the Gram matrix (the variance of the kernel) to a scale nearer to one.",
            Status.NO_VALID_STEP,
        )
    found = unknown(solution.info)
    if found:
        raise rounding_decides(solution.method, " and ".join(found))
    return solution


def rounding_decides(method: str, what: str) -> NotPositiveDefiniteError:
    """Return the error that says so, what it decides, and what to do."""
    return NotPositiveDefiniteError(
        f"{method}: rounding decides. The Gram matrix is singular up to rounding, or huge beside the noise, and these "
        f"targets hang on what rounding took: {what}. Allow noise, in the likelihood or by kernels.White(...), or "
        "take a shorter length scale or a smaller variance."
    )


def is_accurate(solution: Solution) -> bool:
    """Tell whether `require_accurate` would return a solution."""
    return _is_finite(solution) and not unknown(solution.info)


def _is_finite(solution: Solution) -> bool:
    parts = [solution.alpha, np.array(solution.evidence.value), *(solution.cavity or ())]
    return all(bool(np.isfinite(part).all()) for part in parts)


def unknown(info: Info) -> list[str]:
    """Return what is not known of a solution that is called solved, in words."""
    found: list[str] = []
    if info.status is not Status.CONVERGED:
        return []
    allowed = LARGEST_MEAN_ERROR * coarseness(info.residual)
    if info.mean_error is not None and not info.mean_error <= allowed:
        found.append(f"the posterior means are known to some {info.mean_error:.1g} posterior standard deviations only")
    if info.rounding is not None and not info.rounding <= LARGEST_ROUNDING:
        what = "the log evidence, or what the others predict of a case,"
        found.append(f"it moves {what} by some {info.rounding:.1g} nats")
    return found


def log_evidence(problem: Problem, alpha: Array, precision: Array, variance: Array) -> float | None:
    """Return the log evidence of weights ``alpha`` under sites ``precision`` with cavity variances ``(n,)``, in nats.

    None where it cannot be had: for many cases, for sites of negative precision, on a root of low rank, and on a
    machine whose extended precision is none.
    """
    known = latent_and_log_det(problem, alpha, precision)
    if known is None:
        return None
    latent, log_det = known
    weights, own = alpha.astype(np.longdouble), variance.astype(np.longdouble)
    exact_weights = precision.astype(np.longdouble)
    mean = latent - own * weights
    rounded = mean.astype(np.float64)
    value, slope, _ = problem.likelihood.log_partition(problem.t, rounded, variance)
    terms = value + slope * (mean - rounded) - 0.5 * weights * mean + 0.5 * np.log1p(exact_weights * own)
    return float(np.sum(terms) - 0.5 * log_det)


def latent_and_log_det(problem: Problem, alpha: Array, precision: Array) -> tuple[Extended, np.longdouble] | None:
    """Return K alpha ``(n,)`` and log det(I + K W) for sites ``precision (n,)``; None where they cannot be had."""
    has_digits = np.finfo(np.longdouble).eps < np.finfo(np.float64).eps
    if not problem.matrix.is_whole or problem.n > MOST_CASES or not has_digits or np.any(precision < 0):
        return None
    gram = problem.dense_gram.astype(np.longdouble)
    scale = np.sqrt(precision.astype(np.longdouble))
    log_det = _log_det(scale[:, None] * gram * scale + np.eye(problem.n, dtype=np.longdouble))
    return None if log_det is None else (gram @ alpha.astype(np.longdouble), log_det)


def _log_det(matrix: Extended) -> np.longdouble | None:
    """Return the log determinant of a positive-definite matrix, which is overwritten; None if it is not one."""
    pivots = np.empty(matrix.shape[0], dtype=np.longdouble)
    for k in range(pivots.size):
        pivots[k] = matrix[k, k]
        if not pivots[k] > 0:
            return None
        column = matrix[k + 1 :, k].copy()
        matrix[k + 1 :, k + 1 :] -= np.outer(column, column / pivots[k])
    return np.longdouble(np.sum(np.log(pivots)))


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
