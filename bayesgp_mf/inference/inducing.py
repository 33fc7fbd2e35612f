r"""Which inputs stand for all: the inducing cases of a fit, and how many of them a search takes.

How they are chosen decides more than their number. On a table of 14,020 cases and 10 inputs, with 200 of them, a random
part of the cases gave a better log score than the centres of k-means, and these a better one than the greedy choice of
the largest conditional variance (the pivots of a Cholesky factor), which takes the outliers.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy.cluster.vq import kmeans2

from bayesgp_mf.arguments import check_flags, check_integers, check_one_of
from bayesgp_mf.kernels import Kernel
from bayesgp_mf.types import Array

WAYS = ("random", "kmeans", "greedy")
SEARCH = 400
"""Inducing cases of a search, as a rule: it takes many solutions, and hyperparameters ask for less than predictions."""
ROWS = 20_000
"""Cases of a search, at most, as a rule."""
ROUNDS = 3
"""Searches, each with other cases and other inducing cases, each from where the last one ended."""
PER_CENTRE = 50
"""Cases for each centre that k-means is given at most."""
ITERATIONS = 20
"""Of k-means."""


@dataclass(frozen=True, eq=False)
class Inducing:
    """Options of a fit to very many cases, which are all related through M inducing cases.

    Parameters
    ----------
    number : int, optional
        M, how many inducing cases. Time grows as n M^2, memory as n M. Leave it out only if you give ``inputs``.
    choose : {"random", "kmeans", "greedy"}
        How to choose them: at random, in proportion to the classes; as the centres of k-means; or one by one, the case
        with the largest variance given those before. "random" is usually best.
    search : int, optional
        Inducing cases in the last round of a search for hyperparameters; earlier rounds use half as many. By default
        400, or all if there are fewer.
    rows : int
        How many cases, drawn at random, the search for hyperparameters uses.
    rounds : int
        Number of searches, each with other cases and inducing cases, so that the parameters do not fit one draw of
        cases.
    move : bool
        Optimise the inducing inputs together with the hyperparameters. Needs ``hyper="evidence"`` and a kernel with
        a derivative in its inputs, as all kernels of this package and of PyMC have.
    inputs : (M, d) array_like, optional
        Your own inducing inputs, which replace the choice. ``fit(..., inducing=array)`` is the same.

    Raises
    ------
    ValueError
        If an option is not one of those allowed.

    Examples
    --------
    >>> import numpy as np
    >>> import bayesgp_mf as bgp
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal(size=(2000, 3))
    >>> y = X[:, 0] + 0.5 * rng.normal(size=2000) > 0
    >>> kernel = bgp.kernels.Matern32([1.0, 1.0, 1.0])
    >>> idata = bgp.fit(X, y, kernel, inducing=bgp.Inducing(100), draws=50, random_seed=1)
    >>> int(idata["fit"].sizes["inducing"])
    100
    """

    number: int = None  # type: ignore[assignment]
    choose: Literal["random", "kmeans", "greedy"] = "random"
    search: int | None = None
    rows: int = ROWS
    rounds: int = ROUNDS
    move: bool = False
    inputs: Any = None

    def __post_init__(self) -> None:
        for name in ("number", "search", "rows", "rounds"):
            value = getattr(self, name)
            if value is None and (name == "search" or (name == "number" and self.inputs is not None)):
                continue
            check_integers(1, **{f"Inducing: {name}": value})
        check_one_of("Inducing: choose", self.choose, *WAYS)
        check_flags(**{"Inducing: move": self.move})

    @property
    def in_search(self) -> int:
        """Inducing cases while hyperparameters are searched for."""
        return int(min(self.number, SEARCH if self.search is None else self.search))

    def chosen(self, X: Array, t: Array, kernel: Kernel, rng: np.random.Generator, number: int | None = None) -> Array:
        """Return the inducing inputs ``(M, d)`` for some cases, in random order except for groups.

        If the kernel has groups, a case of each comes first, as far as M allows. A random choice, or one by variance,
        would leave out small groups, about which the others say nothing.

        Parameters
        ----------
        X : (n, d) array
            Inputs of the cases.
        t : (n,) array
            Targets.
        kernel : Kernel
            Its groups, and for the greedy choice its variances, are used.
        rng : numpy.random.Generator
            Source of randomness.
        number : int, optional
            How many, if not M.
        """
        if self.inputs is not None:
            return np.asarray(self.inputs)
        number = max(1, min(self.number if number is None else number, X.shape[0]))
        if self.choose == "random":
            order, _ = groups_first(kernel, X, in_proportion(t, rng))
            return np.asarray(X[different_rows(X, order, number)])
        order, first = groups_first(kernel, X, rng.permutation(X.shape[0]))
        distinct = different_rows(X, order, min(X.shape[0], PER_CENTRE * number))
        number = min(number, distinct.size)
        if self.choose == "kmeans":
            if kernel.groupings(X.shape[1]):
                raise ValueError(
                    "Inducing(choose='kmeans') takes means of cases, which are of no group, and the kernel "
                    "tells groups. Use choose='random'."
                )
            return np.asarray(rng.permutation(_centres(X[distinct], number, rng)))
        pivots = _largest_variances(kernel, X[distinct], number, min(first, number))
        others = rng.permutation(pivots[pivots >= first])
        return np.asarray(X[distinct[np.concatenate([pivots[pivots < first], others])]])


def in_proportion(t: Array, rng: np.random.Generator) -> NDArray[np.intp]:
    """Return the cases ``(n,)`` in random order, such that every first part of them has the classes in proportion."""
    order = rng.permutation(t.size)
    kinds = np.unique(t)
    if kinds.size > 2:  # real targets
        return order
    place = np.empty(t.size)
    for kind in kinds:
        (of_kind,) = np.nonzero(t[order] == kind)
        place[of_kind] = (np.arange(of_kind.size) + 0.5) / of_kind.size
    return np.asarray(order[np.argsort(place, kind="stable")])


def groups_first(kernel: Kernel, X: Array, order: NDArray[np.intp]) -> tuple[NDArray[np.intp], int]:
    """Return cases in an order in which the first are of all groups that a kernel tells, and how many those are.

    They are taken in the order that is given: a case where one of its groups has none yet. So large groups come before
    small ones, as a rule.

    Parameters
    ----------
    kernel : Kernel
        Its `groupings` say which groups there are.
    X : (n, d) array
        Inputs.
    order : (n,) array of int
        An order of the cases.
    """
    new = np.zeros(order.size, dtype=bool)
    for columns in kernel.groupings(X.shape[1]):
        _, first, group = np.unique(X[order][:, list(columns)] + 0.0, axis=0, return_index=True, return_inverse=True)
        covered = np.zeros(first.size, dtype=bool)
        covered[group.ravel()[new]] = True  # by what another way of telling groups has chosen already
        new[first[~covered]] = True
    return np.concatenate([order[new], order[~new]]), int(new.sum())


def different_rows(X: Array, order: NDArray[np.intp], number: int) -> NDArray[np.intp]:
    """Return the first ``number`` of some cases in an order whose inputs differ, or as many as there are."""
    part = number
    while True:
        part = min(2 * part, order.size)
        some = order[:part]
        _, first = np.unique(X[some] + 0.0, axis=0, return_index=True)  # -0 is 0
        if first.size >= number or part == order.size:
            return np.asarray(some[np.sort(first)[:number]])


def _centres(X: Array, number: int, rng: np.random.Generator) -> Array:
    largest = np.abs(X).max(axis=0)
    largest[largest == 0] = 1.0
    spread = (X / largest).std(axis=0)
    scale = largest * np.where(spread > 0, spread, 1.0)
    centres, _ = kmeans2(X / scale, number, iter=ITERATIONS, minit="++", missing="warn", seed=rng)
    return np.asarray(centres * scale)


def _largest_variances(kernel: Any, X: Array, number: int, first: int) -> NDArray[np.intp]:
    """Return so many first cases, and those that have the largest variance given those before, one after the other."""
    prior = kernel.diag(X)
    rest, root = prior.copy(), np.empty((X.shape[0], 0))
    chosen: list[int] = []
    for k in range(number):
        best = k if k < first else int(np.argmax(rest))
        if not rest[best] > 1e-10 * prior[best]:
            if k < first:
                continue
            break
        chosen.append(best)
        column = kernel.cross(X, X[[best]])[:, 0] - root @ root[best]
        column /= np.sqrt(rest[best])
        root = np.column_stack([root, column])
        rest = np.maximum(rest - column**2, 0.0)
        rest[best] = 0.0
    return np.array(chosen, dtype=np.intp)
