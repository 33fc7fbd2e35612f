r"""A few cases of several classes, integrated, where the largest latent value with noise names the label.

With flips the posterior of n cases is a mixture of :math:`2^n` parts, each label meant or not, which no Gaussian holds.
With :math:`d_{ic} = f_{it} - f_{ic} + e_{it} - e_{ic}` the label t of case i is the largest sum where all are positive,

.. math:: Z = \int \prod_i \big(a + b\, [d_i > 0]\big)\, N(d\,|\,0, \Sigma)\, dd .

The C - 1 differences of a case are drawn in turn as if it were, each from the half line that is left of its normal
distribution given those before; with p the product of what is left it is kept with probability :math:`bp/(a + bp)`, and
drawn anew without the label else. The products of :math:`a + bp` have the mean Z, without a bias ([1]_ has no flips).

References
----------
.. [1] Geweke, J. (1991). Efficient simulation from the multivariate normal and Student-t distributions subject to
   linear constraints. Computing Science and Statistics 23, 571-578.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import log_ndtr, ndtri, ndtri_exp

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.likelihoods.class_names import log_parts
from bayesgp_mf.likelihoods.moments import scrambled_points
from bayesgp_mf.likelihoods.probit_tilted import difference_matrices
from bayesgp_mf.multiclass.correction import of_class
from bayesgp_mf.types import Array

FEW = 6
"""Cases that are integrated; of more, what is Gaussian of all."""
LOG2_POINTS, BATCHES = 13, 16
"""Logarithm to base 2 of Sobol's points: probabilities are right to some 0.001. In so many parts for the error."""
_NOTHING = 1e-12  # of a variance that is left


class _Drawn(NamedTuple):
    factor: Array  # L (N, N), of the covariance of all differences of all cases
    z: Array  # (points, N), d = L z
    log_weight: Array  # (points,)
    uniform: Array  # (C - 1, points), for the differences of a new case


