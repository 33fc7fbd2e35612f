r"""Gram matrices of low rank: a pivoted Cholesky root.

Smooth kernels in few dimensions, and linear ones, have Gram matrices :math:`K = L L^T + E` with L ``(n, r)``, r far
below n, and a positive semi-definite rest E of small trace. L is the Cholesky factor whose pivots are r of the cases:
their values are exact, and those of the others what these predict, :math:`K_{np} K_{pp}^{-1} K_{pn}`. All that is
needed of K are its diagonal and the columns of the pivots.

What is left out moves a log evidence whose derivative in K is G by tr(G E) (to first order, and exactly with G taken
somewhere between the two). For TAP and for Laplace's method at a fixed mode :math:`2 G = \alpha \alpha^T - R`, and with
site precisions W of at most :math:`W_{max}`, R is no larger than W, so that

.. math:: -\tfrac12 W_{max} \operatorname{tr} E \;\le\; \operatorname{tr}(G E) \;\le\; \tfrac12 \alpha^T E \alpha.

The lower bound is one of the trace alone. The upper one is near :math:`\tfrac12 \overline{\alpha^2}
\operatorname{tr} E` where the weights, which are residuals of single cases, owe nothing to the directions of E; the
average of :math:`\alpha^2` is of the order of W. So a trace of 2 accuracy / curvature keeps the log evidence to the
accuracy.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesgp_mf.matrices.root_gradient import RootGradient
from bayesgp_mf.matrices.root_gram import RootGram
from bayesgp_mf.types import Array


@dataclass(frozen=True, eq=False)
class LowRankGram(RootGram):
    """A Gram matrix ``(n, n)`` known by a root: it stands where the dense matrix stands.

    Attributes
    ----------
    root : Root
        L ``(n, r)``, with K = L L'.
    pivots : (r,) array of int
        The cases whose columns it was made from, in the order in which L is triangular.
    left_out : float
        Trace of what was left out of the matrix that the kernel gives, in squared latent units.
    """

    root: Any = field()  # each matrix has one, which is no default here
    pivots: NDArray[np.intp] = field()
    left_out: float

    form = "low_rank"

    @property
    def numbers(self) -> Any:
        """The root, which is all that there is of K."""
        return self.root

    @property
    def description(self) -> str:
        """What it is, to be said of a failure."""
        return f" on a root of rank {self.rank}; Control(gram='dense') keeps the whole matrix"

    @cached_property
    def factor(self) -> Array:
        """Lower Cholesky factor ``(r, r)`` of the block of the pivots."""
        return np.tril(self.root[self.pivots])

    @cached_property
    def _diagonal(self) -> Array:
        return np.asarray(np.einsum("ij,ij->i", self.root, self.root))

    def diagonal(self) -> Array:
        """Return K_ii ``(n,)``."""
        return self._diagonal

    def some_of_product(self, which: NDArray[np.intp], vector: Array) -> Array:
        """Return the entries with the given numbers ``(k,)`` of K v."""
        return np.asarray(self.root[which] @ (self.root.T @ vector))

    def basis(self, X: Array) -> tuple[Array, Array]:
        """Return the inputs of the pivots, and their factor: the features of a case are L^-1 k(P, x)."""
        return X[self.pivots], self.factor

    def stored(self, alpha: Array, correction: Any) -> dict[str, NDArray[Any]]:
        """Return the pivots."""
        return {"pivot": self.pivots.astype(np.int64)}

    def pull_back(self, gradient: RootGradient, kernel: Any, X: Array) -> dict[str, Array]:
        """Return the derivatives in the parameters of the kernel from that in K."""
        return dict(kernel.cross_vjp(X, X[self.pivots], gradient.columns()))

    @cached_property
    def _left_out_after(self) -> Array:
        """Trace ``(r + 1,)`` of what the first columns of the root, none to all, leave out of all of them."""
        columns = np.einsum("ij,ij->j", self.root, self.root)
        return np.append(np.cumsum(columns[::-1])[::-1], 0.0)

    def leading_rank(self, left_out: float) -> int:
        """Return how few of the first columns of the root, but at least one, leave out at most a trace ``left_out``."""
        return max(1, int(np.argmax(self._left_out_after <= left_out)))

    def leading(self, rank: int) -> LowRankGram:
        """Return the Gram matrix of the first columns of the root."""
        left_out = self.left_out + float(self._left_out_after[rank])
        return LowRankGram(np.ascontiguousarray(self.root[:, :rank]), self.pivots[:rank], left_out)

    def coarser(self, left_out: Callable[[], float], most: float, *, started: bool) -> LowRankGram | None:
        """Return the matrix of so few first columns that the others leave out at most a trace, or None.

        Parameters
        ----------
        left_out : callable
            Returns that trace.
        most : float
            The largest part of all columns that is fewer.
        """
        rank = self.leading_rank(left_out())
        return None if rank >= most * self.rank else self.leading(rank)
