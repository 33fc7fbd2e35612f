r"""Probabilities of new cases by TAP, by way of the observed case that each is most correlated with.

TAP's posterior is Gaussian, but what it knows of a single observed case is more: the tilted distribution, softmax times
cavity, which can be far from Gaussian where the prior is wide. A new case that is nearly an observed one inherits its
shape. With :math:`q(f^*|f_i)` from the joint Gaussian posterior of both cases, and :math:`\hat q_i` the tilted
distribution of case i,

.. math:: p(f^*) = \int q(f^*|f_i)\, \hat q_i(f_i)\, df_i .

It is the first-order term, for one case, of an expansion about expectation propagation ([1]_). At an observed input it
is exactly the tilted distribution; far from all of them it is the Gaussian. More cases than one would count what
neighbours share more than once.

References
----------
.. [1] Opper, M., Paquet, U., & Winther, O. (2009). Improving on expectation propagation. NIPS 21.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import ClassVar, NamedTuple

import numpy as np
from scipy.special import log_softmax, ndtri, softmax

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.inference.solution import Solution
from bayesgp_mf.likelihoods.moments import scrambled_points
from bayesgp_mf.likelihoods.softmax_integral import class_probabilities, contrast_basis
from bayesgp_mf.likelihoods.softmax_tilted import tilted_probabilities
from bayesgp_mf.multiclass.class_gram import class_correction
from bayesgp_mf.multiclass.correction import ClassCorrection, case_covariances, times_gram
from bayesgp_mf.types import Array

LOG2_POINTS = 12
"""Logarithm to base 2 of Sobol's points.

