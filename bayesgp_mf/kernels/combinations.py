"""Sums, products and powers of kernels, a kernel for each class, and what all share that are made of others."""

from __future__ import annotations

import abc
import itertools
import numbers
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, Self, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import block_diag, csc_array, hstack

from bayesgp_mf.kernels.base import Kernel, check_names, drop_outdated, refuse_class, summed
from bayesgp_mf.kernels.values import Span
from bayesgp_mf.matrices.precision import Field
from bayesgp_mf.types import Array

DEEPEST = 100
"""Sums and products within each other: each level takes some calls within calls, of which Python allows 1000."""


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

    def spans(self, X: Array) -> dict[str, Span]:
        """Return those of all parts, which may see other inputs, under the full names of the length scales."""
        spans = [known.get(name) for part in self.parts for known in [part.spans(X)] for name in part.params]
        return {name: span for name, span in zip(self.params, spans, strict=True) if span is not None}

    def distances(self) -> dict[str, tuple[Array, Array]]:
        """Return those of all kernels below, under the full names of the parameters."""
        labelled = self._labelled().items()
        return {f"{label}_{name}": known for label, kernel in labelled for name, known in kernel.distances().items()}

    def replace(self, **params: ArrayLike) -> Self:
        """Return the kernel with some parameters changed; unknown names raise ValueError."""
        check_names(self, params)
        return self._rebuilt(
            kernel.replace(**{n: params[f"{label}_{n}"] for n in kernel.params if f"{label}_{n}" in params})
            for label, kernel in self._labelled().items()
        )

    def _with_parts(self, change: Callable[[Kernel], Kernel]) -> Self:
        found = [change(part) for part in self.parts]
        return type(self)(*found) if any(a is not b for a, b in zip(found, self.parts, strict=True)) else self

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
            refuse_class(term)
            if not isinstance(term, Kernel):
                raise TypeError(f"{type(self).__name__} takes kernels, got {type(term).__name__}.")
            if term.per_class:
                raise TypeError(
                    f"{type(self).__name__} takes kernels of one process, and {type(term).__name__} has one for each "
                    "class. Add or multiply inside: PerClass(a + b, c + d)."
                )
            flat += term.terms if type(term) is type(self) else [term]
        self.terms = flat
        self.depth: int = depth_around(flat)

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The terms."""
        return tuple(self.terms)

    @property
    def on_great_circles(self) -> bool:
        """Whether all terms are covariance functions of distances along great circles."""
        return all(term.on_great_circles for term in self.terms)

    def _named_below(self) -> list[Kernel]:
        return [leaf for term in self.terms for leaf in term._named_below()]  # noqa: SLF001

    def _labelled(self) -> dict[str, Kernel]:
        leaves = self._named_below()
        names = [type(leaf).__name__.lower() for leaf in leaves]
        numbered = [
            name if names.count(name) == 1 else f"{name}{names[: i + 1].count(name)}" for i, name in enumerate(names)
        ]
        return dict(zip(numbered, leaves, strict=True))

    def _rebuilt(self, labelled: Iterator[Kernel]) -> Self:
        return type(self)(*[term._rebuilt(labelled) for term in self.terms])  # noqa: SLF001

    def __repr__(self) -> str:
        parts = [f"({term!r})" if isinstance(term, Composite) else repr(term) for term in self.terms]
        return f" {self.symbol} ".join(parts)


class Entrywise(Kernel):
    """A kernel whose covariances follow one by one from those of its parts, and its gradients by the chain rule."""

    @abc.abstractmethod
    def _value(self, values: Iterable[Array]) -> Array:
        """Return the covariances, given those of each part."""

    @abc.abstractmethod
    def _bars(self, method: str, inputs: tuple[Array, ...], bar: Array) -> list[Array]:
        """Return what to pull back through each part, given ``bar`` for what a method returns at some inputs."""

    @abc.abstractmethod
    def _named(self, gradients: Iterable[dict[str, Array]]) -> dict[str, Array]:
        """Put the gradients of all parts, in order, under the names of this kernel's parameters."""

    def _each(self, method: str, inputs: tuple[Array, ...]) -> Iterator[Array]:
        return (getattr(part, method)(*inputs) for part in self.parts)

    def _parameter_vjp(self, method: str, inputs: tuple[Array, ...], bar: Array) -> dict[str, Array]:
        bars = zip(self.parts, self._bars(method, inputs, bar), strict=True)
        return self._named(getattr(part, f"{method}_vjp")(*inputs, own) for part, own in bars)

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)`` of the process at ``X (n, d)``."""
        return self._value(self._each("gram", (X,)))

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        return self._value(self._each("cross", (A, B)))

    def diag(self, X: Array) -> Array:
        """Return the variances ``(n,)``."""
        return self._value(self._each("diag", (X,)))

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``gram_bar`` through each part."""
        return self._parameter_vjp("gram", (X,), gram_bar)

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``cross_bar`` through each part."""
        return self._parameter_vjp("cross", (A, B), cross_bar)

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``diag_bar`` through each part."""
        return self._parameter_vjp("diag", (X,), diag_bar)

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return the sum of the parts' pull-backs of ``cross_bar`` to ``B (b, d)``."""
        bars = zip(self.parts, self._bars("cross", (A, B), cross_bar), strict=True)
        return np.asarray(sum(part.inputs_vjp(A, B, own) for part, own in bars))


