r"""Mean-field theories whose cavity variances are known beforehand: Newton's method in O(n^2) a step.

Naive mean field takes lambda_i = K_ii (2000, eq. 35), the variational method lambda_i = 1/[K^-1]_ii (1999); neither
depends on the solution. With :math:`g_i(m) = \log Z_i(m, \lambda_i)` and :math:`\Lambda = \mathrm{diag}(\lambda)`, the
mean-field equations alpha = g'(m), m = (K - Lambda) alpha say that

.. math:: \Phi(m) = \sum_i g_i(m_i) - \alpha^T m + \tfrac12 \alpha^T (K - \Lambda)\, \alpha, \qquad \alpha_i = g_i'(m_i)

is stationary: its gradient with respect to alpha is (K - Lambda) alpha - m. For a log-concave likelihood it is a convex
function of alpha, since :math:`g_i - \alpha_i m_i` is then minus the concave conjugate of g_i: its second derivatives
are :math:`K - \Lambda - \mathrm{diag}(1/g'') = K + \Omega`. So there is one solution, the minimum; the value there is
the log evidence but for the site term, and a line search makes Newton's method converge from anywhere. The steps are
taken in m, where every value is allowed; alpha may be confined (to the sign of t for a step, to below one for a logit).

With S = sqrt(-g''), the step solves

.. math:: (I - S \Lambda S + S K S)\, y = -S [(K - \Lambda)\alpha - m], \qquad \delta\alpha = S y,

by conjugate gradients, which need products with K only, and by a Cholesky factor where they would cost more than one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from bayesgp_mf.errors import NotPositiveDefiniteError, Status
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Control, Info
from bayesgp_mf.matrices.dense import cholesky, triangular_inverse
from bayesgp_mf.matrices.low_rank import Gram, LowRankGram, site_correction
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.solvers.line_search import first_that_rises
from bayesgp_mf.solvers.sites import State, site_of_cavity
from bayesgp_mf.types import Array, Derivs

_ROUGHEST = 0.1  # residual of the linear equations, relative to the right-hand side; finer as the steps get smaller
_PRODUCTS_IN_A_FACTOR = 8  # n over this many products with K take about as long as a Cholesky factor of it ...
_FEW_PRODUCTS = 50  # ... except where both take no time
_SMALLEST_FRACTION = 2.0**-20


class _Point(NamedTuple):
    """A cavity mean, and what follows from it at the cost of one product with K."""

    mean: Array
    derivs: Derivs
    field: Array  # (K - Lambda) alpha
    value: float
    terms: float  # size of the terms whose sum the value is


def solve_at_fixed_variance(
    problem: Problem, variance: Array, control: Control, start: Array | None = None
) -> tuple[State | None, Info]:
    """Return the solution of a log-concave problem as sites with their weights, and how it was reached.

    Parameters
    ----------
    problem : Problem
        With a log-concave likelihood.
    variance : (n,) array
        The cavity variances lambda.
    control : Control
        Tolerance and largest number of Newton steps.
    start : (n,) array, optional
        Weights to start from; the default starts from cavity means of zero.

    Returns
    -------
    State or None
        The sites, and alpha; None if the solution was not reached.
    Info
        The residual is the largest change of alpha by the last step, in units of its size in the prior.
    """
    point = before_data = _at(problem, variance, np.zeros(problem.n))
    if start is not None:
        point = _at(problem, variance, problem.gram @ start - variance * start)
    scale = 1.0 / np.where(before_data.derivs.d1 == 0, 1.0, np.abs(before_data.derivs.d1))
    change, info = 1.0, Info(Status.MAX_ITERATIONS, control.max_iterations, float("inf"))
    with progress_bar("solving", enabled=control.progress) as advance:
        for iteration in range(1, control.max_iterations + 1):
            moved = _newton(problem, variance, point, accuracy=min(_ROUGHEST, change))
            if moved is None:
                info = Info(Status.STALLED, iteration, change)
                break
            # asinh: a change counts in proportion where alpha is large
            before, after = np.arcsinh(scale * point.derivs.d1), np.arcsinh(scale * moved.derivs.d1)
            change = float(np.max(np.abs(after - before)))
            point = moved
            # a short step may also be one that rounding, or conjugate gradients, cut short
            if change <= control.tolerance and _decrement(point, variance) <= control.tolerance:
                info = Info(Status.CONVERGED, iteration, change)
                break
            info = Info(Status.MAX_ITERATIONS, iteration, change)
            advance(f"step {iteration}, change {change:.1e} (tolerance {control.tolerance:.0e})")
    if info.status is not Status.CONVERGED:
        return None, info
    mean, (_, d1, d2) = point.mean, point.derivs
    return State(*site_of_cavity(mean, d1, d2, variance), alpha=d1), info


def _at(problem: Problem, variance: Array, mean: Array) -> _Point:
    derivs = problem.likelihood.log_partition(problem.t, mean, variance)
    alpha = derivs.d1
    field = problem.gram @ alpha - variance * alpha
    parts = float(np.sum(derivs.value)), -float(alpha @ mean), 0.5 * float(alpha @ field)
    return _Point(mean, derivs, field, sum(parts), sum(abs(part) for part in parts))


def _decrement(point: _Point, variance: Array) -> float:
    r"""Return a bound on Newton's decrement, the length :math:`\sqrt{g^T (K + \Omega)^{-1} g}` of the next full step.

    No equations are solved for it: K + Omega exceeds Omega, so that g' Omega^-1 g is no smaller. Where labels have
    probability zero the weights grow without bound, and no such length becomes small.
    """
    tilted = 1.0 + variance * point.derivs.d2
    if np.any((tilted <= 0) & (variance > 0)):
        return float("inf")  # beyond the digits there are
    gradient = point.field - point.mean
    return float(np.sqrt(np.sum(gradient**2 * -point.derivs.d2 / tilted)))


def _newton(problem: Problem, variance: Array, point: _Point, accuracy: float) -> _Point | None:
    """Return the point after Newton's step, shortened until Phi falls enough, or None if it cannot."""
    root = np.sqrt(-point.derivs.d2)
    right = -root * (point.field - point.mean)
    y = None
    if not isinstance(problem.gram, LowRankGram):  # whose factor costs no more than some products
        y = _by_products(problem.gram, variance, root, right, accuracy)
    moved = None if y is None else _downhill(problem, variance, point, root * y)
    if moved is None:  # K is so ill-conditioned that a rough solution leads nowhere
        try:
            y = _by_factor(problem.gram, variance, root, right)
        except NotPositiveDefiniteError:  # which is rounding: alpha is far out, as where Phi has no lower bound
            return None
        moved = _downhill(problem, variance, point, root * y)
    return moved


