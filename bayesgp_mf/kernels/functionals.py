"""Kernels of cases that see a linear functional of the function: a difference of two values, or a slope (THEORY 15).

A functional and the function are jointly Gaussian, so that only covariances change: cov(l f, l' f) = l l' k.
"""

from __future__ import annotations

import abc
import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayesgp_mf.kernels.base import Kernel, summed
from bayesgp_mf.kernels.combinations import OfOne, check_of_one, depth_around
from bayesgp_mf.kernels.values import Columns, Span, as_columns, positions, positions_among, positive
from bayesgp_mf.matrices.factors import blocks
from bayesgp_mf.types import Array

WITH_SLOPES = (
    "Gaussian, Matern32, Matern52, RationalQuadratic, Linear, their sums and products with each other, Bias and "
    "Categorical, and Warped of these"
)
"""Those of the package whose functions have slopes, as messages name them."""


AT_ONCE = 1024
"""Points of sets whose covariances are worked on together."""


class Term(NamedTuple):
    """What one term of a functional is for some cases: a factor times a value, or a slope, of the function.

    Attributes
    ----------
    inputs : (n, d) array
        Where the function is read for each of them.
    factor : float or (n,) array
    slope : int or None
        The column of inputs in which it is the slope; the value of the function where this is None.
    sources : (d,) array
        For each column of these inputs the column of the case that stands there; -1 where zeros do.
    cases : slice or (n,) index array
        The cases that have this term. Numbers ascend.
    repeats : bool
        Whether a case may have several entries, whose sum it sees.
    """

    inputs: Array
    factor: float | Array
    slope: int | None
    sources: NDArray[np.intp]
    cases: slice | NDArray[np.intp] = slice(None)
    repeats: bool = False


