"""What a kernel is, and how kernels add and multiply."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from dataclasses import is_dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.kernels.inherited import drop_outdated
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.types import Array

DEEPEST = 100
"""Sums and products within each other: each level takes some calls within calls, of which Python allows 1000."""


class Kernel(abc.ABC):
    """A covariance function k(x, x') with named positive parameters. Kernels are immutable.

    A concrete kernel has a constructor that takes its parameters by name, and the abstract methods below.
    ``+`` and ``*`` make sums and products.

    Attributes
    ----------
    per_class : bool
        Whether `gram`, `cross` and `diag` have a leading axis, with an entry for each class: so `PerClass`.
    """

    per_class: ClassVar[bool] = False

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        drop_outdated(cls, Kernel, {"diag_vjp": ("diag", "gram_vjp"), "inputs_vjp": ("gram", "cross")})

    @property
    @abc.abstractmethod
    def params(self) -> dict[str, Array]:
        """The parameters by name: 0-d arrays, or ``(d,)`` with one entry for each input."""

    @property
    def priors(self) -> dict[str, Any]:
        """Prior densities that come with the parameters, by name: random variables of PyMC have one, numbers none."""
        return {}

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernels that it is made of: none, unless it combines others."""
        return ()

    @abc.abstractmethod
    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)`` of the process at ``X (n, d)``, exactly symmetric."""

    @abc.abstractmethod
    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)`` between ``A (a, d)`` and other cases ``B (b, d)``."""

    @abc.abstractmethod
    def diag(self, X: Array) -> Array:
        """Return the variances ``(n,)`` at ``X (n, d)``: the diagonal of `gram`."""

    @abc.abstractmethod
    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return sum_ij gram_bar_ij dK_ij/dtheta for each parameter, in the shapes of `params`.

        ``gram_bar (n, n)`` is symmetric: the derivative of some number with respect to `gram`.
        """

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return sum_i diag_bar_i dk(x_i, x_i)/dtheta for each parameter, in the shapes of `params`.

        ``diag_bar (n,)`` is the derivative of some number with respect to `diag`. This method is made of `gram_vjp`, a
        few cases at a time, and right for any kernel; a kernel that knows its own `diag` is faster. A class that
        derives from such a kernel and has a `diag` or `gram_vjp` of its own, of which the inherited method knows
        nothing, is given this one again, unless it has a `diag_vjp` of its own too.
        """
        total = {name: np.zeros(value.shape) for name, value in self.params.items()}
        for rows in blocks(X.shape[0], 32):
            for name, part in self.gram_vjp(X[rows], np.diag(diag_bar[rows])).items():
                total[name] = total[name] + part
        return total

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return sum_ij cross_bar_ij dk(a_i, b_j)/dtheta for each parameter, in the shapes of `params`.

        ``cross_bar (a, b)`` is the derivative of some number with respect to `cross`. A kernel without this method is
        never worked with by a Gram matrix of low rank; nor is one that inherits it and has a `gram`, `cross` or
        `gram_vjp` of its own, of which the inherited method knows nothing.
        """
        raise NotImplementedError(f"{type(self).__name__} has no cross_vjp; use Control(gram='dense').")

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return sum_i cross_bar_ij dk(a_i, b_j)/db_jl for each of the second inputs, ``(b, d)`` as ``B``.

        ``cross_bar (a, b)`` is the derivative of some number with respect to `cross`. As a covariance is symmetric,
        ``2 * inputs_vjp(X, X, gram_bar)`` is the derivative of `gram` in ``X``, for a symmetric ``gram_bar``. Where a
        covariance has no derivative, as that of some kernels at equal inputs, it counts as zero. A kernel without this
        method has inducing inputs that stay where they are; so has one that inherits it and has a `gram` or `cross`
        of its own, of which the inherited method knows nothing.
        """
        raise NotImplementedError(
            f"{type(self).__name__} has no inputs_vjp; its inducing inputs cannot move: use Inducing(move=False)."
        )

    @abc.abstractmethod
    def replace(self, **params: ArrayLike) -> Self:
        """Return the kernel with some parameters changed; unknown names raise ValueError."""

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, strings and lists from which `kernels.from_dict` rebuilds the kernel."""

    def __add__(self, other: Kernel) -> Sum:
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __mul__(self, other: Kernel) -> Product:
        return Product(self, other) if isinstance(other, Kernel) else NotImplemented


class Leaf(Kernel):
    """A kernel that is not made of others: the bookkeeping that all of them share.

    Attributes
    ----------
    parameter_names : tuple of str
        Names of the fields that are parameters, in order.
    setting_names : tuple of str
        Names of the fields that are chosen once and not tuned, such as a polynomial's degree.
    """

    parameter_names: ClassVar[tuple[str, ...]] = ()
    setting_names: ClassVar[tuple[str, ...]] = ()

    @property
    def params(self) -> dict[str, Array]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in self.parameter_names}

    @property
    def settings(self) -> dict[str, Any]:
        """What is chosen once and not tuned."""
        return {name: getattr(self, name) for name in self.setting_names}

    def replace(self, **params: ArrayLike) -> Self:
        """Return the kernel with some parameters changed; unknown names raise ValueError."""
        _check_names(self, params)
        if is_dataclass(self):  # with all its fields, also those that are neither parameters nor settings
            return replace(self, **params)
        return type(self)(**{**self.params, **self.settings, **params})

    def to_dict(self) -> dict[str, Any]:
        """Return the class name, parameters and settings as plain numbers, strings and lists."""
        plain = {name: value.tolist() for name, value in self.params.items()}
        return {"kernel": type(self).__name__, **plain, **self.settings}

    def __repr__(self) -> str:
        fields = {**{k: v.tolist() for k, v in self.params.items()}, **self.settings}
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in fields.items())})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Leaf) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self))


class FromCross(Leaf):
    """A leaf whose Gram matrix is what its `cross` says of a set of cases with itself."""

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)``."""
        return self.cross(X, X)

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``gram_bar``."""
        return self.cross_vjp(X, X, gram_bar)


class Combination(Kernel):
    """A kernel made of labelled ones, whose parameters carry the label in front of their name."""

    @abc.abstractmethod
    def _labelled(self) -> dict[str, Kernel]:
        """Return the kernels that have parameters of their own, by label, in order."""

    @abc.abstractmethod
    def _rebuilt(self, labelled: Iterator[Kernel]) -> Self:
        """Return the same combination of others in place of the `_labelled` ones."""

    @property
    def params(self) -> dict[str, Array]:
        """The parameters of all kernels below, with the kernel's label in front."""
        return self._named(kernel.params for kernel in self._labelled().values())

    @property
    def priors(self) -> dict[str, Any]:
        """The priors of all kernels below, under the full names of their parameters."""
        labelled = self._labelled().items()
        return {f"{label}_{name}": prior for label, kernel in labelled for name, prior in kernel.priors.items()}

    def replace(self, **params: ArrayLike) -> Self:
        """Return the kernel with some parameters changed; unknown names raise ValueError."""
        _check_names(self, params)
        return self._rebuilt(
            kernel.replace(**{n: params[f"{label}_{n}"] for n in kernel.params if f"{label}_{n}" in params})
            for label, kernel in self._labelled().items()
        )

    def _named(self, gradients: Iterable[dict[str, Array]]) -> dict[str, Array]:
        """Put what all kernels say of their parameters, in order, under the full names."""
        labelled = self._labelled().items()
        names = [f"{label}_{name}" for label, kernel in labelled for name in kernel.params]
        return dict(zip(names, [value for each in gradients for value in each.values()], strict=True))

    def to_dict(self) -> dict[str, Any]:
        """Return the name and the descriptions of the kernels that it is made of."""
        return {"kernel": type(self).__name__, "terms": [part.to_dict() for part in self.parts]}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Combination) and type(other) is type(self) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(repr(self))


