r"""Functions drawn from a Gaussian process at very many inputs, without their covariance matrix.

A process with covariance k is a weighted sum of features of its values at some inputs P, the pivots, and a rest:

.. math:: f(x) = \phi(x)^T u + e(x), \qquad \phi(x) = L^{-1} k(P, x), \qquad L L^T = k(P, P), \qquad u \sim N(0, I),

where e is independent of u and has the variance :math:`k(x,x) - \phi(x)^T \phi(x)`. Pivots are taken, the largest rest
first, until no case is left with more than `TOLERANCE` of its prior variance [1]_. Then e is left out: a covariance
between any two of the cases is off by at most that share of the product of their prior standard deviations. A draw of
u is a draw of the function everywhere, at O(r) a case for r pivots ("pathwise conditioning" [2]_, with features that
are exact to the tolerance where those of the reference are random). Of new cases nothing larger than a block times r is
made.

What the data say of f(X) = L u, with :math:`L = \phi(X)^T`, they say of u: its posterior mean is :math:`L^T \alpha` and
its covariance :math:`I - L^T R L`, whatever the form of R. A mean is off by at most `TOLERANCE` times the sum of
:math:`|\alpha|`, in units of the prior variance.

Independent noise of each case (a White kernel) is not spanned by anything and is added to each case by itself.

References
----------
.. [1] Fine, S., & Scheinberg, K. (2001). Efficient SVM training using low-rank kernel representations. JMLR 2, 243-264.
.. [2] Wilson, J. T., Borovitskiy, V., Terenin, A., Mostowsky, P., & Deisenroth, M. P. (2021). Pathwise conditioning
   of Gaussian processes. JMLR 22(105), 1-47.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from bayesgp_mf.kernels import Kernel
from bayesgp_mf.matrices.factors import blocks, pivoted_root, psd_root
from bayesgp_mf.matrices.matrix import Correction, Matrix
from bayesgp_mf.matrices.root import features_of
from bayesgp_mf.types import Array

TOLERANCE = 1e-8
"""The share of its prior variance that may be left out of a case."""


class TooRoughError(ValueError):
    """A process varies in more independent ways over the cases than was allowed."""


@dataclass(frozen=True, eq=False)
class Basis:
    """Features of a kernel at pivots.

    Attributes
    ----------
    kernel : Kernel
        k; what it has of independent noise is no part of the features.
    points : (r, d) array
        P.
    factor : (r, r) array
        L, lower triangular.
    """

    kernel: Kernel
    points: Array
    factor: Array

    @property
    def size(self) -> int:
        """How many features there are."""
        return int(self.points.shape[0])

    def features(self, X: Array) -> Array:
        """Return phi ``(r, m)`` of the cases ``X (m, d)``."""
        return features_of(self.kernel, self.points, self.factor, X)

    def rows(self, X: Array) -> Array:
        """Return phi of many cases as rows ``(m, r)``, block by block."""
        result = np.empty((X.shape[0], self.size))
        for block in blocks(X.shape[0]):
            result[block] = self.features(X[block]).T
        return result

    def covering(self, X: Array, largest: int) -> tuple[Basis | None, Array]:
        """Return the basis with what the cases ``X (m, d)`` add to it, and the variance of their own noise ``(m,)``.

        None in place of a basis that would have more than ``largest`` pivots.
        """
        features = self.features(X)
        covariance = self.kernel.cross(X, X)
        shared = covariance.diagonal().copy()
        scale = np.divide(1.0, np.sqrt(shared), out=np.zeros_like(shared), where=shared > 0)
        covariance -= features.T @ features
        covariance *= scale
        covariance *= scale[:, None]
        noise = self.kernel.diag(X) - shared
        noise[noise < TOLERANCE * shared] = 0.0
        if not np.any(covariance.diagonal() > TOLERANCE):
            return self, noise
        root, pivots = pivoted_root(covariance, TOLERANCE)
        old, size = self.size, self.size + pivots.size
        if size > largest:
            return None, noise
        factor = np.zeros((size, size), order="F")
        factor[:old, :old], factor[old:, :old] = self.factor, features[:, pivots].T
        factor[old:, old:] = root[pivots] / scale[pivots, None]
        return Basis(self.kernel, np.concatenate([self.points, X[pivots]]), factor), noise


def training_basis(kernel: Kernel, X: Array, matrix: Matrix) -> Basis:
    """Return a basis of the training cases: that of their Gram matrix, if it is made of one."""
    known = matrix.basis(X)
    if known is not None:
        return Basis(kernel, *known)
    return cover(empty_basis(kernel, X.shape[1]), X, X.shape[0])[0]


def empty_basis(kernel: Kernel, columns: int) -> Basis:
    """Return a basis without features, for inputs ``(m, columns)``."""
    return Basis(kernel, np.empty((0, columns)), np.empty((0, 0)))


def cover(basis: Basis, X: Array, most: int) -> tuple[Basis, Array]:
    """Return a basis that leaves no more than `TOLERANCE` out of any of many cases, and the variance of their noise.

    Parameters
    ----------
    basis : Basis
        To start from.
    X : (m, d) array
        The cases, which are gone through once, block by block.
    most : int
        Pivots that may be added.

    Raises
    ------
    TooRoughError
        If those are not enough.
    """
    noise, largest = np.empty(X.shape[0]), basis.size + most
    for block in blocks(X.shape[0]):
        larger, noise[block] = basis.covering(X[block], largest)
        if larger is None:
            raise TooRoughError(f"the first {block.stop} of {X.shape[0]} vary in more than {most} independent ways")
        basis = larger
    return basis, noise


def draw_weights(
    basis: Basis, X: Array, matrix: Matrix, alpha: Array, correction: Correction, draws: int, rng: np.random.Generator
) -> Array:
    """Draw the weights u ``(draws, r)`` of the features from their posterior.

    Parameters
    ----------
    basis : Basis
        One that begins with the `training_basis`.
    X : (n, d) array
        Training inputs.
    matrix : Matrix
        Their Gram matrix.
    alpha : (n,) or (draws, n) array
        Weights of the posterior mean, or of a mean for each draw.
    correction : Correction
        R.
    draws : int
        How many.
    rng : numpy.random.Generator
        Source of randomness.
    """
    if not matrix.is_whole:
        factor = matrix.posterior_factor(correction)
        seen = matrix.in_features(alpha) + rng.standard_normal((draws, matrix.width)) @ factor.T
        # under that Gram matrix, the training cases say nothing of other features
        return np.hstack([seen, rng.standard_normal((draws, basis.size - matrix.width))])
    rows = basis.rows(X)
    root = psd_root(np.eye(basis.size) - correction.quadratic(rows))
    return np.asarray(alpha @ rows + rng.standard_normal((draws, root.shape[1])) @ root.T)


def values(
    basis: Basis,
    weights: Array,
    noise: Array | None,
    X: Array,
    rng: np.random.Generator,
    see: Callable[[slice, Array], None] | None = None,
) -> Array:
    """Return functions with weights ``(draws, r)`` at cases ``X (m, d)``, with their own noise drawn: ``(draws, m)``.

    ``noise (m,)`` are its variances, as `cover` has them; None for all that the features leave of the prior's. ``see``
    is shown the features of each block, which are the most of the work.
    """
    result = np.empty((weights.shape[0], X.shape[0]))
    for block in blocks(X.shape[0]):
        features = basis.features(X[block])
        if see is not None:
            see(block, features)
        drawn = weights @ features
        if noise is None:
            own = np.maximum(basis.kernel.diag(X[block]) - np.einsum("ij,ij->j", features, features), 0.0)
        else:
            own = noise[block]
        if own.any():
            drawn += np.sqrt(own) * rng.standard_normal(drawn.shape)
        result[:, block] = drawn
    return result
