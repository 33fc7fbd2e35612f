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

For other likelihoods Phi is not convex. Where the slopes g' are bounded, as those of Student's t, there is a solution
all the same, by Brouwer's theorem, and Newton's method for the equations themselves, F = (K - Lambda) g'(m) - m = 0,

.. math:: (I - (K - \Lambda)\, \mathrm{diag}(g''))\, \delta m = F,

with steps that are shortened until :math:`|F|^2` falls, finds it as a rule: it may end at a minimum of that which is
none of its zeros. Where sites are mixed instead (`solvers.driver`), they often circle around it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg, gmres

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


class _Fixed(NamedTuple):
    """The equations."""

    problem: Problem
    variance: Array  # lambda
    noise: float = 0.0  # that the likelihood has beside its own

    def at(self, mean: Array) -> _Point:
        """Return what follows from cavity means."""
        derivs = self.problem.likelihood.log_partition(self.problem.t, mean, self.variance + self.noise)
        alpha = derivs.d1
        field = self.times(alpha)
        parts = float(np.sum(derivs.value)), -float(alpha @ mean), 0.5 * float(alpha @ field)
        return _Point(mean, derivs, field, sum(parts), sum(abs(part) for part in parts))

    def times(self, weights: Array) -> Array:
        """Return (K - Lambda) times weights."""
        return np.asarray(self.problem.matrix @ weights - self.variance * weights)


def solve_at_fixed_variance(
    problem: Problem, variance: Array, control: Control, start: Array | None = None, noise: float = 0.0
) -> tuple[SiteState | None, Info]:
    """Return the solution of a problem as sites with their weights, and how it was reached.

    Parameters
    ----------
    problem : Problem
        Of a likelihood that is not log-concave there may be several solutions; then this is one of them.
    variance : (n,) array
        The cavity variances lambda.
    control : Control
        Tolerance and largest number of Newton steps.
    start : (n,) array, optional
        Weights to start from; the default starts from cavity means of zero.
    noise : float
        Variance added to the cavities in the likelihood.

    Returns
    -------
    SiteState or None
        The sites, and alpha; None if the solution was not reached.
    Info
        The residual is the largest change of alpha by the last step, in units of its size in the prior.
    """
    equations = _Fixed(problem, variance, noise)
    before_data = equations.at(np.zeros(problem.n))
    first = before_data if start is None else equations.at(equations.times(start))
    step = _newton if problem.likelihood.log_concave else _newton_of_residual
    scale = 1.0 / np.where(before_data.alpha == 0, 1.0, np.abs(before_data.alpha))

    def moved(at: _Point) -> _Point | None:
        there = step(equations, at)
        return None if there is None else there._replace(step=largest_change(scale, at.alpha, there.alpha))

    def is_summit(_: _Point, after: _Point) -> bool:
        return _decrement(after, variance) <= control.tolerance

    point, info = climb(moved, first, scale, control, is_summit)
    if info.status is not Status.CONVERGED:
        return None, info
    sites = match(problem.likelihood, problem.t, Cavity(point.mean, variance), point.derivs, noise)
    return sites._replace(alpha=point.alpha), info


def _decrement(point: _Point, variance: Array) -> float:
    r"""Return a bound on Newton's decrement, the length :math:`\sqrt{g^T (K + \Omega)^{-1} g}` of the next full step.

    No equations are solved for it: K + Omega exceeds Omega, so that g' Omega^-1 g is no smaller. Where labels have
    probability zero the weights grow without bound, and no such length becomes small.
    """
    tilted = 1.0 + variance * point.derivs.d2
    if np.any((tilted <= 0) & (variance > 0)):
        return float("inf")  # beyond the digits there are
    gradient = point.field - point.mean
    return float(np.sqrt(np.sum(gradient**2 * np.abs(point.derivs.d2) / tilted)))


def _newton(equations: _Fixed, point: _Point) -> _Point | None:
    """Return the point after Newton's step, shortened until Phi falls enough, or None if it cannot."""
    problem, variance, _ = equations
    root = np.sqrt(np.maximum(-point.derivs.d2, 0.0))  # in a tail rounding makes 1e-31 of what is zero there
    right = -root * (point.field - point.mean)
    y = None
    if not problem.matrix.factor_is_cheap:
        y = _by_products(problem.matrix, variance, root, right, min(_ROUGHEST, point.step))
    moved = None if y is None else _downhill(equations, point, root * y)
    if moved is None:  # K is so ill-conditioned that a rough solution leads nowhere
        try:
            y = problem.matrix.solve_scaled(root, 1.0 - root * variance * root, right)
        except NotPositiveDefiniteError:  # which is rounding: alpha is far out, as where Phi has no lower bound
            return None
        moved = _downhill(equations, point, root * y)
    return moved


def _by_products(gram: Matrix, variance: Array, root: Array, right: Array, accuracy: float) -> Array | None:
    """Return y by conjugate gradients, or None if they would cost more than a factor."""
    n = right.size

    def multiply(y: Array) -> Array:
        inside = root * y
        return np.asarray(y - root * (variance * inside) + root * (gram @ inside))

    operator = LinearOperator((n, n), matvec=multiply, dtype=np.float64)
    y, failed = cg(operator, right, rtol=accuracy, maxiter=max(_FEW_PRODUCTS, n // _PRODUCTS_IN_A_FACTOR))
    return None if failed else np.asarray(y)


def _downhill(equations: _Fixed, point: _Point, change_of_alpha: Array) -> _Point | None:
    """Return the point along a step, shortened until Phi falls enough, or None if it never does."""
    gradient = point.field - point.mean
    direction = gradient + equations.times(change_of_alpha)  # of m: to where the equation is linearised
    slope = float(gradient @ change_of_alpha)  # never positive, however roughly the equations were solved
    return _along(equations, point, direction, -slope, point.terms, lambda there: point.value - there.value)


def _newton_of_residual(equations: _Fixed, point: _Point) -> _Point | None:
    """Return the point after Newton's step, shortened until |F|^2 falls enough, or None if it cannot."""
    residual = point.field - point.mean
    n, square = residual.size, float(residual @ residual)

    def multiply(change: Array) -> Array:
        return np.asarray(change - equations.times(point.derivs.d2 * change))

    operator = LinearOperator((n, n), matvec=multiply, dtype=np.float64)
    most, accuracy = max(_FEW_PRODUCTS, n // _PRODUCTS_IN_A_FACTOR), min(_ROUGHEST, point.step)
    direction, _ = gmres(operator, residual, rtol=accuracy, restart=most, maxiter=1)

    def rise(there: _Point) -> float:
        return 0.5 * (square - float(np.sum((there.field - there.mean) ** 2)))

    return _along(equations, point, direction, float(residual @ multiply(direction)), square, rise)


def _along(
    equations: _Fixed, point: _Point, direction: Array, slope: float, terms: float, rise: Callable[[_Point], float]
) -> _Point | None:
    def at(fraction: float) -> tuple[_Point, float]:
        with np.errstate(all="ignore"):  # far out what is to rise may overflow: then the step is too long
            there = equations.at(point.mean + fraction * direction)
            return there, rise(there)

    return first_that_rises(at, slope, terms, _SMALLEST_FRACTION)
