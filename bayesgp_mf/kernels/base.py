"""What a kernel is, and what all share that are not made of others."""

from __future__ import annotations

import abc
import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import Any, ClassVar, Literal, Self, TypeGuard

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf import kernels  # whose sums, products and powers are kernels: looked up when they are made
from bayesgp_mf.kernels.values import Span, as_columns, check_entries, positions, positive
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.matrices.precision import Field
from bayesgp_mf.names import NamingAbsent
from bayesgp_mf.notebook import as_html, in_words
from bayesgp_mf.types import Array


def drop_outdated(derived: type, base: type, made_from: Mapping[str, tuple[str, ...]]) -> None:
    """Put the method of ``base`` in place of each inherited one that knows nothing of a newer method.

    Parameters
    ----------
    derived : type
        A class as it is made.
    base : type
        One that it derives from, whose methods are right whatever a derived class does.
    made_from : mapping
        For the name of a method, the names of those that it follows from.
    """
    for name, sources in made_from.items():
        if is_outdated(derived, name, sources):
            setattr(derived, name, vars(base)[name])


def is_outdated(derived: type, name: str, sources: tuple[str, ...]) -> bool:
    """Tell whether a class has one of the methods ``sources`` from a newer class than the method ``name``."""

    def age(name: str) -> int:
        mro = derived.__mro__
        return next((i for i, parent in enumerate(mro) if name in vars(parent)), len(mro))

    return any(age(name) > age(source) for source in sources)


