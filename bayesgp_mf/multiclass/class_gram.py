"""The prior covariance of all classes behind the verbs that a method asks for, in whatever form it is."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.multiclass.correction import SoftmaxCorrection, prior_variance, times_gram
from bayesgp_mf.multiclass.draws import ClassSampler, DenseClassSampler, LowRankClassSampler, RootClassSampler
from bayesgp_mf.multiclass.low_rank import RootClassCorrection
from bayesgp_mf.multiclass.matrix_correction import MatrixSiteCorrection
from bayesgp_mf.multiclass.site_form import SiteForm
from bayesgp_mf.types import Array

FORMS = frozenset({"dense", "low_rank", "inducing"})
"""Those of a Gram matrix that there are verbs of here."""


class ClassGram(Protocol):
    """The Gram matrix of all classes, or that of each."""

    @property
    def prior(self) -> Array:
        """The prior variances ``(n, C)``."""

    def times(self, values: Array) -> Array:
        """Return K v ``(..., n, C)``, for each class."""

    def correction(self, site: Any) -> Any:
        """Return the correction of sites: a `ClassCorrection`."""

    def means(self, alpha: Array, features: Array) -> Array:
        """Return the posterior means ``(m, C)`` of new cases, from their features (`Matrix.features`)."""

    def sampler(self, alpha: Array, correction: Any) -> ClassSampler:
        """Return what draws latent values from the posterior with weights ``alpha (n, C)``."""


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

    def correction(self, site: Any) -> SoftmaxCorrection | MatrixSiteCorrection:
        """Return the correction of sites."""
        return SoftmaxCorrection(self.entries, site) if site.is_noise else MatrixSiteCorrection(self.entries, site)

    def means(self, alpha: Array, features: Array) -> Array:
        """Return the posterior means ``(m, C)``."""
        return times_gram(alpha, features)

    def sampler(self, alpha: Array, correction: Any) -> ClassSampler:
        """Return what draws latent values."""
        made = DenseClassSampler if correction.site.is_noise else RootClassSampler
        return made(self.entries, alpha, correction)


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

    def correction(self, site: SiteForm) -> RootClassCorrection:
        """Return the correction of sites."""
        return RootClassCorrection(self.matrix, site)

    def means(self, alpha: Array, features: Array) -> Array:
        """Return the posterior means ``(m, C)``."""
        return np.asarray(features.T @ self._in_features(alpha))

    def _in_features(self, alpha: Array) -> Array:
        """Return L' alpha ``(M, C)``."""
        return np.asarray(self.matrix.in_features(alpha.T)).T

    def sampler(self, alpha: Array, correction: RootClassCorrection) -> LowRankClassSampler:
        """Return what draws latent values."""
        return LowRankClassSampler(self.matrix, alpha, self._in_features(alpha), correction)


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