def _by_products(gram: Array, variance: Array, root: Array, right: Array, accuracy: float) -> Array | None:
    """Return y by conjugate gradients, or None if they would cost more than a factor."""
    n = right.size

    def multiply(y: Array) -> Array:
        inside = root * y
        return np.asarray(y - root * (variance * inside) + root * (gram @ inside))

    operator = LinearOperator((n, n), matvec=multiply, dtype=np.float64)
    y, failed = cg(operator, right, rtol=accuracy, maxiter=max(_FEW_PRODUCTS, n // _PRODUCTS_IN_A_FACTOR))
    return None if failed else np.asarray(y)


def _by_factor(gram: Gram, variance: Array, root: Array, right: Array) -> Array:
    """Return y by a Cholesky factor."""
    if isinstance(gram, LowRankGram):
        # D + S K S with a diagonal D is S (K + Omega) S for the sites W = S^2/D
        own = 1.0 - root * variance * root
        if not np.all(own > 0):
            raise NotPositiveDefiniteError("the sites are too strong to be added up")
        root_times_y = site_correction(gram, root**2 / own).weights(root * right / own)
        return np.asarray((right - root * (gram @ root_times_y)) / own)
    matrix = root[:, None] * gram * root
    matrix.ravel()[:: right.size + 1] += 1.0 - root * variance * root
    half_inverse = triangular_inverse(cholesky(matrix))
    return np.asarray(half_inverse.T @ (half_inverse @ right))


def _downhill(problem: Problem, variance: Array, point: _Point, change_of_alpha: Array) -> _Point | None:
    """Return the point along a step, shortened until Phi falls enough, or None if it never does."""
    gradient = point.field - point.mean
    # of m: to where the equation is linearised
    direction = gradient + problem.gram @ change_of_alpha - variance * change_of_alpha
    slope = float(gradient @ change_of_alpha)  # never positive, however roughly the equations were solved

    def at(fraction: float) -> tuple[_Point, float]:
        with np.errstate(all="ignore"):  # far out Phi may overflow: then the step is too long
            there = _at(problem, variance, point.mean + fraction * direction)
        return there, point.value - there.value  # of -Phi, which rises

    return first_that_rises(at, -slope, point.terms, _SMALLEST_FRACTION)
