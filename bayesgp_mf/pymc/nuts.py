"""An average over hyperparameters: PyMC's NUTS on evidence times prior, whatever the method."""

from __future__ import annotations

import numbers
import time
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any, ClassVar, get_args

import numpy as np
from joblib import cpu_count

from bayesgp_mf.errors import ConvergenceWarning
from bayesgp_mf.hyper import EvidenceScore, HyperResult, Objective, Strategy, Target
from bayesgp_mf.hyper.optimise import no_solution
from bayesgp_mf.hyper.strategy import Advance
from bayesgp_mf.inference.solver import Solver
from bayesgp_mf.inputs.options import check_positive_integers
from bayesgp_mf.methods import MethodName
from bayesgp_mf.pymc.chains import Chains, Sampler, Sampling, run_chains
from bayesgp_mf.types import Array

SAMPLERS: tuple[Sampler, ...] = get_args(Sampler)
"""PyMC's samplers that can call back to Python; the others compile the density for JAX."""
USUAL_STEPS = 7
"""Leapfrog steps of a trajectory, to guess how long chains take."""
WORTH_SECONDS = 20.0
"""Chains that take less than this, all together, are done sooner without processes."""
INSET = 1e-2
"""Share of the range between its bounds by which a parameter starts away from them: there the transform is infinite."""


