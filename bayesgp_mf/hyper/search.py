"""Point estimates by a search uphill: the highest evidence, or the best leave-one-out predictions."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Self

import numpy as np

from bayesgp_mf.hyper.objective import Objective
from bayesgp_mf.hyper.optimise import Run, maximise, outward_of, usual_solutions
from bayesgp_mf.hyper.scores import KNOWN_IN_SEARCH, LooScore, Score, score_of_evidence
from bayesgp_mf.hyper.strategy import Advance, HyperResult, Record, Strategy
from bayesgp_mf.hyper.target import Target
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.methods import MethodName


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
            solution=objective.solution_at(best.end),
        )


@dataclass(frozen=True, slots=True)
class Evidence(_Search):
    """Maximise the log evidence of the method, by L-BFGS-B with exact gradients.

    With priors the result is the most probable value of the log parameters (MAP); without, it is maximum likelihood II.

    Parameters
    ----------
    starts : int
        Descents; all but the first start at random around the kernel.
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
        Descents; all but the first start at random around the kernel.
    method : str or Solver, optional
        The method whose densities it goes by, if not that of the fit.

    Raises
    ------
    ValueError
        If ``starts`` is not a positive integer; on use, if the method has no predictive density.

    Examples
    --------
    >>> import bayesgp_mf as bgp
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=40, random_seed=1)
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
        "hyper_trace": (("iteration",), best.trace),
        "hyper_bound": (("hyper",), outward_of(target, best.end)),
    }
    return record | ({"hyper_log_prior": (("start",), log_prior)} if target.priors else {})
