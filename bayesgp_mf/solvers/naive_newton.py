r"""Naive mean field in O(n^2) a step: Newton's method in which conjugate gradients solve for the step.

With :math:`g_i(m) = \log Z_i(m, K_{ii})` and D the diagonal of K, the equations (2000, eq. 35: alpha = g'(m),
m = K alpha - D alpha) say that

.. math:: \Phi(m) = \sum_i g_i(m_i) - \alpha^T m + \tfrac12 \alpha^T (K - D)\, \alpha, \qquad \alpha_i = g_i'(m_i)

is stationary: its gradient with respect to alpha is (K - D) alpha - m. For a log-concave likelihood it is a convex
function of alpha, since :math:`g_i - \alpha_i m_i` is then minus the concave conjugate of g_i: its second
derivatives are :math:`K - D - \mathrm{diag}(1/g'') = K + \Omega`. So there is one solution, the minimum; the value
there is the naive log evidence, and a line search makes Newton's method converge from anywhere. The steps are taken in
m, where every value is allowed; alpha may be confined (to the sign of t for a step, to below one for a logit).

Everything needs products with K only. With S = sqrt(-g''), the step solves

.. math:: (I - S D S + S K S)\, y = -S [(K - D)\alpha - m], \qquad \delta\alpha = S y,

whose matrix has ones on its diagonal, as conjugate gradients like it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.sparse.linalg import LinearOperator, cg

from bayesgp_mf.errors import Status
from bayesgp_mf.problem import Problem
from bayesgp_mf.progress import progress_bar
from bayesgp_mf.solution import Control, Info
from bayesgp_mf.solvers.sites import State, site_of_cavity
from bayesgp_mf.types import Array, Derivs

_ROUGHEST = 0.1  # residual of the linear equations, relative to the right-hand side; finer as the steps get smaller
_SUFFICIENT = 1e-4  # part of the fall promised by the slope that a step must keep (Armijo's rule)
_SMALLEST_FRACTION = 2.0**-20
_ROUNDING = 1e-13  # falls below this part of the terms of Phi cannot be seen


class _Point(NamedTuple):
    """A cavity mean, and what follows from it at the cost of one product with K."""

    mean: Array
    derivs: Derivs
    field: Array  # (K - D) alpha
    value: float
    terms: float  # size of the terms whose sum the value is


def naive_newton(problem: Problem, control: Control, start: Array | None = None) -> tuple[State, Info]:
    """Return the solution of a log-concave problem as sites with their weights, and how it was reached.

    Parameters
    ----------
    problem : Problem
        With a log-concave likelihood.
    control : Control
        Tolerance and largest number of Newton steps.
    start : (n,) array, optional
        Weights to start from; the default starts from cavity means of zero.

    Returns
    -------
    State
        The sites, and alpha.
    Info
        The residual is the largest change of alpha by the last step, in units of its size in the prior.
    """
    prior = np.diag(problem.gram)
    point = before_data = _at(problem, np.zeros(problem.n))
    if start is not None:
        point = _at(problem, problem.gram @ start - prior * start)
    scale = 1.0 / np.where(before_data.derivs.d1 == 0, 1.0, np.abs(before_data.derivs.d1))
    change, info = 1.0, Info(Status.MAX_ITERATIONS, control.max_iterations, float("inf"))
    with progress_bar("solving", enabled=control.progress) as advance:
        for iteration in range(1, control.max_iterations + 1):
            moved = _newton(problem, point, accuracy=min(_ROUGHEST, change))
            if moved is None:
                info = Info(Status.STALLED, iteration, change)
                break
            # asinh: a change counts in proportion where alpha is large
            before, after = np.arcsinh(scale * point.derivs.d1), np.arcsinh(scale * moved.derivs.d1)
            change = float(np.max(np.abs(after - before)))
            point = moved
            if change <= control.tolerance:
                info = Info(Status.CONVERGED, iteration, change)
                break
            info = Info(Status.MAX_ITERATIONS, iteration, change)
            advance(f"step {iteration}, change {change:.1e} (tolerance {control.tolerance:.0e})")
    mean, (_, d1, d2) = point.mean, point.derivs
    return State(*site_of_cavity(mean, d1, d2, prior), alpha=d1), info


def _at(problem: Problem, mean: Array) -> _Point:
    prior = np.diag(problem.gram)
    derivs = problem.likelihood.log_partition(problem.t, mean, prior)
    alpha = derivs.d1
    field = problem.gram @ alpha - prior * alpha
    parts = float(np.sum(derivs.value)), -float(alpha @ mean), 0.5 * float(alpha @ field)
    return _Point(mean, derivs, field, sum(parts), sum(abs(part) for part in parts))


def _newton(problem: Problem, point: _Point, accuracy: float) -> _Point | None:
    """Return the point after Newton's step, shortened until Phi falls enough, or None if it cannot."""
    gram, prior = problem.gram, np.diag(problem.gram)
    root = np.sqrt(-point.derivs.d2)
    gradient = point.field - point.mean

    def multiply(y: Array) -> Array:
        inside = root * y
        return np.asarray(y - root * (prior * inside) + root * (gram @ inside))

    operator = LinearOperator((problem.n, problem.n), matvec=multiply, dtype=np.float64)
    # cut short by maxiter it is a direction down all the same
    y, _ = cg(operator, -root * gradient, rtol=accuracy, maxiter=problem.n)
    change_of_alpha = root * y
    direction = gradient + gram @ change_of_alpha - prior * change_of_alpha  # of m: to the linearised (K - D) alpha
    slope = float(gradient @ change_of_alpha)  # never positive, however roughly the equations were solved
    fraction = 1.0
    while fraction >= _SMALLEST_FRACTION:
        with np.errstate(all="ignore"):  # far out Phi may overflow: then the step is too long
            there = _at(problem, point.mean + fraction * direction)
        if there.value - point.value <= _SUFFICIENT * fraction * slope + _ROUNDING * point.terms:
            return there
        fraction *= 0.5
    return None
