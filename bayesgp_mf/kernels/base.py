"""What a kernel is, and how kernels, and numbers with them, add and multiply."""

from __future__ import annotations

import abc
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass, replace
from typing import Any, ClassVar, Literal, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike

from bayesgp_mf.kernels.columns import positions
from bayesgp_mf.kernels.inherited import drop_outdated
from bayesgp_mf.kernels.values import positive
from bayesgp_mf.matrices.blocks import blocks
from bayesgp_mf.types import Array

DEEPEST = 100
"""Sums and products within each other: each level takes some calls within calls, of which Python allows 1000."""


class Kernel(abc.ABC):
    """A covariance function k(x, x') with named positive parameters. Kernels are immutable.

    A concrete kernel has a constructor that takes its parameters by name, and the abstract methods below.
    ``+`` and ``*`` make sums and products, ``**`` whole powers. A number is multiplied into the variance, and added as
    a `Bias`.

    Attributes
    ----------
    per_class : bool
        Whether `gram`, `cross` and `diag` have a leading axis, with an entry for each class: so `PerClass`.
    reads : {"numbers", "groups", "nothing"}
        What it makes of inputs: numbers; only whether they are equal, so that they may be text; or nothing.
    """

    per_class: ClassVar[bool] = False
    reads: ClassVar[Literal["numbers", "groups", "nothing"]] = "numbers"
    __array_ufunc__ = None  # so that a number of NumPy leaves ``number * kernel`` to the kernel

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

    def scaled(self, factor: float) -> Kernel:
        """Return the kernel with all covariances multiplied by a number > 0, which is what ``factor * kernel`` is.

        A kernel of this package has it in its own variance, or in those of its terms. Any other one becomes a product
        with a `Bias`, which is one parameter more.
        """
        return Product(Bias(factor), self)

    def with_column_names(self, names: Sequence[str] | None) -> Self:
        """Return the kernel with the columns that it names by their positions among ``names``; `fit` asks for this.

        There is a ValueError if one is not among them, or if the inputs have no names and the kernel names some.
        """
        return self._with_parts(lambda part: part.with_column_names(names))

    def with_levels(self, levels: Mapping[int, Sequence[str]]) -> Self:
        """Return the kernel with the texts by which columns of inputs tell groups, in the order of their codes.

        They are given by position of the column; `fit` asks for this, after `with_column_names`.
        """
        return self._with_parts(lambda part: part.with_levels(levels))

    def groupings(self, width: int) -> list[tuple[int, ...]]:
        """Return the ways in which it tells groups that know nothing of each other: the columns of each, by position.

        Cases are of one group where all of these columns of inputs ``(n, width)`` are equal. Inducing cases are chosen
        by this, so that no group is without one: what other groups say tells nothing of it.
        """
        return [columns for part in self.parts for columns in part.groupings(width)]

    def _with_parts(self, change: Callable[[Kernel], Kernel]) -> Self:
        """Return the kernel with others in place of those that it is made of: itself, if nothing changes."""
        return self

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return what the kernel is made of by name, as scikit-learn's objects do.

        Parameters
        ----------
        deep : bool
            Also what its kernels are made of, such as ``gaussian__lengthscale``.

        Examples
        --------
        >>> from bayesgp_mf.kernels import Bias, Gaussian
        >>> list((Gaussian(2.0) + Bias()).get_params())
        ['gaussian', 'bias', 'gaussian__lengthscale', 'gaussian__variance', 'gaussian__columns', 'bias__variance']
        """
        own = self._made_of()
        parts = {label: part for label, part in own.items() if isinstance(part, Kernel)} if deep else {}
        nested = {f"{label}__{n}": v for label, part in parts.items() for n, v in part.get_params().items()}
        return {**own, **nested}

    def set_params(self, **params: Any) -> Self:
        """Return the kernel with some of what `get_params` names changed.

        Kernels are immutable: unlike scikit-learn's this returns another kernel, and leaves the one that is asked.

        Raises
        ------
        ValueError
            If a name is none of those of `get_params`, or a value is not allowed.

        Examples
        --------
        >>> from bayesgp_mf.kernels import Bias, Gaussian
        >>> (Gaussian(2.0) + Bias()).set_params(gaussian__lengthscale=3.0, bias=Bias(0.5))
        Gaussian(lengthscale=3.0, variance=1.0) + Bias(variance=0.5)
        """
        own = self._made_of()
        changed = {name: value for name, value in params.items() if "__" not in name}
        nested: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            label, separator, below = name.partition("__")
            if label not in own or (separator and not isinstance(own[label], Kernel)):
                raise ValueError(f"unknown parameter {name!r}; this kernel has {list(self.get_params())}.")
            if separator:
                nested.setdefault(label, {})[below] = value
        for label, values in nested.items():
            changed[label] = changed.get(label, own[label]).set_params(**values)
        return self._made_with(changed)

    def __sklearn_clone__(self) -> Self:
        """Return itself to scikit-learn's ``clone``: nothing ever changes a kernel."""
        return self

    def _made_of(self) -> dict[str, Any]:
        """Return what the constructor takes, by name; kernels among it have names of their own."""
        return dict(self.params)

    def _made_with(self, changed: dict[str, Any]) -> Self:
        """Return the kernel with some of `_made_of` changed."""
        return self.replace(**changed)

    def __add__(self, other: Kernel | float) -> Kernel:
        _refuse_class(other)
        if _is_number(other):
            return Sum(self, Bias(_checked_number("added to", other))) if other != 0 else self
        return Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: float) -> Kernel:
        _refuse_class(other)
        if not _is_number(other):
            return NotImplemented
        # 0 is where Python's own `sum` begins
        return Sum(Bias(_checked_number("added to", other)), self) if other != 0 else self

    def __mul__(self, other: Kernel | float) -> Kernel:
        _refuse_class(other)
        if _is_number(other):
            return self.scaled(_checked_number("multiplied with", other))
        return Product(self, other) if isinstance(other, Kernel) else NotImplemented

    def __rmul__(self, other: float) -> Kernel:
        _refuse_class(other)
        return self.scaled(_checked_number("multiplied with", other)) if _is_number(other) else NotImplemented

    def __pow__(self, exponent: int) -> Kernel:
        return Power(self, exponent)


