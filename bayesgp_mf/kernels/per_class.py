"""A kernel for each class."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.kernels.base import Kernel
from bayesgp_mf.types import Array


class PerClass(Kernel):
    """One kernel for the latent function of each class, for `likelihoods.Softmax`.

    Any other kernel is shared by all classes: their functions then have one covariance, and are still independent.
    Parameters carry the number of the class, in the order of the class names: ``class0_lengthscale``.

    Parameters
    ----------
    *kernels : Kernel
        As many as there are classes; they may be of different kinds.

    Raises
    ------
    ValueError
        If there are fewer than two.
    TypeError
        If one is no kernel, or one for each class itself.

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

    def _names(self) -> list[list[tuple[str, str]]]:
        """Return, for each class, its parameters' own names and their names here."""
        return [[(name, f"class{c}_{name}") for name in kernel.params] for c, kernel in enumerate(self.kernels)]

    @property
    def params(self) -> dict[str, Array]:
        """The parameters of all classes, with the number of the class in front."""
        pairs = zip(self.kernels, self._names(), strict=True)
        return {full: kernel.params[name] for kernel, names in pairs for name, full in names}

    @property
    def priors(self) -> dict[str, Any]:
        """The priors of all classes, under the full names of their parameters."""
        pairs = zip(self.kernels, self._names(), strict=True)
        return {full: kernel.priors[name] for kernel, names in pairs for name, full in names if name in kernel.priors}

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
        result = {}
        for kernel, bar, names in zip(self.kernels, gram_bar, self._names(), strict=True):
            own = kernel.gram_vjp(X, bar)
            result.update({full: own[name] for name, full in names})
        return result

    def replace(self, **params: ArrayLike) -> Self:
        """Return the kernel with some parameters changed; unknown names raise ValueError."""
        unknown = sorted(set(params) - set(self.params))
        if unknown:
            raise ValueError(f"unknown parameter {unknown[0]!r}; this kernel has {list(self.params)}.")
        pairs = zip(self.kernels, self._names(), strict=True)
        return type(self)(
            *[
                kernel.replace(**{name: params[full] for name, full in names if full in params})
                for kernel, names in pairs
            ]
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the descriptions of the kernels."""
        return {"kernel": "PerClass", "terms": [kernel.to_dict() for kernel in self.kernels]}

    def __repr__(self) -> str:
        return f"PerClass({', '.join(map(repr, self.kernels))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PerClass) and self.kernels == other.kernels

    def __hash__(self) -> int:
        return hash(repr(self))