Near observed cases the average over them differs from the integral by some 1e-4 with three classes, and by up to 4e-3
with six and a prior variance of 95. Far from all cases, where it must be zero, the difference that it makes is zero.
"""
_CERTAIN = 1e-13  # a variance below this part of the prior one is none


class _Normal(NamedTuple):
    mean: Array
    covariance: Array

    def at(self, i: int | np.intp) -> _Normal:
        return _Normal(self.mean[i], self.covariance[i])


@dataclass(frozen=True, eq=False)
class NearestCases:
    """What TAP knows of several classes beyond its Gaussian posterior, from a solution with its cavities."""

    problem: Problem
    solution: Solution
    log_evidence: ClassVar[None] = None

    @property
    def log_density(self) -> Array:
        """Log of the predictive density ``(n,)`` of each target when all targets, its own too, are known."""
        # the average of the softmax under cavity times likelihood is e_t - alpha
        own = np.take_along_axis(self.solution.alpha, self.problem.t.astype(np.intp)[:, None], axis=1)[:, 0]
        return np.asarray(np.log1p(-own))

    def probabilities(self, cross: Array, prior: Array, points: int | None = None) -> Array:
        """Return the probabilities ``(m, C)`` of the classes at new cases.

        ``cross (n, m)`` or ``(C, n, m)`` are prior covariances of observed with new cases, ``prior (m, C)`` the
        variances of these. ``points`` are the nodes of the averages over Gaussians (`likelihoods.softmax_tilted`).

        Softmax averages over the Gaussian posterior, plus the difference that the tilted distribution makes, by
        Sobol's points in 2 (C - 1) dimensions. The nearest case is that with the largest correlation in the posterior;
        where it changes from one to another, probabilities may jump a little. A case without variance, such as that at
        the origin under a linear kernel, has the softmax of its latent mean.
        """
        problem, solution = self.problem, self.solution
        if solution.cavity is None:
            raise ValueError(f"this needs the cavities of method 'tap', got a solution of method {solution.method!r}.")
        correction, basis = class_correction(solution), contrast_basis(problem.n_classes)
        gram = problem.dense_gram
        cavity = _in_contrasts(*solution.cavity, basis)
        own = _in_contrasts(times_gram(solution.alpha, gram), correction.covariances(), basis)
        mean, covariance = times_gram(solution.alpha, cross), case_covariances(correction, prior, cross)
        new = _in_contrasts(mean, covariance, basis)
        # without variance there is nothing to tell of, and no inverse
        certain = np.linalg.eigvalsh(new.covariance)[:, 0] <= _CERTAIN * np.max(prior, axis=1)
        result = np.empty_like(mean)
        if np.any(certain):
            result[certain] = class_probabilities(mean[certain], covariance[certain])
        result[~certain] = tilted_probabilities(mean[~certain], covariance[~certain], points)
        for j in np.flatnonzero(~certain):
            shared = basis.T @ _between(problem, correction, cross[..., j]) @ basis
            i = _most_correlated(shared, own.covariance, new.covariance[j])
            result[j] += _difference(int(problem.t[i]), cavity.at(i), own.at(i), new.at(j), shared[i])
        result = np.maximum(result, 0.0)  # what is nearly zero may come out below it, by the error of the averages
        return np.asarray(result / np.sum(result, axis=1, keepdims=True))


def _in_contrasts(mean: Array, covariance: Array, basis: Array) -> _Normal:
    return _Normal(mean @ basis, basis.T @ covariance @ basis)


def _between(problem: Problem, correction: ClassCorrection, cross: Array) -> Array:
    """Return the posterior covariances ``(n, C, C)`` of each case with a new one, from ``cross (n,)`` or ``(C, n)``."""
    n_classes = problem.n_classes
    prior = np.zeros((n_classes, problem.n, n_classes))  # class of the new case, observed case and its class
    every = np.arange(n_classes)
    prior[every, :, every] = cross
    taken = times_gram(correction.multiply(prior), problem.dense_gram)
    return np.asarray(np.moveaxis(prior - taken, 0, 2))


def _most_correlated(shared: Array, own: Array, new: Array) -> int:
    """Return the observed case whose contrasts tell most of those of a new one, by the sum of squared correlations."""
    explained = np.swapaxes(shared, 1, 2) @ np.linalg.solve(own, shared)
    return int(np.argmax(np.einsum("ab,iba->i", np.linalg.inv(new), explained)))


def _difference(code: int, cavity: _Normal, own: _Normal, new: _Normal, shared: Array) -> Array:
    """Return what the tilted distribution of the observed case changes in the probabilities ``(C,)`` of the new one."""
    size = own.mean.size
    basis, z = contrast_basis(size + 1), _points(2 * size)
    observed = own.mean + z[:, :size] @ np.linalg.cholesky(own.covariance).T
    slope = np.linalg.solve(own.covariance, shared).T
    values, vectors = np.linalg.eigh(new.covariance - slope @ shared)
    root = vectors * np.sqrt(np.maximum(values, 0.0)) @ vectors.T  # of a covariance that is zero at an observed input
    probability = softmax((new.mean + (observed - own.mean) @ slope.T + z[:, size:] @ root) @ basis.T, axis=1)
    # the same of a case of which the observed one tells nothing changes nothing, but for the error of the average
    values, vectors = np.linalg.eigh(new.covariance)
    apart = softmax((new.mean + z[:, size:] @ (vectors * np.sqrt(values) @ vectors.T)) @ basis.T, axis=1)
    untold = 1.0 - np.trace(np.linalg.solve(new.covariance, slope @ shared)) / size
    probability -= untold * apart
    off = observed - cavity.mean
    # softmax times cavity, over the Gaussian posterior that the points are from
    log_weight = log_softmax(observed @ basis.T, axis=1)[:, code] + 0.5 * np.sum(z[:, :size] ** 2, axis=1)
    log_weight -= 0.5 * np.einsum("ka,ab,kb->k", off, np.linalg.inv(cavity.covariance), off, optimize=True)
    return np.asarray(softmax(log_weight) @ probability - np.mean(probability, axis=0))


@cache
def _points(dimensions: int) -> Array:
    """Return standard normal points ``(points, dimensions)``, with mean and covariance made exact."""
    z = ndtri(scrambled_points(dimensions, LOG2_POINTS, np.random.default_rng(0)).T)
    z -= z.mean(axis=0)
    return np.asarray(np.linalg.solve(np.linalg.cholesky(z.T @ z / z.shape[0]), z.T).T)