class Composite(Combination):
    """Several kernels under one operation; parameters carry the name of the kernel they belong to.

    In ``Gaussian(...) + Bias(...)`` they are ``gaussian_lengthscale``, ``gaussian_variance`` and
    ``bias_variance``; where a kernel occurs twice its copies are numbered: ``gaussian1_variance``.
    """

    symbol: ClassVar[str]
    terms: list[Kernel]

    def __init__(self, *terms: Kernel) -> None:
        if not terms:
            raise ValueError(f"{type(self).__name__} needs at least one kernel.")
        flat: list[Kernel] = []
        for term in terms:
            if not isinstance(term, Kernel):
                raise TypeError(f"{type(self).__name__} takes kernels, got {type(term).__name__}.")
            if term.per_class:
                raise TypeError(
                    f"{type(self).__name__} takes kernels of one process, and {type(term).__name__} has one for each "
                    "class. Add or multiply inside: PerClass(a + b, c + d)."
                )
            flat += term.terms if type(term) is type(self) else [term]
        self.terms = flat
        self.depth: int = 1 + max(getattr(term, "depth", 0) for term in flat)
        if self.depth > DEEPEST:
            raise ValueError(
                f"sums and products of kernels may be at most {DEEPEST} deep within each other. Multiply out: sums of "
                "sums, and products of products, are one sum and one product."
            )

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The terms."""
        return tuple(self.terms)

    def leaves(self) -> list[Kernel]:
        """Return the kernels at the bottom, left to right."""
        return [leaf for term in self.terms for leaf in (term.leaves() if isinstance(term, Composite) else [term])]

    def _labelled(self) -> dict[str, Kernel]:
        leaves = self.leaves()
        names = [type(leaf).__name__.lower() for leaf in leaves]
        numbered = [
            name if names.count(name) == 1 else f"{name}{names[: i + 1].count(name)}" for i, name in enumerate(names)
        ]
        return dict(zip(numbered, leaves, strict=True))

    def _rebuilt(self, labelled: Iterator[Kernel]) -> Self:
        terms = [t._rebuilt(labelled) if isinstance(t, Composite) else next(labelled) for t in self.terms]  # noqa: SLF001
        return type(self)(*terms)

    def __repr__(self) -> str:
        parts = [f"({term!r})" if isinstance(term, Composite) else repr(term) for term in self.terms]
        return f" {self.symbol} ".join(parts)


class Sum(Composite):
    """The covariance of a sum of independent processes."""

    symbol = "+"

    def gram(self, X: Array) -> Array:
        """Return the sum of the terms' Gram matrices ``(n, n)``."""
        return np.asarray(sum(term.gram(X) for term in self.terms))

    def cross(self, A: Array, B: Array) -> Array:
        """Return the sum of the terms' covariances ``(a, b)``."""
        return np.asarray(sum(term.cross(A, B) for term in self.terms))

    def diag(self, X: Array) -> Array:
        """Return the sum of the terms' variances ``(n,)``."""
        return np.asarray(sum(term.diag(X) for term in self.terms))

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return each term's own pull-back of ``gram_bar``."""
        return self._named(term.gram_vjp(X, gram_bar) for term in self.terms)

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return each term's own pull-back of ``cross_bar``."""
        return self._named(term.cross_vjp(A, B, cross_bar) for term in self.terms)

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return each term's own pull-back of ``diag_bar``."""
        return self._named(term.diag_vjp(X, diag_bar) for term in self.terms)

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return the sum of the terms' pull-backs of ``cross_bar`` to ``B (b, d)``."""
        return np.asarray(sum(term.inputs_vjp(A, B, cross_bar) for term in self.terms))


