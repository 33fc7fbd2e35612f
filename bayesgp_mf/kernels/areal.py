"""Areas with neighbours: conditional autoregressions, as covariances of areas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csc_array, csr_array, diags_array, eye_array

from bayesgp_mf.arguments import check_one_of
from bayesgp_mf.kernels.base import FromCross
from bayesgp_mf.kernels.graphs import as_graph
from bayesgp_mf.kernels.values import Columns, as_columns, positions_among
from bayesgp_mf.matrices.precision import Field
from bayesgp_mf.matrices.sparse import SparseFactor
from bayesgp_mf.types import Array

Model = Literal["leroux", "car", "bym2"]
LOG_ODDS = np.linspace(-9.0, 9.0, 37)
"""Of the mixings at which the distance from the model without neighbours is known."""


@dataclass(frozen=True, repr=False, eq=False)
class Areal(FromCross):
    r"""Covariances of areas, of which neighbours are alike: a conditional autoregression on a graph.

    The mixing :math:`\rho` = odds / (1 + odds) says how much of the variation neighbours share: none at 0. With the
    intrinsic precision R = c (D - W) of the graph, for the numbers D of neighbours and W = 1 between them, the
    covariances of all areas are ``variance`` times

    - "leroux" [1]_: the inverse of :math:`(1 - \rho) I + \rho R`;
    - "car", a proper conditional autoregression: the inverse of :math:`c (D - \rho W)`;
    - "bym2" [2]_: :math:`(1 - \rho) I + \rho R^-`, the sum of an effect of each area's own and of a shared one, which
      sums to zero in each connected component.

    c makes the geometric mean of the variances under R one in each component [2]_ [3]_, so that ``variance`` means the
    same on every graph. An area without neighbours has ``variance``, whatever the mixing. The level of a component
    moves under "leroux" and "car", as :math:`\rho` nears 1 without limit, and under "bym2" by the areas' own effects
    alone: add a `Bias` for a common level.

    An area may have several cases, or none: it is predicted from its neighbours.

    Parameters
    ----------
    graph : mapping, sparse array, or object of another package
        Areas and their neighbours: a dict of the neighbours of each area; a GeoDataFrame whose index has the names, in
        which those are neighbours that touch; weights of libpysal or a graph of networkx, of which it only matters
        which pairs are there; a square SciPy matrix, whose areas are 0, 1, ..., or a pair (names, matrix).
    model : {"leroux", "car", "bym2"}
        Which covariances.
    variance : float
        In squared latent units.
    odds : float
        The odds of the mixing, > 0; at 1 the mixing is one half.
    columns : str or int
        The input that names the area of a case, by name in a data frame or by position. By default the only one.
    levels : sequence of str, optional
        The texts with codes 0, 1, ... in that input. `fit` finds them, and a file keeps them.

    Raises
    ------
    ValueError
        If an area has no name of its own, is its own neighbour or one-sidedly that of another, or a neighbour is no
        area; if parameters are not positive; later, if a case is of an area that the graph does not have.

    Notes
    -----
    `priors.suggest` with ``form="penalised complexity"`` has the prior of [2]_ for the odds. Under "leroux" and "car" a
    fit of many areas works with the sparse precision (`matrices.precision`); "bym2" has none, and takes dense ones.

    References
    ----------
    .. [1] Leroux, B. G., Lei, X., & Breslow, N. (2000). Estimation of disease rates in small areas: a new mixed model
       for spatial dependence. In Statistical Models in Epidemiology, the Environment and Clinical Trials, 179-191.
    .. [2] Riebler, A., Sørbye, S. H., Simpson, D., & Rue, H. (2016). An intuitive Bayesian spatial model for disease
       mapping that accounts for scaling. Statistical Methods in Medical Research 25, 1145-1165.
    .. [3] Freni-Sterrantino, A., Ventrucci, M., & Rue, H. (2018). A note on intrinsic conditional autoregressive models
       for disconnected graphs. Spatial and Spatio-temporal Epidemiology 26, 25-34.

    Examples
    --------
    Counts in three areas in a row and on an island, of a fourth area beside them nothing is known:

    >>> import pandas as pd
    >>> import bayesgp_mf as bgp
    >>> graph = {"a": ["b"], "b": ["a", "c"], "c": ["b", "d"], "d": ["c"], "isle": []}
    >>> kernel = bgp.kernels.Areal(graph, columns="area", odds=9.0) + bgp.kernels.Bias()
    >>> cases = pd.DataFrame({"area": ["a", "b", "c", "isle"]})
    >>> idata = bgp.fit(cases, [9, 7, 2, 4], kernel, bgp.Poisson(), random_seed=1, progress=False)
    >>> new = pd.DataFrame({"area": ["a", "d"]})
    >>> bgp.predict(idata, new, draws=False)["predictions"]["latent_mean"].values.round(2)
    array([2.11, 0.76])
    """

    graph: Any
    model: Model = "leroux"
    variance: ArrayLike = 1.0
    odds: ArrayLike = 1.0
    columns: Columns = field(default=None, kw_only=True)
    levels: Sequence[str] | None = field(default=None, kw_only=True)
    parameter_names: ClassVar[tuple[str, ...]] = ("variance", "odds")
    setting_names: ClassVar[tuple[str, ...]] = ("graph", "model", "columns", "levels")
    scale_name: ClassVar[str | None] = "variance"
    reads: ClassVar[Literal["numbers", "groups", "nothing"]] = "groups"
    flat: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_one_of("model", self.model, *get_args(Model))
        object.__setattr__(self, "graph", as_graph(self.graph))
        columns = as_columns(self.columns)
        if columns is not None and len(columns) != 1:
            raise ValueError(f"columns must be the one that names areas, got {list(columns)}.")
        texts = [name for name in self.graph.names if isinstance(name, str)]
        levels = self.levels and (*self.levels, *(name for name in texts if name not in set(self.levels)))
        object.__setattr__(self, "levels", levels)

    @property
    def mixing(self) -> float:
        """What neighbours share of the variation, odds / (1 + odds)."""
        return float(self.params["odds"] / (1.0 + self.params["odds"]))

    def with_levels(self, levels: Mapping[int, Sequence[str]]) -> Self:
        """Return the kernel with the texts of its column; areas of the graph that have no case come behind them.

        Those that it knows stay where the column holds numbers, which are codes of them then.
        """
        (column,) = as_columns(self.columns) or (0,)
        return self._made_with({"levels": levels.get(column, self.levels) if isinstance(column, int) else None})

    def levels_of_columns(self) -> dict[int, tuple[str, ...]]:
        """Return the texts of its column by position, if it holds text."""
        (column,) = as_columns(self.columns) or (0,)
        return {} if self.levels is None or isinstance(column, str) else {column: tuple(self.levels)}

    def groupings(self, width: int) -> list[tuple[int, ...]]:
        """Return its column."""
        return [tuple(positions_among(as_columns(self.columns) or (0,), width))]

    def areas(self, X: Array) -> NDArray[np.intp]:
        """Return the position in the graph of the area of each case ``(n,)``, or raise a ValueError."""
        if self.columns is None and X.shape[1] > 1:
            raise ValueError(f"X has {X.shape[1]} columns; say which one names areas, as in Areal(graph, columns=0).")
        (column,) = positions_among(as_columns(self.columns) or (0,), X.shape[1])
        codes, of_cases = np.unique(X[:, column], return_inverse=True)
        texts = self.levels or ()
        names = [texts[int(code)] if code in range(len(texts)) else code for code in codes.tolist()]
        unknown = [i for i, name in enumerate(names) if name not in self.graph.position]
        if unknown:
            row = int(np.argmax(of_cases == unknown[0]))
            known, wrong = ", ".join(map(repr, self.graph.names[:5])), names[unknown[0]]
            if self.levels is not None and not isinstance(wrong, str):
                wrong = "a text that the fit did not see"  # its code is beyond those of the fit
            of_two_kinds = isinstance(wrong, str) != isinstance(self.graph.names[0], str)
            raise ValueError(
                f"column {column} of inputs must name areas of the graph, such as {known}, but row {row} has "
                f"{wrong!r}. "
                + ("Make both text, or both numbers." if of_two_kinds else "Correct it, or add it to the graph.")
            )
        return np.array([self.graph.position[name] for name in names], dtype=np.intp)[of_cases]

    @property
    def has_precision(self) -> bool:
        """Whether the precision of all areas is sparse."""
        return self.model != "bym2"

    @cached_property
    def precision(self) -> csc_array:
        """That of all areas."""
        return self._precision_at(self.mixing) / float(self.params["variance"])

    @property
    def precision_slope(self) -> csc_array:
        """Its derivative in the mixing at variance 1, which is the same everywhere."""
        graph, n = self.graph, len(self.graph.names)
        return csc_array(-graph.between if self.model == "car" else graph.intrinsic - eye_array(n))

    def _precision_at(self, mixing: float) -> csc_array:
        graph, n = self.graph, len(self.graph.names)
        if self.model == "car":
            return csc_array(diags_array(graph.scale * graph.degrees + graph.alone) - mixing * graph.between)
        return csc_array((1.0 - mixing) * eye_array(n) + mixing * graph.intrinsic)

    @cached_property
    def _factor(self) -> SparseFactor:
        return SparseFactor(self.precision)

    @cached_property
    def _unit_diagonal(self) -> Array:
        if not self.has_precision:
            return np.asarray(1.0 - self.mixing + self.mixing * np.diag(self.graph.pseudo_inverse))
        return self._factor.diagonal_of_inverse / self.params["variance"]

    def _with_all(self, areas: NDArray[np.intp]) -> Array:
        """Return the covariances ``(n, areas)`` of some areas with all at variance 1."""
        n, k = len(self.graph.names), areas.size
        rows = np.zeros((n, k))
        rows[areas, np.arange(k)] = 1.0
        if self.has_precision:
            return self._factor.solve(rows).T / self.params["variance"]
        return np.asarray((1.0 - self.mixing) * rows.T + self.mixing * self.graph.pseudo_inverse[areas])

    def cross(self, A: Array, B: Array) -> Array:
        """Return the covariances ``(a, b)``."""
        (first, of_a), (second, of_b) = self._different_areas(A, B)
        unit = self._with_all(first)[:, second]
        if A is B:
            unit = 0.5 * (unit + unit.T)  # rounding leaves the two halves unequal
        return np.asarray(self.params["variance"] * unit[np.ix_(of_a, of_b)])

    def diag(self, X: Array) -> Array:
        """Return the variances ``(n,)``."""
        return np.asarray(self.params["variance"] * self._unit_diagonal[self.areas(X)])

    def cross_vjp(self, A: Array, B: Array, cross_bar: Array) -> dict[str, Array]:
        """Return the pull-back of ``cross_bar``, which is summed over cases of two areas first."""
        (first, of_a), (second, of_b) = self._different_areas(A, B)
        bar = _indicators(of_a).T @ (_indicators(of_b).T @ cross_bar.T).T
        of_first = self._with_all(first)
        if self.has_precision:  # dK = -K dQ K
            moved = -np.sum((self.precision_slope @ self._with_all(second).T) * (of_first.T @ bar))
        else:
            moved = np.sum(bar * (self.graph.pseudo_inverse[np.ix_(first, second)] - np.equal.outer(first, second)))
        of_odds = self.params["variance"] * moved * self.mixing_slope
        return {"variance": np.asarray(np.sum(bar * of_first[:, second])), "odds": np.asarray(of_odds)}

    @property
    def mixing_slope(self) -> float:
        """The derivative of the mixing in its odds."""
        return float((1.0 + self.params["odds"]) ** -2.0)

    def _different_areas(self, A: Array, B: Array) -> list[tuple[NDArray[np.intp], NDArray[np.intp]]]:
        """Return the areas of two sets of cases, each once, and which of them is that of each case."""
        return [np.unique(self.areas(X), return_inverse=True) for X in (A, B)]

    def field(self, X: Array) -> Field | None:
        """Return the field on all areas that cases ``(n, d)`` see, where its precision is sparse."""
        if not self.has_precision:
            return None
        variance, areas = float(self.params["variance"]), self.areas(X)
        slopes = {
            "variance": -self.precision / variance,
            "odds": self.precision_slope * self.mixing_slope / variance,
        }
        return Field(eye_array(len(self.graph.names), format="csr")[areas], self.precision, slopes, self._factor)

    def distances(self) -> dict[str, tuple[Array, Array]]:
        r"""Return logarithms of odds, and how far the model is there from that without neighbours.

        The distance is :math:`\sqrt{2 KL}` between the Gaussians of all areas at this mixing and at 0, whose relative
        covariance has eigenvalues :math:`\gamma`:

        .. math:: d^2 = \sum_i (\gamma_i - 1 - \log \gamma_i).
        """
        mixings = 1.0 / (1.0 + np.exp(-LOG_ODDS))
        if self.has_precision:
            none = self._precision_at(0.0)
            factors = [SparseFactor(self._precision_at(mixing)) for mixing in mixings]
            before = float(np.sum(np.log(none.diagonal())))
            squares = [
                float(none.diagonal() @ each.diagonal_of_inverse - none.shape[0] + each.log_det - before)
                for each in factors
            ]
        else:
            moves = np.linalg.eigvalsh(self.graph.pseudo_inverse) - 1.0
            squares = [float(np.sum(mixing * moves - np.log1p(mixing * moves))) for mixing in mixings]
        return {"odds": (LOG_ODDS, np.sqrt(squares))}

    def __repr__(self) -> str:
        others = {name: value for name, value in self._plain().items() if name not in ("graph", "levels")}
        graph = f"graph of {len(self.graph.names)} areas and {len(self.graph.pairs)} pairs of neighbours"
        return f"Areal({graph}, {', '.join(f'{name}={value!r}' for name, value in others.items())})"

    def _plain(self) -> dict[str, Any]:
        return {**super()._plain(), "graph": self.graph.plain()}


def _indicators(areas: NDArray[np.intp]) -> csr_array:
    """Return 1 where a case ``(n,)`` is of an area."""
    return eye_array(int(areas.max()) + 1, format="csr")[areas]
