"""Point estimates by a search: uphill to the highest evidence or the best leave-one-out predictions, or on a grid.

The grid is the papers' way: count leave-one-out errors at its points, and take the kernel of the least count.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar, NamedTuple, Self

import numpy as np

from bayesgp_mf.errors import ConvergenceError, Status
from bayesgp_mf.hyper.objective import NO_VALUE, NOT_HERE, Objective
from bayesgp_mf.hyper.optimise import Run, lower_points, maximise, outward_of, usual_solutions
from bayesgp_mf.hyper.scores import KNOWN_IN_SEARCH, LooScore, Score, score_of_evidence
from bayesgp_mf.hyper.strategy import Advance, HyperResult, Record, Strategy
from bayesgp_mf.hyper.target import Model, Target
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.methods import MethodName
from bayesgp_mf.types import Array


@dataclass(frozen=True, slots=True)
class _Search(Strategy):
    """The highest value of a score found by L-BFGS-B on the logarithms, plus their log prior."""

    recorded_as: ClassVar[str]
    records: ClassVar[tuple[str, ...]] = ("start", "iteration")
    starts: int = 3
    method: MethodName | Solver | None = None

    @property
    def score(self) -> Score:
        """What is highest."""
        raise NotImplementedError

    def with_starts(self, starts: int) -> Self:
        """Return the same search with another number of descents."""
        return replace(self, starts=starts)

    def solutions(self, target: Target) -> int:
        """Return how many solutions it will take, about."""
        return usual_solutions(target.start.size, self.starts)

    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Return the model at the highest point found; `optimise.maximise` says what is raised and warned of."""
        objective = Objective(target, self.score)
        best, runs = maximise(objective, starts=self.starts, rng=rng, advance=advance)
        record = record_of_search(target, best, runs, self.recorded_as)
        is_evidence = self.for_evidence and not self.corrected  # as a solution states it
        return HyperResult(
            (target.model_at(best.end),),
            np.ones(1),
            stats={"lp": np.array([best.value])},
            record=record,
            log_evidence=best.value - target.log_prior(best.end)[0] if is_evidence else None,
            solutions=(objective.solution_at(best.end),),
            lower=tuple((best.value - value, target.model_at(x)) for value, x in lower_points(best, runs)),
        )


@dataclass(frozen=True, slots=True)
class Evidence(_Search):
    """Maximise the log evidence of the method, by L-BFGS-B with exact gradients.

    With priors the result is the most probable value of the log parameters (MAP); without, it is maximum likelihood II.

    Parameters
    ----------
    starts : int
        Descents; the first starts at the kernel, the others at length scales that span the distances in the data.
    method : str or Solver, optional
        The method by whose evidence it chooses, if not that of the fit.
    corrected : bool
        Maximise TAP's log evidence with its second-order correction (`solvers.second_order`), on a dense matrix. Each
        point takes about as long as one of ``hyper="loo"``.

    Raises
    ------
    ValueError
        If ``starts`` is not a positive integer or ``corrected`` not True or False; on use, if the method has no
        evidence, or none that can be corrected.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.hyper import Evidence
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=1)
    >>> idata = bgp.fit(toy.X, toy.y, bgp.kernels.Gaussian(1.0, 4.0), hyper=Evidence(starts=1, corrected=True),
    ...     draws=1, chains=1, random_seed=1, progress=False)
    >>> bool(idata["fit"]["log_evidence_remaining"] < 0.05)
    True
    """

    name = "evidence"
    recorded_as: ClassVar[str] = "hyper_log_evidence"
    for_evidence: ClassVar[bool] = True
    corrected: bool = False

    @property
    def score(self) -> Score:
        """The log evidence, or the corrected one."""
        return score_of_evidence(KNOWN_IN_SEARCH, corrected=self.corrected)