@dataclass(frozen=True, eq=False)
class FewCases:
    """What is known of a few cases of several classes: all of it.

    Attributes
    ----------
    problem : Problem
        With at most `FEW` cases and a dense Gram matrix, under a likelihood in which the largest sum wins.
    """

    problem: Problem

    @property
    def _noise_and_flip(self) -> tuple[float, float]:
        likelihood: Any = self.problem.likelihood
        return likelihood.largest_wins  # type: ignore[no-any-return]

    @cached_property
    def _drawn(self) -> _Drawn:
        (noise, flip), n_classes = self._noise_and_flip, self.problem.n_classes
        turns = difference_matrices(n_classes)[self.problem.t.astype(np.intp)]
        n, q = turns.shape[:2]
        covariance = np.zeros((n, q, n, q))
        for c in range(n_classes):
            gram = of_class(self.problem.dense_gram, c) + noise * np.eye(n)
            covariance += np.einsum("ij,ia,jb->iajb", gram, turns[:, :, c], turns[:, :, c])
        factor = _factor(covariance.reshape(n * q, n * q))
        # of two sets of Sobol's points each would go with the same one of the other: those of a new case are these, too
        points = scrambled_points(n * (2 * q + 1) + q, LOG2_POINTS, np.random.default_rng(0))
        uniform = points[:-q].reshape(n, 2 * q + 1, -1)
        log_a, log_b = log_parts(flip, n_classes)
        z, log_weight = np.zeros((uniform.shape[-1], n * q)), np.zeros(uniform.shape[-1])
        for i in range(n):
            own = slice(i * q, (i + 1) * q)
            log_p = _in_turn(factor[own], z, i * q, uniform[i, :q])
            log_each = np.logaddexp(log_a, log_b + log_p)
            wrong = np.log(uniform[i, 2 * q]) > log_b + log_p - log_each
            z[:, own] = np.where(wrong[:, None], ndtri(uniform[i, q : 2 * q].T), z[:, own])
            log_weight += log_each
        return _Drawn(factor, z, log_weight, points[-q:])

    @cached_property
    def log_evidence(self) -> tuple[float, float]:
        """The log evidence and its standard error, in nats."""
        log_weight = self._drawn.log_weight
        largest = float(np.max(log_weight))
        weight = np.exp(log_weight - largest)
        parts = weight.reshape(BATCHES, -1).mean(axis=1)
        return largest + float(np.log(weight.mean())), float(parts.std() / weight.mean() / np.sqrt(BATCHES))

    @property
    def log_density(self) -> Array:
        """Log of the predictive density ``(n,)`` of each target when all targets, its own too, are known."""
        n_classes, gram = self.problem.n_classes, self.problem.dense_gram
        prior = np.stack([of_class(gram, c).diagonal() for c in range(n_classes)], axis=1)
        return np.log(self.probabilities(gram, prior)[np.arange(self.problem.n), self.problem.t.astype(np.intp)])

    def probabilities(self, cross: Array, prior: Array) -> Array:
        """Return those of the classes ``(m, C)`` at new cases, from prior covariances and variances of these."""
        every = np.broadcast_to(cross, (self.problem.n_classes, *cross.shape[-2:]))
        return np.stack([self._of_case(every[:, :, j], prior[j]) for j in range(prior.shape[0])])

    def _of_case(self, cross: Array, prior: Array) -> Array:
        (noise, flip), n_classes, drawn = self._noise_and_flip, self.problem.n_classes, self._drawn
        turns = difference_matrices(n_classes)
        own = turns[self.problem.t.astype(np.intp)]
        between = np.einsum("ci,iac->cia", cross, own).reshape(n_classes, -1)
        known = _solved(drawn.factor, between)
        rest = np.diag(prior + noise) - known @ known.T
        centre, weight = drawn.z @ known.T, np.exp(drawn.log_weight - drawn.log_weight.max())
        result = np.empty(n_classes)
        for c, turn in enumerate(turns):
            z = np.zeros((weight.size, n_classes - 1))
            log_p = _in_turn(_factor(turn @ rest @ turn.T), z, 0, drawn.uniform, centre @ turn.T)
            result[c] = weight @ np.exp(log_p)
        log_a, log_b = log_parts(flip, n_classes)
        return np.asarray(np.exp(log_a) + np.exp(log_b) * result / result.sum())


def _in_turn(rows: Array, z: Array, first: int, uniform: Array, centre: Array | float = 0.0) -> Array:
    """Draw coordinates of z, in place, that make differences positive; return the log of what share they leave."""
    log_p = np.zeros(z.shape[0])
    mean = np.broadcast_to(centre, (z.shape[0], len(rows)))
    for k, row in enumerate(rows):
        at, sd = first + k, row[first + k]
        known = mean[:, k] + z[:, :at] @ row[:at]
        if sd == 0.0:  # given those before there is nothing left to draw
            log_p += np.where(known > 0, 0.0, -np.inf)
            continue
        log_share = log_ndtr(known / sd)
        z[:, at] = -ndtri_exp(np.log(uniform[k]) + log_share)
        log_p += log_share
    return log_p


def _factor(covariance: Array) -> Array:
    """Return the lower Cholesky factor ``(N, N)``, with columns of zeros where nothing is left."""
    factor, scale = np.zeros_like(covariance), covariance.diagonal().max()
    for k in range(len(covariance)):
        column = covariance[k:, k] - factor[k:, :k] @ factor[k, :k]
        if column[0] > _NOTHING * scale:
            factor[k:, k] = column / np.sqrt(column[0])
    return factor


def _solved(factor: Array, right: Array) -> Array:
    """Return B ``(m, N)`` with B L' = right, but for columns of L that are zero."""
    result = np.zeros_like(right)
    for k in range(len(factor)):
        if factor[k, k] > 0:
            result[:, k] = (right[:, k] - result[:, :k] @ factor[k, :k]) / factor[k, k]
    return result
