r"""An average over hyperparameters: a few nodes around the mode of evidence times prior.

A design is a set of points z_k with weights such that, for a function h and the standard normal density phi,
:math:`\sum_k w_k h(z_k) \approx \int h\, \phi\, dz`, exactly so for the mean and the covariance. For another density pi
the weights are :math:`w_k \pi(z_k) / \phi(z_k)`, normalised.

References
----------
.. [1] Rue, H., Martino, S., & Chopin, N. (2009). Approximate Bayesian inference for latent Gaussian models by using
   integrated nested Laplace approximations. JRSS B 71, 319-392. https://doi.org/10.1111/j.1467-9868.2008.00700.x
   Section 6.5.
.. [2] Vanhatalo, J., Riihimaki, J., Hartikainen, J., Jylanki, P., Tolvanen, V., & Vehtari, A. (2013). GPstuff: Bayesian
   modeling with Gaussian processes. JMLR 14, 1175-1179. https://jmlr.org/papers/v14/vanhatalo13a.html
.. [3] Sanchez, S. M., & Sanchez, P. J. (2005). Very large fractional factorial and central composite designs. ACM
   Transactions on Modeling and Computer Simulation 15, 362-377. https://doi.org/10.1145/1113316.1113320
.. [4] Naylor, J. C., & Smith, A. F. M. (1982). Applications of a method for the efficient computation of posterior
   distributions. Applied Statistics 31, 214-225. https://doi.org/10.2307/2347995
"""

from __future__ import annotations

import numbers
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
from scipy.linalg import hadamard

from bayesgp_mf.arguments import check_integers
from bayesgp_mf.errors import ConvergenceError, ConvergenceWarning, warn
from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.optimise import maximise, usual_solutions
from bayesgp_mf.hyper.scores import score_of_evidence
from bayesgp_mf.hyper.search import record_of_search
from bayesgp_mf.hyper.strategy import Advance, HyperResult, Strategy
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.methods import MethodName
from bayesgp_mf.types import Array

DIFFERENCE = 1e-2
"""Step in the log parameters of the differences of the gradient: its rounding is that of the inner solver."""
LARGEST_SD = 4.0
"""Standard deviation, in the logarithm, of a direction in which evidence times prior hardly falls off, or rises."""
FEW_PARAMETERS = 2
"""Up to so many the nodes are a product rule."""
LARGEST_DEPARTURE = (1.5, 0.4)
"""Of the nodes' moments from a normal density's, by a product rule and by a composite design, which is exact for less.

Against exact grids and 800 draws of `Surrogate`, 42 fits: it finds 7 of the 11 whose latent means are off by more than
0.2 standard deviations, and 6 of the 21 that are within 0.1.
"""
MOST_OUTSIDE = 0.5
"""Of the weight of a design outside the bounds: the rest has little to do with what is inside."""
LARGEST_DESIGN = 2500
"""Nodes, each of which is a solution that is kept: with 39 parameters there are 4175."""


