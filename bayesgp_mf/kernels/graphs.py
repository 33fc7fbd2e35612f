"""Areas and which of them are neighbours, from whatever a user has, and the intrinsic precision of that graph."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array, csc_array, diags_array, issparse
from scipy.sparse.csgraph import connected_components

from bayesgp_mf.matrices.sparse import SparseFactor
from bayesgp_mf.types import Array

FORMS = (
    "a dict of the neighbours of each area, a GeoDataFrame whose index has the names of areas, weights of libpysal, a "
    "graph of networkx, or a square SciPy matrix, alone or as (names, matrix)"
)
"""What `as_graph` takes, in words."""


class Graph:
    """Areas by name, and the pairs of neighbours.

    Parameters
    ----------
    names : sequence of str or float
        Of the areas, which differ; all text, if one is.
    pairs : (m, 2) array of int
        The positions of two neighbours in each row, each pair once, the smaller position first.

    Notes
    -----
    The intrinsic precision c (D - W), of the numbers D of neighbours and W = 1 between those, is scaled in each
    connected component so that the geometric mean of the variances under it, with a sum of zero in the component, is 1
    [1]_. An area without neighbours has the precision 1 [2]_.

    References
    ----------
    .. [1] Riebler, A., Sørbye, S. H., Simpson, D., & Rue, H. (2016). An intuitive Bayesian spatial model for disease
       mapping that accounts for scaling. Statistical Methods in Medical Research 25, 1145-1165.
    .. [2] Freni-Sterrantino, A., Ventrucci, M., & Rue, H. (2018). A note on intrinsic conditional autoregressive models
       for disconnected graphs. Spatial and Spatio-temporal Epidemiology 26, 25-34.
    """

    def __init__(self, names: Sequence[Any], pairs: NDArray[np.intp]) -> None:
        self.names, self.pairs = _as_names(names), pairs
        self.position = {name: i for i, name in enumerate(self.names)}

    @cached_property
    def neighbours(self) -> csc_array:
        """W ``(areas, areas)``."""
        i, j = self.pairs.T
        n, ones = len(self.names), np.ones(2 * i.size)
        return csc_array(coo_array((ones, (np.r_[i, j], np.r_[j, i])), shape=(n, n)))

    @cached_property
    def degrees(self) -> Array:
        """D ``(areas,)``."""
        return np.asarray(self.neighbours.sum(axis=0))

    @cached_property
    def components(self) -> NDArray[np.intp]:
        """The number of the connected component of each area."""
        return np.asarray(connected_components(self.neighbours, directed=False)[1], dtype=np.intp)

    @cached_property
    def scale(self) -> Array:
        """The factor c of the component of each area ``(areas,)``, 1 for one without neighbours."""
        scale, laplacian = np.ones(len(self.names)), csc_array(diags_array(self.degrees) - self.neighbours)
        for which in np.unique(self.components[self.degrees > 0]):
            (here,) = np.nonzero(self.components == which)
            rest = here[1:]  # the inverse where the first area is zero, then with the mean taken off
            factor = SparseFactor(laplacian[rest][:, rest])
            row_sums = np.r_[0.0, factor.solve(np.ones(rest.size))] / here.size
            variances = np.r_[0.0, factor.diagonal_of_inverse] - 2.0 * row_sums + row_sums.mean()
            scale[here] = np.exp(np.mean(np.log(variances)))
        return scale

    @cached_property
    def alone(self) -> Array:
        """1 for an area without neighbours, 0 for others."""
        return np.asarray(self.degrees == 0, dtype=np.float64)

    @cached_property
    def between(self) -> csc_array:
        """C W ``(areas, areas)``."""
        return csc_array(diags_array(self.scale) @ self.neighbours)

    @cached_property
    def intrinsic(self) -> csc_array:
        """The scaled precision ``(areas, areas)``."""
        return csc_array(diags_array(self.scale * self.degrees + self.alone) - self.between)

    @cached_property
    def pseudo_inverse(self) -> Array:
        """That of `intrinsic`, dense: the covariances under sums of zero in each component."""
        n = len(self.names)
        members = np.zeros((n, self.components.max() + 1))
        members[np.arange(n), self.components] = 1.0 - self.alone
        null = members / np.sqrt(np.maximum(members.sum(axis=0), 1.0))
        inverse = np.linalg.inv(self.intrinsic.toarray() + null @ null.T) - null @ null.T
        return np.asarray(0.5 * (inverse + inverse.T))

    def plain(self) -> list[Any]:
        """Return names and pairs as lists, from which `as_graph` makes it again."""
        return [list(self.names), self.pairs.tolist()]


def as_graph(given: Any) -> Graph:
    """Return areas and their neighbours from what a user has: see ``FORMS``; ValueError if that is none."""
    if isinstance(given, Graph):
        return given
    if isinstance(given, Mapping):
        return _of_neighbours(given)
    if callable(getattr(given, "adjacency", None)):  # networkx
        return _of_neighbours({name: list(beside) for name, beside in given.adjacency()})
    if hasattr(given, "sparse") and (hasattr(given, "id_order") or hasattr(given, "unique_ids")):  # libpysal
        names = given.unique_ids if hasattr(given, "unique_ids") else given.id_order
        return _of_matrix(list(names), given.sparse)
    if hasattr(given, "geometry") and hasattr(given, "sindex"):  # geopandas
        pairs = np.asarray(given.sindex.query(given.geometry, predicate="touches")).T
        return _of_pairs(list(given.index), pairs[pairs[:, 0] != pairs[:, 1]])
    if issparse(given) or (isinstance(given, np.ndarray) and given.ndim):
        return _of_matrix(list(range(given.shape[0])), given)
    if isinstance(given, Sequence) and not isinstance(given, str) and len(given) == 2:
        names, pairs = given
        if issparse(pairs) or isinstance(pairs, np.ndarray):
            return _of_matrix(list(names), pairs)
        if isinstance(pairs, list) and all(isinstance(pair, list) for pair in pairs):
            return Graph(names, np.array(pairs, dtype=np.intp).reshape(-1, 2))  # of a file
    raise ValueError(f"graph must be {FORMS}; got {given!r:.80}. Pairs are networkx.Graph(pairs).")


def _of_neighbours(neighbours: Mapping[Any, Any]) -> Graph:
    names = list(neighbours)
    place = {name: i for i, name in enumerate(names)}
    pairs = []
    for name, beside in neighbours.items():
        if isinstance(beside, str):
            raise ValueError(f"graph: the neighbours of {name!r} must be a list, such as [{beside!r}], got text.")
        if not isinstance(beside, Iterable):
            raise ValueError(f"graph: the neighbours of {name!r} must be a list of areas, got {beside!r}.")
        for other in beside:
            if other not in place:
                raise ValueError(f"graph: {name!r} has the neighbour {other!r}, which is no area of the graph. Add it.")
            pairs.append((place[name], place[other]))
        if len(set(beside)) < len(list(beside)):
            raise ValueError(f"graph: {name!r} has a neighbour twice: {list(beside)!r:.80}. Name each once.")
    return _of_pairs(names, np.array(pairs, dtype=np.intp).reshape(-1, 2))


def _of_matrix(names: list[Any], matrix: Any) -> Graph:
    n = len(names)
    if matrix.shape != (n, n):
        raise ValueError(f"graph: a matrix of neighbours must be ({n}, {n}) for {n} areas, got {matrix.shape}.")
    entries = coo_array(matrix)
    if np.any(entries.data < 0) or not np.all(np.isfinite(entries.data)):
        raise ValueError("graph: a matrix of neighbours must hold finite numbers >= 0.")
    there = entries.data != 0
    return _of_pairs(names, np.stack([entries.coords[0][there], entries.coords[1][there]], axis=1).astype(np.intp))


def _of_pairs(names: list[Any], pairs: NDArray[np.intp]) -> Graph:
    """Return the graph of ordered pairs, each of which must be there both ways."""
    (itself,) = np.nonzero(pairs[:, 0] == pairs[:, 1])
    if itself.size:
        raise ValueError(f"graph: {names[pairs[itself[0], 0]]!r} is its own neighbour. Leave that out.")
    both = {tuple(pair) for pair in pairs.tolist()}
    one_way = next((pair for pair in sorted(both) if pair[::-1] not in both), None)
    if one_way is not None:
        first, second = (names[i] for i in one_way)
        raise ValueError(
            f"graph: {second!r} is a neighbour of {first!r}, but not the other way round. Neighbours must be mutual."
        )
    return Graph(names, np.array(sorted(pair for pair in both if pair[0] < pair[1]), dtype=np.intp).reshape(-1, 2))


def _as_names(given: Sequence[Any]) -> tuple[str | float, ...]:
    """Return names of areas: all numbers, or all text."""
    plain = [name.item() if isinstance(name, np.generic) else name for name in given]
    numeric = all(isinstance(name, numbers.Real) and not isinstance(name, bool) for name in plain)
    names = tuple(plain) if numeric else tuple(str(name) for name in plain)
    if not names:
        raise ValueError(f"graph must have areas: {FORMS}; got none.")
    if len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"graph: two areas are called {twice!r}. Give each a name of its own.")
    return names