class LeaveOneOut(_Search):
    """Maximise the sum of the leave-one-out log predictive densities, plus the log prior.

    Each solution has these densities in closed form. The gradient is exact for tap, naive, variational and laplace, for
    online learning to its fixed point, and for regression (`loo_gradient`). For a single online sweep, for exact
    classification, and for several classes, it is a central difference: 2p + 1 solutions for each point of the search.

    Parameters
    ----------
    starts : int
        Descents; the first starts at the kernel, the others at length scales that span the distances in the data.
    method : str or Solver, optional
        The method whose densities it goes by, if not that of the fit.

    Raises
    ------
    ValueError
        If ``starts`` is not a positive integer; on use, if the method has no predictive density.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=4)
    >>> from bayesgp_mf.hyper import LeaveOneOut
    >>> idata = bgp.fit(toy.X, toy.y, bgp.kernels.Gaussian(), hyper=LeaveOneOut(starts=1),
    ...     draws=10, random_seed=1, progress=False)
    >>> bool(idata["fit"]["lengthscale"] > 0.1)
    True
    """

    __slots__ = ()
    name = "loo"
    recorded_as: ClassVar[str] = "hyper_loo"

    @property
    def score(self) -> Score:
        """The sum of leave-one-out log densities."""
        return LooScore()


def record_of_search(target: Target, best: Run, runs: list[Run], score_name: str) -> Record:
    """Return how a search went: one row for each start, and the trace of the best.

    ``hyper_trace`` has the log prior in it, where there are priors; the score at the ends has not.
    """
    log_prior = np.array([target.log_prior(run.end)[0] for run in runs])
    record: Record = {
        "hyper_start": (("start", "hyper"), np.array([run.start for run in runs])),
        "hyper_end": (("start", "hyper"), np.array([run.end for run in runs])),
        score_name: (("start",), np.array([run.value for run in runs]) - log_prior),
        "hyper_n_evaluations": (("start",), np.array([run.n_evaluations for run in runs])),
        "hyper_n_failures": (("start",), np.array([run.n_failures for run in runs])),
        "hyper_end_apart": (("start",), np.array([run.apart for run in runs])),
        "hyper_trace": (("iteration",), best.trace),
        "hyper_bound": (("hyper",), outward_of(target, best.end)),
    }
    return record | ({"hyper_log_prior": (("start",), log_prior)} if target.priors else {})


DEFAULT_FACTORS = tuple(float(f) for f in np.geomspace(0.1, 10.0, 13))
"""By which all length scales are multiplied where no grid is given."""


class _Counted(NamedTuple):
    """What leave-one-out says at one point of the grid."""

    model: Model
    log_free: Array  # the logarithms of its free entries
    errors: int
    log_density: float  # in nats
    log_prior: float


