r"""Gram matrices known by a sparse precision: cases see a Gaussian Markov random field on nodes.

With f = A x and x of precision Q, K = A Q^-1 A'. Sites W on the cases leave x the precision Q + A'WA, whose sparse
factor has the log determinant, products and, by Takahashi's equations (`matrices.sparse`), posterior variances. With
:math:`2 G = l r^T + r l^T - R` the evidence changes in a parameter of Q by

.. math:: \mathrm{tr}(G\, dK) = -(Q^{-1} A^T l)^T dQ\, (Q^{-1} A^T r)
          + \tfrac12 \mathrm{tr}\, dQ \left(Q^{-1} - (Q + A^T W A)^{-1}\right),

which asks for no entry of the inverses off the pattern of Q.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array, csr_array, diags_array

from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.matrices.matrix import Covariance, Matrix, Sites
from bayesgp_mf.matrices.root import Drawn
from bayesgp_mf.matrices.sparse import SparseFactor
from bayesgp_mf.types import Array

AT_ONCE = 256
"""Columns of an inverse that are solved for together."""


class Field(NamedTuple):
    """What cases see of a Gaussian field on nodes: f = A x, where x has a sparse precision Q.

    Attributes
    ----------
    at : (n, nodes) sparse array
        A. All rows have as many entries, each in another part of the nodes, of which Q knows no other.
    precision : (nodes, nodes) sparse array
        Q.
    slopes : mapping of str to (nodes, nodes) sparse array
        Derivatives of Q in the parameters of a kernel, by name, on its pattern.
    factor : SparseFactor, optional
        That of Q, where it is known.
    """

    at: csr_array
    precision: csc_array
    slopes: Mapping[str, csc_array]
    factor: SparseFactor | None = None


class PrecisionGradient(NamedTuple):
    """A derivative (l r' + r l' - R)/2 in K, R of some sites."""

    left: Array
    right: Array
    sites: PrecisionSites


@dataclass(frozen=True, eq=False)
class PrecisionGram(Matrix):
    """K = A Q^-1 A' of cases that see a field with a sparse precision.

    Attributes
    ----------
    field : Field
    """

    field: Field

    form = "precision"

    @cached_property
    def factor(self) -> SparseFactor:
        """That of Q."""
        return self.field.factor or SparseFactor(self.field.precision)

    @cached_property
    def _diagonal(self) -> Array:
        return self.prior_variance(self.field.at)

    def prior_variance(self, at: csr_array) -> Array:
        """Return a_i' Q^-1 a_i ``(m,)`` of the rows of another A."""
        nodes, factors = _by_part(at)
        return np.asarray(np.sum(factors**2 * self.factor.diagonal_of_inverse[nodes], axis=0))

    def diagonal(self) -> Array:
        """Return K_ii ``(n,)``."""
        return self._diagonal

    @property
    def shape(self) -> tuple[int, ...]:
        """That of the dense matrix."""
        n = self.field.at.shape[0]
        return n, n

    @property
    def width(self) -> int:
        """Nodes."""
        return int(self.field.at.shape[1])

    @property
    def description(self) -> str:
        """What it is, to be said of a failure."""
        return f" on a sparse precision of {self.width} nodes; Control(gram='dense') works with the whole matrix"

    def at_nodes(self, vector: Array) -> Array:
        """Return Q^-1 A' v: of the weights of the cases, the means of the nodes."""
        return self.factor.solve(self.field.at.T @ vector)

    def __matmul__(self, vector: Array) -> Array:
        return np.asarray(self.field.at @ self.at_nodes(vector))

    def sites(self, precision: Array) -> PrecisionSites:
        """Return the correction of sites with precisions ``(n,)``."""
        return PrecisionSites(self, precision)

    def sampler(self, alpha: Array, correction: Any) -> Any:
        """Return what draws the latent values of the training cases."""
        return PrecisionSampler(self, self.in_features(alpha), correction.factor)

    def draw_new(self, kernel: Any, X_new: Array, alpha: Array, correction: Any, noise: Any) -> Array:
        """Return draws ``(draws, m)`` of the latent values of new cases."""
        nodes = self.in_features(alpha)[:, None] + correction.factor.root_solve(noise(self.width).T)
        return np.asarray((kernel.field(X_new).at @ nodes).T)

    def stored(self, alpha: Array, correction: Any) -> dict[str, NDArray[Any]]:
        """Return how many nodes there are, which says that it is one."""
        return {"nodes": np.array(self.width)}

    def check_memory(self, settings: int, classes: int) -> None:
        """Do nothing: it takes little."""

    def features(self, kernel: Any, X: Array, X_new: Array) -> Array:
        """Return what new cases see of the nodes, A_new' ``(nodes, m)``."""
        return np.asarray(kernel.field(X_new).at.T.toarray())

    def in_features(self, alpha: Array) -> Array:
        """Return the means Q^-1 A' alpha of the nodes ``(..., nodes)``."""
        return np.asarray(self.at_nodes(alpha.T).T)

    def pull_back(self, gradient: PrecisionGradient, kernel: Any, X: Array) -> dict[str, Array]:
        """Return the derivatives in the parameters of the kernel from that in K."""
        left, right = self.at_nodes(gradient.left), self.at_nodes(gradient.right)
        before, after = self.factor, gradient.sites.factor
        return {
            name: np.asarray(0.5 * (before.trace_with(slope) - after.trace_with(slope)) - left @ (slope @ right))
            for name, slope in self.field.slopes.items()
        }

    def rounding(self, gradient: Any) -> float:
        """Return 0: there are no entries of K whose rounding could decide; a sum may lose digits all the same."""
        return 0.0


