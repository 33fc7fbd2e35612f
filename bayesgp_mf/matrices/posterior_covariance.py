"""Posterior covariances of training cases with each other and with new ones, a few of them at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.types import Array

Cases = NDArray[np.intp] | slice


class PosteriorCovariance(Protocol):
    """The covariance Sigma of the latent values under all sites."""

    @property
    def diagonal(self) -> Array:
        """Sigma_ii ``(n,)``."""

    @property
    def own(self) -> Array:
        """The part ``(n,)`` of Sigma_ii that is a case's own: noise that no other case has, an old or a new one."""

    def entries(self, rows: Cases, columns: Cases) -> Array:
        """Return ``Sigma[rows, columns]``, on the diagonal without what is a case's own.

        Rows and columns may be ``(B, k)`` numbers each, for ``(B, k, k)`` of B choices at once.
        """

    def with_new(self, features: Array, which: Cases) -> Array:
        """Return the covariances ``(m, k)`` of new cases, by their features ``(r, m)``, with k training cases."""


class WholeCovariance:
    """Sigma as a matrix.

    Parameters
    ----------
    matrix : (n, n) array
        Sigma.
    with_all : callable
        Returns the covariances ``(n, m)`` of all training cases with new ones, from their features ``(r, m)``.
    """

    def __init__(self, matrix: Array, with_all: Callable[[Array], Array]) -> None:
        self._matrix, self._with_all = matrix, with_all
        self.diagonal = matrix.diagonal().copy()
        self.own = np.zeros_like(self.diagonal)

    def entries(self, rows: Cases, columns: Cases) -> Array:
        """Return ``Sigma[rows, columns]``."""
        if isinstance(rows, np.ndarray) and rows.ndim == 2 and isinstance(columns, np.ndarray):
            return self._matrix[rows[:, :, None], columns[:, None, :]]
        return self._matrix[rows][:, columns]

    def with_new(self, features: Array, which: Cases) -> Array:
        """Return the covariances ``(m, k)`` of new cases with k training cases."""
        return self._with_all(features)[which].T


class FactorCovariance:
    """Sigma = F F' and what is each case's own.

    Parameters
    ----------
    factor : (n, r) array
        F.
    own : (n,) array
        What is added to the diagonal.
    of_features : (r, r) array
        T, by which features phi of a new case become its row T phi of F.
    """

    def __init__(self, factor: Array, own: Array, of_features: Array) -> None:
        self._factor, self._of_features = factor, of_features
        self.own = own
        self.diagonal = np.einsum("ij,ij->i", factor, factor) + own

    def entries(self, rows: Cases, columns: Cases) -> Array:
        """Return ``Sigma[rows, columns]``, on the diagonal without what is a case's own."""
        return np.asarray(self._factor[rows] @ np.swapaxes(self._factor[columns], -1, -2))

    def with_new(self, features: Array, which: Cases) -> Array:
        """Return the covariances ``(m, k)`` of new cases, by their features ``(r, m)``, with k training cases."""
        return np.asarray((self._of_features @ features).T @ self._factor[which].T)


class SomeCovariance:
    """That of some of the cases.

    Parameters
    ----------
    whole : PosteriorCovariance
        Of all.
    cases : (k,) array of int
        Their numbers; they are numbered anew.
    """

    def __init__(self, whole: PosteriorCovariance, cases: NDArray[np.intp]) -> None:
        self._whole, self._cases = whole, cases
        self.diagonal, self.own = whole.diagonal[cases], whole.own[cases]

    def entries(self, rows: Cases, columns: Cases) -> Array:
        """Return ``Sigma[rows, columns]``, on the diagonal without what is a case's own."""
        return self._whole.entries(self._cases[rows], self._cases[columns])

    def with_new(self, features: Array, which: Cases) -> Array:
        """Return the covariances ``(m, k)`` of new cases with k training cases."""
        return self._whole.with_new(features, self._cases[which])