def _refuse_class(other: object) -> None:
    """Raise a TypeError if a class of kernels, or any other, stands where a kernel should."""
    if isinstance(other, type):
        raise TypeError(
            f"kernels are added to and multiplied with kernels and numbers, got the class {other.__name__}: write it "
            f"with (), such as {other.__name__}()."
        )


def _is_number(value: object) -> TypeGuard[float]:
    """Tell whether a value is a real number, also one in an array without axes, as parameters are."""
    if isinstance(value, np.ndarray):
        return value.ndim == 0 and value.dtype.kind in "iuf"
    return isinstance(value, numbers.Real) and not isinstance(value, bool | np.bool_)


def _checked_number(done: str, value: float) -> float:
    """Return a number that a covariance can be multiplied with, or that can be added, or raise a ValueError."""
    if not (np.isfinite(value) and value > 0):
        raise ValueError(
            f"a number that is {done} a kernel must be finite and > 0, got {value!r}: it is a variance, and no "
            "covariance is left with another one."
        )
    return float(value)


class Leaf(Kernel):
    """A kernel that is not made of others: the bookkeeping that all of them share.

    Attributes
    ----------
    parameter_names : tuple of str
        Names of the fields that are parameters, in order.
    setting_names : tuple of str
        Names of the fields that are chosen once and not tuned, such as a polynomial's degree; ``columns``, where a
        kernel can be one of some inputs alone.
    scale_name : str or None
        Name of the parameter that multiplies all covariances, if there is one. A derived class with a `gram`, `cross`
        or `diag` of its own, which may do something else with it, says so again.
    """

    parameter_names: ClassVar[tuple[str, ...]] = ()
    setting_names: ClassVar[tuple[str, ...]] = ()
    scale_name: ClassVar[str | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        drop_outdated(cls, Leaf, {"scale_name": ("gram", "cross", "diag")})

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
        return self._made_with(params)

    def scaled(self, factor: float) -> Kernel:
        """Return the kernel with all covariances multiplied by a number > 0."""
        if self.scale_name is None:
            return super().scaled(factor)
        return self.replace(**{self.scale_name: factor * self.params[self.scale_name]})

    def with_column_names(self, names: Sequence[str] | None) -> Self:
        """Return the kernel with the columns that it names by their positions among ``names``."""
        columns = self.settings.get("columns")
        if columns is None or not any(isinstance(column, str) for column in columns):
            return self
        return self._made_with({"columns": positions(columns, names)})

    def _made_of(self) -> dict[str, Any]:
        return {**self.params, **self.settings}

    def _made_with(self, changed: dict[str, Any]) -> Self:
        if is_dataclass(self):  # with all its fields, also those that are neither parameters nor settings
            return replace(self, **changed)
        return type(self)(**{**self._made_of(), **changed})

    def _plain(self) -> dict[str, Any]:
        """Return parameters, and settings but for those that are left open, as numbers, strings and lists."""
        settings = {name: value for name, value in self.settings.items() if value is not None}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in settings.items()}
        return {**{name: value.tolist() for name, value in self.params.items()}, **plain}

    def to_dict(self) -> dict[str, Any]:
        """Return the class name, parameters and settings as plain numbers, strings and lists."""
        return {"kernel": type(self).__name__, **self._plain()}

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self._plain().items())})"

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


