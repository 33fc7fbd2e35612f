r"""The derivative of the running evidence with respect to the Gram matrix: the sweep run backwards.

The sites of a single sweep are not stationary points of its evidence, so that (alpha alpha' - R)/2 is not its
gradient (but for a Gaussian likelihood). Each visit is a short chain of smooth operations on means mu and
covariances Sigma, with Sigma = K at the start,

.. math::
    m = \mu_i,\; \lambda = \Sigma_{ii},\; c = \Sigma_{\cdot i}, \qquad
    \mu \leftarrow \mu + d_1 c, \quad \Sigma \leftarrow \Sigma + d_2\, c c^T, \quad L \leftarrow L + \log Z(m, \lambda)

and its chain rule is applied from the last visit to the first, at O(n^2) each.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.likelihoods.higher import higher_derivatives
from bayesgp_mf.online.sweep import Sweep
from bayesgp_mf.types import Array


class SweepGradient(NamedTuple):
    """What the evidence of a sweep says of the Gram matrix ``(n, n)``, and of d1 and d2 of each visit ``(n,)``."""

    gram: Array
    d1: Array
    d2: Array


def evidence_gradient(problem: Problem, order: tuple[int, ...], first: Sweep) -> SweepGradient:
    r"""Return the derivatives of the evidence of a first sweep.

    The derivatives in the variance follow from the heat equation,
    :math:`\partial_\lambda \log Z = (d_2 + d_1^2)/2` and so
    :math:`\partial_\lambda d_1 = d_3/2 + d_1 d_2`,
    :math:`\partial_\lambda d_2 = d_4/2 + d_2^2 + d_1 d_3`.

    O(n^3) time. ``first`` is a sweep in this ``order`` from sites that say nothing. Likelihoods answer with two
    derivatives; `likelihoods.higher` has the two that follow.
    """
    _, d1, d2 = first.derivs
    d3, d4 = higher_derivatives(problem.likelihood, problem.t, first.mean, first.variance, first.derivs)
    d2_by_variance = 0.5 * d4 + d2**2 + d1 * d3
    of_d1, of_d2 = np.zeros(problem.n), np.zeros(problem.n)
    mean_bar, covariance_bar = np.zeros(problem.n), np.zeros((problem.n, problem.n))
    for i in reversed(order):
        column = first.columns[:, i]
        pushed = covariance_bar @ column
        d1_bar = mean_bar @ column
        d2_bar = column @ pushed
        of_d1[i], of_d2[i] = d1_bar, d2_bar
        column_bar = d1[i] * mean_bar + 2.0 * d2[i] * pushed
        mean_bar[i] += d1[i] + d1_bar * d2[i] + d2_bar * d3[i]
        column_bar[i] += (  # of lambda, which is the column's own entry
            0.5 * (d2[i] + d1[i] ** 2) + d1_bar * (0.5 * d3[i] + d1[i] * d2[i]) + d2_bar * d2_by_variance[i]
        )
        # Sigma is symmetric: half of it was read along the row
        covariance_bar[:, i] += 0.5 * column_bar
        covariance_bar[i] += 0.5 * column_bar
    return SweepGradient(covariance_bar, of_d1, of_d2)


def parameter_gradient(problem: Problem, order: tuple[int, ...], first: Sweep, name: str) -> float:
    """Return the derivative of the evidence of a first sweep in a parameter of the likelihood."""
    bars = evidence_gradient(problem, order, first)
    value, d1, d2 = problem.likelihood.parameter_derivative(name, problem.t, first.mean, first.variance)
    return float(np.sum(value) + bars.d1 @ d1 + bars.d2 @ d2)