@dataclass(frozen=True, slots=True, eq=False)
class Scan(Strategy):
    r"""Minimise the number of leave-one-out errors over a grid, for any method (2000, section 8: scan over sigma^2).

    Parameters
    ----------
    grid : mapping of str to sequence of float, optional
        Values of parameters by name; every combination is tried. A value applies to each entry of a vector parameter.
        By default all length scales of the kernel are multiplied by one of 13 factors from 1/10 to 10.
    method : str or Solver, optional
        The method whose errors it counts, if not that of the fit.

    Raises
    ------
    ValueError
        If the grid is empty or its values are not positive numbers; on use, if it names a parameter that is not tuned,
        if values are out of bounds, or if targets are not labels.

    Notes
    -----
    Several points often share the smallest count. Among them the scan takes the highest leave-one-out log predictive
    density plus log prior.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=1)
    >>> from bayesgp_mf.hyper import Scan
    >>> scan = Scan(grid={"lengthscale": [0.5, 1.0, 2.0]})
    >>> idata = bgp.fit(toy.X, toy.y, bgp.kernels.Gaussian(1.0, 4.0), hyper=scan,
    ...     draws=10, random_seed=1, progress=False)
    >>> float(idata["fit"]["lengthscale"]) in (0.5, 1.0, 2.0)
    True
    """

    name = "scan"
    records: ClassVar[tuple[str, ...]] = ("point",)
    grid: Mapping[str, Sequence[float]] | None = None
    method: MethodName | Solver | None = None

    def __post_init__(self) -> None:
        if self.grid is None:
            return
        if not isinstance(self.grid, Mapping) or not self.grid:
            raise ValueError(f"grid must map names of parameters to values to try, got {self.grid!r}.")
        for name, values in self.grid.items():
            try:
                array = np.asarray(values, dtype=np.float64)
            except (TypeError, ValueError, OverflowError):
                raise ValueError(f"grid[{name!r}] must be a sequence of numbers, got {values!r}.") from None
            if array.ndim != 1 or array.size == 0 or not np.all(np.isfinite(array)) or np.any(array <= 0):
                raise ValueError(f"grid[{name!r}] must be a sequence of finite numbers > 0, got {values!r}.")

    def solutions(self, target: Target) -> int:
        """Return how many solutions it will take: one for each point of the grid."""
        return math.prod(len(values) for values in self.grid.values()) if self.grid else len(DEFAULT_FACTORS)

    def check(self, target: Target) -> None:
        """Raise a ValueError if targets are not labels, or the grid is none of this model."""
        if target.likelihood.is_real:
            name = target.likelihood.display_name
            raise ValueError(f"hyper='scan' counts wrong labels, and {name} has none; use hyper='loo'.")
        self._axes(target)

    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Count errors at every point of the grid, and choose.

        Raises
        ------
        ConvergenceError
            If no point of the grid had a solution.
        MemoryError, LowRankError
            If none had for want of memory, or of a Gram matrix of low rank where that was asked for.
        """
        self.check(target)
        axes = self._axes(target)
        grid, counted, reason = list(product(*axes)), list[_Counted](), None
        for changes in grid:
            model = target.model.replace(**{name: value for change in changes for name, value in change.items()})
            try:
                counted.append(_count(target, model))
                advance(f"{counted[-1].errors} leave-one-out errors of {target.t.size}")
            except (*NO_VALUE, *NOT_HERE) as failure:
                reason = failure
                advance("no solution")
        if not counted:
            if isinstance(reason, NOT_HERE):
                raise reason
            raise ConvergenceError(
                f"the inner solver found no solution at any of {len(grid)} points of the grid. Try other length "
                f"scales, or allow noise in the likelihood. The last reason: {reason}",
                Status.NO_VALID_STEP,
            ) from reason
        chosen = min(counted, key=lambda one: (one.errors, -(one.log_density + one.log_prior)))
        record: Record = {
            "hyper_scan": (("point", "hyper"), np.array([one.log_free for one in counted])),
            "hyper_loo_errors": (("point",), np.array([one.errors for one in counted])),
            "hyper_loo": (("point",), np.array([one.log_density for one in counted])),
            "hyper_n_failures": ((), np.array(len(grid) - len(counted))),
        }
        stats = {"loo_errors": np.array([chosen.errors])}
        return HyperResult((chosen.model,), np.ones(1), stats=stats, record=record)

    def _axes(self, target: Target) -> list[list[dict[str, Array]]]:
        """Return for each axis of the grid the parameters to replace at each of its points."""
        params, free = target.model.params, set(target.owners.tolist())
        if self.grid is None:
            scales = [name for name in params if name.endswith("lengthscale") and name in free]
            if not scales:
                raise ValueError(
                    f"this kernel has no length scale to scan; give values for some of {sorted(free)}: "
                    "Scan(grid={name: values})."
                )
            axes = [[{name: params[name] * factor for name in scales} for factor in DEFAULT_FACTORS]]
        else:
            unknown = sorted(set(self.grid) - free)
            if unknown:
                raise ValueError(f"grid names {unknown[0]!r}, which is not tuned; those that are: {sorted(free)}.")
            axes = [
                [{name: np.full(params[name].shape, float(value))} for value in values]
                for name, values in self.grid.items()
            ]
        for axis in axes:
            for change in axis:
                target.check_bounds(change)
        return axes


def _count(target: Target, model: Model) -> _Counted:
    problem = target.problem_at(model)
    # from the prior each time: where there are several solutions, the order of the grid must not decide
    solution = target.solver.solve(problem, replace(target.control, throw=True, progress=False))
    others = target.solver.leave_one_out(problem, solution)
    log_free = target.free_logarithms(model)
    log_prior, _ = target.log_prior(log_free)
    return _Counted(model, log_free, others.error_count(target.t), float(np.sum(others.log_density)), log_prior)