class Product(Composite):
    """The covariance of a product of independent processes."""

    symbol = "*"

    def gram(self, X: Array) -> Array:
        """Return the product of the terms' Gram matrices ``(n, n)``."""
        return np.asarray(np.prod([term.gram(X) for term in self.terms], axis=0))

    def cross(self, A: Array, B: Array) -> Array:
        """Return the product of the terms' covariances ``(a, b)``."""
        return np.asarray(np.prod([term.cross(A, B) for term in self.terms], axis=0))

    def diag(self, X: Array) -> Array:
        """Return the product of the terms' variances ``(n,)``."""
        return np.asarray(np.prod([term.diag(X) for term in self.terms], axis=0))

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return each term's pull-back of ``gram_bar`` times the other terms."""
        others = _products_of_others([term.gram(X) for term in self.terms])
        return self._named(term.gram_vjp(X, gram_bar * o) for term, o in zip(self.terms, others, strict=True))

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return each term's pull-back of ``cross_bar`` times the other terms."""
        others = _products_of_others([term.cross(A, B) for term in self.terms])
        return self._named(term.cross_vjp(A, B, cross_bar * o) for term, o in zip(self.terms, others, strict=True))

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return each term's pull-back of ``diag_bar`` times the other terms."""
        others = _products_of_others([term.diag(X) for term in self.terms])
        return self._named(term.diag_vjp(X, diag_bar * o) for term, o in zip(self.terms, others, strict=True))

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return the sum of the terms' pull-backs to ``B (b, d)`` of ``cross_bar`` times the other terms."""
        others = _products_of_others([term.cross(A, B) for term in self.terms])
        return np.asarray(sum(t.inputs_vjp(A, B, cross_bar * o) for t, o in zip(self.terms, others, strict=True)))


def _products_of_others(matrices: list[Array]) -> list[Array]:
    """Return for each matrix the elementwise product of the others."""
    return [np.prod(matrices[:i] + matrices[i + 1 :], axis=0) for i in range(len(matrices))]


def _check_names(kernel: Kernel, params: dict[str, Any]) -> None:
    unknown = sorted(set(params) - set(kernel.params))
    if unknown:
        raise ValueError(f"unknown parameter {unknown[0]!r}; this kernel has {list(kernel.params)}.")