class Sum(Composite, Entrywise):
    """The covariance of a sum of independent processes.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> bgp.kernels.Gaussian(2.0) + bgp.kernels.Bias(0.5)
    Gaussian(lengthscale=2.0, variance=1.0) + Bias(variance=0.5)
    >>> bgp.kernels.Sum(bgp.kernels.Gaussian(2.0), bgp.kernels.Bias(0.5)).gram(np.array([[0.0], [2.0]])).round(3)
    array([[1.5  , 1.107],
           [1.107, 1.5  ]])
    """

    symbol = "+"

    def scaled(self, factor: float) -> Kernel:
        """Return the sum of the terms, each with its covariances multiplied by a number > 0."""
        return Sum(*[term.scaled(factor) for term in self.terms])

    def _value(self, values: Iterable[Array]) -> Array:
        return np.asarray(sum(values))

    def _bars(self, method: str, inputs: tuple[Array, ...], bar: Array) -> list[Array]:
        return [bar] * len(self.terms)

    def field(self, X: Array) -> Field | None:
        """Return the fields of all terms, one beside the other."""
        fields = [found for term in self.terms if (found := term.field(X)) is not None]
        if len(fields) < len(self.terms):
            return None
        precisions = [each.precision for each in fields]
        nothing = [csc_array(each.shape) for each in precisions]
        slopes = self._named(
            {name: block_diag([*nothing[:i], slope, *nothing[i + 1 :]], "csc") for name, slope in each.slopes.items()}
            for i, each in enumerate(fields)
        )
        return Field(hstack([each.at for each in fields], "csr"), block_diag(precisions, "csc"), slopes)

    @property
    def has_slopes(self) -> bool:
        """Whether all terms have them."""
        return all(term.has_slopes for term in self.terms)

    def slopes(self, A: Array, B: Array, first: int | None, second: int | None) -> Array:
        """Return the sum of the terms' covariances ``(a, b)``."""
        return self._value(term.slopes(A, B, first, second) for term in self.terms)

    def slopes_vjp(self, A: Array, B: Array, first: int | None, second: int | None, bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``bar (a, b)`` through each term."""
        return self._named(term.slopes_vjp(A, B, first, second, bar) for term in self.terms)


class Product(Composite, Entrywise):
    """The covariance of a product of independent processes.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> kernel = bgp.kernels.Gaussian(2.0, columns=[0]) * bgp.kernels.Linear(1.0, columns=[1])
    >>> list(kernel.params)
    ['gaussian_lengthscale', 'gaussian_variance', 'linear_weight']
    """

    symbol = "*"

    def groupings(self, width: int) -> list[tuple[int, ...]]:
        """Return one way at most: a product is zero where one of its terms is."""
        return _crossed(super().groupings(width))

    def scaled(self, factor: float) -> Kernel:
        """Return the product with the covariances of its first term multiplied by a number > 0."""
        return Product(self.terms[0].scaled(factor), *self.terms[1:])

    def _value(self, values: Iterable[Array]) -> Array:
        return np.asarray(np.prod(list(values), axis=0))

    def _bars(self, method: str, inputs: tuple[Array, ...], bar: Array) -> list[Array]:
        values = list(self._each(method, inputs))
        return [bar * np.prod(values[:i] + values[i + 1 :], axis=0) for i in range(len(values))]

    @property
    def has_slopes(self) -> bool:
        """Whether all terms have them."""
        return all(term.has_slopes for term in self.terms)

    def slopes(self, A: Array, B: Array, first: int | None, second: int | None) -> Array:
        """Return the covariances ``(a, b)``, by the product rule."""
        return _product([_derivatives(term, A, B, first, second) for term in self.terms])[first, second]

    def slopes_vjp(self, A: Array, B: Array, first: int | None, second: int | None, bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``bar (a, b)`` through each derivative of each term that the product rule takes."""
        found = [_derivatives(term, A, B, first, second) for term in self.terms]
        gradients = []
        for i, term in enumerate(self.terms):
            constant = {columns: np.full(bar.shape, float(columns == (None, None))) for columns in found[i]}
            others = _product([constant, *found[:i], *found[i + 1 :]])
            rests = {  # the others have the slopes that this term has not
                (one, two): others[first if one is None else None, second if two is None else None]
                for one, two in found[i]
            }
            gradients.append(summed(term, (term.slopes_vjp(A, B, *own, bar * rest) for own, rest in rests.items())))
        return self._named(gradients)


_Derivatives: TypeAlias = dict[tuple[int | None, int | None], Array]
"""Covariances between slopes or values, by the columns of both."""


def _derivatives(kernel: Kernel, A: Array, B: Array, first: int | None, second: int | None) -> _Derivatives:
    """Return those of which the product rule makes the covariances of slopes in two columns."""
    columns = itertools.product({None, first}, {None, second})
    return {(one, two): kernel.slopes(A, B, one, two) for one, two in columns}


def _product(factors: Sequence[_Derivatives]) -> _Derivatives:
    """Return the derivatives of a product, given those of its factors."""
    total = factors[0]
    for factor in factors[1:]:
        total = {
            (i, j): np.asarray(sum(total[a, c] * factor[b, d] for a, b in _split(i) for c, d in _split(j)))
            for i, j in factor
        }
    return total


def _split(column: int | None) -> list[tuple[int | None, int | None]]:
    """Return which of two factors a slope is of: neither, or either."""
    return [(None, None)] if column is None else [(None, column), (column, None)]


class OfOne(Kernel):
    """A kernel made of one other, whose parameters it has under their own names."""

    kernel: Kernel

    @property
    def params(self) -> dict[str, Array]:
        """The parameters of the kernel below."""
        return self.kernel.params

    @property
    def priors(self) -> dict[str, Any]:
        """The priors of the kernel below."""
        return self.kernel.priors

    @property
    def parts(self) -> tuple[Kernel, ...]:
        """The kernel below."""
        return (self.kernel,)

    def distances(self) -> dict[str, tuple[Array, Array]]:
        """Return those of the kernel below."""
        return self.kernel.distances()

    def _named_below(self) -> list[Kernel]:
        return self.kernel._named_below()  # noqa: SLF001

    def _rebuilt(self, labelled: Iterator[Kernel]) -> Self:
        return self._made_with({"kernel": self.kernel._rebuilt(labelled)})  # noqa: SLF001

    def scaled(self, factor: float) -> Kernel:
        """Return the kernel with all covariances multiplied by a number > 0."""
        return self._made_with({"kernel": self.kernel.scaled(factor)})

    def _named(self, gradients: Iterable[dict[str, Array]]) -> dict[str, Array]:
        (gradient,) = gradients
        return gradient

    def replace(self, **params: ArrayLike) -> Self:
        """Return the same of the kernel with some parameters changed; unknown names raise ValueError."""
        return self._made_with({"kernel": self.kernel.replace(**params)})

    def _with_parts(self, change: Callable[[Kernel], Kernel]) -> Self:
        found = change(self.kernel)
        return self if found is self.kernel else self._made_with({"kernel": found})

    def _made_with(self, changed: dict[str, Any]) -> Self:
        return type(self)(**{**self._made_of(), **changed})

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the description of the kernel below, and what else it is made of."""
        others = {name: value for name, value in self._made_of().items() if name != "kernel" and value is not None}
        plain = {name: list(value) if isinstance(value, tuple) else value for name, value in others.items()}
        return {"kernel": type(self).__name__, "terms": [self.kernel.to_dict()], **plain}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OfOne) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash(repr(self))


def check_of_one(name: str, kernel: Kernel) -> None:
    """Raise a TypeError if what a kernel is made of is none, or one for each class."""
    refuse_class(kernel)
    if not isinstance(kernel, Kernel) or kernel.per_class:
        raise TypeError(f"{name} takes a kernel of one process such as Gaussian(1.0), got {kernel!r}.")


class Power(OfOne, Entrywise):
    """A whole power of a covariance, which is the covariance of a product of so many independent processes alike.

    ``k**2`` is ``Power(k, 2)``. Unlike ``k * k``, whose two terms are tuned separately, it has the parameters of ``k``,
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
        check_of_one("Power", kernel)
        if not isinstance(exponent, numbers.Integral) or isinstance(exponent, bool) or exponent < 1:
            raise ValueError(
                f"the exponent of a kernel must be a whole number >= 1, got {exponent!r}: other powers of a covariance "
                "need not be one."
            )
        inner = type(kernel) is Power
        self.kernel: Kernel = kernel.kernel if inner else kernel
        self.exponent: int = int(exponent) * (kernel.exponent if inner else 1)
        self.depth: int = depth_around([self.kernel])

    def _named_below(self) -> list[Kernel]:
        return [self]  # so that its parameters are those of a power, and none of a term beside it

    def _rebuilt(self, labelled: Iterator[Kernel]) -> Self:
        return cast(Self, next(labelled))

    def spans(self, X: Array) -> dict[str, Span]:
        """Return those of the kernel that is raised."""
        return self.kernel.spans(X)

    def groupings(self, width: int) -> list[tuple[int, ...]]:
        """Return one way at most, as of a product."""
        return _crossed(super().groupings(width))

    def _value(self, values: Iterable[Array]) -> Array:
        (value,) = values
        return np.asarray(value**self.exponent)

    def _bars(self, method: str, inputs: tuple[Array, ...], bar: Array) -> list[Array]:
        (value,) = self._each(method, inputs)
        return [bar * np.asarray(self.exponent * value ** (self.exponent - 1))]

    def scaled(self, factor: float) -> Kernel:
        """Return the power with all covariances multiplied by a number > 0."""
        return self._made_with({"kernel": self.kernel.scaled(factor ** (1.0 / self.exponent))})

    def _made_of(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "exponent": self.exponent}

    def __repr__(self) -> str:
        raised = f"({self.kernel!r})" if isinstance(self.kernel, Composite) else repr(self.kernel)
        return f"{raised}**{self.exponent}"


def depth_around(kernels: Iterable[Kernel]) -> int:
    """Return how deep a kernel around these is, or raise a ValueError if that is deeper than Python's calls go."""
    depth = 1 + max(getattr(kernel, "depth", 0) for kernel in kernels)
    if depth > DEEPEST:
        raise ValueError(
            f"sums and products of kernels may be at most {DEEPEST} deep within each other. Multiply out: sums of "
            "sums, and products of products, are one sum and one product."
        )
    return depth


def _crossed(groupings: list[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """Return the groups of cases that are of one group in every way."""
    return [tuple(sorted({column for columns in groupings for column in columns}))] if groupings else []


class PerClass(Combination, Entrywise):
    """One kernel for the latent function of each class, for `likelihoods.Softmax`.

    All classes share any other kernel: their functions then have the same covariance, and are still independent.
    Covariances have the class as their first axis: `gram` is ``(C, n, n)``, `cross` ``(C, a, b)``, `diag` ``(C, n)``.
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

    def _value(self, values: Iterable[Array]) -> Array:
        return np.stack(list(values))

    def _bars(self, method: str, inputs: tuple[Array, ...], bar: Array) -> list[Array]:
        return list(bar)

    def __repr__(self) -> str:
        return f"PerClass({', '.join(map(repr, self.kernels))})"