@dataclass(frozen=True, slots=True)
class Nuts(Strategy):
    """Draw the hyperparameters from evidence times prior, by the No-U-Turn sampler of PyMC on their logarithms.

    Parameters
    ----------
    draws, tune : int
        Draws of each chain that are kept, and those before them, in which the sampler adapts its steps.
    chains : int
        Number of chains. Each has its own start and its own random numbers.
    target_accept : float
        Target acceptance rate. Nearer to 1 the steps are smaller, and divergences fewer.
    nuts_sampler : {"pymc", "nutpie"}
        Whose implementation. nutpie needs numba beside it: ``nutpie[pymc]``.
    cores : int, optional
        Chains that run at the same time: those of PyMC in their own processes with one BLAS thread each, those of
        nutpie as threads. By default there are as many as processors, but only one if all chains together would take
        PyMC less than 20 seconds, judged by one solution at the start. The draws do not depend on it.
    method : str or Solver, optional
        The method whose evidence counts, if not that of the fit.

    Raises
    ------
    ValueError
        If an option is out of its range; on use, if the method has no evidence.

    Notes
    -----
    Every point is solved from the prior, so that the density is a function of the hyperparameters alone. Without a
    solution it is zero: a trajectory that reaches such a point ends as a divergence, and the points are counted
    (``hyper_n_failures``).

    Parameters stay within bounds, with a uniform prior in the logarithm between them if no other is given. A parameter
    with neither gets a log-normal prior around the kernel's own value, with standard deviation 1.5 in the logarithm:
    95% lie within a factor of 20 to either side. ``hyper_default_prior`` says which parameters have one.

    Examples
    --------
    >>> import pymc as pm
    >>> import bayesgp_mf as bgp
    >>> from bayesgp_mf.pymc import Nuts
    >>> toy = bgp.datasets.make_toy(bgp.kernels.Gaussian(1.0, 4.0), n=20, random_seed=4)
    >>> idata = bgp.fit(toy.X, toy.y, bgp.kernels.Gaussian(1.0, 4.0), hyper=Nuts(draws=30, tune=30), random_seed=1,
    ...     priors={"lengthscale": pm.InverseGamma.dist(5.0, 5.0)}, fixed={"variance"}, progress=False)
    >>> dict(idata["posterior"]["lengthscale"].sizes)
    {'chain': 2, 'draw': 30}
    """

    name = "nuts"
    averages: ClassVar[bool] = True
    draws: int = 500
    tune: int = 500
    chains: int = 2
    target_accept: float = 0.8
    nuts_sampler: Sampler = "pymc"
    cores: int | None = None
    method: MethodName | Solver | None = None

    def __post_init__(self) -> None:
        check_positive_integers(draws=self.draws, tune=self.tune, chains=self.chains)
        if self.cores is not None:
            check_positive_integers(cores=self.cores)
        if not isinstance(self.target_accept, numbers.Real) or not 0 < self.target_accept < 1:
            raise ValueError(f"target_accept must be a number, 0 < target_accept < 1, got {self.target_accept!r}.")
        if self.nuts_sampler not in SAMPLERS:
            raise ValueError(
                f"nuts_sampler must be one of {SAMPLERS}, got {self.nuts_sampler!r}: samplers that need JAX "
                "cannot call the inner solver."
            )
        absent = [name for name in ("nutpie", "numba") if self.nuts_sampler == "nutpie" and find_spec(name) is None]
        if absent:
            raise ValueError(
                f"nuts_sampler='nutpie' needs {' and '.join(absent)}: pip install 'nutpie[pymc]', or use 'pymc'."
            )

    def solutions(self, target: Target) -> int:
        """Return how many solutions it will take, about."""
        return self.chains * (self.tune + self.draws) * USUAL_STEPS

    def choose(self, target: Target, rng: np.random.Generator, advance: Advance) -> HyperResult:
        """Run the chains.

        Raises
        ------
        MemoryError
            If the solutions at all draws would not fit into this machine's memory.
        ConvergenceError
            If the inner solver found no solution at the start.

        Warns
        -----
        ConvergenceWarning
            If trajectories diverged.
        """
        target.check_memory(self.chains * self.draws)  # all are kept, and sampling takes long
        target, by_default = target.with_default_priors()
        objective = Objective(target, EvidenceScore(), from_prior=True)
        start = inside(target)
        if objective.value(start) is None:
            raise no_solution(objective, "the starting point")
        sampling = Sampling(target, start, self.draws, self.tune, float(self.target_accept), self.nuts_sampler)
        found = run_chains(sampling, self.chains, self._at_once(objective, start), rng, advance)
        draws = found.draws.reshape(-1, start.size)
        lp = _log_target(objective, draws, advance)
        stats: dict[str, Any] = {"diverging": found.diverging.ravel(), "n_steps": found.n_steps.ravel()}
        record = {
            "hyper_start": (("hyper",), start),
            "hyper_default_prior": (("hyper",), by_default),
            "hyper_n_evaluations": ((), np.array(found.n_evaluations)),
            "hyper_n_failures": ((), np.array(found.n_failures)),
        }
        _warn(found)
        return HyperResult.average(
            target, draws, lp, chains=self.chains, sampled=True, stats=stats, record=record, priors=target.priors
        )

    def _at_once(self, objective: Objective, start: Array) -> int:
        """Return how many chains to run at the same time."""
        if self.cores is not None:
            return min(self.cores, self.chains)
        if self.nuts_sampler == "pymc":  # a process takes seconds to import PyMC
            began = time.perf_counter()
            objective(start)
            steps = self.chains * (self.tune + self.draws) * USUAL_STEPS
            if steps * (time.perf_counter() - began) < WORTH_SECONDS:
                return 1
        return min(self.chains, int(cpu_count()))


def inside(target: Target) -> Array:
    """Return the start ``(p,)``, moved away from a bound it may lie on."""
    bounded = np.isfinite(target.upper)
    inset = np.zeros(target.start.size)
    inset[bounded] = INSET * (target.upper - target.lower)[bounded]
    return np.clip(target.start, target.lower + inset, target.upper - inset)


def _log_target(objective: Objective, draws: Array, advance: Advance) -> Array:
    """Return log evidence plus log prior at each draw; the backends report it with other terms, by other names."""
    moved = np.append(True, np.any(draws[1:] != draws[:-1], axis=1))  # else the step was rejected
    values = objective.at_nodes(draws[moved], advance, noun="log target at draw")
    return np.asarray(values[np.cumsum(moved) - 1])


def _warn(found: Chains) -> None:
    if found.diverging.any():
        warnings.warn(
            f"{int(found.diverging.sum())} of {found.diverging.size} trajectories diverged; {found.n_failures} of "
            f"{found.n_evaluations} points, tuning included, had no solution. Draws from nearby may be missing: use "
            "a target_accept nearer to 1, narrower bounds or priors, or allow noise in the likelihood.",
            ConvergenceWarning,
            stacklevel=4,
        )
