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
from bayesgp_mf.inference.solution import Cavity, Control, Info
from bayesgp_mf.matrices.matrix import Matrix
from bayesgp_mf.solvers.ascent import climb, first_that_rises, largest_change
from bayesgp_mf.solvers.sites import SiteState, match
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
    step: float = 1.0  # the largest change of a weight by the last step, in units of its size in the prior

    @property
    def alpha(self) -> Array:
        """The weights."""
        return self.derivs.d1


def solve_at_fixed_variance(
    problem: Problem, variance: Array, control: Control, start: Array | None = None
) -> tuple[SiteState | None, Info]:
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
    SiteState or None
        The sites, and alpha; None if the solution was not reached.
    Info
        The residual is the largest change of alpha by the last step, in units of its size in the prior.
    """
    before_data = _at(problem, variance, np.zeros(problem.n))
    first = before_data
    if start is not None:
        first = _at(problem, variance, problem.matrix @ start - variance * start)
    scale = 1.0 / np.where(before_data.alpha == 0, 1.0, np.abs(before_data.alpha))
    point, info = climb(
        lambda at: _newton(problem, variance, scale, at),
        first,
        scale,
        control,
        lambda before, after: _decrement(after, variance) <= control.tolerance,
    )
    if info.status is not Status.CONVERGED:
        return None, info
    return match(problem.likelihood, problem.t, Cavity(point.mean, variance), point.derivs)._replace(
        alpha=point.alpha
    ), info


def _at(problem: Problem, variance: Array, mean: Array) -> _Point:
    derivs = problem.likelihood.log_partition(problem.t, mean, variance)
    alpha = derivs.d1
    field = problem.matrix @ alpha - variance * alpha
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


def _newton(problem: Problem, variance: Array, scale: Array, point: _Point) -> _Point | None:
    """Return the point after Newton's step, shortened until Phi falls enough, or None if it cannot."""
    root = np.sqrt(-point.derivs.d2)
    right = -root * (point.field - point.mean)
    y = None
    if not problem.matrix.factor_is_cheap:
        y = _by_products(problem.matrix, variance, root, right, min(_ROUGHEST, point.step))
    moved = None if y is None else _downhill(problem, variance, point, root * y)
    if moved is None:  # K is so ill-conditioned that a rough solution leads nowhere
        try:
            y = problem.matrix.solve_scaled(root, 1.0 - root * variance * root, right)
        except NotPositiveDefiniteError:  # which is rounding: alpha is far out, as where Phi has no lower bound
            return None
        moved = _downhill(problem, variance, point, root * y)
    if moved is None:
        return None
    return moved._replace(step=largest_change(scale, point.alpha, moved.alpha))


def _by_products(gram: Matrix, variance: Array, root: Array, right: Array, accuracy: float) -> Array | None:
    """Return y by conjugate gradients, or None if they would cost more than a factor."""
    n = right.size

    def multiply(y: Array) -> Array:
        inside = root * y
        return np.asarray(y - root * (variance * inside) + root * (gram @ inside))

    operator = LinearOperator((n, n), matvec=multiply, dtype=np.float64)
    y, failed = cg(operator, right, rtol=accuracy, maxiter=max(_FEW_PRODUCTS, n // _PRODUCTS_IN_A_FACTOR))
    return None if failed else np.asarray(y)


def _downhill(problem: Problem, variance: Array, point: _Point, change_of_alpha: Array) -> _Point | None:
    """Return the point along a step, shortened until Phi falls enough, or None if it never does."""
    gradient = point.field - point.mean
    # of m: to where the equation is linearised
    direction = gradient + problem.matrix @ change_of_alpha - variance * change_of_alpha
    slope = float(gradient @ change_of_alpha)  # never positive, however roughly the equations were solved

    def at(fraction: float) -> tuple[_Point, float]:
        with np.errstate(all="ignore"):  # far out Phi may overflow: then the step is too long
            there = _at(problem, variance, point.mean + fraction * direction)
        return there, point.value - there.value  # of -Phi, which rises

    return first_that_rises(at, -slope, point.terms, _SMALLEST_FRACTION)