class PrecisionSites(Sites):
    """The posterior under sites W, whose precision is Q + A'WA on the nodes."""

    form = PrecisionGram.form

    def __init__(self, gram: PrecisionGram, site_precision: Array) -> None:
        super().__init__(site_precision)
        self.gram = gram

    @cached_property
    def factor(self) -> SparseFactor:
        """That of Q + A'WA."""
        at = self.gram.field.at
        return SparseFactor(self.gram.field.precision + at.T @ diags_array(self.site_precision) @ at)

    @property
    def log_det(self) -> float:
        """Return log det(I + K W)."""
        return self.factor.log_det - self.gram.factor.log_det

    def posterior(self, shift: Array) -> tuple[Array, Array]:
        """Return the weights alpha = b - W Sigma b and the means Sigma b, for b ``(n,)`` or ``(n, m)``."""
        at = self.gram.field.at
        latent = np.asarray(at @ self.factor.solve(at.T @ shift))
        return np.asarray(shift - (self.site_precision * latent.T).T), latent

    def covariance_diagonal(self) -> Array:
        """Return the posterior variances ``(n,)``."""
        return quadratic_diagonal(self.factor, self.gram.field.at)

    def covariance(self, cavity_variance: Array, left_out: Callable[[], float]) -> Covariance | None:
        """Return None: products with the squared entries of Sigma would need all of them."""
        return None

    def _with_new(self, features: Array) -> Array:
        """Return the posterior covariances ``(n, m)`` with new cases."""
        return np.asarray(self.gram.field.at @ self.factor.solve(features))

    def quadratic(self, features: Array) -> Array:
        """Return ``k(x)' R k(x')``, ``(m, m)``, of cases that see so much of the nodes ``(nodes, m)``."""
        # Q^-1 A'RA Q^-1 is by how much the covariance of the nodes falls
        result = features.T @ (self.gram.factor.solve(features) - self.factor.solve(features))
        return np.asarray(0.5 * (result + result.T))

    def quadratic_diagonal(self, features: Array) -> Array:
        """Return its diagonal ``(m,)``."""
        at = csr_array(features.T)
        return self.gram.prior_variance(at) - quadratic_diagonal(self.factor, at)

    def gradient(self, left: Array, right: Array) -> PrecisionGradient:
        """Return ``(left right' + right left' - R) / 2``."""
        return PrecisionGradient(left, right, self)


class PrecisionSampler:
    """Draws of f = A x with a posterior of x; densities are those of x by the precisions before and after.

    Parameters
    ----------
    gram : PrecisionGram
    mean : (nodes,) array
        That of x.
    factor : SparseFactor
        Of its precision.
    """

    def __init__(self, gram: PrecisionGram, mean: Array, factor: SparseFactor) -> None:
        self._gram, self._mean, self._factor = gram, mean, factor
        self._constant = 0.5 * mean.size * np.log(2.0 * np.pi)

    def draw(self, draws: int, rng: np.random.Generator) -> Drawn:
        """Return some draws; the log densities are those of Q^1/2 x."""
        noise = rng.standard_normal((draws, self._mean.size))
        x = self._mean[:, None] + self._factor.root_solve(noise.T)
        field, gain = self._gram.field, 0.5 * (self._factor.log_det - self._gram.factor.log_det)
        prior = -0.5 * np.einsum("ij,ij->j", x, field.precision @ x) - self._constant
        density = gain - 0.5 * np.sum(noise**2, axis=1) - self._constant
        return Drawn(np.asarray((field.at @ x).T), prior, density)


def quadratic_diagonal(factor: SparseFactor, at: csr_array) -> Array:
    """Return a_i' Q^-1 a_i ``(n,)`` of the rows of A, from known entries of the inverse or by solving."""
    nodes, factors = _by_part(at)
    found = np.sum(factors**2 * factor.diagonal_of_inverse[nodes], axis=0)
    for i, j in combinations(range(len(nodes)), 2):
        found += 2.0 * factors[i] * factors[j] * factor.entries_of_inverse(nodes[i], nodes[j])
    (unknown,) = np.nonzero(np.isnan(found))  # of areas without a case, with what all cases share
    for block in blocks(unknown.size, AT_ONCE):
        some = at[unknown[block]].toarray().T
        found[unknown[block]] = np.einsum("ij,ij->j", some, factor.solve(some))
    return np.asarray(found)


def _by_part(at: csr_array) -> tuple[NDArray[Any], Array]:
    """Return the nodes ``(parts, n)`` that rows of A have entries for, and these entries."""
    return at.indices.reshape(at.shape[0], -1).T, at.data.reshape(at.shape[0], -1).T
