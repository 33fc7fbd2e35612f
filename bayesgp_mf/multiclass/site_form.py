"""The forms that sites of several classes have, behind the verbs that TAP asks: C numbers of a case, or a matrix."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from bayesgp_mf.inference.problem import Problem
from bayesgp_mf.likelihoods.base import ClassLikelihood
from bayesgp_mf.likelihoods.star import star_precision
from bayesgp_mf.multiclass.class_gram import class_gram
from bayesgp_mf.multiclass.correction import ClassCorrection, StarCorrection
from bayesgp_mf.types import Array


class CaseSites(NamedTuple):
    """What labels make of Gaussians of the latent values of their cases."""

    log_partition: Array  # log Z (n,) in nats
    gradient: Array  # (n, C), of log Z in the means
    site: Array  # (n, ...), in the form at hand


class SiteForm(Protocol):
    """A form of sites."""

    @property
    def log_concave(self) -> bool:
        """Whether all labels make their cases more certain."""

    def sites(self, t: Array, mean: Array, covariance: Array, points: int | None = None) -> CaseSites:
        """Return what labels ``t (n,)`` make of Gaussians ``(n, C)`` and ``(n, C, C)``."""

    def precision(self, site: Array) -> Array:
        """Return W ``(n, C, C)``."""

    def spread(self, site: Array) -> Array:
        """Return numbers ``(n, C)`` that are not below the diagonal of R."""

    def correction(self, problem: Problem, site: Array) -> Any:
        """Return R, a `ClassCorrection` with ``rounding``."""

    def of(self, correction: ClassCorrection) -> Array:
        """Return the sites of a correction."""

    def pack(self, site: Array, scale: Array) -> Array:
        """Return the sites as numbers ``(n, k)`` that may be mixed, in units of latent values ``scale (n, 1)``."""

    def unpack(self, packed: Array, scale: Array) -> Array:
        """Return the sites of such numbers."""


class StarForm:
    """Sites diag(w) - w w'/sum(w), by ``w (n, C)``, none below zero.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.likelihoods import Softmax
    >>> StarForm(Softmax()).precision(np.array([[1.0, 1.0]]))
    array([[[ 0.5, -0.5],
            [-0.5,  0.5]]])
    """

    log_concave: ClassVar[bool] = True

    def __init__(self, likelihood: ClassLikelihood) -> None:
        self._likelihood = likelihood

    def sites(self, t: Array, mean: Array, covariance: Array, points: int | None = None) -> CaseSites:
        """Return what the labels make of Gaussians."""
        return CaseSites(*self._likelihood.star_sites(t, mean, covariance, points))

    def precision(self, site: Array) -> Array:
        """Return W ``(n, C, C)``."""
        return star_precision(site)

    def spread(self, site: Array) -> Array:
        """Return w."""
        return site

    def correction(self, problem: Problem, site: Array) -> Any:
        """Return R."""
        return class_gram(problem).sites(site)

    def of(self, correction: ClassCorrection) -> Array:
        """Return the weights of a correction."""
        if not isinstance(correction, StarCorrection):
            raise ValueError("this needs a solution with C numbers for each site, got one with a matrix for each.")
        return correction.site_weight

    def pack(self, site: Array, scale: Array) -> Array:
        """Return the roots of the weights: any, whatever their signs, are weights, so that mixtures are posteriors."""
        return np.asarray(np.arcsinh(scale * np.sqrt(site)))

    def unpack(self, packed: Array, scale: Array) -> Array:
        """Return the weights."""
        return np.asarray((np.sinh(packed) / scale) ** 2)


class MatrixForm:
    """Sites that are any matrices ``(n, C, C)`` whose rows sum to zero."""

    def __init__(self, likelihood: ClassLikelihood) -> None:
        self._likelihood = likelihood

    @property
    def log_concave(self) -> bool:
        """Whether no label can be flipped."""
        return self._likelihood.log_concave

    def sites(self, t: Array, mean: Array, covariance: Array, points: int | None = None) -> CaseSites:
        """Return what the labels make of Gaussians."""
        return CaseSites(*self._likelihood.matrix_sites(t, mean, covariance))

    def precision(self, site: Array) -> Array:
        """Return W."""
        return site

    def spread(self, site: Array) -> Array:
        """Return the diagonals."""
        return np.array(np.abs(np.diagonal(site, axis1=1, axis2=2)))

    def correction(self, problem: Problem, site: Array) -> Any:
        """Return R."""
        return class_gram(problem).matrix_sites(site)

    def of(self, correction: ClassCorrection) -> Array:
        """Return the sites of a correction."""
        return correction.site_precision()

    def pack(self, site: Array, scale: Array) -> Array:
        """Return the entries between classes: with their negative sums on the diagonal they are a site."""
        row, column = np.triu_indices(site.shape[1], 1)
        return np.asarray(np.arcsinh(scale**2 * site[:, row, column]))

    def unpack(self, packed: Array, scale: Array) -> Array:
        """Return the sites."""
        entries = np.sinh(packed) / scale**2
        n_classes = round(0.5 + (2.0 * packed.shape[1] + 0.25) ** 0.5)
        row, column = np.triu_indices(n_classes, 1)
        site = np.zeros((packed.shape[0], n_classes, n_classes))
        site[:, row, column] = site[:, column, row] = entries
        every = np.arange(n_classes)
        site[:, every, every] = -np.sum(site, axis=2)
        return site


def site_form(likelihood: Any) -> SiteForm:
    """Return the form that sites of a likelihood have."""
    return MatrixForm(likelihood) if likelihood.site_shape == "matrix" else StarForm(likelihood)
