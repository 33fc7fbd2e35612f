"""Kernels of a function of whose slopes something is known: of both together, and of the function given that.

Cases are told apart by a last column of inputs, which users do not see: 0 where a case is a value of the function, and
j + 1, or -(j + 1), where it is its slope, or less its slope, in column j.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from bayesgp_mf.errors import UndefinedQuantityError
from bayesgp_mf.kernels.base import Kernel
from bayesgp_mf.kernels.combinations import OfOne, depth_around
from bayesgp_mf.kernels.functionals import Functional, Term
from bayesgp_mf.matrices.dense import DenseGram
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.types import Array

NOISE = 1e-4
"""The noise variance of the probit of a slope, as a share of the slope's own prior variance: a slope of less than a
hundredth of its prior standard deviation may have either sign, in whatever units inputs and targets are."""


class SlopeSites(NamedTuple):
    """Gaussian sites of slopes.

    Attributes
    ----------
    inputs : (m, d + 1) array
        Where they are, and in the last column of which input.
    shift, precision : (m,) array
        b and W of exp(b g - W g^2 / 2), for g the slope in units of its noise.
    """

    inputs: Array
    shift: Array
    precision: Array


def as_values(X: Array) -> Array:
    """Return inputs ``(n, d + 1)`` of cases that see values, not slopes."""
    return np.column_stack([X, np.zeros(len(X))])


class WithSlopes(Functional):
    """The kernel of values of a function and of its slopes, each over the standard deviation of its noise.

    Parameters
    ----------
    kernel : Kernel
        Of the function.
    """

    def __init__(self, kernel: Kernel) -> None:
        self.kernel = kernel
        self.depth: int = depth_around([kernel])

    @property
    def before_slopes(self) -> Kernel:
        """That of the function by itself."""
        return self.kernel

    def terms(self, X: Array) -> list[Term]:
        """Return values and slopes, with the cases that see them."""
        kinds, sources = X[:, -1], np.append(np.arange(X.shape[1] - 1), -1)
        found = []
        for kind in np.unique(kinds):
            cases, column = np.flatnonzero(kinds == kind), None if kind == 0 else int(abs(kind)) - 1
            found.append(Term(X[cases, :-1], -1.0 if kind < 0 else 1.0, column, sources, cases))
        return found

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)``; exactly symmetric."""
        scale = self._scale(X)
        return np.asarray(super().gram(X) * np.multiply.outer(scale, scale))

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        return np.asarray(self._scale(A)[:, None] * super().cross(A, B) * self._scale(B))

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``gram_bar``, by way of the scale of slopes too."""
        scale = self._scale(X)
        bar = gram_bar * np.multiply.outer(scale, scale)
        moved = np.where(X[:, -1] == 0, 0.0, -0.5 * NOISE * scale**2)  # d log scale / d variance
        bar[np.diag_indices_from(bar)] += moved * np.sum((bar + bar.T) * super().gram(X), axis=1)
        return super().gram_vjp(X, bar)

    def _scale(self, X: Array) -> Array:
        """Return by what cases are multiplied: slopes by one over the standard deviation of their noise."""
        scale, slopes = np.ones(len(X)), np.flatnonzero(X[:, -1])
        for rows in blocks(slopes.size, 32):
            some = slopes[rows]
            scale[some] = 1.0 / np.sqrt(NOISE * np.diag(super().gram(X[some])))
        return scale

    def _made_of(self) -> dict[str, Any]:
        return {"kernel": self.kernel}

    def __repr__(self) -> str:
        return f"WithSlopes({self.kernel!r})"


class GivenSlopes(OfOne):
    """The kernel of a function given what Gaussian sites say of its slopes; it has a `mean` too.

    Parameters
    ----------
    kernel : Kernel
        Of the function before that.
    known_slopes : SlopeSites
        They are those at the hyperparameters of the kernel, which therefore stay as they are.
    """

    def __init__(self, kernel: Kernel, known_slopes: SlopeSites) -> None:
        self.kernel, self.known_slopes = kernel, known_slopes
        self.depth: int = depth_around([kernel])
        self._with_slopes = WithSlopes(kernel)
        self._sites = DenseGram(self._with_slopes.gram(known_slopes.inputs)).sites(known_slopes.precision)
        self._weights = self._sites.weights(known_slopes.shift)

    @property
    def before_slopes(self) -> Kernel:
        """That of the function by itself."""
        return self.kernel

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)``; exactly symmetric."""
        half = self._half(X)
        taken = half.T @ half
        return np.asarray(self.kernel.gram(X) - 0.5 * (taken + taken.T))

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        return np.asarray(self.kernel.cross(A, B) - self._half(A).T @ self._half(B))

    def diag(self, X: Array) -> Array:
        """Return the variances ``(n,)``."""
        return np.asarray(self.kernel.diag(X) - np.sum(self._half(X) ** 2, axis=0))

    @property
    def mean(self) -> Callable[[Array], Array]:
        """The mean ``(n,)`` of inputs ``(n, d)`` that the slopes say by themselves."""
        return lambda X: np.asarray(self._weights @ self._of_slopes(X))

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Raise: what is known of slopes is known at one setting of the hyperparameters."""
        raise _of_one_setting()

    def _half(self, X: Array) -> Array:
        """Return P ``(m, n)`` with P'P what slopes take away of covariances; their sites are none below zero."""
        return self._sites.halves(self._of_slopes(X))[0]

    def _of_slopes(self, X: Array) -> Array:
        return self._with_slopes.cross(self.known_slopes.inputs, as_values(X))

    def _made_of(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "known_slopes": self.known_slopes}

    def _made_with(self, changed: dict[str, Any]) -> Self:
        raise _of_one_setting()

    def to_dict(self) -> dict[str, Any]:
        """Raise, as `gram_vjp` does."""
        raise _of_one_setting()

    def __repr__(self) -> str:
        return f"{self.kernel!r} given {len(self.known_slopes.shift)} slopes"


def _of_one_setting() -> UndefinedQuantityError:
    return UndefinedQuantityError(
        "this is of a fit with monotone=..., which knows its slopes at its own hyperparameters and beside its own data "
        "alone. To change these, fit again with monotone."
    )


def check_without_slopes(kernel: Kernel) -> None:
    """Raise an UndefinedQuantityError if more is known of a function than its kernel."""
    if kernel.before_slopes is not kernel:
        raise _of_one_setting()
