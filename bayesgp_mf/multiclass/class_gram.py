"""The prior covariance of all classes behind the verbs that a method asks for, in whatever form it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from bayesgp_mf.errors import NotPositiveDefiniteError
from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.matrices.root_gradient import RootGradient
from bayesgp_mf.multiclass.correction import (
    ClassCorrection,
    DenseClassCorrection,
    SoftmaxCorrection,
    StarCorrection,
    of_class,
    prior_variance,
    times_gram,
)
from bayesgp_mf.multiclass.draws import ClassSampler, DenseClassSampler, LowRankClassSampler, RootClassSampler
from bayesgp_mf.multiclass.low_rank import LowRankClassCorrection, LowRankSites
from bayesgp_mf.multiclass.low_rank_matrix import LowRankMatrixCorrection
from bayesgp_mf.multiclass.matrix_correction import MatrixSiteCorrection
from bayesgp_mf.types import Array

BLOCK = 512
"""Cases handled at once: C matrices of n rows and so many columns."""
_ROUNDING = 1e-8
FORMS = frozenset({"dense", "low_rank", "inducing"})
"""Those of a Gram matrix that there are verbs of here."""


class ClassGram(Protocol):
    """The Gram matrix of all classes, or that of each."""

    @property
    def prior(self) -> Array:
        """The prior variances ``(n, C)``."""

    def times(self, values: Array) -> Array:
        """Return K v ``(..., n, C)``, for each class."""

    def sites(self, weight: Array) -> Any:
        """Return the correction of sites diag(w) - w w'/sum(w), from ``w (n, C)``: a `ClassCorrection`."""

    def matrix_sites(self, precision: Array) -> Any:
        """Return the correction of sites ``W (n, C, C)``, whose rows sum to zero: a `ClassCorrection`."""

    def covariances(self, correction: Any) -> Array:
        """Return the posterior covariances ``(n, C, C)`` of the classes of each training case."""

    def means(self, alpha: Array, features: Array) -> Array:
        """Return the posterior means ``(m, C)`` of new cases, from their features (`Matrix.features`)."""

    def sampler(self, alpha: Array, correction: Any) -> ClassSampler:
        """Return what draws latent values from the posterior with weights ``alpha (n, C)``."""

    def gradient(self, correction: Any, left: Array, right: Array) -> Any:
        """Return the sum of (l_c r_c' + r_c l_c' - R_cc)/2, or each where each class has its own K.

        As `Matrix.pull_back` takes it, from ``l`` and ``r (n, C)``.
        """


@dataclass(frozen=True, eq=False)
class DenseClassGram:
    """All entries of the Gram matrix, ``(n, n)`` or ``(C, n, n)``."""

    entries: Array
    n_classes: int

    @cached_property
    def prior(self) -> Array:
        """The prior variances ``(n, C)``."""
        return prior_variance(self.entries, self.n_classes)

    def times(self, values: Array) -> Array:
        """Return K v ``(..., n, C)``."""
        return times_gram(values, self.entries)

    def sites(self, weight: Array) -> SoftmaxCorrection:
        """Return the correction of sites."""
        return SoftmaxCorrection(self.entries, weight)

    def matrix_sites(self, precision: Array) -> MatrixSiteCorrection:
        """Return the correction of sites that are any matrices."""
        return MatrixSiteCorrection(self.entries, precision)

    def covariances(self, correction: DenseClassCorrection) -> Array:
        """Return the posterior covariances ``(n, C, C)``."""
        return _left_of(self.prior, correction.own_blocks())

    def means(self, alpha: Array, features: Array) -> Array:
        """Return the posterior means ``(m, C)``."""
        return times_gram(alpha, features)

    def sampler(self, alpha: Array, correction: ClassCorrection) -> ClassSampler:
        """Return what draws latent values."""
        if isinstance(correction, StarCorrection):
            return DenseClassSampler(self.entries, alpha, correction)
        return RootClassSampler(self.entries, alpha, correction)

    def gradient(self, correction: DenseClassCorrection, left: Array, right: Array) -> Array:
        """Return the derivative ``(n, n)``, or ``(C, n, n)``, symmetric."""
        result = np.zeros_like(self.entries)
        for c in range(self.n_classes):
            part, product = of_class(result, c), np.outer(left[:, c], right[:, c])
            part += product
            part += product.T
            part -= correction.class_block(c)
        result *= 0.5
        return result