@dataclass(frozen=True, repr=False, eq=False)
class Bias(FromCross):
    """Constant covariance: an offset common to all cases (v_1 in 2000, appendix B); ``k + 2.0`` is ``k + Bias(2.0)``.

    Parameters
    ----------
    variance : float
        Prior variance of the offset, in squared latent units.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Bias
    >>> Bias(2.0).gram(np.zeros((2, 1)))
    array([[2., 2.],
           [2., 2.]])
    """

    variance: ArrayLike = 1.0
    parameter_names: ClassVar[tuple[str, ...]] = ("variance",)
    scale_name: ClassVar[str | None] = "variance"
    reads: ClassVar[Literal["numbers", "groups", "nothing"]] = "nothing"

    def __post_init__(self) -> None:
        object.__setattr__(self, "variance", positive("variance", self.variance))

    def cross(self, A: Array, B: Array) -> Array:
        """Return ``variance`` everywhere, ``(a, b)``."""
        return np.full((A.shape[0], B.shape[0]), float(self.params["variance"]))

    def diag(self, X: Array) -> Array:
        """Return ``variance`` for each case, ``(n,)``."""
        return np.full(X.shape[0], float(self.params["variance"]))

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the sum of ``cross_bar``."""
        return {"variance": np.asarray(cross_bar.sum())}

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return the sum of ``diag_bar``."""
        return {"variance": np.asarray(diag_bar.sum())}

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return zeros ``(b, d)``: no covariance depends on the inputs."""
        return np.zeros(B.shape)


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

    def _with_parts(self, change: Callable[[Kernel], Kernel]) -> Self:
        found = {label: change(kernel) for label, kernel in self._labelled().items()}
        changed = any(found[label] is not kernel for label, kernel in self._labelled().items())
        return self._rebuilt(iter(found.values())) if changed else self

    def _made_of(self) -> dict[str, Any]:
        return dict(self._labelled())

    def _made_with(self, changed: dict[str, Any]) -> Self:
        return self._rebuilt(iter({**self._labelled(), **changed}.values()))

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

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        drop_outdated(cls, Kernel, {"scaled": ("gram", "cross", "diag")})

    def __init__(self, *terms: Kernel) -> None:
        if not terms:
            raise ValueError(f"{type(self).__name__} needs at least one kernel.")
        flat: list[Kernel] = []
        for term in terms:
            _refuse_class(term)
            if not isinstance(term, Kernel):
                raise TypeError(f"{type(self).__name__} takes kernels, got {type(term).__name__}.")
            if term.per_class:
                raise TypeError(
                    f"{type(self).__name__} takes kernels of one process, and {type(term).__name__} has one for each "
                    "class. Add or multiply inside: PerClass(a + b, c + d)."
                )
            flat += term.terms if type(term) is type(self) else [term]
        self.terms = flat
        self.depth: int = _depth_around(flat)

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The terms."""
        return tuple(self.terms)

    def leaves(self) -> list[Kernel]:
        """Return the kernels below all sums and products, left to right."""
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

    def scaled(self, factor: float) -> Kernel:
        """Return the sum of the terms, each with its covariances multiplied by a number > 0."""
        return Sum(*[term.scaled(factor) for term in self.terms])

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

    def groupings(self, width: int) -> list[tuple[int, ...]]:
        """Return one way at most: a product is zero where one of its terms is."""
        return _crossed(super().groupings(width))

    def scaled(self, factor: float) -> Kernel:
        """Return the product with the covariances of its first term multiplied by a number > 0."""
        return Product(self.terms[0].scaled(factor), *self.terms[1:])

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


