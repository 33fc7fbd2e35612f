r"""The derivative of the correction of TAP's evidence with respect to the Gram matrix.

With :math:`a_i = c_{3,i} / v_i^3`, where :math:`c_3 = \lambda^3 d_3` is the third cumulant of a tilted distribution and
:math:`v = \lambda + \lambda^2 d_2` its variance, which is :math:`\Sigma_{ii}`, the correction is

.. math:: T = \tfrac{1}{12} \sum_{i \ne j} a_i a_j \Sigma_{ij}^3 .

So it says :math:`\tfrac14 a_i a_j \Sigma_{ij}^2` of the covariances, and of the cavities what it says of a. The heat
equation gives the derivatives in lambda,

.. math:: \partial_\lambda d_2 = \tfrac12 d_4 + d_2^2 + d_1 d_3, \qquad
          \partial_\lambda d_3 = \tfrac12 d_5 + d_1 d_4 + 3 d_2 d_3,

and the rest is TAP's fixed point, which moves with K (`loo_gradient`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.likelihoods.cumulants import derivatives_of_cumulants, tilted_cumulants
from bayesgp_mf.solvers.loo_gradient import CavityBars, FixedPoint
from bayesgp_mf.types import Array


class CorrectionWithGradient(NamedTuple):
    """The correction in nats, and its derivative ``(n, n)`` in the Gram matrix, symmetric."""

    value: float
    gram_gradient: Array


def correction_with_gradient(problem: Problem, solution: Solution) -> CorrectionWithGradient:
    """Return the correction of TAP's log evidence and its derivative in the Gram matrix.

    Parameters
    ----------
    problem : Problem
        Targets and likelihood; the Gram matrix is made where it is of low rank.
    solution : Solution
        TAP's.

    Notes
    -----
    O(n^3), about as much as ten steps of the solver.
    """
    assert solution.cavity is not None
    mean, variance = solution.cavity
    _, d1, d2 = problem.likelihood.log_partition(problem.t, mean, variance)
    v = variance + variance**2 * d2
    cumulants = tilted_cumulants(problem.likelihood, problem.t, mean, variance, 5)
    skewness = cumulants[0]
    d3, d4, d5 = derivatives_of_cumulants(cumulants, variance, d2)
    fixed_point = FixedPoint(problem, solution, variance)
    correlation = fixed_point.covariance / np.sqrt(np.multiply.outer(v, v))
    np.fill_diagonal(correlation, 0.0)
    square = correlation**2
    response = (square * correlation) @ skewness / 6.0  # what T says of the skewness of each case
    value = 0.5 * float(skewness @ response)
    # skewness = lambda^3 d3 / v^(3/2); C_ij = Sigma_ij / sqrt(v_i v_j)
    by_v = -3.0 * skewness * response / v  # half of it by the skewness itself, half by the correlations
    unit = variance**3 / v**1.5
    mean_bar = response * unit * d4 + by_v * variance**2 * d3
    by_variance = 3.0 * skewness / variance + unit * (0.5 * d5 + d1 * d4 + 3.0 * d2 * d3)
    v_by_variance = 1.0 + 2.0 * variance * d2 + variance**2 * (0.5 * d4 + d2**2 + d1 * d3)
    variance_bar = response * by_variance + by_v * v_by_variance
    weight = skewness / np.sqrt(v)
    covariance_bar = 0.25 * square * np.multiply.outer(weight, weight)
    back = fixed_point.pull_back(CavityBars(mean_bar, variance_bar), covariance_bar)
    return CorrectionWithGradient(value, back.gram)