@dataclass(frozen=True, eq=False)
class RootClassGram:
    """A root, and variances of the cases' own, that all classes share."""

    matrix: Any
    n_classes: int

    @cached_property
    def prior(self) -> Array:
        """The prior variances ``(n, C)``."""
        return np.repeat(self.matrix.diagonal()[:, None], self.n_classes, axis=1)

    def times(self, values: Array) -> Array:
        """Return K v ``(..., n, C)``."""
        first = np.moveaxis(values, -2, 0)
        product = np.asarray(self.matrix @ first.reshape(first.shape[0], -1))
        return np.moveaxis(product.reshape(first.shape), 0, -2)

    def sites(self, weight: Array) -> LowRankClassCorrection:
        """Return the correction of sites."""
        return LowRankClassCorrection(self.matrix, weight)

    def matrix_sites(self, precision: Array) -> LowRankMatrixCorrection:
        """Return the correction of sites that are any matrices."""
        return LowRankMatrixCorrection(self.matrix, precision)

    def covariances(self, correction: LowRankSites) -> Array:
        """Return the posterior covariances ``(n, C, C)``."""
        return correction.covariances()

    def means(self, alpha: Array, features: Array) -> Array:
        """Return the posterior means ``(m, C)``."""
        return np.asarray(features.T @ self.in_features(alpha))

    def in_features(self, alpha: Array) -> Array:
        """Return L' alpha ``(M, C)``."""
        return np.asarray(self.matrix.in_features(alpha.T)).T

    def sampler(self, alpha: Array, correction: LowRankSites) -> LowRankClassSampler:
        """Return what draws latent values."""
        return LowRankClassSampler(self.matrix, alpha, self.in_features(alpha), correction)

    def gradient(self, correction: LowRankSites, left: Array, right: Array) -> RootGradient:
        """Return the derivative, known by its product with the root."""
        return RootGradient(self.matrix, left, right, correction, np.zeros(left.shape[0]))


def class_gram(problem: Problem) -> ClassGram:
    """Return the Gram matrix of all classes of a problem.

    One that has their verbs itself says so by ``of_classes``: where the classes are dependent beforehand, as the past
    of a stream has made them.
    """
    known: ClassGram | None = problem.matrix.of_classes
    if known is not None:
        return known
    if problem.matrix.is_root:
        return RootClassGram(problem.matrix, problem.n_classes)
    return DenseClassGram(problem.dense_gram, problem.n_classes)


def case_covariances(correction: ClassCorrection, prior: Array, features: Array) -> Array:
    """Return the posterior covariances ``(m, C, C)`` of the classes at new cases.

    ``prior (m, C)`` are their prior variances, ``features`` what the correction knows them by: covariances with the
    training cases, ``(n, m)`` or ``(C, n, m)``, or the features ``(M, m)`` of a root.
    """
    found = np.empty((*prior.shape, prior.shape[1]))
    for rows in blocks(prior.shape[0], BLOCK):
        found[rows] = correction.blocks(features[..., rows])
    return _left_of(prior, found)


def _left_of(prior: Array, found: Array) -> Array:
    """Return what the sites leave, ``(m, C, C)``, of prior variances, from what they tell."""
    result = -found
    every = np.arange(prior.shape[1])
    result[:, every, every] += prior
    lowest = np.min(result[:, every, every] / np.maximum(prior, np.finfo(float).tiny), initial=0.0)
    if lowest < -_ROUNDING:
        raise NotPositiveDefiniteError(
            f"rounding decides: a posterior variance came out as {lowest:.1g} of the prior one, below zero. The "
            "variance of the kernel is too large here; use a kernel of less variance, or standardise the inputs."
        )
    result[:, every, every] = np.maximum(result[:, every, every], 0.0)  # rounding
    return result