class Power(Kernel):
    """A whole power of a covariance, which is the covariance of a product of so many independent processes alike.

    ``k**2`` is ``Power(k, 2)``. Unlike ``k * k``, whose two terms are tuned apart, it has the parameters of ``k``,
    under their own names.

    Parameters
    ----------
    kernel : Kernel
        What is raised.
    exponent : int
        At least 1; chosen, not tuned.

    Raises
    ------
    ValueError
        If ``exponent`` is no whole number >= 1.
    TypeError
        If ``kernel`` is no kernel, or one for each class.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Linear
    >>> kernel = (Linear() + 1.0) ** 2
    >>> kernel.diag(np.array([[2.0]]))
    array([25.])
    >>> list(kernel.params)
    ['linear_weight', 'bias_variance']
    """

    def __init__(self, kernel: Kernel, exponent: int) -> None:
        _refuse_class(kernel)
        if not isinstance(kernel, Kernel) or kernel.per_class:
            raise TypeError(f"Power takes a kernel of one process such as Gaussian(1.0), got {kernel!r}.")
        if not isinstance(exponent, numbers.Integral) or isinstance(exponent, bool) or exponent < 1:
            raise ValueError(
                f"the exponent of a kernel must be a whole number >= 1, got {exponent!r}: other powers of a covariance "
                "need not be one."
            )
        inner = type(kernel) is Power
        self.kernel: Kernel = kernel.kernel if inner else kernel
        self.exponent: int = int(exponent) * (kernel.exponent if inner else 1)
        self.depth: int = _depth_around([self.kernel])

    @property
    def params(self) -> dict[str, Array]:
        """The parameters of the kernel that is raised."""
        return self.kernel.params

    @property
    def priors(self) -> dict[str, Any]:
        """The priors of the kernel that is raised."""
        return self.kernel.priors

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernel that is raised."""
        return (self.kernel,)

    def groupings(self, width: int) -> list[tuple[int, ...]]:
        """Return one way at most, as of a product."""
        return _crossed(super().groupings(width))

    def gram(self, X: Array) -> Array:
        """Return the power of the Gram matrix ``(n, n)``, entry by entry."""
        return np.asarray(self.kernel.gram(X) ** self.exponent)

    def cross(self, A: Array, B: Array) -> Array:
        """Return the power of the covariances ``(a, b)``."""
        return np.asarray(self.kernel.cross(A, B) ** self.exponent)

    def diag(self, X: Array) -> Array:
        """Return the power of the variances ``(n,)``."""
        return np.asarray(self.kernel.diag(X) ** self.exponent)

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return the kernel's pull-back of ``gram_bar`` times the slope of the power."""
        return self.kernel.gram_vjp(X, gram_bar * self._slope(self.kernel.gram(X)))

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the kernel's pull-back of ``cross_bar`` times the slope of the power."""
        return self.kernel.cross_vjp(A, B, cross_bar * self._slope(self.kernel.cross(A, B)))

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return the kernel's pull-back of ``diag_bar`` times the slope of the power."""
        return self.kernel.diag_vjp(X, diag_bar * self._slope(self.kernel.diag(X)))

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return the kernel's pull-back to ``B (b, d)`` of ``cross_bar`` times the slope of the power."""
        return self.kernel.inputs_vjp(A, B, cross_bar * self._slope(self.kernel.cross(A, B)))

    def _slope(self, values: Array) -> Array:
        return np.asarray(self.exponent * values ** (self.exponent - 1))

    def replace(self, **params: ArrayLike) -> Self:
        """Return the power of the kernel with some parameters changed; unknown names raise ValueError."""
        return self._made_with({"kernel": self.kernel.replace(**params)})

    def scaled(self, factor: float) -> Kernel:
        """Return the power with all covariances multiplied by a number > 0."""
        return self._made_with({"kernel": self.kernel.scaled(factor ** (1.0 / self.exponent))})

    def _with_parts(self, change: Callable[[Kernel], Kernel]) -> Self:
        found = change(self.kernel)
        return self if found is self.kernel else self._made_with({"kernel": found})

    def _made_of(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "exponent": self.exponent}

    def _made_with(self, changed: dict[str, Any]) -> Self:
        return type(self)(**{**self._made_of(), **changed})

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the description of the kernel that is raised, and the exponent."""
        return {"kernel": type(self).__name__, "terms": [self.kernel.to_dict()], "exponent": self.exponent}

    def __repr__(self) -> str:
        raised = f"({self.kernel!r})" if isinstance(self.kernel, Composite) else repr(self.kernel)
        return f"{raised}**{self.exponent}"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._made_of() == other._made_of()

    def __hash__(self) -> int:
        return hash(repr(self))


def _depth_around(kernels: Iterable[Kernel]) -> int:
    """Return how deep a kernel around these is, or raise a ValueError if that is deeper than Python's calls go."""
    depth = 1 + max(getattr(kernel, "depth", 0) for kernel in kernels)
    if depth > DEEPEST:
        raise ValueError(
            f"sums and products of kernels may be at most {DEEPEST} deep within each other. Multiply out: sums of "
            "sums, and products of products, are one sum and one product."
        )
    return depth


def _products_of_others(matrices: list[Array]) -> list[Array]:
    """Return for each matrix the elementwise product of the others."""
    return [np.prod(matrices[:i] + matrices[i + 1 :], axis=0) for i in range(len(matrices))]


def _crossed(groupings: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the groups of cases that are of one group in every way."""
    return [tuple(sorted({column for columns in groupings for column in columns}))] if groupings else []


def _check_names(kernel: Kernel, params: dict[str, Any]) -> None:
    unknown = sorted(set(params) - set(kernel.params))
    if unknown:
        raise ValueError(f"unknown parameter {unknown[0]!r}; this kernel has {list(kernel.params)}.")