@dataclass(frozen=True, slots=True)
class Integrate(Strategy):
    r"""Average over nodes around the most probable hyperparameters, with weights.

    The target is evidence times prior, as a function of the log parameters. With x its mode and H the negative Hessian
    of its logarithm there, the nodes are :math:`x + H^{-1/2} z_k`. For one or two parameters the :math:`z_k` are those
    of a product of Gauss-Hermite rules, for more those of a central composite design, as in Rue et al. (2009) and
    Vanhatalo et al. (2013). A node weighs the target there times the weight of the design.

    Parameters
    ----------
    starts : int
        Number of searches for the mode.
    points : int
        Nodes along each axis, for one or two parameters.
    reach : float
        f_0 > 1 of the central composite design: its nodes are f_0 sqrt(p) standard deviations from the mode.
    corrected : bool
        Weight by TAP's log evidence with its second-order correction (`solvers.second_order`), on a dense matrix.
    processes : int
        Number of nodes solved at the same time, each in its own process with one BLAS thread. Starting processes takes
        some seconds, so this pays for thousands of cases.
    client : distributed.Client, optional
        A Dask cluster whose workers solve them instead. Up to 1000 cases the result is identical wherever it is
        computed; beyond, one process has more BLAS threads than a worker, and may round differently.
    method : str or Solver, optional
        The method whose evidence counts, if not that of the fit.

    Raises
    ------
    ValueError
        If an option is out of its range; on use, if the method has no evidence.

    Notes
    -----
    The mean and covariance of the log parameters are exact if the target is Gaussian in them. Then the weighted nodes
    have the mean and the covariance by which they were placed; ``hyper_departure`` in the group ``fit`` says how far
    they are from these, in standard deviations. A parameter with neither prior nor bounds gets `LogNormal` around its
    own value, with standard deviation 1.5: without one, the target has no maximum in a length scale that hardly
    matters. In a direction in which the target falls more slowly than a normal density of standard deviation 4, the
    nodes are placed by that density, with a warning. The cost is a search, 2p solutions with gradients for the Hessian,
    and one solution for each node.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=1)
    >>> from bayesgp_mf.hyper import Integrate, LogNormal
    >>> priors = {"lengthscale": LogNormal(0.0, 1.0), "variance": LogNormal(1.0, 1.0)}
    >>> idata = bgp.fit(toy.X, toy.y, bgp.kernels.Gaussian(), hyper=Integrate(points=3),
    ...     priors=priors, draws=10, random_seed=1, progress=False)
    >>> int(idata["fit"].sizes["node"])
    9
    """

    name = "integrate"
    averages: ClassVar[bool] = True
    records: ClassVar[tuple[str, ...]] = ("start", "iteration")
    starts: int = 3
    points: int = 7
    reach: float = 1.1
    corrected: bool = False
    processes: int = 1
    client: Any = field(default=None, repr=False, compare=False)
    method: MethodName | Solver | None = None

    def __post_init__(self) -> None:
        Strategy.__post_init__(self)  # not by super(): slots make this another class
        check_integers(1, points=self.points)
        if not isinstance(self.reach, numbers.Real) or not 1 < self.reach < 1e100:
            raise ValueError(f"reach must be a number > 1 that can be squared, got {self.reach!r}.")

    def solutions(self, target: Target) -> int:
        """Return how many solutions it will take, about: the search, the curvature, the nodes."""
        p = target.start.size
        return usual_solutions(p, self.starts) + 2 * p + self._nodes(p)

    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Find the mode, and weigh the nodes around it; those without a solution are dropped and counted.

        Raises
        ------
        ValueError
            If there are too many parameters, or ``points``: the nodes would be more than 2500.
        MemoryError
            If the solutions at all nodes would not fit into this machine's memory.
        ConvergenceError
            If no start had a solution, or a point right beside the mode has none.

        Warns
        -----
        BoundWarning, ConvergenceWarning
            As `optimise.maximise` does; if the target has no summit in some direction; if nodes were dropped; if the
            weighted nodes are not like a normal density.
        """
        self._check_size(target)
        target, by_default = target.with_default_priors()
        objective = Objective(target, score_of_evidence(0.0, corrected=self.corrected))
        best, runs = maximise(objective, starts=self.starts, rng=rng, advance=advance)
        scale = _scale(_curvature(objective, best.end, advance))
        p = target.start.size
        design = product_rule(p, self.points) if p <= FEW_PARAMETERS else central_composite(p, self.reach)
        nodes = best.end + design.points @ scale.T
        inside = np.all((nodes >= target.lower) & (nodes <= target.upper), axis=1)
        values = np.full(nodes.shape[0], -np.inf)
        with closing(self.workers()) as pool:  # each from the solution beside the mode
            values[inside] = objective.at_nodes(nodes[inside], advance, pool)
        kept = np.isfinite(values)
        n_failed = int(np.sum(inside & ~kept))
        if n_failed:
            warn_dropped(n_failed, nodes.shape[0])
        if not kept.any():
            raise _no_node(objective)
        log_weight = np.log(design.weights) + values + 0.5 * np.sum(design.points**2, axis=1)  # times pi / phi
        weights = np.exp(log_weight[kept] - np.max(log_weight[kept]))
        weights /= weights.sum()
        departure = _departure(design.points[kept], weights)
        outside = float(design.weights[~inside].sum())
        if departure > LARGEST_DEPARTURE[p > FEW_PARAMETERS] or outside > MOST_OUTSIDE:
            _warn_of_departure(departure, np.unique(target.owners[by_default]).tolist(), outside)
        record = record_of_search(target, best, runs, "hyper_log_evidence") | {
            "hyper_node": (("node", "hyper"), nodes[kept]),
            "hyper_node_weight": (("node",), weights),
            "hyper_n_nodes_failed": ((), np.array(n_failed)),
            "hyper_n_nodes_outside": ((), np.array(int(np.sum(~inside)))),
            "hyper_departure": ((), np.array(departure)),
            "hyper_default_prior": (("hyper",), by_default),
        }
        return HyperResult.average(
            target,
            nodes[kept],
            values[kept],
            weights,
            record=record,
            priors=target.priors,
            solutions=objective.solutions_at(nodes[kept]),
        )

    def _nodes(self, p: int) -> int:
        return self.points**p if p <= FEW_PARAMETERS else central_composite_size(p)

    def _check_size(self, target: Target) -> None:
        """Raise if the design has too many nodes, before anything is solved."""
        p = target.start.size
        nodes = self._nodes(p)
        if nodes > LARGEST_DESIGN:
            fewer = "points" if p <= FEW_PARAMETERS else "parameters: name some in fixed, or share a length scale"
            raise ValueError(
                f"hyper='integrate' would place {nodes} nodes for {p} parameters, each a solution that is kept, and "
                f"takes {LARGEST_DESIGN} at most. Take fewer {fewer}; or hyper='nuts', which needs no design, or "
                "'evidence'."
            )
        target.check_memory(nodes)


def _curvature(objective: Objective, mode: Array, advance: Advance) -> Array:
    """Return the negative Hessian ``(p, p)`` at the mode, by central differences of the gradient."""
    rows = []
    for direction in np.eye(mode.size):
        ahead, behind = (objective(mode + sign * DIFFERENCE * direction) for sign in (1.0, -1.0))
        if ahead is None or behind is None:
            raise _no_node(objective)
        rows.append((behind[1] - ahead[1]) / (2.0 * DIFFERENCE))
        advance("curvature at the mode")
    hessian = np.array(rows)
    return np.asarray(0.5 * (hessian + hessian.T))


def _scale(curvature: Array) -> Array:
    """Return the symmetric square root ``(p, p)`` of the inverse curvature, limited where there is hardly any."""
    values, vectors = np.linalg.eigh(curvature)
    flat = values < LARGEST_SD**-2
    if flat.any():
        warn(
            f"in {int(flat.sum())} of {values.size} directions evidence times prior has no clear summit; the nodes "
            f"there are placed as if its standard deviation in the logarithm were {LARGEST_SD:g}. Give priors, or fix "
            "what the data do not determine.",
            ConvergenceWarning,
        )
    return np.asarray((vectors / np.sqrt(np.maximum(values, LARGEST_SD**-2))) @ vectors.T)


def _departure(points: Array, weights: Array) -> float:
    """Return how far weighted ``points (k, p)`` are from mean 0 and covariance 1, which a Gaussian target would have.

    The larger of the distance of the means and the spectral norm of the difference of the covariances.
    """
    mean = weights @ points
    covariance = (points - mean).T @ (weights[:, None] * (points - mean))
    return float(max(np.linalg.norm(mean), np.linalg.norm(covariance - np.eye(mean.size), 2)))


def _warn_of_departure(departure: float, by_default: list[str], outside: float) -> None:
    bounds = f" {outside:.0%} of the nodes, by weight, are outside the bounds." if outside else ""
    default = f"priors of {', '.join(by_default)}, which have default ones" if by_default else "narrower priors"
    warn(
        "evidence times prior is not like a normal density in the logarithms: mean or covariance of the nodes are "
        f"{departure:.2g} from those by which they were placed (hyper_departure; 0 is exact), so that averages may be "
        f"off by some tenths of a posterior standard deviation.{bounds} Compare hyper='surrogate', which supposes no "
        f"such density, or give {default}.",
        ConvergenceWarning,
    )


def _no_node(objective: Objective) -> ConvergenceError:
    return objective.failed(
        "the inner solver found no solution beside the most probable hyperparameters, so there is nothing to average "
        "over. Use hyper='evidence', or allow noise in the likelihood."
    )


def warn_dropped(n_failed: int, total: int) -> None:
    """Say that nodes of an average were left out; a strategy calls it from ``choose``."""
    warn(
        f"at {n_failed} of {total} nodes the equations had no solution; they were left out of the average.",
        ConvergenceWarning,
    )


class Design(NamedTuple):
    """Points ``(k, p)`` in standardised coordinates, and their weights ``(k,)``, which sum to one."""

    points: Array
    weights: Array


def product_rule(p: int, points: int) -> Design:
    """Return the product of p Gauss-Hermite rules: exact for polynomials up to degree 2 ``points`` - 1 in each z.

    The centre comes first, if it is a node, as in `central_composite`: a container describes the first model.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(points)
    weights = weights / weights.sum()
    grid = np.meshgrid(*[nodes] * p, indexing="ij")
    shares = np.meshgrid(*[weights] * p, indexing="ij")
    placed, weights = np.stack([axis.ravel() for axis in grid], axis=1), np.prod([s.ravel() for s in shares], axis=0)
    outwards = np.argsort(np.sum(placed**2, axis=1), kind="stable")
    return Design(placed[outwards], weights[outwards])