class Kernel(NamingAbsent, abc.ABC):
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
    flat : bool
        Whether the slope of its functions is zero in each column that it does not read.
    """

    per_class: ClassVar[bool] = False
    reads: ClassVar[Literal["numbers", "groups", "nothing"]] = "numbers"
    flat: ClassVar[bool] = False
    __array_ufunc__ = None  # so that a number of NumPy leaves ``number * kernel`` to the kernel

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        drop_outdated(cls, Kernel, {"diag_vjp": ("diag", "gram_vjp"), "inputs_vjp": ("gram", "cross")})
        drop_outdated(cls, Kernel, dict.fromkeys(("flat", "has_slopes", "on_great_circles"), ("gram", "cross")))

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
        parts = (self.gram_vjp(X[rows], np.diag(diag_bar[rows])) for rows in blocks(X.shape[0], 32))
        return summed(self, parts)

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

    @property
    def has_inputs_vjp(self) -> bool:
        """Whether it knows the derivative of its covariances in the inputs."""
        return type(self).inputs_vjp is not Kernel.inputs_vjp

    @property
    def on_great_circles(self) -> bool:
        """Whether it is a covariance function of distances along great circles too, at all its parameters."""
        return False

    @property
    def has_slopes(self) -> bool:
        """Whether functions with this covariance have slopes, of which `slopes` knows the covariances."""
        return self.flat

    def slopes(self, A: Array, B: Array, first: int | None, second: int | None) -> Array:
        """Return the covariances ``(a, b)`` between slopes, or values, at ``A (a, d)`` and ``B (b, d)``.

        Slopes are those in the column ``first`` of ``A`` and ``second`` of ``B``; None stands for the value of the
        function, so that both None is `cross`.
        """
        if first is None and second is None:
            return self.cross(A, B)
        self._check_flat()
        return np.zeros((A.shape[0], B.shape[0]))

    def slopes_vjp(self, A: Array, B: Array, first: int | None, second: int | None, bar: Array) -> dict[str, Array]:
        """Return sum_ij bar_ij dS_ij/dtheta for each parameter, where ``S (a, b)`` is what `slopes` returns."""
        if first is None and second is None:
            return self.cross_vjp(A, B, bar)
        self._check_flat()
        return {name: np.zeros(value.shape) for name, value in self.params.items()}

    def _check_flat(self) -> None:
        if not self.flat:
            raise NotImplementedError(f"{type(self).__name__} has no slopes; kernels.Slope cannot be of it.")

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
        return kernels.Product(kernels.Bias(factor), self)

    def with_column_names(self, names: Sequence[str] | None) -> Self:
        """Return the kernel with the columns that it names by their positions among ``names``; `fit` asks for this.

        There is a ValueError if one is not among them, or if the inputs have no names and the kernel names some.
        """
        return self._with_parts(lambda part: part.with_column_names(names))

    def _repr_html_(self) -> str:
        """Return the kernel as code, and each of its parameters, for a notebook."""
        rows = [(name.replace("_", " "), in_words(np.ravel(value))) for name, value in self.params.items()]
        return as_html(f"{type(self).__name__} kernel", [("as code", repr(self)), *rows], self._figure())

    def _figure(self) -> str:
        """Return a small drawing of its shape, or nothing where one curve does not show it."""
        return ""

    def with_levels(self, levels: Mapping[int, Sequence[str]]) -> Self:
        """Return the kernel with the texts by which columns of inputs tell groups, in the order of their codes.

        They are given by position of the column; `fit` asks for this, after `with_column_names`.
        """
        return self._with_parts(lambda part: part.with_levels(levels))

    def levels_of_columns(self) -> dict[int, tuple[str, ...]]:
        """Return the texts whose codes stand in columns of inputs, by position of the column."""
        found = [each for part in self.parts for each in part.levels_of_columns().items()]
        return dict(sorted(found, key=lambda each: len(each[1])))  # a part may know more texts than cases have

    def alike(self) -> list[tuple[int, ...]]:
        """Return the columns, by position, in which one text means one group."""
        return [columns for part in self.parts for columns in part.alike()]

    def within(self, column: int, values: Array) -> Array:
        """Return values of a column of inputs no farther than those that it can have."""
        for part in self.parts:
            values = part.within(column, values)
        return values

    def of_first_kind(self, X: Array) -> NDArray[np.bool_]:
        """Return which cases ``(n,)`` are of the first of the kinds that it tells: all, where it tells none.

        What is averaged over cases, or drawn, is of these: values of the function and slopes have no common mean.
        """
        of_parts = [part.of_first_kind(X) for part in self.parts]
        return np.asarray(np.all([np.ones(X.shape[0], dtype=bool), *of_parts], axis=0))

    @property
    def before_slopes(self) -> Kernel:
        """The kernel of the function before anything was known of its slopes (``monotone``): mostly itself."""
        return self

    @property
    def mean(self) -> Callable[[Array], Array] | None:
        """The prior mean ``(n,)`` of inputs ``(n, d)`` that comes with it, where it is not zero."""
        return None

    def readers(self, how: str, width: int) -> dict[int, Kernel]:
        """Return the columns of inputs ``(n, width)`` that are read in a way of `reads`, with a kernel that does it."""
        if self.parts:
            return {column: reader for part in self.parts for column, reader in part.readers(how, width).items()}
        columns = as_columns(getattr(self, "columns", None))
        own = range(width) if columns is None else positions(columns, None)
        return {j: self for j in own if j < width} if self.reads == how else {}

    def groupings(self, width: int) -> list[tuple[int, ...]]:
        """Return the ways in which it defines independent groups: the columns of each, by position.

        Cases are of one group where all of these columns of inputs ``(n, width)`` are equal. Inducing cases are chosen
        by this, so that no group is without one: what other groups say tells nothing of it.
        """
        return [columns for part in self.parts for columns in part.groupings(width)]

    def spans(self, X: Array) -> dict[str, Span]:
        """Return the length scales, by name, with a short and a long one that inputs ``X (n, d)`` speak of.

        A search for hyperparameters begins between them. By default there are none, and it begins around the values
        that it is given.
        """
        return {}

    def field(self, X: Array) -> Field | None:
        """Return the field on nodes, with a sparse precision, that cases ``(n, d)`` see; None where it is no such."""
        return None

    def distances(self) -> dict[str, tuple[Array, Array]]:
        """Return the parameters of which it is known how far they take the model from a simpler one.

        By name: logarithms ``(k,)``, in order, and the distance at each, zero where the parameter is zero. Of these are
        penalised-complexity priors (`priors.suggest`).
        """
        return {}

    def _with_parts(self, change: Callable[[Kernel], Kernel]) -> Self:
        """Return the kernel with others in place of those that it is made of: itself, if nothing changes."""
        return self

    def _named_below(self) -> list[Kernel]:
        """Return the kernels, left to right, whose names parameters have in a sum or product of this one: itself."""
        return [self]

    def _rebuilt(self, labelled: Iterator[Kernel]) -> Kernel:
        """Return the same kernel of others in place of these."""
        return next(labelled)

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
        refuse_class(other)
        if _is_number(other):
            return kernels.Sum(self, kernels.Bias(_checked_number("added to", other))) if other != 0 else self
        return kernels.Sum(self, other) if isinstance(other, Kernel) else NotImplemented

    def __radd__(self, other: float) -> Kernel:
        refuse_class(other)
        if not _is_number(other):
            return NotImplemented
        # 0 is where Python's own `sum` begins
        return kernels.Sum(kernels.Bias(_checked_number("added to", other)), self) if other != 0 else self

    def __mul__(self, other: Kernel | float) -> Kernel:
        refuse_class(other)
        if _is_number(other):
            return self.scaled(_checked_number("multiplied with", other))
        return kernels.Product(self, other) if isinstance(other, Kernel) else NotImplemented

    __rmul__ = __mul__

    def __pow__(self, exponent: int) -> Kernel:
        return kernels.Power(self, exponent)


def summed(kernel: Kernel, gradients: Iterable[Mapping[str, Array]]) -> dict[str, Array]:
    """Return the sum of gradients in the parameters of a kernel; zeros of none."""
    total = {name: np.zeros(value.shape) for name, value in kernel.params.items()}
    for gradient in gradients:
        total = {name: np.asarray(value + gradient[name]) for name, value in total.items()}
    return total


def refuse_class(other: object) -> None:
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
    per_input : tuple of str
        Parameters that may have an entry for each input; the others are one number.
    may_be_zero : tuple of str
        Parameters that may be zero; the others are greater.
    """

    parameter_names: ClassVar[tuple[str, ...]] = ()
    setting_names: ClassVar[tuple[str, ...]] = ()
    per_input: ClassVar[tuple[str, ...]] = ()
    may_be_zero: ClassVar[tuple[str, ...]] = ()
    scale_name: ClassVar[str | None] = None

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        drop_outdated(cls, Leaf, {"scale_name": ("gram", "cross", "diag")})

    def __post_init__(self) -> None:
        """Check parameters and columns, and keep them as read-only arrays and as a tuple."""
        for name in self.parameter_names:
            vector, zero_allowed = name in self.per_input, name in self.may_be_zero
            value = positive(name, getattr(self, name), vector=vector, zero_allowed=zero_allowed)
            object.__setattr__(self, name, value)
        if "columns" in self.setting_names:
            columns = as_columns(self.settings["columns"])
            object.__setattr__(self, "columns", columns)
            for name in self.per_input:
                check_entries(name, self.params[name], columns)

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
        check_names(self, params)
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


class Homogeneous(FromCross):
    """A leaf that has the same ``variance`` at each case, on which no other parameter has an influence."""

    parameter_names: ClassVar[tuple[str, ...]] = ("variance",)

    def diag(self, X: Array) -> Array:
        """Return ``variance`` for each case, ``(n,)``."""
        return np.full(X.shape[0], float(self.params["variance"]))

    def diag_vjp(self, X: Array, diag_bar: Array) -> dict[str, Array]:
        """Return the sum of ``diag_bar`` for the variance, and zero for what `diag` does not depend on."""
        zeros = {name: np.zeros(value.shape) for name, value in self.params.items()}
        return {**zeros, "variance": np.asarray(diag_bar.sum())}


def check_names(kernel: Kernel, params: dict[str, Any]) -> None:
    """Raise a ValueError if a name is none of a kernel's parameters."""
    unknown = sorted(set(params) - set(kernel.params))
    if unknown:
        raise ValueError(f"unknown parameter {unknown[0]!r}; this kernel has {list(kernel.params)}.")
