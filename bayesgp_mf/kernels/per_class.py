"""A kernel for each class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Self

import numpy as np

from bayesgp_mf.kernels.base import Kernel
from bayesgp_mf.kernels.combinations import Combination
from bayesgp_mf.types import Array


class PerClass(Combination):
    """One kernel for the latent function of each class, for `likelihoods.Softmax`.

    All classes share any other kernel: their functions then have the same covariance, and are still independent.
    Parameter names have the number of the class, in the order of the class names: ``class0_lengthscale``.

    Parameters
    ----------
    *kernels : Kernel
        As many as there are classes; they may be of different kinds.

    Raises
    ------
    ValueError
        If there are fewer than two.
    TypeError
        If one is not a kernel, or is itself a `PerClass`.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Gaussian, Matern32, PerClass
    >>> kernel = PerClass(Gaussian(1.0), Gaussian(2.0), Matern32(1.0))
    >>> kernel.gram(np.zeros((4, 1))).shape
    (3, 4, 4)
    >>> list(kernel.params)[:3]
    ['class0_lengthscale', 'class0_variance', 'class1_lengthscale']
    """

    per_class: ClassVar[bool] = True

    def __init__(self, *kernels: Kernel) -> None:
        if len(kernels) < 2:
            raise ValueError(f"PerClass needs a kernel for each of two or more classes, got {len(kernels)}.")
        for kernel in kernels:
            if not isinstance(kernel, Kernel) or kernel.per_class:
                raise TypeError(f"PerClass takes kernels such as Gaussian(1.0), one for each class, got {kernel!r}.")
        self.kernels = kernels

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels of the classes."""
        return self.kernels

    def _labelled(self) -> dict[str, Kernel]:
        return {f"class{c}": kernel for c, kernel in enumerate(self.kernels)}

    def _rebuilt(self, labelled: Iterator[Kernel]) -> Self:
        return type(self)(*labelled)

    def scaled(self, factor: float) -> Kernel:
        """Return the kernel of each class with its covariances multiplied by a number > 0."""
        return PerClass(*[kernel.scaled(factor) for kernel in self.kernels])

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(C, n, n)`` of the process of each class at ``X (n, d)``."""
        return np.stack([kernel.gram(X) for kernel in self.kernels])

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(C, a, b)`` between ``A (a, d)`` and other cases ``B (b, d)``, for each class."""
        return np.stack([kernel.cross(A, B) for kernel in self.kernels])

    def diag(self, X: Array) -> Array:
        """Return the variances ``(C, n)`` at ``X (n, d)``, for each class."""
        return np.stack([kernel.diag(X) for kernel in self.kernels])

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return sum_cij gram_bar_cij dK_cij/dtheta for each parameter; ``gram_bar`` is ``(C, n, n)``."""
        return self._named(kernel.gram_vjp(X, bar) for kernel, bar in zip(self.kernels, gram_bar, strict=True))

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return sum_ci diag_bar_ci dk_c(x_i, x_i)/dtheta for each parameter; ``diag_bar`` is ``(C, n)``."""
        return self._named(kernel.diag_vjp(X, bar) for kernel, bar in zip(self.kernels, diag_bar, strict=True))

    def __repr__(self) -> str:
        return f"PerClass({', '.join(map(repr, self.kernels))})"