def central_composite(p: int, reach: float) -> Design:
    r"""Return a central composite design ([1]_, section 6.5): a centre, and points on a sphere about it.

    On the sphere, of radius :math:`f_0 \sqrt p` with ``reach`` f_0 > 1, lie two points on each axis and the corners of
    a cube, or, where those are many, a fraction of them in which no two-factor interaction hides another ([3]_). With N
    points on it, the weights :math:`1/(N f_0^2)` of each, and :math:`1 - 1/f_0^2` of the centre, make mean and
    covariance exact.
    """
    on_axes = reach * np.sqrt(p) * np.vstack([np.eye(p), -np.eye(p)])
    sphere = np.vstack([on_axes, reach * factorial(p)])
    share = 1.0 / (sphere.shape[0] * reach**2)
    points = np.vstack([np.zeros(p), sphere])
    return Design(points, np.append(1.0 - 1.0 / reach**2, np.full(sphere.shape[0], share)))


def central_composite_size(p: int) -> int:
    """Return how many points `central_composite` has, without making them."""
    return 1 + 2 * p + _runs(_walsh_indices(p))


def factorial(p: int) -> Array:
    """Return a two-level design ``(2^m, p)`` of resolution V, entries -1 and 1.

    Column j is the Walsh function of an index. Each index is the smallest that is no exclusive or of three or fewer
    earlier ones, which makes those of [3]_: 1, 2, 4, 8, 15, 16, 32, 51, ...
    """
    indices = _walsh_indices(p)
    return np.asarray(hadamard(_runs(indices), dtype=np.int8)[:, indices], dtype=np.float64)


def _runs(indices: list[int]) -> int:
    return 1 << indices[-1].bit_length()


def _walsh_indices(p: int) -> list[int]:
    indices: list[int] = []
    pairs, triples = {0}, {0}  # exclusive ors of at most two, at most three
    candidate = 0
    while len(indices) < p:
        candidate += 1
        if candidate not in triples:
            triples |= {candidate ^ pair for pair in pairs}
            pairs |= {candidate ^ index for index in (0, *indices)}
            indices.append(candidate)
    return indices