class Functional(OfOne):
    """A kernel of cases that each see a sum of values and slopes of one function, whose kernel is below."""

    @abc.abstractmethod
    def terms(self, X: Array) -> list[Term]:
        """Return the terms of which the functionals of cases ``(n, d)`` are sums."""

    def gram(self, X: Array) -> Array:
        """Return the covariances ``(n, n)``; exactly symmetric."""
        gram = np.zeros((X.shape[0], X.shape[0]))
        terms = self.terms(X)
        for s, one in enumerate(terms):
            same = self.kernel.gram(one.inputs) if one.slope is None else self._between(one, one)
            _add(gram, one, one, _factors(one, one) * same)
            for other in terms[:s]:
                between = _factors(one, other) * self._between(one, other)
                _add(gram, one, other, between)
                _add(gram, other, one, between.T)
        return 0.5 * (gram + gram.T)  # rounding leaves the two halves unequal

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        cross = np.zeros((A.shape[0], B.shape[0]))
        for one, other in self._pairs(A, B):
            _add(cross, one, other, _factors(one, other) * self._between(one, other))
        return cross

    def diag(self, X: Array) -> Array:
        """Return the variances ``(n,)``, a few cases at a time."""
        return np.concatenate([np.diag(self.gram(X[rows])) for rows in blocks(X.shape[0], 128)] or [np.empty(0)])

    def gram_vjp(self, X: Array, gram_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``gram_bar``."""
        found = []
        terms = self.terms(X)
        for s, one in enumerate(terms):
            bar = _factors(one, one) * gram_bar[_at(one.cases, one.cases)]
            found.append(
                self.kernel.gram_vjp(one.inputs, bar) if one.slope is None else self._between_vjp(one, one, bar)
            )
            for other in terms[:s]:
                bar = 2.0 * _factors(one, other) * gram_bar[_at(one.cases, other.cases)]
                found.append(self._between_vjp(one, other, bar))
        return summed(self, found)

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``cross_bar``."""
        return summed(
            self,
            (
                self._between_vjp(one, other, _factors(one, other) * cross_bar[_at(one.cases, other.cases)])
                for one, other in self._pairs(A, B)
            ),
        )

    def inputs_vjp(self, A: Array, B: Array, cross_bar: Array) -> Array:
        """Return the pull-back of ``cross_bar`` to ``B (b, d)``; not for slopes, whose inducing inputs stay."""
        if not self.has_inputs_vjp:
            return super().inputs_vjp(A, B, cross_bar)
        gradient = np.zeros(B.shape)
        for one, other in self._pairs(A, B):
            bar = _factors(one, other) * cross_bar[_at(one.cases, other.cases)]
            of_inputs = self.kernel.inputs_vjp(one.inputs, other.inputs, bar)
            there = np.flatnonzero(other.sources >= 0)
            of_case, cases = _summed(of_inputs[:, there], other, 0)
            gradient[np.ix_(np.arange(len(B))[cases], other.sources[there])] += of_case
        return gradient

    def spans(self, X: Array) -> dict[str, Span]:
        """Return those of the kernel below, of all inputs at which cases see the function."""
        return self.kernel.spans(np.vstack([term.inputs for term in self.terms(X)]))

    def groupings(self, width: int) -> list[tuple[int, ...]]:
        """Return none: what groups say of a case that sees several, no column tells."""
        return []

    @property
    def has_inputs_vjp(self) -> bool:
        """Whether no case sees a slope, whose derivative would be a third one of the kernel."""
        return True

    def _pairs(self, A: Array, B: Array) -> Iterator[tuple[Term, Term]]:
        first = self.terms(A)
        second = first if B is A else self.terms(B)
        return ((one, other) for one in first for other in second)

    def _between(self, one: Term, other: Term) -> Array:
        return self.kernel.slopes(one.inputs, other.inputs, one.slope, other.slope)

    def _between_vjp(self, one: Term, other: Term, bar: Array) -> dict[str, Array]:
        return self.kernel.slopes_vjp(one.inputs, other.inputs, one.slope, other.slope, bar)


class Difference(Functional):
    r"""A kernel of cases that compare two things: each sees :math:`f(a) - f(b)`, as a duel of a and b does.

    A case has the inputs of both. The kernel below is of the inputs of the first; for the second, those of the second
    stand in their places. Inputs that are neither are common to both. If the probability that a wins is
    :math:`\Phi(f(a) - f(b))`, f is the strength, or the utility; it is known up to a constant.

    Parameters
    ----------
    kernel : Kernel
        Of the columns of ``first``, and of those that both have in common. What it is of ``second`` is zero.
    first, second : str, int or sequence of them
        The columns of a and those of b, by name in a data frame or by position, in the same order. Texts in two such
        columns have one code.

    Raises
    ------
    ValueError
        If there are not as many columns of both, or one column is in both; later, if ``kernel`` is of none of the
        first.
    TypeError
        If ``kernel`` is no kernel, or one for each class.

    Examples
    --------
    Three players, who met once each, and a fourth of whom nothing is known:

    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.kernels import Categorical, Difference
    >>> duels = pd.DataFrame({"white": ["Ann", "Cy", "Ann"], "black": ["Bob", "Bob", "Cy"]})
    >>> strength = Difference(Categorical(1.0, columns="white"), "white", "black")
    >>> white_won = [True, False, True]
    >>> idata = bgp.fit(duels, white_won, strength, bgp.Probit(), random_seed=1, progress=False)
    >>> new = pd.DataFrame({"white": ["Cy", "Ann"], "black": ["Ann", "Dee"]})
    >>> bgp.predict(idata, new, draws=False)["predictions"]["p"].values.round(2)
    array([0.14, 0.68])
    """

    def __init__(self, kernel: Kernel, first: Columns, second: Columns) -> None:
        check_of_one("Difference", kernel)
        self.kernel = kernel
        self.first, self.second = _columns("first", first), _columns("second", second)
        if len(self.first) != len(self.second) or set(self.first) & set(self.second):
            raise ValueError(
                "first and second must be as many columns, none of them in both, got "
                f"{list(self.first)} and {list(self.second)}."
            )
        self.depth: int = depth_around([kernel])

    def terms(self, X: Array) -> list[Term]:
        """Return f at the inputs of the first, and less f at those of the second."""
        first, second = (positions_among(columns, X.shape[1]) for columns in (self.first, self.second))
        read = {j for how in ("numbers", "groups") for j in self.kernel.readers(how, X.shape[1])}
        sides = [(here, there) for here, there in zip(first, second, strict=True) if here in read]
        if not sides:
            raise ValueError(
                f"a difference is zero where its kernel takes none of the columns {list(first)} of first, and "
                f"{self.kernel!r} does not. Name the columns of first in it, not those of second."
            )
        differs = np.any([X[:, here] != X[:, there] for here, there in sides], axis=0)
        size = 1.0 if differs.all() else differs.astype(float)  # two that are alike differ by zero, not by rounding
        found = []
        for sign, side in ((1.0, first), (-1.0, second)):
            sources = np.arange(X.shape[1])
            sources[second], sources[first] = -1, side
            found.append(Term(np.where(sources >= 0, X[:, sources], 0.0), sign * size, None, sources))
        return found

    def readers(self, how: str, width: int) -> dict[int, Kernel]:
        """Return what reads each column; one of the second is read by what reads that of the first."""
        found = super().readers(how, width)
        swapped = {there: found.get(here) for here, there in self._sides() if there < width}
        return {j: reader for j, reader in {**found, **swapped}.items() if reader is not None}

    def levels_of_columns(self) -> dict[int, tuple[str, ...]]:
        """Return the texts of columns by position: those of the second are those of the first."""
        found = super().levels_of_columns()
        return {**found, **{there: found[here] for here, there in self._sides() if here in found}}

    def alike(self) -> list[tuple[int, ...]]:
        """Return the columns whose texts are of one kind."""
        return [*super().alike(), *self._sides()]

    def _sides(self) -> list[tuple[int, int]]:
        """Return the positions of each column of the first and of its twin of the second."""
        return list(zip(positions(self.first, None), positions(self.second, None), strict=True))

    def with_column_names(self, names: Sequence[str] | None) -> Self:
        """Return the kernel with the columns that it names by their positions among ``names``."""
        both = {"first": positions(self.first, names), "second": positions(self.second, names)}
        return self._made_with({"kernel": self.kernel.with_column_names(names), **both})

    def _made_of(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "first": self.first, "second": self.second}

    def __repr__(self) -> str:
        return f"Difference({self.kernel!r}, {list(self.first)}, {list(self.second)})"


class Slope(Functional):
    r"""A kernel of cases that see the slope :math:`\partial f / \partial x_j` in one of their inputs.

    Parameters
    ----------
    kernel : Kernel
        Of f: one whose functions have a slope. So have `Gaussian`, `Matern32`, `Matern52`, `RationalQuadratic`,
        `Linear`, `Bias`, and their sums and products, with `Categorical` too; and `Warped` of these.
    column : str or int
        The input j, by name in a data frame or by position.

    Raises
    ------
    ValueError
        If ``column`` is not one column, or functions of the kernel have no slopes that are known here.
    TypeError
        If ``kernel`` is no kernel, or one for each class.

    Examples
    --------
    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Gaussian, Slope
    >>> Slope(Gaussian(2.0), column=0).gram(np.array([[0.0], [2.0]])).round(4)
    array([[0.25, 0.  ],
           [0.  , 0.25]])
    """

    def __init__(self, kernel: Kernel, column: str | int) -> None:
        check_of_one("Slope", kernel)
        found = _one_column(column)
        if not kernel.has_slopes:
            raise ValueError(f"no slope is known of functions with the kernel {kernel!r}. Use {WITH_SLOPES}.")
        self.kernel, self.column = kernel, found
        self.depth: int = depth_around([kernel])

    def terms(self, X: Array) -> list[Term]:
        """Return the slope of f at the inputs."""
        (column,) = positions_among((self.column,), X.shape[1])
        if column not in self.readers("numbers", X.shape[1]) or column in self.readers("groups", X.shape[1]):
            raise ValueError(
                f"a slope needs a column that its kernel takes as numbers, and {self.kernel!r} does not take column "
                f"{column} so. Name another one."
            )
        return [Term(X, 1.0, column, np.arange(X.shape[1]))]

    @property
    def has_inputs_vjp(self) -> bool:
        """Not of slopes."""
        return False

    def with_column_names(self, names: Sequence[str] | None) -> Self:
        """Return the kernel with the columns that it names by their positions among ``names``."""
        (column,) = positions((self.column,), names)
        return self._made_with({"kernel": self.kernel.with_column_names(names), "column": column})

    def _made_of(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "column": self.column}

    def __repr__(self) -> str:
        return f"Slope({self.kernel!r}, {self.column!r})"


class ByName(Functional):
    """A kernel of cases in which a column says which functional each sees, by text or number."""

    column: str | int
    levels: tuple[str, ...] | None

    def _each(self) -> Sequence[Kernel]:
        """Return the kernels of all functionals."""
        return (self.kernel,)

    def _named_in(self, X: Array, allowed: Sequence[str | float], what: str) -> tuple[int, NDArray[np.intp]]:
        """Return the position of the column, and which name stands there in each case, or raise a ValueError."""
        (column,) = positions_among((self.column,), X.shape[1])
        same = X[:, column, None] == np.array([self._code(name) for name in allowed])
        strange = np.flatnonzero(~same.any(axis=1))
        if strange.size:
            code, levels = X[strange[0], column].item(), self.levels or ()
            name = levels[int(code)] if code in range(len(levels)) else code
            raise ValueError(
                f"column {column} of inputs must say the {what} of each case, one of {list(allowed)[:20]}, but row "
                f"{strange[0]} has {name!r}. Correct it, or tell {type(self).__name__} of that {what} too."
            )
        return column, same.argmax(axis=1)

    def _code(self, name: str | float) -> float:
        """Return the number by which inputs have a name; NaN where they have none for it."""
        levels = self.levels or ()
        if isinstance(name, str):
            return levels.index(name) if name in levels else math.nan
        return math.nan if name in range(len(levels)) else name  # numbers below are those of texts

    def readers(self, how: str, width: int) -> dict[int, Kernel]:
        """Return what reads each column: that of the names is of groups, whatever the kernels below read."""
        found = {j: reader for kernel in self._each() for j, reader in kernel.readers(how, width).items()}
        for j in positions((self.column,), None):
            found.pop(j, None)
            found |= {j: self} if how == "groups" and j < width else {}
        return found

    def levels_of_columns(self) -> dict[int, tuple[str, ...]]:
        """Return the texts of columns by position, with those of the names."""
        (column,) = positions((self.column,), None)
        found = {j: texts for kernel in self._each() for j, texts in kernel.levels_of_columns().items()}
        return found | ({} if self.levels is None else {column: self.levels})

    def groupings(self, width: int) -> list[tuple[int, ...]]:
        """Return the column of the names, so that each has an inducing case."""
        return [positions((self.column,), None)]


class Mean(ByName):
    r"""A kernel of cases that each see the mean :math:`\sum_k w_k f(x_k)` of the function over a set of inputs.

    Such are averages over areas, sums over periods, or mixtures. A column of inputs says which set a case sees.

    Parameters
    ----------
    kernel : Kernel
        Of f.
    points : mapping of str or float to (k, c) array_like
        The inputs of each set, in the columns that are named in ``columns``. Of a data frame with a row for each point:
        ``{area: part[["lon", "lat"]] for area, part in grid.groupby("area")}``.
    columns : str, int or sequence of them
        The columns of X in whose places the points stand. A case has something there too, which is not read; its other
        columns are those of all its points.
    column : str or int
        Which says the set of a case.
    weights : mapping of str or float to (k,) array_like, optional
        :math:`w_k`, such as shares of a population; they need not sum to one. By default 1 over the number of points.

    Raises
    ------
    ValueError
        If points or weights are not finite, none, or do not fit; later, if a case names another set.
    TypeError
        If ``kernel`` is no kernel, or one for each class.

    Notes
    -----
    The mean of a rate or a probability is another thing than the likelihood at the mean of f: where f varies much
    within a set, more sets are the better model. A Gram matrix takes as many covariances as there are pairs of points.

    Examples
    --------
    Two measurements over halves of a line, and a value at a point between them:

    >>> import numpy as np
    >>> from bayesgp_mf.kernels import Gaussian, Mean
    >>> halves = {0: [[0.0], [1.0]], 1: [[2.0], [3.0]], 2: [[1.5]]}
    >>> Mean(Gaussian(1.0), halves, columns=0, column=1).gram(np.array([[0.0, 0.0], [0.0, 1.0], [0.0, 2.0]])).round(2)
    array([[0.8 , 0.22, 0.6 ],
           [0.22, 0.8 , 0.6 ],
           [0.6 , 0.6 , 1.  ]])
    """

    def __init__(
        self,
        kernel: Kernel,
        points: Mapping[Any, ArrayLike] | Sequence[Sequence[Any]],
        *,
        columns: Columns,
        column: str | int,
        weights: Mapping[Any, ArrayLike] | Sequence[Sequence[Any]] | None = None,
        levels: Sequence[str] | None = None,
    ) -> None:
        check_of_one("Mean", kernel)
        self.kernel, self.columns, self.column = kernel, _columns("columns", columns), _one_column(column)
        if self.column in self.columns:
            raise ValueError(f"column {self.column!r} says the set of each case, and no point has a place there.")
        width = len(self.columns)
        self._points = {
            name: _finite(f"points of {name!r}", _in_order(each, self.columns), width)
            for name, each in _by_name("points", points)
        }
        self.is_weighted = weights is not None
        self._weights = {name: np.full(len(each), 1.0 / len(each)) for name, each in self._points.items()}
        if weights is not None:
            self._weights = {
                name: np.ravel(_finite(f"weights of {name!r}", each, 1)) for name, each in _by_name("weights", weights)
            }
        if {name: len(w) for name, w in self._weights.items()} != {name: len(p) for name, p in self._points.items()}:
            raise ValueError("weights must have one for each point of each set of points, and no others.")
        texts = [name for name in self._points if isinstance(name, str)]
        self.levels = None if levels is None else (*levels, *(text for text in texts if text not in levels))
        self.depth: int = depth_around([kernel])

    def terms(self, X: Array) -> list[Term]:
        """Return a term for the points of some sets, one for those of the next, and so on."""
        names = list(self._points)
        column, which = self._named_in(X, names, "set")
        places = positions_among(self.columns, X.shape[1])
        unread = set(places) - {j for how in ("numbers", "groups") for j in self.kernel.readers(how, X.shape[1])}
        if unread:
            raise ValueError(
                f"points have a place in columns {sorted(unread)}, which {self.kernel!r} does not take: those of "
                "columns= are the ones that it is of."
            )
        sources = np.where(np.isin(np.arange(X.shape[1]), [column, *places]), -1, np.arange(X.shape[1]))
        size = np.array([len(points) for points in self._points.values()], dtype=np.intp)[which]
        found = []
        for rows in np.split(np.arange(size.size), np.flatnonzero(np.diff(size.cumsum() // AT_ONCE)) + 1):
            if not rows.size:
                continue
            cases = np.repeat(rows, size[rows])
            inputs = np.where(sources >= 0, X[cases], 0.0)
            inputs[:, places] = np.concatenate([self._points[names[k]] for k in which[rows]])
            factor = np.concatenate([self._weights[names[k]] for k in which[rows]])
            found.append(Term(inputs, factor, None, sources, cases, repeats=True))
        return found

    def with_column_names(self, names: Sequence[str] | None) -> Self:
        """Return the kernel with the columns that it names by their positions among ``names``."""
        (column,) = positions((self.column,), names)
        below, columns = self.kernel.with_column_names(names), positions(self.columns, names)
        return self._made_with({"kernel": below, "columns": columns, "column": column})

    def with_levels(self, levels: Mapping[int, Sequence[str]]) -> Self:
        """Return the kernel with the texts by which columns of inputs tell groups, and sets."""
        (column,) = positions((self.column,), None)
        return self._made_with({"kernel": self.kernel.with_levels(levels), "levels": levels.get(column)})

    def _made_of(self) -> dict[str, Any]:
        points, weights = ([[name, each.tolist()] for name, each in of.items()] for of in (self._points, self._weights))
        others = {"weights": weights if self.is_weighted else None, "levels": self.levels}
        return {"kernel": self.kernel, "points": points, "columns": self.columns, "column": self.column, **others}

    def __repr__(self) -> str:
        sets = {name: len(each) for name, each in self._points.items()}
        return f"Mean({self.kernel!r}, points of {sets}, columns={list(self.columns)}, column={self.column!r})"


class Kinds(ByName):
    r"""A kernel of cases of several kinds, which see different functionals of one function.

    A column of inputs says of which kind a case is: labels and slopes, for example, or duels and ratings.

    Parameters
    ----------
    *kernels : Kernel
        One for each kind: a kernel k for cases that see values, `Difference` or `Slope` of the same k for others.
    column : str or int
        Which says the kind of a case, by name in a data frame or by position; it holds text or numbers.
    kinds : sequence of str or float, optional
        What stands there for each kernel; 0, 1, ... by default.
    noise : sequence of float, optional
        The noise variance of each kind where it is 1 for the likelihood: the likelihood sees the functional over
        the root of it. With ``Probit(1.0)`` they are noise variances; a slope of small noise is nearly an
        inequality. Latent values of a case, such as ``latent_mean`` of `predict`, are those over the root: to see
        slopes in their own units, give them one more kind, of noise 1.

    Raises
    ------
    ValueError
        If the kernels are of different functions; if there are not as many kinds, or noise variances, as kernels.
    TypeError
        If one is no kernel, or one for each class.

    Examples
    --------
    Labels, and the knowledge that the function rises at two places:

    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.kernels import Gaussian, Kinds, Slope
    >>> k = Gaussian(1.0, 4.0, columns="dose")
    >>> kernel = Kinds(k, Slope(k, "dose"), column="kind", kinds=["label", "rise"], noise=[1.0, 1e-4])
    >>> cases = pd.DataFrame({"dose": [0.0, 1.0, 2.0, 0.5, 1.5], "kind": ["label"] * 3 + ["rise"] * 2})
    >>> idata = bgp.fit(cases, [0, 1, 0, 1, 1], kernel, bgp.Probit(), random_seed=1, progress=False)
    >>> p = bgp.predict(idata, cases[:3], draws=False)["predictions"]["p"].values
    >>> bool((p[1:] > p[:-1]).all())
    True
    """

    def __init__(
        self,
        *kernels: Kernel,
        column: str | int,
        kinds: Sequence[str | float] | None = None,
        noise: Sequence[float] | None = None,
        levels: Sequence[str] | None = None,
    ) -> None:
        for kernel in kernels:
            check_of_one("Kinds", kernel)
        if not kernels or any(isinstance(kernel, Kinds) for kernel in kernels):
            raise ValueError(
                "Kinds needs a kernel for each kind of cases, such as Kinds(k, Slope(k, 0), column=1), and is none of "
                f"these itself; got {kernels!r:.80}."
            )
        found = _one_column(column)
        if any(isinstance(kernel, Slope) and kernel.column == found for kernel in kernels):
            raise ValueError(f"column {found!r} says the kind of each case, and a slope needs another one.")
        self.kernels, self.column = kernels, found
        self.kernel = _below(kernels[0])
        for kernel in kernels[1:]:
            if _below(kernel) != self.kernel:
                raise ValueError(
                    f"all kinds must be of one function, and {kernel!r} is of another than {kernels[0]!r}. Make one "
                    "kernel k, and pass k, Slope(k, ...), Difference(k, ...)."
                )
        given = [kinds] if isinstance(kinds, str | numbers.Real) else range(len(kernels)) if kinds is None else kinds
        self.kinds = tuple(kind.item() if isinstance(kind, np.generic) else kind for kind in given)
        each = np.ones(len(kernels)) if noise is None else np.atleast_1d(positive("noise", noise, vector=True))
        self.noise = tuple(each.tolist())
        for name, given in (("kinds", self.kinds), ("noise", self.noise)):
            if len(given) != len(kernels):
                raise ValueError(f"{name} must have one entry for each of {len(kernels)} kernels, got {list(given)}.")
        texts = [kind for kind in self.kinds if isinstance(kind, str)]
        values = [kind for kind in self.kinds if isinstance(kind, numbers.Real) and math.isfinite(kind)]
        if len(kernels) not in (len(texts), len(values)) or len(set(self.kinds)) < len(kernels):
            raise ValueError(f"kinds must be different texts, or different numbers, got {list(self.kinds)}.")
        # texts of the column that are no kind are refused where a case has one
        self.levels = None if levels is None else (*levels, *(text for text in texts if text not in levels))
        self.depth: int = depth_around(kernels)

    def _each(self) -> Sequence[Kernel]:
        return self.kernels

    def terms(self, X: Array) -> list[Term]:
        """Return the terms of the functionals of all kinds, with the cases that are of each kind."""
        column, which = self._named_in(X, self.kinds, "kind")
        found = []
        for k, (kernel, noise) in enumerate(zip(self.kernels, self.noise, strict=True)):
            cases = np.flatnonzero(which == k)
            if not cases.size:
                continue
            seen = X[cases]
            seen[:, column] = 0.0  # the kernel of the function does not see it
            of_kind = kernel.terms(seen) if isinstance(kernel, Functional) else [_value(seen)]
            for term in of_kind:
                sources = np.where(np.arange(X.shape[1]) == column, -1, term.sources)
                factor = term.factor / math.sqrt(noise)
                found.append(term._replace(factor=factor, sources=sources, cases=cases[term.cases]))
        return found

    def of_first_kind(self, X: Array) -> NDArray[np.bool_]:
        """Return which cases are of the first of its kinds."""
        return np.asarray(self._named_in(X, self.kinds, "kind")[1] == 0)

    @property
    def has_inputs_vjp(self) -> bool:
        """Whether the kernels of all kinds have it."""
        return all(kernel.has_inputs_vjp for kernel in self.kernels)

    def alike(self) -> list[tuple[int, ...]]:
        """Return the columns in which one text means one group, of all kinds."""
        return [columns for kernel in self.kernels for columns in kernel.alike()]

    def with_column_names(self, names: Sequence[str] | None) -> Self:
        """Return the kernel with the columns that it names by their positions among ``names``."""
        (column,) = positions((self.column,), names)
        return self._of([kernel.with_column_names(names) for kernel in self.kernels], {"column": column})

    def with_levels(self, levels: Mapping[int, Sequence[str]]) -> Self:
        """Return the kernel with the texts by which columns of inputs tell groups, and kinds."""
        (column,) = positions((self.column,), None)
        return self._of([kernel.with_levels(levels) for kernel in self.kernels], {"levels": levels.get(column)})

    def to_dict(self) -> dict[str, Any]:
        """Return the name, the descriptions of the kernels of all kinds, and what else it is made of."""
        return {**super().to_dict(), "terms": [kernel.to_dict() for kernel in self.kernels]}

    def _of(self, kernels: Sequence[Kernel], changed: dict[str, Any]) -> Self:
        others = {name: value for name, value in self._made_of().items() if name != "kernel"}
        return type(self)(*kernels, **{**others, **changed})

    def _made_with(self, changed: dict[str, Any]) -> Self:
        others = dict(changed)
        kernel = others.pop("kernel", self.kernel)
        return self._of([_around(kernel, each) for each in self.kernels], others)

    def _made_of(self) -> dict[str, Any]:
        others = {"column": self.column, "kinds": self.kinds, "noise": self.noise, "levels": self.levels}
        return {"kernel": self.kernel, **others}

    def __repr__(self) -> str:
        others = {"column": self.column, "kinds": list(self.kinds), "noise": list(self.noise)}
        kernels = [repr(kernel) for kernel in self.kernels]
        return f"Kinds({', '.join([*kernels, *(f'{name}={value!r}' for name, value in others.items())])})"


def _value(X: Array) -> Term:
    """Return the value of the function at the inputs."""
    return Term(X, 1.0, None, np.arange(X.shape[1]))


def _around(kernel: Kernel, other: Kernel) -> Kernel:
    """Return a kernel as another one is around that of its function."""
    return other._made_with({"kernel": kernel}) if isinstance(other, Functional) else kernel  # noqa: SLF001


def _below(kernel: Kernel) -> Kernel:
    """Return the kernel of the function of which cases see a functional."""
    return kernel.kernel if isinstance(kernel, Functional) else kernel


def _by_name(name: str, given: Any) -> list[tuple[str | float, Any]]:
    """Return pairs of a name and what is given for it, from a mapping or from pairs, or raise a ValueError."""
    listed = given if isinstance(given, Sequence) and not isinstance(given, str) else []
    pairs = list(given.items()) if isinstance(given, Mapping) else [tuple(pair) for pair in listed]
    names = [each[0] for each in pairs]
    if not pairs or len(set(names)) < len(names) or not all(isinstance(name, str | numbers.Real) for name in names):
        raise ValueError(
            f"{name} must be a dict of sets by name, such as {{'north': [[0.1, 2.0]]}}, got {given!r:.80}."
        )
    return [(each.item() if isinstance(each, np.generic) else each, value) for each, value in pairs]


def _in_order(given: Any, columns: tuple[str | int, ...]) -> Any:
    """Return the columns of a data frame that has them by name in this order, and anything else as it is."""
    return given[list(columns)] if set(columns) <= set(getattr(given, "columns", ())) else given


def _finite(name: str, given: Any, width: int) -> Array:
    """Return numbers as rows of so many, or raise a ValueError."""
    try:
        rows = np.array(given, dtype=np.float64)
        rows = rows.reshape(-1, width) if rows.ndim < 2 else rows
    except (TypeError, ValueError):
        rows = np.empty((0, 0))
    if not rows.size or rows.shape[1:] != (width,) or not np.isfinite(rows).all():
        raise ValueError(f"{name} must be finite numbers, {width} in each row, got {given!r:.80}.")
    return rows


def _one_column(given: str | int) -> str | int:
    (found, *more) = _columns("column", given)
    if more:
        raise ValueError(f"column must be one column, by name or position, got {given!r}.")
    return found


def _columns(name: str, given: Columns) -> tuple[str | int, ...]:
    found = as_columns(given)
    if found is None:
        raise ValueError(f"{name} must name columns of inputs, such as {name}='age' or {name}=0, got None.")
    return found


def _factors(one: Term, other: Term) -> Array:
    """Return the products of the factors of two terms, of the cases of one in rows."""
    return np.asarray(np.reshape(one.factor, (-1, 1)) * other.factor)


def _add(total: Array, one: Term, other: Term, block: Array) -> None:
    """Add covariances of the entries of two terms to those of their cases."""
    of_rows, rows = _summed(block, one, 0)
    of_both, columns = _summed(of_rows, other, 1)
    total[_at(rows, columns)] += of_both


def _summed(block: Array, term: Term, axis: int) -> tuple[Array, slice | NDArray[np.intp]]:
    """Return sums over the entries of each case of a term, which stand side by side, and the cases."""
    cases = term.cases
    if not term.repeats or isinstance(cases, slice):
        return block, cases
    starts = np.flatnonzero(np.diff(cases, prepend=-1))
    return np.add.reduceat(block, starts, axis=axis), cases[starts]


def _at(rows: slice | NDArray[np.intp], columns: slice | NDArray[np.intp]) -> Any:
    """Return the index of what some cases have in some columns."""
    return (rows, columns) if isinstance(rows, slice) else np.ix_(rows, np.asarray(columns))
