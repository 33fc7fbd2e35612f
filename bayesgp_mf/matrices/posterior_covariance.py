"""Posterior covariances of training cases with each other and with new ones, a few of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.types import Array

Cases = NDArray[np.intp] | slice


class PosteriorCovariance(NamedTuple):
    """The covariance Sigma of the latent values under all sites.

    Attributes
    ----------
    diagonal : (n,) array
        Sigma_ii.
    own : (n,) array
        The part of it that is a case's own: noise that no other case has, an old or a new one.
    entries : callable
        Returns ``Sigma[rows, columns]``, on the diagonal without what is a case's own. Rows and columns may be
        ``(B, k)`` numbers each, for ``(B, k, k)`` of B choices at once.
    with_new : callable
        Returns the covariances ``(m, k)`` of new cases, by their features ``(r, m)``, with k training cases.
    """

    diagonal: Array
    own: Array
    entries: Callable[[Cases, Cases], Array]
    with_new: Callable[[Array, Cases], Array]

    def of(self, cases: NDArray[np.intp]) -> PosteriorCovariance:
        """Return that of some of the cases, given by their numbers ``(k,)``; they are numbered anew."""
        return PosteriorCovariance(
            self.diagonal[cases],
            self.own[cases],
            lambda rows, columns: self.entries(cases[rows], cases[columns]),
            lambda features, which: self.with_new(features, cases[which]),
        )


def covariance_of_matrix(matrix: Array, with_all: Callable[[Array], Array]) -> PosteriorCovariance:
    """Return Sigma known as a matrix ``(n, n)``.

    ``with_all`` returns the covariances ``(n, m)`` of all training cases with new ones, from their features ``(r, m)``.
    """

    def entries(rows: Cases, columns: Cases) -> Array:
        if isinstance(rows, np.ndarray) and rows.ndim == 2 and isinstance(columns, np.ndarray):
            return matrix[rows[:, :, None], columns[:, None, :]]
        return matrix[rows][:, columns]

    diagonal = matrix.diagonal().copy()
    return PosteriorCovariance(
        diagonal, np.zeros_like(diagonal), entries, lambda features, which: with_all(features)[which].T
    )


def covariance_of_factor(factor: Array, own: Array, of_features: Array) -> PosteriorCovariance:
    """Return Sigma = F F' and what is each case's own ``(n,)``, given F ``(n, r)``.

    By ``of_features (r, r)``, T, features phi of a new case become its row T phi of F.
    """
    return PosteriorCovariance(
        np.einsum("ij,ij->i", factor, factor) + own,
        own,
        lambda rows, columns: np.asarray(factor[rows] @ np.swapaxes(factor[columns], -1, -2)),
        lambda features, which: np.asarray((of_features @ features).T @ factor[which].T),
    )
